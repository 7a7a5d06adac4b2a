package schedule_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
	"lowertrace/internal/pipeline"
	devpass "lowertrace/internal/pipeline/device"
)

// persistentKernel is a kernel whose two blocks work on five tiles of C in
// turn, each the sum of four tiles of A, loaded in a pipeline of three stages.
// before stands in front of the loop over tiles, first and epilogue in it behind
// the pipeline.
// c is a shared buffer of the size of a tile, for the statements around.
func persistentKernel(before, first, epilogue, behind string) string {
	return fmt.Sprintf(`# from tvm.script import tirx as T

@T.prim_func
def k(A_handle: T.handle, C_handle: T.handle):
    A = T.match_buffer(A_handle, (8, 128), strides=(128, 1))
    C = T.match_buffer(C_handle, (56, 16), strides=(16, 1))
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        tx: T.int32 = T.launch_thread_idx(0)
        ty: T.int32 = T.launch_thread_idx(1)
        tz: T.int32 = T.launch_thread_idx(2)
        with T.sblock("tilelang_root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tl.launch_threads": [64, 1, 1]})
            s = T.sblock_alloc_buffer((8, 16), scope="shared.dyn")
            c = T.sblock_alloc_buffer((8, 16), scope="shared.dyn")
            f = T.sblock_alloc_buffer((8, 16), scope="local.fragment")
%s
            for w in range(3):
                if w * 2 + bx < 5:
                    T.fill(T.region(f[0, 0], 2, 8, 16), 1)
                    for k in T.serial(4, annotations={"num_stages": 3}):
                        T.copy(T.region(A[0, k * 16 + w * 16], 1, 8, 16), T.region(s[0, 0], 2, 8, 16))
                        for i in T.parallel(8):
                            for j in T.parallel(16):
                                f[i, j] = f[i, j] * T.float32(0.5) + s[7 - i, j]
%s
%s
%s
`, indent(before, 12), indent(first, 20), indent(epilogue, 20), indent(behind, 12))
}

const (
	tileBytes = 8 * 16 * 4
	fillC     = "T.fill(T.region(c[0, 0], 2, 8, 16), 2)\n"
	fillFirst = "if w == 0:\n    " + fillC
	storeC    = "T.copy(T.region(f[0, 0], 1, 8, 16), T.region(c[0, 0], 2, 8, 16))\n"
	// Every thread reads what another one wrote.
	loadC = "for i in T.parallel(8):\n    for j in T.parallel(16):\n        C[(w * 2 + bx) * 8 + i, j] = c[7 - i, 15 - j]\n"
	lastC = "for i in T.parallel(8):\n    for j in T.parallel(16):\n        C[40 + bx * 8 + i, j] = c[7 - i, 15 - j]\n"
)

// stages keeps the states a kernel passes through, each with the passes that
// made it.
type stages struct {
	done   []string
	states []stageState
}

type stageState struct {
	label  string
	mod    *ir.IRModule
	sync   interp.SyncMode
	bounds interp.BoundsMode
}

func (w *stages) Before(*pipeline.Event) {}
func (w *stages) After(e *pipeline.Event) {
	if e.Depth > 0 || e.Err != nil || e.Skipped != "" || e.Pass == devpass.FilterHost || e.Pass == devpass.FilterDevice {
		return
	}
	w.done = append(w.done, e.Pass.Name)
	if e.Result == e.Input && e.Pass != devpass.ThreadSyncDynamic || slices.Contains(w.done, devpass.MakePackedAPI.Name) {
		return
	}
	sync, bounds := interp.Stage(w.done)
	w.states = append(w.states, stageState{e.Label, e.Result, sync, bounds})
}

