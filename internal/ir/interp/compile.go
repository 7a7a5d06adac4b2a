package interp

import (
	"fmt"
	"strings"

	"lowertrace/internal/ir"
)

// program is a compiled function.
type program struct {
	fn      *ir.PrimFunc
	params  []*slot
	body    func(*warp)
	sizes   frameSizes
	buffers []paramBuffer
}

// frameSizes are the register counts of a program.
type frameSizes struct{ i, f, vi, vf, u, uf, pos int }

// slot is where a variable lives.
type slot struct {
	v      *ir.Var
	uni    bool
	fl     bool
	n      int // lanes of its type
	at     int
	undefd bool // declared free, never given a value
	cst    *val // compile-time constant (loop-invariant binding), else nil
}

// launch is a compiled kernel region.
type launch struct {
	span     ir.Span
	axes     [6]axis // blockIdx.x, .y, .z, threadIdx.x, .y, .z
	dim      [6]int
	shared   []memDecl
	locals   []memDecl
	body     func(*warp)
	sizes    *frameSizes
	sync     SyncMode
	gran     int // bytes of a cell of race detection
	atomic   bool
	grid     bool // blocks synchronise with each other
	cluster  [3]int
	barriers []barrierInit
	binds    []func(*warp) // bindings between the axes, for their extents

	placeholders bool // thread indices are read by launch_thread_idx
}

type axis struct {
	extent func(*warp) int64
	slots  []*slot
}

type memDecl struct {
	name  string
	scope string
	size  int64
	v     *ir.Var
	slot  int   // of the pointer
	base  int64 // shared: address in the block
}

var axisTags = [6]string{"blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"}

func axisOf(tag string) int {
	for i, t := range axisTags {
		if t == tag {
			return i
		}
	}
	return -1
}

// comp compiles one function.
type comp struct {
	r    *run
	fn   *ir.PrimFunc
	vars map[*ir.Var]*slot
	// free maps names to the last allocation of that name: text declares
	// buffers by name where the program uses their memory outside its scope.
	free  map[string]*ir.Var
	sizes frameSizes
	it    int // tops of the temporary registers
	ft    int

	span       ir.Span // of the statement being compiled
	depth      int     // of program order
	nest       int
	coll       bool // inside a collective statement
	tile       bool // the function has tile operators
	sync       SyncMode
	bounds     BoundsMode
	l          *launch // the kernel being compiled, nil on the host
	loops      int     // enclosing loops
	reducer    *ir.CommReducer
	reds       map[*ir.Var]string // reducers: the operation
	sites      int
	fromAtomic map[*ir.Var]bool     // the order of threads decides the value
	threadVars map[*ir.Var]int      // bound to launch_thread_idx
	ranges     map[*ir.Var][2]int64 // of loop variables, where constant
	lazy       map[*ir.Var]ir.Expr  // bindings that use a variable defined after them
	minAcc     int                  // smallest access to shared memory, bytes
	placed     map[*ir.Var][]placed // layouts of global buffers, by data pointer
}

func (c *comp) fail(format string, args ...any) {
	panic(&Error{Span: c.span, Msg: fmt.Sprintf(format, args...)})
}

func (c *comp) cannot(format string, args ...any) {
	panic(&NotRunnable{c.span, fmt.Sprintf(format, args...)})
}

func (c *comp) site(name string) *site {
	c.sites++
	return &site{span: c.span, name: name, id: c.sites}
}

// mark and release bracket the temporaries of an expression.
type mark struct{ i, f int }

func (c *comp) mark() mark { return mark{c.it, c.ft} }

func (c *comp) release(m mark) {
	c.it, c.ft = m.i, m.f
}

func (c *comp) tempI(n int) int {
	at := c.it
	c.it += n * lanes
	c.sizes.i = max(c.sizes.i, c.it)
	return at
}

func (c *comp) tempF(n int) int {
	at := c.ft
	c.ft += n * lanes
	c.sizes.f = max(c.sizes.f, c.ft)
	return at
}

// newSlot gives a variable a place.
func (c *comp) newSlot(v *ir.Var, uni bool) *slot {
	n := max(int(v.Type.Lanes), 1)
	s := &slot{v: v, uni: uni, fl: v.Type.IsFloat(), n: n}
	if n > 1 {
		s.uni = false
	}
	switch {
	case s.uni && s.fl:
		s.at = c.sizes.uf
		c.sizes.uf++
	case s.uni:
		s.at = c.sizes.u
		c.sizes.u++
	case s.fl:
		s.at = c.sizes.vf
		c.sizes.vf += n * lanes
	default:
		s.at = c.sizes.vi
		c.sizes.vi += n * lanes
	}
	return s
}

