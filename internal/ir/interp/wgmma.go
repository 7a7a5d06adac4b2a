package interp

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/num"
)

// wgmmaState is the asynchronous matrix products of a warp: they read shared
// memory and change the accumulators when they are waited for.
type wgmmaState struct {
	groups [][]func()
	open   []func()
}

func (w *warp) wgmmaCommit() {
	w.wg.groups = append(w.wg.groups, w.wg.open)
	w.wg.open = nil
}

// wgmmaWait performs all but the newest n groups.
func (w *warp) wgmmaWait(n int) {
	for len(w.wg.groups) > max(n, 0) {
		for _, f := range w.wg.groups[0] {
			f()
		}
		w.wg.groups = w.wg.groups[1:]
	}
}

// A matrix descriptor is 64 bits (PTX ISA, "Matrix descriptor format"): the
// address, the leading and the stride byte offset, all divided by 16, at bits 0,
// 16 and 32, and the swizzle at bits 62 and 63. Addresses are those of the
// block's shared memory as the interpreter lays it out (block.flat).
const descField = 0x3fff

// wgmmaDescriptor compiles initialize_wgmma_descriptor(descriptor, address,
// layout, leading, stride): layout 0 no swizzle, 1, 2, 3: 128, 64, 32 bytes.
func (c *comp) wgmmaDescriptor(e *ir.Call) stmtFn {
	l, ok := e.Args[0].(*ir.BufferLoad)
	if !ok {
		c.fail("a matrix descriptor that is no variable")
	}
	a := c.place(l.Buffer, l.Indices, nil)
	addr := c.uniI(c.expr(e.Args[1]))
	var f [3]func(*warp) int64
	for i := range f {
		f[i] = c.uniI(c.expr(e.Args[2+i]))
	}
	st := c.site(pointeeName(e.Args[1]))
	return func(w *warp) {
		flat, ok := w.b.flat(addr(w))
		if !ok {
			w.find(BadOperand, st, firstLane(w.mask), "a matrix descriptor of memory that is not shared")
			return
		}
		d := uint64(flat>>4&descField) | uint64(f[1](w)&descField)<<16 | uint64(f[2](w)&descField)<<32 | uint64(f[0](w)&3)<<62
		w.putDesc(a, func(uint64) uint64 { return d })
	}
}

// moveDescriptor compiles increase_descriptor_offset(descriptor, bytes).
func (c *comp) moveDescriptor(e *ir.Call) stmtFn {
	l, ok := e.Args[0].(*ir.BufferLoad)
	if !ok {
		c.fail("a matrix descriptor that is no variable")
	}
	a := c.place(l.Buffer, l.Indices, nil)
	n := c.uniI(c.expr(e.Args[1]))
	return func(w *warp) {
		by := uint64(n(w) >> 4)
		w.putDesc(a, func(old uint64) uint64 { return old&^0xffffffff | (old+by)&0xffffffff })
	}
}

func (w *warp) putDesc(a *access, f func(uint64) uint64) {
	m, mask := a.resolve(w, 0)
	if m == nil {
		return
	}
	mask = w.access(m, mask, 8, accWrite, a.st)
	for l := range lanes {
		if mask>>l&1 != 0 {
			b := m.data[w.offs[l]:]
			a.el.putI(b, 0, int64(f(uint64(a.el.getI(b, 0)))))
		}
	}
}

// flat is the address of a pointer into shared memory, as descriptors hold it.
func (b *block) flat(p int64) (int64, bool) {
	id := int(p >> ptrIDShift & ptrIDMask)
	if p>>ptrKindShift != ptrShared || id >= len(b.l.shared) {
		return 0, false
	}
	return b.l.shared[id].base + offOf(p), true
}

// unflat is the inverse of flat.
func (b *block) unflat(a int64) (*mem, int64) {
	for i := range b.l.shared {
		d := &b.l.shared[i]
		if a >= d.base && a < d.base+d.size {
			return b.shared[i], a - d.base
		}
	}
	return nil, 0
}

// matrix is an operand in shared memory.
type matrix struct {
	start, lead, stride int64 // bytes
	mode                int64 // swizzle as in swizzled
	kMajor              bool
	size                int64 // of an element
}

