package schedule_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
	devpass "lowertrace/internal/pipeline/device"
	"lowertrace/internal/pipeline/schedule"
)

// tiles is how many tiles the arrays of the test kernels hold.
const tiles = 8

// loopKernel is a kernel around one pipelined loop over tiles of A and B, in
// which threads read what others loaded. extent may mention the parameter n.
func loopKernel(extent, annotations, body string) string {
	return fmt.Sprintf(`# from tvm.script import tirx as T

@T.prim_func
def k(A_handle: T.handle, B_handle: T.handle, C_handle: T.handle, n: T.int32):
    A = T.match_buffer(A_handle, (8, %[1]d), strides=(%[1]d, 1))
    B = T.match_buffer(B_handle, (8, %[1]d), strides=(%[1]d, 1))
    C = T.match_buffer(C_handle, (8, 16), strides=(16, 1))
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        tx: T.int32 = T.launch_thread_idx(0)
        ty: T.int32 = T.launch_thread_idx(1)
        tz: T.int32 = T.launch_thread_idx(2)
        with T.sblock("tilelang_root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tl.launch_threads": [64, 1, 1]})
            s = T.sblock_alloc_buffer((8, 16), scope="shared.dyn")
            t = T.sblock_alloc_buffer((8, 16), scope="shared.dyn")
            u = T.sblock_alloc_buffer((8, 16), scope="shared.dyn")
            f = T.sblock_alloc_buffer((8, 16), scope="local.fragment")
            T.fill(T.region(f[0, 0], 2, 8, 16), 1)
            for k in T.serial(%[2]s, annotations={%[3]s}):
%[4]s
            T.copy(T.region(f[0, 0], 1, 8, 16), T.region(C[0, 0], 2, 8, 16))
`, 16*tiles, extent, annotations, indent(body, 16))
}

func indent(s string, n int) string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.Repeat(" ", n) + lines[i]
	}
	return strings.Join(lines, "\n")
}

const (
	copyA = "T.copy(T.region(A[0, k * 16], 1, 8, 16), T.region(s[0, 0], 2, 8, 16))\n"
	copyB = "T.copy(T.region(B[0, k * 16], 1, 8, 16), T.region(t[0, 0], 2, 8, 16))\n"
	useA  = "for i in T.parallel(8):\n    for j in T.parallel(16):\n        f[i, j] = f[i, j] * T.float32(0.5) + s[7 - i, j]\n"
	useB  = "for i in T.parallel(8):\n    for j in T.parallel(16):\n        f[i, j] = f[i, j] + t[7 - i, 15 - j] * T.float32(2.0)\n"
	useAB = "for i in T.parallel(8):\n    for j in T.parallel(16):\n        f[i, j] = f[i, j] * T.float32(0.5) + s[7 - i, j] * t[i, 15 - j]\n"
	// A tile made from a tile: a stage between the first and the last.
	makeU = "for i in T.parallel(8):\n    for j in T.parallel(16):\n        u[i, j] = s[7 - i, 15 - j] + T.float32(1.0)\n"
	useU  = "for i in T.parallel(8):\n    for j in T.parallel(16):\n        f[i, j] = f[i, j] * T.float32(0.5) + u[7 - i, j]\n"
)

type tripCase struct{ name, annotations, body string }

func tripCases() []tripCase {
	var out []tripCase
	for n := 1; n <= 4; n++ {
		a := fmt.Sprintf(`"num_stages": %d`, n)
		out = append(out,
			tripCase{fmt.Sprintf("both %d", n), a, copyA + copyB + useAB},
			tripCase{fmt.Sprintf("apart %d", n), a, copyA + useA + copyB + useB})
	}
	lists := func(name, order, stage, body string) {
		out = append(out, tripCase{name, fmt.Sprintf(`"tl_pipeline_order": [%s], "tl_pipeline_stage": [%s]`, order, stage), body})
	}
	lists("copy first", "0, 1", "0, 1", copyA+useA)
	lists("copy last", "1, 0", "0, 1", copyA+useA)
	lists("copy last by two", "1, 0", "0, 2", copyA+useA)
	lists("far ahead", "0, 1, 2", "0, 0, 5", copyA+copyB+useAB)
	lists("mixed", "1, 3, 0, 2", "0, 0, 2, 2", copyA+copyB+useA+useB)
	lists("middle stage", "0, 1, 2", "0, 1, 2", copyA+makeU+useU)
	lists("middle stage reversed", "2, 1, 0", "0, 1, 2", copyA+makeU+useU)
	lists("all in one stage", "0, 1", "0, 0", copyA+useA)
	return out
}

