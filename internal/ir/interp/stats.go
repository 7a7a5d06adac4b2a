package interp

import (
	"math/bits"
	"sort"
	"sync"

	"lowertrace/internal/ir"
)

// Stats is what Options.Stats asks for: what a launch did to memory and how
// much it computed. All numbers are sums over the blocks that ran.
type Stats struct {
	// Sites are the places that access memory that threads share, in order of
	// the text.
	Sites []SiteStats
	// Barriers are the barriers of whole blocks, in order of the text.
	Barriers []BarrierStats
	// FloatOps are floating-point operations of single threads, MatrixOps those
	// of matrix instructions and T.gemm (a multiplication and an addition
	// count as two).
	FloatOps, MatrixOps int64

	mu       sync.Mutex
	sites    map[siteKey]*SiteStats
	barriers map[ir.Span]*BarrierStats
}

// SiteStats is one place's accesses.
type SiteStats struct {
	Span   ir.Span
	Buffer string
	Scope  string
	Access string // "read", "write" or "atomic"
	// Requests are accesses of a warp, Bytes what its active threads moved.
	Requests, Bytes int64
	// Sectors are the 32-byte pieces of global memory that the requests
	// touched, IdealSectors the fewest that could hold as many bytes.
	Sectors, IdealSectors int64
	// Wavefronts are the passes through the banks of shared memory that the
	// requests took, IdealWavefronts those they would take without conflicts.
	Wavefronts, IdealWavefronts int64
}

// BarrierStats is one barrier of whole blocks.
type BarrierStats struct {
	Span ir.Span
	// Passed counts the times a block passed it, Needed those at which it alone
	// stood between two accesses of different warps, one of them a write.
	Passed, Needed int64
}

type siteKey struct {
	span   ir.Span
	name   string
	access accessKind
}

func newStats() *Stats {
	return &Stats{sites: map[siteKey]*SiteStats{}, barriers: map[ir.Span]*BarrierStats{}}
}

// Memory geometry (CUDA C++ Programming Guide, "Compute Capabilities"): shared
// memory has 32 banks of 4 bytes; global memory moves in sectors of 32.
const (
	banks      = 32
	bankBytes  = 4
	sectorSize = 32
)

func (s *Stats) site(st *site, m *mem, kind accessKind) *SiteStats {
	k := siteKey{st.span, st.name, kind}
	x := s.sites[k]
	if x == nil {
		x = &SiteStats{Span: st.span, Buffer: st.name, Scope: m.scope, Access: kind.String()}
		s.sites[k] = x
	}
	return x
}

// record counts a warp's access of n bytes at w.offs of each lane in mask.
func (s *Stats) record(w *warp, m *mem, mask uint32, n int64, kind accessKind, st *site) {
	if m.stride != 0 || mask == 0 || w.b == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.site(st, m, kind)
	x.Requests++
	count := int64(bits.OnesCount32(mask))
	x.Bytes += count * n
	if m.scope == "global" {
		a, b := sectors(w, mask, n)
		x.Sectors += a
		x.IdealSectors += b
		return
	}
	// Requests of 8 and 16 bytes go through the banks by halves and quarters of
	// the warp.
	per := lanes
	if n > 4 {
		per = max(lanes*4/int(n), 1)
	}
	for first := 0; first < lanes; first += per {
		part := mask >> first << first
		if first+per < lanes {
			part &= 1<<(first+per) - 1
		}
		if part == 0 {
			continue
		}
		x.IdealWavefronts++
		x.Wavefronts += wavefronts(w, part, n)
	}
}

// wavefronts is the largest number of different words that lanes want from one
// bank.
func wavefronts(w *warp, mask uint32, n int64) int64 {
	var words [banks][]int64
	most := 1
	for t := mask; t != 0; t &= t - 1 {
		o := w.offs[bits.TrailingZeros32(t)]
		for x := o / bankBytes; x <= (o+n-1)/bankBytes; x++ {
			b := &words[x%banks]
			known := false
			for _, y := range *b {
				known = known || y == x
			}
			if !known {
				*b = append(*b, x)
				most = max(most, len(*b))
			}
		}
	}
	return int64(most)
}

