package interp

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"lowertrace/internal/ir"
)

// lanes is the width of a warp.
const lanes = 32

// Pointers: kind in the top bits, the number of an allocation, a byte offset.
const (
	ptrKindShift = 60
	ptrIDShift   = 36
	ptrOffMask   = 1<<ptrIDShift - 1
	ptrIDMask    = 1<<(ptrKindShift-ptrIDShift) - 1

	ptrGlobal = 1
	ptrShared = 2
	ptrLocal  = 3
	ptrObject = 4 // tensor maps and packed arguments: see host.go
)

func makePtr(kind, id int, off int64) int64 {
	return int64(kind)<<ptrKindShift | int64(id)<<ptrIDShift | off&ptrOffMask
}

// offOf is the byte offset of a pointer, which may be negative.
func offOf(p int64) int64 { return p << (64 - ptrIDShift) >> (64 - ptrIDShift) }

// mem is one allocation.
type mem struct {
	name  string
	scope string
	data  []byte
	// init holds a 1 for each byte written; nil: all are.
	init []byte
	// stride is the bytes of one thread's part of local memory, 0 for memory
	// that threads share.
	stride int64
	// shadow remembers accesses for race detection; nil: off.
	shadow *shadow
	// pending counts, for each cell, asynchronous copies on their way.
	pending []byte
	// written marks the bytes written, when blocks are sampled.
	written []byte
	// sums counts the additions of 16-bit floats by atomics to each element;
	// nil: there are none. Atomics run in one worker.
	sums []int32
	// global remembers which block touched what, for races between blocks.
	global *globalShadow
	id     int
}

// poison fills memory before it is written: a NaN of every float format but the
// finite ones, -1 as an integer.
const poison = 0xff

func newMem(name, scope string, size int64, track bool) *mem {
	m := &mem{name: name, scope: scope, data: make([]byte, size)}
	for i := range m.data {
		m.data[i] = poison
	}
	if track {
		m.init = make([]byte, size)
	}
	return m
}

// run is the state of one Run.
type run struct {
	ctx      context.Context
	opt      *Options
	mod      *ir.IRModule
	col      collector
	mu       sync.Mutex
	globals  []*mem
	objects  []any
	used     int64
	progs    map[string]*program
	safe     map[*ir.Var]float64 // values of reads outside global buffers
	atomics  map[string]bool     // buffers addressed by the result of an atomic
	stats    *Stats
	launches int  // kernels of the module
	sampled  bool // not all blocks ran
	sync     SyncMode
	bounds   BoundsMode
	stop     atomic.Bool
	epoch    atomic.Int32 // of accesses to global memory: see globalShadow
	printMu  sync.Mutex
}

func (r *run) reserve(n int64, span ir.Span) {
	if u := atomic.AddInt64(&r.used, n); u > r.opt.MaxMemory && n > 0 {
		panic(&Error{span, fmt.Sprintf("buffers take more than the limit of %d bytes", r.opt.MaxMemory), true})
	}
}

func (r *run) addGlobal(m *mem) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.id = len(r.globals)
	r.globals = append(r.globals, m)
	return makePtr(ptrGlobal, m.id, 0)
}

func (r *run) addObject(o any) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects = append(r.objects, o)
	return makePtr(ptrObject, len(r.objects)-1, 0)
}

// warp is the state of 32 threads. On the host there is one warp of one lane.
type warp struct {
	r  *run
	b  *block // nil on the host
	id int    // in its block

	mask uint32 // lanes that execute now
	off  uint32 // lanes that left a loop body or the function
	ret  uint32 // lanes that left the function
	full uint32 // lanes that exist

	// Registers: temporaries (I, F), vector variables (VI, VF), scalar
	// variables (U, UF).
	I, VI, U  []int64
	F, VF, UF []float64
	locals    []*mem
	offs      [lanes]int64
	thread    [3][]int64 // thread indices by lane

	curLoop *loopFrame
	coll    bool // performs a collective statement
	rng     *generators
	steps   int64

	// Scheduling.
	pos     []int32
	posLen  int
	resume  func() (event, bool)
	cancel  func()
	yieldTo func(event) bool
	wait    event
	done    bool
	leader  bool

	// Asynchronous copies of this warp's threads not yet waited for.
	async      asyncState
	asyncWrite bool // the access under way is made by a copy
	wg         wgmmaState
	bulk       [][]bulkStore // groups of stores to global memory under way
	bulkOpen   []bulkStore
	maps       map[int]int64 // tensor maps made in the kernel, by place
	suspects   []suspect     // writes that may turn out to race
	vc         []uint32      // happens-before clock, two entries per warp of the block: see races.go
}

// abort unwinds a warp whose run was stopped.
type abort struct{}

func (w *warp) step(span ir.Span) {
	w.steps++
	if w.steps > w.r.opt.MaxSteps {
		panic(&Error{span, fmt.Sprintf("more than %d statements executed by one warp", w.r.opt.MaxSteps), true})
	}
	if w.steps&1023 == 0 && w.r.stop.Load() {
		panic(abort{})
	}
	if w.steps&0xffff == 0 && w.r.ctx.Err() != nil {
		panic(&Error{span, "interrupted: " + w.r.ctx.Err().Error(), true})
	}
}

