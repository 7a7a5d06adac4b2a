package arith

import (
	"slices"

	"lowertrace/internal/ir"
)

// term is scale * ((x mod hi) div lo), division rounding down. hi is 0 for no
// remainder; otherwise lo divides hi. x is a simplified scalar expression.
type term struct {
	x      ir.Expr
	lo, hi int64
	scale  int64
	// trunc says that the source divided toward zero. x is then known not to
	// be negative, so the flag only chooses how the term is written.
	trunc bool
}

// sum is a signed integer of type t: terms plus base. Terms and base are not
// changed once it is shared.
type sum struct {
	t     ir.DType
	terms []term
	base  int64
	expr  ir.Expr // as written, once it was
	bnd   Bound   // in the scope of bndOf
	bndOf *query  // nil: not known
}

func constSum(t ir.DType, v int64) *sum { return &sum{t: t, base: v} }

func atomSum(x ir.Expr) *sum {
	a := &struct {
		sum
		only [1]term
	}{sum{t: x.DType()}, [1]term{{x: x, lo: 1, scale: 1}}}
	a.terms = a.only[:]
	return &a.sum
}

// unit reports a single term of coefficient 1 without constant.
func (s *sum) unit() bool { return len(s.terms) == 1 && s.base == 0 && s.terms[0].scale == 1 }

func (s *sum) isConst() bool { return len(s.terms) == 0 }

func (t *term) sameDigit(u *term) bool { return t.lo == u.lo && t.hi == u.hi && Same(t.x, u.x) }

func (t *term) plain() bool { return t.lo == 1 && t.hi == 0 }

// addScaled is s + k*o as a sum of the type, nil when a constant does not fit
// the type or the sum gets too long.
func (q *query) addScaled(s, o *sum, k int64) *sum {
	r := q.addRaw(s, o, k)
	if r == nil || len(r.terms) > MaxTerms || !r.fitsType() {
		return nil
	}
	return r
}

// difference is a - b as an integer of any size, nil when it cannot be
// represented.
func (q *query) difference(a, b *sum) *sum { return q.addRaw(a, b, -1) }

// addRaw is s + k*o for analysis: its constants and values may lie outside the
// type. It is nil when a constant overflows int64 or the sum gets too long.
func (q *query) addRaw(s, o *sum, k int64) *sum {
	if len(s.terms)+len(o.terms) > 2*MaxTerms {
		return nil
	}
	kb, ok := mulInt(o.base, k)
	if !ok {
		return nil
	}
	r := &sum{t: s.t}
	if r.base, ok = addInt(s.base, kb); !ok {
		return nil
	}
	r.terms = append(make([]term, 0, len(s.terms)+len(o.terms)), s.terms...)
	for _, t := range o.terms {
		if t.scale, ok = mulInt(t.scale, k); !ok {
			return nil
		}
		if r.terms, ok = insert(r.terms, t); !ok {
			return nil
		}
	}
	if joinable(s.terms, o.terms) {
		r = q.merge(r)
	}
	return r
}

// joinable reports that two sums have different digits of one index.
func joinable(a, b []term) bool {
	for i := range a {
		for j := range b {
			if t, u := &a[i], &b[j]; (t.lo != u.lo || t.hi != u.hi) && Same(t.x, u.x) {
				return true
			}
		}
	}
	return false
}

// insert adds a term, joining it with the same digit of the same index.
func insert(ts []term, t term) ([]term, bool) {
	if t.scale == 0 {
		return ts, true
	}
	for i := range ts {
		if !ts[i].sameDigit(&t) {
			continue
		}
		c, ok := addInt(ts[i].scale, t.scale)
		if !ok {
			return ts, false
		}
		if c == 0 {
			return slices.Delete(ts, i, i+1), true
		}
		ts[i].scale = c
		ts[i].trunc = ts[i].trunc && t.trunc
		return ts, true
	}
	return append(ts, t), true
}

// merge joins digits of one index:
//
//	(x % H // L)*(L/l) + x % L // l  ->  x % H // l
//	x % H // l - (x % H // L)*(L/l)  ->  x % L // l
//	x % H // l - x % L // l          ->  (x % H // L)*(L/l)
//
// H may be infinite. All three are the identity
// x%H//l == (x%H//L)*(L/l) + x%L//l, for l dividing L dividing H.
func (q *query) merge(s *sum) *sum {
again:
	for i := range s.terms {
		for j := range s.terms {
			if i == j || !Same(s.terms[i].x, s.terms[j].x) {
				continue
			}
			t, ok := joinDigits(s.terms[i], s.terms[j])
			if !ok {
				continue
			}
			rest := make([]term, 0, len(s.terms))
			at := min(i, j)
			for k, u := range s.terms {
				if k == at {
					rest = append(rest, t)
				} else if k != i && k != j {
					rest = append(rest, u)
				}
			}
			r := &sum{t: s.t, base: s.base}
			for _, u := range rest {
				if u.plain() {
					// The index may be a sum itself.
					if in := q.sumOf(u.x); !in.unit() || !in.terms[0].plain() {
						b, ok1 := mulInt(in.base, u.scale)
						b, ok2 := addInt(r.base, b)
						if !ok1 || !ok2 {
							return nil
						}
						r.base = b
						for _, v := range in.terms {
							var ok bool
							if v.scale, ok = mulInt(v.scale, u.scale); !ok {
								return nil
							}
							if r.terms, ok = insert(r.terms, v); !ok {
								return nil
							}
						}
						continue
					}
				}
				if r.terms, ok = insert(r.terms, u); !ok {
					return nil
				}
			}
			s = r
			goto again
		}
	}
	return s
}

