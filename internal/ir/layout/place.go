package layout

import (
	"fmt"

	"lowertrace/internal/ir"
)

// MaxDims bounds the logical dimensions of a layout.
const MaxDims = 8

var (
	placeholders = func() (v [MaxDims]*ir.Var) {
		for d := range v {
			v[d] = &ir.Var{Name: "_" + string(rune('i'+d)), Type: ir.DInt32}
		}
		return
	}()
	// Rep is the placeholder of the replica number.
	Rep = &ir.Var{Name: "_rep", Type: ir.DInt32}
)

// Var is the placeholder of logical dimension d, printed _i, _j, _k, ….
func Var(d int) *ir.Var { return placeholders[d] }

// Vars are the first n placeholders.
func Vars(n int) []*ir.Var { return placeholders[:n:n] }

func exprs(vars []*ir.Var) []ir.Expr {
	out := make([]ir.Expr, len(vars))
	for i, v := range vars {
		out[i] = v
	}
	return out
}

// apply substitutes indices for the first placeholders, and rep (if not nil)
// for Rep, folding constants.
func apply(e ir.Expr, indices []ir.Expr, rep ir.Expr) ir.Expr {
	return substitute(e, func(v *ir.Var) ir.Expr {
		if v == Rep && rep != nil {
			return rep
		}
		for d, p := range placeholders {
			if p == v && d < len(indices) {
				return ir.CastTo(indices[d], ir.DInt32)
			}
		}
		return v
	})
}

// canonical rewrites e over the placeholders instead of vars.
func canonical(e ir.Expr, vars []*ir.Var, rep *ir.Var) ir.Expr {
	return substitute(e, func(v *ir.Var) ir.Expr {
		if v == rep && rep != nil {
			return Rep
		}
		for d, p := range vars {
			if p == v {
				return placeholders[d]
			}
		}
		return v
	})
}

func substitute(e ir.Expr, f func(*ir.Var) ir.Expr) ir.Expr {
	r := ir.Rewriter{Var: f, PostExpr: func(e ir.Expr) ir.Expr {
		if b, ok := e.(*ir.Binary); ok && b.A.DType() == b.B.DType() {
			x := ir.NewBinary(b.Op, b.A, b.B)
			if y, ok := x.(*ir.Binary); !ok || y.A != b.A || y.B != b.B {
				return x
			}
		}
		return e
	}}
	return r.Expr(e)
}

// ConstShape is the shape of what is tabulated as integers; an error when a
// size is not a positive constant or there are more than MaxPoints elements.
func ConstShape(shape []ir.Expr) ([]int64, error) { return constShape(shape, MaxPoints) }

// BufferShape is ConstShape for buffers of any scope, which can have many more
// elements.
func BufferShape(shape []ir.Expr) ([]int64, error) { return constShape(shape, maxElements) }

func constShape(shape []ir.Expr, most int64) ([]int64, error) {
	if len(shape) > MaxDims {
		return nil, fmt.Errorf("more than %d dimensions", MaxDims)
	}
	out := make([]int64, len(shape))
	n := int64(1)
	for d, e := range shape {
		v, ok := ir.AsInt(e)
		if !ok {
			return nil, fmt.Errorf("size %d of the shape is not a constant", d)
		}
		if v <= 0 {
			return nil, fmt.Errorf("size %d of the shape is %d", d, v)
		}
		if out[d] = v; v > most/n {
			return nil, fmt.Errorf("more than %d points", most)
		}
		n *= v
	}
	return out, nil
}

func product(shape []int64) int64 {
	n := int64(1)
	for _, x := range shape {
		n *= x
	}
	return n
}

func intExprs(shape []int64) []ir.Expr {
	out := make([]ir.Expr, len(shape))
	for i, x := range shape {
		out[i] = ir.I32(x)
	}
	return out
}

// Unflatten splits a row-major linear index into one index for each dimension
// of a shape.
func Unflatten(linear ir.Expr, shape []int64) []ir.Expr {
	out := make([]ir.Expr, len(shape))
	stride := int64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		e := linear
		if d > 0 {
			e = ir.NewBinary(ir.FloorMod, e, ir.I32(stride*shape[d]))
		}
		out[d] = ir.NewBinary(ir.FloorDiv, e, ir.I32(stride))
		stride *= shape[d]
	}
	return out
}

// Flatten is the row-major linear index of indices in a shape.
func Flatten(indices []ir.Expr, shape []int64) ir.Expr {
	var e ir.Expr = ir.I32(0)
	for d, x := range indices {
		e = ir.NewBinary(ir.Add, ir.NewBinary(ir.Mul, e, ir.I32(shape[d])), x)
	}
	return e
}

func sameShape(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
