package loop

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// HoistIfThenElse evaluates the part of a condition that does not depend on a
// loop once, outside the loop.
//
// Precondition: none. Effect: for i: if a and b(i): S becomes if a: for i: if
// b(i): S, when the loop does nothing but the branch. LoopUnswitching has moved
// out the conditions of which no part depends on the loop. Parts that read
// memory, have an effect, or divide by what is not constant stay, for another
// part may guard them. Invariant: what is computed does not change.
var HoistIfThenElse = &pipeline.Pass{
	Name:         "HoistIfThenElse",
	Stage:        stage,
	Doc:          "evaluate the parts of conditions that do not depend on a loop outside it",
	Precondition: "None.",
	Effect:       "A conjunct that no iteration changes is tested once, around the loop.",
	Before:       "for i in range(8):\n    if i < m and tx < n:\n        A[i] = B[i]",
	After:        "if tx < n:\n    for i in range(8):\n        if i < m:\n            A[i] = B[i]",
	Run:          pipeline.BodyPass(nil, hoistConditions),
}

func hoistConditions(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		loop, ok := s.(*ir.For)
		if !ok || loop.Kind == ir.ThreadBinding {
			return s
		}
		return hoistCondition(loop)
	}}
	return r.Stmt(f.Body), nil
}

func hoistCondition(loop *ir.For) ir.Stmt {
	branch, ok := loop.Body.(*ir.IfThenElse)
	if !ok || branch.Else != nil {
		return loop
	}
	var out, in ir.Expr
	for _, c := range ir.Conjuncts(branch.Cond) {
		if movable(c, loop.Var) {
			out = and(out, c)
		} else {
			in = and(in, c)
		}
	}
	if out == nil {
		return loop
	}
	t := *loop
	t.Body = branch.Then
	if in != nil {
		t.Body = &ir.IfThenElse{Cond: in, Then: branch.Then, Org: branch.Org}
	}
	return &ir.IfThenElse{Cond: out, Then: &t, Org: branch.Org}
}

func and(a, b ir.Expr) ir.Expr {
	if a == nil {
		return b
	}
	return &ir.Binary{Op: ir.And, A: a, B: b}
}

// movable reports a condition that has the same value in every iteration and
// can be evaluated where its fellow conjuncts do not hold.
func movable(e ir.Expr, loop *ir.Var) bool {
	if ir.SideEffect(e) != ir.Pure || ir.UsesVar(e, func(v *ir.Var) bool { return v == loop }) {
		return false
	}
	safe := true
	ir.WalkExpr(e, func(e ir.Expr) bool {
		if b, ok := e.(*ir.Binary); ok && (b.Op == ir.Div || b.Op == ir.TruncMod || b.Op == ir.FloorDiv || b.Op == ir.FloorMod) {
			if v, isConst := ir.AsInt(b.B); (!isConst || v == 0) && !b.A.DType().IsFloat() {
				safe = false
			}
		}
		return safe
	})
	return safe
}
