package schedule

import (
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// InjectSoftwarePipeline rearranges the loops PipelinePlanning has planned.
//
// Precondition: the loops carry software_pipeline_stage and
// software_pipeline_order; tile operators are not lowered.
//
// Effect: round t runs every statement for iteration t - stage, in the given
// order. The rounds before the first of the last stage stand in front of the
// loop, each statement guarded by its iteration's existence where that is not
// certain. The loop runs the rounds in which all statements have an iteration, a
// second loop the last ones. So the code is right for any number of iterations,
// fewer than the stages and none included. A buffer whose tile is loaded before
// the last one has been used gets several copies as a new first dimension, used
// in turn. Asynchronous copies are grouped; every round commits every group,
// empty or not, so that the number of groups under way at a wait does not depend
// on the iteration: T.ptx_wait_group has a constant operand. A wait stands before
// the first user of what it waits for; where the plan says so it stands before
// the round's own copies: one barrier then serves both the arrival of one tile
// and the reuse of another.
//
// Dynamic shared buffers that are used in one loop around a pipelined one, and
// are overwritten in each of its iterations before they are read, are allocated
// in that loop.
//
// Invariant: every statement runs once for each iteration; iterations of one
// statement stay in order; copies of statements define variables and buffers of
// their own.
//
//	for k in range(n): copy(A[k], s); gemm(s)      # stages 0, 1
//	->  if 0 < n: copy(A[0], s[0])
//	    commit
//	    for k in range(max(n - 1, 0)):
//	        copy(A[k + 1], s[(k + 1) % 2])
//	        commit
//	        wait(1)
//	        gemm(s[k % 2])
//	    for k in range(max(n - 1, 0), n):
//	        commit
//	        wait(1)
//	        gemm(s[k % 2])
var InjectSoftwarePipeline = &pipeline.Pass{
	Name:         "InjectSoftwarePipeline",
	Stage:        stage,
	Doc:          "run the statements of planned loops in rounds, with several copies of the tiles loaded ahead",
	Precondition: "Planned loops carry software_pipeline_stage and software_pipeline_order with an entry for each statement.",
	Effect: "The statements of the first stages run ahead: in front of the loop, guarded by the existence of their iteration, and within it for later iterations; the rounds in which nothing is left to run ahead are a loop of their own. Buffers get as many copies as are alive at once. " +
		"Asynchronous copies are committed in groups, every group in every round, so that waits have constant operands. Correct for any number of iterations. Dynamic shared buffers that carry nothing from one iteration of a loop around to the next are allocated in that loop.",
	Before: "for k in range(n):  # stages 0, 1\n    T.copy(A[k], s)\n    T.gemm(s, ...)",
	After: "if 0 < n:\n    T.copy(A[0], s[0])\nT.ptx_commit_group()\nfor k in range(max(n - 1, 0)):\n    T.copy(A[k + 1], s[(k + 1) % 2])\n    T.ptx_commit_group()\n    T.ptx_wait_group(1)\n    T.gemm(s[k % 2], ...)\n" +
		"for k in range(max(n - 1, 0), n):\n    T.ptx_commit_group()\n    T.ptx_wait_group(1)\n    T.gemm(s[k % 2], ...)",
	Run: pipeline.BodyPass(isKernel, injectPipelines),
}

func injectPipelines(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	in := &injector{n: copies{}}
	var planned []*ir.For
	set := map[*ir.For]bool{}
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		if loop, ok := s.(*ir.For); ok && loop.Annotations.Get(keyStage) != nil {
			planned = append(planned, loop)
			set[loop] = true
		}
		return true
	})
	if len(planned) == 0 {
		return f.Body, nil
	}
	start := memoryOf(f.Body).localize(set) // keeps the planned loops as they are
	in.mem = memoryOf(start)
	for _, s := range planned {
		sch, err := scheduleOf(s)
		if err != nil {
			return nil, err
		}
		for _, v := range several(sch.need) {
			if why := in.mem.single(v, s); why != "" {
				return nil, pipeline.Errorf(s.Org, "the pipeline needs %d copies of %s, which cannot have them: %s", sch.need[v], v.Name, why)
			}
			in.n[v] = max(in.n[v], sch.need[v])
		}
	}
	in.v = newVersioner(in.n, in.mem.alloc, in.loop)
	body := in.v.r.Stmt(start)
	return body, in.err
}

