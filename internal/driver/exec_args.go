package driver

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"lowertrace/internal/ir/interp"
	"lowertrace/internal/launch"
	"lowertrace/internal/npy"
	"lowertrace/internal/num"
)

// readSettings reads NAME=VALUE settings of sizes and scalars: numbers, True
// and False.
func readSettings(flag string, list []string) (map[string]float64, error) {
	out := map[string]float64{}
	for _, kv := range list {
		name, text, ok := strings.Cut(kv, "=")
		name, text = strings.TrimSpace(name), strings.TrimSpace(text)
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case !ok || name == "":
			return nil, Usagef("%s %s: expected NAME=VALUE", flag, kv)
		case text == "True":
			v = 1
		case text == "False":
			v = 0
		case err != nil:
			if n, ierr := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64); ierr == nil {
				v = float64(n)
				break
			}
			return nil, Usagef("%s %s: %q is no number", flag, kv, text)
		}
		out[name] = v
	}
	return out, nil
}

// deviceArgs are the arguments of a run as a GPU takes them.
type deviceArgs struct {
	env     launch.Env
	scalars map[string]uint64 // bits
	buffers map[string][]byte // contents before the run, by name; workspaces are zeros
}

// encodeArgs lays arguments out for the GPU as the launch description says.
func encodeArgs(spec *launch.Spec, a interp.Args) (*deviceArgs, error) {
	extents := map[string]launch.Extent{}
	scalars := map[string]int64{}
	out := &deviceArgs{scalars: map[string]uint64{}, buffers: map[string][]byte{}}
	for _, name := range spec.Args {
		if sc, ok := spec.Scalars[name]; ok {
			v, ok := a.Scalars[name]
			if !ok {
				return nil, fmt.Errorf("scalar %s has no value: give it with --set %s=VALUE", name, name)
			}
			if launch.IsInteger(sc.DType) {
				scalars[name] = int64(v)
				bits, err := launch.IntBits(int64(v), sc.DType)
				if err != nil {
					return nil, fmt.Errorf("scalar %s: %w", name, err)
				}
				out.scalars[name] = bits
				continue
			}
			bits, err := launch.FloatBits(v, sc.DType)
			if err != nil {
				return nil, fmt.Errorf("scalar %s: %w", name, err)
			}
			out.scalars[name] = bits
			continue
		}
		arr := a.Arrays[name]
		if arr == nil {
			return nil, fmt.Errorf("buffer %s has no contents", name)
		}
		e := launch.Extent{Shape: make([]int64, len(arr.Shape)), Strides: a.Strides[name]}
		for i, n := range arr.Shape {
			e.Shape[i] = int64(n)
		}
		extents[name] = e
	}
	env, err := spec.Bind(extents, scalars)
	if err != nil {
		return nil, err
	}
	out.env = env
	for name, b := range spec.Buffers {
		n, err := b.Bytes(env)
		if err != nil {
			return nil, fmt.Errorf("buffer %s: %w", name, err)
		}
		raw := make([]byte, n)
		if arr := a.Arrays[name]; arr != nil && b.Index != nil {
			if err := eachElement(b.DType, arr, a.Strides[name], raw, true); err != nil {
				return nil, fmt.Errorf("buffer %s: %w", name, err)
			}
		}
		out.buffers[name] = raw
	}
	return out, nil
}

// decodeArray is the inverse of encodeArgs for one buffer: an array like like.
func decodeArray(dtype string, raw []byte, like *npy.Array, strides []int64) (*npy.Array, error) {
	a, err := npy.New(like.DType, like.Shape...)
	if err != nil {
		return nil, err
	}
	return a, eachElement(dtype, a, strides, raw, false)
}

