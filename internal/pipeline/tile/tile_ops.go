package tile

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/pipeline"
)

// tileCall is the tile operator a statement runs, nil if it runs none.
func tileCall(s ir.Stmt) *ir.Call {
	ev, ok := s.(*ir.Evaluate)
	if !ok {
		return nil
	}
	c, ok := ev.Value.(*ir.Call)
	if !ok || c.Op == nil || !c.Op.Tile {
		return nil
	}
	return c
}

// loopName is the name of the d-th variable of a loop nest we make.
func loopName(d int) string { return string(rune('i' + d)) }

// scopeLevel orders scopes by their distance from the registers.
func scopeLevel(b *ir.Buffer) int {
	switch {
	case isFragment(b), isLocal(b):
		return 2
	case isShared(b):
		return 1
	}
	return 0
}

// copyArgs are a copy-like operator's source and destination, and the loop
// domain: the extents other than 1 of the side nearer the registers (the
// source on a tie).
type copyArgs struct {
	src, dst region
	vars     []*ir.Var
	ext      []ir.Expr
}

func decodeCopy(c *ir.Call) (copyArgs, error) {
	var a copyArgs
	var err error
	if a.src, err = decodeRegion(c.Args[0]); err != nil {
		return a, err
	}
	if a.dst, err = decodeRegion(c.Args[1]); err != nil {
		return a, err
	}
	base, other := a.src, a.dst
	if scopeLevel(a.src.buf) < scopeLevel(a.dst.buf) {
		base, other = a.dst, a.src
	}
	be, oe := squeeze(base.ext), squeeze(other.ext)
	if len(be) != len(oe) {
		return a, fmt.Errorf("a copy from a region of %d dimensions to one of %d (those of extent 1 not counted)", len(squeeze(a.src.ext)), len(squeeze(a.dst.ext)))
	}
	for d, x := range be {
		m, ok1 := ir.AsInt(x)
		k, ok2 := ir.AsInt(oe[d])
		if ok1 && ok2 && m != k && base.buf == a.dst.buf && m < k {
			return a, fmt.Errorf("the copy's source has extent %d where its destination has %d", k, m)
		}
		a.vars = append(a.vars, &ir.Var{Name: loopName(d), Type: x.DType()})
	}
	a.ext = be
	return a, nil
}

// squeeze leaves out extents of 1.
func squeeze(ext []ir.Expr) []ir.Expr {
	var out []ir.Expr
	for _, x := range ext {
		if !ir.IsConst(x, 1) {
			out = append(out, x)
		}
	}
	return out
}

// indices are the elements of a region the loop variables stand for, in
// order.
func (r region) indices(vars []*ir.Var) []ir.Expr {
	out := make([]ir.Expr, len(r.min))
	k := 0
	for d, m := range r.min {
		if ir.IsConst(r.ext[d], 1) {
			out[d] = m
			continue
		}
		out[d] = add(m, vars[k])
		k++
	}
	return out
}

// inBounds is the condition that the indices lie in the buffer, nil when that
// is certain.
func inBounds(b *ir.Buffer, indices []ir.Expr, certain func(ir.Expr) bool) ir.Expr {
	var cond ir.Expr
	for d, x := range indices {
		if _, isConst := x.(*ir.IntImm); isConst {
			continue
		}
		if c := less(x, b.Shape[d]); !certain(c) {
			cond = and(cond, c)
		}
		if c := atLeast(x, ir.IntConst(x.DType(), 0)); !certain(c) {
			cond = and(cond, c)
		}
	}
	return cond
}

// loopNest wraps a body in parallel loops.
func loopNest(vars []*ir.Var, ext []ir.Expr, body ir.Stmt, org ir.Span) ir.Stmt {
	for d := len(vars) - 1; d >= 0; d-- {
		body = &ir.For{Var: vars[d], Min: ir.IntConst(vars[d].Type, 0), Extent: ext[d], Kind: ir.Parallel, Body: body, Org: org}
	}
	return body
}

// copyLoop is a copy as a nest of parallel loops, element by element: elements
// outside the source read as safe (nil: zero), elements outside the
// destination are left out.
func copyLoop(c *ir.Call, a copyArgs, e env, safe ir.Expr, org ir.Span) (ir.Stmt, error) {
	if !castable(a.src.buf.Type, a.dst.buf.Type) {
		return nil, fmt.Errorf("a copy from %s to %s", a.src.buf.Type, a.dst.buf.Type)
	}
	an := e.analyzer()
	for d, v := range a.vars {
		an.BindVar(v, ir.IntConst(v.Type, 0), a.ext[d])
	}
	from, to := a.src.indices(a.vars), a.dst.indices(a.vars)
	t := a.dst.buf.Type
	var value ir.Expr = ir.CastTo(&ir.BufferLoad{Buffer: a.src.buf, Indices: from}, t)
	if c := inBounds(a.src.buf, varying(a.src, from), an.CanProve); c != nil {
		if safe == nil {
			safe = ir.Const(a.src.buf.Type, 0)
		}
		value = ir.NewCall(ir.MustOp("if_then_else"), c, value, ir.CastTo(safe, t))
	}
	var body ir.Stmt = &ir.BufferStore{Buffer: a.dst.buf, Indices: to, Value: value, Org: org}
	if c := inBounds(a.dst.buf, varying(a.dst, to), an.CanProve); c != nil {
		body = &ir.IfThenElse{Cond: c, Then: body, Org: org}
	}
	return annotated(loopNest(a.vars, a.ext, body, org), c), nil
}

