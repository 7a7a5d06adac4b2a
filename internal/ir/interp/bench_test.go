package interp_test

import (
	"context"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/judge"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
)

// BenchmarkGEMM is a 256x256x256 float16 product at the level of mma.sync, as
// the code generator receives it.
func BenchmarkGEMM(b *testing.B) {
	k := corpus.Lookup("gemm_f16")
	for _, s := range statesOf("gemm_f16", "sm_80") {
		if s.pass != "codegen_input" {
			continue
		}
		mod, args := s.module(b), judge.Args(&k)
		for _, findings := range []bool{false, true} {
			name := "plain"
			if findings {
				name = "findings"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := interp.Run(context.Background(), mod, args, interp.Options{Findings: findings}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkSoftmaxTrace runs every state of the reference softmax with all
// checks on, parsing not counted.
func BenchmarkSoftmaxTrace(b *testing.B) {
	k := corpus.Lookup("softmax")
	states := statesOf("softmax", "sm_80")
	var mods []*ir.IRModule
	for _, s := range states {
		mods = append(mods, s.module(b))
	}
	args := judge.Args(&k)
	b.ReportMetric(float64(len(states)), "states")
	for b.Loop() {
		for i, s := range states {
			if _, err := interp.Run(context.Background(), mods[i], args, interp.Options{Findings: true, Sync: s.sync, Bounds: s.bounds}); err != nil {
				b.Fatal(err)
			}
		}
	}
}
