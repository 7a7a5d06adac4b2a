package interp

import (
	"math/bits"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// access is a compiled place in a buffer: for each lane, n runs of per
// consecutive elements.
type access struct {
	buf  *ir.Buffer
	el   elem
	per  int // elements of a run
	n    int // runs
	st   *site
	base func(*warp) int64
	// The index, in units of the buffer's type: u + Σ v[i]*stride.
	u     func(*warp) int64
	terms []term
	dims  []dimCheck // indices to check; nil: none
	// strict: an index out of bounds is a finding, not "nothing there".
	strict bool
	local  bool
	uni    bool  // one address for all lanes
	size   int64 // bytes of a unit
	pred   func(*warp) []int64
}

type term struct {
	f      func(*warp) []int64
	n      int // lanes of the index: 1 or access.n
	stride func(*warp) int64
	k      int64 // stride when constant
}

type dimCheck struct {
	ext func(*warp) int64
	u   func(*warp) int64   // either
	f   func(*warp) []int64 // or
	n   int
	add int64 // elements beyond the index that are touched
}

// pointer compiles the address of a buffer's first element.
func (c *comp) pointer(b *ir.Buffer) func(*warp) int64 {
	s := c.vars[b.Data]
	if s == nil {
		if alt := c.free[b.Data.Name]; alt != nil {
			s = c.vars[alt]
		} else if alt := c.free[b.Name]; alt != nil {
			s = c.vars[alt]
		}
	}
	if s == nil || s.undefd {
		c.cannot("the memory of buffer %s is allocated nowhere", b.Name)
	}
	if !s.uni {
		f := c.uniI(s.val())
		return f
	}
	at := s.at
	if b.ElemOffset != nil && !ir.IsConst(b.ElemOffset, 0) {
		off := c.uniI(c.expr(b.ElemOffset))
		size := int64(b.Type.Bytes())
		return func(w *warp) int64 { return w.U[at] + off(w)*size }
	}
	return func(w *warp) int64 { return w.U[at] }
}

// place compiles the place that indices name.
func (c *comp) place(b *ir.Buffer, indices []ir.Expr, pred ir.Expr) *access {
	a := &access{buf: b, el: elemOf(b.Type), n: 1, per: max(int(b.Type.Lanes), 1), base: c.pointer(b), st: c.site(b.Name)}
	a.size = int64(b.Type.Bytes())
	if a.el.k == kSub {
		a.size = 0 // packed: see offset
	}
	if a.el.k == kNone {
		c.fail("buffer %s has no element type", b.Name)
	}
	scope := b.Scope()
	a.local = c.isLocal(scope)
	strides := b.Strides
	if len(strides) != len(b.Shape) || len(strides) == 0 {
		strides = ir.RowMajorStrides(b.Shape)
	}
	if len(indices) != len(b.Shape) && !(len(b.Shape) == 0 && len(indices) == 1) {
		c.fail("buffer %s has %d dimensions, accessed with %d indices", b.Name, len(b.Shape), len(indices))
	}
	// A flat buffer's bounds are those of its memory; access checks them.
	a.strict = c.bounds != BoundsImplied || scope != "global"
	check := c.l != nil && (!a.strict || len(indices) > 1)
	a.u = func(*warp) int64 { return 0 }
	a.uni = !a.local
	var uconst int64
	var uterms []func(*warp) int64
	offset := func(v, stride val) { // adds an index to the address
		if v.n() > 1 {
			a.n = max(a.n, v.n())
		}
		switch {
		case !v.uni:
			a.uni = false
			t := term{f: v.vi, n: v.n(), stride: stride.ui}
			if stride.cst != nil {
				t.k, t.stride = stride.cst.i, nil
			}
			a.terms = append(a.terms, t)
		case v.cst != nil && stride.cst != nil:
			uconst += v.cst.i * stride.cst.i
		case stride.cst != nil:
			k, f := stride.cst.i, v.ui
			uterms = append(uterms, func(w *warp) int64 { return f(w) * k })
		default:
			g, f := stride.ui, v.ui
			uterms = append(uterms, func(w *warp) int64 { return f(w) * g(w) })
		}
	}
	m := c.layoutOf(b)
	logical := make([]ir.Expr, len(indices))
	for i, ix := range indices {
		if m != nil && ix.DType().Lanes > 1 {
			c.cannot("a vector of %s, which has a layout", b.Name)
		}
		var stride val
		switch {
		case len(strides) == 0:
			stride = constI(ir.DInt64, 1)
		default:
			stride = c.strideOf(strides[i])
		}
		add := int64(0)
		if r, ok := ix.(*ir.Ramp); ok && stride.cst != nil && stride.cst.i == 1 && ir.IsConst(r.Stride, 1) && i == len(indices)-1 {
			a.per *= r.Lanes
			add = int64(r.Lanes - 1)
			ix = r.Base
		}
		if c.tile && c.alwaysNegative(ix) { // counted from the end, as LegalizeNegativeIndex has it
			ix = &ir.Binary{Op: ir.Add, A: ix, B: b.Shape[i]}
			if t := ix.DType(); t != b.Shape[i].DType() {
				ix = &ir.Binary{Op: ir.Add, A: ix.(*ir.Binary).A, B: &ir.Cast{Type: t, Value: b.Shape[i]}}
			}
		}
		v := c.expr(ix)
		if v.isFloat() {
			c.fail("buffer %s is indexed by a float", b.Name)
		}
		logical[i] = ix
		if m == nil {
			offset(v, stride)
		}
		var dc dimCheck
		if v.uni {
			dc.u = v.ui
		} else {
			a.uni = false
			dc.f, dc.n = v.vi, v.n()
		}
		if check {
			dc.ext, dc.add = c.uniI(c.strideOf(b.Shape[i])), add
			a.dims = append(a.dims, dc)
		}
	}
	if m != nil {
		offset(c.expr(layout.Flatten(m.Apply(logical), m.Out)), constI(ir.DInt64, 1))
	}
	switch len(uterms) {
	case 0:
		if uconst != 0 {
			a.u = func(*warp) int64 { return uconst }
		}
	case 1:
		f := uterms[0]
		a.u = func(w *warp) int64 { return f(w) + uconst }
	default:
		a.u = func(w *warp) int64 {
			x := uconst
			for _, f := range uterms {
				x += f(w)
			}
			return x
		}
	}
	if pred != nil && !ir.IsConst(pred, 1) {
		p := c.expr(pred)
		if p.n() != 1 {
			c.cannot("an access with a predicate of %d lanes", p.n())
		}
		a.pred = c.vecI(p)
		a.uni = false
	}
	if scope == "shared" || scope == "shared.dyn" {
		c.noteAccess(int(a.el.span(a.per)))
	}
	return a
}

// strideOf compiles a size; a size variable that nothing defines is the
// stride of the array that was passed, noted when arguments are bound.
func (c *comp) strideOf(e ir.Expr) val {
	return c.expr(e)
}

func (c *comp) isLocal(scope string) bool {
	switch {
	case scope == "local.fragment" || scope == "local.reducer":
		return !c.tile
	case len(scope) >= 5 && scope[:5] == "local":
		return true
	}
	return false
}

// noteAccess remembers the smallest access to shared memory: the cell of race
// detection.
func (c *comp) noteAccess(n int) {
	g := 1
	for g*2 <= n && g < 16 && n%(g*2) == 0 {
		g *= 2
	}
	if c.minAcc == 0 || g < c.minAcc {
		c.minAcc = g
	}
}

// resolve computes w.offs for run j and returns the allocation and the lanes
// whose access is within implied bounds.
func (a *access) resolve(w *warp, j int) (*mem, uint32) {
	mask := w.mask
	if a.pred != nil {
		mask &= maskOf(a.pred(w))
	}
	for i := range a.dims {
		d := &a.dims[i]
		e := d.ext(w)
		if d.u != nil {
			if x := d.u(w); mask != 0 && (x < 0 || x+d.add >= e) {
				a.outside(w, i, x, e, firstLane(mask))
				mask = 0
			}
			continue
		}
		x := d.f(w)
		for l := range lanes {
			y := x[l*d.n]
			if d.n > 1 {
				y = x[l*d.n+j]
			}
			if (y < 0 || y+d.add >= e) && mask>>l&1 != 0 {
				a.outside(w, i, y, e, l)
				mask &^= 1 << l
			}
		}
	}
	p := a.base(w)
	m := w.memOf(p)
	if m == nil {
		if mask != 0 {
			w.find(OutOfBounds, a.st, firstLane(mask), "access to %q through a pointer to nothing", a.st.name)
		}
		return nil, 0
	}
	idx := a.u(w)
	size := a.size
	var offs [lanes]int64 // not w.offs: an index may read memory
	o := offOf(p) + idx*size
	if size == 0 {
		size, o = 1, idx
	}
	for l := range offs {
		offs[l] = o
	}
	for i := range a.terms {
		t := &a.terms[i]
		k := t.k
		if t.stride != nil {
			k = t.stride(w)
		}
		k *= size
		x := t.f(w)
		if t.n == 1 {
			x = x[:lanes]
			for l := range x {
				offs[l] += x[l] * k
			}
		} else {
			for l := range lanes {
				offs[l] += x[l*t.n+j] * k
			}
		}
	}
	w.offs = offs
	if a.size == 0 { // packed elements: element numbers to bytes
		for l := range w.offs {
			w.offs[l] = offOf(p) + w.offs[l]*int64(a.el.t.Bits)>>3
		}
	}
	if m.stride != 0 && !w.coll {
		for l := range w.offs {
			w.offs[l] += int64(l) * m.stride
		}
	}
	return m, mask
}

// outside reports an index that its dimension does not have.
func (a *access) outside(w *warp, dim int, x, extent int64, lane int) {
	if a.strict {
		w.find(OutOfBounds, a.st, lane, "index %d of dimension %d of %q, whose extent is %d", x, dim, a.st.name, extent)
	}
}

// load compiles a read.
func (c *comp) load(e *ir.BufferLoad) val {
	t := e.DType()
	n := max(int(t.Lanes), 1)
	var at int
	fl := t.IsFloat()
	if fl {
		at = c.tempF(n)
	} else {
		at = c.tempI(n)
	}
	mk := c.mark()
	defer c.release(mk)
	a := c.place(e.Buffer, e.Indices, e.Predicate)
	safe := c.r.safe[e.Buffer.Data]
	if a.el.fl {
		safe = roundFloat(a.el.t, safe)
	}
	if a.el.k == kSub {
		return c.loadPacked(a, t, at, n, safe)
	}
	run := int64(a.el.span(a.per))
	k, f, el := a.el.k, a.el.f, a.el
	if a.uni && n == 1 && a.n == 1 {
		fetch := func(w *warp) []byte {
			m, mask := a.resolve(w, 0)
			l := firstLane(mask)
			if m == nil || mask == 0 || w.access(m, 1<<l, run, accRead, a.st) == 0 {
				return nil
			}
			return m.data[w.offs[l]:]
		}
		if fl {
			return val{t: t, uni: true, uf: func(w *warp) float64 {
				if b := fetch(w); b != nil {
					return el.getF(b, 0)
				}
				return safe
			}}
		}
		return val{t: t, uni: true, ui: func(w *warp) int64 {
			if b := fetch(w); b != nil {
				return el.getI(b, 0)
			}
			return int64(safe)
		}}
	}
	per := a.per
	if fl {
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+n*lanes]
			for j := range a.n {
				m, mask := a.resolve(w, j)
				ok := uint32(0)
				if m != nil && mask != 0 {
					ok = w.access(m, mask, run, accRead, a.st)
				}
				for l := range lanes {
					dl := d[l*n+j*per:][:per]
					if ok>>l&1 == 0 {
						for i := range dl {
							dl[i] = safe
						}
						continue
					}
					decodeF(k, f, dl, m.data[w.offs[l]:][:run])
				}
			}
			return d
		}}
	}
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		for j := range a.n {
			m, mask := a.resolve(w, j)
			ok := uint32(0)
			if m != nil && mask != 0 {
				ok = w.access(m, mask, run, accRead, a.st)
			}
			for l := range lanes {
				dl := d[l*n+j*per:][:per]
				if ok>>l&1 == 0 {
					for i := range dl {
						dl[i] = int64(safe)
					}
					continue
				}
				decodeI(k, dl, m.data[w.offs[l]:][:run])
			}
		}
		return d
	}}
}

