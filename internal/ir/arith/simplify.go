package arith

import "lowertrace/internal/ir"

// simplify rewrites an expression bottom-up; results are kept by node.
func (q *query) simplify(e ir.Expr) ir.Expr {
	if e == nil {
		return nil
	}
	if c, ok := e.(*ir.IntImm); ok && isIndex(c.Type) {
		return e
	}
	known := q.at(e)
	if known.simp != nil {
		return known.simp
	}
	if q.a.spent() {
		return e
	}
	t := e.DType()
	if isIndex(t) {
		s := q.sumOf(e)
		r := q.build(s)
		if r != e && Equal(r, e) {
			r = e
			s.expr = e
		}
		q.setSimp(known, r)
		if r != e {
			q.setSimp(q.at(r), r)
		}
		return r
	}
	q.setSimp(known, e) // a query about e from within its own rewriting
	r := q.rewrite(e)
	if t == ir.DBool && len(q.a.lits) > 0 && !q.impure(r) {
		if truth, ok := q.known(r); ok {
			r = ir.BoolConst(truth)
		} else if n := q.negate(r); n != nil {
			if truth, ok := q.known(n); ok {
				r = ir.BoolConst(!truth)
			}
		}
	}
	if r != e && Equal(r, e) {
		r = e
	}
	q.setSimp(known, r)
	if to := q.at(r); to.simp == nil {
		q.setSimp(to, r)
	}
	return r
}

// sumOf is the simplified sum of a scalar signed expression.
func (q *query) sumOf(e ir.Expr) *sum {
	if c, ok := e.(*ir.IntImm); ok {
		s := constSum(c.Type, c.Value)
		s.expr = c
		return s
	}
	known := q.at(e)
	if known.sum != nil {
		return known.sum
	}
	if known.open || q.a.spent() {
		// While e is worked on it is an atom to whoever asks.
		q.setSum(known, atomSum(e))
		return known.sum
	}
	known.open = true
	s := q.makeSum(e)
	if s.unit() && !q.impure(s.terms[0].x) {
		// A value that is known is replaced by it.
		if b := q.sumBound(s); b.IsPoint() {
			s = constSum(s.t, b.Min)
		}
	}
	q.setSum(known, s)
	return s
}

func (q *query) makeSum(e ir.Expr) *sum {
	if q.impure(e) {
		return q.atom(q.rewriteParts(e))
	}
	switch e := e.(type) {
	case *ir.Var:
		if v := q.a.vars[e]; v != nil && v.value != nil && v.value.DType() == e.Type && v.value != e {
			return q.sumOf(v.value)
		}
	case *ir.Binary:
		a, b := q.sumOf(e.A), q.sumOf(e.B)
		switch e.Op {
		case ir.Add, ir.Sub:
			k := int64(1)
			if e.Op == ir.Sub {
				k = -1
			}
			if s := q.addScaled(a, b, k); s != nil {
				return s
			}
			return q.opaque(e.Op, a, b)
		case ir.Mul:
			return q.mulSums(a, b)
		case ir.Div, ir.TruncMod, ir.FloorDiv, ir.FloorMod:
			return q.divmod(e.Op, a, b)
		case ir.Min, ir.Max:
			return q.minmax(e.Op, a, b)
		}
	}
	r := q.rewrite(e)
	switch {
	case r == e:
		return atomSum(e)
	case isChoice(r):
		return q.atom(r) // its sides are simplified under its condition
	}
	return q.sumOf(r)
}

// isChoice reports a Select or an if_then_else.
func isChoice(e ir.Expr) bool {
	if _, ok := e.(*ir.Select); ok {
		return true
	}
	_, ok := ir.IsCall(e, "if_then_else")
	return ok
}

// atom is an expression as a term of its own.
func (q *query) atom(e ir.Expr) *sum {
	s := atomSum(e)
	q.remember(e, s)
	return s
}

// mulSums is a product. A product with a constant is distributed; from others
// the constant factors are drawn out.
func (q *query) mulSums(a, b *sum) *sum {
	if a.isConst() && !b.isConst() {
		a, b = b, a
	}
	if b.isConst() {
		if s := q.addScaled(constSum(a.t, 0), a, b.base); s != nil {
			return s
		}
		return q.opaque(ir.Mul, a, b)
	}
	ga, gb := a.common(a.base), b.common(b.base)
	g, ok := mulInt(ga, gb)
	if !ok || ga == 0 || gb == 0 || g == 1 {
		return q.opaque(ir.Mul, a, b)
	}
	if s := q.addScaled(constSum(a.t, 0), q.opaque(ir.Mul, a.divide(ga), b.divide(gb)), g); s != nil {
		return s
	}
	return q.opaque(ir.Mul, a, b)
}

