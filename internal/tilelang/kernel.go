package tilelang

import (
	"fmt"
	"math"
	"math/bits"
	"sort"
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// macro is a function with @T.macro: a part of a kernel.
type macro struct {
	fn   *function
	self value // of a method
}

// primFunc is a function with @T.prim_func. Its body is built when it is
// needed.
type primFunc struct {
	name  string
	fn    *function
	built *ir.PrimFunc
	err   *failure
}

// jitFunc is a function with @tilelang.jit.
type jitFunc struct {
	name string
	fn   *function
	opts map[string]value // out_idx, target, pass_configs, ...
	// tune holds the configurations of @tilelang.autotune.
	tune value
}

// jitKernel is the result of calling or compiling a jitFunc.
type jitKernel struct{ jit *jitFunc }

// outTensor is T.empty(...).
type outTensor struct {
	shape []ir.Expr
	dtype ir.DType
	buf   *ir.Buffer // once it is declared
}

func (p *primFunc) build(in *interp) *ir.PrimFunc {
	if p.built == nil && p.err == nil {
		p.err = in.try(func() { p.built = in.buildKernel(p.fn, nil, nil) })
	}
	if p.err != nil {
		panic(p.err)
	}
	return p.built
}

// buildKernel runs a function's body as a kernel. For an eager jit function
// tensors names the parameters that are tensors, and given holds the values
// of the others.
func (in *interp) buildKernel(fn *function, tensors map[string]bool, given map[string]value) *ir.PrimFunc {
	if in.b != nil {
		panic(in.errorf("a kernel is defined within a kernel"))
	}
	defer in.enterFunction(fn)()
	b := newBuilder(fn.name)
	b.owned = map[*ir.Var]bool{}
	b.org = in.file.Span(fn.def.NameLoc)
	b.eager = tensors != nil
	b.consts = given
	b.fn.Org = in.file.Span(fn.def.NameLoc)
	in.b = b
	limit, budget := in.maxSteps, in.budget
	in.allow(MaxSteps)
	defer func() {
		in.b = nil
		in.maxSteps, in.budget = limit, budget
	}()

	f := newFrame(fn.env)
	f.fn, f.dsl = fn, true
	root := &blockInfo{attrs: map[string]ir.Attr{}}
	var body ir.Stmt
	b.push(in, &bframe{kind: fkFunc, holds: true, block: root, close: func(s ir.Stmt) ir.Stmt { body = s; return nil }})
	if fl := in.try(func() { in.kernelParams(b, f, fn, tensors, given) }); fl != nil {
		in.report(fl)
		b.failed = true
	}
	if !b.failed {
		in.runBody(f, fn.def.Body)
		b.popTo(in, 0)
	}
	if !b.failed && b.eager && len(b.outIdx) != len(b.outs) {
		in.at = fn.def.NameLoc
		panic(in.errorf("not all tensors made by T.empty are returned").is("RuntimeError"))
	}
	if b.failed {
		fl := in.errorf("kernel %s has errors", fn.name)
		fl.silent = true
		panic(fl)
	}
	if len(root.allocs) > 0 || hasBlock(body) {
		body = &ir.SBlock{Name: "root", AllocBuffers: root.allocs, Annotations: attrDict(root.attrs), Body: body, Org: b.fn.Org}
	}
	b.fn.Body = body
	in.funcAttrs(b)
	nameRest(b.fn)
	return b.fn
}

func hasBlock(s ir.Stmt) bool {
	found := false
	ir.Walk(s, func(s ir.Stmt) bool {
		if _, ok := s.(*ir.SBlock); ok {
			found = true
		}
		return !found
	})
	return found
}

// nameRest names what the source left without one.
func nameRest(f *ir.PrimFunc) {
	name := func(v *ir.Var, s string) {
		if v.Name == "" {
			v.Name = s
		}
	}
	buffer := func(b *ir.Buffer) {
		if b.Name == "" {
			b.Name = "buffer"
		}
		name(b.Data, b.Name)
	}
	for _, p := range f.Params {
		name(p, "arg")
	}
	visit := func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Var:
			name(e, "v")
		case *ir.BufferLoad:
			buffer(e.Buffer)
		}
		return true
	}
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		ir.StmtExprs(s, visit)
		switch s := s.(type) {
		case *ir.For:
			name(s.Var, "v")
		case *ir.Bind:
			name(s.Var, "v")
		case *ir.BufferStore:
			buffer(s.Buffer)
		case *ir.SBlock:
			for _, b := range s.AllocBuffers {
				buffer(b)
			}
		}
		return true
	})
}

