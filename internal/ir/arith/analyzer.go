package arith

import (
	"slices"

	"lowertrace/internal/ir"
)

// Analyzer answers questions about integer expressions, under what is known of
// their variables and under the conditions in force. The zero value is not
// ready: use New.
type Analyzer struct {
	// AssumeNoOverflow lets operands of divisions, remainders, comparisons,
	// minima and maxima be regrouped as if index arithmetic never overflowed,
	// as TVM does for int32 and int64: (a*8 + m + k) // 8 becomes
	// a + (m + k) // 8 although m + k alone might overflow. Without it such a
	// rewrite is made only where the bounds exclude an overflow. Set it before
	// the first query.
	AssumeNoOverflow bool

	vars  map[*ir.Var]*varInfo
	facts []fact
	mods  []modFact
	lits  []literal
	q     *query // results in the present scope, nil when it changed

	factDepth int // how many constraints the bound at hand combines
	factSteps int // combinations tried since the query began
	steps     int // expressions worked on since the query began
}

// varInfo is what is known of a variable for as long as it is bound.
type varInfo struct {
	bound Bound
	mod   Mod
	value ir.Expr // replaces the variable, nil if there is none
}

// fact bounds a sum whose constant is 0.
type fact struct {
	s *sum
	b Bound
}

// modFact says that the value of an index is in a modular set.
type modFact struct {
	x ir.Expr
	m Mod
}

// literal is a condition whose truth is known.
type literal struct {
	e     ir.Expr
	truth bool
}

// New returns an Analyzer that knows nothing.
func New() *Analyzer { return &Analyzer{vars: map[*ir.Var]*varInfo{}} }

// scope remembers the present knowledge and returns the function that brings
// it back. What is known of v, if it is not nil, is forgotten: v is about to be
// bound anew.
func (a *Analyzer) scope(v *ir.Var) func() {
	facts, mods, lits, q := a.facts, a.mods, a.lits, a.q
	var old *varInfo
	if v != nil {
		if old = a.vars[v]; old != nil {
			a.forget(v)
		}
	}
	a.q = nil
	return func() {
		a.facts, a.mods, a.lits = facts, mods, lits
		if v != nil {
			if old == nil {
				delete(a.vars, v)
			} else {
				a.vars[v] = old
			}
		}
		a.q = q // what was found in this scope holds again
	}
}

// forget drops the constraints that mention v.
func (a *Analyzer) forget(v *ir.Var) {
	uses := func(e ir.Expr) bool { return ir.UsesVar(e, func(w *ir.Var) bool { return w == v }) }
	a.facts = without(a.facts, func(f fact) bool {
		return slices.ContainsFunc(f.s.terms, func(t term) bool { return uses(t.x) })
	})
	a.mods = without(a.mods, func(m modFact) bool { return uses(m.x) })
	a.lits = without(a.lits, func(l literal) bool { return uses(l.e) })
	delete(a.vars, v)
}

// without is a new list of the elements for which drop does not hold.
func without[T any](list []T, drop func(T) bool) []T {
	var out []T
	for _, x := range list {
		if !drop(x) {
			out = append(out, x)
		}
	}
	return out
}

// BindVar says that v takes the values min, min+1, ..., min+extent-1. The
// returned function takes the knowledge back; scopes end in the reverse order
// in which they began. Symbolic ends are kept as constraints. A nil extent
// says nothing about the upper end.
func (a *Analyzer) BindVar(v *ir.Var, min, extent ir.Expr) func() {
	a.begin()
	undo := a.scope(v)
	q := a.query()
	b := TypeBound(v.Type)
	m := anyMod
	lo := q.bound(min)
	nb := Bound{lo.Min, PosInf}
	if extent != nil {
		nb.Max = satAdd(satAdd(lo.Max, q.bound(extent).Max), -1)
		if ir.IsConst(extent, 1) {
			m = q.mod(min)
		}
	}
	a.vars[v] = &varInfo{bound: b.Intersect(nb), mod: m}
	a.q = nil
	if extent != nil && ir.IsConst(extent, 1) && min.DType() == v.Type && ir.SideEffect(min) == ir.Pure {
		a.vars[v].value = a.Simplify(min)
		a.q = nil
		return undo
	}
	if isIndex(v.Type) && min.DType() == v.Type {
		if _, ok := ir.AsInt(min); !ok {
			a.assume(&ir.Binary{Op: ir.LE, A: min, B: v}, true, ir.Pure)
		}
		if extent != nil && extent.DType() == v.Type {
			if _, ok := ir.AsInt(extent); !ok {
				// v < min + extent as v - min - extent <= -1, which overflows
				// nowhere since it is never evaluated.
				q = a.query()
				s := q.difference(q.sumOf(v), q.sumOf(min))
				if s != nil {
					s = q.difference(s, q.sumOf(extent))
				}
				if s != nil {
					a.addFact(s, Bound{NegInf, -1})
				}
			}
		}
	}
	a.q = nil
	return undo
}

