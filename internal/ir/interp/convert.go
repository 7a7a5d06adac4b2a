package interp

import (
	"math"

	"lowertrace/internal/ir"
)

// convert compiles a cast.
func (c *comp) convert(v val, t ir.DType) val {
	n := v.n()
	if int(t.Lanes) != n && !(t.Lanes == 0) {
		if n == 1 && t.Lanes > 1 {
			v1 := c.convert(v, t.Scalar())
			return c.broadcast(func(ir.Expr) val { return v1 }, &ir.Broadcast{Value: &ir.Var{Type: t.Scalar()}, Lanes: int(t.Lanes)})
		}
		c.fail("cast from %s to %s", v.t, t)
	}
	s := t.Scalar()
	from := v.t.Scalar()
	if s == from {
		v.t = t
		return v
	}
	ff, tf := from.IsFloat(), s.IsFloat()
	toI := func(x float64) int64 { return floatToInt(s, x) }
	switch {
	case ff && tf:
		if v.cst != nil {
			return constF(t, roundFloat(s, v.cst.f))
		}
		if v.uni {
			f := v.uf
			return val{t: t, uni: true, uf: func(w *warp) float64 { return roundFloat(s, f(w)) }}
		}
		at, f := c.tempF(n), v.vf
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+n*lanes]
			copy(d, f(w))
			roundVec(s, d)
			return d
		}}
	case ff:
		if v.uni {
			f := v.uf
			return val{t: t, uni: true, ui: func(w *warp) int64 { return toI(f(w)) }}
		}
		at, f := c.tempI(n), v.vf
		return val{t: t, vi: func(w *warp) []int64 {
			d := w.I[at : at+n*lanes]
			for i, x := range f(w)[:len(d)] {
				d[i] = toI(x)
			}
			return d
		}}
	case tf:
		u64 := from.Code == ir.UInt && from.Bits == 64
		toF := func(x int64) float64 { return intToFloat(s, x, u64) }
		if v.cst != nil {
			return constF(t, toF(v.cst.i))
		}
		if v.uni {
			f := v.ui
			return val{t: t, uni: true, uf: func(w *warp) float64 { return toF(f(w)) }}
		}
		at, f := c.tempF(n), v.vi
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+n*lanes]
			for i, x := range f(w)[:len(d)] {
				d[i] = toF(x)
			}
			return d
		}}
	}
	conv := func(x int64) int64 { return wrap1(s, x) }
	if s.IsBool() {
		conv = func(x int64) int64 { return b2i(x != 0) }
	}
	if v.cst != nil {
		return constI(t, conv(v.cst.i))
	}
	if v.uni {
		f := v.ui
		return val{t: t, uni: true, ui: func(w *warp) int64 { return conv(f(w)) }}
	}
	at, f := c.tempI(n), v.vi
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		for i, x := range f(w)[:len(d)] {
			d[i] = conv(x)
		}
		return d
	}}
}

// intToFloat rounds once, straight from the integer.
func intToFloat(t ir.DType, x int64, u64 bool) float64 {
	if kindOf(t) == kF32 {
		if u64 {
			return float64(float32(uint64(x)))
		}
		return float64(float32(x))
	}
	if u64 {
		return roundFloat(t, float64(uint64(x)))
	}
	return roundFloat(t, float64(x))
}

// floatToInt truncates toward zero; values beyond the type saturate and NaN is 0,
// as cvt.rzi does (PTX ISA, "cvt"). Narrow integers go through int32 as CUDA's
// conversions do, and wrap.
func floatToInt(t ir.DType, x float64) int64 {
	if t.IsBool() {
		return b2i(x != 0)
	}
	if x != x {
		if t.Bits == 64 {
			return math.MinInt64
		}
		return 0
	}
	x = math.Trunc(x)
	if t.IsUInt() && t.Bits >= 32 {
		switch {
		case x <= 0:
			return 0
		case t.Bits == 32 && x >= 1<<32:
			return 1<<32 - 1
		case x >= 1<<64:
			return -1
		}
		return int64(uint64(x))
	}
	switch {
	case t.Bits == 64 && x >= 1<<63:
		return math.MaxInt64
	case t.Bits == 64 && x < -(1<<63):
		return math.MinInt64
	case t.Bits != 64 && x >= 1<<31:
		return wrap1(t, math.MaxInt32)
	case t.Bits != 64 && x < -(1<<31):
		return wrap1(t, math.MinInt32)
	}
	return wrap1(t, int64(x))
}
