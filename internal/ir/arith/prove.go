package arith

import "lowertrace/internal/ir"

// CanProve reports that cond certainly holds. False means "not known".
func (a *Analyzer) CanProve(cond ir.Expr) bool {
	if cond.DType() != ir.DBool {
		return false
	}
	if _, ok := measure(cond); !ok {
		return false
	}
	r := a.Simplify(cond)
	if v, ok := ir.AsInt(r); ok {
		return v != 0
	}
	return a.prove(r)
}

// prove tries what simplification does not: conjuncts and alternatives alone,
// and equality by multiplying out.
func (a *Analyzer) prove(e ir.Expr) bool {
	if v, ok := ir.AsInt(e); ok {
		return v != 0
	}
	b, ok := e.(*ir.Binary)
	if !ok {
		return false
	}
	switch b.Op {
	case ir.And:
		return a.prove(b.A) && a.CanProve(b.B)
	case ir.Or:
		return a.prove(b.A) || a.CanProve(b.B)
	case ir.EQ:
		return isIndex(b.A.DType()) && a.samePolynomial(b.A, b.B)
	case ir.LE:
		return isIndex(b.A.DType()) && a.samePolynomial(b.A, b.B)
	}
	return false
}

// CanProveEqual reports that two expressions certainly have the same value.
// Integers of different width are compared as integers.
func (a *Analyzer) CanProveEqual(x, y ir.Expr) bool {
	_, ok1 := measure(x)
	_, ok2 := measure(y)
	if !ok1 || !ok2 {
		return x == y
	}
	if Same(x, y) {
		return true
	}
	if ca, ok := ir.AsInt(x); ok {
		if cb, ok := ir.AsInt(y); ok {
			return ca == cb && x.DType().IsUInt() == y.DType().IsUInt()
		}
	}
	tx, ty := x.DType(), y.DType()
	if tx != ty {
		if !isIndex(tx) || !isIndex(ty) {
			return false
		}
		if tx.Bits < ty.Bits {
			x = &ir.Cast{Type: ty, Value: x}
			if c, ok := x.(*ir.Cast).Value.(*ir.IntImm); ok {
				x = ir.IntConst(ty, c.Value)
			}
		} else {
			return a.CanProveEqual(y, x)
		}
	}
	sx, sy := a.Simplify(x), a.Simplify(y)
	if Same(sx, sy) {
		return true
	}
	if !isIndex(sx.DType()) || !isIndex(sy.DType()) {
		return false
	}
	return a.CanProve(&ir.Binary{Op: ir.EQ, A: sx, B: sy})
}

// CanProveLess reports that x < c certainly holds for a constant c.
func (a *Analyzer) CanProveLess(x ir.Expr, c int64) bool {
	return x.DType().IsInteger() && a.Bound(x).Max < c
}

// CanProveAtLeast reports that x >= c certainly holds for a constant c.
func (a *Analyzer) CanProveAtLeast(x ir.Expr, c int64) bool {
	return x.DType().IsInteger() && a.Bound(x).Min >= c
}

// IsMultipleOf reports that x is certainly a multiple of c, c > 0.
func (a *Analyzer) IsMultipleOf(x ir.Expr, c int64) bool {
	if c <= 0 || !x.DType().IsInteger() {
		return false
	}
	return a.Mod(x).DivisibleBy(c)
}

// monomial is a product of factors with a coefficient.
type monomial struct {
	factors []int // indices into polynomial.atoms, ascending
	c       int64
}

type polynomial struct {
	q     *query
	atoms []term
}

// samePolynomial multiplies two expressions out and compares them.
func (a *Analyzer) samePolynomial(x, y ir.Expr) bool {
	q := a.query()
	d := q.difference(q.sumOf(x), q.sumOf(y))
	if d == nil {
		return false
	}
	p := &polynomial{q: q}
	ms, ok := p.expand(d)
	return ok && len(ms) == 0
}

func (p *polynomial) expand(s *sum) ([]monomial, bool) {
	var out []monomial
	if s.base != 0 {
		out = append(out, monomial{c: s.base})
	}
	for i := range s.terms {
		t := s.terms[i]
		ms := []monomial{{c: t.scale}}
		if m, ok := t.x.(*ir.Binary); ok && m.Op == ir.Mul && t.plain() {
			a, ok1 := p.expand(p.q.sumOf(m.A))
			b, ok2 := p.expand(p.q.sumOf(m.B))
			if !ok1 || !ok2 {
				return nil, false
			}
			if ms, ok1 = p.product(ms, a); ok1 {
				ms, ok1 = p.product(ms, b)
			}
			if !ok1 {
				return nil, false
			}
		} else {
			t.scale = 1
			ms[0].factors = []int{p.atom(t)}
		}
		var ok bool
		if out, ok = addMonomials(out, ms); !ok {
			return nil, false
		}
	}
	return out, true
}

func (p *polynomial) atom(t term) int {
	for i := range p.atoms {
		if p.atoms[i].sameDigit(&t) {
			return i
		}
	}
	p.atoms = append(p.atoms, t)
	return len(p.atoms) - 1
}

func (p *polynomial) product(a, b []monomial) ([]monomial, bool) {
	var out []monomial
	for _, x := range a {
		for _, y := range b {
			c, ok := mulInt(x.c, y.c)
			if !ok {
				return nil, false
			}
			if out, ok = addMonomials(out, []monomial{{mergeSorted(x.factors, y.factors), c}}); !ok {
				return nil, false
			}
		}
	}
	return out, true
}

func addMonomials(out, ms []monomial) ([]monomial, bool) {
next:
	for _, m := range ms {
		for i := range out {
			if equalInts(out[i].factors, m.factors) {
				c, ok := addInt(out[i].c, m.c)
				if !ok {
					return nil, false
				}
				if out[i].c = c; c == 0 {
					out = append(out[:i:i], out[i+1:]...)
				}
				continue next
			}
		}
		if len(out) >= maxMonomials {
			return nil, false
		}
		out = append(out, m)
	}
	return out, true
}

func mergeSorted(a, b []int) []int {
	out := make([]int, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func equalInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
