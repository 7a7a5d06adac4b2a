package interp

import (
	"math"
	"math/bits"

	"lowertrace/internal/ir"
)

// cval is a compile-time constant.
type cval struct {
	i int64
	f float64
}

// val is a compiled expression. A uniform value (one lane, the same for all
// threads of a warp) has ui or uf; others have vi or vf, which give 32*Lanes
// numbers, lane by lane: valid until the registers of the expression are used
// again.
type val struct {
	t   ir.DType
	uni bool
	cst *cval
	ui  func(*warp) int64
	uf  func(*warp) float64
	vi  func(*warp) []int64
	vf  func(*warp) []float64
}

func (v *val) isFloat() bool { return v.t.IsFloat() }

func (v *val) n() int { return max(int(v.t.Lanes), 1) }

// run evaluates for effect.
func (v val) run() stmtFn {
	switch {
	case v.ui != nil:
		return func(w *warp) { v.ui(w) }
	case v.uf != nil:
		return func(w *warp) { v.uf(w) }
	case v.vi != nil:
		return func(w *warp) { v.vi(w) }
	case v.vf != nil:
		return func(w *warp) { v.vf(w) }
	}
	return nop
}

func constI(t ir.DType, x int64) val {
	return val{t: t, uni: true, cst: &cval{i: x}, ui: func(*warp) int64 { return x }}
}

func constF(t ir.DType, x float64) val {
	return val{t: t, uni: true, cst: &cval{f: x}, uf: func(*warp) float64 { return x }}
}

// vecI gives a value as 32*n integers.
func (c *comp) vecI(v val) func(*warp) []int64 {
	if v.isFloat() {
		c.fail("an integer is needed, got %s", v.t)
	}
	if v.vi != nil {
		return v.vi
	}
	if v.cst != nil {
		k := make([]int64, lanes)
		for i := range k {
			k[i] = v.cst.i
		}
		return func(*warp) []int64 { return k }
	}
	// Not a temporary: operands compiled after v must not overwrite it.
	at, f := c.sizes.vi, v.ui
	c.sizes.vi += lanes
	return func(w *warp) []int64 {
		x := f(w)
		d := w.VI[at : at+lanes]
		for i := range d {
			d[i] = x
		}
		return d
	}
}

// vecF gives a value as 32*n floats.
func (c *comp) vecF(v val) func(*warp) []float64 {
	if !v.isFloat() {
		c.fail("a float is needed, got %s", v.t)
	}
	if v.vf != nil {
		return v.vf
	}
	if v.cst != nil {
		k := make([]float64, lanes)
		for i := range k {
			k[i] = v.cst.f
		}
		return func(*warp) []float64 { return k }
	}
	at, f := c.sizes.vf, v.uf
	c.sizes.vf += lanes
	return func(w *warp) []float64 {
		x := f(w)
		d := w.VF[at : at+lanes]
		for i := range d {
			d[i] = x
		}
		return d
	}
}

// uniI gives a value as one integer; a value that differs between lanes is
// taken from the first active lane.
func (c *comp) uniI(v val) func(*warp) int64 {
	if v.isFloat() {
		c.fail("an integer is needed, got %s", v.t)
	}
	if v.ui != nil {
		return v.ui
	}
	f, n := v.vi, v.n()
	return func(w *warp) int64 { return f(w)[firstLane(w.mask)*n] }
}

func firstLane(m uint32) int {
	if m == 0 {
		return 0
	}
	return bits.TrailingZeros32(m)
}

// wrapVec reduces integers to a type.
func wrapVec(t ir.DType, d []int64) {
	switch {
	case t.Code == ir.Int && t.Bits == 32:
		for i, x := range d {
			d[i] = int64(int32(x))
		}
	case t.Code == ir.UInt && t.Bits == 32:
		for i, x := range d {
			d[i] = int64(uint32(x))
		}
	case t.Code == ir.Handle || t.Bits == 64:
	default:
		s := t.Scalar()
		for i, x := range d {
			d[i] = ir.WrapInt(s, x)
		}
	}
}

