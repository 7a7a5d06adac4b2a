package tile

import (
	"fmt"
	"math/bits"
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/pipeline"
)

// parallel lowers a nest of parallel loops by the partition LayoutInference
// annotated.
func (lw *lowerer) parallel(f *ir.For, e env) ir.Stmt {
	n, err := newNest(f, e)
	if err != nil {
		lw.fail(pipeline.Errorf(f.Org, "%v", err))
		return f
	}
	if n.ext == nil {
		out, err := lw.symbolic(n, e)
		if err != nil {
			lw.fail(pipeline.Errorf(f.Org, "%v", err))
			return f
		}
		return out
	}
	a := annotatedPart(f)
	if a == nil {
		if h, ok := f.Annotations.Get("parallel_loop_layout").(*ir.Hidden); ok {
			lw.fail(pipeline.Errorf(f.Org, "the partition of this loop is hidden behind metadata[%q][%d]", h.Type, h.Index))
			return f
		}
		out, err := lw.simt(f, f, e)
		if err != nil {
			lw.fail(pipeline.Errorf(f.Org, "%v", err))
			return f
		}
		return out
	}
	min, threads := e.bounds()
	part, err := lw.cache.fromIR(a, min, threads)
	if err != nil {
		lw.fail(pipeline.Errorf(f.Org, "parallel_loop_layout: %v", err))
		return f
	}
	// A loop that only copies to shared memory may be part of a pipeline that
	// commits and waits.
	var group groupFunc
	used := false
	st, isStore := n.body.(*ir.BufferStore)
	async, _ := ir.AttrInt(f.Annotations.Get(keyAsyncLoop))
	if async != 0 && isStore && isShared(st.Buffer) && lw.ctx.Target.Features.AsyncCopy {
		group = asyncGroup(bitsOf(st.Buffer.Type), &used)
	}
	out, err := lw.partition(n, part, e, group)
	if err != nil {
		lw.fail(pipeline.Errorf(f.Org, "%v", err))
		return f
	}
	if group != nil && !used {
		lw.ctx.Remark(f.Org, "not cp.async: the loop moves less than 4 contiguous bytes to %s at once, or stores a value other than zero out of bounds", st.Buffer.Name)
	}
	if p, ok := f.Annotations.Get("parallel_loop_predicate").(ir.Expr); ok && !ir.IsConst(p, 1) {
		out = &ir.IfThenElse{Cond: p, Then: out, Org: f.Org}
	}
	return out
}

// keyAsyncLoop marks a parallel loop as a copy whose groups a pipeline commits
// and waits for.
const keyAsyncLoop = "parallel_async_without_async_commit_wait"

// simt lowers a nest that an operator stands for: its partition is inferred
// from the layouts, which are all known now.
func (lw *lowerer) simt(s ir.Stmt, loop ir.Stmt, e env) (ir.Stmt, error) {
	return lw.simtWith(s, loop, e, nil)
}

func (lw *lowerer) simtWith(s ir.Stmt, loop ir.Stmt, e env, group groupFunc) (ir.Stmt, error) {
	f, ok := loop.(*ir.For)
	if !ok { // a single element: one thread does it
		r := lw.plain()
		return lw.single(r.Stmt(loop), loop, e), nil
	}
	n, err := newNest(f, e)
	if err != nil {
		return nil, err
	}
	for _, a := range n.frags {
		lw.known(a.buf)
	}
	if n.ext == nil {
		return lw.symbolic(n, e)
	}
	op := &inferOp{stmt: s, env: e, kind: "parallel", nest: n}
	op.min, op.threads = e.bounds()
	op.addNestUses()
	in := &inferer{ctx: lw.ctx, cache: lw.cache, from: map[*ir.Buffer]ir.Span{}}
	for _, lv := range []level{common, free} {
		if _, err := in.infer(op, lv, lw.lay); err != nil {
			return nil, final(err)
		}
	}
	out, err := lw.partition(n, op.part, e, group)
	if err != nil {
		return nil, err
	}
	if p := op.predicate(); p != nil {
		out = &ir.IfThenElse{Cond: p, Then: out, Org: s.Origin()}
	}
	return out, nil
}