func newMatrix(desc uint64, kMajor bool, size int64) matrix {
	return matrix{
		start: int64(desc&descField) << 4, lead: int64(desc>>16&descField) << 4, stride: int64(desc>>32&descField) << 4,
		mode: []int64{0, 3, 2, 1}[desc>>62], kMajor: kMajor, size: size,
	}
}

// at is the address of element i (row of A, column of B) and depth k (PTX ISA,
// "Strides and canonical layouts" of wgmma's shared memory matrices).
func (x *matrix) at(i, k int64) int64 {
	span := int64(16) << x.mode // bytes of a swizzled line
	if x.mode == 0 {
		span = 16
	}
	var a int64
	switch {
	case x.kMajor && x.mode == 0: // 8 x 16 bytes together
		kb := k * x.size
		a = i/8*x.stride + i%8*16 + kb/16*x.lead + kb%16
	case x.kMajor:
		a = i/8*x.stride + i%8*span + k*x.size
	case x.mode == 0:
		ib := i * x.size
		a = ib/16*x.stride + ib%16 + k%8*16 + k/8*x.lead
	default:
		ib := i * x.size
		a = ib/span*x.lead + ib%span + k%8*span + k/8*x.stride
	}
	return swizzled(x.start+a, x.mode)
}

// wgmma compiles ptx_wgmma_ss(shape, A is K-major, B is K-major, types, A
// descriptor, offset, B descriptor, offset, C, offset, scale-d, scale-a,
// scale-b) and ptx_wgmma_rs, whose A lies in registers. Warp w of a warpgroup
// computes rows 16w to 16w+15.
func (c *comp) wgmma(e *ir.Call) stmtFn {
	rs := e.Op.Name == "ptx_wgmma_rs"
	shape, _ := e.Args[0].(*ir.StringImm)
	if shape == nil {
		c.fail("wgmma without a shape")
	}
	m, n, k, ok := mmaShape(shape.Value)
	if !ok || m != 64 || n%8 != 0 {
		c.cannot("wgmma of shape %s", shape.Value)
	}
	args := e.Args[1:]
	aMajor := true
	if !rs {
		aMajor = !ir.IsConst(args[0], 0)
		args = args[1:]
	}
	bMajor := !ir.IsConst(args[0], 0)
	at, an := c.mmaType(args[1])
	bt, bn := c.mmaType(args[2])
	ct, _ := c.mmaType(args[3])
	ea, eb := elemOf(at), elemOf(bt)
	st := c.site("wgmma")
	var ra *regs
	var da, oa func(*warp) int64
	if rs {
		ra = c.regs(args[4], args[5], at, 16*k/lanes)
	} else {
		da, oa = c.descriptor(args[4]), c.uniI(c.expr(args[5]))
	}
	db, ob := c.descriptor(args[6]), c.uniI(c.expr(args[7]))
	acc := c.regs(args[8], args[9], ct, 16*n/lanes)
	var scale [3]func(*warp) int64
	for i := range scale {
		scale[i] = c.uniI(c.expr(args[10+i]))
	}
	per := max(32/int(at.Bits), 1)
	trunc := func(x float64, t string) float64 {
		if t == "tf32" {
			return float64(num.TF32Truncate(float32(x)))
		}
		return x
	}
	c.noteAccess(16)
	return func(w *warp) {
		if !w.whole(st) {
			return
		}
		var ma matrix
		if !rs {
			ma = newMatrix(moved(da(w), oa(w)), aMajor, int64(ea.size))
		}
		mb := newMatrix(moved(db(w), ob(w)), bMajor, int64(eb.size))
		keep, sa, sb := scale[0](w) != 0, float64(scale[1](w)), float64(scale[2](w))
		cbase, coff := acc.base(w), append([]int64{}, acc.off(w)[:lanes]...)
		var abase int64
		var aoff []int64
		if rs {
			abase, aoff = ra.base(w), append([]int64{}, ra.off(w)[:lanes]...)
		}
		row0 := int64(w.id%4) * 16
		w.countFlops(2 * 16 * n * k)
		w.wg.open = append(w.wg.open, func() {
			fa := make([]float64, 16*k)
			if rs {
				mm := w.locateRegs(ra, abase, aoff, accRead)
				if mm == nil {
					return
				}
				buf := make([]float64, ra.n)
				for l := range lanes {
					readRegs(ra, mm.data[w.offs[l]:], buf)
					for i, x := range buf {
						r, d := aPlace(l, i, per, 16)
						fa[r*k+d] = trunc(x, an)
					}
				}
			} else {
				for i := range 16 {
					for d := range k {
						x, ok := w.smem(&ma, &ea, row0+int64(i), int64(d), st)
						if !ok {
							return
						}
						fa[i*k+d] = trunc(x, an)
					}
				}
			}
			fb := make([]float64, n*k)
			for j := range n {
				for d := range k {
					x, ok := w.smem(&mb, &eb, int64(j), int64(d), st)
					if !ok {
						return
					}
					fb[j*k+d] = trunc(x, bn)
				}
			}
			kind := accRead
			if !keep {
				kind = accWrite
			}
			cm := w.locateRegs(acc, cbase, coff, kind)
			if cm == nil {
				return
			}
			for l := range lanes {
				reg := cm.data[w.offs[l]:]
				for i := range acc.n {
					row, col := l>>2+i/2%2*8, i/4*8+l&3*2+i&1
					x, y := fa[row*k:row*k+k], fb[col*k:col*k+k]
					s := 0.0
					for d, v := range x {
						s += v * y[d]
					}
					s *= sa * sb
					if acc.el.fl {
						if keep {
							s += acc.el.getF(reg, i)
						}
						acc.el.putF(reg, i, s)
						continue
					}
					v := int64(s)
					if keep {
						v += acc.el.getI(reg, i)
					}
					acc.el.putI(reg, i, wrap1(ct, v))
				}
			}
			w.markWritten(cm, acc.n, acc)
		})
	}
}