func wrap1(t ir.DType, x int64) int64 {
	switch {
	case t.Code == ir.Int && t.Bits == 32:
		return int64(int32(x))
	case t.Code == ir.Handle || t.Bits == 64:
		return x
	}
	return ir.WrapInt(t.Scalar(), x)
}

func roundVec(t ir.DType, d []float64) {
	switch kindOf(t.Scalar()) {
	case kF64:
	case kF32:
		for i, x := range d {
			d[i] = float64(float32(x))
		}
	default:
		s := t.Scalar()
		for i, x := range d {
			d[i] = roundFloat(s, x)
		}
	}
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// expr compiles an expression.
func (c *comp) expr(e ir.Expr) val {
	c.nest++
	if c.nest > maxNesting {
		c.fail("expressions are nested too deeply")
	}
	defer func() { c.nest-- }()
	switch e := e.(type) {
	case *ir.IntImm:
		return constI(e.Type, ir.WrapInt(e.Type.Scalar(), e.Value))
	case *ir.FloatImm:
		return constF(e.Type, roundFloat(e.Type.Scalar(), e.Value))
	case *ir.Var:
		return c.variable(e)
	case *ir.Cast:
		return c.convert(c.expr(e.Value), e.Type)
	case *ir.Binary:
		if e.Op.IsLogical() {
			return c.logical(e)
		}
		return c.binary(e.Op, e.A, e.B)
	case *ir.Not:
		return c.unaryI(ir.DBool.WithLanes(int(e.DType().Lanes)), e.A, func(x int64) int64 { return 1 - x })
	case *ir.Select:
		// Lazy: in CUDA it is a conditional expression, and simplification, here as
		// in TVM, uses the condition within the sides.
		return c.choose(e.Cond, e.True, e.False)
	case *ir.Ramp:
		return c.ramp(e)
	case *ir.Broadcast:
		return c.broadcast(c.expr, e)
	case *ir.Shuffle:
		return c.shuffle(e)
	case *ir.Let:
		v := c.expr(e.Value)
		s := c.define(e.Var, v.uni)
		set := c.setter(s, v)
		b := c.expr(e.Body)
		return b.after(set)
	case *ir.BufferLoad:
		return c.load(e)
	case *ir.Call:
		return c.call(e)
	case *ir.StringImm:
		p := c.r.addObject(e.Value)
		return constI(ir.DHandle, p)
	case *ir.Hidden:
		c.cannot("the text hides %s behind metadata", e.Type)
	}
	c.fail("expression %T cannot be run", e)
	return val{}
}

// after runs f before the value is computed.
func (v val) after(f stmtFn) val {
	v.cst = nil
	switch {
	case v.ui != nil:
		g := v.ui
		v.ui = func(w *warp) int64 { f(w); return g(w) }
	case v.uf != nil:
		g := v.uf
		v.uf = func(w *warp) float64 { f(w); return g(w) }
	case v.vi != nil:
		g := v.vi
		v.vi = func(w *warp) []int64 { f(w); return g(w) }
	case v.vf != nil:
		g := v.vf
		v.vf = func(w *warp) []float64 { f(w); return g(w) }
	}
	return v
}

func (c *comp) variable(v *ir.Var) val {
	if e := c.lazy[v]; e != nil {
		return c.expr(e)
	}
	s := c.vars[v]
	if s == nil {
		if alt := c.free[v.Name]; alt != nil && v.Type.IsHandle() {
			s = c.vars[alt]
		}
	}
	if s == nil || s.undefd {
		c.cannot("variable %s has no value", v.Name)
	}
	if s.cst != nil {
		return *s.cst
	}
	x := s.val()
	x.t = v.Type
	return x
}

func (c *comp) unaryI(t ir.DType, a ir.Expr, f func(int64) int64) val {
	n := max(int(t.Lanes), 1)
	at := c.tempI(n)
	m := c.mark()
	v := c.expr(a)
	defer c.release(m)
	if v.uni {
		g := v.ui
		return val{t: t, uni: true, ui: func(w *warp) int64 { return f(g(w)) }}
	}
	g := v.vi
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		for i, x := range g(w)[:len(d)] {
			d[i] = f(x)
		}
		return d
	}}
}

