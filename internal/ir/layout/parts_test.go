package layout

import (
	"testing"

	"lowertrace/internal/ir"
)

// TestParts checks that a layout in parts puts every element where the table
// has it, and finds collisions where there are some.
func TestParts(t *testing.T) {
	v := exprs(Vars(4))
	op := func(o ir.BinOp, a ir.Expr, b int64) ir.Expr { return ir.NewBinary(o, a, ir.I32(b)) }
	add := func(a, b ir.Expr) ir.Expr { return ir.NewBinary(ir.Add, a, b) }
	shape := []int64{3, 5, 24, 16}
	for name, fwd := range map[string][]ir.Expr{
		"identity":   v,
		"transposed": {v[3], v[1], v[0], v[2]},
		"dq": {v[0], v[1], op(ir.FloorDiv, v[2], 8), op(ir.FloorDiv, v[3], 8), op(ir.FloorMod, v[3], 2),
			add(op(ir.Mul, op(ir.FloorMod, v[2], 8), 4), op(ir.FloorDiv, op(ir.FloorMod, v[3], 8), 2))},
		"one":       {Flatten(v, shape)},
		"padded":    {v[0], add(op(ir.Mul, v[1], 3), op(ir.FloorMod, v[2], 2)), op(ir.FloorDiv, v[2], 2), v[3]},
		"dropped":   {v[0], v[2], v[3]},
		"collision": {v[0], v[1], op(ir.FloorDiv, v[2], 2), v[3]},
	} {
		table, err := NewMap(shape, fwd...)
		if err != nil {
			t.Fatal(name, err)
		}
		ev, err := newEvaluator(Vars(4), shape, MaxPoints)
		if err != nil {
			t.Fatal(err)
		}
		parts := &Map{Shape: shape, Forward: fwd, Out: make([]int64, len(fwd))}
		if err := parts.inParts(ev); err != nil {
			t.Fatal(name, err)
		}
		if !sameShape(table.Out, parts.Out) {
			t.Errorf("%s: shape %v, want %v", name, parts.Out, table.Out)
		}
		for p := range table.Size() {
			if got, want := parts.At(p), table.At(p); got != want {
				t.Fatalf("%s: element %v is at %d, want %d", name, table.coords(p), got, want)
			}
		}
		if got, want := parts.CheckInjective(), table.CheckInjective(); (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestLarge makes layouts for buffers that no table holds.
func TestLarge(t *testing.T) {
	v := exprs(Vars(4))
	shape := []int64{8, 32, 4096, 128}
	m, err := NewMap(shape, v[0], v[2], v[1], v[3])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.At(((7*32+31)*4096+5)*128+9), int64(((7*4096+5)*32+31)*128+9); got != want {
		t.Errorf("an element is at %d, want %d", got, want)
	}
	if err := m.CheckInjective(); err != nil {
		t.Error(err)
	}
	if id := Identity(shape); !id.IsIdentity() || m.IsIdentity() || !m.Equal(m) || m.Equal(id) {
		t.Error("large layouts do not compare")
	}
	if _, err := m.Inverse(); err == nil {
		t.Error("a large layout has an inverse")
	}
	// All in one part, and a dimension beyond the limit.
	if _, err := NewMap(shape, Flatten(v, shape)); err == nil {
		t.Error("a table of 134 million points is made")
	}
	if _, err := NewMap([]int64{1 << 30, 1 << 30}, v[0], v[1]); err == nil {
		t.Error("a buffer of 2^60 elements has a layout")
	}
}
