package tile

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/pipeline"
)

// mmaName is the name of an operand's type in T.ptx_mma, "" if the
// instruction does not take it.
func mmaName(t ir.DType, acc ir.DType) string {
	switch t {
	case ir.DFloat16:
		return "fp16"
	case ir.DBFloat16:
		return "bf16"
	case ir.DFloat32:
		if acc == ir.DFloat32 {
			return "tf32"
		}
	case ir.DInt8:
		return "int8"
	case ir.DUInt8:
		return "uint8"
	}
	switch t.String() {
	case "float8_e4m3fn", "float8_e4m3":
		return "e4m3"
	case "float8_e5m2":
		return "e5m2"
	case "tfloat32":
		return "tf32"
	}
	return ""
}

func accName(t ir.DType) string {
	switch t {
	case ir.DFloat32:
		return "fp32"
	case ir.DFloat16:
		return "fp16"
	case ir.DInt32:
		return "int32"
	}
	return ""
}

// checkMMA reports why a product cannot run on the target's matrix
// instruction.
func (lw *lowerer) checkMMA(g gemmArgs) error {
	a, acc := g.a.buf.Type, g.c.buf.Type
	bad := fmt.Errorf("no mma.sync of %s and %s into %s", a, g.b.buf.Type, acc)
	switch n := mmaName(a, acc); {
	case n == "" || mmaName(g.b.buf.Type, acc) == "":
		return bad
	case n == "fp16":
		if acc != ir.DFloat16 && acc != ir.DFloat32 {
			return bad
		}
	case n == "int8" || n == "uint8":
		if acc != ir.DInt32 {
			return bad
		}
	case a.IsFloat8():
		if !lw.ctx.Target.Features.FP8 {
			return fmt.Errorf("products of %s need sm_89 or later, the target is %s", a, lw.ctx.Target.Arch)
		}
		if acc != ir.DFloat32 && acc != ir.DFloat16 {
			return bad
		}
	case acc != ir.DFloat32:
		return bad
	}
	if n := mmaName(a, acc); n == "bf16" && !lw.ctx.Target.Features.BF16 {
		return fmt.Errorf("products of bfloat16 need sm_80 or later")
	}
	return nil
}

// gemm lowers T.gemm to mma.sync: for each step along the depth the warp loads
// its tiles of both operands from shared memory, by ldmatrix where the
// instruction serves the operand's layout, and multiplies them.
func (lw *lowerer) gemm(s ir.Stmt, c *ir.Call, e env) (ir.Stmt, error) {
	g, err := decodeGemm(c)
	if err != nil {
		return nil, err
	}
	if err := lw.checkMMA(g); err != nil {
		return nil, err
	}
	min, threads := e.bounds()
	m, err := g.mma(threads)
	if err != nil {
		return nil, err
	}
	if !g.c.isFull() {
		return nil, fmt.Errorf("the accumulator is a part of %s", g.c.buf.Name)
	}
	want, err := lw.cache.accumulator(m, min, threads)
	if err != nil {
		return nil, err
	}
	lw.known(g.c.buf)
	if f := lw.lay.frags[g.c.buf]; f == nil || !f.Equal(want) {
		return nil, pipeline.Errorf(s.Origin(), "T.gemm: the accumulator %s has a layout the instruction cannot use", g.c.buf.Name)
	}
	org := s.Origin()
	ki := &ir.Var{Name: "ki", Type: ir.DInt32}
	steps := g.k / m.MicroK
	var kx ir.Expr = ki
	if steps == 1 {
		kx = i32(0)
	}
	gm := &gemmLowering{lw: lw, m: m, g: g, ki: kx, org: org, thread: sub(e.thread(), i32(min)), env: e}
	var allocs []*ir.Buffer
	var loads []ir.Stmt
	a, aAt, err := gm.operand(g.a, true, &allocs, &loads)
	if err != nil {
		return nil, err
	}
	b, bAt, err := gm.operand(g.b, false, &allocs, &loads)
	if err != nil {
		return nil, err
	}
	body := ir.Seq(append(loads, gm.multiply(a, b, lw.buffer(g.c.buf), aAt, bAt))...)
	if steps > 1 {
		kind := ir.Serial
		if steps <= maxUnrolledDepth {
			kind = ir.Unrolled
		}
		body = &ir.For{Var: ki, Min: i32(0), Extent: i32(steps), Kind: kind, Body: body, Org: org}
	}
	var clear ir.Stmt
	if !ir.IsConst(g.clear, 0) {
		clear = lw.fillRegisters(lw.buffer(g.c.buf), ir.Const(g.c.buf.Type, 0), org)
		if !ir.IsConst(g.clear, 1) {
			r := lw.plain()
			cond := r.Expr(g.clear)
			if !cond.DType().IsBool() {
				cond = ir.NewBinary(ir.NE, cond, ir.Const(cond.DType(), 0))
			}
			clear = &ir.IfThenElse{Cond: cond, Then: clear, Org: org}
		}
	}
	name := "_gemm_"
	for _, r := range []region{g.a, g.b} {
		if isShared(r.buf) {
			name += "s"
		} else {
			name += "r"
		}
	}
	return &ir.SBlock{
		Name: name + "r", AllocBuffers: allocs, Body: ir.Seq(clear, body), Org: org,
		Annotations: (&ir.Dict{}).With(ir.KeyLexicalAllocScope, i32(1)),
	}, nil
}

