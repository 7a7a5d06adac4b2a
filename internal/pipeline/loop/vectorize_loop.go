package loop

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/scoped"
)

// MaxVectorBits is the widest access of a thread: 128 bits.
const MaxVectorBits = 128

// VectorizeLoop turns vectorized loops into operations on vectors.
//
// Precondition: buffers are flat. Effect: the variable of a T.vectorized loop
// becomes a ramp; loads and stores of neighbouring elements become one vector
// access of at most 128 bits, the rest of the expressions follow. An
// asynchronous copy becomes one wider copy. A statement that cannot be
// vectorized as a whole runs in a serial loop over shorter vectors; or, when its
// conditions bound the lanes, vectorized where all lanes are within and serially
// where not; or, when that does not help (a condition or a bound that differs between lanes, a
// stride, a misaligned vector, a call with an effect), over single lanes, with a
// remark. Invariant:
// no T.vectorized loop is left; every lane computes what its iteration did.
//
//	for v in T.vectorized(4): Y[i * 4 + v] = X[i * 4 + v] * a
//	->  Y[i * 4:i * 4 + 4] = X[i * 4:i * 4 + 4] * T.Broadcast(a, 4)
var VectorizeLoop = &pipeline.Pass{
	Name:         "VectorizeLoop",
	Stage:        stage,
	Doc:          "turn vectorized loops into vector operations",
	Precondition: "Buffers are one-dimensional.",
	Effect:       "Bodies of T.vectorized loops work on vectors of as many lanes as the loop has iterations; what cannot be vectorized runs in a serial loop.",
	Before:       "for v in T.vectorized(4):\n    Y[i * 4 + v] = X[i * 4 + v] * a",
	After:        "Y[i * 4:i * 4 + 4] = X[i * 4:i * 4 + 4] * T.Broadcast(a, 4)",
	Run:          pipeline.BodyPass(nil, vectorizeLoops),
}

func vectorizeLoops(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	r := scoped.New()
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		loop, ok := s.(*ir.For)
		if !ok || loop.Kind != ir.Vectorized {
			return s, false
		}
		// Loops within are vectorized first.
		t := *loop
		undo := r.BindLoop(loop)
		t.Body = r.Stmt(loop.Body)
		undo()
		return vectorize(c, r, &t), true
	}
	return r.Stmt(f.Body), nil
}

func vectorize(c *pipeline.Context, r *scoped.Rewriter, loop *ir.For) ir.Stmt {
	n, ok := ir.AsInt(loop.Extent)
	if !ok {
		c.Remark(loop.Org, "not vectorized: the number of iterations of %s is not constant", loop.Var.Name)
		return serial(loop, loop.Body)
	}
	if loop.Step != nil && !ir.IsConst(loop.Step, 1) {
		c.Remark(loop.Org, "not vectorized: %s does not step by 1", loop.Var.Name)
		return serial(loop, loop.Body)
	}
	switch {
	case loop.Body == nil || n <= 0:
		return nil
	case n == 1:
		return freshWith(loop.Body, map[*ir.Var]ir.Expr{loop.Var: loop.Min})
	case n > ir.MaxLanes:
		c.Remark(loop.Org, "not vectorized: %d lanes", n)
		return serial(loop, loop.Body)
	}
	v := &vectorizer{ctx: c, r: r, loop: loop, lanes: int(n), vecs: map[*ir.Var]*ir.Var{}}
	// What holds for every value of the variable holds in every lane.
	defer r.BindLoop(loop)()
	if hasDefinitions(loop.Body) {
		// What a binding defines is a vector: either all its uses are
		// vectorized, or none.
		if out, ok := v.stmt(loop.Body); ok {
			return out
		}
		v.decline(loop.Org)
		return serial(loop, loop.Body)
	}
	return v.parts(loop.Body)
}

// hasDefinitions reports bindings or allocations directly in a statement list.
func hasDefinitions(s ir.Stmt) bool {
	for _, c := range ir.Stmts(s) {
		switch c.(type) {
		case *ir.Bind, *ir.AllocBuffer:
			return true
		}
	}
	return false
}

// serial runs body in a loop like the vectorized one, one iteration after the
// other.
func serial(loop *ir.For, body ir.Stmt) ir.Stmt {
	v := &ir.Var{Name: loop.Var.Name + "_s", Type: loop.Var.Type}
	return &ir.For{
		Var: v, Min: loop.Min, Extent: loop.Extent, Step: loop.Step, Kind: ir.Serial,
		Body: freshWith(body, map[*ir.Var]ir.Expr{loop.Var: v}), Org: loop.Org,
	}
}

