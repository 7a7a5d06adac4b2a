package corpus

import (
	"fmt"
	"strings"
)

// Fault is a fault to plant in a recorded state of the corpus, as a wrong pass
// would leave it behind.
type Fault struct {
	Name, Kernel, Arch string
	Pass               string // whose result is spoilt
	Nth                int    // which state of that pass, from 1
	Old, New           string
	At                 int    // which occurrence of Old, from 1; 0: all
	Want               string // a kind of finding, or "differs"
}

// Plant gives a state's text with the fault in it.
func (f *Fault) Plant(text string) (string, error) {
	bad := text
	if f.At == 0 {
		bad = strings.ReplaceAll(text, f.Old, f.New)
	} else if parts := strings.SplitN(text, f.Old, f.At+1); len(parts) == f.At+1 {
		bad = strings.Join(parts[:f.At], f.Old) + f.New + parts[f.At]
	}
	if bad == text {
		return "", fmt.Errorf("%q does not occur in the state of %s", f.Old, f.Pass)
	}
	return bad, nil
}

// Faults are faults of many kinds, each in a state that is right without it.
var Faults = []Fault{
	{"barrier removed after a wait", "gemm_f16", "sm_80", "ThreadSync", 2,
		"            T.ptx_wait_group(2)\n            T.tvm_storage_sync(\"shared\")\n", "            T.ptx_wait_group(2)\n", 1, "shared-race"},
	{"barrier removed before a reuse", "gemm_f16", "sm_80", "ThreadSync", 2,
		"        for ko in T.serial(6, annotations={\"tl_pipelined_num_stages\": 3}):\n            T.tvm_storage_sync(\"shared.dyn\")\n",
		"        for ko in T.serial(6, annotations={\"tl_pipelined_num_stages\": 3}):\n", 1, "shared-race"},
	{"wait dropped", "gemm_f16", "sm_80", "InjectSoftwarePipeline", 1,
		"T.ptx_wait_group(2)", "T.ptx_wait_group(3)", 1, "async-race"},
	{"bound off by one", "bounds_predicate_add", "sm_80", "LegalizeSafeMemoryAccess", 1,
		"(i * 2 + vec) % 2 < 70:", "(i * 2 + vec) % 2 < 71:", 1, "out-of-bounds"},
	{"guard dropped", "dynamic_shape_add", "sm_80", "LegalizeSafeMemoryAccess", 1, " < n:", " < n + 1:", 1, "out-of-bounds"},
	{"wrong swizzle", "gemm_f16", "sm_80", "FlattenBuffer", 1, "(thread_binding % 8 // 4 + ki) % 2", "(thread_binding % 4 // 2 + ki) % 2", 0, "differs"},
	{"mma operands swapped", "gemm_f16", "sm_80", "FlattenBuffer", 1,
		"A_local.data, i * 8, B_local.data, j * 8,", "B_local.data, j * 8, A_local.data, i * 8,", 1, "differs"},
	{"wrong parity", "gemm_f16", "sm_90a", "ProducerConsumerWarpSpecialized", 1,
		"T.mbarrier_wait_parity(mbarrier_1[ko % 3], ko // 3 % 2)", "T.mbarrier_wait_parity(mbarrier_1[ko % 3], T.bitwise_xor(ko // 3 % 2, 1))", 1, "deadlock"},
	{"wrong parity of the first wait", "gemm_f16", "sm_90a", "NarrowDataType", 1,
		"T.mbarrier_wait_parity(mbarrier_1[ko % 3 + 3], T.bitwise_xor(ko % 6 // 3, 1))", "T.mbarrier_wait_parity(mbarrier_1[ko % 3 + 3], ko % 6 // 3)", 1, "deadlock"},
	{"arrival dropped", "gemm_f16", "sm_90a", "LowerTileOp", 1,
		"                        T.ptx_arrive_barrier(mbarrier_1[ko % 3 + 3])\n", "", 1, "deadlock"},
	{"bytes miscounted", "gemm_f16", "sm_90a", "FuseMBarrierArriveExpectTx", 1, "8192)", "4096)", 1, "deadlock"},
	{"wrong matrix descriptor", "gemm_f16", "sm_90a", "LowerTileOp", 1, ", 1, 256, 64)", ", 1, 128, 64)", 1, "differs"},
	{"shared buffers overlap", "gemm_f16", "sm_80", "MergeSharedMemoryAllocations", 1,
		"T.handle_add_byte_offset(buf_dyn_shmem.data, 24576)", "T.handle_add_byte_offset(buf_dyn_shmem.data, 16384)", 1, "async-race"},
	{"a let aliases memory that changes", "int_zoo", "sm_80", "LowerTileOp", 1, "y // 7", "x // 7", 1, "differs"},
	{"reduction over half the threads", "softmax", "sm_80", "LowerTileOp", 1, "tl::MaxOp, 128, 1", "tl::MaxOp, 64, 1", 1, "differs"},
	{"vector moved off its alignment", "vector_add", "sm_80", "VectorizeLoop", 1, "= A_1[bx * 512 + tx * 4:bx * 512 + tx * 4 + 4]", "= A_1[bx * 512 + tx * 4 + 1:bx * 512 + tx * 4 + 5]", 1, "misaligned"},
	{"loop one short", "row_sum", "sm_80", "VectorizeLoop", 1, "for rv in T.unroll(4)", "for rv in T.unroll(3)", 1, "differs"},
}
