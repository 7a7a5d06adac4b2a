package loop

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
)

// RemoveNoOp removes statements that do nothing.
//
// Precondition: none. Effect: evaluations without effect, stores of an element
// to itself, and loops, branches and attributes with nothing left in them are
// gone. Conditions and bounds that have an effect are kept as evaluations.
// Invariant: what is computed does not change; scopes of launch axes stay, for
// they say how the kernel is launched.
var RemoveNoOp = &pipeline.Pass{
	Name:         "RemoveNoOp",
	Stage:        stage,
	Doc:          "remove statements that do nothing",
	Precondition: "None.",
	Effect:       "Evaluations without effect, stores of an element to itself, and empty loops and branches are removed.",
	Before:       "if c:\n    A[0] = T.float32(1.0)\nelse:\n    for i in T.unroll(8):\n        T.evaluate(0)",
	After:        "if c:\n    A[0] = T.float32(1.0)",
	Run:          pipeline.BodyPass(nil, removeNoOps),
}

func removeNoOps(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		switch s := s.(type) {
		case *ir.Evaluate:
			if ir.SideEffect(s.Value) <= ir.ReadState {
				return nil
			}
		case *ir.BufferStore:
			l, ok := s.Value.(*ir.BufferLoad)
			if ok && l.Buffer == s.Buffer && s.Predicate == nil && l.Predicate == nil && equalIndices(l.Indices, s.Indices) {
				return nil
			}
		case *ir.For:
			if s.Body == nil || ir.IsConst(s.Extent, 0) {
				return ir.Seq(effectOf(s.Min, s.Org), effectOf(s.Extent, s.Org))
			}
		case *ir.IfThenElse:
			switch {
			case s.Then == nil && s.Else == nil:
				return effectOf(s.Cond, s.Org)
			case s.Then == nil:
				return &ir.IfThenElse{Cond: negate(s.Cond), Then: s.Else, Org: s.Org}
			}
		case *ir.AttrStmt:
			if _, launch := s.Node.(*ir.IterVar); s.Body == nil && !launch {
				return nil
			}
		case *ir.SBlock:
			if s.Body == nil && s.Init == nil && len(s.AllocBuffers) == 0 {
				return nil
			}
		}
		return s
	}}
	return r.Stmt(f.Body), nil
}

func equalIndices(a, b []ir.Expr) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !arith.Equal(a[i], b[i]) || ir.SideEffect(a[i]) > ir.ReadState {
			return false
		}
	}
	return true
}

// effectOf evaluates an expression for its effect alone, nil if it has none.
func effectOf(e ir.Expr, org ir.Span) ir.Stmt {
	if e == nil || ir.SideEffect(e) <= ir.ReadState {
		return nil
	}
	return &ir.Evaluate{Value: e, Org: org}
}

// negate is the opposite of a condition; comparisons of integers are turned
// around (those of floats are not, because of NaN).
func negate(e ir.Expr) ir.Expr {
	if n, ok := e.(*ir.Not); ok {
		return n.A
	}
	if b, ok := e.(*ir.Binary); ok && b.Op.IsComparison() && !b.A.DType().IsFloat() {
		return &ir.Binary{Op: opposite[b.Op], A: b.A, B: b.B}
	}
	return &ir.Not{A: e}
}

var opposite = map[ir.BinOp]ir.BinOp{ir.EQ: ir.NE, ir.NE: ir.EQ, ir.LT: ir.GE, ir.GE: ir.LT, ir.LE: ir.GT, ir.GT: ir.LE}
