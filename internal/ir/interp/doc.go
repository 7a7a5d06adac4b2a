// Package interp runs an IR module of any stage on the CPU. It is the judge of
// the passes: what it computes before and after a pass must be the same.
//
// # How a launch runs
//
// A function is compiled to closures (compile.go, expr.go, access.go, call*.go)
// and each block of a launch is run by its warps. A warp is a coroutine; its 32
// lanes are evaluated together as vectors under a mask, and values that cannot
// differ between lanes as scalars. A barrier, a wait on an mbarrier, a named
// barrier inside a library helper are yields to the block's scheduler
// (sched.go). Warps run one at a time, so that a result never depends on
// timing; blocks run in parallel unless they communicate.
//
// # Stages
//
// Before LowerTileOp the function speaks of tiles: T.copy, T.gemm, T.Parallel
// and so on are collective. All warps that reach such a statement meet there and
// one of them performs it, over whole logical buffers; fragments are arrays of
// the block (tile.go).
//
// Before ThreadSync the function has no barriers where data passes through shared
// memory: one is implied before each statement that touches it. The scheduler
// then always resumes the warp that is furthest behind in program order
// (SyncImplied). After ThreadSync nothing is implied (SyncExplicit).
//
// Before LegalizeSafeMemoryAccess an access to global memory outside its
// buffer means "nothing there": a load gives the buffer's safe value, a store is
// dropped (BoundsImplied). After it such an access is a finding.
//
// # Memory
//
// Pointers are 64-bit numbers: a kind, the number of an allocation, a byte
// offset. Memory is bytes; every load and store converts between them and the
// interpreter's values (integers as int64 wrapped to their type, floats as
// float64 rounded to their type after each operation), so that all views of one
// allocation agree bit for bit. Asynchronous copies land when they are waited for
// and not before.
package interp
