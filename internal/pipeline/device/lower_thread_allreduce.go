package device

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// LowerThreadAllreduce expands reductions across threads.
//
// Precondition: launch axes have constant extents and are known by tag.
// Effect: T.tvm_thread_allreduce(n, values…, condition, results…, axes…) under
// a "reduce_scope" becomes a tree over shared memory: every thread stores its
// values (the identity where the condition fails), and half of the threads
// that are left combine theirs with the other half's, with a barrier after
// each step. Loads of a result read the group's first element instead.
// A sum, maximum or minimum of 32 bits over neighbouring threads goes through
// shuffles (T.call_extern of tl::AllReduce), with one exchange of the warps'
// parts in shared memory if there are several; all threads hold its result.
// Invariant: barriers are executed by all threads.
var LowerThreadAllreduce = &pipeline.Pass{
	Name:         "LowerThreadAllreduce",
	Stage:        stage,
	Doc:          "expand reductions across threads into shuffles or a tree in shared memory",
	Precondition: "Launch axes are known by tag and have constant extents.",
	Effect:       "T.tvm_thread_allreduce over neighbouring threads becomes shuffles, with one exchange between warps; any other stores to a shared buffer, barriers and halving steps. Loads of its results read what holds them then.",
	Before:       "T.tvm_thread_allreduce(T.uint32(1), acc[0], T.bool(True), red[0], tk)\ny[tn] = red[0]",
	After:        "red_buf0[0] = T.call_extern(\"float32\", \"tl::AllReduce<tl::SumOp, 32, 1, 0, tl::NamedBarrier<128>>::run\", acc[0])\ny[tn] = red_buf0[0]",
	Run:          pipeline.BodyPass(nil, lowerAllreduce),
}

// axis is a launch axis of threads.
type axis struct {
	v      *ir.Var
	extent int64
}

// threadAxes are the thread axes of a body by tag.
func threadAxes(body ir.Stmt) map[string]axis {
	m := map[string]axis{}
	ir.Walk(body, func(s ir.Stmt) bool {
		if a, ok := s.(*ir.AttrStmt); ok && a.Key == ir.KeyThreadExtent {
			if iv, ok := a.Node.(*ir.IterVar); ok {
				if n, ok := ir.AttrInt(a.Value); ok {
					m[iv.Tag] = axis{iv.Var, n}
				}
			}
		}
		return true
	})
	return m
}

func lowerAllreduce(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	axes := threadAxes(f.Body)
	replaced := map[*ir.Var]*ir.BufferLoad{} // data of a result → what holds it now
	var err error
	count := 0
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		a, ok := s.(*ir.AttrStmt)
		if !ok || a.Key != "reduce_scope" || err != nil {
			return s, err != nil
		}
		red, ok := a.Node.(*ir.CommReducer)
		if !ok {
			return s, false
		}
		for i, c := range ir.Stmts(a.Body) {
			ev, ok := c.(*ir.Evaluate)
			if !ok {
				continue
			}
			call, ok := ir.IsCall(ev.Value, "tvm_thread_allreduce")
			if !ok {
				continue
			}
			var tree []ir.Stmt
			var allocs []ir.Stmt
			allocs, tree, err = reductionTree(red, call, axes, replaced, &count, ev.Org)
			if err != nil {
				return s, true
			}
			body := append([]ir.Stmt(nil), ir.Stmts(a.Body)[:i]...)
			body = append(body, tree...)
			for _, rest := range ir.Stmts(a.Body)[i+1:] {
				body = append(body, r.Stmt(rest))
			}
			// The buffers outlive the scope: their results are read after it.
			t := *a
			t.Body = ir.Seq(body...)
			return ir.Seq(append(allocs, &t)...), true
		}
		return s, false
	}
	r.PostExpr = func(e ir.Expr) ir.Expr {
		if l, ok := e.(*ir.BufferLoad); ok {
			if by := replaced[l.Buffer.Data]; by != nil {
				return by
			}
		}
		return e
	}
	body := r.Stmt(f.Body)
	return body, err
}

