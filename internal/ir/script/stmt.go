package script

import (
	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// maxStmtDepth bounds statements within each other, flat attributes (whose
// scope is the rest of their block) included.
const maxStmtDepth = 1000

// flatAttr is a T.attr or T.launch_thread whose body is the rest of the block.
type flatAttr struct {
	stmt  *ir.AttrStmt
	start int // its body begins here in builder.stmts
}

// body reads statements as one statement, nil if there are none. The caller
// opens and closes the scope.
func (b *builder) body(list []syntax.Stmt) ir.Stmt {
	base := len(b.stmts)
	var attrs []flatAttr
	for _, s := range list {
		if b.depth+len(attrs) > maxStmtDepth {
			b.errorf(s, "more than %d statements within each other", maxStmtDepth)
			break
		}
		if b.diags.Full() {
			break
		}
		if x := b.stmt(s); x != nil {
			if a, ok := x.(*ir.AttrStmt); ok && a.Body == openBody {
				attrs = append(attrs, flatAttr{a, len(b.stmts)})
				continue
			}
			b.stmts = append(b.stmts, x)
		}
	}
	for i := len(attrs) - 1; i >= 0; i-- {
		a := attrs[i]
		a.stmt.Body = b.popStmts(a.start)
		b.stmts = append(b.stmts, a.stmt)
	}
	return b.popStmts(base)
}

// openBody marks an AttrStmt whose body is still to be read.
var openBody ir.Stmt = &ir.SeqStmt{}

func (b *builder) popStmts(base int) ir.Stmt {
	n := len(b.stmts) - base
	switch n {
	case 0:
		return nil
	case 1:
		s := b.stmts[base]
		b.stmts = b.stmts[:base]
		return s
	}
	seq := make([]ir.Stmt, n)
	copy(seq, b.stmts[base:])
	b.stmts = b.stmts[:base]
	return &ir.SeqStmt{Seq: seq, Org: seq[0].Origin()}
}

// scoped reads a nested block in a scope of its own.
func (b *builder) scoped(list []syntax.Stmt) ir.Stmt {
	mark := b.open()
	b.depth++
	s := b.body(list)
	b.depth--
	b.close(mark)
	return s
}

func (b *builder) stmt(s syntax.Stmt) ir.Stmt {
	switch s := s.(type) {
	case *syntax.ExprStmt:
		return b.exprStmt(s)
	case *syntax.Assign:
		return b.assign(s)
	case *syntax.AnnAssign:
		return b.annAssign(s)
	case *syntax.For:
		return b.forStmt(s)
	case *syntax.If:
		cond := b.cond(s.Cond)
		then := b.scoped(s.Then)
		els := b.scoped(s.Else)
		if cond == nil {
			return nil
		}
		return &ir.IfThenElse{Cond: cond, Then: then, Else: els, Org: b.span(s)}
	case *syntax.With:
		return b.with(s)
	case *syntax.While:
		cond := b.cond(s.Cond)
		body := b.scoped(s.Body)
		if cond == nil {
			return nil
		}
		return &ir.While{Cond: cond, Body: body, Org: b.span(s)}
	case *syntax.Assert:
		return b.assert(s)
	case *syntax.Return:
		return b.ret(s)
	case *syntax.AugAssign:
		return b.augAssign(s)
	case *syntax.Simple:
		switch s.Kind {
		case syntax.Break:
			return &ir.Evaluate{Value: ir.NewCall(opBreak), Org: b.span(s)}
		case syntax.Continue:
			return &ir.Evaluate{Value: ir.NewCall(opContinue), Org: b.span(s)}
		}
		return nil
	case *syntax.FuncDef:
		b.errorf(s, "a function within a function: expected a statement of the kernel")
	default:
		b.errorf(s, "this statement has no meaning in a kernel")
	}
	return nil
}

var (
	opBreak    = ir.MustOp("break_loop")
	opContinue = ir.MustOp("continue_loop")
	opRet      = ir.MustOp("ret")
)

func (b *builder) ret(s *syntax.Return) ir.Stmt {
	c := &ir.Call{Op: opRet, Type: ir.DVoid}
	if s.Value != nil {
		v := b.expr(s.Value)
		if v == nil {
			return nil
		}
		c.Args = []ir.Expr{v}
	}
	return &ir.Evaluate{Value: c, Org: b.span(s)}
}

// cond reads a truth value.
func (b *builder) cond(e syntax.Expr) ir.Expr {
	x := b.expr(e)
	if x == nil {
		return nil
	}
	if t := x.DType(); !t.IsBool() || !t.IsScalar() {
		d := b.errorf(e, "expected a condition, found %s", t)
		if t.IsInteger() && t.IsScalar() {
			d.Hint = "compare it, for example with != 0"
		}
		return nil
	}
	return x
}

// assert reads `assert cond, ("Kind", ["part", ...])`, or the older
// `assert cond, "message"`.
func (b *builder) assert(s *syntax.Assert) ir.Stmt {
	n := &ir.Assert{Cond: b.cond(s.Cond), Kind: "RuntimeError", Org: b.span(s)}
	msg := s.Msg
	if t, ok := msg.(*syntax.Tuple); ok && len(t.Elts) == 2 {
		n.Kind, _ = b.str(t.Elts[0])
		msg = t.Elts[1]
	}
	switch m := msg.(type) {
	case nil:
	case *syntax.List:
		for _, e := range m.Elts {
			if x := b.expr(e); x != nil {
				n.Message = append(n.Message, x)
			}
		}
	default:
		if x := b.expr(m); x != nil {
			n.Message = append(n.Message, x)
		}
	}
	if n.Cond == nil {
		return nil
	}
	return n
}

// exprStmt is a call that stands alone.
func (b *builder) exprStmt(s *syntax.ExprStmt) ir.Stmt {
	name, c := b.tirCall(s.X)
	if c != nil {
		switch name {
		case "func_attr":
			if d := b.oneDict(c); d != nil {
				b.funcAttr(d)
			}
			return nil
		case "attr":
			return b.attrStmt(c, s)
		case "launch_thread":
			return b.launchThread(c, "", s)
		case "reads", "writes", "where", "sblock_attr", "block_attr":
			b.signature(name, c)
			return nil
		case "evaluate":
			if len(c.Args) != 1 {
				b.errorf(c, "%s.evaluate takes one expression", b.prefix)
				return nil
			}
			if v := b.expr(c.Args[0]); v != nil {
				return &ir.Evaluate{Value: v, Org: b.span(s)}
			}
			return nil
		case "match_buffer", "Buffer", "decl_buffer", "alloc_buffer", "sblock_alloc_buffer":
			b.errorf(s, "%s.%s declares a buffer: expected NAME = %s.%s(..)", b.prefix, name, b.prefix, name)
			return nil
		}
	}
	if cc, ok := s.X.(*syntax.Call); ok {
		if a, ok := cc.Fn.(*syntax.Attr); ok && a.Name == "vstore" {
			return b.vstore(a, cc, s)
		}
	}
	if str, ok := s.X.(*syntax.Str); ok && !str.Bytes {
		return nil // a docstring
	}
	v := b.expr(s.X)
	if v == nil {
		return nil
	}
	if _, ok := v.(*ir.Call); !ok {
		d := b.errorf(s, "the value is not used: expected a call or an assignment")
		d.Hint = "write " + b.prefix + ".evaluate(..) to keep it"
		return nil
	}
	return &ir.Evaluate{Value: v, Org: b.span(s)}
}

func (b *builder) oneDict(c *syntax.Call) *ir.Dict {
	if len(c.Args) != 1 || len(c.Keywords) > 0 {
		b.errorf(c, "expected one dictionary")
		return nil
	}
	return b.dict(c.Args[0])
}

func (b *builder) dict(e syntax.Expr) *ir.Dict {
	if _, ok := e.(*syntax.Dict); !ok {
		b.errorf(e, "expected a dictionary")
		return nil
	}
	d, _ := b.attr(e).(*ir.Dict)
	return d
}

func (b *builder) funcAttr(d *ir.Dict) {
	for _, e := range d.Entries {
		k, ok := e.Key.(*ir.StringImm)
		if !ok {
			continue
		}
		if s, ok := ir.AttrString(e.Value); ok && k.Value == "global_symbol" && s == b.fn.Name {
			continue // said by the function's name
		}
		b.fn.Attrs = b.fn.Attrs.With(k.Value, e.Value)
	}
}

// attrStmt is T.attr(node, key, value); its body is still open.
func (b *builder) attrStmt(c *syntax.Call, s syntax.Node) ir.Stmt {
	if len(c.Args) != 3 || len(c.Keywords) > 0 {
		b.errorf(c, "%s.attr takes a node, a key and a value", b.prefix)
		return nil
	}
	key, ok := b.str(c.Args[1])
	node, value := b.attr(c.Args[0]), b.attr(c.Args[2])
	if !ok || node == nil || value == nil {
		return nil
	}
	return &ir.AttrStmt{Node: node, Key: key, Value: value, Body: openBody, Org: b.span(s)}
}

// launchThread is T.launch_thread(axis or variable, extent); its body is still
// open.
func (b *builder) launchThread(c *syntax.Call, target string, s syntax.Node) ir.Stmt {
	if len(c.Args) != 2 || len(c.Keywords) > 0 {
		b.errorf(c, "%s.launch_thread takes an axis and an extent", b.prefix)
		return nil
	}
	extent := b.integer(c.Args[1])
	if extent == nil {
		return nil
	}
	iv := &ir.IterVar{}
	switch x := c.Args[0].(type) {
	case *syntax.Str:
		iv.Tag = x.Value
		if target == "" {
			target = identifier(x.Value)
		}
		// A launch axis is always a variable of its own.
		iv.Var = &ir.Var{Name: target, Type: extent.DType()}
		b.define(target, binding{v: iv.Var, tag: iv.Tag, loc: s.Range()})
	case *syntax.Name:
		sym, ok := b.lookup(x.ID)
		if !ok {
			b.undefined(x)
			return nil
		}
		if sym.v == nil {
			return nil
		}
		iv.Var, iv.Tag = sym.v, sym.tag
		if target != "" && target != x.ID {
			b.define(target, binding{v: iv.Var, tag: iv.Tag, loc: s.Range()})
		}
	default:
		b.errorf(x, "expected a launch axis such as \"blockIdx.x\", or a variable")
		return nil
	}
	return &ir.AttrStmt{Node: iv, Key: ir.KeyThreadExtent, Value: extent, Body: openBody, Org: b.span(s)}
}

// identifier makes a name out of any text.
func identifier(s string) string {
	out := []byte(s)
	for i, c := range out {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			out[i] = '_'
		}
	}
	return string(out)
}

