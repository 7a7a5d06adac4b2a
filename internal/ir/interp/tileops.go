package interp

import (
	"math"
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/num"
)

// tileOp compiles a tile operator.
func (c *comp) tileOp(e *ir.Call) stmtFn {
	m := c.mark()
	defer c.release(m)
	name := e.Op.Name
	switch name {
	case "copy", "async_copy", "tma_copy", "transpose":
		return c.tileCopy(e)
	case "fill":
		r := c.region(e.Args[0])
		wasColl := c.coll
		if !r.local {
			c.coll = true
		}
		v := c.expr(e.Args[1])
		if v.t.Scalar() != r.el.t {
			v = c.convert(v, r.el.t)
		}
		c.coll = wasColl
		x := c.anyVal(v)
		return c.perform(func(w *warp, lane int) {
			if view := r.view(w, lane); view != nil {
				view.write(w, x(w).repeat(lane, view.n))
			}
		}, r)
	case "gemm":
		return c.tileGemm(e)
	case "reduce":
		return c.tileReduce(e)
	case "cumsum":
		return c.tileCumsum(e)
	case "atomicadd", "atomicmax", "atomicmin":
		return c.tileAtomic(e)
	case "reducer_init":
		return c.reducerInit(e)
	case "reducer_update":
		return c.reducerUpdate(e)
	case "finalize_reducer":
		return c.finalizeReducer(e)
	case "finalize_reducer_v2":
		src, dst := c.region(e.Args[0]), c.region(e.Args[1])
		return c.copyRegions(src, dst, nil)
	case "im2col":
		return c.tileIm2col(e)
	}
	c.cannot("tile operator %s is unknown to the interpreter", e.Op.FullName())
	return nil
}

// perform runs a tile operator: once for the block, or, when one of its operands
// is private to threads, once for each thread.
func (c *comp) perform(f func(w *warp, lane int), rs ...*region) stmtFn {
	for _, r := range rs {
		if r.local {
			return func(w *warp) {
				saved := w.mask
				for l := range lanes {
					if saved>>l&1 != 0 {
						w.mask = 1 << l
						f(w, l)
					}
				}
				w.mask = saved
			}
		}
	}
	return c.collective(func(w *warp) {
		w.mask = 1
		f(w, 0)
	})
}

func (c *comp) tileCopy(e *ir.Call) stmtFn {
	src, dst := c.region(e.Args[0]), c.region(e.Args[1])
	var perm func(v *tileView, x vecAny) vecAny
	if e.Op.Name == "transpose" {
		perm = transposed
	}
	if bar := argOf(e, "barrier"); bar != nil {
		return c.barrierCopy(e, src, dst, bar)
	}
	if n, ok := ir.AttrInt(argOf(e, "no_implicit_async_commit_wait")); ok && n != 0 && src.buf.Scope() == "global" && src.el.t == dst.el.t && !dst.local {
		return c.perform(func(w *warp, lane int) { c.copyAsync(w, src, dst) }, src, dst)
	}
	return c.copyRegions(src, dst, perm)
}

func argOf(e *ir.Call, name string) ir.Attr {
	for _, a := range e.Attrs {
		if a.Name == name {
			return a.Value
		}
	}
	return nil
}

func (c *comp) copyRegions(src, dst *region, perm func(*tileView, vecAny) vecAny) stmtFn {
	st := dst.st
	return c.perform(func(w *warp, lane int) {
		s, d := src.view(w, lane), dst.view(w, lane)
		if s == nil || d == nil {
			return
		}
		x := s.read(w).convertTo(src.el.t, dst.el.t)
		if perm != nil {
			x = perm(s, x)
		}
		if s.n != d.n {
			if s.n == 1 { // one element for all
				x = x.repeat(0, d.n)
			} else {
				panic(&Error{Span: st.span, Msg: "a copy between regions of different sizes"})
			}
		}
		d.write(w, x)
	}, src, dst)
}