func (in *interp) funcAttrs(b *builder) {
	if len(b.outIdx) > 0 {
		l := make(ir.List, len(b.outIdx))
		for i, n := range b.outIdx {
			l[i] = ir.I32(int64(n))
		}
		b.fn.Attrs = b.fn.Attrs.With("tilelang_out_idx", l)
	}
	if b.configs != nil {
		d := &ir.Dict{}
		for i, k := range b.configs.keys {
			d.Entries = append(d.Entries, ir.DictEntry{Key: in.toAttr(k), Value: in.toAttr(b.configs.vals[i])})
		}
		b.fn.Attrs = b.fn.Attrs.With("tilelang_pass_configs", d)
	}
	if b.flags != nil {
		b.fn.Attrs = b.fn.Attrs.With("tilelang_compile_flags", b.flags)
	}
}

// annotation evaluates a parameter's annotation: a string holds an expression.
func (in *interp) annotation(f *frame, e syntax.Expr) value {
	if s, ok := e.(*syntax.Str); ok {
		e = in.parseString(s)
	}
	dsl := f.dsl
	f.dsl = false
	defer func() { f.dsl = dsl }()
	v := in.eval(f, e)
	in.at = e.Range()
	switch x := v.(type) {
	case ir.DType:
		return &ir.Var{Type: x}
	case *builtin:
		if x.name == "T.ptr" || x.name == "T.handle" {
			return in.call(x, nil)
		}
		if x.name == "T.Tensor" {
			panic(in.errorf("T.Tensor needs a shape and a dtype: T.Tensor((M, N), \"float16\")").is("TypeError"))
		}
	}
	return v
}

// parseString reads an annotation that is a string. Newlines before it put it
// at the string's place, so that spans point there.
func (in *interp) parseString(s *syntax.Str) syntax.Expr {
	src := ir.NewSource(in.file.Source.Name, strings.Repeat("\n", int(s.Pos))+"("+s.Value+")")
	diags := &diag.List{}
	e := syntax.ParseExpr(src, diags)
	if e == nil || diags.HasErrors() {
		in.at = s.Loc
		panic(in.errorf("the annotation %s is not an expression", pyQuote(s.Value)).is("SyntaxError"))
	}
	return e
}

// kernelParams declares the parameters.
func (in *interp) kernelParams(b *builder, f *frame, fn *function, tensors map[string]bool, given map[string]value) {
	for _, p := range fn.params {
		if p.Kind == syntax.VarArgs || p.Kind == syntax.VarKeywords {
			in.at = p.Loc
			if b.eager {
				if p.Kind == syntax.VarArgs {
					f.vars[p.Name] = &tuple{}
				} else {
					f.vars[p.Name] = newDict()
				}
				continue
			}
			panic(in.errorf("a kernel cannot have %s", map[bool]string{true: "*args", false: "**kwargs"}[p.Kind == syntax.VarArgs]))
		}
		b.org = in.file.Span(p.Loc)
		if b.eager && !tensors[p.Name] {
			f.vars[p.Name] = given[p.Name]
			continue
		}
		in.at = p.Loc
		var ann value
		switch {
		case b.eager && tensors[p.Name] && (p.Ann == nil || !in.isTensorAnn(fn.env, p.Ann)):
			ann = in.bodyAnnotation(f, fn, p.Name)
		case p.Ann == nil:
			panic(in.errorf("parameter %s has no type", p.Name).hint("write %s: T.Tensor((M, N), \"float16\") or %s: T.int32", p.Name, p.Name).is("ValueError"))
		default:
			ann = in.annotation(f, p.Ann)
		}
		f.vars[p.Name] = in.declareParam(b, p, ann)
		b.defs[p.Name] = in.file.Span(p.Loc)
	}
}

