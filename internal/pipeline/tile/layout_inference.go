package tile

import (
	"fmt"
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/pipeline"
)

// LayoutInference chooses the layouts of shared tiles, the distribution of
// register tiles (fragments) over the threads, and how the iterations of
// parallel loops are divided.
//
// Precondition: kernel launches are materialized; tile operators and parallel
// loops are not yet lowered.
//
// Effect: every block gets the annotation layout_map, each parallel loop the
// annotation parallel_loop_layout (and parallel_loop_predicate where only some
// threads take part, parallel_loop_requires_padding_guard where the last round
// may run over the end). The program does not change otherwise.
//
// Invariant: every fragment that an operator touches has a layout, and every
// operator can run with those of its operands without exchanging data.
//
// The inference runs in three levels. Strict: what instructions demand
// (matrix products) and what the user annotated. Common: what follows from
// that, from operator to operator. Free: operators that share fragments form
// a component; each operator in turn is let to choose first, the others
// follow, and the attempt with the fewest global memory accesses wins, then
// the one with the fewest registers, then the first. Shared tiles left without
// a layout are swizzled where that saves bank conflicts.
//
//	x = T.alloc_fragment((16, 512))         layout_map: {x: thread j//4,
//	T.copy(X[bx*16, 0], x)             ->     register i*4 + j%4}
//	for i, j in T.Parallel(16, 512):        for i in T.parallel(16, annotations=
//	    x[i, j] = T.exp(x[i, j])              {"parallel_loop_layout": ...}):
var LayoutInference = &pipeline.Pass{
	Name:         "LayoutInference",
	Stage:        "tile",
	Doc:          "choose the layouts of shared and register tiles and the partition of parallel loops",
	Precondition: "Kernel launches are materialized; tile operators and parallel loops are not lowered yet.",
	Effect: "Blocks get the annotation layout_map, parallel loops the annotation parallel_loop_layout. " +
		"What instructions and the user demand comes first, then what follows from it; what is left free is chosen for few, wide global accesses and few registers.",
	Before: "T.copy(X[bx * 16, 0], x)\nfor i, j in T.Parallel(16, 512):\n    x[i, j] = T.exp(x[i, j])",
	After:  "layout_map: {x: (i, j) -> thread j // 4, register i * 4 + j % 4}\nfor i in T.parallel(16, annotations={\"parallel_loop_layout\": ...}):",
	Run:    pipeline.BodyPass(isDevice, inferLayouts),
}

func isDevice(f *ir.PrimFunc) bool { return !pipeline.IsHostFunc(f) }

func inferLayouts(ctx *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	if err := checkThreads(f.Body, ctx.Target.MaxThreads); err != nil {
		return nil, err
	}
	in := &inferer{ctx: ctx, cache: newCache(), users: map[*ir.Buffer][]int{}, views: map[*ir.Var][]*ir.Buffer{}, fixed: map[*ir.Buffer]bool{}, from: map[*ir.Buffer]ir.Span{}}
	lay := newLayouts()
	if err := in.collect(f, lay); err != nil {
		return nil, err
	}
	if err := in.run(lay); err != nil {
		return nil, err
	}
	in.chooseBanks(f, lay)
	return in.annotate(f.Body, lay), nil
}

