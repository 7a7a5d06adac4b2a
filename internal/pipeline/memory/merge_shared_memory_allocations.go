package memory

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/lifetime"
)

// SharedAlignmentMap is the function attribute that states the alignment in
// bytes which named shared buffers need, for tensor maps and wgmma.
const SharedAlignmentMap = "tl.smem_alignment_map"

// sharedAlign is the alignment of a merged buffer in bytes: that of the widest
// access, 128 bits.
const sharedAlign = 16

// DisableSharedReuse keeps buffers in dynamic shared memory apart even when
// their lives are disjoint.
var DisableSharedReuse = pipeline.RegisterOption(pipeline.Option{
	Key: "tl.disable_shared_memory_reuse", Default: false,
	Doc: "give every dynamic shared buffer memory of its own",
})

// MergeSharedMemoryAllocations puts all buffers in dynamic shared memory into
// one allocation, for a launch has only one.
//
// Precondition: the function holds one launch and its buffers are flat. Effect:
// when a launch has several dynamic shared buffers, each becomes a pointer into
// "buf_dyn_shmem" at a constant byte offset; buffers whose lives are disjoint
// may overlap. What is allocated in a loop is alive from the first use of an
// iteration to its last, other buffers used in a loop throughout it. Offsets are multiples of 16, or of what "tl.smem_alignment_map"
// or the buffer itself asks for. Invariant: buffers that are alive together do
// not overlap; whoever inserts barriers must see through the pointers.
//
//	a = T.alloc_buffer((128,), scope="shared.dyn")
//	->  buf_dyn_shmem = T.alloc_buffer((512,), "uint8", scope="shared.dyn")
//	    a: T.handle("float32", "shared.dyn") = T.handle_add_byte_offset(buf_dyn_shmem.data, 0)
var MergeSharedMemoryAllocations = &pipeline.Pass{
	Name:         "MergeSharedMemoryAllocations",
	Stage:        stage,
	Doc:          "put all dynamic shared buffers of a launch into one allocation",
	Precondition: "The launches of a function are apart (SplitHostDevice); buffers are flat and of constant size; those allocated in a loop carry nothing from one iteration to the next.",
	Effect:       "Two or more dynamic shared buffers become pointers into one allocation, buf_dyn_shmem. Buffers that are never in use at the same time share bytes; one that is allocated in a loop is in use from the first use of an iteration to its last.",
	Before:       "a = T.alloc_buffer((128,), scope=\"shared.dyn\")\nb = T.alloc_buffer((64,), scope=\"shared.dyn\")",
	After:        "buf_dyn_shmem = T.alloc_buffer((768,), \"uint8\", scope=\"shared.dyn\")\na: T.handle(\"float32\", \"shared.dyn\") = T.handle_add_byte_offset(buf_dyn_shmem.data, 0)\nb: T.handle(\"float32\", \"shared.dyn\") = T.handle_add_byte_offset(buf_dyn_shmem.data, 512)",
	Options:      []string{DisableSharedReuse},
	Run:          pipeline.BodyPass(nil, mergeShared),
}

func mergeShared(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	if f.Body == nil {
		return nil, nil
	}
	align, _ := f.Attr(SharedAlignmentMap).(*ir.Dict)
	var err error
	r := ir.Rewriter{PreStmt: func(s ir.Stmt) (ir.Stmt, bool) {
		a, ok := s.(*ir.AttrStmt)
		if !ok || err != nil {
			return s, err != nil
		}
		if _, isIter := a.Node.(*ir.IterVar); !isIter || a.Key != ir.KeyThreadExtent {
			return s, false
		}
		var out ir.Stmt
		out, err = mergeLaunch(c, a, align)
		return out, true
	}}
	body := r.Stmt(f.Body)
	return body, err
}

// piece is one buffer within the merged allocation, in bytes.
type piece struct {
	alloc              *ir.AllocBuffer
	loop               *ir.For // the innermost loop it is allocated in, or nil
	home               *ir.For // loop, if nothing is left of it at the end of an iteration
	size, align, start int64
	life               lifetime.Interval
}

// outlasts reports an operator that goes on using its operands' memory after the
// statement it stands in, until a wait that does not name them.
func outlasts(c *ir.Call) bool {
	if c.Op == nil {
		return false
	}
	for _, part := range []string{"tma_", "bulk", "wgmma", "tcgen05"} {
		if strings.Contains(c.Op.Name, part) {
			return true
		}
	}
	return false
}

// pieces are the dynamic shared buffers allocated in a statement, in order.
func pieces(body ir.Stmt, alignMap *ir.Dict) (list []*piece, err error) {
	outlasting := map[*ir.Var]bool{}
	mark := func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			outlasting[e.Buffer.Data] = true
		case *ir.Var:
			outlasting[e] = true
		}
		return true
	}
	var visit func(s ir.Stmt, loop *ir.For)
	visit = func(s ir.Stmt, loop *ir.For) {
		switch s := s.(type) {
		case *ir.For:
			loop = s
		case *ir.Evaluate:
			ir.WalkExpr(s.Value, func(e ir.Expr) bool {
				if c, ok := e.(*ir.Call); ok && outlasts(c) {
					ir.WalkExpr(c, mark)
				}
				return true
			})
		case *ir.AllocBuffer:
			if s.Buffer.Scope() != "shared.dyn" || err != nil {
				return
			}
			n, ok := elements(s.Buffer)
			if !ok {
				err = pipeline.Errorf(s.Org, "shared buffer %s has no constant size", s.Buffer.Name)
				return
			}
			p := &piece{alloc: s, loop: loop, home: loop, size: n * int64(s.Buffer.Type.Bytes()), align: max(sharedAlign, int64(s.Buffer.Align))}
			if v, ok := alignmentOf(alignMap, s.Buffer); ok {
				p.align = max(p.align, v)
			}
			list = append(list, p)
		}
		ir.Children(s, func(c ir.Stmt) { visit(c, loop) })
	}
	if body != nil {
		visit(body, nil)
	}
	for _, p := range list {
		if outlasting[p.alloc.Buffer.Data] { // may be in use at the end of an iteration
			p.home = nil
		}
	}
	return list, err
}

