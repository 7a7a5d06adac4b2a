package schedule

import (
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
)

// Annotations of loops. The first three are the user's (T.Pipelined), the
// others what PipelinePlanning decides, each a list with an entry for every
// statement of the body, names and definitions not counted.
const (
	keyNumStages = "num_stages"        // copies of each tile that is loaded ahead
	keyUserOrder = "tl_pipeline_order" // where each statement runs within a round
	keyUserStage = "tl_pipeline_stage" // how many rounds after its iteration's first
	keyOrder     = "software_pipeline_order"
	keyStage     = "software_pipeline_stage"
	// keyAsyncStages are the stages that copy asynchronously.
	keyAsyncStages = "software_pipeline_async_stages"
	// keyProducers marks asynchronous copies by 1, keyGroups gives the commit
	// group of each, -1 for other statements.
	keyProducers = "software_pipeline_async_producers"
	keyGroups    = "software_pipeline_async_producer_groups"
	// keyWaitFirst says that a round waits for earlier copies before it starts its
	// own.
	keyWaitFirst = "software_pipeline_wait_first"
	// keyPipelined is num_stages of a loop that has been pipelined.
	keyPipelined = "tl_pipelined_num_stages"
)

// MaxStages bounds num_stages and the stages a user may give: each costs a copy
// of every tile, and shared memory ends long before.
const MaxStages = 64

// PipelinePlanning decides for loops made by T.Pipelined which statements run
// how far ahead of the others.
//
// Precondition: MaterializeKernelLaunch; tile operators are not lowered.
//
// Effect: a serial loop with num_stages gets a stage and an order for every
// statement. Copies from global to shared memory that cp.async can do, by T.copy
// or by a loop, and that depend on nothing the loop computes, are stage 0; all else is stage
// num_stages-1: a tile is loaded num_stages-1 iterations before it is used, into
// one of num_stages copies. All are one commit group, in front of the other
// statements or behind them, whichever suits the length of a round. With a
// single stage there is no second copy: the loads for the next iteration stand
// behind the last use of their tile, each a group of its own. There are fewer
// stages where their copies find no room in shared memory. Lists given by the
// user (order, stage) are kept, and only the asynchronous copies found.
//
// Invariant: statements do not move; InjectSoftwarePipeline does that. A loop,
// or a copy, that cannot be pipelined is left with a remark.
//
//	for k in T.serial(n, annotations={"num_stages": 3}): copy; gemm
//	-> annotations: software_pipeline_stage [0, 2], software_pipeline_order [0, 1], ...
var PipelinePlanning = &pipeline.Pass{
	Name:         "PipelinePlanning",
	Stage:        stage,
	Doc:          "decide which statements of a pipelined loop run ahead of the others",
	Precondition: "The launch is materialized and tile operators are not lowered yet.",
	Effect: "A serial loop with num_stages gets software_pipeline_stage and software_pipeline_order, an entry for each statement: copies to shared memory, by T.copy or by loops that move neighbours to neighbours, are stage 0, their users stage num_stages-1 (1 for a single stage). " +
		"The asynchronous copies and their commit groups are listed. Lists of the user (tl_pipeline_order, tl_pipeline_stage) are kept. Copies that cp.async cannot do stay with their users, and stages whose tiles find no room in shared memory are left out, with a remark.",
	Before: "for k in T.serial(n, annotations={\"num_stages\": 3}):\n    T.copy(A[k], s)\n    T.gemm(s, ...)",
	After:  "for k in T.serial(n, annotations={\"software_pipeline_order\": [0, 1], \"software_pipeline_stage\": [0, 2], ...}):\n    T.copy(A[k], s)\n    T.gemm(s, ...)",
	Run:    pipeline.BodyPass(isKernel, planPipelines),
}

// isKernel reports a function with code for the device.
func isKernel(f *ir.PrimFunc) bool { return !pipeline.IsHostFunc(f) }

