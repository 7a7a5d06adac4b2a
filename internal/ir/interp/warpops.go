package interp

import (
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
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
			butterflyF(d, lanes/2, 1, func(x, y float64) float64 { return roundFloat(s, op.f(x, y)) })
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
		for off := lanes / 2; off >= 1; off /= 2 {
			var old [lanes]int64
			copy(old[:], d)
			for l := range d {
				d[l] = wrap1(s, op.i(old[l], old[l^off]))
			}
		}
		return d
	}}
}

func butterflyF(d []float64, from, to int, op func(x, y float64) float64) {
	for off := from; off >= to; off /= 2 {
		var old [lanes]float64
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

// externFloat are the C functions of floats that calls name.
var externFloat = map[string]string{
	"expf": "exp", "exp2f": "exp2", "exp10f": "exp10", "logf": "log", "log2f": "log2", "log10f": "log10", "log1pf": "log1p",
	"sinf": "sin", "cosf": "cos", "tanf": "tan", "sinhf": "sinh", "coshf": "cosh", "tanhf": "tanh", "asinf": "asin",
	"acosf": "acos", "atanf": "atan", "asinhf": "asinh", "acoshf": "acosh", "atanhf": "atanh", "erff": "erf", "sqrtf": "sqrt", "rsqrtf": "rsqrt",
	"floorf": "floor", "ceilf": "ceil", "truncf": "trunc", "roundf": "roundaway", "nearbyintf": "nearbyint", "rintf": "nearbyint",
	"fabsf": "fabs", "powf": "pow", "fmodf": "fmod", "atan2f": "atan2", "copysignf": "copysign", "hypotf": "hypot", "nextafterf": "nextafter",
	"exp": "exp", "exp2": "exp2", "exp10": "exp10", "log": "log", "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan",
	"sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "erf": "erf", "sqrt": "sqrt", "rsqrt": "rsqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
	"nearbyint": "nearbyint", "fabs": "fabs", "pow": "pow", "fmod": "fmod", "atan2": "atan2", "copysign": "copysign",
	"hexp": "exp", "hexp2": "exp2", "hlog": "log", "hlog2": "log2", "hsqrt": "sqrt", "hrsqrt": "rsqrt", "hsin": "sin", "hcos": "cos",
	"hfloor": "floor", "hceil": "ceil", "htrunc": "trunc", "hrint": "nearbyint", "__habs": "fabs", "htanh": "tanh",
	"__expf": "exp", "__exp10f": "exp10", "__logf": "log", "__log2f": "log2", "__log10f": "log10", "__sinf": "sin", "__cosf": "cos", "__tanf": "tan",
}

var reHelper = regexp.MustCompile(`^tl::(\w+)<(.*)>::run$`)

// extern compiles a call of a C function by its name.
func (c *comp) extern(e *ir.Call) val {
	str, ok := e.Args[0].(*ir.StringImm)
	if !ok {
		c.cannot("a call of a function without a name")
	}
	name, args := str.Value, e.Args[1:]
	if op := externFloat[name]; op != "" && len(args) > 0 && e.Type.IsFloat() {
		if f := math2[op]; f != nil && len(args) == 2 {
			return c.binaryMath(e.Type, args[0], args[1], f)
		}
		if f := math1[op]; f != nil && len(args) == 1 {
			return c.unaryF(e.Type, args[0], f)
		}
		if op == "roundaway" {
			return c.unaryF(e.Type, args[0], roundAway)
		}
	}
	switch name {
	case "__popc", "__popcll":
		return c.call(&ir.Call{Op: ir.MustOp("popcount"), Type: e.Type, Args: args})
	case "__clz", "__clzll":
		return c.call(&ir.Call{Op: ir.MustOp("clz"), Type: e.Type, Args: args})
	case "debug_print_var", "debug_print_buffer_value", "debug_print_msg":
		return constI(e.Type, 0).after(c.debugPrint(name, args))
	}
	if m := reHelper.FindStringSubmatch(name); m != nil {
		params := strings.Split(m[2], ",")
		for i := range params {
			params[i] = strings.TrimSpace(params[i])
		}
		switch m[1] {
		case "AllReduce":
			return c.allReduce(e, params, args)
		case "CumSum1D", "CumSum2D":
			return constI(e.Type, 0).after(c.cumSumHelper(m[1], params, args))
		}
	}
	c.cannot("call of the unknown function %q", name)
	return val{}
}

func roundAway(x float64) float64 {
	t := float64(int64(x))
	if x != x || x > 1<<52 || x < -(1<<52) {
		return x
	}
	switch d := x - t; {
	case d >= 0.5:
		return t + 1
	case d <= -0.5:
		return t - 1
	}
	return t
}

var reducerOps = map[string]string{"SumOp": "sum", "MaxOp": "max", "MinOp": "min", "BitAndOp": "bitand", "BitOrOp": "bitor", "BitXorOp": "bitxor"}

// allReduce compiles tl::AllReduce<Op, threads, scale, offset, Barrier>::run(x,
// workspace): a butterfly over groups of threads, distances threads/2 down to
// scale. Distances of a warp and more go through the workspace, between two
// barriers (named barriers 1 and 2 of NamedBarrier<n>).
func (c *comp) allReduce(e *ir.Call, params []string, args []ir.Expr) val {
	if len(params) < 3 || len(args) < 1 {
		c.cannot("a reduction with parameters %v", params)
	}
	op, ok := combiners[reducerOps[strings.TrimPrefix(params[0], "tl::")]]
	threads, err1 := strconv.Atoi(params[1])
	scale, err2 := strconv.Atoi(params[2])
	offset := 0
	if len(params) > 3 {
		offset, _ = strconv.Atoi(params[3])
	}
	barrier := 0
	if len(params) > 4 {
		s := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(params[4], "tl::"), "NamedBarrier<"), ">")
		barrier, _ = strconv.Atoi(s)
	}
	if !ok || err1 != nil || err2 != nil || threads&(threads-1) != 0 || scale&(scale-1) != 0 || scale < 1 || threads > MaxThreads {
		c.cannot("a reduction with parameters %v", params)
	}
	t := e.Type
	n := max(int(t.Lanes), 1)
	s := t.Scalar()
	fl := t.IsFloat()
	var at int
	if fl {
		at = c.tempF(n)
	} else {
		at = c.tempI(n)
	}
	x := c.anyVal(c.expr(args[0]))
	var ws func(*warp) []int64
	if len(args) > 1 {
		ws = c.vecI(c.expr(args[1]))
	}
	el := elemOf(s)
	st := c.site("workspace")
	size := int64(el.span(n))
	if len(args) > 1 {
		c.noteAccess(int(size))
	}
	body := func(w *warp) vecAny {
		v := x(w)
		var d vecAny
		if fl {
			d.f = w.F[at : at+n*lanes]
			copy(d.f, v.f)
		} else {
			d.i = w.I[at : at+n*lanes]
			copy(d.i, v.i)
		}
		old := vecAny{make([]int64, len(d.i)), make([]float64, len(d.f))}
		for off := threads / 2; off >= scale && threads > scale; off /= 2 {
			copy(old.i, d.i)
			copy(old.f, d.f)
			if off < lanes {
				for l := range lanes {
					p := l ^ off
					for j := range n {
						merge(s, op, d, old, l*n+j, p*n+j)
					}
				}
				continue
			}
			if ws == nil {
				panic(&Error{st.span, "a reduction over several warps without a workspace"})
			}
			id := 0
			if barrier != 0 {
				id = 2 // named barrier 1; see storageSync for the shift
			}
			w.barrier(id, barrier, st)
			rank := func(l int) int64 { return w.thread[0][l] - int64(offset) }
			m, mask := w.addrs(ws(w), w.mask, st)
			if m == nil {
				return d
			}
			base := w.offs
			for l := range lanes {
				w.offs[l] = base[l] + rank(l)*size
			}
			ok := w.access(m, mask, size, accWrite, st)
			for q := ok; q != 0; q &= q - 1 {
				l := bits.TrailingZeros32(q)
				for j := range n {
					if fl {
						el.putF(m.data[w.offs[l]:], j, d.f[l*n+j])
					} else {
						el.putI(m.data[w.offs[l]:], j, d.i[l*n+j])
					}
				}
			}
			if barrier != 0 {
				id = 3
			}
			w.barrier(id, barrier, st)
			for l := range lanes {
				w.offs[l] = base[l] + (rank(l)^int64(off))*size
			}
			ok = w.access(m, mask, size, accRead, st)
			for q := ok; q != 0; q &= q - 1 {
				l := bits.TrailingZeros32(q)
				for j := range n {
					if fl {
						old.f[l*n+j] = el.getF(m.data[w.offs[l]:], j)
						d.f[l*n+j] = roundFloat(s, op.f(d.f[l*n+j], old.f[l*n+j]))
					} else {
						old.i[l*n+j] = el.getI(m.data[w.offs[l]:], j)
						d.i[l*n+j] = wrap1(s, op.i(d.i[l*n+j], old.i[l*n+j]))
					}
				}
			}
		}
		return d
	}
	if fl {
		if op.f == nil {
			c.fail("%s of floats", params[0])
		}
		return val{t: t, vf: func(w *warp) []float64 { return body(w).f }}
	}
	return val{t: t, vi: func(w *warp) []int64 { return body(w).i }}
}

