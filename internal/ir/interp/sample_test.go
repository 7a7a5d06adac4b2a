package interp_test

import (
	"context"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/judge"
	"lowertrace/internal/ir/interp"
)

// TestSample runs a few blocks of kernels at several states and compares only
// what they write, with the run of all blocks. gemm_swizzled and
// gemm_persistent give tiles to blocks in an order of their own.
func TestSample(t *testing.T) {
	for _, name := range []string{"gemm_f16", "gemm_swizzled", "vector_add", "softmax", "rms_norm"} {
		k := corpus.Lookup(name)
		var cover map[string][]bool
		for _, s := range statesOf(name, "sm_80") {
			if !quick[s.pass] {
				continue
			}
			args := judge.Args(&k)
			all, err := interp.Run(context.Background(), s.module(t), args, interp.Options{Sync: s.sync, Bounds: s.bounds})
			if err != nil {
				t.Fatal(err)
			}
			some, err := interp.Run(context.Background(), s.module(t), args, interp.Options{Sync: s.sync, Bounds: s.bounds, Sample: 2, Cover: cover})
			if err != nil {
				t.Fatal(err)
			}
			if some.Written == nil {
				t.Fatalf("%s: all blocks ran", s.path)
			}
			for n, w := range cover {
				for i, x := range w {
					if x && !some.Written[n][i] {
						t.Fatalf("%s: %s[%d] is not covered", s.path, n, i)
					}
				}
			}
			marked, total := 0, 0
			for _, p := range k.Params {
				if p.Role == "out" {
					for _, x := range some.Written[p.Name] {
						total++
						if x {
							marked++
						}
					}
				}
			}
			if marked == 0 || marked == total {
				t.Errorf("%s: %d of %d elements written", s.path, marked, total)
			}
			for _, d := range interp.Compare(all.Outputs, some.Outputs, interp.CompareOptions{Types: all.Types, Written: some.Written}) {
				if d.Verdict != interp.Identical {
					t.Errorf("%s: %v", s.path, d)
				}
			}
			if cover == nil {
				cover = some.Written
			}
		}
	}
}