// collect finds the operators and the user's layouts.
func (in *inferer) collect(f *ir.PrimFunc, lay *layouts) error {
	var first error
	fail := func(err error) {
		if first == nil {
			first = err
		}
	}
	views := in.views
	see := func(b *ir.Buffer) {
		if !slices.Contains(views[b.Data], b) {
			views[b.Data] = append(views[b.Data], b)
		}
	}
	for _, b := range f.BufferMap {
		see(b.Buffer)
	}
	floating := map[*ir.Buffer]env{}
	var floats []*ir.Buffer
	walkEnv(f.Body, env{}, func(s ir.Stmt, e env) bool {
		if first != nil {
			return false
		}
		switch s := s.(type) {
		case *ir.SBlock:
			for _, b := range s.AllocBuffers {
				see(b)
			}
			fail(in.userLayouts(s, views, lay, e))
		case *ir.AllocBuffer:
			see(s.Buffer)
		case *ir.DeclBuffer:
			see(s.Buffer)
		}
		loop, isLoop := s.(*ir.For)
		if tileCall(s) == nil && !(isLoop && loop.Kind == ir.Parallel) {
			touch := func(b *ir.Buffer) {
				if _, seen := floating[b]; !seen && isFragment(b) {
					floating[b] = e
					floats = append(floats, b)
				}
			}
			if st, ok := s.(*ir.BufferStore); ok {
				touch(st.Buffer)
			}
			if _, isBlock := s.(*ir.SBlock); !isBlock {
				ir.StmtExprs(s, func(x ir.Expr) bool {
					if ld, ok := x.(*ir.BufferLoad); ok {
						touch(ld.Buffer)
					}
					return true
				})
			}
			return true
		}
		op, err := newOp(s, e)
		if err != nil {
			fail(err)
			return false
		}
		id := len(in.ops)
		in.ops = append(in.ops, op)
		for _, b := range op.uses {
			in.users[b] = append(in.users[b], id)
		}
		ir.Walk(s, func(s ir.Stmt) bool {
			if st, ok := s.(*ir.BufferStore); ok {
				see(st.Buffer)
			}
			ir.StmtExprs(s, func(x ir.Expr) bool {
				if ld, ok := x.(*ir.BufferLoad); ok {
					see(ld.Buffer)
				}
				return true
			})
			return true
		})
		return false
	})
	if first != nil {
		return first
	}
	// A fragment accessed outside of operators is the same in every thread.
	for _, b := range floats {
		if lay.frags[b] != nil {
			continue
		}
		min, n := floating[b].bounds()
		shape, err := layout.ConstShape(b.Shape)
		if err == nil {
			var fr *layout.Frag
			if fr, err = layout.FullyReplicated(shape, min, n); err == nil {
				in.from[b] = b.Org
				lay.setFrag(b, fr)
				in.fixed[b] = true
			}
		}
		if err != nil {
			return pipeline.Errorf(b.Org, "fragment %s: %v", b.Name, err)
		}
	}
	return nil
}

// userLayouts reads a block's own layout_map.
func (in *inferer) userLayouts(s *ir.SBlock, views map[*ir.Var][]*ir.Buffer, lay *layouts, e env) error {
	m, ok := s.Annotations.Get("layout_map").(*ir.Dict)
	if !ok {
		return nil
	}
	for _, ent := range m.Entries {
		var bufs []*ir.Buffer
		switch k := ent.Key.(type) {
		case *ir.Buffer:
			bufs = []*ir.Buffer{k}
		case *ir.Var:
			bufs = views[k]
		}
		for _, b := range bufs {
			if lay.has(b) {
				continue
			}
			switch l := ent.Value.(type) {
			case *ir.Hidden:
				return pipeline.Errorf(s.Org, "the layout of %s is hidden behind metadata[%q][%d]", b.Name, l.Type, l.Index)
			case *ir.Fragment:
				min, n := e.bounds()
				fr, err := layout.FromIR(l, min, n)
				if err == nil && !fits(b, fr.Shape) {
					err = fmt.Errorf("it is for a buffer of shape %v", fr.Shape)
				}
				if err != nil {
					return pipeline.Errorf(s.Org, "the layout of %s: %v", b.Name, err)
				}
				lay.setFrag(b, fr)
			case *ir.Layout:
				mp, err := layout.MapFromIR(l)
				if err != nil {
					return pipeline.Errorf(s.Org, "the layout of %s: %v", b.Name, err)
				}
				shape, err := layout.BufferShape(b.Shape)
				if err == nil && !slices.Equal(shape, mp.Shape) {
					if lead := len(shape) - len(mp.Shape); lead > 0 && slices.Equal(shape[lead:], mp.Shape) {
						mp, err = mp.ExpandLeading(shape[:lead]...) // versions of a pipelined buffer
					} else {
						mp, err = mp.Reshape(shape, bitsOf(bufs[0].Type), bitsOf(b.Type))
					}
				}
				if err == nil {
					err = mp.CheckInjective()
				}
				if err != nil {
					return pipeline.Errorf(s.Org, "the layout of %s: %v", b.Name, err)
				}
				lay.setMap(b, mp)
			}
			in.from[b] = s.Org
			in.fixed[b] = true
		}
	}
	return nil
}

