package ir

import (
	"errors"
	"fmt"
)

// maxVerifyErrors bounds the errors Verify collects: the first few tell what
// is wrong.
const maxVerifyErrors = 8

// VerifyError is one way in which a module is not well formed.
type VerifyError struct {
	Func string
	Span Span // origin of the statement concerned
	Msg  string
}

func (e *VerifyError) Error() string {
	s := "in " + e.Func + ": " + e.Msg
	if e.Span.IsValid() {
		s = e.Span.String() + ": " + s
	}
	return s
}

// Verify checks that a module is well formed: every variable is defined
// before it is used and not defined again while it is alive, operand types
// agree, accesses have their buffer's rank and type, and the memory a buffer
// views is in scope. The result joins *VerifyError values; nil means well
// formed.
func Verify(m *IRModule) error {
	var errs []error
	seen := map[string]bool{}
	for _, f := range m.Funcs {
		if seen[f.Name] {
			errs = append(errs, &VerifyError{f.Name, f.Org, "the module has two functions of this name"})
		}
		seen[f.Name] = true
		errs = append(errs, verifyFunc(m, f)...)
	}
	return errors.Join(errs...)
}

type verifier struct {
	mod   *IRModule
	fn    *PrimFunc
	alive map[*Var]bool
	undo  []*Var
	span  Span
	errs  []error
}

func verifyFunc(m *IRModule, f *PrimFunc) []error {
	v := &verifier{mod: m, fn: f, alive: map[*Var]bool{}, span: f.Org}
	for _, p := range f.Params {
		v.define(p)
	}
	for _, b := range f.BufferMap {
		if !v.alive[b.Param] {
			v.errorf("buffer %s is matched to %s, which is not a parameter", b.Buffer.Name, b.Param.Name)
		}
		v.define(b.Buffer.Data)
		// A shape or stride that is a variable by itself defines it.
		for _, list := range [][]Expr{b.Buffer.Shape, b.Buffer.Strides, {b.Buffer.ElemOffset}} {
			for _, e := range list {
				if x, ok := e.(*Var); ok && !v.alive[x] {
					v.define(x)
				}
			}
		}
	}
	for _, b := range f.BufferMap {
		v.bufferShape(b.Buffer)
	}
	v.stmt(f.Body)
	return v.errs
}

