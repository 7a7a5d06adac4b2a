package interp

import (
	"math"
	"math/bits"
	"strings"

	"lowertrace/internal/ir"
)

// call compiles a call for its value.
func (c *comp) call(e *ir.Call) val {
	if e.Global != "" {
		f := c.callFunc(e.Global, e.Args)
		return constI(ir.DInt32, 0).after(f)
	}
	if e.Op == nil {
		c.cannot("a call of nothing")
	}
	name := e.Op.Name
	if f, ok := math1[name]; ok {
		if e.Type.IsFloat() {
			return c.unaryF(e.Type, e.Args[0], f)
		}
		if name == "abs" || name == "fabs" {
			return c.unaryI(e.Type, e.Args[0], func(x int64) int64 {
				if x < 0 && !e.Type.IsUInt() {
					return wrap1(e.Type, -x)
				}
				return x
			})
		}
		if name == "floor" || name == "ceil" || name == "trunc" || name == "round" || name == "nearbyint" {
			return c.expr(e.Args[0])
		}
		c.fail("T.%s of %s", name, e.Type)
	}
	if f, ok := math2[name]; ok {
		return c.binaryMath(e.Type, e.Args[0], e.Args[1], f)
	}
	switch name {
	case "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right":
		return c.bitwise(name, e)
	case "bitwise_not":
		t := e.Type
		return c.unaryI(t, e.Args[0], func(x int64) int64 { return wrap1(t, ^x) })
	case "popcount":
		w := uint(e.Args[0].DType().Bits)
		return c.unaryI(e.Type, e.Args[0], func(x int64) int64 { return int64(bits.OnesCount64(uint64(x) & (^uint64(0) >> (64 - w)))) })
	case "clz":
		w := int(e.Args[0].DType().Bits)
		return c.unaryI(e.Type, e.Args[0], func(x int64) int64 {
			return int64(bits.LeadingZeros64(uint64(x)&(^uint64(0)>>(64-w))) - (64 - w))
		})
	case "isnan", "isinf", "isfinite":
		return c.classify(name, e)
	case "isnullptr":
		return c.unaryI(ir.DBool, e.Args[0], func(x int64) int64 { return b2i(x == 0) })
	case "likely":
		return c.expr(e.Args[0])
	case "if_then_else":
		return c.choose(e.Args[0], e.Args[1], e.Args[2])
	case "infinity":
		return c.splat(constF(e.Type.Scalar(), math.Inf(1)), e.Type)
	case "max_value", "min_value":
		return c.splat(limitOf(e.Type.Scalar(), name == "max_value"), e.Type)
	case "reinterpret":
		return c.reinterpret(e)
	case "clamp":
		lo := &ir.Binary{Op: ir.Max, A: e.Args[0], B: e.Args[1]}
		return c.binary(ir.Min, lo, e.Args[2])
	case "fma", "ieee_fmaf", "fma2":
		return c.fma(e)
	case "add2", "ieee_add":
		return c.binary(ir.Add, e.Args[0], e.Args[1])
	case "sub2", "ieee_sub":
		return c.binary(ir.Sub, e.Args[0], e.Args[1])
	case "mul2", "ieee_mul":
		return c.binary(ir.Mul, e.Args[0], e.Args[1])
	case "ieee_fdiv":
		return c.binary(ir.Div, e.Args[0], e.Args[1])
	case "max2":
		return c.binary(ir.Max, e.Args[0], e.Args[1])
	case "min2":
		return c.binary(ir.Min, e.Args[0], e.Args[1])
	case "pack_b16":
		return c.packB16(e)
	case "address_of":
		l, ok := e.Args[0].(*ir.BufferLoad)
		if !ok {
			c.fail("address_of a value")
		}
		return c.addressOf(l.Buffer, l.Indices)
	case "access_ptr":
		l, ok := e.Args[0].(*ir.BufferLoad)
		if !ok {
			c.fail("access_ptr of a value")
		}
		return c.addressOf(l.Buffer, l.Indices)
	case "tvm_access_ptr":
		return c.offsetPtr(e.Args[1], e.Args[2], int64(e.Args[0].DType().Bytes()))
	case "handle_add_byte_offset":
		return c.offsetPtr(e.Args[0], e.Args[1], 1)
	case "call_extern", "call_pure_extern":
		return c.extern(e)
	case "launch_thread_idx":
		return c.threadIdx(e)
	case "rng_rand", "rng_rand_float":
		return c.rngRand(e)
	case "tvm_struct_get":
		return c.structGet(e)
	case "tvm_stack_alloca":
		return c.stackAlloca(e)
	case "shfl_sync", "shfl_xor_sync", "shfl_down_sync", "shfl_up_sync":
		return c.shfl(name, e)
	case "tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down":
		to := "shfl" + strings.TrimPrefix(name, "tvm_warp_shuffle") + "_sync"
		return c.call(&ir.Call{Op: ir.MustOp(to), Type: e.Type, Args: e.Args[:4]})
	case "warp_reduce_sum", "warp_reduce_max", "warp_reduce_min", "warp_reduce_bitand", "warp_reduce_bitor":
		return c.warpReduce(name, e)
	case "any_sync", "all_sync", "ballot_sync", "activemask":
		return c.vote(name, e)
	case "tl_shuffle_elect":
		return c.elect(e)
	case "block_rank_in_cluster":
		return val{t: ir.DInt32, uni: true, ui: func(w *warp) int64 { return int64(w.b.rank) }}
	case "create_tma_descriptor", "create_tma_im2col_descriptor":
		return c.createTensorMap(e)
	case "tvm_tuple", "type_annotation":
		return constI(ir.DHandle, 0)
	case "atomic_add_ret_elem_op", "atomic_max_ret_elem_op", "atomic_min_ret_elem_op", "atomic_addx2_ret_elem_op", "atomic_addx4_ret_elem_op", "atomic_load_elem_op":
		return c.atomicRet(e)
	case "call_packed", "call_cpacked":
		return constI(ir.DInt32, 0).after(c.callPacked(e))
	case "region":
		c.cannot("a region where a value is needed")
	}
	if f := c.voidCall(e); f != nil {
		return constI(ir.DInt32, 0).after(f)
	}
	c.cannot("operator %s is unknown to the interpreter", e.Op.FullName())
	return val{}
}

