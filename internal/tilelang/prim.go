package tilelang

import (
	"math"
	"math/big"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/ir/script"
)

// This file builds expressions as TVM's operators do (tvm/tirx/op.h): operands
// are brought to one type, then constants and neutral elements fold, by TVM's
// rules rather than by what would be best.

// exprText is an expression as the printer shows it.
func exprText(e ir.Expr) string {
	if !smallExpr(e) {
		return "..."
	}
	return script.ExprString(e)
}

// smallExpr reports whether an expression has at most MaxExprNodes nodes.
// Expressions share parts, so that a few Python additions can make one that is
// larger than memory when it is walked as a tree.
func smallExpr(e ir.Expr) bool {
	n := 0
	ir.WalkExpr(e, func(ir.Expr) bool {
		n++
		return n <= MaxExprNodes
	})
	return n <= MaxExprNodes
}

// checked is e, provided that it is small enough to be walked.
func (in *interp) checked(e ir.Expr) ir.Expr {
	if !smallExpr(e) {
		f := in.errorf("an expression of more than %d nodes", MaxExprNodes)
		f.limit = true
		panic(f)
	}
	return e
}

// toExpr turns a value into an expression: an int is an int32 (an int64 where
// it does not fit), a float a float32.
func (in *interp) toExpr(v value) ir.Expr {
	switch v := v.(type) {
	case ir.Expr:
		return v
	case bool:
		return ir.BoolConst(v)
	case int64:
		if v != int64(int32(v)) {
			return ir.IntConst(ir.DInt64, v)
		}
		return ir.I32(v)
	case *big.Int:
		panic(in.errorf("%s does not fit into 64 bits", v).is("OverflowError"))
	case float64:
		return ir.FloatConst(ir.DFloat32, v)
	case string:
		return ir.Str(v)
	case *eqOp:
		op := ir.EQ
		if v.ne {
			op = ir.NE
		}
		return in.binary(op, v.a, v.b)
	case *ref:
		return v.load()
	case *ir.Buffer:
		if isVarBuffer(v) {
			return loadVar(v)
		}
		panic(in.errorf("buffer %s is used as a value: expected an element, %s[...]", v.Name, v.Name).
			note(v.Org, "%s is declared here", v.Name).is("TypeError"))
	case *region:
		if e, ok := in.regionLoad(v); ok {
			return e
		}
		panic(in.errorf("a region of buffer %s is used as a value: expected an element", v.buf.Name).is("TypeError"))
	case *unknown:
		panic(in.needKnown(v))
	case *instance:
		if v.cls.valued {
			return in.toExpr(v.attrs["value"])
		}
	}
	panic(in.errorf("expected an expression, got %s", in.typeWithValue(v)).is("TypeError"))
}

// isVarBuffer reports a variable made by T.alloc_var, which is a buffer of one
// element whose name stands for the element.
func isVarBuffer(b *ir.Buffer) bool { return b.Scope() == "local.var" }

func loadVar(b *ir.Buffer) ir.Expr {
	return &ir.BufferLoad{Buffer: b, Indices: []ir.Expr{ir.I32(0)}}
}

// readVar is the element that a variable of a kernel stands for as an operand;
// other values are themselves.
func (in *interp) readVar(v value) value {
	if b, ok := v.(*ir.Buffer); ok && isVarBuffer(b) && in.b != nil {
		return loadVar(b)
	}
	return v
}

// regionLoad is a region as a vector access: its last dimension a ramp.
func (in *interp) regionLoad(r *region) (ir.Expr, bool) {
	idx := make([]ir.Expr, len(r.rng))
	for i, d := range r.rng {
		n, ok := ir.AsInt(d.Extent)
		switch {
		case !ok || n < 1:
			return nil, false
		case n == 1:
			idx[i] = d.Min
		case i == len(r.rng)-1 && n <= ir.MaxLanes:
			idx[i] = &ir.Ramp{Base: d.Min, Stride: ir.IntConst(d.Min.DType(), 1), Lanes: int(n)}
		default:
			return nil, false
		}
	}
	return &ir.BufferLoad{Buffer: r.buf, Indices: idx}, true
}

