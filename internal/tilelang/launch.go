package tilelang

import "lowertrace/internal/ir"

// launchCtx is T.Kernel(...) before it is entered.
type launchCtx struct {
	extents []ir.Expr
	threads []ir.Expr // nil: not given
	attrs   map[string]ir.Attr
}

// enter opens a launch: loops over the grid, the thread indices, and the block
// that holds the kernel's body.
func (c *launchCtx) enter(in *interp, b *builder) value {
	if len(b.launches) > 0 {
		panic(in.errorf("a T.Kernel within a T.Kernel"))
	}
	l := &launch{extents: c.extents, threadExt: c.threads, block: &blockInfo{attrs: map[string]ir.Attr{}}}
	for i, e := range c.extents {
		l.grid = append(l.grid, &ir.Var{Name: [...]string{"bx", "by", "bz"}[i], Type: e.DType()})
	}
	for _, n := range []string{"tx", "ty", "tz"} {
		l.threads = append(l.threads, &ir.Var{Name: n, Type: ir.DInt32})
	}
	for k, v := range c.attrs {
		l.block.attrs[k] = v
	}
	if c.threads != nil {
		ext := make(ir.List, len(c.threads))
		for i, e := range c.threads {
			ext[i] = e
		}
		l.block.attrs["tl.launch_threads"] = ext
	}
	org := b.org
	b.push(in, &bframe{kind: fkLaunch, holds: true, block: l.block, close: func(body ir.Stmt) ir.Stmt {
		return l.stmt(in, body, org)
	}})
	b.launches = append(b.launches, l)
	if len(l.grid) == 1 {
		return l.grid[0]
	}
	return &list{varValues(l.grid)}
}

func (l *launch) stmt(in *interp, body ir.Stmt, org ir.Span) ir.Stmt {
	var stmts []ir.Stmt
	for i, v := range l.threads {
		idx := &ir.Call{Op: ir.MustOp("launch_thread_idx"), Type: ir.DInt32, Args: []ir.Expr{ir.I32(int64(i))}}
		stmts = append(stmts, &ir.Bind{Var: v, Value: idx, Org: org})
	}
	stmts = append(stmts, &ir.SBlock{
		Name: "tilelang_root", Annotations: attrDict(l.block.attrs),
		AllocBuffers: l.block.allocs, Body: body, Org: org,
	})
	s := ir.Seq(stmts...)
	for i := len(l.grid) - 1; i >= 0; i-- {
		s = &ir.For{Var: l.grid[i], Min: ir.IntConst(l.grid[i].Type, 0), Extent: in.checked(l.extents[i]),
			Kind: ir.ThreadBinding, Thread: [...]string{"blockIdx.x", "blockIdx.y", "blockIdx.z"}[i], Body: s, Org: org}
	}
	return s
}

// attrCtx is T.attr(node, key, value) before it is entered.
type attrCtx struct {
	node  ir.Attr
	key   string
	value ir.Attr
}

func (c *attrCtx) enter(in *interp, b *builder) value {
	org := b.org
	b.push(in, &bframe{kind: fkAttr, holds: true, close: func(body ir.Stmt) ir.Stmt {
		return &ir.AttrStmt{Node: c.node, Key: c.key, Value: c.value, Body: body, Org: org}
	}})
	return none
}

// wsCtx is T.ws(...): a branch for some warp groups.
type wsCtx struct{ cond ir.Expr }

func (c *wsCtx) enter(in *interp, b *builder) value {
	org := b.org
	b.push(in, &bframe{kind: fkScope, holds: true, close: func(body ir.Stmt) ir.Stmt {
		return &ir.IfThenElse{Cond: c.cond, Org: org, Then: &ir.AttrStmt{
			Node: ir.I32(0), Key: "warp_specialize", Value: ir.I32(1), Body: body, Org: org}}
	}})
	return none
}

// ifCtx is T.If(cond), around T.Then() and T.Else().
type ifCtx struct{ cond ir.Expr }

func (c *ifCtx) enter(in *interp, b *builder) value {
	org, parts := b.org, new([2]ir.Stmt)
	b.push(in, &bframe{kind: fkIf, branches: parts, close: func(ir.Stmt) ir.Stmt {
		if parts[0] == nil {
			panic(in.errorAt(org, "T.If without T.Then").is("ValueError"))
		}
		return &ir.IfThenElse{Cond: in.checked(c.cond), Then: parts[0], Else: parts[1], Org: org}
	}})
	return none
}

// branchCtx is T.Then() or T.Else().
type branchCtx struct{ els bool }

func (c *branchCtx) enter(in *interp, b *builder) value {
	name, i := "T.Then", 0
	if c.els {
		name, i = "T.Else", 1
	}
	parts := b.frames[len(b.frames)-1].branches
	if parts == nil {
		panic(in.errorf("%s outside of T.If", name).hint("write with T.If(cond), %s():", name).is("ValueError"))
	}
	if parts[i] != nil {
		panic(in.errorf("a second %s of a T.If", name).is("ValueError"))
	}
	b.push(in, &bframe{kind: fkBranch, holds: true, close: func(body ir.Stmt) ir.Stmt { parts[i] = body; return nil }})
	return none
}

// assertCtx is T.Assert(cond, message).
type assertCtx struct {
	cond    ir.Expr
	kind    string
	message []ir.Expr
}

func (c *assertCtx) enter(in *interp, b *builder) value {
	b.add(in, &ir.Assert{Cond: in.checked(c.cond), Kind: c.kind, Message: c.message, Org: b.org})
	b.push(in, &bframe{kind: fkAssert})
	return none
}

// current is the launch around, or a failure.
func (b *builder) current(in *interp) *launch {
	if b == nil || len(b.launches) == 0 {
		panic(in.errorf("there is no T.Kernel around").is("AssertionError"))
	}
	return b.launches[len(b.launches)-1]
}

// threadExtents are the block's extents as numbers.
func (l *launch) threadExtents(in *interp) [3]int64 {
	if l.threadExt == nil {
		panic(in.errorf("the number of threads is not known here").hint("pass threads= to T.Kernel").is("ValueError"))
	}
	var out [3]int64
	for i, e := range l.threadExt {
		n, ok := ir.AsInt(e)
		if !ok {
			panic(in.errorf("the number of threads, %s, is not a constant", exprText(e)).is("ValueError"))
		}
		out[i] = n
	}
	return out
}

// clusterDims are the launch's cluster dimensions.
func (l *launch) clusterDims() [3]int64 {
	out := [3]int64{1, 1, 1}
	if d, ok := l.block.attrs["cluster_dims"].(ir.List); ok {
		for i, a := range d {
			if n, ok := ir.AttrInt(a); ok && i < 3 {
				out[i] = n
			}
		}
	}
	return out
}
