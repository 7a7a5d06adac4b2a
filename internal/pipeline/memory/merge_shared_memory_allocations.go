package memory

import (
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
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
// may overlap. Offsets are multiples of 16, or of what "tl.smem_alignment_map"
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
	Precondition: "The launches of a function are apart (SplitHostDevice); buffers are flat, of constant size, and allocated at the beginning of the launch.",
	Effect:       "Two or more dynamic shared buffers become pointers into one allocation, buf_dyn_shmem. Buffers that are never in use at the same time share bytes.",
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
	size, align, start int64
	life               interval
}

func mergeLaunch(c *pipeline.Context, launch *ir.AttrStmt, alignMap *ir.Dict) (ir.Stmt, error) {
	var list []*piece
	mine := map[*ir.Var]bool{}
	var err error
	ir.Walk(launch.Body, func(s ir.Stmt) bool {
		a, ok := s.(*ir.AllocBuffer)
		if !ok || a.Buffer.Scope() != "shared.dyn" {
			return err == nil
		}
		n, ok := elements(a.Buffer)
		if !ok {
			err = pipeline.Errorf(a.Org, "shared buffer %s has no constant size", a.Buffer.Name)
			return false
		}
		p := &piece{alloc: a, size: n * int64(a.Buffer.Type.Bytes()), align: max(sharedAlign, int64(a.Buffer.Align))}
		if v, ok := alignmentOf(alignMap, a.Buffer); ok {
			p.align = max(p.align, v)
		}
		list = append(list, p)
		mine[a.Buffer.Data] = true
		return true
	})
	if err != nil || len(list) < 2 {
		return launch, err
	}
	life := lives(launch.Body, func(v *ir.Var) bool { return mine[v] })
	for _, p := range list {
		p.life = life[p.alloc.Buffer.Data]
		if c.Bool(DisableSharedReuse) {
			p.life = interval{0, 1}
		}
	}
	total := layOut(list)
	if c.Target != nil && c.Target.Features.SharedPerBlock > 0 && total > int64(c.Target.Features.SharedPerBlock) {
		return nil, pipeline.Errorf(list[0].alloc.Org, "the launch needs %d bytes of shared memory, %s has %d for a block", total, c.Target.Arch, c.Target.Features.SharedPerBlock)
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
		if !ok || !mine[a.Buffer.Data] {
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
				if q.life.overlaps(p.life) && at < q.start+q.size && q.start < at+p.size {
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