// callStmt compiles a call for its effect.
func (c *comp) callStmt(e *ir.Call) stmtFn {
	m := c.mark()
	defer c.release(m)
	if e.Global != "" {
		return c.callFunc(e.Global, e.Args)
	}
	if e.Op != nil {
		if f := c.voidCall(e); f != nil {
			return f
		}
	}
	v := c.expr(e)
	return v.run()
}

func (c *comp) splat(v val, t ir.DType) val {
	if t.Lanes <= 1 {
		v.t = t
		return v
	}
	return c.broadcast(func(ir.Expr) val { return v }, &ir.Broadcast{Value: &ir.Var{Type: t.Scalar()}, Lanes: int(t.Lanes)})
}

func limitOf(t ir.DType, top bool) val {
	if t.IsFloat() {
		x := math.MaxFloat64
		switch kindOf(t) {
		case kF32, kTF32:
			x = math.MaxFloat32
		case kF16:
			x = 65504
		case kBF16:
			x = 0x1.fep127
		case kF64:
		default:
			x = formats[t.Code].Max()
		}
		if !top {
			x = -x
		}
		return constF(t, x)
	}
	b := int64(t.Bits)
	switch {
	case t.IsUInt() && !top:
		return constI(t, 0)
	case t.IsUInt() && b == 64:
		return constI(t, -1)
	case t.IsUInt():
		return constI(t, 1<<b-1)
	case top:
		return constI(t, int64(uint64(1)<<(b-1)-1))
	}
	return constI(t, -1<<(b-1))
}

