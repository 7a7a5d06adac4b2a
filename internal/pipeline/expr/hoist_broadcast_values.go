package expr

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// HoistBroadcastValues gives the constant of a broadcast a name in front of its
// statement, so that the code generator writes it once and not once per lane.
//
// Precondition: none. Effect: T.Broadcast(c, n) of a floating-point constant in
// a store, a binding or a call becomes a broadcast of a variable bound to c
// just before. Invariant: values do not change.
//
//	x[0:4] = T.Broadcast(T.float32(0.0), 4)
//	->  broadcast_var: T.float32 = T.float32(0.0); x[0:4] = T.Broadcast(broadcast_var, 4)
var HoistBroadcastValues = &pipeline.Pass{
	Name:         "HoistBroadcastValues",
	Stage:        stage,
	Doc:          "bind the constants of broadcasts before their statement",
	Precondition: "None.",
	Effect:       "A broadcast constant of a statement is bound to a variable in front of it.",
	Before:       "x[0:4] = T.Broadcast(T.float32(0.0), 4)",
	After:        "broadcast_var: T.float32 = T.float32(0.0)\nx[0:4] = T.Broadcast(broadcast_var, 4)",
	Run:          pipeline.BodyPass(nil, hoistBroadcasts),
}

func hoistBroadcasts(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	var binds []ir.Stmt
	var org ir.Span
	in := ir.Rewriter{PostExpr: func(e ir.Expr) ir.Expr {
		b, ok := e.(*ir.Broadcast)
		if !ok {
			return e
		}
		switch b.Value.(type) {
		case *ir.IntImm, *ir.FloatImm:
		default:
			return e
		}
		v := &ir.Var{Name: "broadcast_var", Type: b.Value.DType()}
		binds = append(binds, &ir.Bind{Var: v, Value: b.Value, Org: org})
		return &ir.Broadcast{Value: v, Lanes: b.Lanes}
	}}
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s.(type) {
		case *ir.BufferStore, *ir.Bind, *ir.Evaluate:
			binds, org = nil, s.Origin()
			t := in.Inside(s)
			if len(binds) == 0 {
				return t, true
			}
			return ir.Seq(append(append([]ir.Stmt(nil), binds...), t)...), true
		}
		return s, false
	}
	return r.Stmt(f.Body), nil
}
