package arith

import (
	"cmp"
	"slices"

	"lowertrace/internal/ir"
)

// fits reports that evaluating s gives its exact value: it provably does not
// leave its type. A single digit is a value the source computed. See
// Analyzer.AssumeNoOverflow.
func (q *query) fits(s *sum) bool {
	if s.isConst() || s.unit() {
		return s.fitsType()
	}
	if q.a.AssumeNoOverflow {
		return true
	}
	b := q.rawBound(s)
	return b.Min != NegInf && b.Max != PosInf && TypeBound(s.t).Contains(b)
}

// common is the greatest divisor of c and all coefficients, without the
// constant.
func (s *sum) common(c int64) int64 {
	g := c
	for i := range s.terms {
		g = gcd(g, s.terms[i].scale)
	}
	return g
}

// divide is a sum with its coefficients divided by g, which divides them all;
// the constant is divided rounding down.
func (s *sum) divide(g int64) *sum {
	r := &sum{t: s.t, terms: slices.Clone(s.terms), base: ir.FloorDivInt(s.base, g)}
	for i := range r.terms {
		r.terms[i].scale /= g
	}
	return r
}

// split separates the terms whose coefficient c divides, and the multiple of c
// in the constant, from the rest. A constant next to other terms keeps its
// sign.
func (s *sum) split(c int64) (whole, rest *sum) {
	whole, rest = &sum{t: s.t}, &sum{t: s.t}
	for _, t := range s.terms {
		if t.scale%c == 0 {
			whole.terms = append(whole.terms, t)
		} else {
			rest.terms = append(rest.terms, t)
		}
	}
	whole.base = s.base / c * c
	if len(rest.terms) == 0 {
		whole.base = ir.FloorDivInt(s.base, c) * c
	}
	rest.base = s.base - whole.base
	return whole, rest
}

// mayReplace reports that rest, what split left of s, evaluates exactly where s
// does.
func (q *query) mayReplace(s, rest *sum) bool {
	if q.fits(rest) {
		return true
	}
	if len(rest.terms) != len(s.terms) {
		return false
	}
	// Only the constant moved toward zero: the value lies between that of the
	// terms alone and that of s.
	return q.fits(&sum{t: s.t, terms: s.terms})
}

// byScale is a copy of terms by descending size of the coefficient.
func byScale(ts []term) []term {
	ts = slices.Clone(ts)
	slices.SortStableFunc(ts, func(a, b term) int {
		return cmp.Compare(absInt(b.scale), absInt(a.scale))
	})
	return ts
}

// cut finds s == hi*m + lo with m dividing c, where j*m <= lo < (j+1)*m. hi
// has the terms of large coefficients, divided by m.
func (q *query) cut(s *sum, c int64) (hi, lo *sum, m, j int64, ok bool) {
	if len(s.terms) == 0 {
		return
	}
	ts := byScale(s.terms)
	// The bounds of the low parts, from the last term up.
	low := make([]Bound, len(ts)+1)
	low[len(ts)] = Point(s.base)
	for i := len(ts) - 1; i >= 0; i-- {
		low[i] = low[i+1].add(q.termBound(&ts[i]).scale(ts[i].scale))
	}
	g := c
	for i := 0; i < len(ts); i++ {
		g = gcd(g, ts[i].scale)
		if g == 1 {
			return
		}
		b := low[i+1]
		if b.Min == NegInf || b.Max == PosInf || ir.FloorDivInt(b.Min, g) != ir.FloorDivInt(b.Max, g) {
			continue
		}
		// A larger multiple of g that still divides c would need coefficients
		// it divides: g is the greatest for these terms.
		hi = (&sum{t: s.t, terms: ts[:i+1]}).divide(g)
		lo = &sum{t: s.t, terms: slices.Clone(ts[i+1:]), base: s.base}
		return hi, lo, g, ir.FloorDivInt(b.Min, g), true
	}
	return
}