func (c *comp) unaryF(t ir.DType, a ir.Expr, f func(float64) float64) val {
	n := max(int(t.Lanes), 1)
	at := c.tempF(n)
	m := c.mark()
	v := c.expr(a)
	defer c.release(m)
	s := t.Scalar()
	if v.uni {
		g := v.uf
		if g == nil {
			c.fail("a float is needed, got %s", v.t)
		}
		return val{t: t, uni: true, uf: func(w *warp) float64 { return roundFloat(s, f(g(w))) }}
	}
	g := c.vecF(v)
	return val{t: t, vf: func(w *warp) []float64 {
		d := w.F[at : at+n*lanes]
		for i, x := range g(w)[:len(d)] {
			d[i] = f(x)
		}
		roundVec(s, d)
		return d
	}}
}

// binary compiles an operator that evaluates both sides.
func (c *comp) binary(op ir.BinOp, ea, eb ir.Expr) val {
	t := ea.DType()
	n := max(int(t.Lanes), 1)
	if t.IsFloat() {
		return c.binaryF(op, ea, eb)
	}
	at := c.tempI(n)
	m := c.mark()
	defer c.release(m)
	a, b := c.expr(ea), c.expr(eb)
	c.sameShape(a, b)
	rt := t
	if op.IsComparison() {
		rt = ir.DBool.WithLanes(n)
	}
	st := c.site("")
	uns := t.IsUInt()
	if a.uni && b.uni {
		if a.cst != nil && b.cst != nil && !((op == ir.Div || op == ir.TruncMod || op == ir.FloorDiv || op == ir.FloorMod) && b.cst.i == 0) {
			return constI(rt, wrap1(rt, intOp(op, uns, a.cst.i, b.cst.i)))
		}
		fa, fb := a.ui, b.ui
		switch op {
		case ir.Div, ir.TruncMod, ir.FloorDiv, ir.FloorMod:
			return val{t: rt, uni: true, ui: func(w *warp) int64 {
				x, y := fa(w), fb(w)
				if y == 0 {
					w.find(DivByZero, st, -1, "division of %d by zero", x)
					return 0
				}
				return wrap1(rt, intOp(op, uns, x, y))
			}}
		case ir.Add:
			return val{t: rt, uni: true, ui: func(w *warp) int64 { return wrap1(rt, fa(w)+fb(w)) }}
		case ir.Mul:
			return val{t: rt, uni: true, ui: func(w *warp) int64 { return wrap1(rt, fa(w)*fb(w)) }}
		}
		return val{t: rt, uni: true, ui: func(w *warp) int64 { return wrap1(rt, intOp(op, uns, fa(w), fb(w))) }}
	}
	fa, fb := c.vecI(a), c.vecI(b)
	div := op == ir.Div || op == ir.TruncMod || op == ir.FloorDiv || op == ir.FloorMod
	if div && b.cst != nil && b.cst.i > 0 {
		return c.divConst(op, rt, at, n, fa, b.cst.i, uns)
	}
	needWrap := op == ir.Add || op == ir.Sub || op == ir.Mul || op == ir.Div || op == ir.FloorDiv
	return val{t: rt, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		x, y := fa(w)[:len(d)], fb(w)[:len(d)]
		switch op {
		case ir.Add:
			for i := range d {
				d[i] = x[i] + y[i]
			}
		case ir.Sub:
			for i := range d {
				d[i] = x[i] - y[i]
			}
		case ir.Mul:
			for i := range d {
				d[i] = x[i] * y[i]
			}
		case ir.EQ:
			for i := range d {
				d[i] = b2i(x[i] == y[i])
			}
		case ir.LT:
			if !uns {
				for i := range d {
					d[i] = b2i(x[i] < y[i])
				}
				break
			}
			fallthrough
		default:
			for i := range d {
				if div && y[i] == 0 {
					if w.mask>>(i/n)&1 != 0 {
						w.find(DivByZero, st, i/n, "division of %d by zero", x[i])
					}
					d[i] = 0
					continue
				}
				d[i] = intOp(op, uns, x[i], y[i])
			}
		}
		if needWrap {
			wrapVec(rt, d)
		}
		return d
	}}
}