// several are the buffers that need more than one copy.
func several(c copies) []*ir.Var {
	set := map[*ir.Var]bool{}
	for v, n := range c {
		set[v] = n > 1
	}
	return slices.DeleteFunc(byName(set), func(v *ir.Var) bool { return !set[v] })
}

type injector struct {
	mem *memory
	n   copies
	v   *versioner
	err error
}

// sched is a planned loop's schedule.
type sched struct {
	loop         *ir.For
	elems        []element
	stage, order []int64
	places       []int // statements in the order they run
	group        []int // commit group of each asynchronous copy, -1 for others
	commits      []int // the place behind which each group is committed, ascending
	last         int64 // the last stage
	waitFirst    bool  // a round waits before it copies
	need         copies
}

// scheduleOf reads and checks a loop's annotations.
func scheduleOf(s *ir.For) (*sched, error) {
	bad := func(format string, args ...any) (*sched, error) { return nil, pipeline.Errorf(s.Org, format, args...) }
	if s.Kind != ir.Serial || s.Step != nil && !ir.IsConst(s.Step, 1) {
		return bad("a pipelined loop must be serial, of step 1")
	}
	if leaves(s.Body) {
		return bad("a pipelined loop cannot be left by break, continue or return")
	}
	elems, err := split(s.Body)
	if err != nil {
		return bad("the loop cannot be pipelined: %v", err)
	}
	c := &sched{loop: s, elems: elems}
	var ok1, ok2 bool
	c.stage, ok1 = ints(s.Annotations.Get(keyStage))
	c.order, ok2 = ints(s.Annotations.Get(keyOrder))
	if !ok1 || !ok2 || len(c.stage) != len(elems) || len(c.order) != len(elems) {
		return bad("%s and %s need an integer for each of the loop's %d statements", keyStage, keyOrder, len(elems))
	}
	if msg := checkLists(c.order, c.stage); msg != "" {
		return bad("%s", msg)
	}
	c.places = byOrder(c.order)
	if len(c.stage) > 0 {
		c.last = slices.Max(c.stage)
	}
	async, okA := ints(s.Annotations.Get(keyProducers))
	group, okG := ints(s.Annotations.Get(keyGroups))
	if okA != okG || okA && (len(async) != len(elems) || len(group) != len(elems)) {
		return bad("%s and %s need an integer for each of the loop's %d statements", keyProducers, keyGroups, len(elems))
	}
	c.group = make([]int, len(elems))
	for i := range c.group {
		c.group[i] = -1
	}
	if !okA {
		async = make([]int64, len(elems))
	}
	var ids []int64 // groups in the order of their commits, the last one first
	for at := len(c.places) - 1; at >= 0; at-- {
		i := c.places[at]
		if async[i] == 0 {
			continue
		}
		call := tileCall(elems[i].stmt)
		loop, _ := elems[i].stmt.(*ir.For)
		if (call == nil || call.Op.Name != "copy") && (loop == nil || gather(loop) == nil) || group[i] < 0 {
			return bad("statement %d is marked as an asynchronous copy, but is no T.copy or loop that copies, in a group", i)
		}
		if !slices.Contains(ids, group[i]) {
			ids = append(ids, group[i])
			c.commits = append(c.commits, at)
		}
	}
	if len(ids) > 0 && ownGroups(s.Body) {
		return bad("a pipelined loop with asynchronous copies cannot commit or wait for others")
	}
	slices.Reverse(ids)
	slices.Reverse(c.commits)
	for i := range c.group {
		if async[i] != 0 {
			c.group[i] = slices.Index(ids, group[i])
		}
	}
	var why string
	if c.need, why = requirement(elems, c.stage, c.order); why != "" {
		return bad("%s", why)
	}
	// Users of T.Pipelined ask for a number of copies; with more than are alive at
	// once, a copy can be filled without waiting for its last user.
	if n, ok := ir.AttrInt(s.Annotations.Get(keyPipelined)); ok && n <= MaxStages {
		for i, e := range elems {
			for v := range e.acc.writes {
				if c.group[i] >= 0 && c.need[v] > 1 {
					c.need[v] = max(c.need[v], n)
				}
			}
		}
	}
	if n, ok := ir.AttrInt(s.Annotations.Get(keyWaitFirst)); ok {
		c.waitFirst = n != 0
	}
	return c, nil
}

