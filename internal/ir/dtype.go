package ir

import (
	"fmt"
	"strconv"
	"strings"
)

// TypeCode is the kind of a scalar data type.
type TypeCode uint8

// The kinds of scalar. Each narrow float has a kind of its own, because
// formats of equal width differ in range (OCP 8-bit and Microscaling
// floating-point specifications).
const (
	Void TypeCode = iota
	Int
	UInt
	Float
	BFloat
	TFloat32
	Bool
	Handle
	Float8E3M4
	Float8E4M3
	Float8E4M3FN
	Float8E4M3FNUZ
	Float8E4M3B11FNUZ
	Float8E5M2
	Float8E5M2FNUZ
	Float8E8M0FNU
	Float6E2M3FN
	Float6E3M2FN
	Float4E2M1FN
	numTypeCodes
)

// fixedNames maps kinds of one width to their text, without lanes.
var fixedNames = [numTypeCodes]struct {
	name string
	bits uint8
}{
	Void:              {"void", 0},
	Bool:              {"bool", 1},
	Handle:            {"handle", 64},
	BFloat:            {"bfloat16", 16},
	TFloat32:          {"tfloat32", 32},
	Float8E3M4:        {"float8_e3m4", 8},
	Float8E4M3:        {"float8_e4m3", 8},
	Float8E4M3FN:      {"float8_e4m3fn", 8},
	Float8E4M3FNUZ:    {"float8_e4m3fnuz", 8},
	Float8E4M3B11FNUZ: {"float8_e4m3b11fnuz", 8},
	Float8E5M2:        {"float8_e5m2", 8},
	Float8E5M2FNUZ:    {"float8_e5m2fnuz", 8},
	Float8E8M0FNU:     {"float8_e8m0fnu", 8},
	Float6E2M3FN:      {"float6_e2m3fn", 6},
	Float6E3M2FN:      {"float6_e3m2fn", 6},
	Float4E2M1FN:      {"float4_e2m1fn", 4},
}

// DType is a scalar kind, its width in bits, and a number of lanes. The zero
// value is void. DTypes are compared with ==.
type DType struct {
	Code  TypeCode
	Bits  uint8
	Lanes uint16
}

// Common scalar types.
var (
	DVoid     = DType{Void, 0, 0}
	DBool     = DType{Bool, 1, 1}
	DHandle   = DType{Handle, 64, 1}
	DInt8     = DType{Int, 8, 1}
	DInt16    = DType{Int, 16, 1}
	DInt32    = DType{Int, 32, 1}
	DInt64    = DType{Int, 64, 1}
	DUInt8    = DType{UInt, 8, 1}
	DUInt16   = DType{UInt, 16, 1}
	DUInt32   = DType{UInt, 32, 1}
	DUInt64   = DType{UInt, 64, 1}
	DFloat16  = DType{Float, 16, 1}
	DFloat32  = DType{Float, 32, 1}
	DFloat64  = DType{Float, 64, 1}
	DBFloat16 = DType{BFloat, 16, 1}
)

// MaxLanes bounds the lanes of a vector type. 256 lanes of 4 bits are the
// widest access of any GPU the pipelines know (128 bytes); grid constants are
// spelled uint8x128.
const MaxLanes = 1 << 12

// customTF32 is how TVM spells tfloat32 between quotes: it knows the type as
// one that TileLang has registered.
const customTF32 = "custom[tfloat32]"