func (c *comp) define(v *ir.Var, uni bool) *slot {
	s := c.newSlot(v, uni)
	c.vars[v] = s
	return s
}

// setter compiles the assignment of a value to a slot.
func (c *comp) setter(s *slot, v val) func(*warp) {
	at := s.at
	switch {
	case s.uni && s.fl:
		f := v.uf
		return func(w *warp) { w.UF[at] = f(w) }
	case s.uni:
		f := v.ui
		return func(w *warp) { w.U[at] = f(w) }
	case s.fl:
		f, n := c.vecF(v), s.n*lanes
		return func(w *warp) { copy(w.VF[at:at+n], f(w)) }
	}
	f, n := c.vecI(v), s.n*lanes
	return func(w *warp) { copy(w.VI[at:at+n], f(w)) }
}

func (s *slot) val() val {
	at, n := s.at, s.n*lanes
	t := s.v.Type
	switch {
	case s.uni && s.fl:
		return val{t: t, uni: true, uf: func(w *warp) float64 { return w.UF[at] }}
	case s.uni:
		return val{t: t, uni: true, ui: func(w *warp) int64 { return w.U[at] }}
	case s.fl:
		return val{t: t, vf: func(w *warp) []float64 { return w.VF[at : at+n] }}
	}
	return val{t: t, vi: func(w *warp) []int64 { return w.VI[at : at+n] }}
}

func newFrame(s *frameSizes) *warp {
	return &warp{
		I: make([]int64, s.i), F: make([]float64, s.f), VI: make([]int64, s.vi), VF: make([]float64, s.vf),
		U: make([]int64, s.u), UF: make([]float64, s.uf), pos: make([]int32, s.pos+1),
	}
}

// newWarp makes a warp of the kernel; the host's scalars are visible in it.
func (l *launch) newWarp(r *run, host *warp) *warp {
	w := newFrame(l.sizes)
	w.r = r
	copy(w.U, host.U)
	copy(w.UF, host.UF)
	copy(w.VI, host.VI)
	copy(w.VF, host.VF)
	w.locals = make([]*mem, len(l.locals))
	for i, d := range l.locals {
		m := newMem(d.name, d.scope, d.size*lanes, r.opt.Findings)
		m.stride = d.size
		m.id = i
		w.locals[i] = m
		w.U[d.slot] = makePtr(ptrLocal, i, 0)
	}
	for i, d := range l.shared {
		w.U[d.slot] = makePtr(ptrShared, i, 0)
	}
	return w
}

// bindAxes gives the launch variables their values.
func (l *launch) bindAxes(w *warp) {
	for a := range l.axes {
		for _, s := range l.axes[a].slots {
			if a < 3 {
				w.U[s.at] = int64(w.b.idx[a])
			} else if s.uni {
				w.U[s.at] = 0
			} else {
				copy(w.VI[s.at:s.at+lanes], w.thread[a-3])
			}
		}
	}
}

type stmtFn func(*warp)

func nop(*warp) {}

// stmt compiles a statement.
func (c *comp) stmt(s ir.Stmt) stmtFn {
	if s == nil {
		return nop
	}
	c.nest++
	if c.nest > maxNesting {
		c.fail("statements are nested too deeply")
	}
	defer func(sp ir.Span) { c.nest--; c.span = sp }(c.span)
	if o := s.Origin(); o.IsValid() {
		c.span = o
	}
	switch s := s.(type) {
	case *ir.SeqStmt:
		return c.seq(s.Seq)
	case *ir.Bind:
		return c.bind(s)
	case *ir.BufferStore:
		if c.updatesFragment(s) {
			c.coll = true
			f := c.store(s)
			c.coll = false
			return c.collective(f)
		}
		return c.ordered(s, c.store(s))
	case *ir.Evaluate:
		return c.evaluate(s)
	case *ir.IfThenElse:
		return c.ifThenElse(s)
	case *ir.For:
		return c.loop(s)
	case *ir.While:
		return c.while(s)
	case *ir.AttrStmt:
		return c.attr(s)
	case *ir.AllocBuffer:
		return c.alloc(s.Buffer)
	case *ir.DeclBuffer:
		return nop
	case *ir.SBlock:
		return c.sblock(s)
	case *ir.Assert:
		return c.assert(s)
	}
	c.fail("statement %T cannot be run", s)
	return nil
}

