package tilelang

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/ir"
)

var update = flag.Bool("update", false, "rewrite the expected parts of golden files")

// TestWrong keeps what is said about wrong files: every case is NAME.py, whose
// first line may give settings as in a command line, and NAME.err.
func TestWrong(t *testing.T) {
	files, err := filepath.Glob("testdata/wrong/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, path := range files {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(ar.Files); i += 2 {
			f, want := ar.Files[i], &ar.Files[i+1]
			name := strings.TrimSuffix(f.Name, ".py")
			if want.Name != name+".err" {
				t.Fatalf("%s: %s is not followed by its expected errors", path, f.Name)
			}
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar")+"/"+name, func(t *testing.T) {
				_, diags := Open(ir.NewSource(f.Name, string(f.Data)), optionsIn(t, string(f.Data)))
				var b strings.Builder
				if err := diags.Err(); err == nil {
					t.Fatal("no error")
				}
				for _, d := range diags.All() {
					b.WriteString(d.Text())
				}
				got := b.String()
				if strings.Contains(got, "internal error") {
					t.Error(got)
				}
				if *update {
					want.Data = []byte(got)
				} else if got != string(want.Data) {
					t.Error(cmp.Diff(string(want.Data), got))
				}
			})
		}
		if *update {
			if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// optionsIn reads "# --func F --set A=1 B=2" in the first line of a file.
func optionsIn(t *testing.T, text string) (o Options) {
	line, _, _ := strings.Cut(text, "\n")
	line, ok := strings.CutPrefix(line, "# --")
	if !ok {
		return o
	}
	mode := ""
	for _, w := range strings.Fields("--" + line) {
		name, value, isSetting := strings.Cut(w, "=")
		switch {
		case strings.HasPrefix(w, "--"):
			mode = w
		case mode == "--target":
			o.Arch = w
		case mode == "--func":
			o.Func = w
		case mode == "--set" && isSetting:
			o.Set = append(o.Set, Setting{Name: name, Value: value})
		default:
			t.Fatalf("first line: %s", w)
		}
	}
	return o
}
