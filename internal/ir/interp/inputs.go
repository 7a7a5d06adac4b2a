package interp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/npy"
)

// Limits and defaults of drawn inputs.
const (
	// plainSize is the value of a symbolic size that no tile divides; a size
	// that one divides is twice the tile and one more, so that the last tile is
	// partial.
	plainSize = 257
	// maxInputElements bounds a drawn array.
	maxInputElements = 1 << 26
)

// InputOptions say how inputs are drawn.
type InputOptions struct {
	// Set gives sizes and scalars their values.
	Set map[string]float64
	// Specs say how arrays are drawn: "normal", "zeros", "uniform LO..HI",
	// "uniform_int LO..HI", "const X", "bernoulli P"; a ":" may stand for the
	// space.
	Specs map[string]string
	// Given are arrays that are not drawn.
	Given map[string]*npy.Array
	Seed  uint64
}

// Inputs draws inputs for a module, the same ones for the same module and
// options, under the names of its parameters: floats are normal, integers -8 to 8 (unsigned: 0 to 16), integers
// that index a buffer lie in that buffer's bounds. Arrays that are only written
// are zeros and noted as unwritten. The module's functions must state the shapes
// of their buffers; behind the packed call convention they do not.
func Inputs(mod *ir.IRModule, o InputOptions) (Args, error) {
	a := Args{Arrays: map[string]*npy.Array{}, Scalars: map[string]float64{}, Unwritten: map[string]bool{}, Strides: map[string][]int64{}}
	for n, v := range o.Set {
		a.Scalars[n] = v
	}
	var entries []*ir.PrimFunc
	for _, f := range mod.Funcs {
		if !isDevice(f) {
			entries = append(entries, f)
		}
	}
	if len(entries) == 0 {
		entries = mod.Funcs
	}
	for _, f := range entries {
		if isPacked(f) {
			return a, &NotRunnable{f.Org, "inputs cannot be drawn for a host function behind the packed call convention: its arrays' shapes are not stated"}
		}
		d := &drawer{a: a, o: o, mod: mod, f: f}
		if err := d.function(); err != nil {
			return a, err
		}
	}
	return a, nil
}

type drawer struct {
	a   Args
	o   InputOptions
	mod *ir.IRModule
	f   *ir.PrimFunc

	tile  map[string]int64      // by the name of a size: the largest tile that divides it
	bound map[*ir.Var][]ir.Expr // by the data pointer of an index buffer: what it indexes
	read  map[*ir.Var]bool      // data pointers
	wrote map[*ir.Var]bool
}

func (d *drawer) function() error {
	d.scan()
	for _, p := range d.f.Params {
		b := d.f.BufferOf(p)
		if b == nil && p.Ptr != nil && p.Type.IsHandle() {
			b = d.viewOf(p)
			if b == nil {
				return &NotRunnable{d.f.Org, fmt.Sprintf("the shape of parameter %s is not stated in this function; run it with its host side, or from an earlier state", p.Name)}
			}
			b = &ir.Buffer{Name: p.Name, Data: p, Type: b.Type, Shape: b.Shape, Strides: b.Strides}
		}
		if b == nil {
			d.scalar(p)
			continue
		}
		if err := d.array(strings.TrimSuffix(p.Name, "_handle"), b); err != nil {
			return err
		}
	}
	return nil
}

// viewOf is the first buffer declared on a pointer parameter.
func (d *drawer) viewOf(p *ir.Var) *ir.Buffer {
	var found *ir.Buffer
	ir.Walk(d.f.Body, func(s ir.Stmt) bool {
		if x, ok := s.(*ir.DeclBuffer); ok && x.Buffer.Data == p && found == nil {
			found = x.Buffer
		}
		return found == nil
	})
	return found
}