// BindRange is BindVar with a Range.
func (a *Analyzer) BindRange(v *ir.Var, r ir.Range) func() { return a.BindVar(v, r.Min, r.Extent) }

// BindBound says that v lies within b and, when the type is known to be
// narrower, within its type.
func (a *Analyzer) BindBound(v *ir.Var, b Bound) func() {
	undo := a.scope(v)
	a.vars[v] = &varInfo{bound: TypeBound(v.Type).Intersect(b), mod: anyMod}
	return undo
}

// BindMod adds that v is congruent to m.Base modulo m.Coeff.
func (a *Analyzer) BindMod(v *ir.Var, m Mod) func() {
	info := varInfo{bound: TypeBound(v.Type), mod: anyMod}
	old := a.vars[v]
	if old != nil {
		info = *old
	}
	info.mod = info.mod.narrow(makeMod(m.Coeff, m.Base))
	a.vars[v] = &info
	q := a.q
	a.q = nil
	return func() {
		if old == nil {
			delete(a.vars, v)
		} else {
			a.vars[v] = old
		}
		a.q = q
	}
}

// BindExpr says that v is a name for value: Simplify puts the simplified value
// in its place. A value that does more than compute (a load, a call with an
// effect) must be bound with BindValue instead.
func (a *Analyzer) BindExpr(v *ir.Var, value ir.Expr) func() {
	info := a.describe(v, value)
	undo := a.scope(v)
	if ir.SideEffect(value) == ir.Pure {
		info.value = a.Simplify(value)
	}
	a.vars[v] = info
	a.q = nil
	return undo
}

// BindValue says that v has the bounds and the modular set of value, and equals
// it, but keeps the name where it is used.
func (a *Analyzer) BindValue(v *ir.Var, value ir.Expr) func() {
	info := a.describe(v, value)
	undo := a.scope(v)
	a.vars[v] = info
	a.q = nil
	if isIndex(v.Type) && value.DType() == v.Type && ir.SideEffect(value) == ir.Pure {
		if _, ok := ir.AsInt(value); !ok {
			a.assume(&ir.Binary{Op: ir.EQ, A: v, B: value}, true, ir.Pure)
		}
	}
	return undo
}

func (a *Analyzer) describe(v *ir.Var, value ir.Expr) *varInfo {
	q := a.query()
	info := &varInfo{bound: TypeBound(v.Type), mod: anyMod}
	if value.DType() == v.Type {
		info.bound, info.mod = info.bound.Intersect(q.Bound(value)), q.Mod(value)
	}
	return info
}

// WithConstraint says that cond holds until the returned function is called.
// Conjuncts that read memory are ignored: memory may change while the
// constraint is in force.
func (a *Analyzer) WithConstraint(cond ir.Expr) func() {
	undo := a.scope(nil)
	if _, ok := measure(cond); ok && cond.DType() == ir.DBool {
		a.begin()
		a.assume(cond, true, ir.Pure)
	}
	return undo
}

// WithoutConstraint says that cond does not hold until the returned function
// is called; see WithConstraint.
func (a *Analyzer) WithoutConstraint(cond ir.Expr) func() {
	undo := a.scope(nil)
	if _, ok := measure(cond); ok && cond.DType() == ir.DBool {
		a.begin()
		a.assume(cond, false, ir.Pure)
	}
	return undo
}

// Simplify returns an expression of the same type and value (see the package
// comment for what "same value" promises), e itself when there is nothing to
// improve. It is bounded in time by MaxNodes and MaxDepth, in size by
// MaxGrowth.
func (a *Analyzer) Simplify(e ir.Expr) ir.Expr {
	n, ok := measure(e)
	if !ok {
		return e
	}
	a.begin()
	r := a.query().simplify(e)
	if r == e || Equal(r, e) {
		return e
	}
	if m, ok := measure(r); !ok || m > MaxGrowth*n+32 {
		return e
	}
	return r
}

// Bound is an interval that holds every value e can take. Vectors give the
// interval of all lanes. Types other than integers and bool are unbounded.
func (a *Analyzer) Bound(e ir.Expr) Bound {
	a.begin()
	return a.query().Bound(e)
}

