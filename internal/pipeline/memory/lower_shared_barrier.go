package memory

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// barrierInit is the block attribute that maps the mbarriers a block allocates
// to the arrivals each of them waits for.
const barrierInit = "barrier_init"

// LowerSharedBarrier initialises the mbarriers of a block at its beginning, by
// one thread, before anyone uses them (PTX ISA, "mbarrier.init" and
// "fence.mbarrier_init").
//
// Precondition: blocks are not lowered. Effect: a block with the attribute
// "barrier_init" begins with the initialisations, a fence that makes them
// visible to asynchronous copies, and a barrier of the block. The attribute
// stays. Invariant: each barrier is initialised once.
var LowerSharedBarrier = &pipeline.Pass{
	Name:         "LowerSharedBarrier",
	Stage:        stage,
	Doc:          "initialise the mbarriers of a block at its beginning",
	Precondition: "Blocks are not lowered; \"barrier_init\" lists an arrival count for each element of a shared.barrier buffer.",
	Effect:       "The block begins with one thread initialising its mbarriers, a fence and a barrier.",
	Before:       "T.sblock_attr({\"barrier_init\": {bar: [1, 128]}})\nbar = T.sblock_alloc_buffer((2,), \"uint64\", scope=\"shared.barrier\")",
	After:        "if T.tl_shuffle_elect(0):\n    T.ptx_init_barrier_thread_count(bar[0], 1)\n    T.ptx_init_barrier_thread_count(bar[1], 128)\nT.ptx_fence_barrier_init()\nT.tvm_storage_sync(\"shared\")",
	Run:          pipeline.BodyPass(nil, lowerBarriers),
}

func lowerBarriers(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	var err error
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		b, ok := s.(*ir.SBlock)
		if !ok || err != nil || b.Annotations.Get(barrierInit) == nil {
			return s
		}
		var inits []ir.Stmt
		inits, err = barrierInits(b)
		if err != nil || len(inits) == 0 {
			return s
		}
		call := func(name string, args ...ir.Expr) ir.Expr { return ir.NewCall(ir.MustOp(name), args...) }
		head := []ir.Stmt{
			&ir.IfThenElse{Cond: call("tl_shuffle_elect", ir.I32(0)), Then: ir.Seq(inits...), Org: b.Org},
			&ir.Evaluate{Value: call("ptx_fence_barrier_init"), Org: b.Org},
			&ir.Evaluate{Value: call("tvm_storage_sync", ir.Str("shared")), Org: b.Org},
		}
		t := *b
		t.Body = ir.Seq(append(head, b.Body)...)
		return &t
	}}
	body := r.Stmt(f.Body)
	return body, err
}

// barrierInits are the initialisations of a block's barriers.
func barrierInits(b *ir.SBlock) ([]ir.Stmt, error) {
	d, ok := b.Annotations.Get(barrierInit).(*ir.Dict)
	if !ok {
		return nil, pipeline.Errorf(b.Org, "%q must map barriers to arrival counts", barrierInit)
	}
	var out []ir.Stmt
	for _, e := range d.Entries {
		buf := blockBuffer(b, e.Key)
		if buf == nil {
			return nil, pipeline.Errorf(b.Org, "%q names a barrier that block %q does not allocate", barrierInit, b.Name)
		}
		counts, ok := e.Value.(ir.List)
		n, isConst := elements(buf)
		if !ok || !isConst || int64(len(counts)) != n {
			return nil, pipeline.Errorf(b.Org, "%q lists %d arrival counts for %s, which has %d barriers", barrierInit, len(counts), buf.Name, n)
		}
		for i, c := range counts {
			count, ok := c.(ir.Expr)
			if !ok || !count.DType().IsInteger() {
				return nil, pipeline.Errorf(b.Org, "%q: arrival count %d of %s is no integer", barrierInit, i, buf.Name)
			}
			bar := &ir.BufferLoad{Buffer: buf, Indices: []ir.Expr{ir.I32(int64(i))}}
			out = append(out, &ir.Evaluate{Value: ir.NewCall(ir.MustOp("ptx_init_barrier_thread_count"), bar, count), Org: b.Org})
		}
	}
	return out, nil
}

// blockBuffer is the buffer a block allocates for a key of an attribute: the
// buffer, another view of its memory, or its pointer.
func blockBuffer(b *ir.SBlock, key ir.Attr) *ir.Buffer {
	var data *ir.Var
	switch k := key.(type) {
	case *ir.Var:
		data = k
	case *ir.Buffer:
		data = k.Data
	}
	for _, a := range b.AllocBuffers {
		if a.Data == data {
			return a
		}
	}
	return nil
}