// math1 are the functions of one float; those of integers are handled apart.
var math1 = map[string]func(float64) float64{
	"exp": math.Exp, "exp2": math.Exp2, "exp10": func(x float64) float64 { return math.Pow(10, x) },
	"log": math.Log, "log2": math.Log2, "log10": math.Log10, "log1p": math.Log1p,
	"sin": math.Sin, "cos": math.Cos, "tan": math.Tan, "sinh": math.Sinh, "cosh": math.Cosh,
	"asin": math.Asin, "acos": math.Acos, "atan": math.Atan, "asinh": math.Asinh, "acosh": math.Acosh,
	"atanh": math.Atanh, "tanh": math.Tanh, "erf": math.Erf, "sqrt": math.Sqrt,
	"sigmoid": func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	"rsqrt":   func(x float64) float64 { return 1 / math.Sqrt(x) },
	"floor":   math.Floor, "ceil": math.Ceil, "trunc": math.Trunc,
	// T.round is round-half-to-even on the device (nearbyint).
	"round": math.RoundToEven, "nearbyint": math.RoundToEven,
	"fabs": math.Abs, "abs": math.Abs, "abs2": math.Abs,
	"__exp": math.Exp, "__exp10": func(x float64) float64 { return math.Pow(10, x) },
	"__log": math.Log, "__log2": math.Log2, "__log10": math.Log10, "__tan": math.Tan, "__cos": math.Cos, "__sin": math.Sin,
	"ieee_frsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"ieee_frcp":   func(x float64) float64 { return 1 / x },
	"ieee_fsqrt":  math.Sqrt,
}

var math2 = map[string]func(x, y float64) float64{
	"pow": math.Pow, "fmod": math.Mod, "atan2": math.Atan2, "copysign": math.Copysign,
	"hypot": math.Hypot,
	"nextafter": func(x, y float64) float64 {
		return float64(math.Nextafter32(float32(x), float32(y)))
	},
	"ldexp": func(x, y float64) float64 { return math.Ldexp(x, int(y)) },
}

func (c *comp) binaryMath(t ir.DType, ea, eb ir.Expr, f func(x, y float64) float64) val {
	if !t.IsFloat() {
		return c.intPow(t, ea, eb, f)
	}
	n := max(int(t.Lanes), 1)
	at := c.tempF(n)
	m := c.mark()
	defer c.release(m)
	a, b := c.expr(ea), c.expr(eb)
	if !b.isFloat() {
		b = c.convert(b, t)
	}
	c.sameShape(a, b)
	s := t.Scalar()
	if a.uni && b.uni {
		return val{t: t, uni: true, uf: func(w *warp) float64 { return roundFloat(s, f(a.uf(w), b.uf(w))) }}
	}
	fa, fb := c.vecF(a), c.vecF(b)
	return val{t: t, vf: func(w *warp) []float64 {
		d := w.F[at : at+n*lanes]
		x, y := fa(w), fb(w)
		for i := range d {
			d[i] = f(x[i], y[i])
		}
		roundVec(s, d)
		return d
	}}
}

func (c *comp) intPow(t ir.DType, ea, eb ir.Expr, f func(x, y float64) float64) val {
	a, b := c.expr(ea), c.expr(eb)
	c.sameShape(a, b)
	n := a.n()
	at := c.tempI(n)
	fa, fb := c.vecI(a), c.vecI(b)
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		x, y := fa(w), fb(w)
		for i := range d {
			d[i] = wrap1(t, int64(f(float64(x[i]), float64(y[i]))))
		}
		return d
	}}
}