// bodyAnnotation is the kind of a parameter that the body of an eager function
// declares: a pointer for tensors, else a scalar.
func (in *interp) bodyAnnotation(f *frame, fn *function, name string) value {
	for _, s := range fn.def.Body {
		a, ok := s.(*syntax.AnnAssign)
		if !ok || a.Value != nil {
			continue
		}
		if n, ok := a.Target.(*syntax.Name); !ok || n.ID != name {
			continue
		}
		if at, ok := a.Ann.(*syntax.Attr); ok {
			if v := in.annotation(newFrame(fn.env), at); v != nil {
				return v
			}
		}
		break
	}
	return &ir.Var{Type: ir.DHandle}
}

func (in *interp) declareParam(b *builder, p syntax.Param, ann value) value {
	switch x := ann.(type) {
	case *ir.Buffer:
		h := &ir.Var{Name: p.Name + "_handle", Type: ir.DHandle}
		// Every parameter needs a buffer of its own.
		buf := *x
		buf.Name = p.Name
		if b.owned[x.Data] || x.Data.Name == "" {
			buf.Data = ir.NewPointer(p.Name, x.Type, x.Scope())
			b.owned[buf.Data] = true
		}
		buf.Org = in.file.Span(p.Loc)
		b.fn.Params = append(b.fn.Params, h)
		b.fn.BufferMap = append(b.fn.BufferMap, ir.BufferBinding{Param: h, Buffer: &buf})
		return &buf
	case *ir.Var:
		v := *x
		v.Name = p.Name
		b.fn.Params = append(b.fn.Params, &v)
		return &v
	case *unknown:
		panic(in.needKnown(x))
	}
	panic(in.errorf("parameter %s has type %s", p.Name, in.typeWithValue(ann)).hint("a parameter is a T.Tensor, or a scalar such as T.int32").is("TypeError"))
}

// declareOut makes a parameter of a T.empty tensor.
func (b *builder) declareOut(in *interp, name string, o *outTensor) value {
	if o.buf != nil {
		return o.buf
	}
	buf := ir.NewBuffer(name, o.dtype, "global", o.shape...)
	buf.Strides = in.rowMajor(o.shape)
	b.owned[buf.Data] = true
	buf.Org = b.org
	h := &ir.Var{Name: name + "_handle", Type: ir.DHandle}
	b.fn.Params = append(b.fn.Params, h)
	b.fn.BufferMap = append(b.fn.BufferMap, ir.BufferBinding{Param: h, Buffer: buf})
	o.buf = buf
	b.outs = append(b.outs, o)
	return buf
}

// matchBuffer declares the buffer that a pointer parameter points to.
func (b *builder) matchBuffer(in *interp, p *ir.Var, shape []ir.Expr, t ir.DType, strides []ir.Expr) *ir.Buffer {
	param := false
	for _, q := range b.fn.Params {
		param = param || q == p
	}
	if !param {
		panic(in.errorf("%s is not a parameter of the kernel", exprText(p)).is("ValueError"))
	}
	buf := ir.NewBuffer("", t, "global", shape...)
	b.owned[buf.Data] = true
	buf.Strides = strides
	buf.Org = b.org
	b.fn.BufferMap = append(b.fn.BufferMap, ir.BufferBinding{Param: p, Buffer: buf})
	order := map[*ir.Var]int{}
	for i, q := range b.fn.Params {
		order[q] = i
	}
	sort.SliceStable(b.fn.BufferMap, func(i, j int) bool { return order[b.fn.BufferMap[i].Param] < order[b.fn.BufferMap[j].Param] })
	return buf
}