// run brings the levels to a fixed point.
func (in *inferer) run(lay *layouts) error {
	q := newQueue(len(in.ops))
	for id := range in.ops {
		if err := in.step(id, strict, lay, nil); err != nil {
			return final(err)
		}
	}
	for b := range lay.frags {
		in.fixed[b] = true
	}
	for b := range lay.maps {
		in.fixed[b] = true
	}
	for id := range in.ops {
		q.push(id)
	}
	if err := in.drain(q, common, lay); err != nil {
		return final(err)
	}
	return in.free(lay)
}

func final(err error) error {
	if c, ok := err.(*conflict); ok {
		return c.report()
	}
	return err
}

// queue is the operators to look at again, each at most once.
type queue struct {
	ids []int
	has []bool
}

func newQueue(n int) *queue { return &queue{has: make([]bool, n)} }

func (q *queue) push(id int) {
	if !q.has[id] {
		q.has[id] = true
		q.ids = append(q.ids, id)
	}
}

func (in *inferer) drain(q *queue, lv level, lay *layouts) error {
	for len(q.ids) > 0 {
		id := q.ids[0]
		q.ids = q.ids[1:]
		q.has[id] = false
		if err := in.step(id, lv, lay, q); err != nil {
			return err
		}
	}
	return nil
}

// step runs one operator and enters what it decides. Users of a fragment that
// gets its layout are queued.
func (in *inferer) step(id int, lv level, lay *layouts, q *queue) error {
	op := in.ops[id]
	ups, err := in.infer(op, lv, lay)
	if err != nil {
		return err
	}
	for _, u := range ups {
		if u.m != nil {
			if lay.maps[u.buf] == nil {
				in.from[u.buf] = op.stmt.Origin()
				lay.setMap(u.buf, u.m)
				if err := in.shareMap(op, u, lay); err != nil {
					return err
				}
			}
			continue
		}
		if !fits(u.buf, u.frag.Shape) {
			return pipeline.Errorf(op.stmt.Origin(), "T.%s: the shape of %s does not fit the operator, which needs %v", op.kind, u.buf.Name, u.frag.Shape)
		}
		old := lay.frags[u.buf]
		if old != nil {
			if old.Equal(u.frag) {
				continue
			}
			if lv == strict || in.fixed[u.buf] {
				return in.conflict(op, u.buf, "T.%s needs another layout of %s than it has", op.kind, u.buf.Name)
			}
			if !layout.Contains(u.frag, old, nil, nil) {
				return in.conflict(op, u.buf, "layout conflict: two operators need different layouts of %s", u.buf.Name)
			}
		} else {
			in.from[u.buf] = op.stmt.Origin()
		}
		lay.setFrag(u.buf, u.frag)
		if err := in.shareFrag(op, u, lay); err != nil {
			return err
		}
		if q != nil {
			for _, b := range in.views[u.buf.Data] {
				for _, user := range in.users[b] {
					if user != id {
						q.push(user)
					}
				}
			}
		}
	}
	return nil
}

// fits reports a buffer of a constant shape.
func fits(b *ir.Buffer, shape []int64) bool {
	s, err := layout.BufferShape(b.Shape)
	return err == nil && slices.Equal(s, shape)
}

