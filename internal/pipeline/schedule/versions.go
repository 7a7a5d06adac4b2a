package schedule

import (
	"fmt"
	"slices"

	"lowertrace/internal/ir"
)

// copies counts how many copies of each buffer the pipelines of a function
// need, by the buffers' pointers.
type copies map[*ir.Var]int64

// versioner rewrites the accesses to buffers that have several copies: the copy
// is a new first dimension.
type versioner struct {
	n     copies
	alloc map[*ir.Var]*ir.Buffer
	// which is the copy that statements at hand use; copy 0 where it has none.
	which map[*ir.Var]ir.Expr
	bufs  map[*ir.Buffer]*ir.Buffer
	r     ir.Rewriter
	loop  func(*ir.For) ir.Stmt // takes over pipelined loops
}

func newVersioner(n copies, alloc map[*ir.Var]*ir.Buffer, loop func(*ir.For) ir.Stmt) *versioner {
	v := &versioner{n: n, alloc: alloc, which: map[*ir.Var]ir.Expr{}, bufs: map[*ir.Buffer]*ir.Buffer{}, loop: loop}
	v.r = ir.Rewriter{PreStmt: v.stmt, PreExpr: v.expr, Buffer: v.buffer}
	return v
}

// buffer is a buffer with its copies.
func (v *versioner) buffer(b *ir.Buffer) *ir.Buffer {
	n := v.n[b.Data]
	if n < 2 {
		return b
	}
	if c := v.bufs[b]; c != nil {
		return c
	}
	c := *b
	t := ir.DInt32
	if len(b.Shape) > 0 {
		t = b.Shape[0].DType()
	}
	c.Shape = append([]ir.Expr{ir.IntConst(t, n)}, b.Shape...)
	if b.Strides != nil {
		// Copies lie behind each other.
		size := ir.Expr(ir.IntConst(t, 1))
		for i, s := range b.Shape {
			size = ir.NewBinary(ir.Max, size, ir.NewBinary(ir.Mul, s, b.Strides[i]))
		}
		c.Strides = append([]ir.Expr{size}, b.Strides...)
	}
	v.bufs[b] = &c
	return &c
}

// at is the copy of a buffer to use, as the index of its first dimension.
func (v *versioner) at(b *ir.Buffer) ir.Expr {
	t := ir.DInt32
	if len(b.Shape) > 0 {
		t = b.Shape[0].DType()
	}
	if e := v.which[b.Data]; e != nil {
		return ir.CastTo(e, t)
	}
	return ir.IntConst(t, 0)
}

func (v *versioner) stmt(s ir.Stmt) (ir.Stmt, bool) {
	switch s := s.(type) {
	case *ir.For:
		if t := v.loop(s); t != nil {
			return t, true
		}
	case *ir.BufferStore:
		if v.n[s.Buffer.Data] < 2 {
			break
		}
		idx, _ := v.r.Exprs(s.Indices)
		return &ir.BufferStore{Buffer: v.buffer(s.Buffer), Indices: append([]ir.Expr{v.at(s.Buffer)}, idx...),
			Value: v.r.Expr(s.Value), Predicate: v.r.Expr(s.Predicate), Org: s.Org}, true
	case *ir.SBlock:
		return v.block(s), true
	}
	return nil, false
}

// block rewrites a block; what it says about the buffers that now have copies,
// accesses and layouts, gets the new dimension.
func (v *versioner) block(s *ir.SBlock) ir.Stmt {
	t := *s
	t.Reads, t.Writes = v.regions(s.Reads), v.regions(s.Writes)
	if m, ok := s.Annotations.Get("layout_map").(*ir.Dict); ok {
		d := &ir.Dict{Entries: append([]ir.DictEntry(nil), m.Entries...)}
		changed := false
		for i, e := range d.Entries {
			n := int64(0)
			switch k := e.Key.(type) {
			case *ir.Buffer:
				n = v.n[k.Data]
			case *ir.Var:
				n = v.n[k]
			}
			if l, ok := e.Value.(*ir.Layout); ok && n > 1 {
				d.Entries[i].Value, changed = eachCopy(l, n), true
			}
		}
		if changed {
			t.Annotations = s.Annotations.With("layout_map", d)
		}
	}
	out := v.r.Inside(&t)
	if out == ir.Stmt(&t) && sameRegions(t.Reads, s.Reads) && sameRegions(t.Writes, s.Writes) && t.Annotations == s.Annotations {
		return s
	}
	return out
}

