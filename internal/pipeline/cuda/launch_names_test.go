package cuda

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lowertrace/internal/ir/script"
	"lowertrace/internal/launch"
	"lowertrace/internal/pipeline"
)

// TestLaunchNamesParameters checks that launch.json calls an argument as its
// parameter is called, also where the pointer is called as a view of it, as
// TVM's builder does.
func TestLaunchNamesParameters(t *testing.T) {
	const text = `from tvm.script import tirx as T

@T.prim_func
def double(data: T.handle, out: T.handle):
    rows = T.match_buffer(data, (4, 128), "float32")
    flat = T.match_buffer(out, (512,), "float32")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            view = T.Buffer((512,), "float32", data=rows.data)
            flat[bx * 128 + tx] = view[bx * 128 + tx] * T.float32(2.0)
`
	m, err := script.ParseString("double.tir", text)
	if err != nil {
		t.Fatal(err)
	}
	m.Funcs[0].BufferMap[0].Buffer.Data.Name = "view"
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	target, err := LookupTarget("sm_80")
	if err != nil {
		t.Fatal(err)
	}
	_, out, err := lowerAll(&pipeline.Context{Target: target, Options: pipeline.Options{}}, p, m)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := launch.Parse(out.Launch)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"rows", "flat"}, spec.Args); d != "" {
		t.Errorf("arguments (-want +got):\n%s", d)
	}
	if spec.Buffers["rows"].Role != launch.In || spec.Buffers["flat"].Role != launch.Out {
		t.Errorf("roles: %v", spec.Buffers)
	}
}
