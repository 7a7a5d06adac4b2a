package interp

import (
	"bytes"
	"math/bits"
	"strconv"
	"sync"
)

// Races in shared memory are found with vector clocks, one component for each
// warp: a warp's own component counts the points at which others may learn of
// what it did. Barriers join the clocks of those that meet; an mbarrier carries
// the clocks of those that arrived to those that wait. Two accesses to a cell by
// different warps, one of them a write, race when neither is before the other.
// Lanes of one warp are taken to run in lockstep, and a write that leaves memory
// as it was is not reported.

// The second half of a clock says, for each warp, up to where its writes are known
// to have been followed by a fence.proxy.async: what threads write by ordinary
// means, wgmma and bulk copies see only beyond such a fence (PTX ISA, "Async
// proxy").

// shadow remembers the last write and the last reads of each cell of a shared
// allocation.
type shadow struct {
	shift uint
	warps int
	write []lastWrite
	reads []uint32 // clock of each warp's last read, by cell
	where []*site  // of the last read, by cell
}

type lastWrite struct {
	clock  uint32
	warp   int16
	lane   int8
	atomic bool
	// async: by an asynchronous copy. Those of cp.async count too: the
	// multistage pipelines of the field feed wgmma with them without a fence.
	async bool
	st    *site
}

func newShadow(size int64, gran, warps int) *shadow {
	sh := uint(bits.TrailingZeros(uint(max(gran, 1))))
	n := (size + 1<<sh - 1) >> sh
	return &shadow{shift: sh, warps: warps, write: make([]lastWrite, n), reads: make([]uint32, n*int64(warps)), where: make([]*site, n)}
}

// suspect is a write that races unless it changes nothing.
type suspect struct {
	m    *mem
	at   int64
	old  []byte
	f    Finding
	name string
}

func joined(a, b []uint32) []uint32 {
	c := make([]uint32, max(len(a), len(b)))
	copy(c, a)
	for i, x := range b {
		c[i] = max(c[i], x)
	}
	return c
}

func joinInto(a, b []uint32) []uint32 {
	for i, x := range b {
		a[i] = max(a[i], x)
	}
	return a
}

// tick begins a new point in a warp's time.
func (w *warp) tick() {
	w.settle()
	w.vc[w.id]++
}

// joinClocks orders what the warps did before after-wards.
func joinClocks(ws []*warp) {
	var j []uint32
	for _, w := range ws {
		w.settle()
		j = joined(j, w.vc)
	}
	for _, w := range ws {
		copy(w.vc, j)
		w.vc[w.id]++
	}
}

// settle looks at what became of suspects.
func (w *warp) settle() {
	for _, s := range w.suspects {
		if !bytes.Equal(s.old, s.m.data[s.at:s.at+int64(len(s.old))]) {
			lin := 0
			if w.b != nil {
				lin = w.b.linear
			}
			w.r.col.add(s.f, s.name, lin)
		}
	}
	w.suspects = w.suspects[:0]
}

// checkRaces looks at n bytes at w.offs of each lane in mask.
func (w *warp) checkRaces(m *mem, mask uint32, n int64, kind accessKind, st *site) {
	for t := mask; t != 0; t &= t - 1 {
		l := bits.TrailingZeros32(t)
		w.touchBy(m, w.offs[l], n, kind, st, l, w.asyncWrite)
	}
}

// asyncRead is checkRaces for a read by a matrix instruction.
func (w *warp) asyncRead(m *mem, at, n int64, st *site) {
	w.touchBy(m, at, n, accRead, st, firstLane(w.full), true)
}

// fence is fence.proxy.async: what happened before is seen by the async proxy.
func (w *warp) fence() {
	if !w.b.races {
		return
	}
	n := len(w.b.warps)
	for u := range n {
		w.vc[n+u] = max(w.vc[n+u], w.vc[u])
	}
	w.tick()
}

