package interp

import (
	"math"

	"lowertrace/internal/ir"
)

// collective compiles a statement that all warps of the block, or of a
// warp-specialised part of it, perform together: the first one does the work.
func (c *comp) collective(f stmtFn) stmtFn {
	if c.coll {
		return f
	}
	st := c.site("")
	return func(w *warp) {
		w.yield(event{kind: evCollective, st: st})
		if !w.leader {
			return
		}
		w.coll = true
		saved := w.mask
		f(w)
		w.mask = saved
		w.coll = false
	}
}

// parallel compiles a nest of T.parallel loops: its iterations are spread over
// the lanes, 32 at a time, in row-major order.
func (c *comp) parallel(s *ir.For) stmtFn {
	type dim struct {
		lo, ext func(*warp) int64
		slot    *slot
	}
	var nest []*ir.For
	body := ir.Stmt(s)
	for {
		f, ok := body.(*ir.For)
		if !ok || f.Kind != ir.Parallel {
			break
		}
		dependent := false
		for _, o := range nest {
			uses := func(v *ir.Var) bool { return v == o.Var }
			dependent = dependent || ir.UsesVar(f.Extent, uses) || ir.UsesVar(f.Min, uses)
		}
		if dependent {
			c.cannot("a parallel loop whose extent depends on an outer one")
		}
		nest = append(nest, f)
		body = f.Body
	}
	c.coll = true
	var dims []dim
	for _, f := range nest {
		lo, ext := c.uniI(c.expr(f.Min)), c.uniI(c.expr(f.Extent))
		c.setRange(f)
		dims = append(dims, dim{lo, ext, c.define(f.Var, false)})
	}
	run := c.stmt(body)
	c.coll = false
	serial := accumulates(nest, body)
	span := c.span
	return c.collective(func(w *warp) {
		total := int64(1)
		ext := make([]int64, len(dims))
		lo := make([]int64, len(dims))
		for i, d := range dims {
			ext[i], lo[i] = d.ext(w), d.lo(w)
			if ext[i] <= 0 {
				return
			}
			total *= ext[i]
		}
		for first := int64(0); first < total; first += lanes {
			w.mask = ^uint32(0)
			if rest := total - first; rest < lanes {
				w.mask = 1<<rest - 1
			}
			for l := range int64(lanes) {
				x := first + l
				for i := len(dims) - 1; i >= 0; i-- {
					w.VI[dims[i].slot.at+int(l)] = lo[i] + x%ext[i]
					x /= ext[i]
				}
			}
			w.step(span)
			off := w.off
			w.off = 0
			if serial {
				all := w.mask
				for l := range lanes {
					if w.mask = all & (1 << l); w.mask != 0 {
						run(w)
					}
				}
			} else {
				run(w)
			}
			w.off = off
		}
	})
}

// accumulates reports that iterations of a parallel nest add to one element by
// plain stores: a store whose value reads the buffer and whose indices leave out
// one of the loops, or one that is marked as a contribution to a reducer. Each
// iteration must then see what the one before left.
func accumulates(nest []*ir.For, body ir.Stmt) bool {
	hit := false
	ir.Walk(body, func(s ir.Stmt) bool {
		if a, ok := s.(*ir.AttrStmt); ok {
			hit = hit || a.Key == "tl.parallel_multiplicity"
		}
		st, ok := s.(*ir.BufferStore)
		if !ok || hit {
			return !hit
		}
		self := false
		ir.WalkExpr(st.Value, func(e ir.Expr) bool {
			if l, ok := e.(*ir.BufferLoad); ok && l.Buffer.Data == st.Buffer.Data {
				self = true
			}
			return !self
		})
		for _, f := range nest {
			used := false
			for _, ix := range st.Indices {
				used = used || ir.UsesVar(ix, func(v *ir.Var) bool { return v == f.Var })
			}
			hit = hit || self && !used
		}
		return !hit
	})
	return hit
}

