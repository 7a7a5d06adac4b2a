package interp

import (
	"math/bits"

	"lowertrace/internal/ir"
)

// asyncState is the cp.async copies of a warp's threads: groups committed and
// not waited for, oldest first, and copies not committed yet.
type asyncState struct {
	groups [][]asyncCopy
	open   []asyncCopy
}

// asyncCopy is bytes on their way to memory. They were read when the copy was
// issued: the source may not change meanwhile.
type asyncCopy struct {
	m    *mem
	at   int64
	data []byte
	lane int8
	st   *site
}

// issue puts a copy on its way.
func (w *warp) issue(a asyncCopy) {
	if a.m.pending != nil {
		a.m.mark(a.at, int64(len(a.data)), 1)
	}
	w.async.open = append(w.async.open, a)
}

// land performs a copy.
func (w *warp) land(a asyncCopy) {
	copy(a.m.data[a.at:], a.data)
	if a.m.init != nil {
		setBytes(a.m.init[a.at:][:len(a.data)])
	}
	if a.m.pending != nil {
		a.m.mark(a.at, int64(len(a.data)), ^byte(0))
	}
}

// mark adds to the count of copies on their way to each byte.
func (m *mem) mark(at, n int64, d byte) {
	for i := at; i < at+n; i++ {
		m.pending[i] += d
	}
}

func (w *warp) commitGroup() {
	w.async.groups = append(w.async.groups, w.async.open)
	w.async.open = nil
}

// waitGroup lands all but the newest n groups.
func (w *warp) waitGroup(n int) {
	for len(w.async.groups) > max(n, 0) {
		for _, a := range w.async.groups[0] {
			w.land(a)
			w.landed(a)
		}
		w.async.groups = w.async.groups[1:]
	}
}

// finishAsync completes what a finished thread left under way.
func (w *warp) finishAsync() {
	w.commitGroup()
	w.waitGroup(0)
	w.bulkCommit()
	w.bulkWait(0)
	w.settle()
}

// cpAsync compiles ptx_cp_async(destination, source, elements[, condition]);
// where the condition does not hold zeros are copied.
func (c *comp) cpAsync(e *ir.Call) stmtFn {
	dt, ok := ir.Pointee(e.Args[0])
	if !ok {
		c.fail("cp.async to untyped memory")
	}
	n, ok := ir.AsInt(e.Args[2])
	if !ok || n <= 0 || n > 128 {
		c.fail("cp.async of a size that is not constant")
	}
	el := elemOf(dt)
	size := int64(el.span(int(n) * max(int(dt.Lanes), 1)))
	// Before vectorization a copy moves one element.
	if c.sync == SyncExplicit && size != 4 && size != 8 && size != 16 {
		c.fail("cp.async of %d bytes (4, 8 or 16)", size)
	}
	dst, src := c.vecI(c.expr(e.Args[0])), c.vecI(c.expr(e.Args[1]))
	var cond func(*warp) []int64
	if len(e.Args) > 3 {
		cond = c.vecI(c.expr(e.Args[3]))
	}
	ds, ss := c.site(pointeeName(e.Args[0])), c.site(pointeeName(e.Args[1]))
	c.noteAccess(int(size))
	return func(w *warp) {
		on := w.mask
		if cond != nil {
			on &= maskOf(cond(w))
		}
		var from [lanes][]byte
		if on != 0 {
			m, ok := w.addrs(src(w), on, ss)
			if m != nil {
				ok = w.access(m, ok, size, accRead, ss)
				for t := ok; t != 0; t &= t - 1 {
					l := bits.TrailingZeros32(t)
					from[l] = m.data[w.offs[l]:][:size]
				}
			}
		}
		m, mask := w.addrs(dst(w), w.mask, ds)
		if m == nil {
			return
		}
		mask = w.accessAsync(m, mask, size, ds)
		buf := make([]byte, lanes*size)
		for t := mask; t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			b := buf[int64(l)*size:][:size:size]
			copy(b, from[l])
			w.issue(asyncCopy{m, w.offs[l], b, int8(l), ds})
		}
	}
}

// accessAsync checks the destination of an asynchronous copy. The bytes do not
// count as written before the copy lands.
func (w *warp) accessAsync(m *mem, mask uint32, n int64, st *site) uint32 {
	init := m.init
	m.init = nil
	w.asyncWrite = true
	ok := w.access(m, mask, n, accWrite, st)
	w.asyncWrite = false
	m.init = init
	return ok
}
