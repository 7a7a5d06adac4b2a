package tilelang

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// frameKind says what a builder frame is.
type frameKind uint8

const (
	fkFunc frameKind = iota
	fkIf
	fkBranch
	fkFor
	fkWhile
	fkAttr
	fkLaunch
	fkMacro
	fkMacroDone
	fkPython // a loop over Python values
	fkExit   // after break or continue
	fkAssert // after an assertion, to the end of the block
	fkScope  // another construct that scopes variables
)

// bframe is a construct of a kernel that is open.
type bframe struct {
	kind  frameKind
	holds bool // it collects statements
	stmts []ir.Stmt
	// close makes the statement when the construct ends; nil: none.
	close func(body ir.Stmt) ir.Stmt
	// branches are the bodies of T.Then and T.Else within T.If.
	branches *[2]ir.Stmt
	block    *blockInfo // set where buffers and attributes go
	org      ir.Span
}

// blockInfo is what a block of the kernel declares.
type blockInfo struct {
	attrs  map[string]ir.Attr
	allocs []*ir.Buffer
}

// launch is an open T.Kernel.
type launch struct {
	grid    []*ir.Var
	extents []ir.Expr
	threads []*ir.Var
	// threadExt are the extents of the block, nil if they were not given.
	threadExt []ir.Expr
	block     *blockInfo
}

// builder makes the body of one kernel.
type builder struct {
	fn     *ir.PrimFunc
	frames []*bframe
	org    ir.Span // of the statement under evaluation
	nstmts int
	failed bool

	// alive is the frame that each name was last bound in.
	alive map[string]*bframe
	// defs is where each name was last bound.
	defs map[string]ir.Span

	lets     map[*ir.Var]value // what variables were bound to
	owned    map[*ir.Var]bool  // pointers made for one buffer
	launches []*launch

	eager    bool
	consts   map[string]value // values of T.const
	consted  []string         // names of T.const seen
	outs     []*outTensor
	outIdx   []int
	returned bool
	configs  *dict // T.annotate_pass_configs
	flags    ir.List
	stack    []string // "file:line in f" of the macros under expansion
}

func newBuilder(name string) *builder {
	b := &builder{
		fn:    &ir.PrimFunc{Name: name},
		alive: map[string]*bframe{}, defs: map[string]ir.Span{},
		lets: map[*ir.Var]value{},
	}
	return b
}

// push opens a frame.
func (b *builder) push(in *interp, f *bframe) {
	if len(b.frames) >= MaxFrames {
		fl := in.errorf("kernel constructs more than %d deep", MaxFrames)
		fl.limit = true
		panic(fl)
	}
	f.org = b.org
	b.frames = append(b.frames, f)
}

// popTo closes the frames above a depth, innermost first.
func (b *builder) popTo(in *interp, depth int) {
	for len(b.frames) > depth {
		f := b.frames[len(b.frames)-1]
		b.frames = b.frames[:len(b.frames)-1]
		if f.kind == fkLaunch {
			b.launches = b.launches[:len(b.launches)-1]
		}
		if f.close != nil {
			b.add(in, f.close(bodyOf(f.stmts, f.org)))
		}
	}
}

// unwind drops the frames above a depth after a failure; what they hold is
// kept, so that the statements after it find their place.
func (b *builder) unwind(depth int) {
	for len(b.frames) > depth {
		if b.frames[len(b.frames)-1].kind == fkLaunch {
			b.launches = b.launches[:len(b.launches)-1]
		}
		b.frames = b.frames[:len(b.frames)-1]
	}
}

// bodyOf is statements as the body of a construct; an empty one evaluates 0.
func bodyOf(stmts []ir.Stmt, org ir.Span) ir.Stmt {
	if len(stmts) == 0 {
		return &ir.Evaluate{Value: ir.I32(0), Org: org}
	}
	if len(stmts) == 1 {
		return stmts[0]
	}
	flat := make([]ir.Stmt, 0, len(stmts))
	for _, s := range stmts {
		for _, x := range ir.Stmts(s) {
			if e, ok := x.(*ir.Evaluate); ok && ir.IsConst(e.Value, 0) {
				continue
			}
			flat = append(flat, x)
		}
	}
	if len(flat) == 0 {
		return &ir.Evaluate{Value: ir.I32(0), Org: org}
	}
	return ir.Seq(flat...)
}

