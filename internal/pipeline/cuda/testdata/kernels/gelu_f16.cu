struct half_t { unsigned short bits; };
struct half2_t { unsigned bits; };
struct __align__(8) half4_t { half2_t v[2]; };

__device__ __forceinline__ half_t lo(half2_t a) { return half_t{(unsigned short)a.bits}; }
__device__ __forceinline__ half_t hi(half2_t a) { return half_t{(unsigned short)(a.bits >> 16)}; }
__device__ __forceinline__ half2_t pack(half_t lo, half_t hi) { return half2_t{lo.bits | (unsigned)hi.bits << 16}; }
__device__ __forceinline__ float to_float(half_t a) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a.bits));
  return r;
}
__device__ __forceinline__ float4 to_float4(half4_t a) { return make_float4(to_float(lo(a.v[0])), to_float(hi(a.v[0])), to_float(lo(a.v[1])), to_float(hi(a.v[1]))); }
__device__ __forceinline__ float4 operator*(float4 a, float4 b) { return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
__device__ __forceinline__ float4 operator*(float a, float4 b) { return make_float4(a * b.x, a * b.y, a * b.z, a * b.w); }
__device__ __forceinline__ float4 operator+(float a, float4 b) { return make_float4(a + b.x, a + b.y, a + b.z, a + b.w); }
__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ __forceinline__ float4 tanhf(float4 a) { return make_float4(tanhf(a.x), tanhf(a.y), tanhf(a.z), tanhf(a.w)); }
__device__ __forceinline__ half2_t to_half2(float lo, float hi) {
  half2_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r.bits) : "f"(hi), "f"(lo));
  return r;
}
__device__ __forceinline__ half4_t to_half4(float4 a) { return half4_t{{to_half2(a.x, a.y), to_half2(a.z, a.w)}}; }

extern "C" __global__ void __launch_bounds__(128, 1)
gelu_f16_kernel(const half_t* __restrict__ X, half_t* __restrict__ Y) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  __align__(16) half_t x16[64];
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    *(uint4*)&x16[i * 8] = *(const uint4*)&X[by * 16384 + i * 2048 + (tx >> 5) * 512 + bx * 256 + (tx & 31) * 8];
  }
  __align__(16) float x[64];
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    *(float4*)&x[i * 4] = to_float4(*(half4_t*)&x16[i * 4]);
  }
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    *(float4*)&x[i * 4] =
        0.5f * *(float4*)&x[i * 4] * (1.0f + tanhf(0.7978846f
        * (*(float4*)&x[i * 4] + 0.044715f * *(float4*)&x[i * 4] * *(float4*)&x[i * 4] * *(float4*)&x[i * 4])));
  }
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    __align__(16) half_t Y_local_cast[8];
    for (int vec = 0; vec < 2; ++vec) {
      *(half4_t*)&Y_local_cast[vec * 4] = to_half4(*(float4*)&x[i * 8 + vec * 4]);
    }
    *(uint4*)&Y[by * 16384 + i * 2048 + (tx >> 5) * 512 + bx * 256 + (tx & 31) * 8] = *(uint4*)Y_local_cast;
  }
}

// Launch: gelu_f16_kernel<<<(2, 4, 1), (128, 1, 1), 0>>>(X, Y)
