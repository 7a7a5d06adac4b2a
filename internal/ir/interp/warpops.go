package interp

import (
	"math/bits"
	"strings"

	"lowertrace/internal/ir"
)

// vecAny holds 32*n values of either kind.
type vecAny struct {
	i []int64
	f []float64
}

// anyVal compiles a value without regard to its kind.
func (c *comp) anyVal(v val) func(*warp) vecAny {
	if v.isFloat() {
		f := c.vecF(v)
		return func(w *warp) vecAny { return vecAny{f: f(w)} }
	}
	f := c.vecI(v)
	return func(w *warp) vecAny { return vecAny{i: f(w)} }
}

// permuted compiles a value whose lane l comes from lane src(l) of e.
func (c *comp) permuted(e ir.Expr, src func(w *warp, l int) int) val {
	t := e.DType()
	n := max(int(t.Lanes), 1)
	if t.IsFloat() {
		at := c.tempF(n)
		m := c.mark()
		defer c.release(m)
		f := c.vecF(c.expr(e))
		return val{t: t, vf: func(w *warp) []float64 {
			d, x := w.F[at:at+n*lanes], f(w)
			for l := range lanes {
				copy(d[l*n:l*n+n], x[src(w, l)*n:])
			}
			return d
		}}
	}
	at := c.tempI(n)
	m := c.mark()
	defer c.release(m)
	f := c.vecI(c.expr(e))
	return val{t: t, vi: func(w *warp) []int64 {
		d, x := w.I[at:at+n*lanes], f(w)
		for l := range lanes {
			copy(d[l*n:l*n+n], x[src(w, l)*n:])
		}
		return d
	}}
}

// shfl compiles a warp shuffle (PTX ISA, "shfl.sync"): mask, value, lane or
// delta, width. A source outside the segment is the lane itself.
func (c *comp) shfl(name string, e *ir.Call) val {
	arg := c.vecI(c.expr(e.Args[2]))
	width := func(*warp) int64 { return lanes }
	if len(e.Args) > 3 {
		width = c.uniI(c.expr(e.Args[3]))
	}
	st := c.site("")
	return c.permuted(e.Args[1], func(w *warp, l int) int {
		n := int(width(w))
		if n <= 0 || n > lanes || n&(n-1) != 0 {
			w.find(BadOperand, st, -1, "shuffle of width %d", n)
			n = lanes
		}
		x := int(arg(w)[l])
		seg := l &^ (n - 1)
		src := l
		switch name {
		case "shfl_sync":
			src = seg + x&(n-1)
		case "shfl_xor_sync":
			src = l ^ x
		case "shfl_down_sync":
			src = l + x
		case "shfl_up_sync":
			src = l - x
		}
		if src < seg || src >= seg+n {
			src = l
		}
		if w.mask>>src&1 == 0 && w.mask>>l&1 != 0 {
			w.find(BadOperand, st, l, "shuffle from lane %d, which does not take part", src)
		}
		return src
	})
}

// combine applies a reduction to two values of a type.
type combine struct {
	i func(x, y int64) int64
	f func(x, y float64) float64
}

// combiners are the reductions by the name of their operation.
var combiners = map[string]combine{
	"sum":    {func(x, y int64) int64 { return x + y }, func(x, y float64) float64 { return x + y }},
	"max":    {func(x, y int64) int64 { return max(x, y) }, floatMax},
	"min":    {func(x, y int64) int64 { return min(x, y) }, floatMin},
	"bitand": {func(x, y int64) int64 { return x & y }, nil},
	"bitor":  {func(x, y int64) int64 { return x | y }, nil},
	"bitxor": {func(x, y int64) int64 { return x ^ y }, nil},
	"mul":    {func(x, y int64) int64 { return x * y }, func(x, y float64) float64 { return x * y }},
}

// warpReduce compiles a butterfly over the warp: every lane gets the result.
func (c *comp) warpReduce(name string, e *ir.Call) val {
	op := combiners[strings.TrimPrefix(name, "warp_reduce_")]
	t := e.Type
	if t.Lanes > 1 {
		c.fail("T.%s of a vector", name)
	}
	s := t.Scalar()
	if t.IsFloat() {
		if op.f == nil {
			c.fail("T.%s of %s", name, t)
		}
		at := c.tempF(1)
		m := c.mark()
		defer c.release(m)
		f := c.vecF(c.expr(e.Args[0]))
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+lanes]
			copy(d, f(w))
			butterfly(d, func(x, y float64) float64 { return roundFloat(s, op.f(x, y)) })
			return d
		}}
	}
	at := c.tempI(1)
	m := c.mark()
	defer c.release(m)
	f := c.vecI(c.expr(e.Args[0]))
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+lanes]
		copy(d, f(w))
		butterfly(d, func(x, y int64) int64 { return wrap1(s, op.i(x, y)) })
		return d
	}}
}

// butterfly gives all lanes the reduction of their values.
func butterfly[T int64 | float64](d []T, op func(x, y T) T) {
	for off := lanes / 2; off >= 1; off /= 2 {
		var old [lanes]T
		copy(old[:], d)
		for l := range d {
			d[l] = op(old[l], old[l^off])
		}
	}
}

