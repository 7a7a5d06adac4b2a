package schedule

import (
	"slices"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// Access masks of T.region, T.access_ptr and T.tvm_access_ptr.
const (
	maskRead  = 1
	maskWrite = 2
)

// accesses is the memory a statement touches, by the pointers to it.
type accesses struct {
	reads, writes map[*ir.Var]bool
	// bare are pointers that are used as values: what happens to their memory
	// is not known, and moving it would be noticed.
	bare map[*ir.Var]bool
	// control is set by operators that order what is around them, other than by
	// touching memory.
	control bool
}

func accessesOf(list ...ir.Stmt) *accesses {
	a := &accesses{reads: map[*ir.Var]bool{}, writes: map[*ir.Var]bool{}, bare: map[*ir.Var]bool{}}
	for _, s := range list {
		ir.Walk(s, func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.SBlock:
				// What a block says of itself repeats what is in it.
				for _, e := range s.IterValues {
					a.expr(e)
				}
				a.expr(s.Predicate)
				return true
			case *ir.BufferStore:
				a.writes[s.Buffer.Data] = true
			case *ir.Bind:
				if s.Var.Type.IsHandle() {
					a.expr(s.Value)
					return true
				}
			}
			ir.StmtExprs(s, func(e ir.Expr) bool { a.expr(e); return false })
			return true
		})
	}
	return a
}

func (a *accesses) mark(v *ir.Var, mask int64) {
	if mask&maskRead != 0 {
		a.reads[v] = true
	}
	if mask&maskWrite != 0 {
		a.writes[v] = true
	}
}

// pointee visits an address and marks what it points to.
func (a *accesses) pointee(e ir.Expr, mask int64) {
	ld, ok := e.(*ir.BufferLoad)
	if !ok {
		a.expr(e)
		return
	}
	a.mark(ld.Buffer.Data, mask)
	for _, i := range ld.Indices {
		a.expr(i)
	}
}

func (a *accesses) expr(e ir.Expr) {
	if e == nil {
		return
	}
	ir.WalkExpr(e, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			a.reads[e.Buffer.Data] = true
		case *ir.Var:
			if e.Type.IsHandle() {
				a.mark(e, maskRead|maskWrite)
				a.bare[e] = true
			}
		case *ir.Call:
			return a.call(e)
		}
		return true
	})
}

func (a *accesses) call(c *ir.Call) bool {
	if c.Op == nil {
		a.control = true
		return true
	}
	if c.Op.Effect == ir.Control && !c.Op.Tile {
		a.control = true
	}
	switch c.Op.Name {
	case "region", "access_ptr":
		at := 1
		if c.Op.Name == "access_ptr" {
			at = 2
		}
		mask, _ := ir.AsInt(c.Args[at])
		a.pointee(c.Args[0], mask)
		for _, x := range c.Args[1:] {
			a.expr(x)
		}
		return false
	case "address_of":
		a.pointee(c.Args[0], maskRead|maskWrite)
		return false
	case "tvm_access_ptr":
		v, ok := c.Args[1].(*ir.Var)
		if !ok {
			return true
		}
		mask, _ := ir.AsInt(c.Args[4])
		a.mark(v, mask)
		for _, x := range c.Args[2:] {
			a.expr(x)
		}
		return false
	}
	if c.Op.Tile && c.Op.Name != "copy" && c.Op.Name != "fill" {
		// An operator may accumulate into what it writes.
		for _, x := range c.Args {
			if r, ok := ir.IsCall(x, "region"); ok {
				if ld, ok := r.Args[0].(*ir.BufferLoad); ok {
					a.reads[ld.Buffer.Data] = true
				}
			}
		}
	}
	return true
}

