extern "C" __global__ void __launch_bounds__(256, 1)
transpose_smem_kernel(const float* __restrict__ A, float* __restrict__ At) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  extern __shared__ __align__(1024) float tile[];
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    tile[(i >> 2) * 1040 + (tx >> 4) * 65 + (tx & 15) * 4 + (i & 3)] =
        A[by * 8192 + (i >> 2) * 2048 + (tx >> 4) * 128 + bx * 64 + (tx & 15) * 4 + (i & 3)];
  }
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 16; ++i) {
    At[bx * 16384 + i * 1024 + (tx >> 6) * 256 + by * 64 + (tx & 63)] = tile[(tx & 63) * 65 + i * 4 + (tx >> 6)];
  }
}

// Launch: transpose_smem_kernel<<<(2, 4, 1), (256, 1, 1), 16640>>>(A, At)