// cast converts as tvm::cast does: constants fold.
func (in *interp) cast(t ir.DType, e ir.Expr) ir.Expr {
	from := e.DType()
	if from == t {
		return e
	}
	if from.IsHandle() || from.IsVoid() || t.IsHandle() || t.IsVoid() {
		panic(in.errorf("a value of type %s cannot be cast to %s", from, t).is("TypeError"))
	}
	if t.Lanes > 1 {
		if from.Lanes == 1 {
			return &ir.Broadcast{Value: in.cast(t.Scalar(), e), Lanes: int(t.Lanes)}
		}
		if from.Lanes != t.Lanes {
			panic(in.errorf("a vector of %d lanes cannot be cast to %s", from.Lanes, t).is("TypeError"))
		}
		if b, ok := e.(*ir.Broadcast); ok && b.Value.DType().Lanes == 1 {
			return &ir.Broadcast{Value: in.cast(t.Scalar(), b.Value), Lanes: b.Lanes}
		}
		return &ir.Cast{Type: t, Value: e}
	}
	if from.Lanes > 1 {
		panic(in.errorf("a vector of %d lanes cannot be cast to %s", from.Lanes, t).is("TypeError"))
	}
	switch c := e.(type) {
	case *ir.IntImm:
		return in.constant(t, c.Value, float64(c.Value))
	case *ir.FloatImm:
		if t.IsFloat() {
			return ir.FloatConst(t, c.Value)
		}
		if !(math.Abs(c.Value) < 1<<63) {
			panic(in.errorf("%v does not fit into %s", c.Value, t).is("ValueError"))
		}
		return in.constant(t, int64(c.Value), c.Value)
	}
	return &ir.Cast{Type: t, Value: e}
}

// constant makes a constant of a scalar type and says when it does not fit.
func (in *interp) constant(t ir.DType, i int64, f float64) ir.Expr {
	switch {
	case t.IsFloat():
		return ir.FloatConst(t, f)
	case t.IsBool():
		return ir.BoolConst(i != 0)
	case t.IsUInt() && i < 0:
		panic(in.errorf("%d does not fit into %s: it is negative", i, t).is("ValueError"))
	case ir.WrapInt(t, i) != i:
		panic(in.errorf("%d does not fit into %s", i, t).is("ValueError"))
	}
	return ir.IntConst(t, i)
}

