package loop

import "lowertrace/internal/ir"

// fresh is a copy of a statement in which everything it defines (loop
// variables, bindings, launch and block axes, allocated and declared buffers)
// is new, so that copy and original can stand in one scope.
func fresh(s ir.Stmt) ir.Stmt { return freshWith(s, nil) }

// freshWith is fresh with some variables replaced by expressions as well.
func freshWith(s ir.Stmt, subst map[*ir.Var]ir.Expr) ir.Stmt {
	if s == nil {
		return nil
	}
	vars := map[*ir.Var]*ir.Var{}
	declared := map[*ir.Buffer]bool{}
	renew := func(v *ir.Var) {
		if vars[v] == nil {
			w := *v
			vars[v] = &w
		}
	}
	ir.Walk(s, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.For:
			renew(s.Var)
		case *ir.Bind:
			renew(s.Var)
		case *ir.AttrStmt:
			if iv, ok := s.Node.(*ir.IterVar); ok {
				renew(iv.Var)
			}
		case *ir.AllocBuffer:
			renew(s.Buffer.Data)
		case *ir.DeclBuffer:
			declared[s.Buffer] = true
		case *ir.SBlock:
			for _, iv := range s.IterVars {
				renew(iv.Var)
			}
			for _, b := range s.AllocBuffers {
				renew(b.Data)
			}
			for _, m := range s.MatchBuffers {
				renew(m.Buffer.Data)
			}
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if l, ok := e.(*ir.Let); ok {
				renew(l.Var)
			}
			return true
		})
		return true
	})
	value := func(v *ir.Var) ir.Expr {
		if e, ok := subst[v]; ok {
			return e
		}
		if w := vars[v]; w != nil {
			return w
		}
		return v
	}
	changes := func(e ir.Expr) bool {
		return ir.UsesVar(e, func(v *ir.Var) bool { return value(v) != ir.Expr(v) })
	}
	bufs := map[*ir.Buffer]*ir.Buffer{}
	buffer := func(b *ir.Buffer) *ir.Buffer {
		if c, ok := bufs[b]; ok {
			return c
		}
		c := *b
		same := vars[b.Data] == nil && !declared[b]
		if w := vars[b.Data]; w != nil {
			c.Data = w
		}
		list := func(in []ir.Expr) []ir.Expr {
			for _, e := range in {
				if changes(e) {
					same = false
					out := make([]ir.Expr, len(in))
					for i, e := range in {
						out[i] = ir.Substitute(e, value)
					}
					return out
				}
			}
			return in
		}
		c.Shape, c.Strides = list(b.Shape), list(b.Strides)
		if b.ElemOffset != nil && changes(b.ElemOffset) {
			c.ElemOffset, same = ir.Substitute(b.ElemOffset, value), false
		}
		if same {
			bufs[b] = b
			return b
		}
		bufs[b] = &c
		return &c
	}
	r := ir.Rewriter{Var: value, Buffer: buffer, Def: func(v *ir.Var) *ir.Var {
		if w := vars[v]; w != nil {
			return w
		}
		return v
	}}
	return r.Stmt(s)
}
