package tile

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/ir/script"
)

// maxVectorBits is the widest access of one thread: 16 bytes (PTX ISA, "ld",
// .v4.b32).
const maxVectorBits = 128

// widths finds how many iterations of a loop one vector access can serve.
type widths struct {
	an  *arith.Analyzer
	v   *ir.Var // the loop's variable, from 0
	ext int64
	lay *layouts
	why string // what limited the last answer

	group, lane *ir.Var
}

func newWidths(an *arith.Analyzer, v *ir.Var, ext int64, lay *layouts) *widths {
	return &widths{
		an: an, v: v, ext: ext, lay: lay,
		group: &ir.Var{Name: "group", Type: ir.DInt32}, lane: &ir.Var{Name: "lane", Type: ir.DInt32},
	}
}

// offset is the flat offset of an access, in elements: physical if the buffer
// has a layout.
func (w *widths) offset(b *ir.Buffer, indices []ir.Expr) ir.Expr {
	if w.lay != nil {
		if m := w.lay.maps[b]; m != nil && len(m.Shape) == len(indices) {
			return layout.Flatten(m.Apply(indices), m.Out)
		}
	}
	return flatOffset(b, indices)
}

func flatOffset(b *ir.Buffer, indices []ir.Expr) ir.Expr {
	strides := b.Strides
	if strides == nil {
		strides = ir.RowMajorStrides(b.Shape)
	}
	var e ir.Expr = i32(0)
	if b.ElemOffset != nil {
		e = b.ElemOffset
	}
	for d, x := range indices {
		if d < len(strides) {
			e = add(e, mul(x, strides[d]))
		}
	}
	return e
}

// at is e with the loop's variable replaced by k*n + l, k running over the
// groups.
func (w *widths) at(e ir.Expr, n, l int64) ir.Expr {
	return w.with(e, add(mul(w.group, i32(n)), i32(l)))
}

// atLane is at with the lane as a variable.
func (w *widths) atLane(e ir.Expr, n int64) ir.Expr {
	return w.with(e, add(mul(w.group, i32(n)), w.lane))
}

func (w *widths) with(e, idx ir.Expr) ir.Expr {
	return distribute(ir.Substitute(e, func(v *ir.Var) ir.Expr {
		if v == w.v {
			return ir.CastTo(idx, v.Type)
		}
		return v
	}))
}

// distribute moves widening casts from sums and products of indices to their
// terms, where they cancel; indices do not overflow.
func distribute(e ir.Expr) ir.Expr {
	r := ir.Rewriter{PostExpr: func(e ir.Expr) ir.Expr {
		c, ok := e.(*ir.Cast)
		if !ok || c.Type != ir.DInt64 || c.Value.DType() != ir.DInt32 {
			return e
		}
		return widen(c.Value)
	}}
	return r.Expr(e)
}

func widen(e ir.Expr) ir.Expr {
	if b, ok := e.(*ir.Binary); ok {
		switch b.Op {
		case ir.Add, ir.Sub, ir.Mul:
			return ir.NewBinary(b.Op, widen(b.A), widen(b.B))
		}
	}
	return ir.CastTo(e, ir.DInt64)
}

func (w *widths) uses(e ir.Expr) bool {
	return ir.UsesVar(e, func(v *ir.Var) bool { return v == w.v })
}

// slope is how e changes within a group of n iterations: 0, or step for each
// further one; ok is false when it does neither. base is e at the group's
// start.
func (w *widths) slope(e ir.Expr, n int64) (base ir.Expr, step int64, ok bool) {
	base = w.an.Simplify(w.at(e, n, 0))
	if !w.uses(e) {
		return base, 0, true
	}
	// With the lane as a variable one query decides the usual cases.
	undo := w.an.BindVar(w.lane, i32(0), i32(n))
	d := w.an.Simplify(sub(w.atLane(e, n), base))
	undo()
	if c, ok := d.(*ir.Cast); ok && c.Type.IsInteger() {
		d = c.Value
	}
	switch {
	case d == ir.Expr(w.lane):
		return base, 1, true
	case ir.IsConst(d, 0):
		return base, 0, true
	}
	for l := int64(1); l < n; l++ {
		d, isConst := ir.AsInt(w.an.Simplify(sub(w.at(e, n, l), base)))
		if !isConst {
			return base, 0, false
		}
		if l == 1 {
			step = d
		}
		if d != step*l {
			return base, 0, false
		}
	}
	return base, step, true
}

// contiguous reports whether n iterations access n successive elements whose
// first is aligned to n.
func (w *widths) contiguous(off ir.Expr, n int64) bool {
	base, step, ok := w.slope(off, n)
	return ok && step == 1 && w.an.IsMultipleOf(base, n)
}

// same reports whether n iterations have one value of an index.
func (w *widths) same(e ir.Expr, n int64) bool {
	_, step, ok := w.slope(e, n)
	return ok && step == 0
}

