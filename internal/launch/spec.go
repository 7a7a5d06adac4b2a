package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Version is the number of the form that this package reads and writes.
const Version = 1

// Limits on a description that is read.
const (
	MaxRank     = 64   // dimensions of a buffer
	MaxParams   = 1024 // parameters of a kernel
	MaxLaunches = 1024
)

// Spec is one function's launch.json.
type Spec struct {
	Version     int               `json:"version"`
	Name        string            `json:"name"`
	ArchLowered string            `json:"arch_lowered"`
	PassConfigs map[string]any    `json:"pass_configs,omitempty"`
	Source      string            `json:"source,omitempty"`
	Cubin       string            `json:"cubin,omitempty"`
	PTX         string            `json:"ptx,omitempty"`
	Args        []string          `json:"args"`
	Buffers     map[string]Buffer `json:"buffers"`
	Scalars     map[string]Scalar `json:"scalars,omitempty"`
	Symbols     map[string]Symbol `json:"symbols,omitempty"`
	Launches    []Launch          `json:"launches"`
}

// Role says how the launches use a buffer.
type Role string

// The roles; see docs/launch-json.md.
const (
	In        Role = "in"
	Out       Role = "out"
	InOut     Role = "inout"
	Workspace Role = "workspace"
)

// Buffer is a piece of global memory that kernels are given.
type Buffer struct {
	Index   *int   `json:"index,omitempty"` // position in Args; nil: workspace
	Shape   []Size `json:"shape"`           // elements
	Strides []Size `json:"strides,omitempty"`
	DType   string `json:"dtype"`
	Role    Role   `json:"role"`
}

// Scalar is an argument passed by value.
type Scalar struct {
	Index int    `json:"index"`
	DType string `json:"dtype"`
}

// Symbol says where the value of a symbolic size comes from: a dimension or,
// if Stride is set, a stride of a buffer argument.
type Symbol struct {
	DType  string `json:"dtype"`
	Buffer string `json:"buffer"`
	Dim    *int   `json:"dim,omitempty"`
	Stride *int   `json:"stride,omitempty"`
}

// Launch is one kernel launch.
type Launch struct {
	Kernel       string     `json:"kernel"`
	Grid         [3]Size    `json:"grid"`
	Block        [3]Size    `json:"block"`
	SMem         Size       `json:"smem"` // bytes, dynamic
	StaticSMem   int        `json:"static_smem,omitempty"`
	Cluster      *[3]int    `json:"cluster,omitempty"`
	Cooperative  bool       `json:"cooperative,omitempty"`
	Programmatic bool       `json:"programmatic,omitempty"`
	L2           []Window   `json:"l2,omitempty"`
	Params       []Param    `json:"params"`
	Resources    *Resources `json:"resources,omitempty"`
}

// Window asks for a part of a buffer to stay in the L2 cache.
type Window struct {
	Buffer string  `json:"buffer"`
	Bytes  Size    `json:"bytes"`
	Ratio  float64 `json:"ratio"`
}

// Resources is what the compiler reported for a kernel, bytes per thread but
// for Regs and StaticSMem.
type Resources struct {
	Regs       int `json:"regs"`
	Stack      int `json:"stack"`
	SpillSt    int `json:"spill_st"`
	SpillLd    int `json:"spill_ld"`
	StaticSMem int `json:"static_smem"`
}

// Param is one kernel parameter: a tensor map if TMA is set, else a buffer if
// Buffer is set, else a scalar.
type Param struct {
	Buffer     string
	ByteOffset *Size

	Scalar      Value
	ScalarDType string // the scalar's dtype

	TMA         string // the tensor map's name
	Mode        string // "tiled" or "im2col"
	DataType    int    // CUtensorMapDataType
	GDim        []Size
	GStrideAll  []Size
	Box         []int // tiled
	Lower       []int // im2col
	Upper       []int
	Channels    int
	Pixels      int
	EStride     []int
	Interleave  int
	Swizzle     int
	L2Promotion int
	OOBFill     int
}