// TestPersistent lowers persistent kernels: the tiles of the pipeline and the
// buffer of the epilogue share memory exactly if the epilogue's carries nothing
// from one tile to the next. In every state the result must be that of the
// kernel as written, without a race, also when the state is read back from its
// text; without barriers there must be races.
func TestPersistent(t *testing.T) {
	pipe, target := sm80(t)
	half := "if w % 2 == 0:\n" + indent("T.copy(T.region(A[0, w * 16], 1, 4, 16), T.region(c[0, 0], 2, 4, 16))\n", 4) + "\n" +
		"if w % 2 == 1:\n" + indent("T.copy(T.region(A[4, w * 16], 1, 4, 16), T.region(c[4, 0], 2, 4, 16))\n", 4) + "\n"
	for _, c := range []struct {
		name, before, first, epilogue, behind string
		bytes                                 int64
	}{
		{"written_first", "", "", storeC + loadC, "", 3 * tileBytes},
		{"guarded_alike", "", "", "if w < 2:\n" + indent(storeC, 4) + "\nif w < 2:\n" + indent(loadC, 4), "", 3 * tileBytes},
		{"layout", "T.sblock_attr({\"layout_map\": {c: T.Layout((8, 16), lambda i, j: (i, (j + i * 4) % 16))}})\n", "", storeC + loadC, "", 3 * tileBytes},
		{"guarded_less", "", fillFirst, "if w % 2 == 0:\n" + indent(storeC, 4) + "\n" + loadC, "", 4 * tileBytes},
		{"guarded_other", "", fillFirst, "if w % 2 == 0:\n" + indent(storeC, 4) + "\nif w < 2:\n" + indent(loadC, 4), "", 4 * tileBytes},
		{"half_each", "", fillFirst, half + loadC, "", 4 * tileBytes},
		{"read_first", "", fillFirst, loadC + storeC, "", 4 * tileBytes},
		{"read_behind", fillC, "", storeC + loadC, lastC, 4 * tileBytes},
		{"condition", "", fillFirst, "if c[0, 0] > T.float32(3.0):\n" + indent("T.fill(T.region(f[0, 0], 2, 8, 16), 3)\n", 4) + "\n" + storeC + loadC, "", 4 * tileBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, err := script.ParseString("k.tir", persistentKernel(c.before, c.first, c.epilogue, c.behind))
			if err != nil {
				t.Fatal(err)
			}
			want, found := runPersistent(t, plain, interp.Options{Findings: true})
			if len(found) > 0 {
				t.Fatalf("the kernel as written: %v", found[0])
			}
			w := &stages{}
			ctx := &pipeline.Context{Target: target, Options: pipeline.Options{}, VerifyEach: true, Instruments: []pipeline.Instrument{w}}
			if _, err := pipe.Run(ctx, plain); err != nil {
				t.Fatal(err)
			}
			bytes := int64(-1)
			for _, s := range w.states {
				text := script.Print(s.mod)
				back, err := script.ParseString("k.tir", text)
				if err != nil {
					t.Fatalf("%s: %v\n%s", s.label, err, text)
				}
				for _, m := range []*ir.IRModule{s.mod, back} {
					got, found := runPersistent(t, m, interp.Options{Findings: true, Sync: s.sync, Bounds: s.bounds})
					if string(got.Data) != string(want.Data) || len(found) > 0 {
						t.Fatalf("%s: the kernel computes something else, or has findings: %v\n%s", s.label, found, text)
					}
				}
				for _, f := range s.mod.Funcs {
					ir.Walk(f.Body, func(s ir.Stmt) bool {
						if a, ok := s.(*ir.AllocBuffer); ok && a.Buffer.Name == "buf_dyn_shmem" {
							bytes, _ = ir.AsInt(a.Buffer.Shape[0])
						}
						return true
					})
				}
			}
			if s := w.states[len(w.states)-1]; s.sync != interp.SyncExplicit {
				t.Errorf("%s is not run with barriers", s.label)
			}
			if bytes != c.bytes {
				t.Errorf("%d bytes of shared memory, want %d", bytes, c.bytes)
			}
			w = &stages{}
			ctx = &pipeline.Context{Target: target, Options: pipeline.Options{}, Instruments: []pipeline.Instrument{w}}
			ctx.Select.Skip = []string{devpass.ThreadSyncDynamic.Name}
			if _, err := pipe.Run(ctx, plain); err != nil {
				t.Fatal(err)
			}
			last := w.states[len(w.states)-1]
			if _, found := runPersistent(t, last.mod, interp.Options{Findings: true, Sync: interp.SyncExplicit}); len(found) == 0 {
				t.Errorf("no race is found without barriers:\n%s", script.Print(last.mod))
			}
		})
	}
}

func runPersistent(t *testing.T, m *ir.IRModule, o interp.Options) (*npy.Array, []interp.Finding) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(5, 6))
	o.Workers = 1
	args := interp.Args{Arrays: map[string]*npy.Array{"A": array(t, rnd, 8, 128), "C": array(t, rnd, 56, 16)}}
	res, err := interp.Run(context.Background(), m, args, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, script.Print(m))
	}
	return res.Outputs["C"], res.Findings
}

var persistentSeeds = flag.Int("persistent", 40, "random persistent kernels TestRandomPersistent lowers")

