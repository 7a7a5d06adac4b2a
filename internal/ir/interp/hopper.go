package interp

import (
	"fmt"

	"lowertrace/internal/ir"
)

// tensorMap describes a tensor in global memory to the tensor memory
// accelerator (CUDA driver API, cuTensorMapEncodeTiled and ...Im2col).
// Dimension 0 is the innermost.
type tensorMap struct {
	im2col  bool
	size    int64 // of an element, bytes
	base    int64
	dims    []int64
	strides []int64 // bytes; that of dimension 0 is size
	box     []int64
	elem    []int64 // element (traversal) strides
	lower   []int64 // im2col: corners of the bounding box of base pixels
	upper   []int64
	pixels  int64
	chans   int64
	swizzle int64
}

// mapTypes are the sizes of CUtensorMapDataType.
var mapTypes = []int64{1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4}

// parseMap reads the arguments of the encoding functions, from the data type on.
func parseMap(a []int64, im2col bool) (*tensorMap, string) {
	if len(a) < 3 || a[0] < 0 || int(a[0]) >= len(mapTypes) || a[1] < 1 || a[1] > 5 {
		return nil, "a tensor map of unknown type or rank"
	}
	r := int(a[1])
	t := &tensorMap{im2col: im2col, size: mapTypes[a[0]], base: a[2]}
	rest := a[3:]
	take := func(n int) []int64 {
		if n < 0 || n > len(rest) {
			rest = nil
			return make([]int64, max(n, 0))
		}
		l := rest[:n]
		rest = rest[n:]
		return l
	}
	want := 4*r + 4
	if im2col {
		want = 3*r + 2*(r-2) + 6
	}
	if len(rest) != want {
		return nil, fmt.Sprintf("a tensor map of rank %d with %d arguments", r, len(a))
	}
	t.dims, t.strides = take(r), take(r)
	if im2col {
		t.elem, t.lower, t.upper = take(r), take(r-2), take(r-2)
		p := take(2)
		t.pixels, t.chans = p[0], p[1]
	} else {
		t.box, t.elem = take(r), take(r)
	}
	t.swizzle = take(4)[1]
	for _, b := range t.box {
		if b < 1 || b > 256 {
			return nil, "a tensor map with a box beyond 256 elements"
		}
	}
	if im2col && (t.pixels < 1 || t.pixels > 1024 || t.chans < 1 || t.chans > 256) {
		return nil, "a tensor map with too many pixels or channels"
	}
	if t.strides[0] != t.size {
		return nil, "a tensor map whose innermost stride is not its element"
	}
	if t.swizzle < 0 || t.swizzle > 3 {
		return nil, "a tensor map with an unknown swizzle"
	}
	return t, ""
}

// createTensorMap compiles create_tma_descriptor in place of its argument's
// value: before the host side is split off the map stands where it is used.
func (c *comp) createTensorMap(e *ir.Call) val {
	make := c.tensorMapOf(e.Args, e.Op.Name == "create_tma_im2col_descriptor")
	id := c.sites
	c.sites++
	return val{t: ir.DHandle, uni: true, ui: func(w *warp) int64 {
		t := make(w)
		if p, ok := w.maps[id]; ok {
			*(w.object(p).(*tensorMapSlot)) = tensorMapSlot{t}
			return p
		}
		p := w.r.addObject(&tensorMapSlot{t})
		if w.maps == nil {
			w.maps = map[int]int64{}
		}
		w.maps[id] = p
		return p
	}}
}

// tensorMapSlot is the memory that holds a tensor map.
type tensorMapSlot struct{ t *tensorMap }

func (c *comp) tensorMapOf(args []ir.Expr, im2col bool) func(*warp) *tensorMap {
	var fs []func(*warp) int64
	for _, a := range args {
		fs = append(fs, c.uniI(c.expr(a)))
	}
	st := c.site("")
	return func(w *warp) *tensorMap {
		a := make([]int64, len(fs))
		for i, f := range fs {
			a[i] = f(w)
		}
		t, msg := parseMap(a, im2col)
		if t == nil {
			panic(&Error{Span: st.span, Msg: msg})
		}
		return t
	}
}

