package memory

import (
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/lifetime"
)

// PlanAndUpdateBufferAllocationLocation moves the allocations of blocks to the
// innermost loop that holds all uses of the memory, when every iteration
// writes what it reads.
//
// Precondition: buffers are allocated by blocks. Effect: such an allocation
// belongs to a block around the loop's body; memory that is declared by
// several buffers is allocated once, by the first. Invariant: memory that
// carries values from one iteration to the next is not moved.
//
//	with T.sblock():                    with T.sblock():
//	    w = T.sblock_alloc_buffer(..)       for i in range(4):
//	    for i in range(4):            ->        with T.sblock(""):
//	        w[0] = A[i]; B[i] = w[0]                w = T.sblock_alloc_buffer(..)
//	                                                w[0] = A[i]; B[i] = w[0]
var PlanAndUpdateBufferAllocationLocation = &pipeline.Pass{
	Name:         "PlanAndUpdateBufferAllocationLocation",
	Stage:        stage,
	Doc:          "move allocations into the innermost loop that holds all their uses",
	Precondition: "Buffers are allocated by blocks (T.sblock_alloc_buffer).",
	Effect:       "A buffer that is used within one loop only, and written in each iteration before it is read, is allocated by a block around that loop's body. Several buffers over the same memory have one allocation.",
	Before:       "w = T.sblock_alloc_buffer((1,), scope=\"local\")\nfor i in range(4):\n    w[0] = A[i]\n    B[i] = w[0]",
	After:        "for i in range(4):\n    with T.sblock(\"\"):\n        w = T.sblock_alloc_buffer((1,), scope=\"local\")\n        w[0] = A[i]\n        B[i] = w[0]",
	Run:          pipeline.BodyPass(nil, planAllocations),
}

// place is a loop or a block in the tree of scopes.
type place struct {
	stmt   ir.Stmt // *ir.For, *ir.SBlock, or nil for the function
	parent *place
	depth  int
}

func commonPlace(a, b *place) *place {
	if a == nil {
		return b
	}
	for a != b {
		if a.depth < b.depth {
			a, b = b, a
		}
		a = a.parent
	}
	return a
}

func planAllocations(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	root := &place{}
	uses := map[*ir.Var]*place{}  // lowest place that holds all uses
	homes := map[*ir.Var]*place{} // block that allocates
	buffers := map[*ir.Var]*ir.Buffer{}
	twice := false
	var order []*ir.Var
	var visit func(s ir.Stmt, at *place)
	visit = func(s ir.Stmt, at *place) {
		lifetime.Touches(s, func(v *ir.Var) { uses[v] = commonPlace(uses[v], at) })
		switch s := s.(type) {
		case *ir.For:
			at = &place{s, at, at.depth + 1}
		case *ir.SBlock:
			at = &place{s, at, at.depth + 1}
			for _, b := range s.AllocBuffers {
				if buffers[b.Data] != nil {
					twice = true
					continue
				}
				buffers[b.Data], homes[b.Data] = b, at
				order = append(order, b.Data)
			}
			for _, m := range s.MatchBuffers {
				uses[m.Source.Buffer.Data] = commonPlace(uses[m.Source.Buffer.Data], at)
			}
		}
		ir.Children(s, func(c ir.Stmt) { visit(c, at) })
	}
	if f.Body != nil {
		visit(f.Body, root)
	}
	moved := map[ir.Stmt][]*ir.Buffer{} // by the loop that gets them
	away := map[*ir.Var]bool{}
	for _, v := range order {
		at, home := uses[v], homes[v]
		if at == nil || !within(at, home) {
			continue
		}
		// Only loops get allocations; a loop that needs another's memory too
		// far in is passed over for the next one out.
		for ; at != home; at = at.parent {
			loop, ok := at.stmt.(*ir.For)
			if !ok || loop.Kind != ir.Serial && loop.Kind != ir.Unrolled {
				continue
			}
			if writtenFirst(loop.Body, buffers[v]) {
				moved[loop] = append(moved[loop], buffers[v])
				away[v] = true
			}
			break
		}
	}
	if len(moved) == 0 && !twice {
		return f.Body, nil
	}
	kept := map[*ir.Var]bool{}
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.For:
			list := moved[s]
			if list == nil {
				return s, false
			}
			t := *s
			body := r.Stmt(s.Body)
			if b, ok := body.(*ir.SBlock); ok && len(b.IterVars) == 0 {
				c := *b
				c.AllocBuffers = append(append([]*ir.Buffer(nil), list...), b.AllocBuffers...)
				t.Body = &c
			} else {
				t.Body = &ir.SBlock{AllocBuffers: list, Body: body, Org: s.Org}
			}
			return &t, true
		case *ir.SBlock:
			var allocs []*ir.Buffer
			for _, b := range s.AllocBuffers {
				if !away[b.Data] && !kept[b.Data] {
					kept[b.Data] = true
					allocs = append(allocs, b)
				}
			}
			t := r.Inside(s).(*ir.SBlock)
			if len(allocs) == len(s.AllocBuffers) {
				return t, true
			}
			c := *t
			c.AllocBuffers = allocs
			return &c, true
		}
		return s, false
	}
	return r.Stmt(f.Body), nil
}

