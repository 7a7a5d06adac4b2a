package arith

import "lowertrace/internal/ir"

// compare simplifies a comparison of two sums.
func (q *query) compare(op ir.BinOp, a, b *sum) ir.Expr {
	switch op {
	case ir.GT:
		op, a, b = ir.LT, b, a
	case ir.GE:
		op, a, b = ir.LE, b, a
	}
	d := q.difference(a, b)
	if d == nil {
		return q.plain(op, a, b)
	}
	if truth, ok := q.decide(op, d); ok {
		return ir.BoolConst(truth)
	}
	if e := q.reduceCompare(op, d, a, b); e != nil {
		return e
	}
	return q.plain(op, a, b)
}

// decide tells a comparison of d with zero from bounds and modular sets.
func (q *query) decide(op ir.BinOp, d *sum) (truth, ok bool) {
	b := q.rawBound(d)
	switch op {
	case ir.LT:
		return b.Max < 0, b.Max < 0 || b.Min >= 0
	case ir.LE:
		return b.Max <= 0, b.Max <= 0 || b.Min > 0
	}
	eq := op == ir.EQ
	switch {
	case b.Min == 0 && b.Max == 0:
		return eq, true
	case b.Min > 0 || b.Max < 0 || q.sumMod(d).Excludes(0) || q.apart(d):
		return !eq, true
	}
	return false, false
}

// apart reports that d == hi*m + lo with -m < lo < m is not zero because hi is
// known not to be: it would take a multiple of m from lo to make up for it.
func (q *query) apart(d *sum) bool {
	if len(q.a.lits) == 0 {
		return false
	}
	ts := byScale(d.terms)
	g := int64(0)
	for i := 0; i < len(ts); i++ {
		g = gcd(g, ts[i].scale)
		low := &sum{t: d.t, terms: ts[i+1:], base: d.base}
		if b := q.rawBound(low); g < 1 || b.Min <= -g || b.Max >= g {
			continue
		}
		hi := (&sum{t: d.t, terms: ts[:i+1]}).divide(g)
		l, r := place(ir.EQ, hi, hi, &sum{t: d.t})
		if truth, ok := q.known(&ir.Binary{Op: ir.EQ, A: q.build(l), B: q.build(r)}); ok && !truth {
			return true
		}
	}
	return false
}

// plain writes a comparison of two sums as they are.
func (q *query) plain(op ir.BinOp, a, b *sum) ir.Expr {
	if (op == ir.EQ || op == ir.NE) && a.isConst() {
		a, b = b, a
	}
	return &ir.Binary{Op: op, A: q.build(a), B: q.build(b)}
}

// reduceCompare finds a smaller comparison with the same truth as d op 0,
// where d is a - b; nil if there is none that evaluates exactly.
func (q *query) reduceCompare(op ir.BinOp, d, a, b *sum) ir.Expr {
	if d.isConst() {
		return nil
	}
	n := *d
	n.expr, n.bndOf = nil, nil
	if g := n.common(0); g > 1 {
		// d < 0 is d/g < 0 with the constant rounded down, d <= 0 with the
		// constant rounded up.
		switch op {
		case ir.LT:
			n = *n.divide(g)
		case ir.LE:
			base := -ir.FloorDivInt(-n.base, g)
			n = *n.divide(g)
			n.base = base
		default:
			if n.base%g != 0 {
				return ir.BoolConst(op == ir.NE)
			}
			n = *n.divide(g)
		}
	}
	if op == ir.LT || op == ir.LE {
		// hi*m + lo < 0 is hi + lo//m < 0. The greatest m that works is found
		// with the product of the coefficients' common divisors as c.
		low := n
		if op == ir.LE {
			low.base-- // d <= 0 is d - 1 < 0
		}
		if hi, _, _, j, ok := q.cut(&low, n.widest()); ok {
			hi.base += j
			if op == ir.LE {
				hi.base++
			}
			n = *hi
			n.t = d.t
		}
	}
	if e := q.unfold(op, &n); e != nil {
		return e
	}
	l, r := place(op, &n, a, b)
	if !(l.same(a) || q.fits(l)) || !(r.same(b) || q.fits(r)) {
		return nil
	}
	return q.plain(op, l, r)
}

// widest is a number that the coefficients' common divisors divide.
func (s *sum) widest() int64 {
	m := int64(0)
	for i := range s.terms {
		m = max(m, absInt(s.terms[i].scale))
	}
	return m
}

// unfold turns x // c < k into x < k*c, k <= x // c into k*c <= x, and so
// x // c <= k and k < x // c.
func (q *query) unfold(op ir.BinOp, n *sum) ir.Expr {
	if op != ir.LT && op != ir.LE || len(n.terms) != 1 {
		return nil
	}
	t := &n.terms[0]
	if t.lo == 1 || t.hi != 0 || t.scale != 1 && t.scale != -1 {
		return nil
	}
	k := -n.base
	if t.scale < 0 {
		k = n.base
	}
	less := op == ir.LT // the form of the result
	strict := less
	if t.scale > 0 && op == ir.LE { // x//c <= k is x//c < k + 1
		k, less = k+1, true
	}
	if t.scale < 0 && strict { // k < x//c is (k+1)*c - 1 < x
		k++
	}
	v, ok := mulInt(k, t.lo)
	if t.scale < 0 && strict {
		v--
	}
	c := constSum(n.t, v)
	if !ok || !c.fitsType() {
		return nil
	}
	form := ir.LE
	if less {
		form = ir.LT
	}
	if t.scale < 0 {
		return q.compare(form, c, q.sumOf(t.x))
	}
	return q.compare(form, q.sumOf(t.x), c)
}

func (s *sum) same(o *sum) bool {
	if s.base != o.base || len(s.terms) != len(o.terms) {
		return false
	}
	for i := range s.terms {
		u := o.find(&s.terms[i])
		if u == nil || u.scale != s.terms[i].scale {
			return false
		}
	}
	return true
}

// place writes n op 0 as l op r. Terms stay on the side of a or b they came
// from; where one side would hold a constant alone, the other has positive
// terms.
func place(op ir.BinOp, n, a, b *sum) (l, r *sum) {
	l, r = &sum{t: a.t}, &sum{t: a.t}
	for _, t := range n.terms {
		left := t.scale > 0
		inA, inB := a.find(&t) != nil, b.find(&t) != nil
		if inA != inB {
			left = inA
		}
		if left {
			l.terms = append(l.terms, t)
		} else {
			t.scale = -t.scale
			r.terms = append(r.terms, t)
		}
	}
	if len(l.terms) == 0 || len(r.terms) == 0 {
		one := l
		if len(l.terms) == 0 {
			one = r
		}
		pos, neg := 0, 0
		for _, t := range one.terms {
			if t.scale > 0 {
				pos++
			} else {
				neg++
			}
		}
		if pos == 0 || neg > 0 && n.base == 0 {
			// Split by sign.
			l.terms, r.terms = nil, nil
			for _, t := range n.terms {
				if t.scale > 0 {
					l.terms = append(l.terms, t)
				} else {
					t.scale = -t.scale
					r.terms = append(r.terms, t)
				}
			}
		}
	}
	switch {
	case len(r.terms) == 0:
		r.base = -n.base
	case len(l.terms) == 0:
		l.base = n.base
	case a.base != 0 && b.base == 0 && n.base == a.base:
		l.base = n.base
	case a.base == 0 && b.base != 0 && n.base == -b.base:
		r.base = -n.base
	case n.base > 0:
		l.base = n.base
	default:
		r.base = -n.base
	}
	return l, r
}
