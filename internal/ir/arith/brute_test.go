package arith

import (
	"math/rand/v2"
	"testing"

	"lowertrace/internal/ir"
)

// value is the result of evaluating an expression as the device does: signed
// arithmetic wraps. exact says that no operation overflowed and nothing was
// undefined, so that the value is one the source promises.
type value struct {
	v     int64
	exact bool
}

// eval evaluates a scalar integer or bool expression.
func eval(e ir.Expr, env map[*ir.Var]int64) value {
	switch e := e.(type) {
	case *ir.IntImm:
		return value{e.Value, true}
	case *ir.Var:
		return value{env[e], true}
	case *ir.Not:
		a := eval(e.A, env)
		return value{1 - a.v, a.exact}
	case *ir.Cast:
		a := eval(e.Value, env)
		w := ir.WrapInt(e.Type, a.v)
		return value{w, a.exact && w == a.v}
	case *ir.Select:
		c, t, f := eval(e.Cond, env), eval(e.True, env), eval(e.False, env)
		if c.v == 0 {
			t.v = f.v
		}
		return value{t.v, c.exact && t.exact && f.exact}
	case *ir.Call:
		if e.Op.Name == "if_then_else" {
			c := eval(e.Args[0], env)
			r := eval(e.Args[1], env)
			if c.v == 0 {
				r = eval(e.Args[2], env)
			}
			return value{r.v, c.exact && r.exact}
		}
	case *ir.Binary:
		a := eval(e.A, env)
		switch e.Op {
		case ir.And:
			if a.v == 0 {
				return a
			}
			b := eval(e.B, env)
			return value{b.v, a.exact && b.exact}
		case ir.Or:
			if a.v != 0 {
				return a
			}
			b := eval(e.B, env)
			return value{b.v, a.exact && b.exact}
		}
		b := eval(e.B, env)
		ok := a.exact && b.exact
		var r int64
		switch e.Op {
		case ir.Add:
			r = a.v + b.v
		case ir.Sub:
			r = a.v - b.v
		case ir.Mul:
			r = a.v * b.v
		case ir.Div, ir.FloorDiv, ir.TruncMod, ir.FloorMod:
			if b.v == 0 {
				return value{0, false}
			}
			switch e.Op {
			case ir.Div:
				r = a.v / b.v
			case ir.FloorDiv:
				r = ir.FloorDivInt(a.v, b.v)
			case ir.TruncMod:
				r = a.v % b.v
			default:
				r = ir.FloorModInt(a.v, b.v)
			}
		case ir.Min:
			r = min(a.v, b.v)
		case ir.Max:
			r = max(a.v, b.v)
		default:
			t := false
			switch e.Op {
			case ir.EQ:
				t = a.v == b.v
			case ir.NE:
				t = a.v != b.v
			case ir.LT:
				t = a.v < b.v
			case ir.LE:
				t = a.v <= b.v
			case ir.GT:
				t = a.v > b.v
			case ir.GE:
				t = a.v >= b.v
			}
			if t {
				r = 1
			}
			return value{r, ok}
		}
		w := ir.WrapInt(e.A.DType(), r)
		return value{w, ok && (w == r || e.A.DType().IsUInt())}
	}
	panic("eval: unknown node " + show(e))
}

// generator makes random expressions of one integer type.
type generator struct {
	r      *rand.Rand
	t      ir.DType
	vars   []*ir.Var
	consts []int64
}

func (g *generator) leaf() ir.Expr {
	if g.r.IntN(4) > 0 {
		return g.vars[g.r.IntN(len(g.vars))]
	}
	return ir.IntConst(g.t, g.consts[g.r.IntN(len(g.consts))])
}