func (w *warp) touchBy(m *mem, at, n int64, kind accessKind, st *site, lane int, async bool) {
	s := m.shadow
	me := int16(w.id)
	now := w.vc[w.id]
	for c := at >> s.shift; c <= (at+n-1)>>s.shift; c++ {
		lw := &s.write[c]
		if lw.clock != 0 && lw.warp != me && lw.clock > w.vc[lw.warp] && !(lw.atomic && kind == accAtomic) {
			w.race(m, at, n, kind, st, lane, lw.st, int(lw.warp)*lanes+int(lw.lane), "wrote")
		}
		if async && kind == accRead && lw.clock != 0 && !lw.async && lw.clock > w.vc[len(w.b.warps)+int(lw.warp)] {
			where := ""
			if lw.st != nil && lw.st.span.IsValid() {
				where = " (line " + strconv.Itoa(lw.st.span.Line()) + ")"
			}
			w.find(ProxyFence, st, lane, "the asynchronous proxy reads %s %q, which was written%s without a fence.proxy.async since", m.scope, st.name, where)
		}
		if kind == accRead {
			s.reads[c*int64(s.warps)+int64(me)] = now
			s.where[c] = st
			continue
		}
		for u, clk := range s.reads[c*int64(s.warps):][:s.warps] {
			if u != w.id && clk > w.vc[u] {
				w.race(m, at, n, kind, st, lane, s.where[c], u*lanes, "reads")
				break
			}
		}
		*lw = lastWrite{now, me, int8(lane), kind == accAtomic, async, st}
	}
}

// race reports a race, at once for a read and when a write has been made for
// a write.
func (w *warp) race(m *mem, at, n int64, kind accessKind, st *site, lane int, other *site, thread int, verb string) {
	msg := kind.String() + " of " + m.scope + " \"" + st.name + "\" without a barrier after a thread of warp " + strconv.Itoa(thread/lanes) + " " + verb + " it"
	if other != nil && other.span.IsValid() {
		msg += " (line " + strconv.Itoa(other.span.Line()) + ")"
	}
	f := Finding{Kind: SharedRace, Span: st.span, Msg: msg, Block: w.block(), Thread: w.id*lanes + lane}
	if kind == accRead {
		w.r.col.add(f, st.name, w.b.linear)
		return
	}
	w.suspects = append(w.suspects, suspect{m, at, bytes.Clone(m.data[at : at+n]), f, st.name})
}

// sameWrites reports lanes of one store that write different values to one
// place: which of them stays is undefined.
func (w *warp) sameWrites(m *mem, mask uint32, st *site, differ func(l, i int) bool) {
	if m.shadow == nil && m.global == nil {
		return
	}
	for t := mask; t != 0; t &= t - 1 {
		l := bits.TrailingZeros32(t)
		for u := t & (t - 1); u != 0; u &= u - 1 {
			i := bits.TrailingZeros32(u)
			if w.offs[l] == w.offs[i] && differ(l, i) {
				k := SharedRace
				if m.global != nil {
					k = GlobalRace
				}
				w.find(k, st, i, "threads %d and %d of one warp write different values to one element of %s %q", w.id*lanes+l, w.id*lanes+i, m.scope, st.name)
				return
			}
		}
	}
}

// landed records the writes of a copy when its issuer has waited for it.
func (w *warp) landed(a asyncCopy) {
	if a.m.shadow == nil {
		return
	}
	s := a.m.shadow
	for c := a.at >> s.shift; c <= (a.at+int64(len(a.data))-1)>>s.shift; c++ {
		s.write[c] = lastWrite{w.vc[w.id], int16(w.id), a.lane, false, true, a.st}
	}
}

// checkPending reports an access to bytes that an asynchronous copy is on its
// way to.
func (w *warp) checkPending(m *mem, at, n int64, kind accessKind, st *site, lane int) bool {
	for _, p := range m.pending[at : at+n] {
		if p != 0 {
			what := "read"
			if kind != accRead {
				what = "write"
			}
			w.find(AsyncRace, st, lane, "%s of %s %q at byte %d before the asynchronous copy to it was waited for", what, m.scope, st.name, at)
			return true
		}
	}
	return false
}

