package cuda

import "lowertrace/internal/ir"

// rngInit seeds the thread's generator: rng_init(seed, sequence, offset,
// generator). There is one of them, as every rng_init begins anew.
func (g *gen) rngInit(c *ir.Call) text {
	if kind := g.str(c, 3); kind != "curandStatePhilox4_32_10_t" {
		g.fail("T.rng_init: there is no %s here, only curandStatePhilox4_32_10_t", kind)
	}
	return atomf("%s(%s, %s)", g.pre.use("philox_init"), g.rng, g.args(c.Args[:3]))
}

func (g *gen) draw(_ *ir.Call, helper string) text {
	return atomf("%s(%s)", g.pre.use(helper), g.rng)
}

func (g *gen) rngFloat(c *ir.Call) text {
	if dist := g.str(c, 0); dist != "uniform" {
		g.fail("T.rng_rand_float: there is no %s distribution here, only the uniform one", dist)
	}
	return g.draw(c, "philox_uniform")
}

// randomHelpers are Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011), seeded and read out as cuRAND does it: the seed
// is the key, the sequence the counter's upper half, the offset counts words.
var randomHelpers = map[string]helper{
	"philox_t": {nil, `struct philox_t { unsigned long long lo, hi; uint2 key; uint4 out; unsigned at; };`},
	"philox_advance": {[]string{"philox_t"}, `
__device__ __forceinline__ void philox_advance(philox_t& s, unsigned long long n) {
  s.lo += n;
  s.hi += s.lo < n;
  uint4 c = make_uint4((unsigned)s.lo, (unsigned)(s.lo >> 32), (unsigned)s.hi, (unsigned)(s.hi >> 32));
  uint2 k = s.key;
  #pragma unroll
  for (int i = 0; i < 10; ++i) {
    c = make_uint4(__umulhi(0xcd9e8d57u, c.z) ^ c.y ^ k.x, 0xcd9e8d57u * c.z,
        __umulhi(0xd2511f53u, c.x) ^ c.w ^ k.y, 0xd2511f53u * c.x);
    k = make_uint2(k.x + 0x9e3779b9u, k.y + 0xbb67ae85u);
  }
  s.out = c;
}`},
	"philox_init": {[]string{"philox_advance"}, `
__device__ __forceinline__ void philox_init(philox_t& s, unsigned long long seed, unsigned long long sequence,
    unsigned long long offset) {
  s.lo = 0;
  s.hi = sequence;
  s.key = make_uint2((unsigned)seed, (unsigned)(seed >> 32));
  s.at = (unsigned)offset & 3;
  philox_advance(s, offset >> 2);
}`},
	"philox_next": {[]string{"philox_advance"}, `
__device__ __forceinline__ unsigned philox_next(philox_t& s) {
  const unsigned r = s.at == 0 ? s.out.x : s.at == 1 ? s.out.y : s.at == 2 ? s.out.z : s.out.w;
  if (++s.at == 4) {
    s.at = 0;
    philox_advance(s, 1);
  }
  return r;
}`},
	"philox_uniform": {[]string{"philox_next"}, `
__device__ __forceinline__ float philox_uniform(philox_t& s) { return fmaf((float)philox_next(s), 0x1p-32f, 0x1p-33f); }`},
}
