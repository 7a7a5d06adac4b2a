package script

import (
	"testing"

	"lowertrace/internal/ir"
)

// TestFragments: statements, expressions and attributes out of their context
// name what they do not define.
func TestFragments(t *testing.T) {
	i, i2 := &ir.Var{Name: "i", Type: ir.DInt32}, &ir.Var{Name: "i", Type: ir.DInt32}
	a := ir.NewBuffer("A", ir.DFloat32, "shared", ir.I32(16))
	sum := ir.NewBinary(ir.Add, i, ir.NewBinary(ir.Mul, i2, ir.I32(2)))
	if got, want := ExprString(sum), "i + i_1 * 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	load := &ir.BufferLoad{Buffer: a, Indices: []ir.Expr{sum}}
	if got, want := ExprString(load), "A[i + i_1 * 2]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := ExprString(a.Data), "A"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	loop := &ir.For{Var: i, Min: ir.I32(0), Extent: i2, Body: &ir.BufferStore{Buffer: a, Indices: []ir.Expr{i}, Value: load}}
	if got, want := StmtString(loop), "for i in range(i_1):\n    A[i] = A[i + i_1 * 2]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	attr := ir.List{ir.AttrBool(true), ir.AttrNone{}, a, &ir.Hidden{Type: "tl.Layout", Index: 3}}
	if got, want := AttrString(attr), `[True, None, A, metadata["tl.Layout"][3]]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseExpr(t *testing.T) {
	i := &ir.Var{Name: "i", Type: ir.DInt32}
	a := ir.NewBuffer("A", ir.DFloat32, "shared", ir.I32(16))
	const text = "A[i * 2] + T.float32(1.0)"
	e, err := ParseExpr(ir.NewSource("e", text), []*ir.Var{i}, []*ir.Buffer{a})
	if err != nil {
		t.Fatal(err)
	}
	if got := ExprString(e); got != text {
		t.Errorf("got %s, want %s", got, text)
	}
	for _, bad := range []string{"A[j]", "A[i", "i i", "", "A", "i +"} {
		if _, err := ParseExpr(ir.NewSource("e", bad), []*ir.Var{i}, []*ir.Buffer{a}); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestLostComments(t *testing.T) {
	src := ir.NewSource("c", `# from tvm.script import tirx as T
@T.prim_func
def f(): # why
    # with T.sblock("root"):
    T.evaluate(0)
# Metadata omitted. Use show_meta=True in script() method to show it.
`)
	lost := LostComments(src)
	if len(lost) != 1 || lost[0].Line() != 3 || lost[0].Column() != 10 {
		t.Errorf("lost: %v", lost)
	}
}

// TestManyNames: names are made unique in linear time, whatever closes
// between.
func TestManyNames(t *testing.T) {
	const n = 20000
	var seq []ir.Stmt
	for range n {
		v := &ir.Var{Name: "x", Type: ir.DInt32}
		seq = append(seq, &ir.Bind{Var: v, Value: ir.I32(1)},
			&ir.For{Var: &ir.Var{Name: "x", Type: ir.DInt32}, Min: ir.I32(0), Extent: v, Body: &ir.Evaluate{Value: v}})
	}
	m := &ir.IRModule{Bare: true, Funcs: []*ir.PrimFunc{{Name: "f", Body: ir.Seq(seq...)}}}
	text := Print(m)
	m2 := MustParse(text)
	if Print(m2) != text {
		t.Error("printing is no fixed point")
	}
}