// eachElement copies between an array and its bytes on the device, where
// elements have the IR's type and may lie apart.
func eachElement(dtype string, a *npy.Array, strides []int64, raw []byte, toDevice bool) error {
	bits := launch.Bits(dtype)
	if strides == nil && bits == 8*a.DType.Size() {
		if len(raw) != len(a.Data) {
			return fmt.Errorf("%d bytes of %s, want %d", len(a.Data), a.DType, len(raw))
		}
		if toDevice {
			copy(raw, a.Data)
		} else {
			copy(a.Data, raw)
		}
		return nil
	}
	toBits, fromBits, err := converter(dtype, a.DType)
	if err != nil {
		return err
	}
	index := make([]int, len(a.Shape))
	for i := range a.Len() {
		at := int64(i)
		if strides != nil {
			at = 0
			for d, k := range index {
				at += int64(k) * strides[d]
			}
			for d := len(index) - 1; d >= 0; d-- {
				if index[d]++; index[d] < a.Shape[d] {
					break
				}
				index[d] = 0
			}
		}
		if toDevice {
			putBits(raw, at, bits, toBits(a.Uint(i)))
		} else {
			a.SetUint(i, fromBits(getBits(raw, at, bits)))
		}
	}
	return nil
}

// narrowFormats are the floating-point types that arrays hold as float32, as
// the GPU has them: its one e4m3 has no infinity, whatever the IR calls it.
var narrowFormats = func() map[string]*num.Format {
	m := map[string]*num.Format{}
	for _, f := range []*num.Format{&num.E3M4, &num.E4M3FN, &num.E4M3FNUZ, &num.E4M3B11UZ, &num.E5M2, &num.E5M2FNUZ, &num.E8M0FNU, &num.E2M1FN} {
		m[f.Name] = f
	}
	m[num.E4M3.Name] = &num.E4M3FN
	return m
}()

// converter translates between the bits of an array's element and those of an
// element on the device.
func converter(dtype string, arr npy.DType) (toDevice, toArray func(uint64) uint64, err error) {
	bits := launch.Bits(dtype)
	same := func(v uint64) uint64 { return v }
	switch f := narrowFormats[dtype]; {
	case arr == "f4" && dtype == "bfloat16":
		return func(v uint64) uint64 { return uint64(num.BF16Bits(math.Float32frombits(uint32(v)))) },
			func(v uint64) uint64 { return uint64(math.Float32bits(num.BF16Value(uint16(v)))) }, nil
	case arr == "f4" && f != nil:
		return func(v uint64) uint64 { return uint64(f.Encode(float64(math.Float32frombits(uint32(v))), 1)) },
			func(v uint64) uint64 { return uint64(math.Float32bits(float32(f.Decode(uint32(v))))) }, nil
	case bits == 8*arr.Size():
		return same, same, nil
	case bits == 4 && arr == "u1":
		return same, same, nil
	case bits == 4 && arr == "i1":
		return same, func(v uint64) uint64 { return uint64(int64(v<<60) >> 60) }, nil
	}
	return nil, nil, fmt.Errorf("an array of %s cannot hold %s", arr, dtype)
}

func putBits(raw []byte, at int64, bits int, v uint64) {
	switch bits {
	case 4:
		shift := uint(at&1) * 4
		raw[at/2] = raw[at/2]&^(15<<shift) | byte(v&15)<<shift
	case 8:
		raw[at] = byte(v)
	case 16:
		binary.LittleEndian.PutUint16(raw[2*at:], uint16(v))
	case 32:
		binary.LittleEndian.PutUint32(raw[4*at:], uint32(v))
	case 64:
		binary.LittleEndian.PutUint64(raw[8*at:], v)
	}
}

func getBits(raw []byte, at int64, bits int) uint64 {
	switch bits {
	case 4:
		return uint64(raw[at/2]>>(uint(at&1)*4)) & 15
	case 8:
		return uint64(raw[at])
	case 16:
		return uint64(binary.LittleEndian.Uint16(raw[2*at:]))
	case 32:
		return uint64(binary.LittleEndian.Uint32(raw[4*at:]))
	}
	return binary.LittleEndian.Uint64(raw[8*at:])
}

// poison fills the arrays that a run only writes with a pattern that no result
// has by accident, NaN for floats, so that what stays unwritten shows.
func poison(a interp.Args) {
	for name := range a.Unwritten {
		arr := a.Arrays[name]
		if arr == nil || arr.DType == "b1" { // any pattern but 0 is true
			continue
		}
		for i := range arr.Len() {
			arr.SetUint(i, poisonBits(arr.DType))
		}
	}
}

func poisonBits(t npy.DType) uint64 {
	switch t {
	case "f2":
		return 0x7e00
	case "f4":
		return 0x7fc00000
	case "f8":
		return 0x7ff8000000000000
	}
	return 0xa5a5a5a5a5a5a5a5
}
