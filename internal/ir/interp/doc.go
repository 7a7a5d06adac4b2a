// Package interp runs an IR module of any stage on the CPU. It is the judge of
// the passes: what it computes before and after a pass must be the same.
//
// # How a launch runs
//
// A function is compiled to closures (compile.go, expr.go, access.go, call.go and
// the files of single operators) and each block of a launch is run by its warps. A warp is a coroutine; its 32
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
// and not before; matrix products of warpgroups read their operands and change
// their accumulators at the wait.
//
// # Findings
//
// Accesses out of bounds, failed assertions and deadlocks are always reported.
// Options.Findings adds reads of memory never written, races in shared memory
// (vector clocks of warps, races.go), races between blocks, accesses to memory
// that an asynchronous copy is on its way to, missing proxy fences, and barriers
// that part of a block reaches. Lanes of one warp are taken to run in lockstep.
//
// # Choices
//
// No products and sums are contracted. A matrix instruction's products are exact,
// summed in float64 and rounded once with the accumulator; T.gemm sums in the
// same steps, so that it agrees with what it becomes. A Select evaluates the
// chosen side only, as the CUDA that it becomes does. Functions of C source
// (pragma_import_c) are not known: a state that calls one is not runnable.
package interp