// randomEpilogue are statements in the loop around a pipeline that fill, copy and
// read the shared buffers c, d and e, some of them under conditions.
func randomEpilogue(rnd *rand.Rand) string {
	var out strings.Builder
	buf := func() string { return []string{"c", "d", "e"}[rnd.IntN(3)] }
	var statement func(depth int) string
	statement = func(depth int) string {
		b := buf()
		switch rnd.IntN(9) {
		case 0:
			return fmt.Sprintf("T.fill(T.region(%s[0, 0], 2, 8, 16), %d)\n", b, rnd.IntN(4))
		case 1, 2:
			return fmt.Sprintf("T.copy(T.region(f[0, 0], 1, 8, 16), T.region(%s[0, 0], 2, 8, 16))\n", b)
		case 3:
			return fmt.Sprintf("T.copy(T.region(A[0, w * 16], 1, 8, 16), T.region(%s[0, 0], 2, 8, 16))\n", b)
		case 4:
			r := rnd.IntN(2) * 4 // half of it
			return fmt.Sprintf("T.copy(T.region(A[%d, w * 16], 1, 4, 16), T.region(%s[%d, 0], 2, 4, 16))\n", r, b, r)
		case 5, 6:
			return fmt.Sprintf("for i in T.parallel(8):\n    for j in T.parallel(16):\n        f[i, j] = f[i, j] * T.float32(0.5) + %s[7 - i, 15 - j]\n", b)
		}
		if depth == 0 {
			return fmt.Sprintf("for i in T.parallel(8):\n    for j in T.parallel(16):\n        f[i, j] = T.max(f[i, j], %s[i, 15 - j] - T.float32(w))\n", b)
		}
		var list strings.Builder
		for range 1 + rnd.IntN(2) {
			list.WriteString(statement(depth - 1))
		}
		head := []string{"if w % 2 == 0:", "if w < 2:", "if bx == 0:", "for q in range(2):", "for q in range(w):"}[rnd.IntN(5)]
		return head + "\n" + indent(list.String(), 4) + "\n"
	}
	for range 3 + rnd.IntN(4) {
		out.WriteString(statement(2))
	}
	return out.String() + "T.copy(T.region(f[0, 0], 1, 8, 16), T.region(C[(w * 2 + bx) * 8, 0], 2, 8, 16))\n"
}

// TestRandomPersistent is TestPersistent for random statements around the
// pipeline: whatever shares memory, no state may compute something else or
// have a race.
func TestRandomPersistent(t *testing.T) {
	pipe, target := sm80(t)
	share, ran := 0, 0
	for seed := range *persistentSeeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 11))
		before, first := "", ""
		for _, b := range []string{"c", "d", "e"} {
			fill := fmt.Sprintf("T.fill(T.region(%s[0, 0], 2, 8, 16), 2)\n", b)
			switch rnd.IntN(6) {
			case 0:
				before += fill
			case 1, 2, 3:
				first += "if w == 0:\n    " + fill
			}
		}
		text := persistentKernel(before, first, randomEpilogue(rnd), "")
		text = strings.Replace(text, "            c = T.sblock_alloc_buffer", "            d = T.sblock_alloc_buffer((8, 16), scope=\"shared.dyn\")\n            e = T.sblock_alloc_buffer((8, 16), scope=\"shared.dyn\")\n            c = T.sblock_alloc_buffer", 1)
		plain, err := script.ParseString("k.tir", text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		want, found := runPersistent(t, plain, interp.Options{Findings: true})
		if len(found) > 0 {
			continue // it reads what was never written
		}
		ran++
		w := &stages{}
		ctx := &pipeline.Context{Target: target, Options: pipeline.Options{}, Instruments: []pipeline.Instrument{w}}
		if _, err := pipe.Run(ctx, plain); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		for _, s := range w.states {
			got, found := runPersistent(t, s.mod, interp.Options{Findings: true, Sync: s.sync, Bounds: s.bounds})
			if string(got.Data) != string(want.Data) || len(found) > 0 {
				t.Errorf("seed %d, %s: the kernel computes something else, or has findings: %v\n%s\nbecame\n%s", seed, s.label, found, text, script.Print(s.mod))
				break
			}
		}
		used, sum := int64(0), int64(0)
		for _, f := range w.states[len(w.states)-1].mod.Funcs {
			ir.Walk(f.Body, func(s ir.Stmt) bool {
				switch s := s.(type) {
				case *ir.AllocBuffer:
					if s.Buffer.Name == "buf_dyn_shmem" {
						used, _ = ir.AsInt(s.Buffer.Shape[0])
					}
				case *ir.Bind:
					if c, ok := ir.IsCall(s.Value, "handle_add_byte_offset"); ok && len(c.Args) == 2 {
						sum += tileBytes
					}
				}
				return true
			})
		}
		if used < sum+2*tileBytes { // the pipeline's tile has three copies
			share++
		}
	}
	if share*10 < ran || ran*4 < *persistentSeeds {
		t.Errorf("%d kernels were run, in %d of them buffers share memory", ran, share)
	}
	t.Logf("%d kernels were run, in %d of them buffers share memory", ran, share)
}