// divConst divides by a positive constant.
func (c *comp) divConst(op ir.BinOp, t ir.DType, at, n int, fa func(*warp) []int64, k int64, uns bool) val {
	floor := (op == ir.FloorDiv || op == ir.FloorMod) && !(uns && t.Bits == 64)
	if floor && k&(k-1) == 0 {
		sh, mask := bits.TrailingZeros64(uint64(k)), k-1
		if op == ir.FloorDiv {
			return val{t: t, vi: func(w *warp) []int64 {
				d := w.I[at : at+n*lanes]
				for i, x := range fa(w)[:len(d)] {
					d[i] = x >> sh
				}
				return d
			}}
		}
		return val{t: t, vi: func(w *warp) []int64 {
			d := w.I[at : at+n*lanes]
			for i, x := range fa(w)[:len(d)] {
				d[i] = x & mask
			}
			return d
		}}
	}
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		for i, x := range fa(w)[:len(d)] {
			d[i] = intOp(op, uns, x, k)
		}
		return d
	}}
}

func (c *comp) sameShape(a, b val) {
	if a.n() != b.n() || a.isFloat() != b.isFloat() {
		c.fail("operands of types %s and %s", a.t, b.t)
	}
}

// intOp applies an operator to two integers; the divisor is not 0. Operands of
// unsigned types are zero-extended.
func intOp(op ir.BinOp, uns bool, x, y int64) int64 {
	switch op {
	case ir.Add:
		return x + y
	case ir.Sub:
		return x - y
	case ir.Mul:
		return x * y
	case ir.Div, ir.TruncMod, ir.FloorDiv, ir.FloorMod:
		if uns {
			if op == ir.Div || op == ir.FloorDiv {
				return int64(uint64(x) / uint64(y))
			}
			return int64(uint64(x) % uint64(y))
		}
		switch op {
		case ir.Div:
			return x / y
		case ir.TruncMod:
			return x % y
		case ir.FloorDiv:
			return ir.FloorDivInt(x, y)
		}
		return ir.FloorModInt(x, y)
	case ir.EQ:
		return b2i(x == y)
	case ir.NE:
		return b2i(x != y)
	}
	lt := x < y
	if uns {
		lt = uint64(x) < uint64(y)
	}
	switch op {
	case ir.Min:
		if lt {
			return x
		}
		return y
	case ir.Max:
		if lt {
			return y
		}
		return x
	case ir.LT:
		return b2i(lt)
	case ir.LE:
		return b2i(lt || x == y)
	case ir.GT:
		return b2i(!lt && x != y)
	}
	return b2i(!lt)
}

// floatMin and floatMax are CUDA's fminf and fmaxf: a NaN loses to a number.
func floatMin(x, y float64) float64 {
	if x != x {
		return y
	}
	if y != y || x < y {
		return x
	}
	if x == y && math.Signbit(x) {
		return x
	}
	return y
}

func floatMax(x, y float64) float64 {
	if x != x {
		return y
	}
	if y != y || x > y {
		return x
	}
	if x == y && !math.Signbit(x) {
		return x
	}
	return y
}

