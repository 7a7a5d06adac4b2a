package tile

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// copy lowers T.copy. Copies that a pipeline manages, and T.async_copy, from
// global to shared memory become cp.async where 4, 8 or 16 bytes lie together;
// all others load and store.
func (lw *lowerer) copy(s ir.Stmt, c *ir.Call, e env) (ir.Stmt, error) {
	a, err := decodeCopy(c)
	if err != nil {
		return nil, err
	}
	if b, ok := c.Attr("dst_block").(ir.Expr); ok && !ir.IsConst(b, -1) {
		return nil, fmt.Errorf("a copy to another block of the cluster needs sm_90")
	}
	loop, err := copyLoop(c, a, e, lw.safeValue(a.src.buf), s.Origin())
	if err != nil {
		return nil, err
	}
	if isLocal(a.src.buf) || isLocal(a.dst.buf) {
		return lw.ownCopy(a, loop, e)
	}
	if isFragment(a.src.buf) && isFragment(a.dst.buf) && a.src.isFull() && a.dst.isFull() {
		if out := lw.moveRegisters(a, e, s.Origin()); out != nil {
			return out, nil
		}
	}
	explicit := c.Op.Name == "async_copy"
	if n, ok := ir.AttrInt(c.Attr("is_async_copy")); ok && n != 0 {
		explicit = true
	}
	managed := false
	if n, ok := ir.AttrInt(c.Attr("no_implicit_async_commit_wait")); ok && n != 0 {
		managed = true
	}
	if !(explicit || managed) || !lw.ctx.Target.Features.AsyncCopy || !isGlobal(a.src.buf) || !isShared(a.dst.buf) || a.src.buf.Type != a.dst.buf.Type {
		return lw.simt(s, loop, e)
	}
	used := false
	out, err := lw.simtWith(s, loop, e, asyncGroup(bitsOf(a.dst.buf.Type), &used))
	if err != nil {
		return nil, err
	}
	if !used {
		lw.ctx.Remark(s.Origin(), "not cp.async: the copy to %s moves less than 4 contiguous bytes at once, or reads a value other than zero out of bounds", a.dst.buf.Name)
		return out, nil
	}
	if explicit && !managed {
		out = ir.Seq(out, &ir.Evaluate{Value: ir.NewCall(ir.MustOp("ptx_commit_group")), Org: s.Origin()})
	}
	return out, nil
}

// asyncGroup makes cp.async of the groups of a copy whose elements have some
// number of bits, where that is possible, and then sets used.
func asyncGroup(bits int64, used *bool) groupFunc {
	return func(body ir.Stmt, v int64) (ir.Stmt, bool) {
		if b := v * bits / 8; b != 4 && b != 8 && b != 16 || v*bits%8 != 0 {
			return nil, false
		}
		st, guard := body, ir.Expr(nil)
		if i, ok := st.(*ir.IfThenElse); ok && i.Else == nil {
			st, guard = i.Then, i.Cond
		}
		store, ok := st.(*ir.BufferStore)
		if !ok {
			return nil, false
		}
		async, ok := cpAsync(store, v)
		if !ok {
			return nil, false
		}
		*used = true
		var r ir.Stmt = &ir.Evaluate{Value: async, Org: store.Org}
		if guard != nil {
			r = &ir.IfThenElse{Cond: guard, Then: r, Org: store.Org}
		}
		return r, true
	}
}

// moveRegisters copies a fragment to one on fewer of its threads by going over
// the source's registers, so that no register number depends on the thread.
// It is nil where the plain copy needs no such number, or threads would have to
// exchange elements.
func (lw *lowerer) moveRegisters(a copyArgs, e env, org ir.Span) ir.Stmt {
	lw.known(a.src.buf)
	lw.known(a.dst.buf)
	src, dst := lw.lay.frags[a.src.buf], lw.lay.frags[a.dst.buf]
	if src == nil || dst == nil || src.Regs <= dst.Regs || !sameExprs(a.src.buf.Shape, a.dst.buf.Shape) || !layout.Contains(src, dst, nil, nil) {
		return nil
	}
	iv := &ir.Var{Name: "i", Type: ir.DInt32}
	w, err := deliver(src, dst, iv, e.thread())
	if err != nil || w.cond == nil || ir.UsesVar(w.reg, func(v *ir.Var) bool { return v == e.tx }) {
		return nil
	}
	from, to := lw.buffer(a.src.buf), lw.buffer(a.dst.buf)
	var body ir.Stmt = &ir.BufferStore{Buffer: to, Indices: []ir.Expr{w.reg},
		Value: ir.CastTo(&ir.BufferLoad{Buffer: from, Indices: []ir.Expr{iv}}, to.Type), Org: org}
	body = &ir.IfThenElse{Cond: w.cond, Then: body, Org: org}
	return &ir.For{Var: iv, Min: i32(0), Extent: i32(src.Regs), Kind: ir.Unrolled, Body: body, Org: org}
}

