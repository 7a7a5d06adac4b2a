package interp_test

import (
	"context"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
)

// randomKernels is how many kernels of each form the tests draw.
const randomKernels = 60

// TestRandomKernels runs random kernels: each must parse, run without findings
// and agree with itself when its blocks run one after another.
func TestRandomKernels(t *testing.T) {
	for seed := range uint64(randomKernels) {
		for _, tile := range []bool{false, true} {
			text := interp.RandomKernel(seed, tile)
			if text != interp.RandomKernel(seed, tile) {
				t.Fatalf("seed %d gives two texts", seed)
			}
			mod, err := script.ParseString("random.tir", text)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			args, err := interp.Inputs(mod, interp.InputOptions{Seed: seed})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			res, err := interp.Run(context.Background(), mod, args, interp.Options{Findings: true})
			if err != nil {
				t.Fatalf("seed %d tile %v: %v\n%s", seed, tile, err, text)
			}
			for _, f := range res.Findings {
				t.Errorf("seed %d tile %v: %v\n%s", seed, tile, f, text)
			}
			if err := interp.SameAnswer(mod, mod, interp.SameOptions{Exact: true, After: interp.Options{Workers: 1}}); err != nil {
				t.Errorf("seed %d tile %v: %v\n%s", seed, tile, err, text)
			}
		}
	}
}

// TestSameAnswerSees changes one constant of random kernels: nearly always the
// answer changes too, and SameAnswer must say so.
func TestSameAnswerSees(t *testing.T) {
	changed, seen := 0, 0
	for seed := range uint64(20) {
		mod := script.MustParse(interp.RandomKernel(seed, false))
		other, err := mod.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
			rw := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
				if st, ok := s.(*ir.BufferStore); ok && st.Buffer.Name == "Out" {
					c := *st
					c.Value = ir.NewBinary(ir.Add, st.Value, ir.Const(st.Value.DType(), 1))
					return &c
				}
				return s
			}}
			return f.WithBody(rw.Stmt(f.Body)), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		changed++
		if interp.SameAnswer(mod, other, interp.SameOptions{}) != nil {
			seen++
		}
	}
	if seen < changed {
		t.Errorf("SameAnswer sees %d of %d changes", seen, changed)
	}
}
