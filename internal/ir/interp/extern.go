package interp

import (
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
)

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
	case "DP4A":
		if len(args) != 3 {
			c.fail("DP4A with %d arguments", len(args))
		}
		return constI(e.Type, 0).after(c.dp4a(args))
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

// dp4a compiles DP4A(a, b, c), pointers to four int8, four int8 and an int32:
// the sum of the products is added to the latter.
func (c *comp) dp4a(args []ir.Expr) stmtFn {
	a, b := c.operandAt(args[0], elemOf(ir.DInt8), 4), c.operandAt(args[1], elemOf(ir.DInt8), 4)
	el := elemOf(ir.DInt32)
	acc, ptr, st := c.operandAt(args[2], el, 1), c.vecI(c.expr(args[2])), c.site(pointeeName(args[2]))
	return func(w *warp) {
		x, y, z := a(w), b(w), acc(w)
		m, mask := w.addrs(ptr(w), w.mask, st)
		if m == nil {
			return
		}
		for t := w.access(m, mask, int64(el.size), accWrite, st); t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			sum := z.i[l]
			for j := range 4 {
				sum += x.i[4*l+j] * y.i[4*l+j]
			}
			el.putI(m.data[w.offs[l]:], 0, wrap1(ir.DInt32, sum))
		}
	}
}

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
				panic(&Error{Span: st.span, Msg: "a reduction over several warps without a workspace"})
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
		rows, cols := ns[0](w), ns[1](w)
		sr, dr := cols, cols
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