// annotated passes on what a copy says about its loop.
func annotated(loop ir.Stmt, c *ir.Call) ir.Stmt {
	f, ok := loop.(*ir.For)
	if !ok {
		return loop
	}
	g := *f
	for _, key := range []string{"coalesced_width", "parallel_loop_layout"} {
		if v := c.Attr(key); v != nil {
			g.Annotations = g.Annotations.With(key, v)
		}
	}
	return &g
}

// varying are the indices of the dimensions a region spans; those of extent 1
// are the user's own single elements and stay unchecked here.
func varying(r region, indices []ir.Expr) []ir.Expr {
	out := make([]ir.Expr, len(indices))
	for d, x := range indices {
		if ir.IsConst(r.ext[d], 1) {
			x = ir.I32(0)
		}
		out[d] = x
	}
	return out
}

func castable(a, b ir.DType) bool {
	return !a.IsHandle() && !b.IsHandle() && !a.IsVoid() && !b.IsVoid()
}

// transposeLoop is T.transpose: dst[..., j, i] = src[..., i, j].
func transposeLoop(c *ir.Call, e env, org ir.Span) (ir.Stmt, error) {
	src, err := decodeRegion(c.Args[0])
	if err != nil {
		return nil, err
	}
	dst, err := decodeRegion(c.Args[1])
	if err != nil {
		return nil, err
	}
	n := len(src.min)
	if n != len(dst.min) || n < 2 {
		return nil, fmt.Errorf("a transposition from %d to %d dimensions", n, len(dst.min))
	}
	an := e.analyzer()
	var vars []*ir.Var
	var ext []ir.Expr
	from := make([]ir.Expr, n)
	shift := make([]ir.Expr, n)
	for d, m := range src.min {
		if ir.IsConst(src.ext[d], 1) {
			from[d], shift[d] = m, i32(0)
			continue
		}
		v := &ir.Var{Name: loopName(len(vars)), Type: src.ext[d].DType()}
		vars, ext = append(vars, v), append(ext, src.ext[d])
		an.BindVar(v, ir.IntConst(v.Type, 0), src.ext[d])
		from[d], shift[d] = add(m, v), v
	}
	to := make([]ir.Expr, n)
	for d, m := range dst.min {
		s := d
		if d >= n-2 {
			s = 2*n - 3 - d
		}
		if !ir.Same(src.ext[s], dst.ext[d]) {
			return nil, fmt.Errorf("a transposition of regions whose extents do not match")
		}
		to[d] = add(m, shift[s])
	}
	var value ir.Expr = ir.CastTo(&ir.BufferLoad{Buffer: src.buf, Indices: from}, dst.buf.Type)
	if c := inBounds(src.buf, from, an.CanProve); c != nil {
		value = ir.NewCall(ir.MustOp("if_then_else"), c, value, ir.Const(dst.buf.Type, 0))
	}
	var body ir.Stmt = &ir.BufferStore{Buffer: dst.buf, Indices: to, Value: value, Org: org}
	if c := inBounds(dst.buf, to, an.CanProve); c != nil {
		body = &ir.IfThenElse{Cond: c, Then: body, Org: org}
	}
	return loopNest(vars, ext, body, org), nil
}

// atomicLoop is T.atomicadd (or max, min) of a tile as a nest of parallel
// loops of element operations.
func atomicLoop(c *ir.Call, e env, org ir.Span) (ir.Stmt, error) {
	a, err := decodeCopy(c)
	if err != nil {
		return nil, err
	}
	elem := map[string]string{"atomicadd": "atomic_add_elem_op", "atomicmax": "atomic_max_elem_op", "atomicmin": "atomic_min_elem_op"}[c.Op.Name]
	an := e.analyzer()
	for d, v := range a.vars {
		an.BindVar(v, ir.IntConst(v.Type, 0), a.ext[d])
	}
	from, to := a.src.indices(a.vars), a.dst.indices(a.vars)
	value := ir.CastTo(&ir.BufferLoad{Buffer: a.src.buf, Indices: from}, a.dst.buf.Type)
	ptr := ir.NewCall(ir.MustOp("access_ptr"), &ir.BufferLoad{Buffer: a.dst.buf, Indices: to}, i32(1), i32(3))
	order, ok := c.Attr("memory_order").(ir.Expr)
	if !ok {
		order = i32(0) // relaxed
	}
	call := ir.NewCall(ir.MustOp(elem), ptr, value, order)
	var body ir.Stmt = &ir.Evaluate{Value: call, Org: org}
	cond := and(inBounds(a.src.buf, varying(a.src, from), an.CanProve), inBounds(a.dst.buf, varying(a.dst, to), an.CanProve))
	if cond != nil {
		body = &ir.IfThenElse{Cond: cond, Then: body, Org: org}
	}
	return loopNest(a.vars, a.ext, body, org), nil
}

