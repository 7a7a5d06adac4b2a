package interp

import "lowertrace/internal/ir"

// ramp compiles Base, Base+Stride, ... of each thread.
func (c *comp) ramp(e *ir.Ramp) val {
	t := e.DType()
	n := e.Lanes
	at := c.tempI(n)
	m := c.mark()
	defer c.release(m)
	fb, fs := c.vecI(c.expr(e.Base)), c.vecI(c.expr(e.Stride))
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		b, s := fb(w), fs(w)
		for l := range lanes {
			x := b[l]
			for j := range n {
				d[l*n+j] = x
				x += s[l]
			}
		}
		wrapVec(t, d)
		return d
	}}
}

func (c *comp) broadcast(eval func(ir.Expr) val, e *ir.Broadcast) val {
	t := e.DType()
	n := int(t.Lanes)
	if t.IsFloat() {
		at := c.tempF(n)
		m := c.mark()
		defer c.release(m)
		v := eval(e.Value)
		f, k := c.vecF(v), v.n()
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+n*lanes]
			spread(d, f(w), n, k)
			return d
		}}
	}
	at := c.tempI(n)
	m := c.mark()
	defer c.release(m)
	v := eval(e.Value)
	f, k := c.vecI(v), v.n()
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		spread(d, f(w), n, k)
		return d
	}}
}

// spread repeats the k values of each lane until there are n.
func spread[T int64 | float64](d, x []T, n, k int) {
	for l := range lanes {
		for j := range n {
			d[l*n+j] = x[l*k+j%k]
		}
	}
}

func (c *comp) shuffle(e *ir.Shuffle) val {
	n := len(e.Indices)
	t := e.DType()
	fl := t.IsFloat()
	var at int
	if fl {
		at = c.tempF(n)
	} else {
		at = c.tempI(n)
	}
	m := c.mark()
	defer c.release(m)
	type src struct {
		v    val
		lane int
	}
	var all []src
	for _, v := range e.Vectors {
		x := c.expr(v)
		if x.isFloat() {
			x = val{t: x.t, vf: c.vecF(x)}
		} else {
			x = val{t: x.t, vi: c.vecI(x)}
		}
		for j := range x.n() {
			all = append(all, src{x, j})
		}
	}
	picks := make([]src, n)
	for i, ix := range e.Indices {
		k, ok := ir.AsInt(ix)
		if !ok || k < 0 || int(k) >= len(all) {
			c.fail("shuffle index out of range")
		}
		picks[i] = all[k]
	}
	if fl {
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+n*lanes]
			for i, p := range picks {
				x, k := p.v.vf(w), p.v.n()
				for l := range lanes {
					d[l*n+i] = x[l*k+p.lane]
				}
			}
			return d
		}}
	}
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		for i, p := range picks {
			x, k := p.v.vi(w), p.v.n()
			for l := range lanes {
				d[l*n+i] = x[l*k+p.lane]
			}
		}
		return d
	}}
}
