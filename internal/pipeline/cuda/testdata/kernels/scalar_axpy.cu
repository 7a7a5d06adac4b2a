extern "C" __global__ void __launch_bounds__(128, 1)
scalar_axpy_kernel(const float* __restrict__ X, float* __restrict__ Y, float alpha, int count, bool flag) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (bx * 256 + i * 128 + tx < count) {
      Y[bx * 256 + i * 128 + tx] =
          flag ? alpha * X[bx * 256 + i * 128 + tx] + Y[bx * 256 + i * 128 + tx]
          : Y[bx * 256 + i * 128 + tx] - X[bx * 256 + i * 128 + tx];
    }
  }
}

// Launch: scalar_axpy_kernel<<<(8, 1, 1), (128, 1, 1), 0>>>(X, Y, alpha, count, flag)
