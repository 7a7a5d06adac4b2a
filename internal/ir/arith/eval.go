package arith

import "lowertrace/internal/ir"

// bound is the interval of any expression; see Analyzer.Bound.
func (q *query) bound(e ir.Expr) Bound {
	if c, ok := e.(*ir.IntImm); ok {
		if c.Type.IsUInt() && c.Type.Bits == 64 && c.Value < 0 {
			return unbounded
		}
		return Point(c.Value)
	}
	known := q.at(e)
	if known.hasBnd {
		return known.bnd
	}
	t := e.DType()
	var b Bound
	if isIndex(t) {
		b = q.sumBound(q.sumOf(e))
	} else {
		b = q.atomBound(e)
	}
	b = TypeBound(t).Intersect(b)
	if q.a.factDepth == 0 {
		known.setBound(b)
	}
	return b
}

// sumBound is the interval of a sum within its type.
func (q *query) sumBound(s *sum) Bound {
	if s.isConst() {
		return Point(s.base)
	}
	if s.bndOf == q {
		return s.bnd
	}
	b := TypeBound(s.t).Intersect(q.rawBound(s))
	if q.a.factDepth == 0 {
		s.bnd, s.bndOf = b, q
	}
	return b
}

// rawBound is the interval of a sum computed without overflow: it may exceed
// the type.
func (q *query) rawBound(s *sum) Bound {
	b := Point(s.base)
	for i := range s.terms {
		b = b.add(q.termBound(&s.terms[i]).scale(s.terms[i].scale))
	}
	if len(s.terms) > 1 {
		b = q.chosenBound(s, b)
	}
	return q.tighten(s, b)
}

// chosenBound improves the bound of a sum with a minimum or a maximum in it,
// which equals one of its operands: each is put in its place.
func (q *query) chosenBound(s *sum, b Bound) Bound {
	if q.a.factDepth >= maxFactDepth {
		return b
	}
	for i := range s.terms {
		t := &s.terms[i]
		m, ok := t.x.(*ir.Binary)
		if !ok || m.Op != ir.Min && m.Op != ir.Max || !t.plain() {
			continue
		}
		if q.a.factSteps++; q.a.factSteps > maxFactSteps {
			return b
		}
		rest := &sum{t: s.t, base: s.base}
		rest.terms = append(append(rest.terms, s.terms[:i]...), s.terms[i+1:]...)
		x := q.addRaw(rest, q.sumOf(m.A), t.scale)
		y := q.addRaw(rest, q.sumOf(m.B), t.scale)
		if x == nil || y == nil {
			continue
		}
		q.a.factDepth++
		bx, by := q.rawBound(x), q.rawBound(y)
		q.a.factDepth--
		r := Bound{min(bx.Min, by.Min), min(bx.Max, by.Max)}
		if (m.Op == ir.Max) == (t.scale > 0) {
			r = Bound{max(bx.Min, by.Min), max(bx.Max, by.Max)}
		}
		b = b.Intersect(r)
	}
	return b
}

// termBound is the interval of a digit, its coefficient not applied.
func (q *query) termBound(t *term) Bound {
	b := q.indexBound(t.x)
	if t.hi != 0 {
		b = b.floorMod(Point(t.hi))
		if m := q.mod(t.x); m.Coeff == 0 || m.Coeff > 1 {
			m = m.floorMod(t.hi)
			if m.Coeff == 0 {
				b = Point(m.Base)
			} else {
				b = b.Intersect(Bound{m.Base, t.hi - m.Coeff + m.Base})
			}
		}
	}
	if t.lo != 1 {
		b = b.floorDiv(Point(t.lo))
	}
	if !t.plain() && len(q.a.facts) > 0 {
		one := *t
		one.scale = 1
		b = q.tighten(&sum{t: t.x.DType(), terms: []term{one}}, b)
	}
	return b
}

