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
// Invariant: barriers are executed by all threads.
var LowerThreadAllreduce = &pipeline.Pass{
	Name:         "LowerThreadAllreduce",
	Stage:        stage,
	Doc:          "expand reductions across threads into a tree in shared memory",
	Precondition: "Launch axes are known by tag and have constant extents.",
	Effect:       "T.tvm_thread_allreduce becomes stores to a shared buffer, barriers and halving steps; loads of its results read that buffer.",
	Before:       "T.tvm_thread_allreduce(T.uint32(1), acc[0], T.bool(True), red[0], tk)\ny[tn] = red[0]",
	After:        "red_buf0[tn * 2 + tk] = acc[0]\nT.tvm_storage_sync(\"shared\")\nif tk < 1:\n    red_buf0[tn * 2 + tk] = red_buf0[tn * 2 + tk] + red_buf0[tn * 2 + tk + 1]\nT.tvm_storage_sync(\"shared\")\ny[tn] = red_buf0[tn * 2]",
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
	for _, tag := range []string{"threadIdx.x", "threadIdx.y", "threadIdx.z"} {
		a, ok := axes[tag]
		if !ok || a.extent == 1 {
			continue
		}
		if isOver[a.v] {
			index = ir.NewBinary(ir.Add, index, ir.NewBinary(ir.Mul, a.v, ir.I32(width)))
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
	bufs := make([]*ir.Buffer, n)
	for i, v := range values {
		bufs[i] = ir.NewBuffer(fmt.Sprintf("red_buf%d", *count), v.DType(), "shared", ir.I32(groups*width))
		*count++
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
