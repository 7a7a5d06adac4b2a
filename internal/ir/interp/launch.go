package interp

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"lowertrace/internal/ir"
)

// threadAxis compiles the scope of a launch axis. The outermost one on the host
// begins a launch.
func (c *comp) threadAxis(a int, v *ir.Var, lo, ext ir.Expr, body ir.Stmt, at ir.Stmt) stmtFn {
	if lo != nil && !ir.IsConst(lo, 0) {
		c.fail("a launch axis that begins at another index than 0")
	}
	if c.l == nil {
		return c.beginLaunch(a, v, ext, body, at)
	}
	c.axis(a, v, ext)
	return c.stmt(body)
}

func (c *comp) axis(a int, v *ir.Var, ext ir.Expr) {
	if a < 0 { // the text lost the tag: axes are opened in order
		for a = 0; a < 3 && c.l.axes[a].extent != nil; a++ {
		}
		if a == 3 {
			c.fail("launch axis %s has no name", v.Name)
		}
	}
	one := false
	if ext != nil {
		e := c.expr(ext)
		if !e.uni {
			c.fail("the extent of %s is not known at launch", axisTags[a])
		}
		one = e.cst != nil && e.cst.i == 1
		if c.l.axes[a].extent == nil {
			c.l.axes[a].extent = e.ui
		}
	}
	s := c.define(v, a < 3 || one)
	c.l.axes[a].slots = append(c.l.axes[a].slots, s)
}

func (c *comp) beginLaunch(a int, v *ir.Var, ext ir.Expr, body ir.Stmt, at ir.Stmt) stmtFn {
	c.r.launches++
	l := &launch{span: c.span, sizes: &c.sizes, cluster: [3]int{1, 1, 1}}
	c.l = l
	savedSync, savedBounds := c.sync, c.bounds
	c.prescan(at)
	l.sync = c.sync
	if d, ok := c.fn.Attr("cluster_dims").(ir.List); ok {
		l.setCluster(d)
	}
	c.minAcc = 0
	c.axis(a, v, ext)
	l.body = c.stmt(body)
	if l.placeholders && !l.states(3, 4, 5) {
		l.dim[3] = ir.DefaultLaunchThreads
	}
	l.gran = max(c.minAcc, 1)
	c.l, c.sync, c.bounds, c.tile = nil, savedSync, savedBounds, false
	return func(w *warp) { w.r.launch(l, w) }
}

// prescan finds what a kernel allocates and of which stage it is.
func (c *comp) prescan(s ir.Stmt) {
	blocks := false
	ir.Walk(s, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.For:
			if s.Kind == ir.Parallel && !privateLoop(s) {
				c.tile = true
			}
		case *ir.SBlock:
			blocks = true
			c.readLayouts(s)
		case *ir.Evaluate:
			if call, ok := s.Value.(*ir.Call); ok && call.Op != nil && call.Op.Tile {
				c.tile = true
			}
		}
		return true
	})
	if c.sync == SyncAuto {
		c.sync = SyncImplied
	}
	if c.tile {
		c.sync = SyncImplied
	}
	if c.bounds == BoundsAuto {
		c.bounds = BoundsExplicit
		if blocks || c.tile {
			c.bounds = BoundsImplied
		}
	}
	ir.Walk(s, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.SBlock:
			for _, b := range s.AllocBuffers {
				c.declare(b)
			}
		case *ir.AllocBuffer:
			c.declare(s.Buffer)
		}
		if e, ok := s.(*ir.Evaluate); ok {
			if call, ok := e.Value.(*ir.Call); ok && call.Op != nil {
				c.l.note(call.Op.Name)
			}
		}
		return true
	})
	ir.WalkExprs(s, func(e ir.Expr) bool {
		if call, ok := e.(*ir.Call); ok && call.Op != nil && strings.Contains(call.Op.Name, "_ret_elem_op") {
			c.l.note(call.Op.Name)
		}
		return true
	})
}

