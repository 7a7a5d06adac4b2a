import tilelang.language as T

N, B = 512, 256


@T.prim_func
def popcount(X: T.Tensor((N,), "int32"), L: T.Tensor((N,), "int64"), Y: T.Tensor((N,), "int32"), Z: T.Tensor((N,), "int64")):
    with T.Kernel(N // B, threads=64) as bx:
        for i in T.Parallel(B):
            Y[bx * B + i] = T.popcount(X[bx * B + i])
        for i in T.Parallel(B):
            Z[bx * B + i] = T.popcount(L[bx * B + i])
