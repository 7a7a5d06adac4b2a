package ir

// Fresh is a copy of statements in which everything they define (loop
// variables, bindings, launch and block axes, allocated and declared buffers)
// is new, so that several copies can stand in one scope. Variables in subst
// are replaced by expressions as well; fold, which may be nil, sees every
// expression of the copy bottom-up.
func Fresh(list []Stmt, subst map[*Var]Expr, fold func(Expr) Expr) []Stmt {
	vars := map[*Var]*Var{}
	declared := map[*Buffer]bool{}
	renew := func(v *Var) {
		if vars[v] == nil {
			w := *v
			vars[v] = &w
		}
	}
	for _, s := range list {
		Walk(s, func(s Stmt) bool {
			switch s := s.(type) {
			case *For:
				renew(s.Var)
			case *Bind:
				renew(s.Var)
			case *AttrStmt:
				if iv, ok := s.Node.(*IterVar); ok {
					renew(iv.Var)
				}
			case *AllocBuffer:
				renew(s.Buffer.Data)
			case *DeclBuffer:
				declared[s.Buffer] = true
			case *SBlock:
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
			StmtExprs(s, func(e Expr) bool {
				if l, ok := e.(*Let); ok {
					renew(l.Var)
				}
				return true
			})
			return true
		})
	}
	value := func(v *Var) Expr {
		if e, ok := subst[v]; ok {
			return e
		}
		if w := vars[v]; w != nil {
			return w
		}
		return v
	}
	changes := func(e Expr) bool {
		return UsesVar(e, func(v *Var) bool { return value(v) != Expr(v) })
	}
	bufs := map[*Buffer]*Buffer{}
	buffer := func(b *Buffer) *Buffer {
		if c, ok := bufs[b]; ok {
			return c
		}
		c := *b
		same := vars[b.Data] == nil && !declared[b]
		if w := vars[b.Data]; w != nil {
			c.Data = w
		}
		exprs := func(in []Expr) []Expr {
			for _, e := range in {
				if changes(e) {
					same = false
					out := make([]Expr, len(in))
					for i, e := range in {
						out[i] = Substitute(e, value)
					}
					return out
				}
			}
			return in
		}
		c.Shape, c.Strides = exprs(b.Shape), exprs(b.Strides)
		if b.ElemOffset != nil && changes(b.ElemOffset) {
			c.ElemOffset, same = Substitute(b.ElemOffset, value), false
		}
		if same {
			bufs[b] = b
			return b
		}
		bufs[b] = &c
		return &c
	}
	r := Rewriter{PostExpr: fold, Var: value, Buffer: buffer, Def: func(v *Var) *Var {
		if w := vars[v]; w != nil {
			return w
		}
		return v
	}}
	out := make([]Stmt, len(list))
	for i, s := range list {
		out[i] = r.Stmt(s)
	}
	return out
}