func (g *generator) expr(depth int) ir.Expr {
	if depth == 0 || g.r.IntN(8) == 0 {
		return g.leaf()
	}
	bin := func(op ir.BinOp) ir.Expr {
		b := g.expr(depth - 1)
		if op == ir.Mul || op == ir.FloorDiv || op == ir.FloorMod || op == ir.Div || op == ir.TruncMod {
			if g.r.IntN(10) > 0 {
				c := g.consts[g.r.IntN(len(g.consts))]
				if c == 0 || op != ir.Mul && c < 0 && g.r.IntN(4) > 0 {
					c = 4
				}
				b = ir.IntConst(g.t, c)
			}
		}
		return &ir.Binary{Op: op, A: g.expr(depth - 1), B: b}
	}
	switch g.r.IntN(14) {
	case 0, 1, 2:
		return bin(ir.Add)
	case 3, 4:
		return bin(ir.Sub)
	case 5, 6:
		return bin(ir.Mul)
	case 7, 8:
		return bin(ir.FloorDiv)
	case 9, 10:
		return bin(ir.FloorMod)
	case 11:
		return bin([]ir.BinOp{ir.Div, ir.TruncMod}[g.r.IntN(2)])
	case 12:
		return bin([]ir.BinOp{ir.Min, ir.Max}[g.r.IntN(2)])
	}
	c := g.cond(depth - 1)
	if g.r.IntN(2) == 0 {
		return &ir.Select{Cond: c, True: g.expr(depth - 1), False: g.expr(depth - 1)}
	}
	return ir.NewCall(ir.MustOp("if_then_else"), c, g.expr(depth-1), g.expr(depth-1))
}

func (g *generator) cond(depth int) ir.Expr {
	switch g.r.IntN(8) {
	case 0:
		if depth > 0 {
			return &ir.Binary{Op: ir.And, A: g.cond(depth - 1), B: g.cond(depth - 1)}
		}
	case 1:
		if depth > 0 {
			return &ir.Binary{Op: ir.Or, A: g.cond(depth - 1), B: g.cond(depth - 1)}
		}
	case 2:
		if depth > 0 {
			return &ir.Not{A: g.cond(depth - 1)}
		}
	}
	ops := [...]ir.BinOp{ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE}
	return &ir.Binary{Op: ops[g.r.IntN(len(ops))], A: g.expr(max(depth-1, 0)), B: g.expr(max(depth-1, 0))}
}

var smallConsts = []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, -1, -2, -3, -4, -5}

// box is a few variables with small ranges, all points of which are tried.
type box struct {
	vars   []*ir.Var
	lo, hi []int64
}

func randomBox(r *rand.Rand, t ir.DType, n int) box {
	b := box{}
	for k := range n {
		lo := int64(r.IntN(12) - 4)
		if r.IntN(3) > 0 {
			lo = 0
		}
		b.vars = append(b.vars, &ir.Var{Name: string(rune('a' + k)), Type: t})
		b.lo = append(b.lo, lo)
		b.hi = append(b.hi, lo+int64([]int{1, 2, 3, 4, 4, 6, 8, 8}[r.IntN(8)])-1)
	}
	return b
}

func (b *box) bind(a *Analyzer) {
	for i, v := range b.vars {
		a.BindVar(v, ir.IntConst(v.Type, b.lo[i]), ir.IntConst(v.Type, b.hi[i]-b.lo[i]+1))
	}
}

func (b *box) each(f func(env map[*ir.Var]int64) bool) {
	env := map[*ir.Var]int64{}
	var rec func(i int) bool
	rec = func(i int) bool {
		if i == len(b.vars) {
			return f(env)
		}
		for v := b.lo[i]; v <= b.hi[i]; v++ {
			env[b.vars[i]] = v
			if !rec(i + 1) {
				return false
			}
		}
		return true
	}
	rec(0)
}

func describe(a *Analyzer, vars []*ir.Var) string {
	s := ""
	for _, v := range vars {
		s += " " + v.Name + " in " + a.Bound(v).String()
	}
	return s
}

// checkOnBox compares e with its simplification at every point of the box, and
// its bound and modular set with its values.
func checkOnBox(t *testing.T, a *Analyzer, e ir.Expr, b *box, given ir.Expr) bool {
	t.Helper()
	s := a.Simplify(e)
	bd, md := a.Bound(e), a.Mod(e)
	fine := true
	b.each(func(env map[*ir.Var]int64) bool {
		if given != nil {
			if g := eval(given, env); !g.exact || g.v == 0 {
				return true
			}
		}
		want := eval(e, env)
		if !want.exact {
			return true
		}
		at := ""
		for _, v := range b.vars {
			at += " " + v.Name + "=" + show(ir.IntConst(ir.DInt32, env[v]))
		}
		if got := eval(s, env); got.v != want.v {
			t.Errorf("%s\n simplified %s\n at%s: %d, want %d", show(e), show(s), at, got.v, want.v)
			fine = false
		}
		if !bd.Contains(Point(want.v)) {
			t.Errorf("%s: bound %s does not hold %d at%s", show(e), bd, want.v, at)
			fine = false
		}
		if e.DType().IsInt() && (md.Coeff == 0 && md.Base != want.v || md.Coeff > 0 && ir.FloorModInt(want.v, md.Coeff) != md.Base) {
			t.Errorf("%s: modular set %s does not hold %d at%s", show(e), md, want.v, at)
			fine = false
		}
		return fine
	})
	if !fine {
		if given != nil {
			t.Logf("given %s", show(given))
		}
		t.Logf("variables%s", describe(a, b.vars))
	}
	return fine
}

