package expr

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// LetInline replaces the uses of bindings of pure values by the values.
//
// Precondition: none. Effect: a binding whose value neither reads nor writes
// memory is gone; the others stay. Invariant: nothing is evaluated after
// memory it reads has changed.
//
//	j: T.int32 = i * 2; A[j] = B[j]  ->  A[i * 2] = B[i * 2]
var LetInline = &pipeline.Pass{
	Name:         "LetInline",
	Stage:        stage,
	Doc:          "replace bindings of pure values by their values",
	Precondition: "None.",
	Effect:       "Bindings of values that neither read nor write memory are replaced by the values where they are used.",
	Before:       "j: T.int32 = i * 2\nA[j] = B[j]",
	After:        "A[i * 2] = B[i * 2]",
	Run:          pipeline.BodyPass(nil, inlineLets),
}

func inlineLets(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	fixed := shapeVars(f)
	values := map[*ir.Var]ir.Expr{}
	count := uses(f.Body)
	var r ir.Rewriter
	try := func(v *ir.Var, value ir.Expr) bool {
		if !inlinable(v, value, fixed) || nodes(value)*count[v] > maxInlineNodes {
			return false
		}
		values[v] = value
		return true
	}
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		b, ok := s.(*ir.Bind)
		if !ok {
			return s, false
		}
		value := r.Expr(b.Value)
		if try(b.Var, value) {
			return nil, true
		}
		if value == b.Value {
			return s, true
		}
		return &ir.Bind{Var: b.Var, Value: value, Org: b.Org}, true
	}
	r.PreExpr = func(e ir.Expr) (ir.Expr, bool) {
		l, ok := e.(*ir.Let)
		if !ok {
			return e, false
		}
		value := r.Expr(l.Value)
		if try(l.Var, value) {
			return r.Expr(l.Body), true
		}
		body := r.Expr(l.Body)
		if value == l.Value && body == l.Body {
			return e, true
		}
		return &ir.Let{Var: l.Var, Value: value, Body: body}, true
	}
	r.Var = func(v *ir.Var) ir.Expr {
		if e, ok := values[v]; ok {
			return e
		}
		return v
	}
	return r.Stmt(f.Body), nil
}