func merge(s ir.DType, op combine, d, old vecAny, k, p int) {
	if d.f != nil {
		d.f[k] = roundFloat(s, op.f(old.f[k], old.f[p]))
	} else {
		d.i[k] = wrap1(s, op.i(old.i[k], old.i[p]))
	}
}

// cumSumHelper compiles tl::CumSum1D<threads, reverse>::run(src, dst, n), done by
// the first warp, and tl::CumSum2D<threads, axis, reverse>::run(src, dst, rows,
// columns, src row, dst row), whose rows (axis 1) or columns the warps share.
func (c *comp) cumSumHelper(kind string, params []string, args []ir.Expr) stmtFn {
	t, ok := ir.Pointee(args[0])
	if !ok {
		c.fail("%s of untyped memory", kind)
	}
	el := elemOf(t)
	src, dst := c.uniI(c.expr(args[0])), c.uniI(c.expr(args[1]))
	var ns []func(*warp) int64
	for _, a := range args[2:] {
		ns = append(ns, c.uniI(c.expr(a)))
	}
	threads, _ := strconv.Atoi(params[0])
	reverse := params[len(params)-1] == "true"
	axis := 1
	if kind == "CumSum2D" {
		axis, _ = strconv.Atoi(params[1])
	}
	st := c.site("cumsum")
	c.noteAccess(el.size)
	return func(w *warp) {
		line := func(s, d, step int64, n int64) {
			acc := vecAny{i: []int64{0}, f: []float64{0}}
			for k := range n {
				if reverse {
					k = n - 1 - k
				}
				if b := w.at(s+k*step*int64(el.size), int64(el.size), accRead, st); b != nil {
					if el.fl {
						acc.f[0] = roundFloat(t, acc.f[0]+el.getF(b, 0))
					} else {
						acc.i[0] = wrap1(t, acc.i[0]+el.getI(b, 0))
					}
				}
				if b := w.at(d+k*step*int64(el.size), int64(el.size), accWrite, st); b != nil {
					if el.fl {
						el.putF(b, 0, acc.f[0])
					} else {
						el.putI(b, 0, acc.i[0])
					}
				}
			}
		}
		s, d := src(w), dst(w)
		if kind == "CumSum1D" {
			if w.id == 0 {
				line(s, d, 1, ns[0](w))
			}
			return
		}
		rows, cols, sr, dr := ns[0](w), ns[1](w), int64(0), int64(0)
		sr, dr = cols, cols
		if len(ns) > 3 {
			sr, dr = ns[2](w), ns[3](w)
		}
		nw := int64(max(threads/lanes, 1))
		if axis == 1 {
			for r := int64(w.id); r < rows; r += nw {
				line(s+r*sr*int64(el.size), d+r*dr*int64(el.size), 1, cols)
			}
			return
		}
		for k := int64(w.id); k < cols; k += nw {
			line(s+k*int64(el.size), d+k*int64(el.size), sr, rows)
		}
	}
}

