package arith

import "lowertrace/internal/ir"

// lanesOf views a vector as base + stride*lane: a Ramp, or a Broadcast with
// stride 0.
func lanesOf(e ir.Expr) (base, stride ir.Expr, lanes int, ok bool) {
	switch e := e.(type) {
	case *ir.Ramp:
		if e.Base.DType().IsScalar() && e.Base.DType().IsInteger() {
			return e.Base, e.Stride, e.Lanes, true
		}
	case *ir.Broadcast:
		if t := e.Value.DType(); t.IsScalar() && (t.IsInteger() || t.IsBool()) {
			return e.Value, nil, e.Lanes, true
		}
	}
	return nil, nil, 0, false
}

// vector simplifies an operator on two simplified vectors of one type; nil if
// there is nothing to improve.
func (q *query) vector(op ir.BinOp, a, b ir.Expr) ir.Expr {
	ba, okA := a.(*ir.Broadcast)
	bb, okB := b.(*ir.Broadcast)
	if okA && okB && ba.Lanes == bb.Lanes {
		return &ir.Broadcast{Value: q.simplify(&ir.Binary{Op: op, A: ba.Value, B: bb.Value}), Lanes: ba.Lanes}
	}
	xa, sa, n, ok1 := lanesOf(a)
	xb, sb, m, ok2 := lanesOf(b)
	t := a.DType().Scalar()
	if !ok1 || !ok2 || n != m || !t.IsInt() {
		return nil
	}
	bin := func(op ir.BinOp, x, y ir.Expr) ir.Expr { return q.simplify(&ir.Binary{Op: op, A: x, B: y}) }
	ramp := func(base, stride ir.Expr) ir.Expr {
		if ir.IsConst(stride, 0) {
			return &ir.Broadcast{Value: base, Lanes: n}
		}
		return &ir.Ramp{Base: base, Stride: stride, Lanes: n}
	}
	zero := ir.IntConst(t, 0)
	orZero := func(e ir.Expr) ir.Expr {
		if e == nil {
			return zero
		}
		return e
	}
	switch op {
	case ir.Add, ir.Sub:
		return ramp(bin(op, xa, xb), bin(op, orZero(sa), orZero(sb)))
	case ir.Mul:
		if sb == nil {
			return ramp(bin(op, xa, xb), bin(op, sa, xb))
		}
		if sa == nil {
			return ramp(bin(op, xb, xa), bin(op, sb, xa))
		}
	case ir.FloorDiv, ir.FloorMod, ir.Div, ir.TruncMod:
		c, okc := ir.AsInt(xb)
		k, oks := ir.AsInt(orZero(sa))
		if sb != nil || !okc || c <= 0 || !oks {
			return nil
		}
		if (op == ir.Div || op == ir.TruncMod) && q.bound(a).Min < 0 {
			return nil
		}
		isMod := op == ir.FloorMod || op == ir.TruncMod
		if k%c == 0 {
			if isMod {
				return &ir.Broadcast{Value: bin(op, xa, xb), Lanes: n}
			}
			return ramp(bin(op, xa, xb), ir.IntConst(t, ir.FloorDivInt(k, c)))
		}
		// All lanes lie in one block of c when they lie in one block of a
		// divisor g of c that the base is aligned by.
		mo := q.mod(xa)
		g := gcd(mo.Coeff, c)
		if end, ok := mulInt(k, int64(n-1)); k > 0 && ok && ir.FloorModInt(mo.Base, g)+end < g {
			if isMod {
				return ramp(bin(op, xa, xb), orZero(sa))
			}
			return &ir.Broadcast{Value: bin(op, xa, xb), Lanes: n}
		}
	case ir.Min, ir.Max:
		if r := q.laneCompare(ir.LE, xa, sa, xb, sb, n); r != nil {
			return pick(r.Value != 0 == (op == ir.Min), a, b)
		}
	case ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE:
		if r := q.laneCompare(op, xa, sa, xb, sb, n); r != nil {
			return &ir.Broadcast{Value: r, Lanes: n}
		}
		if op == ir.GT {
			return &ir.Binary{Op: ir.LT, A: b, B: a}
		}
		if op == ir.GE {
			return &ir.Binary{Op: ir.LE, A: b, B: a}
		}
	}
	return nil
}

// laneCompare decides a comparison that has the same truth in all lanes; nil
// if it is not known.
func (q *query) laneCompare(op ir.BinOp, xa, sa, xb, sb ir.Expr, n int) *ir.IntImm {
	var k int64
	for i, s := range [2]ir.Expr{sa, sb} {
		if s == nil {
			continue
		}
		v, ok := ir.AsInt(s)
		if !ok {
			return nil
		}
		k += v * int64(1-2*i)
	}
	d := q.difference(q.sumOf(xa), q.sumOf(xb))
	if d == nil {
		return nil
	}
	b := q.rawBound(d)
	all := b.Hull(b.add(Point(satMul(k, int64(n-1)))))
	if truth, ok := decideBounds(op, all, Point(0)); ok {
		return ir.BoolConst(truth)
	}
	return nil
}

// shuffle turns a choice of one vector's lanes in order into that vector, and
// a lane of scalars into the scalar.
func shuffle(e ir.Expr) ir.Expr {
	s, ok := e.(*ir.Shuffle)
	if !ok || len(s.Vectors) != 1 {
		return e
	}
	v := s.Vectors[0]
	if int(v.DType().Lanes) != len(s.Indices) {
		return e
	}
	for i, x := range s.Indices {
		if !ir.IsConst(x, int64(i)) {
			return e
		}
	}
	return v
}
