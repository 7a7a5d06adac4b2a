package source_test

import (
	"context"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/judge"
	"lowertrace/internal/corpus/source"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
)

// The modules read from source hide nothing. That they are otherwise what the
// texts say is a test of package tilelang.
func TestModule(t *testing.T) {
	hiding := 0
	for _, k := range corpus.Kernels() {
		for _, arch := range k.Archs {
			if !source.Hides(&k, arch) {
				continue
			}
			hiding++
			m, err := source.Module(&k, arch)
			if err != nil {
				t.Errorf("%s %s: %v", k.Name, arch, err)
				continue
			}
			hidden := 0
			r := ir.Rewriter{PostExpr: func(e ir.Expr) ir.Expr {
				if _, ok := e.(*ir.Hidden); ok {
					hidden++
				}
				return e
			}}
			for _, f := range m.Funcs {
				r.Stmt(f.Body)
			}
			if hidden > 0 {
				t.Errorf("%s %s: %d expressions are hidden", k.Name, arch, hidden)
			}
		}
	}
	if hiding != 9 {
		t.Errorf("%d texts hide something, want 9", hiding)
	}
}

// The extra kernels give the expected arrays before any pass, and the
// comparison sees a wrong element.
func TestExtras(t *testing.T) {
	names := map[string]bool{}
	for _, e := range source.Extras() {
		if names[e.Name] {
			t.Errorf("two cases are called %s", e.Name)
		}
		names[e.Name] = true
		m, err := e.Module()
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		if err := ir.Verify(m); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
		res, err := interp.Run(context.Background(), m, judge.Args(&e.Kernel), interp.Options{Findings: true, Workers: 1})
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		if d := judge.Wrong(&e.Kernel, res); d != "" {
			t.Errorf("%s: %s", e.Name, d)
		}
		for _, f := range res.Findings {
			t.Errorf("%s: %v", e.Name, f)
		}
		for _, a := range res.Outputs {
			for i := range a.Data {
				a.Data[i] ^= 0x3c
			}
		}
		if d := judge.Wrong(&e.Kernel, res); d == "" {
			t.Errorf("%s: wrong outputs are not seen", e.Name)
		}
	}
}
