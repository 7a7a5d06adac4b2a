package expr

import (
	"math"
	"math/bits"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/scoped"
)

// LowerIntrin replaces operators the target has no instruction or function for
// by ones it has.
//
// Precondition: device code, ready for code generation. Effect: floor division
// and remainder become shifts, masks, or truncating division, corrected where
// the dividend may be negative; mathematical operators become calls of CUDA's
// functions by name; pointers become addresses of elements; limits become
// constants. Invariant: values do not change, for negative dividends included.
//
//	x // 8, x % 8  ->  T.shift_right(x, 3), T.bitwise_and(x, 7)
var LowerIntrin = &pipeline.Pass{
	Name:         "LowerIntrin",
	Stage:        stage,
	Doc:          "replace operators by those the target has",
	Precondition: "Device code with flat buffers.",
	Effect:       "Floor divisions and remainders become shifts, masks or truncating operations; math operators become calls of CUDA functions; element pointers become T.address_of.",
	Before:       "Y[tx % 8] = T.tanh(X[tx // 8])",
	After:        "Y[T.bitwise_and(tx, 7)] = T.call_pure_extern(\"float32\", \"tanhf\", X[T.shift_right(tx, 3)])",
	Run:          pipeline.BodyPass(nil, lowerIntrinsics),
}

func lowerIntrinsics(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	l := &intrinLowering{Rewriter: scoped.New()}
	l.PreExpr, l.PostExpr = l.pre, l.post
	return l.Stmt(f.Body), nil
}

type intrinLowering struct{ *scoped.Rewriter }

// pre lowers pointers, and x % y == 0: only whether the remainder is zero matters, and the
// truncating one is zero in the same cases.
func (l *intrinLowering) pre(e ir.Expr) (ir.Expr, bool) {
	if p, ok := ir.IsCall(e, "tvm_access_ptr"); ok {
		return l.elementAddress(p)
	}
	cmp, ok := e.(*ir.Binary)
	if !ok || cmp.Op != ir.EQ && cmp.Op != ir.NE || !ir.IsConst(cmp.B, 0) {
		return e, false
	}
	m, ok := cmp.A.(*ir.Binary)
	if !ok || m.Op != ir.FloorMod {
		return e, false
	}
	return &ir.Binary{Op: cmp.Op, A: &ir.Binary{Op: ir.TruncMod, A: l.Expr(m.A), B: l.Expr(m.B)}, B: cmp.B}, true
}

func (l *intrinLowering) post(e ir.Expr) ir.Expr {
	switch e := e.(type) {
	case *ir.Binary:
		if (e.Op == ir.FloorDiv || e.Op == ir.FloorMod) && e.A.DType().IsInteger() {
			return l.floor(e)
		}
	case *ir.Call:
		if e.Op != nil {
			return lowerCall(e)
		}
	}
	return e
}

// scalarConst is the value of a constant or of a broadcast constant.
func scalarConst(e ir.Expr) (int64, bool) {
	if b, ok := e.(*ir.Broadcast); ok {
		e = b.Value
	}
	return ir.AsInt(e)
}

// floor lowers a floor division or its remainder.
func (l *intrinLowering) floor(e *ir.Binary) ir.Expr {
	t := e.A.DType()
	isDiv := e.Op == ir.FloorDiv
	if c, ok := scalarConst(e.B); ok && c > 0 && c&(c-1) == 0 {
		// Shifting right rounds toward negative infinity, masking gives the
		// matching remainder (two's complement).
		if isDiv {
			if c == 1 {
				return e.A
			}
			return ir.NewCall(ir.MustOp("shift_right"), e.A, ir.Const(t, int64(bits.TrailingZeros64(uint64(c)))))
		}
		return ir.NewCall(ir.MustOp("bitwise_and"), e.A, ir.Const(t, c-1))
	}
	div, rem := &ir.Binary{Op: ir.Div, A: e.A, B: e.B}, &ir.Binary{Op: ir.TruncMod, A: e.A, B: e.B}
	pick := func(d, r ir.Expr) ir.Expr {
		if isDiv {
			return d
		}
		return r
	}
	if t.IsUInt() {
		return pick(div, rem)
	}
	a, b := l.An.Bound(e.A), l.An.Bound(e.B)
	if a.Min >= 0 && b.Min > 0 {
		return pick(div, rem)
	}
	if b.Min > 0 {
		// The truncating remainder is negative exactly when the quotient is
		// one too large; its sign, spread over all bits, is the correction.
		sign := ir.NewCall(ir.MustOp("shift_right"), rem, ir.Const(t, int64(t.Bits)-1))
		if isDiv {
			return &ir.Binary{Op: ir.Add, A: div, B: sign}
		}
		return &ir.Binary{Op: ir.Add, A: rem, B: ir.NewCall(ir.MustOp("bitwise_and"), e.B, sign)}
	}
	zero := ir.Const(t, 0)
	cmp := func(op ir.BinOp, x ir.Expr) ir.Expr { return &ir.Binary{Op: op, A: x, B: zero} }
	both := func(op ir.BinOp, x, y ir.Expr) ir.Expr { return &ir.Binary{Op: op, A: x, B: y} }
	exact := both(ir.Or, both(ir.And, cmp(ir.GE, e.B), cmp(ir.GE, rem)), both(ir.And, cmp(ir.LT, e.B), cmp(ir.LE, rem)))
	if isDiv {
		return &ir.Select{Cond: exact, True: div, False: &ir.Binary{Op: ir.Sub, A: div, B: ir.Const(t, 1)}}
	}
	return &ir.Select{Cond: exact, True: rem, False: &ir.Binary{Op: ir.Add, A: rem, B: e.B}}
}

