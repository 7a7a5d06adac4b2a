package expr

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/scoped"
)

// Simplify simplifies every expression with what is known where it stands:
// ranges of variables, conditions in force, assumptions.
//
// Precondition: none. Effect: expressions are in the canonical form of
// arith.Analyzer; branches whose condition is decided, loops that never run
// and assertions that always hold are gone; bindings of pure values are
// inlined where they are used, bindings nobody uses are removed. Conditions of
// "tl.assume" are kept, for later passes need them. Invariant: what is computed
// does not change.
var Simplify = &pipeline.Pass{
	Name:         "Simplify",
	Stage:        stage,
	Doc:          "simplify expressions, decided branches and bindings",
	Precondition: "None.",
	Effect:       "Expressions are canonical; decided branches and empty loops are removed; bindings of values that neither read nor write memory are inlined, unused ones removed.",
	Before:       "if tx < 128 and tx >= 0:\n    x[(i * 4 + v) // 4] = X[bx * 16 + (i * 4 + v) // 4]",
	After:        "x[i] = X[bx * 16 + i]",
	Run:          pipeline.BodyPass(nil, simplify),
}

// maxInlineUses bounds how often a binding whose value is not a variable or a
// constant is repeated: size times uses, in nodes.
const maxInlineNodes = 1 << 12

func simplify(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	if f.Body == nil {
		return nil, nil
	}
	return simplifyStmt(f.Body, shapeVars(f)), nil
}

func simplifyStmt(body ir.Stmt, fixed map[*ir.Var]bool) ir.Stmt {
	count := uses(body)
	r := scoped.New()
	inlined := map[*ir.Var]bool{}
	r.Inline = func(v *ir.Var, value ir.Expr) bool {
		ok := inlinable(v, value, fixed) && nodes(value)*count[v] <= maxInlineNodes
		if ok {
			inlined[v] = true
		}
		return ok
	}
	r.PreExpr = func(e ir.Expr) (ir.Expr, bool) { return r.An.Simplify(e), true }
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.IfThenElse:
			cond := r.An.Simplify(s.Cond)
			if v, ok := ir.AsInt(cond); ok {
				if v != 0 {
					return r.Stmt(s.Then), true
				}
				return r.Stmt(s.Else), true
			}
		case *ir.For:
			if v, ok := ir.AsInt(r.An.Simplify(s.Extent)); ok && v <= 0 {
				return nil, true
			}
		case *ir.AttrStmt:
			if s.Key == ir.KeyAssume {
				return keepAssumption(r, s), true
			}
		case *ir.Evaluate:
			if v, ok := s.Value.(*ir.IntImm); ok && v != nil {
				return s, true
			}
		case *ir.BufferStore:
			// The left side is an index list, not a value of its own.
			return r.Inside(s), true
		}
		return s, false
	}
	r.PostStmt = func(s ir.Stmt) ir.Stmt {
		switch s := s.(type) {
		case *ir.Assert:
			if ir.IsConst(s.Cond, 1) {
				return nil
			}
		case *ir.IfThenElse:
			if s.Then == nil && s.Else == nil && ir.SideEffect(s.Cond) <= ir.ReadState {
				return nil
			}
			if s.Then == nil && s.Else != nil {
				return &ir.IfThenElse{Cond: r.An.Simplify(&ir.Not{A: s.Cond}), Then: s.Else, Org: s.Org}
			}
		}
		return s
	}
	out := r.Stmt(body)
	return dropUnused(out, fixed)
}

// keepAssumption simplifies an assumption by itself, without using it, and the
// body under it.
func keepAssumption(r *scoped.Rewriter, s *ir.AttrStmt) ir.Stmt {
	t := *s
	if cond, ok := s.Node.(ir.Expr); ok && cond.DType() == ir.DBool {
		if c := r.An.Simplify(cond); !ir.IsConst(c, 1) {
			t.Node = c
		}
		r.Under(cond, true, func() { t.Body = r.Stmt(s.Body) })
	} else {
		t.Body = r.Stmt(s.Body)
	}
	if t.Body == s.Body && t.Node == s.Node {
		return s
	}
	return &t
}

// inlinable reports that uses of v can be replaced by its value: it depends on
// nothing that may change in between, and v names no memory.
func inlinable(v *ir.Var, value ir.Expr, fixed map[*ir.Var]bool) bool {
	return !v.Type.IsHandle() && !fixed[v] && value.DType() == v.Type && ir.SideEffect(value) == ir.Pure
}

func nodes(e ir.Expr) int {
	n := 0
	ir.WalkExpr(e, func(ir.Expr) bool { n++; return true })
	return n
}
