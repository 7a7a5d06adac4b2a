package script

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// This file has what Python computes before TVM's operators see a value: texts
// written by hand have it, printed ones do not.

// maxPyNodes bounds an expression of literals, which every operator in a long
// chain looks for.
const maxPyNodes = 64

// pyInt is the value of an expression of integer literals alone, such as
// 1 << 20 or 7 // -2. Its fault is what Python refuses in it.
func pyInt(e syntax.Expr) (v int64, fault string, ok bool) {
	left := maxPyNodes
	return pyIntWithin(e, &left)
}

func pyIntWithin(e syntax.Expr, left *int) (v int64, fault string, ok bool) {
	if *left--; *left < 0 {
		return 0, "", false
	}
	switch e := e.(type) {
	case *syntax.Num:
		if e.IsFloat {
			return 0, "", false
		}
		v, ok := e.Int()
		return v, "", ok && v >= 0
	case *syntax.Unary:
		v, fault, ok := pyIntWithin(e.X, left)
		switch {
		case !ok || fault != "":
			return 0, fault, ok
		case e.Op == syntax.Neg:
			return -v, "", v != math.MinInt64
		case e.Op == syntax.Invert:
			return ^v, "", true
		}
	case *syntax.Binary:
		x, fx, ok := pyIntWithin(e.X, left)
		if !ok {
			return 0, "", false
		}
		y, fy, ok := pyIntWithin(e.Y, left)
		if !ok {
			return 0, "", false
		}
		if fx != "" || fy != "" {
			return 0, fx + fy, true
		}
		return pyIntOp(e.Op, x, y)
	}
	return 0, "", false
}

// tooLarge is the fault of a constant that no integer type holds.
const tooLarge = "the number does not fit 64 bits"

func pyIntOp(op syntax.Op, x, y int64) (v int64, fault string, ok bool) {
	switch op {
	case syntax.Add:
		v = x + y
		if (v > x) != (y > 0) && y != 0 {
			return 0, tooLarge, true
		}
	case syntax.Sub:
		v = x - y
		if (v < x) != (y > 0) && y != 0 {
			return 0, tooLarge, true
		}
	case syntax.Mul:
		hi, lo := bits.Mul64(magnitude(x), magnitude(y))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, tooLarge, true
		}
		v = x * y
	case syntax.FloorDiv, syntax.Mod:
		switch {
		case y == 0:
			return 0, "division by zero", true
		case x == math.MinInt64 && y == -1:
			return 0, tooLarge, true
		}
		if op == syntax.Mod {
			v = ir.FloorModInt(x, y)
		} else {
			v = ir.FloorDivInt(x, y)
		}
	case syntax.LShift, syntax.RShift:
		switch {
		case y < 0:
			return 0, "a shift by a negative number", true
		case op == syntax.RShift:
			v = x >> min(y, 63)
		case x != 0 && (y > 62 || x<<y>>y != x):
			return 0, tooLarge, true
		case x != 0:
			v = x << y
		}
	case syntax.BitAnd:
		v = x & y
	case syntax.BitOr:
		v = x | y
	case syntax.BitXor:
		v = x ^ y
	case syntax.Pow:
		if y < 0 {
			return 0, "", false
		}
		v = 1
		for ; y > 0; y-- {
			if v == 0 || v == 1 && x == 1 {
				break
			}
			if hi, lo := bits.Mul64(magnitude(v), magnitude(x)); hi != 0 || lo > math.MaxInt64 {
				return 0, tooLarge, true
			}
			if x == -1 {
				v = 1 - 2*(y&1)
				break
			}
			v *= x
		}
	default:
		return 0, "", false
	}
	return v, "", true
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

// pyBinary reads an infix operator on integer literals alone; known is false
// for others.
func (b *builder) pyBinary(e *syntax.Binary) (x ir.Expr, known bool) {
	if e.Op == syntax.Div {
		p, f1, ok1 := pyInt(e.X)
		q, f2, ok2 := pyInt(e.Y)
		switch {
		case !ok1 || !ok2 || f1+f2 != "":
			return nil, false
		case q == 0:
			b.errorf(e, "division by zero")
			return nil, true
		}
		return ir.FloatConst(ir.DFloat32, float64(p)/float64(q)), true
	}
	v, fault, ok := pyInt(e)
	switch {
	case !ok:
		return nil, false
	case fault != "":
		b.errorf(e, "%s", fault)
		return nil, true
	}
	return b.literal(v), true
}

// pyCall is a call of one of Python's own functions: float("inf").
func (b *builder) pyCall(name string, c *syntax.Call) (ir.Expr, bool) {
	if _, shadowed := b.lookup(name); shadowed || name != "float" || len(c.Args) != 1 || len(c.Keywords) > 0 {
		return nil, false
	}
	switch x := c.Args[0].(type) {
	case *syntax.Str:
		text := strings.ToLower(strings.TrimSpace(x.Value))
		if v, ok := parseFloatText(text); ok {
			return ir.FloatConst(ir.DFloat32, v), true
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			return ir.FloatConst(ir.DFloat32, v), true
		}
		b.errorf(x, "%q is no number", x.Value)
		return nil, true
	case *syntax.Num:
		if v, ok := x.Float(); ok {
			return ir.FloatConst(ir.DFloat32, v), true
		}
	}
	return nil, false
}

