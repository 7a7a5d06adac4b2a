package tile

import "testing"

// The kernels with the most operators and the largest tiles.
var benchKernels = []string{"softmax", "gemm_f16", "flash_attention", "linear_attention_chunk"}

func BenchmarkLayoutInference(b *testing.B) {
	for _, k := range benchKernels {
		m, err := before(k, "LayoutInference")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(k, func(b *testing.B) {
			for b.Loop() {
				if _, err := LayoutInference.Run(newContext(), m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLowerTileOp(b *testing.B) {
	for _, k := range benchKernels {
		m, _, _, err := inferred(k)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(k, func(b *testing.B) {
			for b.Loop() {
				if _, err := LowerTileOp.Run(newContext(), m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
