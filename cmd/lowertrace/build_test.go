package main

import (
	"bytes"
	"context"
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