func planPipelines(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	pl := &planner{ctx: c}
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		loop, ok := s.(*ir.For)
		if !ok || pl.err != nil {
			return s
		}
		if pl.mem == nil {
			pl.mem = memoryOf(f.Body)
		}
		return pl.loop(loop)
	}}
	body := r.Stmt(f.Body)
	return body, pl.err
}

type planner struct {
	ctx *pipeline.Context
	mem *memory
	err error
}

// plan is what becomes of a loop's statements.
type plan struct {
	stages       int64 // num_stages, as far as the copies fit
	stage, order []int64
	group        []int64 // -1: not an asynchronous copy
	waitFirst    bool
}

func (p *planner) loop(s *ir.For) ir.Stmt {
	stages, timed := s.Annotations.Get(keyNumStages), s.Annotations.Get(keyNumStages) != nil
	order, stageOf := s.Annotations.Get(keyUserOrder), s.Annotations.Get(keyUserStage)
	n, _ := ir.AttrInt(stages)
	manual := order != nil || stageOf != nil
	if !manual && (!timed || n <= 0) {
		return s
	}
	if n > MaxStages {
		p.fail(s.Org, "num_stages is %d, more than %d", n, MaxStages)
		return s
	}
	decline := func(format string, args ...any) ir.Stmt {
		p.ctx.Remark(s.Org, "not pipelined: "+format, args...)
		return s
	}
	if s.Kind != ir.Serial || s.Step != nil && !ir.IsConst(s.Step, 1) {
		return decline("the loop is not a serial one of step 1")
	}
	if leaves(s.Body) {
		return decline("the loop has a break, continue or return")
	}
	elems, err := split(s.Body)
	if err != nil {
		return decline("%v", err)
	}
	var pl *plan
	if manual {
		if pl = p.userPlan(s, elems, order, stageOf); pl == nil {
			return s
		}
	} else {
		if len(elems) < 2 {
			return decline("there is only one statement in the loop")
		}
		if pl = p.autoPlan(s, elems, n); pl == nil {
			return s
		}
	}
	t := *s
	t.Annotations = pl.annotate(s.Annotations, timed)
	return &t
}

func (p *planner) fail(org ir.Span, format string, args ...any) {
	if p.err == nil {
		p.err = pipeline.Errorf(org, format, args...)
	}
}

// annotate replaces the user's annotations by the plan's, in the order of their
// names.
func (pl *plan) annotate(d *ir.Dict, timed bool) *ir.Dict {
	async := make([]int64, len(pl.group))
	var asyncStages []int64
	for i, g := range pl.group {
		if g >= 0 {
			async[i] = 1
			if !slices.Contains(asyncStages, pl.stage[i]) {
				asyncStages = append(asyncStages, pl.stage[i])
			}
		}
	}
	slices.Sort(asyncStages)
	d = d.With(keyNumStages, nil).With(keyUserOrder, nil).With(keyUserStage, nil)
	if len(asyncStages) > 0 {
		d = d.With(keyGroups, intList(pl.group)).With(keyProducers, intList(async)).With(keyAsyncStages, intList(asyncStages))
	}
	d = d.With(keyOrder, intList(pl.order)).With(keyStage, intList(pl.stage))
	if pl.waitFirst {
		d = d.With(keyWaitFirst, ir.I32(1))
	}
	if timed {
		d = d.With(keyPipelined, ir.I32(pl.stages))
	}
	return d
}

func intList(v []int64) ir.List {
	out := make(ir.List, len(v))
	for i, x := range v {
		out[i] = ir.I32(x)
	}
	return out
}

// ints reads an annotation that lists integers.
func ints(a ir.Attr) ([]int64, bool) {
	l, ok := a.(ir.List)
	if !ok {
		return nil, false
	}
	out := make([]int64, len(l))
	for i, x := range l {
		if out[i], ok = ir.AttrInt(x); !ok {
			return nil, false
		}
	}
	return out, true
}

