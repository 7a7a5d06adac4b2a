package tilelang

import (
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
)

// TestVocabulary compares kernels that use all of the language with what
// TileLang 0.1.15 makes of the same source.
func TestVocabulary(t *testing.T) {
	archives(t, "vocabulary", func(t *testing.T, _ string, ar *txtar.Archive) {
		src, want := string(ar.Files[0].Data), string(ar.Files[1].Data)
		p, msg := loadWithDiags(t, "kernel.py", src, optionsIn(t, src))
		if msg != "" {
			t.Fatal(msg)
		}
		m, err := script.ParseString("want.tir", want)
		if err != nil {
			t.Fatal(err)
		}
		if d := ir.Difference(hideLike(p.Module, m), m, ir.EqualOptions{}); d != "" {
			t.Errorf("%s\n%s", d, script.Print(p.Module))
		}
	})
}