// at is the memory of one access by the warp's first active lane, nil when it is
// out of bounds.
func (w *warp) at(p, n int64, kind accessKind, st *site) []byte {
	l := firstLane(w.mask)
	var ptrs [lanes]int64
	ptrs[l] = p
	m, mask := w.addrs(ptrs[:], 1<<l, st)
	if m == nil || w.access(m, mask, n, kind, st) == 0 {
		return nil
	}
	return m.data[w.offs[l]:][:n]
}

func (c *comp) debugPrint(name string, args []ir.Expr) stmtFn {
	label := func(e ir.Expr) string {
		if s, ok := e.(*ir.StringImm); ok {
			return s.Value
		}
		return ""
	}
	if name == "debug_print_msg" {
		msg := label(args[0])
		return func(w *warp) { w.print(func(int) string { return msg }) }
	}
	v := c.expr(args[len(args)-1])
	if v.t.IsHandle() {
		return nop
	}
	n := v.n()
	t := v.t
	f := c.anyVal(v)
	what := label(args[0])
	index := func(*warp) []int64 { return nil }
	if name == "debug_print_buffer_value" && len(args) >= 4 {
		what = strings.TrimSpace(what + " " + label(args[1]))
		index = c.vecI(c.expr(args[2]))
	}
	return func(w *warp) {
		x, ix := f(w), index(w)
		w.print(func(l int) string {
			s := what
			if ix != nil {
				s += fmt.Sprintf("[%d]", ix[l])
			}
			for j := range n {
				if x.f != nil {
					s += fmt.Sprintf(" %v", x.f[l*n+j])
				} else {
					s += fmt.Sprintf(" %d", x.i[l*n+j])
				}
			}
			return s + " (" + t.String() + ")"
		})
	}
}