// maxUnrolledDepth is how many steps along the depth are unrolled, so that the
// loads of a step overlap the products of the one before.
const maxUnrolledDepth = 16

type gemmLowering struct {
	lw     *lowerer
	m      *layout.MMA
	g      gemmArgs
	ki     ir.Expr
	thread ir.Expr // relative to the first that takes part
	org    ir.Span
	env    env
}

// operand prepares one operand: registers hold it already, or statements are
// added that load the warp's tiles for step ki into a local array. at gives
// the register of tile t.
func (gm *gemmLowering) operand(r region, isA bool, allocs *[]*ir.Buffer, loads *[]ir.Stmt) (*ir.Buffer, func(t ir.Expr) ir.Expr, error) {
	m, lw := gm.m, gm.lw
	tiles, local, name := m.RowTiles, m.LocalA, "A_local"
	if !isA {
		tiles, local, name = m.ColTiles, m.LocalB, "B_local"
	}
	if isFragment(r.buf) {
		lw.known(r.buf)
		min, threads := gm.env.bounds()
		want, err := lw.cache.operand(m, isA, min, threads)
		if err != nil {
			return nil, nil, err
		}
		if f := lw.lay.frags[r.buf]; f == nil || !f.Equal(want) || !r.isFull() {
			return nil, nil, fmt.Errorf("the operand %s has a layout the instruction cannot use", r.buf.Name)
		}
		step := mul(gm.ki, i32(tiles*local))
		return lw.buffer(r.buf), func(t ir.Expr) ir.Expr { return add(step, mul(t, i32(local))) }, nil
	}
	if !isShared(r.buf) {
		return nil, nil, fmt.Errorf("operand %s is in %s memory; it must be shared or a fragment", r.buf.Name, r.buf.Scope())
	}
	reg := ir.NewBuffer(name, r.buf.Type, "local", i32(tiles*local))
	reg.Org = gm.org
	*allocs = append(*allocs, reg)
	tv := &ir.Var{Name: "i", Type: ir.DInt32}
	var t ir.Expr = tv
	if tiles == 1 {
		t = i32(0)
	}
	lane := mod(gm.thread, i32(32))
	var warp ir.Expr
	warps, span, micro := m.WarpM, m.M/m.WarpM, int64(16)
	if isA {
		warp = mod(div(gm.thread, i32(32)), i32(warps))
	} else {
		warps, span, micro = m.WarpN, m.N/m.WarpN, m.MicroN
		warp = div(gm.thread, i32(32*m.WarpM))
	}
	if warps == 1 {
		warp = i32(0)
	}
	s0 := add(mul(warp, i32(span)), mul(t, i32(micro)))
	k0 := mul(gm.ki, i32(m.MicroK))
	element := func(ds, dk ir.Expr) *ir.BufferLoad {
		row, col := add(s0, ds), add(k0, dk)
		if isA && m.TransA || !isA && !m.TransB { // stored with the depth as its rows
			row, col = col, row
		}
		n := len(r.min)
		idx := append([]ir.Expr{}, r.min...)
		idx[n-2], idx[n-1] = add(r.min[n-2], row), add(r.min[n-1], col)
		rw := lw.plain()
		an := gm.env.analyzer()
		an.BindVar(tv, i32(0), i32(tiles))
		if v, ok := gm.ki.(*ir.Var); ok {
			an.BindVar(v, i32(0), i32(m.K/m.MicroK))
		}
		for d := range idx {
			idx[d] = rw.Expr(idx[d])
		}
		phys := lw.physical(r.buf, idx)
		for d := range phys {
			phys[d] = an.Simplify(phys[d])
		}
		return &ir.BufferLoad{Buffer: lw.buffer(r.buf), Indices: phys}
	}
	var body ir.Stmt
	ds, dk, trans, ok := m.LdMatrix(lane, isA)
	if ok && !lw.rowsTogether(r.buf, 128/m.Bits) {
		ok = false
		lw.ctx.Remark(gm.org, "not ldmatrix: the layout of %s does not keep 16 bytes of a row together", r.buf.Name)
	}
	if ok {
		num := int64(4)
		if !isA && m.MicroN == 8 {
			num = 2
		}
		n := num * 32 / m.Bits
		from := ir.NewCall(ir.MustOp("access_ptr"), element(ds, dk), i32(n), i32(1))
		to := ir.NewCall(ir.MustOp("access_ptr"), &ir.BufferLoad{Buffer: reg, Indices: []ir.Expr{mul(t, i32(local))}}, i32(n), i32(2))
		body = &ir.Evaluate{Value: ir.NewCall(ir.MustOp("ptx_ldmatrix"), ir.BoolConst(trans), i32(num), from, to), Org: gm.org}
	} else {
		// Element by element, as the instruction's registers want them.
		x := &ir.Var{Name: "j", Type: ir.DInt32}
		v := 32 / m.Bits
		quad, lo := div(lane, i32(4)), mod(lane, i32(4))
		word := div(x, i32(v))
		sHi, kHi := mod(word, i32(2)), div(word, i32(2))
		if !isA {
			sHi, kHi = kHi, sHi
			if m.MicroN == 8 {
				sHi = i32(0)
			}
		}
		ds := add(mul(sHi, i32(8)), quad)
		dk := add(add(mul(kHi, i32(4*v)), mul(lo, i32(v))), mod(x, i32(v)))
		body = &ir.For{Var: x, Min: i32(0), Extent: i32(local), Kind: ir.Unrolled, Org: gm.org, Body: &ir.BufferStore{
			Buffer: reg, Indices: []ir.Expr{add(mul(t, i32(local)), x)}, Value: element(ds, dk), Org: gm.org}}
	}
	if tiles > 1 {
		body = &ir.For{Var: tv, Min: i32(0), Extent: i32(tiles), Kind: ir.Unrolled, Body: body, Org: gm.org}
	}
	*loads = append(*loads, body)
	return reg, func(t ir.Expr) ir.Expr { return mul(t, i32(local)) }, nil
}

