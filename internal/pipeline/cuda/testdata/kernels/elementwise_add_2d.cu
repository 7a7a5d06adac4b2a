__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

extern "C" __global__ void __launch_bounds__(256, 1)
elementwise_add_2d_kernel(const float* __restrict__ X, const float* __restrict__ Y, float* __restrict__ Z) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  extern __shared__ __align__(1024) float xs[];
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    *(float4*)&xs[i * 1024 + tx * 4] =
        *(const float4*)&X[by * 32768 + i * 4096 + (tx >> 5) * 512 + bx * 128 + (tx & 31) * 4];
  }
  __align__(16) float yf[32];
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    *(float4*)&yf[i * 4] = *(const float4*)&Y[by * 32768 + i * 4096 + (tx >> 5) * 512 + bx * 128 + (tx & 31) * 4];
  }
  __align__(16) float zf[32];
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    *(float4*)&zf[i * 4] = *(float4*)&xs[i * 1024 + tx * 4] + *(float4*)&yf[i * 4];
  }
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    *(float4*)&Z[by * 32768 + i * 4096 + (tx >> 5) * 512 + bx * 128 + (tx & 31) * 4] = *(float4*)&zf[i * 4];
  }
}

// Launch: elementwise_add_2d_kernel<<<(4, 4, 1), (256, 1, 1), 32768>>>(X, Y, Z)
