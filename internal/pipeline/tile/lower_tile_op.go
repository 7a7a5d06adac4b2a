package tile

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/pipeline"
)

// LowerTileOp expands the operators on tiles into what each thread does, and
// applies the layouts to all buffers.
//
// Precondition: LayoutInference has run (blocks carry layout_map, parallel
// loops parallel_loop_layout).
//
// Effect: copies, fills and parallel loops become loops over the thread's own
// elements, the widest contiguous groups vectorized; copies into pipelined
// shared buffers become cp.async; products become ldmatrix and mma.sync;
// reductions become loops over registers and tl::AllReduce. A fragment becomes
// a local array of the registers of one thread, a shared buffer with a layout
// takes its physical shape.
//
// Invariant: afterwards there are no tile operators, parallel loops,
// fragments or layout annotations.
//
//	for i in T.parallel(256):          for i in T.vectorized(2):
//	    C[i] = A[i] + B[i]         ->      C[tx*2 + i] = A[tx*2 + i] + B[tx*2 + i]
var LowerTileOp = &pipeline.Pass{
	Name:         "LowerTileOp",
	Stage:        "tile",
	Doc:          "expand tile operators and parallel loops into the work of one thread, and apply layouts",
	Precondition: "LayoutInference has run: blocks carry layout_map, parallel loops parallel_loop_layout.",
	Effect: "Tile operators and parallel loops become loops over the thread's own elements, vectorized where accesses are contiguous; " +
		"fragments become local arrays, shared buffers with a layout take their physical shape.",
	Before: "for i in T.parallel(256):\n    C[i] = A[i] + B[i]",
	After:  "for i in T.vectorized(2):\n    C[tx * 2 + i] = A[tx * 2 + i] + B[tx * 2 + i]",
	Run:    pipeline.FuncPass(isDevice, lowerTileOps),
}

// lowerer is the state of lowering one function.
type lowerer struct {
	ctx   *pipeline.Context
	cache *cache
	lay   *layouts
	// byData finds layouts by the data pointer, for views of a buffer.
	byData map[*ir.Var][]*ir.Buffer
	// remap are the buffers whose layout has been applied, data the pointers
	// of former fragments.
	remap map[*ir.Buffer]*ir.Buffer
	data  map[*ir.Var]*ir.Var
	// extra are buffers to be allocated in the block at hand.
	extra []*ir.Buffer
	safe  *ir.Dict // safe_value_map of the block at hand
	err   error
}

func lowerTileOps(ctx *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
	if err := checkThreads(f.Body, ctx.Target.MaxThreads); err != nil {
		return nil, err
	}
	lw := &lowerer{
		ctx: ctx, cache: newCache(), lay: newLayouts(), byData: map[*ir.Var][]*ir.Buffer{},
		remap: map[*ir.Buffer]*ir.Buffer{}, data: map[*ir.Var]*ir.Var{},
	}
	if err := lw.readLayouts(f); err != nil {
		return nil, err
	}
	body := lw.stmt(f.Body, env{})
	if lw.err != nil {
		return nil, lw.err
	}
	g := f.WithBody(body)
	if g == f {
		return f, nil
	}
	return g.WithAttr("tl.has_tma", ir.BoolConst(false)), nil
}