// region is a compiled rectangular part of a buffer.
type region struct {
	c      *comp
	buf    *ir.Buffer
	el     elem
	base   func(*warp) int64
	mins   []func(*warp) int64
	exts   []func(*warp) int64
	shape  []func(*warp) int64
	stride []func(*warp) int64
	global bool
	local  bool
	safe   float64
	st     *site
	size   int // elements when all extents are constant, else 0
}

func (c *comp) region(e ir.Expr) *region {
	call, ok := e.(*ir.Call)
	if !ok || call.Op == nil || call.Op.Name != "region" {
		if l, isLoad := e.(*ir.BufferLoad); isLoad { // a single place
			return c.regionOf(l.Buffer, l.Indices, nil)
		}
		c.fail("a tile operator needs a region")
	}
	l, ok := call.Args[0].(*ir.BufferLoad)
	if !ok {
		c.fail("a region of something that is no buffer")
	}
	return c.regionOf(l.Buffer, l.Indices, call.Args[2:])
}

func (c *comp) regionOf(b *ir.Buffer, mins, exts []ir.Expr) *region {
	r := &region{c: c, buf: b, el: elemOf(b.Type), base: c.pointer(b), st: c.site(b.Name), safe: c.r.safe[b.Data]}
	r.global = b.Scope() == "global" && c.bounds == BoundsImplied
	r.local = c.isLocal(b.Scope())
	if r.el.k == kSub || b.Type.Lanes > 1 {
		c.cannot("a tile operator on %s elements", b.Type)
	}
	strides := b.Strides
	if len(strides) != len(b.Shape) {
		strides = ir.RowMajorStrides(b.Shape)
	}
	if len(mins) != len(b.Shape) {
		c.fail("a region of %d dimensions of buffer %s, which has %d", len(mins), b.Name, len(b.Shape))
	}
	skip := len(mins) - len(exts) // leading dimensions of extent 1
	if exts == nil {
		skip = len(mins)
	}
	r.size = 1
	for i := range mins {
		ext := ir.Expr(ir.I32(1))
		if i >= skip && skip >= 0 {
			ext = exts[i-skip]
		}
		if n, ok := ir.AsInt(ext); ok && r.size > 0 {
			r.size *= int(n)
		} else {
			r.size = 0
		}
		r.mins = append(r.mins, c.uniI(c.expr(mins[i])))
		r.exts = append(r.exts, c.uniI(c.expr(ext)))
		r.shape = append(r.shape, c.uniI(c.strideOf(b.Shape[i])))
		r.stride = append(r.stride, c.uniI(c.strideOf(strides[i])))
	}
	return r
}

// tileView is a region at run time: dimensions of extent 1 are dropped.
type tileView struct {
	r      *region
	m      *mem
	first  int64 // byte offset of the first element
	ext    []int64
	stride []int64 // elements
	lo, hi []int64 // valid range of each index, relative to the region
	n      int64
	empty  bool // a dropped dimension lies out of bounds
	atomic bool // accesses are part of atomic operations
	lane   int
}

const maxTile = 1 << 26 // elements of a region

func (r *region) view(w *warp, lane int) *tileView {
	v := &tileView{r: r, n: 1, lane: lane}
	p := r.base(w)
	v.m = w.memOf(p)
	if v.m == nil {
		w.find(OutOfBounds, r.st, -1, "access to %q through a pointer to nothing", r.st.name)
		return nil
	}
	v.first = offOf(p)
	if v.m.stride != 0 {
		v.first += int64(lane) * v.m.stride
	}
	for i := range r.mins {
		lo, n, s, d := r.mins[i](w), r.exts[i](w), r.stride[i](w), r.shape[i](w)
		v.first += lo * s * int64(r.el.size)
		if n < 0 || v.n*n > maxTile {
			panic(&Error{r.st.span, "a region of too many elements"})
		}
		v.n *= n
		if n == 1 {
			if r.global && (lo < 0 || lo >= d) {
				v.empty = true
			}
			continue
		}
		v.ext = append(v.ext, n)
		v.stride = append(v.stride, s)
		if r.global {
			v.lo, v.hi = append(v.lo, -lo), append(v.hi, d-lo)
		} else {
			v.lo, v.hi = append(v.lo, 0), append(v.hi, n)
		}
	}
	return v
}