// fillLoop is T.fill as a nest of parallel loops.
func fillLoop(c *ir.Call, e env, org ir.Span) (ir.Stmt, error) {
	r, err := decodeRegion(c.Args[0])
	if err != nil {
		return nil, err
	}
	an := e.analyzer()
	var vars []*ir.Var
	var ext []ir.Expr
	for _, x := range squeeze(r.ext) {
		v := &ir.Var{Name: loopName(len(vars)), Type: x.DType()}
		an.BindVar(v, ir.IntConst(v.Type, 0), x)
		vars, ext = append(vars, v), append(ext, x)
	}
	idx := r.indices(vars)
	var body ir.Stmt = &ir.BufferStore{Buffer: r.buf, Indices: idx, Value: ir.CastTo(c.Args[1], r.buf.Type), Org: org}
	if c := inBounds(r.buf, varying(r, idx), an.CanProve); c != nil {
		body = &ir.IfThenElse{Cond: c, Then: body, Org: org}
	}
	return loopNest(vars, ext, body, org), nil
}

// gemmArgs are the operands of T.gemm.
type gemmArgs struct {
	a, b, c        region
	transA, transB bool
	m, n, k        int64
	policy         layout.WarpPolicy
	clear          ir.Expr
}

func decodeGemm(c *ir.Call) (gemmArgs, error) {
	var g gemmArgs
	var err error
	for i, r := range []*region{&g.a, &g.b, &g.c} {
		if *r, err = decodeRegion(c.Args[i]); err != nil {
			return g, err
		}
	}
	ints := make([]int64, 6)
	for i := range ints {
		v, ok := ir.AsInt(c.Args[3+i])
		if !ok {
			return g, fmt.Errorf("argument %d of T.gemm is not a constant", 4+i)
		}
		ints[i] = v
	}
	g.transA, g.transB = ints[0] != 0, ints[1] != 0
	g.m, g.n, g.k, g.policy = ints[2], ints[3], ints[4], layout.WarpPolicy(ints[5])
	g.clear = c.Args[9]
	shapes := [3][2]int64{{g.m, g.k}, {g.k, g.n}, {g.m, g.n}}
	if g.transA {
		shapes[0] = [2]int64{g.k, g.m}
	}
	if g.transB {
		shapes[1] = [2]int64{g.n, g.k}
	}
	for i, r := range []region{g.a, g.b, g.c} {
		ext, ok := r.constExtents()
		k := len(ext) - 2
		if !ok || k < 0 || ext[k] != shapes[i][0] || ext[k+1] != shapes[i][1] {
			return g, fmt.Errorf("operand %s of a %dx%dx%d product must be a region of %dx%d elements", r.buf.Name, g.m, g.n, g.k, shapes[i][0], shapes[i][1])
		}
		for _, x := range ext[:k] {
			if x != 1 {
				return g, fmt.Errorf("operand %s is a region of more than one matrix", r.buf.Name)
			}
		}
	}
	if g.a.buf.Type != g.b.buf.Type && !(g.a.buf.Type.IsFloat8() && g.b.buf.Type.IsFloat8()) {
		return g, fmt.Errorf("a product of %s and %s", g.a.buf.Type, g.b.buf.Type)
	}
	return g, nil
}

// mma is the tiling of a product over the threads.
func (g gemmArgs) mma(threads int64) (*layout.MMA, error) {
	return layout.NewMMA(g.m, g.n, g.k, bitsOf(g.a.buf.Type), g.transA, g.transB, g.policy, threads)
}

// reduceArgs are the operands of T.reduce.
type reduceArgs struct {
	src, dst region
	kind     string // sum, abssum, max, min, absmax, bitand, bitor, bitxor
	dim      int
	clear    bool
	nan      bool // NaNs win
}