func array(t *testing.T, rnd *rand.Rand, shape ...int) *npy.Array {
	a, err := npy.New("f4", shape...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.Len() {
		a.SetUint(i, uint64(math.Float32bits(float32(rnd.IntN(17)-8))))
	}
	return a
}

func compute(t *testing.T, m *ir.IRModule, n int, o interp.Options) (*npy.Array, []interp.Finding) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(3, 4))
	args := interp.Args{Scalars: map[string]float64{"n": float64(n)}, Arrays: map[string]*npy.Array{
		"A": array(t, rnd, 8, 16*tiles), "B": array(t, rnd, 8, 16*tiles), "C": array(t, rnd, 8, 16)}}
	o.Workers = 1
	res, err := interp.Run(context.Background(), m, args, o)
	if err != nil {
		t.Fatal(err)
	}
	return res.Outputs["C"], res.Findings
}

// sm80 is the CUDA pipeline and a target to run it for.
func sm80(t *testing.T) (pipeline.Pipeline, *pipeline.Target) {
	t.Helper()
	pipe, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	target, err := cuda.LookupTarget("sm_80")
	if err != nil {
		t.Fatal(err)
	}
	return pipe, target
}

// watch keeps the state behind the last ThreadSync, with its barriers.
type watch struct {
	kept   *ir.IRModule
	copies int
}

func (w *watch) Before(*pipeline.Event) {}
func (w *watch) After(e *pipeline.Event) {
	if e.Pass == devpass.ThreadSyncDynamic {
		w.kept = e.Result
	}
	if e.Pass == schedule.InjectSoftwarePipeline && e.Result != nil {
		w.copies = strings.Count(script.Print(e.Result), "no_implicit_async_commit_wait")
	}
}

// TestTripCounts runs pipelined loops for every number of iterations from none
// to more than the stages, known and not known when the kernel is lowered: the
// result must be that of the plain loop, both behind the pass and behind the
// barriers of the lowered kernel, which must have no race.
func TestTripCounts(t *testing.T) {
	pipe, target := sm80(t)
	for _, c := range tripCases() {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			for n := -1; n <= tiles; n++ {
				extent, counts := fmt.Sprint(n), []int{n}
				if n < 0 {
					extent, counts = "n", []int{0, 1, 2, 3, 4, 5, tiles}
				}
				text := loopKernel(extent, c.annotations, c.body)
				plain, err := script.ParseString("k.tir", text)
				if err != nil {
					t.Fatal(err)
				}
				w := &watch{}
				ctx := &pipeline.Context{Target: target, Options: pipeline.Options{}, VerifyEach: true, Instruments: []pipeline.Instrument{w}}
				ahead := plain
				for _, p := range []*pipeline.Pass{schedule.PipelinePlanning, schedule.InjectSoftwarePipeline} {
					if ahead, err = ctx.Run(p, ahead); err != nil {
						t.Fatal(err)
					}
				}
				if w.copies == 0 && n != 0 && c.name != "all in one stage" {
					t.Fatalf("nothing is copied asynchronously:\n%s", script.Print(ahead))
				}
				if _, err = pipe.Run(ctx, plain); err != nil {
					t.Fatal(err)
				}
				for _, n := range counts {
					want, _ := compute(t, plain, n, interp.Options{})
					got, _ := compute(t, ahead, n, interp.Options{})
					if string(want.Data) != string(got.Data) {
						t.Errorf("extent %s, %d iterations: the pipeline computes something else:\n%s", extent, n, script.Print(ahead))
						return
					}
					got, findings := compute(t, w.kept, n, interp.Options{Sync: interp.SyncExplicit, Findings: true})
					if string(want.Data) != string(got.Data) || len(findings) > 0 {
						t.Errorf("extent %s, %d iterations: the lowered kernel computes something else, or races: %v\n%s", extent, n, findings, script.Print(w.kept))
						return
					}
				}
			}
		})
	}
}