// add appends a statement to the innermost frame that collects them.
func (b *builder) add(in *interp, s ir.Stmt) {
	if s == nil {
		return
	}
	b.nstmts++
	if b.nstmts > MaxStmts {
		f := in.errorf("a kernel of more than %d statements", MaxStmts)
		f.limit = true
		panic(f)
	}
	for i := len(b.frames) - 1; i >= 0; i-- {
		if b.frames[i].holds {
			b.frames[i].stmts = append(b.frames[i].stmts, s)
			return
		}
	}
}

// inside runs f within a frame.
func (b *builder) inside(in *interp, fr *bframe, f func()) {
	depth := len(b.frames)
	b.push(in, fr)
	f()
	b.popTo(in, depth)
}

// find is the innermost frame of the given kinds at or above a depth, -1 if
// there is none.
func (b *builder) find(from int, kinds ...frameKind) int {
	for i := len(b.frames) - 1; i >= from; i-- {
		for _, k := range kinds {
			if b.frames[i].kind == k {
				return i
			}
		}
	}
	return -1
}

// varScope is the frame that a variable bound now belongs to.
func (b *builder) varScope() *bframe {
	if i := b.find(0, fkWhile, fkFor, fkBranch, fkIf, fkFunc, fkMacro, fkLaunch, fkScope); i >= 0 {
		return b.frames[i]
	}
	return nil
}

func (b *builder) isOpen(f *bframe) bool {
	for _, x := range b.frames {
		if x == f {
			return true
		}
	}
	return false
}

// expired reports a name whose scope has ended.
func (b *builder) expired(name string) bool {
	f, ok := b.alive[name]
	return ok && !b.isOpen(f)
}

// checkAlive refuses a name that is used after the loop or branch it was bound
// in.
func (b *builder) checkAlive(in *interp, name string, scope *frame) {
	if !scope.dsl || !b.expired(name) {
		return
	}
	panic(in.errorf("%s is used outside of the loop or branch that binds it", name).
		note(b.defs[name], "%s is bound here", name).
		hint("declare it before with T.alloc_var").is("RuntimeError"))
}

// unwrap is a name's value where a kernel reads it: a T.alloc_var variable is
// its element.
func (b *builder) unwrap(in *interp, v value) value {
	switch v := v.(type) {
	case *ref:
		return v.load()
	case *eqOp:
		return in.toExpr(v)
	case *ir.Buffer:
		if isVarBuffer(v) {
			return loadVar(v)
		}
	case ctxValue:
		return v.enter(in, b)
	}
	return v
}

// evaluate emits an expression as a statement, at the place under evaluation.
func (b *builder) evaluate(in *interp, e ir.Expr) {
	b.add(in, &ir.Evaluate{Value: in.checked(e), Org: b.org})
}

// bindVar emits a binding of a fresh variable.
func (b *builder) bindVar(in *interp, name string, e ir.Expr) *ir.Var {
	v := &ir.Var{Name: name, Type: e.DType()}
	b.add(in, &ir.Bind{Var: v, Value: in.checked(e), Org: b.org})
	b.lets[v] = e
	return v
}

// evalStmt is what an expression statement does.
func (b *builder) evalStmt(in *interp, v value) {
	switch v := v.(type) {
	case *unknown:
		panic(in.needKnown(v)) // what it emits would be left out
	case noneType, string, *tuple, *list:
	case *loopSpec, *stepLoop:
		panic(in.errorf("a loop by itself does nothing").hint("write for ... in it"))
	case ctxValue:
		v.enter(in, b)
	case bool:
		b.evaluate(in, ir.BoolConst(v))
	case int64:
		b.evaluate(in, in.toExpr(v))
	case *storeValue:
		b.storeAt(in, v.buf, v.idx, v.value)
	case *eqOp, *ref:
		b.evaluate(in, in.toExpr(v))
	case ir.Expr:
		b.evaluate(in, v)
	case *ir.Buffer:
		if isVarBuffer(v) {
			b.evaluate(in, loadVar(v))
		}
	}
}

// storeValue is a store that a copy of single elements stands for.
type storeValue struct {
	buf   *ir.Buffer
	idx   []ir.Expr
	value ir.Expr
}

// store is buf[i] = v.
func (b *builder) store(in *interp, buf *ir.Buffer, i value, v value) {
	b.storeFrom(in, buf, i, v, in.at)
}