// Rank returns the number of a tensor map's dimensions.
func (p *Param) Rank() int { return len(p.GDim) }

type tensorJSON struct {
	TMA        string `json:"tma"`
	Mode       string `json:"mode,omitempty"`
	Buffer     string `json:"buffer"`
	ByteOffset *Size  `json:"byte_offset,omitempty"`
	DType      int    `json:"dtype"`
	Rank       int    `json:"rank"`
	GDim       []Size `json:"gdim"`
	GStrideAll []Size `json:"gstride_all"`
	Box        []int  `json:"box,omitempty"`
	Lower      []int  `json:"lower,omitempty"`
	Upper      []int  `json:"upper,omitempty"`
	Channels   int    `json:"channels,omitempty"`
	Pixels     int    `json:"pixels,omitempty"`
	EStride    []int  `json:"estride"`
	Interleave int    `json:"interleave"`
	Swizzle    int    `json:"swizzle"`
	L2         int    `json:"l2"`
	OOB        int    `json:"oob"`
}

type bufferJSON struct {
	Buffer     string          `json:"buffer"`
	ByteOffset *Size           `json:"byte_offset,omitempty"`
	Shape      json.RawMessage `json:"shape,omitempty"` // older descriptions repeat the buffer's
	DType      string          `json:"dtype,omitempty"` // shape and type here
}

type scalarJSON struct {
	Scalar *Value `json:"scalar"`
	DType  string `json:"dtype"`
}

// MarshalJSON writes the keys of p's own kind only.
func (p Param) MarshalJSON() ([]byte, error) {
	switch {
	case p.TMA != "":
		return marshal(tensorJSON{p.TMA, p.Mode, p.Buffer, p.ByteOffset, p.DataType, p.Rank(), p.GDim, p.GStrideAll,
			p.Box, p.Lower, p.Upper, p.Channels, p.Pixels, p.EStride, p.Interleave, p.Swizzle, p.L2Promotion, p.OOBFill})
	case p.Buffer != "":
		return marshal(bufferJSON{Buffer: p.Buffer, ByteOffset: p.ByteOffset})
	}
	return marshal(scalarJSON{&p.Scalar, p.ScalarDType})
}

// UnmarshalJSON tells the three kinds apart by their first key.
func (p *Param) UnmarshalJSON(b []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return err
	}
	switch {
	case keys["tma"] != nil:
		var j tensorJSON
		if err := strict(b, &j); err != nil {
			return err
		}
		if j.Mode == "" {
			j.Mode = "tiled"
		}
		if j.Rank != len(j.GDim) {
			return fmt.Errorf("tensor map %s has rank %d but %d extents", j.TMA, j.Rank, len(j.GDim))
		}
		*p = Param{Buffer: j.Buffer, ByteOffset: j.ByteOffset, TMA: j.TMA, Mode: j.Mode, DataType: j.DType, GDim: j.GDim,
			GStrideAll: j.GStrideAll, Box: j.Box, Lower: j.Lower, Upper: j.Upper, Channels: j.Channels, Pixels: j.Pixels,
			EStride: j.EStride, Interleave: j.Interleave, Swizzle: j.Swizzle, L2Promotion: j.L2, OOBFill: j.OOB}
	case keys["buffer"] != nil:
		var j bufferJSON
		if err := strict(b, &j); err != nil {
			return err
		}
		*p = Param{Buffer: j.Buffer, ByteOffset: j.ByteOffset}
	case keys["scalar"] != nil:
		var j scalarJSON
		if err := strict(b, &j); err != nil {
			return err
		}
		*p = Param{Scalar: *j.Scalar, ScalarDType: j.DType}
	default:
		return fmt.Errorf(`parameter %s has none of "tma", "buffer", "scalar"`, b)
	}
	return nil
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// Parse reads a description and checks it.
func Parse(b []byte) (*Spec, error) {
	var s Spec
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("launch.json: %w", err)
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return &s, nil
}

