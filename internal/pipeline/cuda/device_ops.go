package cuda

import (
	"fmt"
	"strings"

	"lowertrace/internal/ir"
)

// Memory orders of the atomic operators, as in C++.
const (
	orderRelaxed = 0
	orderAcquire = 2
	orderRelease = 3
	orderSeqCst  = 5
)

// ordered puts fences around an atomic operation that asks for more than
// relaxed order.
func (g *gen) ordered(c *ir.Call, at int, s string, value bool) text {
	order := int64(orderRelaxed)
	if len(c.Args) > at {
		order = g.constant(c, at)
	}
	before, after := order >= orderRelease && order <= orderSeqCst, order == orderAcquire || order > orderRelease && order <= orderSeqCst
	switch {
	case !before && !after:
		return atom(s)
	case value:
		g.fail("T.%s with a result must be relaxed", c.Op.Name)
	}
	if before {
		g.emit("__threadfence();")
	}
	if after {
		g.emit("%s;", s)
		return atom("__threadfence()")
	}
	return atom(s)
}

// pointee is the element type an address argument points to.
func (g *gen) pointee(c *ir.Call, i int) ir.DType {
	t, ok := ir.Pointee(c.Args[i])
	if !ok {
		g.fail("argument %d of T.%s must point to an element", i+1, c.Op.Name)
	}
	return t
}

func (g *gen) atomic(c *ir.Call, op string) text {
	t := g.pointee(c, 0)
	fn := map[string]string{"add": "atomicAdd", "max": "atomicMax", "min": "atomicMin"}[op]
	switch {
	case op == "add" && t == ir.DInt64:
		g.pre.use("atomic_add_long")
	case op == "add" && is16(t):
		g.pre.use("atomic_add_" + mustType(t).word())
	case op != "add" && t == ir.DFloat32:
		fn = "atomic_" + op
		g.pre.use(fn + "_float")
	case t.IsInteger() && t.Bits >= 32, op == "add" && (t == ir.DFloat32 || t == ir.DFloat64):
	default:
		g.fail("no atomic %s of %s", op, t)
	}
	v := c.Args[1]
	if from := v.DType(); from != t && from.IsScalar() && !from.IsHandle() {
		v = &ir.Cast{Type: t, Value: v}
	}
	value := g.expr(v).s
	return g.ordered(c, 2, atomf("%s(%s, %s)", fn, g.expr(c.Args[0]).s, value).s, !c.Type.IsVoid())
}

// atomicVector adds two or four adjacent elements; the value is a vector, or
// the address of one.
func (g *gen) atomicVector(c *ir.Call, n int) text {
	t := g.pointee(c, 0)
	v := g.ctype(t.WithLanes(n))
	fn := "atomicAdd"
	switch {
	case t == ir.DFloat32:
		fn = "atomic_add"
		g.pre.use("atomic_add_" + v.name)
	case is16(t) && n == 2:
		g.pre.use("atomic_add_" + v.word())
	default:
		g.fail("no atomic addition of %d adjacent %s", n, t)
	}
	name := g.pre.typ(v)
	value := g.expr(c.Args[1])
	if c.Args[1].DType() != v.dtype { // given by its address
		value.s = "*(const " + name + "*)" + value.in(precUnary)
	}
	s := fmt.Sprintf("%s((%s*)%s, %s)", fn, name, g.expr(c.Args[0]).in(precUnary), value.s)
	return g.ordered(c, 2, s, !c.Type.IsVoid())
}

func (g *gen) atomicLoad(c *ir.Call) text {
	t := g.pre.typ(g.ctype(g.pointee(c, 0)))
	if isNarrow(c.Type) {
		g.fail("no atomic load of %s", c.Type)
	}
	order := g.constant(c, 1)
	load := text{fmt.Sprintf("*(volatile %s*)%s", t, g.expr(c.Args[0]).in(precUnary)), precUnary}
	if order == orderRelaxed {
		return load
	}
	g.pre.add("load_acquire", nil, func() string {
		return "template <class T>\n" + device + "T load_acquire(const T* p) {\n  T v = *(const volatile T*)p;\n  __threadfence();\n  return v;\n}"
	})
	return atomf("load_acquire(%s)", g.expr(c.Args[0]).s)
}

