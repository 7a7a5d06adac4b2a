package loop

import "lowertrace/internal/ir"

// expr vectorizes an expression: the same one when it does not depend on the
// lane, else one with the loop's lanes.
func (v *vectorizer) expr(e ir.Expr) (ir.Expr, bool) {
	if !v.depends(e) {
		return e, true
	}
	if !e.DType().IsScalar() {
		v.fail("the body works on vectors already")
		return nil, false
	}
	switch e := e.(type) {
	case *ir.Var:
		if e == v.loop.Var {
			return &ir.Ramp{Base: v.loop.Min, Stride: ir.IntConst(e.Type, 1), Lanes: v.lanes}, true
		}
		return v.vecs[e], true
	case *ir.Cast:
		return v.cast(e)
	case *ir.Binary:
		a, ok := v.expr(e.A)
		b, ok2 := v.expr(e.B)
		if !ok || !ok2 {
			return nil, false
		}
		return v.binary(e.Op, a, b), true
	case *ir.Not:
		a, ok := v.expr(e.A)
		if !ok {
			return nil, false
		}
		return &ir.Not{A: a}, true
	case *ir.Select:
		c, ok := v.expr(e.Cond)
		t, ok2 := v.expr(e.True)
		f, ok3 := v.expr(e.False)
		if !ok || !ok2 || !ok3 {
			return nil, false
		}
		return &ir.Select{Cond: v.splat(c), True: v.splat(t), False: v.splat(f)}, true
	case *ir.BufferLoad:
		if e.Predicate != nil {
			v.fail("a predicated load")
			return nil, false
		}
		idx, ok := v.index(e.Buffer, e.Indices)
		if !ok {
			return nil, false
		}
		return &ir.BufferLoad{Buffer: e.Buffer, Indices: idx}, true
	case *ir.Call:
		return v.call(e)
	}
	v.fail("an expression that has no vector form")
	return nil, false
}

func (v *vectorizer) splat(e ir.Expr) ir.Expr { return ir.Splat(e, v.lanesOver(e)) }

// cast converts a vector. The lanes of a ramp stay a ramp when integers become
// wider ones: index arithmetic does not overflow.
func (v *vectorizer) cast(e *ir.Cast) (ir.Expr, bool) {
	x, ok := v.expr(e.Value)
	if !ok {
		return nil, false
	}
	if r, isRamp := x.(*ir.Ramp); isRamp && e.Type.IsInt() && r.Base.DType().IsInt() && e.Type.Bits >= r.Base.DType().Bits {
		return &ir.Ramp{Base: ir.CastTo(r.Base, e.Type), Stride: ir.CastTo(r.Stride, e.Type), Lanes: r.Lanes}, true
	}
	return &ir.Cast{Type: e.Type.WithLanes(int(x.DType().Lanes)), Value: x}, true
}

// binary applies an operator to operands of which at least one is a vector.
// Sums of a ramp and a scalar, and products, stay ramps.
func (v *vectorizer) binary(op ir.BinOp, a, b ir.Expr) ir.Expr {
	ra, okA := a.(*ir.Ramp)
	rb, okB := b.(*ir.Ramp)
	scalarA, scalarB := a.DType().IsScalar(), b.DType().IsScalar()
	switch {
	case scalarA && scalarB:
		return &ir.Binary{Op: op, A: a, B: b}
	case okA && okB && op == ir.Add, okA && okB && op == ir.Sub:
		return &ir.Ramp{Base: ir.NewBinary(op, ra.Base, rb.Base), Stride: ir.NewBinary(op, ra.Stride, rb.Stride), Lanes: v.lanes}
	case okA && scalarB && (op == ir.Add || op == ir.Sub):
		return &ir.Ramp{Base: ir.NewBinary(op, ra.Base, b), Stride: ra.Stride, Lanes: v.lanes}
	case okB && scalarA && op == ir.Add:
		return &ir.Ramp{Base: ir.NewBinary(op, a, rb.Base), Stride: rb.Stride, Lanes: v.lanes}
	case okA && scalarB && op == ir.Mul:
		return &ir.Ramp{Base: ir.NewBinary(op, ra.Base, b), Stride: ir.NewBinary(op, ra.Stride, b), Lanes: v.lanes}
	case okB && scalarA && op == ir.Mul:
		return &ir.Ramp{Base: ir.NewBinary(op, a, rb.Base), Stride: ir.NewBinary(op, a, rb.Stride), Lanes: v.lanes}
	}
	return &ir.Binary{Op: op, A: v.splat(a), B: v.splat(b)}
}

// call vectorizes calls that work lane by lane.
func (v *vectorizer) call(c *ir.Call) (ir.Expr, bool) {
	if c.Op == nil || c.Op.Effect != ir.Pure {
		v.fail("a call with an effect")
		return nil, false
	}
	if c.Op.Name == "if_then_else" {
		cond, ok := v.uniform(c.Args[0])
		if !ok {
			v.fail("the condition of T.if_then_else differs between lanes")
			return nil, false
		}
		if k, isConst := ir.AsInt(cond); isConst {
			return v.expr(c.Args[2-min(k, 1)])
		}
		t, ok := v.expr(c.Args[1])
		f, ok2 := v.expr(c.Args[2])
		if !ok || !ok2 {
			return nil, false
		}
		if t.DType().IsScalar() && f.DType().IsScalar() {
			return ir.NewCall(c.Op, cond, t, f), true
		}
		return ir.NewCall(c.Op, cond, v.splat(t), v.splat(f)), true
	}
	if !lanewise(c.Op) {
		v.fail("T.%s has no vector form", c.Op.Name)
		return nil, false
	}
	args := make([]ir.Expr, len(c.Args))
	wide := false
	for i, a := range c.Args {
		x, ok := v.expr(a)
		if !ok {
			return nil, false
		}
		args[i] = x
		wide = wide || !x.DType().IsScalar()
	}
	if !wide {
		return &ir.Call{Op: c.Op, Type: c.Type, Args: args, Attrs: c.Attrs}, true
	}
	for i := range args {
		args[i] = v.splat(args[i])
	}
	return &ir.Call{Op: c.Op, Type: c.Type.WithLanes(v.lanes), Args: args, Attrs: c.Attrs}, true
}

// lanewise reports operators whose result in a lane depends on that lane of
// the arguments alone: elementwise mathematics and reinterpretation.
func lanewise(o *ir.Op) bool {
	switch o.Rule {
	case ir.TypeArg0, ir.TypeMatch:
		return o.MinArgs > 0
	case ir.TypeFixed:
		return !o.Type.IsHandle() && o.MinArgs > 0 && o.Name != "launch_thread_idx"
	case ir.TypeFirst:
		return o.Name == "reinterpret"
	}
	return false
}
