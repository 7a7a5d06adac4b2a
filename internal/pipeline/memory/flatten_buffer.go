package memory

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/scoped"
)

// FlattenBuffer makes every buffer one-dimensional.
//
// Precondition: no tile operators and no blocks are left. Effect: an access of
// B[i, j] becomes one of a view of the same memory of the size of B, at
// i*stride0 + j*stride1, simplified. An index, or the offset of a pointer, whose
// value may not fit int32 is computed in int64. Memory of bools is accessed as int8. Invariant: buffers
// of accesses have one dimension and no strides.
//
//	X[bx, tx]  ->  X_1[bx * 256 + tx]
var FlattenBuffer = &pipeline.Pass{
	Name:         "FlattenBuffer",
	Stage:        stage,
	Doc:          "make buffers one-dimensional",
	Precondition: "Tile operators and blocks are lowered; axis separators do not exist.",
	Effect:       "Every access goes through a one-dimensional view with the simplified offset as index. Indices that may exceed int32 are computed in int64; bools are stored as int8.",
	Before:       "Y[bx, tx] = X[bx, tx]",
	After:        "Y_1[bx * 256 + tx] = X_1[bx * 256 + tx]",
	Run:          pipeline.BodyPass(nil, flattenBuffers),
}

type flattener struct {
	*scoped.Rewriter
	flat map[*ir.Buffer]*ir.Buffer
	// data are the pointers to allocated bools and the pointers to int8 that
	// replace them.
	data map[*ir.Var]*ir.Var
	err  error
}

func flattenBuffers(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	fl := &flattener{Rewriter: scoped.New(), flat: map[*ir.Buffer]*ir.Buffer{}, data: map[*ir.Var]*ir.Var{}}
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		if a, ok := s.(*ir.AllocBuffer); ok && a.Buffer.Type.IsBool() {
			v := a.Buffer.Data
			fl.data[v] = &ir.Var{Name: v.Name, Type: v.Type, Ptr: &ir.PointerType{Elem: ir.DInt8.WithLanes(int(a.Buffer.Type.Lanes)), Scope: a.Buffer.Scope()}}
		}
		return true
	})
	fl.PreStmt, fl.PostStmt, fl.PostExpr = fl.pre, fl.stmt, fl.expr
	fl.Var = func(v *ir.Var) ir.Expr {
		if w := fl.data[v]; w != nil {
			return w
		}
		return v
	}
	body := fl.Stmt(f.Body)
	return body, fl.err
}

// buffer is the flat form of a buffer, itself when it is flat already.
func (fl *flattener) buffer(b *ir.Buffer) *ir.Buffer {
	if c, ok := fl.flat[b]; ok {
		return c
	}
	if len(b.Shape) == 1 && b.Strides == nil && !b.Type.IsBool() {
		fl.flat[b] = b
		return b
	}
	c := *b
	if b.Type.IsBool() {
		c.Type = ir.DInt8.WithLanes(int(b.Type.Lanes))
	}
	if w := fl.data[b.Data]; w != nil {
		c.Data = w
	}
	c.Shape, c.Strides = []ir.Expr{fl.size(b)}, nil
	fl.flat[b] = &c
	return &c
}

// size is how many elements lie between the first and the end of a buffer: the
// product of its shape, or the first dimension times its stride when it has
// strides. (Dimensions are ordered from slowest to fastest; a stride says more
// about the first than the shape does.)
func (fl *flattener) size(b *ir.Buffer) ir.Expr {
	if len(b.Strides) > 0 {
		return fl.An.Simplify(mul(b.Shape[0], b.Strides[0]))
	}
	var n ir.Expr = ir.I32(1)
	for _, e := range b.Shape {
		n = mul(n, e)
	}
	return fl.An.Simplify(n)
}

// mul multiplies sizes in int64 when the product of constants exceeds int32.
func mul(a, b ir.Expr) ir.Expr {
	x, ok := ir.AsInt(a)
	y, ok2 := ir.AsInt(b)
	if ok && ok2 && (y == 0 || x*y/y == x) && int64(int32(x*y)) != x*y {
		return ir.IntConst(ir.DInt64, x*y)
	}
	return ir.NewBinary(ir.Mul, a, b)
}

func (fl *flattener) pre(s ir.Stmt) (ir.Stmt, bool) {
	if b, ok := s.(*ir.SBlock); ok && fl.err == nil {
		fl.err = pipeline.Errorf(b.Org, "block %q must be lowered before buffers are flattened", b.Name)
	}
	return s, fl.err != nil
}

func (fl *flattener) stmt(s ir.Stmt) ir.Stmt {
	switch s := s.(type) {
	case *ir.BufferStore:
		b, idx := fl.access(s.Buffer, s.Indices)
		if b == s.Buffer && same(idx, s.Indices) {
			return s
		}
		v := s.Value
		if s.Buffer.Type.IsBool() {
			v = ir.CastTo(v, ir.DInt8.WithLanes(int(v.DType().Lanes)))
		}
		return &ir.BufferStore{Buffer: b, Indices: idx, Value: v, Predicate: s.Predicate, Org: s.Org}
	case *ir.AllocBuffer:
		if b := fl.buffer(s.Buffer); b != s.Buffer {
			return &ir.AllocBuffer{Buffer: b, Annotations: s.Annotations, Org: s.Org}
		}
	case *ir.DeclBuffer:
		if b := fl.buffer(s.Buffer); b != s.Buffer {
			return &ir.DeclBuffer{Buffer: b, Org: s.Org}
		}
	}
	return s
}