// readLayouts collects the layout_map of all blocks.
func (lw *lowerer) readLayouts(f *ir.PrimFunc) error {
	var first error
	walkEnv(f.Body, env{}, func(s ir.Stmt, e env) bool {
		b, ok := s.(*ir.SBlock)
		if !ok {
			return first == nil
		}
		m, _ := b.Annotations.Get("layout_map").(*ir.Dict)
		if m == nil {
			return first == nil
		}
		for _, ent := range m.Entries {
			buf, ok := ent.Key.(*ir.Buffer)
			if !ok || lw.lay.has(buf) {
				continue
			}
			var err error
			switch l := ent.Value.(type) {
			case *ir.Hidden:
				err = pipeline.Errorf(b.Org, "the layout of %s is hidden behind metadata[%q][%d]", buf.Name, l.Type, l.Index)
			case *ir.Fragment:
				min, n := e.bounds()
				var fr *layout.Frag
				if fr, err = lw.cache.fromIR(l, min, n); err == nil && !fits(buf, fr.Shape) {
					err = fmt.Errorf("it is for a buffer of shape %v", fr.Shape)
				}
				if err == nil {
					lw.lay.setFrag(buf, fr)
				}
			case *ir.Layout:
				var mp *layout.Map
				if mp, err = layout.MapFromIR(l); err == nil && !fits(buf, mp.Shape) {
					err = fmt.Errorf("it is for a buffer of shape %v", mp.Shape)
				}
				if err == nil {
					lw.lay.setMap(buf, mp)
				}
			}
			if err != nil && first == nil {
				first = err
				if _, ok := err.(*pipeline.Error); !ok {
					first = pipeline.Errorf(b.Org, "the layout of %s: %v", buf.Name, err)
				}
			}
			lw.byData[buf.Data] = append(lw.byData[buf.Data], buf)
		}
		return first == nil
	})
	return first
}

// known makes sure that the layout of a view is found under its own pointer.
func (lw *lowerer) known(b *ir.Buffer) {
	if lw.lay.has(b) {
		return
	}
	for _, o := range lw.byData[b.Data] {
		if sameExprs(o.Shape, b.Shape) && o.Type == b.Type {
			if f := lw.lay.frags[o]; f != nil {
				lw.lay.frags[b] = f
			}
			if m := lw.lay.maps[o]; m != nil {
				lw.lay.maps[b] = m
			}
			return
		}
	}
}

func (lw *lowerer) fail(err error) {
	if lw.err == nil && err != nil {
		lw.err = err
	}
}

// buffer is what a buffer becomes.
func (lw *lowerer) buffer(b *ir.Buffer) *ir.Buffer {
	if n := lw.remap[b]; n != nil {
		return n
	}
	lw.known(b)
	n := b
	switch {
	case isFragment(b):
		size := int64(1)
		if f := lw.lay.frags[b]; f != nil {
			size = f.Regs
		} else if s, err := layout.ConstShape(b.Shape); err == nil {
			for _, x := range s {
				size *= x
			}
		}
		d := lw.data[b.Data]
		if d == nil {
			d = ir.NewPointer(b.Name, b.Type, "local")
			lw.data[b.Data] = d
		}
		n = &ir.Buffer{Name: b.Name, Data: d, Type: b.Type, Shape: []ir.Expr{i32(size)}, Org: b.Org}
	case lw.lay.maps[b] != nil:
		m := lw.lay.maps[b]
		shape := make([]ir.Expr, len(m.Out))
		for d, x := range m.Out {
			shape[d] = i32(x)
		}
		c := *b
		c.Shape, c.Strides = shape, nil
		n = &c
	}
	lw.remap[b] = n
	return n
}

