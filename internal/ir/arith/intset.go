package arith

import "lowertrace/internal/ir"

// BoundsOf is a symbolic interval that holds every value of e while the
// variables of ranges run over theirs: min <= e <= max, both free of these
// variables and simplified. A range may mention other variables of ranges, as
// the loops of a triangle do. ok is false when an end is not known. e must be a
// signed scalar integer; the ends are as exact as index arithmetic that does
// not overflow.
func (a *Analyzer) BoundsOf(e ir.Expr, ranges map[*ir.Var]ir.Range) (min, max ir.Expr, ok bool) {
	if !isIndex(e.DType()) {
		return nil, nil, false
	}
	if _, ok := measure(e); !ok {
		return nil, nil, false
	}
	// Variables in order of appearance, so that nothing depends on map order;
	// each after those its own range mentions.
	var order []*ir.Var
	seen := map[*ir.Var]bool{}
	var visit func(e ir.Expr)
	visit = func(e ir.Expr) {
		ir.WalkExpr(e, func(x ir.Expr) bool {
			v, ok := x.(*ir.Var)
			if !ok || seen[v] {
				return true
			}
			if r, in := ranges[v]; in {
				seen[v] = true
				visit(r.Min)
				visit(r.Extent)
				order = append(order, v)
			}
			return true
		})
	}
	visit(e)
	var undo []func()
	for _, v := range order {
		undo = append(undo, a.BindRange(v, ranges[v]))
	}
	v := evaluator{a: a, ranges: ranges}
	iv := v.interval(a.Simplify(e), 0)
	for i := len(undo) - 1; i >= 0; i-- {
		undo[i]()
	}
	if iv.lo == nil || iv.hi == nil {
		return nil, nil, false
	}
	return a.Simplify(iv.lo), a.Simplify(iv.hi), true
}

// interval is lo..hi; nil is an unknown end.
type interval struct{ lo, hi ir.Expr }

type evaluator struct {
	a      *Analyzer
	ranges map[*ir.Var]ir.Range
}

// maxRangeDepth bounds how deep ranges may refer to each other.
const maxRangeDepth = 64

func (v *evaluator) varies(e ir.Expr) bool {
	return ir.UsesVar(e, func(x *ir.Var) bool { _, ok := v.ranges[x]; return ok })
}

// interval evaluates a simplified expression.
func (v *evaluator) interval(e ir.Expr, depth int) interval {
	if e == nil || depth > maxRangeDepth {
		return interval{}
	}
	if !v.varies(e) {
		return interval{e, e}
	}
	q := v.a.query()
	s := q.sumOf(e)
	out := interval{ir.IntConst(s.t, 0), ir.IntConst(s.t, 0)}
	for _, t := range sortTerms(s.terms) {
		d := v.digit(&t, s.t, depth)
		if t.scale < 0 {
			d.lo, d.hi = d.hi, d.lo
		}
		out.lo, out.hi = v.addScaled(out.lo, d.lo, t.scale), v.addScaled(out.hi, d.hi, t.scale)
	}
	c := ir.IntConst(s.t, s.base)
	out = interval{v.op(ir.Add, out.lo, c), v.op(ir.Add, out.hi, c)}
	// A constant end is used where it is known and the symbolic one is not.
	b := v.a.Bound(e)
	if tb := TypeBound(s.t); b.Min != NegInf && (out.lo == nil && b.Min > tb.Min || isInt(out.lo) && b.Min > intOf(out.lo)) {
		out.lo = ir.IntConst(s.t, b.Min)
	}
	if tb := TypeBound(s.t); b.Max != PosInf && (out.hi == nil && b.Max < tb.Max || isInt(out.hi) && b.Max < intOf(out.hi)) {
		out.hi = ir.IntConst(s.t, b.Max)
	}
	return out
}

func isInt(e ir.Expr) bool { _, ok := ir.AsInt(e); return ok }

func intOf(e ir.Expr) int64 { v, _ := ir.AsInt(e); return v }

// op applies an operator to known ends.
func (v *evaluator) op(op ir.BinOp, a, b ir.Expr) ir.Expr {
	if a == nil || b == nil {
		return nil
	}
	return v.a.Simplify(&ir.Binary{Op: op, A: a, B: b})
}

func (v *evaluator) addScaled(a, b ir.Expr, k int64) ir.Expr {
	if a == nil || b == nil {
		return nil
	}
	return v.op(ir.Add, a, &ir.Binary{Op: ir.Mul, A: b, B: ir.IntConst(b.DType(), k)})
}

