package legalize

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// MaterializeKernelLaunch turns the loops over blocks and the placeholders
// for thread indices that a T.Kernel leaves into launch axes.
//
// Precondition: launches are nests of thread_binding loops whose body begins
// with bindings of T.launch_thread_idx(k). A block in it may have the
// attribute "tl.launch_threads", the extents of the thread axes; without it
// the target chooses, and a block has ir.DefaultLaunchThreads threads.
//
// Effect: the loops and bindings become AttrStmts "thread_extent". Invariant:
// neither thread_binding loops nor launch_thread_idx are left.
var MaterializeKernelLaunch = &pipeline.Pass{
	Name:         "MaterializeKernelLaunch",
	Stage:        stage,
	Doc:          "turn loops over blocks and thread placeholders into launch axes",
	Precondition: "A launch is a nest of T.thread_binding loops that start at 0, with T.launch_thread_idx bindings; a block that states no \"tl.launch_threads\" gets 128 threads.",
	Effect:       "Loops bound to an axis and placeholders become T.launch_thread scopes; none of them is left.",
	Before:       "for bx in T.thread_binding(8, thread=\"blockIdx.x\"):\n    tx: T.int32 = T.launch_thread_idx(0)\n    with T.sblock(\"tilelang_root\"):\n        T.sblock_attr({\"tl.launch_threads\": [128, 1, 1]})",
	After:        "bx = T.launch_thread(\"blockIdx.x\", 8)\ntx = T.launch_thread(\"threadIdx.x\", 128)\nwith T.sblock(\"tilelang_root\"):\n    T.sblock_attr({\"tl.launch_threads\": [128, 1, 1]})",
	Run:          pipeline.BodyPass(nil, materializeLaunches),
}

// threadAxes are the launch axes T.launch_thread_idx numbers.
var threadAxes = [...]string{"threadIdx.x", "threadIdx.y", "threadIdx.z"}

func materializeLaunches(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	var err error
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		if err != nil {
			return s, true
		}
		switch s := s.(type) {
		case *ir.For:
			if s.Kind != ir.ThreadBinding {
				return s, false
			}
			if !ir.IsConst(s.Min, 0) || s.Step != nil && !ir.IsConst(s.Step, 1) {
				err = pipeline.Errorf(s.Org, "loop %s over %s must start at 0 and step by 1", s.Var.Name, s.Thread)
				return s, true
			}
			iv := &ir.IterVar{Var: s.Var, Kind: ir.ThreadIndex, Tag: s.Thread}
			return &ir.AttrStmt{Node: iv, Key: ir.KeyThreadExtent, Value: s.Extent, Body: r.Stmt(s.Body), Org: s.Org}, true
		case *ir.SeqStmt:
			first := -1
			for i, c := range s.Seq {
				if _, ok := launchIndex(c); ok {
					first = i
					break
				}
			}
			if first < 0 {
				return s, false
			}
			var out ir.Stmt
			out, err = threadLaunch(&r, s.Seq[first:])
			head := make([]ir.Stmt, 0, first+1)
			for _, c := range s.Seq[:first] {
				head = append(head, r.Stmt(c))
			}
			return ir.Seq(append(head, out)...), true
		}
		return s, false
	}
	body := r.Stmt(f.Body)
	if err != nil {
		return nil, err
	}
	ir.WalkExprs(body, func(e ir.Expr) bool {
		if _, ok := ir.IsCall(e, "launch_thread_idx"); ok && err == nil {
			err = pipeline.Errorf(f.Org, "T.launch_thread_idx in %s stands outside a launch", f.Name)
		}
		return err == nil
	})
	return body, err
}

// launchIndex recognises a binding of T.launch_thread_idx(axis).
func launchIndex(s ir.Stmt) (axis int, ok bool) {
	b, isBind := s.(*ir.Bind)
	if !isBind {
		return 0, false
	}
	call, isCall := ir.IsCall(b.Value, "launch_thread_idx")
	if !isCall {
		return 0, false
	}
	n, isConst := ir.AsInt(call.Args[0])
	if !isConst {
		return -1, true
	}
	return int(n), true
}

// threadLaunch makes the thread axes of a sequence that begins with their
// placeholders.
func threadLaunch(r *ir.Rewriter, seq []ir.Stmt) (ir.Stmt, error) {
	n := 0
	for n < len(seq) {
		if _, ok := launchIndex(seq[n]); !ok {
			break
		}
		n++
	}
	extents, err := launchThreads(seq[0].Origin(), seq[n:])
	if err != nil {
		return nil, err
	}
	rest := make([]ir.Stmt, 0, len(seq)-n)
	for _, s := range seq[n:] {
		rest = append(rest, r.Stmt(s))
	}
	body := ir.Seq(rest...)
	for i := n - 1; i >= 0; i-- {
		b := seq[i].(*ir.Bind)
		axis, _ := launchIndex(b)
		if axis < 0 || axis >= len(threadAxes) {
			return nil, pipeline.Errorf(b.Org, "T.launch_thread_idx takes a constant from 0 to %d", len(threadAxes)-1)
		}
		if axis >= len(extents) {
			return nil, pipeline.Errorf(b.Org, "\"tl.launch_threads\" has no extent for %s", threadAxes[axis])
		}
		iv := &ir.IterVar{Var: b.Var, Kind: ir.ThreadIndex, Tag: threadAxes[axis]}
		body = &ir.AttrStmt{Node: iv, Key: ir.KeyThreadExtent, Value: extents[axis], Body: body, Org: b.Org}
	}
	return body, nil
}

// launchThreads are the extents the launch's block states, or the default.
func launchThreads(org ir.Span, seq []ir.Stmt) ([]ir.Expr, error) {
	var found ir.Attr
	for _, s := range seq {
		ir.Walk(s, func(s ir.Stmt) bool {
			if b, ok := s.(*ir.SBlock); ok && found == nil {
				if a := b.Annotations.Get("tl.launch_threads"); a != nil {
					found, org = a, b.Org
				}
			}
			return found == nil
		})
	}
	if found == nil {
		return []ir.Expr{ir.I32(ir.DefaultLaunchThreads), ir.I32(1), ir.I32(1)}, nil
	}
	list, ok := found.(ir.List)
	if !ok {
		return nil, pipeline.Errorf(org, "\"tl.launch_threads\" is not a list of extents")
	}
	out := make([]ir.Expr, len(list))
	for i, a := range list {
		e, ok := a.(ir.Expr)
		if !ok || !e.DType().IsInteger() {
			return nil, pipeline.Errorf(org, "\"tl.launch_threads\": %s", fmt.Sprintf("extent %d is not an integer", i))
		}
		if v, ok := ir.AsInt(e); ok && v < 1 {
			return nil, pipeline.Errorf(org, "\"tl.launch_threads\": extent %d is %d", i, v)
		}
		out[i] = e
	}
	return out, nil
}
