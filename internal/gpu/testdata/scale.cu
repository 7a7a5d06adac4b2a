// One of everything that a cubin tells: static shared memory, a local array,
// launch bounds and parameters of several sizes.
extern "C" __global__ void __launch_bounds__(64) scale(const float *x, float *y, int n, float by, bool twice) {
  __shared__ float s[64];
  int i = blockIdx.x * 64 + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  float v[16];
  for (int k = 0; k < 16; ++k) v[k * n % 16] = s[(threadIdx.x + k) % 64];
  if (i < n) y[i] = v[n % 16] * by * (twice ? 2.f : 1.f);
}

extern "C" __global__ void fill(float *y, float v) { y[blockIdx.x * blockDim.x + threadIdx.x] = v; }