func (g *gen) atomicStore(c *ir.Call) text {
	t := g.pre.typ(g.ctype(g.pointee(c, 0)))
	if isNarrow(g.pointee(c, 0)) {
		g.fail("no atomic store of %s", t)
	}
	s := fmt.Sprintf("*(volatile %s*)%s = %s", t, g.expr(c.Args[0]).in(precUnary), g.expr(c.Args[1]).s)
	return g.ordered(c, 2, s, false)
}

// cpAsync prints ptx_cp_async(dst, src, elements[, condition]).
func (g *gen) cpAsync(c *ir.Call) text {
	t := g.pointee(c, 0)
	bytes := g.constant(c, 2) * int64(t.Bytes())
	if bytes != 4 && bytes != 8 && bytes != 16 {
		g.fail("cp.async copies 4, 8 or 16 bytes, not %d", bytes)
	}
	if len(c.Args) > 3 {
		g.pre.use("cp_async_if")
		return atomf("cp_async_if<%d>(%s, %s, %s)", bytes, g.expr(c.Args[0]).s, g.expr(c.Args[1]).s, g.expr(c.Args[3]).s)
	}
	g.pre.use("cp_async")
	return atomf("cp_async<%d>(%s, %s)", bytes, g.expr(c.Args[0]).s, g.expr(c.Args[1]).s)
}

// tmaLoad prints tma_load(map, barrier, dst, coordinates…[, offsets…], eviction).
func (g *gen) tmaLoad(c *ir.Call, im2col bool) text {
	n := len(c.Args) - 4
	rank := n
	if im2col {
		rank = (n + 2) / 2
	}
	if rank < 1 || rank > 5 || im2col && (rank < 3 || 2*rank-2 != n) {
		g.fail("T.%s has %d coordinates", c.Op.Name, n)
	}
	if v, ok := c.Args[0].(*ir.Var); !ok || v.Ptr == nil || v.Ptr.Scope != "grid_constant" {
		g.fail("T.%s without a tensor map", c.Op.Name)
	}
	ev := g.constant(c, len(c.Args)-1)
	name := "tma_load_" + itoa(int64(rank)) + "d"
	if im2col {
		name = "tma_load_im2col_" + itoa(int64(rank)) + "d"
	}
	name += evictionName(ev)
	g.pre.add(name, []string{"tensor_map", "shared_address"}, func() string {
		return strings.TrimPrefix(tmaLoad(name, rank, im2col, ev), "\n")
	})
	return atomf("%s(%s, %s, %s, %s)", name, g.expr(c.Args[2]).s, g.expr(c.Args[0]).s, g.barrier(c.Args[1]), g.args(c.Args[3:len(c.Args)-1]))
}

func evictionName(ev int64) string {
	switch ev {
	case 1:
		return "_evict_first"
	case 2:
		return "_evict_last"
	}
	return ""
}

// tmaStore prints tma_store(map, src, coordinates…, reduce, eviction), or, for
// adjacent bytes, tma_store(dst, src, bytes, reduce, eviction).
func (g *gen) tmaStore(c *ir.Call) text {
	if v, ok := c.Args[0].(*ir.Var); !ok || v.Ptr == nil || v.Ptr.Scope != "grid_constant" {
		if len(c.Args) != 5 || g.constant(c, 3) != 0 || g.constant(c, 4) != 0 {
			g.fail("T.tma_store of adjacent bytes takes no reduction and no eviction priority")
		}
		return atomf("%s(%s)", g.pre.use("tma_store_bytes"), g.args(c.Args[:3]))
	}
	rank := len(c.Args) - 4
	if rank < 1 || rank > 5 {
		g.fail("T.tma_store has %d coordinates", rank)
	}
	reduce, ev := g.constant(c, len(c.Args)-2), g.constant(c, len(c.Args)-1)
	name := "tma_store_" + itoa(int64(rank)) + "d"
	if reduce != 0 {
		name = "tma_add_" + itoa(int64(rank)) + "d"
	}
	name += evictionName(ev)
	g.pre.add(name, []string{"tensor_map", "shared_address"}, func() string {
		return strings.TrimPrefix(tmaStore(name, rank, reduce != 0, ev), "\n")
	})
	return atomf("%s(%s, %s, %s)", name, g.expr(c.Args[0]).s, g.expr(c.Args[1]).s, g.args(c.Args[2:len(c.Args)-2]))
}