// repeat is value k of x, n times.
func (x vecAny) repeat(k int, n int64) vecAny {
	if x.f != nil {
		return vecAny{f: slices.Repeat(x.f[k:k+1], int(n))}
	}
	return vecAny{i: slices.Repeat(x.i[k:k+1], int(n))}
}

// transposed reverses the two dimensions of a region's values.
func transposed(v *tileView, x vecAny) vecAny {
	if len(v.ext) != 2 {
		return x
	}
	r, k := int(v.ext[0]), int(v.ext[1])
	if x.f != nil {
		return vecAny{f: transpose(x.f, r, k)}
	}
	return vecAny{i: transpose(x.i, r, k)}
}

// transpose turns r rows of k into k rows of r.
func transpose[T int64 | float64](x []T, r, k int) []T {
	y := make([]T, len(x))
	for i := range r {
		for j := range k {
			y[j*r+i] = x[i*k+j]
		}
	}
	return y
}

// copyAsync is a copy that lands at the wait for its group.
func (c *comp) copyAsync(w *warp, src, dst *region) {
	s, d := src.view(w, 0), dst.view(w, 0)
	if s == nil || d == nil {
		return
	}
	if s.n != d.n {
		panic(&Error{Span: dst.st.span, Msg: "a copy between regions of different sizes"})
	}
	for _, a := range d.copies(w, s.read(w)) {
		w.issue(a)
	}
}

// copies is a write of values as copies on their way.
func (v *tileView) copies(w *warp, x vecAny) []asyncCopy {
	var list []asyncCopy
	el := &v.r.el
	init := v.m.init
	v.m.init = nil
	v.rows(func(first, at, step, n, lo, hi int64) {
		if !v.touch(w, at, step, lo, hi, accWrite) {
			return
		}
		if step != int64(el.size) {
			for i := lo; i < hi; i++ {
				b := make([]byte, el.size)
				el.put(b, x, first+i)
				list = append(list, asyncCopy{v.m, at + i*step, b, 0, v.r.st})
			}
			return
		}
		b := make([]byte, (hi-lo)*step)
		for i := lo; i < hi; i++ {
			el.put(b[(i-lo)*step:], x, first+i)
		}
		list = append(list, asyncCopy{v.m, at + lo*step, b, 0, v.r.st})
	})
	v.m.init = init
	return list
}

func (el *elem) put(b []byte, x vecAny, i int64) {
	if el.fl {
		el.putF(b, 0, x.f[i])
	} else {
		el.putI(b, 0, x.i[i])
	}
}

