package arith

import "lowertrace/internal/ir"

// andOr simplifies a conjunction or a disjunction. What stands on the right is
// only evaluated when all to its left holds (does not hold), so it is simplified
// under that. The chain a and b and c is one scope that grows.
func (q *query) andOr(e *ir.Binary) ir.Expr {
	and := e.Op == ir.And
	var chain []*ir.Binary // from the outermost in
	first := ir.Expr(e)
	for {
		b, ok := first.(*ir.Binary)
		if !ok || b.Op != e.Op {
			break
		}
		chain = append(chain, b)
		first = b.A
	}
	a := q.a
	undo := a.scope(nil)
	defer func() {
		undo()
		a.q = q
	}()
	a.q = q
	var out ir.Expr // what is left so far; nil when nothing is
	add := func(was *ir.Binary, operand ir.Expr) (done bool) {
		x := a.query().simplify(operand)
		if v, ok := ir.AsInt(x); ok {
			if (v != 0) == and {
				return false
			}
			out = x
			return true
		}
		switch {
		case out == nil:
			out = x
		case was != nil:
			out = rebinary(was, e.Op, out, x)
		}
		a.assume(x, and, ir.ReadState)
		return false
	}
	if add(nil, first) {
		return out
	}
	for i := len(chain) - 1; i >= 0; i-- {
		if add(chain[i], chain[i].B) {
			return out
		}
	}
	if out == nil {
		return ir.BoolConst(and)
	}
	return out
}

// not simplifies a negation: comparisons turn into their opposites, and De
// Morgan's rules hold for the short-circuit operators.
func (q *query) not(e *ir.Not) ir.Expr {
	a := q.simplify(e.A)
	if r := q.negate(a); r != nil {
		return r
	}
	if a == e.A {
		return e
	}
	return &ir.Not{A: a}
}

// negate is the opposite of a simplified condition, nil when only Not says it.
func (q *query) negate(a ir.Expr) ir.Expr {
	switch a := a.(type) {
	case *ir.IntImm:
		return ir.BoolConst(a.Value == 0)
	case *ir.Not:
		return a.A
	case *ir.Broadcast:
		if v := q.negate(a.Value); v != nil {
			return &ir.Broadcast{Value: v, Lanes: a.Lanes}
		}
	case *ir.Binary:
		t := a.A.DType()
		if a.Op == ir.EQ || a.Op == ir.NE {
			return &ir.Binary{Op: negated(a.Op), A: a.A, B: a.B}
		}
		if a.Op.IsComparison() && t.IsInteger() {
			switch a.Op {
			case ir.LT: // not a < b
				return &ir.Binary{Op: ir.LE, A: a.B, B: a.A}
			case ir.LE:
				return &ir.Binary{Op: ir.LT, A: a.B, B: a.A}
			}
			return &ir.Binary{Op: negated(a.Op), A: a.A, B: a.B}
		}
		if a.Op.IsLogical() {
			l, r := q.negate(a.A), q.negate(a.B)
			if l == nil {
				l = &ir.Not{A: a.A}
			}
			if r == nil {
				r = &ir.Not{A: a.B}
			}
			return &ir.Binary{Op: ir.And + ir.Or - a.Op, A: l, B: r}
		}
	}
	return nil
}

// binary simplifies an operator that is not on scalar signed integers.
func (q *query) binary(e *ir.Binary) ir.Expr {
	a, b := q.simplify(e.A), q.simplify(e.B)
	op := e.Op
	t := a.DType()
	if t.Lanes > 1 {
		if r := q.vector(op, a, b); r != nil {
			return r
		}
		return rebinary(e, op, a, b)
	}
	switch {
	case t.IsFloat():
		if r := foldFloat(op, a, b); r != nil {
			return r
		}
	case t.IsUInt():
		if r := q.unsigned(op, a, b); r != nil {
			return r
		}
	case t.IsBool() && (op == ir.EQ || op == ir.NE):
		if isConst(a) {
			a, b = b, a
		}
		if v, ok := ir.AsInt(b); ok {
			if (v != 0) == (op == ir.EQ) {
				return a
			}
			return q.not(&ir.Not{A: a})
		}
		if Equal(a, b) {
			return ir.BoolConst(op == ir.EQ)
		}
	}
	switch op { // turned around as the others are
	case ir.GT:
		op, a, b = ir.LT, b, a
	case ir.GE:
		op, a, b = ir.LE, b, a
	}
	return rebinary(e, op, a, b)
}

