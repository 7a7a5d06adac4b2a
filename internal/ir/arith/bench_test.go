package arith

import (
	"testing"

	"lowertrace/internal/ir"
)

// The expressions a layout leaves behind in a lowered matrix product.
var benchTexts = []string{
	"((tid // 32 % 2 * 64 + i * 16 + tid % 32 % 16) * 32 + (k * 16 + 8 * (tid % 32 // 16))) % 4096 // 32",
	"((i * 8 + v8) // 8 * 32 + tx // 4) // 8 * 256 + (((i * 8 + v8) // 8 * 32 + tx // 4) % 8 * 32 + ((tx % 4 * 8 + (i * 8 + v8) % 8) // 16 + ((i * 8 + v8) // 8 * 32 + tx // 4) % 8 // 4) % 2 * 16 + ((tx % 4 * 8 + (i * 8 + v8) % 8) // 8 + tx // 8) % 2 * 8 + (i * 8 + v8) % 8)",
	"by * 64 + (tx % 64 // 32 * 32 + (i * 2 + vec) // 16 * 16 + (i * 2 + vec) % 4 // 2 * 8 + tx % 32 // 4) < 200 and bx * 64 + (tx // 64 * 32 + (i * 2 + vec) % 16 // 4 * 8 + tx % 4 * 2 + (i * 2 + vec) % 2) < 120",
}

func BenchmarkSimplify(b *testing.B) {
	a, vars := testEnv()
	var es []ir.Expr
	for _, s := range benchTexts {
		es = append(es, read(vars, s))
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, e := range es {
			New2(a).Simplify(e)
		}
	}
}

// One scope asked about many expressions, as a pass does.
func BenchmarkSimplifyInOneScope(b *testing.B) {
	a, vars := testEnv()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		var es []ir.Expr
		for range 100 {
			for _, s := range benchTexts {
				es = append(es, read(vars, s))
			}
		}
		b.StartTimer()
		c := New2(a)
		for _, e := range es {
			c.Simplify(e)
		}
	}
}

func BenchmarkCanProve(b *testing.B) {
	a, vars := testEnv()
	constrain(a, vars, "0 <= x; x < n; y < x; 0 < n")
	e := read(vars, "bx * 128 + y < bx * 128 + n")
	if !a.CanProve(e) {
		b.Fatal("not proven")
	}
	b.ReportAllocs()
	for b.Loop() {
		New2(a).CanProve(e)
	}
}

func BenchmarkDetectIterMap(b *testing.B) {
	iters, vars := itersOf("i:128 j:32")
	idx := []ir.Expr{read(vars, "i // 16"), read(vars, "j // 8 * 128 + i % 16 * 8 + j % 8")}
	outs := outputsFor(2)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New().InverseAffine(idx, iters, outs); err != nil {
			b.Fatal(err)
		}
	}
}