// shareFrag gives the other views of a fragment's registers the layout that
// keeps every bit where it is.
func (in *inferer) shareFrag(op *inferOp, u update, lay *layouts) error {
	for _, b := range in.views[u.buf.Data] {
		if b == u.buf {
			continue
		}
		shape, err := layout.ConstShape(b.Shape)
		if err != nil {
			return pipeline.Errorf(op.stmt.Origin(), "fragment %s: %v", b.Name, err)
		}
		f, err := u.frag.Reshape(shape, bitsOf(u.buf.Type), bitsOf(b.Type))
		if err != nil {
			return in.conflict(op, u.buf, "%s and %s are views of the same registers: %v", b.Name, u.buf.Name, err)
		}
		if old := lay.frags[b]; old != nil && in.fixed[b] && !old.Equal(f) {
			return in.conflict(op, b, "%s and %s are views of the same registers, but need different layouts", b.Name, u.buf.Name)
		}
		if lay.frags[b] == nil {
			in.from[b] = op.stmt.Origin()
		}
		lay.setFrag(b, f)
	}
	return nil
}

// shareMap is shareFrag for shared buffers.
func (in *inferer) shareMap(op *inferOp, u update, lay *layouts) error {
	for _, b := range in.views[u.buf.Data] {
		if b == u.buf || lay.maps[b] != nil {
			continue
		}
		shape, err := layout.ConstShape(b.Shape)
		var m *layout.Map
		if err == nil {
			m, err = u.m.Reshape(shape, bitsOf(u.buf.Type), bitsOf(b.Type))
		}
		if err != nil {
			return pipeline.Errorf(op.stmt.Origin(), "%s and %s are views of the same shared memory: %v", b.Name, u.buf.Name, err)
		}
		in.from[b] = op.stmt.Origin()
		lay.setMap(b, m)
	}
	return nil
}

// free decides what is left, component by component.
func (in *inferer) free(lay *layouts) error {
	for _, members := range in.components() {
		var best *layouts
		var bestOps []inferOp
		var bestCost [2]int64
		var firstErr error
		saved := in.save(members)
		for _, root := range in.roots(members) {
			try := lay.clone()
			cost, err := in.attempt(root, members, try)
			if err == nil && (best == nil || less2(cost, bestCost)) {
				best, bestCost, bestOps = try, cost, in.save(members)
			}
			if err != nil {
				if _, ok := err.(*conflict); !ok {
					return err
				}
				if firstErr == nil {
					firstErr = err
				}
			}
			in.restore(members, saved)
		}
		if best == nil {
			return final(firstErr)
		}
		in.restore(members, bestOps)
		*lay = *best
	}
	return nil
}

func less2(a, b [2]int64) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// roots are the members worth choosing first. When every fragment of the
// component has its layout, the order does not matter.
func (in *inferer) roots(members []int) []int {
	var out []int
	for _, id := range members {
		if op := in.ops[id]; op.nest != nil && op.part == nil && !op.fall {
			out = append(out, id)
		}
	}
	if len(out) == 0 {
		out = members[:1]
	}
	return out
}

func (in *inferer) attempt(root int, members []int, lay *layouts) (cost [2]int64, err error) {
	q := newQueue(len(in.ops))
	visit := func(id int) error {
		if err := in.step(id, free, lay, q); err != nil {
			return err
		}
		return in.drain(q, free, lay)
	}
	if err := visit(root); err != nil {
		return cost, err
	}
	for _, fall := range []bool{false, true} {
		for _, id := range members {
			if id != root && in.ops[id].fall == fall {
				if err := visit(id); err != nil {
					return cost, err
				}
			}
		}
	}
	seen := map[*ir.Buffer]bool{}
	for _, id := range members {
		op := in.ops[id]
		cost[0] += op.traffic(lay)
		for _, b := range op.uses {
			if f := lay.frags[b]; f != nil && !seen[b] {
				seen[b] = true
				cost[1] += f.Regs * bitsOf(b.Type)
			}
		}
	}
	return cost, nil
}

func (in *inferer) save(members []int) []inferOp {
	out := make([]inferOp, len(members))
	for i, id := range members {
		out[i] = *in.ops[id]
	}
	return out
}

func (in *inferer) restore(members []int, ops []inferOp) {
	for i, id := range members {
		*in.ops[id] = ops[i]
	}
}