// vectorizer rewrites the body of one loop.
type vectorizer struct {
	ctx   *pipeline.Context
	r     *scoped.Rewriter
	loop  *ir.For
	lanes int
	vecs  map[*ir.Var]*ir.Var // bindings that became vectors
	why   string              // why the last attempt failed
}

func (v *vectorizer) fail(format string, args ...any) {
	if v.why == "" {
		v.why = fmt.Sprintf(format, args...)
	}
}

func (v *vectorizer) decline(org ir.Span) {
	if v.why != "" {
		v.ctx.Remark(org, "not vectorized: %s", v.why)
	}
	v.why = ""
}

// parts vectorizes the statements of a list one by one; those that cannot be
// run serially.
func (v *vectorizer) parts(s ir.Stmt) ir.Stmt {
	list := ir.Stmts(s)
	out := make([]ir.Stmt, 0, len(list))
	for _, c := range list {
		if t, ok := v.stmt(c); ok {
			out = append(out, t)
			continue
		}
		if t := v.pieces(c); t != nil {
			v.why = ""
			out = append(out, t)
			continue
		}
		if t := v.guarded(c); t != nil {
			v.why = ""
			out = append(out, t)
			continue
		}
		v.decline(c.Origin())
		out = append(out, serial(v.loop, c))
	}
	return ir.Seq(out...)
}

// maxGuards bounds the conditions of a statement that guarded joins.
const maxGuards = 4

// guarded vectorizes a statement for the case in which its conditions hold in
// all lanes, which they do when they hold in the last one, or in the first and
// the last, and runs it serially in the other case: the accesses of all but the
// last block of a ragged array are vector accesses. Nil when that is not so.
func (v *vectorizer) guarded(s ir.Stmt) ir.Stmt {
	conds := v.conditions(s)
	if len(conds) == 0 || len(conds) > maxGuards {
		return nil
	}
	t := v.loop.Var.Type
	last := ir.NewBinary(ir.Add, v.loop.Min, ir.IntConst(t, int64(v.lanes-1)))
	for _, ends := range [][]ir.Expr{{last}, {v.loop.Min, last}} {
		var guard ir.Expr
		for _, c := range conds {
			for _, lane := range ends {
				guard = and(guard, ir.Substitute(c, ir.SubstMap(map[*ir.Var]ir.Expr{v.loop.Var: lane})))
			}
		}
		guard = v.r.An.Simplify(guard)
		if _, decided := ir.AsInt(guard); decided {
			continue
		}
		undo := v.r.An.WithConstraint(guard)
		all := true
		for _, c := range conds {
			all = all && v.r.An.CanProve(c)
		}
		var out ir.Stmt
		if all {
			out, all = v.stmt(s)
		}
		undo()
		if all {
			return &ir.IfThenElse{Cond: guard, Then: out, Else: serial(v.loop, s), Org: s.Origin()}
		}
	}
	return nil
}

// conditions are the different conditions of branches and choices in s that
// depend on the lane; none when one of them reads memory.
func (v *vectorizer) conditions(s ir.Stmt) []ir.Expr {
	var out []ir.Expr
	pure := true
	add := func(c ir.Expr) {
		if !v.depends(c) {
			return
		}
		pure = pure && ir.SideEffect(c) == ir.Pure
		for _, x := range out {
			if arith.Equal(x, c) {
				return
			}
		}
		out = append(out, c)
	}
	ir.Walk(s, func(s ir.Stmt) bool {
		if b, ok := s.(*ir.IfThenElse); ok {
			add(b.Cond)
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if c, ok := ir.IsCall(e, "if_then_else"); ok {
				add(c.Args[0])
			}
			return true
		})
		return true
	})
	if !pure {
		return nil
	}
	return out
}

// pieces vectorizes a statement in a serial loop over shorter vectors, of the
// largest length that works; nil when none does.
func (v *vectorizer) pieces(s ir.Stmt) ir.Stmt {
	t := v.loop.Var.Type
	for n := v.lanes / 2; n > 1; n-- {
		if v.lanes%n != 0 {
			continue
		}
		outer := &ir.Var{Name: v.loop.Var.Name + "_s", Type: t}
		inner := &ir.Var{Name: v.loop.Var.Name, Type: t}
		first := ir.NewBinary(ir.Add, v.loop.Min, ir.NewBinary(ir.Mul, outer, ir.IntConst(t, int64(n))))
		at := ir.NewBinary(ir.Add, first, inner)
		count := ir.IntConst(t, int64(v.lanes/n))
		w := &vectorizer{
			ctx: v.ctx, r: v.r, lanes: n, vecs: map[*ir.Var]*ir.Var{},
			loop: &ir.For{Var: inner, Min: ir.IntConst(t, 0), Extent: ir.IntConst(t, int64(n)), Kind: ir.Vectorized, Org: v.loop.Org},
		}
		undo := v.r.An.BindVar(outer, ir.IntConst(t, 0), count)
		undoLane := v.r.BindLoop(w.loop)
		body, ok := w.stmt(freshWith(s, map[*ir.Var]ir.Expr{v.loop.Var: at}))
		undoLane()
		undo()
		if ok {
			return &ir.For{Var: outer, Min: ir.IntConst(t, 0), Extent: count, Kind: ir.Serial, Body: body, Org: v.loop.Org}
		}
	}
	return nil
}