// packedTensorMap compiles the runtime's encoding function: it fills the map
// that its first argument points to.
func (c *comp) packedTensorMap(name string, args []ir.Expr) stmtFn {
	slot := c.uniI(c.expr(args[0]))
	make := c.tensorMapOf(args[1:], name == "__tvm_tensormap_create_im2col")
	st := c.site("")
	return func(w *warp) {
		s, ok := w.object(slot(w)).(*tensorMapSlot)
		if !ok {
			panic(&Error{Span: st.span, Msg: "a tensor map is written to something else"})
		}
		s.t = make(w)
	}
}

// stackAlloca compiles tvm_stack_alloca, which the host uses for tensor maps.
func (c *comp) stackAlloca(e *ir.Call) val {
	if c.l != nil {
		c.cannot("tvm_stack_alloca in a kernel")
	}
	return val{t: ir.DHandle, uni: true, ui: func(w *warp) int64 { return w.r.addObject(&tensorMapSlot{}) }}
}

// swizzled applies a swizzle to an address in shared memory: mode 1, 2, 3 (32,
// 64, 128 bytes) exchanges the 16-byte chunks of that span by the number of the
// 128-byte line (PTX ISA, "Swizzling modes").
func swizzled(addr int64, mode int64) int64 {
	switch mode {
	case 1:
		return addr ^ addr>>7&1<<4
	case 2:
		return addr ^ addr>>7&3<<4
	case 3:
		return addr ^ addr>>7&7<<4
	}
	return addr
}

// mapOf is the map a descriptor argument stands for.
func (w *warp) mapOf(p int64, st *site) *tensorMap {
	if s, ok := w.object(p).(*tensorMapSlot); ok && s.t != nil {
		return s.t
	}
	w.find(BadOperand, st, firstLane(w.mask), "the tensor map is not set")
	return nil
}

// tiles calls f for each element of the box at the given coordinates: its
// number, and its offset from base in global memory; in is false outside the
// tensor.
func (t *tensorMap) tiles(at []int64, f func(n int64, off int64, in bool)) {
	r := len(t.dims)
	idx := make([]int64, r)
	total := int64(1)
	for _, b := range t.box {
		total *= b
	}
	for n := range total {
		off, in := int64(0), true
		for d := range r {
			x := at[d] + idx[d]*max(t.elem[d], 1)
			in = in && x >= 0 && x < t.dims[d]
			off += x * t.strides[d]
		}
		f(n, off, in)
		for d := range r {
			if idx[d]++; idx[d] < t.box[d] {
				break
			}
			idx[d] = 0
		}
	}
}

// columns is tiles for an im2col map: pixels in the order W, H, ..., N within
// the bounding box, channels innermost; offs moves every pixel within its
// filter.
func (t *tensorMap) columns(at, offs []int64, f func(n int64, off int64, in bool)) {
	r := len(t.dims)
	p := append([]int64{}, at...)
	n := int64(0)
	for range t.pixels {
		for ch := range t.chans {
			x := at[0] + ch
			in := x >= 0 && x < t.dims[0]
			off := x * t.strides[0]
			for d := 1; d < r; d++ {
				y := p[d]
				if d < r-1 {
					y += offs[d-1]
				}
				in = in && y >= 0 && y < t.dims[d]
				off += y * t.strides[d]
			}
			f(n, off, in)
			n++
		}
		for d := 1; d < r; d++ {
			if d == r-1 {
				p[d]++
				break
			}
			if p[d] += max(t.elem[d], 1); p[d] < t.dims[d]+t.upper[d-1] {
				break
			}
			p[d] = t.lower[d-1]
		}
	}
}

