package layout

import (
	"cmp"
	"fmt"
	"slices"

	"lowertrace/internal/ir"
)

// Map is a layout: logical indices in Shape to physical indices in Out. It is
// immutable.
type Map struct {
	Shape   []int64
	Forward []ir.Expr // over Vars(len(Shape)), one for each physical dimension
	Out     []int64   // physical shape
	// linear is the row-major physical offset of each logical element, nil when
	// there are more than MaxPoints: then the offset is the sum of the parts',
	// whose logical and physical dimensions have nothing in common.
	linear []int64
	parts  []column
}

// maxElements bounds what a layout is for: buffers in global memory have many
// elements, of which batches and heads, for instance, keep their places.
const maxElements = 1 << 38

// NewMap makes a layout from expressions over the placeholders. The physical
// shape is the smallest that holds all values.
func NewMap(shape []int64, forward ...ir.Expr) (*Map, error) {
	m := &Map{Shape: shape, Forward: forward, Out: make([]int64, len(forward))}
	ev, err := newEvaluator(Vars(len(shape)), shape, maxElements)
	if err != nil {
		return nil, fmt.Errorf("dimension 0 of a layout: %w", err)
	}
	if product(shape) > MaxPoints {
		if err := m.inParts(ev); err != nil {
			return nil, err
		}
		return m, nil
	}
	linear := column{0, []int64{0}}
	for d := range forward {
		c, err := m.dimension(ev, d)
		if err != nil {
			return nil, err
		}
		for i := range linear.data {
			linear.data[i] *= m.Out[d]
		}
		if linear, err = ev.combine(linear, c, nil); err != nil {
			return nil, fmt.Errorf("dimension %d of a layout: %w", d, err)
		}
	}
	m.linear = ev.table(linear)
	return m, nil
}

// Identity is the layout that changes nothing.
func Identity(shape []int64) *Map {
	m, err := NewMap(shape, exprs(Vars(len(shape)))...)
	if err != nil {
		panic(fmt.Sprintf("layout: identity of %v: %v", shape, err)) // cannot happen: a placeholder evaluates
	}
	return m
}

// Linear is the layout that flattens a shape in row-major order.
func Linear(shape []int64) (*Map, error) {
	return NewMap(shape, Flatten(exprs(Vars(len(shape))), shape))
}

// At is the physical row-major offset of the logical element p (row-major).
func (m *Map) At(p int64) int64 {
	if m.linear != nil {
		return m.linear[p]
	}
	at, c := int64(0), m.coords(p)
	for _, part := range m.parts {
		i := int64(0)
		for d, x := range m.Shape {
			if part.mask>>d&1 == 1 {
				i = i*x + c[d]
			}
		}
		at += part.data[i]
	}
	return at
}

// dimension computes one physical dimension and fills in its size.
func (m *Map) dimension(ev *evaluator, d int) (column, error) {
	c, err := ev.eval(m.Forward[d])
	if err != nil {
		return c, fmt.Errorf("dimension %d of a layout: %w", d, err)
	}
	if lo := slices.Min(c.data); lo < 0 {
		return c, fmt.Errorf("dimension %d of a layout reaches %d", d, lo)
	}
	m.Out[d] = slices.Max(c.data) + 1
	return c, nil
}

// inParts fills Out and parts.
func (m *Map) inParts(ev *evaluator) error {
	cols := make([]column, len(m.Forward))
	for d := range cols {
		var err error
		if cols[d], err = m.dimension(ev, d); err != nil {
			return err
		}
	}
	scale := int64(1)
	for d := len(cols) - 1; d >= 0; d-- {
		part := cols[d]
		if m.Out[d] > maxElements/scale {
			return fmt.Errorf("dimension %d of a layout: more than %d places", d, int64(maxElements))
		}
		for i, x := range part.data {
			part.data[i] = x * scale
		}
		scale *= m.Out[d]
		// It joins the parts that it has logical dimensions in common with.
		rest := make([]column, 0, len(m.parts)+1)
		for _, p := range m.parts {
			if p.mask&part.mask == 0 {
				rest = append(rest, p)
				continue
			}
			var err error
			if part, err = ev.combine(part, p, nil); err != nil {
				return fmt.Errorf("dimension %d of a layout: %w", d, err)
			}
		}
		m.parts = append(rest, part)
	}
	slices.SortFunc(m.parts, func(a, b column) int { return cmp.Compare(a.mask, b.mask) })
	return nil
}