// privateLoop reports a T.parallel loop of single threads: it stores to their
// private memory only, as the loops that finalize reducers do.
func privateLoop(f *ir.For) bool {
	stores, other := 0, false
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.BufferStore:
			stores++
			scope := s.Buffer.Scope()
			other = other || !strings.HasPrefix(scope, "local") || isFragment(scope)
		case *ir.Evaluate:
			other = true
		}
		return !other
	})
	return stores > 0 && !other
}

func (l *launch) note(op string) {
	switch {
	case strings.HasPrefix(op, "atomic"):
		l.atomic = true
	case op == "sync_grid":
		l.grid = true
	}
}

// declare gives a kernel's buffer its memory.
func (c *comp) declare(b *ir.Buffer) {
	scope := b.Scope()
	size, known := bufferBytes(b)
	switch {
	case scope == "global" || scope == "":
		if _, done := c.vars[b.Data]; done {
			return
		}
		s := c.define(b.Data, true)
		size := c.sizeOf(b)
		name, span := b.Name, c.span
		c.l.binds = append(c.l.binds, func(w *warp) {
			n := size(w)
			w.r.reserve(n, span)
			w.U[s.at] = w.r.addGlobal(newMem(name, "global", n, w.r.opt.Findings))
		})
		return
	case !known:
		c.cannot("the size of buffer %s in %s memory is not constant", b.Name, scope)
	}
	list := &c.l.shared
	switch {
	case c.isLocal(scope):
		list = &c.l.locals
	case strings.HasPrefix(scope, "shared") || isFragment(scope):
	default:
		c.cannot("buffer %s lies in unknown memory %q", b.Name, scope)
	}
	if size > DefaultMaxMemory {
		c.fail("buffer %s has %d bytes", b.Name, size)
	}
	for i := range *list {
		if d := &(*list)[i]; d.v == b.Data {
			d.size = max(d.size, size)
			return
		}
	}
	s := c.define(b.Data, true)
	*list = append(*list, memDecl{name: b.Name, scope: scope, size: size, v: b.Data, slot: s.at})
	c.free[b.Data.Name] = b.Data
	c.free[b.Name] = b.Data
}

// bufferBytes is the size of a buffer of constant shape.
func bufferBytes(b *ir.Buffer) (int64, bool) {
	n := int64(1)
	for _, e := range b.Shape {
		k, ok := ir.AsInt(e)
		if !ok || k < 0 || n > 1<<40 {
			return 0, false
		}
		n *= k
	}
	el := elemOf(b.Type)
	if el.k == kNone {
		return 0, false
	}
	return (n*int64(el.span(max(int(b.Type.Lanes), 1))) + 15) / 16 * 16, true
}

func (c *comp) sizeOf(b *ir.Buffer) func(*warp) int64 {
	var fs []func(*warp) int64
	for _, e := range b.Shape {
		fs = append(fs, c.uniI(c.expr(e)))
	}
	el := elemOf(b.Type)
	unit := int64(el.span(max(int(b.Type.Lanes), 1)))
	name, span := b.Name, c.span
	return func(w *warp) int64 {
		n := unit
		for _, f := range fs {
			k := f(w)
			if k < 0 || k > DefaultMaxMemory || n*k > DefaultMaxMemory {
				panic(&Error{Span: span, Msg: fmt.Sprintf("buffer %s takes more than %d bytes", name, DefaultMaxMemory)})
			}
			n *= k
		}
		return n
	}
}

