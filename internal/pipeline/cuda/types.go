package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
)

// vecKind says how a vector type is built in CUDA C++.
type vecKind uint8

const (
	scalarType  vecKind = iota
	builtinType         // float4, char2, …: lanes are .x .y .z .w
	pairType            // 16-bit floats: 32-bit registers of two lanes each
	arrayType           // a struct around an array v
)

// ctype is a data type as CUDA C++ has it.
type ctype struct {
	name  string
	kind  vecKind
	dtype ir.DType
}

func (t ctype) lanes() int { return int(t.dtype.Lanes) }

// word is the type's name within a function name: "half4" of half4_t.
func (t ctype) word() string {
	return strings.ReplaceAll(strings.TrimSuffix(t.name, "_t"), " ", "_")
}

var intNames = map[ir.DType]string{
	ir.DBool: "bool",
	ir.DInt8: "signed char", ir.DInt16: "short", ir.DInt32: "int", ir.DInt64: "long long",
	ir.DUInt8: "unsigned char", ir.DUInt16: "unsigned short", ir.DUInt32: "unsigned", ir.DUInt64: "unsigned long long",
	ir.DFloat32: "float", ir.DFloat64: "double",
}

// builtinVectors are the stems of CUDA's vector types.
var builtinVectors = map[ir.DType]string{
	ir.DInt8: "char", ir.DInt16: "short", ir.DInt32: "int", ir.DInt64: "longlong",
	ir.DUInt8: "uchar", ir.DUInt16: "ushort", ir.DUInt32: "uint", ir.DUInt64: "ulonglong",
	ir.DFloat32: "float", ir.DFloat64: "double",
}

// narrowFloats are the formats CUDA C++ has no built-in type for, with the
// prelude's name for them.
var narrowFloats = map[ir.TypeCode]string{
	ir.BFloat: "bfloat16", ir.Float8E4M3FN: "fp8_e4m3", ir.Float8E5M2: "fp8_e5m2",
	ir.Float8E4M3:    "fp8_e4m3", // on a GPU of NVIDIA the one that has no infinity
	ir.Float8E8M0FNU: "fp8_e8m0",
}

func isHalf(t ir.DType) bool { return t.Code == ir.Float && t.Bits == 16 }

// is16 reports the 16-bit floats, whose vectors are made of pairs.
func is16(t ir.DType) bool { return isHalf(t) || t.Code == ir.BFloat }

// isNarrow reports formats the prelude defines (not float, double or an integer).
func isNarrow(t ir.DType) bool { return is16(t) || t.IsFloat8() }

// ctypeOf is the CUDA type of a data type; ok is false when it has none.
func ctypeOf(t ir.DType) (ctype, bool) {
	s := t.Scalar()
	if s.Code == ir.TFloat32 {
		return ctypeOf(ir.DFloat32.WithLanes(int(t.Lanes)))
	}
	stem := narrowFloats[s.Code]
	if isHalf(s) {
		stem = "half"
	}
	if t.Lanes == 1 {
		if stem != "" {
			return ctype{stem + "_t", scalarType, t}, true
		}
		n, ok := intNames[s]
		return ctype{n, scalarType, t}, ok
	}
	if t.Lanes == 0 {
		return ctype{"void", scalarType, t}, t.IsVoid()
	}
	n := strconv.Itoa(int(t.Lanes))
	if is16(s) && t.Lanes%2 == 0 {
		if isHalf(s) {
			return ctype{"half" + n + "_t", pairType, t}, true
		}
		return ctype{stem + "x" + n + "_t", pairType, t}, true
	}
	if b, ok := builtinVectors[s]; ok && (t.Lanes == 2 || t.Lanes == 4 && s.Bits < 64) {
		return ctype{b + n, builtinType, t}, true
	}
	if stem != "" {
		return ctype{stem + "x" + n + "_t", arrayType, t}, true
	}
	if _, ok := intNames[s]; ok {
		return ctype{s.String() + "x" + n + "_t", arrayType, t}, true
	}
	return ctype{}, false
}

// copyType is a built-in type that moves the given number of bytes in one
// access, ok false when there is none.
func copyType(bytes int) (string, bool) {
	switch bytes {
	case 1:
		return "unsigned char", true
	case 2:
		return "unsigned short", true
	case 4:
		return "unsigned", true
	case 8:
		return "uint2", true
	case 16:
		return "uint4", true
	}
	return "", false
}

// vecAlign is the alignment of a vector of so many bytes.
func vecAlign(bytes int) int {
	for a := 16; a > 1; a /= 2 {
		if bytes%a == 0 {
			return a
		}
	}
	return 1
}

// lane is the i-th lane of a vector value; v binds as tightly as a name.
func (t ctype) lane(v string, i int) string {
	switch t.kind {
	case builtinType:
		return v + "." + "xyzw"[i:i+1]
	case pairType:
		if t.lanes() > 2 {
			v += fmt.Sprintf(".v[%d]", i/2)
		}
		return [2]string{"lo", "hi"}[i%2] + "(" + v + ")"
	case arrayType:
		return fmt.Sprintf("%s.v[%d]", v, i)
	}
	return v
}

// build is a vector value from its lanes.
func (t ctype) build(lanes []string) string {
	switch t.kind {
	case builtinType:
		return "make_" + t.name + "(" + strings.Join(lanes, ", ") + ")"
	case pairType:
		if len(lanes) == 2 {
			return "pack(" + lanes[0] + ", " + lanes[1] + ")"
		}
		pairs := make([]string, len(lanes)/2)
		for i := range pairs {
			pairs[i] = "pack(" + lanes[2*i] + ", " + lanes[2*i+1] + ")"
		}
		return t.name + "{{" + strings.Join(pairs, ", ") + "}}"
	case arrayType:
		return t.name + "{{" + strings.Join(lanes, ", ") + "}}"
	}
	return lanes[0]
}