func (fl *flattener) expr(e ir.Expr) ir.Expr {
	if p, ok := ir.IsCall(e, "tvm_access_ptr"); ok && p.Args[2].DType() == ir.DInt32 {
		wide := promote(p.Args[2])
		if fits(fl.An.Bound(wide)) || fits(fl.An.Bound(fl.An.Simplify(wide))) {
			return e
		}
		args := append([]ir.Expr(nil), p.Args...)
		args[2] = fl.An.Simplify(wide)
		return &ir.Call{Op: p.Op, Type: p.Type, Args: args, Attrs: p.Attrs}
	}
	l, ok := e.(*ir.BufferLoad)
	if !ok {
		return e
	}
	b, idx := fl.access(l.Buffer, l.Indices)
	if b == l.Buffer && same(idx, l.Indices) {
		return e
	}
	var out ir.Expr = &ir.BufferLoad{Buffer: b, Indices: idx, Predicate: l.Predicate}
	if l.Buffer.Type.IsBool() {
		out = &ir.Cast{Type: ir.DBool.WithLanes(int(out.DType().Lanes)), Value: out}
	}
	return out
}

// same reports that a flat access has kept its index.
func same(a, b []ir.Expr) bool { return len(a) == 1 && len(b) == 1 && a[0] == b[0] }

func (fl *flattener) access(b *ir.Buffer, indices []ir.Expr) (*ir.Buffer, []ir.Expr) {
	c := fl.buffer(b)
	if fl.err != nil {
		return b, indices
	}
	if len(indices) != len(b.Shape) {
		fl.err = pipeline.Errorf(fl.Span, "%s has %d dimensions and is indexed with %d", b.Name, len(b.Shape), len(indices))
		return b, indices
	}
	if len(indices) == 0 {
		return c, []ir.Expr{ir.I32(0)}
	}
	if len(indices) == 1 && b.Strides == nil {
		if _, plain := indices[0].(*ir.Var); plain || !indices[0].DType().IsScalar() {
			return c, indices
		}
	}
	return c, []ir.Expr{fl.offset(b, indices)}
}

// offset is the index of an element in the flat buffer.
func (fl *flattener) offset(b *ir.Buffer, indices []ir.Expr) ir.Expr {
	strides := b.Strides
	if strides == nil {
		strides = ir.RowMajorStrides(b.Shape)
	}
	base, ramp := flatSum(indices, strides, func(e ir.Expr) ir.Expr { return e })
	if base.DType() == ir.DInt32 {
		wide, wideRamp := flatSum(indices, strides, promote)
		last := wide
		if wideRamp != nil {
			last = ir.NewBinary(ir.Add, wide, ir.NewBinary(ir.Mul, wideRamp.Stride, ir.IntConst(ir.DInt64, int64(wideRamp.Lanes-1))))
		}
		// The bounds of the sum as it stands are cheap; those of its
		// simplified form are tighter.
		if !fits(fl.An.Bound(last)) && !fits(fl.An.Bound(fl.An.Simplify(last))) {
			base, ramp = wide, wideRamp
		}
	}
	base = fl.An.Simplify(base)
	if ramp != nil {
		return &ir.Ramp{Base: base, Stride: fl.An.Simplify(ramp.Stride), Lanes: ramp.Lanes}
	}
	return base
}

// flatSum is the sum of indices times strides after a conversion. A vector
// index gives the first element and, as a Ramp without base, the step.
func flatSum(indices, strides []ir.Expr, conv func(ir.Expr) ir.Expr) (ir.Expr, *ir.Ramp) {
	var off ir.Expr
	var ramp *ir.Ramp
	for i, e := range indices {
		st := conv(strides[i])
		if r, ok := e.(*ir.Ramp); ok {
			ramp = &ir.Ramp{Stride: ir.NewBinary(ir.Mul, conv(r.Stride), st), Lanes: r.Lanes}
			e = r.Base
		}
		t := ir.NewBinary(ir.Mul, conv(e), st)
		if off != nil {
			t = ir.NewBinary(ir.Add, off, t)
		}
		off = t
	}
	return off, ramp
}

// fits reports that all values fit int32.
func fits(b arith.Bound) bool { return b.Min >= -1<<31 && b.Max <= 1<<31-1 }

// promote computes an int32 expression in int64: its variables, loads and
// other leaves are widened, so that no operation on the way can overflow.
func promote(e ir.Expr) ir.Expr {
	t := e.DType()
	if !t.IsInteger() || t.Bits >= 64 {
		return e
	}
	wide := ir.DInt64.WithLanes(int(t.Lanes))
	switch e := e.(type) {
	case *ir.IntImm:
		return ir.IntConst(ir.DInt64, e.Value)
	case *ir.Binary:
		if t.IsInt() {
			return &ir.Binary{Op: e.Op, A: promote(e.A), B: promote(e.B)}
		}
	case *ir.Broadcast:
		return &ir.Broadcast{Value: promote(e.Value), Lanes: e.Lanes}
	case *ir.Ramp:
		return &ir.Ramp{Base: promote(e.Base), Stride: promote(e.Stride), Lanes: e.Lanes}
	}
	return &ir.Cast{Type: wide, Value: e}
}