// rows calls f for each run of the innermost dimension: the number of its first
// element, its byte offset, the distance of elements in bytes, how many there
// are, and the valid ones among them.
func (v *tileView) rows(f func(first int64, at, step int64, n, lo, hi int64)) {
	if v.n == 0 {
		return
	}
	size := int64(v.r.el.size)
	k := len(v.ext)
	if k == 0 {
		hi := int64(1)
		if v.empty {
			hi = 0
		}
		f(0, v.first, size, 1, 0, hi)
		return
	}
	inner := v.ext[k-1]
	idx := make([]int64, k-1)
	for first := int64(0); first < v.n; first += inner {
		at := v.first
		ok := !v.empty
		for i, x := range idx {
			at += x * v.stride[i] * size
			ok = ok && x >= v.lo[i] && x < v.hi[i]
		}
		lo, hi := max(v.lo[k-1], 0), min(v.hi[k-1], inner)
		if !ok || lo >= hi {
			lo, hi = 0, 0
		}
		f(first, at, v.stride[k-1]*size, inner, lo, hi)
		for i := k - 2; i >= 0; i-- {
			if idx[i]++; idx[i] < v.ext[i] {
				break
			}
			idx[i] = 0
		}
	}
}

// touch checks a run of elements before it is read or written.
func (v *tileView) touch(w *warp, at, step, lo, hi int64, kind accessKind) bool {
	w.settle()
	if v.atomic {
		kind = accAtomic
	}
	if lo >= hi {
		return false
	}
	size := int64(v.r.el.size)
	a, b := at+lo*step, at+(hi-1)*step
	if a > b {
		a, b = b, a
	}
	base, limit := int64(0), int64(len(v.m.data))
	if v.m.stride != 0 {
		base = int64(v.lane) * v.m.stride
		limit = base + v.m.stride
	}
	if a < base || b+size > limit {
		w.find(OutOfBounds, v.r.st, -1, "region of %s %q reaches bytes %d to %d, it has %d", v.m.scope, v.r.st.name, a-base, b+size-base, limit-base)
		return false
	}
	if v.m.init != nil {
		for i := lo; i < hi; i++ {
			b := v.m.init[at+i*step:][:size]
			if kind == accWrite {
				setBytes(b)
			} else if !allSet(b) {
				w.find(Unwritten, v.r.st, -1, "read of %s %q at byte %d, never written", v.m.scope, v.r.st.name, at+i*step-base)
				break
			}
		}
	}
	if v.m.written != nil && kind != accRead {
		for i := lo; i < hi; i++ {
			setBytes(v.m.written[at+i*step:][:size])
		}
	}
	if v.m.pending != nil {
		for i := lo; i < hi; i++ {
			w.checkPending(v.m, at+i*step, size, kind, v.r.st, -1)
		}
	}
	if v.m.global != nil {
		for i := lo; i < hi; i++ {
			w.globalAccess(v.m, at+i*step, size, kind, v.r.st, -1)
		}
	}
	if w.r.stats != nil {
		w.r.stats.bytes(v.r.st, v.m, (hi-lo)*size, kind)
	}
	return true
}

