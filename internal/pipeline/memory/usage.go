package memory

import "lowertrace/internal/ir"

// touches calls visit for every use of memory a statement makes itself: the
// buffer of a load or store (at is then its indices) or a pointer that is
// mentioned by itself (buffer nil).
func touches(s ir.Stmt, visit func(data *ir.Var)) {
	if st, ok := s.(*ir.BufferStore); ok {
		visit(st.Buffer.Data)
	}
	if _, ok := s.(*ir.SBlock); ok {
		// Regions and annotations of a block describe, they do not access.
		return
	}
	ir.StmtExprs(s, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			visit(e.Buffer.Data)
		case *ir.Var:
			if e.Type.IsHandle() {
				visit(e)
			}
		}
		return true
	})
}

// elements is the number of elements of a buffer of constant shape.
func elements(b *ir.Buffer) (int64, bool) {
	n := int64(1)
	for _, e := range b.Shape {
		v, ok := ir.AsInt(e)
		if !ok || v < 0 {
			return 0, false
		}
		if v != 0 && n > maxElements/v {
			return 0, false
		}
		n *= v
	}
	return n, true
}

// maxElements bounds the size of an allocation that is planned: 2^40 elements
// are beyond any device.
const maxElements = 1 << 40

// lives gives, for each pointer of interest, the statements between which its
// memory is in use, as numbers in program order. A use within a loop extends
// to the whole of the outermost loop that is inside scope, for what one
// iteration leaves the next may read. It extends to the whole of a branch with
// an else, and of a warp-specialized region, for threads may run both sides at
// the same time.
func lives(scope ir.Stmt, interesting func(*ir.Var) bool) map[*ir.Var]interval {
	out := map[*ir.Var]interval{}
	clock := 0
	note := func(v *ir.Var, from, to int) {
		iv, ok := out[v]
		if !ok {
			out[v] = interval{from, to}
			return
		}
		out[v] = interval{min(iv.first, from), max(iv.last, to)}
	}
	var visit func(s ir.Stmt, loop map[*ir.Var]bool)
	visit = func(s ir.Stmt, loop map[*ir.Var]bool) {
		clock++
		touches(s, func(v *ir.Var) {
			if !interesting(v) {
				return
			}
			note(v, clock, clock)
			if loop != nil {
				loop[v] = true
			}
		})
		if loop == nil && atOnce(s) {
			from, inside := clock, map[*ir.Var]bool{}
			touches(s, func(v *ir.Var) {
				if interesting(v) {
					inside[v] = true
				}
			})
			ir.Children(s, func(c ir.Stmt) { visit(c, inside) })
			clock++
			for v := range inside {
				note(v, from, clock)
			}
			return
		}
		ir.Children(s, func(c ir.Stmt) { visit(c, loop) })
	}
	if scope != nil {
		visit(scope, nil)
	}
	return out
}

// atOnce reports statements whose parts may run again, or side by side, before
// the statement ends.
func atOnce(s ir.Stmt) bool {
	switch s := s.(type) {
	case *ir.For, *ir.While:
		return true
	case *ir.IfThenElse:
		return s.Else != nil
	case *ir.AttrStmt:
		return s.Key == ir.KeyWarpSpecialization
	}
	return false
}

// interval is a closed range of statement numbers.
type interval struct{ first, last int }

func (a interval) overlaps(b interval) bool { return a.first <= b.last && b.first <= a.last }