// loadPacked reads elements of fewer than 8 bits.
func (c *comp) loadPacked(a *access, t ir.DType, at, n int, safe float64) val {
	el, per := a.el, a.per
	run := int64(el.span(per))
	sub := a.subIndex()
	if el.fl {
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+n*lanes]
			for j := range a.n {
				first := sub(w, j)
				m, mask := a.resolve(w, j)
				ok := uint32(0)
				if m != nil {
					ok = w.access(m, mask, run, accRead, a.st)
				}
				for l := range lanes {
					for i := range per {
						d[l*n+j*per+i] = safe
						if ok>>l&1 != 0 {
							d[l*n+j*per+i] = el.getF(m.data[w.offs[l]:], first[l]+i)
						}
					}
				}
			}
			return d
		}}
	}
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		for j := range a.n {
			first := sub(w, j)
			m, mask := a.resolve(w, j)
			ok := uint32(0)
			if m != nil {
				ok = w.access(m, mask, run, accRead, a.st)
			}
			for l := range lanes {
				for i := range per {
					d[l*n+j*per+i] = int64(safe)
					if ok>>l&1 != 0 {
						d[l*n+j*per+i] = el.getI(m.data[w.offs[l]:], first[l]+i)
					}
				}
			}
		}
		return d
	}}
}

