package expr

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// RenormalizeSplitPattern puts nested divisions and remainders of a split index
// into the order divide, then take the remainder, in which the simplifier finds
// cancellations that the other order hides.
//
// Precondition: none. Effect: x % (a*b) // a becomes x // a % b. Invariant:
// values do not change; the next Simplify restores its own order where nothing
// was found.
var RenormalizeSplitPattern = &pipeline.Pass{
	Name:         "RenormalizeSplitPattern",
	Stage:        stage,
	Doc:          "divide before taking remainders, so that split indices cancel",
	Precondition: "None.",
	Effect:       "x % (a * b) // a becomes x // a % b.",
	Before:       "A[tx % 64 // 32]",
	After:        "A[tx // 32 % 2]",
	Run:          pipeline.BodyPass(nil, renormalize),
}

func renormalize(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	r := ir.Rewriter{PostExpr: func(e ir.Expr) ir.Expr {
		div, ok := e.(*ir.Binary)
		if !ok || div.Op != ir.FloorDiv || !div.A.DType().IsInt() {
			return e
		}
		a, ok := ir.AsInt(div.B)
		m, ok2 := div.A.(*ir.Binary)
		if !ok || !ok2 || m.Op != ir.FloorMod || a <= 0 {
			return e
		}
		ab, ok := ir.AsInt(m.B)
		if !ok || ab <= 0 || ab%a != 0 {
			return e
		}
		t := div.B.DType()
		return ir.NewBinary(ir.FloorMod, ir.NewBinary(ir.FloorDiv, m.A, div.B), ir.IntConst(t, ab/a))
	}}
	return r.Stmt(f.Body), nil
}
