package schedule

import "lowertrace/internal/ir"

// fresh is a copy of statements in which everything they define is new, so that
// several copies can stand in one scope, with some variables replaced.
func fresh(list []ir.Stmt, subst map[*ir.Var]ir.Expr) []ir.Stmt {
	vars := map[*ir.Var]*ir.Var{}
	renew := func(v *ir.Var) {
		if vars[v] == nil {
			w := *v
			vars[v] = &w
		}
	}
	for _, s := range list {
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
	}
	value := func(v *ir.Var) ir.Expr {
		if e, ok := subst[v]; ok {
			return e
		}
		if w := vars[v]; w != nil {
			return w
		}
		return v
	}
	bufs := map[*ir.Buffer]*ir.Buffer{}
	r := &ir.Rewriter{Var: value, Def: func(v *ir.Var) *ir.Var {
		if w := vars[v]; w != nil {
			return w
		}
		return v
	}}
	r.Buffer = func(b *ir.Buffer) *ir.Buffer {
		if c, ok := bufs[b]; ok {
			return c
		}
		c := *b
		shape, same1 := r.Exprs(b.Shape)
		strides, same2 := r.Exprs(b.Strides)
		c.Shape, c.Strides, c.ElemOffset = shape, strides, r.Expr(b.ElemOffset)
		if w := vars[b.Data]; w != nil {
			c.Data = w
		}
		out := &c
		if same1 && same2 && c.ElemOffset == b.ElemOffset && c.Data == b.Data {
			out = b
		}
		bufs[b] = out
		return out
	}
	r.PostExpr = fold
	out := make([]ir.Stmt, len(list))
	for i, s := range list {
		out[i] = r.Stmt(s)
	}
	return out
}

// fold computes operators on constants, which a constant iteration leaves
// behind.
func fold(e ir.Expr) ir.Expr {
	b, ok := e.(*ir.Binary)
	if !ok || !b.A.DType().IsInteger() || !b.A.DType().IsScalar() {
		return e
	}
	_, c1 := ir.AsInt(b.A)
	_, c2 := ir.AsInt(b.B)
	if !c1 && !c2 {
		return e
	}
	return ir.NewBinary(b.Op, b.A, b.B)
}
