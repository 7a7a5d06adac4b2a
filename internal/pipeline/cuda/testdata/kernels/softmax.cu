#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

template <class T>
__device__ __forceinline__ T shuffle_xor(T x, int d) { return __shfl_xor_sync(0xffffffffu, x, d); }
// The maximum over each Threads adjacent threads, among those whose numbers agree modulo Scale.
// ws has an element for each thread.
template <int Threads, int Scale = 1, class T>
__device__ __forceinline__ T block_max(T x, T* ws) {
  constexpr int step = Scale < 32 ? 32 : Scale;
  int t = threadIdx.x;
#pragma unroll
  for (int d = 16; d >= Scale; d /= 2) x = max(x, shuffle_xor(x, d));
  __syncthreads();
  ws[t] = x;
  __syncthreads();
  ws += t / Threads * Threads + t % step;
  x = ws[0];
#pragma unroll
  for (int i = step; i < Threads; i += step) x = max(x, ws[i]);
  return x;
}
__device__ __forceinline__ float4 operator-(float4 a, float b) { return make_float4(a.x - b, a.y - b, a.z - b, a.w - b); }
__device__ __forceinline__ float4 expf(float4 a) { return make_float4(expf(a.x), expf(a.y), expf(a.z), expf(a.w)); }
// The sum over each Threads adjacent threads, among those whose numbers agree modulo Scale.
// ws has an element for each thread.
template <int Threads, int Scale = 1, class T>
__device__ __forceinline__ T block_sum(T x, T* ws) {
  constexpr int step = Scale < 32 ? 32 : Scale;
  int t = threadIdx.x;
#pragma unroll
  for (int d = 16; d >= Scale; d /= 2) x = x + shuffle_xor(x, d);
  __syncthreads();
  ws[t] = x;
  __syncthreads();
  ws += t / Threads * Threads + t % step;
  x = ws[0];
#pragma unroll
  for (int i = step; i < Threads; i += step) x = x + ws[i];
  return x;
}
// a / b, given r = 1 / b, where 2^-63 <= |a| < 2^65 and 2^-61 <= |b| <= 2^61.
__device__ __forceinline__ float quotient(float a, float b, float r) {
  const float q = a * r;
  return __fmaf_rn(__fmaf_rn(-q, b, a), r, q);
}
// The top bit is clear if 2^-63 <= |a| < 2^65.
__device__ __forceinline__ unsigned off_range(float a) { return 2u * __float_as_uint(a) - 0x40000000u; }
__device__ __forceinline__ float4 operator/(float4 a, float b) {
  const float r = 1.0f / b;
  float4 q = make_float4(quotient(a.x, b, r), quotient(a.y, b, r), quotient(a.z, b, r), quotient(a.w, b, r));
  const bool in_range = (int)(off_range(a.x) | off_range(a.y) | off_range(a.z) | off_range(a.w)) >= 0 && fabsf(b) >= 0x1p-61f && fabsf(b) <= 0x1p61f;
  if (!in_range) q = make_float4(a.x / b, a.y / b, a.z / b, a.w / b);
  return q;
}

extern "C" __global__ void __launch_bounds__(128, 1)
softmax_kernel(const float* __restrict__ X, float* __restrict__ Y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  extern __shared__ __align__(1024) unsigned char buf_dyn_shmem[];
  float* const workspace = (float*)buf_dyn_shmem;
  float* const workspace_1 = (float*)buf_dyn_shmem;
  __align__(16) float x[64];
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    *(float4*)&x[i * 4] = *(const float4*)&X[bx * 8192 + i * 512 + tx * 4];
  }
  float m[16];
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    m[i] = -INFINITY;
    #pragma unroll
    for (int rv = 0; rv < 4; ++rv) {
      m[i] = max(m[i], x[i * 4 + rv]);
    }
    __syncthreads();
    m[i] = block_max<128>(m[i], workspace_1);
  }
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    *(float4*)&x[i * 4] = expf(*(float4*)&x[i * 4] - m[i]);
  }
  float s[16];
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    s[i] = 0.0f;
    #pragma unroll
    for (int rv = 0; rv < 4; ++rv) {
      s[i] += x[i * 4 + rv];
    }
    __syncthreads();
    s[i] = block_sum<128>(s[i], workspace);
  }
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    *(float4*)&x[i * 4] = *(float4*)&x[i * 4] / s[i];
  }
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    *(float4*)&Y[bx * 8192 + i * 512 + tx * 4] = *(float4*)&x[i * 4];
  }
}

// Launch: softmax_kernel<<<(8, 1, 1), (128, 1, 1), 512>>>(X, Y)