// Size is the number of logical elements.
func (m *Map) Size() int64 { return product(m.Shape) }

// OutSize is the number of physical elements.
func (m *Map) OutSize() int64 { return product(m.Out) }

// Apply is the physical index of a logical one.
func (m *Map) Apply(indices []ir.Expr) []ir.Expr {
	out := make([]ir.Expr, len(m.Forward))
	for d, e := range m.Forward {
		out[d] = apply(e, indices, nil)
	}
	return out
}

// CheckInjective is an error that names two elements in one place.
func (m *Map) CheckInjective() error {
	if m.linear != nil {
		return m.collision(column{uint(1)<<len(m.Shape) - 1, m.linear})
	}
	// The parts are independent of each other. What is in none has no place of
	// its own.
	used := uint(0)
	for _, p := range m.parts {
		used |= p.mask
		if err := m.collision(p); err != nil {
			return err
		}
	}
	for d, x := range m.Shape {
		if used>>d&1 == 0 && x > 1 {
			c := make([]int64, len(m.Shape))
			c[d] = 1
			return fmt.Errorf("elements %v and %v share a place", make([]int64, len(m.Shape)), c)
		}
	}
	return nil
}

// collision finds two points of a column with one value.
func (m *Map) collision(c column) error {
	order := make([]int64, len(c.data))
	for p := range order {
		order[p] = int64(p)
	}
	slices.SortFunc(order, func(p, q int64) int {
		return cmp.Or(cmp.Compare(c.data[p], c.data[q]), cmp.Compare(p, q))
	})
	for i := 1; i < len(order); i++ {
		if p, q := order[i-1], order[i]; c.data[p] == c.data[q] {
			return fmt.Errorf("elements %v and %v share a place", m.coordsOf(p, c.mask), m.coordsOf(q, c.mask))
		}
	}
	return nil
}

func (m *Map) coords(p int64) []int64 { return m.coordsOf(p, ^uint(0)) }

// coordsOf are the coordinates of the p-th point over the dimensions in mask.
func (m *Map) coordsOf(p int64, mask uint) []int64 {
	out := make([]int64, len(m.Shape))
	for d := len(out) - 1; d >= 0; d-- {
		if mask>>d&1 == 1 {
			out[d] = p % m.Shape[d]
			p /= m.Shape[d]
		}
	}
	return out
}

// Equal reports whether two layouts put each element at the same physical
// index.
func (m *Map) Equal(n *Map) bool {
	return sameShape(m.Out, n.Out) && m.SameOffsets(n)
}

// SameOffsets is Equal up to the physical shape: the flat offsets agree.
func (m *Map) SameOffsets(n *Map) bool {
	return sameShape(m.Shape, n.Shape) && slices.Equal(m.linear, n.linear) &&
		slices.EqualFunc(m.parts, n.parts, func(a, b column) bool { return a.mask == b.mask && slices.Equal(a.data, b.data) })
}

// IsIdentity reports a layout whose flat offsets are the row-major ones.
func (m *Map) IsIdentity() bool {
	if m.linear == nil {
		id, err := NewMap(m.Shape, exprs(Vars(len(m.Shape)))...)
		return err == nil && m.SameOffsets(id)
	}
	for p, at := range m.linear {
		if at != int64(p) {
			return false
		}
	}
	return true
}

// Compose is the layout that applies m, then n.
func (m *Map) Compose(n *Map) (*Map, error) {
	if !sameShape(m.Out, n.Shape) {
		return nil, fmt.Errorf("a layout to %v and one from %v do not compose", m.Out, n.Shape)
	}
	return NewMap(m.Shape, n.Apply(m.Forward)...)
}

