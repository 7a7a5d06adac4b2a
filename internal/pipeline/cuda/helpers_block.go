package cuda

import (
	"fmt"
	"strings"
)

var reduceHelpers = map[string]helper{
	"shuffle_xor":       {nil, shuffle("xor", "d", "")},
	"shuffle_up":        {nil, shuffle("up", "d", "")},
	"shuffle_down":      {nil, shuffle("down", "d", "")},
	"shuffle":           {nil, shuffle("", "lane", "")},
	"shuffle_xor_half":  {[]string{"half_t"}, shuffle("xor", "d", "half_t")},
	"shuffle_up_half":   {[]string{"half_t"}, shuffle("up", "d", "half_t")},
	"shuffle_down_half": {[]string{"half_t"}, shuffle("down", "d", "half_t")},
	"shuffle_half":      {[]string{"half_t"}, shuffle("", "lane", "half_t")},

	"shuffle_xor_bfloat16":  {[]string{"bfloat16_t"}, shuffle("xor", "d", "bfloat16_t")},
	"shuffle_up_bfloat16":   {[]string{"bfloat16_t"}, shuffle("up", "d", "bfloat16_t")},
	"shuffle_down_bfloat16": {[]string{"bfloat16_t"}, shuffle("down", "d", "bfloat16_t")},
	"shuffle_bfloat16":      {[]string{"bfloat16_t"}, shuffle("", "lane", "bfloat16_t")},

	"scan_line": {nil, `
// One warp replaces n elements, stride apart, by their running sums.
template <bool Reverse, class T>
__device__ __forceinline__ void scan_line(const T* src, T* dst, int n, int src_stride, int dst_stride) {
  int lane = threadIdx.x % 32;
  T carry{};
  for (int at = lane; at - lane < n; at += 32) {
    int i = Reverse ? n - 1 - at : at;
    T x = at < n ? src[i * src_stride] : T{};
    for (int d = 1; d < 32; d *= 2) {
      T y = shuffle_up(x, d);
      if (lane >= d) x = x + y;
    }
    x = x + carry;
    if (at < n) dst[i * dst_stride] = x;
    carry = shuffle(x, 31);
  }
}`},
	"cumsum": {[]string{"scan_line"}, `
// Running sums of n elements; the first warp works.
template <bool Reverse, class T>
__device__ __forceinline__ void cumsum(const T* src, T* dst, int n) {
  if (threadIdx.x < 32) scan_line<Reverse>(src, dst, n, 1, 1);
}`},
	"cumsum_2d": {[]string{"scan_line"}, `
// Running sums of a tile along an axis (1: within rows), a warp to a line.
template <int Threads, int Axis, bool Reverse, class T>
__device__ __forceinline__ void cumsum_2d(const T* src, T* dst, int rows, int columns, int src_pitch, int dst_pitch) {
  for (int i = threadIdx.x / 32; i < (Axis == 1 ? rows : columns); i += Threads / 32) {
    if (Axis == 1)
      scan_line<Reverse>(src + i * src_pitch, dst + i * dst_pitch, columns, 1, 1);
    else
      scan_line<Reverse>(src + i, dst + i, rows, src_pitch, dst_pitch);
  }
}`},
}

// shuffle is one of the warp shuffles, for every type that CUDA shuffles or
// for a 16-bit float.
func shuffle(kind, arg, narrow string) string {
	name, fn := "shuffle", "__shfl_sync"
	if kind != "" {
		name, fn = "shuffle_"+kind, "__shfl_"+kind+"_sync"
	}
	r := strings.NewReplacer("NAME", name, "FN", fn, "ARG", arg, "T16", narrow)
	if narrow != "" {
		return r.Replace(`
__device__ __forceinline__ T16 NAME(T16 x, int ARG, unsigned mask = 0xffffffffu, int width = 32) {
  return T16{(unsigned short)FN(mask, (unsigned)x.bits, ARG, width)};
}`)
	}
	return r.Replace(`
template <class T>
__device__ __forceinline__ T NAME(T x, int ARG) { return FN(0xffffffffu, x, ARG); }`)
}