// tmaLoad compiles tma_load(map, barrier, destination, coordinates..., cache
// policy) and its im2col form.
func (c *comp) tmaLoad(e *ir.Call) stmtFn {
	im2col := e.Op.Name == "tma_load_im2col"
	desc := c.uniI(c.expr(e.Args[0]))
	ref, st := c.mbarRef(e.Args[1])
	dst := c.uniI(c.expr(e.Args[2]))
	ds := c.site(pointeeName(e.Args[2]))
	var co []func(*warp) int64
	for _, a := range e.Args[3 : len(e.Args)-1] {
		co = append(co, c.uniI(c.expr(a)))
	}
	c.noteAccess(16)
	return func(w *warp) {
		if w.mask == 0 {
			return
		}
		t := w.mapOf(desc(w), st)
		if t == nil {
			return
		}
		at := make([]int64, len(co))
		for i, f := range co {
			at[i] = f(w)
		}
		var list []asyncCopy
		p := dst(w)
		m := w.memOf(p)
		g := w.memOf(t.base)
		r := len(t.dims)
		if m == nil || g == nil || len(at) < r || t.im2col != im2col || im2col && len(at) != 2*r-2 {
			w.find(BadOperand, st, firstLane(w.mask), "a TMA load with operands that do not fit its map")
			return
		}
		if lead := offOf(p) & 127; lead != 0 {
			w.find(Misaligned, ds, firstLane(w.mask), "a TMA load to byte %d of %q, which is no multiple of 128", offOf(p), ds.name)
			return
		}
		n := int64(0)
		put := func(k, off int64, in bool) {
			o := swizzled(offOf(p)+k*t.size, t.swizzle)
			if o < 0 || o+t.size > int64(len(m.data)) {
				w.find(OutOfBounds, ds, firstLane(w.mask), "a TMA load reaches byte %d of %q, which has %d", o, ds.name, len(m.data))
				return
			}
			b := make([]byte, t.size)
			if s := offOf(t.base) + off; in && s >= 0 && s+t.size <= int64(len(g.data)) {
				copy(b, g.data[s:])
				if g.init != nil && !allSet(g.init[s:s+t.size]) {
					w.find(Unwritten, st, firstLane(w.mask), "TMA load of global %q at byte %d, never written", g.name, s)
				}
			}
			if k := len(list) - 1; k >= 0 && list[k].at+int64(len(list[k].data)) == o {
				list[k].data = append(list[k].data, b...)
			} else {
				list = append(list, asyncCopy{m, o, b, int8(firstLane(w.mask)), ds})
			}
			n += t.size
		}
		if im2col {
			t.columns(at[:r], at[r:], put)
		} else {
			t.tiles(at[:r], put)
		}
		w.checkCopies(list)
		w.mbarCopy(ref(w), n, list)
		if w.r.stats != nil {
			w.r.stats.bytes(st, g, n, accRead)
		}
	}
}

// bulkStore is a copy to global memory whose source is read when it is waited
// for: until then the source may not change.
type bulkStore struct {
	run func()
}

