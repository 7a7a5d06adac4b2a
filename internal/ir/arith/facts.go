package arith

import "lowertrace/internal/ir"

// assume puts the condition e, or its negation when truth is false, in force.
// Parts with an effect stronger than eff are left out.
func (a *Analyzer) assume(e ir.Expr, truth bool, eff ir.Effect) {
	if len(a.facts)+len(a.lits)+len(a.mods) >= MaxFacts {
		return
	}
	switch x := e.(type) {
	case *ir.Not:
		a.assume(x.A, !truth, eff)
		return
	case *ir.Call:
		if x.Op != nil && x.Op.Name == "likely" && len(x.Args) == 1 {
			a.assume(x.Args[0], truth, eff)
			return
		}
	case *ir.Binary:
		if x.Op == ir.And && truth || x.Op == ir.Or && !truth {
			a.assume(x.A, truth, eff)
			a.assume(x.B, truth, eff)
			return
		}
		if x.Op.IsComparison() && ir.SideEffect(e) <= eff {
			if isIndex(x.A.DType()) {
				a.assumeCompare(x, truth)
				return
			}
		}
	}
	if ir.SideEffect(e) > eff {
		return
	}
	e = a.query().simplify(e)
	if _, ok := ir.AsInt(e); !ok {
		a.lits = append(a.lits, literal{e, truth})
		a.q = nil
	}
}

func (a *Analyzer) assumeCompare(x *ir.Binary, truth bool) {
	op := x.Op
	if !truth {
		op = negated(op)
	}
	q := a.query()
	q.a.factSteps = 0
	sa, sb := q.sumOf(x.A), q.sumOf(x.B)
	d := q.difference(sa, sb)
	if d == nil {
		return
	}
	switch op {
	case ir.LT:
		a.addFact(d, Bound{NegInf, -1})
	case ir.LE:
		a.addFact(d, Bound{NegInf, 0})
	case ir.GT:
		a.addFact(d, Bound{1, PosInf})
	case ir.GE:
		a.addFact(d, Bound{0, PosInf})
	case ir.EQ:
		a.addFact(d, Point(0))
		if len(d.terms) == 1 {
			a.addMod(&d.terms[0], -d.base)
		}
	case ir.NE:
		// An end of the interval that is excluded moves inwards.
		b := q.rawBound(d)
		if b.Min == 0 {
			a.addFact(d, Bound{1, PosInf})
		} else if b.Max == 0 {
			a.addFact(d, Bound{NegInf, -1})
		}
		l := &ir.Binary{Op: ir.EQ, A: q.build(sa), B: q.build(sb)}
		if e := a.query().simplify(l); e != nil {
			if _, ok := ir.AsInt(e); !ok {
				a.lits = append(a.lits, literal{e, false})
				a.q = nil
			}
		}
	}
}

// addMod learns from scale*digit == v that the digit's index is in a modular
// set.
func (a *Analyzer) addMod(t *term, v int64) {
	if t.lo == 1 && t.hi != 0 && v%t.scale == 0 {
		a.mods = append(a.mods, modFact{t.x, makeMod(t.hi, v/t.scale)})
		a.q = nil
	}
}

// addFact records that s lies in b. The constant of s is moved into b, the
// coefficients are divided by what they have in common, and the first is made
// positive.
func (a *Analyzer) addFact(s *sum, b Bound) {
	if len(s.terms) == 0 {
		return
	}
	b = b.add(Point(-s.base))
	g := int64(0)
	for _, t := range s.terms {
		g = gcd(g, t.scale)
	}
	if g <= 0 {
		return
	}
	if s.terms[0].scale < 0 {
		g, b = -g, b.neg()
	}
	f := &sum{t: s.t, terms: append([]term(nil), s.terms...)}
	for i := range f.terms {
		f.terms[i].scale /= g
	}
	m := absInt(g)
	if b.Min != NegInf {
		b.Min = -ir.FloorDivInt(-b.Min, m)
	}
	if b.Max != PosInf {
		b.Max = ir.FloorDivInt(b.Max, m)
	}
	a.facts = append(a.facts, fact{f, b})
	a.q = nil
}

func negated(op ir.BinOp) ir.BinOp {
	switch op {
	case ir.EQ:
		return ir.NE
	case ir.NE:
		return ir.EQ
	case ir.LT:
		return ir.GE
	case ir.LE:
		return ir.GT
	case ir.GT:
		return ir.LE
	}
	return ir.LT
}

// tighten improves a bound of s by the facts in force: k*fact + rest, where a
// term of s cancels.
func (q *query) tighten(s *sum, b Bound) Bound {
	if len(q.a.facts) == 0 || q.a.factDepth >= maxFactDepth || len(s.terms) == 0 {
		return b
	}
	q.a.factDepth++
	defer func() { q.a.factDepth-- }()
	for i := range q.a.facts {
		f := &q.a.facts[i]
		for j := range s.terms {
			st := &s.terms[j]
			ft := f.s.find(st)
			if ft == nil || st.scale%ft.scale != 0 {
				continue
			}
			if q.a.factSteps++; q.a.factSteps > maxFactSteps {
				return b
			}
			k := st.scale / ft.scale
			rest := q.addRaw(s, f.s, -k)
			if rest == nil {
				continue
			}
			fb := f.b.scale(k)
			if len(rest.terms) > 0 {
				if len(rest.terms) > len(s.terms)+1 {
					continue
				}
				fb = fb.add(q.rawBound(rest))
			} else {
				fb = fb.add(Point(rest.base))
			}
			b = b.Intersect(fb)
			if len(f.s.terms) == 1 || len(rest.terms) == 0 {
				break
			}
		}
	}
	return b
}

func (s *sum) find(t *term) *term {
	for i := range s.terms {
		if s.terms[i].sameDigit(t) {
			return &s.terms[i]
		}
	}
	return nil
}

// known reports whether a condition is decided by a literal in force.
func (q *query) known(e ir.Expr) (truth, ok bool) {
	for _, l := range q.a.lits {
		if Same(l.e, e) {
			return l.truth, true
		}
	}
	return false, false
}
