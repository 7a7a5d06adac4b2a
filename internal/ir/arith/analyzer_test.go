package arith

import (
	"math/rand/v2"
	"testing"
	"time"

	"lowertrace/internal/ir"
)

func TestBounds(t *testing.T) {
	for _, c := range []struct{ given, e, bound, mod string }{
		{"", "i * 16 + j", "[0, 63]", "1*k + 0"},
		{"", "i * 16 + 3", "[3, 51]", "16*k + 3"},
		{"", "x", "[-2147483648, 2147483647]", "1*k + 0"},
		{"", "x % 8", "[0, 7]", "1*k + 0"},
		{"", "x * 4 % 8", "[0, 4]", "4*k + 0"},
		{"", "x // 2", "[-1073741824, 1073741823]", "1*k + 0"},
		{"", "-1 * tx", "[-127, 0]", "1*k + 0"},
		{"", "min(x, 7)", "[-2147483648, 7]", "1*k + 0"},
		{"", "Select(x < 5, 4, 12)", "[4, 12]", "8*k + 4"},
		{"", "if_then_else(0 <= x, x, 0)", "[0, 2147483647]", "1*k + 0"},
		{"", "bitwise_and(x, 31)", "[0, 31]", "1*k + 0"},
		{"", "shift_right(tx, 5)", "[0, 3]", "1*k + 0"},
		{"", "shift_left(i, 2)", "[0, 12]", "4*k + 0"},
		{"", "truncmod(x, 8)", "[-7, 7]", "1*k + 0"},
		{"", "T.int64(tx) * T.int64(4)", "[0, 508]", "4*k + 0"},
		{"", "T.int32(u)", "[-2147483648, 2147483647]", "1*k + 0"},
		{"", "u % T.uint32(8)", "[0, 7]", "1*k + 0"},
		{"", "u + w", "[0, 4294967295]", "1*k + 0"},
		{"", "x < 5", "[0, 1]", "1*k + 0"},
		{"", "Ramp(tx * 4, 1, 4)", "[0, 511]", "1*k + 0"},
		{"", "Ramp(tx * 4, 2, 4)", "[0, 514]", "2*k + 0"},
		{"", "j * i", "[0, 45]", "1*k + 0"},
		{"x < 10", "x", "[-2147483648, 9]", "1*k + 0"},
		{"0 <= x; x < 10", "x // 4", "[0, 2]", "1*k + 0"},
		{"x < y; y < 10", "x", "[-2147483648, 8]", "1*k + 0"},
		{"x - y < 3; 0 <= x - y", "x - y", "[0, 2]", "1*k + 0"},
		{"x - y < 3", "x * 2 - y * 2", "[-2147483648, 4]", "2*k + 0"},
		{"x % 8 == 3", "x", "[-2147483648, 2147483647]", "8*k + 3"},
		{"x % 8 == 3", "x % 4", "[3, 3]", "0*k + 3"},
		{"x == 5 or x == 7", "x", "[-2147483648, 2147483647]", "1*k + 0"},
		{"not (x < 0 or 9 < x)", "x", "[0, 9]", "1*k + 0"},
		{"likely(x < 4)", "x", "[-2147483648, 3]", "1*k + 0"},
	} {
		a, vars := testEnv()
		constrain(a, vars, c.given)
		e := read(vars, c.e)
		if got := a.Bound(e).String(); got != c.bound {
			t.Errorf("bound of %s given %q: got %s, want %s", c.e, c.given, got, c.bound)
		}
		if got := a.Mod(e).String(); got != c.mod {
			t.Errorf("modular set of %s given %q: got %s, want %s", c.e, c.given, got, c.mod)
		}
	}
}