// minmax is Min or Max of two sums.
func (q *query) minmax(op ir.BinOp, a, b *sum) *sum {
	d := q.difference(a, b)
	if d == nil {
		return q.opaque(op, a, b)
	}
	bd := q.rawBound(d)
	if op == ir.Max {
		bd = bd.neg()
	}
	switch {
	case bd.Max <= 0:
		return a
	case bd.Min >= 0:
		return b
	}
	// x + c1 and x + c2 are decided above; here the rest that is common.
	if c, ra, rb := q.shared(a, b); len(c.terms) > 0 && q.fits(ra) && q.fits(rb) {
		if s := q.addScaled(c, q.minmax(op, ra, rb), 1); s != nil {
			return s
		}
	}
	// min(x*c, y*c); a sum with a constant keeps its shape.
	if g := gcd(a.common(a.base), b.common(b.base)); g > 1 && a.base == 0 && b.base == 0 && !a.isConst() && !b.isConst() {
		if s := q.addScaled(constSum(a.t, 0), q.minmax(op, a.divide(g), b.divide(g)), g); s != nil {
			return s
		}
	}
	a0, b0 := a, b
	ea, eb := q.build(a), q.build(b)
	other := ir.Min + ir.Max - op
	for range 2 {
		if in, ok := ea.(*ir.Binary); ok && (in.Op == op || in.Op == other) {
			if Same(in.A, eb) || Same(in.B, eb) {
				if in.Op == op {
					return a // min(min(x, y), y)
				}
				return b // min(max(x, y), y)
			}
			if in.Op == op && b.isConst() {
				x, y := in.A, in.B
				if isConst(x) {
					x, y = y, x
				}
				if c, ok := ir.AsInt(y); ok { // min(min(x, c1), c2)
					k := min(c, b.base)
					if op == ir.Max {
						k = max(c, b.base)
					}
					return q.minmax(op, q.sumOf(x), constSum(a.t, k))
				}
			}
		}
		ea, eb, a, b = eb, ea, b, a
	}
	return q.opaque(op, a0, b0)
}

// shared is the terms that two sums have in common and what is left of each.
func (q *query) shared(a, b *sum) (c, ra, rb *sum) {
	c = &sum{t: a.t}
	ra, rb = &sum{t: a.t, base: a.base}, &sum{t: b.t, base: b.base}
	for i := range a.terms {
		t := a.terms[i]
		if u := b.find(&t); u != nil && u.scale == t.scale {
			c.terms = append(c.terms, t)
		} else {
			ra.terms = append(ra.terms, t)
		}
	}
	for i := range b.terms {
		if c.find(&b.terms[i]) == nil {
			rb.terms = append(rb.terms, b.terms[i])
		}
	}
	return c, ra, rb
}

// rewriteParts simplifies the operands of e and nothing else.
func (q *query) rewriteParts(e ir.Expr) ir.Expr {
	switch e := e.(type) {
	case *ir.Binary:
		return rebinary(e, e.Op, q.simplify(e.A), q.simplify(e.B))
	case *ir.Not:
		if a := q.simplify(e.A); a != e.A {
			return &ir.Not{A: a}
		}
	case *ir.Cast:
		if v := q.simplify(e.Value); v != e.Value {
			return &ir.Cast{Type: e.Type, Value: v}
		}
	case *ir.Select:
		c, t, f := q.simplify(e.Cond), q.simplify(e.True), q.simplify(e.False)
		if c != e.Cond || t != e.True || f != e.False {
			return &ir.Select{Cond: c, True: t, False: f}
		}
	case *ir.Ramp:
		b, s := q.simplify(e.Base), q.simplify(e.Stride)
		if b != e.Base || s != e.Stride {
			return &ir.Ramp{Base: b, Stride: s, Lanes: e.Lanes}
		}
	case *ir.Broadcast:
		if v := q.simplify(e.Value); v != e.Value {
			return &ir.Broadcast{Value: v, Lanes: e.Lanes}
		}
	case *ir.Shuffle:
		v, same1 := q.list(e.Vectors)
		i, same2 := q.list(e.Indices)
		if !same1 || !same2 {
			return &ir.Shuffle{Vectors: v, Indices: i}
		}
	case *ir.Let:
		return q.let(e)
	case *ir.BufferLoad:
		idx, same := q.list(e.Indices)
		p := q.simplify(e.Predicate)
		if !same || p != e.Predicate {
			return &ir.BufferLoad{Buffer: e.Buffer, Indices: idx, Predicate: p}
		}
	case *ir.Call:
		args, same := q.list(e.Args)
		attrs, same2 := q.callAttrs(e.Attrs)
		if !same || !same2 {
			c := *e
			c.Args, c.Attrs = args, attrs
			return &c
		}
	}
	return e
}