// subIndex gives, for packed elements, the position of each lane's element
// within its first byte.
func (a *access) subIndex() func(*warp, int) [lanes]int {
	perByte := int64(8 / gcd(8, int(a.el.t.Bits)))
	return func(w *warp, j int) (r [lanes]int) {
		u := a.u(w)
		for l := range r {
			x := u
			for i := range a.terms {
				t := &a.terms[i]
				k := t.k
				if t.stride != nil {
					k = t.stride(w)
				}
				y := t.f(w)
				if t.n == 1 {
					x += y[l] * k
				} else {
					x += y[l*t.n+j] * k
				}
			}
			r[l] = int(x & (perByte - 1))
		}
		return r
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// store compiles a write.
func (c *comp) store(s *ir.BufferStore) stmtFn {
	mk := c.mark()
	defer c.release(mk)
	v := c.expr(s.Value)
	a := c.place(s.Buffer, s.Indices, s.Predicate)
	n := a.n * a.per
	if v.n() != n || v.isFloat() != a.el.fl {
		if v.n() == 1 || v.n() == n {
			v = c.convert(v, a.el.t.WithLanes(n))
		} else {
			c.fail("buffer %s: %d elements are written with a value of type %s", s.Buffer.Name, n, v.t)
		}
	}
	if a.el.k == kSub {
		return c.storePacked(a, v, n)
	}
	kind := accWrite
	for _, ix := range s.Indices {
		if c.atomicResult(ix) {
			f := c.plainStore(a, v, n, kind)
			return func(w *warp) {
				if m := w.memOf(a.base(w)); m != nil && m.scope == "global" {
					w.r.noteAtomic(m.name)
				}
				f(w)
			}
		}
	}
	return c.plainStore(a, v, n, kind)
}

// atomicResult reports a value that depends on the result of an atomic.
func (c *comp) atomicResult(e ir.Expr) bool {
	hit := false
	ir.WalkExpr(e, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Var:
			hit = hit || c.fromAtomic[e]
		case *ir.Call:
			hit = hit || e.Op != nil && strings.HasPrefix(e.Op.Name, "atomic_") && strings.Contains(e.Op.Name, "_ret_")
		}
		return !hit
	})
	return hit
}