func (c *comp) seq(list []ir.Stmt) stmtFn {
	d := c.depth
	c.depth++
	defer func() { c.depth-- }()
	c.sizes.pos = max(c.sizes.pos, c.depth+1)
	fns := make([]stmtFn, 0, len(list))
	for _, s := range list {
		fns = append(fns, c.stmt(s))
	}
	if c.sync != SyncImplied || c.coll || c.l == nil {
		return func(w *warp) {
			for _, f := range fns {
				f(w)
				if w.mask == 0 {
					return
				}
			}
		}
	}
	return func(w *warp) {
		for i, f := range fns {
			w.pos[d] = int32(i)
			w.posLen = d + 1
			f(w)
			if w.mask == 0 {
				return
			}
		}
	}
}

func (c *comp) bind(s *ir.Bind) stmtFn {
	if s.Value == nil {
		c.define(s.Var, true).undefd = true
		return nop
	}
	if call, ok := s.Value.(*ir.Call); ok && call.Op != nil && call.Op.Name == "launch_thread_idx" {
		if a, ok := ir.AsInt(call.Args[0]); ok {
			c.threadVars[s.Var] = int(a)
		}
	}
	if ir.UsesVar(s.Value, func(v *ir.Var) bool {
		sl := c.vars[v]
		return !v.Type.IsHandle() && (sl == nil && c.lazy[v] == nil || sl != nil && sl.undefd)
	}) {
		c.lazy[s.Var] = s.Value
		return nop
	}
	m := c.mark()
	defer c.release(m)
	v := c.expr(s.Value)
	if v.t.Lanes != s.Var.Type.Lanes && !v.t.IsHandle() {
		c.fail("%s of type %s is bound to a value of type %s", s.Var.Name, s.Var.Type, v.t)
	}
	if v.isFloat() != s.Var.Type.IsFloat() {
		v = c.convert(v, s.Var.Type)
	}
	sl := c.define(s.Var, v.uni)
	c.fromAtomic[s.Var] = c.atomicResult(s.Value)
	if v.cst != nil {
		k := *v.cst
		sl.cst = &val{t: s.Var.Type, uni: true, cst: &k, ui: v.ui, uf: v.uf}
	}
	return c.ordered(s, c.setter(sl, v))
}

// ordered puts a point of program order before a leaf statement that touches
// shared memory, when barriers are implied.
func (c *comp) ordered(s ir.Stmt, f stmtFn) stmtFn {
	if c.sync != SyncImplied || c.coll || c.l == nil || !c.touchesShared(s) {
		return f
	}
	st := c.site("")
	return func(w *warp) {
		w.yield(event{kind: evStep, st: st})
		f(w)
	}
}

func (c *comp) orderedExprs(f stmtFn, es ...ir.Expr) stmtFn {
	for _, e := range es {
		if e != nil && c.sync == SyncImplied && !c.coll && c.l != nil && c.exprTouchesShared(e) {
			st := c.site("")
			return func(w *warp) {
				w.yield(event{kind: evStep, st: st})
				f(w)
			}
		}
	}
	return f
}

// sharedScope reports memory that the threads of a block share at this stage.
func (c *comp) sharedScope(scope string) bool {
	return strings.HasPrefix(scope, "shared") || c.tile && isFragment(scope)
}

func isFragment(scope string) bool { return scope == "local.fragment" || scope == "local.reducer" }

func (c *comp) touchesShared(s ir.Stmt) bool {
	hit := false
	if b, ok := s.(*ir.BufferStore); ok && c.sharedScope(b.Buffer.Scope()) {
		return true
	}
	ir.StmtExprs(s, func(e ir.Expr) bool {
		hit = hit || c.exprTouchesShared(e)
		return !hit
	})
	return hit
}

func (c *comp) exprTouchesShared(e ir.Expr) bool {
	hit := false
	ir.WalkExpr(e, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			hit = hit || c.sharedScope(e.Buffer.Scope())
		case *ir.Var:
			hit = hit || e.Ptr != nil && c.sharedScope(e.Ptr.Scope)
		case *ir.Call:
			if e.Op != nil {
				switch e.Op.Name {
				case "ptx_wait_group", "ptx_commit_group", "mbarrier_wait_parity", "ptx_wgmma_ss", "ptx_wgmma_rs", "warpgroup_wait", "tma_store_wait":
					hit = true
				}
			}
		}
		return !hit
	})
	return hit
}

