package ir

import (
	"fmt"
	"math"
)

// I32 is an int32 constant.
func I32(v int64) *IntImm { return &IntImm{DInt32, v} }

// IntConst is an integer or bool constant of a scalar type, wrapped to its
// width.
func IntConst(t DType, v int64) *IntImm { return &IntImm{t.Scalar(), WrapInt(t, v)} }

// BoolConst is a truth value.
func BoolConst(v bool) *IntImm {
	if v {
		return &IntImm{DBool, 1}
	}
	return &IntImm{DBool, 0}
}

// FloatConst is a floating-point constant of a scalar type.
func FloatConst(t DType, v float64) *FloatImm { return &FloatImm{t.Scalar(), v} }

// Str is a string constant.
func Str(s string) *StringImm { return &StringImm{s} }

// Const is the constant v in a numeric type; vectors get a Broadcast.
func Const(t DType, v int64) Expr {
	var e Expr
	if t.IsFloat() {
		e = FloatConst(t, float64(v))
	} else {
		e = IntConst(t, v)
	}
	return Splat(e, int(t.Lanes))
}

// Splat broadcasts a scalar to lanes; it is e itself when lanes is 1.
func Splat(e Expr, lanes int) Expr {
	if lanes <= 1 {
		return e
	}
	return &Broadcast{e, lanes}
}

// WrapInt reduces v to the values of an integer type: two's complement for
// signed types, modulo 2^bits for unsigned ones (kept as a bit pattern in 64
// bits), 0 or 1 for bool.
func WrapInt(t DType, v int64) int64 {
	switch {
	case t.Code == Bool:
		if v != 0 {
			return 1
		}
		return 0
	case t.Bits == 0 || t.Bits >= 64:
		return v
	case t.Code == UInt:
		return v & (1<<t.Bits - 1)
	}
	shift := 64 - uint(t.Bits)
	return v << shift >> shift
}

// AsInt is the value of an integer constant.
func AsInt(e Expr) (int64, bool) {
	if c, ok := e.(*IntImm); ok {
		return c.Value, true
	}
	return 0, false
}

// IsConst reports the integer constant v.
func IsConst(e Expr, v int64) bool {
	c, ok := e.(*IntImm)
	return ok && c.Value == v
}

// BinaryType is the result type of an operator on two operand types, which
// must agree; comparisons and logic give bool.
func BinaryType(op BinOp, a, b DType) (DType, error) {
	if a != b {
		return DVoid, fmt.Errorf("%s of %s and %s", op, a, b)
	}
	if op.IsLogical() && !a.IsBool() {
		return DVoid, fmt.Errorf("%s of %s: operands must be bool", op, a)
	}
	if op.IsComparison() || op.IsLogical() {
		return DBool.WithLanes(int(a.Lanes)), nil
	}
	return a, nil
}

// MatchTypes brings two operands to one type, as TVM's operators do: a scalar
// is broadcast to the lanes of a vector; an integer constant takes the other
// side's type; otherwise ints widen to the wider, an int with a float becomes
// that float, and a narrower float becomes the wider one.
func MatchTypes(a, b Expr) (Expr, Expr, error) {
	ta, tb := a.DType(), b.DType()
	if ta == tb {
		return a, b, nil
	}
	if ta.Lanes != tb.Lanes {
		switch {
		case ta.Lanes == 1 && !ta.IsVoid():
			a = &Broadcast{a, int(tb.Lanes)}
		case tb.Lanes == 1 && !tb.IsVoid():
			b = &Broadcast{b, int(ta.Lanes)}
		default:
			return a, b, fmt.Errorf("operands of %d and %d lanes", ta.Lanes, tb.Lanes)
		}
		ta, tb = a.DType(), b.DType()
	}
	if ta == tb {
		return a, b, nil
	}
	switch {
	case ta.IsHandle() || tb.IsHandle() || ta.IsVoid() || tb.IsVoid():
		return a, b, fmt.Errorf("operands of types %s and %s", ta, tb)
	case ta.IsFloat() && !tb.IsFloat():
		return a, CastTo(b, ta), nil
	case tb.IsFloat() && !ta.IsFloat():
		return CastTo(a, tb), b, nil
	case isIntConst(b) && !ta.IsBool():
		return a, CastTo(b, ta), nil
	case isIntConst(a) && !tb.IsBool():
		return CastTo(a, tb), b, nil
	case ta.Bits > tb.Bits || ta.Bits == tb.Bits && ta.IsUInt():
		return a, CastTo(b, ta), nil
	default:
		return CastTo(a, tb), b, nil
	}
}