// sectors is the number of different sectors that lanes touch, and the fewest
// that could hold the different bytes.
func sectors(w *warp, mask uint32, n int64) (got, ideal int64) {
	type span struct{ lo, hi int64 }
	var list []span
	for t := mask; t != 0; t &= t - 1 {
		o := w.offs[bits.TrailingZeros32(t)]
		list = append(list, span{o, o + n})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].lo < list[j].lo })
	last, end, distinct := int64(-1), int64(-1), int64(0)
	for _, x := range list {
		for s := max(x.lo/sectorSize, last+1); s <= (x.hi-1)/sectorSize; s++ {
			got++
			last = s
		}
		if x.hi > end {
			distinct += x.hi - max(x.lo, end)
			end = x.hi
		}
	}
	return got, (distinct + sectorSize - 1) / sectorSize
}

// bytes counts an access that is no request of a warp: a tile operator, a bulk
// copy.
func (s *Stats) bytes(st *site, m *mem, n int64, kind accessKind) {
	if m.stride != 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.site(st, m, kind)
	x.Bytes += n
}

// passed counts a barrier of a block and gives its record.
func (s *Stats) passed(st *site) *BarrierStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.barriers[st.span]
	if x == nil {
		x = &BarrierStats{Span: st.span}
		s.barriers[st.span] = x
	}
	x.Passed++
	return x
}

func (s *Stats) needed(x *BarrierStats) {
	s.mu.Lock()
	x.Needed++
	s.mu.Unlock()
}

// finish puts the records in order.
func (s *Stats) finish() {
	for _, x := range s.sites {
		s.Sites = append(s.Sites, *x)
	}
	for _, x := range s.barriers {
		s.Barriers = append(s.Barriers, *x)
	}
	sort.Slice(s.Sites, func(i, j int) bool {
		a, b := &s.Sites[i], &s.Sites[j]
		if a.Span.Pos != b.Span.Pos {
			return a.Span.Pos < b.Span.Pos
		}
		if a.Buffer != b.Buffer {
			return a.Buffer < b.Buffer
		}
		return a.Access < b.Access
	})
	sort.Slice(s.Barriers, func(i, j int) bool { return s.Barriers[i].Span.Pos < s.Barriers[j].Span.Pos })
}

// countFlops counts operations of matrix instructions.
func (w *warp) countFlops(n int) {
	if s := w.r.stats; s != nil {
		s.mu.Lock()
		s.MatrixOps += int64(n)
		s.mu.Unlock()
	}
}

// counted makes a float operation of n lanes count itself.
func (c *comp) counted(v val, n int) val {
	if !c.r.opt.Stats || c.l == nil {
		return v
	}
	return v.after(func(w *warp) {
		s := w.r.stats
		s.mu.Lock()
		s.FloatOps += int64(bits.OnesCount32(w.mask) * n)
		s.mu.Unlock()
	})
}

// barrierWatch finds out which barriers of a block are needed: for each cell the
// last write and read, and how many barriers the block had passed then.
type barrierWatch struct {
	passed []*BarrierStats // in order
	marked int             // the last one was found needed
	cells  map[*mem][]watchCell
	shift  uint
}

type watchCell struct {
	write, read     int32 // barriers passed + 1; 0: never
	writer, reader  int16
	readers, atomic bool // several warps read; the write was atomic
}

func newBarrierWatch(gran int) *barrierWatch {
	return &barrierWatch{cells: map[*mem][]watchCell{}, shift: uint(bits.TrailingZeros(uint(max(gran, 1)))), marked: -1}
}

func (b *barrierWatch) touch(w *warp, m *mem, mask uint32, n int64, kind accessKind) {
	cells := b.cells[m]
	if cells == nil {
		cells = make([]watchCell, len(m.data)>>b.shift+1)
		b.cells[m] = cells
	}
	now, me := int32(len(b.passed)+1), int16(w.id)
	last := len(b.passed) - 1
	for t := mask; t != 0; t &= t - 1 {
		o := w.offs[bits.TrailingZeros32(t)]
		for i := o >> b.shift; i <= (o+n-1)>>b.shift; i++ {
			c := &cells[i]
			clash := c.write == now-1 && c.write != 0 && c.writer != me && !(c.atomic && kind == accAtomic)
			if kind != accRead {
				clash = clash || c.read == now-1 && c.read != 0 && (c.reader != me || c.readers)
			}
			if clash && last >= 0 && b.marked < last {
				b.marked = last
				w.r.stats.needed(b.passed[last])
			}
			if kind == accRead {
				if c.read != now {
					c.read, c.reader, c.readers = now, me, false
				}
				c.readers = c.readers || c.reader != me
			} else {
				c.write, c.writer, c.atomic = now, me, kind == accAtomic
			}
		}
	}
}
