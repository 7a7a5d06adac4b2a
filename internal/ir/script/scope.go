package script

import (
	"slices"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// binding is what a name stands for.
type binding struct {
	v   *ir.Var
	buf *ir.Buffer
	// free: declared where it is first mentioned (`k = T.int32()`,
	// `A = T.Buffer(..)`). What then defines the name defines this very
	// variable or buffer, for the printer never uses a visible name twice.
	free bool
	tag  string // launch axis of a variable declared by T.env_thread
	loc  syntax.Loc
}

type symbol struct {
	name string
	binding
	bound bool
}

type undoEntry struct {
	sym *symbol
	old binding
	was bool
}

// lookup is the binding of a visible name.
func (b *builder) lookup(name string) (*symbol, bool) {
	s := b.names[name]
	return s, s != nil && s.bound
}

// define binds a name until the end of the current scope.
func (b *builder) define(name string, x binding) {
	s := b.names[name]
	if s == nil {
		s = &symbol{name: name}
		b.names[name] = s
	}
	b.undo = append(b.undo, undoEntry{s, s.binding, s.bound})
	s.binding, s.bound = x, true
}

// open begins a scope; close(open()) ends it.
func (b *builder) open() int { return len(b.undo) }

func (b *builder) close(mark int) {
	for i := len(b.undo) - 1; i >= mark; i-- {
		u := &b.undo[i]
		u.sym.binding, u.sym.bound = u.old, u.was
	}
	b.undo = b.undo[:mark]
}

// undefined reports a name that is not visible and binds it, so that it is
// reported once.
func (b *builder) undefined(n *syntax.Name) {
	if b.diags.Full() {
		return
	}
	var names []string
	for name, s := range b.names {
		if s.bound {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	d := b.errorf(n, "undefined name %s", n.ID)
	if near := diag.Nearest(n.ID, names); near != "" {
		d.Hint = "did you mean " + near + "?"
	}
	b.define(n.ID, binding{loc: n.Loc}) // neither a variable nor a buffer: known to be bad
}

// newVar makes the variable that a statement defines under a name: the free
// variable of that name if one is visible, else a fresh one.
func (b *builder) newVar(name string, t ir.DType, ptr *ir.PointerType, loc syntax.Loc) *ir.Var {
	if s, ok := b.lookup(name); ok && s.free && s.v != nil && s.v.Type == t && samePointer(s.v.Ptr, ptr) {
		return s.v
	}
	v := &ir.Var{Name: name, Type: t, Ptr: ptr}
	b.define(name, binding{v: v, loc: loc})
	return v
}

func samePointer(a, b *ir.PointerType) bool {
	return a == b || a != nil && b != nil && *a == *b
}