// joinDigits is the single term a and b, of one index, make together.
func joinDigits(a, b term) (term, bool) {
	tr := a.trunc && b.trunc
	if a.lo == b.hi { // a is the high part, b the low part
		if c, ok := mulInt(b.scale, a.lo/b.lo); ok && c == a.scale {
			return term{a.x, b.lo, a.hi, b.scale, tr}, true
		}
	}
	if a.hi == b.hi && a.lo > b.lo && a.lo%b.lo == 0 { // b minus its high part
		if c, ok := mulInt(b.scale, a.lo/b.lo); ok && c == -a.scale {
			return term{a.x, b.lo, a.lo, b.scale, tr}, true
		}
	}
	if a.lo == b.lo && b.hi != 0 && a.hi != b.hi && a.hi%b.hi == 0 && a.scale == -b.scale { // a minus its low part
		if c, ok := mulInt(a.scale, b.hi/a.lo); ok {
			return term{a.x, b.hi, a.hi, c, tr}, true
		}
	}
	return term{}, false
}

// sortTerms puts terms in the order they are written.
func sortTerms(ts []term) []term {
	less := func(a, b term) int {
		switch {
		case a.scale != b.scale:
			if a.scale > b.scale {
				return -1
			}
			return 1
		case a.lo != b.lo:
			if a.lo > b.lo {
				return -1
			}
			return 1
		case a.hi != b.hi:
			ah, bh := a.hi, b.hi
			if ah == 0 {
				ah = PosInf
			}
			if bh == 0 {
				bh = PosInf
			}
			if ah > bh {
				return -1
			}
			return 1
		}
		return 0
	}
	if slices.IsSortedFunc(ts, less) {
		return ts
	}
	ts = slices.Clone(ts)
	slices.SortStableFunc(ts, less)
	return ts
}

// fitsType reports that the constants of a sum are values of its type, so that
// it can be written down.
func (s *sum) fitsType() bool {
	b := TypeBound(s.t)
	for i := range s.terms {
		if c := s.terms[i].scale; c < b.Min || c > b.Max {
			return false
		}
	}
	return s.base >= b.Min && s.base <= b.Max
}

// build writes a sum as an expression and remembers what it stands for.
func (q *query) build(s *sum) ir.Expr {
	if s.expr != nil {
		return s.expr
	}
	var e ir.Expr
	join := func(op ir.BinOp, x ir.Expr) {
		if e == nil {
			e = x
		} else {
			e = &ir.Binary{Op: op, A: e, B: x}
		}
	}
	ts := sortTerms(s.terms)
	for i := range ts {
		if ts[i].scale > 0 {
			join(ir.Add, scaled(&ts[i], ts[i].scale, s.t))
		}
	}
	if s.base > 0 {
		join(ir.Add, ir.IntConst(s.t, s.base))
	}
	lo := TypeBound(s.t).Min
	for i := range ts {
		switch c := ts[i].scale; {
		case c > 0:
		case e == nil || c == lo:
			join(ir.Add, scaled(&ts[i], c, s.t))
		default:
			join(ir.Sub, scaled(&ts[i], -c, s.t))
		}
	}
	switch {
	case e == nil:
		e = ir.IntConst(s.t, s.base)
	case s.base == lo:
		join(ir.Add, ir.IntConst(s.t, s.base))
	case s.base < 0:
		join(ir.Sub, ir.IntConst(s.t, -s.base))
	}
	s.expr = e
	q.remember(e, s)
	return e
}

// scaled writes a term with another coefficient.
func scaled(t *term, c int64, ty ir.DType) ir.Expr {
	e := t.x
	div, mod := ir.FloorDiv, ir.FloorMod
	if t.trunc {
		div, mod = ir.Div, ir.TruncMod
	}
	if t.hi != 0 {
		e = &ir.Binary{Op: mod, A: e, B: ir.IntConst(ty, t.hi)}
	}
	if t.lo != 1 {
		e = &ir.Binary{Op: div, A: e, B: ir.IntConst(ty, t.lo)}
	}
	if c != 1 {
		e = &ir.Binary{Op: ir.Mul, A: e, B: ir.IntConst(ty, c)}
	}
	return e
}
