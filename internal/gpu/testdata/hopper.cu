// Compiles with no header: what Hopper has of its own (tensor-map copies,
// mbarriers, wgmma, setmaxnreg) and what sm_80 brought, by inline PTX alone.
struct alignas(64) TensorMap { unsigned long long opaque[16]; };

__device__ __forceinline__ unsigned smem(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void __launch_bounds__(128) hopper(const __grid_constant__ TensorMap a, float *out, float scale) {
  __shared__ alignas(1024) unsigned short tile[64 * 64];
  __shared__ alignas(8) unsigned long long barrier;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&barrier)));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&barrier)), "r"(8192));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(smem(tile)), "l"(&a), "r"(0), "r"((int)blockIdx.x * 64), "r"(smem(&barrier)) : "memory");
  }
  __syncthreads();
  asm volatile("{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra again;\n}" ::"r"(smem(&barrier)) : "memory");
  float d[4] = {};
  unsigned long long desc = (unsigned long long)(smem(tile) >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62;
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 1;\n"
               "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, p, 1, 1, 0, 0;\n}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(desc));
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < 4; ++i) out[(blockIdx.x * 128 + threadIdx.x) * 4 + i] = d[i] * scale;
}