func (v *vectorizer) stmt(s ir.Stmt) (ir.Stmt, bool) {
	switch s := s.(type) {
	case nil:
		return nil, true
	case *ir.SeqStmt:
		out := make([]ir.Stmt, 0, len(s.Seq))
		for _, c := range s.Seq {
			t, ok := v.stmt(c)
			if !ok {
				return nil, false
			}
			out = append(out, t)
		}
		return ir.Seq(out...), true
	case *ir.DeclBuffer:
		return s, true
	case *ir.AttrStmt:
		if v.dependsAttr(s.Node) || v.dependsAttr(s.Value) {
			v.fail("the attribute %q depends on the lane", s.Key)
			return nil, false
		}
		body, ok := v.stmt(s.Body)
		if !ok {
			return nil, false
		}
		t := *s
		t.Body = body
		return &t, true
	case *ir.Bind:
		val, ok := v.expr(s.Value)
		if !ok {
			return nil, false
		}
		if val.DType() == s.Var.Type {
			return &ir.Bind{Var: s.Var, Value: val, Org: s.Org}, true
		}
		w := &ir.Var{Name: s.Var.Name, Type: val.DType()}
		v.vecs[s.Var] = w
		return &ir.Bind{Var: w, Value: val, Org: s.Org}, true
	case *ir.For:
		return v.forLoop(s)
	case *ir.IfThenElse:
		cond, ok := v.uniform(s.Cond)
		if !ok {
			v.fail("the condition differs between lanes")
			return nil, false
		}
		if k, isConst := ir.AsInt(cond); isConst {
			if k != 0 {
				return v.stmt(s.Then)
			}
			return v.stmt(s.Else)
		}
		then, ok := v.stmt(s.Then)
		other, ok2 := v.stmt(s.Else)
		if !ok || !ok2 {
			return nil, false
		}
		return &ir.IfThenElse{Cond: cond, Then: then, Else: other, Org: s.Org}, true
	case *ir.BufferStore:
		return v.store(s)
	case *ir.Evaluate:
		return v.evaluate(s)
	}
	v.fail("a %s in the loop", kindOf(s))
	return nil, false
}

// kindOf names a statement for a remark.
func kindOf(s ir.Stmt) string {
	switch s.(type) {
	case *ir.While:
		return "while loop"
	case *ir.Assert:
		return "assertion"
	case *ir.AllocBuffer:
		return "allocation"
	case *ir.SBlock:
		return "block"
	}
	return "statement"
}

func (v *vectorizer) forLoop(s *ir.For) (ir.Stmt, bool) {
	for _, e := range []ir.Expr{s.Min, s.Extent, s.Step} {
		if e != nil && v.depends(e) {
			v.fail("the bounds of %s differ between lanes", s.Var.Name)
			return nil, false
		}
	}
	undo := v.r.BindLoop(s)
	body, ok := v.stmt(s.Body)
	undo()
	if !ok {
		return nil, false
	}
	t := *s
	t.Body = body
	return &t, true
}

// depends reports that e differs between lanes.
func (v *vectorizer) depends(e ir.Expr) bool {
	return ir.UsesVar(e, func(x *ir.Var) bool { return x == v.loop.Var || v.vecs[x] != nil })
}

func (v *vectorizer) dependsAttr(a ir.Attr) bool {
	found := false
	ir.WalkAttr(a, func(e ir.Expr) bool {
		if x, ok := e.(*ir.Var); ok && (x == v.loop.Var || v.vecs[x] != nil) {
			found = true
		}
		return !found
	})
	return found
}

// uniform is a scalar that has the value of e in every lane.
func (v *vectorizer) uniform(e ir.Expr) (ir.Expr, bool) {
	if !v.depends(e) {
		return e, true
	}
	if e.DType() == ir.DBool && v.r.An.CanProve(e) {
		return ir.BoolConst(true), true
	}
	x, ok := v.expr(e)
	if !ok {
		return nil, false
	}
	switch x := v.r.An.Simplify(x).(type) {
	case *ir.Broadcast:
		if x.Lanes == v.lanes {
			return x.Value, true
		}
	default:
		if x.DType().IsScalar() {
			return x, true
		}
	}
	return nil, false
}

