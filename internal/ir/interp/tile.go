package interp

import (
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
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
		if w.rng != nil {
			w.rng.inColl = false
		}
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
	serial := accumulates(nest, body) || c.keepsPrivate(body)
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

// updatesFragment reports a store outside parallel loops that changes an
// element of a fragment, the same one in all threads, to a value that depends
// on the old one. The threads that run it each have the element, so it changes
// once for all of them.
func (c *comp) updatesFragment(s *ir.BufferStore) bool {
	if !c.tile || c.coll || c.l == nil || !isFragment(s.Buffer.Scope()) {
		return false
	}
	self, own := false, false
	visit := func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			self = self || e.Buffer.Data == s.Buffer.Data
		case *ir.Var:
			v := c.vars[e]
			own = own || v != nil && !v.uni
		}
		return true
	}
	for _, x := range s.Indices {
		ir.WalkExpr(x, visit)
	}
	ir.WalkExpr(s.Value, visit)
	return self && !own
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

// keepsPrivate reports that iterations of a parallel loop put values into
// memory of their thread, a variable for instance: each must read its own.
func (c *comp) keepsPrivate(body ir.Stmt) bool {
	hit := false
	ir.Walk(body, func(s ir.Stmt) bool {
		if st, ok := s.(*ir.BufferStore); ok {
			hit = hit || c.isLocal(st.Buffer.Scope())
		}
		return !hit
	})
	if hit {
		return true
	}
	ir.WalkExprs(body, func(e ir.Expr) bool { // what is called may store through a pointer
		call, ok := e.(*ir.Call)
		if ok && call.Op != nil && strings.HasPrefix(call.Op.Name, "rng_") {
			hit = true // generators are a thread's own
		}
		if !ok || call.Op == nil || call.Op.Name != "address_of" && call.Op.Name != "access_ptr" && call.Op.Name != "tvm_access_ptr" {
			return !hit
		}
		for _, a := range call.Args {
			switch a := a.(type) {
			case *ir.BufferLoad:
				hit = hit || c.isLocal(a.Buffer.Scope())
			case *ir.Var:
				hit = hit || a.Ptr != nil && c.isLocal(a.Ptr.Scope)
			}
		}
		return !hit
	})
	return hit
}

// region is a compiled rectangular part of a buffer.
type region struct {
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
	m      *layout.Map // where elements lie, when not by strides
	st     *site
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
	r := &region{buf: b, el: elemOf(b.Type), base: c.pointer(b), st: c.site(b.Name), safe: c.r.safe[b.Data]}
	r.global = b.Scope() == "global" && c.bounds == BoundsImplied
	r.local = c.isLocal(b.Scope())
	r.m = c.layoutOf(b)
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
	for i := range mins {
		ext := ir.Expr(ir.I32(1))
		if i >= skip && skip >= 0 {
			ext = exts[i-skip]
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
	first  int64 // byte offset of the first element; of the buffer if it has a layout
	number int64 // with a layout: the first element's number, row-major
	ext    []int64
	stride []int64 // elements; with a layout: of the logical shape
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
		if r.m != nil {
			s = 1
			for _, x := range r.m.Shape[i+1:] {
				s *= x
			}
			v.number += lo * s
		} else {
			v.first += lo * s * int64(r.el.size)
		}
		if n < 0 || v.n*n > maxTile {
			panic(&Error{Span: r.st.span, Msg: "a region of too many elements"})
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
	if v.r.m != nil {
		v.elements(func(first, number int64, ok bool) {
			at, hi := v.first+number*size, int64(0)
			if ok {
				hi = 1
			}
			if number >= 0 && number < v.r.m.Size() {
				at = v.first + v.r.m.At(number)*size
			}
			f(first, at, size, 1, 0, hi)
		})
		return
	}
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

// elements calls f for each element of a buffer with a layout: its number in
// the region and in the buffer, both row-major, and whether it is valid.
func (v *tileView) elements(f func(first, number int64, ok bool)) {
	idx := make([]int64, len(v.ext))
	for first := range v.n {
		number, ok := v.number, !v.empty
		for i, x := range idx {
			number += x * v.stride[i]
			ok = ok && x >= v.lo[i] && x < v.hi[i]
		}
		f(first, number, ok)
		for i := len(idx) - 1; i >= 0; i-- {
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
