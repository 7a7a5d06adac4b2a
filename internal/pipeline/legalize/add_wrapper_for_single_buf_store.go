package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// AddWrapperForSingleBufStore puts a parallel loop of one iteration around
// stores of single elements that layout inference must see.
//
// A store outside every parallel loop that touches a fragment has no loop
// whose layout could be inferred, so nothing would say which thread executes
// it. One iteration of T.parallel gives it one.
//
// Precondition: tile operators are not lowered. Effect: a store at constant
// indices, outside parallel loops, whose value reads fragments is the body of
// T.parallel(1). Stores at other indices are left: every thread executes them
// with what it holds. Invariant: what is computed does not change.
var AddWrapperForSingleBufStore = &pipeline.Pass{
	Name:         "AddWrapperForSingleBufStore",
	Stage:        stage,
	Doc:          "wrap single stores that read fragments in a parallel loop of one iteration",
	Precondition: "Tile operators and fragments are not lowered yet.",
	Effect:       "A store at constant indices outside parallel loops that reads fragments, and depends on no thread index, becomes the body of T.parallel(1), which layout inference can place.",
	Before:       "Y[0] = f[0]",
	After:        "for _ in T.parallel(1):\n    Y[0] = f[0]",
	Run:          pipeline.BodyPass(nil, wrapSingleStores),
}

func wrapSingleStores(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	threads := map[*ir.Var]bool{}
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.AttrStmt:
			if iv, ok := s.Node.(*ir.IterVar); ok && s.Key == ir.KeyThreadExtent && isThreadAxis(iv.Tag) {
				threads[iv.Var] = true
			}
		case *ir.For:
			if s.Kind == ir.Parallel {
				return s, true
			}
		case *ir.BufferStore:
			if !isSingleFragmentStore(s, threads) {
				return s, true
			}
			v := &ir.Var{Name: "_", Type: ir.DInt32}
			return &ir.For{Var: v, Min: ir.I32(0), Extent: ir.I32(1), Kind: ir.Parallel, Body: s, Org: s.Org}, true
		}
		return s, false
	}
	return r.Stmt(f.Body), nil
}

func isThreadAxis(tag string) bool { return len(tag) > 9 && tag[:9] == "threadIdx" }

// isSingleFragmentStore reports a store to an element at constant indices whose
// value reads fragments, at constant indices too, and nothing of the thread.
func isSingleFragmentStore(s *ir.BufferStore, threads map[*ir.Var]bool) bool {
	if !allConst(s.Indices) {
		return false
	}
	fragment, ok := false, true
	ir.WalkExpr(s.Value, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			if e.Buffer.Scope() == "local.fragment" {
				fragment = true
				ok = ok && allConst(e.Indices)
			}
		case *ir.Var:
			ok = ok && !threads[e]
		}
		return ok
	})
	return fragment && ok
}

func allConst(list []ir.Expr) bool {
	for _, e := range list {
		if _, ok := ir.AsInt(e); !ok {
			return false
		}
	}
	return true
}