func floatOp(op ir.BinOp, x, y float64) float64 {
	switch op {
	case ir.Add:
		return x + y
	case ir.Sub:
		return x - y
	case ir.Mul:
		return x * y
	case ir.Div:
		return x / y
	case ir.FloorDiv:
		return math.Floor(x / y)
	case ir.TruncMod:
		return math.Mod(x, y)
	case ir.FloorMod:
		return x - math.Floor(x/y)*y
	case ir.Min:
		return floatMin(x, y)
	}
	return floatMax(x, y)
}

func floatCmp(op ir.BinOp, x, y float64) bool {
	switch op {
	case ir.EQ:
		return x == y
	case ir.NE:
		return x != y
	case ir.LT:
		return x < y
	case ir.LE:
		return x <= y
	case ir.GT:
		return x > y
	}
	return x >= y
}

func (c *comp) binaryF(op ir.BinOp, ea, eb ir.Expr) val {
	t := ea.DType()
	n := max(int(t.Lanes), 1)
	at, ati := 0, 0
	if op.IsComparison() {
		ati = c.tempI(n)
	} else {
		at = c.tempF(n)
	}
	m := c.mark()
	defer c.release(m)
	a, b := c.expr(ea), c.expr(eb)
	c.sameShape(a, b)
	s := t.Scalar()
	if op.IsComparison() {
		rt := ir.DBool.WithLanes(n)
		if a.uni && b.uni {
			fa, fb := a.uf, b.uf
			return val{t: rt, uni: true, ui: func(w *warp) int64 { return b2i(floatCmp(op, fa(w), fb(w))) }}
		}
		fa, fb := c.vecF(a), c.vecF(b)
		return val{t: rt, vi: func(w *warp) []int64 {
			d := w.I[ati : ati+n*lanes]
			x, y := fa(w)[:len(d)], fb(w)[:len(d)]
			for i := range d {
				d[i] = b2i(floatCmp(op, x[i], y[i]))
			}
			return d
		}}
	}
	if a.uni && b.uni {
		fa, fb := a.uf, b.uf
		return c.counted(val{t: t, uni: true, uf: func(w *warp) float64 { return roundFloat(s, floatOp(op, fa(w), fb(w))) }}, 1)
	}
	fa, fb := c.vecF(a), c.vecF(b)
	return c.counted(val{t: t, vf: func(w *warp) []float64 {
		d := w.F[at : at+n*lanes]
		x, y := fa(w)[:len(d)], fb(w)[:len(d)]
		switch op {
		case ir.Add:
			for i := range d {
				d[i] = x[i] + y[i]
			}
		case ir.Sub:
			for i := range d {
				d[i] = x[i] - y[i]
			}
		case ir.Mul:
			for i := range d {
				d[i] = x[i] * y[i]
			}
		default:
			for i := range d {
				d[i] = floatOp(op, x[i], y[i])
			}
		}
		roundVec(s, d)
		return d
	}}, n)
}

// effectful reports that evaluating e for a lane that does not need it could do
// harm: it reads memory, divides, or calls.
func effectful(e ir.Expr) bool {
	hit := false
	ir.WalkExpr(e, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad, *ir.Call:
			hit = true
		case *ir.Binary:
			hit = hit || e.Op >= ir.Div && e.Op <= ir.FloorMod
		}
		return !hit
	})
	return hit
}