// offset is a pointer plus an element offset.
func (g *gen) offset(p, off ir.Expr) string {
	v, ok := p.(*ir.Var)
	if !ok {
		if ir.IsConst(off, 0) {
			return g.expr(p).s
		}
		return infixText("+", g.expr(p), g.expr(off)).s
	}
	t := g.expr(v)
	if ir.IsConst(off, 0) {
		return t.s
	}
	return "&" + t.in(precPostfix) + "[" + g.expr(off).s + "]"
}

// ptxName spells the PTX name of an operand type of a matrix instruction.
func (g *gen) ptxName(s string) string {
	t, ok := ptxTypes[s]
	if !ok {
		g.fail("matrix instructions have no operand type %q", s)
	}
	return t.ptx
}

// mma prints ptx_mma(shape, layouts, types, A, a offset, B, b offset, C, c
// offset, saturate).
func (g *gen) mma(c *ir.Call) text {
	if len(c.Args) < 13 {
		g.fail("T.ptx_mma has %d arguments", len(c.Args))
	}
	sh := g.str(c, 0)
	m, n, k, ok := shape(sh)
	if !ok || m*n*k == 0 || m*n*k > 1<<16 {
		g.fail("T.ptx_mma of shape %q", sh)
	}
	if g.str(c, 1) != "row" || g.str(c, 2) != "col" {
		g.fail("T.ptx_mma wants A by rows and B by columns")
	}
	ta, tb, tc := g.str(c, 3), g.str(c, 4), g.str(c, 5)
	name := fmt.Sprintf("mma_%s_%s", sh, g.ptxName(ta))
	if g.ptxName(tb) != g.ptxName(ta) {
		name += "_" + g.ptxName(tb)
	}
	name += "_" + g.ptxName(tc)
	sat := ir.IsConst(c.Args[12], 1)
	if sat {
		name += "_sat"
	}
	g.pre.add(name, nil, func() string { return strings.TrimPrefix(mma(name, sh, m, n, k, ta, tb, tc, sat), "\n") })
	return atomf("%s(%s, %s, %s)", name, g.offset(c.Args[10], c.Args[11]), g.offset(c.Args[6], c.Args[7]), g.offset(c.Args[8], c.Args[9]))
}

// matrices checks the number of 8x8 matrices an ldmatrix or stmatrix moves.
func (g *gen) matrices(c *ir.Call) (n int, trans bool) {
	v := g.constant(c, 1)
	if v != 1 && v != 2 && v != 4 {
		g.fail("T.%s moves 1, 2 or 4 matrices, not %d", c.Op.Name, v)
	}
	return int(v), g.constant(c, 0) != 0
}

func (g *gen) ldmatrix(c *ir.Call) text {
	n, trans := g.matrices(c)
	return atomf("%s(%s, %s)", g.pre.use(ldmatrixName("ldmatrix", n, trans)), g.expr(c.Args[3]).s, g.expr(c.Args[2]).s)
}

// stmatrix prints ptx_stmatrix(trans, n, dst, registers…, shape).
func (g *gen) stmatrix(c *ir.Call) text {
	n, trans := g.matrices(c)
	regs := c.Args[3:]
	if len(regs) > 0 {
		if s, ok := regs[len(regs)-1].(*ir.StringImm); ok {
			if s.Value != "m8n8" {
				g.fail("stmatrix of shape %q", s.Value)
			}
			regs = regs[:len(regs)-1]
		}
	}
	if len(regs) != n {
		g.fail("T.ptx_stmatrix of %d matrices has %d registers", n, len(regs))
	}
	return atomf("%s(%s, %s)", g.pre.use(ldmatrixName("stmatrix", n, trans)), g.expr(c.Args[2]).s, g.args(regs))
}

// wgmmaShared prints ptx_wgmma_ss(shape, a K-major, b K-major, types, A, a
// offset, B, b offset, C, c offset, accumulate, scale A, scale B).
func (g *gen) wgmmaShared(c *ir.Call) text { return g.wgmma(c, false) }

// wgmmaRegisters prints ptx_wgmma_rs(shape, b K-major, types, A, a offset, B,
// b offset, C, c offset, accumulate, scale A, scale B).
func (g *gen) wgmmaRegisters(c *ir.Call) text { return g.wgmma(c, true) }

