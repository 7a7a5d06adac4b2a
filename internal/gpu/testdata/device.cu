// Kernels for the tests that run on a GPU of compute capability 9.0: one for
// each way of launching and each kind of parameter.
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) TensorMap { u64 opaque[16]; };

__device__ __forceinline__ u32 smem(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// Copies box (blockIdx.x, blockIdx.y) of 32x8 floats by the TMA; what lies
// outside the tensor arrives as zeros.
extern "C" __global__ void tma_copy(const __grid_constant__ TensorMap a, float *out) {
  __shared__ alignas(128) float tile[8][32];
  __shared__ alignas(8) u64 barrier;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&barrier)));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(smem(&barrier)));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(smem(tile)), "l"(&a), "r"((int)blockIdx.x * 32), "r"((int)blockIdx.y * 8), "r"(smem(&barrier)) : "memory");
  }
  __syncthreads();
  asm volatile("{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra again;\n}" ::"r"(smem(&barrier)) : "memory");
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    out[((blockIdx.y * gridDim.x + blockIdx.x) * 8 + i / 32) * 32 + i % 32] = tile[i / 32][i % 32];
}

extern "C" __global__ void cluster_rank(int *out) {
  u32 rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  if (threadIdx.x == 0) out[blockIdx.x] = rank * 100 + size;
}

// Needs all blocks at once: each waits for the others.
extern "C" __global__ void grid_barrier(int *count, int *out) {
  if (threadIdx.x == 0) {
    atomicAdd(count, 1);
    while (atomicAdd(count, 0) < (int)gridDim.x) {}
    out[blockIdx.x] = *(volatile int *)count;
  }
}

extern "C" __global__ void big_shared(int *out, int words) {
  extern __shared__ int s[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) s[i] = i * 3;
  __syncthreads();
  for (int i = threadIdx.x; i < words; i += blockDim.x) out[i] = s[words - 1 - i];
}

extern "C" __global__ void scalars(double *out, float f, int i, bool b, long long l, unsigned short h, double d, signed char c) {
  out[0] = f; out[1] = i; out[2] = b; out[3] = l; out[4] = h; out[5] = d; out[6] = c;
}

extern "C" __global__ void add_one(int *x) { atomicAdd(x, 1); }

extern "C" __global__ void spin(u64 nanoseconds) {
  u64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - start < nanoseconds);
}

extern "C" __global__ void crash(int *p) { p[(1ll << 40) + threadIdx.x] = 1; }