func (c *comp) logical(e *ir.Binary) val {
	n := max(int(e.DType().Lanes), 1)
	t := ir.DBool.WithLanes(n)
	at := c.tempI(n)
	m := c.mark()
	defer c.release(m)
	a, b := c.expr(e.A), c.expr(e.B)
	c.sameShape(a, b)
	and := e.Op == ir.And
	if a.uni && b.uni {
		fa, fb := a.ui, b.ui
		if and {
			return val{t: t, uni: true, ui: func(w *warp) int64 {
				if fa(w) == 0 {
					return 0
				}
				return fb(w)
			}}
		}
		return val{t: t, uni: true, ui: func(w *warp) int64 {
			if fa(w) != 0 {
				return 1
			}
			return fb(w)
		}}
	}
	fa, fb := c.vecI(a), c.vecI(b)
	lazy := n == 1 && effectful(e.B)
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		x := fa(w)[:len(d)]
		if lazy {
			saved := w.mask
			need := maskOf(x)
			if !and {
				need = ^need
			}
			copy(d, x)
			if w.mask &= need; w.mask != 0 {
				y := fb(w)
				for i := range d {
					if need>>i&1 != 0 {
						d[i] = y[i]
					}
				}
			}
			w.mask = saved
			return d
		}
		y := fb(w)[:len(d)]
		if and {
			for i := range d {
				d[i] = x[i] & y[i]
			}
		} else {
			for i := range d {
				d[i] = x[i] | y[i]
			}
		}
		return d
	}}
}

// choose compiles Select and if_then_else: a side is evaluated for the threads
// that need it.
func (c *comp) choose(cond, yes, no ir.Expr) val {
	k := c.expr(cond)
	if k.uni && k.cst != nil {
		// The chosen side is the result: its temporaries are not given back.
		if k.cst.i != 0 {
			return c.expr(yes)
		}
		return c.expr(no)
	}
	t := yes.DType()
	n := max(int(t.Lanes), 1)
	var at int
	fl := t.IsFloat()
	if fl {
		at = c.tempF(n)
	} else {
		at = c.tempI(n)
	}
	m := c.mark()
	defer c.release(m)
	a, b := c.expr(yes), c.expr(no)
	c.sameShape(a, b)
	if k.uni && a.uni && b.uni {
		kf := k.ui
		if fl {
			return val{t: t, uni: true, uf: func(w *warp) float64 {
				if kf(w) != 0 {
					return a.uf(w)
				}
				return b.uf(w)
			}}
		}
		return val{t: t, uni: true, ui: func(w *warp) int64 {
			if kf(w) != 0 {
				return a.ui(w)
			}
			return b.ui(w)
		}}
	}
	lazy := effectful(yes) || effectful(no)
	kf, kn := c.vecI(k), k.n()
	if kn != 1 && kn != n {
		c.fail("condition of %d lanes for values of %d", kn, n)
	}
	pick := func(x []int64, i int) bool {
		if kn == 1 {
			return x[i/n] != 0
		}
		return x[i] != 0
	}
	// mask of the lanes that need a side
	needs := func(x []int64, yes bool) uint32 {
		var m uint32
		for l := range lanes {
			for j := range kn {
				if (x[l*kn+j] != 0) == yes {
					m |= 1 << l
				}
			}
		}
		return m
	}
	if fl {
		fa, fb := c.vecF(a), c.vecF(b)
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+n*lanes]
			x := kf(w)
			saved := w.mask
			if w.mask = saved & needs(x, true); !lazy || w.mask != 0 {
				if !lazy {
					w.mask = saved
				}
				for i, y := range fa(w)[:len(d)] {
					if pick(x, i) {
						d[i] = y
					}
				}
			}
			if w.mask = saved & needs(x, false); !lazy || w.mask != 0 {
				if !lazy {
					w.mask = saved
				}
				for i, y := range fb(w)[:len(d)] {
					if !pick(x, i) {
						d[i] = y
					}
				}
			}
			w.mask = saved
			return d
		}}
	}
	fa, fb := c.vecI(a), c.vecI(b)
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		x := kf(w)
		saved := w.mask
		if w.mask = saved & needs(x, true); !lazy || w.mask != 0 {
			if !lazy {
				w.mask = saved
			}
			for i, y := range fa(w)[:len(d)] {
				if pick(x, i) {
					d[i] = y
				}
			}
		}
		if w.mask = saved & needs(x, false); !lazy || w.mask != 0 {
			if !lazy {
				w.mask = saved
			}
			for i, y := range fb(w)[:len(d)] {
				if !pick(x, i) {
					d[i] = y
				}
			}
		}
		w.mask = saved
		return d
	}}
}
