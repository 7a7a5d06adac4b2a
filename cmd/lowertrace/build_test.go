package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lowertrace/internal/driver"
	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/launch"
)

// TestBuild builds the embedded kernel and checks what was written.
func TestBuild(t *testing.T) {
	nvrtc := gputest.NVRTC(t)
	dir := filepath.Join(t.TempDir(), "out")
	var stdout, stderr bytes.Buffer
	d := driver.OSDeps()
	d.Stdout, d.Stderr = &stdout, &stderr
	if code := run(context.Background(), []string{"build", "-o", dir, "--nvrtc", nvrtc.Path(), "--arch", "sm_90a"}, d); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	if !strings.Contains(stderr.String(), "softmax_kernel: sm_90a, ") {
		t.Errorf("resources are not told: %s", stderr.String())
	}
	js, err := os.ReadFile(filepath.Join(dir, "launch.json"))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := launch.Parse(js)
	if err != nil {
		t.Fatal(err)
	}
	if spec.Launches[0].Resources == nil || spec.Launches[0].Resources.Regs == 0 {
		t.Error("launch.json has no resources")
	}
	for _, name := range []string{spec.Source, spec.Cubin, "launcher.py"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBuildFastMath compiles with the option that the code was generated for.
func TestBuildFastMath(t *testing.T) {
	nvrtc := gputest.NVRTC(t)
	for _, on := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "out")
		var stdout, stderr bytes.Buffer
		d := driver.OSDeps()
		d.Stdout, d.Stderr = &stdout, &stderr
		args := []string{"build", "-o", dir, "--nvrtc", nvrtc.Path(), "--pass-config", fmt.Sprintf("tl.enable_fast_math=%v", on)}
		if code := run(context.Background(), args, d); code != 0 {
			t.Fatalf("exit %d: %s", code, stderr.String())
		}
		ptx, err := os.ReadFile(filepath.Join(dir, "kernel.ptx"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(ptx), "div.approx"); got != on {
			t.Errorf("fast math %v: approximate division %v", on, got)
		}
	}
}

// TestBuildSeveral builds a module of two functions: a folder for each, with
// its own kernel and launch.
func TestBuildSeveral(t *testing.T) {
	nvrtc := gputest.NVRTC(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "two.tir")
	text := "from tvm.script import ir as I, tirx as T\n\n@I.ir_module\nclass Module:\n"
	for i, name := range []string{"first", "second"} {
		text += fmt.Sprintf("    @T.prim_func\n    def %s(a: T.handle):\n        A = T.match_buffer(a, (%d,))\n"+
			"        for bx in T.thread_binding(%d, thread=\"blockIdx.x\"):\n            A[bx] = A[bx] + T.float32(1.0)\n", name, i+4, i+4)
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	d := driver.OSDeps()
	d.Stdout, d.Stderr = &stdout, &stderr
	if code := run(context.Background(), []string{"build", file, "-o", filepath.Join(dir, "out"), "--nvrtc", nvrtc.Path()}, d); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	for i, name := range []string{"first", "second"} {
		js, err := os.ReadFile(filepath.Join(dir, "out", name, "launch.json"))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := launch.Parse(js)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Name != name || len(spec.Launches) != 1 || spec.Launches[0].Kernel != name+"_kernel" {
			t.Errorf("%s: launch.json is of %s with %d launches", name, spec.Name, len(spec.Launches))
		} else if n, ok := spec.Launches[0].Grid[0].Const(); !ok || n != int64(i+4) {
			t.Errorf("%s: grid %v, want %d", name, spec.Launches[0].Grid, i+4)
		}
	}
	if !strings.Contains(stdout.String(), filepath.Join("out", "second", "kernel.cubin")) {
		t.Errorf("files are not listed: %s", stdout.String())
	}
}

// TestRunStats tells what the kernels use in the summary of a run.
func TestRunStats(t *testing.T) {
	nvrtc := gputest.NVRTC(t)
	t.Setenv("LOWERTRACE_NVRTC", nvrtc.Path())
	var stdout, stderr bytes.Buffer
	d := driver.OSDeps()
	d.Stdout, d.Stderr, d.StdoutTTY, d.Width = &stdout, &stderr, false, 0
	if code := run(context.Background(), []string{"run", "--stats", "--trace-dir", t.TempDir()}, d); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	if !strings.Contains(stdout.String(), "softmax_kernel: sm_80, ") || !strings.Contains(stdout.String(), " blocks per SM (") {
		t.Errorf("resources are not told:\n%s%s", stdout.String()[max(0, stdout.Len()-800):], stderr.String())
	}
}
