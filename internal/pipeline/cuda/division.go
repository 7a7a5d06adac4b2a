package cuda

import (
	"fmt"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// EnableFastMath says that the generated code will be compiled with
// --use_fast_math: division and square root are approximate then, small
// results flush to zero, and nothing is written out here to be exact.
var EnableFastMath = pipeline.RegisterOption(pipeline.Option{
	Key: "tl.enable_fast_math", Default: false,
	Doc: "compile with --use_fast_math: approximate division, roots and exponentials",
})

// CompileFlags are the options of nvcc and NVRTC that code generated under
// pass options is to be compiled with.
func CompileFlags(o pipeline.Options) []string {
	if on, _ := o[EnableFastMath].(bool); on {
		return []string{"--use_fast_math"}
	}
	return nil
}

// divisionHelpers divide by a number that is the same for many dividends, and
// round as a division does. The reciprocal r = 1/b is found once; with q = a r
// rounded, the residual a - q b is exact in a fused multiply-add, and q plus
// the residual times r is the quotient rounded to nearest (P. Markstein,
// "Computation of elementary functions on the IBM RISC System/6000 processor",
// IBM Journal of Research and Development 34(1), 1990). That holds as long as
// neither the quotient nor the residual leaves the range of normal numbers.
var divisionHelpers = map[string]helper{
	"quotient": {nil, `
// a / b, given r = 1 / b, where 2^-63 <= |a| < 2^65 and 2^-61 <= |b| <= 2^61.
__device__ __forceinline__ float quotient(float a, float b, float r) {
  const float q = a * r;
  return __fmaf_rn(__fmaf_rn(-q, b, a), r, q);
}`},
	"off_range": {nil, `
// The top bit is clear if 2^-63 <= |a| < 2^65.
__device__ __forceinline__ unsigned off_range(float a) { return 2u * __float_as_uint(a) - 0x40000000u; }`},
}

// divides reports a division of the lanes of a vector by one number that is
// worth writing out.
func (p *prelude) divides(op string, t ctype, scalarRight bool) bool {
	return op == "/" && scalarRight && !p.fastMath && t.dtype.Scalar() == ir.DFloat32 && t.kind == builtinType
}

// division is the body of the operator that divides each lane of a by b.
func (p *prelude) division(head string, t ctype) string {
	p.use("quotient")
	p.use("off_range")
	n := t.lanes()
	fast, off, exact := make([]string, n), make([]string, n), make([]string, n)
	for i := range n {
		a := t.lane("a", i)
		fast[i], off[i], exact[i] = "quotient("+a+", b, r)", "off_range("+a+")", a+" / b"
	}
	return fmt.Sprintf(`%s {
  const float r = 1.0f / b;
  %s q = %s;
  const bool in_range = (int)(%s) >= 0 && fabsf(b) >= 0x1p-61f && fabsf(b) <= 0x1p61f;
  if (!in_range) q = %s;
  return q;
}`, head, t.name, t.build(fast), strings.Join(off, " | "), t.build(exact))
}