// signature reads a line of a block's signature.
func (b *builder) signature(name string, c *syntax.Call) {
	if b.block == nil {
		b.errorf(c, "%s.%s outside of a block", b.prefix, name)
		return
	}
	switch name {
	case "where":
		if len(c.Args) == 1 {
			b.block.Predicate = b.cond(c.Args[0])
			return
		}
		b.errorf(c, "%s.where takes one condition", b.prefix)
	case "sblock_attr", "block_attr":
		if d := b.oneDict(c); d != nil {
			for _, e := range d.Entries {
				if b.block.Annotations == nil {
					b.block.Annotations = &ir.Dict{}
				}
				b.block.Annotations.Entries = append(b.block.Annotations.Entries, e)
			}
		}
	default:
		args := c.Args
		if len(args) == 1 { // T.reads([..]) of older texts
			if l, ok := args[0].(*syntax.List); ok {
				args = l.Elts
			}
		}
		regions := make([]ir.BufferRegion, 0, len(args))
		for _, a := range args {
			if r, ok := b.region(a); ok {
				regions = append(regions, r)
			}
		}
		if name == "reads" {
			b.block.Reads = append(b.block.Reads, regions...)
		} else {
			b.block.Writes = append(b.block.Writes, regions...)
		}
	}
}

func (b *builder) assign(s *syntax.Assign) ir.Stmt {
	if len(s.Targets) != 1 {
		b.errorf(s, "several targets: expected one")
		return nil
	}
	switch t := s.Targets[0].(type) {
	case *syntax.Name:
		return b.assignName(t, s)
	case *syntax.Index:
		return b.store(t, s.Value, s)
	case *syntax.Tuple:
		b.assignTuple(t, s)
		return nil
	}
	b.errorf(s.Targets[0], "expected a name or an element of a buffer")
	return nil
}

