// Package num converts between float64 and the narrow floating-point formats
// of GPUs, bit for bit.
//
// Formats: IEEE 754 binary16; bfloat16; tf32 (PTX ISA, "Alternate
// floating-point data formats"); the OCP 8-bit formats E4M3 and E5M2 and
// their variants; the OCP Microscaling formats E2M1, E2M3, E3M2 and E8M0.
package num

import "math"

// Format describes a binary floating-point format of at most 32 bits.
type Format struct {
	Name    string
	ExpBits int
	ManBits int
	Bias    int
	Signed  bool
	// Inf: the all-ones exponent means infinity and NaN, as in IEEE 754.
	Inf bool
	// NaN is the bit pattern of the (positive) NaN of formats without Inf, or
	// -1 when the format has none.
	NaN int
	// NegZeroIsNaN marks the "uz" formats, whose only NaN is the pattern of
	// -0.
	NegZeroIsNaN bool
}

// The formats.
var (
	F16       = Format{"float16", 5, 10, 15, true, true, 0, false}
	BF16      = Format{"bfloat16", 8, 7, 127, true, true, 0, false}
	TF32      = Format{"tfloat32", 8, 10, 127, true, true, 0, false}
	E3M4      = Format{"float8_e3m4", 3, 4, 3, true, true, 0, false}
	E4M3      = Format{"float8_e4m3", 4, 3, 7, true, true, 0, false}
	E4M3FN    = Format{"float8_e4m3fn", 4, 3, 7, true, false, 0x7f, false}
	E4M3FNUZ  = Format{"float8_e4m3fnuz", 4, 3, 8, true, false, -1, true}
	E4M3B11UZ = Format{"float8_e4m3b11fnuz", 4, 3, 11, true, false, -1, true}
	E5M2      = Format{"float8_e5m2", 5, 2, 15, true, true, 0, false}
	E5M2FNUZ  = Format{"float8_e5m2fnuz", 5, 2, 16, true, false, -1, true}
	E8M0FNU   = Format{"float8_e8m0fnu", 8, 0, 127, false, false, 0xff, false}
	E2M3FN    = Format{"float6_e2m3fn", 2, 3, 1, true, false, -1, false}
	E3M2FN    = Format{"float6_e3m2fn", 3, 2, 3, true, false, -1, false}
	E2M1FN    = Format{"float4_e2m1fn", 2, 1, 1, true, false, -1, false}
)

// Bits is the width of the format.
func (f *Format) Bits() int {
	n := f.ExpBits + f.ManBits
	if f.Signed {
		n++
	}
	return n
}

func (f *Format) signBit() uint32 {
	if !f.Signed {
		return 0
	}
	return 1 << (f.ExpBits + f.ManBits)
}

// maxFinite is the pattern of the largest finite value.
func (f *Format) maxFinite() uint32 {
	all := uint32(1)<<(f.ExpBits+f.ManBits) - 1
	switch {
	case f.Inf:
		return all - 1<<f.ManBits // exponent below all ones, full mantissa
	case f.NaN == int(all):
		return all - 1
	}
	return all
}

// Max is the largest finite value.
func (f *Format) Max() float64 { return f.Decode(f.maxFinite()) }