// stmt lowers a statement.
func (lw *lowerer) stmt(s ir.Stmt, e env) ir.Stmt {
	if s == nil || lw.err != nil {
		return s
	}
	switch s := s.(type) {
	case *ir.SeqStmt:
		out := make([]ir.Stmt, 0, len(s.Seq))
		same := true
		for _, c := range s.Seq {
			d := lw.stmt(c, e)
			same = same && d == c
			out = append(out, d)
			if b, ok := c.(*ir.Bind); ok {
				e = e.with(known{v: b.Var, value: b.Value})
			}
		}
		if same {
			return s
		}
		return ir.Seq(out...)
	case *ir.AttrStmt:
		in := e
		switch s.Key {
		case ir.KeyThreadExtent:
			if iv, ok := s.Node.(*ir.IterVar); ok {
				if x, ok := s.Value.(ir.Expr); ok {
					in = e.launch(iv, x)
				}
			}
		case ir.KeyAssume:
			if c, ok := s.Node.(ir.Expr); ok {
				in = e.assume(c)
			}
		}
		r := lw.plain()
		c := *s
		c.Node, c.Value = r.Attr(s.Node), r.Attr(s.Value)
		c.Body = lw.stmt(s.Body, in)
		return &c
	case *ir.For:
		if s.Kind == ir.Parallel {
			return lw.parallel(s, e)
		}
		r := lw.plain()
		c := *s
		c.Min, c.Extent = r.Expr(s.Min), r.Expr(s.Extent)
		c.Body = lw.stmt(s.Body, e.loop(s))
		return &c
	case *ir.While:
		c := *s
		r := lw.plain()
		c.Cond = r.Expr(s.Cond)
		c.Body = lw.stmt(s.Body, e)
		return &c
	case *ir.IfThenElse:
		c := *s
		r := lw.plain()
		c.Cond = r.Expr(s.Cond)
		c.Then = lw.stmt(s.Then, e.assume(s.Cond))
		c.Else = lw.stmt(s.Else, e.assume(&ir.Not{A: s.Cond}))
		return &c
	case *ir.SBlock:
		return lw.block(s, e)
	}
	if c := tileCall(s); c != nil {
		out, err := lw.operator(s, c, e)
		if err != nil {
			lw.fail(opError(s, c, err))
			return s
		}
		return out
	}
	r := lw.plain()
	return r.Stmt(s)
}

func (lw *lowerer) block(s *ir.SBlock, e env) ir.Stmt {
	for i, iv := range s.IterVars {
		if i < len(s.IterValues) {
			e = e.with(known{v: iv.Var, value: s.IterValues[i]})
		}
	}
	extra, safe := lw.extra, lw.safe
	lw.extra = nil
	if m, ok := s.Annotations.Get("safe_value_map").(*ir.Dict); ok {
		lw.safe = m
	}
	c := *s
	c.Body = lw.stmt(s.Body, e)
	c.Init = lw.stmt(s.Init, e)
	c.AllocBuffers = nil
	for _, b := range s.AllocBuffers {
		c.AllocBuffers = append(c.AllocBuffers, lw.buffer(b))
	}
	if len(s.AllocBuffers) > 0 || s.Name == "tilelang_root" || s.Name == "root" {
		c.AllocBuffers = append(c.AllocBuffers, lw.extra...)
		lw.extra = extra
	} else {
		lw.extra = append(extra, lw.extra...)
	}
	lw.safe = safe
	c.Annotations = s.Annotations.With("layout_map", nil)
	if c.Annotations.Len() == 0 {
		c.Annotations = nil
	}
	c.Reads, c.Writes = lw.regions(s.Reads), lw.regions(s.Writes)
	return &c
}

// regions rewrites what a block says it accesses: a buffer whose layout was
// applied is accessed as a whole.
func (lw *lowerer) regions(list []ir.BufferRegion) []ir.BufferRegion {
	out := make([]ir.BufferRegion, 0, len(list))
	whole := map[*ir.Buffer]bool{}
	for _, r := range list {
		b := lw.buffer(r.Buffer)
		if b == r.Buffer {
			out = append(out, r)
			continue
		}
		if whole[b] {
			continue
		}
		whole[b] = true
		n := ir.BufferRegion{Buffer: b}
		for _, x := range b.Shape {
			n.Region = append(n.Region, ir.Range{Min: i32(0), Extent: x})
		}
		out = append(out, n)
	}
	return out
}

