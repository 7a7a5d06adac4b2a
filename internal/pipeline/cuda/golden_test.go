package cuda

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

var updateGolden = flag.Bool("update", false, "rewrite golden files with what the code generator gives")

// checkGolden compares a text with a file, or rewrites the file.
func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil && !*updateGolden {
		t.Fatal(err)
	}
	if string(want) == got {
		return
	}
	if *updateGolden {
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s differs; -update accepts it:\n%s", file, cmp.Diff(string(want), got))
}

// TestGoldenKernels pins the whole text of the twelve kernels without matrix
// products, printed from what the reference handed to its code generator.
func TestGoldenKernels(t *testing.T) {
	for _, k := range elementwise {
		t.Run(k, func(t *testing.T) {
			out := generate(t, k, "sm_80", false)
			checkGolden(t, filepath.Join("testdata", "kernels", k+".cu"), out.Source)
		})
	}
}

// TestGolden prints small modules: testdata/codegen/*.txtar hold input.tir and
// the CUDA, or the error. What compiles is compiled, when NVRTC is there.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/codegen/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, err := script.ParseString("input.tir", string(a.Files[0].Data))
			if err != nil {
				t.Fatal(err)
			}
			c := &pipeline.Context{Options: pipeline.Options{
				OptSourceComments: strings.Contains(string(a.Comment), "comments: on"),
				EnableFastMath:    strings.Contains(string(a.Comment), "fast math: on"),
			}}
			b := *a
			b.Files = a.Files[:1:1]
			out, err := Generate(c, m)
			if err != nil {
				b.Files = append(b.Files, txtar.File{Name: "error", Data: []byte(err.Error() + "\n")})
			} else {
				b.Files = append(b.Files, txtar.File{Name: "kernel.cu", Data: []byte(out.Source)})
				if strings.Contains(string(a.Comment), "launch: on") {
					b.Files = append(b.Files, txtar.File{Name: "launch.json", Data: out.Launch})
				}
			}
			checkGolden(t, file, string(txtar.Format(&b)))
			if err == nil {
				t.Run("compiles", func(t *testing.T) { gputest.Compile(t, out.Source, "sm_90a") })
			}
		})
	}
}
