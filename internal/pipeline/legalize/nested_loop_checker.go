package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// NestedLoopChecker checks how parallel loops, pipelined loops and tile
// operators stand within each other.
//
// Precondition: loops are as written. Effect: none. Errors: a parallel loop
// within another one with something beside it, for then no single layout
// covers both; a pipelined loop, or a tile operator, within a parallel loop,
// for those are executed by all threads together. (T.reducer_update is the
// element operator of a reducer and belongs there.)
var NestedLoopChecker = &pipeline.Pass{
	Name:         "NestedLoopChecker",
	Stage:        stage,
	Doc:          "check the nesting of parallel loops, pipelined loops and tile operators",
	Precondition: "Loops are as they were written.",
	Effect:       "None. Parallel loops must be perfectly nested; pipelined loops and tile operators cannot stand within parallel loops.",
	Before:       "for i in T.parallel(8):\n    T.copy(A, s)",
	After:        "error: T.copy is executed by all threads together and cannot stand in a parallel loop",
	Run:          pipeline.BodyPass(nil, checkNesting),
}

func checkNesting(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	var err *pipeline.Error
	fail := func(at ir.Span, outer *ir.For, format string, args ...any) {
		if err == nil {
			err = pipeline.Errorf(at, format, args...).WithNote(outer.Org, "the parallel loop over %s", outer.Var.Name)
		}
	}
	var visit func(s ir.Stmt, outer *ir.For, perfect bool)
	visit = func(s ir.Stmt, outer *ir.For, perfect bool) {
		if outer != nil {
			switch s := s.(type) {
			case *ir.For:
				switch {
				case s.Annotations.Get("num_stages") != nil:
					fail(s.Org, outer, "the pipelined loop over %s cannot stand in a parallel loop", s.Var.Name)
				case s.Kind == ir.Parallel && !perfect:
					fail(s.Org, outer, "the parallel loop over %s has company in the one around it", s.Var.Name)
				}
			case *ir.Evaluate:
				if c, ok := s.Value.(*ir.Call); ok && c.Op != nil && c.Op.Tile && c.Op.Name != "reducer_update" {
					fail(s.Org, outer, "T.%s is executed by all threads together and cannot stand in a parallel loop", c.Op.Name)
				}
			}
		}
		if loop, ok := s.(*ir.For); ok && loop.Kind == ir.Parallel {
			if loop.Body != nil {
				visit(loop.Body, loop, true)
			}
			return
		}
		ir.Children(s, func(c ir.Stmt) { visit(c, outer, false) })
	}
	if f.Body != nil {
		visit(f.Body, nil, false)
	}
	if err != nil {
		return nil, err
	}
	return f.Body, nil
}
