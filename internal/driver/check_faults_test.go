package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
)

// TestCheckNamesTheFaultyPass plants faults in recorded runs of another
// compiler, one at a time: check must name the pass whose result was spoilt.
func TestCheckNamesTheFaultyPass(t *testing.T) {
	if testing.Short() {
		t.Skip("runs whole traces")
	}
	for i := range corpus.Faults {
		f := &corpus.Faults[i]
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			k := corpus.Lookup(f.Kernel)
			dir := t.TempDir()
			run := filepath.Join(dir, f.Kernel, f.Arch)
			unpack(t, corpus.FS(), path.Join(f.Kernel, f.Arch), run)
			data := filepath.Join(dir, "data")
			unpack(t, corpus.Arrays(), path.Join(f.Kernel, "data"), data)

			states, err := filepath.Glob(filepath.Join(run, "[0-9][0-9]_"+f.Pass+".tir"))
			if err != nil || len(states) < f.Nth {
				t.Fatalf("%d states of %s: %v", len(states), f.Pass, err)
			}
			spoilt := states[f.Nth-1]
			text, err := os.ReadFile(spoilt)
			if err != nil {
				t.Fatal(err)
			}
			bad, err := f.Plant(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(spoilt, []byte(bad), 0o644); err != nil {
				t.Fatal(err)
			}

			var stdout, stderr bytes.Buffer
			d := OSDeps()
			d.Stdout, d.Stderr = &stdout, &stderr
			o := CheckOptions{Inputs: data, Expect: data, Tolerance: -1}
			o.JSON = true
			o.Files = []string{run}
			for name, n := range k.Symbolic {
				o.Set = append(o.Set, fmt.Sprintf("%s=%d", name, n))
			}
			err = Check(context.Background(), d, o)
			var doc struct {
				FirstBad string `json:"first_bad"`
				States   []struct {
					Index   int      `json:"index"`
					Verdict string   `json:"verdict"`
					Details []string `json:"details"`
				} `json:"states"`
			}
			if jerr := json.Unmarshal(stdout.Bytes(), &doc); jerr != nil {
				t.Fatalf("%v (%v)\n%s%s", jerr, err, stdout.String(), stderr.String())
			}
			// A label is NAME, or NAME#k.
			name, _, _ := strings.Cut(doc.FirstBad, "#")
			last := doc.States[len(doc.States)-1]
			number := strings.TrimPrefix(filepath.Base(spoilt)[:2], "0")
			if name != f.Pass || fmt.Sprint(last.Index) != number {
				t.Errorf("check names %q (record %d), the fault is in %s\n%v", doc.FirstBad, last.Index, filepath.Base(spoilt), last)
			}
		})
	}
}

func unpack(t *testing.T, from fs.FS, dir, to string) {
	t.Helper()
	part, err := fs.Sub(from, dir)
	if err == nil {
		err = os.CopyFS(to, part)
	}
	if err != nil {
		t.Fatal(err)
	}
}