// digit is the interval of x % hi // lo.
func (v *evaluator) digit(t *term, ty ir.DType, depth int) interval {
	iv := v.atom(t.x, depth)
	if t.hi != 0 {
		m := ir.IntConst(ty, t.hi)
		if iv.lo != nil && iv.hi != nil && v.a.CanProveEqual(v.op(ir.FloorDiv, iv.lo, m), v.op(ir.FloorDiv, iv.hi, m)) {
			iv = interval{v.op(ir.FloorMod, iv.lo, m), v.op(ir.FloorMod, iv.hi, m)}
		} else {
			iv = interval{ir.IntConst(ty, 0), ir.IntConst(ty, t.hi-1)}
		}
	}
	if t.lo != 1 {
		d := ir.IntConst(ty, t.lo)
		iv = interval{v.op(ir.FloorDiv, iv.lo, d), v.op(ir.FloorDiv, iv.hi, d)}
	}
	return iv
}

// atom is the interval of the index of a term.
func (v *evaluator) atom(e ir.Expr, depth int) interval {
	if !v.varies(e) {
		return interval{e, e}
	}
	switch e := e.(type) {
	case *ir.Var:
		r := v.ranges[e]
		if r.Min == nil || r.Extent == nil || r.Min.DType() != e.Type || r.Extent.DType() != e.Type {
			return interval{}
		}
		lo := v.interval(v.a.Simplify(r.Min), depth+1)
		last := &ir.Binary{Op: ir.Sub, A: &ir.Binary{Op: ir.Add, A: r.Min, B: r.Extent}, B: ir.IntConst(e.Type, 1)}
		hi := v.interval(v.a.Simplify(last), depth+1)
		return interval{lo.lo, hi.hi}
	case *ir.Cast:
		if f := e.Value.DType(); isIndex(f) && TypeBound(e.Type).Contains(v.a.Bound(e.Value)) {
			iv := v.interval(e.Value, depth)
			if iv.lo != nil {
				iv.lo = ir.CastTo(iv.lo, e.Type)
			}
			if iv.hi != nil {
				iv.hi = ir.CastTo(iv.hi, e.Type)
			}
			return iv
		}
	case *ir.Select:
		return v.either(e.True, e.False, depth)
	case *ir.Call:
		if e.Op != nil && e.Op.Name == "if_then_else" && len(e.Args) == 3 {
			return v.either(e.Args[1], e.Args[2], depth)
		}
	case *ir.Binary:
		switch e.Op {
		case ir.Min, ir.Max:
			a, b := v.interval(e.A, depth), v.interval(e.B, depth)
			r := interval{v.op(e.Op, a.lo, b.lo), v.op(e.Op, a.hi, b.hi)}
			// One side alone bounds a minimum above and a maximum below.
			if r.hi == nil && e.Op == ir.Min {
				r.hi = orElse(a.hi, b.hi)
			}
			if r.lo == nil && e.Op == ir.Max {
				r.lo = orElse(a.lo, b.lo)
			}
			return r
		case ir.Mul:
			x, k := e.A, e.B
			if v.varies(k) {
				x, k = k, x
			}
			if v.varies(k) {
				break
			}
			iv := v.interval(x, depth)
			switch {
			case v.a.CanProveAtLeast(k, 0):
			case v.a.CanProveLess(k, 1):
				iv.lo, iv.hi = iv.hi, iv.lo
			default:
				return interval{}
			}
			return interval{v.op(ir.Mul, iv.lo, k), v.op(ir.Mul, iv.hi, k)}
		case ir.FloorDiv:
			if !v.varies(e.B) && v.a.CanProveAtLeast(e.B, 1) {
				iv := v.interval(e.A, depth)
				return interval{v.op(ir.FloorDiv, iv.lo, e.B), v.op(ir.FloorDiv, iv.hi, e.B)}
			}
		case ir.FloorMod:
			if !v.varies(e.B) && v.a.CanProveAtLeast(e.B, 1) {
				return interval{ir.IntConst(e.DType(), 0), v.op(ir.Sub, e.B, ir.IntConst(e.DType(), 1))}
			}
		default:
			return v.compound(e, depth)
		}
	}
	return v.constant(e)
}

// compound is the interval of an index that is a sum itself.
func (v *evaluator) compound(e ir.Expr, depth int) interval {
	if s := v.a.query().sumOf(e); !s.unit() || !s.terms[0].plain() {
		return v.interval(e, depth+1)
	}
	return v.constant(e)
}

