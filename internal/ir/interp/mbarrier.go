package interp

import (
	"fmt"
	"math/bits"

	"lowertrace/internal/ir"
)

// mbar is an mbarrier (PTX ISA, "mbarrier"): a phase completes when as many
// arrivals as expected have come and all expected bytes have been copied.
type mbar struct {
	name    string
	count   int // arrivals of a phase
	pending int // arrivals still missing
	tx      int64
	phase   int
	// open are copies of the current phase, done those of completed phases
	// that nobody waited for yet: their bytes land at the wait.
	open, done []asyncCopy
	vc, doneVC []uint32
	inited     bool
}

// mbarAt is the barrier at an address of shared memory.
func (w *warp) mbarAt(p int64, st *site) *mbar {
	if w.b.mbars == nil {
		w.b.mbars = map[int64]*mbar{}
	}
	b := w.b.mbars[p]
	if b == nil {
		b = &mbar{name: st.name}
		if m := w.memOf(p); m != nil {
			b.name = fmt.Sprintf("%s[%d]", m.name, offOf(p)/8)
		}
		w.b.mbars[p] = b
	}
	return b
}

func (m *mbar) init(n int) {
	m.count, m.pending, m.tx, m.phase, m.inited = n, n, 0, 0, true
	m.open, m.done = nil, nil
}

// arrive counts n arrivals of a warp.
func (w *warp) mbarArrive(m *mbar, n int, st *site) {
	if !m.inited {
		w.find(BadOperand, st, firstLane(w.mask), "arrival at mbarrier %s, which is not initialized", m.name)
		return
	}
	if n > m.pending {
		w.find(BadOperand, st, firstLane(w.mask), "%d arrivals at mbarrier %s, of which only %d are expected", n, m.name, m.pending)
		n = m.pending
	}
	m.pending -= n
	if w.b.races {
		m.vc = joined(m.vc, w.vc)
		w.tick()
	}
	m.try()
}

// try completes the phase when nothing is missing.
func (m *mbar) try() {
	if !m.inited || m.pending > 0 || m.tx != 0 {
		return
	}
	m.phase++
	m.pending = m.count
	m.done = append(m.done, m.open...)
	m.open = nil
	m.doneVC = joined(m.doneVC, m.vc)
}

// expect adds to the bytes the phase waits for; complete takes away those that
// a copy brings. The bytes themselves land when the phase is waited for.
func (m *mbar) expect(n int64) { m.tx += n }

func (w *warp) mbarCopy(m *mbar, n int64, copies []asyncCopy) {
	m.open = append(m.open, copies...)
	for _, a := range copies {
		if a.m.pending != nil {
			a.m.mark(a.at, int64(len(a.data)), 1)
		}
	}
	m.tx -= n
	if w.b.races {
		m.vc = joined(m.vc, w.vc)
		w.tick()
	}
	m.try()
}

// passed reports that a wait for the completion of a phase of the given parity
// returns.
func (m *mbar) passed(parity int) bool { return m.phase&1 != parity&1 }

func (m *mbar) describe(parity int) string {
	s := fmt.Sprintf("mbarrier %s, phase of parity %d (in phase %d; %d of %d arrivals missing", m.name, parity, m.phase, m.pending, m.count)
	if m.tx != 0 {
		s += fmt.Sprintf(", %d bytes missing", m.tx)
	}
	if !m.inited {
		s += ", not initialized"
	}
	return s + ")"
}

// mbarWait waits for a phase and lets its copies land.
func (w *warp) mbarWait(m *mbar, parity int, st *site) {
	for !m.passed(parity) {
		w.yield(event{kind: evMbar, mbar: m, parity: parity, st: st, mask: w.mask})
	}
	for _, a := range m.done {
		w.land(a)
	}
	m.done = nil
	if w.b.races {
		w.vc = joinInto(w.vc, m.doneVC)
	}
}

// mbarRef compiles a reference to an mbarrier: a place in a barrier buffer or a
// pointer.
func (c *comp) mbarRef(e ir.Expr) (func(*warp) *mbar, *site) {
	name := pointeeName(e)
	st := c.site(name)
	var p func(*warp) int64
	if l, ok := e.(*ir.BufferLoad); ok {
		p = c.uniI(c.addressOf(l.Buffer, l.Indices))
	} else {
		p = c.uniI(c.expr(e))
	}
	return func(w *warp) *mbar { return w.mbarAt(p(w), st) }, st
}