// read gathers a region; elements out of bounds are the buffer's safe value.
func (v *tileView) read(w *warp) vecAny {
	el := &v.r.el
	var d vecAny
	if el.fl {
		d.f = make([]float64, v.n)
	} else {
		d.i = make([]int64, v.n)
	}
	v.rows(func(first, at, step, n, lo, hi int64) {
		ok := v.touch(w, at, step, lo, hi, accRead)
		if el.fl {
			row := d.f[first : first+n]
			if v.r.safe != 0 && hi-lo < n {
				s := roundFloat(el.t, v.r.safe)
				for i := range row {
					row[i] = s
				}
			}
			if !ok {
				return
			}
			if step == int64(el.size) {
				decodeF(el.k, el.f, row[lo:hi], v.m.data[at+lo*step:])
				return
			}
			for i := lo; i < hi; i++ {
				row[i] = el.getF(v.m.data[at+i*step:], 0)
			}
			return
		}
		row := d.i[first : first+n]
		if v.r.safe != 0 && hi-lo < n {
			for i := range row {
				row[i] = int64(v.r.safe)
			}
		}
		if !ok {
			return
		}
		if step == int64(el.size) {
			decodeI(el.k, row[lo:hi], v.m.data[at+lo*step:])
			return
		}
		for i := lo; i < hi; i++ {
			row[i] = el.getI(v.m.data[at+i*step:], 0)
		}
	})
	return d
}

// write scatters values of the region's type; elements out of bounds are
// dropped.
func (v *tileView) write(w *warp, x vecAny) {
	el := &v.r.el
	v.rows(func(first, at, step, n, lo, hi int64) {
		if !v.touch(w, at, step, lo, hi, accWrite) {
			return
		}
		if el.fl {
			row := x.f[first : first+n]
			if step == int64(el.size) {
				encodeF(el.k, el.f, v.m.data[at+lo*step:], row[lo:hi])
				return
			}
			for i := lo; i < hi; i++ {
				el.putF(v.m.data[at+i*step:], 0, row[i])
			}
			return
		}
		row := x.i[first : first+n]
		if step == int64(el.size) {
			encodeI(el.k, v.m.data[at+lo*step:], row[lo:hi])
			return
		}
		for i := lo; i < hi; i++ {
			el.putI(v.m.data[at+i*step:], 0, row[i])
		}
	})
}

// convertTo converts values between element types.
func (x vecAny) convertTo(from, to ir.DType) vecAny {
	var y vecAny
	switch {
	case x.f != nil && to.IsFloat():
		if from == to {
			return x
		}
		y.f = make([]float64, len(x.f))
		copy(y.f, x.f)
		roundVec(to, y.f)
	case x.f != nil:
		y.i = make([]int64, len(x.f))
		for i, f := range x.f {
			y.i[i] = floatToInt(to, f)
		}
	case to.IsFloat():
		y.f = make([]float64, len(x.i))
		u64 := from.Code == ir.UInt && from.Bits == 64
		for i, n := range x.i {
			y.f[i] = intToFloat(to, n, u64)
		}
	default:
		y.i = make([]int64, len(x.i))
		for i, n := range x.i {
			if to.IsBool() {
				y.i[i] = b2i(n != 0)
			} else {
				y.i[i] = wrap1(to, n)
			}
		}
	}
	return y
}

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
			view := r.view(w, lane)
			if view == nil {
				return
			}
			val := x(w)
			var d vecAny
			if r.el.fl {
				d.f = make([]float64, view.n)
				for i := range d.f {
					d.f[i] = val.f[max(lane, 0)]
				}
			} else {
				d.i = make([]int64, view.n)
				for i := range d.i {
					d.i[i] = val.i[max(lane, 0)]
				}
			}
			view.write(w, d)
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
				x = x.repeat(d.n)
			} else {
				x = fitted(x, s, d, st)
			}
		}
		d.write(w, x)
	}, src, dst)
}

func (x vecAny) repeat(n int64) vecAny {
	var y vecAny
	if x.f != nil {
		y.f = make([]float64, n)
		for i := range y.f {
			y.f[i] = x.f[0]
		}
	} else {
		y.i = make([]int64, n)
		for i := range y.i {
			y.i[i] = x.i[0]
		}
	}
	return y
}

