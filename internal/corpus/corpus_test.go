package corpus

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"lowertrace/internal/npy"
)

// The two archives are proper file systems.
func TestFS(t *testing.T) {
	if err := fstest.TestFS(Arrays(), "softmax/data/X.in.npy"); err != nil {
		t.Error(err)
	}
	sub, err := fs.Sub(FS(), "softmax") // the whole takes TestFS a minute
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(sub, "io.json", "sm_80/input.tir", "sm_90a/kernel.cu"); err != nil {
		t.Error(err)
	}
	if _, err := ReadFile("softmax/none"); err == nil {
		t.Error("a missing file was read")
	}
}

// Each kernel has what doc.go promises, and arrays that fit its io.json.
func TestKernels(t *testing.T) {
	ks := Kernels()
	if len(ks) != 80 {
		t.Fatalf("%d kernels, want 80", len(ks))
	}
	lowerings := 0
	for _, k := range ks {
		for _, arch := range k.Archs {
			lowerings++
			recs := Passes(k.Name, arch)
			if last := recs[len(recs)-1]; last.Status != "codegen" {
				t.Errorf("%s %s: last record is %+v", k.Name, arch, last)
			}
			changed := 0
			for i, r := range recs {
				if r.Index != i {
					t.Errorf("%s %s: record %d has index %d", k.Name, arch, i, r.Index)
				}
				if r.Changed && r.Status == "completed" {
					changed++
				}
			}
			states := States(k.Name, arch)
			if len(states) != changed {
				t.Errorf("%s %s: %d texts after passes, %d records changed something", k.Name, arch, len(states), changed)
			}
			for _, s := range states {
				if recs[s.Index].Name != s.Pass {
					t.Errorf("%s: record %d is %s", s.Path, s.Index, recs[s.Index].Name)
				}
			}
			for _, f := range []string{"input.tir", "codegen_input.tir", "kernel.cu", "nested.tsv"} {
				if _, err := ReadFile(k.Name + "/" + arch + "/" + f); err != nil {
					t.Error(err)
				}
			}
		}
		Text("src/" + k.Name + ".py")
		for _, p := range k.Params {
			if p.Kind != "buffer" {
				continue
			}
			for _, role := range []string{"in", "out"} {
				if p.Role != role && p.Role != "inout" {
					continue
				}
				name := k.Name + "/data/" + p.Name + "." + role + ".npy"
				b, err := fs.ReadFile(Arrays(), name)
				if err != nil {
					t.Error(err)
					continue
				}
				a, err := npy.Read(bytes.NewReader(b))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if len(a.Shape) != len(p.Shape) {
					t.Errorf("%s: shape %v, io.json has %v", name, a.Shape, p.Shape)
					continue
				}
				for i, d := range p.Shape {
					if int64(a.Shape[i]) != k.Size(d) {
						t.Errorf("%s: shape %v, io.json has %v", name, a.Shape, p.Shape)
					}
				}
			}
		}
	}
	if lowerings != 154 {
		t.Errorf("%d lowerings, want 154", lowerings)
	}
}

func TestTolerance(t *testing.T) {
	k := Lookup("softmax")
	if r, a := k.Tolerance(k.Params[1]); r != 1e-4 || a != 1e-6 {
		t.Errorf("softmax: rtol %g, atol %g", r, a)
	}
	own := 0.5
	if r, _ := k.Tolerance(Param{RTol: &own}); r != 0.5 {
		t.Errorf("a parameter's own rtol gave %g", r)
	}
}

func TestReadArchiveErrors(t *testing.T) {
	for _, in := range []string{"", "no zstd", "\x28\xb5\x2f\xfd"} {
		a, err := readArchive([]byte(in))
		if err == nil && len(a.files) > 0 {
			t.Errorf("%q gave files", in)
		}
	}
}

func BenchmarkOpenTexts(b *testing.B) {
	root, err := Root()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		a, err := openArchive(root + "/testdata/reference/texts.tar.zst")
		if err != nil || !strings.HasPrefix(a.files["softmax/io.json"], "{") {
			b.Fatal(err)
		}
	}
}
