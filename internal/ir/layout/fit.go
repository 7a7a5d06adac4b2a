package layout

import (
	"math"
	"sort"

	"lowertrace/internal/ir"
)

// Hole marks a point of a table whose value does not matter to Fit.
const Hole = math.MinInt64

// digit is one term of a fitted expression: coef * (x % (lower*ext) // lower).
type digit struct {
	dim              int
	coef, lower, ext int64 // ext 0: no upper bound
}

// Fit finds an expression with the given values at every point of a box, where
// vars[d] runs over 0..ext[d]-1 and the last runs fastest. The expression is
// a sum of digits of the variables, or of digits of their row-major fusion.
// Points with the value Hole are free. The result reproduces the table (it is
// verified); false means that no such sum does.
func Fit(vals []int64, vars []ir.Expr, ext []int64) (ir.Expr, bool) {
	if e, ok := fitSum(vals, vars, ext); ok {
		return e, true
	}
	// Fuse neighbours: all of them, then every suffix, then every prefix.
	n := len(ext)
	for k := 0; k < n-1; k++ {
		if e, ok := fitFused(vals, vars, ext, k, n); ok {
			return e, true
		}
	}
	for k := n - 1; k > 1; k-- {
		if e, ok := fitFused(vals, vars, ext, 0, k); ok {
			return e, true
		}
	}
	return nil, false
}

func fitFused(vals []int64, vars []ir.Expr, ext []int64, lo, hi int) (ir.Expr, bool) {
	var fused ir.Expr
	size := int64(1)
	for d := lo; d < hi; d++ {
		if fused == nil {
			fused = vars[d]
		} else {
			fused = ir.NewBinary(ir.Add, ir.NewBinary(ir.Mul, fused, ir.I32(ext[d])), vars[d])
		}
		size *= ext[d]
	}
	v := append(append(append([]ir.Expr{}, vars[:lo]...), fused), vars[hi:]...)
	x := append(append(append([]int64{}, ext[:lo]...), size), ext[hi:]...)
	return fitSum(vals, v, x)
}

// fitSum fits a sum of one function of each variable.
func fitSum(vals []int64, vars []ir.Expr, ext []int64) (ir.Expr, bool) {
	if len(vals) == 0 || vals[0] == Hole {
		return nil, false
	}
	base := vals[0]
	stride := make([]int64, len(ext))
	acc := int64(1)
	for d := len(ext) - 1; d >= 0; d-- {
		stride[d] = acc
		acc *= ext[d]
	}
	var digits []digit
	funcs := make([][]int64, len(ext))
	for d := range ext {
		g := make([]int64, 0, ext[d])
		for x := int64(0); x < ext[d]; x++ {
			v := vals[x*stride[d]]
			if v == Hole {
				break
			}
			g = append(g, v-base)
		}
		ds, ok := fitDigits(g, d)
		if !ok {
			return nil, false
		}
		digits = append(digits, ds...)
		funcs[d] = make([]int64, ext[d])
		for x := range funcs[d] {
			for _, t := range ds {
				funcs[d][x] += t.coef * t.of(int64(x))
			}
		}
	}
	if len(ext) > 0 && !reproduces(vals, base, funcs) {
		return nil, false
	}
	sort.SliceStable(digits, func(i, j int) bool { return digits[i].coef > digits[j].coef })
	var sum ir.Expr
	for _, t := range digits {
		e := t.expr(vars[t.dim], ext[t.dim])
		if sum == nil {
			sum = e
		} else {
			sum = ir.NewBinary(ir.Add, sum, e)
		}
	}
	if sum == nil {
		return ir.I32(base), true
	}
	return ir.NewBinary(ir.Add, sum, ir.I32(base)), true
}

// reproduces reports that the values are base plus the sum of one function of
// each index, but for holes.
func reproduces(vals []int64, base int64, funcs [][]int64) bool {
	outer, last := funcs[:len(funcs)-1], funcs[len(funcs)-1]
	idx := make([]int, len(outer))
	for len(vals) > 0 {
		row := base
		for d, f := range outer {
			row += f[idx[d]]
		}
		for x, v := range vals[:len(last)] {
			if v != row+last[x] && v != Hole {
				return false
			}
		}
		vals = vals[len(last):]
		for d := len(idx) - 1; d >= 0; d-- {
			if idx[d]++; idx[d] < len(outer[d]) {
				break
			}
			idx[d] = 0
		}
	}
	return true
}

func (t digit) of(x int64) int64 {
	x /= t.lower
	if t.ext > 0 {
		x %= t.ext
	}
	return x
}

func (t digit) expr(v ir.Expr, extent int64) ir.Expr {
	e := v
	if t.ext > 0 && t.lower*t.ext < extent {
		e = ir.NewBinary(ir.FloorMod, e, ir.I32(t.lower*t.ext))
	}
	e = ir.NewBinary(ir.FloorDiv, e, ir.I32(t.lower))
	return ir.NewBinary(ir.Mul, e, ir.I32(t.coef))
}

// fitDigits writes g, with g[0] = 0, as a sum of digits of its index.
func fitDigits(g []int64, dim int) ([]digit, bool) {
	var out []digit
	lower := int64(1)
	for n := int64(len(g)); lower < n; {
		// h(y) = g(y*lower); the digit is the longest linear run.
		c := g[lower]
		e := int64(1)
		for e*lower < n && g[e*lower] == c*e {
			e++
		}
		if e*lower >= n {
			e = 0
		}
		if c != 0 {
			out = append(out, digit{dim, c, lower, e})
		}
		if e == 0 {
			break
		}
		lower *= e
	}
	for x, v := range g {
		sum := int64(0)
		for _, t := range out {
			sum += t.coef * t.of(int64(x))
		}
		if sum != v {
			return nil, false
		}
	}
	return out, true
}
