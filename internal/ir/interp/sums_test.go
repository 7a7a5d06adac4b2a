package interp

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
)

// TestSums counts the additions of 16-bit floats that make an element; those of
// 32 bits round too little to count.
func TestSums(t *testing.T) {
	const text = `from tvm.script import tirx as T

@T.prim_func
def add(h: T.handle, f: T.handle):
    H = T.match_buffer(h, (2,), "float16")
    F = T.match_buffer(f, (2,), "float32")
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            T.atomic_add_elem_op(T.address_of(H[tx % 2]), T.float16(1.0), 0)
            T.atomic_add_elem_op(T.address_of(F[0]), T.float32(1.0), 0)
`
	m, err := script.ParseString("add.tir", text)
	if err != nil {
		t.Fatal(err)
	}
	args := Args{Arrays: map[string]*npy.Array{}}
	for name, dtype := range map[string]npy.DType{"H": "f2", "F": "f4"} {
		if args.Arrays[name], err = npy.New(dtype, 2); err != nil {
			t.Fatal(err)
		}
	}
	res, err := Run(context.Background(), m, args, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]int{"H": 48}, res.Sums); d != "" {
		t.Errorf("additions (-want +got):\n%s", d)
	}
	if got := res.Outputs["H"].Float(1); got != 48 {
		t.Errorf("H[1] is %v, want 48", got)
	}
}