func (b *builder) assignName(t *syntax.Name, s *syntax.Assign) ir.Stmt {
	if name, c := b.tirCall(s.Value); c != nil {
		switch name {
		case "match_buffer", "Buffer", "decl_buffer", "alloc_buffer", "sblock_alloc_buffer":
			return b.declare(t.ID, name, c, s)
		case "buffer_decl":
			return b.declare(t.ID, "Buffer", c, s)
		case "launch_thread":
			return b.launchThread(c, t.ID, s)
		case "env_thread":
			if len(c.Args) == 1 {
				tag, _ := b.str(c.Args[0])
				b.define(t.ID, binding{v: &ir.Var{Name: t.ID, Type: ir.DInt32}, tag: tag, loc: s.Loc})
				return nil
			}
		case "var", "handle": // T.var("int32") of older texts
			if name == "handle" || len(c.Args) == 1 {
				b.declareVar(t, c)
				return nil
			}
		default:
			if len(c.Args) == 0 && len(c.Keywords) == 0 {
				if _, err := ir.ParseDType(name); err == nil {
					b.declareVar(t, c)
					return nil
				}
			}
		}
	}
	if axis, c := b.axisCall(s.Value); c != nil {
		b.axis(t, axis, c)
		return nil
	}
	v := b.expr(s.Value)
	if v == nil {
		b.define(t.ID, binding{loc: t.Loc})
		return nil
	}
	// Without an annotation, a visible variable is bound again.
	if sym, ok := b.lookup(t.ID); ok && sym.v != nil && sym.v.Type == v.DType() {
		return &ir.Bind{Var: sym.v, Value: v, Org: b.span(s)}
	}
	n := &ir.Var{Name: t.ID, Type: v.DType(), Ptr: pointerOf(v)}
	b.define(t.ID, binding{v: n, loc: t.Loc})
	return &ir.Bind{Var: n, Value: v, Org: b.span(s)}
}

