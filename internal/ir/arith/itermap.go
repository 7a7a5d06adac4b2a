package arith

import (
	"errors"
	"fmt"
	"slices"

	"lowertrace/internal/ir"
)

// Iter is an iterator: Var takes every value of 0..Extent-1.
type Iter struct {
	Var    *ir.Var
	Extent int64
}

// IterLevel says how much of an iteration map is asked for.
type IterLevel uint8

// The levels, from the strongest. Every level includes that different digits of
// the iterators do not mix, so that the map can be read backwards.
const (
	// Bijective: every value of the indices' box comes from exactly one value
	// of the iterators.
	Bijective IterLevel = iota
	// Surjective: every value of the box comes from at least one.
	Surjective
	// Injective: different values of the iterators give different indices; the
	// indices may leave gaps.
	Injective
)

// IterDigit is Scale * (Source % (Lower*Extent) // Lower), one digit of a
// source in mixed radix.
type IterDigit struct {
	// Source is the variable of an Iter, or a sum of digits that are fused
	// into one iterator.
	Source        ir.Expr
	Lower, Extent int64
	Scale         int64
}

// IterSum is an index as Base plus digits, from the largest Scale to the
// smallest. Every Scale exceeds what the later digits can reach together.
type IterSum struct {
	Digits []IterDigit
	Base   int64
	// Extent is one more than the largest value of the index less Base.
	Extent int64
}

// IterMap is the affine split and fuse that takes iterators to indices.
type IterMap struct {
	Iters   []Iter
	Indices []IterSum

	sources []iterSource
	t       ir.DType
}

// iterSource is an iterator, or digits fused into one.
type iterSource struct {
	x      ir.Expr
	extent int64
	fused  []IterDigit // of a fused source, largest Scale first
	used   []IterDigit
}

var errNotAffine = errors.New("not a split and fuse of the iterators")

// DetectIterMap tells whether indices are an affine split and fuse of the
// iterators at the given level, and how. pred, which may be nil, is a condition
// that holds of the iterators; only conditions that bound one iterator by a
// constant, or hold anyway, are understood. The Analyzer's knowledge of other
// variables is used, that of the iterators is replaced while it looks. The
// error says why there is no such map.
func (a *Analyzer) DetectIterMap(indices []ir.Expr, iters []Iter, pred ir.Expr, level IterLevel) (*IterMap, error) {
	m := &IterMap{t: ir.DInt32}
	var undo []func()
	defer func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}()
	for _, it := range iters {
		if it.Extent < 1 || !isIndex(it.Var.Type) {
			return nil, fmt.Errorf("iterator %s has extent %d", it.Var.Name, it.Extent)
		}
		undo = append(undo, a.BindBound(it.Var, Bound{0, it.Extent - 1}))
	}
	if pred != nil {
		bounds, err := a.predicate(pred, iters)
		if err != nil {
			return nil, err
		}
		iters = slices.Clone(iters)
		for i, b := range bounds {
			iters[i].Extent = b
			undo = append(undo, a.BindBound(iters[i].Var, Bound{0, b - 1}))
		}
	}
	m.Iters = slices.Clone(iters)
	for _, it := range iters {
		m.sources = append(m.sources, iterSource{x: it.Var, extent: it.Extent})
	}
	for _, e := range indices {
		if !isIndex(e.DType()) {
			return nil, errNotAffine
		}
		if _, ok := measure(e); !ok {
			return nil, errNotAffine
		}
		m.t = e.DType()
		s, err := m.index(a.query(), a.query().sumOf(e))
		if err != nil {
			return nil, err
		}
		if level != Injective && !s.compact() {
			return nil, fmt.Errorf("the values of an index have gaps")
		}
		m.Indices = append(m.Indices, s)
	}
	return m, m.check(level)
}