func (q *query) list(es []ir.Expr) ([]ir.Expr, bool) {
	out, same := es, true
	for i, e := range es {
		r := q.simplify(e)
		if r == e {
			continue
		}
		if same {
			out, same = append([]ir.Expr(nil), es...), false
		}
		out[i] = r
	}
	return out, same
}

func (q *query) callAttrs(as []ir.Arg) ([]ir.Arg, bool) {
	out, same := as, true
	for i, a := range as {
		e, ok := a.Value.(ir.Expr)
		if !ok {
			continue
		}
		if r := q.simplify(e); r != e {
			if same {
				out, same = append([]ir.Arg(nil), as...), false
			}
			out[i].Value = r
		}
	}
	return out, same
}

func (q *query) let(e *ir.Let) ir.Expr {
	v := q.simplify(e.Value)
	var undo func()
	a := q.a
	inline := false
	switch v.(type) {
	case *ir.IntImm, *ir.FloatImm, *ir.Var:
		inline = true
		undo = a.BindExpr(e.Var, v)
	default:
		undo = a.BindValue(e.Var, v)
	}
	body := a.query().simplify(e.Body)
	undo()
	a.q = q
	if inline && !ir.UsesVar(body, func(x *ir.Var) bool { return x == e.Var }) {
		return body
	}
	if v == e.Value && body == e.Body {
		return e
	}
	return &ir.Let{Var: e.Var, Value: v, Body: body}
}

func rebinary(e *ir.Binary, op ir.BinOp, a, b ir.Expr) ir.Expr {
	if op == e.Op && a == e.A && b == e.B {
		return e
	}
	return &ir.Binary{Op: op, A: a, B: b}
}

// rewrite simplifies an expression that is no affine operator.
func (q *query) rewrite(e ir.Expr) ir.Expr {
	if q.impure(e) {
		return q.rewriteParts(e)
	}
	switch e := e.(type) {
	case *ir.Var:
		if v := q.a.vars[e]; v != nil {
			if v.value != nil && v.value.DType() == e.Type && v.value != e {
				return q.simplify(v.value)
			}
			if e.Type.IsUInt() && v.bound.IsPoint() {
				return ir.IntConst(e.Type, v.bound.Min)
			}
		}
		return e
	case *ir.Not:
		return q.not(e)
	case *ir.Select:
		return q.choose(e, e.Cond, e.True, e.False)
	case *ir.Cast:
		return q.cast(e)
	case *ir.Binary:
		switch t := e.A.DType(); {
		case e.Op == ir.And || e.Op == ir.Or:
			if t.Lanes == 1 {
				return q.andOr(e)
			}
		case e.Op.IsComparison() && isIndex(t):
			return q.compare(e.Op, q.sumOf(e.A), q.sumOf(e.B))
		}
		return q.binary(e)
	case *ir.Call:
		if e.Op != nil && e.Op.Name == "if_then_else" && len(e.Args) == 3 {
			return q.choose(e, e.Args[0], e.Args[1], e.Args[2])
		}
		r := q.rewriteParts(e)
		if c, ok := r.(*ir.Call); ok {
			return q.call(c)
		}
		return r
	case *ir.Ramp:
		r, ok := q.rewriteParts(e).(*ir.Ramp)
		if ok && ir.IsConst(r.Stride, 0) && r.Stride.DType().IsScalar() {
			return &ir.Broadcast{Value: r.Base, Lanes: r.Lanes}
		}
		return r
	case *ir.Shuffle:
		return shuffle(q.rewriteParts(e))
	}
	return q.rewriteParts(e)
}