// index vectorizes the index of an access: a scalar, or a ramp of stride 1.
func (v *vectorizer) index(b *ir.Buffer, indices []ir.Expr) ([]ir.Expr, bool) {
	for i, e := range indices {
		if !v.depends(e) {
			continue
		}
		if i != len(indices)-1 {
			v.fail("%s is not flat", b.Name)
			return nil, false
		}
		x, ok := v.expr(e)
		if !ok {
			return nil, false
		}
		x = v.r.An.Simplify(x)
		switch y := x.(type) {
		case *ir.Broadcast:
			if y.Lanes == v.lanes && y.Value.DType().IsScalar() {
				x = y.Value
			}
		case *ir.Ramp:
			if !ir.IsConst(y.Stride, 1) {
				if k, ok := ir.AsInt(y.Stride); ok {
					v.fail("index stride %d", k)
				} else {
					v.fail("index stride is not constant")
				}
				return nil, false
			}
			if bits := int(b.Type.Bits) * int(b.Type.Lanes) * y.Lanes; bits > MaxVectorBits {
				v.fail("%d bits of %s in one access", bits, b.Name)
				return nil, false
			}
			// A vector lies at a multiple of its size.
			if !v.r.An.IsMultipleOf(y.Base, int64(y.Lanes)) {
				v.fail("the index of %s is not known to be a multiple of %d", b.Name, y.Lanes)
				return nil, false
			}
		default:
			if !x.DType().IsScalar() {
				v.fail("the index of %s is not linear", b.Name)
				return nil, false
			}
		}
		out := append([]ir.Expr(nil), indices...)
		out[i] = x
		return out, true
	}
	return indices, true
}

func (v *vectorizer) store(s *ir.BufferStore) (ir.Stmt, bool) {
	if s.Predicate != nil {
		v.fail("a predicated store")
		return nil, false
	}
	if len(s.Indices) == 0 {
		v.fail("%s is not flat", s.Buffer.Name)
		return nil, false
	}
	if !s.Value.DType().IsScalar() {
		v.fail("the body works on vectors already")
		return nil, false
	}
	idx, ok := v.index(s.Buffer, s.Indices)
	if !ok {
		return nil, false
	}
	val, ok := v.expr(s.Value)
	if !ok {
		return nil, false
	}
	wide := !idx[len(idx)-1].DType().IsScalar()
	switch {
	case wide:
		val = ir.Splat(val, v.lanesOver(val))
	case !val.DType().IsScalar():
		v.fail("all lanes write one element of %s", s.Buffer.Name)
		return nil, false
	default:
		again := false
		ir.WalkExpr(val, func(e ir.Expr) bool {
			if l, ok := e.(*ir.BufferLoad); ok && l.Buffer.Data == s.Buffer.Data {
				again = true
			}
			return !again
		})
		if again || ir.SideEffect(val) > ir.ReadState {
			v.fail("lanes update one element of %s in turn", s.Buffer.Name)
			return nil, false
		}
	}
	return &ir.BufferStore{Buffer: s.Buffer, Indices: idx, Value: val, Org: s.Org}, true
}

// lanesOver is how often a value must be repeated to have the loop's lanes.
func (v *vectorizer) lanesOver(e ir.Expr) int {
	if e.DType().IsScalar() {
		return v.lanes
	}
	return 1
}

func (v *vectorizer) evaluate(s *ir.Evaluate) (ir.Stmt, bool) {
	if call, ok := ir.IsCall(s.Value, "ptx_cp_async"); ok {
		return v.asyncCopy(s, call)
	}
	if call, ok := ir.IsCall(s.Value, "atomic_add_elem_op"); ok {
		return v.atomicAdd(s, call)
	}
	if ir.SideEffect(s.Value) <= ir.ReadState {
		return s, !v.depends(s.Value)
	}
	if c, ok := s.Value.(*ir.Call); ok && c.Op != nil {
		v.fail("T.%s has an effect", c.Op.Name)
	} else {
		v.fail("a call with an effect")
	}
	return nil, false
}

