package tile

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// region is a rectangular part of a buffer, as T.region(B[min, ...], access,
// extent, ...) states it.
type region struct {
	buf *ir.Buffer
	min []ir.Expr
	ext []ir.Expr
}

// decodeRegion reads an operand of a tile operator: a T.region call or a load.
func decodeRegion(e ir.Expr) (region, error) {
	if c, ok := ir.IsCall(e, "region"); ok {
		ld, ok := c.Args[0].(*ir.BufferLoad)
		if !ok || len(c.Args) != 2+len(ld.Indices) {
			return region{}, fmt.Errorf("T.region needs an element of a buffer and an extent for each of its dimensions")
		}
		r := region{buf: ld.Buffer}
		for i, x := range ld.Indices {
			if rp, ok := x.(*ir.Ramp); ok && ir.IsConst(rp.Stride, 1) {
				x = rp.Base
			}
			if !x.DType().IsScalar() {
				return region{}, fmt.Errorf("T.region of %s: index %d is a vector", ld.Buffer.Name, i)
			}
			r.min = append(r.min, x)
			r.ext = append(r.ext, c.Args[2+i])
		}
		return r, nil
	}
	if ld, ok := e.(*ir.BufferLoad); ok {
		r := region{buf: ld.Buffer}
		for _, x := range ld.Indices {
			n := int64(1)
			if rp, ok := x.(*ir.Ramp); ok && ir.IsConst(rp.Stride, 1) {
				x, n = rp.Base, int64(rp.Lanes)
			}
			r.min = append(r.min, x)
			r.ext = append(r.ext, ir.I32(n))
		}
		return r, nil
	}
	return region{}, fmt.Errorf("expected a region of a buffer")
}

// constExtents are the extents as integers.
func (r region) constExtents() ([]int64, bool) {
	out := make([]int64, len(r.ext))
	for i, e := range r.ext {
		v, ok := ir.AsInt(e)
		if !ok {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

// isFull reports a region that covers its whole buffer.
func (r region) isFull() bool {
	for i, e := range r.ext {
		n, ok1 := ir.AsInt(e)
		s, ok2 := ir.AsInt(r.buf.Shape[i])
		if !ok1 || !ok2 || n != s || !ir.IsConst(r.min[i], 0) {
			return false
		}
	}
	return true
}

func isFragment(b *ir.Buffer) bool { return b.Scope() == "local.fragment" }
func isReducer(b *ir.Buffer) bool  { return b.Scope() == "local.reducer" }
func isShared(b *ir.Buffer) bool   { return pipeline.IsShared(b.Scope()) }
func isGlobal(b *ir.Buffer) bool   { return b.Scope() == "global" }
func isLocal(b *ir.Buffer) bool {
	s := b.Scope()
	return s == "local" || s == "local.var"
}

func bitsOf(t ir.DType) int64 {
	if t.IsBool() {
		return 8 * int64(t.Lanes)
	}
	return int64(t.Bits) * int64(t.Lanes)
}

func add(a, b ir.Expr) ir.Expr { return ir.NewBinary(ir.Add, a, b) }
func sub(a, b ir.Expr) ir.Expr { return ir.NewBinary(ir.Sub, a, b) }
func mul(a, b ir.Expr) ir.Expr { return ir.NewBinary(ir.Mul, a, b) }
func div(a, b ir.Expr) ir.Expr { return ir.NewBinary(ir.FloorDiv, a, b) }
func mod(a, b ir.Expr) ir.Expr { return ir.NewBinary(ir.FloorMod, a, b) }
func and(a, b ir.Expr) ir.Expr {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return ir.NewBinary(ir.And, a, b)
}
func less(a, b ir.Expr) ir.Expr    { return ir.NewBinary(ir.LT, a, b) }
func atLeast(a, b ir.Expr) ir.Expr { return ir.NewBinary(ir.GE, a, b) }
func i32(v int64) ir.Expr          { return ir.I32(v) }
