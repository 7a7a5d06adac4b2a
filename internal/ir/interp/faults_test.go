package interp_test

import (
	"context"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
)

// TestSeededFaults plants a fault in a state of the reference, as a wrong pass
// would, and looks for the first state that goes wrong: it must be that one.
func TestSeededFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("runs whole kernels")
	}
	for _, f := range []struct {
		name, kernel, arch, pass string
		nth                      int // which state of that pass, from 1
		old, new                 string
		at                       int    // which occurrence of old, from 1; 0: all
		want                     string // a kind of finding, or "differs"
	}{
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
	} {
		t.Run(f.name, func(t *testing.T) {
			k := corpus.Lookup(f.kernel)
			states := statesOf(f.kernel, f.arch)
			at, n := -1, 0
			for i, s := range states {
				if s.pass == f.pass {
					if n++; n == f.nth {
						at = i
					}
				}
			}
			if at < 1 {
				t.Fatalf("no state %d of %s", f.nth, f.pass)
			}
			s := states[at]
			if len(s.text) != 1 {
				t.Fatal("a joined state")
			}
			text := corpus.Text(s.text[0])
			bad := text
			if f.at == 0 {
				bad = strings.ReplaceAll(text, f.old, f.new)
			} else if parts := strings.SplitN(text, f.old, f.at+1); len(parts) == f.at+1 {
				bad = strings.Join(parts[:f.at], f.old) + f.new + parts[f.at]
			}
			if bad == text {
				t.Fatalf("%q does not occur in %s", f.old, s.path)
			}
			// The state before and the state itself are right; the fault is seen.
			args := corpusArgs(t, &k)
			for _, prev := range []state{states[at-1], s} {
				res, err := interp.Run(context.Background(), prev.module(t), args, interp.Options{Findings: true, Sync: prev.sync, Bounds: prev.bounds})
				if err != nil || len(res.Findings) > 0 || compareExpected(t, &k, res.Outputs) != "" {
					t.Fatalf("%s is wrong without the fault: %v", prev.path, err)
				}
			}
			mod, err := script.ParseString(s.path, bad)
			if err != nil {
				t.Fatal(err)
			}
			res, err := interp.Run(context.Background(), mod, args, interp.Options{Findings: true, Sync: s.sync, Bounds: s.bounds})
			if res == nil {
				t.Fatalf("no result: %v", err)
			}
			if f.want == "differs" {
				if err != nil {
					t.Fatal(err)
				}
				if d := compareExpected(t, &k, res.Outputs); d == "" {
					t.Errorf("the fault is not seen; findings %v", res.Findings)
				}
				return
			}
			for _, x := range res.Findings {
				if string(x.Kind) == f.want && x.Span.IsValid() {
					return
				}
			}
			d := ""
			if err == nil {
				d = compareExpected(t, &k, res.Outputs)
			}
			t.Errorf("no %s; findings %v, error %v, %s", f.want, res.Findings, err, d)
		})
	}
}
