package cuda

import (
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/num"
)

// mathNames are the functions of CUDA's math library for the IR's operators:
// NAMEf for float, NAME for double.
var mathNames = map[string]string{
	"exp": "exp", "exp2": "exp2", "exp10": "exp10", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
	"sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asin": "asin", "acos": "acos",
	"atan": "atan", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf", "sqrt": "sqrt", "rsqrt": "rsqrt",
	"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round", "nearbyint": "nearbyint", "fabs": "fabs",
	"pow": "pow", "fmod": "fmod", "atan2": "atan2", "copysign": "copysign", "nextafter": "nextafter", "hypot": "hypot",
	"fma": "fma",
}

// fastMath are the approximations, which only the IR's own operators ask for;
// float only.
var fastMath = map[string]string{
	"__exp": "__expf", "__exp10": "__exp10f", "__log": "__logf", "__log2": "__log2f", "__log10": "__log10f", "__tan": "__tanf",
	"__cos": "__cosf", "__sin": "__sinf",
}

// ieeeMath are the correctly rounded functions, by rounding mode where there
// is one; float only.
var ieeeMath = map[string]string{
	"ieee_frsqrt": "__frsqrt_rn", "ieee_add": "__fadd_rn", "ieee_sub": "__fsub_rn", "ieee_mul": "__fmul_rn", "ieee_fdiv": "__fdiv_rn",
	"ieee_fmaf": "__fmaf_rn", "ieee_frcp": "__frcp_rn", "ieee_fsqrt": "__fsqrt_rn",
}

// math prints an elementwise operator.
func (g *gen) math(c *ir.Call) (text, bool) {
	name := c.Op.Name
	t := ir.DVoid
	if len(c.Args) > 0 {
		t = c.Args[0].DType().Scalar()
	}
	if fn := fastMath[name]; fn != "" && t == ir.DFloat32 {
		return g.mapLanes(fn, c.Type, c.Args...), true
	}
	if fn := ieeeMath[name]; fn != "" && t == ir.DFloat32 {
		args := c.Args
		if len(args) > 0 {
			if s, ok := args[len(args)-1].(*ir.StringImm); ok {
				fn = fn[:strings.LastIndexByte(fn, '_')+1] + s.Value
				args = args[:len(args)-1]
			}
		}
		return g.mapLanes(fn, c.Type, args...), true
	}
	if fn := mathNames[name]; fn != "" {
		switch {
		case t == ir.DFloat32:
			return g.mapLanes(fn+"f", c.Type, c.Args...), true
		case t == ir.DFloat64:
			return g.mapLanes(fn, c.Type, c.Args...), true
		case isNarrow(t):
			return g.throughFloat(fn+"f", c.Type, c.Args), true
		}
	}
	switch name {
	case "abs":
		switch {
		case t == ir.DFloat32:
			return g.mapLanes("fabsf", c.Type, c.Args...), true
		case t == ir.DFloat64:
			return g.mapLanes("fabs", c.Type, c.Args...), true
		case isNarrow(t):
			return g.throughFloat("fabsf", c.Type, c.Args), true
		case t.IsUInt():
			return g.expr(c.Args[0]), true
		}
		return g.mapLanes("abs", c.Type, c.Args...), true
	case "clamp":
		return g.operator("min", &ir.Binary{Op: ir.Max, A: c.Args[0], B: c.Args[1]}, c.Args[2]), true
	case "sigmoid":
		if t == ir.DFloat32 && c.Type.IsScalar() {
			return infixText("/", atom("1.0f"), text{"(1.0f + expf(-" + g.expr(c.Args[0]).in(precUnary) + "))", precPostfix}), true
		}
	case "isnan", "isinf", "isfinite":
		if isNarrow(t) && c.Type.IsScalar() {
			return atomf("%s(%s(%s))", name, g.pre.conv(t, ir.DFloat32), g.expr(c.Args[0]).s), true
		}
		return g.mapLanes(name, c.Type, c.Args...), true
	case "popcount", "clz":
		fn := map[string]string{"popcount": "__popc", "clz": "__clz"}[name]
		if t.Bits == 64 {
			fn += "ll"
		}
		x := g.expr(c.Args[0]).s
		if c.Type.IsScalar() && t.Bits >= 32 {
			return atomf("%s(%s)", fn, x), true
		}
	case "infinity":
		return g.floatConst(c.Type, inf), true
	}
	return text{}, false
}

var inf = func() float64 { var z float64; return 1 / z }()

// throughFloat computes a function of a narrow float in float.
func (g *gen) throughFloat(fn string, ret ir.DType, args []ir.Expr) text {
	wide := ret.WithLanes(int(ret.Lanes))
	wide.Code, wide.Bits = ir.Float, 32
	list := make([]ir.Expr, len(args))
	for i, a := range args {
		w := a.DType()
		w.Code, w.Bits = ir.Float, 32
		list[i] = &ir.Cast{Type: w, Value: a}
	}
	inner := g.mapLanes(fn, wide, list...)
	down := g.pre.conv(wide, ret)
	return atomf("%s(%s)", down, inner.s)
}

// halfMath are the names TVM gives functions of half, which CUDA's fp16 header
// defines and the prelude does not.
var halfMath = map[string]string{
	"hexp": "expf", "hexp2": "exp2f", "hexp10": "exp10f", "hlog": "logf", "hlog2": "log2f", "hlog10": "log10f", "hsin": "sinf",
	"hcos": "cosf", "hsqrt": "sqrtf", "hrsqrt": "rsqrtf", "hfloor": "floorf", "hceil": "ceilf", "htrunc": "truncf", "hrint": "rintf",
	"htanh": "tanhf", "htan": "tanf", "hpow": "powf", "__habs": "fabsf", "hatan": "atanf", "herf": "erff",
}

// narrowMath prints a math function called by name on a narrow float.
func (g *gen) narrowMath(c *ir.Call, name string, args []ir.Expr) (text, bool) {
	if fn := halfMath[name]; fn != "" && isNarrow(c.Type) {
		return g.throughFloat(fn, c.Type, args), true
	}
	return text{}, false
}

// formats of the narrow floats, for constants.
var formats = map[ir.TypeCode]*num.Format{
	ir.BFloat: &num.BF16, ir.Float8E4M3FN: &num.E4M3FN, ir.Float8E5M2: &num.E5M2, ir.Float8E8M0FNU: &num.E8M0FNU,
	ir.Float8E4M3: &num.E4M3FN,
}

// narrowBits is a constant in a narrow format. 8-bit formats saturate, as the
// conversion instruction does.
func narrowBits(t ir.DType, v float64) (uint32, bool) {
	if isHalf(t) {
		return num.F16.Encode(v, num.ToInf), true
	}
	f := formats[t.Code]
	if f == nil {
		return 0, false
	}
	if t.IsFloat8() {
		return f.Encode(v, num.Saturate), true
	}
	return f.Encode(v, num.ToInf), true
}
