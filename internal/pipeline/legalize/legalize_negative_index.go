package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/scoped"
)

// LegalizeNegativeIndex makes indices that count from the end count from the
// beginning, as Python's do: A[-1] is the last element.
//
// Precondition: none. Effect: an index that is provably negative has the
// extent of its dimension added; one whose sign is not known stays. Invariant:
// no provably negative index is left.
var LegalizeNegativeIndex = &pipeline.Pass{
	Name:         "LegalizeNegativeIndex",
	Stage:        stage,
	Doc:          "make provably negative indices count from the end of their dimension",
	Precondition: "None.",
	Effect:       "An index that is negative for all values of its variables has the extent of its dimension added. An index that is negative for some values only stays as it is.",
	Before:       "Y[i] = X[-1 - i]",
	After:        "Y[i] = X[127 - i]",
	Run:          pipeline.BodyPass(nil, legalizeNegative),
}

func legalizeNegative(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	r := scoped.New()
	fix := func(b *ir.Buffer, indices []ir.Expr) ([]ir.Expr, bool) {
		if len(indices) != len(b.Shape) {
			return indices, false
		}
		out, changed := indices, false
		for i, e := range indices {
			base := e
			ramp, isRamp := e.(*ir.Ramp)
			if isRamp {
				base = ramp.Base
			}
			if !base.DType().IsInt() || base.DType().Lanes != 1 || r.An.Bound(base).Max >= 0 {
				continue
			}
			if !changed {
				out, changed = append([]ir.Expr(nil), indices...), true
			}
			out[i] = r.An.Simplify(ir.NewBinary(ir.Add, b.Shape[i], base))
			if isRamp {
				out[i] = &ir.Ramp{Base: out[i], Stride: ramp.Stride, Lanes: ramp.Lanes}
			}
		}
		return out, changed
	}
	r.PostStmt = func(s ir.Stmt) ir.Stmt {
		if st, ok := s.(*ir.BufferStore); ok {
			if idx, changed := fix(st.Buffer, st.Indices); changed {
				return &ir.BufferStore{Buffer: st.Buffer, Indices: idx, Value: st.Value, Predicate: st.Predicate, Org: st.Org}
			}
		}
		return s
	}
	r.PostExpr = func(e ir.Expr) ir.Expr {
		if l, ok := e.(*ir.BufferLoad); ok {
			if idx, changed := fix(l.Buffer, l.Indices); changed {
				return &ir.BufferLoad{Buffer: l.Buffer, Indices: idx, Predicate: l.Predicate}
			}
		}
		return e
	}
	return r.Stmt(f.Body), nil
}