// combiners are the reductions: what a reduction is called, and how two values
// are combined.
var combiners = map[string]struct{ name, word, combine, op string }{
	"SumOp":    {"sum", "sum", "x + y", "+"},
	"MaxOp":    {"max", "maximum", "max(x, y)", "max"},
	"MinOp":    {"min", "minimum", "min(x, y)", "min"},
	"BitAndOp": {"and", "bitwise and", "x & y", ""},
	"BitOrOp":  {"or", "bitwise or", "x | y", ""},
	"BitXorOp": {"xor", "bitwise exclusive or", "x ^ y", ""},
}

// warpReduce is a reduction over groups of up to 32 threads; every thread gets
// the result.
func warpReduce(op string) string {
	c := combiners[op]
	return fmt.Sprintf(`
// The %[2]s over each Threads adjacent threads of a warp, among those whose numbers agree modulo Scale.
template <int Threads, int Scale = 1, class T>
__device__ __forceinline__ T warp_%[1]s(T x) {
#pragma unroll
  for (int d = Threads / 2; d >= Scale; d /= 2) x = %[3]s;
  return x;
}`, c.name, c.word, strings.Replace(c.combine, "y", "shuffle_xor(x, d)", 1))
}

// blockReduce is a reduction over groups of more than 32 threads: by shuffles
// within warps, then by one exchange through shared memory. A party is a part
// of the block's threads, which has barriers of its own.
func blockReduce(op string, party bool) string {
	c := combiners[op]
	name, params, first, barrier, more := "block_"+c.name, "int Threads, int Scale = 1, class T", "", "__syncthreads();", ""
	if party {
		name, params, first, barrier = "party_"+c.name, "int Threads, int Scale, int First, int Party, class T", " - First", "bar_sync(1, Party);"
		more = "\n// The Party threads from number First on take part."
	}
	return fmt.Sprintf(`
// The %[2]s over each Threads adjacent threads, among those whose numbers agree modulo Scale.%[8]s
// ws has an element for each thread.
template <%[3]s>
__device__ __forceinline__ T %[1]s(T x, T* ws) {
  constexpr int step = Scale < 32 ? 32 : Scale;
  int t = threadIdx.x%[4]s;
#pragma unroll
  for (int d = 16; d >= Scale; d /= 2) x = %[5]s;
  %[7]s
  ws[t] = x;
  %[7]s
  ws += t / Threads * Threads + t %% step;
  x = ws[0];
#pragma unroll
  for (int i = step; i < Threads; i += step) x = %[6]s;
  return x;
}`, name, c.word, params, first, strings.Replace(c.combine, "y", "shuffle_xor(x, d)", 1),
		strings.Replace(c.combine, "y", "ws[i]", 1), barrier, more)
}

