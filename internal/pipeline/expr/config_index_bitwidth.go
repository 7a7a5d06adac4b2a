package expr

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// IndexBitwidth is the width in bits of indices: 32 lets each pass choose, 64
// makes all of them int64.
var IndexBitwidth = pipeline.RegisterOption(pipeline.Option{
	Key: "tl.config_index_bitwidth", Default: 32,
	Doc: "width of indices in bits: 32 (as narrow as is safe) or 64",
})

// ConfigIndexBitwidth computes all indices in int64 when the option asks for
// it.
//
// Precondition: buffers are flat. Effect: with "tl.config_index_bitwidth" 64,
// an int32 index is computed in int64 from its variables on; otherwise nothing
// changes. Invariant: an index that did not overflow keeps its value.
var ConfigIndexBitwidth = &pipeline.Pass{
	Name:         "ConfigIndexBitwidth",
	Stage:        stage,
	Doc:          "compute indices in 64 bits when asked to",
	Precondition: "Buffers are flat.",
	Effect:       "With tl.config_index_bitwidth=64 every index is computed in int64.",
	Before:       "A[bx * 256 + tx]",
	After:        "A[T.Cast(\"int64\", bx) * T.int64(256) + T.Cast(\"int64\", tx)]",
	Options:      []string{IndexBitwidth},
	Run:          pipeline.BodyPass(nil, configIndices),
}

func configIndices(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	switch n := c.Int(IndexBitwidth); n {
	case 32:
		return f.Body, nil
	case 64:
	default:
		return nil, pipeline.Errorf(f.Org, "%s is %d; it can be 32 or 64", IndexBitwidth, n)
	}
	widen := func(list []ir.Expr) ([]ir.Expr, bool) {
		out := list
		for i, e := range list {
			w := widenIndex(e)
			if w == e {
				continue
			}
			if &out[0] == &list[0] {
				out = append([]ir.Expr(nil), list...)
			}
			out[i] = w
		}
		return out, len(list) > 0 && &out[0] != &list[0]
	}
	r := ir.Rewriter{
		PostExpr: func(e ir.Expr) ir.Expr {
			if l, ok := e.(*ir.BufferLoad); ok {
				if idx, changed := widen(l.Indices); changed {
					return &ir.BufferLoad{Buffer: l.Buffer, Indices: idx, Predicate: l.Predicate}
				}
			}
			return e
		},
		PostStmt: func(s ir.Stmt) ir.Stmt {
			if st, ok := s.(*ir.BufferStore); ok {
				if idx, changed := widen(st.Indices); changed {
					return &ir.BufferStore{Buffer: st.Buffer, Indices: idx, Value: st.Value, Predicate: st.Predicate, Org: st.Org}
				}
			}
			return s
		},
	}
	return r.Stmt(f.Body), nil
}

// widenIndex computes a signed integer expression in int64. Constants by
// themselves stay: they fit as they are.
func widenIndex(e ir.Expr) ir.Expr {
	if _, ok := e.(*ir.IntImm); ok {
		return e
	}
	return widen(e)
}

func widen(e ir.Expr) ir.Expr {
	t := e.DType()
	if !t.IsInt() || t.Bits >= 64 {
		return e
	}
	switch e := e.(type) {
	case *ir.IntImm:
		return ir.IntConst(ir.DInt64, e.Value)
	case *ir.Binary:
		return &ir.Binary{Op: e.Op, A: widen(e.A), B: widen(e.B)}
	case *ir.Ramp:
		return &ir.Ramp{Base: widen(e.Base), Stride: widen(e.Stride), Lanes: e.Lanes}
	case *ir.Broadcast:
		return &ir.Broadcast{Value: widen(e.Value), Lanes: e.Lanes}
	}
	return &ir.Cast{Type: ir.DInt64.WithLanes(int(t.Lanes)), Value: e}
}