// pointerOf is what a pointer value is known to point to.
func pointerOf(e ir.Expr) *ir.PointerType {
	if v, ok := e.(*ir.Var); ok {
		return v.Ptr
	}
	return nil
}

// declareVar is `k = T.int32()`: a variable defined elsewhere or nowhere.
func (b *builder) declareVar(t *syntax.Name, c *syntax.Call) {
	name, _ := b.tirName(c.Fn)
	v := &ir.Var{Name: t.ID}
	switch name {
	case "handle":
		ptr, ok := b.pointerType(c)
		if !ok {
			b.define(t.ID, binding{loc: t.Loc})
			return
		}
		v.Type, v.Ptr = ir.DHandle, ptr
	case "var":
		v.Type, _ = b.dtype(c.Args[0])
	default:
		v.Type, _ = b.dtype(c.Fn)
	}
	b.define(t.ID, binding{v: v, free: true, loc: t.Loc})
}

// assignTuple is `m, n = T.int32(), T.int32()` or `vi, vj = T.axis.remap(..)`.
func (b *builder) assignTuple(t *syntax.Tuple, s *syntax.Assign) {
	names := make([]*syntax.Name, len(t.Elts))
	for i, e := range t.Elts {
		n, ok := e.(*syntax.Name)
		if !ok {
			b.errorf(e, "expected a name")
			return
		}
		names[i] = n
	}
	if axis, c := b.axisCall(s.Value); c != nil {
		b.remap(names, axis, c)
		return
	}
	values, ok := s.Value.(*syntax.Tuple)
	if !ok || len(values.Elts) != len(names) {
		b.errorf(s.Value, "expected %s such as %s.int32()", diag.Count(len(names), "declaration"), b.prefix)
		return
	}
	for i, e := range values.Elts {
		name, c := b.tirCall(e)
		if c == nil || len(c.Args) > 0 && name != "handle" && name != "var" {
			b.errorf(e, "expected a declaration such as %s.int32()", b.prefix)
			return
		}
		b.declareVar(names[i], c)
	}
}

// axisCall is T.axis.<kind>(...).
func (b *builder) axisCall(e syntax.Expr) (string, *syntax.Call) {
	c, ok := e.(*syntax.Call)
	if !ok {
		return "", nil
	}
	a, ok := c.Fn.(*syntax.Attr)
	if !ok {
		return "", nil
	}
	if name, ok := b.tirName(a.X); !ok || name != "axis" {
		return "", nil
	}
	return a.Name, c
}

var axisKinds = map[string]ir.IterVarKind{
	"spatial": ir.DataPar, "S": ir.DataPar, "reduce": ir.CommReduce, "R": ir.CommReduce, "opaque": ir.OpaqueIter,
}