// rowMajor are the strides of a compact buffer, multiplied from the right.
func (in *interp) rowMajor(shape []ir.Expr) []ir.Expr {
	out := make([]ir.Expr, len(shape))
	acc := ir.Expr(ir.I32(1))
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = acc
		n, known := ir.AsInt(acc)
		d, fixed := ir.AsInt(shape[i])
		if known && fixed && shape[i].DType() == ir.DInt32 && (acc.DType() == ir.DInt32 || n > math.MaxInt32) {
			// Python's numbers, which become int64 where int32 is too small.
			hi, lo := bits.Mul64(uint64(max(n, 0)), uint64(max(d, 0)))
			if hi != 0 || lo > math.MaxInt64 {
				panic(in.errorf("a buffer of more than 2**63 elements").is("ValueError"))
			}
			if acc = ir.I32(int64(lo)); lo > math.MaxInt32 {
				acc = ir.IntConst(ir.DInt64, int64(lo))
			}
			continue
		}
		acc = in.mul(acc, shape[i])
	}
	return out
}

// callMacro expands a macro at the place of its call.
func (in *interp) callMacro(m *macro, a *args) value {
	b := in.b
	if b == nil {
		panic(in.errorf("macro %s is called outside of a kernel", m.fn.name))
	}
	if m.self != nil {
		c := *a
		c.pos = append([]value{m.self}, a.pos...)
		a = &c
	}
	vars := in.bindParams(m.fn, a)
	alive, defs, org := b.alive, b.defs, b.org
	b.alive, b.defs = map[string]*bframe{}, map[string]ir.Span{}
	pos := len(b.frames)
	b.push(in, &bframe{kind: fkMacro})
	b.stack = append(b.stack, fmt.Sprintf("%s:%d in %s", org.Src.Name, org.Line(), b.fn.Name))
	defer func() {
		b.alive, b.defs, b.org = alive, defs, org
		b.stack = b.stack[:len(b.stack)-1]
	}()
	f := newFrame(m.fn.env)
	f.fn, f.dsl = m.fn, true
	for _, p := range m.fn.params {
		in.at = a.callLoc()
		f.vars[p.Name] = b.macroArg(in, f, m, p, vars[p.Name])
	}
	leave := in.enterFunction(m.fn)
	defer leave()
	in.runBody(f, m.fn.def.Body)
	if pos < len(b.frames) {
		b.frames[pos].kind = fkMacroDone // what it bound stays for what follows
	}
	if f.ret == nil {
		return none
	}
	return f.ret
}

func (a *args) callLoc() syntax.Loc { return syntax.Loc{Pos: a.call.Pos, End: a.call.End} }

// macroArg passes an argument to a macro: expressions are bound to the
// parameter's name, T.Ref parameters refer to an element.
func (b *builder) macroArg(in *interp, f *frame, m *macro, p syntax.Param, v value) value {
	if p.Ann != nil {
		byRef := false
		ann := p.Ann
		if s, ok := ann.(*syntax.Str); ok {
			ann = in.parseString(s)
		}
		base := ann
		if ix, ok := base.(*syntax.Index); ok {
			base = ix.X
		}
		if at, ok := base.(*syntax.Attr); ok && (at.Name == "Ref" || at.Name == "Var") {
			byRef = true
		}
		if byRef {
			switch x := v.(type) {
			case *ir.BufferLoad:
				if isVarBuffer(x.Buffer) {
					return x.Buffer
				}
				idx := make([]ir.Expr, len(x.Indices))
				for i, e := range x.Indices {
					idx[i] = in.toExpr(b.bind(in, f, "_", e, false))
				}
				return &ref{buf: x.Buffer, idx: idx}
			case *region:
				r := &region{buf: x.buf}
				for _, d := range x.rng {
					lo := in.toExpr(b.bind(in, f, "_", d.Min, false))
					r.rng = append(r.rng, ir.Range{Min: lo, Extent: d.Extent})
				}
				return r
			case *ir.Buffer:
				return x
			}
			panic(in.errorf("argument %s of macro %s is %s: expected an element or a region, to be passed by reference", p.Name, m.fn.name, in.typeWithValue(v)).is("ValueError"))
		}
	}
	switch x := v.(type) {
	case ir.Expr, int64, float64, bool:
		return b.bind(in, f, p.Name, x, false)
	}
	return v // == and != too: each use of the parameter compares anew
}