// tileGemm compiles T.gemm(A, B, C, transA, transB, M, N, K, policy, clear, ...):
// C (+)= A B, in steps of the depth of one matrix instruction (256 bits of an
// operand): each step's products are summed in float64, added to C and rounded
// to C's type, as the instructions do that the operator becomes. float32
// operands go through the tensor cores as tf32.
func (c *comp) tileGemm(e *ir.Call) stmtFn {
	a, b, acc := c.region(e.Args[0]), c.region(e.Args[1]), c.region(e.Args[2])
	ta, tb := ir.IsConst(e.Args[3], 1), ir.IsConst(e.Args[4], 1)
	var dim [3]int
	for i := range dim {
		n, ok := ir.AsInt(e.Args[5+i])
		if !ok || n < 1 || n > maxTile {
			c.fail("a gemm whose sizes are not constant")
		}
		dim[i] = int(n)
	}
	m, n, k := dim[0], dim[1], dim[2]
	chunk := max(256/int(a.el.t.Bits), 1)
	tf32 := a.el.k == kF32
	clr := c.uniI(c.expr(e.Args[9]))
	if a.el.fl != b.el.fl {
		c.fail("a gemm of %s and %s", a.el.t, b.el.t)
	}
	return c.perform(func(w *warp, lane int) {
		va, vb, vc := a.view(w, lane), b.view(w, lane), acc.view(w, lane)
		if va == nil || vb == nil || vc == nil {
			return
		}
		if va.n != int64(m*k) || vb.n != int64(n*k) || vc.n != int64(m*n) {
			panic(&Error{Span: a.st.span, Msg: "the regions of a gemm do not fit its sizes"})
		}
		x, y := floats(va.read(w)), floats(vb.read(w))
		out := make([]float64, m*n)
		if clr(w) == 0 {
			copy(out, floats(vc.read(w)))
		}
		if ta {
			x = transpose(x, k, m)
		}
		if tb {
			y = transpose(y, n, k)
		}
		if tf32 {
			truncateTF32(x)
			truncateTF32(y)
		}
		sum := make([]float64, n)
		for i := range m {
			row := out[i*n : i*n+n]
			for first := 0; first < k; first += chunk {
				clear(sum)
				for d := first; d < min(first+chunk, k); d++ {
					f := x[i*k+d]
					yr := y[d*n : d*n+n]
					for j, g := range yr {
						sum[j] += f * g
					}
				}
				for j, s := range sum {
					row[j] += s
				}
				if acc.el.fl {
					roundVec(acc.el.t, row)
				}
			}
		}
		w.countFlops(2 * m * n * k)
		var d vecAny
		if acc.el.fl {
			d.f = out
		} else {
			d.i = make([]int64, len(out))
			for i, f := range out {
				d.i[i] = wrap1(acc.el.t, int64(f))
			}
		}
		vc.write(w, d)
	}, a, b, acc)
}

func floats(x vecAny) []float64 {
	if x.f != nil {
		return x.f
	}
	f := make([]float64, len(x.i))
	for i, n := range x.i {
		f[i] = float64(n)
	}
	return f
}

func truncateTF32(x []float64) {
	for i, f := range x {
		x[i] = float64(num.TF32Truncate(float32(f)))
	}
}

// tileReduce compiles T.reduce(source, destination, operation, dimension,
// clear): elements are combined in the destination's type; without clear its
// old values take part.
func (c *comp) tileReduce(e *ir.Call) stmtFn {
	src, dst := c.region(e.Args[0]), c.region(e.Args[1])
	name := ""
	if s, ok := e.Args[2].(*ir.StringImm); ok {
		name = s.Value
	}
	d, ok := ir.AsInt(e.Args[3])
	if !ok {
		c.fail("a reduction over a dimension that is not constant")
	}
	abs := false
	op, known := combiners[name]
	switch name {
	case "abssum":
		op, known, abs = combiners["sum"], true, true
	case "absmax":
		op, known, abs = combiners["max"], true, true
	}
	el := dst.el
	if !known || el.fl && op.f == nil {
		c.cannot("a reduction by %q of %s", name, el.t)
	}
	clr := c.uniI(c.expr(e.Args[4]))
	rank := len(src.exts)
	if d < 0 {
		d += int64(rank)
	}
	if d < 0 || int(d) >= rank {
		c.fail("a reduction over dimension %d of %d", d, rank)
	}
	return c.perform(func(w *warp, lane int) {
		s, t := src.view(w, lane), dst.view(w, lane)
		if s == nil || t == nil {
			return
		}
		outer, inner := int64(1), int64(1)
		for i, f := range src.exts {
			switch n := f(w); {
			case i < int(d):
				outer *= n
			case i > int(d):
				inner *= n
			}
		}
		n := src.exts[d](w)
		if t.n != outer*inner {
			panic(&Error{Span: dst.st.span, Msg: "a reduction's result does not have the size of what is left"})
		}
		x := s.read(w).convertTo(src.el.t, el.t)
		keep := clr(w) == 0
		var old vecAny
		if keep {
			old = t.read(w)
		}
		var out vecAny
		if el.fl {
			out.f = make([]float64, t.n)
		} else {
			out.i = make([]int64, t.n)
		}
		for o := range outer {
			for i := range inner {
				k := o*inner + i
				if el.fl {
					acc := 0.0
					for r := range n {
						y := x.f[(o*n+r)*inner+i]
						if abs {
							y = math.Abs(y)
						}
						if r == 0 {
							acc = y
						} else {
							acc = roundFloat(el.t, op.f(acc, y))
						}
					}
					if keep {
						acc = roundFloat(el.t, op.f(old.f[k], acc))
					}
					out.f[k] = acc
					continue
				}
				acc := int64(0)
				for r := range n {
					y := x.i[(o*n+r)*inner+i]
					if abs && y < 0 {
						y = -y
					}
					if r == 0 {
						acc = y
					} else {
						acc = wrap1(el.t, op.i(acc, y))
					}
				}
				if keep {
					acc = wrap1(el.t, op.i(old.i[k], acc))
				}
				out.i[k] = acc
			}
		}
		t.write(w, out)
	}, src, dst)
}