// barrierInit notes the arrival counts that a block's annotation gives its
// barriers; they are initialized when the block begins.
func (c *comp) barrierInit(d *ir.Dict) {
	for _, e := range d.Entries {
		v, ok := e.Key.(*ir.Var)
		if b, isBuf := e.Key.(*ir.Buffer); isBuf {
			v, ok = b.Data, true
		}
		counts, isList := e.Value.(ir.List)
		if !ok || !isList {
			continue
		}
		bi := barrierInit{v: v}
		for _, x := range counts {
			n, ok := ir.AttrInt(x)
			if !ok {
				c.cannot("a barrier with an arrival count that is not constant")
			}
			bi.counts = append(bi.counts, int(n))
		}
		c.l.barriers = append(c.l.barriers, bi)
	}
}

type barrierInit struct {
	v      *ir.Var
	counts []int
}

// initBarriers initializes the barriers that annotations declare.
func (b *block) initBarriers() {
	for _, bi := range b.l.barriers {
		for i, d := range b.l.shared {
			if d.v != bi.v {
				continue
			}
			for k, n := range bi.counts {
				p := makePtr(ptrShared, i, int64(k)*8)
				m := b.warps[0].mbarAt(p, &site{name: d.name})
				m.init(n)
			}
		}
	}
}

// mbarCall compiles the operators on mbarriers; nil for others.
func (c *comp) mbarCall(e *ir.Call) stmtFn {
	switch e.Op.Name {
	case "ptx_init_barrier_thread_count":
		ref, _ := c.mbarRef(e.Args[0])
		n := c.uniI(c.expr(e.Args[1]))
		return func(w *warp) { ref(w).init(int(n(w))) }
	case "ptx_arrive_barrier":
		if len(e.Args) > 1 {
			c.cannot("an arrival at another block's barrier")
		}
		ref, st := c.mbarRef(e.Args[0])
		return func(w *warp) { w.mbarArrive(ref(w), bits.OnesCount32(w.mask), st) }
	case "ptx_arrive_barrier_expect_tx":
		ref, st := c.mbarRef(e.Args[0])
		n := c.uniI(c.expr(e.Args[1]))
		return func(w *warp) {
			m, k := ref(w), bits.OnesCount32(w.mask)
			m.expect(n(w) * int64(k))
			w.mbarArrive(m, k, st)
		}
	case "mbarrier_expect_tx":
		ref, _ := c.mbarRef(e.Args[0])
		n := c.uniI(c.expr(e.Args[1]))
		return func(w *warp) { ref(w).expect(n(w) * int64(bits.OnesCount32(w.mask))) }
	case "mbarrier_wait_parity":
		ref, st := c.mbarRef(e.Args[0])
		p := c.uniI(c.expr(e.Args[1]))
		return func(w *warp) { w.mbarWait(ref(w), int(p(w)), st) }
	case "ptx_cp_async_barrier_noinc":
		// The arrival happens when the thread's earlier copies are done.
		ref, st := c.mbarRef(e.Args[0])
		return func(w *warp) {
			m := ref(w)
			for _, g := range w.async.groups {
				m.open = append(m.open, g...)
			}
			m.open = append(m.open, w.async.open...)
			w.async = asyncState{}
			w.mbarArrive(m, bits.OnesCount32(w.mask), st)
		}
	}
	return nil
}

// barrierCopy compiles a tile copy that reports to an mbarrier: it expects its
// bytes there; with emit_arrive one arrival is counted too.
func (c *comp) barrierCopy(e *ir.Call, src, dst *region, bar ir.Attr) stmtFn {
	be, ok := bar.(ir.Expr)
	if !ok {
		c.fail("a copy whose barrier is no place")
	}
	ref, st := c.mbarRef(be)
	arrive, _ := ir.AttrInt(argOf(e, "emit_arrive"))
	return c.collective(func(w *warp) {
		w.mask = 1
		s, d := src.view(w, 0), dst.view(w, 0)
		if s == nil || d == nil {
			return
		}
		if s.n != d.n {
			panic(&Error{Span: dst.st.span, Msg: "a copy between regions of different sizes"})
		}
		m := ref(w)
		n := d.n * int64(dst.el.size)
		m.expect(n)
		w.mbarCopy(m, n, d.copies(w, s.read(w).convertTo(src.el.t, dst.el.t)))
		if arrive != 0 {
			w.mbarArrive(m, 1, st)
		}
	})
}