// single guards a statement on one element so that one thread runs it, unless
// it writes registers, which every thread has.
func (lw *lowerer) single(s, was ir.Stmt, e env) ir.Stmt {
	own := true
	ir.Walk(was, func(s ir.Stmt) bool {
		if st, ok := s.(*ir.BufferStore); ok && (isShared(st.Buffer) || isGlobal(st.Buffer)) {
			own = false
		}
		if ev, ok := s.(*ir.Evaluate); ok {
			if c, ok := ev.Value.(*ir.Call); ok && pointerWrites(c) {
				own = false
			}
		}
		return true
	})
	min, n := e.bounds()
	if own || n == 1 || e.tx == nil {
		return s
	}
	return &ir.IfThenElse{Cond: ir.NewBinary(ir.EQ, e.tx, i32(min)), Then: s, Org: s.Origin()}
}

// groupFunc replaces the body of the innermost loop for a group of v
// iterations that follow each other in memory; nil keeps the loop. It gets
// the body of the group's first iteration.
type groupFunc func(body ir.Stmt, v int64) (ir.Stmt, bool)

// share is the part of a nest that one thread does: the tables of one
// partition over (thread, group, lane).
type share struct {
	n    *nest
	part *layout.Frag
	inv  []int64
	v    int64 // lanes: iterations of one vector
	ext  []int64
	vars []ir.Expr // thread relative to part.Min, group, lane
	// threads is how many of ext[0] have iterations.
	threads int64
	copies  []int64 // which copy of the iteration it is, as inv; nil before it was asked
}

// partition makes the loops of one thread from a nest: over its groups, each
// of up to 16 bytes, and over the lanes of a group.
func (lw *lowerer) partition(n *nest, part *layout.Frag, e env, group groupFunc) (ir.Stmt, error) {
	if part == nil || !slices.Equal(part.Shape, n.ext) {
		return nil, fmt.Errorf("the partition of the loop does not fit its extents")
	}
	inv, err := part.Inverse()
	if err != nil {
		return nil, err
	}
	sh := &share{n: n, part: part, inv: inv, threads: part.ThreadExtent()}
	sh.v = lw.lanes(sh, e)
	var st *staged
	if sh.v == 1 && group == nil {
		if st = lw.stage(sh, e); st != nil {
			sh.v = st.v
		}
	}
	if sh.v == 1 && part.Regs > 1 && n.widest == 1 && n.narrow != "" && n.reachesMemory {
		lw.ctx.Remark(n.root.Org, "not vectorized: %s", n.narrow)
	}
	groups := part.Regs / sh.v
	gv, lv := &ir.Var{Name: "i", Type: ir.DInt32}, &ir.Var{Name: "vec", Type: ir.DInt32}
	if groups == 1 {
		lv.Name = "i"
	}
	thread := sub(e.thread(), i32(part.Min))
	sh.vars = []ir.Expr{thread, ir.Expr(gv), ir.Expr(lv)}
	if groups == 1 {
		sh.vars[1] = i32(0)
	}
	if sh.v == 1 {
		sh.vars[2] = i32(0)
	}
	sh.ext = []int64{part.Extent, groups, sh.v}

	idx, guard, ok := sh.indices()
	if !ok {
		var own ir.Expr
		if own, ok = sh.choose(); ok {
			idx, guard, ok = sh.indices()
			guard = and(own, guard)
		}
	}
	if !ok {
		return lw.search(n, part, e, group)
	}
	c, ok := sh.replica()
	if !ok {
		return lw.search(n, part, e, group)
	}
	guard = and(guard, c)
	var body ir.Stmt
	if st != nil {
		body, err = st.lower(lw, sh, idx, lv, e)
		if guard != nil {
			guard = foldExpr(guard, func(v *ir.Var) ir.Expr {
				if v == lv {
					return i32(0)
				}
				return v
			})
		}
	} else {
		body, err = sh.onceEach(lw.body(sh, idx, e))
	}
	if lw.err != nil {
		return nil, lw.err
	}
	if err != nil { // there is no expression for the copy of an iteration
		return lw.search(n, part, e, group)
	}
	if guard != nil {
		body = &ir.IfThenElse{Cond: guard, Then: body, Org: n.root.Org}
	}
	done := false
	if group != nil {
		var first ir.Stmt = body
		if sh.v > 1 {
			first = foldSubst(body, func(v *ir.Var) ir.Expr {
				if v == lv {
					return i32(0)
				}
				return v
			})
		}
		if b, ok := group(first, sh.v); ok {
			body, done = b, true
		}
	}
	if sh.v > 1 && !done && st == nil {
		body = &ir.For{Var: lv, Min: i32(0), Extent: i32(sh.v), Kind: ir.Vectorized, Body: body, Org: n.root.Org}
	}
	if groups > 1 {
		body = &ir.For{Var: gv, Min: i32(0), Extent: i32(groups), Kind: ir.Unrolled, Body: body, Org: n.root.Org}
	}
	return body, nil
}

