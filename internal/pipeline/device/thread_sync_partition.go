package device

import (
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// Hardware barriers: 0 is that of the whole block, the next two belong to
// reductions, and there are 16.
const (
	firstNamedBarrier = 3
	namedBarriers     = 16
)

// warpThreads are the threads of a warp: what shuffles reach, and the granularity
// of a named barrier.
const warpThreads = 32

// partition is a set of whole warps that takes one way of a branch. A barrier
// within it is a named one, for its threads alone.
type partition struct {
	set   []bool // by thread number; nil: all threads
	count int64
}

// member is one way of a branch that only some threads take.
type member struct {
	part *partition
	cond ir.Expr // of being a member, among the threads that come to the branch
	// head is what the way accesses before its first barrier; only threads of
	// the partition are kept apart by one.
	head []*access
	// all is what it accesses.
	all []*access
}

// split finds the partitions that take the two ways of a branch. It is nil,
// nil where the condition is not known to send whole warps one way: where it
// depends on more than the thread's number and what is the same for all
// threads, or where a warp would part.
func (p *planner) split(s *ir.IfThenElse) (then, els *partition) {
	if p.cmp.threads > stretch {
		return nil, nil
	}
	threads, uniform := true, true // by the thread's number; the same for all
	comp := newCompiler(p.cmp.axes, p.cmp.threads)
	var list []*column
	for _, e := range ir.Conjuncts(s.Cond) {
		if p.uniform(e) {
			threads = false
			continue
		}
		uniform = false
		col := comp.compile(e)
		if col == nil || len(comp.free) > 0 {
			return nil, nil
		}
		list = append(list, col)
	}
	if uniform || s.Else != nil && !threads {
		return nil, nil
	}
	a, b := make([]bool, p.cmp.threads), make([]bool, p.cmp.threads)
	for _, c := range comp.steps {
		c.compute()
	}
	for i := range a {
		if p.part.set != nil && !p.part.set[i] {
			continue
		}
		in := true
		for _, c := range list {
			in = in && c.val[i&c.at()] != 0
		}
		a[i], b[i] = in, !in
	}
	then, ok := p.intern(a)
	if !ok {
		return nil, nil
	}
	if els, ok = p.intern(b); s.Else != nil && !ok {
		return nil, nil
	}
	return then, els
}

// intern is the partition of a set of threads, if that is one of whole warps.
func (p *planner) intern(set []bool) (*partition, bool) {
	n := int64(0)
	for first := 0; first < len(set); first += warpThreads {
		in := int64(0)
		for _, x := range set[first:min(first+warpThreads, len(set))] {
			if x {
				in++
			}
		}
		if in != 0 && in != warpThreads {
			return nil, false
		}
		n += in
	}
	if n == 0 {
		return nil, false
	}
	if p.part.count == n { // for it is a subset
		return p.part, true
	}
	for _, q := range p.parts {
		if slices.Equal(q.set, set) {
			return q, true
		}
	}
	q := &partition{set: set, count: n}
	p.parts = append(p.parts, q)
	return q, true
}

// branch places named barriers in a branch that partitions take differently.
// Seen from outside, it has no barrier. A wait in it is for copies of its own
// threads: those of others landed before the barrier in front of it, or never.
func (p *planner) branch(s *ir.IfThenElse, then, els *partition, under state) (ir.Stmt, effect) {
	var e effect
	way := func(part *partition, cond ir.Expr, body ir.Stmt) ir.Stmt {
		if body == nil {
			return nil
		}
		if part == nil {
			p.fail(s.Origin(), "no thread takes this way")
			return body
		}
		part0, guards := p.part, p.guards
		p.part, p.guards = part, append(guards[:len(guards):len(guards)], cond)
		out, f := p.seq(ir.Stmts(body), under.among(cond))
		all := p.summary(body).head
		p.part, p.guards = part0, guards
		e.landing = append(e.landing, f.landing...)
		e.waits = e.waits || f.waits
		m := member{part: part, cond: cond, head: f.head}
		for _, a := range all {
			m.all = append(m.all, a)
			if a.async && !underWay(f.tail) {
				landed := *a
				landed.async = false
				a = &landed
			}
			e.tail.plain = append(e.tail.plain, a)
		}
		for _, w := range e.members {
			if reduces(w.all) && reduces(m.all) {
				p.fail(s.Origin(), "both ways of a branch reduce over several warps at once: the reductions would meet at one hardware barrier")
			}
		}
		e.head = append(e.head, m.all...)
		e.members = append(e.members, m)
		return out
	}
	a := way(then, s.Cond, s.Then)
	b := way(els, &ir.Not{A: s.Cond}, s.Else)
	if !sameStmts(a, s.Then) || !sameStmts(b, s.Else) {
		return &ir.IfThenElse{Cond: s.Cond, Then: a, Else: b, Org: s.Org}, e
	}
	return s, e
}

func reduces(list []*access) bool {
	return slices.ContainsFunc(list, func(a *access) bool { return a.party != nil })
}

// within reports a subset of another partition's threads. Once they have passed
// a barrier of the other, no thread of it is still to come there.
func (q *partition) within(of *partition) bool {
	if of.set == nil || q == of {
		return true
	}
	if q.set == nil {
		return false
	}
	for i, in := range q.set {
		if in && !of.set[i] {
			return false
		}
	}
	return true
}

// underWay reports asynchronous copies that nothing has waited for.
func underWay(s state) bool {
	is := func(a *access) bool { return a.async }
	return slices.ContainsFunc(s.plain, is) || slices.ContainsFunc(s.pending, is)
}

// outsiders reports that a way of a branch accesses what threads that do not
// take it accessed before: only a barrier of all of them, in front of the
// branch, keeps them apart.
func (p *planner) outsiders(s state, ways []member) bool {
	for _, w := range ways {
		if p.meets(s.among(&ir.Not{A: w.cond}), w.all) {
			return true
		}
	}
	return false
}

// insiders reports that a way of a branch needs a barrier for what its own
// threads accessed before.
func (p *planner) insiders(s state, ways []member) bool {
	for _, w := range ways {
		if p.meets(s.among(w.cond), w.head) {
			return true
		}
	}
	return false
}

// among is an access by those threads for which a condition holds.
func (a *access) among(cond ir.Expr) *access {
	b := *a
	b.guards = append(a.guards[:len(a.guards):len(a.guards)], cond)
	return &b
}

func (s state) among(cond ir.Expr) state {
	var out state
	for _, a := range s.plain {
		out.plain = append(out.plain, a.among(cond))
	}
	for _, a := range s.pending {
		out.pending = append(out.pending, a.among(cond))
	}
	return out
}

// isBarrierOf reports a barrier of a partition's threads.
func isBarrierOf(s ir.Stmt, part *partition) bool {
	if part.set == nil {
		return isBarrier(s)
	}
	c, ok := barrierCall(s)
	if !ok || len(c.Args) != 3 {
		return false
	}
	n, ok := ir.AsInt(c.Args[2])
	return ok && n == part.count
}

// number gives the named barriers their numbers: one for each partition, in the
// order of the text, past those that are in use.
func (p *planner) number(body ir.Stmt) ir.Stmt {
	if len(p.named) == 0 {
		return body
	}
	taken := map[int64]bool{}
	ir.Walk(body, func(s ir.Stmt) bool {
		if c, ok := barrierCall(s); ok && len(c.Args) == 3 && p.named[s] == nil {
			if n, ok := ir.AsInt(c.Args[1]); ok {
				taken[n] = true
			}
		}
		return true
	})
	numbers := map[*partition]int64{}
	next := int64(firstNamedBarrier)
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		part := p.named[s]
		if part == nil {
			return s
		}
		n, ok := numbers[part]
		if !ok {
			for taken[next] {
				next++
			}
			n = next
			numbers[part] = n
			next++
			if n >= namedBarriers {
				p.fail(s.Origin(), "more sets of threads need barriers of their own than the hardware has")
			}
		}
		return p.sync(s.Origin(), ir.I32(n), ir.I32(part.count))
	}}
	return r.Stmt(body)
}

func (p *planner) sync(org ir.Span, args ...ir.Expr) ir.Stmt {
	list := append([]ir.Expr{ir.Str(p.scope)}, args...)
	return &ir.Evaluate{Value: ir.NewCall(ir.MustOp("tvm_storage_sync"), list...), Org: org}
}

// barrier is a new barrier of the threads that come here.
func (p *planner) barrier(org ir.Span) ir.Stmt {
	if p.part.set == nil {
		return p.sync(org)
	}
	s := p.sync(org, ir.I32(0), ir.I32(p.part.count))
	p.named[s] = p.part
	return s
}

// barrierCall is the call of a barrier for shared memory.
func barrierCall(s ir.Stmt) (*ir.Call, bool) {
	ev, ok := s.(*ir.Evaluate)
	if !ok {
		return nil, false
	}
	c, ok := ir.IsCall(ev.Value, "tvm_storage_sync")
	if !ok || len(c.Args) == 0 {
		return nil, false
	}
	scope, _ := ir.AttrString(c.Args[0])
	return c, pipeline.IsShared(scope)
}
