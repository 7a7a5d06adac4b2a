package ir

// Rewriter rebuilds statements and expressions bottom-up, sharing what does
// not change. Every hook is optional. A hook that replaces a node on the way
// down (PreStmt, PreExpr: second result true) takes over its children, which
// it may rewrite with the Rewriter's own methods; PostStmt and PostExpr see
// the node with rewritten children. A nil statement result drops the
// statement.
type Rewriter struct {
	PreStmt  func(Stmt) (Stmt, bool)
	PostStmt func(Stmt) Stmt
	PreExpr  func(Expr) (Expr, bool)
	PostExpr func(Expr) Expr
	// Var replaces uses of variables, in expressions and as the node of an
	// attribute. It is not asked at definitions.
	Var func(*Var) Expr
	// Def replaces variables where they are defined (loops, bindings, launch
	// axes, block axes).
	Def func(*Var) *Var
	// Buffer replaces buffers wherever they are mentioned: loads, stores,
	// regions, allocations, declarations, attributes.
	Buffer func(*Buffer) *Buffer
}

// Stmt rewrites a statement; the same pointer when nothing changed.
func (r *Rewriter) Stmt(s Stmt) Stmt {
	if s == nil {
		return nil
	}
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

// Inside rewrites the parts of a statement but does not call the hooks on the
// statement itself. A loop, branch or attribute keeps an empty body as nil.
func (r *Rewriter) Inside(s Stmt) Stmt {
	switch s := s.(type) {
	case *SeqStmt:
		for i, c := range s.Seq {
			d := r.Stmt(c)
			if d == c {
				continue
			}
			out := make([]Stmt, i, len(s.Seq))
			copy(out, s.Seq)
			out = append(out, d)
			for _, c := range s.Seq[i+1:] {
				out = append(out, r.Stmt(c))
			}
			return Seq(out...)
		}
		return s
	case *Bind:
		t := *s
		t.Value, t.Var = r.Expr(s.Value), r.def(s.Var)
		if t != *s {
			return &t
		}
	case *AttrStmt:
		t := *s
		t.Node, t.Value, t.Body = r.Attr(s.Node), r.Attr(s.Value), r.Stmt(s.Body)
		if iv, ok := t.Node.(*IterVar); ok {
			if v := r.def(iv.Var); v != iv.Var {
				c := *iv
				c.Var = v
				t.Node = &c
			}
		}
		if !sameAttr(t.Node, s.Node) || !sameAttr(t.Value, s.Value) || t.Body != s.Body {
			return &t
		}
	case *For:
		t := *s
		t.Min, t.Extent, t.Step = r.Expr(s.Min), r.Expr(s.Extent), r.Expr(s.Step)
		t.Annotations = r.dict(s.Annotations)
		t.Var = r.def(s.Var)
		t.Body = r.Stmt(s.Body)
		if t != *s {
			return &t
		}
	case *While:
		t := *s
		t.Cond, t.Body = r.Expr(s.Cond), r.Stmt(s.Body)
		if t != *s {
			return &t
		}
	case *IfThenElse:
		t := *s
		t.Cond, t.Then, t.Else = r.Expr(s.Cond), r.Stmt(s.Then), r.Stmt(s.Else)
		if t != *s {
			return &t
		}
	case *BufferStore:
		idx, same := r.Exprs(s.Indices)
		b, v, p := r.buffer(s.Buffer), r.Expr(s.Value), r.Expr(s.Predicate)
		if !same || b != s.Buffer || v != s.Value || p != s.Predicate {
			return &BufferStore{b, idx, v, p, s.Org}
		}
	case *Evaluate:
		if v := r.Expr(s.Value); v != s.Value {
			return &Evaluate{v, s.Org}
		}
	case *Assert:
		msg, same := r.Exprs(s.Message)
		if c := r.Expr(s.Cond); c != s.Cond || !same {
			return &Assert{c, s.Kind, msg, s.Org}
		}
	case *AllocBuffer:
		t := *s
		t.Buffer, t.Annotations = r.buffer(s.Buffer), r.dict(s.Annotations)
		if t != *s {
			return &t
		}
	case *DeclBuffer:
		if b := r.buffer(s.Buffer); b != s.Buffer {
			return &DeclBuffer{b, s.Org}
		}
	case *SBlock:
		return r.block(s)
	}
	return s
}

func (r *Rewriter) block(s *SBlock) Stmt {
	t := *s
	same := true
	for i, iv := range s.IterVars {
		v := r.def(iv.Var)
		d := Range{r.Expr(iv.Dom.Min), r.Expr(iv.Dom.Extent)}
		if v == iv.Var && d == iv.Dom {
			continue
		}
		if same {
			t.IterVars = append([]*IterVar(nil), s.IterVars...)
			same = false
		}
		t.IterVars[i] = &IterVar{v, d, iv.Kind, iv.Tag}
	}
	var ok bool
	t.IterValues, ok = r.Exprs(s.IterValues)
	same = same && ok
	t.Reads, ok = r.Regions(s.Reads)
	same = same && ok
	t.Writes, ok = r.Regions(s.Writes)
	same = same && ok
	if r.Buffer != nil {
		for i, b := range s.AllocBuffers {
			if c := r.Buffer(b); c != b {
				if &t.AllocBuffers[0] == &s.AllocBuffers[0] {
					t.AllocBuffers = append([]*Buffer(nil), s.AllocBuffers...)
				}
				t.AllocBuffers[i] = c
				same = false
			}
		}
	}
	for i, m := range s.MatchBuffers {
		src, ok := r.Regions([]BufferRegion{m.Source})
		b := r.buffer(m.Buffer)
		if ok && b == m.Buffer {
			continue
		}
		if &t.MatchBuffers[0] == &s.MatchBuffers[0] {
			t.MatchBuffers = append([]MatchBufferRegion(nil), s.MatchBuffers...)
		}
		t.MatchBuffers[i] = MatchBufferRegion{b, src[0]}
		same = false
	}
	t.Predicate, t.Annotations = r.Expr(s.Predicate), r.dict(s.Annotations)
	t.Init, t.Body = r.Stmt(s.Init), r.Stmt(s.Body)
	if same && t.Predicate == s.Predicate && t.Annotations == s.Annotations && t.Init == s.Init && t.Body == s.Body {
		return s
	}
	return &t
}

// Expr rewrites an expression; the same pointer when nothing changed.
func (r *Rewriter) Expr(e Expr) Expr {
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

// InsideExpr rewrites the operands of an expression but does not call the
// hooks on the expression itself.
func (r *Rewriter) InsideExpr(e Expr) Expr {
	switch e := e.(type) {
	case *Var:
		if r.Var != nil {
			return r.Var(e)
		}
	case *Cast:
		if v := r.Expr(e.Value); v != e.Value {
			return &Cast{e.Type, v}
		}
	case *Binary:
		if a, b := r.Expr(e.A), r.Expr(e.B); a != e.A || b != e.B {
			return &Binary{e.Op, a, b}
		}
	case *Not:
		if a := r.Expr(e.A); a != e.A {
			return &Not{a}
		}
	case *Select:
		if c, t, f := r.Expr(e.Cond), r.Expr(e.True), r.Expr(e.False); c != e.Cond || t != e.True || f != e.False {
			return &Select{c, t, f}
		}
	case *Ramp:
		if b, s := r.Expr(e.Base), r.Expr(e.Stride); b != e.Base || s != e.Stride {
			return &Ramp{b, s, e.Lanes}
		}
	case *Broadcast:
		if v := r.Expr(e.Value); v != e.Value {
			return &Broadcast{v, e.Lanes}
		}
	case *Shuffle:
		v, same := r.Exprs(e.Vectors)
		i, same2 := r.Exprs(e.Indices)
		if !same || !same2 {
			return &Shuffle{v, i}
		}
	case *Let:
		if v, d, b := r.Expr(e.Value), r.def(e.Var), r.Expr(e.Body); v != e.Value || d != e.Var || b != e.Body {
			return &Let{d, v, b}
		}
	case *BufferLoad:
		idx, same := r.Exprs(e.Indices)
		b, p := r.buffer(e.Buffer), r.Expr(e.Predicate)
		if !same || b != e.Buffer || p != e.Predicate {
			return &BufferLoad{b, idx, p}
		}
	case *Call:
		args, same := r.Exprs(e.Args)
		attrs := e.Attrs
		for i, a := range e.Attrs {
			v := r.Attr(a.Value)
			if sameAttr(v, a.Value) {
				continue
			}
			if &attrs[0] == &e.Attrs[0] {
				attrs = append([]Arg(nil), e.Attrs...)
			}
			attrs[i].Value = v
			same = false
		}
		if !same {
			return &Call{e.Op, e.Global, e.Type, args, attrs}
		}
	}
	return e
}

// Exprs rewrites a list; the second result reports that nothing changed.
func (r *Rewriter) Exprs(list []Expr) ([]Expr, bool) {
	for i, e := range list {
		f := r.Expr(e)
		if f == e {
			continue
		}
		out := make([]Expr, len(list))
		copy(out, list[:i])
		out[i] = f
		for j := i + 1; j < len(list); j++ {
			out[j] = r.Expr(list[j])
		}
		return out, false
	}
	return list, true
}

// Regions rewrites a list of regions; the second result reports that nothing
// changed.
func (r *Rewriter) Regions(list []BufferRegion) ([]BufferRegion, bool) {
	out, same := list, true
	for i, br := range list {
		b := r.buffer(br.Buffer)
		reg, regSame := br.Region, true
		for j, d := range br.Region {
			e := Range{r.Expr(d.Min), r.Expr(d.Extent)}
			if e == d {
				continue
			}
			if regSame {
				reg = append([]Range(nil), br.Region...)
				regSame = false
			}
			reg[j] = e
		}
		if b == br.Buffer && regSame {
			continue
		}
		if same {
			out = append([]BufferRegion(nil), list...)
			same = false
		}
		out[i] = BufferRegion{b, reg}
	}
	return out, same
}

// Attr rewrites the expressions and buffers in an attribute.
func (r *Rewriter) Attr(a Attr) Attr {
	switch a := a.(type) {
	case nil:
		return nil
	case Expr:
		return r.Expr(a)
	case *Buffer:
		return r.buffer(a)
	case List:
		for i, x := range a {
			y := r.Attr(x)
			if sameAttr(x, y) {
				continue
			}
			out := append(List(nil), a...)
			out[i] = y
			for j := i + 1; j < len(a); j++ {
				out[j] = r.Attr(a[j])
			}
			return out
		}
	case *Dict:
		return r.dict(a)
	case *IterVar:
		if d := (Range{r.Expr(a.Dom.Min), r.Expr(a.Dom.Extent)}); d != a.Dom {
			return &IterVar{a.Var, d, a.Kind, a.Tag}
		}
	case *CommReducer:
		res, same := r.Exprs(a.Result)
		id, same2 := r.Exprs(a.Identity)
		if !same || !same2 {
			return &CommReducer{a.LHS, a.RHS, res, id}
		}
	}
	return a
}

func (r *Rewriter) dict(d *Dict) *Dict {
	if d == nil {
		return nil
	}
	out := d
	for i, e := range d.Entries {
		k, v := r.Attr(e.Key), r.Attr(e.Value)
		if sameAttr(k, e.Key) && sameAttr(v, e.Value) {
			continue
		}
		if out == d {
			out = &Dict{append([]DictEntry(nil), d.Entries...)}
		}
		out.Entries[i] = DictEntry{k, v}
	}
	return out
}

func (r *Rewriter) def(v *Var) *Var {
	if r.Def != nil {
		return r.Def(v)
	}
	return v
}

func (r *Rewriter) buffer(b *Buffer) *Buffer {
	if r.Buffer != nil && b != nil {
		return r.Buffer(b)
	}
	return b
}

// sameAttr compares attributes by identity. Lists are the same when they share
// their storage, since slices cannot be compared with ==.
func sameAttr(a, b Attr) bool {
	la, ok := a.(List)
	if !ok {
		if _, ok := b.(List); ok {
			return false
		}
		return a == b
	}
	lb, ok := b.(List)
	return ok && len(la) == len(lb) && (len(la) == 0 || &la[0] == &lb[0])
}

// Substitute replaces variables in an expression.
func Substitute(e Expr, f func(*Var) Expr) Expr {
	r := Rewriter{Var: f}
	return r.Expr(e)
}

// SubstituteStmt replaces uses of variables in a statement.
func SubstituteStmt(s Stmt, f func(*Var) Expr) Stmt {
	r := Rewriter{Var: f}
	return r.Stmt(s)
}

// SubstMap is a function for Substitute that replaces by a map.
func SubstMap(m map[*Var]Expr) func(*Var) Expr {
	return func(v *Var) Expr {
		if e, ok := m[v]; ok {
			return e
		}
		return v
	}
}