func (c *comp) vote(name string, e *ir.Call) val {
	if name == "activemask" {
		return val{t: e.Type, uni: true, ui: func(w *warp) int64 { return int64(w.mask) }}
	}
	f := c.vecI(c.expr(e.Args[1]))
	return val{t: e.Type, uni: true, ui: func(w *warp) int64 {
		m := maskOf(f(w)) & w.mask
		switch name {
		case "any_sync":
			return b2i(m != 0)
		case "all_sync":
			return b2i(m == w.mask)
		}
		return int64(m)
	}}
}

// elect compiles tl_shuffle_elect: one thread of each group of n consecutive
// threads (n = 0: of the block) is chosen: the first of its first warp.
func (c *comp) elect(e *ir.Call) val {
	n := c.uniI(c.expr(e.Args[0]))
	at := c.tempI(1)
	return val{t: ir.DBool, vi: func(w *warp) []int64 {
		d := w.I[at : at+lanes]
		clear(d)
		group := int(n(w)) / lanes
		if group == 0 && w.id == 0 || group > 0 && w.id%group == 0 {
			d[0] = 1
		}
		return d
	}}
}

// threadAllreduce compiles tvm_thread_allreduce(count, value, condition, result,
// axes...): all threads that differ only in the given axes get the reduction of
// their values; a thread whose condition is false takes part with the identity.
func (c *comp) threadAllreduce(e *ir.Call) stmtFn {
	if c.reducer == nil || len(c.reducer.Result) != 1 {
		c.cannot("a thread reduction without its combiner")
	}
	var op combine
	bin, ok := c.reducer.Result[0].(*ir.Binary)
	if ok {
		op, ok = map[ir.BinOp]combine{ir.Add: combiners["sum"], ir.Mul: combiners["mul"], ir.Max: combiners["max"], ir.Min: combiners["min"],
			ir.And: combiners["bitand"], ir.Or: combiners["bitor"]}[bin.Op]
	}
	if !ok {
		c.cannot("a thread reduction with a combiner that is no operator")
	}
	if len(e.Args) < 4 {
		c.fail("a thread reduction needs a count, a value, a condition and a result")
	}
	in := e.Args[1]
	if cond := e.Args[2]; !ir.IsConst(cond, 1) { // as LowerThreadAllreduce does
		in = &ir.Select{Cond: cond, True: in, False: c.reducer.Identity[0]}
	}
	v := c.expr(in)
	t := v.t.Scalar()
	x := c.anyVal(v)
	res, ok := e.Args[3].(*ir.BufferLoad)
	if !ok {
		c.fail("the result of a thread reduction is no place")
	}
	a := c.place(res.Buffer, res.Indices, nil)
	var over [3]bool
	for _, ax := range e.Args[4:] {
		v, ok := ax.(*ir.Var)
		if !ok {
			c.fail("a thread reduction over something that is no axis")
		}
		found := false
		for i := range 3 {
			for _, s := range c.l.axes[3+i].slots {
				if s.v == v {
					over[i], found = true, true
				}
			}
		}
		if !found { // an axis that launch_thread_idx names
			if i, ok := c.threadVars[v]; ok {
				over[i], found = true, true
			}
		}
		if !found {
			c.cannot("a thread reduction over %s, which is no thread axis", v.Name)
		}
	}
	st := c.site("")
	id := -1 - st.id // a barrier of its own
	return func(w *warp) {
		val := x(w)
		b := w.b
		if b.scratch == nil {
			b.scratch = map[int]vecAny{}
		}
		all := b.scratch[st.id]
		if all.i == nil {
			all = vecAny{make([]int64, len(b.warps)*lanes), make([]float64, len(b.warps)*lanes)}
			b.scratch[st.id] = all
		}
		for l := range lanes {
			if val.f != nil {
				all.f[w.id*lanes+l] = val.f[l]
			} else {
				all.i[w.id*lanes+l] = val.i[l]
			}
		}
		w.barrier(id, 0, st)
		dim := [3]int{b.l.dim[3], b.l.dim[4], b.l.dim[5]}
		out := vecAny{make([]int64, lanes), make([]float64, lanes)}
		for l := range lanes {
			if w.full>>l&1 == 0 {
				continue
			}
			first := true
			for tid := range dim[0] * dim[1] * dim[2] {
				p := [3]int{tid % dim[0], tid / dim[0] % dim[1], tid / (dim[0] * dim[1])}
				same := true
				for i := range 3 {
					same = same && (over[i] || int64(p[i]) == w.thread[i][l])
				}
				switch {
				case !same:
				case first:
					out.f[l], out.i[l], first = all.f[tid], all.i[tid], false
				case val.f != nil:
					out.f[l] = roundFloat(t, op.f(out.f[l], all.f[tid]))
				default:
					out.i[l] = wrap1(t, op.i(out.i[l], all.i[tid]))
				}
			}
		}
		w.barrier(id, 0, st)
		m, mask := a.resolve(w, 0)
		if m == nil {
			return
		}
		ok := w.access(m, mask, int64(a.el.size), accWrite, a.st)
		for q := ok; q != 0; q &= q - 1 {
			l := bits.TrailingZeros32(q)
			if a.el.fl {
				a.el.putF(m.data[w.offs[l]:], 0, out.f[l])
			} else {
				a.el.putI(m.data[w.offs[l]:], 0, out.i[l])
			}
		}
	}
}
