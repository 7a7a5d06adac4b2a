// Package gputest gives tests the optional tools of package gpu: it skips a
// test where a tool is missing, and fails it where the environment variable CI
// is "true", for there the tools are installed.
package gputest

import (
	"os"
	"sync"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/gpu"
)

var open = sync.OnceValues(func() (*gpu.NVRTC, error) {
	f := gpu.NewFinder()
	root, err := corpus.Root()
	if err != nil {
		return nil, err
	}
	f.Caches = append(f.Caches, root)
	return gpu.OpenNVRTC(f)
})

// NVRTC returns the compiler. Without it the test is skipped, with a line that
// says how to get it; with CI=true it fails.
func NVRTC(t testing.TB) *gpu.NVRTC {
	t.Helper()
	n, err := open()
	if err != nil {
		Missing(t, "needs NVRTC (scripts/fetch-nvrtc gets it): "+err.Error())
	}
	return n
}

// Compile compiles src for each architecture and fails the test, with the
// compiler's messages, if it does not compile. Objects come in archs' order.
func Compile(t testing.TB, src string, archs ...string) []*gpu.Object {
	t.Helper()
	n := NVRTC(t)
	var out []*gpu.Object
	for _, arch := range archs {
		obj, err := n.Compile(src, gpu.CompileOptions{Arch: arch})
		if err != nil {
			if ce, ok := err.(*gpu.CompileError); ok {
				t.Fatalf("does not compile for %s:\n%s", arch, ce.Log)
			}
			t.Fatalf("compiling for %s: %v", arch, err)
		}
		out = append(out, obj)
	}
	return out
}

// Missing ends the test for want of a tool: skipped, or failed with CI=true.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}
