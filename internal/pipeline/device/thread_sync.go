package device

import (
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// ThreadSyncShared and ThreadSyncDynamic put barriers between accesses of
// different threads to shared memory.
//
// Precondition: SplitHostDevice; indices are flat. Effect: where a statement
// may touch what another thread accessed since the last barrier, one of the two
// being a write, a barrier of the block stands before it: before the whole loop
// or branch when that is enough, within a loop when its iterations depend on
// each other. A copy by cp.async lands when a wait says so: after the wait it
// counts as a write of that moment. Within a branch that whole warps take, what
// they exchange among themselves is kept apart by a named barrier of theirs.
// Invariant: barriers stand only where all their threads pass: any other branch
// or loop that threads may take differently is treated as one statement, with
// the barrier before it, and refused if its threads meet inside. Addresses are compared thread by
// thread; where they cannot be computed, they are taken to meet.
//
//	s[tx] = A[tx]; B[tx] = s[127 - tx]
//	->  s[tx] = A[tx]; T.tvm_storage_sync("shared"); B[tx] = s[127 - tx]
var (
	ThreadSyncShared = &pipeline.Pass{
		Name:         "ThreadSync",
		Stage:        stage,
		Doc:          "put barriers between accesses of different threads to shared memory",
		Precondition: "Kernels are functions of their own (SplitHostDevice) and shared buffers have flat indices.",
		Effect:       "A barrier stands before a statement that may touch what another thread accessed since the last barrier; within a branch that whole warps take it is a named barrier of their threads, where that is enough. The first run treats static shared memory, the second dynamic.",
		Before:       "s[tx] = A[tx]\nB[tx] = s[127 - tx]",
		After:        "s[tx] = A[tx]\nT.tvm_storage_sync(\"shared\")\nB[tx] = s[127 - tx]",
		Run:          threadSync("shared"),
	}
	ThreadSyncDynamic = &pipeline.Pass{
		Name:         "ThreadSync",
		Stage:        stage,
		Doc:          ThreadSyncShared.Doc,
		Precondition: ThreadSyncShared.Precondition,
		Effect:       ThreadSyncShared.Effect,
		Before:       ThreadSyncShared.Before,
		After:        ThreadSyncShared.After,
		Run:          threadSync("shared.dyn"),
	}
)

// maxSyncEvals bounds the addresses one function's comparisons compute; past
// it accesses are taken to meet.
const maxSyncEvals = 1 << 24

// maxEntered bounds how often loops and branches are gone through once more for
// the sake of what was accessed before them.
const maxEntered = 1 << 12

func threadSync(scope string) func(*pipeline.Context, *ir.IRModule) (*ir.IRModule, error) {
	return pipeline.BodyPass(pipeline.IsDeviceFunc, func(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
		p := newPlanner(scope, f)
		if len(p.pools) == 0 {
			return f.Body, nil
		}
		body, _ := p.seq(ir.Stmts(f.Body), state{})
		body = p.number(body)
		if p.err != nil {
			return nil, p.err
		}
		for _, r := range p.remarks {
			c.Remark(r.Span, "%s", r.Text)
		}
		if sameStmts(body, f.Body) {
			return f.Body, nil
		}
		return body, nil
	})
}

// state is what has been accessed when a statement begins.
type state struct {
	plain   []*access // since the last barrier
	pending []*access // by asynchronous copies that may still be under way
}

// effect sums up a statement: what it accesses before its first barrier and
// after its last one.
type effect struct {
	head []*access
	// landing are accesses that follow a wait for asynchronous copies with no
	// barrier in between, whatever barriers stand before the wait: copies under
	// way when the statement begins may have landed just before them.
	landing []*access
	tail    state
	synced  bool // every way through passes a barrier
	settled bool // every way through waits for all copies and then passes a barrier
	waits   bool // some way ends behind a wait that no barrier follows
	// members are the ways of a branch that partitions of the block take.
	members []member
}

// site is a statement and the threads that come to it.
type site struct {
	stmt ir.Stmt
	part *partition
}

// plan is a statement with its barriers and what it does then.
type plan struct {
	stmt   ir.Stmt
	effect effect
}

// planner places the barriers of one kernel.
type planner struct {
	scope   string
	cmp     comparer
	pools   map[*ir.Var]bool
	places  map[*ir.Var]place // pointers into pools
	varying map[*ir.Var]bool  // variables that differ between threads
	buffers map[*ir.Var]bool  // local arrays whose contents differ between threads
	written map[*ir.Var]bool  // global memory that is written
	done    map[site]plan     // what begins with nothing to be kept apart from
	// Where the planner is: within which partition, and on what conditions.
	part    *partition
	guards  []ir.Expr
	parts   []*partition           // all but the block
	named   map[ir.Stmt]*partition // barriers to be numbered
	remarks []pipeline.Remark
	entered int
	err     error
}

// fail notes the first place that no barrier makes right.
func (p *planner) fail(span ir.Span, text string) {
	if p.err == nil {
		p.err = pipeline.Errorf(span, "%s", text)
	}
}

// remark notes something once.
func (p *planner) remark(span ir.Span, text string) {
	r := pipeline.Remark{Span: span, Text: text}
	if !slices.Contains(p.remarks, r) {
		p.remarks = append(p.remarks, r)
	}
}

// place is a pointer's target: an offset in bytes into an allocation.
type place struct {
	pool *ir.Var
	off  int64
}

func newPlanner(scope string, f *ir.PrimFunc) *planner {
	p := &planner{scope: scope, pools: map[*ir.Var]bool{}, places: map[*ir.Var]place{}, done: map[site]plan{}, named: map[ir.Stmt]*partition{},
		cmp: comparer{ranges: map[*ir.Var]rangedVar{}, threads: 1}}
	for _, tag := range []string{"threadIdx.x", "threadIdx.y", "threadIdx.z"} {
		if a, ok := threadAxes(f.Body)[tag]; ok {
			p.cmp.axes = append(p.cmp.axes, a)
			p.cmp.threads *= a.extent
		}
	}
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.AllocBuffer:
			if s.Buffer.Scope() == scope {
				p.pools[s.Buffer.Data] = true
				p.places[s.Buffer.Data] = place{s.Buffer.Data, 0}
			}
		case *ir.Bind:
			c, ok := ir.IsCall(s.Value, "handle_add_byte_offset")
			if !ok {
				break
			}
			if base, ok := c.Args[0].(*ir.Var); ok {
				if at, known := p.places[base]; known {
					if n, ok := ir.AsInt(c.Args[1]); ok {
						p.places[s.Var] = place{at.pool, at.off + n}
					} else {
						p.places[s.Var] = place{at.pool, -1}
					}
				}
			}
		}
		return true
	})
	p.written = writtenThrough(f.Body)
	p.findVarying(f.Body)
	p.part = &partition{count: p.cmp.threads}
	return p
}