func sameRegions(a, b []ir.BufferRegion) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (v *versioner) regions(list []ir.BufferRegion) []ir.BufferRegion {
	out := list
	for i, r := range list {
		n := v.n[r.Buffer.Data]
		if n < 2 || len(r.Region) != len(r.Buffer.Shape) {
			continue
		}
		if sameRegions(out, list) {
			out = append([]ir.BufferRegion(nil), list...)
		}
		b := v.buffer(r.Buffer)
		t := b.Shape[0].DType()
		// The buffer itself is replaced when the block's parts are rewritten.
		out[i].Region = append([]ir.Range{{Min: ir.IntConst(t, 0), Extent: ir.IntConst(t, n)}}, r.Region...)
	}
	return out
}

// eachCopy is a layout for n copies of what it lays out, one behind the other.
func eachCopy(l *ir.Layout, n int64) *ir.Layout {
	c := &ir.Var{Name: "_v", Type: ir.DInt32}
	return &ir.Layout{
		Vars:    append([]*ir.Var{c}, l.Vars...),
		Shape:   append([]ir.Expr{ir.I32(n)}, l.Shape...),
		Forward: append([]ir.Expr{c}, l.Forward...),
	}
}

func (v *versioner) expr(e ir.Expr) (ir.Expr, bool) {
	switch e := e.(type) {
	case *ir.BufferLoad:
		if v.n[e.Buffer.Data] < 2 {
			break
		}
		idx, _ := v.r.Exprs(e.Indices)
		return &ir.BufferLoad{Buffer: v.buffer(e.Buffer), Indices: append([]ir.Expr{v.at(e.Buffer)}, idx...), Predicate: v.r.Expr(e.Predicate)}, true
	case *ir.Call:
		if c, ok := ir.IsCall(e, "region"); ok {
			ld, ok := c.Args[0].(*ir.BufferLoad)
			if !ok || v.n[ld.Buffer.Data] < 2 {
				break
			}
			args, _ := v.r.Exprs(c.Args)
			args = append(append(append([]ir.Expr{}, args[:2]...), ir.IntConst(v.at(ld.Buffer).DType(), 1)), args[2:]...)
			d := *c
			d.Args = args
			return &d, true
		}
		if c, ok := ir.IsCall(e, "tvm_access_ptr"); ok {
			data, ok := c.Args[1].(*ir.Var)
			if !ok || v.n[data] < 2 || v.which[data] == nil {
				break
			}
			args, _ := v.r.Exprs(c.Args)
			args = append([]ir.Expr{}, args...)
			size := ir.Expr(ir.IntConst(args[2].DType(), 1))
			for _, x := range v.alloc[data].Shape {
				size = ir.NewBinary(ir.Mul, size, ir.CastTo(x, size.DType()))
			}
			args[2] = ir.NewBinary(ir.Add, args[2], ir.NewBinary(ir.Mul, ir.CastTo(v.which[data], size.DType()), size))
			d := *c
			d.Args = args
			return &d, true
		}
	}
	return nil, false
}

// requirement is how many copies of each buffer a loop's schedule needs, or
// why it cannot be.
func requirement(elems []element, stageOf, order []int64) (copies, string) {
	need := copies{}
	for i, a := range elems {
		for j, b := range elems {
			for v := range a.acc.writes {
				if i == j || !b.acc.touches(v) || j < i {
					continue
				}
				n := stageOf[j] - stageOf[i]
				if order[i] < order[j] {
					n++
				}
				need[v] = max(need[v], n)
			}
		}
	}
	for i, a := range elems {
		for j := i + 1; j < len(elems); j++ {
			b := elems[j]
			shared := conflicts(a.acc, b.acc)
			if a.acc.control && b.acc.control {
				shared = append(shared, nil)
			}
			for _, v := range shared {
				// Within an iteration i comes before j.
				if stageOf[i] > stageOf[j] || stageOf[i] == stageOf[j] && order[i] > order[j] {
					return nil, fmt.Sprintf("statement %d of the pipeline must run before statement %d: both use %s", i, j, what(v))
				}
				// j of an iteration comes before i of the next one with the same copy.
				n := int64(1)
				if v != nil {
					n = max(need[v], 1)
				}
				if d := stageOf[j] - stageOf[i]; d > n || d == n && order[j] > order[i] {
					return nil, fmt.Sprintf("statement %d of the pipeline must run before statement %d of the next iteration: both use %s", j, i, what(v))
				}
			}
		}
	}
	return need, ""
}

func what(v *ir.Var) string {
	if v == nil {
		return "barriers or other operators that are kept in order"
	}
	return v.Name
}

// conflicts is the memory that two statements use and one of them writes.
func conflicts(a, b *accesses) []*ir.Var {
	set := map[*ir.Var]bool{}
	for v := range a.writes {
		set[v] = b.touches(v)
	}
	for v := range b.writes {
		set[v] = set[v] || a.reads[v]
	}
	out := byName(set)
	return slices.DeleteFunc(out, func(v *ir.Var) bool { return !set[v] })
}
