package tile

import (
	"fmt"

	"lowertrace/internal/ir"
)

// scan lowers T.cumsum of one or two dimensions in shared memory to a call of
// the block's scan. Its source and destination are in row-major order.
func (lw *lowerer) scan(s ir.Stmt, c *ir.Call, e env) (ir.Stmt, error) {
	src, err := decodeRegion(c.Args[0])
	if err != nil {
		return nil, err
	}
	dst, err := decodeRegion(c.Args[1])
	if err != nil {
		return nil, err
	}
	dim, ok1 := ir.AsInt(c.Args[2])
	rev, ok2 := ir.AsInt(c.Args[3])
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("the dimension or direction is not a constant")
	}
	if !isShared(src.buf) || !isShared(dst.buf) {
		return nil, fmt.Errorf("a scan from %s to %s memory; both must be shared", src.buf.Scope(), dst.buf.Scope())
	}
	ext, ok := src.constExtents()
	if !ok || !sameExprs(src.ext, dst.ext) {
		return nil, fmt.Errorf("a scan of regions whose extents are not constant or differ")
	}
	// Leading dimensions of extent 1 choose one of several versions.
	lead := 0
	for lead < len(ext)-2 && ext[lead] == 1 {
		lead++
	}
	for lead < len(ext)-1 && ext[lead] == 1 && dim > int64(lead) && len(ext)-lead > 2 {
		lead++
	}
	ext, dim = ext[lead:], dim-int64(lead)
	if dim < 0 || dim >= int64(len(ext)) {
		return nil, fmt.Errorf("dimension %d of %d", dim, len(ext))
	}
	reverse := "false"
	if rev != 0 {
		reverse = "true"
	}
	_, n := e.bounds()
	ptr := func(r region, mask int64) ir.Expr {
		b := lw.buffer(r.buf)
		size := int64(1)
		for _, x := range ext {
			size *= x
		}
		t := ir.NewTypedCall(ir.MustOp("type_annotation"), b.Type)
		rw := lw.plain()
		return ir.NewCall(ir.MustOp("tvm_access_ptr"), t, b.Data, rw.Expr(flatOffset(r.buf, r.min)), i32(size), i32(mask))
	}
	stride := func(r region, d int) ir.Expr {
		if r.buf.Strides != nil {
			return r.buf.Strides[d]
		}
		return ir.RowMajorStrides(r.buf.Shape)[d]
	}
	var name string
	args := []ir.Expr{ptr(src, 1), ptr(dst, 2)}
	switch len(ext) {
	case 1:
		name = fmt.Sprintf("tl::CumSum1D<%d, %s>::run", n, reverse)
		args = append(args, i32(ext[0]))
	case 2:
		name = fmt.Sprintf("tl::CumSum2D<%d, %d, %s>::run", n, dim, reverse)
		args = append(args, i32(ext[0]), i32(ext[1]), stride(src, lead), stride(dst, lead))
	default:
		return nil, fmt.Errorf("a scan of %d dimensions", len(ext))
	}
	call := ir.NewTypedCall(ir.MustOp("call_extern"), src.buf.Type, append([]ir.Expr{ir.Str(name)}, args...)...)
	return &ir.Evaluate{Value: call, Org: s.Origin()}, nil
}

// finalizeReducer exchanges the parts of a reducer's results, which lie in the
// registers of several threads: T.finalize_reducer(region, kind, threads,
// scale, seed=...).
func (lw *lowerer) finalizeReducer(s ir.Stmt, c *ir.Call, e env) (ir.Stmt, error) {
	r, err := decodeRegion(c.Args[0])
	if err != nil {
		return nil, err
	}
	if len(c.Args) < 4 {
		return nil, fmt.Errorf("no exchange is planned for %s", r.buf.Name)
	}
	ints := [3]int64{0, 1, 1}
	for i := 1; i < len(c.Args) && i < 4; i++ {
		v, ok := ir.AsInt(c.Args[i])
		if !ok {
			return nil, fmt.Errorf("argument %d is not a constant", i+1)
		}
		ints[i-1] = v
	}
	kinds := []string{"sum", "max", "min", "bitand", "bitor", "bitxor"}
	if ints[0] < 0 || int(ints[0]) >= len(kinds) {
		return nil, fmt.Errorf("unknown kind %d", ints[0])
	}
	k := reducers[kinds[ints[0]]]
	b := lw.buffer(r.buf)
	n, _ := ir.AsInt(b.Shape[0])
	iv := &ir.Var{Name: "i", Type: ir.DInt32}
	var seed ir.Expr
	if v, ok := c.Attr("seed").(ir.Expr); ok {
		rw := lw.plain()
		seed = ir.CastTo(rw.Expr(v), b.Type)
	}
	mask := (ints[1] - 1) &^ (ints[2] - 1)
	if mask == 0 && seed == nil {
		return nil, nil
	}
	x := &exchange{lw: lw, k: k, acc: b, regs: n, mask: mask, env: e, org: s.Origin(), iv: iv,
		final: destination{buf: b, regs: n, clear: true, same: true, seed: seed}}
	return ir.Seq(x.stmts()...), nil
}