// constant is what the constant bounds alone say.
func (v *evaluator) constant(e ir.Expr) interval {
	b, tb := v.a.Bound(e), TypeBound(e.DType())
	var iv interval
	if b.Min != NegInf && b.Min > tb.Min {
		iv.lo = ir.IntConst(e.DType(), b.Min)
	}
	if b.Max != PosInf && b.Max < tb.Max {
		iv.hi = ir.IntConst(e.DType(), b.Max)
	}
	return iv
}

func (v *evaluator) either(a, b ir.Expr, depth int) interval {
	x, y := v.interval(a, depth), v.interval(b, depth)
	return interval{v.op(ir.Min, x.lo, y.lo), v.op(ir.Max, x.hi, y.hi)}
}

func orElse(a, b ir.Expr) ir.Expr {
	if a != nil {
		return a
	}
	return b
}

// RegionOf is the box that an access with the given indices touches while the
// variables of ranges run over theirs: one Range for each index. A vector index
// counts with all its lanes. ok is false when an index is not bounded.
func (a *Analyzer) RegionOf(indices []ir.Expr, ranges map[*ir.Var]ir.Range) (region []ir.Range, ok bool) {
	region = make([]ir.Range, len(indices))
	for i, e := range indices {
		lo, hi := e, e
		switch x := e.(type) {
		case *ir.Ramp:
			n := ir.IntConst(x.Base.DType(), int64(x.Lanes-1))
			lo, hi = x.Base, &ir.Binary{Op: ir.Add, A: x.Base, B: &ir.Binary{Op: ir.Mul, A: x.Stride, B: n}}
			if a.CanProveLess(x.Stride, 0) {
				lo, hi = hi, lo
			} else if !a.CanProveAtLeast(x.Stride, 0) {
				return nil, false
			}
		case *ir.Broadcast:
			lo, hi = x.Value, x.Value
		}
		min, _, ok1 := a.BoundsOf(lo, ranges)
		_, max, ok2 := a.BoundsOf(hi, ranges)
		if !ok1 || !ok2 {
			return nil, false
		}
		region[i] = a.rangeOf(min, max)
	}
	return region, true
}

// rangeOf is the Range of a closed interval.
func (a *Analyzer) rangeOf(min, max ir.Expr) ir.Range {
	n := &ir.Binary{Op: ir.Add, A: &ir.Binary{Op: ir.Sub, A: max, B: min}, B: ir.IntConst(min.DType(), 1)}
	return ir.Range{Min: min, Extent: a.Simplify(n)}
}

// end is the first value after a Range.
func end(r ir.Range) ir.Expr { return &ir.Binary{Op: ir.Add, A: r.Min, B: r.Extent} }

// UnionRegion is the smallest box holding two boxes of one rank, as far as
// minima and maxima can be simplified.
func (a *Analyzer) UnionRegion(x, y []ir.Range) []ir.Range {
	if len(x) != len(y) {
		panic("arith: union of regions of different rank")
	}
	out := make([]ir.Range, len(x))
	for i := range x {
		if Equal(x[i].Min, y[i].Min) && Equal(x[i].Extent, y[i].Extent) {
			out[i] = x[i]
			continue
		}
		lo := a.Simplify(&ir.Binary{Op: ir.Min, A: x[i].Min, B: y[i].Min})
		hi := &ir.Binary{Op: ir.Max, A: end(x[i]), B: end(y[i])}
		out[i] = ir.Range{Min: lo, Extent: a.Simplify(&ir.Binary{Op: ir.Sub, A: hi, B: lo})}
	}
	return out
}

// RegionCovers reports that outer certainly holds inner.
func (a *Analyzer) RegionCovers(outer, inner []ir.Range) bool {
	if len(outer) != len(inner) {
		return false
	}
	for i := range outer {
		if !a.CanProve(&ir.Binary{Op: ir.LE, A: outer[i].Min, B: inner[i].Min}) ||
			!a.CanProve(&ir.Binary{Op: ir.LE, A: end(inner[i]), B: end(outer[i])}) {
			return false
		}
	}
	return true
}

// RegionsDisjoint reports that two boxes certainly have no element in common.
func (a *Analyzer) RegionsDisjoint(x, y []ir.Range) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if a.CanProve(&ir.Binary{Op: ir.LE, A: end(x[i]), B: y[i].Min}) ||
			a.CanProve(&ir.Binary{Op: ir.LE, A: end(y[i]), B: x[i].Min}) {
			return true
		}
	}
	return false
}
