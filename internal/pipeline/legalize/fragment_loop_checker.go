package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// FragmentLoopChecker checks that fragments are indexed by parallel loops of
// known length only: which thread holds an element, and in which register, is
// decided when the kernel is compiled.
//
// Precondition: loops are as written. Effect: none; an access of a fragment at
// an index that depends on a parallel loop of symbolic bounds is an error.
var FragmentLoopChecker = &pipeline.Pass{
	Name:         "FragmentLoopChecker",
	Stage:        stage,
	Doc:          "check that parallel loops of symbolic length do not index fragments",
	Precondition: "Loops are as they were written.",
	Effect:       "None. A fragment indexed by the variable of a parallel loop whose bounds are not constant is an error.",
	Before:       "for i in T.parallel(n):\n    f[i] = A[i]",
	After:        "error: fragment f is indexed by i, whose parallel loop has no constant length",
	Run:          pipeline.BodyPass(nil, checkFragmentLoops),
}

func checkFragmentLoops(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	symbolic := map[*ir.Var]*ir.For{}
	var err *pipeline.Error
	check := func(at ir.Span, b *ir.Buffer, indices []ir.Expr) {
		if b.Scope() != "local.fragment" || err != nil {
			return
		}
		for _, e := range indices {
			ir.WalkExpr(e, func(e ir.Expr) bool {
				v, ok := e.(*ir.Var)
				if loop := symbolic[v]; ok && loop != nil && err == nil {
					err = pipeline.Errorf(at, "fragment %s is indexed by %s, whose parallel loop has no constant length", b.Name, v.Name).
						WithNote(loop.Org, "the loop over %s", v.Name)
				}
				return err == nil
			})
		}
	}
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.For:
			if s.Kind == ir.Parallel && !allConst([]ir.Expr{s.Min, s.Extent}) {
				symbolic[s.Var] = s
			}
		case *ir.BufferStore:
			check(s.Org, s.Buffer, s.Indices)
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if l, ok := e.(*ir.BufferLoad); ok {
				check(s.Origin(), l.Buffer, l.Indices)
			}
			return err == nil
		})
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return f.Body, nil
}