// predicate reads conditions "iterator < constant" off a conjunction.
func (a *Analyzer) predicate(e ir.Expr, iters []Iter) ([]int64, error) {
	out := make([]int64, len(iters))
	for i, it := range iters {
		out[i] = it.Extent
	}
	var read func(e ir.Expr) bool
	read = func(e ir.Expr) bool {
		if v, ok := ir.AsInt(e); ok {
			return v != 0
		}
		b, ok := e.(*ir.Binary)
		if !ok {
			return false
		}
		if b.Op == ir.And {
			return read(b.A) && read(b.B)
		}
		c, ok := ir.AsInt(b.B)
		if !ok || b.Op != ir.LT && b.Op != ir.LE {
			return false
		}
		if b.Op == ir.LE {
			c++
		}
		for i, it := range iters {
			if b.A == ir.Expr(it.Var) && c >= 1 {
				out[i] = min(out[i], c)
				return true
			}
		}
		return false
	}
	if !read(a.Simplify(e)) {
		return nil, errors.New("the condition bounds no single iterator by a constant")
	}
	return out, nil
}

// index reads an index, a simplified sum.
func (m *IterMap) index(q *query, s *sum) (IterSum, error) {
	out := IterSum{Base: s.base, Extent: 1}
	for _, t := range s.terms {
		d, err := m.digit(q, &t)
		if err != nil {
			return out, err
		}
		if d.Extent > 1 {
			out.Digits = append(out.Digits, d)
		}
	}
	slices.SortStableFunc(out.Digits, func(a, b IterDigit) int {
		switch {
		case a.Scale > b.Scale:
			return -1
		case a.Scale < b.Scale:
			return 1
		}
		return 0
	})
	for i := len(out.Digits) - 1; i >= 0; i-- {
		d := &out.Digits[i]
		if d.Scale < out.Extent {
			return out, fmt.Errorf("digits overlap: %d values under a step of %d", out.Extent, d.Scale)
		}
		top, ok := mulInt(d.Scale, d.Extent-1)
		if !ok {
			return out, errNotAffine
		}
		if out.Extent, ok = addInt(out.Extent, top); !ok {
			return out, errNotAffine
		}
	}
	return out, nil
}

// compact reports that the index takes every value of its interval.
func (s *IterSum) compact() bool {
	n := int64(1)
	for i := len(s.Digits) - 1; i >= 0; i-- {
		if s.Digits[i].Scale != n {
			return false
		}
		n *= s.Digits[i].Extent
	}
	return true
}

func (m *IterMap) digit(q *query, t *term) (IterDigit, error) {
	k, err := m.source(q, t.x)
	if err != nil {
		return IterDigit{}, err
	}
	src := &m.sources[k]
	top := src.extent
	if t.hi != 0 {
		if top%t.hi != 0 {
			return IterDigit{}, fmt.Errorf("remainder %d does not divide extent %d", t.hi, top)
		}
		top = t.hi
	}
	if top%t.lo != 0 {
		return IterDigit{}, fmt.Errorf("divisor %d does not divide extent %d", t.lo, top)
	}
	if t.scale < 0 {
		return IterDigit{}, errors.New("an iterator runs backwards")
	}
	d := IterDigit{t.x, t.lo, top / t.lo, t.scale}
	if d.Extent > 1 {
		src.used = append(src.used, d)
	}
	return d, nil
}

// source finds the iterator that x is, or fuses digits into a new one.
func (m *IterMap) source(q *query, x ir.Expr) (int, error) {
	for i := range m.sources {
		if Same(m.sources[i].x, x) {
			return i, nil
		}
	}
	s := q.sumOf(x)
	if s.unit() && s.terms[0].plain() || s.base != 0 {
		return 0, errNotAffine
	}
	in, err := m.index(q, s)
	if err != nil {
		return 0, err
	}
	if !in.compact() {
		return 0, errors.New("a fused iterator has gaps")
	}
	m.sources = append(m.sources, iterSource{x: x, extent: in.Extent, fused: in.Digits})
	return len(m.sources) - 1, nil
}