// Format returns the description as indented JSON with a final newline. Equal
// descriptions give equal bytes.
func (s *Spec) Format() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Check reports the first thing that is wrong with the description itself,
// before any size is known.
func (s *Spec) Check() error {
	if s.Version != Version {
		return fmt.Errorf("launch.json: version %d, this program reads version %d", s.Version, Version)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("launch.json: %s: %s", s.Name, fmt.Sprintf(format, args...))
	}
	if s.Name == "" {
		return bad("no name")
	}
	if len(s.Launches) > MaxLaunches {
		return bad("%d launches, at most %d are supported", len(s.Launches), MaxLaunches)
	}
	for i, name := range s.Args {
		b, isBuf := s.Buffers[name]
		sc, isScalar := s.Scalars[name]
		switch {
		case isBuf == isScalar:
			return bad("argument %s must be in exactly one of buffers and scalars", name)
		case isBuf && (b.Index == nil || *b.Index != i):
			return bad("buffer %s is argument %d, but its index differs", name, i)
		case isScalar && sc.Index != i:
			return bad("scalar %s is argument %d, its index is %d", name, i, sc.Index)
		}
	}
	known := func(expr *expr) error {
		for _, n := range expr.names() {
			_, isSym := s.Symbols[n]
			sc, isScalar := s.Scalars[n]
			if !isSym && !(isScalar && IsInteger(sc.DType)) {
				return bad("size %q uses %s, which is neither a symbol nor an integer scalar", expr.text, n)
			}
		}
		return nil
	}
	check := func(sizes ...Size) error {
		for _, z := range sizes {
			if z.expr != nil {
				if err := known(z.expr); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, name := range sortedKeys(s.Buffers) {
		b := s.Buffers[name]
		if b.Index != nil && (*b.Index < 0 || *b.Index >= len(s.Args) || s.Args[*b.Index] != name) {
			return bad("buffer %s has index %d, which is not its place in args", name, *b.Index)
		}
		if (b.Index == nil) != (b.Role == Workspace) {
			return bad("buffer %s must have an index or the role workspace", name)
		}
		if !slices.Contains([]Role{In, Out, InOut, Workspace}, b.Role) {
			return bad("buffer %s has the unknown role %q", name, b.Role)
		}
		if Bits(b.DType) == 0 {
			return bad("buffer %s has the unknown element type %q", name, b.DType)
		}
		if len(b.Shape) > MaxRank || b.Strides != nil && len(b.Strides) != len(b.Shape) {
			return bad("buffer %s has %d sizes and %d strides", name, len(b.Shape), len(b.Strides))
		}
		if err := check(append(slices.Clone(b.Shape), b.Strides...)...); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(s.Symbols) {
		y := s.Symbols[name]
		b, ok := s.Buffers[y.Buffer]
		if !ok || b.Index == nil {
			return bad("symbol %s comes from %q, which is no buffer argument", name, y.Buffer)
		}
		if (y.Dim == nil) == (y.Stride == nil) {
			return bad("symbol %s must have exactly one of dim and stride", name)
		}
		if y.Dim != nil && (*y.Dim < 0 || *y.Dim >= len(b.Shape)) || y.Stride != nil && (*y.Stride < 0 || *y.Stride >= len(b.Strides)) {
			return bad("symbol %s comes from a dimension that %s does not have", name, y.Buffer)
		}
	}
	for _, name := range sortedKeys(s.Scalars) {
		sc := s.Scalars[name]
		if sc.Index < 0 || sc.Index >= len(s.Args) || s.Args[sc.Index] != name {
			return bad("scalar %s has index %d, which is not its place in args", name, sc.Index)
		}
		if Bits(sc.DType) < 8 {
			return bad("scalar %s has the unusable type %q", name, sc.DType)
		}
	}
	for i := range s.Launches {
		l := &s.Launches[i]
		if l.Kernel == "" || strings.ContainsRune(l.Kernel, 0) {
			return bad("launch %d names no kernel", i)
		}
		if len(l.Params) > MaxParams {
			return bad("%s has %d parameters, at most %d are supported", l.Kernel, len(l.Params), MaxParams)
		}
		if err := check(append(append(l.Grid[:], l.Block[:]...), l.SMem)...); err != nil {
			return err
		}
		if l.Cluster != nil {
			for _, c := range l.Cluster {
				if c < 1 {
					return bad("%s has the cluster %v", l.Kernel, *l.Cluster)
				}
			}
		}
		for _, w := range l.L2 {
			if _, ok := s.Buffers[w.Buffer]; !ok {
				return bad("%s has an L2 window on %q, which is no buffer", l.Kernel, w.Buffer)
			}
			if !(w.Ratio >= 0 && w.Ratio <= 1) {
				return bad("%s has an L2 window of ratio %g", l.Kernel, w.Ratio)
			}
			if err := check(w.Bytes); err != nil {
				return err
			}
		}
		for j := range l.Params {
			p := &l.Params[j]
			if p.ByteOffset != nil {
				if err := check(*p.ByteOffset); err != nil {
					return err
				}
			}
			if p.Buffer != "" {
				if _, ok := s.Buffers[p.Buffer]; !ok {
					return bad("%s: parameter %d is buffer %q, which is not described", l.Kernel, j, p.Buffer)
				}
			}
			switch {
			case p.TMA != "":
				if err := p.checkTensorMap(); err != nil {
					return bad("%s: parameter %d: %v", l.Kernel, j, err)
				}
				if err := check(append(slices.Clone(p.GDim), p.GStrideAll...)...); err != nil {
					return err
				}
			case p.Buffer == "":
				if Bits(p.ScalarDType) < 8 {
					return bad("%s: parameter %d has the unusable type %q", l.Kernel, j, p.ScalarDType)
				}
				if e := p.Scalar.expr; e != nil {
					if _, ok := s.Scalars[e.text]; ok {
						continue
					}
					if !IsInteger(p.ScalarDType) {
						return bad("%s: parameter %d is %q, which is no scalar argument", l.Kernel, j, e.text)
					}
					if err := known(e); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// TensorMapElement returns the bytes of one element of a CUtensorMapDataType,
// 0 for a number that is none.
func TensorMapElement(dataType int) int {
	sizes := [...]int{1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4}
	if dataType < 0 || dataType >= len(sizes) {
		return 0
	}
	return sizes[dataType]
}

// checkTensorMap applies the rules of cuTensorMapEncodeTiled and Im2col that
// concern constants (CUDA driver API reference, Tensor Map Object Management).
func (p *Param) checkTensorMap() error {
	r := p.Rank()
	switch {
	case p.Buffer == "":
		return fmt.Errorf("tensor map %s has no buffer", p.TMA)
	case TensorMapElement(p.DataType) == 0:
		return fmt.Errorf("tensor map %s has the unknown element type %d", p.TMA, p.DataType)
	case r < 1 || r > 5:
		return fmt.Errorf("tensor map %s has rank %d", p.TMA, r)
	case len(p.GStrideAll) != r || len(p.EStride) != r:
		return fmt.Errorf("tensor map %s of rank %d has %d strides and %d element strides", p.TMA, r, len(p.GStrideAll), len(p.EStride))
	case p.Swizzle < 0 || p.Swizzle > 3 || p.Interleave < 0 || p.Interleave > 2 || p.L2Promotion < 0 || p.L2Promotion > 3 || p.OOBFill < 0 || p.OOBFill > 1:
		return fmt.Errorf("tensor map %s has an enumeration out of range", p.TMA)
	}
	for _, e := range p.EStride {
		if e < 1 || e > 8 {
			return fmt.Errorf("tensor map %s has the element stride %d, not 1 to 8", p.TMA, e)
		}
	}
	switch p.Mode {
	case "tiled":
		if len(p.Box) != r {
			return fmt.Errorf("tensor map %s of rank %d has a box of %d extents", p.TMA, r, len(p.Box))
		}
		for _, b := range p.Box {
			if b < 1 || b > 256 {
				return fmt.Errorf("tensor map %s has the box extent %d, not 1 to 256", p.TMA, b)
			}
		}
		if inner := p.Box[0] * TensorMapElement(p.DataType); p.Swizzle > 0 && inner > 16<<p.Swizzle {
			return fmt.Errorf("tensor map %s has an inner box of %d bytes, more than its swizzle's %d", p.TMA, inner, 16<<p.Swizzle)
		}
	case "im2col":
		if r < 3 || len(p.Lower) != r-2 || len(p.Upper) != r-2 {
			return fmt.Errorf("tensor map %s of rank %d has %d and %d corners", p.TMA, r, len(p.Lower), len(p.Upper))
		}
		if p.Channels < 1 || p.Channels > 256 || p.Pixels < 1 || p.Pixels > 1024 {
			return fmt.Errorf("tensor map %s has %d channels and %d pixels", p.TMA, p.Channels, p.Pixels)
		}
	default:
		return fmt.Errorf("tensor map %s has the unknown mode %q", p.TMA, p.Mode)
	}
	return nil
}

// Bits returns the width of one element of an IR data type without lanes; 0
// for a name that it does not know.
func Bits(dtype string) int {
	switch dtype {
	case "bool", "int8", "uint8":
		return 8
	case "handle", "int64", "uint64", "float64":
		return 64
	case "int32", "uint32", "float32", "tfloat32":
		return 32
	case "int16", "uint16", "float16", "bfloat16":
		return 16
	case "int4", "uint4", "float4_e2m1fn":
		return 4
	case "float6_e2m3fn", "float6_e3m2fn":
		return 6
	}
	if strings.HasPrefix(dtype, "float8_") {
		return 8
	}
	return 0
}

// IsInteger tells whether values of dtype are integers or truth values.
func IsInteger(dtype string) bool {
	return dtype == "bool" || strings.HasPrefix(dtype, "int") || strings.HasPrefix(dtype, "uint")
}

// Bytes returns the bytes a buffer occupies: from its first element to its
// last, by its strides, sub-byte elements packed.
func (b *Buffer) Bytes(env Env) (int64, error) {
	last, step := int64(0), int64(1)
	shape := make([]int64, len(b.Shape))
	for i, z := range b.Shape {
		n, err := z.Eval(env)
		if err != nil {
			return 0, err
		}
		if n < 0 {
			return 0, fmt.Errorf("negative size %d", n)
		}
		shape[i] = n
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	for i := len(shape) - 1; i >= 0; i-- {
		if b.Strides != nil {
			var err error
			if step, err = b.Strides[i].Eval(env); err != nil {
				return 0, err
			}
			if step < 0 {
				return 0, fmt.Errorf("negative stride %d", step)
			}
		}
		reach, ok := mul(shape[i]-1, step)
		if !ok || last > math.MaxInt64-reach {
			return 0, fmt.Errorf("buffer of shape %v is too large", shape)
		}
		last += reach
		if b.Strides == nil {
			if step, ok = mul(step, shape[i]); !ok {
				return 0, fmt.Errorf("buffer of shape %v is too large", shape)
			}
		}
	}
	bits, ok := mul(last+1, int64(Bits(b.DType)))
	if !ok || last == math.MaxInt64 || bits > math.MaxInt64-7 {
		return 0, fmt.Errorf("buffer of shape %v is too large", shape)
	}
	return (bits + 7) / 8, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
