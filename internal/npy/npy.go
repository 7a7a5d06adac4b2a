// Package npy reads and writes numpy's .npy files (format versions 1.0 to 3.0:
// magic, version, header length, a Python dict literal padded with spaces, raw
// data), for C-ordered arrays of bool, signed and unsigned integers of 1 to 8
// bytes and floats of 2, 4 and 8 bytes.
//
// The format is described in numpy's documentation, module numpy.lib.format.
package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"lowertrace/internal/num"
)

// Limits on what Read accepts. They are far above any array of this project
// and keep a damaged header from claiming memory without bound.
const (
	MaxHeader = 1 << 16 // bytes
	MaxRank   = 32      // dimensions, numpy's own limit for long
	MaxBytes  = 1 << 32 // bytes of data
)

// DType is an element type in numpy's spelling without the byte order: "b1"
// (bool, one byte), "i1".."i8", "u1".."u8", "f2", "f4", "f8".
type DType string

var sizes = map[DType]int{
	"b1": 1, "i1": 1, "i2": 2, "i4": 4, "i8": 8,
	"u1": 1, "u2": 2, "u4": 4, "u8": 8, "f2": 2, "f4": 4, "f8": 8,
}

// Size returns the bytes of one element, 0 for a type that the package does
// not know.
func (d DType) Size() int { return sizes[d] }

// Array is an array in C order. Data holds the elements one after the other,
// little-endian, whatever the byte order of the file.
type Array struct {
	DType DType
	Shape []int // empty for a zero-dimensional array of one element
	Data  []byte
}

// New returns an array of zeros.
func New(d DType, shape ...int) (*Array, error) {
	n, err := byteCount(d, shape)
	if err != nil {
		return nil, err
	}
	return &Array{DType: d, Shape: slices.Clone(shape), Data: make([]byte, n)}, nil
}

// byteCount returns the bytes that an array of this type and shape takes.
func byteCount(d DType, shape []int) (int64, error) {
	n := int64(d.Size())
	if n == 0 {
		return 0, fmt.Errorf("npy: unknown element type %q", string(d))
	}
	if len(shape) > MaxRank {
		return 0, fmt.Errorf("npy: %d dimensions, at most %d are supported", len(shape), MaxRank)
	}
	for _, s := range shape {
		if s < 0 {
			return 0, fmt.Errorf("npy: negative size %d in shape", s)
		}
	}
	for _, s := range shape {
		if s == 0 {
			return 0, nil
		}
		if n > MaxBytes/int64(s) {
			return 0, fmt.Errorf("npy: array of shape %v is larger than %d bytes", shape, int64(MaxBytes))
		}
		n *= int64(s)
	}
	return n, nil
}

// Len returns the number of elements.
func (a *Array) Len() int { return len(a.Data) / a.DType.Size() }

// Float returns element i as a float64: 0 or 1 for a bool; int64 and uint64
// values beyond 2^53 are rounded.
func (a *Array) Float(i int) float64 {
	switch a.DType {
	case "f2":
		return float64(num.F16Value(binary.LittleEndian.Uint16(a.at(i, 2))))
	case "f4":
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(a.at(i, 4))))
	case "f8":
		return math.Float64frombits(binary.LittleEndian.Uint64(a.at(i, 8)))
	case "u8":
		return float64(a.Uint(i))
	}
	return float64(a.Int(i))
}

// Int returns element i of an integer or bool array as an int64, uint64 values
// wrapping; floats are truncated.
func (a *Array) Int(i int) int64 {
	switch a.DType {
	case "i1":
		return int64(int8(a.at(i, 1)[0]))
	case "i2":
		return int64(int16(binary.LittleEndian.Uint16(a.at(i, 2))))
	case "i4":
		return int64(int32(binary.LittleEndian.Uint32(a.at(i, 4))))
	case "f2", "f4", "f8":
		return int64(a.Float(i))
	}
	return int64(a.Uint(i))
}

// Uint returns the bits of element i, zero-extended.
func (a *Array) Uint(i int) uint64 {
	switch b := a.at(i, a.DType.Size()); len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	default:
		return binary.LittleEndian.Uint64(b)
	}
}

// SetUint stores the low bits of v as element i.
func (a *Array) SetUint(i int, v uint64) {
	switch b := a.at(i, a.DType.Size()); len(b) {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

func (a *Array) at(i, size int) []byte { return a.Data[i*size:][:size] }

// Float32s returns the elements of an "f4" array; nil for another type.
func (a *Array) Float32s() []float32 {
	if a.DType != "f4" {
		return nil
	}
	out := make([]float32, a.Len())
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*i:]))
	}
	return out
}

const magic = "\x93NUMPY"