func TestCanProve(t *testing.T) {
	for _, c := range []struct {
		given, cond string
		want        bool
	}{
		{"", "i * 16 + j < 64", true},
		{"", "i * 16 + j < 63", false},
		{"", "x < x + 1", true},
		{"", "x * 2 == x + x", true},
		{"", "(x + 1) * (x - 1) == x * x - 1", true},
		{"", "(x + y) * n == x * n + n * y", true},
		{"", "(x + y) * n == x * n + y", false},
		{"", "x // 4 * 4 <= x", true},
		{"", "x % 4 + x // 4 * 4 == x", true},
		{"", "min(x, y) <= x", true},
		{"", "x <= max(y, x)", true},
		{"", "min(x, y) < x", false},
		{"", "min(n - x, 128) + x <= n", true},
		{"", "max(n, 0) - max(n, 0) // 2 * 2 < 2", true},
		{"tx != tid", "tx * 4 + vec != tid * 4 + i", true},
		{"tx != tid", "tx * 2 + vec != tid * 2 + i", false},
		{"tx != tid", "tid * 4 + vec != tx * 4 + vec", true},
		{"not tx == tid", "x * 512 + tx * 4 + vec != x * 512 + tid * 4 + i", true},
		{"x < y; y < z", "x + 1 < z", true},
		{"x < y; y < z", "x + 2 < z", false},
		{"x < y or y < x", "x != y", false},
		{"b", "b or c", true},
		{"0 <= x; x < n", "x * 4 + 3 < n * 4", true},
		{"0 < n; bx * 128 + tx < n", "bx * 128 < n", true},
		{"u < w", "u < w", true},
		{"u < w", "not (u < w)", false},
		{"u < w", "w > u", true},
	} {
		a, vars := testEnv()
		constrain(a, vars, c.given)
		if got := a.CanProve(read(vars, c.cond)); got != c.want {
			t.Errorf("CanProve(%s) given %q = %v", c.cond, c.given, got)
		}
	}
	a, vars := testEnv()
	l := &ir.Cast{Type: ir.DInt64, Value: read(vars, "tx + i")}
	if !a.CanProveEqual(read(vars, "i + tx"), l) || a.CanProveEqual(read(vars, "i"), l) {
		t.Error("CanProveEqual does not compare integers of two widths")
	}
	if !a.IsMultipleOf(read(vars, "x * 8 + 16"), 8) || a.IsMultipleOf(read(vars, "x * 8 + 4"), 8) || a.IsMultipleOf(read(vars, "x"), 0) {
		t.Error("IsMultipleOf is wrong")
	}
	if a.CanProve(read(vars, "x")) {
		t.Error("proved an integer")
	}
}

func TestScopes(t *testing.T) {
	a, vars := testEnv()
	x, y, n := vars["x"], vars["y"], vars["n"]
	ask := func(want bool, cond string) {
		t.Helper()
		if got := a.CanProve(read(vars, cond)); got != want {
			t.Errorf("CanProve(%s) = %v", cond, got)
		}
	}
	undo := a.BindVar(x, ir.I32(0), n)
	ask(true, "x < n")
	ask(true, "0 <= x")
	inner := a.WithConstraint(read(vars, "x < 4"))
	ask(true, "x < 5")
	inner()
	ask(false, "x < 5")
	not := a.WithoutConstraint(read(vars, "x < 4"))
	ask(true, "3 < x")
	not()
	// Bound anew, an older constraint on x says nothing any more.
	again := a.BindVar(x, ir.I32(0), ir.I32(1000))
	ask(false, "x < n")
	again()
	ask(true, "x < n")
	undo()
	ask(false, "0 <= x")

	undo = a.BindExpr(y, read(vars, "x * 4 + 1"))
	if got := show(a.Simplify(read(vars, "y + 1"))); got != "x * 4 + 2" {
		t.Errorf("BindExpr: got %s", got)
	}
	undo()
	undo = a.BindValue(y, read(vars, "x * 4 + 1"))
	if got := show(a.Simplify(read(vars, "y + 1"))); got != "y + 1" {
		t.Errorf("BindValue: got %s", got)
	}
	ask(true, "y == x * 4 + 1")
	if got := a.Mod(y); got != (Mod{4, 1}) {
		t.Errorf("BindValue: modular set %s", got)
	}
	undo()
	undo = a.BindVar(y, read(vars, "x * 8"), ir.I32(1))
	if got := show(a.Simplify(read(vars, "y + 1"))); got != "x * 8 + 1" {
		t.Errorf("a loop of one iteration: got %s", got)
	}
	undo()
	undo = a.BindMod(y, Mod{8, 4})
	if !a.IsMultipleOf(y, 4) || a.IsMultipleOf(y, 8) {
		t.Error("BindMod is wrong")
	}
	undo()
	ask(false, "y == x * 4 + 1")
}

