__device__ __forceinline__ float4 operator*(float4 a, float4 b) { return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w); }
__device__ __forceinline__ float4 operator/(float4 a, float4 b) { return make_float4(a.x / b.x, a.y / b.y, a.z / b.z, a.w / b.w); }
__device__ __forceinline__ float4 operator+(float a, float4 b) { return make_float4(a + b.x, a + b.y, a + b.z, a + b.w); }
__device__ __forceinline__ float4 operator*(float4 a, float b) { return make_float4(a.x * b, a.y * b, a.z * b, a.w * b); }
__device__ __forceinline__ float4 expf(float4 a) { return make_float4(expf(a.x), expf(a.y), expf(a.z), expf(a.w)); }

extern "C" __global__ void __launch_bounds__(64, 1)
silu_mul_kernel(const float* __restrict__ G, const float* __restrict__ U, float* __restrict__ Y) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  const float4 g = *(const float4*)&G[by * 1024 + bx * 256 + tx * 4];
  *(float4*)&Y[by * 1024 + bx * 256 + tx * 4] =
      g / (1.0f + expf(g * -1.0f)) * *(const float4*)&U[by * 1024 + bx * 256 + tx * 4];
}

// Launch: silu_mul_kernel<<<(4, 64, 1), (64, 1, 1), 0>>>(G, U, Y)