// userPlan completes the lists of the user; nil after an error.
func (p *planner) userPlan(s *ir.For, elems []element, order, stageOf ir.Attr) *plan {
	n, _ := ir.AttrInt(s.Annotations.Get(keyNumStages))
	pl := &plan{stages: n, group: make([]int64, len(elems))}
	var ok1, ok2 bool
	pl.order, ok1 = ints(order)
	pl.stage, ok2 = ints(stageOf)
	if !ok1 || !ok2 || len(pl.order) != len(elems) || len(pl.stage) != len(elems) {
		p.fail(s.Org, "the lists order and stage of a pipeline need an integer for each of its %d statements", len(elems))
		return nil
	}
	if msg := checkLists(pl.order, pl.stage); msg != "" {
		p.fail(s.Org, "%s", msg)
		return nil
	}
	own := ownGroups(s.Body)
	next := int64(0)
	for _, i := range byOrder(pl.order) {
		pl.group[i] = -1
		b, why := p.asyncCopy(elems, i)
		if b == nil {
			continue
		}
		// A copy that its users follow at once would only be waited for.
		ahead := true
		for j, e := range elems {
			if j != i && e.acc.touches(b.Data) && pl.stage[j] <= pl.stage[i] {
				ahead = false
			}
		}
		switch {
		case !ahead:
		case own:
			why = "the loop commits or waits for asynchronous copies itself"
		}
		if why != "" {
			p.ctx.Remark(elems[i].stmt.Origin(), "not asynchronous: %s", why)
		} else if ahead {
			pl.group[i] = next
			next++
		}
	}
	return pl
}

// checkLists says what is wrong with a schedule's lists, "" if nothing is.
func checkLists(order, stageOf []int64) string {
	for _, x := range stageOf {
		if x < 0 || x > MaxStages {
			return "a stage of the pipeline is negative or too large"
		}
	}
	sorted := slices.Clone(order)
	slices.Sort(sorted)
	for i, x := range sorted {
		if x != int64(i) {
			return "the order of a pipeline must name every place from 0 once"
		}
	}
	return ""
}

// byOrder are the numbers of the statements in the order they run.
func byOrder(order []int64) []int {
	out := make([]int, len(order))
	for i, x := range order {
		out[x] = i
	}
	return out
}

// autoPlan finds what can be loaded ahead; nil when nothing can.
func (p *planner) autoPlan(s *ir.For, elems []element, n int64) *plan {
	if ownGroups(s.Body) {
		p.ctx.Remark(s.Org, "not pipelined: the loop commits or waits for asynchronous copies itself")
		return nil
	}
	ahead := map[int]*ir.Buffer{}
	refuse := map[*ir.Var]bool{}
	for i := range elems {
		b, why := p.asyncCopy(elems, i)
		if b == nil {
			continue
		}
		if why == "" && n > 1 {
			if w := p.mem.single(b.Data, s); w != "" {
				why = "there cannot be several copies of " + b.Name + ": " + w
			}
		}
		if why == "" {
			why = p.dependsOn(elems, i, b)
		}
		if why != "" {
			p.ctx.Remark(elems[i].stmt.Origin(), "not asynchronous: %s", why)
			refuse[b.Data] = true
			continue
		}
		ahead[i] = b
	}
	for i, b := range ahead {
		if refuse[b.Data] { // all that fill a tile go together
			delete(ahead, i)
		}
	}
	if len(ahead) == 0 {
		p.ctx.Remark(s.Org, "not pipelined: nothing is copied from global to shared memory that could be loaded ahead")
		return nil
	}
	if len(ahead) == len(elems) {
		p.ctx.Remark(s.Org, "not pipelined: nothing in the loop uses what it loads")
		return nil
	}
	n = p.fit(s, ahead, n)
	pl := &plan{stages: n, stage: make([]int64, len(elems)), order: make([]int64, len(elems)), group: make([]int64, len(elems))}
	next := int64(0)
	place := func(i int) {
		pl.order[i] = next
		next++
	}
	load := func() {
		for i := range elems {
			if ahead[i] != nil {
				place(i)
			}
		}
	}
	cycles := productCycles(elems)
	behind := n > 2 && (n-2)*cycles >= copyLatency
	pl.waitFirst = n > 1 && !behind && (n-1)*cycles >= copyLatency
	if n > 1 && !behind {
		load()
	}
	groups := int64(0)
	for i := range elems {
		if ahead[i] != nil {
			continue
		}
		place(i)
		pl.stage[i], pl.group[i] = max(n-1, 1), -1
		if n > 1 {
			continue
		}
		for j := range elems {
			if b := ahead[j]; b != nil && lastUse(elems, ahead, b.Data) == i {
				place(j)
				pl.group[j] = groups
				groups++
			}
		}
	}
	if behind {
		load()
	}
	return pl
}

