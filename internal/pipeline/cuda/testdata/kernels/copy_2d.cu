struct half_t { unsigned short bits; };

extern "C" __global__ void __launch_bounds__(128, 1)
copy_2d_kernel(const half_t* __restrict__ A, half_t* __restrict__ B) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  extern __shared__ __align__(1024) half_t tile[];
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    *(uint4*)&tile[i * 1024 + tx * 8] =
        *(const uint4*)&A[by * 32768 + i * 4096 + (tx >> 3) * 256 + bx * 64 + (tx & 7) * 8];
  }
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    *(uint4*)&B[by * 32768 + i * 4096 + (tx >> 3) * 256 + bx * 64 + (tx & 7) * 8] = *(uint4*)&tile[i * 1024 + tx * 8];
  }
}

// Launch: copy_2d_kernel<<<(4, 2, 1), (128, 1, 1), 16384>>>(A, B)