// cpAsync turns the store of a loaded element into cp.async of v elements
// (PTX ISA, "cp.async": out of bounds the destination is filled with zeros).
func cpAsync(st *ir.BufferStore, v int64) (*ir.Call, bool) {
	value := st.Value
	var pred ir.Expr
	if c, ok := ir.IsCall(value, "if_then_else"); ok {
		switch z := c.Args[2].(type) {
		case *ir.IntImm:
			if z.Value != 0 {
				return nil, false
			}
		case *ir.FloatImm:
			if z.Value != 0 {
				return nil, false
			}
		default:
			return nil, false
		}
		pred, value = c.Args[0], c.Args[1]
	}
	ld, ok := value.(*ir.BufferLoad)
	if !ok {
		return nil, false
	}
	ptr := func(b *ir.Buffer, idx []ir.Expr, mask int64) ir.Expr {
		return ir.NewCall(ir.MustOp("access_ptr"), &ir.BufferLoad{Buffer: b, Indices: idx}, i32(v), i32(mask))
	}
	args := []ir.Expr{ptr(st.Buffer, st.Indices, 2), ptr(ld.Buffer, ld.Indices, 1), i32(v)}
	if pred != nil {
		args = append(args, pred)
	}
	return ir.NewCall(ir.MustOp("ptx_cp_async"), args...), true
}

// safeValue is what elements of a buffer read as outside of it.
func (lw *lowerer) safeValue(b *ir.Buffer) ir.Expr {
	if lw.safe == nil {
		return nil
	}
	for _, ent := range lw.safe.Entries {
		if ent.Key == ir.Attr(b.Data) || ent.Key == ir.Attr(b) {
			v, _ := ent.Value.(ir.Expr)
			return v
		}
	}
	return nil
}

// ownCopy is a copy from or to memory each thread has of its own: the thread
// does all of it.
func (lw *lowerer) ownCopy(a copyArgs, loop ir.Stmt, e env) (ir.Stmt, error) {
	k := len(a.vars) - 1
	v := int64(1)
	if f, ok := loop.(*ir.For); ok {
		n, err := newNest(f, e)
		if err != nil {
			return nil, err
		}
		if n.ext != nil {
			v = n.width(lw.lay, e)
		}
	}
	r := lw.plain()
	var build func(s ir.Stmt, d int) ir.Stmt
	build = func(s ir.Stmt, d int) ir.Stmt {
		f, ok := s.(*ir.For)
		if !ok || f.Kind != ir.Parallel {
			return r.Stmt(s)
		}
		c := *f
		c.Kind = ir.Serial
		x, isConst := ir.AsInt(f.Extent)
		if isConst {
			c.Kind = ir.Unrolled
		}
		if d < k || v == 1 || !isConst {
			c.Body = build(f.Body, d+1)
			return &c
		}
		if x == v {
			c.Kind = ir.Vectorized
			c.Body = build(f.Body, d+1)
			return &c
		}
		lane := &ir.Var{Name: "vec", Type: f.Var.Type}
		c.Extent = ir.IntConst(f.Var.Type, x/v)
		body := foldSubst(build(f.Body, d+1), func(y *ir.Var) ir.Expr {
			if y == f.Var {
				return add(mul(f.Var, i32(v)), lane)
			}
			return y
		})
		c.Body = &ir.For{Var: lane, Min: ir.IntConst(lane.Type, 0), Extent: ir.IntConst(lane.Type, v), Kind: ir.Vectorized, Body: body, Org: f.Org}
		return &c
	}
	return build(loop, 0), nil
}

// fill lowers T.fill: of a fragment, all registers of the thread; of memory of
// its own, all of it; of shared or global memory, the thread's part.
func (lw *lowerer) fill(s ir.Stmt, c *ir.Call, e env) (ir.Stmt, error) {
	r, err := decodeRegion(c.Args[0])
	if err != nil {
		return nil, err
	}
	loop, err := fillLoop(c, e, s.Origin())
	if err != nil {
		return nil, err
	}
	if isLocal(r.buf) {
		a := copyArgs{dst: r}
		for f, ok := loop.(*ir.For); ok; f, ok = f.Body.(*ir.For) {
			a.vars = append(a.vars, f.Var)
		}
		return lw.ownCopy(a, loop, e)
	}
	if isFragment(r.buf) && r.isFull() {
		return lw.fillRegisters(lw.buffer(r.buf), c.Args[1], s.Origin()), nil
	}
	return lw.simt(s, loop, e)
}

// fillRegisters stores one value to every register of a tile.
func (lw *lowerer) fillRegisters(b *ir.Buffer, value ir.Expr, org ir.Span) ir.Stmt {
	r := lw.plain()
	v := ir.CastTo(r.Expr(value), b.Type)
	n, _ := ir.AsInt(b.Shape[0])
	lanes := max(1, maxVectorBits/bitsOf(b.Type))
	for n%lanes != 0 {
		lanes /= 2
	}
	gv, lv := &ir.Var{Name: "i", Type: ir.DInt32}, &ir.Var{Name: "vec", Type: ir.DInt32}
	groups := n / lanes
	var at ir.Expr = i32(0)
	if groups > 1 {
		at = mul(gv, i32(lanes))
	} else {
		lv.Name = "i"
	}
	if lanes > 1 {
		at = add(at, lv)
	}
	var body ir.Stmt = &ir.BufferStore{Buffer: b, Indices: []ir.Expr{at}, Value: v, Org: org}
	if lanes > 1 {
		body = &ir.For{Var: lv, Min: i32(0), Extent: i32(lanes), Kind: ir.Vectorized, Body: body, Org: org}
	}
	if groups > 1 {
		body = &ir.For{Var: gv, Min: i32(0), Extent: i32(groups), Kind: ir.Unrolled, Body: body, Org: org}
	}
	return body
}