// alloc compiles an allocation statement: local memory loses what it held.
func (c *comp) alloc(b *ir.Buffer) stmtFn {
	if c.l == nil {
		if _, done := c.vars[b.Data]; done {
			return nop
		}
		s := c.define(b.Data, true)
		size := c.sizeOf(b)
		name, span := b.Name, c.span
		return func(w *warp) {
			n := size(w)
			w.r.reserve(n, span)
			w.U[s.at] = w.r.addGlobal(newMem(name, "global", n, w.r.opt.Findings))
		}
	}
	if !c.isLocal(b.Scope()) || !c.r.opt.Findings || c.loops == 0 {
		return nop
	}
	for i, d := range c.l.locals {
		if d.v == b.Data {
			return func(w *warp) {
				m := w.locals[i]
				for l := range lanes {
					if w.mask>>l&1 != 0 {
						clear(m.init[int64(l)*m.stride:][:m.stride])
					}
				}
			}
		}
	}
	return nop
}

// launch runs a kernel's blocks.
func (r *run) launch(l *launch, host *warp) {
	for _, f := range l.binds {
		f(host)
	}
	ld := *l
	l = &ld
	l.shared = slices.Clone(l.shared)
	for a := range l.axes {
		n := int64(1)
		if f := l.axes[a].extent; f != nil {
			n = f(host)
		} else if l.dim[a] != 0 {
			n = int64(l.dim[a])
		}
		if n < 0 || n > MaxBlocks {
			panic(&Error{Span: l.span, Msg: fmt.Sprintf("%s has extent %d", axisTags[a], n)})
		}
		l.dim[a] = int(n)
	}
	threads := l.dim[3] * l.dim[4] * l.dim[5]
	if threads < 1 || threads > MaxThreads {
		panic(&Error{Span: l.span, Msg: fmt.Sprintf("a block of %d threads (at most %d)", threads, MaxThreads)})
	}
	blocks := l.dim[0] * l.dim[1] * l.dim[2]
	if blocks > MaxBlocks {
		panic(&Error{Span: l.span, Msg: fmt.Sprintf("a grid of %d blocks (at most %d)", blocks, MaxBlocks)})
	}
	bytes := int64(0)
	for i := range l.shared {
		l.shared[i].base = (bytes + 1023) &^ 1023
		bytes = l.shared[i].base + l.shared[i].size
	}
	for _, d := range l.locals {
		bytes += d.size * lanes * int64((threads+lanes-1)/lanes)
	}
	bytes *= 2
	// Blocks that synchronise run side by side.
	var gangs [][]int
	cl := l.cluster[0] * l.cluster[1] * l.cluster[2]
	switch {
	case l.grid:
		all := make([]int, blocks)
		for i := range all {
			all[i] = i
		}
		gangs = [][]int{all}
	case cl > 1:
		seen := map[[3]int]int{}
		for i := range blocks {
			p := l.blockIndex(i)
			k := [3]int{p[0] / l.cluster[0], p[1] / l.cluster[1], p[2] / l.cluster[2]}
			g, ok := seen[k]
			if !ok {
				g = len(gangs)
				seen[k] = g
				gangs = append(gangs, nil)
			}
			gangs[g] = append(gangs[g], i)
		}
	default:
		gangs = make([][]int, 0, blocks)
		for i := range blocks {
			gangs = append(gangs, []int{i})
		}
	}
	if len(gangs) == 0 {
		return
	}
	r.epoch.Add(1)
	workers := min(r.opt.Workers, len(gangs))
	if l.atomic {
		workers = 1 // atomics commit in block order
	}
	per := bytes * int64(len(gangs[0]))
	for workers > 1 && per*int64(workers)+r.used > r.opt.MaxMemory {
		workers--
	}
	r.reserve(per*int64(workers), l.span)
	defer r.reserve(-per*int64(workers), l.span)
	if n := r.opt.Sample; n > 0 && n < len(gangs) && r.launches == 1 && len(gangs[0]) == 1 {
		r.runSample(l, gangs, host, workers)
		return
	}
	r.runGangs(l, gangs, host, workers)
}