// lanes is how many iterations one vector serves: as many as the partition
// keeps together, memory accesses allow, and registers lie in order.
func (lw *lowerer) lanes(sh *share, e env) int64 {
	v := sh.part.Contiguity()
	for v > 1 && sh.part.Regs%v != 0 {
		v /= 2
	}
	if v > 1 {
		v = min(v, sh.n.width(lw.lay, e))
	}
	for v > 1 && !lw.lanesFit(sh, v) {
		v /= 2
	}
	return v
}

func (lw *lowerer) lanesFit(sh *share, v int64) bool {
	if !wholeGroups(sh, v) {
		return false
	}
	for _, a := range sh.n.frags {
		f := lw.lay.frags[a.buf]
		if f == nil || a.at == nil {
			return false
		}
		r := a.repeat()
		same, run := true, true
		for g := int64(0); g < int64(len(sh.inv)) && (same || run); g += v {
			p := sh.inv[g]
			if p == layout.Hole {
				continue
			}
			for k := int64(0); k < r; k++ {
				if a.at[p*r+k] == layout.Hole {
					continue
				}
				base := f.Register(a.at[p*r+k])
				run = run && base%v == 0
				for l := int64(1); l < v; l++ {
					q := a.at[sh.inv[g+l]*r+k]
					if q == layout.Hole {
						same, run = false, false
						break
					}
					x := f.Register(q)
					same, run = same && x == base, run && x == base+l
				}
			}
		}
		if !run && !(same && !a.write) {
			return false
		}
	}
	return true
}

// indices are the nest's variables as expressions of thread, group and lane,
// and the condition under which there is such an iteration (nil: always); false
// when they follow no affine pattern.
func (sh *share) indices() ([]ir.Expr, ir.Expr, bool) {
	shape := sh.n.ext
	holes := slices.Contains(sh.inv, layout.Hole)
	// Each dimension alone gives the simplest expressions.
	idx := make([]ir.Expr, len(shape))
	tables := make([][]int64, len(shape))
	stride := int64(1)
	ok := true
	for d := len(shape) - 1; d >= 0 && ok; d-- {
		t := coordinates(sh.inv, stride, shape[d])
		stride *= shape[d]
		tables[d] = t
		idx[d], ok = layout.Fit(t, sh.vars, sh.ext)
	}
	if ok {
		if !holes {
			return idx, nil, true
		}
		if c, ok := sh.guard(idx, tables, shape); ok {
			return idx, c, true
		}
	}
	linear, ok := layout.Fit(sh.inv, sh.vars, sh.ext)
	if !ok {
		return nil, nil, false
	}
	idx = layout.Unflatten(linear, shape)
	if !holes {
		return idx, nil, true
	}
	c, ok := sh.guard([]ir.Expr{linear}, [][]int64{sh.inv}, []int64{sh.n.points()})
	if !ok {
		return nil, nil, false
	}
	return idx, c, true
}