// A constraint over memory is not kept: memory may change under it. Within one
// expression it holds.
func TestConstraintsOverMemory(t *testing.T) {
	a, _ := testEnv()
	buf := ir.NewBuffer("B", ir.DInt32, "global", ir.I32(8))
	load := func() ir.Expr { return &ir.BufferLoad{Buffer: buf, Indices: []ir.Expr{ir.I32(0)}} }
	cond := func() ir.Expr { return &ir.Binary{Op: ir.LT, A: load(), B: ir.I32(4)} }
	a.WithConstraint(cond())
	if a.CanProve(cond()) {
		t.Error("a constraint over memory was kept")
	}
	and := &ir.Binary{Op: ir.And, A: cond(), B: cond()}
	if got := a.Simplify(and); !Equal(got, cond()) {
		t.Errorf("got %s", show(got))
	}
	if got := a.Simplify(&ir.Binary{Op: ir.Sub, A: load(), B: load()}); !ir.IsConst(got, 0) {
		t.Errorf("got %s", show(got))
	}
}

// Calls with an effect are neither dropped, joined nor moved.
func TestEffectsAreKept(t *testing.T) {
	a, vars := testEnv()
	call := ir.NewTypedCall(ir.MustOp("call_extern"), ir.DInt32, ir.Str("f"))
	for _, e := range []ir.Expr{
		&ir.Binary{Op: ir.Sub, A: call, B: call},
		&ir.Binary{Op: ir.Mul, A: call, B: ir.I32(0)},
		&ir.Binary{Op: ir.FloorMod, A: call, B: ir.I32(1)},
		&ir.Binary{Op: ir.LT, A: call, B: call},
		&ir.Select{Cond: vars["b"], True: call, False: call},
		&ir.Binary{Op: ir.Add, A: &ir.Binary{Op: ir.Add, A: ir.I32(1), B: call}, B: vars["x"]},
	} {
		a.Bound(e) // must not leave results behind that forget the effect
		n := 0
		ir.WalkExpr(a.Simplify(e), func(x ir.Expr) bool {
			if x == ir.Expr(call) {
				n++
			}
			return true
		})
		want := 0
		ir.WalkExpr(e, func(x ir.Expr) bool {
			if x == ir.Expr(call) {
				want++
			}
			return true
		})
		if n != want {
			t.Errorf("%d calls of %d are left in %s", n, want, show(a.Simplify(e)))
		}
	}
	sum := &ir.Binary{Op: ir.Add, A: call, B: read(vars, "x + 1 - 1")}
	if got := a.Simplify(sum); !Equal(got, &ir.Binary{Op: ir.Add, A: call, B: vars["x"]}) {
		t.Errorf("operands beside an effect: got %s", show(got))
	}
}

func TestSimplifyLet(t *testing.T) {
	a, vars := testEnv()
	v := &ir.Var{Name: "v", Type: ir.DInt32}
	vars["v"] = v
	e := &ir.Let{Var: v, Value: read(vars, "2 + 3"), Body: read(vars, "x + v")}
	if got := show(a.Simplify(e)); got != "x + 5" {
		t.Errorf("got %s", got)
	}
	e = &ir.Let{Var: v, Value: read(vars, "x * 4"), Body: read(vars, "v % 4 + v")}
	r, ok := a.Simplify(e).(*ir.Let)
	if !ok || show(r.Body) != "v" {
		t.Errorf("got %s", show(a.Simplify(e)))
	}
}

func TestSimplifyCasts(t *testing.T) {
	a, vars := testEnv()
	for _, c := range []struct {
		e    ir.Expr
		want string
	}{
		{&ir.Cast{Type: ir.DInt8, Value: ir.I32(300)}, "T.int8(44)"},
		{&ir.Cast{Type: ir.DInt64, Value: ir.I32(3)}, "T.int64(3)"},
		{&ir.Cast{Type: ir.DInt32, Value: &ir.Cast{Type: ir.DInt8, Value: vars["x"]}}, "T.int32(T.int8(x))"},
		{&ir.Cast{Type: ir.DInt32, Value: &ir.Cast{Type: ir.DInt8, Value: vars["i"]}}, "i"},
		{&ir.Cast{Type: ir.DInt64, Value: &ir.Cast{Type: ir.DInt8, Value: vars["i"]}}, "T.int64(i)"},
		{&ir.Cast{Type: ir.DInt32, Value: vars["x"]}, "x"},
		{&ir.Cast{Type: ir.DFloat64, Value: ir.FloatConst(ir.DFloat32, 0.5)}, "0.5"},
		{&ir.Cast{Type: ir.DFloat64, Value: ir.FloatConst(ir.DFloat32, 0.1)}, "T.float64(0.1)"},
		{&ir.Cast{Type: ir.DFloat32, Value: ir.I32(1 << 24)}, "1.6777216e+07"},
		{&ir.Cast{Type: ir.DFloat32, Value: ir.I32(1<<24 + 1)}, "T.float32(16777217)"},
		{&ir.Cast{Type: ir.DInt32, Value: read(vars, "x < y")}, "T.int32(x < y)"},
	} {
		if got := show(a.Simplify(c.e)); got != c.want {
			t.Errorf("%s: got %s, want %s", show(c.e), got, c.want)
		}
	}
}