// indexBound is the interval of the index of a term: a sum, or an atom to
// which facts may apply.
func (q *query) indexBound(x ir.Expr) Bound {
	known := q.at(x)
	if known.hasBnd {
		return known.bnd
	}
	var b Bound
	if s := q.sumOf(x); s.unit() && s.terms[0].plain() {
		in := known.bnd // that of a choice, found under its condition
		if !known.hasBnd {
			in = TypeBound(x.DType()).Intersect(q.atomBound(x))
		}
		b = q.tighten(s, in)
	} else {
		b = q.sumBound(s)
	}
	if q.a.factDepth == 0 {
		known.setBound(b)
	}
	return b
}

// atomBound is the interval of an expression by its outermost node.
func (q *query) atomBound(e ir.Expr) Bound {
	t := e.DType()
	whole := TypeBound(t)
	switch e := e.(type) {
	case *ir.Var:
		if v := q.a.vars[e]; v != nil {
			if v.value != nil && !isIndex(t) {
				return q.bound(v.value)
			}
			return v.bound
		}
	case *ir.IntImm:
		return q.bound(e)
	case *ir.Cast:
		f := e.Value.DType()
		if (f.IsInteger() || f.IsBool()) && !(f.IsUInt() && f.Bits == 64) {
			if b := q.bound(e.Value); whole.Contains(b) {
				return b
			}
		}
	case *ir.Select:
		return q.bound(e.True).Hull(q.bound(e.False))
	case *ir.Broadcast:
		return q.bound(e.Value)
	case *ir.Ramp:
		if t.IsInt() {
			b := q.bound(e.Base)
			last := b.add(q.bound(e.Stride).scale(int64(e.Lanes - 1)))
			return whole.Intersect(b.Hull(last))
		}
	case *ir.Call:
		return q.callBound(e)
	case *ir.Binary:
		if t.IsInteger() {
			return q.binaryBound(e)
		}
	}
	return whole
}

func (q *query) binaryBound(e *ir.Binary) Bound {
	t := e.DType()
	whole := TypeBound(t)
	a, b := q.bound(e.A), q.bound(e.B)
	r := whole
	switch e.Op {
	case ir.Add:
		r = a.add(b)
	case ir.Sub:
		r = a.add(b.neg())
	case ir.Mul:
		r = a.mul(b)
	case ir.FloorDiv:
		r = a.floorDiv(b)
	case ir.Div:
		r = a.truncDiv(b)
	case ir.FloorMod:
		r = a.floorMod(b)
	case ir.TruncMod:
		r = a.truncMod(b)
	case ir.Min:
		r = Bound{min(a.Min, b.Min), min(a.Max, b.Max)}
	case ir.Max:
		r = Bound{max(a.Min, b.Min), max(a.Max, b.Max)}
	}
	if t.IsUInt() && (!whole.Contains(r) || t.Bits == 64) {
		return whole // it may have wrapped
	}
	return r
}

func (q *query) callBound(e *ir.Call) Bound {
	whole := TypeBound(e.Type)
	if e.Op == nil || !e.Type.IsInteger() {
		return whole
	}
	arg := func(i int) Bound { return q.bound(e.Args[i]) }
	switch e.Op.Name {
	case "if_then_else":
		if len(e.Args) == 3 {
			return arg(1).Hull(arg(2))
		}
	case "likely":
		return arg(0)
	case "bitwise_and":
		a, b := arg(0), arg(1)
		switch {
		case a.Min >= 0 && b.Min >= 0:
			return Bound{0, min(a.Max, b.Max)}
		case a.Min >= 0:
			return Bound{0, a.Max}
		case b.Min >= 0:
			return Bound{0, b.Max}
		}
	case "shift_right":
		if k := arg(1); k.IsPoint() && k.Min >= 0 && k.Min < min(int64(e.Type.Bits), 63) && !(e.Type.IsUInt() && e.Type.Bits == 64) {
			return arg(0).floorDiv(Point(1 << k.Min))
		}
	case "shift_left":
		if k := arg(1); k.IsPoint() && k.Min >= 0 && k.Min < min(int64(e.Type.Bits), 62) {
			if b := arg(0).scale(1 << k.Min); whole.Contains(b) {
				return b
			}
		}
	case "popcount", "clz":
		return Bound{0, 64}
	case "abs":
		b := arg(0)
		if e.Type.IsInt() && b.Min != NegInf {
			if b.Min >= 0 {
				return b
			}
			return Bound{0, max(satNeg(b.Min), b.Max)}
		}
	}
	return whole
}

