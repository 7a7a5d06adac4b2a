package arith

import (
	"math/rand/v2"
	"testing"

	"lowertrace/internal/ir"
)

// FuzzSimplify draws an expression, ranges and a constraint from the bytes and
// checks the simplified expression, the bound and the modular set at every
// point of the ranges.
func FuzzSimplify(f *testing.F) {
	f.Add(uint64(1), uint64(1), uint8(3), uint8(0))
	f.Add(uint64(4368), uint64(1), uint8(5), uint8(1))
	f.Add(uint64(17758), uint64(2), uint8(4), uint8(2))
	f.Add(uint64(99), uint64(7), uint8(6), uint8(3))
	f.Fuzz(func(t *testing.T, s1, s2 uint64, depth, kind uint8) {
		r := rand.New(rand.NewPCG(s1, s2))
		b := randomBox(r, ir.DInt32, 2+int(kind>>2&1))
		g := &generator{r, ir.DInt32, b.vars, smallConsts}
		a := New()
		b.bind(a)
		var given ir.Expr
		if kind&1 != 0 {
			given = g.cond(int(kind >> 3 & 3))
			a.WithConstraint(given)
		}
		var e ir.Expr
		if kind&2 != 0 {
			e = g.cond(int(depth % 6))
		} else {
			e = g.expr(int(depth % 7))
		}
		checkOnBox(t, a, e, &b, given)
	})
}

// FuzzText runs the analysis on whatever text reads as an expression: it must
// come back, and twice simplified must be once simplified.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"(i * 4 + vec) // 4", "x % 4 + x // 4 * 4", "min(x, max(y, 5)) < n or b", "Select(x < 5, x // 3, y % -2)",
		"Ramp(x, 1, 4) // Broadcast(4, 4)", "x // 0 + y % 0", "truncmod(x * 8, -4) / -2", "x * 2147483647 * 2147483647",
		"if_then_else(x < y and y < z, x - z, 0) % 7 // 2", "-2147483648 // -1", "u % w + u - w",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 300 {
			return
		}
		a, vars := testEnv()
		e := func() (e ir.Expr) {
			defer func() {
				if recover() != nil {
					e = nil
				}
			}()
			return read(vars, s)
		}()
		if e == nil || !wellTyped(e) {
			return
		}
		r := a.Simplify(e)
		if r.DType() != e.DType() {
			t.Fatalf("%s: type %s became %s", show(e), e.DType(), r.DType())
		}
		a.Bound(e)
		a.Mod(e)
		if e.DType() == ir.DBool {
			a.CanProve(e)
			a.WithConstraint(e)
			a.Simplify(e)
		}
	})
}

// wellTyped reports what the reader does not check.
func wellTyped(e ir.Expr) bool {
	ok := true
	ir.WalkExpr(e, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Binary:
			if t, err := ir.BinaryType(e.Op, e.A.DType(), e.B.DType()); err != nil || t.IsHandle() {
				ok = false
			}
		case *ir.Not:
			ok = ok && e.A.DType().IsBool()
		case *ir.Select:
			ok = ok && e.Cond.DType() == ir.DBool && e.True.DType() == e.False.DType()
		case *ir.Ramp:
			ok = ok && e.Lanes > 1 && e.Lanes <= ir.MaxLanes && e.Base.DType() == e.Stride.DType() && e.Base.DType().IsInteger() && e.Base.DType().IsScalar()
		case *ir.Broadcast:
			ok = ok && e.Lanes > 1 && e.Lanes*int(e.Value.DType().Lanes) <= ir.MaxLanes
		case *ir.Call:
			if e.Op.Name == "if_then_else" {
				ok = ok && len(e.Args) == 3 && e.Args[0].DType() == ir.DBool && e.Args[1].DType() == e.Args[2].DType()
			} else {
				ok = ok && len(e.Args) >= e.Op.MinArgs && (e.Op.MaxArgs < 0 || len(e.Args) <= e.Op.MaxArgs)
			}
		case *ir.Cast:
			ok = ok && e.Type.Lanes == e.Value.DType().Lanes && !e.Value.DType().IsHandle()
		}
		return ok
	})
	return ok
}