func within(p, q *place) bool {
	for ; p != nil; p = p.parent {
		if p == q {
			return true
		}
	}
	return false
}

// maxTracked bounds the elements of a buffer, and the stores, whose order
// writtenFirst follows one by one.
const maxTracked = 1 << 12

// writtenFirst reports that body writes every element of a buffer before it
// reads any, so that nothing of an earlier iteration is seen. The workspace of
// a block-wide reduction is scratch and needs no look at its contents.
func writtenFirst(body ir.Stmt, b *ir.Buffer) bool {
	n, ok := elements(b)
	if !ok || n > maxTracked {
		return onlyScratch(body, b.Data)
	}
	if onlyScratch(body, b.Data) {
		return true
	}
	w := &firstWrites{buf: b, seen: make([]bool, n), left: int(n), env: map[*ir.Var]int64{}, steps: 4 * maxTracked}
	w.stmt(body)
	return w.left == 0
}

// onlyScratch reports that memory is only passed to reductions across threads,
// as their workspace.
func onlyScratch(body ir.Stmt, data *ir.Var) bool {
	ok, any := true, false
	ir.Walk(body, func(s ir.Stmt) bool {
		uses := 0
		lifetime.Touches(s, func(v *ir.Var) {
			if v == data {
				uses++
			}
		})
		if uses == 0 {
			return ok
		}
		any = true
		ir.StmtExprs(s, func(e ir.Expr) bool {
			call, isCall := ir.IsCall(e, "call_extern")
			if !isCall || len(call.Args) < 3 {
				return true
			}
			if name, isStr := call.Args[0].(*ir.StringImm); isStr && strings.HasPrefix(name.Value, "tl::AllReduce<") {
				if p, isPtr := ir.IsCall(call.Args[len(call.Args)-1], "tvm_access_ptr"); isPtr && p.Args[1] == ir.Expr(data) {
					uses--
				}
			}
			return true
		})
		ok = ok && uses == 0
		return ok
	})
	return ok && any
}

// firstWrites runs the control flow of a loop body whose bounds are constant
// and marks the elements of a buffer that are certainly written. It ends, with
// stop set, at the first read, or at what it cannot follow.
type firstWrites struct {
	buf   *ir.Buffer
	seen  []bool
	left  int
	env   map[*ir.Var]int64
	steps int
	stop  bool
}

func (w *firstWrites) stmt(s ir.Stmt) {
	if s == nil || w.stop || w.left == 0 {
		return
	}
	if w.steps--; w.steps < 0 {
		w.stop = true
		return
	}
	switch s := s.(type) {
	case *ir.SeqStmt:
		for _, c := range s.Seq {
			w.stmt(c)
		}
	case *ir.AttrStmt:
		w.stmt(s.Body)
	case *ir.SBlock:
		if s.Predicate != nil || s.Init != nil {
			w.stopIfUsed(s)
			return
		}
		w.stmt(s.Body)
	case *ir.For:
		lo, ok := ir.AsInt(s.Min)
		n, ok2 := ir.AsInt(s.Extent)
		if !ok || !ok2 || n > maxTracked || s.Step != nil {
			w.stopIfUsed(s)
			return
		}
		if !w.uses(s) {
			return
		}
		for i := int64(0); i < n && !w.stop && w.left > 0; i++ {
			w.env[s.Var] = lo + i
			w.stmt(s.Body)
		}
		delete(w.env, s.Var)
	case *ir.BufferStore:
		if w.reads(s.Value) || w.readsAny(s.Indices) || w.reads(s.Predicate) {
			w.stop = true
			return
		}
		if s.Buffer == w.buf && s.Predicate == nil {
			w.store(s.Indices)
		}
	case *ir.Evaluate:
		w.evaluate(s)
	default:
		w.stopIfUsed(s)
	}
}