func (r *run) noteAtomic(name string) {
	r.mu.Lock()
	r.atomics[name] = true
	r.mu.Unlock()
}

func (c *comp) plainStore(a *access, v val, n int, kind accessKind) stmtFn {
	el, per := a.el, a.per
	run := int64(el.span(per))
	k, f := el.k, el.f
	if el.fl {
		vf := c.vecF(v)
		return func(w *warp) {
			x := vf(w)
			for j := range a.n {
				m, mask := a.resolve(w, j)
				if m == nil || mask == 0 {
					continue
				}
				if m.shadow != nil || m.global != nil {
					w.sameWrites(m, mask, a.st, func(l, i int) bool { return differF(x[l*n+j*per:][:per], x[i*n+j*per:][:per]) })
				}
				ok := w.access(m, mask, run, kind, a.st)
				for t := ok; t != 0; t &= t - 1 {
					l := bits.TrailingZeros32(t)
					encodeF(k, f, m.data[w.offs[l]:][:run], x[l*n+j*per:][:per])
				}
			}
		}
	}
	vi := c.vecI(v)
	return func(w *warp) {
		x := vi(w)
		for j := range a.n {
			m, mask := a.resolve(w, j)
			if m == nil || mask == 0 {
				continue
			}
			if m.shadow != nil || m.global != nil {
				w.sameWrites(m, mask, a.st, func(l, i int) bool { return differI(x[l*n+j*per:][:per], x[i*n+j*per:][:per]) })
			}
			ok := w.access(m, mask, run, kind, a.st)
			for t := ok; t != 0; t &= t - 1 {
				l := bits.TrailingZeros32(t)
				encodeI(k, m.data[w.offs[l]:][:run], x[l*n+j*per:][:per])
			}
		}
	}
}

