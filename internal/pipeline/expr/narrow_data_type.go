package expr

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/scoped"
)

// NarrowDataType computes int64 indices in int32 where every value on the way
// provably fits.
//
// Precondition: none. Effect: an index of a load or store, or a loop, of type
// int64 becomes int32 when its bounds and those of each of its parts lie within
// int32. Parts that read memory keep their type and with them the whole index.
// Invariant: values do not change.
var NarrowDataType = &pipeline.Pass{
	Name:         "NarrowDataType",
	Stage:        stage,
	Doc:          "compute int64 indices in int32 where they fit",
	Precondition: "None.",
	Effect:       "int64 indices and loop variables whose bounds, and those of all their parts, fit int32 become int32.",
	Before:       "A[T.Cast(\"int64\", tx) * T.int64(4)]",
	After:        "A[tx * 4]",
	Run:          pipeline.BodyPass(nil, narrowTypes),
}

type narrowing struct {
	*scoped.Rewriter
	loops map[*ir.Var]*ir.Var // int64 loop variables and their int32 ones
}

func narrowTypes(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	n := &narrowing{Rewriter: scoped.New(), loops: map[*ir.Var]*ir.Var{}}
	n.PreStmt, n.PostStmt, n.PostExpr = n.loop, n.store, n.load
	n.Var = func(v *ir.Var) ir.Expr {
		if w := n.loops[v]; w != nil {
			return &ir.Cast{Type: v.Type, Value: w}
		}
		return v
	}
	return n.Stmt(f.Body), nil
}

var int32Bound = arith.TypeBound(ir.DInt32)

func (n *narrowing) fits(e ir.Expr) bool { return int32Bound.Contains(n.An.Bound(e)) }

func (n *narrowing) loop(s ir.Stmt) (ir.Stmt, bool) {
	f, ok := s.(*ir.For)
	if !ok || f.Var.Type != ir.DInt64 || f.Step != nil {
		return s, false
	}
	last := ir.NewBinary(ir.Add, f.Min, f.Extent)
	if !n.fits(f.Min) || !n.fits(f.Extent) || !n.fits(last) {
		return s, false
	}
	lo, extent := n.narrow(n.Expr(f.Min)), n.narrow(n.Expr(f.Extent))
	if lo == nil || extent == nil {
		return s, false
	}
	v := &ir.Var{Name: f.Var.Name, Type: ir.DInt32}
	n.loops[f.Var] = v
	t := *f
	t.Var, t.Min, t.Extent = v, lo, extent
	undo := n.BindLoop(&t)
	t.Body = n.Stmt(f.Body)
	undo()
	return &t, true
}

func (n *narrowing) store(s ir.Stmt) ir.Stmt {
	st, ok := s.(*ir.BufferStore)
	if !ok {
		return s
	}
	if idx, changed := n.indices(st.Indices); changed {
		return &ir.BufferStore{Buffer: st.Buffer, Indices: idx, Value: st.Value, Predicate: st.Predicate, Org: st.Org}
	}
	return s
}

func (n *narrowing) load(e ir.Expr) ir.Expr {
	l, ok := e.(*ir.BufferLoad)
	if !ok {
		return e
	}
	if idx, changed := n.indices(l.Indices); changed {
		return &ir.BufferLoad{Buffer: l.Buffer, Indices: idx, Predicate: l.Predicate}
	}
	return e
}

func (n *narrowing) indices(list []ir.Expr) ([]ir.Expr, bool) {
	out, changed := list, false
	for i, e := range list {
		if _, isConst := e.(*ir.IntImm); isConst || e.DType().Scalar() != ir.DInt64 {
			continue
		}
		w := n.narrow(e)
		if w == nil {
			continue
		}
		if !changed {
			out, changed = append([]ir.Expr(nil), list...), true
		}
		out[i] = w
	}
	return out, changed
}

// narrow is an int64 expression in int32, nil when some part does not fit.
func (n *narrowing) narrow(e ir.Expr) ir.Expr {
	t := e.DType()
	if t.Scalar() == ir.DInt32 {
		return e
	}
	if t.Scalar() != ir.DInt64 || !n.fits(e) {
		return nil
	}
	switch e := e.(type) {
	case *ir.IntImm:
		return ir.IntConst(ir.DInt32, e.Value)
	case *ir.Cast:
		if from := e.Value.DType(); from.IsInt() && from.Bits <= 32 || from.IsUInt() && from.Bits < 32 || from.IsBool() {
			return ir.CastTo(e.Value, ir.DInt32.WithLanes(int(t.Lanes)))
		}
	case *ir.Binary:
		if e.Op.IsComparison() || e.Op.IsLogical() {
			return nil
		}
		a, b := n.narrow(e.A), n.narrow(e.B)
		if a != nil && b != nil {
			return &ir.Binary{Op: e.Op, A: a, B: b}
		}
	case *ir.Ramp:
		a, b := n.narrow(e.Base), n.narrow(e.Stride)
		if a != nil && b != nil {
			return &ir.Ramp{Base: a, Stride: b, Lanes: e.Lanes}
		}
	case *ir.Broadcast:
		if v := n.narrow(e.Value); v != nil {
			return &ir.Broadcast{Value: v, Lanes: e.Lanes}
		}
	}
	return nil
}