// fit is the number of copies, n at most, that find room in the target's shared
// memory beside the other shared buffers in use at the same time.
func (p *planner) fit(s *ir.For, ahead map[int]*ir.Buffer, n int64) int64 {
	limit := int64(p.ctx.Target.Features.SharedPerBlock)
	loaded := map[*ir.Var]bool{}
	for _, b := range ahead {
		loaded[b.Data] = true
	}
	once, each := p.mem.residents(s, loaded, limit)
	fits := n
	for fits > 1 && once+fits*each > limit {
		fits--
	}
	if fits < n {
		p.ctx.Remark(s.Org, "%d instead of %d stages: the tiles of a stage take %d bytes, and %s has %d bytes of shared memory for a block", fits, n, each, p.ctx.Target.Arch, limit)
	}
	return fits
}

// Which order is best depends on how long a round is compared with the time a
// copy takes. In a long one, copies behind the products are issued while the
// products still run, and the round needs a single barrier; they are under way
// for a round less. In one of middle length they stand first, behind the wait
// for earlier ones, again with a single barrier. In a short one they are issued
// before that wait, at the price of a second barrier. Measured on an H200 with
// products of 8192x8192x8192 in float16: 128x256x32 with 3 stages is 9 % faster
// with copies behind (1024 cycles of products for each round), 128x128x32 is 10 %
// slower (512).

// copyLatency is how many cycles a copy from global to shared memory takes on a
// busy device, roughly.
const copyLatency = 1000

// halfProducts is how many float16 products the tensor cores of a
// multiprocessor make in a cycle (NVIDIA A100 architecture white paper: 1024
// FMA); other types are as fast as they are narrow.
const halfProducts = 1024

// productCycles estimates how long the matrix products of one round take.
func productCycles(elems []element) int64 {
	cycles := int64(0)
	for _, e := range elems {
		ir.Walk(e.stmt, func(s ir.Stmt) bool {
			c := tileCall(s)
			if c == nil || c.Op.Name != "gemm" || len(c.Args) < 8 {
				return true
			}
			n := int64(1)
			for _, x := range c.Args[5:8] {
				v, ok := ir.AsInt(x)
				if !ok || v <= 0 || n > 1<<40/v {
					return true
				}
				n *= v
			}
			bits := int64(16)
			if b, _, _ := region(c.Args[1]); b != nil {
				bits = int64(b.Type.Bits)
			}
			cycles += n * bits / (16 * halfProducts)
			return true
		})
	}
	return min(cycles, 1<<30)
}

// lastUse is the last statement that touches memory loaded ahead.
func lastUse(elems []element, ahead map[int]*ir.Buffer, v *ir.Var) int {
	last := -1
	for i, e := range elems {
		if ahead[i] == nil && e.acc.touches(v) {
			last = i
		}
	}
	if last < 0 { // nobody does: behind all
		for i := range elems {
			if ahead[i] == nil {
				last = i
			}
		}
	}
	return last
}