// plain rewrites accesses outside of operators: by the layouts alone.
func (lw *lowerer) plain() *ir.Rewriter {
	r := &ir.Rewriter{}
	r.Var = func(v *ir.Var) ir.Expr {
		if d := lw.data[v]; d != nil {
			return d
		}
		return v
	}
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.BufferStore:
			n := lw.buffer(s.Buffer)
			if n == s.Buffer {
				return nil, false
			}
			idx, _ := r.Exprs(s.Indices)
			return &ir.BufferStore{Buffer: n, Indices: lw.physical(s.Buffer, idx), Value: r.Expr(s.Value), Predicate: r.Expr(s.Predicate), Org: s.Org}, true
		case *ir.AllocBuffer:
			if n := lw.buffer(s.Buffer); n != s.Buffer {
				return &ir.AllocBuffer{Buffer: n, Annotations: s.Annotations, Org: s.Org}, true
			}
		case *ir.DeclBuffer:
			if n := lw.buffer(s.Buffer); n != s.Buffer {
				return &ir.DeclBuffer{Buffer: n, Org: s.Org}, true
			}
		}
		return nil, false
	}
	r.PreExpr = func(x ir.Expr) (ir.Expr, bool) {
		switch x := x.(type) {
		case *ir.BufferLoad:
			n := lw.buffer(x.Buffer)
			if n == x.Buffer {
				return nil, false
			}
			idx, _ := r.Exprs(x.Indices)
			return &ir.BufferLoad{Buffer: n, Indices: lw.physical(x.Buffer, idx), Predicate: r.Expr(x.Predicate)}, true
		case *ir.Call:
			if y := lw.accessPtr(x, r); y != nil {
				return y, true
			}
		}
		return nil, false
	}
	return r
}

// accessPtr moves the flat offset of T.tvm_access_ptr into a shared buffer's
// physical layout; nil when there is nothing to move.
func (lw *lowerer) accessPtr(c *ir.Call, r *ir.Rewriter) ir.Expr {
	if c.Op == nil || c.Op.Name != "tvm_access_ptr" {
		return nil
	}
	v, ok := c.Args[1].(*ir.Var)
	if !ok {
		return nil
	}
	for _, b := range lw.byData[v] {
		m := lw.lay.maps[b]
		if m == nil || m.IsIdentity() {
			continue
		}
		args := append([]ir.Expr{}, c.Args...)
		args[2] = layout.Flatten(m.Apply(layout.Unflatten(r.Expr(c.Args[2]), m.Shape)), m.Out)
		d := *c
		d.Args = args
		return &d
	}
	return nil
}

// physical are the indices of an element under its buffer's layout.
func (lw *lowerer) physical(b *ir.Buffer, indices []ir.Expr) []ir.Expr {
	if f := lw.lay.frags[b]; f != nil {
		return []ir.Expr{f.Forward(indices)}
	}
	if m := lw.lay.maps[b]; m != nil {
		return m.Apply(indices)
	}
	if isFragment(b) { // no operator touches it: every thread has all of it
		if s, err := layout.ConstShape(b.Shape); err == nil {
			return []ir.Expr{layout.Flatten(indices, s)}
		}
	}
	return indices
}

// operator lowers a tile operator.
func (lw *lowerer) operator(s ir.Stmt, c *ir.Call, e env) (ir.Stmt, error) {
	switch c.Op.Name {
	case "copy", "async_copy":
		return lw.copy(s, c, e)
	case "fill":
		return lw.fill(s, c, e)
	case "transpose":
		return lw.transpose(s, c, e)
	case "atomicadd", "atomicmax", "atomicmin":
		loop, err := atomicLoop(c, e, s.Origin())
		if err != nil {
			return nil, err
		}
		return lw.simt(s, loop, e)
	case "im2col":
		loop, err := im2colLoop(c, e, s.Origin())
		if err != nil {
			return nil, err
		}
		return lw.simt(s, loop, e)
	case "reduce":
		return lw.reduce(s, c, e)
	case "gemm":
		return lw.gemm(s, c, e)
	case "cumsum":
		return lw.scan(s, c, e)
	case "finalize_reducer":
		return lw.finalizeReducer(s, c, e)
	}
	return nil, pipeline.Errorf(s.Origin(), "T.%s has no lowering for this target", c.Op.Name)
}