// atomicAdd makes one atomic addition of two or four neighbouring elements
// where the target has it: pairs of 16-bit floats (PTX ISA, "red", .noftz.f16x2
// and .bf16x2), and from sm_90 on two or four float32 in global memory (".v2"
// and ".v4"). The address must be a multiple of the vector.
func (v *vectorizer) atomicAdd(s *ir.Evaluate, call *ir.Call) (ir.Stmt, bool) {
	p, ok := ir.IsCall(call.Args[0], "tvm_access_ptr")
	if !ok {
		v.fail("T.atomic_add_elem_op has an effect")
		return nil, false
	}
	data, isVar := p.Args[1].(*ir.Var)
	typ, isType := ir.IsCall(p.Args[0], "type_annotation")
	if !isVar || !isType || !v.hasVectorAtomic(typ.Type, data) {
		v.fail("no atomic addition of %d neighbouring elements", v.lanes)
		return nil, false
	}
	off, ok := v.expr(p.Args[2])
	if !ok {
		return nil, false
	}
	ramp, ok := v.r.An.Simplify(off).(*ir.Ramp)
	if !ok || !ir.IsConst(ramp.Stride, 1) || !v.r.An.IsMultipleOf(ramp.Base, int64(v.lanes)) {
		v.fail("the elements of the atomic addition are no aligned neighbours")
		return nil, false
	}
	val, ok := v.expr(call.Args[1])
	if !ok {
		return nil, false
	}
	for _, a := range call.Args[2:] {
		if v.depends(a) {
			v.fail("the order of the atomic addition differs between lanes")
			return nil, false
		}
	}
	ptr := append([]ir.Expr(nil), p.Args...)
	ptr[2] = ramp.Base
	args := append([]ir.Expr(nil), call.Args...)
	args[0] = &ir.Call{Op: p.Op, Type: p.Type, Args: ptr, Attrs: p.Attrs}
	args[1] = v.splat(val)
	op := ir.MustOp(map[int]string{2: "atomic_addx2_elem_op", 4: "atomic_addx4_elem_op"}[v.lanes])
	return &ir.Evaluate{Value: &ir.Call{Op: op, Type: ir.DVoid, Args: args, Attrs: call.Attrs}, Org: s.Org}, true
}

func (v *vectorizer) hasVectorAtomic(t ir.DType, data *ir.Var) bool {
	target := v.ctx.Target
	if target == nil {
		return false
	}
	switch {
	case t == ir.DFloat16 || t == ir.DBFloat16 && target.Features.BF16:
		return v.lanes == 2
	case t == ir.DFloat32:
		global := data.Ptr == nil || data.Ptr.Scope == "" || data.Ptr.Scope == "global"
		return target.Features.TMA && global && (v.lanes == 2 || v.lanes == 4)
	}
	return false
}

// asyncCopy widens an asynchronous copy: one copy of as many elements as the
// loop has lanes, when source and destination advance together.
func (v *vectorizer) asyncCopy(s *ir.Evaluate, call *ir.Call) (ir.Stmt, bool) {
	n, ok := ir.AsInt(call.Args[2])
	if !ok || len(call.Args) > 4 {
		v.fail("the size of the asynchronous copy is not constant")
		return nil, false
	}
	args := append([]ir.Expr(nil), call.Args...)
	for i := range 2 {
		p, ok := ir.IsCall(call.Args[i], "tvm_access_ptr")
		if !ok {
			v.fail("an address that is not a pointer to an element")
			return nil, false
		}
		off, ok := v.expr(p.Args[2])
		if !ok {
			return nil, false
		}
		ramp, ok := v.r.An.Simplify(off).(*ir.Ramp)
		if !ok || !ir.IsConst(ramp.Stride, n) {
			v.fail("the asynchronous copy is not contiguous")
			return nil, false
		}
		t, _ := ir.Pointee(p)
		if typ, ok := ir.IsCall(p.Args[0], "type_annotation"); ok {
			t = typ.Type
		}
		if bytes := t.Bytes() * int(n) * v.lanes; bytes != 4 && bytes != 8 && bytes != 16 {
			v.fail("an asynchronous copy of %d bytes", bytes)
			return nil, false
		}
		ptr := append([]ir.Expr(nil), p.Args...)
		ptr[2] = ramp.Base
		args[i] = &ir.Call{Op: p.Op, Type: p.Type, Args: ptr, Attrs: p.Attrs}
	}
	args[2] = ir.IntConst(call.Args[2].DType(), n*int64(v.lanes))
	if len(args) > 3 {
		pred, ok := v.uniform(args[3])
		if !ok {
			v.fail("the condition of the asynchronous copy differs between lanes")
			return nil, false
		}
		args[3] = pred
	}
	return &ir.Evaluate{Value: &ir.Call{Op: call.Op, Type: call.Type, Args: args, Attrs: call.Attrs}, Org: s.Org}, true
}