// check tells whether the digits of every source fit together.
func (m *IterMap) check(level IterLevel) error {
	for i := range m.sources {
		s := &m.sources[i]
		slices.SortStableFunc(s.used, func(a, b IterDigit) int {
			switch {
			case a.Lower < b.Lower:
				return -1
			case a.Lower > b.Lower:
				return 1
			}
			return 0
		})
		at := int64(1)
		for _, d := range s.used {
			if d.Lower < at {
				return fmt.Errorf("%s is used twice", iterName(s.x))
			}
			if d.Lower > at && level != Surjective {
				return fmt.Errorf("a part of %s is not used", iterName(s.x))
			}
			if d.Lower%at != 0 {
				return errNotAffine
			}
			at = d.Lower * d.Extent
		}
		if at != s.extent && level != Surjective {
			return fmt.Errorf("a part of %s is not used", iterName(s.x))
		}
	}
	return nil
}

func iterName(x ir.Expr) string {
	if v, ok := x.(*ir.Var); ok {
		return v.Name
	}
	return "a fused iterator"
}

// Inverse gives each iterator, in the order of Iters, as an expression of the
// indices' values: outputs[i] stands for index i. The map must have been found
// at level Bijective or Injective; the expressions are right for the values
// that the indices take. The Analyzer simplifies them; what it knows of outputs
// is replaced meanwhile.
func (m *IterMap) Inverse(a *Analyzer, outputs []*ir.Var) ([]ir.Expr, error) {
	if len(outputs) != len(m.Indices) {
		return nil, fmt.Errorf("%d outputs for %d indices", len(outputs), len(m.Indices))
	}
	if err := m.check(Injective); err != nil {
		return nil, err
	}
	var undo []func()
	defer func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}()
	vals := make([]ir.Expr, len(m.sources))
	add := func(x ir.Expr, e ir.Expr) {
		for i := range m.sources {
			if Same(m.sources[i].x, x) {
				if vals[i] == nil {
					vals[i] = e
				} else {
					vals[i] = &ir.Binary{Op: ir.Add, A: vals[i], B: e}
				}
				return
			}
		}
	}
	spread := func(value ir.Expr, digits []IterDigit) {
		t := value.DType()
		top := int64(0) // the step of the digit above; 0 for none
		for _, d := range digits {
			e := value
			if top != 0 {
				e = &ir.Binary{Op: ir.FloorMod, A: e, B: ir.IntConst(t, top)}
			}
			if d.Scale != 1 {
				e = &ir.Binary{Op: ir.FloorDiv, A: e, B: ir.IntConst(t, d.Scale)}
			}
			if d.Lower != 1 {
				e = &ir.Binary{Op: ir.Mul, A: e, B: ir.IntConst(t, d.Lower)}
			}
			add(d.Source, e)
			top = d.Scale
		}
	}
	for i, s := range m.Indices {
		o := outputs[i]
		undo = append(undo, a.BindBound(o, Bound{s.Base, s.Base + s.Extent - 1}))
		var v ir.Expr = o
		if s.Base != 0 {
			v = &ir.Binary{Op: ir.Sub, A: o, B: ir.IntConst(o.Type, s.Base)}
		}
		spread(v, s.Digits)
	}
	// A fused source is made after what it is made of: its value is complete
	// before it is taken apart when the later come first.
	for i := len(m.sources) - 1; i >= 0; i-- {
		if s := &m.sources[i]; s.fused != nil && vals[i] != nil {
			spread(vals[i], s.fused)
		}
	}
	out := make([]ir.Expr, len(m.Iters))
	for i, it := range m.Iters {
		out[i] = ir.IntConst(it.Var.Type, 0)
		if vals[i] != nil {
			out[i] = ir.CastTo(a.Simplify(vals[i]), it.Var.Type)
		}
	}
	return out, nil
}

// InverseAffine inverts a map from iterators to indices that is bijective, or
// injective with gaps: the values of the iterators in terms of outputs.
func (a *Analyzer) InverseAffine(indices []ir.Expr, iters []Iter, outputs []*ir.Var) ([]ir.Expr, error) {
	m, err := a.DetectIterMap(indices, iters, nil, Injective)
	if err != nil {
		return nil, err
	}
	return m.Inverse(a, outputs)
}