// findVarying finds what may differ between threads: the thread's number and
// all that is computed from it or under a condition on it.
func (p *planner) findVarying(body ir.Stmt) {
	p.varying, p.buffers = map[*ir.Var]bool{}, map[*ir.Var]bool{}
	for _, a := range p.cmp.axes {
		p.varying[a.v] = a.extent > 1
	}
	for changed := true; changed; {
		changed = false
		mark := func(m map[*ir.Var]bool, v *ir.Var) {
			if !m[v] {
				m[v], changed = true, true
			}
		}
		var walk func(s ir.Stmt, diverged bool)
		walk = func(s ir.Stmt, diverged bool) {
			switch s := s.(type) {
			case *ir.Bind:
				if !p.uniform(s.Value) {
					mark(p.varying, s.Var)
				}
			case *ir.For:
				if !p.uniform(s.Min) || !p.uniform(s.Extent) || s.Step != nil && !p.uniform(s.Step) {
					mark(p.varying, s.Var)
					diverged = true
				}
			case *ir.IfThenElse:
				diverged = diverged || !p.uniform(s.Cond)
			case *ir.While:
				diverged = diverged || !p.uniform(s.Cond)
			case *ir.BufferStore:
				same := !diverged && p.uniform(s.Value)
				for _, i := range s.Indices {
					same = same && p.uniform(i)
				}
				if !same {
					mark(p.buffers, s.Buffer.Data)
				}
			case *ir.Evaluate:
				// What an operator writes through a pointer differs.
				for v := range writtenThrough(s) {
					mark(p.buffers, v)
				}
			}
			ir.Children(s, func(c ir.Stmt) { walk(c, diverged) })
		}
		walk(body, false)
	}
}