func isIntConst(e Expr) bool { _, ok := e.(*IntImm); return ok }

// CastTo converts e to a type, folding constants; e itself when it has it.
func CastTo(e Expr, t DType) Expr {
	if e.DType() == t {
		return e
	}
	if t.Lanes > 1 {
		if b, ok := e.(*Broadcast); ok && int(t.Lanes)%b.Lanes == 0 {
			return &Broadcast{CastTo(b.Value, t.WithLanes(int(t.Lanes)/b.Lanes)), b.Lanes}
		}
	}
	if t.Lanes == 1 {
		switch c := e.(type) {
		case *IntImm:
			switch {
			case t.IsInteger() || t.IsBool():
				return IntConst(t, c.Value)
			case t.IsFloat() && !(c.Type.IsUInt() && c.Type.Bits == 64 && c.Value < 0):
				return FloatConst(t, float64(c.Value))
			}
		case *FloatImm:
			// A constant keeps the digits it was written with; as a value of a
			// narrower type it is rounded, so it folds only where that is exact.
			if t == DFloat64 && c.Type == DFloat32 && float64(float32(c.Value)) == c.Value {
				return FloatConst(t, c.Value)
			}
		}
	}
	return &Cast{t, e}
}

// NewBinary applies an operator after MatchTypes, folding constants and the
// neutral elements (x+0, x*1, 0*x for integers, x//1, x%1, true and x, …). It
// panics on operands that cannot be matched: input must be checked before.
func NewBinary(op BinOp, a, b Expr) Expr {
	a, b, err := MatchTypes(a, b)
	if err != nil {
		panic(fmt.Sprintf("ir: %s: %v", op, err))
	}
	if e := foldBinary(op, a, b); e != nil {
		return e
	}
	return &Binary{op, a, b}
}

func foldBinary(op BinOp, a, b Expr) Expr {
	ca, oka := a.(*IntImm)
	cb, okb := b.(*IntImm)
	if oka && okb {
		if e := FoldInt(op, ca, cb); e != nil {
			return e
		}
		return nil
	}
	t := a.DType()
	switch {
	case op == And && oka:
		if ca.Value != 0 {
			return b
		}
		return a
	case op == And && okb && cb.Value != 0, op == Or && okb && cb.Value == 0:
		return a
	case op == Or && oka:
		if ca.Value == 0 {
			return b
		}
		return a
	case !t.IsInteger() || !t.IsScalar():
		return nil
	case op == Add && okb && cb.Value == 0, op == Sub && okb && cb.Value == 0,
		op == Mul && okb && cb.Value == 1, (op == FloorDiv || op == Div) && okb && cb.Value == 1:
		return a
	case op == Add && oka && ca.Value == 0, op == Mul && oka && ca.Value == 1:
		return b
	case op == Mul && (oka && ca.Value == 0 || okb && cb.Value == 0),
		(op == FloorMod || op == TruncMod) && okb && cb.Value == 1:
		if SideEffect(a) <= ReadState && SideEffect(b) <= ReadState {
			return IntConst(t, 0)
		}
	case (op == FloorDiv || op == Div || op == FloorMod || op == TruncMod) && oka && ca.Value == 0 && okb && cb.Value != 0:
		return a
	}
	return nil
}

// FoldInt computes an operator on two integer constants of one type, wrapping
// as the device does. It is nil where the result is not defined: division by
// zero, or the overflow of a signed type (so that nothing hides it).
func FoldInt(op BinOp, a, b *IntImm) Expr {
	t, x, y := a.Type, a.Value, b.Value
	if t.IsUInt() && t.Bits == 64 {
		return foldUint64(op, t, uint64(x), uint64(y))
	}
	var r int64
	switch op {
	case Add:
		r = x + y
		if (r > x) != (y > 0) && y != 0 { // int64 itself overflowed
			return nil
		}
	case Sub:
		r = x - y
		if (r < x) != (y > 0) && y != 0 {
			return nil
		}
	case Mul:
		r = x * y
		// Narrow unsigned products wrap in int64 as they do in their own type.
		if t.IsInt() && x != 0 && (r/x != y || x == -1 && y == math.MinInt64) {
			return nil
		}
	case Div, TruncMod, FloorDiv, FloorMod:
		if y == 0 || x == math.MinInt64 && y == -1 && (op == Div || op == FloorDiv) {
			return nil
		}
		switch op {
		case Div:
			r = x / y
		case TruncMod:
			r = x % y
		case FloorDiv:
			r = FloorDivInt(x, y)
		case FloorMod:
			r = FloorModInt(x, y)
		}
	case Min:
		r = min(x, y)
	case Max:
		r = max(x, y)
	case EQ:
		return BoolConst(x == y)
	case NE:
		return BoolConst(x != y)
	case LT:
		return BoolConst(x < y)
	case LE:
		return BoolConst(x <= y)
	case GT:
		return BoolConst(x > y)
	case GE:
		return BoolConst(x >= y)
	case And:
		return BoolConst(x != 0 && y != 0)
	case Or:
		return BoolConst(x != 0 || y != 0)
	}
	if t.IsInt() && WrapInt(t, r) != r {
		return nil
	}
	return IntConst(t, r)
}