// runSample runs some blocks: every k-th, then the others in order until all
// that must be written is.
func (r *run) runSample(l *launch, gangs [][]int, host *warp, workers int) {
	r.sampled = true
	step := (len(gangs) + r.opt.Sample - 1) / r.opt.Sample
	var first, rest [][]int
	for i, g := range gangs {
		if i%step == 0 {
			first = append(first, g)
		} else {
			rest = append(rest, g)
		}
	}
	r.runGangs(l, first, host, workers)
	for len(rest) > 0 && !r.covered() {
		n := min(workers, len(rest))
		r.runGangs(l, rest[:n], host, workers)
		rest = rest[n:]
	}
}

// covered reports that all elements in Options.Cover are written.
func (r *run) covered() bool {
	for name, want := range r.opt.Cover {
		for _, m := range r.globals {
			if m == nil || m.written == nil || m.name != name {
				continue
			}
			got := elementsWritten(m.written, len(want))
			for i, x := range want {
				if x && !got[i] {
					return false
				}
			}
		}
	}
	return true
}

// elementsWritten turns marks of bytes into marks of n elements.
func elementsWritten(marks []byte, n int) []bool {
	l := make([]bool, n)
	if n == 0 {
		return l
	}
	size := max(len(marks)/n, 1)
	for i := range l {
		l[i] = i*size < len(marks) && marks[i*size] != 0
	}
	return l
}

// runGangs runs blocks, several at a time.
func (r *run) runGangs(l *launch, gangs [][]int, host *warp, workers int) {
	var mu sync.Mutex
	next := 0
	errs := make([]any, len(gangs))
	failed := len(gangs)
	var wg sync.WaitGroup
	for range min(workers, len(gangs)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				mu.Lock()
				i := next
				next++
				if i >= len(gangs) || i > failed || r.ctx.Err() != nil {
					mu.Unlock()
					return
				}
				mu.Unlock()
				if e := r.runGang(l, gangs[i], host); e != nil {
					mu.Lock()
					errs[i] = e
					failed = min(failed, i)
					mu.Unlock()
				}
			}
		}()
	}
	wg.Wait()
	if err := r.ctx.Err(); err != nil {
		panic(&Error{l.span, "interrupted: " + err.Error(), true})
	}
	for _, e := range errs {
		if e != nil {
			panic(e)
		}
	}
}

func (l *launch) blockIndex(i int) [3]int {
	return [3]int{i % l.dim[0], i / l.dim[0] % l.dim[1], i / (l.dim[0] * l.dim[1])}
}

func (r *run) runGang(l *launch, idx []int, host *warp) (err any) {
	defer func() {
		if e := recover(); e != nil {
			err = e
		}
	}()
	g := &gang{epoch: r.epoch.Load()}
	for k, i := range idx {
		b := newBlock(r, l, l.blockIndex(i), i, host)
		b.gang, b.rank = g, k
		g.blocks = append(g.blocks, b)
	}
	g.run()
	return nil
}

// threadIdx compiles launch_thread_idx.
func (c *comp) threadIdx(e *ir.Call) val {
	a, ok := ir.AsInt(e.Args[0])
	if !ok || a < 0 || a > 2 || c.l == nil {
		c.fail("launch_thread_idx outside a launch")
	}
	c.l.placeholders = true
	return val{t: ir.DInt32, vi: func(w *warp) []int64 { return w.thread[a] }}
}

// states reports that the text gives the extent of one of the axes.
func (l *launch) states(axes ...int) bool {
	for _, a := range axes {
		if l.axes[a].extent != nil || l.dim[a] != 0 {
			return true
		}
	}
	return false
}

// launchThreads notes a block's thread counts (tl.launch_threads).
func (c *comp) launchThreads(s *ir.SBlock) {
	list, ok := s.Annotations.Get("tl.launch_threads").(ir.List)
	if !ok || c.l == nil {
		return
	}
	for i, x := range list[:min(3, len(list))] {
		if n, ok := ir.AttrInt(x); ok {
			c.l.dim[3+i] = int(n)
		} else if e, ok := x.(ir.Expr); ok && c.l.axes[3+i].extent == nil {
			c.l.axes[3+i].extent = c.uniI(c.expr(e))
		}
	}
}