// uniform reports a value that all threads agree on.
func (p *planner) uniform(e ir.Expr) bool {
	ok := true
	ir.WalkExpr(e, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Var:
			ok = ok && !p.varying[e]
		case *ir.Let:
			ok = false
		case *ir.BufferLoad:
			sc := e.Buffer.Scope()
			switch {
			case pipeline.IsThreadLocal(sc):
				ok = ok && !p.buffers[e.Buffer.Data]
			case sc == "global":
				ok = ok && !p.written[e.Buffer.Data]
			default:
				ok = false
			}
		case *ir.Call:
			ok = ok && e.Op != nil && (e.Op.Effect == ir.Pure || e.Op.Name == "block_rank_in_cluster")
		}
		return ok
	})
	return ok
}

// sync is the state after a barrier: the asynchronous copies that may be under
// way, and nothing else.
func (s state) sync() state {
	out := state{pending: append([]*access(nil), s.pending...)}
	for _, a := range s.plain {
		if a.async {
			out.pending = append(out.pending, a)
		}
	}
	return out
}

// wait is the state after a wait that leaves n groups under way: what was
// pending has been written just now.
func (s state) wait(n int64) state {
	out := state{}
	for _, a := range s.plain {
		if a.async {
			b := *a
			b.async = n > 0
			a = &b
		}
		out.plain = append(out.plain, a)
	}
	for _, a := range s.pending {
		b := *a
		b.async = n > 0
		out.plain = append(out.plain, &b)
	}
	return out
}

func (s state) add(t state) state {
	return state{append(append([]*access(nil), s.plain...), t.plain...), append(append([]*access(nil), s.pending...), t.pending...)}
}

// meets reports whether a statement must not begin in a state.
func (p *planner) meets(s state, head []*access) bool {
	for _, b := range head {
		for _, a := range s.plain {
			if p.conflict(a, b) {
				return true
			}
		}
	}
	return false
}

func (p *planner) conflict(a, b *access) bool {
	if a.party != nil || b.party != nil {
		p.cmp.guess, p.cmp.exact = "", true
		return a.party != nil && b.party != nil && !b.party.within(a.party)
	}
	if a.pool != b.pool || !a.write && !b.write || a.atomic && b.atomic {
		return false
	}
	if p.cmp.evals > maxSyncEvals {
		p.cmp.guess = "there are too many addresses to compare"
		return true
	}
	return p.cmp.conflict(a, b)
}

// stmt places barriers in a statement that begins in a state. Sequences put
// barriers between their statements by that state; all other statements are
// placed inside by themselves, and whoever holds them compares their head with
// the state before them.
func (p *planner) stmt(s ir.Stmt, before state) (ir.Stmt, effect) {
	switch s := s.(type) {
	case nil:
		return nil, effect{}
	case *ir.SeqStmt:
		return p.seq(s.Seq, before)
	case *ir.AttrStmt:
		body, e := p.seq(ir.Stmts(s.Body), before)
		return withBody(s, body), e
	}
	if d, ok := p.done[site{s, p.part}]; ok {
		return d.stmt, d.effect
	}
	return p.single(s, state{})
}

func withBody(s *ir.AttrStmt, body ir.Stmt) ir.Stmt {
	if sameStmts(body, s.Body) {
		return s
	}
	t := *s
	t.Body = body
	return &t
}

