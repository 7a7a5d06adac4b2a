package ir

import "testing"

func TestSame(t *testing.T) {
	i, j := &Var{Name: "i", Type: DInt32}, &Var{Name: "i", Type: DInt32}
	a, b := NewBuffer("a", DFloat32, "global", I32(8)), NewBuffer("a", DFloat32, "global", I32(8))
	plus := func(x Expr, n int64) Expr { return &Binary{Op: Add, A: x, B: I32(n)} }
	load := func(b *Buffer, x Expr) Expr { return &BufferLoad{Buffer: b, Indices: []Expr{x}} }
	for _, c := range []struct {
		x, y Expr
		want bool
	}{
		{nil, nil, true}, {i, nil, false}, {nil, i, false}, {i, i, true}, {i, j, false},
		{plus(i, 1), plus(i, 1), true}, {plus(i, 1), plus(i, 2), false}, {plus(i, 1), plus(j, 1), false},
		{&Binary{Op: Add, A: i, B: j}, &Binary{Op: Add, A: i, B: j}, true}, {&Binary{Op: Add, A: i, B: j}, &Binary{Op: Add, A: j, B: i}, false},
		{load(a, i), load(a, i), true}, {load(a, i), load(b, i), false}, {load(a, i), load(a, j), false},
	} {
		if got := Same(c.x, c.y); got != c.want {
			t.Errorf("Same(%v, %v) is %v", c.x, c.y, got)
		}
	}
}
