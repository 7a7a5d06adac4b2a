package arith

import "lowertrace/internal/ir"

// DetectLinear writes e as coeffs[0]*vars[0] + ... + base, where neither the
// coefficients nor base mention the variables. ok is false when e is not linear
// in them (as far as Simplify can tell). e must be a signed scalar integer.
// Coefficients and base are simplified; they have the type of e.
func (a *Analyzer) DetectLinear(e ir.Expr, vars []*ir.Var) (coeffs []ir.Expr, base ir.Expr, ok bool) {
	if !isIndex(e.DType()) {
		return nil, nil, false
	}
	if _, ok := measure(e); !ok {
		return nil, nil, false
	}
	q := a.query()
	at := func(v *ir.Var) int {
		for i, w := range vars {
			if w == v {
				return i
			}
		}
		return -1
	}
	uses := func(e ir.Expr) bool { return ir.UsesVar(e, func(v *ir.Var) bool { return at(v) >= 0 }) }
	s := q.sumOf(e)
	cs := make([]*sum, len(vars))
	for i := range cs {
		cs[i] = constSum(s.t, 0)
	}
	rest := &sum{t: s.t, base: s.base}
	for _, t := range s.terms {
		if !uses(t.x) {
			rest.terms = append(rest.terms, t)
			continue
		}
		if !t.plain() {
			return nil, nil, false
		}
		// A product of one variable and factors free of all.
		i := -1
		c := constSum(s.t, t.scale)
		for _, f := range factors(t.x, nil) {
			if v, ok := f.(*ir.Var); ok && at(v) >= 0 && i < 0 {
				i = at(v)
				continue
			}
			if uses(f) {
				return nil, nil, false
			}
			c = q.mulSums(c, q.sumOf(f))
		}
		if i < 0 {
			return nil, nil, false
		}
		if cs[i] = q.addScaled(cs[i], c, 1); cs[i] == nil {
			return nil, nil, false
		}
	}
	coeffs = make([]ir.Expr, len(vars))
	for i, c := range cs {
		coeffs[i] = q.build(c)
	}
	return coeffs, q.build(rest), true
}

// factors appends the factors of a product.
func factors(e ir.Expr, to []ir.Expr) []ir.Expr {
	if m, ok := e.(*ir.Binary); ok && m.Op == ir.Mul {
		return factors(m.B, factors(m.A, to))
	}
	return append(to, e)
}

// StrideOf is the constant by which e grows when v grows by one, whatever v and
// the other variables are; ok is false when there is no such constant. An e
// without v has stride 0.
func (a *Analyzer) StrideOf(e ir.Expr, v *ir.Var) (stride int64, ok bool) {
	if !ir.UsesVar(e, func(w *ir.Var) bool { return w == v }) {
		return 0, true
	}
	c, _, ok := a.DetectLinear(e, []*ir.Var{v})
	if !ok {
		return 0, false
	}
	return ir.AsInt(c[0])
}

// VectorAccess says what an index is over the lanes of a vector.
type VectorAccess struct {
	// Base is the index of lane 0: the index is Base + Stride*v for every v in
	// 0..lanes-1, and Base does not mention v.
	Base   ir.Expr
	Stride int64
	// Aligned says that Base is certainly a multiple of lanes.
	Aligned bool
}

// Vectorize analyses an index whose variable v runs over 0..lanes-1, as the
// innermost loop of a vector access does. ok is false unless the index is
// provably affine in v over these lanes with a constant stride; 0 (all lanes
// the same) and 1 (contiguous) are the strides with instructions. Knowledge the
// Analyzer has of v is replaced while it looks.
func (a *Analyzer) Vectorize(index ir.Expr, v *ir.Var, lanes int) (acc VectorAccess, ok bool) {
	if !isIndex(index.DType()) || lanes < 1 {
		return acc, false
	}
	defer a.BindVar(v, ir.IntConst(v.Type, 0), ir.IntConst(v.Type, int64(lanes)))()
	if lanes == 1 {
		acc.Base = a.Simplify(index)
	} else {
		c, base, ok := a.DetectLinear(index, []*ir.Var{v})
		if !ok {
			return acc, false
		}
		if acc.Stride, ok = ir.AsInt(c[0]); !ok {
			return acc, false
		}
		acc.Base = base
	}
	acc.Aligned = a.IsMultipleOf(acc.Base, int64(lanes))
	return acc, true
}

// IsContiguous reports that index is certainly base + v for v in 0..lanes-1,
// with base a multiple of lanes: one aligned vector access.
func (a *Analyzer) IsContiguous(index ir.Expr, v *ir.Var, lanes int) bool {
	acc, ok := a.Vectorize(index, v, lanes)
	return ok && acc.Aligned && (acc.Stride == 1 || lanes == 1)
}