func decodeReduce(c *ir.Call) (reduceArgs, error) {
	var r reduceArgs
	var err error
	if r.src, err = decodeRegion(c.Args[0]); err != nil {
		return r, err
	}
	if r.dst, err = decodeRegion(c.Args[1]); err != nil {
		return r, err
	}
	kind, ok := c.Args[2].(*ir.StringImm)
	if !ok {
		return r, fmt.Errorf("the kind of a reduction is not a string")
	}
	r.kind = kind.Value
	d, ok := ir.AsInt(c.Args[3])
	if !ok || d < 0 || int(d) >= len(r.src.min) {
		return r, fmt.Errorf("the dimension of a reduction is not one of its source")
	}
	r.dim = int(d)
	cl, ok := ir.AsInt(c.Args[4])
	if !ok {
		return r, fmt.Errorf("the clear argument of a reduction is not a constant")
	}
	r.clear = cl != 0
	if n, ok := ir.AttrInt(c.Attr("nan_propagate")); ok {
		r.nan = n != 0
	}
	want := len(r.src.min) - 1
	if want == 0 {
		want = 1
	}
	if len(r.dst.min) != want && len(r.dst.min) != len(r.src.min) {
		return r, fmt.Errorf("a reduction of %d dimensions to %d", len(r.src.min), len(r.dst.min))
	}
	if !r.src.isFull() || !r.dst.isFull() {
		return r, fmt.Errorf("a reduction of a part of a buffer")
	}
	return r, nil
}

// opError places an error at a statement.
func opError(s ir.Stmt, c *ir.Call, err error) error {
	if pe, ok := err.(*pipeline.Error); ok {
		return pe
	}
	return pipeline.Errorf(s.Origin(), "T.%s: %v", c.Op.Name, err)
}

// im2colLoop is T.im2col as a nest of parallel loops: row m of the result is an
// output pixel (image, row, column), column k a tap of the square kernel
// (row, column, channel); taps in the padding read as zero. The arguments are
// source (N,H,W,C), destination, block numbers along m and k, kernel size,
// stride, dilation and padding.
func im2colLoop(c *ir.Call, e env, org ir.Span) (ir.Stmt, error) {
	src, err := decodeRegion(c.Args[0])
	if err != nil {
		return nil, err
	}
	dst, err := decodeRegion(c.Args[1])
	if err != nil {
		return nil, err
	}
	var p [4]int64
	for i := range p {
		v, ok := ir.AsInt(c.Args[4+i])
		if !ok || v < 0 || i < 3 && v == 0 {
			return nil, fmt.Errorf("kernel, stride, dilation and padding must be constants")
		}
		p[i] = v
	}
	kernel, stride, dilation, pad := p[0], p[1], p[2], p[3]
	n := len(dst.min)
	if len(src.buf.Shape) != 4 || n < 2 || src.buf.Type != dst.buf.Type {
		return nil, fmt.Errorf("expected a source of 4 dimensions (N, H, W, C) and a destination of at least 2 with the same type")
	}
	bm, bk := dst.ext[n-2], dst.ext[n-1]
	i, j := &ir.Var{Name: "i", Type: bm.DType()}, &ir.Var{Name: "j", Type: bk.DType()}
	h, w, ch := src.buf.Shape[1], src.buf.Shape[2], src.buf.Shape[3]
	out := func(x ir.Expr) ir.Expr {
		return add(div(sub(add(x, i32(2*pad)), i32((kernel-1)*dilation+1)), i32(stride)), i32(1))
	}
	oh, ow := out(h), out(w)
	m, k := add(mul(c.Args[2], bm), i), add(mul(c.Args[3], bk), j)
	pixel := mod(m, mul(oh, ow))
	row := sub(add(mul(div(pixel, ow), i32(stride)), mul(div(k, mul(i32(kernel), ch)), i32(dilation))), i32(pad))
	col := sub(add(mul(mod(m, ow), i32(stride)), mul(mod(div(k, ch), i32(kernel)), i32(dilation))), i32(pad))
	an := e.analyzer()
	an.BindVar(i, ir.IntConst(i.Type, 0), bm)
	an.BindVar(j, ir.IntConst(j.Type, 0), bk)
	idx := []ir.Expr{div(m, mul(oh, ow)), row, col, mod(k, ch)}
	for d := range idx {
		idx[d] = an.Simplify(idx[d])
	}
	var value ir.Expr = &ir.BufferLoad{Buffer: src.buf, Indices: idx}
	if cond := inBounds(src.buf, idx, an.CanProve); cond != nil {
		value = ir.NewCall(ir.MustOp("if_then_else"), cond, value, ir.Const(src.buf.Type, 0))
	}
	to := append([]ir.Expr{}, dst.min...)
	to[n-2], to[n-1] = add(to[n-2], i), add(to[n-1], j)
	body := &ir.BufferStore{Buffer: dst.buf, Indices: to, Value: value, Org: org}
	return loopNest([]*ir.Var{i, j}, []ir.Expr{bm, bk}, body, org), nil
}