// components groups the operators by the fragments they share, in order.
func (in *inferer) components() [][]int {
	parent := make([]int, len(in.ops))
	for i := range parent {
		parent[i] = i
	}
	var find func(int) int
	find = func(i int) int {
		if parent[i] != i {
			parent[i] = find(parent[i])
		}
		return parent[i]
	}
	byData := map[*ir.Var]int{}
	for id, op := range in.ops {
		for _, b := range op.uses {
			if other, ok := byData[b.Data]; ok {
				a, c := find(other), find(id)
				parent[max(a, c)] = min(a, c)
			} else {
				byData[b.Data] = id
			}
		}
	}
	groups := map[int]int{}
	var out [][]int
	for id := range in.ops {
		r := find(id)
		g, ok := groups[r]
		if !ok {
			g = len(out)
			groups[r] = g
			out = append(out, nil)
		}
		out[g] = append(out[g], id)
	}
	return out
}

// annotate writes the results into the body.
func (in *inferer) annotate(body ir.Stmt, lay *layouts) ir.Stmt {
	dict := &ir.Dict{}
	for _, b := range lay.order {
		switch {
		case lay.frags[b] != nil:
			dict.Entries = append(dict.Entries, ir.DictEntry{Key: b, Value: lay.frags[b].IR()})
		default:
			dict.Entries = append(dict.Entries, ir.DictEntry{Key: b, Value: lay.maps[b].IR()})
		}
	}
	byLoop := map[*ir.For]*inferOp{}
	for _, op := range in.ops {
		if f, ok := op.stmt.(*ir.For); ok && op.part != nil {
			byLoop[f] = op
		}
	}
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.SBlock:
			b := *s
			b.Annotations = s.Annotations.With("layout_map", dict)
			return r.Inside(&b), true
		case *ir.For:
			op := byLoop[s]
			if op == nil {
				return nil, false
			}
			f := *s
			f.Annotations = s.Annotations.With("parallel_loop_layout", op.part.IR())
			if p := op.predicate(); p != nil {
				f.Annotations = f.Annotations.With("parallel_loop_predicate", p)
			}
			if op.pad {
				f.Annotations = f.Annotations.With("parallel_loop_requires_padding_guard", ir.BoolConst(true))
			}
			return &f, true
		}
		return nil, false
	}
	return r.Stmt(body)
}

// predicate is the condition on the thread under which a loop runs at all, nil
// when all threads take part: threads beyond the partition have nothing to do, and
// of the threads that would store the same value one does.
func (op *inferOp) predicate() ir.Expr {
	tx := op.env.thread()
	var cond ir.Expr
	if n := op.part.ThreadExtent(); n < op.threads {
		cond = less(tx, i32(op.part.Min+n))
	}
	if c := replicaGuard(op.nest, op.part); c != nil {
		cond = and(cond, ir.NewBinary(ir.EQ, c(tx), i32(0)))
	}
	return cond
}

// replicaGuard gives, for a loop that would store to shared or global memory
// several times, the number of a thread's copy; nil when no guard is needed.
func replicaGuard(n *nest, part *layout.Frag) func(tx ir.Expr) ir.Expr {
	if part.Rep == 1 || !n.storesShared || n.storesFrag {
		return nil
	}
	copies := part.Copy()
	byThread := make([]int64, part.Extent)
	for t := range byThread {
		byThread[t] = copies[int64(t)*part.Regs]
		for k := int64(1); k < part.Regs; k++ {
			if copies[int64(t)*part.Regs+k] != byThread[t] {
				return nil // differs between iterations: the lowering guards each
			}
		}
	}
	v := layout.Var(0)
	e, ok := layout.Fit(byThread, []ir.Expr{v}, []int64{part.Extent})
	if !ok {
		return nil
	}
	return func(tx ir.Expr) ir.Expr {
		return ir.Substitute(e, func(x *ir.Var) ir.Expr {
			if x == v {
				return sub(tx, i32(part.Min))
			}
			return x
		})
	}
}