func (g *gen) wgmma(c *ir.Call, registers bool) text {
	sh := g.str(c, 0)
	m, n, k, ok := shape(sh)
	if !ok || m != 64 || n < 8 || n > 256 || n%8 != 0 {
		g.fail("T.%s of shape %q", c.Op.Name, sh)
	}
	args := c.Args[1:]
	transA := false
	if !registers {
		transA = ir.IsConst(args[0], 0)
		args = args[1:]
	}
	transB := ir.IsConst(args[0], 0)
	off := len(c.Args) - len(args) + 1
	ta, tb, tc := g.str(c, off), g.str(c, off+1), g.str(c, off+2)
	rest := c.Args[off+3:]
	a, aOff, b, bOff, acc, accOff, use := rest[0], rest[1], rest[2], rest[3], rest[4], rest[5], rest[6]
	sa, sb := int64(1), int64(1)
	if len(rest) >= 9 {
		sa, sb = g.constant(c, len(c.Args)-2), g.constant(c, len(c.Args)-1)
	}
	name := fmt.Sprintf("wgmma_%s_%s", sh, g.ptxName(ta))
	if g.ptxName(tb) != g.ptxName(ta) {
		name += "_" + g.ptxName(tb)
	}
	name += "_" + g.ptxName(tc)
	if registers {
		name += "_rs"
	}
	name += map[[2]bool]string{{false, false}: "", {true, false}: "_tn", {false, true}: "_nt", {true, true}: "_tt"}[[2]bool{transA, transB}]
	for _, s := range []struct {
		v    int64
		name string
	}{{sa, "a"}, {sb, "b"}} {
		if s.v == -1 {
			name += "_neg" + s.name
		} else if s.v != 1 {
			g.fail("the scale of a wgmma operand is 1 or -1")
		}
	}
	g.pre.add(name, nil, func() string { return wgmma(name, sh, m, n, k, registers, ta, tb, tc, transA, transB, sa, sb) })
	first := g.offset(a, aOff)
	if !registers {
		first = g.descriptor(a, aOff)
	}
	return atomf("%s(%s, %s, %s, %s)", name, g.offset(acc, accOff), first, g.descriptor(b, bOff), g.expr(use).s)
}

// descriptor is a wgmma descriptor moved by an offset in 16 bytes.
func (g *gen) descriptor(p, off ir.Expr) string {
	v, ok := p.(*ir.Var)
	if !ok {
		g.fail("a wgmma descriptor must be a variable")
	}
	d, ok := g.vars[v]
	if !ok {
		g.fail("wgmma descriptor %s is not defined here", v.Name)
	}
	t := atom(d.name)
	if !d.single {
		t = atom(d.name + "[0]")
	}
	if ir.IsConst(off, 0) {
		return t.s
	}
	return infixText("+", t, g.expr(off)).s
}

// fenceOperand prints warpgroup_fence_operand(type, pointer, offset, number of
// 32-bit registers).
func (g *gen) fenceOperand(c *ir.Call) text {
	t, err := ir.ParseDType(g.str(c, 0))
	if err != nil {
		g.fail("%v", err)
	}
	at := g.offset(c.Args[1], c.Args[2])
	if t == ir.DFloat32 {
		g.pre.use("fence_registers_float")
	} else {
		g.pre.use("fence_registers_bits")
		if t != ir.DUInt32 {
			at = "(unsigned*)" + text{at, precUnary}.in(precUnary)
		}
	}
	return atomf("fence_registers<%d>(%s)", g.constant(c, 3), at)
}

// wgmmaDescriptor prints initialize_wgmma_descriptor(descriptor, address,
// swizzle, leading, stride).
func (g *gen) wgmmaDescriptor(c *ir.Call) text {
	v := g.expr(c.Args[0])
	return text{fmt.Sprintf("%s = %s<%d, %d, %d>(%s)", v.s, g.pre.use("wgmma_descriptor"), g.constant(c, 2), g.constant(c, 3),
		g.constant(c, 4), g.expr(c.Args[1]).s), precTernary}
}

func (g *gen) abs2(c *ir.Call) text {
	t := g.ctype(c.Type)
	if t.kind != pairType || t.lanes() != 2 {
		g.fail("T.abs2 of %s", c.Type)
	}
	g.pre.use("abs_" + t.word())
	return atomf("abs2(%s)", g.expr(c.Args[0]).s)
}

func (g *gen) fma2(c *ir.Call) text {
	t := g.ctype(c.Type)
	if t.kind != pairType || t.lanes() != 2 {
		g.fail("T.fma2 of %s", c.Type)
	}
	g.pre.use("fma_" + t.word())
	return atomf("fma2(%s)", g.args(c.Args))
}
