import tilelang.language as T

m, n, k = T.dynamic("m, n, k")
BM, BN, BK = 64, 64, 32
STAGES = 2


@T.prim_func
def gemm_mnk(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float32")):
    with T.Kernel(T.ceildiv(n, BN), T.ceildiv(m, BM), threads=128) as (bx, by):
        a_s = T.alloc_shared((BM, BK), "float16")
        b_s = T.alloc_shared((BK, BN), "float16")
        acc = T.alloc_fragment((BM, BN), "float32")
        T.clear(acc)
        for ko in T.Pipelined(T.ceildiv(k, BK), num_stages=STAGES):
            T.copy(A[by * BM, ko * BK], a_s)
            T.copy(B[ko * BK, bx * BN], b_s)
            T.gemm(a_s, b_s, acc)
        T.copy(acc, C[by * BM, bx * BN])