// storeFrom is buf[i] = v, with v made at a place.
func (b *builder) storeFrom(in *interp, buf *ir.Buffer, i value, v value, from syntax.Loc) {
	idx := in.storeIndex(buf, i)
	at := in.at
	in.at = from
	defer func() { in.at = at }()
	switch x := v.(type) {
	case *region:
		e, ok := in.regionLoad(x)
		if !ok {
			panic(in.errorf("a region of %s is stored to an element of %s", x.buf.Name, buf.Name).hint("use T.copy").is("TypeError"))
		}
		v = e
	case *ir.Buffer:
		if !isVarBuffer(x) {
			panic(in.errorf("buffer %s is stored to an element of %s", x.Name, buf.Name).hint("use T.copy").
				note(x.Org, "%s is declared here", x.Name).is("TypeError"))
		}
	case noneType, string, *tuple, *list:
		panic(in.errorf("%s is stored to an element of %s: expected a number", in.typeWithValue(v), buf.Name).is("TypeError"))
	}
	var e ir.Expr
	if n, ok := v.(float64); ok {
		e = ir.FloatConst(ir.DFloat32, n)
	} else {
		e = in.toExpr(v)
	}
	b.storeAt(in, buf, idx, e)
}

// storeAt emits a store and converts the value to the buffer's type.
func (b *builder) storeAt(in *interp, buf *ir.Buffer, idx []ir.Expr, e ir.Expr) {
	want := (&ir.BufferLoad{Buffer: buf, Indices: idx}).DType()
	got := e.DType()
	if got.Lanes != want.Lanes {
		panic(in.errorf("a value of %s is stored to %s, which takes %s", typeOf(got), buf.Name, typeOf(want)).
			note(buf.Org, "%s is declared here", buf.Name).is("TypeError"))
	}
	if got.IsHandle() && !want.IsHandle() || got.IsVoid() {
		panic(in.errorf("a value of type %s is stored to %s, which holds %s", got, buf.Name, want).
			note(buf.Org, "%s is declared here", buf.Name).is("TypeError"))
	}
	if got != want {
		e = in.cast(want, e)
	}
	for _, x := range idx {
		in.checked(x)
	}
	b.add(in, &ir.BufferStore{Buffer: buf, Indices: idx, Value: in.checked(e), Org: b.org})
}

func typeOf(t ir.DType) string { return "type " + t.String() }

// assign is target = v in a kernel.
func (b *builder) assign(in *interp, f *frame, t syntax.Expr, v value) {
	switch t := t.(type) {
	case *syntax.Name:
		in.assignName(f, t.ID, b.bind(in, f, t.ID, v, false))
		b.defs[t.ID] = in.file.Span(t.Loc)
	case *syntax.Index:
		from := in.at
		x := in.eval(f, t.X)
		i := in.evalIndex(f, t)
		in.at = t.Loc
		b.assignIndex(in, x, i, v, from)
	case *syntax.Tuple:
		b.assignTuple(in, f, t.Elts, v, false)
	case *syntax.List:
		b.assignTuple(in, f, t.Elts, v, false)
	case *syntax.Attr:
		panic(in.errorf("attributes cannot be assigned to in a kernel"))
	default:
		in.assignPlain(f, t, v)
	}
}

// assignIndex is x[i] = v, with v made at a place.
func (b *builder) assignIndex(in *interp, x, i, v value, from syntax.Loc) {
	switch x := x.(type) {
	case *ir.Buffer:
		b.storeFrom(in, x, i, v, from)
		return
	case *ir.BufferLoad:
		if isVarBuffer(x.Buffer) {
			b.storeFrom(in, x.Buffer, i, v, from)
			return
		}
	}
	in.setIndex(x, i, v)
}

// assignTuple is a, b = v: all values are bound before any target is set, so
// that a swap works.
func (b *builder) assignTuple(in *interp, f *frame, targets []syntax.Expr, v value, loop bool) {
	v = b.unwrap(in, v)
	type item struct {
		t syntax.Expr
		v value
	}
	var items []item
	var flat func(ts []syntax.Expr, v value)
	flat = func(ts []syntax.Expr, v value) {
		in.unpack(ts, v, func(t syntax.Expr, v value) {
			switch t := t.(type) {
			case *syntax.Tuple:
				flat(t.Elts, v)
			case *syntax.List:
				flat(t.Elts, v)
			default:
				items = append(items, item{t, v})
			}
		})
	}
	flat(targets, v)
	for i := range items {
		items[i].v = b.bind(in, f, "_", items[i].v, false)
	}
	for _, it := range items {
		in.at = it.t.Range()
		if n, ok := it.t.(*syntax.Name); ok {
			in.assignName(f, n.ID, b.bind(in, f, n.ID, it.v, loop))
			b.defs[n.ID] = in.file.Span(n.Loc)
			continue
		}
		b.assign(in, f, it.t, it.v)
	}
}