// uniform reports whether a condition has one value in a group of n
// iterations.
func (w *widths) uniform(c ir.Expr, n int64) bool {
	if !w.uses(c) {
		return true
	}
	switch c := c.(type) {
	case *ir.Not:
		return w.uniform(c.A, n)
	case *ir.Call:
		if c.Op != nil {
			switch c.Op.Name {
			case "likely":
				return w.uniform(c.Args[0], n)
			case "bitwise_and", "bitwise_or":
				if c.Type.IsBool() {
					return w.uniform(c.Args[0], n) && w.uniform(c.Args[1], n)
				}
			}
		}
	case *ir.Binary:
		if c.Op.IsLogical() {
			return w.uniform(c.A, n) && w.uniform(c.B, n)
		}
		if !c.Op.IsComparison() || !c.A.DType().IsInteger() || !c.A.DType().IsScalar() {
			return false
		}
		// The sign of a difference that moves by one within a group cannot
		// change if a group starts at a multiple of its size.
		d := sub(c.A, c.B) // d < 0
		switch c.Op {
		case ir.GT: // b - a < 0
			d = sub(c.B, c.A)
		case ir.LE: // a - b - 1 < 0
			d = sub(d, i32(1))
		case ir.GE: // a - b >= 0
		case ir.EQ, ir.NE:
			return w.same(d, n)
		}
		base, step, ok := w.slope(d, n)
		switch {
		case !ok:
			return false
		case step == 0:
			return true
		case step == 1:
			return w.an.IsMultipleOf(base, n)
		case step == -1:
			return w.an.IsMultipleOf(add(base, i32(1)), n)
		}
	}
	return false
}

// limit is the widest group, at most n, that the statements allow. skipRegs
// leaves accesses to register tiles out, for when their layout follows from
// the answer.
func (w *widths) limit(body ir.Stmt, n int64, skipRegs bool) int64 {
	for n > 1 && w.ext%n != 0 {
		n /= 2
	}
	memory := false
	bits := int64(0)
	ir.Walk(body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.BufferStore:
			memory = memory || !isFragment(s.Buffer) && !isLocal(s.Buffer)
			bits = max(bits, bitsOf(s.Buffer.Type))
			n = w.access(s.Buffer, s.Indices, true, n, skipRegs)
		case *ir.IfThenElse:
			n = w.cond(s.Cond, n)
		case *ir.While, *ir.Assert:
			w.stop(&n, "control flow inside the loop")
		case *ir.For:
			if _, ok := ir.AsInt(s.Extent); !ok {
				w.stop(&n, "an inner loop of unknown length")
			}
		case *ir.Evaluate:
			// An operator run for its effect: vectorized only as a whole.
			if c, ok := s.Value.(*ir.Call); !ok || c.Op == nil || c.Op.Effect > ir.Pure {
				w.stop(&n, "a call with an effect")
			}
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			switch e := e.(type) {
			case *ir.BufferLoad:
				memory = memory || !isFragment(e.Buffer) && !isLocal(e.Buffer)
				bits = max(bits, bitsOf(e.Buffer.Type))
				n = w.access(e.Buffer, e.Indices, false, n, skipRegs)
			case *ir.Select:
				n = w.cond(e.Cond, n)
			case *ir.Call:
				n = w.call(e, n)
			case *ir.Ramp, *ir.Broadcast, *ir.Shuffle:
				w.stop(&n, "vectors inside the loop")
			}
			return n > 1
		})
		return n > 1
	})
	if !memory && bits > 0 {
		n = min(n, max(1, maxVectorBits/bits))
	}
	return n
}

func (w *widths) stop(n *int64, why string) {
	if *n > 1 {
		*n, w.why = 1, why
	}
}

func (w *widths) call(c *ir.Call, n int64) int64 {
	if c.Op == nil {
		w.stop(&n, "a call of a function")
		return n
	}
	switch c.Op.Name {
	case "if_then_else":
		return w.cond(c.Args[0], n)
	case "address_of", "access_ptr", "tvm_access_ptr", "region":
		w.stop(&n, "a pointer inside the loop")
		return n
	}
	if c.Op.Effect > ir.Pure || c.Op.Rule == ir.TypeFirst && len(c.Args) > 0 && c.Op.Name != "reinterpret" {
		w.stop(&n, "a call of T."+c.Op.Name)
	}
	return n
}

func (w *widths) cond(c ir.Expr, n int64) int64 {
	for n > 1 && !w.uniform(c, n) {
		n /= 2
		w.why = "a condition that differs between neighbours"
	}
	return n
}

func (w *widths) access(b *ir.Buffer, indices []ir.Expr, store bool, n int64, skipRegs bool) int64 {
	if isFragment(b) && skipRegs || len(b.Shape) == 0 {
		return n
	}
	off := w.offset(b, indices)
	if !w.uses(off) {
		if store && n > 1 && (isLocal(b) || !isFragment(b)) {
			w.stop(&n, "every iteration stores to one element of "+b.Name)
		}
		return n
	}
	bits := bitsOf(b.Type)
	for n > 1 {
		if n*bits <= maxVectorBits && w.contiguous(off, n) || !store && w.same(off, n) {
			break
		}
		n /= 2
		if n == 1 {
			w.why = w.obstacle(b, off)
		}
	}
	return n
}

// obstacle says why not even two neighbours can be accessed at once.
func (w *widths) obstacle(b *ir.Buffer, off ir.Expr) string {
	switch base, step, ok := w.slope(off, 2); {
	case bitsOf(b.Type)*2 > maxVectorBits:
		return fmt.Sprintf("two elements of %s are wider than %d bits", b.Name, maxVectorBits)
	case !ok:
		return fmt.Sprintf("the index of %s follows no fixed stride", b.Name)
	case step != 1:
		return fmt.Sprintf("index stride %d of %s", step, b.Name)
	default:
		return fmt.Sprintf("accesses of %s need not be aligned (%s)", b.Name, script.ExprString(base))
	}
}