// tileCumsum compiles T.cumsum(source, destination, dimension, reverse).
func (c *comp) tileCumsum(e *ir.Call) stmtFn {
	src, dst := c.region(e.Args[0]), c.region(e.Args[1])
	d, ok := ir.AsInt(e.Args[2])
	if !ok || d < 0 || int(d) >= len(src.exts) {
		c.fail("a cumulative sum over an unknown dimension")
	}
	reverse := ir.IsConst(e.Args[3], 1)
	t := src.el.t
	return c.perform(func(w *warp, lane int) {
		s, o := src.view(w, lane), dst.view(w, lane)
		if s == nil || o == nil {
			return
		}
		inner := int64(1)
		for _, f := range src.exts[d+1:] {
			inner *= f(w)
		}
		n := src.exts[d](w)
		x := s.read(w)
		for first := int64(0); first < s.n; first++ {
			if first/inner%n != 0 {
				continue
			}
			var af float64
			var ai int64
			for r := range n {
				if reverse {
					r = n - 1 - r
				}
				k := first + r*inner
				if x.f != nil {
					af = roundFloat(t, af+x.f[k])
					x.f[k] = af
				} else {
					ai = wrap1(t, ai+x.i[k])
					x.i[k] = ai
				}
			}
		}
		o.write(w, x.convertTo(t, dst.el.t))
	}, src, dst)
}

// tileAtomic compiles T.atomicadd(source, destination) and its kin.
func (c *comp) tileAtomic(e *ir.Call) stmtFn {
	dst := c.region(e.Args[1])
	op := combiners[map[string]string{"atomicadd": "sum", "atomicmax": "max", "atomicmin": "min"}[e.Op.Name]]
	c.l.atomic = true
	var src *region
	var x func(*warp) vecAny
	var xt ir.DType
	if call, ok := e.Args[0].(*ir.Call); ok && call.Op != nil && call.Op.Name == "region" {
		src = c.region(e.Args[0])
	} else {
		v := c.expr(e.Args[0])
		xt = v.t
		x = c.anyVal(v)
	}
	rs := []*region{dst}
	if src != nil {
		rs = append(rs, src)
	}
	return c.perform(func(w *warp, lane int) {
		d := dst.view(w, lane)
		if d == nil {
			return
		}
		var y vecAny
		if src != nil {
			s := src.view(w, lane)
			if s == nil {
				return
			}
			y = s.read(w).convertTo(src.el.t, dst.el.t)
			if s.n != d.n {
				panic(&Error{Span: dst.st.span, Msg: "an atomic between regions of different sizes"})
			}
		} else {
			y = x(w).convertTo(xt, dst.el.t).repeat(0, d.n)
		}
		d.atomic = true
		old := d.read(w)
		if old.f != nil {
			for i := range old.f {
				old.f[i] = roundFloat(dst.el.t, op.f(old.f[i], y.f[i]))
			}
		} else {
			for i := range old.i {
				old.i[i] = wrap1(dst.el.t, op.i(old.i[i], y.i[i]))
			}
		}
		d.write(w, old)
	}, rs...)
}

