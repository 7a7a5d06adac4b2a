package expr

import (
	"math"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
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
	r.PreExpr = func(e ir.Expr) (ir.Expr, bool) { return leftToRight(r.An.Simplify(tidy(e))), true }
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.IfThenElse:
			cond := r.Expr(s.Cond)
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
		case *ir.SBlock:
			if s.Predicate != nil && ir.IsConst(s.Predicate, 1) {
				t := *s
				t.Predicate = nil
				return &t
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
// nothing that may change in between, and v names no memory. Values other than
// integers, which are what indices are made of, keep their name unless they are
// constants or variables: repeating them gives nothing to the analysis.
func inlinable(v *ir.Var, value ir.Expr, fixed map[*ir.Var]bool) bool {
	if v.Type.IsHandle() || fixed[v] || value.DType() != v.Type {
		return false
	}
	switch value.(type) {
	case *ir.IntImm, *ir.FloatImm, *ir.Var:
		return true
	}
	return v.Type.IsInt() && ir.SideEffect(value) == ir.Pure
}

// tidy does what the analyzer, which is about integers and conditions, does
// not: it puts nested choices with a common alternative into one
// (if_then_else(a, if_then_else(b, x, y), y) is if_then_else(a and b, x, y)),
// multiplies infinities, and converts constant ramps.
func tidy(e ir.Expr) ir.Expr {
	r := ir.Rewriter{PostExpr: func(e ir.Expr) ir.Expr {
		switch e := e.(type) {
		case *ir.Call:
			return joinChoices(e)
		case *ir.Binary:
			x, ok := e.A.(*ir.FloatImm)
			y, ok2 := e.B.(*ir.FloatImm)
			if e.Op == ir.Mul && ok && ok2 && x.Type == y.Type {
				if p := x.Value * y.Value; (math.IsInf(x.Value, 0) || math.IsInf(y.Value, 0)) && math.IsInf(p, 0) {
					return ir.FloatConst(x.Type, p)
				}
			}
		case *ir.Cast:
			return castRamp(e)
		}
		return e
	}}
	return r.Expr(e)
}

func joinChoices(outer *ir.Call) ir.Expr {
	if outer.Op == nil || outer.Op.Name != "if_then_else" || outer.Args[0].DType() != ir.DBool {
		return outer
	}
	inner, ok := ir.IsCall(outer.Args[1], "if_then_else")
	if !ok || inner.Args[0].DType() != ir.DBool || !arith.Equal(inner.Args[2], outer.Args[2]) {
		return outer
	}
	both := &ir.Binary{Op: ir.And, A: outer.Args[0], B: inner.Args[0]}
	return ir.NewCall(outer.Op, both, inner.Args[1], outer.Args[2])
}

// castRamp converts a ramp of constants whose lanes fit the new type.
func castRamp(e *ir.Cast) ir.Expr {
	r, ok := e.Value.(*ir.Ramp)
	if !ok || !e.Type.IsInteger() {
		return e
	}
	base, ok := ir.AsInt(r.Base)
	stride, ok2 := ir.AsInt(r.Stride)
	if !ok || !ok2 {
		return e
	}
	t := e.Type.Scalar()
	for _, v := range []int64{base, base + stride*int64(r.Lanes-1), stride} {
		if ir.WrapInt(t, v) != v || t.IsUInt() && v < 0 {
			return e
		}
	}
	return &ir.Ramp{Base: ir.IntConst(t, base), Stride: ir.IntConst(t, stride), Lanes: r.Lanes}
}

// leftToRight regroups chains of And and of Or to the left, without changing
// the order in which they are evaluated: a and (b and c) is (a and b) and c.
func leftToRight(e ir.Expr) ir.Expr {
	r := ir.Rewriter{PostExpr: func(e ir.Expr) ir.Expr {
		b, ok := e.(*ir.Binary)
		if !ok || !b.Op.IsLogical() {
			return e
		}
		// Both sides are chains to the left already.
		var right []ir.Expr
		x := b.B
		for {
			c, ok := x.(*ir.Binary)
			if !ok || c.Op != b.Op {
				break
			}
			right = append(right, c.B)
			x = c.A
		}
		if len(right) == 0 {
			return e
		}
		var out ir.Expr = &ir.Binary{Op: b.Op, A: b.A, B: x}
		for i := len(right) - 1; i >= 0; i-- {
			out = &ir.Binary{Op: b.Op, A: out, B: right[i]}
		}
		return out
	}}
	return r.Expr(e)
}