// reductionTree expands one call. Threads form groups: those that agree in the
// axes not reduced over share a result.
func reductionTree(red *ir.CommReducer, c *ir.Call, axes map[string]axis, replaced map[*ir.Var]*ir.BufferLoad, count *int, org ir.Span) (allocs, out []ir.Stmt, err error) {
	bad := func(format string, args ...any) ([]ir.Stmt, []ir.Stmt, error) {
		return nil, nil, pipeline.Errorf(org, format, args...)
	}
	n64, ok := ir.AsInt(c.Args[0])
	n := int(n64)
	if !ok || n < 1 || len(c.Args) < 2+2*n || len(red.LHS) != n {
		return bad("T.tvm_thread_allreduce of %d values with %d arguments", n, len(c.Args))
	}
	values, cond, results, over := c.Args[1:1+n], c.Args[1+n], c.Args[2+n:2+2*n], c.Args[2+2*n:]
	isOver := map[*ir.Var]bool{}
	for _, v := range over {
		if v, ok := v.(*ir.Var); ok {
			isOver[v] = true
		}
	}
	var index, group ir.Expr = ir.I32(0), ir.I32(0)
	width, groups := int64(1), int64(1)
	neighbours := true // the threads of a group have consecutive numbers
	for _, tag := range []string{"threadIdx.x", "threadIdx.y", "threadIdx.z"} {
		a, ok := axes[tag]
		if !ok || a.extent == 1 {
			continue
		}
		if isOver[a.v] {
			index = ir.NewBinary(ir.Add, index, ir.NewBinary(ir.Mul, a.v, ir.I32(width)))
			neighbours = neighbours && groups == 1
			width *= a.extent
		} else {
			group = ir.NewBinary(ir.Add, group, ir.NewBinary(ir.Mul, a.v, ir.I32(groups)))
			groups *= a.extent
		}
	}
	base := ir.NewBinary(ir.Mul, group, ir.I32(width))
	at := ir.NewBinary(ir.Add, base, index)
	barrier := func() ir.Stmt {
		return &ir.Evaluate{Value: ir.NewCall(ir.MustOp("tvm_storage_sync"), ir.Str("shared")), Org: org}
	}
	name := func() string {
		*count++
		return fmt.Sprintf("red_buf%d", *count-1)
	}
	if op := shuffled(red); op != "" && neighbours && (groups*width)%warpThreads == 0 && width&(width-1) == 0 && width <= warpThreads*warpThreads {
		l, ok := results[0].(*ir.BufferLoad)
		if !ok {
			return bad("a result of T.tvm_thread_allreduce must be an element of a buffer")
		}
		v := values[0]
		if !ir.IsConst(cond, 1) {
			v = &ir.Select{Cond: cond, True: v, False: red.Identity[0]}
		}
		t := v.DType()
		all := func(n int64, v ir.Expr) ir.Expr {
			f := fmt.Sprintf("tl::AllReduce<%s, %d, 1, 0, tl::NamedBarrier<%d>>::run", op, n, groups*width)
			return ir.NewTypedCall(ir.MustOp("call_extern"), t, ir.Str(f), v)
		}
		own := ir.NewBuffer(name(), t, "local", ir.I32(1))
		zero := []ir.Expr{ir.I32(0)}
		have := &ir.BufferLoad{Buffer: own, Indices: zero}
		put := func(v ir.Expr) { out = append(out, &ir.BufferStore{Buffer: own, Indices: zero, Value: v, Org: org}) }
		allocs = append(allocs, &ir.AllocBuffer{Buffer: own, Org: org})
		put(all(min(width, warpThreads), v))
		if parts := width / warpThreads; parts > 1 {
			part := ir.NewBuffer(name(), t, "shared", ir.I32(groups*parts))
			allocs = append(allocs, &ir.AllocBuffer{Buffer: part, Org: org})
			first := ir.NewBinary(ir.Mul, group, ir.I32(parts))
			out = append(out, barrier(), &ir.IfThenElse{
				Cond: ir.NewBinary(ir.EQ, ir.NewBinary(ir.FloorMod, index, ir.I32(warpThreads)), ir.I32(0)),
				Then: &ir.BufferStore{Buffer: part, Indices: []ir.Expr{ir.NewBinary(ir.Add, first, ir.NewBinary(ir.FloorDiv, index, ir.I32(warpThreads)))}, Value: have, Org: org},
				Org:  org,
			}, barrier())
			put(all(parts, &ir.BufferLoad{Buffer: part, Indices: []ir.Expr{ir.NewBinary(ir.Add, first, ir.NewBinary(ir.FloorMod, index, ir.I32(parts)))}}))
		}
		replaced[l.Buffer.Data] = have
		return allocs, out, nil
	}
	bufs := make([]*ir.Buffer, n)
	for i, v := range values {
		bufs[i] = ir.NewBuffer(name(), v.DType(), "shared", ir.I32(groups*width))
		allocs = append(allocs, &ir.AllocBuffer{Buffer: bufs[i], Org: org})
	}
	out = append(out, barrier())
	for i, v := range values {
		if !ir.IsConst(cond, 1) {
			v = &ir.Select{Cond: cond, True: v, False: red.Identity[i]}
		}
		out = append(out, &ir.BufferStore{Buffer: bufs[i], Indices: []ir.Expr{at}, Value: v, Org: org})
	}
	out = append(out, barrier())
	for left := width; left > 1; {
		half := int64(1)
		for half*2 < left {
			half *= 2
		}
		// Threads below left-half combine with the ones half further on.
		sub := map[*ir.Var]ir.Expr{}
		for i := range bufs {
			sub[red.LHS[i]] = &ir.BufferLoad{Buffer: bufs[i], Indices: []ir.Expr{at}}
			sub[red.RHS[i]] = &ir.BufferLoad{Buffer: bufs[i], Indices: []ir.Expr{ir.NewBinary(ir.Add, at, ir.I32(half))}}
		}
		var steps []ir.Stmt
		if n == 1 {
			steps = append(steps, &ir.BufferStore{Buffer: bufs[0], Indices: []ir.Expr{at}, Value: ir.Substitute(red.Result[0], ir.SubstMap(sub)), Org: org})
		} else {
			// All results are computed before the first is stored.
			temps := make([]*ir.Var, n)
			for i := range bufs {
				temps[i] = &ir.Var{Name: fmt.Sprintf("combined%d", i), Type: bufs[i].Type}
				steps = append(steps, &ir.Bind{Var: temps[i], Value: ir.Substitute(red.Result[i], ir.SubstMap(sub)), Org: org})
			}
			for i := range bufs {
				steps = append(steps, &ir.BufferStore{Buffer: bufs[i], Indices: []ir.Expr{at}, Value: temps[i], Org: org})
			}
		}
		out = append(out, &ir.IfThenElse{Cond: ir.NewBinary(ir.LT, index, ir.I32(left-half)), Then: ir.Seq(steps...), Org: org}, barrier())
		left = half
	}
	for i, res := range results {
		l, ok := res.(*ir.BufferLoad)
		if !ok {
			return bad("a result of T.tvm_thread_allreduce must be an element of a buffer")
		}
		replaced[l.Buffer.Data] = &ir.BufferLoad{Buffer: bufs[i], Indices: []ir.Expr{base}}
	}
	return allocs, out, nil
}

// shuffled names the reduction of one value of 32 bits that shuffles can do,
// "" for others.
func shuffled(red *ir.CommReducer) string {
	if len(red.Result) != 1 || len(red.LHS) != 1 || red.LHS[0].Type.Bits != 32 || red.LHS[0].Type.Lanes > 1 {
		return ""
	}
	b, ok := red.Result[0].(*ir.Binary)
	if !ok || b.A != ir.Expr(red.LHS[0]) || b.B != ir.Expr(red.RHS[0]) {
		return ""
	}
	switch b.Op {
	case ir.Add:
		return "tl::SumOp"
	case ir.Max:
		return "tl::MaxOp"
	case ir.Min:
		return "tl::MinOp"
	}
	return ""
}