// Read reads one array. Data after it in r is left unread.
func Read(r io.Reader) (*Array, error) {
	var pre [12]byte
	if _, err := io.ReadFull(r, pre[:8]); err != nil {
		return nil, fmt.Errorf("npy: reading the preamble: %w", cutOff(err))
	}
	if string(pre[:6]) != magic {
		return nil, errors.New("npy: not a .npy file")
	}
	var hlen int
	switch pre[6] {
	case 1:
		if _, err := io.ReadFull(r, pre[8:10]); err != nil {
			return nil, fmt.Errorf("npy: reading the preamble: %w", cutOff(err))
		}
		hlen = int(binary.LittleEndian.Uint16(pre[8:]))
	case 2, 3:
		if _, err := io.ReadFull(r, pre[8:12]); err != nil {
			return nil, fmt.Errorf("npy: reading the preamble: %w", cutOff(err))
		}
		n := binary.LittleEndian.Uint32(pre[8:])
		if n > MaxHeader {
			return nil, fmt.Errorf("npy: header of %d bytes, at most %d are supported", n, MaxHeader)
		}
		hlen = int(n)
	default:
		return nil, fmt.Errorf("npy: unknown format version %d.%d", pre[6], pre[7])
	}
	header := make([]byte, hlen)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, fmt.Errorf("npy: reading the header: %w", cutOff(err))
	}
	descr, shape, err := parseHeader(string(header))
	if err != nil {
		return nil, err
	}
	order, d := byte('|'), DType(descr)
	if descr != "" && strings.IndexByte("<>|=", descr[0]) >= 0 {
		order, d = descr[0], DType(descr[1:])
	}
	n, err := byteCount(d, shape)
	if err != nil {
		return nil, err
	}
	// Read in steps, so that a header that promises more than the file holds
	// costs no more memory than the file.
	data, err := io.ReadAll(io.LimitReader(r, n))
	if err != nil {
		return nil, fmt.Errorf("npy: reading the data: %w", err)
	}
	if int64(len(data)) != n {
		return nil, fmt.Errorf("npy: %d bytes of data, shape and type need %d", len(data), n)
	}
	if order == '>' {
		for s, i := d.Size(), 0; i < len(data); i += s {
			slices.Reverse(data[i : i+s])
		}
	}
	return &Array{DType: d, Shape: shape, Data: data}, nil
}

func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseHeader reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
func parseHeader(s string) (descr string, shape []int, err error) {
	p := &header{s: s}
	var haveDescr, haveShape, fortran bool
	p.expect('{')
	for p.err == nil && p.peek() != '}' {
		key := p.str()
		p.expect(':')
		switch key {
		case "descr":
			descr, haveDescr = p.str(), true
		case "fortran_order":
			fortran = p.word() == "True"
		case "shape":
			shape, haveShape = p.tuple(), true
		default:
			p.fail("unknown key %q", key)
		}
		if p.peek() != '}' {
			p.expect(',')
		}
	}
	p.expect('}')
	switch {
	case p.err != nil:
		return "", nil, p.err
	case !haveDescr || !haveShape:
		return "", nil, errors.New("npy: header lacks 'descr' or 'shape'")
	case fortran && len(shape) > 1:
		return "", nil, errors.New("npy: Fortran order is not supported")
	}
	return descr, shape, nil
}

type header struct {
	s   string
	i   int
	err error
}

func (p *header) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("npy: bad header at byte %d: %s", p.i, fmt.Sprintf(format, args...))
	}
}

func (p *header) peek() byte {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
	if p.i == len(p.s) {
		p.fail("unexpected end")
		return 0
	}
	return p.s[p.i]
}

func (p *header) expect(c byte) {
	got := p.peek()
	if p.err == nil && got != c {
		p.fail("want %q, have %q", c, got)
	}
	if p.err == nil {
		p.i++
	}
}

func (p *header) str() string {
	q := p.peek()
	if p.err != nil {
		return ""
	}
	if q != '\'' && q != '"' {
		p.fail("want a string, have %q", q)
		return ""
	}
	end := strings.IndexByte(p.s[p.i+1:], q)
	if end < 0 {
		p.fail("string without end")
		return ""
	}
	out := p.s[p.i+1:][:end]
	p.i += end + 2
	return out
}

func (p *header) word() string {
	p.peek()
	start := p.i
	for p.i < len(p.s) && (p.s[p.i]|0x20 >= 'a' && p.s[p.i]|0x20 <= 'z' || p.s[p.i] >= '0' && p.s[p.i] <= '9') {
		p.i++
	}
	if start == p.i {
		p.fail("want a word")
	}
	return p.s[start:p.i]
}

func (p *header) tuple() []int {
	var out []int
	p.expect('(')
	for p.err == nil && p.peek() != ')' {
		n, err := strconv.Atoi(strings.TrimSuffix(p.word(), "L"))
		if err != nil {
			p.fail("want a size: %v", err)
			break
		}
		if out = append(out, n); len(out) > MaxRank {
			p.fail("more than %d dimensions", MaxRank)
			break
		}
		if p.peek() != ')' {
			p.expect(',')
		}
	}
	p.expect(')')
	return out
}

// Write writes a in format version 1.0, byte for byte as numpy does.
func Write(w io.Writer, a *Array) error {
	n, err := byteCount(a.DType, a.Shape)
	if err != nil {
		return err
	}
	if int64(len(a.Data)) != n {
		return fmt.Errorf("npy: %d bytes of data, shape and type need %d", len(a.Data), n)
	}
	order := "<"
	if a.DType.Size() == 1 {
		order = "|"
	}
	var sb strings.Builder
	for i, s := range a.Shape {
		if i > 0 {
			sb.WriteString(", ")
		}
		sb.WriteString(strconv.Itoa(s))
	}
	if len(a.Shape) == 1 {
		sb.WriteByte(',')
	}
	h := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, string(a.DType), sb.String())
	// numpy leaves room for the first size to grow to 21 digits, then pads the
	// whole preamble to a multiple of 64 with a newline at the end.
	if len(a.Shape) > 0 {
		h += strings.Repeat(" ", max(0, 21-len(strconv.Itoa(a.Shape[0]))))
	}
	const fixed = len(magic) + 4
	h += strings.Repeat(" ", 63-(fixed+len(h))%64) + "\n"
	pre := []byte(magic + "\x01\x00")
	pre = binary.LittleEndian.AppendUint16(pre, uint16(len(h)))
	if _, err := w.Write(append(pre, h...)); err != nil {
		return err
	}
	_, err = w.Write(a.Data)
	return err
}