// bind is name = v: it stores to a T.alloc_var variable of that name, keeps
// Python values as they are, and binds expressions to a fresh variable.
func (b *builder) bind(in *interp, f *frame, name string, v value, loop bool) value {
	if e, ok := v.(ir.Expr); ok && len(b.frames) > 0 && b.frames[len(b.frames)-1].kind == fkFunc {
		if _, hidden := e.(*ir.StringImm); !hidden && ir.SideEffect(in.checked(e)) <= ir.Pure {
			return v
		}
	}
	if q, ok := v.(*eqOp); ok {
		v = in.toExpr(q)
	}
	if name != "_" && !loop && !b.expired(name) {
		if orig, ok := f.target(in, name).vars[name]; ok && storable(v) {
			switch o := orig.(type) {
			case *ref:
				b.storeAt(in, o.buf, o.idx, in.toExpr(v))
				return o
			case *ir.Buffer:
				if isVarBuffer(o) {
					b.storeAt(in, o, []ir.Expr{ir.I32(0)}, in.toExpr(v))
					return o
				}
			}
		}
	}
	switch x := v.(type) {
	case *tuple, *list, bool, int64, float64, string, noneType:
		delete(b.alive, name)
		return v
	case *ir.IntImm:
		if x.Type == ir.DInt32 {
			return x.Value
		}
	case *ir.Var:
		b.rename(x, name)
		b.own(name)
		return v
	case *ir.Buffer:
		if name != "_" {
			b.nameBuffer(x, name)
		}
		b.own(name)
		return v
	}
	r := b.bindValue(in, name, v)
	b.own(name)
	return r
}

func storable(v value) bool {
	switch v.(type) {
	case bool, int64, float64, ir.Expr:
		return true
	}
	return false
}

func (b *builder) own(name string) {
	if name == "_" {
		return
	}
	if f := b.varScope(); f != nil {
		b.alive[name] = f
	}
}

// bindValue binds what has no storage yet.
func (b *builder) bindValue(in *interp, name string, v value) value {
	if name == "_" {
		name = "_tmp"
	}
	switch x := v.(type) {
	case *outTensor:
		return b.declareOut(in, name, x)
	case *region:
		load := in.vectorRegion(x)
		r := b.bindVar(in, name, load)
		b.lets[r] = x
		return r
	case *ref:
		return b.bindVar(in, name, x.load())
	case ir.Expr:
		return b.bindVar(in, name, x)
	case ctxValue:
		return x.enter(in, b)
	case *loopSpec:
		return b.enterLoop(in, x)
	}
	return v
}

// vectorRegion is a region as TVM converts it to an expression: a load whose
// indices are ramps.
func (in *interp) vectorRegion(r *region) ir.Expr {
	idx := make([]ir.Expr, len(r.rng))
	for i, d := range r.rng {
		n, ok := ir.AsInt(d.Extent)
		if !ok || n < 1 || n > ir.MaxLanes {
			panic(in.errorf("a region of %s whose size is not constant cannot be given a name", r.buf.Name).hint("use it where it is needed"))
		}
		if n == 1 {
			idx[i] = d.Min
			continue
		}
		idx[i] = &ir.Ramp{Base: d.Min, Stride: ir.IntConst(d.Min.DType(), 1), Lanes: int(n)}
	}
	return &ir.BufferLoad{Buffer: r.buf, Indices: idx}
}

// rename gives a variable the name it is bound to.
func (b *builder) rename(v *ir.Var, name string) {
	if name == "_" {
		if v.Name == "" {
			v.Name = "_"
		}
		return
	}
	v.Name = name
}

func (b *builder) nameBuffer(buf *ir.Buffer, name string) {
	buf.Name = name
	if buf.Data != nil && b.ownsData(buf) {
		buf.Data.Name = name
	}
	if !buf.Org.IsValid() {
		buf.Org = b.org
	}
}

// ownsData reports that a buffer's pointer was made for it, not taken from
// another buffer or parameter.
func (b *builder) ownsData(buf *ir.Buffer) bool {
	return b.owned[buf.Data]
}