// tmaStore compiles tma_store(map, source, coordinates..., reduce, cache policy)
// and the untiled form tma_store(destination, source, bytes, reduce, policy).
func (c *comp) tmaStore(e *ir.Call) stmtFn {
	n := len(e.Args)
	head := c.uniI(c.expr(e.Args[0]))
	src := c.uniI(c.expr(e.Args[1]))
	ss := c.site(pointeeName(e.Args[1]))
	ds := c.site(pointeeName(e.Args[0]))
	if n < 5 {
		c.fail("tma_store with %d arguments", n)
	}
	if !ir.IsConst(e.Args[n-2], 0) {
		c.cannot("a TMA store that reduces")
	}
	var co []func(*warp) int64
	for _, a := range e.Args[2 : n-2] {
		co = append(co, c.uniI(c.expr(a)))
	}
	c.noteAccess(16)
	return func(w *warp) {
		if w.mask == 0 {
			return
		}
		lane := firstLane(w.mask)
		p, h := src(w), head(w)
		m := w.memOf(p)
		at := make([]int64, len(co))
		for i, f := range co {
			at[i] = f(w)
		}
		if m == nil {
			w.find(BadOperand, ss, lane, "a TMA store from nothing")
			return
		}
		move := func(g *mem, from, to, size int64) {
			if from < 0 || from+size > int64(len(m.data)) {
				w.find(OutOfBounds, ss, lane, "a TMA store reads byte %d of %q, which has %d", from, ss.name, len(m.data))
				return
			}
			if to < 0 || to+size > int64(len(g.data)) {
				w.find(OutOfBounds, ds, lane, "a TMA store writes byte %d of %q, which has %d", to, ds.name, len(g.data))
				return
			}
			if m.init != nil && !allSet(m.init[from:from+size]) {
				w.find(Unwritten, ss, lane, "TMA store of %q at byte %d, never written", ss.name, from)
			}
			copy(g.data[to:to+size], m.data[from:])
			if g.init != nil {
				setBytes(g.init[to : to+size])
			}
			if g.written != nil {
				setBytes(g.written[to : to+size])
			}
			if g.global != nil {
				w.globalAccess(g, to, size, accWrite, ds, lane)
			}
		}
		var job bulkStore
		if g := w.memOf(h); g != nil { // untiled
			if len(at) != 1 {
				w.find(BadOperand, ds, lane, "an untiled TMA store with %d sizes", len(at))
				return
			}
			w.bulkRead(m, offOf(p), at[0], ss)
			job.run = func() {
				w.bulkRead(m, offOf(p), at[0], ss)
				move(g, offOf(p), offOf(h), at[0])
			}
		} else {
			t := w.mapOf(h, ds)
			if t == nil {
				return
			}
			g := w.memOf(t.base)
			if g == nil || len(at) != len(t.dims) || t.im2col {
				w.find(BadOperand, ds, lane, "a TMA store with operands that do not fit its map")
				return
			}
			total := t.size
			for _, b := range t.box {
				total *= b
			}
			w.bulkRead(m, offOf(p), total, ss)
			job.run = func() {
				w.bulkRead(m, offOf(p), total, ss)
				t.tiles(at, func(k, off int64, in bool) {
					if in {
						move(g, swizzled(offOf(p)+k*t.size, t.swizzle), offOf(t.base)+off, t.size)
					}
				})
			}
		}
		w.bulkOpen = append(w.bulkOpen, job)
	}
}

// bulkWait performs all but the newest n committed groups of bulk stores.
func (w *warp) bulkWait(n int) {
	for len(w.bulk) > max(n, 0) {
		for _, j := range w.bulk[0] {
			j.run()
		}
		w.bulk = w.bulk[1:]
	}
}

func (w *warp) bulkCommit() {
	w.bulk = append(w.bulk, w.bulkOpen)
	w.bulkOpen = nil
}

// hopperCall compiles the operators of sm_90; nil for others.
func (c *comp) hopperCall(e *ir.Call) stmtFn {
	if f := c.mbarCall(e); f != nil {
		return f
	}
	switch e.Op.Name {
	case "tma_load", "tma_load_im2col":
		return c.tmaLoad(e)
	case "tma_store":
		return c.tmaStore(e)
	case "tma_store_arrive":
		return func(w *warp) { w.bulkCommit() }
	case "tma_store_wait":
		n := c.uniI(c.expr(e.Args[0]))
		return func(w *warp) { w.bulkWait(int(n(w))) }
	case "initialize_wgmma_descriptor":
		return c.wgmmaDescriptor(e)
	case "increase_descriptor_offset":
		return c.moveDescriptor(e)
	case "ptx_wgmma_ss", "ptx_wgmma_rs":
		return c.wgmma(e)
	case "warpgroup_arrive":
		return nop
	case "warpgroup_commit_batch":
		return func(w *warp) { w.wgmmaCommit() }
	case "warpgroup_wait":
		n := c.uniI(c.expr(e.Args[0]))
		return func(w *warp) { w.wgmmaWait(int(n(w))) }
	}
	return nil
}