// byName are the variables of a set in a fixed order.
func byName(set map[*ir.Var]bool) []*ir.Var {
	out := make([]*ir.Var, 0, len(set))
	for v := range set {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b *ir.Var) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// touches reports an access of any kind.
func (a *accesses) touches(v *ir.Var) bool { return a.reads[v] || a.writes[v] }

// tileCall is the tile operator a statement runs, nil if it runs none.
func tileCall(s ir.Stmt) *ir.Call {
	ev, ok := s.(*ir.Evaluate)
	if !ok {
		return nil
	}
	c, ok := ev.Value.(*ir.Call)
	if !ok || c.Op == nil || !c.Op.Tile {
		return nil
	}
	return c
}

// box is a rectangular part of a buffer with constant bounds.
type box struct{ min, ext []int64 }

// region is an operand T.region(B[min, ...], access, extent, ...).
func region(e ir.Expr) (b *ir.Buffer, min, ext []ir.Expr) {
	c, ok := ir.IsCall(e, "region")
	if !ok {
		return nil, nil, nil
	}
	ld, ok := c.Args[0].(*ir.BufferLoad)
	if !ok || len(c.Args) != 2+len(ld.Indices) {
		return nil, nil, nil
	}
	return ld.Buffer, ld.Indices, c.Args[2:]
}

// filled is the part of a buffer that a statement certainly overwrites as a
// whole: by T.copy or T.fill, or by a nest of loops that stores to every element.
func filled(s ir.Stmt) (*ir.Buffer, box, bool) {
	if f, ok := s.(*ir.For); ok {
		return storesAll(f)
	}
	c := tileCall(s)
	if c == nil {
		return nil, box{}, false
	}
	at := -1
	switch c.Op.Name {
	case "copy", "async_copy":
		at = 1
	case "fill":
		at = 0
	}
	if at < 0 || at >= len(c.Args) {
		return nil, box{}, false
	}
	b, min, ext := region(c.Args[at])
	if b == nil {
		return nil, box{}, false
	}
	return constBox(b, min, ext)
}

func constBox(b *ir.Buffer, min, ext []ir.Expr) (*ir.Buffer, box, bool) {
	var x box
	for d := range min {
		m, ok1 := ir.AsInt(min[d])
		n, ok2 := ir.AsInt(ext[d])
		if !ok1 || !ok2 || m < 0 || n <= 0 {
			return nil, box{}, false
		}
		x.min, x.ext = append(x.min, m), append(x.ext, n)
	}
	return b, x, true
}

// storesAll is the part of a buffer that a perfect nest of loops around one
// store overwrites, each dimension by a loop of its own.
func storesAll(f *ir.For) (*ir.Buffer, box, bool) {
	loops := map[*ir.Var]*ir.For{}
	var s ir.Stmt = f
	for {
		l, ok := s.(*ir.For)
		if !ok {
			break
		}
		if l.Step != nil {
			return nil, box{}, false
		}
		loops[l.Var] = l
		s = l.Body
	}
	st, ok := s.(*ir.BufferStore)
	if !ok || st.Predicate != nil {
		return nil, box{}, false
	}
	var min, ext []ir.Expr
	for _, i := range st.Indices {
		v, ok := i.(*ir.Var)
		if !ok || loops[v] == nil {
			return nil, box{}, false
		}
		min, ext = append(min, loops[v].Min), append(ext, loops[v].Extent)
		delete(loops, v)
	}
	for _, l := range loops { // others must run at least once
		if n, ok := ir.AsInt(l.Extent); !ok || n <= 0 {
			return nil, box{}, false
		}
	}
	return constBox(st.Buffer, min, ext)
}

// covers reports that disjoint boxes fill a buffer of a constant shape.
func covers(boxes []box, shape []ir.Expr) bool {
	size := int64(1)
	for _, e := range shape {
		n, ok := ir.AsInt(e)
		if !ok {
			return false
		}
		size *= n
	}
	sum := int64(0)
	for i, b := range boxes {
		n := int64(1)
		for d, x := range b.ext {
			lim, _ := ir.AsInt(shape[d])
			if b.min[d]+x > lim {
				return false
			}
			n *= x
		}
		sum += n
		for _, c := range boxes[:i] {
			apart := false
			for d := range b.min {
				apart = apart || b.min[d]+b.ext[d] <= c.min[d] || c.min[d]+c.ext[d] <= b.min[d]
			}
			if !apart {
				return false
			}
		}
	}
	return sum == size
}

// memory is what a function says about the memory of its kernels.
type memory struct {
	body  ir.Stmt
	alloc map[*ir.Var]*ir.Buffer // allocations by their pointer
	views map[*ir.Var]bool       // memory that several buffers view
	bare  map[*ir.Var]bool       // memory whose pointer is used as a value
}

func memoryOf(body ir.Stmt) *memory {
	m := &memory{body: body, alloc: map[*ir.Var]*ir.Buffer{}, views: map[*ir.Var]bool{}, bare: accessesOf(body).bare}
	seen := map[*ir.Var]*ir.Buffer{}
	see := func(b *ir.Buffer) {
		if o := seen[b.Data]; o != nil && o != b {
			m.views[b.Data] = true
		}
		seen[b.Data] = b
	}
	ir.Walk(body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.SBlock:
			for _, b := range s.AllocBuffers {
				m.alloc[b.Data] = b
				see(b)
			}
			for _, x := range s.MatchBuffers {
				m.views[x.Source.Buffer.Data] = true
			}
		case *ir.AllocBuffer:
			m.alloc[s.Buffer.Data] = s.Buffer
			see(s.Buffer)
		case *ir.DeclBuffer:
			see(s.Buffer)
		case *ir.BufferStore:
			see(s.Buffer)
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if ld, ok := e.(*ir.BufferLoad); ok {
				see(ld.Buffer)
			}
			return true
		})
		return true
	})
	return m
}

// single reports why the iterations of a loop cannot each have a copy of some
// memory, "" if they can: an iteration must overwrite all of it before it reads
// any, and nothing behind the loop may read what the last iteration left.
func (m *memory) single(v *ir.Var, loop *ir.For) string {
	b := m.alloc[v]
	switch {
	case b == nil || !pipeline.IsShared(b.Scope()):
		return "it is not shared memory of the kernel"
	case m.views[v]:
		return "several buffers view its memory"
	case m.bare[v]:
		return "its pointer is used as a value"
	}
	f := flow{b: b, loop: loop}
	if _, exposed := f.walk(loop.Body, false); exposed {
		return "an iteration may read what an earlier one wrote"
	}
	f.outside = true
	if _, exposed := f.walk(m.body, false); exposed {
		return "it is read outside of the loop"
	}
	return ""
}

