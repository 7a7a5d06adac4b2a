package interp

import (
	"math/bits"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/num"
)

// mmaTypes are the operand types as mma instructions spell them.
var mmaTypes = map[string]string{
	"fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32", "fp64": "float64",
	"int8": "int8", "uint8": "uint8", "int4": "int4", "uint4": "uint4", "int32": "int32",
	"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
	"float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "float64": "float64",
	"float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2", "float8_e4m3fn": "float8_e4m3fn",
}

func (c *comp) mmaType(e ir.Expr) (ir.DType, string) {
	s, _ := e.(*ir.StringImm)
	if s == nil {
		c.fail("an mma without the type of an operand")
	}
	t, err := ir.ParseDType(mmaTypes[s.Value])
	if err != nil {
		c.cannot("mma operands of type %q", s.Value)
	}
	return t, s.Value
}

// mmaShape reads "m16n8k16".
func mmaShape(s string) (m, n, k int, ok bool) {
	s, ok = strings.CutPrefix(s, "m")
	ms, rest, ok1 := strings.Cut(s, "n")
	ns, ks, ok2 := strings.Cut(rest, "k")
	m, e1 := strconv.Atoi(ms)
	n, e2 := strconv.Atoi(ns)
	k, e3 := strconv.Atoi(ks)
	ok = ok && ok1 && ok2 && e1 == nil && e2 == nil && e3 == nil && m > 0 && n > 0 && k > 0 && m <= 64 && n <= 256 && k <= 256
	return m, n, k, ok
}

// regs is an operand of a warp-level instruction in the registers of its
// threads.
type regs struct {
	base func(*warp) int64 // pointer to local memory
	off  func(*warp) []int64
	unit int64 // bytes of a unit of off
	el   elem
	n    int // elements of each thread
	st   *site
}

func (c *comp) regs(ptr, off ir.Expr, t ir.DType, n int) *regs {
	pt, ok := ir.Pointee(ptr)
	if !ok {
		c.fail("an operand in untyped memory")
	}
	o := c.vecI(c.expr(off))
	return &regs{base: c.uniI(c.expr(ptr)), off: o, unit: int64(pt.Bytes()), el: elemOf(t), n: n, st: c.site(pointeeName(ptr))}
}

// locate puts the offsets of the operand's registers in w.offs.
func (r *regs) locate(w *warp, kind accessKind) *mem {
	p := r.base(w)
	m := w.memOf(p)
	if m == nil || m.stride == 0 {
		w.find(BadOperand, r.st, -1, "operand %q of a matrix instruction does not lie in registers", r.st.name)
		return nil
	}
	o := r.off(w)
	for l := range w.offs {
		w.offs[l] = int64(l)*m.stride + offOf(p) + o[l]*r.unit
	}
	if w.access(m, w.mask, int64(r.el.span(r.n)), kind, r.st) != w.mask {
		return nil
	}
	return m
}

// whole reports that all lanes of a warp execute a matrix instruction.
func (w *warp) whole(st *site) bool {
	if w.mask == ^uint32(0) {
		return true
	}
	w.find(BadOperand, st, firstLane(^w.mask), "a matrix instruction is executed by %d of 32 lanes", bits.OnesCount32(w.mask))
	return false
}

// abPlace is the row (of A) or column (of B) and the depth of element i of a
// thread's registers: 32-bit registers hold neighbours in depth; registers of A
// run over row halves, then depth halves, those of B over depth (PTX ISA,
// "Matrix fragments for mma.m16n8k16" and the other shapes).
func aPlace(lane, i, per, rows int) (row, k int) {
	g, t := lane>>2, lane&3
	r, s := i/per, i%per
	if rows == 8 {
		return g, t*per + s + r*4*per
	}
	return g + 8*(r&1), t*per + s + (r>>1)*4*per
}

func bPlace(lane, i, per int) (k, col int) {
	return lane&3*per + i%per + i/per*4*per, lane >> 2
}

// cPlace is the place of accumulator i.
func cPlace(lane, i int) (row, col int) { return lane>>2 + i>>1*8, lane&3*2 + i&1 }