// tileIm2col compiles T.im2col(source NHWC, destination, tile of pixels, tile of
// depth, kernel, stride, dilation, padding): row p of the destination is pixel
// tile*rows + p of the output, column k the depth tile*columns + k in the order
// kernel row, kernel column, channel. What lies outside the source is 0.
func (c *comp) tileIm2col(e *ir.Call) stmtFn {
	src, dst := c.region(e.Args[0]), c.region(e.Args[1])
	if src.m != nil {
		c.cannot("T.c2d_im2col of %s, which has a layout", src.buf.Name)
	}
	var ns []func(*warp) int64
	for _, a := range e.Args[2:8] {
		ns = append(ns, c.uniI(c.expr(a)))
	}
	var ref func(*warp) *mbar
	var st *site
	arrive, _ := ir.AttrInt(argOf(e, "emit_arrive"))
	if bar, ok := argOf(e, "barrier").(ir.Expr); ok {
		ref, st = c.mbarRef(bar)
	}
	if len(src.shape) != 4 {
		c.fail("im2col of a tensor that is not NHWC")
	}
	return c.collective(func(w *warp) {
		w.mask = 1
		d := dst.view(w, 0)
		if d == nil || len(d.ext) != 2 {
			panic(&Error{Span: dst.st.span, Msg: "im2col into something that is no matrix"})
		}
		var shape [4]int64
		for i := range shape {
			shape[i] = src.shape[i](w)
		}
		kernel, stride, dil, pad := ns[2](w), ns[3](w), ns[4](w), ns[5](w)
		if kernel < 1 || stride < 1 || dil < 1 {
			panic(&Error{Span: dst.st.span, Msg: "im2col with a kernel, stride or dilation below 1"})
		}
		oh := (shape[1]+2*pad-dil*(kernel-1)-1)/stride + 1
		ow := (shape[2]+2*pad-dil*(kernel-1)-1)/stride + 1
		rows, cols := d.ext[0], d.ext[1]
		m := w.memOf(src.base(w))
		if m == nil || oh < 1 || ow < 1 {
			return
		}
		base := offOf(src.base(w))
		var x vecAny
		if src.el.fl {
			x.f = make([]float64, d.n)
		} else {
			x.i = make([]int64, d.n)
		}
		for p := range rows {
			pix := ns[0](w)*rows + p
			n, y, z := pix/(oh*ow), pix/ow%oh, pix%ow
			for k := range cols {
				depth := ns[1](w)*cols + k
				ch, kw, kh := depth%shape[3], depth/shape[3]%kernel, depth/shape[3]/kernel
				h, v := y*stride+kh*dil-pad, z*stride+kw*dil-pad
				if n >= shape[0] || kh >= kernel || h < 0 || h >= shape[1] || v < 0 || v >= shape[2] {
					continue
				}
				o := base + (n*src.stride[0](w)+h*src.stride[1](w)+v*src.stride[2](w)+ch*src.stride[3](w))*int64(src.el.size)
				if o < 0 || o+int64(src.el.size) > int64(len(m.data)) {
					continue
				}
				if src.el.fl {
					x.f[p*cols+k] = src.el.getF(m.data[o:], 0)
				} else {
					x.i[p*cols+k] = src.el.getI(m.data[o:], 0)
				}
			}
		}
		x = x.convertTo(src.el.t, dst.el.t)
		if ref == nil {
			d.write(w, x)
			return
		}
		bar, n := ref(w), d.n*int64(dst.el.size)
		bar.expect(n)
		w.mbarCopy(bar, n, d.copies(w, x))
		if arrive != 0 {
			w.mbarArrive(bar, 1, st)
		}
	})
}
