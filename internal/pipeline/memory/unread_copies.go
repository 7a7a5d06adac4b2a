package memory

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline/lifetime"
)

// unreadCopies finds the memory that an asynchronous copy writes and that
// nothing touches afterwards, as where the reader was for an iteration that does
// not come. No wait needs to name such a copy: it may land at any time up to the
// end of the launch.
func unreadCopies(body ir.Stmt) map[*ir.Var]bool {
	type use struct {
		at   int
		loop *ir.For // the outermost loop around it, or nil
	}
	copied := map[*ir.Var]use{} // the last copy
	touched := map[*ir.Var]int{}
	within := map[*ir.Var]map[*ir.For]bool{} // loops that touch it otherwise
	at := 0
	var visit func(s ir.Stmt, loop *ir.For)
	visit = func(s ir.Stmt, loop *ir.For) {
		at++
		if f, ok := s.(*ir.For); ok && loop == nil {
			loop = f
		}
		target := copyTarget(s)
		lifetime.Touches(s, func(v *ir.Var) {
			if v == target {
				copied[v] = use{at, loop}
				return
			}
			touched[v] = at
			if within[v] == nil {
				within[v] = map[*ir.For]bool{}
			}
			within[v][loop] = true
		})
		ir.Children(s, func(c ir.Stmt) { visit(c, loop) })
	}
	if body != nil {
		visit(body, nil)
	}
	out := map[*ir.Var]bool{}
	for v, c := range copied {
		if touched[v] < c.at && (c.loop == nil || !within[v][c.loop]) {
			out[v] = true
		}
	}
	return out
}

// copyTarget is the memory that a statement copies to asynchronously, nil for
// other statements.
func copyTarget(s ir.Stmt) *ir.Var {
	ev, ok := s.(*ir.Evaluate)
	if !ok {
		return nil
	}
	c, ok := ir.IsCall(ev.Value, "ptx_cp_async")
	if !ok || len(c.Args) == 0 {
		return nil
	}
	var v *ir.Var
	ir.WalkExpr(c.Args[0], func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			v = e.Buffer.Data
		case *ir.Var:
			if e.Type.IsHandle() {
				v = e
			}
		}
		return v == nil
	})
	return v
}
