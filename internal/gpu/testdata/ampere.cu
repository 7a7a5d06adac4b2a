// Compiles with no header for every target: fp16 and bf16 conversions,
// ldmatrix, mma and cp.async by inline PTX.
typedef unsigned int u32;

__device__ __forceinline__ u32 smem(const void *p) { return (u32)__cvta_generic_to_shared(p); }

extern "C" __global__ void __launch_bounds__(32) ampere(const unsigned short *a, const unsigned short *b, float *c, unsigned short *h) {
  __shared__ alignas(16) unsigned short sa[16 * 16];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(sa + threadIdx.x * 8)), "l"(a + threadIdx.x * 8));
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  u32 ra[4], rb[2] = {((const u32 *)b)[threadIdx.x], ((const u32 *)b)[threadIdx.x + 32]};
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(smem(sa + threadIdx.x % 16 * 16 + threadIdx.x / 16 * 8)));
  float d[4] = {};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) c[threadIdx.x * 4 + i] = d[i];
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h[threadIdx.x]) : "f"(d[0]));
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h[threadIdx.x + 32]) : "f"(d[1]));
}