func (c *comp) fma(e *ir.Call) val {
	t := e.Type
	n := max(int(t.Lanes), 1)
	at := c.tempF(n)
	m := c.mark()
	defer c.release(m)
	fa, fb, fc := c.vecF(c.expr(e.Args[0])), c.vecF(c.expr(e.Args[1])), c.vecF(c.expr(e.Args[2]))
	s := t.Scalar()
	f64 := kindOf(s) == kF64
	return val{t: t, vf: func(w *warp) []float64 {
		d := w.F[at : at+n*lanes]
		x, y, z := fa(w), fb(w), fc(w)
		for i := range d {
			if f64 {
				d[i] = math.FMA(x[i], y[i], z[i])
			} else {
				d[i] = x[i]*y[i] + z[i]
			}
		}
		roundVec(s, d)
		return d
	}}
}

func (c *comp) bitwise(name string, e *ir.Call) val {
	t := e.Args[0].DType()
	if u := e.Args[1].DType(); u.Lanes > t.Lanes {
		t = t.WithLanes(int(u.Lanes))
	}
	n := max(int(t.Lanes), 1)
	at := c.tempI(n)
	m := c.mark()
	defer c.release(m)
	a, b := c.expr(e.Args[0]), c.expr(e.Args[1])
	if a.n() < n {
		a = c.splat(a, t)
	}
	if b.n() < n {
		b = c.splat(b, b.t.WithLanes(n))
	}
	w64 := uint64(t.Bits)
	uns := !t.IsInt()
	var f func(x, y int64) int64
	switch name {
	case "bitwise_and":
		f = func(x, y int64) int64 { return x & y }
	case "bitwise_or":
		f = func(x, y int64) int64 { return x | y }
	case "bitwise_xor":
		f = func(x, y int64) int64 { return x ^ y }
	case "shift_left":
		f = func(x, y int64) int64 {
			if uint64(y) >= w64 {
				return 0
			}
			return wrap1(t, x<<uint(y))
		}
	default:
		f = func(x, y int64) int64 {
			if uint64(y) >= w64 {
				y = int64(w64 - 1)
				if uns {
					return 0
				}
			}
			if uns {
				return int64(uint64(x) >> uint(y))
			}
			return x >> uint(y)
		}
	}
	if a.uni && b.uni {
		if a.cst != nil && b.cst != nil {
			return constI(t, f(a.cst.i, b.cst.i))
		}
		fa, fb := a.ui, b.ui
		return val{t: t, uni: true, ui: func(w *warp) int64 { return f(fa(w), fb(w)) }}
	}
	if b.cst != nil && a.vi != nil && b.cst.i >= 0 && !(name[0] == 's' && uint64(b.cst.i) >= w64) {
		fa, k := a.vi, b.cst.i
		switch {
		case name == "bitwise_and":
			return val{t: t, vi: func(w *warp) []int64 {
				d := w.I[at : at+n*lanes]
				for i, x := range fa(w)[:len(d)] {
					d[i] = x & k
				}
				return d
			}}
		case name == "shift_right" && !uns:
			return val{t: t, vi: func(w *warp) []int64 {
				d := w.I[at : at+n*lanes]
				for i, x := range fa(w)[:len(d)] {
					d[i] = x >> uint(k)
				}
				return d
			}}
		}
	}
	fa, fb := c.vecI(a), c.vecI(b)
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		x, y := fa(w), fb(w)
		for i := range d {
			d[i] = f(x[i], y[i])
		}
		return d
	}}
}

func (c *comp) classify(name string, e *ir.Call) val {
	t := e.Args[0].DType()
	n := max(int(t.Lanes), 1)
	rt := ir.DBool.WithLanes(n)
	if !t.IsFloat() {
		return c.splat(constI(ir.DBool, b2i(name == "isfinite")), rt)
	}
	at := c.tempI(n)
	m := c.mark()
	defer c.release(m)
	f := c.vecF(c.expr(e.Args[0]))
	return val{t: rt, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		for i, x := range f(w)[:len(d)] {
			switch name {
			case "isnan":
				d[i] = b2i(x != x)
			case "isinf":
				d[i] = b2i(math.IsInf(x, 0))
			default:
				d[i] = b2i(x == x && !math.IsInf(x, 0))
			}
		}
		return d
	}}
}