// cudaMath are the functions of CUDA's math library by operator (CUDA Math API,
// "Single Precision" and "Double Precision Mathematical Functions"): with the
// suffix f for float32, the prefix h for 16-bit types.
var cudaMath = map[string]string{
	"exp": "exp", "exp2": "exp2", "exp10": "exp10", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
	"sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
	"asin": "asin", "acos": "acos", "atan": "atan", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
	"erf": "erf", "sqrt": "sqrt", "rsqrt": "rsqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
	"round": "nearbyint", "nearbyint": "nearbyint", "fabs": "fabs",
	"pow": "pow", "fmod": "fmod", "atan2": "atan2", "copysign": "copysign", "nextafter": "nextafter", "hypot": "hypot",
}

// halfMath are the names for 16-bit types that do not follow the rule.
var halfMath = map[string]string{"fabs": "__habs", "nearbyint": "hrint"}

func lowerCall(c *ir.Call) ir.Expr {
	t := c.Type
	switch c.Op.Name {
	case "infinity":
		return ir.Splat(ir.FloatConst(t, math.Inf(1)), int(t.Lanes))
	case "max_value", "min_value":
		if v := limit(t.Scalar(), c.Op.Name == "max_value"); v != nil {
			return ir.Splat(v, int(t.Lanes))
		}
		return c
	case "sigmoid":
		one := ir.Const(t, 1)
		neg := &ir.Binary{Op: ir.Sub, A: ir.Const(t, 0), B: c.Args[0]}
		exp := lowerCall(ir.NewCall(ir.MustOp("exp"), neg))
		return &ir.Binary{Op: ir.Div, A: one, B: &ir.Binary{Op: ir.Add, A: one, B: exp}}
	case "popcount", "clz":
		arg := c.Args[0].DType()
		if !arg.IsInteger() || arg.Bits != 32 && arg.Bits != 64 {
			return c
		}
		name := map[string]string{"popcount": "__popc", "clz": "__clz"}[c.Op.Name]
		if arg.Bits == 64 {
			name += "ll"
		}
		return pureExtern(t, name, c.Args)
	}
	name, ok := cudaMath[c.Op.Name]
	if !ok || !t.IsFloat() {
		return c
	}
	switch {
	case t.Code == ir.Float && t.Bits == 32:
		return pureExtern(t, name+"f", c.Args)
	case t.Code == ir.Float && t.Bits == 64:
		return pureExtern(t, name, c.Args)
	case t.Bits == 16 && len(c.Args) == 1:
		if h, ok := halfMath[name]; ok {
			return pureExtern(t, h, c.Args)
		}
		return pureExtern(t, "h"+name, c.Args)
	}
	return c
}

func pureExtern(t ir.DType, name string, args []ir.Expr) ir.Expr {
	all := append([]ir.Expr{ir.Str(name)}, args...)
	return ir.NewTypedCall(ir.MustOp("call_pure_extern"), t, all...)
}

// elementAddress turns a pointer into the address of the element it points to,
// in a view that ends there.
func (l *intrinLowering) elementAddress(c *ir.Call) (ir.Expr, bool) {
	typ, ok := ir.IsCall(c.Args[0], "type_annotation")
	data, ok2 := c.Args[1].(*ir.Var)
	if !ok || !ok2 {
		return c, false
	}
	off := c.Args[2]
	view := &ir.Buffer{Name: data.Name, Data: data, Type: typ.Type, Shape: []ir.Expr{ir.NewBinary(ir.Add, off, ir.IntConst(off.DType(), 1))}}
	return ir.NewCall(ir.MustOp("address_of"), &ir.BufferLoad{Buffer: view, Indices: []ir.Expr{l.Expr(off)}}), true
}

// limit is the largest or smallest finite value of a type, nil when it is not
// a constant this table has.
func limit(t ir.DType, largest bool) ir.Expr {
	switch {
	case t.IsInt():
		v := int64(1)<<(t.Bits-1) - 1
		if !largest {
			v = -v - 1
		}
		return ir.IntConst(t, v)
	case t.IsUInt():
		if !largest {
			return ir.IntConst(t, 0)
		}
		return ir.IntConst(t, -1)
	case t.IsBool():
		return ir.BoolConst(largest)
	}
	v, ok := floatMax[t]
	if !ok {
		return nil
	}
	if !largest {
		v = -v
	}
	return ir.FloatConst(t, v)
}

// floatMax are the largest finite values of floating-point formats (IEEE 754;
// bfloat16 has the exponent of float32 and 7 fraction bits; OCP 8-bit formats).
var floatMax = map[ir.DType]float64{
	ir.DFloat64:  math.MaxFloat64,
	ir.DFloat32:  math.MaxFloat32,
	ir.DFloat16:  65504,
	ir.DBFloat16: math.Ldexp(255.0/128.0, 127),
	{Code: ir.Float8E4M3FN, Bits: 8, Lanes: 1}: 448,
	{Code: ir.Float8E5M2, Bits: 8, Lanes: 1}:   57344,
}