// augAssign is name op= v.
func (b *builder) augAssign(in *interp, op syntax.Op, old, v value, name string) value {
	switch o := old.(type) {
	case *ref:
		b.storeAt(in, o.buf, o.idx, in.toExpr(in.binaryOp(op, o.load(), v)))
		return o
	case *ir.Buffer:
		if isVarBuffer(o) {
			b.storeAt(in, o, []ir.Expr{ir.I32(0)}, in.toExpr(in.binaryOp(op, loadVar(o), v)))
			return o
		}
		panic(in.errorf("buffer %s as a whole cannot be updated", o.Name).hint("write %s[...] %s= ...", o.Name, op).
			note(o.Org, "%s is declared here", o.Name).is("RuntimeError"))
	case *ir.Var:
		r := in.binaryOp(op, o, v)
		if e, ok := r.(ir.Expr); ok && b.frames[len(b.frames)-1].kind == fkFunc && ir.SideEffect(in.checked(e)) <= ir.Pure {
			return r
		}
		r = b.bindValue(in, name, r)
		b.own(name)
		return r
	}
	return in.inPlace(op, old, v)
}

// annAssign is name: annotation, or name: annotation = v.
func (b *builder) annAssign(in *interp, f *frame, s *syntax.AnnAssign) {
	n, ok := s.Target.(*syntax.Name)
	if s.Value != nil {
		v := in.eval(f, s.Value)
		in.at = s.Target.Range()
		b.assign(in, f, s.Target, v)
		return
	}
	if !ok {
		return
	}
	ann := in.annotation(f, s.Ann)
	in.at = s.Loc
	if buf, ok := ann.(*ir.Buffer); ok && buf.Scope() == "global" {
		orig, has := f.vars[n.ID]
		p, isVar := orig.(*ir.Var)
		if !has || !isVar {
			panic(in.errorf("%s is declared as a tensor but is not a parameter", n.ID).is("TypeError"))
		}
		mb := b.matchBuffer(in, p, buf.Shape, buf.Type, buf.Strides)
		mb.Name, mb.Data.Name = n.ID, n.ID
		mb.Org = in.file.Span(s.Loc)
		f.vars[n.ID] = mb
		b.defs[n.ID] = in.file.Span(n.Loc)
		return
	}
	if _, has := f.vars[n.ID]; !has {
		panic(in.errorf("%s has a type but no value", n.ID).hint("use T.alloc_var").is("NameError"))
	}
}

// branch is if/else over a condition known only to the kernel.
func (b *builder) branch(in *interp, cond ir.Expr, then func(), hasElse bool, els func()) {
	org := b.org
	var t, e ir.Stmt
	b.inside(in, &bframe{kind: fkIf, close: func(ir.Stmt) ir.Stmt {
		return &ir.IfThenElse{Cond: in.checked(cond), Then: t, Else: e, Org: org}
	}}, func() {
		b.inside(in, &bframe{kind: fkBranch, holds: true, close: func(s ir.Stmt) ir.Stmt { t = s; return nil }}, then)
		if hasElse {
			b.org = org
			b.inside(in, &bframe{kind: fkBranch, holds: true, close: func(s ir.Stmt) ir.Stmt { e = s; return nil }}, els)
		}
	})
}

func (b *builder) while(in *interp, cond ir.Expr, body func()) {
	org := b.org
	b.inside(in, &bframe{kind: fkWhile, holds: true, close: func(s ir.Stmt) ir.Stmt {
		return &ir.While{Cond: in.checked(cond), Body: s, Org: org}
	}}, body)
}

func (b *builder) assert(in *interp, cond ir.Expr, msg value) {
	in.wantBool(cond)
	text, ok := textOf(msg)
	if !ok {
		text = in.str(msg)
	}
	b.add(in, &ir.Assert{Cond: in.checked(cond), Kind: "RuntimeError", Message: []ir.Expr{ir.Str(text)}, Org: b.org})
	b.push(in, &bframe{kind: fkAssert})
}

// pythonLoop reports that the innermost loop runs over Python values, so that
// break and continue are Python's.
func (b *builder) pythonLoop(in *interp) bool {
	i := b.find(0, fkPython, fkFor, fkWhile, fkMacro)
	if i < 0 || b.frames[i].kind != fkPython {
		return false
	}
	if b.find(i+1, fkIf) >= 0 {
		panic(in.errorf("break and continue of a loop over Python values cannot depend on a condition known only to the kernel").
			hint("loop with T.serial"))
	}
	return true
}