// Mod is a modular set that holds every value e can take.
func (a *Analyzer) Mod(e ir.Expr) Mod {
	a.begin()
	return a.query().Mod(e)
}

// begin starts the limits of a query from the outside anew.
func (a *Analyzer) begin() { a.steps, a.factSteps = 0, 0 }

// spent counts a step and reports that there are no more.
func (a *Analyzer) spent() bool {
	a.steps++
	return a.steps > MaxSteps
}

// Bound is Analyzer.Bound within one scope.
func (q *query) Bound(e ir.Expr) Bound {
	if _, ok := measure(e); !ok {
		return TypeBound(e.DType())
	}
	return q.bound(e)
}

// Mod is Analyzer.Mod within one scope.
func (q *query) Mod(e ir.Expr) Mod {
	if _, ok := measure(e); !ok {
		return anyMod
	}
	return q.mod(e)
}

// isIndex reports the types that affine sums are made of: signed scalars.
func isIndex(t ir.DType) bool { return t.IsInt() && t.Lanes == 1 }

// query holds the results of one scope, by node.
type query struct {
	a     *Analyzer
	nodes map[ir.Expr]*result
	kept  int      // sums and simplified expressions in nodes
	spare []result // to hand out
}

// result is what is known of one expression in a scope. As long as the scope
// lasts none of it changes but from unknown to known, and sum, which is e itself
// while it is worked on.
type result struct {
	simp   ir.Expr // nil: not known
	sum    *sum    // nil: not known
	open   bool    // the sum is being worked on
	effect effect
	hasBnd bool
	hasMod bool
	bnd    Bound
	mod    Mod
}

type effect uint8

const (
	effectUnknown effect = iota
	effectNone
	effectSome
)

func (a *Analyzer) query() *query {
	if a.q == nil || a.q.kept > maxCache {
		a.q = &query{a: a}
	}
	return a.q
}

// at is the result of a node; it stays where it is.
func (q *query) at(e ir.Expr) *result {
	if r := q.nodes[e]; r != nil {
		return r
	}
	if q.nodes == nil {
		q.nodes = map[ir.Expr]*result{}
	}
	if len(q.spare) == 0 {
		q.spare = make([]result, min(32, 4+len(q.nodes)))
	}
	r := &q.spare[0]
	q.spare = q.spare[1:]
	q.nodes[e] = r
	return r
}

func (q *query) setSimp(r *result, e ir.Expr) {
	if r.simp == nil {
		q.kept++
	}
	r.simp = e
}

func (q *query) setSum(r *result, s *sum) {
	if r.sum == nil {
		q.kept++
	}
	r.sum = s
}

func (r *result) setBound(b Bound) { r.bnd, r.hasBnd = b, true }
func (r *result) setMod(m Mod)     { r.mod, r.hasMod = m, true }

// remember notes the sum of an expression that is already simplified.
func (q *query) remember(e ir.Expr, s *sum) {
	r := q.at(e)
	q.setSum(r, s)
	q.setSimp(r, e)
}

// impure reports that evaluating e does more than compute and read.
func (q *query) impure(e ir.Expr) bool {
	switch e := e.(type) {
	case *ir.Var, *ir.IntImm, *ir.FloatImm, *ir.StringImm:
		return false
	case *ir.Binary:
		if leaf(e.A) && leaf(e.B) {
			return false
		}
	}
	known := q.at(e)
	if known.effect != effectUnknown {
		return known.effect == effectSome
	}
	r := false
	switch x := e.(type) {
	case *ir.Binary:
		r = q.impure(x.A) || q.impure(x.B)
	case *ir.Call:
		r = x.Op == nil || x.Op.Effect > ir.ReadState || q.partsImpure(e)
	default:
		r = q.partsImpure(e)
	}
	known.effect = effectNone
	if r {
		known.effect = effectSome
	}
	return r
}

func (q *query) partsImpure(e ir.Expr) bool {
	r := false
	ir.WalkExpr(e, func(x ir.Expr) bool {
		if x == e {
			return true
		}
		r = r || q.impure(x)
		return false
	})
	return r
}

func leaf(e ir.Expr) bool {
	switch e.(type) {
	case *ir.Var, *ir.IntImm:
		return true
	}
	return false
}

// under runs f while a condition is known to hold or not to hold. f gets the
// query of that scope.
func (q *query) under(cond ir.Expr, truth bool, f func(*query)) {
	a := q.a
	undo := a.scope(nil)
	if cond.DType() == ir.DBool {
		a.assume(cond, truth, ir.ReadState)
	}
	f(a.query())
	undo()
	a.q = q
}