// reinterpret goes through the bytes of the value.
func (c *comp) reinterpret(e *ir.Call) val {
	from, to := e.Args[0].DType(), e.Type
	if !from.IsFloat() && !to.IsFloat() && from.Lanes == to.Lanes && from.Bits == to.Bits {
		v := c.expr(e.Args[0])
		v.t = to
		if v.cst != nil {
			return constI(to, wrap1(to, v.cst.i))
		}
		if v.ui != nil {
			f := v.ui
			return val{t: to, uni: true, ui: func(w *warp) int64 { return wrap1(to, f(w)) }}
		}
	}
	fe, te := elemOf(from), elemOf(to)
	nf, nt := max(int(from.Lanes), 1), max(int(to.Lanes), 1)
	size := max(fe.span(nf), te.span(nt))
	var at int
	if te.fl {
		at = c.tempF(nt)
	} else {
		at = c.tempI(nt)
	}
	m := c.mark()
	defer c.release(m)
	v := c.expr(e.Args[0])
	var vi func(*warp) []int64
	var vf func(*warp) []float64
	if fe.fl {
		vf = c.vecF(v)
	} else {
		vi = c.vecI(v)
	}
	pack := func(w *warp, put func(l int, b []byte)) {
		buf := make([]byte, size)
		var xi []int64
		var xf []float64
		if fe.fl {
			xf = vf(w)
		} else {
			xi = vi(w)
		}
		for l := range lanes {
			clear(buf)
			for j := range nf {
				if fe.fl {
					fe.putF(buf, j, xf[l*nf+j])
				} else {
					fe.putI(buf, j, xi[l*nf+j])
				}
			}
			put(l, buf)
		}
	}
	if te.fl {
		return val{t: to, vf: func(w *warp) []float64 {
			d := w.F[at : at+nt*lanes]
			pack(w, func(l int, b []byte) {
				for j := range nt {
					d[l*nt+j] = te.getF(b, j)
				}
			})
			return d
		}}
	}
	return val{t: to, vi: func(w *warp) []int64 {
		d := w.I[at : at+nt*lanes]
		pack(w, func(l int, b []byte) {
			for j := range nt {
				d[l*nt+j] = te.getI(b, j)
			}
		})
		return d
	}}
}

// packB16 puts two 16-bit values into 32 bits, the first one low.
func (c *comp) packB16(e *ir.Call) val {
	at := c.tempI(1)
	m := c.mark()
	defer c.release(m)
	half := func(e ir.Expr) func(w *warp, l int) int64 {
		v := c.expr(e)
		if v.isFloat() {
			el, f := elemOf(v.t), c.vecF(v)
			var b [8]byte
			return func(w *warp, l int) int64 {
				buf := b
				el.putF(buf[:], 0, f(w)[l])
				return int64(buf[0]) | int64(buf[1])<<8
			}
		}
		f := c.vecI(v)
		return func(w *warp, l int) int64 { return f(w)[l] & 0xffff }
	}
	lo, hi := half(e.Args[0]), half(e.Args[1])
	return val{t: ir.DUInt32, vi: func(w *warp) []int64 {
		d := w.I[at : at+lanes]
		for l := range d {
			d[l] = lo(w, l) | hi(w, l)<<16
		}
		return d
	}}
}

// offsetPtr moves a pointer by a number of units.
func (c *comp) offsetPtr(ptr, off ir.Expr, unit int64) val {
	at := c.tempI(1)
	m := c.mark()
	defer c.release(m)
	p, o := c.expr(ptr), c.expr(off)
	if p.uni && o.uni {
		fp, fo := p.ui, o.ui
		return val{t: ir.DHandle, uni: true, ui: func(w *warp) int64 { return ptrAdd(fp(w), fo(w)*unit) }}
	}
	fp, fo := c.vecI(p), c.vecI(o)
	return val{t: ir.DHandle, vi: func(w *warp) []int64 {
		d := w.I[at : at+lanes]
		x, y := fp(w), fo(w)
		for l := range d {
			d[l] = ptrAdd(x[l], y[l]*unit)
		}
		return d
	}}
}