// floorDivConst is s // c, c > 0.
func (q *query) floorDivConst(s *sum, c int64, trunc bool) *sum {
	if c == 1 {
		return s
	}
	if s.isConst() {
		return constSum(s.t, ir.FloorDivInt(s.base, c))
	}
	// (g*a + b) // (g*c') == (a + b//g) // c'
	if g := s.common(c); g > 1 {
		return q.floorDivConst(s.divide(g), c/g, trunc)
	}
	// The total is a value of the type, so its interval may use that.
	if b := q.sumBound(s); b.Min != NegInf && b.Max != PosInf && ir.FloorDivInt(b.Min, c) == ir.FloorDivInt(b.Max, c) {
		return constSum(s.t, ir.FloorDivInt(b.Min, c))
	}
	if whole, rest := s.split(c); len(whole.terms) > 0 || whole.base != 0 {
		if q.mayReplace(s, rest) {
			r := q.addScaled(whole.divide(c), q.floorDivConst(rest, c, trunc && q.nonNegative(rest)), 1)
			if r != nil {
				return r
			}
		}
	}
	if hi, _, m, j, ok := q.cut(s, c); ok {
		if r := q.addScaled(hi, constSum(s.t, j), 1); r != nil {
			return q.floorDivConst(r, c/m, trunc)
		}
	}
	if s.unit() {
		if t := s.terms[0]; t.hi == 0 || t.hi%t.lo == 0 {
			lc, ok := mulInt(t.lo, c)
			switch {
			case !ok || lc > TypeBound(s.t).Max:
			case t.hi == 0 || t.hi%lc == 0:
				t.lo, t.trunc = lc, t.trunc && trunc || t.plain() && trunc
				if t.lo == t.hi {
					return constSum(s.t, 0)
				}
				return &sum{t: s.t, terms: []term{t}}
			}
		}
	}
	return &sum{t: s.t, terms: []term{{x: q.build(s), lo: c, scale: 1, trunc: trunc}}}
}

// floorModConst is s % c, c > 0.
func (q *query) floorModConst(s *sum, c int64, trunc bool) *sum {
	if c == 1 {
		return constSum(s.t, 0)
	}
	if s.isConst() {
		return constSum(s.t, ir.FloorModInt(s.base, c))
	}
	if b := q.sumBound(s); b.Min != NegInf && b.Max != PosInf {
		if k := ir.FloorDivInt(b.Min, c); k == ir.FloorDivInt(b.Max, c) {
			if kc, ok := mulInt(k, c); ok {
				if r := q.addScaled(s, constSum(s.t, kc), -1); r != nil {
					return r
				}
			}
		}
	}
	if whole, rest := s.split(c); (len(whole.terms) > 0 || whole.base != 0) && q.mayReplace(s, rest) {
		return q.floorModConst(rest, c, trunc && q.nonNegative(rest))
	}
	// (g*a + b) % (g*c') == g*((a + b//g) % c') + b%g
	if g := s.common(c); g > 1 {
		high := q.floorModConst(s.divide(g), c/g, trunc)
		if r := q.addScaled(constSum(s.t, ir.FloorModInt(s.base, g)), high, g); r != nil {
			return r
		}
	}
	if hi, lo, m, j, ok := q.cut(s, c); ok {
		if h := q.addScaled(hi, constSum(s.t, j), 1); h != nil {
			// lo - j*m lies in 0..m-1.
			l := q.addScaled(lo, constSum(s.t, j*m), -1)
			if l != nil {
				if r := q.addScaled(l, q.floorModConst(h, c/m, trunc), m); r != nil {
					return r
				}
			}
		}
	}
	if s.unit() {
		t := s.terms[0]
		plain := t.plain()
		lc, ok := mulInt(t.lo, c)
		if ok && lc <= TypeBound(s.t).Max && (t.hi == 0 || t.hi%lc == 0) {
			t.hi = lc
			t.trunc = trunc && (t.trunc || plain)
			return &sum{t: s.t, terms: []term{t}}
		}
	}
	return &sum{t: s.t, terms: []term{{x: q.build(s), lo: 1, hi: c, scale: 1, trunc: trunc}}}
}

func (q *query) nonNegative(s *sum) bool { return q.sumBound(s).Min >= 0 }

// divmod is one of the four division operators on sums.
func (q *query) divmod(op ir.BinOp, a, b *sum) *sum {
	isMod := op == ir.FloorMod || op == ir.TruncMod
	trunc := op == ir.Div || op == ir.TruncMod
	if b.isConst() && b.base == 0 {
		return q.opaque(op, a, b) // not defined: keep what was written
	}
	if a.isConst() && b.isConst() {
		t := a.t.Scalar()
		if c := ir.FoldInt(op, ir.IntConst(t, a.base), ir.IntConst(t, b.base)); c != nil {
			v, _ := ir.AsInt(c)
			return constSum(a.t, v)
		}
		return q.opaque(op, a, b)
	}
	if trunc && !(q.nonNegative(a) && q.sumBound(b).Min >= 0) {
		return q.truncSigned(op, a, b)
	}
	if b.isConst() && b.base > 0 {
		if isMod {
			return q.floorModConst(a, b.base, trunc)
		}
		return q.floorDivConst(a, b.base, trunc)
	}
	if b.isConst() {
		// b < 0, rounding down: nothing but the neutral case.
		if b.base == -1 {
			if isMod {
				return constSum(a.t, 0)
			}
			if r := q.addScaled(constSum(a.t, 0), a, -1); r != nil {
				return r
			}
		}
		return q.opaque(op, a, b)
	}
	return q.divSymbolic(op, a, b)
}