// axis is `vi = T.axis.spatial(extent or (min, max), value)`.
func (b *builder) axis(t *syntax.Name, kind string, c *syntax.Call) {
	k, ok := axisKinds[kind]
	if !ok || len(c.Args) != 2 || b.block == nil {
		b.errorf(c, "expected %s.axis.spatial, reduce or opaque with a domain and a value, in a block", b.prefix)
		return
	}
	iv := &ir.IterVar{Kind: k}
	if tup, ok := c.Args[0].(*syntax.Tuple); ok && len(tup.Elts) == 2 {
		lo, hi := b.integer(tup.Elts[0]), b.integer(tup.Elts[1])
		if lo == nil || hi == nil {
			return
		}
		iv.Dom = ir.Range{Min: lo, Extent: distance(lo, hi)}
	} else {
		ext := b.integer(c.Args[0])
		if ext == nil {
			return
		}
		iv.Dom = ir.Range{Min: zeroOf(ext), Extent: ext}
	}
	b.addAxis(t, iv, b.expr(c.Args[1]))
}

func (b *builder) addAxis(t *syntax.Name, iv *ir.IterVar, value ir.Expr) {
	if value == nil {
		b.define(t.ID, binding{loc: t.Loc})
		return
	}
	iv.Var = &ir.Var{Name: t.ID, Type: iv.Dom.Extent.DType()}
	b.define(t.ID, binding{v: iv.Var, loc: t.Loc})
	b.block.IterVars = append(b.block.IterVars, iv)
	b.block.IterValues = append(b.block.IterValues, value)
}

// remap is `vi, vj = T.axis.remap("SR", [i, j])`: the axes have the domains
// of their loops, found in the loop variables' declarations.
func (b *builder) remap(names []*syntax.Name, kind string, c *syntax.Call) {
	if kind != "remap" || len(c.Args) != 2 || b.block == nil {
		b.errorf(c, "expected %s.axis.remap(kinds, [loop variables]), in a block", b.prefix)
		return
	}
	kinds, ok := b.str(c.Args[0])
	vars, isList := c.Args[1].(*syntax.List)
	if !ok || !isList || len(kinds) != len(names) || len(vars.Elts) != len(names) {
		b.errorf(c, "expected one kind and one loop variable for each of %s", diag.Count(len(names), "name"))
		return
	}
	for i, n := range names {
		k, ok := axisKinds[kinds[i:i+1]]
		if !ok {
			b.errorf(c.Args[0], "unknown kind of axis %q: expected S or R", kinds[i])
			return
		}
		v := b.expr(vars.Elts[i])
		lv, isVar := v.(*ir.Var)
		dom, known := b.loopDoms[lv]
		if v != nil && (!isVar || !known) {
			b.errorf(vars.Elts[i], "expected a variable of an enclosing loop")
			return
		}
		b.addAxis(n, &ir.IterVar{Kind: k, Dom: dom}, v)
	}
}

func (b *builder) annAssign(s *syntax.AnnAssign) ir.Stmt {
	n, ok := s.Target.(*syntax.Name)
	if !ok {
		b.errorf(s.Target, "expected a name")
		return nil
	}
	t, ptr := b.typeAnnotation(s.Ann)
	if s.Value == nil {
		b.errorf(s, "%s has a type but no value", n.ID)
		return nil
	}
	v := b.expr(s.Value)
	if v == nil || t.IsVoid() {
		b.define(n.ID, binding{loc: n.Loc})
		return nil
	}
	if vt := v.DType(); vt != t {
		if c, isConst := v.(*ir.IntImm); isConst && t.IsScalar() && !t.IsHandle() {
			v = ir.CastTo(c, t)
		} else {
			b.errorf(s.Value, "%s is declared %s, but its value is %s", n.ID, t, vt)
		}
	}
	x := b.newVar(n.ID, t, ptr, n.Loc)
	return &ir.Bind{Var: x, Value: v, Org: b.span(s)}
}

// store is A[indices] = value.
func (b *builder) store(t *syntax.Index, value syntax.Expr, s syntax.Node) ir.Stmt {
	buf, isBuf := b.bufferRef(t.X)
	if !isBuf {
		b.errorf(t.X, "expected a buffer")
		b.expr(value)
		return nil
	}
	if buf == nil {
		b.expr(value)
		return nil
	}
	idx, ok := b.indices(t, buf)
	v := b.expr(value)
	if !ok || v == nil {
		return nil
	}
	n := &ir.BufferStore{Buffer: buf, Indices: idx, Value: v, Org: b.span(s)}
	want := (&ir.BufferLoad{Buffer: buf, Indices: idx}).DType()
	if vt := v.DType(); vt != want {
		switch {
		case vt.IsScalar() && isConst(v) && vt.IsHandle() == want.IsHandle():
			n.Value = ir.Splat(ir.CastTo(v, want.Scalar()), int(want.Lanes))
		case vt.Lanes == want.Lanes && isNumber(vt) && isNumber(want): // as TVM does
			n.Value = ir.CastTo(v, want)
		default:
			d := b.errorf(value, "a value of type %s is stored in %s, which takes %s", vt, buf.Name, want)
			d.Hint = "convert it with " + b.prefix + `.Cast("` + want.String() + `", ..)`
			return nil
		}
	}
	return n
}