func (b *builder) loopExit(in *interp, op string) {
	if b.find(0, fkFor, fkWhile) < 0 {
		panic(in.errorf("there is no loop around").is("SyntaxError"))
	}
	b.push(in, &bframe{kind: fkExit})
	b.evaluate(in, &ir.Call{Op: ir.MustOp(op), Type: ir.DVoid})
}

// with enters a context for a body.
func (b *builder) with(in *interp, c ctxValue, body func(value)) {
	depth := len(b.frames)
	v := c.enter(in, b)
	body(v)
	b.popTo(in, depth)
}

// ctxValue is a construct that is entered: by with, or by standing alone, for
// the rest of the block.
type ctxValue interface {
	enter(in *interp, b *builder) value
}

// ret is a return statement's value.
func (b *builder) ret(in *interp, v value) value {
	if t, ok := v.(*tuple); ok {
		out := &tuple{make([]value, len(t.elts))}
		for i, x := range t.elts {
			out.elts[i] = b.unwrap(in, x)
		}
		v = out
	} else {
		v = b.unwrap(in, v)
	}
	if m := b.find(0, fkMacro); m >= 0 {
		if b.find(m, fkFor, fkWhile, fkIf) >= 0 {
			panic(in.errorf("a macro cannot return from within a loop or branch").
				hint("declare a variable with T.alloc_var before it, set it inside and return it after").is("NotImplementedError"))
		}
		return v
	}
	if b.find(0, fkFor, fkWhile, fkIf) >= 0 {
		panic(in.errorf("a kernel cannot return from within a loop or branch").hint("use T.thread_return()"))
	}
	var elts []value
	switch x := v.(type) {
	case noneType:
	case *tuple:
		elts = x.elts
	default:
		elts = []value{v}
	}
	for _, x := range elts {
		buf, ok := x.(*ir.Buffer)
		i := -1
		for k, o := range b.outs {
			if ok && o.buf == buf {
				i = k
			}
		}
		if i < 0 {
			panic(in.errorf("%s is returned: a kernel returns tensors made by T.empty", in.typeWithValue(x)).is("RuntimeError"))
		}
		b.outIdx = append(b.outIdx, i-len(b.outs))
	}
	b.returned = true
	if len(b.outIdx) != len(b.outs) {
		panic(in.errorf("not all tensors made by T.empty are returned").is("RuntimeError"))
	}
	return v
}

// currentBlock is where allocations and block attributes go.
func (b *builder) currentBlock() *blockInfo {
	for i := len(b.frames) - 1; i >= 0; i-- {
		if b.frames[i].block != nil {
			return b.frames[i].block
		}
	}
	return nil
}

// allocate makes a buffer of the current block, which the kernel owns.
func (b *builder) allocate(name string, t ir.DType, scope string, org ir.Span, shape ...ir.Expr) *ir.Buffer {
	buf := ir.NewBuffer(name, t, scope, shape...)
	buf.Org = org
	b.owned[buf.Data] = true
	blk := b.currentBlock()
	blk.allocs = append(blk.allocs, buf)
	return buf
}

// attrDict turns block attributes into an attribute in key order.
func attrDict(m map[string]ir.Attr) *ir.Dict {
	if len(m) == 0 {
		return nil
	}
	d := &ir.Dict{}
	for _, k := range sortedKeys(m) {
		d.Entries = append(d.Entries, ir.DictEntry{Key: ir.Str(k), Value: m[k]})
	}
	return d
}

// blockAttr sets an attribute of the current block. Maps are merged, newer
// entries first.
func (b *builder) blockAttr(in *interp, key string, v ir.Attr) {
	blk := b.currentBlock()
	if i := b.find(0, fkLaunch); i < 0 || blk == nil {
		panic(in.errorf("this belongs into a T.Kernel").is("ValueError"))
	}
	if d, ok := v.(*ir.Dict); ok {
		if old, ok := blk.attrs[key].(*ir.Dict); ok {
			merged := &ir.Dict{Entries: append([]ir.DictEntry(nil), d.Entries...)}
			for _, e := range old.Entries {
				dup := false
				for _, n := range d.Entries {
					if n.Key == e.Key {
						dup = true
					}
				}
				if !dup {
					merged.Entries = append(merged.Entries, e)
				}
			}
			v = merged
		}
	}
	blk.attrs[key] = v
}