// wait is a wait for asynchronous copies.
type wait struct {
	groups int64 // that may be under way still, -1: no wait
	stage  int64 // of the first statement that needs it
}

// waits are the waits before each place.
func (c *sched) waits() []wait {
	out := make([]wait, len(c.places))
	for p := range out {
		out[p] = wait{-1, c.last}
	}
	// committed counts the commits of a round before a place.
	committed := func(p int) int64 {
		n, _ := slices.BinarySearch(c.commits, p)
		return int64(n)
	}
	for p, i := range c.places {
		for j, e := range c.elems {
			g := c.group[j]
			if g < 0 || j == i || !meets(e.acc, c.elems[i].acc) {
				continue
			}
			d := c.stage[i] - c.stage[j]
			at := p
			if d < 0 || d == 0 && c.order[j] > c.order[i] {
				continue // what it meets is of an iteration before, and waited for
			}
			if c.waitFirst && d > 0 && c.commits[g] < p {
				for at > 0 && c.group[c.places[at]] != g {
					at--
				}
				for at > 0 && c.group[c.places[at-1]] >= 0 {
					at--
				}
			}
			allow := d*int64(len(c.commits)) - int64(g+1) + committed(at)
			if w := &out[at]; w.groups < 0 || allow < w.groups {
				w.groups = allow
			}
			out[at].stage = min(out[at].stage, c.stage[i])
		}
	}
	// A wait that an earlier one of the round has done already is not needed.
	done, since, known := int64(0), int64(0), false
	for p := range out {
		if p > 0 {
			done += committed(p) - committed(p-1)
		}
		if out[p].groups < 0 {
			continue
		}
		if known && done <= out[p].groups && since <= out[p].stage {
			out[p].groups = -1
			continue
		}
		done, since, known = out[p].groups, out[p].stage, true
	}
	return out
}

// meets reports a statement that touches what an asynchronous copy writes.
func meets(copied, user *accesses) bool {
	for v := range copied.writes {
		if user.touches(v) {
			return true
		}
	}
	return false
}

// loop replaces a planned loop; nil for other loops.
func (in *injector) loop(s *ir.For) ir.Stmt {
	if s.Annotations.Get(keyStage) == nil {
		return nil
	}
	c, err := scheduleOf(s)
	if err != nil { // was read before, so this cannot be
		in.err = err
		return s
	}
	waits := c.waits()
	t := s.Var.Type
	zero, last := ir.IntConst(t, 0), ir.IntConst(t, c.last)
	var out []ir.Stmt
	for n := int64(0); n < c.last; n++ {
		out = append(out, in.round(c, waits, n, s.Min, n, maybe)...)
	}
	// As long as what runs ahead has iterations, nothing is guarded; the last
	// rounds have a loop of their own.
	full := ir.NewBinary(ir.Max, ir.NewBinary(ir.Sub, s.Extent, last), zero)
	rest := ir.NewBinary(ir.Sub, s.Extent, full)
	d := s.Annotations
	for _, key := range []string{keyGroups, keyProducers, keyAsyncStages, keyOrder, keyStage, keyWaitFirst} {
		d = d.With(key, nil)
	}
	if d.Get(keyPipelined) == nil {
		d = d.With(keyPipelined, ir.I32(c.last+1))
	}
	out = append(out, in.rounds(c, waits, s.Min, full, d, always)...)
	if c.last > 0 {
		out = append(out, in.rounds(c, waits, ir.NewBinary(ir.Add, s.Min, full), rest, nil, maybe)...)
	}
	return ir.Seq(out...)
}

// rounds is a loop over n rounds of all stages, the first of which runs the last
// stage for iteration first. A single round needs no loop.
func (in *injector) rounds(c *sched, waits []wait, first, n ir.Expr, ann *ir.Dict, ahead existence) []ir.Stmt {
	if ir.IsConst(n, 0) {
		return nil
	}
	if ir.IsConst(n, 1) {
		return in.round(c, waits, c.last, first, c.last, ahead)
	}
	k := *c.loop.Var
	l := *c.loop
	l.Var, l.Min, l.Extent, l.Annotations = &k, first, n, ann
	l.Body = ir.Seq(in.round(c, waits, c.last, &k, c.last, ahead)...)
	return []ir.Stmt{&l}
}

