package interp

import (
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// Layouts of shared memory and of fragments say where LowerTileOp puts
// elements, which no result depends on: before it, tile operators are free of
// layout. A layout that a block states for a global buffer is different: the
// caller's array holds the elements in that order, before LowerTileOp as after
// it, where the buffer has become one of the layout's physical shape.

// placed is a global buffer whose elements lie in memory by a layout.
type placed struct {
	buf    *ir.Buffer // nil: whatever views the memory, as before LayoutInference
	bits   int64      // of the elements the layout speaks of
	m      *layout.Map
	hidden bool  // the text leaves the layout out
	err    error // the layout cannot be read
}

// readLayouts notes what a block's layout_map says of global buffers.
func (c *comp) readLayouts(s *ir.SBlock) {
	d, ok := s.Annotations.Get("layout_map").(*ir.Dict)
	if !ok {
		return
	}
	for _, e := range d.Entries {
		var data *ir.Var
		p := placed{}
		switch k := e.Key.(type) {
		case *ir.Buffer:
			p.buf, data = k, k.Data
		case *ir.Var:
			data = k
		}
		if data == nil || data.Ptr != nil && data.Ptr.Scope != "" && data.Ptr.Scope != "global" {
			continue
		}
		if data.Ptr != nil {
			p.bits = int64(data.Ptr.Elem.Bits)
		}
		if c.placed == nil {
			c.placed = map[*ir.Var][]placed{}
		}
		switch l := e.Value.(type) {
		case *ir.Layout:
			p.m, p.err = layout.MapFromIR(l)
		case *ir.Hidden:
			p.hidden = true
		default:
			continue
		}
		c.placed[data] = append(c.placed[data], p)
	}
}

// layoutOf is the layout of a buffer or of a view that equals it; nil when its
// elements lie in the order of its strides.
func (c *comp) layoutOf(b *ir.Buffer) *layout.Map {
	for _, p := range c.placed[b.Data] {
		switch {
		case p.buf != nil && p.buf != b && (p.buf.Type != b.Type || !slices.EqualFunc(p.buf.Shape, b.Shape, ir.Same)):
		case p.hidden && c.tile:
			c.cannot("the layout of %s is hidden in the text", b.Name)
		case p.hidden: // after LowerTileOp the buffer has the physical shape
		case p.err != nil:
			c.cannot("the layout of %s: %v", b.Name, p.err)
		default:
			shape, err := layout.BufferShape(b.Shape)
			m := p.m
			if err == nil && !slices.Equal(shape, m.Shape) {
				bits := int64(b.Type.Bits)
				if p.bits == 0 {
					p.bits = bits
				}
				m, err = m.Reshape(shape, p.bits, bits)
			}
			if err != nil {
				c.cannot("the layout of %s: %v", b.Name, err)
			}
			return m
		}
	}
	return nil
}