// rowsTogether reports that a buffer's layout keeps aligned runs of n elements
// of the last dimension together and aligned, as ldmatrix reads them.
func (lw *lowerer) rowsTogether(b *ir.Buffer, n int64) bool {
	lw.known(b)
	m := lw.lay.maps[b]
	if m == nil {
		w, ok := ir.AsInt(b.Shape[len(b.Shape)-1])
		return ok && w%n == 0 && b.Strides == nil
	}
	for p := int64(0); p < m.Size(); p++ {
		base := p - p%n
		if m.At(p) != m.At(base)+p-base || m.At(base)%n != 0 {
			return false
		}
	}
	return m.Shape[len(m.Shape)-1]%n == 0
}

// multiply is the products of all tiles of the warp for one step.
func (gm *gemmLowering) multiply(a, b, c *ir.Buffer, aAt, bAt func(ir.Expr) ir.Expr) ir.Stmt {
	m := gm.m
	acc := gm.g.c.buf.Type
	i, j := &ir.Var{Name: "i", Type: ir.DInt32}, &ir.Var{Name: "j", Type: ir.DInt32}
	var x, y ir.Expr = i, j
	if m.RowTiles == 1 {
		x = i32(0)
	}
	if m.ColTiles == 1 {
		y = i32(0)
	}
	shape := fmt.Sprintf("m16n8k%d", m.MicroK)
	aName, bName := mmaName(gm.g.a.buf.Type, acc), mmaName(gm.g.b.buf.Type, acc)
	mma := func(half int64) ir.Stmt {
		bo := add(bAt(y), i32(half*m.LocalB/2))
		co := add(add(mul(x, i32(m.ColTiles*m.LocalC)), mul(y, i32(m.LocalC))), i32(half*m.LocalC/2))
		call := ir.NewTypedCall(ir.MustOp("ptx_mma"), acc, ir.Str(shape), ir.Str("row"), ir.Str("col"), ir.Str(aName), ir.Str(bName), ir.Str(accName(acc)),
			a.Data, aAt(x), b.Data, bo, c.Data, co, ir.BoolConst(false))
		return &ir.Evaluate{Value: call, Org: gm.org}
	}
	body := mma(0)
	if m.MicroN == 16 {
		body = ir.Seq(body, mma(1))
	}
	if m.ColTiles > 1 {
		body = &ir.For{Var: j, Min: i32(0), Extent: i32(m.ColTiles), Kind: ir.Unrolled, Body: body, Org: gm.org}
	}
	if m.RowTiles > 1 {
		body = &ir.For{Var: i, Min: i32(0), Extent: i32(m.RowTiles), Kind: ir.Unrolled, Body: body, Org: gm.org}
	}
	return body
}