func (p *planner) seq(list []ir.Stmt, before state) (ir.Stmt, effect) {
	now := before
	var sum effect
	var out []ir.Stmt
	changed := false
	waited := false // since the last barrier
	all := false    // for all copies
	bar := func(s ir.Stmt) {
		out = append(out, p.barrier(s.Origin()))
		if p.cmp.guess != "" {
			p.remark(s.Origin(), "a barrier to be safe: "+p.cmp.guess)
		}
		changed = true
		now, sum.tail = now.sync(), sum.tail.sync()
		sum.synced, sum.settled, waited = true, sum.settled || all, false
	}
	for _, s := range list {
		c, e := p.stmt(s, now)
		if _, nested := s.(*ir.AttrStmt); !nested {
			if p.outsiders(now, e.members) {
				bar(s)
			}
			if p.insiders(now, e.members) {
				if !p.again(s) {
					return ir.Seq(list...), sum
				}
				c, e = p.single(s, now)
			} else if p.lands(now, e.landing) {
				// Only a barrier behind the waits within it helps.
				if !p.again(s) {
					return ir.Seq(list...), sum
				}
				c, e = p.single(s, now.sync())
			}
			if e.members == nil && p.meets(now, e.head) {
				bar(s)
			}
		}
		changed = changed || c != s
		out = append(out, c)
		if !sum.synced {
			sum.head = append(sum.head, e.head...)
		}
		if !sum.settled {
			if waited {
				sum.landing = append(sum.landing, e.head...)
			}
			for _, a := range e.landing {
				if !waited || !slices.Contains(e.head, a) {
					sum.landing = append(sum.landing, a)
				}
			}
		}
		if n, ok := waitGroups(c); ok {
			now, sum.tail = now.wait(n), sum.tail.wait(n)
			waited, all = true, all || n == 0
			continue
		}
		if e.synced {
			now, sum.tail, sum.synced = now.sync(), sum.tail.sync(), true
			sum.settled = sum.settled || e.settled || all
			waited = false
		}
		if e.waits {
			now, sum.tail = now.wait(1), sum.tail.wait(1)
			waited = true
		}
		now, sum.tail = now.add(e.tail), sum.tail.add(e.tail)
	}
	sum.waits = waited
	if !changed {
		if len(list) == 1 {
			return list[0], sum
		}
		return &ir.SeqStmt{Seq: list, Org: list[0].Origin()}, sum
	}
	return ir.Seq(out...), sum
}

// again reports that a statement may be gone through once more.
func (p *planner) again(s ir.Stmt) bool {
	if p.entered++; p.entered <= maxEntered {
		return true
	}
	p.fail(s.Origin(), "loops and branches are nested too deeply to place barriers in them")
	return false
}

// lands reports asynchronous copies under way that a wait within a statement
// makes land where the statement then meets them: a barrier in front of the
// statement does not help.
func (p *planner) lands(s state, landing []*access) bool {
	for _, b := range landing {
		for _, list := range [][]*access{s.plain, s.pending} {
			for _, a := range list {
				if a.async && p.conflict(a, b) {
					return true
				}
			}
		}
	}
	return false
}

// waitGroups is the operand of a wait for asynchronous copies.
func waitGroups(s ir.Stmt) (int64, bool) {
	ev, ok := s.(*ir.Evaluate)
	if !ok {
		return 0, false
	}
	c, ok := ir.IsCall(ev.Value, "ptx_wait_group")
	if !ok || len(c.Args) != 1 {
		return 0, false
	}
	if n, ok := ir.AsInt(c.Args[0]); ok {
		return n, true
	}
	return 1, true // unknown: some may be under way
}

// isBarrier reports a barrier of the whole block.
func isBarrier(s ir.Stmt) bool {
	if c, ok := barrierCall(s); ok {
		return len(c.Args) == 1
	}
	ev, ok := s.(*ir.Evaluate)
	if !ok {
		return false
	}
	c, ok := ev.Value.(*ir.Call)
	return ok && c.Op != nil && (c.Op.Name == "sync_grid" || c.Op.Name == "cluster_sync")
}

// single places barriers within a statement that is no sequence and begins
// with asynchronous copies under way.
func (p *planner) single(s ir.Stmt, under state) (ir.Stmt, effect) {
	t, e := p.inside(s, under)
	d := plan{t, e}
	p.done[site{t, p.part}] = d
	if len(under.plain) == 0 && len(under.pending) == 0 {
		p.done[site{s, p.part}] = d
	}
	return t, e
}