func (v *verifier) errorf(format string, args ...any) {
	if len(v.errs) < maxVerifyErrors {
		v.errs = append(v.errs, &VerifyError{v.fn.Name, v.span, fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) define(x *Var) {
	if x == nil {
		v.errorf("a nil variable is defined")
		return
	}
	if v.alive[x] {
		v.errorf("%s is defined again while it is alive", x.Name)
		return
	}
	v.alive[x] = true
	v.undo = append(v.undo, x)
}

// scope runs body and forgets what it defined.
func (v *verifier) scope(body func()) {
	mark := len(v.undo)
	body()
	for _, x := range v.undo[mark:] {
		delete(v.alive, x)
	}
	v.undo = v.undo[:mark]
}

func (v *verifier) stmts(s Stmt) { v.scope(func() { v.stmt(s) }) }

func (v *verifier) stmt(s Stmt) {
	if s == nil {
		return
	}
	saved := v.span
	if s.Origin().IsValid() {
		v.span = s.Origin()
	}
	defer func() { v.span = saved }()
	switch s := s.(type) {
	case *SeqStmt:
		if len(s.Seq) < 2 {
			v.errorf("a sequence of %d statements", len(s.Seq))
		}
		v.scope(func() {
			for _, c := range s.Seq {
				if _, nested := c.(*SeqStmt); nested || c == nil {
					v.errorf("a sequence holds a %T", c)
				}
				v.stmt(c)
			}
		})
	case *Bind:
		v.expr(s.Value)
		if t := s.Value.DType(); t != s.Var.Type {
			v.errorf("%s is %s but its value is %s", s.Var.Name, s.Var.Type, t)
		}
		v.define(s.Var)
	case *AttrStmt:
		v.attr(s)
	case *For:
		v.loop(s)
	case *While:
		v.cond(s.Cond, "while")
		v.stmts(s.Body)
	case *IfThenElse:
		v.cond(s.Cond, "if")
		v.stmts(s.Then)
		v.stmts(s.Else)
	case *BufferStore:
		v.access(s.Buffer, s.Indices)
		v.expr(s.Value)
		v.predicate(s.Predicate)
		if want, got := accessType(s.Buffer, s.Indices), s.Value.DType(); want != got {
			v.errorf("a %s is stored to %s, which takes %s", got, s.Buffer.Name, want)
		}
	case *Evaluate:
		v.expr(s.Value)
	case *Assert:
		v.cond(s.Cond, "assert")
	case *AllocBuffer:
		v.bufferShape(s.Buffer)
		v.define(s.Buffer.Data)
	case *DeclBuffer:
		v.bufferShape(s.Buffer)
		v.memory(s.Buffer)
	case *SBlock:
		v.block(s)
	default:
		v.errorf("unknown statement %T", s)
	}
}

func (v *verifier) attr(s *AttrStmt) {
	v.scope(func() {
		if iv, ok := s.Node.(*IterVar); ok {
			if s.Key == KeyThreadExtent && iv.Tag == "" {
				v.errorf("launch variable %s has no axis", iv.Var.Name)
			}
			v.define(iv.Var)
		} else if r, ok := s.Node.(*CommReducer); ok {
			v.reducer(r)
		} else {
			WalkAttr(s.Node, v.visit)
		}
		WalkAttr(s.Value, v.visit)
		v.stmt(s.Body)
	})
}

// reducer checks a combiner, whose operands are defined within it alone.
func (v *verifier) reducer(r *CommReducer) {
	if n := len(r.LHS); len(r.RHS) != n || len(r.Result) != n || len(r.Identity) != n {
		v.errorf("a reducer of %d and %d operands has %d results and %d identities", n, len(r.RHS), len(r.Result), len(r.Identity))
	}
	v.scope(func() {
		for _, list := range [][]*Var{r.LHS, r.RHS} {
			for _, x := range list {
				v.define(x)
			}
		}
		for _, e := range r.Result {
			v.expr(e)
		}
	})
	for _, e := range r.Identity {
		v.expr(e)
	}
}

func (v *verifier) loop(s *For) {
	v.expr(s.Min)
	v.expr(s.Extent)
	t := s.Var.Type
	if !t.IsInteger() || !t.IsScalar() {
		v.errorf("loop variable %s is %s", s.Var.Name, t)
	}
	for _, e := range []Expr{s.Min, s.Extent, s.Step} {
		if e != nil && e.DType() != t {
			v.errorf("loop variable %s is %s but a bound is %s", s.Var.Name, t, e.DType())
		}
	}
	if s.Step != nil {
		v.expr(s.Step)
	}
	if s.Kind == ThreadBinding && s.Thread == "" {
		v.errorf("loop %s is bound to no launch axis", s.Var.Name)
	}
	v.scope(func() {
		v.define(s.Var)
		v.stmt(s.Body)
	})
}

func (v *verifier) block(s *SBlock) {
	if len(s.IterVars) != len(s.IterValues) {
		v.errorf("block %q has %d axes and %d values", s.Name, len(s.IterVars), len(s.IterValues))
	}
	for _, e := range s.IterValues {
		v.expr(e)
	}
	v.scope(func() {
		for _, iv := range s.IterVars {
			v.define(iv.Var)
		}
		if s.Predicate != nil {
			v.cond(s.Predicate, "block predicate")
		}
		for _, b := range s.AllocBuffers {
			v.bufferShape(b)
			v.define(b.Data)
		}
		for _, m := range s.MatchBuffers {
			v.define(m.Buffer.Data)
		}
		// Reads and writes may speak of variables of loops further in; only
		// their rank is checked.
		for _, list := range [][]BufferRegion{s.Reads, s.Writes} {
			for _, r := range list {
				if len(r.Region) != len(r.Buffer.Shape) {
					v.errorf("block %q names %d dimensions of %s, which has %d", s.Name, len(r.Region), r.Buffer.Name, len(r.Buffer.Shape))
				}
			}
		}
		v.stmts(s.Init)
		v.stmt(s.Body)
	})
}

func (v *verifier) cond(e Expr, what string) {
	v.expr(e)
	if t := e.DType(); t != DBool {
		v.errorf("the condition of %s is %s, not bool", what, t)
	}
}

func (v *verifier) predicate(e Expr) {
	if e == nil {
		return
	}
	v.expr(e)
	if !e.DType().IsBool() {
		v.errorf("a predicate is %s, not bool", e.DType())
	}
}

func (v *verifier) bufferShape(b *Buffer) {
	for _, list := range [][]Expr{b.Shape, b.Strides} {
		for _, e := range list {
			v.expr(e)
			if !e.DType().IsInteger() {
				v.errorf("buffer %s has a dimension of type %s", b.Name, e.DType())
			}
		}
	}
	if b.Strides != nil && len(b.Strides) != len(b.Shape) {
		v.errorf("buffer %s has %d dimensions and %d strides", b.Name, len(b.Shape), len(b.Strides))
	}
	if b.Data == nil || !b.Data.Type.IsHandle() {
		v.errorf("buffer %s has no pointer", b.Name)
	}
}

func (v *verifier) memory(b *Buffer) {
	if !v.alive[b.Data] {
		v.errorf("the memory of buffer %s is not in scope", b.Name)
	}
}

func (v *verifier) access(b *Buffer, indices []Expr) {
	v.memory(b)
	if len(indices) != len(b.Shape) {
		v.errorf("%s has %d dimensions and is indexed with %d", b.Name, len(b.Shape), len(indices))
	}
	for i, e := range indices {
		v.expr(e)
		t := e.DType()
		if !t.IsInteger() {
			v.errorf("index %d of %s is %s", i, b.Name, t)
		}
		if t.Lanes > 1 && i != len(indices)-1 {
			v.errorf("index %d of %s is a vector; only the last may be", i, b.Name)
		}
	}
}

func (v *verifier) expr(e Expr) {
	if e == nil {
		v.errorf("an expression is missing")
		return
	}
	WalkExpr(e, v.visit)
}

// visit checks one expression, its operands follow; Let is walked here, since
// it defines a variable.
func (v *verifier) visit(e Expr) bool {
	switch e := e.(type) {
	case *Var:
		if !v.alive[e] {
			v.errorf("%s is used where it is not defined", e.Name)
		}
	case *Let:
		v.expr(e.Value)
		v.scope(func() {
			v.define(e.Var)
			v.expr(e.Body)
		})
		return false
	case *Cast:
		if e.Type.Lanes != e.Value.DType().Lanes {
			v.errorf("a cast from %s to %s changes the lanes", e.Value.DType(), e.Type)
		}
	case *Binary:
		if _, err := BinaryType(e.Op, e.A.DType(), e.B.DType()); err != nil {
			v.errorf("%v", err)
		}
	case *Not:
		if !e.A.DType().IsBool() {
			v.errorf("Not of %s", e.A.DType())
		}
	case *Select:
		if !e.Cond.DType().IsBool() || e.True.DType() != e.False.DType() {
			v.errorf("Select of %s between %s and %s", e.Cond.DType(), e.True.DType(), e.False.DType())
		}
	case *Ramp:
		if e.Base.DType() != e.Stride.DType() || !e.Base.DType().IsScalar() || e.Lanes < 2 {
			v.errorf("Ramp of %s and %s with %d lanes", e.Base.DType(), e.Stride.DType(), e.Lanes)
		}
	case *Broadcast:
		if e.Lanes < 2 {
			v.errorf("Broadcast to %d lanes", e.Lanes)
		}
	case *Shuffle:
		if len(e.Vectors) == 0 || len(e.Indices) == 0 {
			v.errorf("Shuffle of nothing")
		}
	case *BufferLoad:
		v.access(e.Buffer, e.Indices)
		v.predicate(e.Predicate)
		return false // access has visited the indices
	case *Call:
		v.call(e)
	}
	return true
}

func (v *verifier) call(e *Call) {
	if e.Op == nil {
		f := v.mod.Func(e.Global)
		switch {
		case f == nil:
			v.errorf("call of %s, which the module does not have", e.Global)
		case len(f.Params) != len(e.Args):
			v.errorf("call of %s with %d arguments, it takes %d", e.Global, len(e.Args), len(f.Params))
		}
		return
	}
	if n := len(e.Args); n < e.Op.MinArgs || e.Op.MaxArgs >= 0 && n > e.Op.MaxArgs {
		v.errorf("T.%s with %d arguments", e.Op.Name, n)
		return
	}
	if t, err := e.Op.ResultType(e.Args, e.Type); err != nil {
		v.errorf("%v", err)
	} else if t != e.Type {
		v.errorf("T.%s has type %s, expected %s", e.Op.Name, e.Type, t)
	}
}
