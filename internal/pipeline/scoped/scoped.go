// Package scoped rewrites IR with an arith.Analyzer that always knows the
// scope: ranges of loop variables and launch axes, values of bindings, and the
// conditions under which a statement or expression is evaluated.
package scoped

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
)

// Rewriter is an ir.Rewriter that keeps An up to date: in every hook An knows
// what holds there. Hooks have the meaning they have in ir.Rewriter; a PreStmt
// or PreExpr that takes over a node rewrites its parts with the methods of
// this type, so that scopes are entered.
type Rewriter struct {
	// An knows the scope of the node a hook is given.
	An *arith.Analyzer
	// Span is the origin of the statement that is being rewritten.
	Span ir.Span
	// Inline binds variables of Bind and Let to their values, so that An
	// replaces the variable when it simplifies. By default An knows that they
	// are equal but keeps the name.
	Inline func(*ir.Var, ir.Expr) bool

	PreStmt  func(ir.Stmt) (ir.Stmt, bool)
	PostStmt func(ir.Stmt) ir.Stmt
	PreExpr  func(ir.Expr) (ir.Expr, bool)
	PostExpr func(ir.Expr) ir.Expr
	Var      func(*ir.Var) ir.Expr
	Def      func(*ir.Var) *ir.Var
	Buffer   func(*ir.Buffer) *ir.Buffer

	in ir.Rewriter
}

// New is a Rewriter with a fresh Analyzer, which assumes as TVM does that
// index arithmetic does not overflow.
func New() *Rewriter {
	an := arith.New()
	an.AssumeNoOverflow = true
	return &Rewriter{An: an}
}

func (r *Rewriter) inner() *ir.Rewriter {
	if r.in.PreStmt == nil {
		r.in.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) { return r.Stmt(s), true }
		r.in.PreExpr = func(e ir.Expr) (ir.Expr, bool) { return r.Expr(e), true }
		r.in.Var, r.in.Def, r.in.Buffer = r.Var, r.Def, r.Buffer
	}
	return &r.in
}

// Stmt rewrites a statement.
func (r *Rewriter) Stmt(s ir.Stmt) ir.Stmt {
	if s == nil {
		return nil
	}
	saved := r.Span
	if org := s.Origin(); org.IsValid() {
		r.Span = org
	}
	defer func() { r.Span = saved }()
	if r.PreStmt != nil {
		if t, done := r.PreStmt(s); done {
			return t
		}
	}
	s = r.Inside(s)
	if r.PostStmt != nil && s != nil {
		s = r.PostStmt(s)
	}
	return s
}

// Expr rewrites an expression.
func (r *Rewriter) Expr(e ir.Expr) ir.Expr {
	if e == nil {
		return nil
	}
	if r.PreExpr != nil {
		if f, done := r.PreExpr(e); done {
			return f
		}
	}
	e = r.InsideExpr(e)
	if r.PostExpr != nil {
		e = r.PostExpr(e)
	}
	return e
}

// Exprs rewrites a list; the second result reports that nothing changed.
func (r *Rewriter) Exprs(list []ir.Expr) ([]ir.Expr, bool) { return r.inner().Exprs(list) }

// Attr rewrites the expressions and buffers in an attribute.
func (r *Rewriter) Attr(a ir.Attr) ir.Attr { return r.inner().Attr(a) }

// Inside rewrites the parts of a statement, each in its scope, but calls no
// hook on the statement itself.
func (r *Rewriter) Inside(s ir.Stmt) ir.Stmt {
	switch s := s.(type) {
	case *ir.SeqStmt:
		return r.seq(s)
	case *ir.For:
		return r.loop(s)
	case *ir.AttrStmt:
		return r.attrStmt(s)
	case *ir.IfThenElse:
		t := *s
		t.Cond = r.Expr(s.Cond)
		r.Under(t.Cond, true, func() { t.Then = r.Stmt(s.Then) })
		if s.Else != nil {
			r.Under(t.Cond, false, func() { t.Else = r.Stmt(s.Else) })
		}
		if t != *s {
			return &t
		}
		return s
	case *ir.While:
		t := *s
		t.Cond = r.Expr(s.Cond)
		r.Under(t.Cond, true, func() { t.Body = r.Stmt(s.Body) })
		if t != *s {
			return &t
		}
		return s
	}
	return r.inner().Inside(s)
}

// Under runs f while cond is known to hold, or not to hold.
func (r *Rewriter) Under(cond ir.Expr, truth bool, f func()) {
	if cond.DType() != ir.DBool {
		f()
		return
	}
	var undo func()
	if truth {
		undo = r.An.WithConstraint(cond)
	} else {
		undo = r.An.WithoutConstraint(cond)
	}
	f()
	undo()
}