func (p *planner) inside(s ir.Stmt, under state) (ir.Stmt, effect) {
	if isBarrierOf(s, p.part) {
		return s, effect{synced: true}
	}
	switch s := s.(type) {
	case *ir.For:
		if p.uniform(s.Min) && p.uniform(s.Extent) && (s.Step == nil || p.uniform(s.Step)) {
			return p.loop(s, under)
		}
	case *ir.While:
		if !p.uniform(s.Cond) {
			break
		}
		body, e := p.repeat(s.Body, under, nil)
		cond := p.condition(s.Cond)
		if e.waits {
			e.landing = append(append(e.landing, cond...), e.head...)
		}
		e.head = append(cond, e.head...)
		e.tail.plain = append(cond[:len(cond):len(cond)], e.tail.plain...)
		e.synced, e.settled = false, false
		if !sameStmts(body, s.Body) {
			t := *s
			t.Body = body
			return &t, e
		}
		return s, e
	case *ir.IfThenElse:
		if then, els := p.split(s); then != nil && (then != p.part || s.Else == nil) {
			if then != p.part {
				return p.branch(s, then, els, under)
			}
		} else if !p.uniform(s.Cond) {
			break
		}
		then, e := p.seq(ir.Stmts(s.Then), under)
		var els ir.Stmt
		var f effect
		if s.Else != nil {
			els, f = p.seq(ir.Stmts(s.Else), under)
		}
		e.head = append(append(p.condition(s.Cond), e.head...), f.head...)
		e.landing = append(e.landing, f.landing...)
		e.tail = e.tail.add(f.tail)
		e.synced, e.settled = e.synced && f.synced, e.settled && f.settled
		e.waits = e.waits || f.waits
		if !sameStmts(then, s.Then) || !sameStmts(els, s.Else) {
			return &ir.IfThenElse{Cond: s.Cond, Then: then, Else: els, Org: s.Org}, e
		}
		return s, e
	}
	e := p.whole(s)
	if len(under.pending) > 0 && p.lands(under, e.landing) {
		p.fail(s.Origin(), "asynchronous copies land where only some threads pass: no barrier can stand behind the wait")
	}
	return s, e
}

// condition is what a condition reads, by the threads that come to it.
func (p *planner) condition(e ir.Expr) []*access {
	list := p.reads(e)
	for _, a := range list {
		a.guards = append(a.guards, p.guards...)
	}
	return list
}

// sameStmts compares a statement with what seq made of it: a sequence is
// rebuilt around the same statements.
func sameStmts(a, b ir.Stmt) bool {
	la, lb := ir.Stmts(a), ir.Stmts(b)
	if len(la) != len(lb) {
		return false
	}
	for i := range la {
		if la[i] != lb[i] {
			return false
		}
	}
	return true
}

