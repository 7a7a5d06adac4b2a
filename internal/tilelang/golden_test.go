package tilelang

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected parts of golden files")

// archives runs a test on every archive in a directory of testdata.
func archives(t *testing.T, dir string, test func(t *testing.T, path string, ar *txtar.Archive)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no cases", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			test(t, path, ar)
		})
	}
}

// goldens keeps what is got from every case in a directory of testdata: NAME.py,
// whose first line may give settings as in a command line, and NAME with ext,
// what is expected.
func goldens(t *testing.T, dir, ext string, got func(t *testing.T, file, text string) string) {
	t.Helper()
	archives(t, dir, func(t *testing.T, path string, ar *txtar.Archive) {
		for i := 0; i+1 < len(ar.Files); i += 2 {
			f, want := ar.Files[i], &ar.Files[i+1]
			name := strings.TrimSuffix(f.Name, ".py")
			if want.Name != name+ext {
				t.Fatalf("%s: %s is not followed by %s%s", path, f.Name, name, ext)
			}
			t.Run(name, func(t *testing.T) {
				got := got(t, f.Name, string(f.Data))
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
	})
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
