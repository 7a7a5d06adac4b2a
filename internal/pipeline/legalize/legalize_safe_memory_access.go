package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/scoped"
)

// DisableSafeMemoryLegalize switches LegalizeSafeMemoryAccess off: accesses
// out of bounds are then the kernel's own responsibility.
var DisableSafeMemoryLegalize = pipeline.RegisterOption(pipeline.Option{
	Key: "tl.disable_safe_memory_legalize", Default: false,
	Doc: "leave accesses to global memory unguarded",
})

// LegalizeSafeMemoryAccess guards accesses to global memory whose indices are
// not provably within their buffer.
//
// Precondition: tile operators are lowered. Effect: a load becomes
// if_then_else(in bounds, load, safe value), where the safe value is 0 or what
// the block attribute "safe_value_map" names; a store, or a call that is given
// the address of an element, runs under an if; cp.async gets the condition as
// its predicate, which fills with zero. Invariant: an access in bounds does
// what it did.
//
//	C[i] = A[i]  ->  if i < n: C[i] = T.if_then_else(i < n, A[i], 0)
var LegalizeSafeMemoryAccess = &pipeline.Pass{
	Name:         "LegalizeSafeMemoryAccess",
	Stage:        stage,
	Doc:          "guard global accesses that may lie out of bounds",
	Precondition: "Tile operators are lowered to loads, stores and element calls.",
	Effect:       "A load whose indices are not provably in bounds gives the safe value of its buffer instead (0 unless T.annotate_safe_value says otherwise); such a store or element call is skipped; an asynchronous copy fills with zeros.",
	Before:       "C[bx * 256 + i] = A[bx * 256 + i]",
	After:        "if bx * 256 + i < n:\n    C[bx * 256 + i] = T.if_then_else(bx * 256 + i < n, A[bx * 256 + i], T.float32(0.0))",
	Options:      []string{DisableSafeMemoryLegalize},
	Run:          pipeline.BodyPass(nil, guardAccesses),
}

type guard struct {
	*scoped.Rewriter
	ctx  *pipeline.Context
	safe map[*ir.Var]ir.Expr // safe values by data pointer
	// addressed is not 0 within the operand of an address: nothing is loaded
	// there.
	addressed int
}

func guardAccesses(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	if c.Bool(DisableSafeMemoryLegalize) {
		return f.Body, nil
	}
	g := &guard{Rewriter: scoped.New(), ctx: c, safe: map[*ir.Var]ir.Expr{}}
	g.PreStmt, g.PreExpr = g.stmt, g.expr
	return g.Stmt(f.Body), nil
}

func (g *guard) stmt(s ir.Stmt) (ir.Stmt, bool) {
	switch s := s.(type) {
	case *ir.SBlock:
		if d, ok := s.Annotations.Get("safe_value_map").(*ir.Dict); ok {
			for _, e := range d.Entries {
				v, isVar := e.Key.(*ir.Var)
				val, isExpr := e.Value.(ir.Expr)
				if isVar && isExpr {
					g.safe[v] = val
				}
			}
		}
		t := *s
		t.Init, t.Body = g.Stmt(s.Init), g.Stmt(s.Body)
		if t.Init == s.Init && t.Body == s.Body {
			return s, true
		}
		return &t, true
	case *ir.BufferStore:
		t := g.Inside(s).(*ir.BufferStore)
		if s.Buffer.Scope() != "global" {
			return t, true
		}
		var out ir.Stmt = t
		for i := range t.Indices {
			if cond := g.inDimension(t.Buffer, t.Indices, i); cond != nil {
				out = &ir.IfThenElse{Cond: cond, Then: out, Org: s.Org}
			}
		}
		return out, true
	case *ir.Evaluate:
		call, ok := s.Value.(*ir.Call)
		if !ok || call.Op == nil || call.Op.Tile {
			return s, true
		}
		if call.Op.Name == "ptx_cp_async" {
			return g.asyncCopy(s), true
		}
		t := g.Inside(s)
		for _, cond := range g.addresses(call) {
			t = &ir.IfThenElse{Cond: cond, Then: t, Org: s.Org}
		}
		return t, true
	}
	return s, false
}

func (g *guard) expr(e ir.Expr) (ir.Expr, bool) {
	switch e := e.(type) {
	case *ir.Call:
		if e.Op == nil || !takesAddress(e.Op.Name) {
			return e, false
		}
		g.addressed++
		out := g.InsideExpr(e)
		g.addressed--
		return out, true
	case *ir.BufferLoad:
		outer := g.addressed
		g.addressed = 0 // the indices are evaluated even when only the address is taken
		l := g.InsideExpr(e).(*ir.BufferLoad)
		g.addressed = outer
		if outer > 0 || e.Buffer.Scope() != "global" {
			return l, true
		}
		var out ir.Expr = l
		var other ir.Expr
		for _, cond := range g.conditions(l.Buffer, l.Indices) {
			if other == nil {
				other = g.safeValue(l)
			}
			out = ir.NewCall(ir.MustOp("if_then_else"), cond, out, other)
		}
		return out, true
	}
	return e, false
}

func takesAddress(op string) bool {
	return op == "access_ptr" || op == "address_of" || op == "region" || op == "tvm_access_ptr"
}

