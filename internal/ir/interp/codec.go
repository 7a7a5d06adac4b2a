package interp

import (
	"encoding/binary"
	"math"
	"sync"

	"lowertrace/internal/ir"
	"lowertrace/internal/num"
)

// f16Table has the value of every binary16 pattern. Most runs of the program
// never ask for it.
var f16Table = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = num.F16Value(uint16(i))
	}
	return t
})

var formats = map[ir.TypeCode]*num.Format{
	// NVIDIA's GPUs have one e4m3, without an infinity: TileLang's float8_e4m3 is that.
	ir.Float8E3M4: &num.E3M4, ir.Float8E4M3: &num.E4M3FN, ir.Float8E4M3FN: &num.E4M3FN,
	ir.Float8E4M3FNUZ: &num.E4M3FNUZ, ir.Float8E4M3B11FNUZ: &num.E4M3B11UZ,
	ir.Float8E5M2: &num.E5M2, ir.Float8E5M2FNUZ: &num.E5M2FNUZ, ir.Float8E8M0FNU: &num.E8M0FNU,
	ir.Float6E2M3FN: &num.E2M3FN, ir.Float6E3M2FN: &num.E3M2FN, ir.Float4E2M1FN: &num.E2M1FN,
}

// scalarKind selects a conversion between memory and values.
type scalarKind uint8

const (
	kI8 scalarKind = iota
	kI16
	kI32
	kI64
	kU8
	kU16
	kU32
	kU64
	kBool
	kF16
	kBF16
	kF32
	kF64
	kTF32
	kNarrow // fp8: one byte each
	kSub    // fewer than 8 bits: packed
	kNone
)

func kindOf(t ir.DType) scalarKind {
	switch t.Code {
	case ir.Bool:
		return kBool
	case ir.Handle:
		return kU64
	case ir.Int, ir.UInt:
		if t.Bits < 8 {
			return kSub
		}
		k := kI8
		if t.Code == ir.UInt {
			k = kU8
		}
		switch t.Bits {
		case 16:
			k++
		case 32:
			k += 2
		case 64:
			k += 3
		}
		return k
	case ir.Float:
		switch t.Bits {
		case 16:
			return kF16
		case 32:
			return kF32
		}
		return kF64
	case ir.BFloat:
		return kBF16
	case ir.TFloat32:
		return kTF32
	case ir.Void:
		return kNone
	}
	if t.Bits < 8 {
		return kSub
	}
	return kNarrow
}

// roundFloat rounds x to the values of a float type.
func roundFloat(t ir.DType, x float64) float64 {
	switch kindOf(t) {
	case kF64:
		return x
	case kF32:
		return float64(float32(x))
	case kTF32:
		return float64(num.TF32Round(float32(x)))
	case kF16:
		return float64(f16Table()[encodeF16(x)])
	case kBF16:
		return float64(num.BF16Value(encodeBF16(x)))
	}
	f := formats[t.Code]
	return f.Decode(f.Encode(x, num.Saturate))
}

func encodeF16(x float64) uint16 {
	if f := float32(x); float64(f) == x || x != x {
		return num.F16Bits(f)
	}
	return uint16(num.F16.Encode(x, num.ToInf))
}

func encodeBF16(x float64) uint16 {
	if f := float32(x); float64(f) == x || x != x {
		return num.BF16Bits(f)
	}
	return uint16(num.BF16.Encode(x, num.ToInf))
}

// decodeF reads n consecutive floats of a byte or more.
func decodeF(k scalarKind, f *num.Format, dst []float64, b []byte) {
	switch k {
	case kF32, kTF32:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i*4:])))
		}
	case kF16:
		values := f16Table()
		for i := range dst {
			dst[i] = float64(values[binary.LittleEndian.Uint16(b[i*2:])])
		}
	case kBF16:
		for i := range dst {
			dst[i] = float64(num.BF16Value(binary.LittleEndian.Uint16(b[i*2:])))
		}
	case kF64:
		for i := range dst {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[i*8:]))
		}
	default:
		for i := range dst {
			dst[i] = f.Decode(uint32(b[i]))
		}
	}
}

// encodeF writes n consecutive floats of a byte or more.
func encodeF(k scalarKind, f *num.Format, b []byte, src []float64) {
	switch k {
	case kF32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(b[i*4:], math.Float32bits(float32(x)))
		}
	case kTF32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(b[i*4:], math.Float32bits(num.TF32Round(float32(x))))
		}
	case kF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(b[i*2:], encodeF16(x))
		}
	case kBF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(b[i*2:], encodeBF16(x))
		}
	case kF64:
		for i, x := range src {
			binary.LittleEndian.PutUint64(b[i*8:], math.Float64bits(x))
		}
	default:
		for i, x := range src {
			b[i] = byte(f.Encode(x, num.Saturate))
		}
	}
}