// compare is a chain of comparisons. Printed text means (a < b) == c by
// a < b == c, with c a condition; where c is none it is Python's chain,
// a < b and b < c.
func (b *builder) compare(e *syntax.Compare) ir.Expr {
	x := b.expr(e.X)
	last, at := x, e.X
	for i, op := range e.Ops {
		y := b.expr(e.Rest[i])
		if i > 0 && x != nil && y != nil && !y.DType().IsBool() {
			x = b.apply(e, syntax.And, x, b.apply(e, op, last, y, at, e.Rest[i]), e, e)
		} else {
			x = b.apply(e, op, x, y, e.X, e.Rest[i])
		}
		last, at = y, e.Rest[i]
	}
	return x
}

// match brings operands to one type, as TVM's operators do (BinaryOpMatchTypes):
// of two integers the wider type counts, constant or not, so no value is lost.
func (b *builder) match(e syntax.Expr, x, y ir.Expr) (ir.Expr, ir.Expr, bool) {
	if tx, ty := x.DType(), y.DType(); tx.IsInteger() && ty.IsInteger() && tx.Lanes == ty.Lanes && tx != ty {
		if tx.Bits > ty.Bits || tx.Bits == ty.Bits && tx.IsUInt() {
			return x, ir.CastTo(y, tx), true
		}
		return ir.CastTo(x, ty), y, true
	}
	x2, y2, err := ir.MatchTypes(x, y)
	if err != nil {
		b.errorf(e, "%v do not go together", err)
		return nil, nil, false
	}
	return x2, y2, true
}

// constLike gives an integer constant that is compared with a value the value's
// type, if it fits.
func constLike(x, y ir.Expr) (ir.Expr, ir.Expr) {
	fit := func(c, like ir.Expr) ir.Expr {
		t := like.DType()
		if v, ok := ir.AsInt(c); ok && t.IsInteger() && t.IsScalar() && ir.WrapInt(t, v) == v {
			return ir.CastTo(c, t)
		}
		return c
	}
	if _, isConst := ir.AsInt(y); isConst {
		return x, fit(y, x)
	}
	return fit(x, y), y
}

// onBools is what an arithmetic operator on conditions means where it has one
// meaning: their product and minimum are `and`, their maximum is `or`. TVM lets
// + and - through as well, whose result is neither a condition nor a number.
func onBools(op ir.BinOp) (ir.BinOp, bool) {
	switch op {
	case ir.Mul, ir.Min:
		return ir.And, true
	case ir.Max:
		return ir.Or, true
	}
	return op, false
}

// hintForBools is for an operator that conditions do not have.
func (b *builder) hintForBools() string {
	return "join conditions with and, or, not; to count them, convert each with " + b.prefix + `.Cast("int32", ..)`
}

// matched are the operators whose two operands TVM brings to one type; those
// of atan2, ldexp and their like stay as they are.
var matched = map[string]bool{"pow": true, "bitwise_and": true, "bitwise_or": true, "bitwise_xor": true, "shift_left": true, "shift_right": true}

// operands brings the operands of an operator to the types it works on, as
// TVM's functions in Python do. Printed text has them.
func (b *builder) operands(op *ir.Op, c *syntax.Call, args []ir.Expr) bool {
	switch {
	case op.Name == "exp" && len(args) == 1 && args[0].DType().IsInteger():
		args[0] = ir.CastTo(args[0], ir.DFloat32.WithLanes(int(args[0].DType().Lanes)))
	case matched[op.Name] && len(args) == 2 && args[0].DType().Scalar() != args[1].DType().Scalar():
		x, y, ok := b.match(c, args[0], args[1])
		if !ok {
			return false
		}
		args[0], args[1] = x, y
	case op == opIfThenElse && len(args) == 3:
		if !args[0].DType().IsBool() {
			b.errorf(c.Args[0], "expected a condition, found %s", args[0].DType())
			return false
		}
		x, y, ok := b.match(c, args[1], args[2])
		if !ok {
			return false
		}
		args[1], args[2] = x, y
	}
	return true
}

// ceilDiv is T.ceildiv(a, b): (a + b - 1) // b.
func (b *builder) ceilDiv(c *syntax.Call) ir.Expr {
	if !b.wantArgs(c, 2, "two operands") {
		return nil
	}
	x, y := b.integer(c.Args[0]), b.integer(c.Args[1])
	if x == nil || y == nil {
		return nil
	}
	x, y, ok := b.match(c, x, y)
	if !ok {
		return nil
	}
	return b.fold(ir.FloorDiv, b.fold(ir.Sub, b.fold(ir.Add, x, y), ir.Const(x.DType(), 1)), y)
}

// metaVar is T.meta_var(value), the value itself.
func (b *builder) metaVar(c *syntax.Call) ir.Expr {
	if !b.wantArgs(c, 1, "one value") {
		return nil
	}
	return b.expr(c.Args[0])
}
