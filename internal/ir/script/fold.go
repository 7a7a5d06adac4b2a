package script

import "lowertrace/internal/ir"

// folds reports whether TVM's operator would give something else than a node
// of that operator on exactly these operands (tvm/arith/const_fold.h). Infix
// spelling stands for the operator, so such nodes are printed in function
// form, T.Mul(0, 32).
func folds(op ir.BinOp, a, b ir.Expr) bool {
	if a.DType() != b.DType() {
		return true
	}
	ia, _ := a.(*ir.IntImm)
	ib, _ := b.(*ir.IntImm)
	if ia != nil || ib != nil {
		if ia != nil && ib != nil {
			if op == ir.TruncMod || op == ir.FloorMod {
				return isIndexType(ia.Type)
			}
			return true
		}
		switch op {
		case ir.Add:
			return ia != nil && ia.Value == 0 || ib != nil && ib.Value == 0
		case ir.Sub:
			return ib != nil && ib.Value == 0
		case ir.Mul:
			return ia != nil && uint64(ia.Value) <= 1 || ib != nil && uint64(ib.Value) <= 1
		case ir.Div, ir.FloorDiv:
			return ia != nil && ia.Value == 0 || ib != nil && ib.Value == 1
		case ir.TruncMod, ir.FloorMod:
			return isIndexType(a.DType()) && (ia != nil && ia.Value == 0 || ib != nil && ib.Value == 1)
		case ir.And, ir.Or:
			return true
		}
		return false
	}
	fa, _ := a.(*ir.FloatImm)
	fb, _ := b.(*ir.FloatImm)
	if fa == nil && fb == nil {
		return false
	}
	if fa != nil && fb != nil {
		switch {
		case op.IsComparison() || op == ir.Min || op == ir.Max:
			return true
		case op <= ir.Div || op == ir.FloorDiv:
			// Folded in float and double only; the neutral elements below
			// count for the narrow types.
			if fa.Type == ir.DFloat32 || fa.Type == ir.DFloat64 {
				return true
			}
		}
	}
	zero := func(f *ir.FloatImm) bool { return f != nil && f.Value == 0 }
	one := func(f *ir.FloatImm) bool { return f != nil && f.Value == 1 }
	switch op {
	case ir.Add:
		return zero(fa) || zero(fb)
	case ir.Sub:
		return zero(fb)
	case ir.Mul:
		return zero(fa) || zero(fb) || one(fa) || one(fb)
	case ir.Div, ir.FloorDiv:
		return zero(fa) || one(fb)
	}
	return false
}

func isIndexType(t ir.DType) bool {
	return t.IsInt() && t.IsScalar() && (t.Bits == 32 || t.Bits == 64)
}

// plus is a + b as TVM's operator gives it.
func plus(a, b ir.Expr) ir.Expr { return combine(ir.Add, a, b) }

// combine is an operator as TVM gives it; operands of types that do not go
// together, which malformed IR may hold, stay as they are.
func combine(op ir.BinOp, a, b ir.Expr) ir.Expr {
	if folds(op, a, b) {
		if _, _, err := ir.MatchTypes(a, b); err == nil {
			return ir.NewBinary(op, a, b)
		}
	}
	return &ir.Binary{Op: op, A: a, B: b}
}

// distance is hi - lo where hi was printed as lo + distance: the inverse of
// plus. For ends that were not, it is their difference, as a constant if the
// terms that are not constant cancel out.
func distance(lo, hi ir.Expr) ir.Expr {
	if ir.IsConst(lo, 0) {
		return hi
	}
	if sum, ok := hi.(*ir.Binary); ok && sum.Op == ir.Add && equal(sum.A, lo) {
		return sum.B
	}
	if c, ok := constDifference(lo, hi); ok {
		return ir.IntConst(hi.DType(), c)
	}
	return combine(ir.Sub, hi, lo)
}

// equal reports whether two expressions are the same, variable for variable.
func equal(a, b ir.Expr) bool {
	if a == b {
		return true
	}
	switch a := a.(type) {
	case *ir.IntImm:
		b, ok := b.(*ir.IntImm)
		return ok && *a == *b
	case *ir.FloatImm:
		b, ok := b.(*ir.FloatImm)
		return ok && *a == *b
	case *ir.StringImm:
		b, ok := b.(*ir.StringImm)
		return ok && *a == *b
	case *ir.Binary:
		b, ok := b.(*ir.Binary)
		return ok && a.Op == b.Op && equal(a.A, b.A) && equal(a.B, b.B)
	case *ir.Not:
		b, ok := b.(*ir.Not)
		return ok && equal(a.A, b.A)
	case *ir.Cast:
		b, ok := b.(*ir.Cast)
		return ok && a.Type == b.Type && equal(a.Value, b.Value)
	case *ir.Select:
		b, ok := b.(*ir.Select)
		return ok && equal(a.Cond, b.Cond) && equal(a.True, b.True) && equal(a.False, b.False)
	case *ir.BufferLoad:
		b, ok := b.(*ir.BufferLoad)
		return ok && a.Buffer == b.Buffer && a.Predicate == nil && b.Predicate == nil && equalList(a.Indices, b.Indices)
	case *ir.Call:
		b, ok := b.(*ir.Call)
		return ok && a.Op == b.Op && a.Global == b.Global && a.Type == b.Type && len(a.Attrs)+len(b.Attrs) == 0 && equalList(a.Args, b.Args)
	}
	return false
}

func equalList(a, b []ir.Expr) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// maxTerms bounds the terms constDifference compares, which takes quadratic
// time.
const maxTerms = 64

// constDifference is hi - lo when it is a constant, for sums of terms with
// constant factors.
func constDifference(lo, hi ir.Expr) (int64, bool) {
	var terms []term
	var c int64
	if !addTerms(hi, 1, &terms, &c) || !addTerms(lo, -1, &terms, &c) {
		return 0, false
	}
	for _, t := range terms {
		if t.coef != 0 {
			return 0, false
		}
	}
	return c, true
}

type term struct {
	e    ir.Expr
	coef int64
}

func addTerms(e ir.Expr, k int64, terms *[]term, c *int64) bool {
	switch x := e.(type) {
	case *ir.IntImm:
		*c += k * x.Value
		return true
	case *ir.Binary:
		switch x.Op {
		case ir.Add:
			return addTerms(x.A, k, terms, c) && addTerms(x.B, k, terms, c)
		case ir.Sub:
			return addTerms(x.A, k, terms, c) && addTerms(x.B, -k, terms, c)
		case ir.Mul:
			if v, ok := ir.AsInt(x.B); ok {
				return addTerms(x.A, k*v, terms, c)
			}
			if v, ok := ir.AsInt(x.A); ok {
				return addTerms(x.B, k*v, terms, c)
			}
		}
	}
	for i := range *terms {
		if equal((*terms)[i].e, e) {
			(*terms)[i].coef += k
			return true
		}
	}
	*terms = append(*terms, term{e, k})
	return len(*terms) <= maxTerms
}
