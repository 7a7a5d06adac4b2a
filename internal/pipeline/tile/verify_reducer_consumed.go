package tile

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// VerifyReducerConsumed checks that no reducer is left.
//
// Precondition: ReducerPlanAndMaterialize and LowerTileOp have run.
//
// Effect: none; the first operator on a reducer, marker or reducer memory that is
// left is an error.
//
//	T.reducer_update(acc[i], x)   ->   error: reducer acc was not lowered
var VerifyReducerConsumed = &pipeline.Pass{
	Name:         "VerifyReducerConsumed",
	Stage:        "tile",
	Doc:          "check that no reducer is left",
	Precondition: "ReducerPlanAndMaterialize and LowerTileOp have run.",
	Effect:       "The module does not change; an operator on a reducer that is left is an error.",
	Before:       "T.reducer_update(acc[i], x)",
	After:        "error: the reducer acc was not lowered",
	Run: pipeline.BodyPass(isDevice, func(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
		var err error
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.SBlock:
				for _, b := range s.AllocBuffers {
					if isReducer(b) {
						err = pipeline.Errorf(s.Org, "the reducer %s was not lowered", b.Name)
					}
				}
			case *ir.AttrStmt:
				if s.Key == keyMultiplicity {
					err = pipeline.Errorf(s.Org, "a contribution to a reducer was not lowered")
				}
			}
			ir.StmtExprs(s, func(x ir.Expr) bool {
				if c, ok := x.(*ir.Call); ok && isReducerOp(c) {
					err = pipeline.Errorf(s.Origin(), "T.%s was not lowered", c.Op.Name)
				}
				return err == nil
			})
			return err == nil
		})
		return f.Body, err
	}),
}

// isReducerOp reports an operator on reducers.
func isReducerOp(c *ir.Call) bool {
	if c.Op == nil {
		return false
	}
	switch c.Op.Name {
	case "reducer_init", "reducer_update", "finalize_reducer_v2", "finalize_reducer":
		return true
	}
	return false
}