// asyncCopy is the shared buffer that a statement copies to from global memory,
// nil if it is no such copy, and why cp.async cannot do it, "" if it can.
func (p *planner) asyncCopy(elems []element, i int) (*ir.Buffer, string) {
	if f, ok := elems[i].stmt.(*ir.For); ok && p.ctx.Target.Features.AsyncCopy {
		return gather(f), ""
	}
	c := tileCall(elems[i].stmt)
	if c == nil || c.Op.Name != "copy" || len(c.Args) < 2 {
		return nil, ""
	}
	src, _, from := region(c.Args[0])
	dst, _, to := region(c.Args[1])
	if src == nil || dst == nil || src.Scope() != "global" || !pipeline.IsShared(dst.Scope()) {
		return nil, ""
	}
	switch {
	case !p.ctx.Target.Features.AsyncCopy:
		return dst, "the target has no cp.async"
	case src.Type != dst.Type:
		return dst, "the copy to " + dst.Name + " converts " + src.Type.String() + " to " + dst.Type.String()
	}
	if min(run(src, from), run(dst, to))*int64(dst.Type.Bits)*int64(dst.Type.Lanes) < 32 {
		return dst, "the copy to " + dst.Name + " has less than 4 contiguous bytes"
	}
	return dst, ""
}

// gather is the shared buffer that a nest of parallel loops fills with elements
// of global memory, or zeros, so that the innermost loop moves neighbours to
// neighbours; nil for other loops.
func gather(f *ir.For) *ir.Buffer {
	var s ir.Stmt = f
	var inner *ir.Var
	for {
		l, ok := s.(*ir.For)
		if !ok {
			break
		}
		if l.Kind != ir.Parallel {
			return nil
		}
		inner, s = l.Var, l.Body
	}
	st, ok := s.(*ir.BufferStore)
	if !ok || st.Predicate != nil || !pipeline.IsShared(st.Buffer.Scope()) {
		return nil
	}
	value := st.Value
	if c, ok := ir.IsCall(value, "if_then_else"); ok {
		switch z := c.Args[2].(type) {
		case *ir.IntImm:
			ok = z.Value == 0
		case *ir.FloatImm:
			ok = z.Value == 0
		default:
			ok = false
		}
		if !ok || ir.SideEffect(c.Args[0]) > ir.ReadState {
			return nil
		}
		value = c.Args[1]
	}
	ld, ok := value.(*ir.BufferLoad)
	if !ok || ld.Predicate != nil || ld.Buffer.Scope() != "global" || ld.Buffer.Type != st.Buffer.Type {
		return nil
	}
	an := arith.New()
	for _, list := range [][]ir.Expr{ld.Indices, st.Indices} {
		for d, x := range list {
			next := ir.Substitute(x, ir.SubstMap(map[*ir.Var]ir.Expr{inner: ir.NewBinary(ir.Add, inner, ir.IntConst(inner.Type, 1))}))
			step := int64(0)
			if d == len(list)-1 {
				step = 1
			}
			if !ir.IsConst(an.Simplify(ir.NewBinary(ir.Sub, next, x)), step) {
				return nil
			}
		}
	}
	return st.Buffer
}

// run is how many elements of a region lie together; extents that are not
// constant count as 1.
func run(b *ir.Buffer, ext []ir.Expr) int64 {
	n := int64(1)
	for d := len(ext) - 1; d >= 0; d-- {
		x, ok := ir.AsInt(ext[d])
		if !ok || n > 1<<32 {
			break
		}
		n *= x
		if size, ok := ir.AsInt(b.Shape[d]); !ok || size != x {
			break
		}
	}
	return n
}

// dependsOn says what a copy needs that other statements of the loop make, ""
// if nothing: then it can run iterations ahead.
func (p *planner) dependsOn(elems []element, i int, dst *ir.Buffer) string {
	for _, v := range byName(elems[i].acc.reads) {
		for j, e := range elems {
			if j != i && e.acc.writes[v] {
				return "the copy to " + dst.Name + " reads " + v.Name + ", which the loop writes"
			}
		}
	}
	for _, e := range elems[:i] {
		if e.acc.reads[dst.Data] {
			return dst.Name + " is used before it is loaded"
		}
	}
	return ""
}
