package interp

import (
	"fmt"
	"iter"
	"math/bits"
	"sort"
	"strings"
)

type eventKind uint8

const (
	evStep       eventKind = iota // a point of program order (SyncImplied)
	evCollective                  // a statement that all warps perform together
	evBarrier                     // a barrier of n threads
	evMbar                        // a wait for an mbarrier phase
	evGrid                        // a barrier of the grid
	evCluster                     // a barrier of the cluster
)

// event is why a warp gave up control.
type event struct {
	kind   eventKind
	id     int // barrier number
	n      int // threads a barrier waits for
	mbar   *mbar
	parity int
	st     *site
	// lanes that wait; a barrier counts whole warps.
	mask uint32
}

// block is the state of one block.
type block struct {
	r      *run
	l      *launch
	idx    [3]int
	linear int
	rank   int // in its cluster
	shared []*mem
	warps  []*warp
	mbars  map[int64]*mbar
	// barriers counts arrivals by barrier number.
	barriers map[int]*barrierState
	gang     *gang
	watch    *barrierWatch // with Options.Stats
	races    bool
	scratch  map[int]vecAny // of thread reductions
}

type barrierState struct {
	n       int // threads expected
	waiting []*warp
	threads int
}

// gang is a set of blocks that run side by side because they synchronise with
// each other: a cluster, or the whole grid.
type gang struct {
	blocks []*block
	epoch  int32 // see globalShadow
}

func newBlock(r *run, l *launch, idx [3]int, linear int, host *warp) *block {
	b := &block{r: r, l: l, idx: idx, linear: linear, barriers: map[int]*barrierState{}}
	threads := l.dim[3] * l.dim[4] * l.dim[5]
	nw := (threads + lanes - 1) / lanes
	b.shared = make([]*mem, len(l.shared))
	for i, s := range l.shared {
		b.shared[i] = newMem(s.name, s.scope, s.size, r.opt.Findings)
		b.shared[i].id = i
		if r.opt.Findings {
			b.shared[i].pending = make([]byte, s.size)
		}
		if r.opt.Findings && l.sync == SyncExplicit {
			b.shared[i].shadow = newShadow(s.size, l.gran, nw)
		}
	}
	if r.opt.Stats {
		b.watch = newBarrierWatch(l.gran)
	}
	b.races = r.opt.Findings && l.sync == SyncExplicit
	for i := range nw {
		w := l.newWarp(r, host)
		w.b, w.id = b, i
		w.full = ^uint32(0)
		if rest := threads - i*lanes; rest < lanes {
			w.full = 1<<rest - 1
		}
		w.mask = w.full
		for a := range w.thread {
			w.thread[a] = make([]int64, lanes)
		}
		for k := range lanes {
			t := i*lanes + k
			w.thread[0][k] = int64(t % l.dim[3])
			w.thread[1][k] = int64(t / l.dim[3] % l.dim[4])
			w.thread[2][k] = int64(t / (l.dim[3] * l.dim[4]))
		}
		w.vc = make([]uint32, 2*nw)
		w.vc[i] = 1
		l.bindAxes(w)
		b.warps = append(b.warps, w)
	}
	for _, w := range b.warps {
		next, stop := iter.Pull(func(yield func(event) bool) {
			w.yieldTo = yield
			defer func() {
				if e := recover(); e != nil {
					if _, ok := e.(abort); !ok {
						panic(e)
					}
				}
			}()
			l.body(w)
			w.endThread()
		})
		w.resume, w.cancel = next, stop
	}
	b.initBarriers()
	return b
}

// yield gives up control until the scheduler resumes the warp.
func (w *warp) yield(e event) {
	if w.b == nil {
		panic(&Error{Span: e.st.span, Msg: "a host function synchronises threads"})
	}
	if len(w.b.warps) == 1 && (e.kind == evStep || e.kind == evCollective) {
		w.leader = true
		return
	}
	w.wait = e
	if !w.yieldTo(e) {
		panic(abort{})
	}
}