// reducerInit compiles T.reducer_init(reducer[, seed]): without a seed the
// reducer begins with its operation's neutral element.
func (c *comp) reducerInit(e *ir.Call) stmtFn {
	r := c.region(e.Args[0])
	op := c.reds[r.buf.Data]
	el := r.el
	var v val
	if len(e.Args) > 1 {
		v = c.convert(c.expr(e.Args[1]), el.t)
	} else {
		v = neutral(op, el.t)
	}
	x := c.anyVal(v)
	return c.perform(func(w *warp, lane int) {
		if d := r.view(w, lane); d != nil {
			d.write(w, x(w).repeat(0, d.n))
		}
	}, r)
}

// neutral is the neutral element of a reduction.
func neutral(op string, t ir.DType) val {
	switch op {
	case "max", "min":
		if t.IsFloat() {
			x := math.Inf(1)
			if op == "max" {
				x = math.Inf(-1)
			}
			return constF(t, x)
		}
		return limitOf(t, op == "min")
	case "mul":
		if t.IsFloat() {
			return constF(t, 1)
		}
		return constI(t, 1)
	case "bitand":
		return constI(t, wrap1(t, -1))
	}
	if t.IsFloat() {
		return constF(t, 0)
	}
	return constI(t, 0)
}

// reducerUpdate compiles T.reducer_update(reducer[i...], value), which is one
// contribution from each iteration.
func (c *comp) reducerUpdate(e *ir.Call) stmtFn {
	l, ok := e.Args[0].(*ir.BufferLoad)
	if !ok {
		c.fail("an update of something that is no reducer")
	}
	op, ok := combiners[c.reds[l.Buffer.Data]]
	if !ok {
		c.cannot("the operation of reducer %s is unknown", l.Buffer.Name)
	}
	x := c.anyVal(c.convert(c.expr(e.Args[1]), l.Buffer.Type))
	a := c.place(l.Buffer, l.Indices, nil)
	t := a.el.t
	return func(w *warp) {
		v := x(w)
		m, mask := a.resolve(w, 0)
		if m == nil {
			return
		}
		mask = w.access(m, mask, int64(a.el.size), accAtomic, a.st)
		for k := range lanes {
			if mask>>k&1 == 0 {
				continue
			}
			b := m.data[w.offs[k]:]
			if a.el.fl {
				a.el.putF(b, 0, roundFloat(t, op.f(a.el.getF(b, 0), v.f[k])))
			} else {
				a.el.putI(b, 0, wrap1(t, op.i(a.el.getI(b, 0), v.i[k])))
			}
		}
	}
}

// finalizeReducer compiles T.finalize_reducer(reducer[, operation, ...], seed=):
// the contributions are in place already, the seed joins them. Operations are
// numbered sum, max, min.
func (c *comp) finalizeReducer(e *ir.Call) stmtFn {
	seed, ok := argOf(e, "seed").(ir.Expr)
	if !ok {
		return nop
	}
	r := c.region(e.Args[0])
	op := combiners[c.reds[r.buf.Data]]
	if len(e.Args) > 1 {
		n, ok := ir.AsInt(e.Args[1])
		if !ok || n < 0 || n > 2 {
			c.cannot("a reducer of unknown operation")
		}
		op = combiners[[]string{"sum", "max", "min"}[n]]
	}
	c.coll = true
	x := c.anyVal(c.convert(c.expr(seed), r.el.t))
	c.coll = false
	return c.perform(func(w *warp, lane int) {
		v := r.view(w, lane)
		if v == nil {
			return
		}
		s, d := x(w), v.read(w)
		for i := range d.f {
			d.f[i] = roundFloat(r.el.t, op.f(d.f[i], s.f[0]))
		}
		for i := range d.i {
			d.i[i] = wrap1(r.el.t, op.i(d.i[i], s.i[0]))
		}
		v.write(w, d)
	}, r)
}