// coordinates are the indices along one dimension of elements numbered in
// row-major order.
func coordinates(at []int64, stride, size int64) []int64 {
	out := make([]int64, len(at))
	shift, pow2 := bits.TrailingZeros64(uint64(stride)), (stride*size)&(stride*size-1) == 0
	for i, p := range at {
		switch {
		case p == layout.Hole:
			out[i] = p
		case pow2:
			out[i] = p >> shift & (size - 1)
		default:
			out[i] = p / stride % size
		}
	}
	return out
}

// guard finds which bounds of the recovered indices tell the iterations that
// exist from those that do not: the upper bounds of the indices, after the
// bound of the thread, if the partition uses fewer.
func (sh *share) guard(idx []ir.Expr, tables [][]int64, shape []int64) (ir.Expr, bool) {
	// Recompute the indices where the tables have holes.
	vars := []*ir.Var{layout.Var(0), layout.Var(1), layout.Var(2)}
	as := make([]ir.Expr, 3)
	for i, v := range vars {
		as[i] = v
	}
	good := make([]bool, len(sh.inv))
	for i := range good {
		good[i] = int64(i)/(sh.ext[1]*sh.ext[2]) < sh.threads
	}
	var cond ir.Expr
	for d := range idx {
		e, ok := layout.Fit(tables[d], as, sh.ext)
		if !ok {
			return nil, false
		}
		vals, err := layout.Evaluate(e, vars, sh.ext)
		if err != nil {
			return nil, false
		}
		need := false
		for i, x := range vals {
			if x < 0 {
				return nil, false
			}
			if good[i] && x >= shape[d] {
				good[i], need = false, true
			}
		}
		if need {
			cond = and(cond, less(idx[d], i32(shape[d])))
		}
	}
	for i, p := range sh.inv {
		if good[i] != (p != layout.Hole) {
			return nil, false
		}
	}
	return cond, true // the bound of the thread is in the loop's predicate
}

// replica is the condition that a thread has the first copy of an iteration
// that stores, where that differs between its iterations; nil otherwise. It is
// false when the copies follow no affine pattern.
func (sh *share) replica() (ir.Expr, bool) {
	if sh.part.Rep == 1 || !sh.n.storesShared || sh.n.storesFrag || replicaGuard(sh.n, sh.part) != nil {
		return nil, true
	}
	e, ok := layout.Fit(sh.copy(), sh.vars, sh.ext)
	if !ok {
		return nil, false
	}
	return ir.NewBinary(ir.EQ, e, i32(0)), true
}

// onceEach lets statements marked to run once for each iteration run in the
// thread with the first copy only.
func (sh *share) onceEach(body ir.Stmt) (ir.Stmt, error) {
	var first ir.Expr
	if sh.part.Rep > 1 && marksOnce(body) {
		e, ok := layout.Fit(sh.copy(), sh.vars, sh.ext)
		if !ok {
			return nil, fmt.Errorf("the copies of an iteration follow no affine pattern")
		}
		first = ir.NewBinary(ir.EQ, e, i32(0))
	}
	return sh.onceEachIf(body, first), nil
}

// onceEachIf is onceEach with the condition that a thread has the first copy.
func (sh *share) onceEachIf(body ir.Stmt, first ir.Expr) ir.Stmt {
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		a, ok := s.(*ir.AttrStmt)
		switch {
		case !ok || a.Key != keyMultiplicity:
			return s
		case sh.part.Rep == 1:
			return a.Body
		}
		return &ir.IfThenElse{Cond: first, Then: a.Body, Org: a.Org}
	}}
	return r.Stmt(body)
}