// safeValue is what a load out of bounds gives.
func (g *guard) safeValue(l *ir.BufferLoad) ir.Expr {
	t := l.DType()
	if v, ok := g.safe[l.Buffer.Data]; ok {
		return ir.Splat(ir.CastTo(v, t.Scalar()), int(t.Lanes))
	}
	if t.IsHandle() {
		return ir.NewTypedCall(ir.MustOp("reinterpret"), t, ir.IntConst(ir.DUInt64, 0))
	}
	return ir.Const(t, 0)
}

// conditions are what must hold for an access to be in bounds and is not known
// to: for each dimension the upper end, then the lower one.
func (g *guard) conditions(b *ir.Buffer, indices []ir.Expr) []ir.Expr {
	var out []ir.Expr
	for i := range indices {
		upper, lower := g.ends(b, indices, i)
		if upper != nil {
			out = append(out, upper)
		}
		if lower != nil {
			out = append(out, lower)
		}
	}
	return out
}

// inDimension is the condition of one dimension, nil when it is known to hold.
func (g *guard) inDimension(b *ir.Buffer, indices []ir.Expr, i int) ir.Expr {
	upper, lower := g.ends(b, indices, i)
	switch {
	case upper == nil && lower == nil:
		return nil
	case lower == nil:
		return upper
	case upper == nil:
		return lower
	}
	return &ir.Binary{Op: ir.And, A: upper, B: lower}
}

func (g *guard) ends(b *ir.Buffer, indices []ir.Expr, i int) (upper, lower ir.Expr) {
	if len(indices) != len(b.Shape) {
		return nil, nil
	}
	first, last := indices[i], indices[i]
	if r, ok := first.(*ir.Ramp); ok {
		first = r.Base
		last = ir.NewBinary(ir.Add, r.Base, ir.NewBinary(ir.Mul, r.Stride, ir.IntConst(r.Stride.DType(), int64(r.Lanes-1))))
		if bd := g.An.Bound(r.Stride); bd.Max < 0 {
			first, last = last, first
		}
	}
	if first.DType().Lanes != 1 || !first.DType().IsInteger() {
		return nil, nil
	}
	extent := b.Shape[i]
	x, y, err := ir.MatchTypes(last, extent)
	if err != nil {
		return nil, nil
	}
	if c := (&ir.Binary{Op: ir.LT, A: x, B: y}); !g.An.CanProve(c) {
		upper = c
	}
	if first.DType().IsInt() {
		if c := (&ir.Binary{Op: ir.GE, A: first, B: ir.IntConst(first.DType(), 0)}); !g.An.CanProve(c) {
			lower = c
		}
	}
	return upper, lower
}

// addresses are the conditions of the global elements whose address a call
// takes.
func (g *guard) addresses(call *ir.Call) []ir.Expr {
	var out []ir.Expr
	for _, a := range call.Args {
		p, ok := a.(*ir.Call)
		if !ok || p.Op == nil || p.Op.Name != "access_ptr" && p.Op.Name != "address_of" {
			continue
		}
		if l, ok := p.Args[0].(*ir.BufferLoad); ok && l.Buffer.Scope() == "global" {
			for _, c := range g.conditions(l.Buffer, pointed(l, p)) {
				if !contains(out, c) {
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// pointed is the index of the elements a pointer gives access to: its extent
// counts along the last dimension as long as it stays within it.
func pointed(l *ir.BufferLoad, p *ir.Call) []ir.Expr {
	if p.Op.Name != "access_ptr" || len(l.Indices) == 0 {
		return l.Indices
	}
	last := len(l.Indices) - 1
	n, ok := ir.AsInt(p.Args[1])
	size, ok2 := ir.AsInt(l.Buffer.Shape[last])
	if !ok || n < 2 || n > ir.MaxLanes || ok2 && n > size || !l.Indices[last].DType().IsScalar() {
		return l.Indices
	}
	out := append([]ir.Expr(nil), l.Indices...)
	out[last] = &ir.Ramp{Base: out[last], Stride: ir.IntConst(out[last].DType(), 1), Lanes: int(n)}
	return out
}

func contains(list []ir.Expr, e ir.Expr) bool {
	for _, x := range list {
		if arith.Equal(x, e) {
			return true
		}
	}
	return false
}

// asyncCopy gives an asynchronous copy the bounds of its source as predicate.
// A bound of its destination, which is in shared memory, guards the statement.
func (g *guard) asyncCopy(s *ir.Evaluate) ir.Stmt {
	t := g.Inside(s).(*ir.Evaluate)
	call := t.Value.(*ir.Call)
	var pred ir.Expr
	undo := func() {}
	if len(call.Args) > 3 {
		pred = call.Args[3]
		if pred.DType() == ir.DBool {
			undo = g.An.WithConstraint(pred)
		}
	}
	conds := g.addresses(call)
	undo()
	if len(conds) == 0 {
		return t
	}
	for _, c := range conds {
		if pred == nil {
			pred = c
		} else {
			pred = ir.NewBinary(ir.And, pred, c)
		}
	}
	args := append([]ir.Expr(nil), call.Args[:3]...)
	args = append(args, g.An.Simplify(pred))
	if len(call.Args) > 4 {
		args = append(args, call.Args[4:]...)
	}
	return &ir.Evaluate{Value: &ir.Call{Op: call.Op, Type: call.Type, Args: args, Attrs: call.Attrs}, Org: s.Org}
}