// ParseDType reads a data type as TVM spells it, for example "float16x4".
func ParseDType(s string) (DType, error) {
	if rest, ok := strings.CutPrefix(s, customTF32); ok {
		s = fixedNames[TFloat32].name + rest
	}
	bad := func() (DType, error) { return DType{}, fmt.Errorf("unknown dtype %q", s) }
	for code, f := range fixedNames {
		if f.name == "" || !strings.HasPrefix(s, f.name) {
			continue
		}
		rest := s[len(f.name):]
		if rest != "" && rest[0] != 'x' {
			continue
		}
		lanes, ok := parseLanes(rest)
		if !ok {
			return bad()
		}
		if TypeCode(code) == Void {
			if rest != "" {
				return bad()
			}
			return DVoid, nil
		}
		return DType{TypeCode(code), f.bits, lanes}, nil
	}
	for _, p := range [...]struct {
		prefix string
		code   TypeCode
	}{{"int", Int}, {"uint", UInt}, {"float", Float}} {
		if !strings.HasPrefix(s, p.prefix) {
			continue
		}
		num, rest := s[len(p.prefix):], ""
		if i := strings.IndexByte(num, 'x'); i >= 0 {
			num, rest = num[:i], num[i:]
		}
		bits, err := strconv.ParseUint(num, 10, 8)
		if err != nil || !validBits(p.code, int(bits)) || num[0] == '0' {
			return bad()
		}
		lanes, ok := parseLanes(rest)
		if !ok {
			return bad()
		}
		return DType{p.code, uint8(bits), lanes}, nil
	}
	return bad()
}

func validBits(c TypeCode, bits int) bool {
	switch bits {
	case 16, 32, 64:
		return true
	case 1, 2, 4, 8:
		return c != Float
	}
	return false
}

func parseLanes(s string) (uint16, bool) {
	if s == "" {
		return 1, true
	}
	n, err := strconv.ParseUint(s[1:], 10, 16)
	if err != nil || n < 2 || n > MaxLanes || s[1] == '0' {
		return 0, false
	}
	return uint16(n), true
}

// Quoted spells the type as TVM does between quotes.
func (t DType) Quoted() string {
	s := t.String()
	if rest, ok := strings.CutPrefix(s, fixedNames[TFloat32].name); ok && t.Code == TFloat32 {
		return customTF32 + rest
	}
	return s
}

// String spells the type as TVM does, as an attribute of T for example.
func (t DType) String() string {
	var s string
	switch t.Code {
	case Int:
		s = "int" + strconv.Itoa(int(t.Bits))
	case UInt:
		s = "uint" + strconv.Itoa(int(t.Bits))
	case Float:
		s = "float" + strconv.Itoa(int(t.Bits))
	default:
		s = fixedNames[t.Code].name
	}
	if t.Lanes > 1 {
		s += "x" + strconv.Itoa(int(t.Lanes))
	}
	return s
}

// Scalar is the type of one lane.
func (t DType) Scalar() DType { return t.WithLanes(1) }

// WithLanes is the type with the given number of lanes.
func (t DType) WithLanes(n int) DType {
	if t.Code == Void {
		return t
	}
	t.Lanes = uint16(n)
	return t
}

// Bytes is the storage size of a value in memory. Types under a byte are
// packed within a vector and rounded up to whole bytes; a bool takes a byte.
func (t DType) Bytes() int {
	bits := int(t.Bits)
	if t.Code == Bool {
		bits = 8
	}
	return (bits*int(t.Lanes) + 7) / 8
}

// IsInt reports a signed integer.
func (t DType) IsInt() bool { return t.Code == Int }

// IsUInt reports an unsigned integer (bool is not one).
func (t DType) IsUInt() bool { return t.Code == UInt }

// IsInteger reports a signed or unsigned integer.
func (t DType) IsInteger() bool { return t.Code == Int || t.Code == UInt }

// IsBool reports a truth value or a vector of them.
func (t DType) IsBool() bool { return t.Code == Bool }

// IsFloat reports any floating-point format, narrow ones included.
func (t DType) IsFloat() bool {
	return t.Code == Float || t.Code == BFloat || t.Code == TFloat32 || t.Code >= Float8E3M4
}

// IsFloat8 reports one of the 8-bit floating-point formats.
func (t DType) IsFloat8() bool { return t.Code >= Float8E3M4 && t.Code <= Float8E8M0FNU }

// IsHandle reports a pointer.
func (t DType) IsHandle() bool { return t.Code == Handle }

// IsVoid reports the type of expressions evaluated for their effect alone.
func (t DType) IsVoid() bool { return t.Code == Void }

// IsScalar reports a single lane.
func (t DType) IsScalar() bool { return t.Lanes == 1 }
