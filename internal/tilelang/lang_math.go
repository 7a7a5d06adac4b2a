package tilelang

import (
	"math"

	"lowertrace/internal/ir"
)

// langMath adds arithmetic: functions of elements and expressions.
func langMath(def definer) {
	// Intrinsics of floating-point values that take any type.
	for _, name := range []string{"exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sigmoid", "erf", "popcount"} {
		def(name+"(x)", func(in *interp, a *args) value { return in.intrin(name, in.exprArg(a, 0)) })
	}
	def("exp(x)", func(in *interp, a *args) value {
		e := in.exprArg(a, 0)
		if e.DType().IsInteger() {
			e = &ir.Cast{Type: ir.DFloat32.WithLanes(int(e.DType().Lanes)), Value: e}
		}
		return in.intrin("exp", e)
	})
	float := func(in *interp, a *args, i int) ir.Expr {
		e := in.exprArg(a, i)
		if !e.DType().IsFloat() {
			panic(in.errorAt(a.at[i], "%s of %s: expected a floating-point value", a.name(), e.DType()).hint("cast it with T.cast").is("TypeError"))
		}
		return e
	}
	for _, name := range []string{"tanh", "tan", "cos", "cosh", "sin", "sinh", "acos", "acosh", "asin", "asinh", "atan", "atanh",
		"__exp", "__exp10", "__log", "__log2", "__log10", "__tan", "__cos", "__sin"} {
		def(name+"(x)", func(in *interp, a *args) value { return in.intrin(name, float(in, a, 0)) })
	}
	for _, name := range []string{"floor", "ceil", "trunc", "nearbyint"} {
		def(name+"(x)", func(in *interp, a *args) value { return in.rounding(name, in.exprArg(a, 0)) })
	}
	def("round(x, rounding_mode=\"ties-to-even\")", func(in *interp, a *args) value {
		e := in.exprArg(a, 0)
		if in.oneOf(a, 1, "ties-to-even", "ties-away-from-zero") == "ties-to-even" {
			return in.rounding("round", e)
		}
		return in.intrin("round_ties_away_from_zero", e)
	})
	def("abs(x)", func(in *interp, a *args) value { return in.abs(in.exprArg(a, 0)) })
	for _, name := range []string{"atan2", "nextafter", "hypot", "copysign", "ldexp", "fmod"} {
		def(name+"(x1, x2)", func(in *interp, a *args) value {
			x, y := in.exprArg(a, 0), in.exprArg(a, 1)
			return in.typedIntrin(name, x.DType(), x, y)
		})
	}
	def("pow(x, y)", func(in *interp, a *args) value {
		x := in.exprArg(a, 0)
		switch y := a.v[1].(type) {
		case int64:
			return in.powInt(x, y)
		case *ir.IntImm:
			return in.powInt(x, y.Value)
		}
		return in.pow(x, in.exprArg(a, 1))
	})
	def("pow_of_int(x, y)", func(in *interp, a *args) value {
		x := in.exprArg(a, 0)
		return in.typedIntrin("pow_of_int", x.DType(), x, in.exprArg(a, 1))
	})
	def("clz(x)", func(in *interp, a *args) value { return in.intrin("clz", in.exprArg(a, 0)) })
	def("__ffs(value)", func(in *interp, a *args) value { return in.intrin("__ffs", in.exprArg(a, 0)) })
	def("__fns(mask, base, offset)", func(in *interp, a *args) value {
		return in.intrin("__fns", in.exprArg(a, 0), in.exprArg(a, 1), in.exprArg(a, 2))
	})
	def("isnan(x)", func(in *interp, a *args) value { return in.isnan(in.exprArg(a, 0)) })
	def("isinf(x)", func(in *interp, a *args) value {
		e := in.exprArg(a, 0)
		t := e.DType()
		switch {
		case t.IsInteger():
			return ir.BoolConst(false)
		case !t.IsFloat():
			panic(in.errorAt(a.at[0], "T.isinf of %s", t).is("TypeError"))
		}
		inf := ir.FloatConst(t, math.Inf(1))
		return in.logical(ir.And, in.binary(ir.EQ, in.abs(e), ir.Splat(inf, int(t.Lanes))), in.not(in.isnan(e)))
	})
	def("isfinite(x)", func(in *interp, a *args) value { return in.intrin("isfinite", in.exprArg(a, 0)) })
	def("isnullptr(x)", func(in *interp, a *args) value { return in.intrin("isnullptr", a.v[0]) })
	def("likely(cond)", func(in *interp, a *args) value {
		e := in.exprArg(a, 0)
		if _, ok := e.(*ir.IntImm); ok {
			return e
		}
		return in.intrin("likely", e)
	})
	for _, f := range []struct {
		name string
		op   ir.BinOp
	}{{"max", ir.Max}, {"min", ir.Min}, {"floordiv", ir.FloorDiv}, {"floormod", ir.FloorMod}, {"truncdiv", ir.Div}, {"truncmod", ir.TruncMod}} {
		def(f.name+"(a, b)", func(in *interp, a *args) value {
			x, y := in.exprArg(a, 0), in.exprArg(a, 1)
			if f.op == ir.Div && (!x.DType().IsInteger() || !y.DType().IsInteger()) {
				panic(in.errorf("T.truncdiv of %s and %s: expected integers", x.DType(), y.DType()).is("TypeError"))
			}
			return in.binary(f.op, x, y)
		})
	}
	def("ceildiv(lhs, rhs)", func(in *interp, a *args) value { return in.ceildiv(in.exprArg(a, 0), in.exprArg(a, 1)) })
	def("align_up(x, y)", func(in *interp, a *args) value {
		y := in.exprArg(a, 1)
		return in.mul(in.ceildiv(in.exprArg(a, 0), y), y)
	})
	for _, name := range []string{"bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"} {
		def(name+"(x, y)", func(in *interp, a *args) value { return in.bits(name, in.plain(a.v[0]), in.plain(a.v[1])) })
	}
	def("bitwise_not(x)", func(in *interp, a *args) value { return in.intrin("bitwise_not", in.exprArg(a, 0)) })
	def("And(a, b)", func(in *interp, a *args) value { return in.logical(ir.And, in.exprArg(a, 0), in.exprArg(a, 1)) })
	def("Or(a, b)", func(in *interp, a *args) value { return in.logical(ir.Or, in.exprArg(a, 0), in.exprArg(a, 1)) })
	def("Not(a)", func(in *interp, a *args) value { return in.not(in.exprArg(a, 0)) })
	for _, f := range []struct {
		name string
		op   ir.BinOp
	}{{"Add", ir.Add}, {"Sub", ir.Sub}, {"Mul", ir.Mul}, {"Div", ir.Div}, {"Mod", ir.TruncMod}, {"FloorDiv", ir.FloorDiv}, {"FloorMod", ir.FloorMod},
		{"Max", ir.Max}, {"Min", ir.Min}, {"EQ", ir.EQ}, {"NE", ir.NE}, {"LT", ir.LT}, {"LE", ir.LE}, {"GT", ir.GT}, {"GE", ir.GE}} {
		def(f.name+"(a, b)", func(in *interp, a *args) value {
			x, y := in.matchTypes(in.exprArg(a, 0), in.exprArg(a, 1))
			return &ir.Binary{Op: f.op, A: x, B: y}
		})
	}
	def("if_then_else(cond, t, f)", func(in *interp, a *args) value {
		c := in.exprArg(a, 0)
		return in.ifThenElse(c, in.exprArg(a, 1), in.exprArg(a, 2))
	})
	def("Select(condition, true_value, false_value)", func(in *interp, a *args) value {
		c, t, f := in.exprArg(a, 0), in.exprArg(a, 1), in.exprArg(a, 2)
		in.wantBool(c)
		if t.DType() != f.DType() {
			panic(in.errorf("T.Select between %s and %s: the types must agree", t.DType(), f.DType()).hint("use T.if_then_else, or T.cast").is("TypeError"))
		}
		return &ir.Select{Cond: c, True: t, False: f}
	})
	def("clamp(dst, min_val, max_val)", func(in *interp, a *args) value {
		x, lo, hi := in.exprArg(a, 0), in.exprArg(a, 1), in.exprArg(a, 2)
		c := in.binary(ir.Min, in.binary(ir.Max, x, lo), hi)
		t := c.DType()
		if !t.IsFloat() {
			return c
		}
		return in.typedIntrin("clamp", t, in.cast(t, x), in.cast(t, lo), in.cast(t, hi))
	})
	cast := func(in *interp, a *args, val, dt int) value {
		t := in.dtypeOf(a.v[dt], a.at[dt])
		if isPyNumber(a.v[val]) {
			if f, ok := a.v[val].(float64); ok {
				return in.cast(t, ir.FloatConst(ir.DFloat32, f))
			}
			return in.constOf(t, a.v[val])
		}
		e := in.exprArg(a, val)
		if t.Lanes == 1 && e.DType().Lanes > 1 {
			t = t.WithLanes(int(e.DType().Lanes))
		}
		return in.cast(t, e)
	}
	def("cast(value, dtype, round=\"\", sat=True, rbits=None)", func(in *interp, a *args) value {
		in.castRounding(a)
		if !in.boolArg(a, 3) {
			// A cast with a hint is a node, also where it changes nothing. TileLang's CUDA
			// generator makes the same of it as of one without.
			t, e := in.dtypeOf(a.v[1], a.at[1]), in.exprArg(a, 0)
			if t.Lanes == 1 {
				t = t.WithLanes(int(e.DType().Lanes))
			}
			return &ir.Cast{Type: t, Value: e}
		}
		return cast(in, a, 0, 1)
	})
	// T.Cast is the node: unlike T.cast it keeps casts of constants and casts
	// that change nothing.
	def("Cast(dtype, value)", func(in *interp, a *args) value {
		t := in.dtypeOf(a.v[0], a.at[0])
		e := in.exprArg(a, 1)
		if e.DType().Lanes != t.Lanes {
			panic(in.errorf("T.Cast of %s to %s: the lanes differ", typeOf(e.DType()), t).is("ValueError"))
		}
		return &ir.Cast{Type: t, Value: e}
	})
	def("reinterpret(value, dtype)", func(in *interp, a *args) value {
		v, d := 0, 1
		switch a.v[0].(type) {
		case ir.DType, string: // the order of TVM
			v, d = 1, 0
		}
		t, e := in.dtypeOf(a.v[d], a.at[d]), in.exprArg(a, v)
		from := e.DType()
		if t == from {
			return e
		}
		if int(t.Bits)*int(t.Lanes) != int(from.Bits)*int(from.Lanes) && !t.IsHandle() && !from.IsHandle() {
			panic(in.errorAt(a.at[v], "%s cannot be read as %s: the sizes differ", from, t).is("TypeError"))
		}
		return in.typedIntrin("reinterpret", t, e)
	})
	def("infinity(dtype)", func(in *interp, a *args) value {
		t := in.dtypeOf(a.v[0], a.at[0])
		if !t.IsFloat() {
			panic(in.errorAt(a.at[0], "%s has no infinity", t).is("TypeError"))
		}
		return in.typedIntrin("infinity", t)
	})
	limit := func(max bool) func(in *interp, a *args) value {
		return func(in *interp, a *args) value {
			t := in.dtypeOf(a.v[0], a.at[0])
			return in.limitOf(t, max)
		}
	}
	def("max_value(dtype)", limit(true))
	def("min_value(dtype)", limit(false))
	def("Broadcast(value, lanes)", func(in *interp, a *args) value {
		n := in.intArg(a, 1)
		e := in.exprArg(a, 0)
		if n < 1 || n*int64(e.DType().Lanes) > ir.MaxLanes {
			panic(in.errorAt(a.at[1], "a vector of %d lanes", n).is("ValueError"))
		}
		return ir.Splat(e, int(n))
	})
	def("Ramp(base, stride, lanes)", func(in *interp, a *args) value {
		n := in.intArg(a, 2)
		b, s := in.matchTypes(in.exprArg(a, 0), in.exprArg(a, 1))
		if n < 2 || n > ir.MaxLanes || b.DType().Lanes != 1 {
			panic(in.errorAt(a.at[2], "a ramp of %d lanes", n).is("ValueError"))
		}
		return &ir.Ramp{Base: b, Stride: s, Lanes: int(n)}
	})
	def("Shuffle(vectors, indices)", func(in *interp, a *args) value {
		s := &ir.Shuffle{}
		for _, v := range in.iterate(a.v[0]) {
			s.Vectors = append(s.Vectors, in.toExpr(v))
		}
		for _, v := range in.iterate(a.v[1]) {
			s.Indices = append(s.Indices, in.toExpr(v))
		}
		if len(s.Vectors) == 0 {
			panic(in.errorf("T.Shuffle of nothing").is("ValueError"))
		}
		return s
	})
	def("extract_lane(vector, lane)", func(in *interp, a *args) value {
		e, n := in.exprArg(a, 0), in.intArg(a, 1)
		if l := int64(e.DType().Lanes); l < 2 || n < 0 || n >= l {
			panic(in.errorAt(a.at[1], "lane %d of a value of type %s", n, e.DType()).is("IndexError"))
		}
		return &ir.Shuffle{Vectors: []ir.Expr{e}, Indices: []ir.Expr{ir.I32(n)}}
	})
	same := func(in *interp, a *args, n int) []value {
		out := make([]value, n)
		t := ir.DType{}
		for i := range n {
			e := float(in, a, i)
			if i == 0 {
				t = e.DType()
			} else if e.DType() != t {
				panic(in.errorAt(a.at[i], "%s of %s and %s: the types must agree", a.name(), t, e.DType()).is("ValueError"))
			}
			out[i] = e
		}
		return out
	}
	def("fmul(x, y)", func(in *interp, a *args) value { return in.intrin("fmul", same(in, a, 2)...) })
	def("fma(x, y, z)", func(in *interp, a *args) value { return in.intrin("fma", same(in, a, 3)...) })
	def("fast_rcp(x)", func(in *interp, a *args) value { return in.intrin("fast_rcp", in.exprArg(a, 0)) })
	mode := func(in *interp, a *args, n int) value {
		list := make([]value, n)
		for i := range n {
			list[i] = in.exprArg(a, i)
		}
		name := a.name()[len("T."):]
		return in.typedIntrin(name, list[0].(ir.Expr).DType(), append(list, in.oneOf(a, n, "rn", "rz", "ru", "rd"))...)
	}
	for _, n := range []string{"ieee_add", "ieee_sub", "ieee_mul", "ieee_fdiv"} {
		def(n+"(x, y, rounding_mode=\"rn\")", func(in *interp, a *args) value { return mode(in, a, 2) })
	}
	for _, n := range []string{"ieee_frcp", "ieee_fsqrt"} {
		def(n+"(x, rounding_mode=\"rn\")", func(in *interp, a *args) value { return mode(in, a, 1) })
	}
	def("ieee_fmaf(x, y, z, rounding_mode=\"rn\")", func(in *interp, a *args) value { return mode(in, a, 3) })
	def("ieee_frsqrt(x)", func(in *interp, a *args) value { return in.intrin("ieee_frsqrt", in.exprArg(a, 0)) })
	packed := func(n int) func(in *interp, a *args) value {
		return func(in *interp, a *args) value {
			list := make([]value, n)
			for i := range n {
				e := in.exprArg(a, i)
				t := e.DType()
				if t.Lanes != 2 || t.Scalar() != ir.DFloat32 && t.Scalar() != ir.DFloat16 && t.Scalar() != ir.DBFloat16 {
					panic(in.errorAt(a.at[i], "%s of %s: expected float32x2, float16x2 or bfloat16x2", a.name(), t).is("ValueError"))
				}
				if i > 0 && list[0].(ir.Expr).DType() != t {
					panic(in.errorAt(a.at[i], "%s of %s and %s: the types must agree", a.name(), list[0].(ir.Expr).DType(), t).is("ValueError"))
				}
				list[i] = e
			}
			return in.intrin(a.name()[len("T."):], list...)
		}
	}
	for _, n := range []string{"add2", "sub2", "mul2", "max2", "min2"} {
		def(n+"(x, y)", packed(2))
	}
	def("fma2(x, y, z)", packed(3))
	def("abs2(x)", packed(1))
	def("__ldg(load_or_buf, index=None)", func(in *interp, a *args) value {
		switch x := in.resolveLet(a.v[0]).(type) {
		case *ir.BufferLoad:
			return in.intrin("__ldg", x)
		case *ir.Buffer:
			if isNone(a.v[1]) {
				panic(in.errorf("T.__ldg of a buffer needs an index").is("ValueError"))
			}
			return in.intrin("__ldg", in.index(x, a.v[1]))
		}
		panic(in.errorAt(a.at[0], "T.__ldg needs an element of a buffer").is("TypeError"))
	})
	def("index_to_coordinates(index, shape)", func(in *interp, a *args) value {
		idx, shape := in.exprArg(a, 0), in.shapeOf(a.v[1], a.at[1])
		return exprsValue(in.coordinates(idx, shape))
	})
}