// flow follows one buffer through statements in order, to find reads of what
// was not written just before.
type flow struct {
	b       *ir.Buffer
	loop    *ir.For
	outside bool // pass over loop
	boxes   []box
	// path are the conditions that hold at the statement at hand; under each of
	// facts together the buffer has been overwritten. Statements that one
	// condition guards may each stand under an if of their own.
	path  []ir.Expr
	facts [][]ir.Expr
}

// learn notes that the buffer has been overwritten under the present path.
func (f *flow) learn() {
	if !f.outside {
		f.facts = append(f.facts, slices.Clone(f.path))
	}
}

// knows reports that the buffer has been overwritten whenever the statement at
// hand runs.
func (f *flow) knows() bool {
	return slices.ContainsFunc(f.facts, func(fact []ir.Expr) bool {
		for _, c := range fact {
			if !slices.ContainsFunc(f.path, func(p ir.Expr) bool { return ir.Same(c, p) }) {
				return false
			}
		}
		return true
	})
}

// then walks what a condition guards. What it overwrites is known behind it,
// too, wherever the condition holds, if that cannot change.
func (f *flow) then(s ir.Stmt, cond ir.Expr, covered bool) (after, exposed bool) {
	n, facts := len(f.path), len(f.facts)
	f.path = append(f.path, cond)
	after, exposed = f.walk(s, covered || f.knows())
	f.path = f.path[:n]
	if ir.SideEffect(cond) > ir.Pure {
		f.facts = f.facts[:facts]
	}
	return after, exposed
}

// walk reports whether the buffer is overwritten as a whole when the statement
// is done, having been so or not at its begin, and whether it may read the
// buffer while it is not.
func (f *flow) walk(s ir.Stmt, covered bool) (after, exposed bool) {
	if s != nil && !covered && f.asks(s) {
		return false, true
	}
	switch s := s.(type) {
	case nil:
		return covered, false
	case *ir.SeqStmt:
		saved := f.boxes
		f.boxes = nil
		for _, c := range s.Seq {
			was := covered
			var bad bool
			if covered, bad = f.walk(c, covered); bad {
				return false, true
			}
			if was && !covered {
				f.boxes = nil
			}
			if b, x, ok := filled(c); ok && b == f.b && !covered {
				f.boxes = append(f.boxes, x)
				if covered = covers(f.boxes, b.Shape); covered {
					f.learn()
				}
			}
		}
		f.boxes = saved
		return covered, false
	case *ir.AttrStmt:
		return f.walk(s.Body, covered)
	case *ir.SBlock:
		if s.Predicate != nil { // the body may not run
			return covered, f.body(s.Body, covered)
		}
		return f.walk(s.Body, covered)
	case *ir.For:
		if f.outside && s == f.loop {
			return false, false
		}
		holds := f.outside && contains(s.Body, f.loop)
		exposed := f.body(s.Body, covered && !holds)
		return covered && !holds, exposed
	case *ir.While:
		holds := f.outside && contains(s.Body, f.loop)
		exposed := f.body(s.Body, covered && !holds)
		return covered && !holds, exposed
	case *ir.IfThenElse:
		a, bad1 := f.then(s.Then, s.Cond, covered)
		b, bad2 := f.then(s.Else, &ir.Not{A: s.Cond}, covered)
		return a && b, bad1 || bad2
	}
	exposed = !covered && accessesOf(s).reads[f.b.Data]
	if b, x, ok := filled(s); ok && b == f.b && !covered && covers([]box{x}, b.Shape) {
		covered = true
		f.learn()
	}
	return covered, exposed
}

// body walks what may not run at all.
func (f *flow) body(s ir.Stmt, covered bool) (exposed bool) {
	n := len(f.facts)
	_, exposed = f.walk(s, covered)
	f.facts = f.facts[:n]
	return exposed
}

// asks reports a statement around others whose bounds, condition or values come
// from the buffer.
func (f *flow) asks(s ir.Stmt) bool {
	found := false
	note := func(e ir.Expr) bool {
		ld, ok := e.(*ir.BufferLoad)
		found = found || ok && ld.Buffer.Data == f.b.Data
		return !found
	}
	switch s := s.(type) {
	case *ir.For, *ir.While, *ir.IfThenElse, *ir.AttrStmt:
		ir.StmtExprs(s, note)
	case *ir.SBlock:
		for _, e := range append([]ir.Expr{s.Predicate}, s.IterValues...) {
			ir.WalkExpr(e, note)
		}
	}
	return found
}

func contains(s ir.Stmt, t *ir.For) bool {
	found := false
	ir.Walk(s, func(s ir.Stmt) bool {
		found = found || s == ir.Stmt(t)
		return !found
	})
	return found
}