func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

func TestSimplifyAgainstBruteForce(t *testing.T) {
	bad := 0
	for seed := range rounds(20000) {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		b := randomBox(r, ir.DInt32, 2+r.IntN(2))
		g := &generator{r, ir.DInt32, b.vars, smallConsts}
		a := New()
		b.bind(a)
		var e, given ir.Expr
		if e = g.expr(2 + r.IntN(4)); r.IntN(3) == 0 {
			e = g.cond(2 + r.IntN(3))
		}
		if r.IntN(2) == 0 {
			given = g.cond(1 + r.IntN(2))
			a.WithConstraint(given)
		}
		if !checkOnBox(t, a, e, &b, given) {
			t.Logf("seed %d", seed)
			if bad++; bad > 3 {
				t.FailNow()
			}
		}
		once := a.Simplify(e)
		if n, _ := measure(once); n > 0 && e.DType() == ir.DBool && given == nil && a.CanProve(e) {
			b.each(func(env map[*ir.Var]int64) bool {
				if v := eval(e, env); v.exact && v.v == 0 {
					t.Errorf("seed %d: proved %s, which is false", seed, show(e))
					return false
				}
				return true
			})
		}
	}
}

// Near the ends of the type nothing may be regrouped into an overflow that
// changes the result.
func TestSimplifyNearTheEndsOfTheType(t *testing.T) {
	for _, ty := range []ir.DType{ir.DInt32, ir.DInt8, ir.DInt16} {
		tb := TypeBound(ty)
		consts := append([]int64{tb.Max, tb.Max - 1, tb.Min, tb.Min + 1, tb.Max / 2, tb.Max / 3, tb.Min / 2, 100, 64}, smallConsts...)
		bad := 0
		for seed := range rounds(20000) {
			r := rand.New(rand.NewPCG(uint64(seed), uint64(ty.Bits)))
			vars := []*ir.Var{{Name: "a", Type: ty}, {Name: "b", Type: ty}, {Name: "c", Type: ty}}
			g := &generator{r, ty, vars, consts}
			a := New()
			if r.IntN(2) == 0 {
				a.BindVar(vars[2], ir.IntConst(ty, 0), ir.IntConst(ty, 8))
			}
			var given ir.Expr
			if r.IntN(4) == 0 {
				given = g.cond(1)
				a.WithConstraint(given)
			}
			e := g.expr(2 + r.IntN(3))
			if r.IntN(3) == 0 {
				e = g.cond(2 + r.IntN(2))
			}
			s := a.Simplify(e)
			bd := a.Bound(e)
			for range 60 {
				env := map[*ir.Var]int64{}
				for i, v := range vars {
					if i == 2 && a.vars[v] != nil {
						env[v] = int64(r.IntN(8))
						continue
					}
					switch r.IntN(5) {
					case 0:
						env[v] = ir.WrapInt(ty, int64(r.Uint64()))
					case 1:
						env[v] = tb.Max - int64(r.IntN(20))
					case 2:
						env[v] = tb.Min + int64(r.IntN(20))
					case 3:
						k := int64(r.IntN(7) + 2)
						env[v] = ir.WrapInt(ty, tb.Max/k+int64(r.IntN(5))-2)
						if r.IntN(2) == 0 {
							env[v] = ir.WrapInt(ty, -env[v])
						}
					default:
						env[v] = int64(r.IntN(40) - 20)
					}
				}
				if given != nil {
					if gv := eval(given, env); !gv.exact || gv.v == 0 {
						continue
					}
				}
				want := eval(e, env)
				if !want.exact {
					continue
				}
				if got := eval(s, env); got.v != want.v || !bd.Contains(Point(want.v)) {
					t.Errorf("%s seed %d: %s\n simplified %s\n at a=%d b=%d c=%d: %d, want %d; bound %s", ty, seed, show(e), show(s), env[vars[0]], env[vars[1]], env[vars[2]], got.v, want.v, bd)
					if given != nil {
						t.Logf("given %s", show(given))
					}
					if bad++; bad > 3 {
						t.FailNow()
					}
					break
				}
			}
		}
	}
}
