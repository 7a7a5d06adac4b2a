__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

extern "C" __global__ void __launch_bounds__(128, 1)
vector_add_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  *(float4*)&C[bx * 512 + tx * 4] = *(const float4*)&A[bx * 512 + tx * 4] + *(const float4*)&B[bx * 512 + tx * 4];
}

// Launch: vector_add_kernel<<<(8, 1, 1), (128, 1, 1), 0>>>(A, B, C)