func TestNarrowAndUnsignedTypesAgainstBruteForce(t *testing.T) {
	for _, ty := range []ir.DType{ir.DUInt32, ir.DUInt8, ir.DInt64} {
		for seed := range rounds(3000) {
			r := rand.New(rand.NewPCG(uint64(seed), uint64(ty.Bits)+uint64(ty.Code)*100))
			b := randomBox(r, ty, 2)
			if ty.IsUInt() {
				for i := range b.vars {
					b.hi[i] -= b.lo[i]
					b.lo[i] = 0
				}
			}
			consts := []int64{0, 1, 2, 3, 4, 5, 8, 12}
			if !ty.IsUInt() {
				consts = smallConsts
			}
			g := &generator{r, ty, b.vars, consts}
			a := New()
			b.bind(a)
			e := g.expr(2 + r.IntN(3))
			if r.IntN(3) == 0 {
				e = g.cond(3)
			}
			if !checkOnBox(t, a, e, &b, nil) {
				t.Fatalf("%s seed %d", ty, seed)
			}
		}
	}
}

// lanes evaluates a vector expression.
func lanes(e ir.Expr, env map[*ir.Var]int64) []value {
	n := int(e.DType().Lanes)
	out := make([]value, n)
	switch e := e.(type) {
	case *ir.Broadcast:
		for i := range out {
			out[i] = eval(e.Value, env)
		}
	case *ir.Ramp:
		b, s := eval(e.Base, env), eval(e.Stride, env)
		for i := range out {
			r := b.v + s.v*int64(i)
			w := ir.WrapInt(e.Base.DType(), r)
			out[i] = value{w, b.exact && s.exact && w == r}
		}
	case *ir.Binary:
		x, y := lanes(e.A, env), lanes(e.B, env)
		t := e.A.DType().Scalar()
		for i := range out {
			v := eval(&ir.Binary{Op: e.Op, A: &ir.IntImm{Type: t, Value: x[i].v}, B: &ir.IntImm{Type: t, Value: y[i].v}}, env)
			out[i] = value{v.v, v.exact && x[i].exact && y[i].exact}
		}
	default:
		panic("lanes: unknown node " + show(e))
	}
	return out
}

func TestVectorsAgainstBruteForce(t *testing.T) {
	changed := 0
	n := rounds(6000)
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		b := randomBox(r, ir.DInt32, 2)
		g := &generator{r, ir.DInt32, b.vars, smallConsts}
		var vec func(d int) ir.Expr
		vec = func(d int) ir.Expr {
			if d == 0 || r.IntN(6) == 0 {
				if r.IntN(2) == 0 {
					return &ir.Broadcast{Value: g.expr(1), Lanes: 4}
				}
				base := g.expr(1)
				if r.IntN(2) == 0 {
					base = &ir.Binary{Op: ir.Mul, A: base, B: ir.I32(4)}
				}
				return &ir.Ramp{Base: base, Stride: ir.I32([]int64{0, 1, 1, 2, 4, 8, -1}[r.IntN(7)]), Lanes: 4}
			}
			op := []ir.BinOp{ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Div, ir.TruncMod, ir.Min, ir.Max}[r.IntN(9)]
			y := vec(d - 1)
			if op >= ir.Mul && op <= ir.FloorMod {
				y = &ir.Broadcast{Value: ir.I32([]int64{1, 2, 4, 8, 16, 3}[r.IntN(6)]), Lanes: 4}
			}
			return &ir.Binary{Op: op, A: vec(d - 1), B: y}
		}
		e := vec(2 + r.IntN(2))
		if r.IntN(3) == 0 {
			e = &ir.Binary{Op: ir.EQ + ir.BinOp(r.IntN(6)), A: e, B: vec(1)}
		}
		a := New()
		b.bind(a)
		s := a.Simplify(e)
		if s != e {
			changed++
		}
		bd := a.Bound(e)
		b.each(func(env map[*ir.Var]int64) bool {
			want, got := lanes(e, env), lanes(s, env)
			for i := range want {
				if want[i].exact && (got[i].v != want[i].v || !bd.Contains(Point(want[i].v))) {
					t.Fatalf("seed %d: %s\n simplified %s\n lane %d: %d, want %d; bound %s;%s", seed, show(e), show(s), i, got[i].v, want[i].v, bd, describe(a, b.vars))
				}
			}
			return true
		})
	}
	if changed < n/2 {
		t.Errorf("only %d of %d expressions changed", changed, n)
	}
}

