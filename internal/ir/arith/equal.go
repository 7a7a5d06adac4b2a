package arith

import "lowertrace/internal/ir"

// Equal reports that two expressions are the same tree over the same variables
// and buffers, and that evaluating either gives the same value: calls that do
// more than compute from their arguments are equal only to themselves. Loads
// of one element are equal, since nothing is written within an expression.
func Equal(a, b ir.Expr) bool {
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
		return ok && a.Type == b.Type && Equal(a.Value, b.Value)
	case *ir.Binary:
		b, ok := b.(*ir.Binary)
		return ok && a.Op == b.Op && Equal(a.B, b.B) && Equal(a.A, b.A)
	case *ir.Not:
		b, ok := b.(*ir.Not)
		return ok && Equal(a.A, b.A)
	case *ir.Select:
		b, ok := b.(*ir.Select)
		return ok && Equal(a.Cond, b.Cond) && Equal(a.True, b.True) && Equal(a.False, b.False)
	case *ir.Ramp:
		b, ok := b.(*ir.Ramp)
		return ok && a.Lanes == b.Lanes && Equal(a.Base, b.Base) && Equal(a.Stride, b.Stride)
	case *ir.Broadcast:
		b, ok := b.(*ir.Broadcast)
		return ok && a.Lanes == b.Lanes && Equal(a.Value, b.Value)
	case *ir.Shuffle:
		b, ok := b.(*ir.Shuffle)
		return ok && equalList(a.Vectors, b.Vectors) && equalList(a.Indices, b.Indices)
	case *ir.BufferLoad:
		b, ok := b.(*ir.BufferLoad)
		return ok && a.Buffer == b.Buffer && equalList(a.Indices, b.Indices) && Equal(a.Predicate, b.Predicate)
	case *ir.Call:
		b, ok := b.(*ir.Call)
		return ok && a.Op != nil && a.Op == b.Op && a.Op.Effect == ir.Pure && a.Type == b.Type &&
			len(a.Attrs) == 0 && len(b.Attrs) == 0 && equalList(a.Args, b.Args)
	}
	return false
}

func sameFloat(a, b float64) bool { return a == b && (a != 0 || 1/a == 1/b) }

func equalList(a, b []ir.Expr) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