func moved(desc, off int64) uint64 {
	d := uint64(desc)
	return d&^0xffffffff | (d+uint64(off))&0xffffffff
}

// descriptor compiles the value of the descriptor behind a pointer.
func (c *comp) descriptor(p ir.Expr) func(*warp) int64 {
	ptr := c.uniI(c.expr(p))
	st := c.site(pointeeName(p))
	return func(w *warp) int64 {
		m := w.memOf(ptr(w))
		if m == nil {
			w.find(BadOperand, st, firstLane(w.mask), "a matrix descriptor that is nowhere")
			return 0
		}
		o := offOf(ptr(w))
		if o < 0 || o+8 > m.stride && m.stride != 0 || o+8 > int64(len(m.data)) {
			w.find(OutOfBounds, st, firstLane(w.mask), "a matrix descriptor beyond its variable")
			return 0
		}
		var d [1]int64
		decodeI(kU64, d[:], m.data[o:])
		return d[0]
	}
}

// locateRegs is regs.locate for operands whose place was settled before.
func (w *warp) locateRegs(r *regs, base int64, off []int64, kind accessKind) *mem {
	m := w.memOf(base)
	if m == nil || m.stride == 0 {
		w.find(BadOperand, r.st, -1, "operand %q of a matrix instruction does not lie in registers", r.st.name)
		return nil
	}
	for l := range w.offs {
		w.offs[l] = int64(l)*m.stride + offOf(base) + off[l]*r.unit
	}
	if w.access(m, w.full, int64(r.el.span(r.n)), kind, r.st) != w.full {
		return nil
	}
	return m
}

// smem reads an element of a matrix in shared memory.
func (w *warp) smem(x *matrix, el *elem, i, k int64, st *site) (float64, bool) {
	a := x.at(i, k)
	m, o := w.b.unflat(a)
	if m == nil || o+x.size > int64(len(m.data)) {
		w.find(OutOfBounds, st, -1, "a matrix instruction reads shared memory at %d, where nothing is allocated", a)
		return 0, false
	}
	if m.init != nil && !allSet(m.init[o:o+x.size]) {
		w.find(Unwritten, st, -1, "a matrix instruction reads %q at byte %d, never written", m.name, o)
	}
	if m.shadow != nil {
		w.asyncRead(m, o, x.size, st)
	}
	if el.fl {
		return el.getF(m.data[o:], 0), true
	}
	return float64(el.getI(m.data[o:], 0)), true
}
