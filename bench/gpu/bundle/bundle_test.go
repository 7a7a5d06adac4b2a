package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/gpu"
	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/launch"
	"lowertrace/internal/npy"
)

// refSpecs is another compiler's specs.json for two kernels of the corpus,
// with every kind of step and parameter.
const refSpecs = `[
 {"kernel": "softmax", "arch": "sm_80", "cubin": "cubin/s.cubin", "notes": "",
  "buffers": {"X": {"shape": [128, 512], "strides": null, "dtype": "float32", "role": "in"}, "Y": {"shape": [128, 512], "strides": null, "dtype": "float32", "role": "out"}},
  "work": {"@w": {"shape": [4], "dtype": "int32"}},
  "steps": [{"op": "l2set", "buffer": "X", "bytes": 4096, "ratio": 0.5},
   {"op": "launch", "kernel": "fill", "grid": [8, 1, 1], "block": [128, 1, 1], "smem": 512, "cluster": null, "coop": true, "pdl": false,
    "params": [{"buffer": "Y"}, {"scalar": 2.5, "dtype": "float32"}]},
   {"op": "l2reset"},
   {"op": "launch", "kernel": "scale", "grid": [1, 1, 1], "block": [64, 1, 1], "smem": 0, "cluster": [2, 1, 1], "coop": false, "pdl": true,
    "params": [{"tma": "tiled", "name": "X_desc", "dtype": 7, "rank": 2, "buffer": "X", "gdim": [512, 128], "gstride_all": [4, 2048], "box": [32, 8], "estride": [1, 1], "tail": [0, 3, 2, 1]},
     {"buffer": "@w"}, {"scalar": true, "dtype": "bool"}]}]}]`

func TestReference(t *testing.T) {
	dir := t.TempDir()
	if err := writeFiles(dir, map[string][]byte{"specs.json": []byte(refSpecs)}); err != nil {
		t.Fatal(err)
	}
	if err := writeFiles(filepath.Join(dir, "cubin"), map[string][]byte{"s.cubin": []byte("\x7fELF")}); err != nil {
		t.Fatal(err)
	}
	specs, err := readReference(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if err := specs["softmax.sm_80"].write(corpus.Lookup("softmax"), dir, out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(out, "launch.json"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := launch.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Args, []string{"X", "Y"}) || s.Buffers["@w"].Role != launch.Workspace || len(s.Launches) != 2 {
		t.Fatalf("%s", b)
	}
	first, second := s.Launches[0], s.Launches[1]
	if !first.Cooperative || len(first.L2) != 1 || first.L2[0].Ratio != 0.5 || first.SMem != launch.Const(512) || len(first.Params) != 2 {
		t.Errorf("first launch is %+v", first)
	}
	if bits, err := first.Params[1].Scalar.Bits("float32", nil, nil); err != nil || bits != 0x40200000 {
		t.Errorf("scalar is %#x, %v", bits, err)
	}
	if second.Cooperative || !second.Programmatic || second.L2 != nil || *second.Cluster != [3]int{2, 1, 1} {
		t.Errorf("second launch is %+v", second)
	}
	if p := second.Params[0]; p.TMA != "X_desc" || p.Mode != "tiled" || p.DataType != 7 || p.Swizzle != 3 || p.L2Promotion != 2 || p.OOBFill != 1 || p.Box[0] != 32 {
		t.Errorf("tensor map is %+v", p)
	}
}

// A bundle of a few kernels, one of them read from TileLang source and one an
// extra one, holds what run.py needs, and run.py agrees.
func TestBundle(t *testing.T) {
	gputest.NVRTC(t)
	out := filepath.Join(t.TempDir(), "b")
	o := options{out: out, arch: "sm_90a", targets: []string{"sm_80", "sm_90a"}, only: regexp.MustCompile(`^(softmax|dynamic_shape_add|assert_if|gemm_mnk_70x130x0_s2)\.`)}
	for range 2 { // the second time over the first
		if err := bundle(o); err != nil {
			t.Fatal(err)
		}
	}
	var list struct{ Cases []bundleCase }
	b, err := os.ReadFile(filepath.Join(out, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Cases) != 8 {
		t.Fatalf("%d cases in %s", len(list.Cases), b)
	}
	for _, c := range list.Cases {
		b, err := os.ReadFile(filepath.Join(out, c.Dir, "launch.json"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := launch.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		cubin, err := os.ReadFile(filepath.Join(out, c.Dir, s.Cubin))
		if err != nil {
			t.Fatal(err)
		}
		info, err := gpu.ReadCubin(cubin)
		if err != nil || info.SM != 90 {
			t.Fatalf("%s: cubin for %+v, %v", c.ID, info, err)
		}
		for _, l := range s.Launches {
			if l.Resources == nil || l.Resources.Regs == 0 {
				t.Errorf("%s: resources of %s are %+v", c.ID, l.Kernel, l.Resources)
			}
			at := slices.IndexFunc(info.Kernels, func(k gpu.Kernel) bool { return k.Name == l.Kernel })
			if at < 0 || len(info.Kernels[at].Params) != len(l.Params) {
				t.Errorf("%s: the cubin has %+v, launch.json %d parameters of %s", c.ID, info.Kernels, len(l.Params), l.Kernel)
			}
		}
	}
	z, err := zip.OpenReader(filepath.Join(out, "data", "softmax.npz"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		a, err := npy.Read(r)
		if err != nil || !slices.Equal(a.Shape, []int{128, 512}) {
			t.Errorf("%s: %v, %v", f.Name, a, err)
		}
	}
	if !slices.Equal(names, []string{"X.in.npy", "Y.out.npy"}) {
		t.Errorf("arrays %v", names)
	}

	if exec.Command("python3", "-c", "import numpy").Run() != nil {
		t.Log("run.py --dry is left out: no python3 with numpy")
		return
	}
	cmd := exec.Command("python3", filepath.Join(out, "run.py"), "--dry")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if msg, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(msg, []byte("8 cases, 0 bad")) {
		t.Errorf("run.py --dry: %v\n%s", err, msg)
	}
}

// Only a bundle is emptied.
func TestClear(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := clear(dir); err == nil {
		t.Error("a folder with other files was emptied")
	}
	if _, err := os.Stat(filepath.Join(dir, "thesis.txt")); err != nil {
		t.Error(err)
	}
}

func TestUnordered(t *testing.T) {
	if got := unordered(corpus.Lookup("atomic_zoo")); !slices.Equal(got, []string{"Slot"}) {
		t.Errorf("atomic_zoo: %v", got)
	}
	if got := unordered(corpus.Lookup("softmax")); got != nil {
		t.Errorf("softmax: %v", got)
	}
}