// voidCall compiles the operators that give no value; nil for others.
func (c *comp) voidCall(e *ir.Call) stmtFn {
	name := e.Op.Name
	switch name {
	case "tvm_storage_sync":
		return c.storageSync(e)
	case "sync_warp":
		return nop
	case "sync_grid":
		st := c.site("")
		return func(w *warp) { w.yield(event{kind: evGrid, st: st, mask: w.mask}) }
	case "cluster_sync":
		st := c.site("")
		return func(w *warp) { w.yield(event{kind: evCluster, st: st, mask: w.mask}) }
	case "cluster_arrive":
		return nop // cluster_wait meets the others
	case "cluster_wait":
		st := c.site("")
		return func(w *warp) { w.yield(event{kind: evCluster, st: st, mask: w.mask}) }
	case "pdl_sync", "pdl_trigger", "ptx_fence_barrier_init", "set_max_nreg", "no_set_max_nreg",
		"prefetch_tma_descriptor", "warpgroup_fence_operand":
		return nop
	case "fence_proxy_async":
		return func(w *warp) { w.fence() }
	case "rng_init":
		return c.rngInit(e)
	case "ret":
		return func(w *warp) { w.returnThread() }
	case "thread_return":
		return func(w *warp) { w.returnThread() }
	case "break_loop":
		return func(w *warp) { w.breakLoop() }
	case "continue_loop":
		return func(w *warp) { w.continueLoop() }
	case "device_assert", "device_assert_with_msg":
		cond := c.vecI(c.expr(e.Args[0]))
		msg := "device assertion failed"
		if len(e.Args) > 1 {
			if s, ok := e.Args[1].(*ir.StringImm); ok {
				msg += ": " + s.Value
			}
		}
		st := c.site("")
		return func(w *warp) {
			if bad := w.mask &^ maskOf(cond(w)); bad != 0 {
				w.find(AssertFailed, st, firstLane(bad), "%s", msg)
				panic(&Error{Span: st.span, Msg: msg})
			}
		}
	case "ptx_mma":
		return c.mma(e)
	case "ptx_ldmatrix":
		return c.ldmatrix(e)
	case "ptx_stmatrix":
		return c.stmatrix(e)
	case "ptx_cp_async":
		return c.cpAsync(e)
	case "ptx_commit_group":
		return func(w *warp) { w.commitGroup() }
	case "ptx_wait_group":
		n := c.uniI(c.expr(e.Args[0]))
		return func(w *warp) { w.waitGroup(int(n(w))) }
	case "tvm_thread_allreduce":
		return c.threadAllreduce(e)
	case "atomic_add_elem_op", "atomic_max_elem_op", "atomic_min_elem_op", "atomic_addx2_elem_op", "atomic_addx4_elem_op", "atomic_store_elem_op":
		return c.atomic(e)
	case "tvm_struct_set":
		return c.structSet(e)
	}
	return c.hopperCall(e)
}

// storageSync compiles a barrier: scope, then for named barriers the number and
// the count of threads.
func (c *comp) storageSync(e *ir.Call) stmtFn {
	st := c.site("")
	if s, ok := e.Args[0].(*ir.StringImm); ok && (s.Value == "warp" || strings.HasPrefix(s.Value, "local")) {
		return nop
	}
	if len(e.Args) == 3 {
		id, n := c.uniI(c.expr(e.Args[1])), c.uniI(c.expr(e.Args[2]))
		return func(w *warp) { w.barrier(int(id(w))+1, int(n(w)), st) }
	}
	return func(w *warp) { w.barrier(0, 0, st) }
}

// endThread ends a warp's program: what is still under way completes.
func (w *warp) endThread() {
	w.finishAsync()
}
