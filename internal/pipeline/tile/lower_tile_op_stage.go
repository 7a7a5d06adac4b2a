package tile

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// Loops that accumulate into a register tile, several iterations into one
// register, cannot be vectorized as a whole. Their loads from memory still can:
// a group's elements are loaded at once into a few registers, which the
// iterations then use one by one.

// staged is such a loop: v iterations to a group, loads[k] going to temps[k].
type staged struct {
	v     int64
	loads []*ir.BufferLoad
	temps []*ir.Buffer
}

// stage finds the loads of a nest that are worth loading by groups; nil when
// there are none.
func (lw *lowerer) stage(sh *share, e env) *staged {
	st := accumulation(sh.n.body)
	if st == nil {
		return nil
	}
	v := sh.part.Contiguity()
	for v > 1 && sh.part.Regs%v != 0 {
		v /= 2
	}
	if v == 1 || !wholeGroups(sh, v) {
		return nil
	}
	n := sh.n
	inner := e
	for _, f := range n.loops {
		inner = inner.loop(f)
	}
	k := len(n.loops) - 1
	w := newWidths(inner.analyzer(), n.vars[k], n.ext[k], lw.lay)
	s := &staged{v: v}
	ok := true
	ir.WalkExpr(st.Value, func(x ir.Expr) bool {
		switch x := x.(type) {
		case *ir.Select:
			ok = false
		case *ir.Call: // a load that runs under a condition only
			ok = ok && (x.Op != nil && x.Op.Effect == ir.Pure && x.Op.Name != "if_then_else")
		case *ir.BufferLoad:
			if !isGlobal(x.Buffer) && !isShared(x.Buffer) {
				return true
			}
			off := w.offset(x.Buffer, x.Indices)
			if !w.uses(off) {
				return true
			}
			width := s.v
			for width > 1 && !(width*bitsOf(x.Buffer.Type) <= maxVectorBits && w.contiguous(off, width)) {
				width /= 2
			}
			if width == 1 {
				return true // stays a load of its own
			}
			s.v = width
			s.loads = append(s.loads, x)
			return false
		}
		return ok
	})
	if !ok || len(s.loads) == 0 {
		return nil
	}
	for _, ld := range s.loads {
		b := ir.NewBuffer(ld.Buffer.Name+"_vec", ld.Buffer.Type, "local", i32(s.v))
		b.Org = st.Org
		s.temps = append(s.temps, b)
	}
	return s
}

// accumulation is the body of a nest if it is one store to a register tile,
// possibly marked to run once for each iteration.
func accumulation(s ir.Stmt) *ir.BufferStore {
	if a, ok := s.(*ir.AttrStmt); ok && a.Key == keyMultiplicity {
		s = a.Body
	}
	st, ok := s.(*ir.BufferStore)
	if !ok || !isFragment(st.Buffer) {
		return nil
	}
	return st
}

// wholeGroups reports that groups of v iterations of a thread exist as a whole.
func wholeGroups(sh *share, v int64) bool {
	for g := int64(0); g < int64(len(sh.inv)); g += v {
		for l := int64(1); l < v; l++ {
			if (sh.inv[g+l] == layout.Hole) != (sh.inv[g] == layout.Hole) {
				return false
			}
		}
	}
	return true
}

// lower makes the body of one group: the loads, then the iterations. lane is
// the variable of the lane in idx.
func (s *staged) lower(lw *lowerer, sh *share, idx []ir.Expr, lane *ir.Var, e env) (ir.Stmt, error) {
	org := sh.n.root.Org
	var out []ir.Stmt
	for k, t := range s.temps {
		v := &ir.Var{Name: "vec", Type: ir.DInt32}
		at := make([]ir.Expr, len(idx))
		for d, x := range idx {
			at[d] = foldExpr(x, func(y *ir.Var) ir.Expr {
				if y == lane {
					return v
				}
				return y
			})
		}
		load := *sh.n
		load.body = &ir.BufferStore{Buffer: t, Indices: []ir.Expr{v}, Value: s.loads[k], Org: org}
		one := *sh
		one.n = &load
		out = append(out, &ir.AllocBuffer{Buffer: t, Org: org},
			&ir.For{Var: v, Min: i32(0), Extent: i32(s.v), Kind: ir.Vectorized, Body: lw.body(&one, at, e), Org: org})
	}
	use := *sh.n
	r := ir.Rewriter{PreExpr: func(x ir.Expr) (ir.Expr, bool) {
		for k, ld := range s.loads {
			if x == ir.Expr(ld) {
				return &ir.BufferLoad{Buffer: s.temps[k], Indices: []ir.Expr{lane}}, true
			}
		}
		return nil, false
	}}
	use.body = r.Stmt(sh.n.body)
	one := *sh
	one.n = &use
	body, err := one.onceEach(lw.body(&one, idx, e))
	if err != nil {
		return nil, err
	}
	return ir.Seq(append(out, &ir.For{Var: lane, Min: i32(0), Extent: i32(s.v), Kind: ir.Unrolled, Body: body, Org: org})...), nil
}