// coordinates splits a flat index by a shape.
func (in *interp) coordinates(idx ir.Expr, shape []ir.Expr) []ir.Expr {
	out := make([]ir.Expr, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = in.binary(ir.FloorMod, idx, shape[i])
		idx = in.binary(ir.FloorDiv, idx, shape[i])
	}
	return out
}

// abs is tvm::abs: a selection for signed integers.
func (in *interp) abs(e ir.Expr) ir.Expr {
	t := e.DType()
	switch {
	case t.IsInt():
		if c, ok := e.(*ir.IntImm); ok {
			return ir.IntConst(t, max(c.Value, -c.Value))
		}
		zero := ir.Const(t, 0)
		return &ir.Select{Cond: in.binary(ir.GE, e, zero), True: e, False: in.sub(zero, e)}
	case t.IsFloat():
		if c, ok := e.(*ir.FloatImm); ok {
			return ir.FloatConst(t, math.Abs(c.Value))
		}
		return &ir.Call{Op: ir.MustOp("fabs"), Type: t, Args: []ir.Expr{e}}
	case t.IsUInt():
		return e
	}
	panic(in.errorf("abs of %s", t).is("TypeError"))
}

// rounding is floor, ceil, trunc, round, nearbyint: integers stay.
func (in *interp) rounding(name string, e ir.Expr) ir.Expr {
	t := e.DType()
	if t.IsInteger() {
		return e
	}
	if c, ok := e.(*ir.FloatImm); ok {
		f := map[string]func(float64) float64{"floor": math.Floor, "ceil": math.Ceil, "trunc": math.Trunc, "round": math.RoundToEven, "nearbyint": math.RoundToEven}[name]
		return ir.FloatConst(t, f(c.Value))
	}
	return &ir.Call{Op: ir.MustOp(name), Type: t, Args: []ir.Expr{e}}
}