// checkCopies records bulk copies as writes of the thread that issues them.
func (w *warp) checkCopies(list []asyncCopy) {
	for _, a := range list {
		if a.m.pending != nil {
			w.checkPending(a.m, a.at, int64(len(a.data)), accWrite, a.st, int(a.lane))
		}
		if a.m.shadow != nil {
			w.touchBy(a.m, a.at, int64(len(a.data)), accWrite, a.st, int(a.lane), true)
			// The bytes change later: nothing can excuse a race.
			for _, s := range w.suspects {
				w.r.col.add(s.f, s.name, w.b.linear)
			}
			w.suspects = w.suspects[:0]
		}
	}
}

// bulkRead records the reads of a bulk store.
func (w *warp) bulkRead(m *mem, at, n int64, st *site) {
	if m.shadow != nil && at >= 0 && n > 0 && at+n <= int64(len(m.data)) {
		w.touchBy(m, at, n, accRead, st, firstLane(w.mask), true)
	}
}

// globalShadow remembers which block last wrote and read each cell of an array.
// Blocks of one launch are not ordered, but by a barrier of the grid: epochs
// count those and launches.
type globalShadow struct {
	mu    sync.Mutex
	shift uint
	cells []globalCell
}

type globalCell struct {
	writer, reader int32 // block + 1; 0 none
	wEpoch, rEpoch int32
	atomic, many   bool
}

// maxShadowCells bounds the arrays whose accesses are remembered: a cell takes
// 20 bytes. Races between blocks in larger arrays are not looked for.
const maxShadowCells = 1 << 23

func newGlobalShadow(n, elem int) *globalShadow {
	if n/max(elem, 1) > maxShadowCells {
		return nil
	}
	sh := uint(bits.TrailingZeros(uint(max(elem, 1))))
	return &globalShadow{shift: sh, cells: make([]globalCell, (n+1<<sh-1)>>sh)}
}

func (w *warp) checkGlobal(m *mem, mask uint32, n int64, kind accessKind, st *site) {
	if w.b == nil {
		return
	}
	m.global.mu.Lock()
	defer m.global.mu.Unlock()
	for t := mask; t != 0; t &= t - 1 {
		l := bits.TrailingZeros32(t)
		w.globalCells(m, w.offs[l], n, kind, st, l)
	}
}

// globalAccess is checkGlobal for a range that no single lane accesses.
func (w *warp) globalAccess(m *mem, at, n int64, kind accessKind, st *site, lane int) {
	if w.b == nil {
		return
	}
	m.global.mu.Lock()
	defer m.global.mu.Unlock()
	w.globalCells(m, at, n, kind, st, lane)
}

func (w *warp) globalCells(m *mem, at, n int64, kind accessKind, st *site, lane int) {
	g := m.global
	me, epoch := int32(w.b.linear+1), w.b.gang.epoch
	for c := at >> g.shift; c <= (at+n-1)>>g.shift; c++ {
		x := &g.cells[c]
		if x.wEpoch != epoch {
			x.writer, x.atomic = 0, false
		}
		if x.rEpoch != epoch {
			x.reader, x.many = 0, false
		}
		if x.writer != 0 && x.writer != me && !(x.atomic && kind == accAtomic) {
			w.globalRace(m, at, n, kind, st, lane, "wrote", int(x.writer-1))
		}
		if kind == accRead {
			x.many = x.many || x.reader != 0 && x.reader != me
			x.reader, x.rEpoch = me, epoch
			continue
		}
		if x.reader != 0 && (x.reader != me || x.many) {
			w.globalRace(m, at, n, kind, st, lane, "reads", int(x.reader-1))
		}
		x.writer, x.wEpoch, x.atomic = me, epoch, kind == accAtomic
	}
}

func (w *warp) globalRace(m *mem, at, n int64, kind accessKind, st *site, lane int, verb string, block int) {
	t := -1
	if lane >= 0 {
		t = w.id*lanes + lane
	}
	f := Finding{Kind: GlobalRace, Span: st.span, Block: w.block(), Thread: t,
		Msg: kind.String() + " of global \"" + st.name + "\" that block " + strconv.Itoa(block) + " " + verb + " in the same launch"}
	if kind == accRead {
		w.r.col.add(f, st.name, w.b.linear)
		return
	}
	w.suspects = append(w.suspects, suspect{m, at, bytes.Clone(m.data[at : at+n]), f, st.name})
}
