package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// LowerAccessPtr turns pointers to elements, as front ends write them, into
// the pointers of the lower levels: data, offset, extent and access mask.
//
// Precondition: layouts are applied, so that the strides of a buffer say where
// its elements lie. Effect: access_ptr(B[i, j], extent, mask) becomes
// tvm_access_ptr(type, B.data, offset, extent, mask) with the offset in
// elements. Invariant: no access_ptr is left.
var LowerAccessPtr = &pipeline.Pass{
	Name:         "LowerAccessPtr",
	Stage:        stage,
	Doc:          "turn element pointers into data pointer, offset, extent and mask",
	Precondition: "Layouts are applied: buffers are row-major or have strides.",
	Effect:       "T.access_ptr(B[i, j], extent, mask) becomes T.tvm_access_ptr with the offset of the element.",
	Before:       "T.atomic_add_elem_op(T.access_ptr(H[i, j], 1, 3), v)",
	After:        "T.atomic_add_elem_op(T.tvm_access_ptr(T.type_annotation(\"int32\"), H.data, i * 64 + j, 1, 3), v)",
	Run:          pipeline.BodyPass(nil, lowerAccessPtrs),
}

func lowerAccessPtrs(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	var err error
	span := f.Org
	r := ir.Rewriter{
		PreStmt: func(s ir.Stmt) (ir.Stmt, bool) {
			if s.Origin().IsValid() {
				span = s.Origin()
			}
			return s, err != nil
		},
		PostExpr: func(e ir.Expr) ir.Expr {
			call, ok := ir.IsCall(e, "access_ptr")
			if !ok || err != nil {
				return e
			}
			l, ok := call.Args[0].(*ir.BufferLoad)
			if !ok {
				err = pipeline.Errorf(span, "T.access_ptr takes an element of a buffer")
				return e
			}
			if len(l.Indices) != len(l.Buffer.Shape) {
				err = pipeline.Errorf(span, "%s has %d dimensions and is indexed with %d", l.Buffer.Name, len(l.Buffer.Shape), len(l.Indices))
				return e
			}
			typ := ir.NewTypedCall(ir.MustOp("type_annotation"), l.Buffer.Type)
			return ir.NewCall(ir.MustOp("tvm_access_ptr"), typ, l.Buffer.Data, elementOffset(l), call.Args[1], call.Args[2])
		},
	}
	body := r.Stmt(f.Body)
	return body, err
}

// elementOffset is the offset of an element from its buffer's data, in
// elements.
func elementOffset(l *ir.BufferLoad) ir.Expr {
	b := l.Buffer
	strides := b.Strides
	if strides == nil {
		strides = ir.RowMajorStrides(b.Shape)
	}
	var off ir.Expr = ir.I32(0)
	if b.ElemOffset != nil {
		off = b.ElemOffset
	}
	for i, e := range l.Indices {
		off = ir.NewBinary(ir.Add, off, ir.NewBinary(ir.Mul, e, strides[i]))
	}
	return off
}