func (c *comp) evaluate(s *ir.Evaluate) stmtFn {
	call, ok := s.Value.(*ir.Call)
	if !ok {
		m := c.mark()
		defer c.release(m)
		v := c.expr(s.Value)
		return v.run()
	}
	if call.Op != nil && call.Op.Tile && call.Op.Name != "region" {
		return c.tileOp(call)
	}
	return c.ordered(s, c.callStmt(call))
}

func (c *comp) ifThenElse(s *ir.IfThenElse) stmtFn {
	m := c.mark()
	cond := c.expr(s.Cond)
	c.release(m)
	d := c.depth
	c.depth++
	c.sizes.pos = max(c.sizes.pos, c.depth+1)
	then := c.stmt(s.Then)
	var els stmtFn
	if s.Else != nil {
		els = c.stmt(s.Else)
	}
	c.depth--
	order := c.sync == SyncImplied && !c.coll && c.l != nil
	var f stmtFn
	if cond.uni {
		ui := cond.ui
		f = func(w *warp) {
			if ui(w) != 0 {
				if order {
					w.pos[d], w.posLen = 0, d+1
				}
				then(w)
			} else if els != nil {
				if order {
					w.pos[d], w.posLen = 1, d+1
				}
				els(w)
			}
		}
	} else {
		if cond.t.Lanes > 1 {
			c.fail("condition of %d lanes", cond.t.Lanes)
		}
		vi := cond.vi
		f = func(w *warp) {
			saved := w.mask
			t := maskOf(vi(w)) & saved
			if t != 0 {
				w.mask = t
				if order {
					w.pos[d], w.posLen = 0, d+1
				}
				then(w)
			}
			if e := saved &^ t; e != 0 && els != nil {
				w.mask = e
				if order {
					w.pos[d], w.posLen = 1, d+1
				}
				els(w)
			}
			w.mask = saved &^ w.off
		}
	}
	return c.orderedExprs(f, s.Cond)
}

func maskOf(v []int64) uint32 {
	var m uint32
	for i, x := range v[:lanes] {
		if x != 0 {
			m |= 1 << i
		}
	}
	return m
}

func (c *comp) loop(s *ir.For) stmtFn {
	if s.Kind == ir.ThreadBinding {
		return c.threadAxis(axisOf(s.Thread), s.Var, s.Min, s.Extent, s.Body, s)
	}
	if s.Kind == ir.Parallel && c.l != nil && !c.coll && !privateLoop(s) {
		return c.parallel(s)
	}
	m := c.mark()
	lo, ext := c.expr(s.Min), c.expr(s.Extent)
	step := val{t: s.Var.Type, uni: true, cst: &cval{i: 1}, ui: func(*warp) int64 { return 1 }}
	if s.Step != nil {
		step = c.expr(s.Step)
	}
	c.release(m)
	v := c.define(s.Var, lo.uni && step.uni)
	c.setRange(s)
	d := c.depth
	c.depth++
	c.loops++
	c.sizes.pos = max(c.sizes.pos, c.depth+1)
	body := c.stmt(s.Body)
	c.depth--
	c.loops--
	span := c.span
	at := v.at
	order := c.sync == SyncImplied && !c.coll && c.l != nil
	if v.uni && ext.uni {
		loF, extF, stF := lo.ui, ext.ui, step.ui
		return c.orderedExprs(func(w *warp) {
			x, n, st := loF(w), extF(w), stF(w)
			if st <= 0 {
				panic(&Error{Span: span, Msg: fmt.Sprintf("loop with step %d", st)})
			}
			saved := w.mask
			outerOff := w.off
			frame := loopFrame{outer: w.curLoop}
			w.curLoop = &frame
			end := x + n
			for it := int32(0); x < end; it++ {
				w.U[at] = x
				if order {
					w.pos[d], w.posLen = it, d+1
				}
				w.step(span)
				body(w)
				w.off &^= frame.cont
				frame.cont = 0
				if w.mask = saved &^ w.off; w.mask == 0 {
					break
				}
				x += st
			}
			w.curLoop = frame.outer
			w.off = outerOff | w.ret
			w.mask = saved &^ w.off
		}, s.Min, s.Extent)
	}
	loV, extV, stV := c.vecI(lo), c.vecI(ext), c.vecI(step)
	uni := v.uni
	return c.orderedExprs(func(w *warp) {
		var cur, end, st [lanes]int64
		copy(cur[:], loV(w))
		copy(end[:], extV(w))
		copy(st[:], stV(w))
		for l := range end {
			end[l] += cur[l]
		}
		saved := w.mask
		outerOff := w.off
		frame := loopFrame{outer: w.curLoop}
		w.curLoop = &frame
		for it := int32(0); ; it++ {
			var live uint32
			for l := range lanes {
				if cur[l] < end[l] {
					live |= 1 << l
				}
			}
			w.mask = saved &^ w.off & live
			if w.mask == 0 {
				break
			}
			if uni {
				for l := range lanes {
					if w.mask>>l&1 != 0 {
						w.U[at] = cur[l]
						break
					}
				}
			} else {
				copy(w.VI[at:at+lanes], cur[:])
			}
			if order {
				w.pos[d], w.posLen = it, d+1
			}
			w.step(span)
			body(w)
			w.off &^= frame.cont
			frame.cont = 0
			for l := range lanes {
				if st[l] <= 0 {
					st[l] = 1
				}
				cur[l] += st[l]
			}
		}
		w.curLoop = frame.outer
		w.off = outerOff | w.ret
		w.mask = saved &^ w.off
	}, s.Min, s.Extent)
}