// scan learns how sizes are divided and buffers used.
func (d *drawer) scan() {
	d.tile, d.bound = map[string]int64{}, map[*ir.Var][]ir.Expr{}
	d.read, d.wrote = map[*ir.Var]bool{}, map[*ir.Var]bool{}
	from := map[*ir.Var][]*ir.Var{} // variables bound to elements of integer buffers
	sources := func(e ir.Expr) []*ir.Var {
		var l []*ir.Var
		ir.WalkExpr(e, func(e ir.Expr) bool {
			switch e := e.(type) {
			case *ir.BufferLoad:
				if e.Buffer.Type.IsInteger() {
					l = append(l, e.Buffer.Data)
				}
			case *ir.Var:
				l = append(l, from[e]...)
			case *ir.Binary: // a remainder is in bounds by itself
				return e.Op != ir.FloorMod && e.Op != ir.TruncMod
			}
			return true
		})
		return l
	}
	use := func(b *ir.Buffer, indices []ir.Expr) {
		for i, ix := range indices {
			if i < len(b.Shape) {
				for _, v := range sources(ix) {
					d.bound[v] = append(d.bound[v], b.Shape[i])
				}
			}
		}
	}
	expr := func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			d.read[e.Buffer.Data] = true
			use(e.Buffer, e.Indices)
		case *ir.Binary:
			if k, ok := ir.AsInt(e.B); ok && k > 1 && (e.Op == ir.FloorDiv || e.Op == ir.Div) {
				d.divides(e.A, k)
			}
		case *ir.Call:
			if e.Op == nil {
				break
			}
			switch {
			case e.Op.Name == "shift_right" && len(e.Args) == 2:
				if k, ok := ir.AsInt(e.Args[1]); ok && k > 0 && k < 31 {
					d.divides(e.Args[0], 1<<k)
				}
			case e.Op.Name == "region" && len(e.Args) > 1:
				if l, ok := e.Args[0].(*ir.BufferLoad); ok {
					m, _ := ir.AsInt(e.Args[1])
					d.wrote[l.Buffer.Data] = d.wrote[l.Buffer.Data] || m&2 != 0
					use(l.Buffer, l.Indices)
					if m&1 == 0 {
						return false
					}
				}
			case e.Op.Tile, strings.HasPrefix(e.Op.Name, "atomic"), strings.HasPrefix(e.Op.Name, "tma_store"):
				for _, x := range e.Args {
					if b := pointedBuffer(x); b != nil && (x == e.Args[0] || e.Op.Name == "atomicadd") && e.Op.Name != "copy" && e.Op.Name != "gemm" && e.Op.Name != "reduce" {
						d.wrote[b] = true
						d.read[b] = d.read[b] || strings.HasPrefix(e.Op.Name, "atomic")
					}
				}
			}
		}
		return true
	}
	bodies := []*ir.PrimFunc{d.f}
	for _, f := range d.mod.Funcs {
		if f != d.f {
			bodies = append(bodies, f)
		}
	}
	for _, f := range bodies {
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.Bind:
				if s.Value != nil {
					from[s.Var] = sources(s.Value)
				}
			case *ir.BufferStore:
				d.wrote[s.Buffer.Data] = true
				use(s.Buffer, s.Indices)
			}
			ir.StmtExprs(s, func(e ir.Expr) bool {
				ir.WalkExpr(e, expr)
				return false
			})
			return true
		})
	}
}

// pointedBuffer is the data pointer of the buffer an expression points into.
func pointedBuffer(e ir.Expr) *ir.Var {
	switch e := e.(type) {
	case *ir.BufferLoad:
		return e.Buffer.Data
	case *ir.Call:
		for _, a := range e.Args {
			if v, ok := a.(*ir.Var); ok && v.Ptr != nil {
				return v
			}
			if v := pointedBuffer(a); v != nil {
				return v
			}
		}
	}
	return nil
}

func (d *drawer) divides(e ir.Expr, k int64) {
	ir.WalkExpr(e, func(e ir.Expr) bool {
		if v, ok := e.(*ir.Var); ok {
			d.tile[v.Name] = max(d.tile[v.Name], k)
		}
		return true
	})
}

// size evaluates a size, drawing the values of symbolic ones.
func (d *drawer) size(e ir.Expr) (int64, bool) {
	switch e := e.(type) {
	case *ir.IntImm:
		return e.Value, true
	case *ir.Cast:
		return d.size(e.Value)
	case *ir.Var:
		if v, ok := d.a.Scalars[e.Name]; ok {
			return int64(v), true
		}
		n := int64(plainSize)
		if t := d.tile[e.Name]; t > 1 && t <= 1<<16 {
			n = 2*t + 1
		}
		d.a.Scalars[e.Name] = float64(n)
		return n, true
	case *ir.Binary:
		x, ok1 := d.size(e.A)
		y, ok2 := d.size(e.B)
		if !ok1 || !ok2 || y == 0 && e.Op >= ir.Div && e.Op <= ir.FloorMod {
			return 0, false
		}
		return intOp(e.Op, false, x, y), true
	}
	return 0, false
}

func (d *drawer) scalar(p *ir.Var) {
	if _, ok := d.a.Scalars[p.Name]; ok {
		return
	}
	switch {
	case p.Type.IsFloat():
		d.a.Scalars[p.Name] = 1.5
	case p.Type.IsBool():
		d.a.Scalars[p.Name] = 1
	default:
		d.size(p)
	}
}

