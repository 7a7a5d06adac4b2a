//go:build nogpu

package gpu

import (
	"strings"
	"testing"
)

// A binary built without GPU support says so, and how to get one with it.
func TestWithoutGPU(t *testing.T) {
	_, nvrtc := OpenNVRTC(NewFinder())
	_, driver := OpenDriver(NewFinder())
	for what, err := range map[string]error{"NVRTC": nvrtc, "the CUDA driver": driver} {
		want := what + " is not available: this binary was built without GPU support; build lowertrace without -tags nogpu"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("have %v, want %q", err, want)
		}
	}
}
