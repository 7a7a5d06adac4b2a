package arith

import "lowertrace/internal/ir"

// Equal reports that two expressions are the same tree over the same variables
// and buffers, and that evaluating either gives the same value: calls that do
// more than compute from their arguments are equal only to themselves. Loads
// of one element are equal, since nothing is written within an expression.
func Equal(a, b ir.Expr) bool { return equal(a, b, false) }

// Same is Equal up to the order of sums, products, minima and maxima of
// integers, and of both sides of == and !=.
func Same(a, b ir.Expr) bool { return equal(a, b, true) }

func equal(a, b ir.Expr, loose bool) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	switch a := a.(type) {
	case *ir.IntImm:
		b, ok := b.(*ir.IntImm)
		return ok && *a == *b
	case *ir.FloatImm:
		b, ok := b.(*ir.FloatImm)
		return ok && a.Type == b.Type && sameFloat(a.Value, b.Value)
	case *ir.StringImm:
		b, ok := b.(*ir.StringImm)
		return ok && *a == *b
	case *ir.Cast:
		b, ok := b.(*ir.Cast)
		return ok && a.Type == b.Type && equal(a.Value, b.Value, loose)
	case *ir.Binary:
		b, ok := b.(*ir.Binary)
		if !ok {
			return false
		}
		if a.Op == b.Op && equal(a.B, b.B, loose) && equal(a.A, b.A, loose) {
			return true
		}
		return loose && sameInAnyOrder(a, b)
	case *ir.Not:
		b, ok := b.(*ir.Not)
		return ok && equal(a.A, b.A, loose)
	case *ir.Select:
		b, ok := b.(*ir.Select)
		return ok && equal(a.Cond, b.Cond, loose) && equal(a.True, b.True, loose) && equal(a.False, b.False, loose)
	case *ir.Ramp:
		b, ok := b.(*ir.Ramp)
		return ok && a.Lanes == b.Lanes && equal(a.Base, b.Base, loose) && equal(a.Stride, b.Stride, loose)
	case *ir.Broadcast:
		b, ok := b.(*ir.Broadcast)
		return ok && a.Lanes == b.Lanes && equal(a.Value, b.Value, loose)
	case *ir.Shuffle:
		b, ok := b.(*ir.Shuffle)
		return ok && equalList(a.Vectors, b.Vectors, loose) && equalList(a.Indices, b.Indices, loose)
	case *ir.BufferLoad:
		b, ok := b.(*ir.BufferLoad)
		return ok && a.Buffer == b.Buffer && equalList(a.Indices, b.Indices, loose) && equal(a.Predicate, b.Predicate, loose)
	case *ir.Call:
		b, ok := b.(*ir.Call)
		return ok && a.Op != nil && a.Op == b.Op && a.Op.Effect == ir.Pure && a.Type == b.Type &&
			len(a.Attrs) == 0 && len(b.Attrs) == 0 && equalList(a.Args, b.Args, loose)
	}
	return false
}

func sameFloat(a, b float64) bool { return a == b && (a != 0 || 1/a == 1/b) }

func equalList(a, b []ir.Expr, loose bool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i], loose) {
			return false
		}
	}
	return true
}

// sameInAnyOrder matches the operands of a commutative operator, those of a
// chain of additions and subtractions all at once.
func sameInAnyOrder(a, b *ir.Binary) bool {
	if t := a.A.DType(); !t.IsInteger() || b.A.DType() != t {
		return false
	}
	switch a.Op {
	case ir.Mul, ir.Min, ir.Max, ir.EQ, ir.NE:
		return a.Op == b.Op && equal(a.A, b.B, true) && equal(a.B, b.A, true)
	case ir.Add, ir.Sub:
		if b.Op != ir.Add && b.Op != ir.Sub {
			return false
		}
		x, y := addends(a, false, nil), addends(b, false, nil)
		if len(x) != len(y) || len(x) > MaxTerms {
			return false
		}
	next:
		for _, p := range x {
			for j := range y {
				if y[j].e != nil && p.minus == y[j].minus && equal(p.e, y[j].e, true) {
					y[j].e = nil
					continue next
				}
			}
			return false
		}
		return true
	}
	return false
}

type addend struct {
	e     ir.Expr
	minus bool
}

// addends appends the terms of a chain; it gives up beyond MaxTerms.
func addends(e ir.Expr, minus bool, to []addend) []addend {
	if len(to) > MaxTerms {
		return to
	}
	if b, ok := e.(*ir.Binary); ok && (b.Op == ir.Add || b.Op == ir.Sub) {
		to = addends(b.A, minus, to)
		return addends(b.B, minus != (b.Op == ir.Sub), to)
	}
	return append(to, addend{e, minus})
}