// print writes a line for each active thread.
func (w *warp) print(f func(l int) string) {
	if w.r.opt.Print == nil {
		return
	}
	w.r.printMu.Lock()
	defer w.r.printMu.Unlock()
	b := w.block()
	for t := w.mask; t != 0; t &= t - 1 {
		l := bits.TrailingZeros32(t)
		w.r.opt.Print(fmt.Sprintf("block (%d, %d, %d) thread (%d, %d, %d): %s", b[0], b[1], b[2], w.thread[0][l], w.thread[1][l], w.thread[2][l], f(l)))
	}
}

// atomicOp is what an atomic operator does to memory.
var atomicOps = map[string]string{"add": "sum", "addx2": "sum", "addx4": "sum", "max": "max", "min": "min", "store": "store", "load": "load"}

func atomicKind(name string) (op string, n int) {
	name = strings.TrimPrefix(name, "atomic_")
	name, _, _ = strings.Cut(name, "_")
	n = 1
	if strings.HasSuffix(name, "x2") {
		n = 2
	} else if strings.HasSuffix(name, "x4") {
		n = 4
	}
	return atomicOps[name], n
}

// atomicBody compiles an atomic: it performs it lane by lane and passes what was
// there before to old.
func (c *comp) atomicBody(e *ir.Call) (el elem, n int, run func(w *warp, old func(l, j int, f float64, i int64))) {
	t, ok := ir.Pointee(e.Args[0])
	if !ok || t.IsHandle() {
		c.fail("an atomic on untyped memory")
	}
	op, n := atomicKind(e.Op.Name)
	el = elemOf(t)
	n *= max(int(t.Lanes), 1)
	fn := combiners[op]
	ptr := c.vecI(c.expr(e.Args[0]))
	size := int64(el.span(n))
	c.noteAccess(el.size)
	var x func(*warp) vecAny
	st := c.site(pointeeName(e.Args[0]))
	switch {
	case op == "load":
	case e.Args[1].DType().IsHandle(): // the operand lies in memory
		x = c.operandAt(e.Args[1], el, n)
	default:
		v := c.expr(e.Args[1])
		if v.n() == 1 && n > 1 {
			v = c.splat(v, v.t.WithLanes(n))
		}
		if v.t.Scalar() != el.t {
			v = c.convert(v, el.t.WithLanes(n))
		}
		if v.n() != n {
			c.fail("an atomic on %d elements with a value of type %s", n, v.t)
		}
		x = c.anyVal(v)
	}
	run = func(w *warp, old func(l, j int, f float64, i int64)) {
		var v vecAny
		if x != nil {
			v = x(w)
		}
		m, mask := w.addrs(ptr(w), w.mask, st)
		if m == nil {
			return
		}
		kind := accAtomic
		ok := w.access(m, mask, size, kind, st)
		for t := ok; t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			b := m.data[w.offs[l]:]
			for j := range n {
				if el.fl {
					was := el.getF(b, j)
					if old != nil {
						old(l, j, was, 0)
					}
					switch op {
					case "load":
					case "store":
						el.putF(b, j, v.f[l*n+j])
					default:
						el.putF(b, j, roundFloat(el.t, fn.f(was, v.f[l*n+j])))
					}
					continue
				}
				was := el.getI(b, j)
				if old != nil {
					old(l, j, 0, was)
				}
				switch op {
				case "load":
				case "store":
					el.putI(b, j, v.i[l*n+j])
				default:
					y := v.i[l*n+j]
					if el.t.Code == ir.UInt && el.t.Bits == 64 && (op == "max" || op == "min") {
						if (uint64(y) > uint64(was)) == (op == "max") {
							el.putI(b, j, y)
						}
						continue
					}
					el.putI(b, j, wrap1(el.t, fn.i(was, y)))
				}
			}
		}
	}
	return el, n, run
}