func (r *Rewriter) seq(s *ir.SeqStmt) ir.Stmt {
	var undos []func()
	defer func() {
		for i := len(undos) - 1; i >= 0; i-- {
			undos[i]()
		}
	}()
	var out []ir.Stmt
	for i, c := range s.Seq {
		d := r.Stmt(c)
		if d != c && out == nil {
			out = make([]ir.Stmt, i, len(s.Seq))
			copy(out, s.Seq)
		}
		if out != nil {
			out = append(out, d)
		}
		for _, c := range ir.Stmts(d) {
			switch c := c.(type) {
			case *ir.Bind:
				undos = append(undos, r.bind(c.Var, c.Value))
			case *ir.Assert:
				undos = append(undos, r.An.WithConstraint(c.Cond))
			}
		}
	}
	if out == nil {
		return s
	}
	return ir.Seq(out...)
}

func (r *Rewriter) bind(v *ir.Var, value ir.Expr) func() {
	if r.Inline != nil && r.Inline(v, value) {
		return r.An.BindExpr(v, value)
	}
	return r.An.BindValue(v, value)
}

func (r *Rewriter) loop(s *ir.For) ir.Stmt {
	t := *s
	t.Min, t.Extent, t.Step = r.Expr(s.Min), r.Expr(s.Extent), r.Expr(s.Step)
	if s.Annotations != nil {
		t.Annotations = r.Attr(s.Annotations).(*ir.Dict)
	}
	if r.Def != nil {
		t.Var = r.Def(s.Var)
	}
	undo := r.BindLoop(&t)
	t.Body = r.Stmt(s.Body)
	undo()
	if t != *s {
		return &t
	}
	return s
}

// BindLoop tells An the range of a loop's variable, until the returned
// function is called.
func (r *Rewriter) BindLoop(s *ir.For) func() { return r.An.BindVar(s.Var, s.Min, s.Extent) }

func (r *Rewriter) attrStmt(s *ir.AttrStmt) ir.Stmt {
	t := *s
	in := r.inner()
	t.Node, t.Value = in.Attr(s.Node), in.Attr(s.Value)
	undo := func() {}
	switch s.Key {
	case ir.KeyThreadExtent:
		iv, isIter := t.Node.(*ir.IterVar)
		extent, isExpr := t.Value.(ir.Expr)
		if !isIter || !isExpr {
			break
		}
		if r.Def != nil {
			if v := r.Def(iv.Var); v != iv.Var {
				c := *iv
				c.Var, iv = v, &c
				t.Node = iv
			}
		}
		undo = r.An.BindVar(iv.Var, ir.IntConst(iv.Var.Type, 0), extent)
	case ir.KeyAssume:
		if cond, ok := t.Node.(ir.Expr); ok && cond.DType() == ir.DBool {
			undo = r.An.WithConstraint(cond)
		}
	}
	t.Body = r.Stmt(s.Body)
	undo()
	if !sameAttr(t.Node, s.Node) || !sameAttr(t.Value, s.Value) || t.Body != s.Body {
		return &t
	}
	return s
}

// sameAttr compares attributes by identity; lists by their storage.
func sameAttr(a, b ir.Attr) bool {
	la, ok := a.(ir.List)
	lb, ok2 := b.(ir.List)
	if ok != ok2 {
		return false
	}
	if ok {
		return len(la) == len(lb) && (len(la) == 0 || &la[0] == &lb[0])
	}
	return a == b
}

// InsideExpr rewrites the operands of an expression, the branches of
// conditional ones under their condition, but calls no hook on the expression
// itself.
func (r *Rewriter) InsideExpr(e ir.Expr) ir.Expr {
	switch e := e.(type) {
	case *ir.Select:
		c := r.Expr(e.Cond)
		t, f := r.branches(c, e.True, e.False)
		if c != e.Cond || t != e.True || f != e.False {
			return &ir.Select{Cond: c, True: t, False: f}
		}
		return e
	case *ir.Call:
		if e.Op == nil || e.Op.Name != "if_then_else" || len(e.Args) != 3 {
			break
		}
		c := r.Expr(e.Args[0])
		t, f := r.branches(c, e.Args[1], e.Args[2])
		if c != e.Args[0] || t != e.Args[1] || f != e.Args[2] {
			return &ir.Call{Op: e.Op, Type: t.DType(), Args: []ir.Expr{c, t, f}, Attrs: e.Attrs}
		}
		return e
	case *ir.Binary:
		if !e.Op.IsLogical() {
			break
		}
		a, b := r.Expr(e.A), e.B
		r.Under(a, e.Op == ir.And, func() { b = r.Expr(b) })
		if a != e.A || b != e.B {
			return &ir.Binary{Op: e.Op, A: a, B: b}
		}
		return e
	case *ir.Let:
		v, val := e.Var, r.Expr(e.Value)
		if r.Def != nil {
			v = r.Def(v)
		}
		undo := r.bind(v, val)
		body := r.Expr(e.Body)
		undo()
		if v != e.Var || val != e.Value || body != e.Body {
			return &ir.Let{Var: v, Value: val, Body: body}
		}
		return e
	}
	return r.inner().InsideExpr(e)
}

func (r *Rewriter) branches(cond, t, f ir.Expr) (ir.Expr, ir.Expr) {
	r.Under(cond, true, func() { t = r.Expr(t) })
	r.Under(cond, false, func() { f = r.Expr(f) })
	return t, f
}