// setRange notes the values of a loop's variable when they are constant.
func (c *comp) setRange(s *ir.For) {
	delete(c.ranges, s.Var)
	lo, ok1 := ir.AsInt(s.Min)
	n, ok2 := ir.AsInt(s.Extent)
	if ok1 && ok2 && n > 0 {
		c.ranges[s.Var] = [2]int64{lo, lo + n - 1}
	}
}

// loopFrame collects the lanes that left the body of a running loop.
type loopFrame struct {
	outer *loopFrame
	cont  uint32
}

func (c *comp) while(s *ir.While) stmtFn {
	m := c.mark()
	cond := c.expr(s.Cond)
	c.release(m)
	d := c.depth
	c.depth++
	c.loops++
	c.sizes.pos = max(c.sizes.pos, c.depth+1)
	body := c.stmt(s.Body)
	c.depth--
	c.loops--
	span := c.span
	order := c.sync == SyncImplied && !c.coll && c.l != nil
	touches := order && c.exprTouchesShared(s.Cond)
	vi := c.vecI(cond)
	st := c.site("")
	return func(w *warp) {
		saved := w.mask
		outerOff := w.off
		frame := loopFrame{outer: w.curLoop}
		w.curLoop = &frame
		for it := int32(0); ; it++ {
			if order {
				w.pos[d], w.posLen = it, d+1
				if touches {
					w.yield(event{kind: evStep, st: st})
				}
			}
			w.mask &= maskOf(vi(w))
			if w.mask == 0 {
				break
			}
			w.step(span)
			live := w.mask
			body(w)
			w.off &^= frame.cont
			frame.cont = 0
			w.mask = live &^ w.off
			if w.mask == 0 {
				break
			}
		}
		w.curLoop = frame.outer
		w.off = outerOff | w.ret
		w.mask = saved &^ w.off
	}
}

func (w *warp) breakLoop()    { w.off |= w.mask; w.mask = 0 }
func (w *warp) continueLoop() { w.off |= w.mask; w.curLoop.cont |= w.mask; w.mask = 0 }
func (w *warp) returnThread() { w.off |= w.mask; w.ret |= w.mask; w.mask = 0 }

func (c *comp) assert(s *ir.Assert) stmtFn {
	m := c.mark()
	defer c.release(m)
	cond := c.vecI(c.expr(s.Cond))
	msg := s.Kind
	for i, e := range s.Message {
		if i == 0 {
			msg += ": "
		}
		if str, ok := e.(*ir.StringImm); ok {
			msg += str.Value
		}
	}
	st := c.site("")
	host := c.l == nil
	return func(w *warp) {
		bad := w.mask &^ maskOf(cond(w))
		if bad == 0 {
			return
		}
		if host {
			panic(&Error{Span: st.span, Msg: "assertion failed: " + msg})
		}
		w.find(AssertFailed, st, firstLane(bad), "assertion failed: %s", msg)
	}
}