// mma compiles ptx_mma(shape, layouts, types, A, offset, B, offset, C, offset,
// saturate): C += A B. Products are exact and summed in float64, then rounded
// once to the accumulator's type.
func (c *comp) mma(e *ir.Call) stmtFn {
	shape, _ := e.Args[0].(*ir.StringImm)
	if shape == nil {
		c.fail("ptx_mma without a shape")
	}
	m, n, k, ok := mmaShape(shape.Value)
	if !ok || n != 8 || m != 8 && m != 16 {
		c.cannot("mma of shape %s", shape.Value)
	}
	for i, want := range []string{"row", "col"} {
		if s, ok := e.Args[1+i].(*ir.StringImm); !ok || s.Value != want {
			c.cannot("mma of layout other than row and col")
		}
	}
	at, an := c.mmaType(e.Args[3])
	bt, bn := c.mmaType(e.Args[4])
	ct, _ := c.mmaType(e.Args[5])
	perA, perB := max(32/int(at.Bits), 1), max(32/int(bt.Bits), 1)
	a := c.regs(e.Args[6], e.Args[7], at, m*k/lanes)
	b := c.regs(e.Args[8], e.Args[9], bt, k*n/lanes)
	acc := c.regs(e.Args[10], e.Args[11], ct, m*n/lanes)
	st := c.site("mma")
	tfA, tfB := an == "tf32", bn == "tf32"
	na, nb, nc := a.n, b.n, acc.n
	intAcc := !ct.IsFloat()
	sat := len(e.Args) > 12 && ir.IsConst(e.Args[12], 1)
	return func(w *warp) {
		if !w.whole(st) {
			return
		}
		var fa [16 * 64]float64
		var fb [64 * 8]float64
		var buf [64]float64
		load := func(r *regs, trunc bool, put func(l int, v []float64)) bool {
			mm := r.locate(w, accRead)
			if mm == nil {
				return false
			}
			for l := range lanes {
				readRegs(r, mm.data[w.offs[l]:], buf[:r.n])
				if trunc {
					for i, x := range buf[:r.n] {
						buf[i] = float64(num.TF32Truncate(float32(x)))
					}
				}
				put(l, buf[:r.n])
			}
			return true
		}
		if !load(a, tfA, func(l int, v []float64) {
			for i := range na {
				row, d := aPlace(l, i, perA, m)
				fa[row*k+d] = v[i]
			}
		}) || !load(b, tfB, func(l int, v []float64) {
			for i := range nb {
				d, col := bPlace(l, i, perB)
				fb[col*k+d] = v[i]
			}
		}) {
			return
		}
		cm := acc.locate(w, accRead)
		if cm == nil {
			return
		}
		w.countFlops(2 * m * n * k)
		for l := range lanes {
			reg := cm.data[w.offs[l]:]
			for i := range nc {
				row, col := cPlace(l, i)
				ra, rb := fa[row*k:row*k+k], fb[col*k:col*k+k]
				s := 0.0
				for d, x := range ra {
					s += x * rb[d]
				}
				if intAcc {
					x := acc.el.getI(reg, i) + int64(s)
					if sat {
						x = min(max(x, -1<<31), 1<<31-1)
					}
					acc.el.putI(reg, i, wrap1(ct, x))
				} else {
					acc.el.putF(reg, i, acc.el.getF(reg, i)+s)
				}
			}
		}
		w.markWritten(cm, nc, acc)
	}
}

func (w *warp) markWritten(m *mem, n int, r *regs) {
	if m.init != nil {
		size := r.el.span(n)
		for l := range lanes {
			setBytes(m.init[w.offs[l]:][:size])
		}
	}
}

// readRegs reads a thread's registers as floats.
func readRegs(r *regs, b []byte, dst []float64) {
	switch {
	case r.el.k == kSub:
		for i := range dst {
			if r.el.fl {
				dst[i] = r.el.getF(b, i)
			} else {
				dst[i] = float64(r.el.getI(b, i))
			}
		}
	case r.el.fl:
		decodeF(r.el.k, r.el.f, dst, b)
	default:
		for i := range dst {
			dst[i] = float64(r.el.getI(b, i))
		}
	}
}