func foldUint64(op BinOp, t DType, x, y uint64) Expr {
	var r uint64
	switch op {
	case Add:
		r = x + y
	case Sub:
		r = x - y
	case Mul:
		r = x * y
	case Div, FloorDiv:
		if y == 0 {
			return nil
		}
		r = x / y
	case TruncMod, FloorMod:
		if y == 0 {
			return nil
		}
		r = x % y
	case Min:
		r = min(x, y)
	case Max:
		r = max(x, y)
	case EQ:
		return BoolConst(x == y)
	case NE:
		return BoolConst(x != y)
	case LT:
		return BoolConst(x < y)
	case LE:
		return BoolConst(x <= y)
	case GT:
		return BoolConst(x > y)
	case GE:
		return BoolConst(x >= y)
	default:
		return nil
	}
	return &IntImm{t, int64(r)}
}

// FloorDivInt is x divided by y (not 0), rounded toward negative infinity.
func FloorDivInt(x, y int64) int64 {
	q := x / y
	if x%y != 0 && (x < 0) != (y < 0) {
		q--
	}
	return q
}

// FloorModInt is the remainder of FloorDivInt; it has the sign of y.
func FloorModInt(x, y int64) int64 {
	r := x % y
	if r != 0 && (r < 0) != (y < 0) {
		r += y
	}
	return r
}

// Conjuncts are the conditions that a condition is the conjunction of, in order.
func Conjuncts(e Expr) []Expr {
	if b, ok := e.(*Binary); ok && b.Op == And {
		return append(Conjuncts(b.A), Conjuncts(b.B)...)
	}
	return []Expr{e}
}

// NewCall applies an operator, typed by its rule. It panics on wrong
// arguments: input must be checked with Op.ResultType before.
func NewCall(op *Op, args ...Expr) *Call {
	if op.Rule == TypeFirst || op.Rule == TypeLast {
		panic("ir: T." + op.Name + " needs its type stated: use NewTypedCall")
	}
	t, err := op.ResultType(args, DVoid)
	if err != nil {
		panic("ir: " + err.Error())
	}
	return &Call{Op: op, Type: t, Args: args}
}

// NewTypedCall applies an operator whose result type is stated.
func NewTypedCall(op *Op, t DType, args ...Expr) *Call { return &Call{Op: op, Type: t, Args: args} }

// IsCall reports a call of the operator with a name and returns it.
func IsCall(e Expr, name string) (*Call, bool) {
	c, ok := e.(*Call)
	if ok && c.Op != nil && c.Op.Name == name {
		return c, true
	}
	return nil, false
}

// Attr is the value of a keyword argument, nil if it is not given.
func (e *Call) Attr(name string) Attr {
	for _, a := range e.Attrs {
		if a.Name == name {
			return a.Value
		}
	}
	return nil
}

// SideEffect is the strongest effect of evaluating e. A BufferLoad reads.
func SideEffect(e Expr) Effect {
	eff := Pure
	WalkExpr(e, func(e Expr) bool {
		switch e := e.(type) {
		case *BufferLoad:
			eff = max(eff, ReadState)
		case *Call:
			if e.Op == nil {
				eff = Control
			} else {
				eff = max(eff, e.Op.Effect)
			}
		}
		return eff < Control
	})
	return eff
}

// RowMajorStrides are the strides of a compact buffer of a shape, in elements.
func RowMajorStrides(shape []Expr) []Expr {
	out := make([]Expr, len(shape))
	var acc Expr = I32(1)
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = acc
		acc = NewBinary(Mul, shape[i], acc)
	}
	return out
}
