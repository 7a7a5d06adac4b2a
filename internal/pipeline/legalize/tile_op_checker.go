package legalize

import (
	"fmt"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// TileOpChecker checks the operands of tile operators: the regions have the
// rank of their buffers, the extents of source and destination agree, and a
// matrix product has matching sizes. Sizes that are not constant are taken on
// trust.
//
// Precondition: tile operators are as written. Effect: none; an operator whose
// operands do not fit is an error that names both sizes.
var TileOpChecker = &pipeline.Pass{
	Name:         "TileOpChecker",
	Stage:        stage,
	Doc:          "check that the operands of tile operators fit together",
	Precondition: "Tile operators are as they were written.",
	Effect:       "None. Regions of wrong rank, copies between regions of different extents, reductions along dimensions that do not exist and products of matrices that do not match are errors.",
	Before:       "T.copy(T.region(A[0, 0], 1, 64, 32), T.region(s[0, 0], 2, 32, 64))",
	After:        "error: T.copy from 64 x 32 elements of A to 32 x 64 of s",
	Run:          pipeline.BodyPass(nil, checkTileOps),
}

func checkTileOps(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	var err error
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		ev, ok := s.(*ir.Evaluate)
		if !ok {
			return err == nil
		}
		if call, ok := ev.Value.(*ir.Call); ok && call.Op != nil && call.Op.Tile {
			if msg := tileOpFault(call); msg != "" {
				err = pipeline.Errorf(ev.Org, "%s", msg)
			}
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return f.Body, nil
}

// region is the operand of a tile operator: a buffer and extents.
type region struct {
	buf     *ir.Buffer
	extents []ir.Expr
}

// regionOf reads T.region(B[i, j], mask, m, n).
func regionOf(e ir.Expr) (region, string, bool) {
	c, ok := ir.IsCall(e, "region")
	if !ok {
		return region{}, "", false
	}
	l, ok := c.Args[0].(*ir.BufferLoad)
	if !ok || len(c.Args) < 2 {
		return region{}, "a region must begin at an element of a buffer", false
	}
	r := region{l.Buffer, c.Args[2:]}
	if n := len(l.Buffer.Shape); len(l.Indices) != n || len(r.extents) != n {
		return r, fmt.Sprintf("a region of %s, which has %d dimensions, is given by %d indices and %d extents", l.Buffer.Name, n, len(l.Indices), len(r.extents)), false
	}
	return r, "", true
}

// sizes are the extents other than 1; -1 stands for one that is not constant.
func (r region) sizes() []int64 {
	var out []int64
	for _, e := range r.extents {
		v, ok := ir.AsInt(e)
		if !ok {
			v = -1
		}
		if v != 1 {
			out = append(out, v)
		}
	}
	return out
}

func (r region) describe() string {
	s := make([]string, 0, len(r.extents))
	for _, v := range r.sizes() {
		if v < 0 {
			s = append(s, "?")
		} else {
			s = append(s, fmt.Sprint(v))
		}
	}
	if len(s) == 0 {
		return "1"
	}
	return strings.Join(s, " x ")
}

func sameSizes(a, b []int64) bool {
	if len(a) != len(b) {
		// An extent that is not constant may be 1.
		for _, v := range append(append([]int64(nil), a...), b...) {
			if v < 0 {
				return true
			}
		}
		return false
	}
	for i := range a {
		if a[i] >= 0 && b[i] >= 0 && a[i] != b[i] {
			return false
		}
	}
	return true
}

// tileOpFault says what is wrong with a tile operator, "" if nothing is.
func tileOpFault(c *ir.Call) string {
	var regions []region
	for _, a := range c.Args {
		r, why, ok := regionOf(a)
		if why != "" {
			return fmt.Sprintf("T.%s: %s", c.Op.Name, why)
		}
		if ok {
			regions = append(regions, r)
		}
	}
	if len(regions) < 2 {
		return ""
	}
	src, dst := regions[0], regions[1]
	switch c.Op.Name {
	case "copy", "async_copy", "tma_copy", "atomicadd", "atomicmax", "atomicmin":
		if !sameSizes(src.sizes(), dst.sizes()) {
			return fmt.Sprintf("T.%s from %s elements of %s to %s of %s", c.Op.Name, src.describe(), src.buf.Name, dst.describe(), dst.buf.Name)
		}
	case "transpose":
		if s, d := src.sizes(), dst.sizes(); len(s) == 2 && len(d) == 2 && !sameSizes([]int64{s[1], s[0]}, d) {
			return fmt.Sprintf("T.transpose of %s elements of %s to %s of %s", src.describe(), src.buf.Name, dst.describe(), dst.buf.Name)
		}
	case "reduce":
		return reduceFault(c, src, dst)
	case "cumsum":
		if n := len(src.extents); len(c.Args) > 2 {
			if d, ok := ir.AsInt(c.Args[2]); ok && (d < -int64(n) || d >= int64(n)) {
				return fmt.Sprintf("T.cumsum along dimension %d of %s, which has %d", d, src.buf.Name, n)
			}
		}
		if !sameSizes(src.sizes(), dst.sizes()) {
			return fmt.Sprintf("T.cumsum of %s elements of %s to %s of %s", src.describe(), src.buf.Name, dst.describe(), dst.buf.Name)
		}
	case "gemm":
		if len(regions) == 3 {
			return gemmFault(c, src, dst, regions[2])
		}
	}
	return ""
}

func reduceFault(c *ir.Call, src, dst region) string {
	n := int64(len(src.extents))
	d, ok := ir.AsInt(c.Args[3])
	if !ok {
		return "T.reduce needs a constant dimension"
	}
	if d < -n || d >= n {
		return fmt.Sprintf("T.reduce along dimension %d of %s, which has %d", d, src.buf.Name, n)
	}
	if d < 0 {
		d += n
	}
	rest := region{src.buf, append(append([]ir.Expr(nil), src.extents[:d]...), src.extents[d+1:]...)}
	if !sameSizes(rest.sizes(), dst.sizes()) {
		return fmt.Sprintf("T.reduce of %s elements of %s along dimension %d to %s of %s", src.describe(), src.buf.Name, d, dst.describe(), dst.buf.Name)
	}
	return ""
}

// gemmFault checks C[m, n] += A[m, k] B[k, n], A and B as stored when they are
// transposed.
func gemmFault(c *ir.Call, a, b, acc region) string {
	ta, ok := ir.AsInt(c.Args[3])
	tb, ok2 := ir.AsInt(c.Args[4])
	m, okM := ir.AsInt(c.Args[5])
	n, okN := ir.AsInt(c.Args[6])
	k, okK := ir.AsInt(c.Args[7])
	if !ok || !ok2 || !okM || !okN || !okK {
		return ""
	}
	want := func(t int64, x, y int64) []int64 {
		if t != 0 {
			x, y = y, x
		}
		return []int64{x, y}
	}
	for _, o := range []struct {
		name string
		r    region
		size []int64
	}{{"A", a, want(ta, m, k)}, {"B", b, want(tb, k, n)}, {"C", acc, []int64{m, n}}} {
		if len(o.r.extents) < 2 {
			return fmt.Sprintf("T.gemm: %s, operand %s, has %d dimension", o.r.buf.Name, o.name, len(o.r.extents))
		}
		last := region{o.r.buf, o.r.extents[len(o.r.extents)-2:]}
		for i, e := range last.extents {
			if v, ok := ir.AsInt(e); ok && v != o.size[i] {
				return fmt.Sprintf("T.gemm of m = %d, n = %d, k = %d: operand %s, %s, is %s and should be %d x %d", m, n, k, o.name, o.r.buf.Name, last.describe(), o.size[0], o.size[1])
			}
		}
	}
	return ""
}