// mod is the modular set of any expression; see Analyzer.Mod.
func (q *query) mod(e ir.Expr) Mod {
	if c, ok := e.(*ir.IntImm); ok && isIndex(c.Type) {
		return Mod{0, c.Value}
	}
	known := q.at(e)
	if known.hasMod {
		return known.mod
	}
	var m Mod
	if isIndex(e.DType()) {
		m = q.sumMod(q.sumOf(e))
	} else {
		m = q.atomMod(e)
	}
	known.setMod(m)
	return m
}

func (q *query) sumMod(s *sum) Mod {
	m := Mod{0, s.base}
	for i := range s.terms {
		m = m.add(q.termMod(&s.terms[i]).scale(s.terms[i].scale))
	}
	return m
}

func (q *query) termMod(t *term) Mod {
	m := q.indexMod(t.x)
	if t.hi != 0 {
		m = m.floorMod(t.hi)
	}
	if t.lo != 1 {
		m = m.floorDiv(t.lo)
	}
	return m
}

func (q *query) indexMod(x ir.Expr) Mod {
	var m Mod
	if s := q.sumOf(x); s.unit() && s.terms[0].plain() {
		if known := q.at(x); known.hasMod {
			m = known.mod
		} else {
			m = q.atomMod(x)
		}
	} else {
		m = q.sumMod(s)
	}
	for _, f := range q.a.mods {
		if Same(f.x, x) {
			m = m.narrow(f.m)
		}
	}
	return m
}

// atomMod is the modular set of an expression by its outermost node. Unsigned
// arithmetic wraps, so only signed operations are followed.
func (q *query) atomMod(e ir.Expr) Mod {
	switch e := e.(type) {
	case *ir.IntImm:
		if e.Type.IsUInt() && e.Type.Bits == 64 && e.Value < 0 {
			return anyMod
		}
		return Mod{0, e.Value}
	case *ir.Var:
		if v := q.a.vars[e]; v != nil {
			if v.bound.IsPoint() {
				return Mod{0, v.bound.Min}
			}
			return v.mod
		}
	case *ir.Cast:
		f := e.Value.DType()
		if e.Type.IsInteger() && f.IsInteger() && !(f.IsUInt() && f.Bits == 64) && TypeBound(e.Type).Contains(q.bound(e.Value)) {
			return q.mod(e.Value)
		}
	case *ir.Select:
		return q.mod(e.True).union(q.mod(e.False))
	case *ir.Broadcast:
		return q.mod(e.Value)
	case *ir.Ramp:
		if e.DType().IsInt() {
			st := q.mod(e.Stride)
			return q.mod(e.Base).add(makeMod(gcd(st.Coeff, st.Base), 0))
		}
	case *ir.Call:
		if e.Op == nil || !e.Type.IsInteger() {
			break
		}
		switch e.Op.Name {
		case "if_then_else":
			if len(e.Args) == 3 {
				return q.mod(e.Args[1]).union(q.mod(e.Args[2]))
			}
		case "shift_left":
			if k, ok := ir.AsInt(e.Args[1]); ok && k >= 0 && k < 62 && e.Type.IsInt() {
				return q.mod(e.Args[0]).scale(1 << k)
			}
		}
	case *ir.Binary:
		if !e.DType().IsInt() {
			break
		}
		a, b := q.mod(e.A), q.mod(e.B)
		switch e.Op {
		case ir.Add:
			return a.add(b)
		case ir.Sub:
			return a.add(b.scale(-1))
		case ir.Mul:
			return a.mul(b)
		case ir.Min, ir.Max:
			return a.union(b)
		case ir.FloorMod, ir.FloorDiv:
			if b.Coeff == 0 && b.Base > 0 {
				if e.Op == ir.FloorMod {
					return a.floorMod(b.Base)
				}
				return a.floorDiv(b.Base)
			}
		}
	}
	return anyMod
}