// existence says whether the iterations that a round runs ahead of the last
// stage exist.
type existence uint8

const (
	maybe existence = iota
	always
)

// round is one round of the pipeline, of the statements of stage top and those
// before: stage s runs for iteration base + off - s.
func (in *injector) round(c *sched, waits []wait, top int64, base ir.Expr, off int64, ahead existence) []ir.Stmt {
	var out, held []ir.Stmt
	var cond ir.Expr // of the statements held
	flush := func() {
		if cond != nil && len(held) > 0 {
			held = []ir.Stmt{&ir.IfThenElse{Cond: cond, Then: ir.Seq(held...), Org: held[0].Origin()}}
		}
		out = append(out, held...)
		held = nil
	}
	emit := func(op string, org ir.Span, args ...ir.Expr) {
		flush()
		out = append(out, &ir.Evaluate{Value: ir.NewCall(ir.MustOp(op), args...), Org: org})
	}
	t := base.DType()
	end := ir.NewBinary(ir.Add, c.loop.Min, c.loop.Extent)
	for p, i := range c.places {
		org := c.elems[i].stmt.Origin()
		if w := waits[p]; w.groups >= 0 && w.stage <= top {
			emit("ptx_wait_group", org, ir.I32(w.groups))
		}
		if c.stage[i] <= top {
			iter := ir.NewBinary(ir.Add, base, ir.IntConst(t, off-c.stage[i]))
			var exists ir.Expr
			switch {
			case c.stage[i] == c.last || ahead == always:
			case top == c.last && c.stage[i] == 0:
				// The last rounds begin where nothing is left for the first stage.
				exists = ir.BoolConst(false)
			default:
				exists = ir.NewBinary(ir.LT, iter, end)
			}
			never := false
			if b, ok := exists.(*ir.IntImm); ok {
				exists, never = nil, b.Value == 0
			}
			if !ir.Same(exists, cond) {
				flush()
			}
			if !never {
				cond = exists
				held = append(held, in.statement(c, i, iter)...)
			}
		}
		if g := c.group[i]; g >= 0 && c.commits[g] == p {
			emit("ptx_commit_group", org)
		}
	}
	flush()
	return out
}

// statement is a statement for one iteration.
func (in *injector) statement(c *sched, i int, iter ir.Expr) []ir.Stmt {
	e := c.elems[i]
	list := fresh(append(append([]ir.Stmt{}, e.defs...), e.stmt), map[*ir.Var]ir.Expr{c.loop.Var: iter})
	if c.group[i] >= 0 {
		list[len(list)-1] = managed(list[len(list)-1])
	}
	outer := in.v.which
	in.v.which = map[*ir.Var]ir.Expr{}
	for v, x := range outer {
		in.v.which[v] = x
	}
	nth := ir.NewBinary(ir.Sub, iter, c.loop.Min)
	for v, n := range c.need {
		if n > 1 {
			in.v.which[v] = ir.NewBinary(ir.FloorMod, nth, ir.IntConst(iter.DType(), in.n[v]))
		}
	}
	var out []ir.Stmt
	for _, s := range list {
		out = append(out, in.v.r.Stmt(s))
	}
	in.v.which = outer
	return out
}

// keyAsyncLoop is managed's mark on parallel loops.
const keyAsyncLoop = "parallel_async_without_async_commit_wait"

// managed marks a copy, an operator or a nest of parallel loops, as one whose
// groups the pipeline commits and waits for.
func managed(s ir.Stmt) ir.Stmt {
	switch s := s.(type) {
	case *ir.For:
		f := *s
		f.Annotations, f.Body = s.Annotations.With(keyAsyncLoop, ir.BoolConst(true)), managed(s.Body)
		return &f
	case *ir.Evaluate:
		c := *s.Value.(*ir.Call)
		c.Attrs = append(append([]ir.Arg{}, c.Attrs...), ir.Arg{Name: "no_implicit_async_commit_wait", Value: ir.I32(1)})
		return &ir.Evaluate{Value: &c, Org: s.Org}
	}
	return s
}
