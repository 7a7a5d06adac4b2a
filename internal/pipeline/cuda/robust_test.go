package cuda

import (
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// TestAnyState hands modules of every stage to the code generator: it prints
// them or says, with a position, what must be lowered first.
func TestAnyState(t *testing.T) {
	kernels := elementwise
	if !testing.Short() {
		kernels = append(kernels[:len(kernels):len(kernels)], "flash_attention", "gemm_f16", "assert_if", "two_kernels", "gemv_allreduce", "reducer_dot")
	}
	for _, k := range kernels {
		printed, refused := 0, 0
		paths := []string{k + "/sm_80/input.tir"}
		for _, s := range corpus.States(k, "sm_80") {
			paths = append(paths, s.Path)
		}
		for _, path := range paths {
			m, err := script.ParseString(path, corpus.Text(path))
			if err != nil {
				t.Fatal(err)
			}
			out, err := Generate(&pipeline.Context{Options: pipeline.Options{}}, m)
			switch {
			case err == nil:
				printed++
				if !strings.Contains(out.Source, "__global__") {
					t.Errorf("%s: no kernel in the text", path)
				}
			default:
				refused++
				if !strings.Contains(err.Error(), ".tir:") && !strings.Contains(err.Error(), "no device function") {
					t.Errorf("%s: an error without a position: %v", path, err)
				}
			}
		}
		if printed == 0 && k != "assert_if" || refused == 0 {
			t.Errorf("%s: %d states printed, %d refused", k, printed, refused)
		}
	}
}

func BenchmarkGenerate(b *testing.B) {
	for _, k := range []string{"softmax", "flash_attention"} {
		b.Run(k, func(b *testing.B) {
			name := k + "/sm_80/codegen_input.tir"
			m, err := script.ParseString(name, corpus.Text(name))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := Generate(&pipeline.Context{Options: pipeline.Options{}}, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
