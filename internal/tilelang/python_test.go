package tilelang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// TestPython compares what Python values come to with what CPython 3.11 gives:
// show(x, ...) in a case is a line of reprs.
func TestPython(t *testing.T) {
	archives(t, "python", func(t *testing.T, _ string, ar *txtar.Archive) {
		got := showPython(t, ar.Files[0].Name, string(ar.Files[0].Data))
		if want := string(ar.Files[1].Data); got != want {
			t.Error(cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
		}
	})
}

// showPython evaluates a file of Python and returns what it shows.
func showPython(t *testing.T, name, text string) string {
	t.Helper()
	diags := &diag.List{}
	file := syntax.Parse(ir.NewSource(name, text), diags)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	in := newInterp(file, diags)
	var b strings.Builder
	in.globals.vars["show"] = &builtin{name: "show", fn: func(in *interp, a *args) value {
		for i, v := range a.pos {
			if i > 0 {
				b.WriteString(" | ")
			}
			b.WriteString(in.repr(v))
		}
		b.WriteByte('\n')
		return none
	}}
	for _, s := range file.Body {
		if f := in.try(func() { in.stmt(in.globals, s) }); f != nil {
			t.Error(f.d.Error())
		}
	}
	return b.String()
}