// isTensorAnn reports an annotation that makes a parameter of an eager
// function a tensor or a scalar of the kernel.
func (in *interp) isTensorAnn(env *frame, e syntax.Expr) bool {
	x := e
	if s, ok := x.(*syntax.Str); ok {
		return strings.Contains(s.Value, "Tensor") || strings.HasPrefix(s.Value, "T.")
	}
	switch c := x.(type) {
	case *syntax.Call:
		x = c.Fn
	case *syntax.Index:
		x = c.X
	}
	a, ok := x.(*syntax.Attr)
	if !ok {
		return false
	}
	n, ok := a.X.(*syntax.Name)
	if !ok {
		return false
	}
	m, _ := env.lookup(n.ID)
	if mod, ok := m.(*module); !ok || mod.name != in.lang.name {
		return false
	}
	switch a.Name {
	case "Tensor", "StridedTensor", "ptr", "Buffer", "handle":
		return true
	}
	_, isType := in.dtypeName(a.Name)
	return isType
}

// tensorParams are the parameters of an eager function that are tensors or
// scalars of the kernel, not values known when it is compiled.
func (in *interp) tensorParams(fn *function) map[string]bool {
	out := map[string]bool{}
	names := map[string]bool{}
	for _, p := range fn.params {
		names[p.Name] = true
		if p.Ann != nil && in.isTensorAnn(fn.env, p.Ann) {
			out[p.Name] = true
		}
	}
	for _, s := range fn.def.Body {
		a, ok := s.(*syntax.AnnAssign)
		if !ok || a.Value != nil {
			continue
		}
		if n, ok := a.Target.(*syntax.Name); ok && names[n.ID] && in.isTensorAnn(fn.env, a.Ann) {
			out[n.ID] = true
		}
	}
	return out
}

// isEager reports a jit function whose body is the kernel itself, rather than
// one that returns a kernel.
func isEager(def *syntax.FuncDef) bool {
	kernel, inner := false, false
	walkStmts(def.Body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDef:
			for _, d := range n.Decorators {
				if lastName(d) == "prim_func" {
					inner = true
				}
			}
			return false
		case *syntax.With:
			for _, it := range n.Items {
				if c, ok := it.Context.(*syntax.Call); ok {
					switch lastName(c.Fn) {
					case "Kernel", "ClusterKernel":
						kernel = true
					}
				}
			}
		case *syntax.Call:
			if a, ok := n.Fn.(*syntax.Attr); ok && (a.Name == "const" || a.Name == "empty") {
				if x, ok := a.X.(*syntax.Name); ok && (x.ID == "T" || x.ID == "tl") {
					kernel = true
				}
			}
		}
		return true
	})
	return kernel && !inner
}

// lastName is the last part of a dotted name, through calls: prim_func of
// T.prim_func and T.prim_func(...).
func lastName(e syntax.Expr) string {
	switch e := e.(type) {
	case *syntax.Name:
		return e.ID
	case *syntax.Attr:
		return e.Name
	case *syntax.Call:
		return lastName(e.Fn)
	}
	return ""
}

// callJIT is a call of a jit function: it records the arguments, from which
// the kernel can be built.
func (in *interp) callJIT(j *jitFunc, a *args) value {
	in.calls = append(in.calls, kernelCall{jit: j, fn: j.fn, args: a})
	return &jitKernel{j}
}
