package ir

// WalkExpr visits e and its subexpressions in evaluation order, parents first.
// When visit returns false the children of that node are skipped. Keyword
// arguments of calls are visited; shapes of buffers are not.
func WalkExpr(e Expr, visit func(Expr) bool) {
	if e == nil || !visit(e) {
		return
	}
	switch e := e.(type) {
	case *Cast:
		WalkExpr(e.Value, visit)
	case *Binary:
		WalkExpr(e.A, visit)
		WalkExpr(e.B, visit)
	case *Not:
		WalkExpr(e.A, visit)
	case *Select:
		WalkExpr(e.Cond, visit)
		WalkExpr(e.True, visit)
		WalkExpr(e.False, visit)
	case *Ramp:
		WalkExpr(e.Base, visit)
		WalkExpr(e.Stride, visit)
	case *Broadcast:
		WalkExpr(e.Value, visit)
	case *Shuffle:
		walkExprs(e.Vectors, visit)
		walkExprs(e.Indices, visit)
	case *Let:
		WalkExpr(e.Value, visit)
		WalkExpr(e.Body, visit)
	case *BufferLoad:
		walkExprs(e.Indices, visit)
		WalkExpr(e.Predicate, visit)
	case *Call:
		walkExprs(e.Args, visit)
		for _, a := range e.Attrs {
			WalkAttr(a.Value, visit)
		}
	}
}

func walkExprs(list []Expr, visit func(Expr) bool) {
	for _, e := range list {
		WalkExpr(e, visit)
	}
}

// WalkAttr visits the expressions in an attribute. Layouts bind their own
// variables and are not entered.
func WalkAttr(a Attr, visit func(Expr) bool) {
	switch a := a.(type) {
	case nil:
	case Expr:
		WalkExpr(a, visit)
	case List:
		for _, x := range a {
			WalkAttr(x, visit)
		}
	case *Dict:
		if a == nil {
			return
		}
		for _, e := range a.Entries {
			WalkAttr(e.Key, visit)
			WalkAttr(e.Value, visit)
		}
	case *IterVar: // its variable is defined here, not used
		WalkExpr(a.Dom.Min, visit)
		WalkExpr(a.Dom.Extent, visit)
	case *CommReducer:
		walkExprs(a.Result, visit)
		walkExprs(a.Identity, visit)
	}
}

// StmtExprs visits the expressions a statement holds itself, not those of the
// statements within it.
func StmtExprs(s Stmt, visit func(Expr) bool) {
	switch s := s.(type) {
	case *Bind:
		WalkExpr(s.Value, visit)
	case *AttrStmt:
		WalkAttr(s.Node, visit)
		WalkAttr(s.Value, visit)
	case *For:
		WalkExpr(s.Min, visit)
		WalkExpr(s.Extent, visit)
		WalkExpr(s.Step, visit)
		if s.Annotations != nil {
			WalkAttr(s.Annotations, visit)
		}
	case *While:
		WalkExpr(s.Cond, visit)
	case *IfThenElse:
		WalkExpr(s.Cond, visit)
	case *BufferStore:
		walkExprs(s.Indices, visit)
		WalkExpr(s.Value, visit)
		WalkExpr(s.Predicate, visit)
	case *Evaluate:
		WalkExpr(s.Value, visit)
	case *Assert:
		WalkExpr(s.Cond, visit)
		walkExprs(s.Message, visit)
	case *SBlock:
		walkExprs(s.IterValues, visit)
		WalkExpr(s.Predicate, visit)
		walkRegions(s.Reads, visit)
		walkRegions(s.Writes, visit)
		if s.Annotations != nil {
			WalkAttr(s.Annotations, visit)
		}
		for _, m := range s.MatchBuffers {
			walkRegions([]BufferRegion{m.Source}, visit)
		}
	}
}

func walkRegions(rs []BufferRegion, visit func(Expr) bool) {
	for _, r := range rs {
		for _, d := range r.Region {
			WalkExpr(d.Min, visit)
			WalkExpr(d.Extent, visit)
		}
	}
}

// Children calls visit on the statements directly within s.
func Children(s Stmt, visit func(Stmt)) {
	do := func(s Stmt) {
		if s != nil {
			visit(s)
		}
	}
	switch s := s.(type) {
	case *SeqStmt:
		for _, c := range s.Seq {
			do(c)
		}
	case *AttrStmt:
		do(s.Body)
	case *For:
		do(s.Body)
	case *While:
		do(s.Body)
	case *IfThenElse:
		do(s.Then)
		do(s.Else)
	case *SBlock:
		do(s.Init)
		do(s.Body)
	}
}

// Walk visits s and the statements within it in order, parents first. When
// visit returns false the statements within that one are skipped.
func Walk(s Stmt, visit func(Stmt) bool) {
	if s == nil || !visit(s) {
		return
	}
	Children(s, func(c Stmt) { Walk(c, visit) })
}

// WalkExprs visits every expression of s and of the statements within it.
func WalkExprs(s Stmt, visit func(Expr) bool) {
	Walk(s, func(s Stmt) bool {
		StmtExprs(s, visit)
		return true
	})
}

// UsesVar reports whether e mentions a variable for which f holds.
func UsesVar(e Expr, f func(*Var) bool) bool {
	found := false
	WalkExpr(e, func(e Expr) bool {
		if v, ok := e.(*Var); ok && f(v) {
			found = true
		}
		return !found
	})
	return found
}