// marksOnce reports a statement marked to run once for each iteration.
func marksOnce(s ir.Stmt) bool {
	found := false
	ir.Walk(s, func(s ir.Stmt) bool {
		a, ok := s.(*ir.AttrStmt)
		found = found || ok && a.Key == keyMultiplicity
		return !found
	})
	return found
}

// body is the nest's body with its variables replaced and all layouts applied.
func (lw *lowerer) body(sh *share, idx []ir.Expr, e env) ir.Stmt {
	value := map[*ir.Var]ir.Expr{}
	for d, v := range sh.n.vars {
		value[v] = ir.CastTo(idx[d], v.Type)
	}
	an := e.analyzer()
	bindShare(sh, an)
	r := &ir.Rewriter{}
	r.Var = func(v *ir.Var) ir.Expr {
		if y, ok := value[v]; ok {
			return y
		}
		if d := lw.data[v]; d != nil {
			return d
		}
		return v
	}
	access := func(b *ir.Buffer, indices []ir.Expr) (*ir.Buffer, []ir.Expr) {
		n := lw.buffer(b)
		if isFragment(b) {
			if x, ok := lw.register(sh, b, indices); ok {
				return n, []ir.Expr{r.Expr(x)}
			}
		}
		idx, _ := r.Exprs(indices)
		if n == b {
			return n, idx
		}
		out := lw.physical(b, idx)
		for d := range out {
			out[d] = an.Simplify(out[d])
		}
		return n, out
	}
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.BufferStore:
			b, idx := access(s.Buffer, s.Indices)
			return &ir.BufferStore{Buffer: b, Indices: idx, Value: r.Expr(s.Value), Predicate: r.Expr(s.Predicate), Org: s.Org}, true
		case *ir.For:
			if s.Kind == ir.Parallel { // below other statements: each thread runs all of it
				c := *s
				c.Kind = ir.Serial
				c.Annotations = nil
				return r.Inside(&c), true
			}
		case *ir.SBlock:
			c := *s
			c.Reads, c.Writes = lw.regions(s.Reads), lw.regions(s.Writes)
			c.Annotations = s.Annotations.With("layout_map", nil)
			if c.Annotations.Len() == 0 {
				c.Annotations = nil
			}
			c.AllocBuffers = nil
			for _, b := range s.AllocBuffers {
				c.AllocBuffers = append(c.AllocBuffers, lw.buffer(b))
			}
			return r.Inside(&c), true
		}
		return nil, false
	}
	r.PreExpr = func(x ir.Expr) (ir.Expr, bool) {
		switch x := x.(type) {
		case *ir.BufferLoad:
			b, idx := access(x.Buffer, x.Indices)
			return &ir.BufferLoad{Buffer: b, Indices: idx, Predicate: r.Expr(x.Predicate)}, true
		case *ir.Call:
			if y := lw.accessPtr(x, r); y != nil {
				return y, true
			}
		}
		return nil, false
	}
	r.PostExpr = foldNode
	return r.Stmt(sh.n.body)
}

// bindShare tells an analyzer the ranges of group and lane.
func bindShare(sh *share, an interface {
	BindVar(*ir.Var, ir.Expr, ir.Expr) func()
}) {
	for k, x := range sh.vars[1:] {
		if v, ok := x.(*ir.Var); ok {
			an.BindVar(v, i32(0), i32(sh.ext[k+1]))
		}
	}
}