func mergeLaunch(c *pipeline.Context, launch *ir.AttrStmt, alignMap *ir.Dict) (ir.Stmt, error) {
	list, err := pieces(launch.Body, alignMap)
	if err != nil || len(list) == 0 {
		return launch, err
	}
	homes := map[*ir.Var]*ir.For{}
	for _, p := range list {
		homes[p.alloc.Buffer.Data] = p.home
	}
	if len(list) == 1 {
		if list[0].loop == nil {
			return launch, nil
		}
		// A launch has one dynamic allocation: it stands outside of loops.
		r := ir.Rewriter{PreStmt: func(s ir.Stmt) (ir.Stmt, bool) { return nil, s == ir.Stmt(list[0].alloc) }}
		t := *launch
		t.Body = ir.Seq(list[0].alloc, r.Stmt(launch.Body))
		return &t, nil
	}
	life := lifetime.Of(launch.Body, homes)
	unread := unreadCopies(launch.Body)
	for _, p := range list {
		p.life = life[p.alloc.Buffer.Data]
		if unread[p.alloc.Buffer.Data] {
			p.life.Last = math.MaxInt
		}
		if c.Bool(DisableSharedReuse) {
			p.life = lifetime.Interval{First: 0, Last: 1}
		}
	}
	total, limit := layOut(list), int64(0)
	if c.Target != nil {
		limit = int64(c.Target.Features.SharedPerBlock)
	}
	if limit > 0 && total > limit {
		// A small buffer in use for long may have left no hole for a large one.
		bySize := slices.Clone(list)
		slices.SortStableFunc(bySize, func(a, b *piece) int { return cmp.Compare(b.size, a.size) })
		total = layOut(bySize)
	}
	if limit > 0 && total > limit {
		return nil, pipeline.Errorf(list[0].alloc.Org, "the launch needs %d bytes of shared memory, %s has %d for a block", total, c.Target.Arch, limit)
	}
	merged := ir.NewBuffer("buf_dyn_shmem", ir.DUInt8, "shared.dyn", ir.I32(total))
	head := []ir.Stmt{&ir.AllocBuffer{Buffer: merged, Org: list[0].alloc.Org}}
	byStart := slices.Clone(list)
	slices.SortStableFunc(byStart, func(a, b *piece) int { return int(a.start - b.start) })
	for _, p := range byStart {
		at := ir.NewCall(ir.MustOp("handle_add_byte_offset"), merged.Data, ir.I32(p.start))
		head = append(head, &ir.Bind{Var: p.alloc.Buffer.Data, Value: at, Org: p.alloc.Org})
	}
	// Accesses through the allocation itself go on through a view.
	direct := map[*ir.Buffer]bool{}
	ir.Walk(launch.Body, func(s ir.Stmt) bool {
		if st, ok := s.(*ir.BufferStore); ok {
			direct[st.Buffer] = true
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if l, ok := e.(*ir.BufferLoad); ok {
				direct[l.Buffer] = true
			}
			return true
		})
		return true
	})
	r := ir.Rewriter{PreStmt: func(s ir.Stmt) (ir.Stmt, bool) {
		a, ok := s.(*ir.AllocBuffer)
		if !ok || a.Buffer.Scope() != "shared.dyn" {
			return s, false
		}
		if direct[a.Buffer] {
			return &ir.DeclBuffer{Buffer: a.Buffer, Org: a.Org}, true
		}
		return nil, true
	}}
	t := *launch
	t.Body = ir.Seq(append(head, r.Stmt(launch.Body))...)
	return &t, nil
}

// alignmentOf is the alignment a map states for a buffer, by its pointer or its
// name.
func alignmentOf(d *ir.Dict, b *ir.Buffer) (int64, bool) {
	if d == nil {
		return 0, false
	}
	for _, e := range d.Entries {
		s, isName := ir.AttrString(e.Key)
		if e.Key == ir.Attr(b.Data) || e.Key == ir.Attr(b) || isName && s == b.Data.Name {
			return ir.AttrInt(e.Value)
		}
	}
	return 0, false
}

// layOut gives each piece the lowest start that no piece alive at the same time
// reaches, and returns the size of it all. Pieces are placed in order, so that
// what is allocated first lies first.
func layOut(list []*piece) int64 {
	total := int64(0)
	for i, p := range list {
		at := int64(0)
		for moved := true; moved; {
			moved = false
			for _, q := range list[:i] {
				if q.life.Overlaps(p.life) && at < q.start+q.size && q.start < at+p.size {
					at = roundUp(q.start+q.size, p.align)
					moved = true
				}
			}
		}
		p.start = at
		total = max(total, at+p.size)
	}
	return total
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