// pointeeName is the name of the buffer a pointer expression points into.
func pointeeName(e ir.Expr) string {
	switch e := e.(type) {
	case *ir.Var:
		return e.Name
	case *ir.BufferLoad:
		return e.Buffer.Name
	case *ir.Call:
		for _, a := range e.Args {
			if n := pointeeName(a); n != "" {
				return n
			}
		}
	}
	return ""
}

// operandAt compiles the reading of n elements behind a pointer.
func (c *comp) operandAt(p ir.Expr, want elem, n int) func(*warp) vecAny {
	t, ok := ir.Pointee(p)
	if !ok {
		c.fail("an operand in untyped memory")
	}
	el := elemOf(t)
	ptr := c.vecI(c.expr(p))
	st := c.site(pointeeName(p))
	size := int64(el.span(n))
	return func(w *warp) vecAny {
		v := vecAny{make([]int64, n*lanes), make([]float64, n*lanes)}
		m, mask := w.addrs(ptr(w), w.mask, st)
		if m == nil {
			return v
		}
		ok := w.access(m, mask, size, accRead, st)
		for t := ok; t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			b := m.data[w.offs[l]:]
			for j := range n {
				switch {
				case el.fl && want.fl:
					v.f[l*n+j] = roundFloat(want.t, el.getF(b, j))
				case el.fl:
					v.i[l*n+j] = floatToInt(want.t, el.getF(b, j))
				case want.fl:
					v.f[l*n+j] = intToFloat(want.t, el.getI(b, j), false)
				default:
					v.i[l*n+j] = wrap1(want.t, el.getI(b, j))
				}
			}
		}
		return v
	}
}

func (c *comp) atomic(e *ir.Call) stmtFn {
	_, _, run := c.atomicBody(e)
	return func(w *warp) { run(w, nil) }
}

func (c *comp) atomicRet(e *ir.Call) val {
	t := e.Type
	n := max(int(t.Lanes), 1)
	if t.IsFloat() {
		at := c.tempF(n)
		m := c.mark()
		defer c.release(m)
		_, _, run := c.atomicBody(e)
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+n*lanes]
			run(w, func(l, j int, f float64, _ int64) {
				if j < n {
					d[l*n+j] = f
				}
			})
			return d
		}}
	}
	at := c.tempI(n)
	m := c.mark()
	defer c.release(m)
	_, _, run := c.atomicBody(e)
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		run(w, func(l, j int, _ float64, i int64) {
			if j < n {
				d[l*n+j] = i
			}
		})
		return d
	}}
}

// threadAllreduce compiles tvm_thread_allreduce(count, value, condition, result,
// axes...): all threads that differ only in the given axes get the reduction of
// their values.
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
	v := c.expr(e.Args[1])
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