// register is the register of an access to a fragment as an expression of
// thread, group and lane, read off the tables: it mentions the thread only if
// it must.
func (lw *lowerer) register(sh *share, b *ir.Buffer, indices []ir.Expr) (ir.Expr, bool) {
	f := lw.lay.frags[b]
	if f == nil {
		return nil, false
	}
	for _, a := range sh.n.frags {
		if a.buf != b || a.at == nil || !sameExprs(a.indices, indices) {
			continue
		}
		r := a.repeat()
		if int64(len(sh.inv))*r > layout.MaxPoints {
			return nil, false
		}
		table := make([]int64, 0, int64(len(sh.inv))*r)
		for _, p := range sh.inv {
			for k := int64(0); k < r; k++ {
				x := int64(layout.Hole)
				if p != layout.Hole && a.at[p*r+k] != layout.Hole {
					x = f.Register(a.at[p*r+k])
				}
				table = append(table, x)
			}
		}
		vars, ext := slices.Clone(sh.vars), slices.Clone(sh.ext)
		for i, v := range a.freeVars {
			vars, ext = append(vars, v), append(ext, a.free[i])
		}
		// Without the thread first: fold its dimension when nothing differs.
		per := int64(len(table)) / sh.ext[0]
		folded := append([]int64(nil), table[:per]...)
		uniform := true
		for i := per; i < int64(len(table)) && uniform; i++ {
			x, y := folded[i%per], table[i]
			switch {
			case y == layout.Hole:
			case x == layout.Hole:
				folded[i%per] = y
			case x != y:
				uniform = false
			}
		}
		if uniform {
			if e, ok := layout.Fit(folded, vars[1:], ext[1:]); ok {
				return e, true
			}
		}
		return layout.Fit(table, vars, ext)
	}
	return nil, false
}

// symbolic lowers a nest with an extent that is not constant: iteration t,
// t + threads, … of the flattened nest run on thread t.
func (lw *lowerer) symbolic(n *nest, e env) (ir.Stmt, error) {
	for _, a := range n.frags {
		return nil, fmt.Errorf("the parallel loop accesses the fragment %s, but its extents are not constant", a.buf.Name)
	}
	min, threads := e.bounds()
	var total ir.Expr = i32(1)
	for _, f := range n.loops {
		total = mul(total, f.Extent)
	}
	t := total.DType()
	round := &ir.Var{Name: "i", Type: t}
	linear := add(mul(round, ir.IntConst(t, threads)), ir.CastTo(sub(e.thread(), i32(min)), t))
	value := map[*ir.Var]ir.Expr{}
	rest := ir.Expr(linear)
	for d := len(n.loops) - 1; d >= 0; d-- {
		f := n.loops[d]
		x := rest
		if d > 0 {
			x, rest = mod(rest, f.Extent), div(rest, f.Extent)
		}
		value[f.Var] = ir.CastTo(add(x, f.Min), f.Var.Type)
	}
	inner := e
	for _, f := range n.loops {
		inner = inner.loop(f)
	}
	body := foldSubst(lw.stmt(n.body, inner), ir.SubstMap(value))
	body = &ir.IfThenElse{Cond: less(linear, total), Then: body, Org: n.root.Org}
	rounds := div(add(total, ir.IntConst(t, threads-1)), ir.IntConst(t, threads))
	return &ir.For{Var: round, Min: ir.IntConst(t, 0), Extent: rounds, Kind: ir.Serial, Body: body, Org: n.root.Org}, nil
}

// foldNode folds constants in a rewritten node.
func foldNode(e ir.Expr) ir.Expr {
	b, ok := e.(*ir.Binary)
	if !ok || b.A.DType() != b.B.DType() {
		return e
	}
	x := ir.NewBinary(b.Op, b.A, b.B)
	if y, ok := x.(*ir.Binary); ok && y.A == b.A && y.B == b.B {
		return e
	}
	return x
}

func foldExpr(e ir.Expr, f func(*ir.Var) ir.Expr) ir.Expr {
	r := ir.Rewriter{Var: f, PostExpr: foldNode}
	return r.Expr(e)
}

func foldSubst(s ir.Stmt, f func(*ir.Var) ir.Expr) ir.Stmt {
	r := ir.Rewriter{Var: f, PostExpr: foldNode}
	return r.Stmt(s)
}