func (b *block) stop() {
	for _, w := range b.warps {
		w.cancel()
	}
}

// runnable reports whether what the warp waits for has happened.
func (w *warp) runnable() bool {
	if w.done {
		return false
	}
	switch w.wait.kind {
	case evStep, evCollective:
		return true
	case evMbar:
		return w.wait.mbar.passed(w.wait.parity)
	}
	return false // released by the last to arrive
}

// advance runs the block's warps until none can go on.
func (b *block) advance() {
	if b.l.sync == SyncImplied {
		b.advanceOrdered()
		return
	}
	for progress := true; progress; {
		progress = false
		for _, w := range b.warps {
			if w.runnable() {
				b.resumeWarp(w)
				progress = true
			}
		}
	}
}

// advanceOrdered always resumes the warp that is furthest behind in program order.
func (b *block) advanceOrdered() {
	var group []*warp
	for {
		var first *warp
		for _, w := range b.warps {
			if w.runnable() && (first == nil || comparePos(w, first) < 0) {
				first = w
			}
		}
		if first == nil {
			return
		}
		group = append(group[:0], first)
		if first.wait.kind == evCollective || first.wait.kind == evStep {
			for _, w := range b.warps {
				if w != first && w.runnable() && comparePos(w, first) == 0 {
					group = append(group, w)
				}
			}
		}
		for i, w := range group {
			w.leader = i == 0
			b.resumeWarp(w)
		}
	}
}

func comparePos(a, b *warp) int {
	n := min(a.posLen, b.posLen)
	for i := range n {
		if d := a.pos[i] - b.pos[i]; d != 0 {
			return int(d)
		}
	}
	return a.posLen - b.posLen
}

func (b *block) resumeWarp(w *warp) {
	w.wait = event{}
	e, ok := w.resume()
	if !ok {
		w.done = true
		w.wait = event{}
		b.recheckBarriers()
		return
	}
	w.wait = e
	if e.kind == evBarrier {
		b.arrive(w, e)
	}
}

// arrive registers a warp at a barrier and releases all when it is complete.
func (b *block) arrive(w *warp, e event) {
	s := b.barriers[e.id]
	if s == nil {
		s = &barrierState{n: e.n}
		b.barriers[e.id] = s
	}
	s.waiting = append(s.waiting, w)
	s.threads += lanes
	b.tryRelease(e.id, s)
}

func (b *block) tryRelease(id int, s *barrierState) {
	need := s.n
	if need == 0 { // all threads of the block that have not returned
		for _, w := range b.warps {
			if !w.done {
				need += lanes
			}
		}
	}
	if len(s.waiting) == 0 || s.threads < (need+lanes-1)/lanes*lanes {
		return
	}
	delete(b.barriers, id)
	if b.watch != nil && id == 0 {
		b.watch.passed = append(b.watch.passed, b.r.stats.passed(s.waiting[0].wait.st))
	}
	if b.races {
		joinClocks(s.waiting)
	}
	if b.r.opt.Findings && id == 0 {
		b.checkSplit(s.waiting)
	}
	for _, w := range s.waiting {
		w.wait = event{kind: evStep}
	}
}

// checkSplit reports warps that meet at different barriers, or with part of
// their threads.
func (b *block) checkSplit(ws []*warp) {
	for _, w := range ws[1:] {
		if a, b := ws[0].wait.st, w.wait.st; a != b && a.span != b.span {
			w.find(BarrierSplit, b, -1, "a barrier meets another one: warp %d is at line %d, warp %d at line %d", ws[0].id, a.span.Line(), w.id, b.span.Line())
			return
		}
	}
	for _, w := range ws {
		if w.wait.mask != w.full&^w.ret {
			w.find(BarrierSplit, w.wait.st, bits.TrailingZeros32(w.full&^w.wait.mask), "barrier reached by %d of the warp's %d threads", bits.OnesCount32(w.wait.mask), bits.OnesCount32(w.full))
			return
		}
	}
}