// constOf is a Python number in a given type (tvm.tirx.const).
func (in *interp) constOf(t ir.DType, v value) ir.Expr {
	var e ir.Expr
	switch v := v.(type) {
	case bool:
		e = in.constant(t.Scalar(), b2i(v), float64(b2i(v)))
	case int64:
		e = in.constant(t.Scalar(), v, float64(v))
	case *big.Int:
		if t.IsUInt() && t.Bits == 64 && v.IsUint64() {
			// TVM keeps such constants as two halves.
			u := v.Uint64()
			return &ir.Call{Op: ir.MustOp("large_uint_imm"), Type: t, Args: []ir.Expr{
				ir.IntConst(ir.DUInt32, int64(u&0xffffffff)), ir.IntConst(ir.DUInt32, int64(u>>32))}}
		}
		panic(in.errorf("%s does not fit into %s", v, t).is("ValueError"))
	case float64:
		e = in.cast(t.Scalar(), ir.FloatConst(ir.DFloat64, v))
	default:
		return in.cast(t, in.toExpr(v))
	}
	return ir.Splat(e, int(t.Lanes))
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// matchTypes brings two operands to one type (BinaryOpMatchTypes).
func (in *interp) matchTypes(a, b ir.Expr) (ir.Expr, ir.Expr) {
	ta, tb := a.DType(), b.DType()
	if ta == tb {
		return a, b
	}
	bad := func() *failure { return in.errorf("operands of types %s and %s", ta, tb).is("TypeError") }
	if ta.IsHandle() || tb.IsHandle() || ta.IsVoid() || tb.IsVoid() {
		panic(bad())
	}
	if ta.Lanes != tb.Lanes {
		switch {
		case ta.Lanes == 1:
			a = &ir.Broadcast{Value: a, Lanes: int(tb.Lanes)}
		case tb.Lanes == 1:
			b = &ir.Broadcast{Value: b, Lanes: int(ta.Lanes)}
		default:
			panic(bad())
		}
		if ta, tb = a.DType(), b.DType(); ta == tb {
			return a, b
		}
	}
	toA := func() (ir.Expr, ir.Expr) { return a, in.cast(ta, b) }
	toB := func() (ir.Expr, ir.Expr) { return in.cast(tb, a), b }
	ieeeA, ieeeB := ta.Code == ir.Float, tb.Code == ir.Float
	switch {
	case ieeeA && ieeeB:
		if ta.Bits < tb.Bits {
			return toB()
		}
		return toA()
	case ieeeB:
		return toB()
	case ieeeA:
		return toA()
	case ta.Code == ir.BFloat:
		return toA()
	case tb.Code == ir.BFloat:
		return toB()
	case ta.IsFloat() && tb.IsFloat():
		panic(bad())
	case ta.IsFloat():
		return toA()
	case tb.IsFloat():
		return toB()
	case ta.IsBool():
		return toB()
	case tb.IsBool():
		return toA()
	case ta.Bits != tb.Bits:
		if ta.Bits < tb.Bits {
			return toB()
		}
		return toA()
	case ta.IsUInt():
		return toA()
	}
	return toB()
}

// binary applies an operator to expressions.
func (in *interp) binary(op ir.BinOp, a, b ir.Expr) ir.Expr {
	a, b = in.matchTypes(a, b)
	t := a.DType()
	switch op {
	case ir.FloorDiv, ir.FloorMod, ir.TruncMod:
		if !t.IsInteger() {
			panic(in.errorf("%s of %s: expected integers", opName(op), t).is("TypeError"))
		}
	case ir.And, ir.Or:
		if !t.IsBool() {
			panic(in.errorf("%s of %s: expected conditions", opName(op), t).is("TypeError"))
		}
	}
	if e := in.fold(op, a, b); e != nil {
		return e
	}
	return &ir.Binary{Op: op, A: a, B: b}
}

func opName(op ir.BinOp) string {
	switch op {
	case ir.FloorDiv:
		return "//"
	case ir.FloorMod:
		return "%"
	case ir.TruncMod:
		return "truncated remainder"
	case ir.And:
		return "and"
	case ir.Or:
		return "or"
	}
	return op.String()
}

// fold is TVM's constant folding (tvm/arith/const_fold.h); nil where it leaves
// a node.
func (in *interp) fold(op ir.BinOp, a, b ir.Expr) ir.Expr {
	t := a.DType()
	ia, _ := a.(*ir.IntImm)
	ib, _ := b.(*ir.IntImm)
	if ia != nil || ib != nil {
		return in.foldInts(op, a, b, ia, ib)
	}
	fa, _ := a.(*ir.FloatImm)
	fb, _ := b.(*ir.FloatImm)
	if fa == nil && fb == nil {
		if (op == ir.Min || op == ir.Max) && a == b {
			return a
		}
		return nil
	}
	if fa != nil && fb != nil {
		x, y := fa.Value, fb.Value
		switch op {
		case ir.EQ:
			return ir.BoolConst(x == y)
		case ir.NE:
			return ir.BoolConst(x != y)
		case ir.LT:
			return ir.BoolConst(x < y)
		case ir.LE:
			return ir.BoolConst(x <= y)
		case ir.GT:
			return ir.BoolConst(x > y)
		case ir.GE:
			return ir.BoolConst(x >= y)
		case ir.Min:
			return ir.FloatConst(t, math.Min(x, y))
		case ir.Max:
			return ir.FloatConst(t, math.Max(x, y))
		}
		if t == ir.DFloat32 || t == ir.DFloat64 {
			if t == ir.DFloat32 {
				x, y = float64(float32(x)), float64(float32(y))
			}
			var r float64
			switch op {
			case ir.Add:
				r = x + y
			case ir.Sub:
				r = x - y
			case ir.Mul:
				r = x * y
			case ir.Div:
				if y == 0 {
					panic(in.errorf("division by zero").is("ZeroDivisionError"))
				}
				r = x / y
			}
			if t == ir.DFloat32 {
				r = float64(float32(r))
			}
			return ir.FloatConst(t, r)
		}
	}
	zero := func(f *ir.FloatImm) bool { return f != nil && f.Value == 0 }
	one := func(f *ir.FloatImm) bool { return f != nil && f.Value == 1 }
	switch {
	case op == ir.Add && zero(fa), op == ir.Mul && one(fa), op == ir.Mul && zero(fb):
		return b
	case (op == ir.Add || op == ir.Sub) && zero(fb), op == ir.Mul && (one(fb) || zero(fa)),
		op == ir.Div && (zero(fa) || one(fb)):
		return a
	}
	return nil
}

func (in *interp) foldInts(op ir.BinOp, a, b ir.Expr, ia, ib *ir.IntImm) ir.Expr {
	t := a.DType()
	index := t.IsInt() && t.IsScalar() && (t.Bits == 32 || t.Bits == 64)
	div := op == ir.Div || op == ir.FloorDiv || op == ir.FloorMod || op == ir.TruncMod
	if div && ib != nil && ib.Value == 0 {
		panic(in.errorf("division by zero").is("ZeroDivisionError"))
	}
	if (op == ir.FloorMod || op == ir.TruncMod) && !index {
		return nil
	}
	if ia != nil && ib != nil {
		if e := ir.FoldInt(op, ia, ib); e != nil {
			return e
		}
		// A signed overflow wraps in TVM.
		x, y := ia.Value, ib.Value
		switch op {
		case ir.Add:
			x += y
		case ir.Sub:
			x -= y
		case ir.Mul:
			x *= y
		default: // the least value divided by -1
		}
		return ir.IntConst(t, x)
	}
	va, vb := int64(-1), int64(-1)
	if ia != nil {
		va = ia.Value
	}
	if ib != nil {
		vb = ib.Value
	}
	switch op {
	case ir.Add:
		if ia != nil && va == 0 {
			return b
		}
		if ib != nil && vb == 0 {
			return a
		}
	case ir.Sub:
		if ib != nil && vb == 0 {
			return a
		}
	case ir.Mul:
		switch {
		case ia != nil && va == 1, ib != nil && vb == 0:
			return b
		case ib != nil && vb == 1, ia != nil && va == 0:
			return a
		}
	case ir.Div, ir.FloorDiv:
		if ia != nil && va == 0 || ib != nil && vb == 1 {
			return a
		}
	case ir.FloorMod, ir.TruncMod:
		if ia != nil && va == 0 {
			return a
		}
		if ib != nil && vb == 1 {
			return ir.IntConst(t, 0)
		}
	case ir.And:
		switch {
		case ia != nil && va != 0, ib != nil && vb == 0:
			return b
		default:
			return a
		}
	case ir.Or:
		switch {
		case ia != nil && va == 0, ib != nil && vb != 0:
			return b
		default:
			return a
		}
	}
	return nil
}

func (in *interp) add(a, b ir.Expr) ir.Expr { return in.binary(ir.Add, a, b) }
func (in *interp) sub(a, b ir.Expr) ir.Expr { return in.binary(ir.Sub, a, b) }
func (in *interp) mul(a, b ir.Expr) ir.Expr { return in.binary(ir.Mul, a, b) }

// divide is `/`, which TVM refuses for two signed integers.
func (in *interp) divide(a, b ir.Expr) ir.Expr {
	if a.DType().IsInt() && b.DType().IsInt() {
		panic(in.errorf("/ of two integers is ambiguous").hint("use // or T.truncdiv").is("RuntimeError"))
	}
	return in.binary(ir.Div, a, b)
}

// ceildiv is (a + b - 1) // b.
func (in *interp) ceildiv(a, b ir.Expr) ir.Expr {
	a, b = in.matchTypes(a, b)
	return in.binary(ir.FloorDiv, in.sub(in.add(a, b), ir.IntConst(a.DType(), 1)), b)
}

// bits applies a bitwise operator or a shift: bitwise_and, shift_left, ...
func (in *interp) bits(name string, a, b value) ir.Expr {
	// A Python int takes the type of the other side.
	ea, oka := a.(ir.Expr)
	eb, okb := b.(ir.Expr)
	if !oka && okb && isPyInt(a) {
		ea, oka = in.constOf(eb.DType(), a), true
	} else if oka && !okb && isPyInt(b) {
		eb, okb = in.constOf(ea.DType(), b), true
	}
	if !oka {
		ea = in.toExpr(a)
	}
	if !okb {
		eb = in.toExpr(b)
	}
	shift := name == "shift_left" || name == "shift_right"
	for _, e := range []ir.Expr{ea, eb} {
		if t := e.DType(); !t.IsInteger() && (shift || !t.IsBool()) {
			panic(in.errorf("%s of %s: expected integers", name, t).is("TypeError"))
		}
	}
	ea, eb = in.matchTypes(ea, eb)
	t := ea.DType()
	x, okx := ea.(*ir.IntImm)
	y, oky := eb.(*ir.IntImm)
	index := t.IsInt() && t.IsScalar() && (t.Bits == 32 || t.Bits == 64)
	if shift && oky {
		if y.Value < 0 || y.Value >= int64(t.Bits) {
			panic(in.errorf("a shift by %d of a value of %d bits", y.Value, t.Bits).is("ValueError"))
		}
		if index && y.Value == 0 {
			return ea
		}
	}
	if okx && oky && index {
		r := x.Value
		switch name {
		case "bitwise_and":
			r &= y.Value
		case "bitwise_or":
			r |= y.Value
		case "bitwise_xor":
			r ^= y.Value
		case "shift_left":
			r <<= uint(y.Value)
		case "shift_right":
			r >>= uint(y.Value)
		}
		return ir.IntConst(t, r)
	}
	return &ir.Call{Op: ir.MustOp(name), Type: t, Args: []ir.Expr{ea, eb}}
}

func isPyInt(v value) bool {
	switch v.(type) {
	case int64, bool, *big.Int:
		return true
	}
	return false
}

// not and logical make raw nodes, as TVM's constructors do.
func (in *interp) not(a ir.Expr) ir.Expr {
	in.wantBool(a)
	return &ir.Not{A: a}
}

func (in *interp) logical(op ir.BinOp, a, b ir.Expr) ir.Expr {
	in.wantBool(a)
	in.wantBool(b)
	return &ir.Binary{Op: op, A: a, B: b}
}

func (in *interp) wantBool(e ir.Expr) {
	if !e.DType().IsBool() {
		panic(in.errorf("%s has type %s: expected a condition", exprText(e), e.DType()).hint("compare it with 0").is("TypeError"))
	}
}

// ifThenElse is T.if_then_else.
func (in *interp) ifThenElse(cond, a, b ir.Expr) ir.Expr {
	in.wantBool(cond)
	a, b = in.matchTypes(a, b)
	if c, ok := cond.(*ir.IntImm); ok {
		if c.Value != 0 {
			return a
		}
		return b
	}
	return &ir.Call{Op: ir.MustOp("if_then_else"), Type: a.DType(), Args: []ir.Expr{cond, a, b}}
}

// simplify is TVM's analyzer on an expression without context.
func (in *interp) simplify(e ir.Expr) ir.Expr {
	if _, ok := e.(*ir.IntImm); ok {
		return e
	}
	return arith.New().Simplify(in.checked(e))
}

// sameExpr reports structural equality of two expressions, variables by
// identity.
func sameExpr(a, b ir.Expr) bool { return arith.Same(a, b) }

// provablyEqual reports whether two expressions are equal for sure.
func (in *interp) provablyEqual(a, b ir.Expr) bool {
	if a.DType() != b.DType() && a.DType().IsInt() && b.DType().IsInt() {
		if ca, ok := ir.AsInt(a); ok {
			if cb, ok := ir.AsInt(b); ok {
				return ca == cb
			}
		}
	}
	return sameExpr(a, b) || arith.New().CanProveEqual(in.checked(a), in.checked(b))
}