// choose simplifies a Select or an if_then_else, each side under what the
// condition says.
func (q *query) choose(e ir.Expr, cond, yes, no ir.Expr) ir.Expr {
	c := q.simplify(cond)
	if v, ok := ir.AsInt(c); ok {
		if v != 0 {
			return q.simplify(yes)
		}
		return q.simplify(no)
	}
	var y, n ir.Expr
	bd, md := unbounded, anyMod
	whole := integral(e.DType())
	side := func(arm ir.Expr, out *ir.Expr) func(*query) {
		return func(q *query) {
			*out = q.simplify(arm)
			if !whole {
				return
			}
			// What is known of each side under the condition is kept, since it
			// cannot be found again without entering it.
			if b, m := q.bound(*out), q.mod(*out); out == &y {
				bd, md = b, m
			} else {
				bd, md = bd.Hull(b), md.union(m)
			}
		}
	}
	if c.DType() == ir.DBool {
		q.under(c, true, side(yes, &y))
		q.under(c, false, side(no, &n))
	} else {
		side(yes, &y)(q)
		side(no, &n)(q)
	}
	if Same(y, n) {
		return y
	}
	if e.DType() == ir.DBool {
		vy, oky := ir.AsInt(y)
		_, okn := ir.AsInt(n)
		switch {
		case oky && okn && vy != 0:
			return c
		case oky && okn:
			return q.not(&ir.Not{A: c})
		}
	}
	r := e
	if c != cond || y != yes || n != no {
		if call, ok := e.(*ir.Call); ok {
			d := *call
			d.Args = []ir.Expr{c, y, n}
			r = &d
		} else {
			r = &ir.Select{Cond: c, True: y, False: n}
		}
	}
	if whole && q.a.factDepth == 0 {
		known := q.at(r)
		known.setBound(TypeBound(r.DType()).Intersect(bd))
		known.setMod(md)
	}
	return r
}

// cast simplifies a conversion. One conversion within another goes when the
// inner one loses nothing.
func (q *query) cast(e *ir.Cast) ir.Expr {
	v := q.simplify(e.Value)
	if v.DType() == e.Type {
		return v
	}
	if in, ok := v.(*ir.Cast); ok && integral(e.Type) && integral(in.Type) && integral(in.Value.DType()) &&
		e.Type.IsInteger() && in.Type.IsInteger() && in.Type.Lanes == 1 {
		if b := q.bound(in.Value); TypeBound(in.Type).Contains(b) && (in.Type.Bits < 64 || b != unbounded || in.Value.DType().IsInt() && in.Type.IsInt()) {
			if in.Value.DType() == e.Type {
				return in.Value
			}
			return &ir.Cast{Type: e.Type, Value: in.Value}
		}
	}
	if r := ir.CastTo(v, e.Type); !isCast(r, e.Type, v) && exactCast(v, r) {
		return r
	}
	if v == e.Value {
		return e
	}
	return &ir.Cast{Type: e.Type, Value: v}
}

// exactCast reports that folding the conversion of a constant keeps its value:
// a floating-point constant only stands for what it is written as when its type
// can represent that.
func exactCast(from, to ir.Expr) bool {
	if b, ok := from.(*ir.Broadcast); ok {
		c, ok := to.(*ir.Broadcast)
		return ok && exactCast(b.Value, c.Value)
	}
	f, ok := to.(*ir.FloatImm)
	if !ok {
		return true
	}
	if c, ok := from.(*ir.FloatImm); ok && !(finite(c.Value) && representable(c.Type, c.Value)) {
		return false
	}
	return finite(f.Value) && representable(f.Type, f.Value)
}

func isCast(e ir.Expr, t ir.DType, v ir.Expr) bool {
	c, ok := e.(*ir.Cast)
	return ok && c.Type == t && c.Value == v
}

func integral(t ir.DType) bool { return t.IsInteger() || t.IsBool() }

// call folds the calls that are operators on integers.
func (q *query) call(e *ir.Call) ir.Expr {
	if e.Op == nil {
		return e
	}
	switch e.Op.Name {
	case "likely":
		if _, ok := ir.AsInt(e.Args[0]); ok {
			return e.Args[0]
		}
	case "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right":
		if !e.Type.IsInteger() || e.Type.Lanes != 1 || e.Args[0].DType() != e.Type {
			return e
		}
		a, oka := ir.AsInt(e.Args[0])
		b, okb := ir.AsInt(e.Args[1])
		if oka && okb {
			if r, ok := foldBits(e.Op.Name, e.Type, a, b); ok {
				return ir.IntConst(e.Type, r)
			}
		}
		if okb && b == 0 && e.Op.Name != "bitwise_and" {
			return e.Args[0]
		}
	}
	return e
}

func foldBits(op string, t ir.DType, a, b int64) (int64, bool) {
	switch op {
	case "bitwise_and":
		return a & b, true
	case "bitwise_or":
		return a | b, true
	case "bitwise_xor":
		return a ^ b, true
	}
	if b < 0 || b >= int64(t.Bits) {
		return 0, false
	}
	if op == "shift_right" {
		if t.IsUInt() {
			return int64(uint64(a) >> b), true
		}
		return a >> b, true
	}
	r := a << b
	// A signed shift that loses bits is left for the device.
	if t.IsInt() && (r>>b != a || ir.WrapInt(t, r) != r) {
		return 0, false
	}
	return r, true
}