func fitted(x vecAny, s, d *tileView, st *site) vecAny {
	panic(&Error{st.span, "a copy between regions of different sizes"})
}

// transposed reverses the two dimensions of a region's values.
func transposed(v *tileView, x vecAny) vecAny {
	if len(v.ext) != 2 {
		return x
	}
	r, k := v.ext[0], v.ext[1]
	var y vecAny
	if x.f != nil {
		y.f = make([]float64, len(x.f))
	} else {
		y.i = make([]int64, len(x.i))
	}
	for i := range r {
		for j := range k {
			if x.f != nil {
				y.f[j*r+i] = x.f[i*k+j]
			} else {
				y.i[j*r+i] = x.i[i*k+j]
			}
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
		panic(&Error{dst.st.span, "a copy between regions of different sizes"})
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
// C (+)= A B, summed in float64 and rounded once to C's type.
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
			panic(&Error{a.st.span, "the regions of a gemm do not fit its sizes"})
		}
		x, y := floats(va.read(w)), floats(vb.read(w))
		out := make([]float64, m*n)
		if clr(w) == 0 {
			copy(out, floats(vc.read(w)))
		}
		if !ta {
			x = va.reorder(x, m, k, false)
		} else {
			x = va.reorder(x, k, m, true)
		}
		y = vb.reorder(y, k, n, false)
		if tb {
			y = transposeF(vb, y, n, k)
		}
		for i := range m {
			row := out[i*n : i*n+n]
			for d := range k {
				f := x[i*k+d]
				yr := y[d*n : d*n+n]
				for j, g := range yr {
					row[j] += f * g
				}
			}
		}
		w.countFlops(2 * m * n * k)
		var d vecAny
		if acc.el.fl {
			roundVec(acc.el.t, out)
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

// reorder gives an operand of r rows of k; with tr the operand is transposed.
func (v *tileView) reorder(x []float64, r, k int, tr bool) []float64 {
	if !tr {
		return x
	}
	return transposeF(v, x, r, k)
}

func transposeF(_ *tileView, x []float64, r, k int) []float64 {
	y := make([]float64, len(x))
	for i := range r {
		for j := range k {
			y[j*r+i] = x[i*k+j]
		}
	}
	return y
}

// tileReduce compiles T.reduce(source, destination, operation, dimension,
// clear): without clear the destination's old values take part.
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
	if !known || src.el.fl && op.f == nil {
		c.cannot("a reduction by %q of %s", name, src.el.t)
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
			panic(&Error{dst.st.span, "a reduction's result does not have the size of what is left"})
		}
		x := s.read(w)
		keep := clr(w) == 0
		var old vecAny
		if keep {
			old = t.read(w).convertTo(dst.el.t, src.el.t)
		}
		var out vecAny
		if src.el.fl {
			out.f = make([]float64, t.n)
		} else {
			out.i = make([]int64, t.n)
		}
		for o := range outer {
			for i := range inner {
				k := o*inner + i
				if src.el.fl {
					acc := 0.0
					for r := range n {
						y := x.f[(o*n+r)*inner+i]
						if abs {
							y = math.Abs(y)
						}
						if r == 0 {
							acc = y
						} else {
							acc = roundFloat(src.el.t, op.f(acc, y))
						}
					}
					if keep {
						acc = roundFloat(src.el.t, op.f(old.f[k], acc))
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
						acc = wrap1(src.el.t, op.i(acc, y))
					}
				}
				if keep {
					acc = wrap1(src.el.t, op.i(old.i[k], acc))
				}
				out.i[k] = acc
			}
		}
		t.write(w, out.convertTo(src.el.t, dst.el.t))
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
				panic(&Error{dst.st.span, "an atomic between regions of different sizes"})
			}
		} else {
			y = x(w).convertTo(xt, dst.el.t).repeat(d.n)
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
			d.write(w, x(w).repeat(d.n))
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