func isConst(e ir.Expr) bool {
	switch e.(type) {
	case *ir.IntImm, *ir.FloatImm:
		return true
	}
	return false
}

// unsigned folds an operator on unsigned integers, which wrap.
func (q *query) unsigned(op ir.BinOp, a, b ir.Expr) ir.Expr {
	t := a.DType()
	ca, oka := a.(*ir.IntImm)
	cb, okb := b.(*ir.IntImm)
	if oka && okb {
		return ir.FoldInt(op, ca, cb)
	}
	zero := func(e *ir.IntImm, ok bool) bool { return ok && e.Value == 0 }
	one := func(e *ir.IntImm, ok bool) bool { return ok && e.Value == 1 }
	switch op {
	case ir.Add:
		if zero(cb, okb) {
			return a
		}
		if zero(ca, oka) {
			return b
		}
	case ir.Sub:
		if zero(cb, okb) {
			return a
		}
		if Equal(a, b) {
			return ir.IntConst(t, 0)
		}
	case ir.Mul:
		if one(cb, okb) || zero(ca, oka) {
			return a
		}
		if one(ca, oka) || zero(cb, okb) {
			return b
		}
	case ir.Div, ir.FloorDiv:
		if one(cb, okb) {
			return a
		}
	case ir.TruncMod, ir.FloorMod:
		if one(cb, okb) {
			return ir.IntConst(t, 0)
		}
	case ir.Min, ir.Max:
		if Equal(a, b) {
			return a
		}
	}
	if t.Bits == 64 {
		if Equal(a, b) && op.IsComparison() {
			return ir.BoolConst(op == ir.EQ || op == ir.LE || op == ir.GE)
		}
		return nil
	}
	ba, bb := q.bound(a), q.bound(b)
	switch op {
	case ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE:
		if Equal(a, b) {
			return ir.BoolConst(op == ir.EQ || op == ir.LE || op == ir.GE)
		}
		if truth, ok := decideBounds(op, ba, bb); ok {
			return ir.BoolConst(truth)
		}
	case ir.Min, ir.Max:
		if ba.Max <= bb.Min {
			return pick(op == ir.Min, a, b)
		}
		if bb.Max <= ba.Min {
			return pick(op == ir.Min, b, a)
		}
	case ir.FloorMod, ir.TruncMod:
		if ba.Max < bb.Min {
			return a
		}
	case ir.FloorDiv, ir.Div:
		if ba.Max < bb.Min {
			return ir.IntConst(t, 0)
		}
	}
	return nil
}

func pick(first bool, a, b ir.Expr) ir.Expr {
	if first {
		return a
	}
	return b
}

// decideBounds compares two values by their intervals.
func decideBounds(op ir.BinOp, a, b Bound) (truth, ok bool) {
	switch op {
	case ir.LT:
		return a.Max < b.Min, a.Max < b.Min || a.Min >= b.Max
	case ir.LE:
		return a.Max <= b.Min, a.Max <= b.Min || a.Min > b.Max
	case ir.GT:
		return decideBounds(ir.LT, b, a)
	case ir.GE:
		return decideBounds(ir.LE, b, a)
	}
	apart := a.Max < b.Min || b.Max < a.Min
	same := a.IsPoint() && a == b
	return same == (op == ir.EQ), apart || same
}