// sblock compiles a block: its allocations, its axes, its body.
func (c *comp) sblock(s *ir.SBlock) stmtFn {
	var fns []stmtFn
	c.blockAttrs(s)
	c.launchThreads(s)
	for _, b := range s.AllocBuffers {
		fns = append(fns, c.alloc(b))
	}
	for _, mb := range s.MatchBuffers {
		fns = append(fns, c.matchRegion(mb))
	}
	for i, iv := range s.IterVars {
		m := c.mark()
		v := c.expr(s.IterValues[i])
		fns = append(fns, c.setter(c.define(iv.Var, v.uni), v))
		c.release(m)
	}
	body := s.Body
	if s.Init != nil { // at the first step of the block's reductions
		init := s.Init
		for _, iv := range s.IterVars {
			if iv.Kind == ir.CommReduce && iv.Dom.Min != nil {
				init = &ir.IfThenElse{Cond: &ir.Binary{Op: ir.EQ, A: iv.Var, B: iv.Dom.Min}, Then: init, Org: s.Org}
			}
		}
		body = ir.Seq(init, body)
	}
	if s.Predicate != nil && !ir.IsConst(s.Predicate, 1) {
		body = &ir.IfThenElse{Cond: s.Predicate, Then: body, Org: s.Org}
	}
	fns = append(fns, c.stmt(body))
	if len(fns) == 1 {
		return fns[0]
	}
	return func(w *warp) {
		for _, f := range fns {
			f(w)
		}
	}
}

func (c *comp) matchRegion(mb ir.MatchBufferRegion) stmtFn {
	c.cannot("a matched buffer region (%s) is not supported", mb.Buffer.Name)
	return nil
}

// blockAttrs notes the annotations with a meaning for a run.
func (c *comp) blockAttrs(s *ir.SBlock) {
	if d, ok := s.Annotations.Get("safe_value_map").(*ir.Dict); ok {
		for _, e := range d.Entries {
			v, ok := e.Key.(*ir.Var)
			if b, isBuf := e.Key.(*ir.Buffer); isBuf {
				v, ok = b.Data, true
			}
			if x, isConst := constFloat(e.Value); ok && isConst {
				c.r.safe[v] = x
			}
		}
	}
	for _, key := range []string{"reducer_info", "reducer_info_v2"} {
		if d, ok := s.Annotations.Get(key).(*ir.Dict); ok {
			for _, e := range d.Entries {
				v, ok := e.Key.(*ir.Var)
				if b, isBuf := e.Key.(*ir.Buffer); isBuf {
					v, ok = b.Data, true
				}
				if info, isDict := e.Value.(*ir.Dict); ok && isDict {
					op, _ := ir.AttrString(info.Get("op"))
					c.reds[v] = op
				}
			}
		}
	}
	if l, ok := s.Annotations.Get("cluster_dims").(ir.List); ok && c.l != nil {
		c.l.setCluster(l)
	}
	if d, ok := s.Annotations.Get("barrier_init").(*ir.Dict); ok {
		c.barrierInit(d)
	}
}

func (l *launch) setCluster(list ir.List) {
	for i := range min(len(list), 3) {
		if n, ok := ir.AttrInt(list[i]); ok && n > 0 {
			l.cluster[i] = int(n)
		}
	}
}

func constFloat(a ir.Attr) (float64, bool) {
	switch a := a.(type) {
	case *ir.FloatImm:
		return a.Value, true
	case *ir.IntImm:
		return float64(a.Value), true
	case *ir.Cast:
		return constFloat(a.Value)
	}
	return 0, false
}

// attr compiles an attribute and its body.
func (c *comp) attr(s *ir.AttrStmt) stmtFn {
	switch s.Key {
	case ir.KeyThreadExtent:
		iv, ok := s.Node.(*ir.IterVar)
		if !ok {
			c.fail("thread_extent without an axis")
		}
		ext, _ := s.Value.(ir.Expr)
		return c.threadAxis(axisOf(iv.Tag), iv.Var, nil, ext, s.Body, s)
	case "reduce_scope":
		if r, ok := s.Node.(*ir.CommReducer); ok {
			old := c.reducer
			c.reducer = r
			defer func() { c.reducer = old }()
		}
	}
	return c.stmt(s.Body)
}