func (in *interp) isnan(e ir.Expr) ir.Expr {
	t := e.DType()
	switch {
	case t.IsInteger():
		return ir.Const(ir.DBool.WithLanes(int(t.Lanes)), 0)
	case !t.IsFloat():
		panic(in.errorf("T.isnan of %s", t).is("TypeError"))
	case t.Bits == 16:
		e = in.cast(ir.DFloat32.WithLanes(int(t.Lanes)), e)
	}
	return in.intrin("isnan", e)
}

func (in *interp) powInt(x ir.Expr, n int64) ir.Expr {
	switch {
	case n == 0:
		return in.constOf(x.DType(), int64(1))
	case n > 0:
		return in.typedIntrin("pow_of_int", x.DType(), x, in.toExpr(n))
	}
	return in.pow(x, in.toExpr(n))
}

func (in *interp) pow(x, y ir.Expr) ir.Expr {
	x, y = in.matchTypes(x, y)
	if !x.DType().IsFloat() {
		panic(in.errorf("T.pow of %s: expected floating-point values", x.DType()).hint("use T.pow_of_int").is("TypeError"))
	}
	return &ir.Call{Op: ir.MustOp("pow"), Type: x.DType(), Args: []ir.Expr{x, y}}
}

// limitOf is the largest or smallest finite value of a type.
func (in *interp) limitOf(t ir.DType, largest bool) ir.Expr {
	sign := 1.0
	if !largest {
		sign = -1
	}
	switch {
	case t.IsUInt():
		if !largest {
			return ir.IntConst(t, 0)
		}
		if t.Bits == 64 {
			return &ir.Call{Op: ir.MustOp("large_uint_imm"), Type: t, Args: []ir.Expr{ir.IntConst(ir.DUInt32, 0xffffffff), ir.IntConst(ir.DUInt32, 0xffffffff)}}
		}
		return ir.IntConst(t, -1)
	case t.IsInt():
		v := int64(math.MaxInt64) >> (64 - uint(t.Bits))
		if !largest {
			v = -v - 1
		}
		return ir.IntConst(t, v)
	case t.IsBool():
		return ir.BoolConst(largest)
	}
	limits := map[ir.TypeCode]float64{ir.BFloat: 3.3895313892515355e38, ir.Float8E4M3FN: 448, ir.Float8E5M2: 57344,
		ir.Float8E4M3FNUZ: 240, ir.Float8E5M2FNUZ: 57344, ir.Float4E2M1FN: 6, ir.Float6E2M3FN: 7.5, ir.Float6E3M2FN: 28, ir.Float8E4M3: 448}
	v, ok := limits[t.Code]
	if t.Code == ir.Float {
		v, ok = map[uint8]float64{16: 65504, 32: math.MaxFloat32, 64: math.MaxFloat64}[t.Bits], true
	}
	if !ok {
		panic(in.errorf("the limits of %s are not known", t).is("TypeError"))
	}
	return ir.FloatConst(t, sign*v)
}

// castRounding refuses the rounding modes of T.cast: on CUDA TileLang lowers
// stochastic rounding alone, by instructions that begin with sm_100a.
func (in *interp) castRounding(a *args) {
	mode, at := in.stringArg(a, 2), a.at[2]
	switch mode {
	case "":
		if !isNone(a.v[4]) {
			panic(in.errorAt(a.at[4], "T.cast takes rbits for round=\"rs\" alone").is("ValueError"))
		}
	case "rs":
		if isNone(a.v[4]) {
			panic(in.errorAt(at, "T.cast with round=\"rs\" needs rbits, the random bits").is("ValueError"))
		}
		panic(in.errorAt(at, "stochastic rounding needs instructions of sm_100a, which is no target here"))
	case "rn", "rz", "rp", "rm":
		panic(in.errorAt(at, "T.cast with round=%s has no lowering for CUDA, in TileLang 0.1.15 either", pyQuote(mode)).
			hint("without round a value is rounded to the nearest, to an integer toward zero; T.floor, T.ceil and T.trunc round before a cast"))
	default:
		f := in.errorAt(at, "there is no rounding mode %s", pyQuote(mode)).is("ValueError")
		panic(f.hint("the modes of T.cast are rn, rz, rp, rm and rs"))
	}
}
