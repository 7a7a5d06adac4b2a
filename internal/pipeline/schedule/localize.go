package schedule

import (
	"slices"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/lifetime"
)

// localize moves the allocations of dynamic shared buffers into the loop around
// a pipelined one of which every iteration has them anew:
//
//	a, c = alloc                        for w in range(n):
//	for w in range(n):                      with T.sblock(""):
//	    for k in pipelined: a = ...; use a      a, c = alloc
//	    c = ...; use c                  ->      for k in pipelined: a = ...; use a
//	                                            c = ...; use c
//
// Where it is allocated is how later passes know that a tile and the epilogue's
// buffer, though used in the same loop, are never in use at the same time. Loops
// that are not pipelined do not hold others back.
func (m *memory) localize(pipelined map[*ir.For]bool) ir.Stmt {
	homes := m.homes(func(l *ir.For) bool { return pipelined[l] })
	inside := map[*ir.For][]*ir.Buffer{}
	away := map[*ir.Var]bool{}
	ir.Walk(m.body, func(s ir.Stmt) bool {
		if b, ok := s.(*ir.SBlock); ok {
			for _, x := range b.AllocBuffers {
				if l := homes[x.Data]; l != nil && !away[x.Data] {
					inside[l] = append(inside[l], x)
					away[x.Data] = true
				}
			}
		}
		return true
	})
	if len(away) == 0 {
		return m.body
	}
	layouts := map[*ir.For]*ir.Dict{} // entries of layout_map that move along
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.For:
			list := inside[s]
			if list == nil {
				return s, false
			}
			b := &ir.SBlock{AllocBuffers: list, Body: r.Stmt(s.Body), Org: s.Org}
			if d := layouts[s]; d != nil {
				b.Annotations = b.Annotations.With("layout_map", d)
			}
			t := *s
			t.Body = b
			return &t, true
		case *ir.SBlock:
			t := *s
			t.AllocBuffers = nil
			for _, b := range s.AllocBuffers {
				if !away[b.Data] {
					t.AllocBuffers = append(t.AllocBuffers, b)
				}
			}
			if len(t.AllocBuffers) == len(s.AllocBuffers) {
				return s, false
			}
			if d, ok := s.Annotations.Get("layout_map").(*ir.Dict); ok {
				kept := &ir.Dict{}
				for _, e := range d.Entries {
					v := pointerOf(e.Key)
					if !away[v] {
						kept.Entries = append(kept.Entries, e)
						continue
					}
					l := homes[v]
					if layouts[l] == nil {
						layouts[l] = &ir.Dict{}
					}
					layouts[l].Entries = append(layouts[l].Entries, e)
				}
				switch len(kept.Entries) {
				case len(d.Entries):
				case 0:
					t.Annotations = s.Annotations.With("layout_map", nil)
				default:
					t.Annotations = s.Annotations.With("layout_map", kept)
				}
			}
			return r.Inside(&t), true
		}
		return s, false
	}
	return r.Stmt(m.body)
}

// pointerOf is the memory that a key of an annotation names, nil if it names
// none.
func pointerOf(key ir.Attr) *ir.Var {
	switch k := key.(type) {
	case *ir.Buffer:
		return k.Data
	case *ir.Var:
		return k
	}
	return nil
}

