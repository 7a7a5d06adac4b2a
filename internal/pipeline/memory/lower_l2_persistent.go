package memory

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// L2PersistentMap is the function attribute that tells the host which buffers
// to keep in the L2 cache: the name of the buffer's pointer to the hit ratio
// and the bytes.
const L2PersistentMap = "l2_persistent_map"

// LowerL2Persistent moves what T.annotate_l2_hit_ratio states from its block
// to the function, with the size of each buffer, for the host code to set an
// access policy window (CUDA programming guide, "L2 Access Management").
//
// Precondition: blocks are not lowered. Effect: the block attribute
// "l2_hit_ratio_map" becomes the function attribute "l2_persistent_map".
// Invariant: the body does not change otherwise.
var LowerL2Persistent = &pipeline.Pass{
	Name:         "LowerL2Persistent",
	Stage:        stage,
	Doc:          "move L2 residency hints from blocks to the function",
	Precondition: "Blocks are not lowered; the buffers named are parameters.",
	Effect:       "\"l2_hit_ratio_map\" of a block becomes \"l2_persistent_map\" of the function: per buffer the hit ratio and the size in bytes.",
	Before:       "T.sblock_attr({\"l2_hit_ratio_map\": {X.data: T.float32(0.5)}})",
	After:        "T.func_attr({\"l2_persistent_map\": {\"X\": [T.float32(0.5), T.int64(4096)]}})",
	Run:          pipeline.FuncPass(nil, lowerL2),
}

func lowerL2(_ *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
	const key = "l2_hit_ratio_map"
	out, _ := f.Attr(L2PersistentMap).(*ir.Dict)
	var err error
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		b, ok := s.(*ir.SBlock)
		if !ok || b.Annotations.Get(key) == nil || err != nil {
			return s
		}
		d, ok := b.Annotations.Get(key).(*ir.Dict)
		if !ok {
			err = pipeline.Errorf(b.Org, "%q must map buffers to hit ratios", key)
			return s
		}
		for _, e := range d.Entries {
			buf := parameterBuffer(f, e.Key)
			if buf == nil {
				err = pipeline.Errorf(b.Org, "%q names something that is no parameter of %s", key, f.Name)
				return s
			}
			bytes, ok := byteSize(buf)
			if !ok {
				err = pipeline.Errorf(b.Org, "%q: the size of %s is not known before the launch", key, buf.Name)
				return s
			}
			out = out.With(buf.Data.Name, ir.List{e.Value, bytes})
		}
		c := *b
		c.Annotations = b.Annotations.With(key, nil)
		return &c
	}}
	body := r.Stmt(f.Body)
	if err != nil {
		return nil, err
	}
	if body == f.Body {
		return f, nil
	}
	return f.WithBody(body).WithAttr(L2PersistentMap, out), nil
}

func parameterBuffer(f *ir.PrimFunc, key ir.Attr) *ir.Buffer {
	for _, b := range f.BufferMap {
		if key == ir.Attr(b.Buffer.Data) || key == ir.Attr(b.Buffer) {
			return b.Buffer
		}
	}
	return nil
}

// byteSize is the size of a buffer as int64; symbolic for symbolic shapes.
func byteSize(b *ir.Buffer) (ir.Expr, bool) {
	var n ir.Expr = ir.IntConst(ir.DInt64, int64(b.Type.Bytes()))
	for _, e := range b.Shape {
		if !e.DType().IsInteger() {
			return nil, false
		}
		n = ir.NewBinary(ir.Mul, n, ir.CastTo(e, ir.DInt64))
	}
	return n, true
}