// Decode is the value of a bit pattern. Bits above the format's width are
// ignored.
func (f *Format) Decode(b uint32) float64 {
	sign := 1.0
	mag := b &^ f.signBit() & (f.signBit()<<1 - 1)
	if !f.Signed {
		mag = b & (1<<(f.ExpBits+f.ManBits) - 1)
	}
	if b&f.signBit() != 0 {
		if f.NegZeroIsNaN && mag == 0 {
			return math.NaN()
		}
		sign = -1
	}
	if f.NaN >= 0 && !f.Inf && mag == uint32(f.NaN) {
		return math.NaN()
	}
	exp := int(mag >> f.ManBits)
	man := mag & (1<<f.ManBits - 1)
	if f.Inf && exp == 1<<f.ExpBits-1 {
		if man != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	if f.ManBits == 0 { // E8M0: powers of two alone, no zero
		return math.Ldexp(1, exp-f.Bias)
	}
	if exp == 0 {
		return sign * math.Ldexp(float64(man), 1-f.Bias-f.ManBits)
	}
	return sign * math.Ldexp(float64(man|1<<f.ManBits), exp-f.Bias-f.ManBits)
}

// Overflow says what becomes of a value above the largest finite one.
type Overflow uint8

// The overflow behaviours.
const (
	// ToInf rounds to infinity as IEEE 754 does (NaN where there is none).
	ToInf Overflow = iota
	// Saturate gives the largest finite value (cvt with .satfinite).
	Saturate
)

// Encode rounds a value to the nearest one of the format, ties to even.
func (f *Format) Encode(x float64, o Overflow) uint32 {
	if math.IsNaN(x) {
		return f.nan()
	}
	var sign uint32
	if math.Signbit(x) {
		if !f.Signed {
			return f.nan()
		}
		sign, x = f.signBit(), -x
	}
	if math.IsInf(x, 1) {
		return sign | f.overflow(sign, o)
	}
	if x == 0 {
		if f.NegZeroIsNaN {
			return 0
		}
		return sign
	}
	frac, e := math.Frexp(x) // x = frac * 2^e, frac in [0.5, 1)
	exp := e - 1 + f.Bias    // biased exponent of 1.xxx
	if f.ManBits == 0 {
		return f.encodePower(x)
	}
	shift := f.ManBits + 1
	if exp <= 0 { // subnormal: the unit is 2^(1-bias-man)
		shift += exp - 1
		exp = 0
	}
	m := math.RoundToEven(math.Ldexp(frac, shift))
	man := uint32(m)
	var mag uint32
	if exp == 0 {
		mag = man // a carry into bit ManBits makes it normal by itself
	} else {
		if man == 1<<(f.ManBits+1) {
			man >>= 1
			exp++
		}
		if exp >= 1<<f.ExpBits {
			return sign | f.overflow(sign, o)
		}
		mag = uint32(exp)<<f.ManBits | man&(1<<f.ManBits-1)
	}
	if mag > f.maxFinite() {
		return sign | f.overflow(sign, o)
	}
	if mag == 0 && f.NegZeroIsNaN {
		return 0
	}
	return sign | mag
}

func (f *Format) encodePower(x float64) uint32 {
	frac, e := math.Frexp(x)
	exp := e - 1
	if frac > 0.75 || frac == 0.75 && (exp+f.Bias)&1 != 0 { // nearest power, ties to the even pattern
		exp++
	}
	return uint32(min(max(exp+f.Bias, 0), int(f.maxFinite())))
}

func (f *Format) overflow(sign uint32, o Overflow) uint32 {
	switch {
	case o == Saturate:
		return f.maxFinite()
	case f.Inf:
		return (1<<f.ExpBits - 1) << f.ManBits
	case f.NaN >= 0 || f.NegZeroIsNaN:
		return f.nan() &^ sign
	}
	return f.maxFinite()
}

// nan is the pattern the device gives for a NaN; formats without one
// saturate.
func (f *Format) nan() uint32 {
	switch {
	case f.NegZeroIsNaN:
		return f.signBit()
	case f.Inf:
		return (1<<f.ExpBits-1)<<f.ManBits | (1<<f.ManBits - 1)
	case f.NaN >= 0:
		return uint32(f.NaN)
	}
	return f.maxFinite()
}

// F16Bits rounds a float32 to binary16.
func F16Bits(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return 0x7fff // the canonical NaN of cvt
	case b >= 0x477ff000: // rounds to 2^16 or more
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: subnormal
		if b < 0x33000000 {
			return sign
		}
		exp := b >> 23
		man := b&0x7fffff | 0x800000
		shift := 126 - exp // to units of 2^-24
		half := uint32(1) << (shift - 1)
		r := man >> shift
		if rem := man & (1<<shift - 1); rem > half || rem == half && r&1 != 0 {
			r++
		}
		return sign | uint16(r)
	}
	b += 0xfff + b>>13&1 // round to nearest, ties to even
	return sign | uint16((b-0x38000000)>>13)
}

// F16Value is the value of a binary16 pattern.
func F16Value(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, man := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch {
	case exp == 0x1f:
		if man != 0 {
			return math.Float32frombits(sign | 0x7fc00000 | man<<13)
		}
		return math.Float32frombits(sign | 0x7f800000)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
	}
	v := float32(man) * (1.0 / (1 << 24))
	if sign != 0 {
		v = -v
	}
	return v
}

// BF16Bits rounds a float32 to bfloat16.
func BF16Bits(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return 0x7fff
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// BF16Value is the value of a bfloat16 pattern.
func BF16Value(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// TF32Round rounds a float32 to the 10 mantissa bits of tf32, ties away from
// zero (cvt.rna.tf32.f32).
func TF32Round(x float32) float32 {
	b := math.Float32bits(x)
	if b&0x7f800000 == 0x7f800000 {
		return x
	}
	return math.Float32frombits((b + 0x1000) &^ 0x1fff)
}

// TF32Truncate drops the mantissa bits that mma ignores in its tf32 operands.
func TF32Truncate(x float32) float32 {
	return math.Float32frombits(math.Float32bits(x) &^ 0x1fff)
}
