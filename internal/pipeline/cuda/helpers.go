package cuda

import "strings"

// helperTable is the fixed part of the prelude. Instructions are those of the
// PTX ISA; where one needs a newer architecture than sm_80, the text has both
// forms, since a kernel lowered for one architecture may be compiled for
// another.
var helperTable = mergeHelpers(typeHelpers, memoryHelpers, barrierHelpers, reduceHelpers, atomicHelpers, debugHelpers, divisionHelpers, matrixHelpers, randomHelpers)

func mergeHelpers(tables ...map[string]helper) map[string]helper {
	m := map[string]helper{}
	for _, t := range tables {
		for k, h := range t {
			if _, dup := m[k]; dup {
				panic("cuda: helper " + k + " is defined twice")
			}
			h.text = strings.Trim(h.text, "\n")
			m[k] = h
		}
	}
	return m
}

// helperNames are the functions and types the fixed helpers define or call,
// which the names of a kernel must not hide.
var helperNames = func() map[string]bool {
	m := map[string]bool{}
	for _, h := range helperTable {
		namesIn(h.text, m)
	}
	for _, n := range []string{"splat2", "splat4", "splat8", "splat16", "select"} {
		m[n] = true
	}
	for _, c := range combiners {
		m["warp_"+c.name], m["block_"+c.name], m["party_"+c.name] = true, true, true
	}
	return m
}()

