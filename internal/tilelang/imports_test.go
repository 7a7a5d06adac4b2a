package tilelang

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
)

// filesOf gives the files of an archive to what imports them.
func filesOf(files []txtar.File) func(string) (string, bool, error) {
	return func(path string) (string, bool, error) {
		for _, f := range files {
			if f.Name == path {
				return string(f.Data), true, nil
			}
		}
		return "", false, nil
	}
}

// TestImports evaluates kernels of several files: kernel.py, those it imports,
// and last want.tir, which TileLang 0.1.15 makes of them, or want.err, which is
// what is said about them.
func TestImports(t *testing.T) {
	archives(t, "imports", func(t *testing.T, path string, ar *txtar.Archive) {
		text, want := string(ar.Files[0].Data), &ar.Files[len(ar.Files)-1]
		o := optionsIn(t, text)
		o.Open = filesOf(ar.Files[1 : len(ar.Files)-1])
		p, diags := Open(ir.NewSource("dir/kernel.py", text), o)
		var b strings.Builder
		for _, d := range diags.All() {
			b.WriteString(d.Text())
		}
		got := b.String()
		if want.Name == "want.tir" {
			if got != "" {
				t.Fatal(got)
			}
			m, err := script.ParseString("want.tir", string(want.Data))
			if err != nil {
				t.Fatal(err)
			}
			if d := ir.Difference(p.Module, m, ir.EqualOptions{}); d != "" {
				t.Errorf("%s\n%s", d, script.Print(p.Module))
			}
			return
		}
		if strings.Contains(got, "internal error") {
			t.Error(got)
		}
		if *update {
			want.Data = []byte(got)
			if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if d := cmp.Diff(string(want.Data), got); d != "" {
			t.Error(d)
		}
	})
}

const importingKernel = `import tilelang.language as T
from %s import N


@T.prim_func
def main(A: T.Tensor((N,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        A[bx] = 1
`

// Without a place to look in nothing is imported, and the message says so.
func TestImportsNowhere(t *testing.T) {
	_, msg := loadWithDiags(t, "kernel.py", fmt.Sprintf(importingKernel, "helpers"), Options{})
	if !strings.Contains(msg, "the value of helpers.N is not known here") {
		t.Error(msg)
	}
}

// Every file is read once, and told in the order of reading.
func TestImportedFiles(t *testing.T) {
	reads := map[string]int{}
	open := filesOf([]txtar.File{
		{Name: "a.py", Data: []byte("from b import N\nimport c, b\n")},
		{Name: "b.py", Data: []byte("import c\nN = c.N\n")},
		{Name: "c.py", Data: []byte("import a\nN = 64\n")},
	})
	p, msg := loadWithDiags(t, "dir/kernel.py", fmt.Sprintf(importingKernel, "a"), Options{Open: func(path string) (string, bool, error) {
		reads[path]++
		return open(path)
	}})
	if msg != "" {
		t.Fatal(msg)
	}
	var names []string
	for _, s := range p.Imports {
		names = append(names, s.Name)
	}
	if d := cmp.Diff([]string{"dir/a.py", "dir/b.py", "dir/c.py"}, names); d != "" {
		t.Error(d)
	}
	for path, n := range reads {
		if n != 1 {
			t.Errorf("%s is read %d times", path, n)
		}
	}
}

// Neither the number of files nor their size is without bound.
func TestImportLimits(t *testing.T) {
	chain := func(path string) (string, bool, error) {
		var n int
		if _, err := fmt.Sscanf(path, "m%d.py", &n); err != nil || strings.Contains(path, "/") {
			return "", false, nil
		}
		return fmt.Sprintf("from m%d import N\n", n+1), true, nil
	}
	_, msg := loadWithDiags(t, "kernel.py", fmt.Sprintf(importingKernel, "m0"), Options{Open: chain})
	if !strings.Contains(msg, fmt.Sprintf("m%d.py:1:1: more than %d files are imported", MaxFiles-1, MaxFiles)) {
		t.Error(msg)
	}
	large := func(path string) (string, bool, error) {
		return strings.Repeat("#", MaxFileBytes+1), path == "m.py", nil
	}
	_, msg = loadWithDiags(t, "kernel.py", fmt.Sprintf(importingKernel, "m"), Options{Open: large})
	if !strings.Contains(msg, fmt.Sprintf("kernel.py:2:1: m.py has more than %d bytes", MaxFileBytes)) {
		t.Error(msg)
	}
	_, msg = loadWithDiags(t, "kernel.py", fmt.Sprintf(importingKernel, "m"), Options{Open: func(string) (string, bool, error) { return "", false, os.ErrPermission }})
	if !strings.Contains(msg, "kernel.py:2:1: m/__init__.py: permission denied") {
		t.Error(msg)
	}
}