// array draws the array of a parameter. Its name is the parameter's, without
// the _handle that the text adds: the buffer's may be numbered.
func (d *drawer) array(name string, b *ir.Buffer) error {
	if d.a.Arrays[name] != nil {
		return nil
	}
	var shape []int
	n := int64(1)
	for _, e := range b.Shape {
		k, ok := d.size(e)
		if !ok || k < 0 || n*max(k, 1) > maxInputElements {
			return &Error{Span: d.f.Org, Msg: fmt.Sprintf("array %s has no size, or one beyond %d elements", name, maxInputElements)}
		}
		n *= k
		shape = append(shape, int(k))
	}
	strides, dense, want := make([]int64, len(b.Strides)), true, int64(1)
	for i := len(b.Strides) - 1; i >= 0; i-- {
		if v, ok := b.Strides[i].(*ir.Var); ok && !isShape(b, v) {
			if _, set := d.a.Scalars[v.Name]; !set { // rows further apart than they are long
				d.a.Scalars[v.Name] = float64(want + 3)
			}
		}
		k, ok := d.size(b.Strides[i])
		if !ok {
			return &Error{Span: d.f.Org, Msg: fmt.Sprintf("array %s has no plain strides", name)}
		}
		strides[i] = k
		dense = dense && k == want
		want = k * int64(shape[i])
	}
	if !dense {
		d.a.Strides[name] = strides
	}
	if g := d.o.Given[name]; g != nil {
		if !slices.Equal(g.Shape, shape) {
			return &Error{Span: d.f.Org, Msg: fmt.Sprintf("the array given for %s has shape %v, it needs %v", name, g.Shape, shape)}
		}
		d.a.Arrays[name] = g
		return nil
	}
	arr, err := npy.New(arrayType(b.Type), shape...)
	if err != nil {
		return &Error{Span: d.f.Org, Msg: fmt.Sprintf("array %s: %v", name, err)}
	}
	spec := strings.Replace(d.o.Specs[name], ":", " ", 1)
	if spec == "" && d.wrote[b.Data] && !d.read[b.Data] {
		d.a.Arrays[name] = arr
		d.a.Unwritten[name] = true
		return nil
	}
	gen, err := d.generator(name, b, spec)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(d.o.Seed, seedOf(name)))
	t := b.Type.Scalar()
	for i := range arr.Len() {
		x := gen(rnd)
		if t.IsFloat() {
			putFloat(arr, i, roundFloat(t, x))
		} else {
			arr.SetUint(i, uint64(ir.WrapInt(t, int64(x))))
		}
	}
	d.a.Arrays[name] = arr
	return nil
}

// seedOf makes each array's numbers its own (FNV-1a of its name).
func seedOf(name string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// arrayType is the type in which arrays of an element type are passed.
func arrayType(t ir.DType) npy.DType {
	switch {
	case t.IsBool():
		return "b1"
	case t.Code == ir.Float && t.Bits == 16:
		return "f2"
	case t.Code == ir.Float && t.Bits == 64:
		return "f8"
	case t.IsFloat():
		return "f4"
	}
	n := max(int(t.Bits)/8, 1)
	if t.IsUInt() {
		return npy.DType("u" + strconv.Itoa(n))
	}
	return npy.DType("i" + strconv.Itoa(n))
}

func (d *drawer) generator(name string, b *ir.Buffer, spec string) (func(*rand.Rand) float64, error) {
	kind, arg, _ := strings.Cut(spec, " ")
	bad := func() (func(*rand.Rand) float64, error) {
		return nil, &Error{Span: d.f.Org, Msg: fmt.Sprintf("unknown way to draw %s: %q (normal, zeros, uniform LO..HI, uniform_int LO..HI, const X, bernoulli P)", name, spec)}
	}
	limits := func() (lo, hi float64, ok bool) {
		l, h, found := strings.Cut(arg, "..")
		lo, e1 := strconv.ParseFloat(l, 64)
		hi, e2 := strconv.ParseFloat(h, 64)
		return lo, hi, found && e1 == nil && e2 == nil && lo <= hi
	}
	switch kind {
	case "normal":
		return func(r *rand.Rand) float64 { return r.NormFloat64() }, nil
	case "zeros":
		return func(*rand.Rand) float64 { return 0 }, nil
	case "uniform":
		lo, hi, ok := limits()
		if !ok {
			return bad()
		}
		return func(r *rand.Rand) float64 { return lo + r.Float64()*(hi-lo) }, nil
	case "uniform_int":
		lo, hi, ok := limits()
		if !ok || hi-lo > 1<<52 {
			return bad()
		}
		return func(r *rand.Rand) float64 { return math.Floor(lo) + float64(r.Int64N(int64(hi-lo)+1)) }, nil
	case "const":
		x, err := strconv.ParseFloat(arg, 64)
		if arg == "True" {
			x, err = 1, nil
		} else if arg == "False" {
			x, err = 0, nil
		}
		if err != nil {
			return bad()
		}
		return func(*rand.Rand) float64 { return x }, nil
	case "bernoulli":
		p, err := strconv.ParseFloat(arg, 64)
		if err != nil {
			return bad()
		}
		return func(r *rand.Rand) float64 { return float64(b2i(r.Float64() < p)) }, nil
	case "":
	default:
		return bad()
	}
	t := b.Type
	switch {
	case t.IsFloat():
		return func(r *rand.Rand) float64 { return r.NormFloat64() }, nil
	case t.IsBool():
		return func(r *rand.Rand) float64 { return float64(r.IntN(2)) }, nil
	}
	if ext := d.bound[b.Data]; len(ext) > 0 {
		hi := int64(math.MaxInt64)
		for _, e := range ext {
			if n, ok := d.size(e); ok {
				hi = min(hi, n)
			}
		}
		if hi < 1 {
			hi = 1
		}
		if hi < math.MaxInt64 {
			return func(r *rand.Rand) float64 { return float64(r.Int64N(hi)) }, nil
		}
	}
	if t.IsUInt() {
		return func(r *rand.Rand) float64 { return float64(r.IntN(17)) }, nil
	}
	return func(r *rand.Rand) float64 { return float64(r.IntN(17) - 8) }, nil
}