var atomicHelpers = map[string]helper{
	"DP4A": {nil, `
// Adds the products of four int8 to c.
__device__ __forceinline__ void DP4A(const void* a, const void* b, int* c) { *c = __dp4a(*(const int*)a, *(const int*)b, *c); }`},
	"atomic_max_float": {nil, atomicCompare("max", "<")},
	"atomic_min_float": {nil, atomicCompare("min", ">")},
	"atomic_add_long": {nil, `
__device__ __forceinline__ long long atomicAdd(long long* p, long long v) {
  return (long long)atomicAdd((unsigned long long*)p, (unsigned long long)v);
}`},
	"atomic_add_half": {[]string{"half_t"}, `
__device__ __forceinline__ half_t atomicAdd(half_t* p, half_t v) {
  half_t r;
  asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(r.bits) : "l"(p), "h"(v.bits) : "memory");
  return r;
}`},
	"atomic_add_bfloat16": {[]string{"bfloat16_t", "float_of_bfloat16", "bfloat16_of_float"}, `
__device__ __forceinline__ bfloat16_t atomicAdd(bfloat16_t* p, bfloat16_t v) {
#if __CUDA_ARCH__ >= 900
  bfloat16_t r;
  asm volatile("atom.add.noftz.bf16 %0, [%1], %2;" : "=h"(r.bits) : "l"(p), "h"(v.bits) : "memory");
  return r;
#else
  unsigned short old = *(volatile unsigned short*)p, seen;
  for (;; old = seen) {
    seen = atomicCAS((unsigned short*)p, old, to_bfloat16(to_float(bfloat16_t{old}) + to_float(v)).bits);
    if (seen == old) return bfloat16_t{old};
  }
#endif
}`},
	"atomic_add_half2": {[]string{"half2_t"}, `
__device__ __forceinline__ half2_t atomicAdd(half2_t* p, half2_t v) {
  half2_t r;
  asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;" : "=r"(r.bits) : "l"(p), "r"(v.bits) : "memory");
  return r;
}`},
	"atomic_add_bfloat16x2": {[]string{"bfloat16x2_t", "lanes_bfloat16x2", "atomic_add_bfloat16"}, `
__device__ __forceinline__ bfloat16x2_t atomicAdd(bfloat16x2_t* p, bfloat16x2_t v) {
#if __CUDA_ARCH__ >= 900
  bfloat16x2_t r;
  asm volatile("atom.add.noftz.bf16x2 %0, [%1], %2;" : "=r"(r.bits) : "l"(p), "r"(v.bits) : "memory");
  return r;
#else
  return pack(atomicAdd((bfloat16_t*)p, lo(v)), atomicAdd((bfloat16_t*)p + 1, hi(v)));
#endif
}`},
	"atomic_add_float2": {nil, `
__device__ __forceinline__ float2 atomic_add(float2* p, float2 v) {
#if __CUDA_ARCH__ >= 900
  return atomicAdd(p, v);
#else
  return make_float2(atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y));
#endif
}`},
	"atomic_add_float4": {nil, `
__device__ __forceinline__ float4 atomic_add(float4* p, float4 v) {
#if __CUDA_ARCH__ >= 900
  return atomicAdd(p, v);
#else
  return make_float4(atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y), atomicAdd(&p->z, v.z), atomicAdd(&p->w, v.w));
#endif
}`},
}

func atomicCompare(name, less string) string {
	return strings.NewReplacer("NAME", name, "LESS", less).Replace(`
__device__ __forceinline__ float atomic_NAME(float* p, float v) {
  int old = *(volatile int*)p;
  while (__int_as_float(old) LESS v) {
    int seen = atomicCAS((int*)p, old, __float_as_int(v));
    if (seen == old) break;
    old = seen;
  }
  return __int_as_float(old);
}`)
}

var debugHelpers = map[string]helper{
	"device_assert": {nil, `
__device__ __forceinline__ void device_assert(bool holds, const char* what) {
  if (holds) return;
  printf("assertion failed in block (%d, %d, %d), thread (%d, %d, %d): %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
         threadIdx.x, threadIdx.y, threadIdx.z, what);
  __trap();
}`},
}

// debugPrint is the function that prints a value, or an element of a buffer,
// of a C++ type. The format is TileLang's.
func debugPrint(buffer bool, typ, dtype, format, arg string) string {
	head, name, args := "const char* msg", "debug_print_var", "msg"
	where := ""
	if buffer {
		head, name, args = "const char* msg, const char* buffer, int index", "debug_print_buffer_value", "msg"
		where = "buffer=%s, index=%d, "
	}
	tail := "threadIdx.x, threadIdx.y, threadIdx.z, "
	if buffer {
		tail += "buffer, index, "
	}
	return fmt.Sprintf(`
__device__ __forceinline__ void %s(%s, %s value) {
  printf("msg='%%s' BlockIdx=(%%d, %%d, %%d), ThreadIdx=(%%d, %%d, %%d): %sdtype=%s value=%s\n", %s, blockIdx.x, blockIdx.y,
         blockIdx.z, %s%s);
}`, name, head, typ, where, dtype, format, args, tail, arg)
}
