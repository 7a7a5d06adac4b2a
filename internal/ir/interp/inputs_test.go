package interp_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
)

// TestDrawnInputs draws inputs for every kernel of the reference and runs it on
// them as it was written and as the code generator receives it: no findings, and
// the same answer. Sizes are drawn so that the last tile is partial. Kernels
// take turns between the architectures; INTERP_SWEEP runs both, and the state
// after LowerTileOp too.
func TestDrawnInputs(t *testing.T) {
	sweep := os.Getenv("INTERP_SWEEP") != ""
	for i, k := range corpus.Kernels() {
		for j, arch := range k.Archs {
			if !sweep && j != i%len(k.Archs) || testing.Short() && i%shortStep != 0 {
				continue
			}
			states := statesOf(k.Name, arch)
			args, err := interp.Inputs(states[0].module(t), interp.InputOptions{Seed: 7, Specs: specs[k.Name], Set: sets[k.Name]})
			if err != nil {
				t.Fatalf("%s: %v", k.Name, err)
			}
			var first *interp.Result
			for _, s := range states {
				if !quick[s.pass] || s.pass == "LowerTileOp" && !sweep || exceptions(k.Name, arch, &s) != nil {
					continue
				}
				res, err := interp.Run(context.Background(), s.module(t), args, interp.Options{Findings: true, Sync: s.sync, Bounds: s.bounds})
				if err != nil {
					t.Errorf("%s: %v", s.path, err)
					break
				}
				for _, f := range res.Findings {
					t.Errorf("%s: %v", s.path, f)
				}
				if first == nil {
					first = res
					continue
				}
				unordered := map[string]bool{}
				for _, n := range res.Atomic {
					unordered[n] = true
				}
				for _, d := range interp.Compare(first.Outputs, res.Outputs, interp.CompareOptions{Types: first.Types, Unordered: unordered}) {
					if d.Verdict == interp.Wrong {
						t.Errorf("%s: %v", s.path, d)
					}
				}
			}
		}
	}
}

// specs and sets are what drawn inputs need to be told: ranges that a kernel
// promises, sizes that belong together.
var (
	specs = map[string]map[string]string{}
	sets  = map[string]map[string]float64{"assert_if": {"mode": 1}}
)

// TestInputs draws inputs for small functions.
func TestInputs(t *testing.T) {
	head := "# from tvm.script import tirx as T\n\n@T.prim_func\ndef main(A_handle: T.handle, I_handle: T.handle, Out_handle: T.handle, k: T.int32):\n    n = T.int32()\n" +
		"    A = T.match_buffer(A_handle, (n, 10), strides=(10, 1))\n    I = T.match_buffer(I_handle, (n,), \"int32\", strides=(1,))\n    Out = T.match_buffer(Out_handle, (n,), strides=(1,))\n"
	mod := script.MustParse(head + "    bx = T.launch_thread(\"blockIdx.x\", (n + 31) // 32)\n    tx = T.launch_thread(\"threadIdx.x\", 32)\n    if bx * 32 + tx < n:\n        Out[bx * 32 + tx] = A[bx * 32 + tx, I[bx * 32 + tx]]\n")
	a, err := interp.Inputs(mod, interp.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if a.Scalars["n"] != 65 || a.Scalars["k"] != 257 {
		t.Errorf("sizes %v, want n = 2*32+1 and k = 257", a.Scalars)
	}
	if got := a.Arrays["A"].Shape; len(got) != 2 || got[0] != 65 || got[1] != 10 {
		t.Errorf("A has shape %v", got)
	}
	if !a.Unwritten["Out"] || a.Unwritten["A"] {
		t.Errorf("unwritten: %v", a.Unwritten)
	}
	seen := map[int64]bool{}
	for i := range a.Arrays["I"].Len() {
		x := a.Arrays["I"].Int(i)
		if x < 0 || x > 9 {
			t.Fatalf("I[%d] = %d indexes a dimension of 10", i, x)
		}
		seen[x] = true
	}
	if len(seen) < 5 {
		t.Errorf("I takes only %d values", len(seen))
	}
	b, _ := interp.Inputs(mod, interp.InputOptions{})
	if string(a.Arrays["A"].Data) != string(b.Arrays["A"].Data) {
		t.Error("two draws differ")
	}
	b, _ = interp.Inputs(mod, interp.InputOptions{Seed: 1, Set: map[string]float64{"n": 3}, Specs: map[string]string{"I": "uniform_int:2..2", "A": "const 1.5"}})
	if b.Arrays["A"].Shape[0] != 3 || b.Arrays["A"].Float(7) != 1.5 || b.Arrays["I"].Int(2) != 2 {
		t.Errorf("n = 3, A = 1.5, I = 2: %v, %v, %v", b.Arrays["A"].Shape, b.Arrays["A"].Float(7), b.Arrays["I"].Int(2))
	}
	for _, bad := range []string{"triangular", "uniform 3..1", "const", "uniform_int 1"} {
		var e *interp.Error
		if _, err := interp.Inputs(mod, interp.InputOptions{Specs: map[string]string{"A": bad}}); !errors.As(err, &e) || !strings.Contains(err.Error(), "unknown way to draw A") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestDeviceAlone draws inputs for what the code generator receives, without its
// host side, and runs it: arrays are flat then. Kernels that touch an array through
// pointers only do not say how large it is.
func TestDeviceAlone(t *testing.T) {
	ran := 0
	for _, k := range corpus.Kernels() {
		if !k.Has("sm_80") || k.Name == "extern_l2" {
			continue
		}
		p := k.Name + "/sm_80/codegen_input.tir"
		mod, err := script.ParseString(p, corpus.Text(p))
		if err != nil {
			t.Fatal(err)
		}
		args, err := interp.Inputs(mod, interp.InputOptions{Set: sets[k.Name]})
		var nr *interp.NotRunnable
		if errors.As(err, &nr) { // an array that is only touched through pointers
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		ran++
		res, err := interp.Run(context.Background(), mod, args, interp.Options{Findings: true})
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		for _, f := range res.Findings {
			t.Errorf("%s: %v", p, f)
		}
	}
	if ran < 45 {
		t.Errorf("only %d kernels ran", ran)
	}
}