func (b *block) recheckBarriers() {
	ids := make([]int, 0, len(b.barriers))
	for id := range b.barriers {
		ids = append(ids, id)
	}
	sort.Ints(ids)
	for _, id := range ids {
		b.tryRelease(id, b.barriers[id])
	}
}

func (b *block) finished() bool {
	for _, w := range b.warps {
		if !w.done {
			return false
		}
	}
	return true
}

// runGang runs blocks that synchronise with each other to the end, or to a
// deadlock.
func (g *gang) run() {
	defer func() {
		for _, b := range g.blocks {
			b.stop()
		}
	}()
	for {
		all := true
		for _, b := range g.blocks {
			b.advance()
			if !b.finished() {
				all = false
			}
		}
		if all {
			return
		}
		if g.wakeMbars() || g.release(evGrid) || g.release(evCluster) {
			continue
		}
		g.deadlock()
		return
	}
}

// wakeMbars reports whether another block's arrival lets a warp go on.
func (g *gang) wakeMbars() bool {
	for _, b := range g.blocks {
		for _, w := range b.warps {
			if w.runnable() {
				return true
			}
		}
	}
	return false
}

// release lets all warps go on when every live warp waits at a barrier of the
// given kind.
func (g *gang) release(k eventKind) bool {
	n := 0
	for _, b := range g.blocks {
		for _, w := range b.warps {
			if w.done {
				continue
			}
			if w.wait.kind != k {
				return false
			}
			n++
		}
	}
	if k == evGrid {
		g.epoch = g.blocks[0].r.epoch.Add(1)
	}
	for _, b := range g.blocks {
		for _, w := range b.warps {
			if !w.done {
				w.wait = event{kind: evStep}
			}
		}
		if b.races {
			joinClocks(b.warps)
		}
	}
	return n > 0
}

// deadlock reports who waits for what.
func (g *gang) deadlock() {
	for _, b := range g.blocks {
		type group struct {
			what  string
			st    *site
			warps []int
		}
		var groups []*group
		for _, w := range b.warps {
			if w.done {
				continue
			}
			what := ""
			switch e := w.wait; e.kind {
			case evBarrier:
				what = "a barrier of all threads"
				if e.n != 0 {
					what = fmt.Sprintf("barrier %d of %d threads", e.id, e.n)
				}
			case evMbar:
				what = e.mbar.describe(e.parity)
			case evGrid:
				what = "a barrier of the whole grid"
			case evCluster:
				what = "a barrier of the cluster"
			}
			st := w.wait.st
			if st == nil {
				st = &site{}
			}
			if n := len(groups); n > 0 && groups[n-1].what == what && groups[n-1].st == st {
				groups[n-1].warps = append(groups[n-1].warps, w.id)
				continue
			}
			groups = append(groups, &group{what, st, []int{w.id}})
		}
		if len(groups) == 0 {
			continue
		}
		var parts []string
		for _, gr := range groups {
			at := ""
			if gr.st.span.IsValid() {
				at = fmt.Sprintf(" (line %d)", gr.st.span.Line())
			}
			parts = append(parts, fmt.Sprintf("threads %d to %d wait for %s%s", gr.warps[0]*lanes, gr.warps[len(gr.warps)-1]*lanes+lanes-1, gr.what, at))
		}
		w := b.warps[groups[0].warps[0]]
		w.find(Deadlock, groups[0].st, 0, "%s", strings.Join(parts, "; "))
		b.r.stop.Store(true)
		panic(&Error{Span: groups[0].st.span, Msg: "deadlock: " + strings.Join(parts, "; ")})
	}
}

// barrier makes the warp wait for n threads (0: the whole block) at the barrier
// of a number.
func (w *warp) barrier(id, n int, st *site) {
	if w.b != nil && len(w.b.warps) == 1 && n <= lanes {
		if w.b.races {
			w.tick()
		}
		return
	}
	w.yield(event{kind: evBarrier, id: id, n: n, st: st, mask: w.mask})
}