// memOf is the allocation a pointer points into; nil when it points nowhere.
func (w *warp) memOf(p int64) *mem {
	id := int(p >> ptrIDShift & ptrIDMask)
	var list []*mem
	switch p >> ptrKindShift {
	case ptrGlobal:
		list = w.r.globals
	case ptrShared:
		if w.b != nil {
			list = w.b.shared
		}
	case ptrLocal:
		list = w.locals
	}
	if id < len(list) {
		return list[id]
	}
	return nil
}

// object is what an object pointer points to.
func (w *warp) object(p int64) any {
	id := int(p >> ptrIDShift & ptrIDMask)
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	if p>>ptrKindShift == ptrObject && id < len(w.r.objects) {
		return w.r.objects[id]
	}
	return nil
}

func (w *warp) block() [3]int {
	if w.b == nil {
		return [3]int{}
	}
	return w.b.idx
}

// find reports a finding at the given lane (-1: none in particular).
func (w *warp) find(k Kind, st *site, lane int, format string, args ...any) {
	t := -1
	lin := 0
	if w.b != nil {
		lin = w.b.linear
		if lane >= 0 {
			t = w.id*lanes + lane
		}
	}
	w.r.col.add(Finding{Kind: k, Span: st.span, Msg: fmt.Sprintf(format, args...), Block: w.block(), Thread: t}, st.name, lin)
}

// site is a place in the program that accesses memory.
type site struct {
	span ir.Span
	name string // of the buffer
	id   int
}

type accessKind uint8

const (
	accRead accessKind = iota
	accWrite
	accAtomic
)

func (k accessKind) String() string { return [...]string{"read", "write", "atomic"}[k] }

// access checks that n bytes at each w.offs[lane] of the lanes in mask may be
// accessed, and returns the lanes that may.
func (w *warp) access(m *mem, mask uint32, n int64, kind accessKind, st *site) uint32 {
	if len(w.suspects) > 0 {
		w.settle()
	}
	lo, hi := int64(0), int64(len(m.data))
	ok := mask
	for t := mask; t != 0; t &= t - 1 {
		l := bits.TrailingZeros32(t)
		if m.stride != 0 {
			if w.coll {
				lo, hi = 0, m.stride
			} else {
				lo = int64(l) * m.stride
				hi = lo + m.stride
			}
		}
		o := w.offs[l]
		if o < lo || o+n > hi {
			ok &^= 1 << l
			what := "read"
			if kind != accRead {
				what = "write"
			}
			w.find(OutOfBounds, st, l, "%s of %d bytes at byte %d of %s %q, which has %d bytes", what, n, o-lo, m.scope, st.name, hi-lo)
			continue
		}
		if n > 1 && m.stride == 0 && (o-lo)&(min(n, 16)-1) != 0 && n&(n-1) == 0 {
			w.find(Misaligned, st, l, "access of %d bytes at byte %d of %s %q", n, o-lo, m.scope, st.name)
		}
		if m.pending != nil && w.checkPending(m, o, n, kind, st, l) {
			continue
		}
		if kind != accWrite && m.init != nil && !allSet(m.init[o:o+n]) {
			w.find(Unwritten, st, l, "read of %s %q at byte %d, never written", m.scope, st.name, o-lo)
		}
	}
	if m.global != nil {
		w.checkGlobal(m, ok, n, kind, st)
	}
	if m.shadow != nil {
		w.checkRaces(m, ok, n, kind, st)
	}
	if w.r.stats != nil {
		w.r.stats.record(w, m, ok, n, kind, st)
		if w.b != nil && m.stride == 0 && m.scope != "global" {
			w.b.watch.touch(w, m, ok, n, kind)
		}
	}
	if kind != accRead && m.written != nil {
		for t := ok; t != 0; t &= t - 1 {
			setBytes(m.written[w.offs[bits.TrailingZeros32(t)]:][:n])
		}
	}
	if kind != accRead && m.init != nil {
		for t := ok; t != 0; t &= t - 1 {
			setBytes(m.init[w.offs[bits.TrailingZeros32(t)]:][:n])
		}
	}
	return ok
}

func allSet(b []byte) bool {
	for _, x := range b {
		if x == 0 {
			return false
		}
	}
	return true
}

func setBytes(b []byte) {
	for i := range b {
		b[i] = 1
	}
}

// addrs turns per-lane pointers into offsets in one allocation. Lanes that point
// into another allocation than the first, or nowhere, are dropped with a
// finding.
func (w *warp) addrs(p []int64, mask uint32, st *site) (*mem, uint32) {
	var m *mem
	key := int64(0)
	for t := mask; t != 0; t &= t - 1 {
		l := bits.TrailingZeros32(t)
		a := p[l]
		if m == nil {
			if m = w.memOf(a); m == nil {
				w.find(OutOfBounds, st, l, "access through a pointer to nothing")
				mask &^= 1 << l
				continue
			}
			key = a >> ptrIDShift
		} else if a>>ptrIDShift != key {
			w.find(BadOperand, st, l, "pointers of one warp into different allocations")
			mask &^= 1 << l
			continue
		}
		off := offOf(a)
		if m.stride != 0 && !w.coll {
			off += int64(l) * m.stride
		}
		w.offs[l] = off
	}
	return m, mask
}