// ldmatrix compiles ptx_ldmatrix(trans, count, source, destination): lane 8i+r
// gives the address of row r of matrix i, eight 16-byte rows each. Lane l
// receives, of each matrix, elements 2(l%4) and 2(l%4)+1 of row l/4; with trans
// of column l/4 (PTX ISA, "ldmatrix").
func (c *comp) ldmatrix(e *ir.Call) stmtFn {
	trans := ir.IsConst(e.Args[0], 1)
	n, ok := ir.AsInt(e.Args[1])
	if !ok || n != 1 && n != 2 && n != 4 {
		c.fail("ldmatrix of %d matrices", n)
	}
	count := int(n)
	src, dst := c.vecI(c.expr(e.Args[2])), c.vecI(c.expr(e.Args[3]))
	ss, ds := c.site(pointeeName(e.Args[2])), c.site(pointeeName(e.Args[3]))
	c.noteAccess(16)
	return func(w *warp) {
		if !w.whole(ss) {
			return
		}
		m, mask := w.addrs(src(w), uint32(1<<(8*count)-1), ss)
		if m == nil || w.access(m, mask, 16, accRead, ss) != uint32(1<<(8*count)-1) {
			return
		}
		rows := w.offs
		d, mask := w.addrs(dst(w), w.mask, ds)
		if d == nil || w.access(d, mask, int64(4*count), accWrite, ds) != w.mask {
			return
		}
		for l := range lanes {
			for i := range count {
				out := d.data[w.offs[l]+int64(4*i):][:4]
				if trans {
					r := l & 3 * 2
					copy(out[:2], m.data[rows[8*i+r]+int64(l>>2*2):][:2])
					copy(out[2:], m.data[rows[8*i+r+1]+int64(l>>2*2):][:2])
				} else {
					copy(out, m.data[rows[8*i+l>>2]+int64(l&3*4):][:4])
				}
			}
		}
	}
}

// stmatrix compiles ptx_stmatrix(trans, count, destination, registers...), the
// inverse of ldmatrix; each register is a uint32.
func (c *comp) stmatrix(e *ir.Call) stmtFn {
	tr, ok1 := ir.AsInt(e.Args[0])
	n, ok2 := ir.AsInt(e.Args[1])
	args := e.Args
	if s, ok := args[len(args)-1].(*ir.StringImm); ok {
		if s.Value != "m8n8" {
			c.cannot("stmatrix of shape %s", s.Value)
		}
		args = args[:len(args)-1]
	}
	if !ok1 || !ok2 || n != 1 && n != 2 && n != 4 || len(args) != 3+int(n) {
		c.fail("stmatrix with these operands")
	}
	trans, count := tr != 0, int(n)
	dst := c.vecI(c.expr(e.Args[2]))
	var val []func(*warp) []int64
	for _, a := range args[3:] {
		val = append(val, c.vecI(c.expr(a)))
	}
	st := c.site(pointeeName(e.Args[2]))
	c.noteAccess(16)
	return func(w *warp) {
		if !w.whole(st) {
			return
		}
		var r [4][lanes]int64
		for i := range val {
			copy(r[i][:], val[i](w))
		}
		m, mask := w.addrs(dst(w), uint32(1<<(8*count)-1), st)
		if m == nil || w.access(m, mask, 16, accWrite, st) != uint32(1<<(8*count)-1) {
			return
		}
		for l := range lanes {
			for i := range count {
				x := r[i][l]
				if trans {
					for h := range 2 {
						b := m.data[w.offs[8*i+l&3*2+h]+int64(l>>2*2):]
						b[0], b[1] = byte(x>>(16*h)), byte(x>>(16*h+8))
					}
					continue
				}
				b := m.data[w.offs[8*i+l>>2]+int64(l&3*4):]
				b[0], b[1], b[2], b[3] = byte(x), byte(x>>8), byte(x>>16), byte(x>>24)
			}
		}
	}
}