// truncSigned is division toward zero, or its remainder, of a number that may
// be negative.
func (q *query) truncSigned(op ir.BinOp, a, b *sum) *sum {
	if !b.isConst() || b.base == NegInf {
		return q.divSymbolic(op, a, b)
	}
	// Exact division needs no rounding.
	if c := b.base; a.base%c == 0 && a.common(absInt(c)) == absInt(c) {
		if op == ir.TruncMod {
			return constSum(a.t, 0)
		}
		if r := q.addScaled(constSum(a.t, 0), a.divide(absInt(c)), c/absInt(c)); r != nil {
			return r
		}
	}
	if m := absInt(b.base); op == ir.TruncMod {
		// The remainder of a number nearer zero than the divisor is itself.
		if r := q.sumBound(a); r.Min > -m && r.Max < m {
			return a
		}
	} else if r := q.sumBound(a); r.Min > -m && r.Max < m {
		return constSum(a.t, 0)
	}
	if op == ir.Div && b.base == 1 {
		return a
	}
	return q.opaque(op, a, b)
}

// divSymbolic is a division by something that is not constant.
func (q *query) divSymbolic(op ir.BinOp, a, b *sum) *sum {
	isMod := op == ir.FloorMod || op == ir.TruncMod
	if a.isConst() && a.base == 0 {
		return a
	}
	d := q.build(b)
	db := q.sumBound(b)
	if q.nonNegative(a) {
		if diff := q.difference(a, b); diff != nil && q.rawBound(diff).Max < 0 { // 0 <= a < b
			if isMod {
				return a
			}
			return constSum(a.t, 0)
		}
	}
	// Terms with the divisor as a factor.
	quot, rest := &sum{t: a.t}, &sum{t: a.t, base: a.base}
	for _, t := range a.terms {
		if f, ok := q.factorOut(&t, b, d); ok {
			n := q.addScaled(quot, f, 1)
			if n == nil {
				return q.opaque(op, a, b)
			}
			quot = n
		} else {
			rest.terms = append(rest.terms, t)
		}
	}
	if len(rest.terms) == len(a.terms) {
		return q.opaque(op, a, b)
	}
	if rest.isConst() && rest.base == 0 {
		if isMod {
			return constSum(a.t, 0)
		}
		return quot
	}
	floor := op == ir.FloorDiv || op == ir.FloorMod || q.nonNegative(a) && db.Min >= 0 && q.rawBound(rest).Min >= 0
	if !floor || !q.fits(rest) {
		return q.opaque(op, a, b)
	}
	r := q.divSymbolic(op, rest, b)
	if isMod {
		return r
	}
	if s := q.addScaled(quot, r, 1); s != nil {
		return s
	}
	return q.opaque(op, a, b)
}

// factorOut is t divided by the sum b, written d, when b is a factor of it.
func (q *query) factorOut(t *term, b *sum, d ir.Expr) (*sum, bool) {
	if t.lo != 1 || t.hi != 0 {
		return nil, false
	}
	if len(b.terms) == 1 && b.base == 0 && b.terms[0].sameDigit(t) && t.scale%b.terms[0].scale == 0 {
		return constSum(b.t, t.scale/b.terms[0].scale), true
	}
	m, ok := t.x.(*ir.Binary)
	if !ok || m.Op != ir.Mul {
		return nil, false
	}
	var other ir.Expr
	switch {
	case Same(m.A, d):
		other = m.B
	case Same(m.B, d):
		other = m.A
	default:
		return nil, false
	}
	s := q.addScaled(constSum(b.t, 0), q.sumOf(other), t.scale)
	return s, s != nil
}

// opaque keeps an operator on two sums as it is.
func (q *query) opaque(op ir.BinOp, a, b *sum) *sum {
	x := &ir.Binary{Op: op, A: q.build(a), B: q.build(b)}
	s := atomSum(x)
	q.remember(x, s)
	s.expr = x
	return s
}