func isNumber(t ir.DType) bool { return t.IsInteger() || t.IsFloat() || t.IsBool() }

func isConst(e ir.Expr) bool {
	switch e.(type) {
	case *ir.IntImm, *ir.FloatImm:
		return true
	}
	return false
}

// vstore is A.vstore([indices], value, predicate=p).
func (b *builder) vstore(a *syntax.Attr, c *syntax.Call, s syntax.Node) ir.Stmt {
	buf, isBuf := b.bufferRef(a.X)
	if !isBuf || buf == nil || len(c.Args) != 2 {
		if !isBuf || buf != nil {
			b.errorf(c, "expected BUFFER.vstore([indices], value, predicate=..)")
		}
		return nil
	}
	idx, ok := b.exprList(c.Args[0])
	v := b.expr(c.Args[1])
	n := &ir.BufferStore{Buffer: buf, Indices: idx, Value: v, Org: b.span(s)}
	for i := range c.Keywords {
		if c.Keywords[i].Name == "predicate" {
			n.Predicate = b.expr(c.Keywords[i].Value)
		}
	}
	if !ok || v == nil {
		return nil
	}
	return n
}

// augAssign is x op= value for elements of buffers.
func (b *builder) augAssign(s *syntax.AugAssign) ir.Stmt {
	t, ok := s.Target.(*syntax.Index)
	if !ok {
		b.errorf(s.Target, "expected an element of a buffer: variables cannot change")
		return nil
	}
	return b.store(t, &syntax.Binary{Loc: s.Loc, Op: s.Op, X: t, Y: s.Value}, s)
}

// with is a block, or an attribute or launch axis whose scope ends before its
// block does.
func (b *builder) with(s *syntax.With) ir.Stmt {
	mark := b.open()
	defer b.close(mark)
	if len(s.Items) == 1 {
		if name, c := b.tirCall(s.Items[0].Context); c != nil {
			switch name {
			case "sblock", "block":
				return b.sblock(s, name, c)
			case "init":
				if b.block == nil {
					b.errorf(c, "%s.init outside of a block", b.prefix)
					return nil
				}
				b.depth++
				b.block.Init = b.body(s.Body)
				b.depth--
				return nil
			}
		}
	}
	var attrs []*ir.AttrStmt
	for _, it := range s.Items {
		name, c := b.tirCall(it.Context)
		var x ir.Stmt
		switch {
		case c != nil && name == "attr":
			x = b.attrStmt(c, s)
		case c != nil && name == "launch_thread":
			target := ""
			if n, ok := it.Target.(*syntax.Name); ok {
				target = n.ID
			}
			x = b.launchThread(c, target, s)
		default:
			b.errorf(it.Context, "expected %s.sblock, %s.attr, %s.launch_thread or %s.init", b.prefix, b.prefix, b.prefix, b.prefix)
		}
		if a, ok := x.(*ir.AttrStmt); ok {
			attrs = append(attrs, a)
		}
	}
	b.depth++
	body := b.body(s.Body)
	b.depth--
	for i := len(attrs) - 1; i >= 0; i-- {
		attrs[i].Body = body
		body = attrs[i]
	}
	return body
}

func (b *builder) sblock(s *syntax.With, how string, c *syntax.Call) ir.Stmt {
	sb := &ir.SBlock{Org: b.span(s)}
	if len(c.Args) > 1 || len(c.Keywords) > 0 {
		b.errorf(c, "%s.%s takes a name", b.prefix, how)
	} else if len(c.Args) == 1 {
		sb.Name, _ = b.str(c.Args[0])
	}
	outer := b.block
	b.block = sb
	b.depth++
	sb.Body = b.body(s.Body)
	b.depth--
	b.block = outer
	return sb
}
