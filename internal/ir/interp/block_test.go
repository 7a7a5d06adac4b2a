package interp_test

import (
	"context"
	"testing"

	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
)

// TestBlockAxes runs a block with a spatial and a reduction axis: its init runs
// at the first step of the reduction only, and where its predicate fails
// nothing runs.
func TestBlockAxes(t *testing.T) {
	mod, err := script.ParseString("b.tir", `# from tvm.script import tirx as T

@T.prim_func
def main(A_handle: T.handle, Out_handle: T.handle):
    A = T.match_buffer(A_handle, (4, 8), "int32", strides=(8, 1))
    Out = T.match_buffer(Out_handle, (4,), "int32", strides=(1,))
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    for j in range(8):
        with T.sblock("sum"):
            vi = T.axis.spatial(4, tx)
            vj = T.axis.reduce(8, j)
            T.where(tx < 4)
            T.reads()
            T.writes()
            with T.init():
                Out[vi] = 100
            Out[vi] = Out[vi] + A[vi, vj]
`)
	if err != nil {
		t.Fatal(err)
	}
	args := interp.Args{Arrays: map[string]*npy.Array{}}
	args.Arrays["A"], _ = npy.New("i4", 4, 8)
	args.Arrays["Out"], _ = npy.New("i4", 4)
	for i := range 32 {
		args.Arrays["A"].SetUint(i, uint64(i))
	}
	res, err := interp.Run(context.Background(), mod, args, interp.Options{Findings: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		want := int64(100)
		for j := range 8 {
			want += int64(i*8 + j)
		}
		if got := res.Outputs["Out"].Int(i); got != want {
			t.Errorf("Out[%d] = %d, want %d", i, got, want)
		}
	}
	if len(res.Findings) > 0 {
		t.Error(res.Findings)
	}
}