// loop places barriers in a loop that all threads run alike.
func (p *planner) loop(s *ir.For, under state) (ir.Stmt, effect) {
	lo, okLo := ir.AsInt(s.Min)
	n, okN := ir.AsInt(s.Extent)
	step := int64(1)
	if s.Step != nil {
		v, ok := ir.AsInt(s.Step)
		okN = okN && ok && v > 0
		step = v
	}
	known := okLo && okN && n > 0
	if known && step == 1 {
		p.cmp.ranges[s.Var] = rangedVar{s.Var, lo, n}
		defer delete(p.cmp.ranges, s.Var)
	}
	once := known && n <= step
	runs := known
	if !runs { // by the ranges of what the extent depends on
		least, _, ok := p.cmp.interval(s.Extent, &access{})
		runs = ok && least > 0
	}
	body, e := p.repeat(s.Body, under, func(a *access, exact bool) *access {
		if once {
			return nil
		}
		if exact {
			return a.substitute(s.Var, &ir.Binary{Op: ir.Sub, A: s.Var, B: ir.IntConst(s.Var.Type, step)})
		}
		return a.anyOf(s.Var, lo, n, known && step == 1)
	})
	// Seen from outside, the variable takes all values; before the first
	// barrier and after the last one only the first and last.
	out := effect{synced: e.synced && runs, settled: e.settled && runs, waits: e.waits}
	landing := e.landing
	if e.waits && !once { // in the next iteration
		landing = append(landing[:len(landing):len(landing)], e.head...)
	}
	for _, a := range landing {
		out.landing = append(out.landing, a.anyOf(s.Var, lo, n, known && step == 1))
	}
	for _, a := range e.head {
		if e.synced && known {
			out.head = append(out.head, a.substitute(s.Var, s.Min))
		} else {
			out.head = append(out.head, a.anyOf(s.Var, lo, n, known && step == 1))
		}
	}
	for _, a := range e.tail.plain {
		if e.synced && known && step == 1 && !a.async {
			out.tail.plain = append(out.tail.plain, a.substitute(s.Var, ir.IntConst(s.Var.Type, lo+n-1)))
		} else {
			out.tail.plain = append(out.tail.plain, a.anyOf(s.Var, lo, n, known && step == 1))
		}
	}
	for _, a := range e.tail.pending {
		out.tail.pending = append(out.tail.pending, a.anyOf(s.Var, lo, n, known && step == 1))
	}
	if !runs {
		// It may not run at all: what its head needs is needed, but it
		// synchronises nothing.
		out.tail.plain = append(out.tail.plain, out.head...)
	}
	if !sameStmts(body, s.Body) {
		t := *s
		t.Body = body
		return &t, out
	}
	return s, out
}

// repeat places barriers within one iteration, the first of which begins with
// copies under way, then between an iteration and the ones before it. previous
// turns an access of this iteration into one of the iteration before (exact),
// or of any before; nil drops it.
func (p *planner) repeat(body ir.Stmt, under state, previous func(a *access, exact bool) *access) (ir.Stmt, effect) {
	if previous == nil {
		previous = func(a *access, _ bool) *access { return a }
	}
	b, e := p.seq(ir.Stmts(body), under)
	var carried state
	for _, a := range e.tail.plain {
		if q := previous(a, e.synced && !a.async); q != nil {
			carried.plain = append(carried.plain, q)
		}
	}
	for _, a := range e.tail.pending {
		if q := previous(a, false); q != nil {
			carried.pending = append(carried.pending, q)
		}
	}
	if e.waits {
		carried = carried.add(under.wait(1))
	}
	if len(carried.plain) == 0 && len(carried.pending) == 0 {
		return b, e
	}
	b, _ = p.seq(ir.Stmts(b), carried)
	// The barriers added change head and tail.
	_, e = p.seq(ir.Stmts(b), state{})
	return b, e
}

// substitute is an access with a variable replaced.
func (a *access) substitute(v *ir.Var, by ir.Expr) *access {
	if a.index == nil && len(a.guards) == 0 {
		return a
	}
	b := *a
	f := ir.SubstMap(map[*ir.Var]ir.Expr{v: by})
	if b.index != nil {
		b.index = ir.Substitute(a.index, f)
	}
	b.guards = make([]ir.Expr, len(a.guards))
	for i, g := range a.guards {
		b.guards[i] = ir.Substitute(g, f)
	}
	return &b
}

// anyOf is an access in which a variable may have any value of its range; an
// unknown range makes it an access of the whole buffer.
func (a *access) anyOf(v *ir.Var, lo, n int64, known bool) *access {
	uses := func(e ir.Expr) bool { return ir.UsesVar(e, func(w *ir.Var) bool { return w == v }) }
	used := a.index != nil && uses(a.index)
	for _, g := range a.guards {
		used = used || uses(g)
	}
	if !used {
		return a
	}
	b := *a
	fresh := *v
	b = *b.substitute(v, &fresh)
	if known {
		b.ranged = append(append([]rangedVar(nil), a.ranged...), rangedVar{&fresh, lo, n})
		return &b
	}
	if a.index != nil && uses(a.index) {
		b.index = nil
		b.count = wholeBuffer
	}
	b.guards = nil
	return &b
}

// wholeBuffer is the count of an access whose place is not known: to the end
// of the allocation, whatever its size.
const wholeBuffer = 1 << 40

