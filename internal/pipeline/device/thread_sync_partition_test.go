package device

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
	"lowertrace/internal/pipeline"
)

// partitionKernel is a kernel of 128 threads whose warps go different ways and
// exchange elements of shared memory there, in loops, by asynchronous copies too.
func partitionKernel(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString(`# from tvm.script import tirx as T

@T.prim_func
def k(A_handle: T.handle, Out_handle: T.handle):
    T.func_attr({"target": T.target({"arch": "sm_80", "keys": ["cuda", "gpu"], "kind": "cuda", "max_num_threads": 1024, "tag": "", "thread_warp_size": 32})})
    A = T.match_buffer(A_handle, (128,), strides=(1,))
    Out = T.match_buffer(Out_handle, (128,), strides=(1,))
    s = T.alloc_buffer((256,), scope="shared")
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 128)
    s[tx] = A[tx]
    s[tx + 128] = A[tx]
    T.tvm_storage_sync("shared")
`)
	// Places of the threads lo to hi-1: one for each in a store, anything
	// among theirs or, seldom, those of all threads in a load.
	store := func(lo, hi int) string {
		at := "tx"
		if r.Intn(2) == 0 {
			at = fmt.Sprintf("(%d - tx)", lo+hi-1)
		}
		return fmt.Sprintf("s[%s + %d]", at, 128*r.Intn(2))
	}
	load := func(lo, hi int) string {
		if r.Intn(6) == 0 {
			lo, hi = 0, 128
		}
		n := hi - lo
		return fmt.Sprintf("s[(tx * %d + %d) %% %d + %d]", 1+r.Intn(3), r.Intn(n), n, lo+128*r.Intn(2))
	}
	var stmts func(indent string, depth, lo, hi, loops int)
	stmts = func(indent string, depth, lo, hi, loops int) {
		fmt.Fprintf(&b, "%sOut[tx] = Out[tx] + T.float32(1.0)\n", indent)
		for range 1 + r.Intn(3) {
			mid := lo + 32*(1+r.Intn(4))
			switch k := r.Intn(9); {
			case k < 3:
				fmt.Fprintf(&b, "%s%s = Out[tx] + T.float32(%d.0)\n", indent, store(lo, hi), r.Intn(4))
			case k < 6:
				fmt.Fprintf(&b, "%sOut[tx] = Out[tx] * T.float32(0.5) + %s\n", indent, load(lo, hi))
			case k == 6 && depth > 0:
				fmt.Fprintf(&b, "%sfor i%d in range(%d):\n", indent, loops, 1+r.Intn(3))
				stmts(indent+"    ", depth-1, lo, hi, loops+1)
			case k == 7 && depth > 0 && mid < hi:
				fmt.Fprintf(&b, "%sif tx < %d:\n", indent, mid)
				stmts(indent+"    ", depth-1, lo, mid, loops)
				if r.Intn(3) > 0 {
					fmt.Fprintf(&b, "%selse:\n", indent)
					stmts(indent+"    ", depth-1, mid, hi, loops)
				}
			case k == 8:
				to := store(lo, hi)
				fmt.Fprintf(&b, "%sT.ptx_cp_async(T.address_of(%s), T.address_of(A[tx]), 1)\n%sT.ptx_commit_group()\n", indent, to, indent)
				if r.Intn(2) == 0 {
					fmt.Fprintf(&b, "%sOut[tx] = Out[tx] + T.float32(1.0)\n", indent)
				}
				fmt.Fprintf(&b, "%sT.ptx_wait_group(0)\n", indent)
			}
		}
	}
	b.WriteString("    Out[tx] = A[tx]\n")
	stmts("    ", 4, 0, 128, 0)
	return b.String()
}

// TestThreadSyncPartitions places barriers in random kernels whose warps go
// different ways and runs the result: there are no races and no deadlocks.
func TestThreadSyncPartitions(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	named := 0
	for range 3000 {
		text := partitionKernel(r)
		m, err := script.ParseString("random.tir", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		out, err := (&pipeline.Context{}).Run(ThreadSyncShared, m)
		if err != nil {
			if strings.Contains(err.Error(), "than the hardware has") {
				continue
			}
			t.Fatalf("%v\n%s", err, text)
		}
		if strings.Contains(script.Print(out), `T.tvm_storage_sync("shared", 3`) {
			named++
		}
		args := interp.Args{Arrays: map[string]*npy.Array{}, Unwritten: map[string]bool{"Out": true}}
		for _, n := range []string{"A", "Out"} {
			if args.Arrays[n], err = npy.New("f4", 128); err != nil {
				t.Fatal(err)
			}
		}
		got, err := interp.Run(context.Background(), out, args, interp.Options{Findings: true, Sync: interp.SyncExplicit, Bounds: interp.BoundsExplicit, Workers: 1})
		if err != nil {
			t.Fatalf("%v\n%s", err, script.Print(out))
		}
		if len(got.Findings) > 0 {
			t.Fatalf("%v\n%s", got.Findings[0], script.Print(out))
		}
	}
	if named < 300 {
		t.Errorf("only %d of the kernels have a named barrier: the test is too weak", named)
	}
}
