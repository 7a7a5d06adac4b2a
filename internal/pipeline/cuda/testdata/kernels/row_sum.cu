template <class T>
__device__ __forceinline__ T shuffle_xor(T x, int d) { return __shfl_xor_sync(0xffffffffu, x, d); }
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

extern "C" __global__ void __launch_bounds__(128, 1)
row_sum_kernel(const float* __restrict__ A, float* __restrict__ S) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  extern __shared__ __align__(1024) float workspace[];
  __align__(16) float a[128];
  #pragma unroll
  for (int i = 0; i < 32; ++i) {
    *(float4*)&a[i * 4] = *(const float4*)&A[bx * 16384 + i * 512 + tx * 4];
  }
  float s_clear[32];
  float s;
  #pragma unroll
  for (int i = 0; i < 32; ++i) {
    s_clear[i] = 0.0f;
    #pragma unroll
    for (int rv = 0; rv < 4; ++rv) {
      s_clear[i] += a[i * 4 + rv];
    }
    __syncthreads();
    s_clear[i] = block_sum<128>(s_clear[i], workspace);
    if ((tx & 31) == i) {
      s = s_clear[i];
    }
  }
  if (tx >> 5 == 0) {
    S[bx * 32 + (tx & 31)] = s;
  }
}

// Launch: row_sum_kernel<<<(8, 1, 1), (128, 1, 1), 512>>>(A, S)
