package tilelang

import "lowertrace/internal/ir"

// resolveLet is the buffer region that a variable was bound to, or the value
// itself.
func (in *interp) resolveLet(v value) value {
	if x, ok := v.(*ir.Var); ok && in.b != nil {
		if l, ok := in.b.lets[x]; ok {
			return l
		}
	}
	if r, ok := v.(*ref); ok {
		return r.load()
	}
	return v
}

// extentOf is the size of a buffer or region; nil for a single element, whose
// extent the other side gives.
func (in *interp) extentOf(v value) []ir.Expr {
	switch x := in.resolveLet(v).(type) {
	case *ir.Buffer:
		return x.Shape
	case *region:
		_, ext := x.parts()
		return ext
	case *ir.BufferLoad:
		if r := rampRegion(x); r != nil {
			return in.extentOf(r)
		}
	}
	return nil
}

// rampRegion is a load with ramps as the region it covers, nil if it is of a
// single element.
func rampRegion(l *ir.BufferLoad) *region {
	r := &region{buf: l.Buffer}
	found := false
	for _, e := range l.Indices {
		if p, ok := e.(*ir.Ramp); ok {
			found = true
			r.rng = append(r.rng, ir.Range{Min: p.Base, Extent: ir.I32(int64(p.Lanes))})
			continue
		}
		r.rng = append(r.rng, ir.Range{Min: e, Extent: ir.I32(1)})
	}
	if !found {
		return nil
	}
	return r
}

// wholeRegion is a buffer, region or element as a region.
func (in *interp) wholeRegion(v value, what string, at ir.Span) *region {
	switch x := in.resolveLet(v).(type) {
	case *ir.Buffer:
		r := &region{buf: x}
		for _, e := range x.Shape {
			r.rng = append(r.rng, ir.Range{Min: ir.I32(0), Extent: e})
		}
		return r
	case *region:
		return x
	case *ir.BufferLoad:
		if r := rampRegion(x); r != nil {
			return r
		}
		r := &region{buf: x.Buffer}
		for _, e := range x.Indices {
			r.rng = append(r.rng, ir.Range{Min: e, Extent: ir.I32(1)})
		}
		return r
	case *unknown:
		panic(in.needKnown(x))
	}
	panic(in.errorAt(at, "%s is %s: expected a buffer, a region or an element", what, in.typeWithValue(v)).is("ValueError"))
}

const (
	accessRead  = 1
	accessWrite = 2
)

// regionCall is T.region(buf[mins], access, extents...).
func (in *interp) regionCall(buf *ir.Buffer, mins []ir.Expr, access int64, extents []ir.Expr) ir.Expr {
	list := []ir.Expr{in.checked(&ir.BufferLoad{Buffer: buf, Indices: mins}), ir.I32(access)}
	for _, e := range extents {
		list = append(list, in.checked(e))
	}
	return &ir.Call{Op: ir.MustOp("region"), Type: ir.DHandle, Args: list}
}

// sizedRegion is an operand of a tile operator with the extents it takes part
// with; those of a region are the upper bound.
func (in *interp) sizedRegion(v value, access int64, extents []ir.Expr, what string, at ir.Span) ir.Expr {
	switch x := in.resolveLet(v).(type) {
	case *region:
		if len(extents) != len(x.rng) {
			panic(in.errorAt(at, "%s has %d dimensions, the other side %d", what, len(x.rng), len(extents)).
				note(x.buf.Org, "%s is declared here", x.buf.Name).is("AssertionError"))
		}
		mins, ext := make([]ir.Expr, len(x.rng)), make([]ir.Expr, len(x.rng))
		for i, r := range x.rng {
			mins[i], ext[i] = r.Min, in.binary(ir.Min, r.Extent, extents[i])
		}
		return in.regionCall(x.buf, mins, access, ext)
	case *ir.Buffer:
		mins := make([]ir.Expr, len(x.Shape))
		for i := range mins {
			mins[i] = ir.I32(0)
		}
		if len(extents) != len(mins) {
			panic(in.errorAt(at, "%s has %d dimensions, the other side %d", what, len(mins), len(extents)).
				note(x.Org, "%s is declared here", x.Name).is("AssertionError"))
		}
		return in.regionCall(x, mins, access, extents)
	case *ir.BufferLoad:
		if r := rampRegion(x); r != nil {
			return in.sizedRegion(r, access, extents, what, at)
		}
		ext := extents
		if n := len(x.Indices) - len(ext); n > 0 {
			ext = append(onesOf(n), ext...)
		}
		if len(ext) != len(x.Indices) {
			panic(in.errorAt(at, "%s has %d dimensions, the other side %d", what, len(x.Indices), len(ext)).
				note(x.Buffer.Org, "%s is declared here", x.Buffer.Name).is("AssertionError"))
		}
		return in.regionCall(x.Buffer, x.Indices, access, ext)
	}
	panic(in.errorAt(at, "%s is %s: expected a buffer, a region or an element", what, in.typeWithValue(v)).is("ValueError"))
}

func onesOf(n int) []ir.Expr {
	out := make([]ir.Expr, n)
	for i := range out {
		out[i] = ir.I32(1)
	}
	return out
}

// tileRegion is an operand in its full size.
func (in *interp) tileRegion(v value, access int64, what string, at ir.Span) ir.Expr {
	r := in.wholeRegion(v, what, at)
	mins, ext := r.parts()
	return in.regionCall(r.buf, mins, access, ext)
}

// pairExtents brings the extents of two sides together from the right: where
// one side is 1 it takes the other's.
func (in *interp) pairExtents(a, b []ir.Expr) ([]ir.Expr, []ir.Expr) {
	a, b = append([]ir.Expr(nil), a...), append([]ir.Expr(nil), b...)
	count := func(list []ir.Expr) int {
		n := 0
		for _, e := range list {
			if !ir.IsConst(e, 1) {
				n++
			}
		}
		return n
	}
	if count(a) == count(b) {
		return a, b
	}
	for i := 1; i <= min(len(a), len(b)); i++ {
		x, y := a[len(a)-i], b[len(b)-i]
		switch {
		case sameExpr(x, y):
		case ir.IsConst(x, 1):
			a[len(a)-i] = y
		case ir.IsConst(y, 1):
			b[len(b)-i] = x
		default:
			m := in.binary(ir.Max, x, y)
			a[len(a)-i], b[len(b)-i] = m, m
		}
	}
	return a, b
}

// operand is an operand's buffer, for messages.
func (in *interp) operand(v value) *ir.Buffer {
	switch x := in.resolveLet(v).(type) {
	case *ir.Buffer:
		return x
	case *region:
		return x.buf
	case *ir.BufferLoad:
		return x.Buffer
	}
	return nil
}
