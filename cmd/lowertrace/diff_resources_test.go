package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"lowertrace/internal/driver"
	"lowertrace/internal/gpu/gputest"
)

// TestDiffResources compares what the code of two runs uses.
func TestDiffResources(t *testing.T) {
	nvrtc := gputest.NVRTC(t)
	dir := t.TempDir()
	lowertrace := func(want int, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		d := driver.OSDeps()
		d.Stdout, d.Stderr = &stdout, &stderr
		if code := run(context.Background(), append(args, "--trace-dir", dir), d); code != want {
			t.Fatalf("%v: exit %d: %s", args, code, stderr.String())
		}
		return stdout.String()
	}
	lowertrace(0, "run", "--mode", "html")
	lowertrace(0, "run", "--mode", "html", "--target", "sm_86")
	out := lowertrace(1, "diff", "--stat", "--resources", "--ptx", "--nvrtc", nvrtc.Path())
	if !strings.Contains(out, "softmax_kernel") || !strings.Contains(out, "registers") {
		t.Errorf("no table of resources:\n%s", out)
	}
	if !strings.Contains(out, "-.target sm_80") || !strings.Contains(out, "+.target sm_86") {
		t.Errorf("the PTX of the two targets is not compared:\n%s", out)
	}
}