// homes gives, for dynamic shared buffers of the function's blocks that can be
// allocated further in, the innermost loop that holds all their uses and one of
// the pipelined loops, is neither pipelined itself nor within a pipelined one,
// and each iteration of which overwrites the buffer before it reads it. No
// asynchronous copy to such a buffer is under way at the end of an iteration.
func (m *memory) homes(pipelined func(*ir.For) bool) map[*ir.Var]*ir.For {
	type place struct {
		loops  []*ir.For // around, outermost first
		allocs int       // how many of them are around the allocation
	}
	places := map[*ir.Var]*place{}
	pinned := map[*ir.Var]bool{} // what is known of the memory is not enough
	holds := map[*ir.For]bool{}  // a pipelined loop
	pin := func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			pinned[e.Buffer.Data] = true
		case *ir.Var:
			pinned[e] = true
		}
		return true
	}
	var loops []*ir.For
	use := func(v *ir.Var) {
		p := places[v]
		switch {
		case p == nil:
		case p.loops == nil:
			p.loops = append([]*ir.For{}, loops...)
		default:
			n := 0
			for n < min(len(loops), len(p.loops)) && loops[n] == p.loops[n] {
				n++
			}
			p.loops = p.loops[:n]
		}
	}
	var visit func(s ir.Stmt)
	visit = func(s ir.Stmt) {
		switch s := s.(type) {
		case *ir.For:
			if pipelined(s) {
				for _, l := range loops {
					holds[l] = true
				}
				for _, v := range unread(s) {
					pinned[v] = true
				}
			}
			loops = append(loops, s)
			defer func() { loops = loops[:len(loops)-1] }()
		case *ir.AttrStmt:
			if s.Key == ir.KeyWarpSpecialization { // statements side by side have no order
				ir.WalkExprs(s, pin)
				ir.Walk(s, func(s ir.Stmt) bool {
					if st, ok := s.(*ir.BufferStore); ok {
						pinned[st.Buffer.Data] = true
					}
					return true
				})
			}
		case *ir.SBlock:
			for _, b := range s.AllocBuffers {
				if b.Scope() == "shared.dyn" && !m.views[b.Data] && !m.bare[b.Data] && places[b.Data] == nil {
					places[b.Data] = &place{allocs: len(loops)}
				}
			}
			pinAnnotations(s.Annotations, pin)
		case *ir.Evaluate:
			ir.WalkExpr(s.Value, func(e ir.Expr) bool {
				if c, ok := e.(*ir.Call); ok && !inOrder(c) {
					for _, x := range c.Args {
						ir.WalkExpr(x, pin)
					}
				}
				return true
			})
		}
		lifetime.Touches(s, use)
		ir.Children(s, visit)
	}
	visit(m.body)
	out := map[*ir.Var]*ir.For{}
	for v, p := range places {
		if pinned[v] {
			continue
		}
		for at := len(p.loops) - 1; at >= p.allocs; at-- {
			l := p.loops[at]
			if !holds[l] || l.Kind != ir.Serial && l.Kind != ir.Unrolled || slices.ContainsFunc(p.loops[:at+1], pipelined) {
				continue
			}
			f := flow{b: m.alloc[v]}
			if _, exposed := f.walk(l.Body, false); !exposed {
				out[v] = l
				break
			}
		}
	}
	return out
}

// unread is the memory that statements of a pipelined loop write and no other
// reads: where the writes are asynchronous, the loop does not wait for them.
func unread(loop *ir.For) []*ir.Var {
	elems, err := split(loop.Body)
	if err != nil { // it will not be pipelined
		return nil
	}
	set := map[*ir.Var]bool{}
	for i, e := range elems {
		for v := range e.acc.writes {
			read := false
			for j, o := range elems {
				read = read || j != i && o.acc.reads[v]
			}
			if !read {
				set[v] = true
			}
		}
	}
	return byName(set)
}

// pinAnnotations visits what a block's annotations name beside the layouts,
// which move with the allocations.
func pinAnnotations(d *ir.Dict, pin func(ir.Expr) bool) {
	if d == nil {
		return
	}
	for _, e := range d.Entries {
		if name, ok := ir.AttrString(e.Key); ok && name == "layout_map" {
			continue
		}
		ir.WalkAttr(e.Value, pin)
	}
}

// inOrder reports a call after which nothing is done to its operands' memory any
// more: it is not asynchronous.
func inOrder(c *ir.Call) bool {
	if c.Op == nil {
		return false
	}
	name := c.Op.Name
	if n, ok := ir.AttrInt(c.Attr("is_async_copy")); ok && n != 0 {
		return false
	}
	for _, part := range []string{"async", "wgmma", "tcgen05", "tma", "bulk"} {
		if strings.Contains(name, part) {
			return false
		}
	}
	return c.Op.Tile || c.Op.Effect <= ir.ReadState || name == "access_ptr" || strings.HasPrefix(name, "atomic_")
}

// sharedBytes is the size of shared memory, capped at a bit more than limit; of
// dimensions that are not constant, one element.
func sharedBytes(b *ir.Buffer, limit int64) int64 {
	bytes := int64(b.Type.Bytes())
	for _, x := range b.Shape {
		if k, ok := ir.AsInt(x); ok && k > 0 && bytes <= limit {
			bytes *= k
		}
	}
	return bytes
}

// residents are the bytes of shared memory in use together with that of
// buffers loaded ahead by a loop, and the bytes of those buffers themselves.
func (m *memory) residents(loop *ir.For, loaded map[*ir.Var]bool, limit int64) (others, tiles int64) {
	homes := m.homes(func(l *ir.For) bool { return l == loop })
	all := map[*ir.Var]*ir.For{}
	for v, b := range m.alloc {
		if pipeline.IsShared(b.Scope()) {
			all[v] = homes[v]
		}
	}
	lives := lifetime.Of(m.body, all)
	var span *lifetime.Interval
	for v := range loaded {
		if iv, ok := lives[v]; ok {
			if span != nil {
				iv = iv.Join(*span)
			}
			span = &iv
		}
	}
	for v := range all {
		iv, used := lives[v]
		switch {
		case !used || span == nil:
		case loaded[v]:
			tiles += sharedBytes(m.alloc[v], limit)
		case iv.Overlaps(*span):
			others += sharedBytes(m.alloc[v], limit)
		}
	}
	return others, tiles
}
