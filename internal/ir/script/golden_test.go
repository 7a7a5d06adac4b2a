package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
)

var update = flag.Bool("update", false, "rewrite the expected parts of golden files")

// TestGolden runs the archives of testdata. In each, NAME.tir is a text and
// NAME.out what comes of it: the diagnostics if there are any, then the
// printed module if there is no error, "same" if it is the text itself.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, f := range ar.Files {
				want[f.Name] = string(f.Data)
			}
			out := &txtar.Archive{Comment: ar.Comment}
			for _, f := range ar.Files {
				name, isText := strings.CutSuffix(f.Name, ".tir")
				if !isText {
					continue
				}
				got := outcome(t, f.Name, string(f.Data))
				out.Files = append(out.Files, f, txtar.File{Name: name + ".out", Data: []byte(got)})
				if !*update && got != want[name+".out"] {
					t.Errorf("%s:\n--- got\n%s--- want\n%s", f.Name, got, want[name+".out"])
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func outcome(t *testing.T, name, text string) string {
	m, diags := Parse(ir.NewSource(name, text), Options{})
	var b strings.Builder
	if err := diags.WriteText(&b, diag.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if m == nil {
		return b.String()
	}
	printed := Print(m)
	again, diags := Parse(ir.NewSource(name, printed), Options{})
	if err := diags.Err(); err != nil {
		t.Fatalf("%s: reading what was printed: %v\n%s", name, err, printed)
	}
	if d := ir.Difference(m, again, ir.EqualOptions{Names: printed == text}); d != "" {
		t.Errorf("%s: the tree differs after a trip: %s\n%s", name, d, printed)
	}
	if p := Print(again); p != printed {
		t.Errorf("%s: printing is no fixed point: %s", name, firstDifference(p, printed))
	}
	if printed == text {
		return b.String() + "same\n"
	}
	return b.String() + printed
}
