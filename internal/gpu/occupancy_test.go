package gpu

import (
	"strings"
	"testing"
)

// Occupancies that NVIDIA's calculator gives.
func TestOccupancy(t *testing.T) {
	for _, tc := range []struct {
		arch                       string
		threads, registers, shared int
		blocks, warps              int
		limits                     string
	}{
		{"sm_80", 256, 32, 0, 8, 64, "threads,registers"},
		{"sm_80", 256, 33, 0, 6, 48, "registers"},
		{"sm_80", 128, 255, 0, 2, 8, "registers"},
		{"sm_80", 32, 16, 0, 32, 32, "blocks"},
		{"sm_80", 128, 64, 48 << 10, 3, 12, "shared memory"},
		{"sm_80", 128, 64, 163 << 10, 1, 4, "shared memory"},
		{"sm_80", 128, 64, 163<<10 + 1, 0, 0, "shared memory"},
		{"sm_86", 1024, 40, 0, 1, 32, "threads,registers"},
		{"sm_86", 64, 32, 0, 16, 32, "blocks"},
		{"sm_89", 64, 32, 0, 24, 48, "threads,blocks"},
		{"sm_90a", 384, 168, 196608, 1, 12, "registers,shared memory"},
		{"sm_90a", 256, 32, 100000, 2, 16, "shared memory"},
		{"sm_90a", 1024, 65, 0, 0, 0, "registers"},
		{"sm_90a", 128, 256, 0, 0, 0, "registers"},
		{"sm_90a", 0, 0, 0, 0, 0, ""},
	} {
		sm, ok := LookupSM(tc.arch)
		if !ok {
			t.Fatalf("%s is unknown", tc.arch)
		}
		o := sm.Occupancy(tc.threads, tc.registers, tc.shared)
		if o.Blocks != tc.blocks || o.Warps != tc.warps || strings.Join(o.Limits, ",") != tc.limits {
			t.Errorf("%s, %d threads, %d registers, %d bytes: %+v, want %d blocks, %d warps, limits %s", tc.arch, tc.threads, tc.registers, tc.shared, o, tc.blocks, tc.warps, tc.limits)
		}
	}
	if _, ok := LookupSM("sm_70"); ok {
		t.Error("sm_70 is known")
	}
}

func TestTensorRate(t *testing.T) {
	// Published dense peaks: rate * SMs * boost clock.
	for _, tc := range []struct {
		arch, dtype string
		sms         int
		clock       float64 // Hz
		peak        float64
	}{
		{"sm_80", "float16", 108, 1.41e9, 312e12},
		{"sm_80", "tfloat32", 108, 1.41e9, 156e12},
		{"sm_80", "int8", 108, 1.41e9, 624e12},
		{"sm_90a", "bfloat16", 132, 1.83e9, 989.4e12},
		{"sm_90a", "float8_e4m3fn", 132, 1.83e9, 1979e12},
		{"sm_80", "float8_e4m3fn", 108, 1.41e9, 0},
	} {
		sm, _ := LookupSM(tc.arch)
		got := float64(sm.TensorRate(tc.dtype)) * float64(tc.sms) * tc.clock
		if got < tc.peak*0.99 || got > tc.peak*1.01 {
			t.Errorf("%s %s: %.4g, published %.4g", tc.arch, tc.dtype, got, tc.peak)
		}
	}
}