// whole sums up a statement without placing barriers in it.
func (p *planner) whole(s ir.Stmt) effect {
	e := p.summary(s)
	p.checkInside(s, e.head)
	return e
}

// summary is what a statement does that holds no barrier.
func (p *planner) summary(s ir.Stmt) effect {
	var e effect
	var walk func(s ir.Stmt, guards []ir.Expr, ranged []rangedVar, lost map[*ir.Var]bool)
	add := func(list []*access, guards []ir.Expr, ranged []rangedVar, lost map[*ir.Var]bool) {
		for _, a := range list {
			b := *a
			b.guards, b.ranged = append(b.guards, guards...), ranged
			if b.index != nil && ir.UsesVar(b.index, func(v *ir.Var) bool { return lost[v] }) {
				b.index, b.count = nil, wholeBuffer
			}
			e.head = append(e.head, &b)
			e.tail.plain = append(e.tail.plain, &b)
		}
	}
	walk = func(s ir.Stmt, guards []ir.Expr, ranged []rangedVar, lost map[*ir.Var]bool) {
		add(p.own(s), guards, ranged, lost)
		switch s := s.(type) {
		case *ir.IfThenElse:
			walk(s.Then, append(guards[:len(guards):len(guards)], s.Cond), ranged, lost)
			if s.Else != nil {
				walk(s.Else, append(guards[:len(guards):len(guards)], &ir.Not{A: s.Cond}), ranged, lost)
			}
			return
		case *ir.For:
			lo, ok := ir.AsInt(s.Min)
			n, ok2 := ir.AsInt(s.Extent)
			if ok && ok2 && n > 0 && s.Step == nil {
				ranged = append(ranged[:len(ranged):len(ranged)], rangedVar{s.Var, lo, n})
			} else {
				more := map[*ir.Var]bool{s.Var: true}
				for v := range lost {
					more[v] = true
				}
				lost = more
			}
			walk(s.Body, guards, ranged, lost)
			return
		}
		if s == nil {
			return
		}
		ir.Children(s, func(c ir.Stmt) { walk(c, guards, ranged, lost) })
	}
	walk(s, p.guards, nil, nil)
	if _, leaf := waitGroups(s); leaf {
		return e
	}
	if e.waits = hasWait(s); e.waits {
		e.landing = e.head
	}
	return e
}

// hasWait reports a wait for asynchronous copies.
func hasWait(s ir.Stmt) bool {
	found := false
	ir.WalkExprs(s, func(x ir.Expr) bool {
		_, wait := ir.IsCall(x, "ptx_wait_group")
		found = found || wait
		return !found
	})
	return found
}

// maxInside bounds the accesses compared within one branch or loop that
// threads take differently.
const maxInside = 32

// checkInside refuses accesses within one branch or loop that threads take
// differently and that meet: no barrier can stand between them. Where the code
// has barriers of its own there, or it is not certain which threads come, a
// remark has to do.
func (p *planner) checkInside(s ir.Stmt, list []*access) {
	switch s.(type) {
	case *ir.IfThenElse, *ir.For, *ir.While:
	default:
		return
	}
	if len(list) > maxInside {
		return
	}
	for i, b := range list {
		for _, a := range list[:i] {
			if !p.conflict(a, b) || p.cmp.guess != "" {
				continue
			}
			if p.cmp.exact && !synchronizes(s) {
				p.fail(s.Origin(), "threads that take this way meet at "+a.pool.Name+", and no barrier can stand inside: they are no whole warps")
				return
			}
			p.remark(s.Origin(), "threads that take this way meet at "+a.pool.Name+", and no barrier can stand inside")
			return
		}
	}
}

// synchronizes reports an operator within a statement that orders accesses of
// several threads.
func synchronizes(s ir.Stmt) bool {
	found := false
	ir.WalkExprs(s, func(x ir.Expr) bool {
		if c, ok := x.(*ir.Call); ok && (c.Op == nil || c.Op.Effect == ir.Control || c.Op.Name == "call_extern") {
			found = true
		}
		return !found
	})
	return found
}