// decodeI reads n consecutive integers of a byte or more.
func decodeI(k scalarKind, dst []int64, b []byte) {
	switch k {
	case kI32:
		for i := range dst {
			dst[i] = int64(int32(binary.LittleEndian.Uint32(b[i*4:])))
		}
	case kU32:
		for i := range dst {
			dst[i] = int64(binary.LittleEndian.Uint32(b[i*4:]))
		}
	case kI8:
		for i := range dst {
			dst[i] = int64(int8(b[i]))
		}
	case kU8:
		for i := range dst {
			dst[i] = int64(b[i])
		}
	case kBool:
		for i := range dst {
			dst[i] = 0
			if b[i] != 0 {
				dst[i] = 1
			}
		}
	case kI16:
		for i := range dst {
			dst[i] = int64(int16(binary.LittleEndian.Uint16(b[i*2:])))
		}
	case kU16:
		for i := range dst {
			dst[i] = int64(binary.LittleEndian.Uint16(b[i*2:]))
		}
	default:
		for i := range dst {
			dst[i] = int64(binary.LittleEndian.Uint64(b[i*8:]))
		}
	}
}

// encodeI writes n consecutive integers of a byte or more.
func encodeI(k scalarKind, b []byte, src []int64) {
	switch k {
	case kI32, kU32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(b[i*4:], uint32(x))
		}
	case kI8, kU8, kBool:
		for i, x := range src {
			b[i] = byte(x)
		}
	case kI16, kU16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(b[i*2:], uint16(x))
		}
	default:
		for i, x := range src {
			binary.LittleEndian.PutUint64(b[i*8:], uint64(x))
		}
	}
}

// subGet reads element i of a packed array of bits-wide cells.
func subGet(b []byte, bits, i int) uint32 {
	var v uint32
	for k := 0; k < bits; k++ {
		p := i*bits + k
		v |= uint32(b[p>>3]>>(p&7)&1) << k
	}
	return v
}

// subPut writes element i of a packed array of bits-wide cells.
func subPut(b []byte, bits, i int, v uint32) {
	for k := 0; k < bits; k++ {
		p := i*bits + k
		b[p>>3] = b[p>>3]&^(1<<(p&7)) | byte(v>>k&1)<<(p&7)
	}
}

// elem converts single elements of one scalar type.
type elem struct {
	t    ir.DType // scalar
	k    scalarKind
	f    *num.Format
	size int // bytes; 0 for packed types
	fl   bool
}

func elemOf(t ir.DType) elem {
	t = t.Scalar()
	e := elem{t: t, k: kindOf(t), f: formats[t.Code], fl: t.IsFloat()}
	if e.k != kSub {
		e.size = t.Bytes()
	}
	return e
}

// offset is the byte offset of element i; a packed type's element must begin
// a byte.
func (e *elem) offset(i int64) int64 {
	if e.k == kSub {
		return i * int64(e.t.Bits) >> 3
	}
	return i * int64(e.size)
}

// span is the bytes that n elements take.
func (e *elem) span(n int) int {
	if e.k == kSub {
		return (n*int(e.t.Bits) + 7) / 8
	}
	return n * e.size
}

func (e *elem) getF(b []byte, i int) float64 {
	if e.k == kSub {
		return e.f.Decode(subGet(b, int(e.t.Bits), i))
	}
	var d [1]float64
	decodeF(e.k, e.f, d[:], b[i*e.size:])
	return d[0]
}

func (e *elem) putF(b []byte, i int, x float64) {
	if e.k == kSub {
		subPut(b, int(e.t.Bits), i, e.f.Encode(x, num.Saturate))
		return
	}
	s := [1]float64{x}
	encodeF(e.k, e.f, b[i*e.size:], s[:])
}

func (e *elem) getI(b []byte, i int) int64 {
	if e.k == kSub {
		return ir.WrapInt(e.t, int64(subGet(b, int(e.t.Bits), i)))
	}
	var d [1]int64
	decodeI(e.k, d[:], b[i*e.size:])
	return d[0]
}

func (e *elem) putI(b []byte, i int, x int64) {
	if e.k == kSub {
		subPut(b, int(e.t.Bits), i, uint32(x))
		return
	}
	s := [1]int64{x}
	encodeI(e.k, b[i*e.size:], s[:])
}
