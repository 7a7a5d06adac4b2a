package expr

import "lowertrace/internal/ir"

// shapeVars are the variables that shapes, strides and offsets of the buffers
// in a function mention, and the pointers of buffers: a binding of one of
// these cannot be inlined, for a buffer needs the name.
func shapeVars(f *ir.PrimFunc) map[*ir.Var]bool {
	out := map[*ir.Var]bool{}
	seen := map[*ir.Buffer]bool{}
	note := func(b *ir.Buffer) {
		if b == nil || seen[b] {
			return
		}
		seen[b] = true
		out[b.Data] = true
		for _, list := range [][]ir.Expr{b.Shape, b.Strides, {b.ElemOffset}} {
			for _, e := range list {
				ir.WalkExpr(e, func(e ir.Expr) bool {
					if v, ok := e.(*ir.Var); ok {
						out[v] = true
					}
					return true
				})
			}
		}
	}
	for _, b := range f.BufferMap {
		note(b.Buffer)
	}
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.BufferStore:
			note(s.Buffer)
		case *ir.AllocBuffer:
			note(s.Buffer)
		case *ir.DeclBuffer:
			note(s.Buffer)
		case *ir.AttrStmt:
			if b, ok := s.Node.(*ir.Buffer); ok {
				note(b)
			}
		case *ir.SBlock:
			for _, b := range s.AllocBuffers {
				note(b)
			}
			for _, list := range [][]ir.BufferRegion{s.Reads, s.Writes} {
				for _, r := range list {
					note(r.Buffer)
				}
			}
			for _, m := range s.MatchBuffers {
				note(m.Buffer)
				note(m.Source.Buffer)
			}
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if l, ok := e.(*ir.BufferLoad); ok {
				note(l.Buffer)
			}
			return true
		})
		return true
	})
	return out
}

// uses counts how often each variable is mentioned in expressions of s, and
// marks the pointers of buffers with at least one.
func uses(s ir.Stmt) map[*ir.Var]int {
	n := map[*ir.Var]int{}
	ir.WalkExprs(s, func(e ir.Expr) bool {
		if v, ok := e.(*ir.Var); ok {
			n[v]++
		}
		return true
	})
	return n
}

// dropUnused removes bindings of variables that nothing mentions, and then
// those that only the removed ones mentioned. A value with an effect stays.
func dropUnused(s ir.Stmt, needed map[*ir.Var]bool) ir.Stmt {
	if s == nil {
		return nil
	}
	n := uses(s)
	drop := map[*ir.Bind]bool{}
	var binds []*ir.Bind
	ir.Walk(s, func(s ir.Stmt) bool {
		if b, ok := s.(*ir.Bind); ok && ir.SideEffect(b.Value) <= ir.ReadState {
			binds = append(binds, b)
		}
		return true
	})
	// A value is computed before it is used, so one sweep from the end sees
	// every use that goes away.
	for i := len(binds) - 1; i >= 0; i-- {
		b := binds[i]
		if n[b.Var] > 0 || needed[b.Var] {
			continue
		}
		drop[b] = true
		ir.WalkExpr(b.Value, func(e ir.Expr) bool {
			if v, ok := e.(*ir.Var); ok {
				n[v]--
			}
			return true
		})
	}
	if len(drop) == 0 {
		return s
	}
	r := ir.Rewriter{PreStmt: func(s ir.Stmt) (ir.Stmt, bool) {
		if b, ok := s.(*ir.Bind); ok && drop[b] {
			return nil, true
		}
		return s, false
	}}
	return r.Stmt(s)
}

// nodes is the size of an expression.
func nodes(e ir.Expr) int {
	n := 0
	ir.WalkExpr(e, func(ir.Expr) bool { n++; return true })
	return n
}
