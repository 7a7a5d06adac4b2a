package arith

import (
	"math"
	"math/big"

	"lowertrace/internal/ir"
)

// foldFloat folds constants where the exact result is a value of the type, and
// the neutral elements that keep every value, signed zeros and NaN included.
func foldFloat(op ir.BinOp, a, b ir.Expr) ir.Expr {
	ca, oka := a.(*ir.FloatImm)
	cb, okb := b.(*ir.FloatImm)
	if okb && !oka {
		switch {
		case op == ir.Mul && cb.Value == 1, op == ir.Div && cb.Value == 1,
			op == ir.Sub && cb.Value == 0 && !math.Signbit(cb.Value):
			return a
		}
	}
	if oka && !okb && op == ir.Mul && ca.Value == 1 {
		return b
	}
	if !oka || !okb {
		return nil
	}
	t, x, y := ca.Type, ca.Value, cb.Value
	if !finite(x) || !finite(y) || !representable(t, x) || !representable(t, y) {
		return nil
	}
	switch op {
	case ir.LT:
		return ir.BoolConst(x < y)
	case ir.LE:
		return ir.BoolConst(x <= y)
	case ir.GT:
		return ir.BoolConst(x > y)
	case ir.GE:
		return ir.BoolConst(x >= y)
	case ir.EQ:
		return ir.BoolConst(x == y)
	case ir.NE:
		return ir.BoolConst(x != y)
	case ir.Min, ir.Max:
		if x == y {
			return nil // zeros of two signs
		}
		if (x < y) == (op == ir.Min) {
			return a
		}
		return b
	}
	bx, by := new(big.Float).SetPrec(4096).SetFloat64(x), new(big.Float).SetPrec(4096).SetFloat64(y)
	r := new(big.Float).SetPrec(4096)
	switch op {
	case ir.Add:
		r.Add(bx, by)
	case ir.Sub:
		r.Sub(bx, by)
	case ir.Mul:
		r.Mul(bx, by)
	case ir.Div:
		if y == 0 {
			return nil
		}
		r.Quo(bx, by)
		if new(big.Float).SetPrec(8192).Mul(r, by).Cmp(bx) != 0 {
			return nil
		}
	default:
		return nil
	}
	v, acc := r.Float64()
	if acc != big.Exact || v == 0 || !representable(t, v) {
		return nil
	}
	return ir.FloatConst(t, v)
}

func finite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

// representable reports that a finite number is a value of a type. Only the
// IEEE formats and bfloat16 are known; within them, only normal numbers and
// zero.
func representable(t ir.DType, v float64) bool {
	var digits, emin, emax int
	switch {
	case t.Code == ir.Float && t.Bits == 64:
		return finite(v)
	case t.Code == ir.Float && t.Bits == 32:
		digits, emin, emax = 24, -126, 127
	case t.Code == ir.Float && t.Bits == 16:
		digits, emin, emax = 11, -14, 15
	case t.Code == ir.BFloat && t.Bits == 16:
		digits, emin, emax = 8, -126, 127
	default:
		return false
	}
	if v == 0 {
		return true
	}
	frac, exp := math.Frexp(v) // v = frac * 2^exp, 0.5 <= |frac| < 1
	if exp-1 < emin || exp-1 > emax {
		return false
	}
	m := math.Ldexp(frac, digits)
	return m == math.Trunc(m)
}