func differF(a, b []float64) bool {
	for i := range a {
		if a[i] != b[i] && (a[i] == a[i] || b[i] == b[i]) {
			return true
		}
	}
	return false
}

func differI(a, b []int64) bool {
	for i := range a {
		if a[i] != b[i] {
			return true
		}
	}
	return false
}

func (c *comp) storePacked(a *access, v val, n int) stmtFn {
	el, per := a.el, a.per
	run := int64(el.span(per))
	sub := a.subIndex()
	var vf func(*warp) []float64
	var vi func(*warp) []int64
	if el.fl {
		vf = c.vecF(v)
	} else {
		vi = c.vecI(v)
	}
	return func(w *warp) {
		var xf []float64
		var xi []int64
		if vf != nil {
			xf = vf(w)
		} else {
			xi = vi(w)
		}
		for j := range a.n {
			first := sub(w, j)
			m, mask := a.resolve(w, j)
			if m == nil || mask == 0 {
				continue
			}
			ok := w.access(m, mask, run, accWrite, a.st)
			for t := ok; t != 0; t &= t - 1 {
				l := bits.TrailingZeros32(t)
				for i := range per {
					if vf != nil {
						el.putF(m.data[w.offs[l]:], first[l]+i, xf[l*n+j*per+i])
					} else {
						el.putI(m.data[w.offs[l]:], first[l]+i, xi[l*n+j*per+i])
					}
				}
			}
		}
	}
}

// addressOf compiles the address of a place: one pointer for each lane. In
// local memory it is the same for all: each thread has its own.
func (c *comp) addressOf(b *ir.Buffer, indices []ir.Expr) val {
	at := c.tempI(1)
	mk := c.mark()
	defer c.release(mk)
	if len(indices) > 0 {
		if r, ok := indices[len(indices)-1].(*ir.Ramp); ok {
			indices = append(append([]ir.Expr{}, indices[:len(indices)-1]...), r.Base)
		}
	}
	saved := c.bounds
	c.bounds = BoundsExplicit
	min := c.minAcc
	a := c.place(b, indices, nil)
	c.minAcc = min
	c.bounds = saved
	if a.n != 1 {
		c.fail("the address of a vector of places")
	}
	size := a.size
	el := a.el
	bytes := func(i int64) int64 {
		if size == 0 {
			return el.offset(i)
		}
		return i * size
	}
	if len(a.terms) == 0 {
		return val{t: ir.DHandle, uni: true, ui: func(w *warp) int64 { return ptrAdd(a.base(w), bytes(a.u(w))) }}
	}
	return val{t: ir.DHandle, vi: func(w *warp) []int64 {
		d := w.I[at : at+lanes]
		u := a.u(w)
		for l := range d {
			d[l] = u
		}
		for i := range a.terms {
			t := &a.terms[i]
			k := t.k
			if t.stride != nil {
				k = t.stride(w)
			}
			for l, x := range t.f(w)[:lanes] {
				d[l] += x * k
			}
		}
		p := a.base(w)
		for l := range d {
			d[l] = ptrAdd(p, bytes(d[l]))
		}
		return d
	}}
}

// ptrAdd moves a pointer within its allocation.
func ptrAdd(p, off int64) int64 {
	if p == 0 {
		return off
	}
	return p&^ptrOffMask | (p+off)&ptrOffMask
}

// alwaysNegative reports an index that is below 0 whatever the loops' variables
// are.
func (c *comp) alwaysNegative(e ir.Expr) bool {
	if e.DType().Lanes > 1 {
		return false
	}
	_, hi, ok := c.interval(e)
	return ok && hi < 0
}

// interval bounds an expression of constants and loop variables.
func (c *comp) interval(e ir.Expr) (lo, hi int64, ok bool) {
	switch e := e.(type) {
	case *ir.IntImm:
		return e.Value, e.Value, true
	case *ir.Var:
		r, ok := c.ranges[e]
		return r[0], r[1], ok
	case *ir.Binary:
		a, b, ok1 := c.interval(e.A)
		x, y, ok2 := c.interval(e.B)
		if !ok1 || !ok2 {
			return 0, 0, false
		}
		switch e.Op {
		case ir.Add:
			return a + x, b + y, true
		case ir.Sub:
			return a - y, b - x, true
		case ir.Mul:
			return min(a*x, a*y, b*x, b*y), max(a*x, a*y, b*x, b*y), true
		}
	}
	return 0, 0, false
}
