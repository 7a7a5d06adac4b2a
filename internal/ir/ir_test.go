package ir

import (
	"math/big"
	"math/rand"
	"strings"
	"testing"
)

func TestParseDType(t *testing.T) {
	for _, s := range []string{
		"void", "bool", "boolx2", "handle", "int4", "int8x4", "int32", "uint8x128", "uint64", "float16x4", "float64",
		"bfloat16", "bfloat16x2", "tfloat32", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnx4", "float8_e5m2fnuz",
		"float6_e2m3fn", "float4_e2m1fnx8",
	} {
		d, err := ParseDType(s)
		if err != nil || d.String() != s {
			t.Errorf("ParseDType(%q) = %v, %v", s, d, err)
		}
	}
	for _, s := range []string{
		"", "int", "int3", "int032", "int32x", "int32x1", "int32x02", "int32x99999", "int32 ", "float8", "float8_e4m3fnx",
		"voidx2", "boolean", "bfloat", "float128", "uint", "handle2", "Int32",
	} {
		if d, err := ParseDType(s); err == nil {
			t.Errorf("ParseDType(%q) = %v, want an error", s, d)
		}
	}
}

func TestDTypeBytes(t *testing.T) {
	for s, want := range map[string]int{"int4": 1, "int4x8": 4, "bool": 1, "boolx4": 4, "float16x8": 16, "float4_e2m1fnx3": 2, "handle": 8} {
		d, err := ParseDType(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Bytes(); got != want {
			t.Errorf("%s takes %d bytes, want %d", s, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	src := NewSource("k.tir", "ab\ncd\r\n\nlast")
	for _, tc := range []struct{ off, line, col int }{{0, 1, 1}, {2, 1, 3}, {3, 2, 1}, {7, 3, 1}, {8, 4, 1}, {12, 4, 5}, {99, 4, 5}} {
		if l, c := src.Position(tc.off); l != tc.line || c != tc.col {
			t.Errorf("offset %d is %d:%d, want %d:%d", tc.off, l, c, tc.line, tc.col)
		}
	}
	if got := src.Line(2); got != "cd" {
		t.Errorf("line 2 is %q", got)
	}
	if s := (Span{src, 3, 5}).String(); s != "k.tir:2:1" {
		t.Errorf("span is %s", s)
	}
}

// TestFoldInt checks constant folding against exact arithmetic: a folded
// value is the exact one, and signed overflow is never folded.
func TestFoldInt(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	types := []DType{DInt8, DInt32, DInt64, DUInt8, DUInt32, DUInt64}
	edge := []int64{0, 1, -1, 2, 7, 127, 128, -128, 1 << 31, 1<<31 - 1, -1 << 31, 1<<62 + 5, -1 << 63, 1<<63 - 1}
	pick := func(d DType) *IntImm {
		v := edge[rng.Intn(len(edge))]
		if rng.Intn(2) == 0 {
			v = rng.Int63() - rng.Int63()
		}
		return IntConst(d, v)
	}
	exact := func(c *IntImm) *big.Int {
		if c.Type.IsUInt() {
			return new(big.Int).SetUint64(uint64(c.Value))
		}
		return big.NewInt(c.Value)
	}
	for range 20000 {
		d := types[rng.Intn(len(types))]
		a, b := pick(d), pick(d)
		x, y := exact(a), exact(b)
		for op := Add; op <= GE; op++ {
			got := FoldInt(op, a, b)
			want := new(big.Int)
			switch op {
			case Add:
				want.Add(x, y)
			case Sub:
				want.Sub(x, y)
			case Mul:
				want.Mul(x, y)
			case Div, TruncMod, FloorDiv, FloorMod:
				if y.Sign() == 0 {
					if got != nil {
						t.Fatalf("%v %s 0 folds to %v", x, op, got)
					}
					continue
				}
				switch op {
				case Div:
					want.Quo(x, y)
				case TruncMod:
					want.Rem(x, y)
				case FloorDiv:
					want.Div(new(big.Int).Sub(x, floorMod(x, y)), y)
				case FloorMod:
					want = floorMod(x, y)
				}
			case Min:
				want.Set(x)
				if y.Cmp(x) < 0 {
					want.Set(y)
				}
			case Max:
				want.Set(x)
				if y.Cmp(x) > 0 {
					want.Set(y)
				}
			default:
				holds := map[BinOp]bool{EQ: x.Cmp(y) == 0, NE: x.Cmp(y) != 0, LT: x.Cmp(y) < 0, LE: x.Cmp(y) <= 0, GT: x.Cmp(y) > 0, GE: x.Cmp(y) >= 0}[op]
				if got == nil || got.(*IntImm).Value != BoolConst(holds).Value {
					t.Fatalf("%v %s %v folds to %v", x, op, y, got)
				}
				continue
			}
			if d.IsUInt() { // wraps
				want.And(want, new(big.Int).SetUint64(1<<d.Bits-1))
			} else if want.Cmp(big.NewInt(WrapInt(d, want.Int64()))) != 0 || !want.IsInt64() {
				if got != nil {
					t.Fatalf("%s: %v %s %v overflows and folds to %v", d, x, op, y, got.(*IntImm).Value)
				}
				continue
			}
			if got == nil || exact(got.(*IntImm)).Cmp(want) != 0 {
				t.Fatalf("%s: %v %s %v folds to %v, want %v", d, x, op, y, got, want)
			}
		}
	}
}

func floorMod(x, y *big.Int) *big.Int {
	r := new(big.Int).Rem(x, y)
	if r.Sign() != 0 && (r.Sign() < 0) != (y.Sign() < 0) {
		r.Add(r, y)
	}
	return r
}

// sample builds for i in range(n): if i < n: B[i] = A[i] + 1, with names taken
// from suffix.
func sample(suffix string) *PrimFunc {
	n := &Var{Name: "n" + suffix, Type: DInt32}
	h, g := &Var{Name: "a" + suffix, Type: DHandle}, &Var{Name: "b" + suffix, Type: DHandle}
	a, b := NewBuffer("A"+suffix, DInt32, "global", n), NewBuffer("B"+suffix, DInt32, "global", n)
	i := &Var{Name: "i" + suffix, Type: DInt32}
	return &PrimFunc{
		Name: "k", Params: []*Var{h, g}, BufferMap: []BufferBinding{{h, a}, {g, b}},
		Body: &For{Var: i, Min: I32(0), Extent: n, Body: &IfThenElse{
			Cond: &Binary{LT, i, n},
			Then: &BufferStore{Buffer: b, Indices: []Expr{i}, Value: &Binary{Add, &BufferLoad{Buffer: a, Indices: []Expr{i}}, I32(1)}},
		}},
	}
}

func TestStructuralEqual(t *testing.T) {
	f, g := sample(""), sample("_x")
	if d := Difference(f, g, EqualOptions{}); d != "" {
		t.Errorf("equal up to names, but: %s", d)
	}
	if StructuralHash(f) != StructuralHash(g) {
		t.Error("hashes of equal functions differ")
	}
	if Difference(f, g, EqualOptions{Names: true}) == "" {
		t.Error("names were asked for and not compared")
	}
	// Swapping the two buffers is a difference, though each alone is renaming.
	swap := map[*Buffer]*Buffer{f.BufferMap[0].Buffer: f.BufferMap[1].Buffer, f.BufferMap[1].Buffer: f.BufferMap[0].Buffer}
	r := Rewriter{Buffer: func(b *Buffer) *Buffer { return swap[b] }}
	if StructuralEqual(f, f.WithBody(r.Stmt(f.Body))) {
		t.Error("swapped buffers compare equal")
	}
	one := Rewriter{PostExpr: func(e Expr) Expr {
		if IsConst(e, 1) {
			return I32(2)
		}
		return e
	}}
	d := Difference(f, f.WithBody(one.Stmt(f.Body)), EqualOptions{})
	if !strings.Contains(d, "1 is not 2") {
		t.Errorf("difference of a constant is told as %q", d)
	}
}

func TestRewriterSharesWhatItDoesNotChange(t *testing.T) {
	f := sample("")
	id := Rewriter{
		PostExpr: func(e Expr) Expr { return e }, PostStmt: func(s Stmt) Stmt { return s },
		Var: func(v *Var) Expr { return v }, Def: func(v *Var) *Var { return v }, Buffer: func(b *Buffer) *Buffer { return b },
	}
	if id.Stmt(f.Body) != f.Body {
		t.Error("a rewrite that changes nothing made a new statement")
	}
	loop := f.Body.(*For)
	r := Rewriter{PostStmt: func(s Stmt) Stmt {
		if st, ok := s.(*BufferStore); ok {
			c := *st
			c.Value = I32(7)
			return &c
		}
		return s
	}}
	got := r.Stmt(f.Body).(*For)
	if got == loop || got.Body.(*IfThenElse).Cond != loop.Body.(*IfThenElse).Cond {
		t.Error("the condition beside the change is not shared")
	}
}

func TestVerify(t *testing.T) {
	ok := sample("")
	if err := Verify(&IRModule{Funcs: []*PrimFunc{ok}}); err != nil {
		t.Fatalf("a good function: %v", err)
	}
	i := &Var{Name: "i", Type: DInt32}
	free := &Var{Name: "ghost", Type: DInt32}
	buf := NewBuffer("T", DFloat32, "local", I32(4))
	store := func(b *Buffer, v Expr, idx ...Expr) Stmt { return &BufferStore{Buffer: b, Indices: idx, Value: v} }
	zero := FloatConst(DFloat32, 0)
	for name, tc := range map[string]struct {
		body Stmt
		want string
	}{
		"undefined variable":  {&Evaluate{Value: free}, "ghost is used where it is not defined"},
		"redefinition":        {&For{Var: i, Min: I32(0), Extent: I32(2), Body: &For{Var: i, Min: I32(0), Extent: I32(2)}}, "i is defined again"},
		"out of scope memory": {store(buf, zero, I32(0)), "the memory of buffer T is not in scope"},
		"rank":                {Seq(&AllocBuffer{Buffer: buf}, store(buf, zero, I32(0), I32(1))), "T has 1 dimensions and is indexed with 2"},
		"stored type":         {Seq(&AllocBuffer{Buffer: buf}, store(buf, I32(0), I32(0))), "a int32 is stored to T, which takes float32"},
		"operand types":       {&Evaluate{Value: &Binary{Add, I32(1), zero}}, "Add of int32 and float32"},
		"condition":           {&IfThenElse{Cond: I32(1), Then: &Evaluate{Value: I32(0)}}, "the condition of if is int32"},
		"scope end": {Seq(&For{Var: i, Min: I32(0), Extent: I32(2), Body: &AllocBuffer{Buffer: buf}}, store(buf, zero, I32(0))),
			"the memory of buffer T is not in scope"},
		"arity": {&Evaluate{Value: &Call{Op: MustOp("pow"), Type: DFloat32, Args: []Expr{zero}}}, "T.pow with 1 arguments"},
	} {
		err := Verify(&IRModule{Funcs: []*PrimFunc{{Name: "f", Body: tc.body}}})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestSeqIsFlat(t *testing.T) {
	a, b, c := &Evaluate{Value: I32(1)}, &Evaluate{Value: I32(2)}, &Evaluate{Value: I32(3)}
	if Seq() != nil || Seq(nil, nil) != nil || Seq(nil, a) != Stmt(a) {
		t.Error("Seq of nothing or of one statement")
	}
	s := Seq(a, Seq(b, Seq(nil, c)), nil)
	if got := Stmts(s); len(got) != 3 || got[2] != Stmt(c) {
		t.Errorf("Seq is %v", got)
	}
}
