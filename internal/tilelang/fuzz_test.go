package tilelang

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
)

// maxFuzzText bounds the files the fuzzer tries.
const maxFuzzText = 16 << 10

// FuzzOpen checks that no file makes the evaluator panic, that every file ends
// with a module or with an error, never with both or neither, and that a module
// can be printed.
func FuzzOpen(f *testing.F) {
	for _, k := range corpus.Kernels() {
		f.Add(corpus.Text("src/" + k.Name + ".py"))
	}
	paths, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(paths) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, p := range paths {
		ar, err := txtar.ParseFile(p)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range ar.Files {
			// The cases that run into a bound on purpose are slow.
			if text := string(s.Data); strings.HasSuffix(s.Name, ".py") && len(text) <= maxFuzzText && filepath.Base(p) != "python.txtar" {
				f.Add(text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxFuzzText {
			return
		}
		first, _, _ := strings.Cut(text, "\n")
		var o Options
		if strings.HasPrefix(first, "# --set ") {
			for _, s := range strings.Fields(first)[2:] {
				name, v, _ := strings.Cut(s, "=")
				o.Set = append(o.Set, Setting{Name: name, Value: v})
			}
		}
		prog, diags := Open(ir.NewSource("fuzz.py", text), o)
		for _, d := range diags.All() {
			if strings.Contains(d.Message, "internal error") {
				t.Fatal(d.Text())
			}
			_ = d.Text()
		}
		if prog == nil || prog.Module == nil {
			if !diags.HasErrors() {
				t.Fatal("neither a module nor an error")
			}
			return
		}
		if diags.HasErrors() {
			t.Fatal("a module and an error: " + diags.Err().Error())
		}
		_ = script.Print(prog.Module)
	})
}

// BenchmarkOpen evaluates every reference source.
func BenchmarkOpen(b *testing.B) {
	var texts []string
	size := 0
	for _, k := range corpus.Kernels() {
		texts = append(texts, corpus.Text("src/"+k.Name+".py"))
		size += len(texts[len(texts)-1])
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range texts {
			if prog, diags := Open(ir.NewSource("kernel.py", s), Options{}); diags.HasErrors() || prog.Module == nil {
				b.Fatal(diags.Err())
			}
		}
	}
}
