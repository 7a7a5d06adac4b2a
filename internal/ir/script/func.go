package script

import (
	"slices"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// tirName is the name after the operators' prefix: "copy" of T.copy.
func (b *builder) tirName(e syntax.Expr) (string, bool) {
	a, ok := e.(*syntax.Attr)
	if !ok {
		return "", false
	}
	n, ok := a.X.(*syntax.Name)
	if !ok || n.ID != b.prefix {
		return "", false
	}
	return a.Name, true
}

// tirCall is a call of T.<name>.
func (b *builder) tirCall(e syntax.Expr) (string, *syntax.Call) {
	c, ok := e.(*syntax.Call)
	if !ok {
		return "", nil
	}
	name, ok := b.tirName(c.Fn)
	if !ok {
		return "", nil
	}
	return name, c
}

const rootComment = `with T.sblock("root"):`

func isRootComment(text string) bool {
	return text == "# "+rootComment || text == `# with T.block("root"):`
}

// function reads one PrimFunc.
func (b *builder) function(s *syntax.FuncDef) *ir.PrimFunc {
	f := &ir.PrimFunc{Name: s.Name, Org: b.file.Span(syntax.Loc{Pos: s.NameLoc.Pos, End: s.End})}
	prim := false
	for _, d := range s.Decorators {
		x := d
		c, isCall := d.(*syntax.Call)
		if isCall {
			x = c.Fn
		}
		if name, ok := b.tirName(x); ok && name == "prim_func" {
			prim = true
			if isCall {
				for _, k := range c.Keywords {
					switch v, _ := k.Value.(*syntax.Const); {
					case k.Name == "private" && v != nil:
						f.Private = v.Kind == syntax.True
					case k.Name == "check_well_formed":
					default:
						b.errorf(k.Value, "@%s.prim_func takes private=True or private=False", b.prefix)
					}
				}
			}
		}
	}
	if !prim {
		d := b.diags.Errorf(b.file.Span(s.NameLoc), "function %s is not a kernel", s.Name)
		d.Hint = "decorate it with @" + b.prefix + ".prim_func"
		return nil
	}
	b.fn = f
	mark := b.open()
	defer b.close(mark)
	for i := range s.Params {
		b.param(f, &s.Params[i])
	}
	if s.Returns != nil {
		if c, ok := s.Returns.(*syntax.Const); !ok || c.Kind != syntax.None {
			f.Ret, _ = b.typeAnnotation(s.Returns)
		}
	}
	b.block = nil
	for _, c := range b.file.Comments {
		if c.Pos > s.Pos && c.End <= s.End && isRootComment(c.Text) {
			b.block = &ir.SBlock{Name: "root", Org: f.Org}
			break
		}
	}
	if b.block == nil && b.old && b.hasBlocks(s.Body) {
		b.block = &ir.SBlock{Name: "root", Org: f.Org}
	}
	body := b.body(s.Body)
	if root := b.block; root != nil {
		root.Body = body
		body = root
	}
	b.block = nil
	f.Body = body
	order := make(map[*ir.Var]int, len(f.Params))
	for i, v := range f.Params {
		order[v] = i
	}
	slices.SortStableFunc(f.BufferMap, func(x, y ir.BufferBinding) int { return order[x.Param] - order[y.Param] })
	return f
}

// hasBlocks reports whether there is a block or block allocation in a text
// of the older dialect, where the root block goes without saying.
func (b *builder) hasBlocks(list []syntax.Stmt) bool {
	for _, s := range list {
		switch s := s.(type) {
		case *syntax.With:
			for _, it := range s.Items {
				if name, c := b.tirCall(it.Context); c != nil && name == "block" {
					return true
				}
			}
			if b.hasBlocks(s.Body) {
				return true
			}
		case *syntax.For:
			if b.hasBlocks(s.Body) {
				return true
			}
		case *syntax.If:
			if b.hasBlocks(s.Then) || b.hasBlocks(s.Else) {
				return true
			}
		case *syntax.Assign:
			if name, c := b.tirCall(s.Value); c != nil && name == "alloc_buffer" {
				return true
			}
		}
	}
	return false
}

func (b *builder) param(f *ir.PrimFunc, p *syntax.Param) {
	if p.Kind != syntax.Positional || p.Default != nil {
		b.errorf(p, "parameter %s: expected NAME: TYPE", p.Name)
		return
	}
	if p.Ann == nil {
		d := b.errorf(p, "parameter %s has no type", p.Name)
		d.Hint = "for example " + p.Name + ": " + b.prefix + ".handle"
		b.define(p.Name, binding{loc: p.Loc})
		return
	}
	if s, ok := b.lookup(p.Name); ok {
		d := b.errorf(p, "a second parameter named %s", p.Name)
		d.Notes = append(d.Notes, diag.Note{Span: b.file.Span(s.loc), Message: "the first one is here"})
		return
	}
	// A buffer as a parameter stands for its handle and a T.match_buffer.
	if name, c := b.bufferType(p.Ann); c != nil && name == "Buffer" {
		buf := b.buffer(p.Name, c, c.Args, p.Loc)
		if buf == nil {
			b.define(p.Name, binding{loc: p.Loc})
			return
		}
		v := &ir.Var{Name: p.Name + "_handle", Type: ir.DHandle}
		f.Params = append(f.Params, v)
		f.BufferMap = append(f.BufferMap, ir.BufferBinding{Param: v, Buffer: buf})
		b.define(p.Name, binding{buf: buf, loc: p.Loc})
		return
	}
	t, ptr := b.typeAnnotation(p.Ann)
	v := &ir.Var{Name: p.Name, Type: t, Ptr: ptr}
	f.Params = append(f.Params, v)
	b.define(p.Name, binding{v: v, loc: p.Loc})
}

// bufferType is T.Buffer(..), and T.Buffer[..] of the oldest texts, as a call.
func (b *builder) bufferType(e syntax.Expr) (string, *syntax.Call) {
	if x, ok := e.(*syntax.Index); ok {
		if name, ok := b.tirName(x.X); ok {
			return name, &syntax.Call{Loc: x.Loc, Fn: x.X, Args: x.Indices}
		}
	}
	return b.tirCall(e)
}

// typeAnnotation reads T.int32, T.handle, T.handle("float32", "global") or a
// type's name as a string. Mistakes are reported; the type is void then.
func (b *builder) typeAnnotation(e syntax.Expr) (ir.DType, *ir.PointerType) {
	if name, c := b.tirCall(e); c != nil {
		if name == "handle" {
			if ptr, ok := b.pointerType(c); ok {
				return ir.DHandle, ptr
			}
			return ir.DVoid, nil
		}
		if name == "Ptr" && len(c.Args) > 0 { // older spelling
			if t, ok := b.dtype(c.Args[0]); ok {
				ptr := &ir.PointerType{Elem: t, Scope: "global"}
				if len(c.Args) > 1 {
					ptr.Scope, _ = b.str(c.Args[1])
				}
				return ir.DHandle, ptr
			}
			return ir.DVoid, nil
		}
		if t, err := ir.ParseDType(name); err == nil && len(c.Args) == 0 {
			return t, nil
		}
	}
	if t, ok := b.dtype(e); ok {
		return t, nil
	}
	return ir.DVoid, nil
}

// pointerType reads the arguments of T.handle(element, scope).
func (b *builder) pointerType(c *syntax.Call) (*ir.PointerType, bool) {
	if len(c.Args) == 0 && len(c.Keywords) == 0 {
		return nil, true
	}
	ptr := &ir.PointerType{Scope: "global"}
	args := c.Args
	for _, k := range c.Keywords {
		if k.Name == "storage_scope" {
			ptr.Scope, _ = b.str(k.Value)
		}
	}
	if len(args) > 0 {
		t, ok := b.dtype(args[0])
		if !ok {
			return nil, false
		}
		ptr.Elem = t
	}
	if len(args) > 1 {
		s, ok := b.str(args[1])
		if !ok {
			return nil, false
		}
		ptr.Scope = s
	}
	if len(args) > 2 {
		b.errorf(args[2], "%s.handle takes an element type and a scope", b.prefix)
		return nil, false
	}
	return ptr, true
}

// dtype reads a data type: T.float16 or "float16".
func (b *builder) dtype(e syntax.Expr) (ir.DType, bool) {
	var name string
	switch x := e.(type) {
	case *syntax.Str:
		name = x.Value
	case *syntax.Attr:
		n, ok := b.tirName(x)
		if !ok {
			b.errorf(e, "expected a data type such as \"float16\" or %s.float16", b.prefix)
			return ir.DVoid, false
		}
		name = n
	case *syntax.BadExpr:
		return ir.DVoid, false
	default:
		b.errorf(e, "expected a data type such as \"float16\" or %s.float16", b.prefix)
		return ir.DVoid, false
	}
	if t, ok := commonTypes[name]; ok {
		return t, true
	}
	t, err := ir.ParseDType(name)
	if err != nil {
		d := b.errorf(e, "%v", err)
		if near := diag.Nearest(name, typeNames); near != "" {
			d.Hint = "did you mean " + near + "?"
		}
		return ir.DVoid, false
	}
	return t, true
}

// typeNames are the scalar types, for suggestions and quick look-up.
var typeNames = []string{
	"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4",
	"float16", "float32", "float64", "bfloat16", "tfloat32", "handle", "void",
	"float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz",
	"float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
}

var commonTypes = func() map[string]ir.DType {
	m := make(map[string]ir.DType, len(typeNames)+3)
	m["float"], m["int"], m["uint"] = ir.DFloat32, ir.DInt32, ir.DUInt32 // TVM's own short names
	for _, n := range typeNames {
		t, err := ir.ParseDType(n)
		if err != nil {
			panic("script: " + err.Error())
		}
		m[n] = t
	}
	return m
}()

// str reads a string literal.
func (b *builder) str(e syntax.Expr) (string, bool) {
	if s, ok := e.(*syntax.Str); ok {
		return s.Value, true
	}
	if _, bad := e.(*syntax.BadExpr); !bad {
		b.errorf(e, "expected a string")
	}
	return "", false
}