// Inverse maps physical indices to logical ones. It is an error when the
// layout is not bijective or its inverse follows no affine pattern.
func (m *Map) Inverse() (*Map, error) {
	if m.Size() != m.OutSize() {
		return nil, fmt.Errorf("a layout from %d to %d elements has no inverse", m.Size(), m.OutSize())
	}
	if m.linear == nil {
		return nil, errPoints
	}
	inv := make([]int64, m.OutSize())
	for i := range inv {
		inv[i] = Hole
	}
	for p, at := range m.linear {
		if inv[at] != Hole {
			return nil, m.CheckInjective()
		}
		inv[at] = int64(p)
	}
	if e, ok := Fit(inv, exprs(Vars(len(m.Out))), m.Out); ok {
		return NewMap(m.Out, Unflatten(e, m.Shape)...)
	}
	// Not affine as a whole: fit each logical dimension alone.
	fwd := make([]ir.Expr, len(m.Shape))
	for d := range fwd {
		t := make([]int64, len(inv))
		for i, p := range inv {
			t[i] = m.coords(p)[d]
		}
		e, ok := Fit(t, exprs(Vars(len(m.Out))), m.Out)
		if !ok {
			return nil, fmt.Errorf("the inverse follows no affine pattern")
		}
		fwd[d] = e
	}
	return NewMap(m.Out, fwd...)
}

// ExpandLeading adds leading dimensions that stay as they are, as buffers
// with several versions have them.
func (m *Map) ExpandLeading(sizes ...int64) (*Map, error) {
	k := len(sizes)
	if len(m.Shape)+k > MaxDims {
		return nil, fmt.Errorf("more than %d dimensions", MaxDims)
	}
	moved := exprs(placeholders[k : k+len(m.Shape)])
	fwd := append(exprs(Vars(k)), m.Apply(moved)...)
	out := &Map{Shape: append(slices.Clone(sizes), m.Shape...), Forward: fwd, Out: append(slices.Clone(sizes), m.Out...)}
	lead := product(sizes)
	if lead < 1 || lead*m.Size() > MaxPoints {
		return NewMap(out.Shape, fwd...) // for its error
	}
	out.linear = make([]int64, 0, lead*m.Size())
	for q := range lead {
		for _, at := range m.linear {
			out.linear = append(out.linear, q*m.OutSize()+at)
		}
	}
	return out, nil
}

// Reshape is the layout of a buffer that views the same memory with another
// shape and element size (bits of the old and new elements).
func (m *Map) Reshape(shape []int64, oldBits, newBits int64) (*Map, error) {
	if product(shape)*newBits != m.Size()*oldBits {
		return nil, fmt.Errorf("views %v of %d bits and %v of %d bits differ in size", m.Shape, oldBits, shape, newBits)
	}
	flat := Flatten(exprs(Vars(len(shape))), shape)
	switch {
	case oldBits == newBits:
		return NewMap(shape, m.Apply(Unflatten(flat, m.Shape))...)
	case oldBits%newBits == 0: // several new elements in an old one
		r := oldBits / newBits
		out := m.Apply(Unflatten(ir.NewBinary(ir.FloorDiv, flat, ir.I32(r)), m.Shape))
		k := len(out) - 1
		out[k] = ir.NewBinary(ir.Add, ir.NewBinary(ir.Mul, out[k], ir.I32(r)), ir.NewBinary(ir.FloorMod, flat, ir.I32(r)))
		return NewMap(shape, out...)
	case newBits%oldBits == 0: // a new element spans several old ones, which must stay together
		r := newBits / oldBits
		if m.linear == nil {
			return nil, errPoints
		}
		for p, at := range m.linear {
			b := int64(p) - int64(p)%r
			if at != m.linear[b]+int64(p)-b || m.linear[b]%r != 0 {
				return nil, fmt.Errorf("the layout splits elements of the wider view")
			}
		}
		out := m.Apply(Unflatten(ir.NewBinary(ir.Mul, flat, ir.I32(r)), m.Shape))
		k := len(out) - 1
		out[k] = ir.NewBinary(ir.FloorDiv, out[k], ir.I32(r))
		return NewMap(shape, out...)
	}
	return nil, fmt.Errorf("views of %d and %d bits", oldBits, newBits)
}

// IR is the layout as an attribute.
func (m *Map) IR() *ir.Layout {
	return &ir.Layout{Vars: Vars(len(m.Shape)), Shape: intExprs(m.Shape), Forward: m.Forward}
}

// MapFromIR reads an attribute.
func MapFromIR(a *ir.Layout) (*Map, error) {
	shape, err := BufferShape(a.Shape)
	if err != nil {
		return nil, err
	}
	fwd := make([]ir.Expr, len(a.Forward))
	for d, e := range a.Forward {
		fwd[d] = canonical(e, a.Vars, nil)
	}
	return NewMap(shape, fwd...)
}
