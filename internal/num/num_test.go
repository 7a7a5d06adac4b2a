package num

import (
	"math"
	"math/rand"
	"testing"
)

var formats = []*Format{&F16, &BF16, &E3M4, &E4M3, &E4M3FN, &E4M3FNUZ, &E4M3B11UZ, &E5M2, &E5M2FNUZ, &E8M0FNU, &E2M3FN, &E3M2FN, &E2M1FN}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// TestRoundTrip: every pattern decodes to a value that encodes back to it.
func TestRoundTrip(t *testing.T) {
	for _, f := range formats {
		for b := uint32(0); b < 1<<f.Bits(); b++ {
			v := f.Decode(b)
			got := f.Encode(v, ToInf)
			if math.IsNaN(v) {
				if !math.IsNaN(f.Decode(got)) {
					t.Errorf("%s: NaN %#x encodes as %#x", f.Name, b, got)
				}
				continue
			}
			if got != b && !(v == 0 && f.NegZeroIsNaN) {
				t.Errorf("%s: %#x is %v, which encodes as %#x", f.Name, b, v, got)
			}
		}
	}
}

// TestNearest compares Encode with a search over all values of a format: the
// nearest wins, and of two the one with the even pattern.
func TestNearest(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	for _, f := range formats {
		if f.Bits() > 8 {
			continue
		}
		for range 4000 {
			x := math.Ldexp(rng.Float64()+0.5, rng.Intn(40)-20)
			if f == &E8M0FNU {
				x = math.Ldexp(rng.Float64()+0.5, rng.Intn(200)-100)
			}
			if rng.Intn(4) == 0 { // a tie between two neighbours
				b := uint32(rng.Intn(1 << (f.ExpBits + f.ManBits)))
				if y, z := f.Decode(b), f.Decode(b+1); !math.IsNaN(y) && !math.IsNaN(z) && !math.IsInf(y, 0) && !math.IsInf(z, 0) && z > y {
					x = y + (z-y)/2
				}
			}
			if x > f.Max() || f != &E8M0FNU && x <= 0 {
				continue
			}
			best, bestD := uint32(0), math.Inf(1)
			for b := uint32(0); b < 1<<(f.ExpBits+f.ManBits); b++ {
				v := f.Decode(b)
				if math.IsNaN(v) || math.IsInf(v, 0) {
					continue
				}
				if d := math.Abs(v - x); d < bestD || d == bestD && b&1 == 0 {
					best, bestD = b, d
				}
			}
			if got := f.Encode(x, Saturate); got != best {
				t.Fatalf("%s: %v encodes as %#x (%v), nearest is %#x (%v)", f.Name, x, got, f.Decode(got), best, f.Decode(best))
			}
		}
	}
}

func TestOverflow(t *testing.T) {
	for _, tc := range []struct {
		f        *Format
		x        float64
		inf, sat float64
	}{
		{&F16, 65520, math.Inf(1), 65504},
		{&F16, 65519, 65504, 65504},
		{&F16, -1e9, math.Inf(-1), -65504},
		{&E4M3FN, 464, 448, 448},
		{&E4M3FN, 465, math.NaN(), 448},
		{&E4M3FN, math.Inf(-1), math.NaN(), -448},
		{&E5M2, 61440, math.Inf(1), 57344},
		{&E4M3FNUZ, 1000, math.NaN(), 240},
		{&E2M1FN, 100, 6, 6},
	} {
		if got := tc.f.Decode(tc.f.Encode(tc.x, ToInf)); !same(got, tc.inf) {
			t.Errorf("%s: %v becomes %v, want %v", tc.f.Name, tc.x, got, tc.inf)
		}
		if got := tc.f.Decode(tc.f.Encode(tc.x, Saturate)); !same(got, tc.sat) {
			t.Errorf("%s: %v saturates to %v, want %v", tc.f.Name, tc.x, got, tc.sat)
		}
	}
}

// TestFast: the direct conversions agree with the general ones.
func TestFast(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	check := func(x float32) {
		if got, want := F16Bits(x), uint16(F16.Encode(float64(x), ToInf)); got != want {
			t.Fatalf("F16Bits(%v) = %#x, want %#x", x, got, want)
		}
		if got, want := BF16Bits(x), uint16(BF16.Encode(float64(x), ToInf)); got != want {
			t.Fatalf("BF16Bits(%v) = %#x, want %#x", x, got, want)
		}
	}
	for range 400000 {
		x := math.Float32frombits(rng.Uint32())
		if !math.IsNaN(float64(x)) {
			check(x)
		}
		check(float32(math.Ldexp(rng.Float64(), rng.Intn(50)-30)))
	}
	for b := range 1 << 16 {
		if got, want := F16Value(uint16(b)), F16.Decode(uint32(b)); !same(float64(got), want) {
			t.Fatalf("F16Value(%#x) = %v, want %v", b, got, want)
		}
		if got, want := BF16Value(uint16(b)), BF16.Decode(uint32(b)); !same(float64(got), want) {
			t.Fatalf("BF16Value(%#x) = %v, want %v", b, got, want)
		}
	}
	if got := TF32Round(1 + 1.0/2048); got != 1+1.0/1024 {
		t.Errorf("a tie in tf32 rounds to %v, want away from zero", got)
	}
}