// namesIn adds the names that a text calls or gives to a struct. Every start of
// the program reads all helpers: regular expressions would take a quarter of it.
func namesIn(text string, m map[string]bool) {
	word := func(i int) int { // the end of the word at i
		for i < len(text) && isWord(text[i]) {
			i++
		}
		return i
	}
	isStruct := false
	for i := 0; i < len(text); {
		end := word(i)
		if end == i {
			i++
			continue
		}
		name := text[i:end]
		i = end
		if name[0] >= '0' && name[0] <= '9' {
			continue
		}
		switch {
		case name == "struct":
			isStruct = true
			continue
		case name == "__align__": // of a struct
			i += strings.IndexByte(text[i:], ')') + 1
		case isStruct:
			m[name] = true
		}
		isStruct = isStruct && name == "__align__"
		rest := text[end:]
		if strings.HasPrefix(rest, "<") { // template arguments
			if k := strings.IndexAny(rest[1:], "<>()") + 1; k > 0 && rest[k] == '>' {
				rest = rest[k+1:]
			}
		}
		if strings.HasPrefix(rest, "(") {
			m[name] = true
		}
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

var typeHelpers = map[string]helper{
	"half_t":           {nil, `struct half_t { unsigned short bits; };`},
	"half2_t":          {nil, `struct half2_t { unsigned bits; };`},
	"bfloat16_t":       {nil, `struct bfloat16_t { unsigned short bits; };`},
	"bfloat16x2_t":     {nil, `struct bfloat16x2_t { unsigned bits; };`},
	"fp8_e4m3_t":       {nil, `struct fp8_e4m3_t { unsigned char bits; };`},
	"fp8_e5m2_t":       {nil, `struct fp8_e5m2_t { unsigned char bits; };`},
	"fp8_e8m0_t":       {nil, `struct fp8_e8m0_t { unsigned char bits; };`},
	"tensor_map":       {nil, `struct __align__(64) tensor_map { unsigned long long opaque[16]; };`},
	"infinity":         {nil, "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif"},
	"nan":              {nil, "#ifndef NAN\n#define NAN __int_as_float(0x7fffffff)\n#endif"},
	"lanes_half2":      {[]string{"half2_t", "half_t"}, lanes16("half_t", "half2_t")},
	"lanes_bfloat16x2": {[]string{"bfloat16x2_t", "bfloat16_t"}, lanes16("bfloat16_t", "bfloat16x2_t")},

	"float_of_half": {[]string{"half_t"}, `
__device__ __forceinline__ float to_float(half_t a) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a.bits));
  return r;
}`},
	"half_of_float": {[]string{"half_t"}, `
__device__ __forceinline__ half_t to_half(float a) {
  half_t r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(a));
  return r;
}`},
	"half_of_double": {[]string{"half_t"}, `
__device__ __forceinline__ half_t to_half(double a) {
  half_t r;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(r.bits) : "d"(a));
  return r;
}`},
	"pair_to_half": {[]string{"half2_t"}, `
__device__ __forceinline__ half2_t to_half2(float lo, float hi) {
  half2_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r.bits) : "f"(hi), "f"(lo));
  return r;
}`},
	"float_of_bfloat16": {[]string{"bfloat16_t"}, `
__device__ __forceinline__ float to_float(bfloat16_t a) { return __uint_as_float((unsigned)a.bits << 16); }`},
	"bfloat16_of_float": {[]string{"bfloat16_t"}, `
__device__ __forceinline__ bfloat16_t to_bfloat16(float a) {
  bfloat16_t r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(a));
  return r;
}`},
	"pair_to_bfloat16": {[]string{"bfloat16x2_t"}, `
__device__ __forceinline__ bfloat16x2_t to_bfloat16x2(float lo, float hi) {
  bfloat16x2_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r.bits) : "f"(hi), "f"(lo));
  return r;
}`},

	// 8-bit floats. Before sm_89 there is no instruction. The bits of a
	// half-precision float shifted right are those of an e5m2 number; for e4m3
	// the exponent's bias differs by 8, which a multiplication by 2^8 mends.
	// Nothing passes through a subnormal float, which fast math flushes.
	"float_of_fp8_e4m3": {[]string{"fp8_e4m3_t"}, `
__device__ __forceinline__ float to_float(fp8_e4m3_t a) {
  float r;
#if __CUDA_ARCH__ >= 890
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)a.bits));
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)pair));
  return r;
#else
  const unsigned m = a.bits & 0x7f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)((a.bits & 0x80) << 8 | m << 7)));
  return m == 0x7f ? __int_as_float(0x7fffffff) : r * 256.0f;
#endif
}`},
	"float_of_fp8_e5m2": {[]string{"fp8_e5m2_t"}, `
__device__ __forceinline__ float to_float(fp8_e5m2_t a) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)(a.bits << 8)));
  return r;
}`},
	"float_of_fp8_e8m0": {[]string{"fp8_e8m0_t"}, `
__device__ __forceinline__ float to_float(fp8_e8m0_t a) {
  if (a.bits == 0xff) return __uint_as_float(0x7fc00000);
  return __uint_as_float(a.bits ? (unsigned)a.bits << 23 : 0x00400000u);
}`},
	"fp8_e8m0_of_float": {[]string{"fp8_e8m0_t"}, `
// The power of two nearest to a, upwards on a tie; NaN for NaN and negatives.
__device__ __forceinline__ fp8_e8m0_t to_fp8_e8m0(float a) {
  unsigned u = __float_as_uint(a);
  if (u > 0x7f800000u) return fp8_e8m0_t{0xff};
  unsigned e = (u + 0x00400000u) >> 23;
  return fp8_e8m0_t{(unsigned char)(e > 254 ? 254 : e)};
}`},
	"pair_to_fp8_e4m3": {[]string{"fp8_e4m3_t", "fp8_round"}, `
__device__ __forceinline__ unsigned short to_fp8_e4m3x2(float lo, float hi) {
#if __CUDA_ARCH__ >= 890
  unsigned short r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
  return r;
#else
  return (unsigned short)(fp8_round<3, 7>(lo) | fp8_round<3, 7>(hi) << 8);
#endif
}`},
	"pair_to_fp8_e5m2": {[]string{"fp8_e5m2_t", "fp8_round"}, `
__device__ __forceinline__ unsigned short to_fp8_e5m2x2(float lo, float hi) {
#if __CUDA_ARCH__ >= 890
  unsigned short r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
  return r;
#else
  return (unsigned short)(fp8_round<2, 15>(lo) | fp8_round<2, 15>(hi) << 8);
#endif
}`},
	"fp8_e4m3_of_float": {[]string{"pair_to_fp8_e4m3"}, `
__device__ __forceinline__ fp8_e4m3_t to_fp8_e4m3(float a) { return fp8_e4m3_t{(unsigned char)to_fp8_e4m3x2(a, 0.0f)}; }`},
	"fp8_e5m2_of_float": {[]string{"pair_to_fp8_e5m2"}, `
__device__ __forceinline__ fp8_e5m2_t to_fp8_e5m2(float a) { return fp8_e5m2_t{(unsigned char)to_fp8_e5m2x2(a, 0.0f)}; }`},
	"fp8_round": {nil, `
// The bits of a as an 8-bit float of M mantissa bits: to nearest, ties to even, saturating.
template <int M, int Bias>
__device__ __forceinline__ unsigned fp8_round(float a) {
  unsigned u = __float_as_uint(a), s = u >> 24 & 0x80, m = u & 0x7fffffff;
  if (m > 0x7f800000u) return s | 0x7f;
  const unsigned most = M == 3 ? 0x7e : 0x7b;
  int e = (int)(m >> 23) - 127 + Bias;
  if (e < -M) return s;
  if (e >= 16 + 16 * (M == 2)) return s | most;
  unsigned long long x = (unsigned long long)(m & 0x7fffff | 0x800000) << 8;
  int drop = 31 - M + (e < 1 ? 1 - e : 0);
  unsigned r = (unsigned)(x >> drop);
  unsigned long long rest = x & (1ull << drop) - 1, tie = 1ull << drop - 1;
  r += rest > tie || rest == tie && (r & 1);
  r += e < 1 ? 0u : (unsigned)(e - 1) << M;
  return s | (r > most ? most : r);
}`},
	"bit_cast": {nil, `
template <class To, class From>
__device__ __forceinline__ To bit_cast(From a) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast between sizes");
  return *(To*)&a;
}`},
	"pack_b16": {nil, `
template <class T>
__device__ __forceinline__ unsigned pack_b16(T lo, T hi) {
  return *(unsigned short*)&lo | (unsigned)*(unsigned short*)&hi << 16;
}`},
	"floor_div": {nil, `
template <class T>
__device__ __forceinline__ T floor_div(T a, T b) {
  T q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}`},
	"floor_mod": {nil, `
template <class T>
__device__ __forceinline__ T floor_mod(T a, T b) {
  T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}`},
	"abs_half2":      {[]string{"half2_t"}, `__device__ __forceinline__ half2_t abs2(half2_t a) { return half2_t{a.bits & 0x7fff7fffu}; }`},
	"abs_bfloat16x2": {[]string{"bfloat16x2_t"}, `__device__ __forceinline__ bfloat16x2_t abs2(bfloat16x2_t a) { return bfloat16x2_t{a.bits & 0x7fff7fffu}; }`},
	"fma_half2": {[]string{"half2_t"}, `
__device__ __forceinline__ half2_t fma2(half2_t a, half2_t b, half2_t c) {
  half2_t r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r.bits) : "r"(a.bits), "r"(b.bits), "r"(c.bits));
  return r;
}`},
	"fma_bfloat16x2": {[]string{"bfloat16x2_t"}, `
__device__ __forceinline__ bfloat16x2_t fma2(bfloat16x2_t a, bfloat16x2_t b, bfloat16x2_t c) {
  bfloat16x2_t r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r.bits) : "r"(a.bits), "r"(b.bits), "r"(c.bits));
  return r;
}`},
}

// lanes16 takes a pair of 16-bit floats apart and puts one together.
func lanes16(s, p string) string {
	return strings.NewReplacer("S", s, "P", p).Replace(`
__device__ __forceinline__ S lo(P a) { return S{(unsigned short)a.bits}; }
__device__ __forceinline__ S hi(P a) { return S{(unsigned short)(a.bits >> 16)}; }
__device__ __forceinline__ P pack(S lo, S hi) { return P{lo.bits | (unsigned)hi.bits << 16}; }`)
}

var memoryHelpers = map[string]helper{
	"shared_address": {nil, `
__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }`},

	// cp.async: global to shared memory without passing registers.
	"cp_async": {[]string{"shared_address"}, `
template <int Bytes>
__device__ __forceinline__ void cp_async(void* dst, const void* src) {
  if (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(dst)), "l"(src) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(dst)), "l"(src), "n"(Bytes) : "memory");
}`},
	"cp_async_if": {[]string{"shared_address"}, `
// Copies when take holds, else writes zeros.
template <int Bytes>
__device__ __forceinline__ void cp_async_if(void* dst, const void* src, bool take) {
  int n = take ? Bytes : 0;
  if (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(dst)), "l"(src), "r"(n) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(dst)), "l"(src), "n"(Bytes), "r"(n) : "memory");
}`},
	"cp_async_commit": {nil, `
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }`},
	"cp_async_wait": {nil, `
// Waits until at most N groups of this thread's copies are under way.
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }`},
	"cp_async_wait_for": {[]string{"cp_async_wait"}, `
// Waits until at most n groups, or fewer, of this thread's copies are under way.
__device__ __forceinline__ void cp_async_wait_for(int n) {
  if (n >= 4)
    cp_async_wait<4>();
  else if (n == 3)
    cp_async_wait<3>();
  else if (n == 2)
    cp_async_wait<2>();
  else if (n == 1)
    cp_async_wait<1>();
  else
    cp_async_wait<0>();
}`},
	"cp_async_arrive": {[]string{"shared_address"}, `
// Arrives at the barrier when this thread's copies have landed.
__device__ __forceinline__ void cp_async_arrive(unsigned long long* bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(bar)) : "memory");
}`},

	// Tensor memory accelerator.
	"prefetch_tensor_map": {[]string{"tensor_map"}, `
__device__ __forceinline__ void prefetch_tensor_map(const tensor_map& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}`},
	"tma_store_bytes": {[]string{"shared_address"}, `
__device__ __forceinline__ void tma_store_bytes(void* dst, const void* src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(shared_address(src)), "r"(bytes) : "memory");
}`},
	"tma_store_arrive": {nil, `
__device__ __forceinline__ void tma_store_arrive() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }`},
	"tma_store_wait": {nil, `
// Waits until at most N stores still read shared memory.
template <int N>
__device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }`},
}

var barrierHelpers = map[string]helper{
	"bar_sync": {nil, `
// A barrier for some of the block's threads: a multiple of the warp's size.
__device__ __forceinline__ void bar_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }`},
	"elect_one": {nil, `
// True in one thread of each group of Threads; 0: of the whole block.
template <int Threads>
__device__ __forceinline__ bool elect_one() {
  int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  if ((Threads == 0 ? warp : warp % (Threads < 32 ? 1 : Threads / 32)) != 0) return false;
  unsigned p;
  asm volatile("{\n  .reg .pred P;\n  elect.sync _|P, 0xffffffff;\n  selp.u32 %0, 1, 0, P;\n}" : "=r"(p));
  return p;
}`},
	"mbarrier_init": {[]string{"shared_address"}, `
__device__ __forceinline__ void mbarrier_init(unsigned long long* bar, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}`},
	"mbarrier_arrive": {[]string{"shared_address"}, `
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}`},
	"mbarrier_arrive_cluster": {[]string{"shared_address"}, `
// Arrives, when take holds, at the barrier of the given block of the cluster.
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned long long* bar, unsigned block, bool take) {
  asm volatile(
      "{\n  .reg .pred p;\n  .reg .b32 a;\n  setp.ne.u32 p, %2, 0;\n  @p mapa.shared::cluster.u32 a, %0, %1;\n"
      "  @p mbarrier.arrive.shared::cluster.b64 _, [a];\n}"
      ::"r"(shared_address(bar)), "r"(block), "r"((unsigned)take) : "memory");
}`},
	"mbarrier_expect_tx": {[]string{"shared_address"}, `
__device__ __forceinline__ void mbarrier_expect_tx(unsigned long long* bar, unsigned bytes) {
  asm volatile("mbarrier.expect_tx.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}`},
	"mbarrier_arrive_expect_tx": {[]string{"shared_address"}, `
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned long long* bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}`},
	"mbarrier_wait": {[]string{"shared_address"}, `
// Waits for the phase of the given parity to complete.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* bar, unsigned parity) {
  asm volatile(
      "{\n  .reg .pred p;\nwait:\n  mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n  @!p bra wait;\n}"
      ::"r"(shared_address(bar)), "r"(parity) : "memory");
}`},
	"fence_barrier_init": {nil, `
__device__ __forceinline__ void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }`},
	"fence_proxy_async": {nil, `
// Makes this thread's writes to shared memory visible to TMA and wgmma.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }`},
	"grid_sync": {nil, `
// Every block arrives before any goes on; the launch must be cooperative. Block 0 adds what flips the top bit when all
// others have added 1.
__device__ unsigned grid_barrier;
__device__ __forceinline__ void grid_sync() {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
    unsigned others = gridDim.x * gridDim.y * gridDim.z - 1;
    __threadfence();
    unsigned old = atomicAdd(&grid_barrier, first ? 0x80000000u - others : 1u);
    while (((old ^ *(volatile unsigned*)&grid_barrier) & 0x80000000u) == 0) {
    }
    __threadfence();
  }
  __syncthreads();
}`},
	"cluster_sync": {nil, `
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}`},
	"cluster_arrive": {nil, `
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }`},
	"cluster_wait": {nil, `
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }`},
	"block_rank_in_cluster": {nil, `
__device__ __forceinline__ int block_rank_in_cluster() {
  unsigned r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return (int)r;
}`},
	"pdl_sync": {nil, `
// Waits for the kernel launched before on this stream.
__device__ __forceinline__ void pdl_sync() { asm volatile("griddepcontrol.wait;" ::: "memory"); }`},
	"pdl_trigger": {nil, `
// Lets the kernel launched next on this stream begin.
__device__ __forceinline__ void pdl_trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }`},
	"set_max_registers_inc": {nil, `
template <int N>
__device__ __forceinline__ void raise_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }`},
	"set_max_registers_dec": {nil, `
template <int N>
__device__ __forceinline__ void lower_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }`},
	"raster_row": {nil, `
// The block to work on when blocks are taken in panels of so many rows, every second panel backwards: blocks that run
// together then share rows and columns in the cache.
template <int Panel>
__device__ __forceinline__ dim3 raster_rows() {
  unsigned id = blockIdx.x + blockIdx.y * gridDim.x, size = Panel * gridDim.x;
  unsigned panel = id / size, within = id % size, first = panel * Panel;
  unsigned rows = first + Panel < gridDim.y ? Panel : gridDim.y - first;
  unsigned col = within / rows;
  return dim3(panel & 1 ? gridDim.x - 1 - col : col, first + within % rows, blockIdx.z);
}`},
	"raster_column": {nil, `
// The block to work on when blocks are taken in panels of so many columns, every second panel backwards: blocks that run
// together then share rows and columns in the cache.
template <int Panel>
__device__ __forceinline__ dim3 raster_columns() {
  unsigned id = blockIdx.x + blockIdx.y * gridDim.x, size = Panel * gridDim.y;
  unsigned panel = id / size, within = id % size, first = panel * Panel;
  unsigned columns = first + Panel < gridDim.x ? Panel : gridDim.x - first;
  unsigned row = within / columns;
  return dim3(first + within % columns, panel & 1 ? gridDim.y - 1 - row : row, blockIdx.z);
}`},
}