func (w *firstWrites) uses(s ir.Stmt) bool {
	found := false
	ir.Walk(s, func(s ir.Stmt) bool {
		lifetime.Touches(s, func(v *ir.Var) { found = found || v == w.buf.Data })
		return !found
	})
	return found
}

func (w *firstWrites) stopIfUsed(s ir.Stmt) {
	if w.uses(s) {
		w.stop = true
	}
}

// reads reports any mention of the memory in an expression.
func (w *firstWrites) reads(e ir.Expr) bool {
	found := false
	ir.WalkExpr(e, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			found = found || e.Buffer.Data == w.buf.Data
		case *ir.Var:
			found = found || e == w.buf.Data
		}
		return !found
	})
	return found
}

func (w *firstWrites) readsAny(list []ir.Expr) bool {
	for _, e := range list {
		if w.reads(e) {
			return true
		}
	}
	return false
}

// evaluate marks what a call writes through pointers with write-only access;
// any other mention of the memory ends the walk.
func (w *firstWrites) evaluate(s *ir.Evaluate) {
	call, ok := s.Value.(*ir.Call)
	if !ok {
		if w.reads(s.Value) {
			w.stop = true
		}
		return
	}
	var writes []*ir.Call
	for _, a := range call.Args {
		if p, ok := ir.IsCall(a, "tvm_access_ptr"); ok && p.Args[1] == ir.Expr(w.buf.Data) {
			if !ir.IsConst(p.Args[4], 2) || w.reads(p.Args[2]) || w.reads(p.Args[3]) {
				w.stop = true
				return
			}
			writes = append(writes, p)
			continue
		}
		if w.reads(a) {
			w.stop = true
			return
		}
	}
	for _, p := range writes {
		off, ok := w.eval(p.Args[2])
		n, ok2 := w.eval(p.Args[3])
		if !ok || !ok2 {
			continue
		}
		for i := max(off, 0); i < off+n && i < int64(len(w.seen)); i++ {
			w.mark(i)
		}
	}
}

func (w *firstWrites) store(indices []ir.Expr) {
	strides := w.buf.Strides
	if strides == nil {
		strides = ir.RowMajorStrides(w.buf.Shape)
	}
	if len(indices) != len(strides) {
		return
	}
	at, lanes, step := int64(0), int64(1), int64(0)
	for i, e := range indices {
		stride, ok := ir.AsInt(strides[i])
		if !ok {
			return
		}
		if r, isRamp := e.(*ir.Ramp); isRamp {
			st, ok := ir.AsInt(r.Stride)
			if !ok {
				return
			}
			e, lanes, step = r.Base, int64(r.Lanes), st*stride
		}
		v, ok := w.eval(e)
		if !ok {
			return
		}
		at += v * stride
	}
	for i := int64(0); i < lanes; i++ {
		if j := at + i*step; j >= 0 && j < int64(len(w.seen)) {
			w.mark(j)
		}
	}
}

func (w *firstWrites) mark(i int64) {
	if !w.seen[i] {
		w.seen[i] = true
		w.left--
	}
}

// eval is the value of an integer expression in the present iteration.
func (w *firstWrites) eval(e ir.Expr) (int64, bool) {
	switch e := e.(type) {
	case *ir.IntImm:
		return e.Value, true
	case *ir.Var:
		v, ok := w.env[e]
		return v, ok
	case *ir.Cast:
		if e.Type.IsInteger() {
			return w.eval(e.Value)
		}
	case *ir.Binary:
		a, ok := w.eval(e.A)
		b, ok2 := w.eval(e.B)
		if !ok || !ok2 || e.A.DType() != e.B.DType() {
			return 0, false
		}
		t := e.A.DType()
		if c, isConst := ir.FoldInt(e.Op, ir.IntConst(t, a), ir.IntConst(t, b)).(*ir.IntImm); isConst && c != nil {
			return c.Value, true
		}
	}
	return 0, false
}