// Whatever the input, an answer comes soon and is not much larger.
func TestLimits(t *testing.T) {
	a, vars := testEnv()
	x := ir.Expr(vars["x"])
	add := func(a, b ir.Expr) ir.Expr { return &ir.Binary{Op: ir.Add, A: a, B: b} }
	build := map[string]func() ir.Expr{
		"a chain deeper than MaxDepth": func() ir.Expr {
			e := x
			for range MaxDepth + 10 {
				e = add(e, ir.I32(1))
			}
			return e
		},
		"a graph of 2^200 nodes": func() ir.Expr {
			e := x
			for range 200 {
				e = add(e, e)
			}
			return e
		},
		"a sum of more than MaxTerms": func() ir.Expr {
			e := x
			for range MaxDepth - 10 {
				e = add(e, &ir.Var{Name: "v", Type: ir.DInt32})
			}
			return e
		},
		"a full tree of MaxNodes": func() ir.Expr {
			var tree func(d int) ir.Expr
			tree = func(d int) ir.Expr {
				if d == 0 {
					return &ir.Var{Name: "v", Type: ir.DInt32}
				}
				return &ir.Binary{Op: []ir.BinOp{ir.Add, ir.Mul, ir.FloorMod, ir.Sub, ir.Min}[d%5], A: tree(d - 1), B: tree(d - 1)}
			}
			return tree(14)
		},
		"choices within choices": func() ir.Expr {
			e := x
			for i := range 60 {
				e = &ir.Select{Cond: &ir.Binary{Op: ir.LT, A: &ir.Var{Name: "v", Type: ir.DInt32}, B: ir.I32(int64(i))}, True: add(e, ir.I32(0)), False: vars["y"]}
			}
			return e
		},
		"choices within conditions": func() ir.Expr {
			e := x
			for i := range 60 {
				e = &ir.Select{Cond: &ir.Binary{Op: ir.LT, A: add(e, ir.I32(0)), B: ir.I32(int64(i))}, True: vars["z"], False: vars["y"]}
			}
			return e
		},
		"a conjunction of more than MaxFacts": func() ir.Expr {
			e := ir.Expr(vars["b"])
			for i := range MaxFacts + 50 {
				v := &ir.Var{Name: "v", Type: ir.DInt32}
				e = &ir.Binary{Op: ir.And, A: e, B: &ir.Binary{Op: ir.LT, A: add(v, x), B: &ir.Binary{Op: ir.Mul, A: vars["y"], B: ir.I32(int64(i))}}}
			}
			return e
		},
		"nested products of sums": func() ir.Expr {
			e := add(x, vars["y"])
			for range 40 {
				e = &ir.Binary{Op: ir.Mul, A: add(e, vars["z"]), B: add(vars["n"], ir.I32(1))}
			}
			return e
		},
	}
	for name, f := range build {
		t.Run(name, func(t *testing.T) {
			e := f()
			start := time.Now()
			r := New2(a).Simplify(e)
			n, ok := measure(e)
			m, _ := measure(r)
			if ok && m > MaxGrowth*n+32 {
				t.Errorf("%d nodes became %d", n, m)
			}
			if !ok && r != e {
				t.Error("an expression beyond the limits was changed")
			}
			New2(a).Bound(e)
			New2(a).Mod(e)
			if e.DType() == ir.DBool {
				New2(a).CanProve(e)
				New2(a).WithConstraint(e)()
			} else {
				New2(a).CanProveEqual(e, add(e, ir.I32(1)))
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("took %v", d)
			} else {
				t.Logf("took %v", d)
			}
		})
	}
}

// A query that ran out of steps leaves the rest as it is.
func TestMaxSteps(t *testing.T) {
	a, vars := testEnv()
	a.begin()
	a.steps = MaxSteps
	e := read(vars, "x + 1 - 1")
	if got := a.query().simplify(e); got != e {
		t.Errorf("got %s", show(got))
	}
	if got := show(New2(a).Simplify(e)); got != "x" {
		t.Errorf("got %s", got)
	}
}
