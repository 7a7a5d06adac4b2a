package tilelang

import (
	"strings"
	"testing"

	"lowertrace/internal/ir"
)

// TestWrong keeps what is said about wrong files.
func TestWrong(t *testing.T) {
	goldens(t, "wrong", ".err", func(t *testing.T, file, text string) string {
		_, diags := Open(ir.NewSource(file, text), optionsIn(t, text))
		if err := diags.Err(); err == nil {
			t.Fatal("no error")
		}
		var b strings.Builder
		for _, d := range diags.All() {
			b.WriteString(d.Text())
		}
		if strings.Contains(b.String(), "internal error") {
			t.Error(b.String())
		}
		return b.String()
	})
}
