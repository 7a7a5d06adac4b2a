package expr

import (
	"fmt"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// TestLowerIntrinFloor compares what becomes of floor divisions and remainders
// with their definition, for small dividends and divisors of either sign, as
// constants, as variables of known sign, and as variables of any sign.
func TestLowerIntrinFloor(t *testing.T) {
	const span = 20
	for _, divisor := range []string{"1", "2", "3", "7", "8", "16", "-1", "-3", "-4", "y"} {
		for _, op := range []string{"//", "%"} {
			for _, known := range []bool{false, true} {
				text := fmt.Sprintf(`# from tvm.script import tirx as T

@T.prim_func
def k(A_handle: T.handle, x: T.int32, y: T.int32):
    A = T.match_buffer(A_handle, (1,), "int32", strides=(1,))
    if %s:
        A[0] = x %s %s
`, map[bool]string{true: "0 <= x and 0 < y", false: "y != 0"}[known], op, divisor)
				m, err := script.ParseString("k", text)
				if err != nil {
					t.Fatal(err)
				}
				out, err := (&pipeline.Context{}).Run(LowerIntrin, m)
				if err != nil {
					t.Fatal(err)
				}
				f := out.Funcs[0]
				var value ir.Expr
				ir.Walk(f.Body, func(s ir.Stmt) bool {
					if st, ok := s.(*ir.BufferStore); ok {
						value = st.Value
					}
					return true
				})
				for x := int64(-span); x <= span; x++ {
					for y := int64(-span); y <= span; y++ {
						if y == 0 || known && (x < 0 || y < 0) {
							continue
						}
						d := y
						if divisor != "y" {
							fmt.Sscan(divisor, &d)
						}
						want := ir.FloorDivInt(x, d)
						if op == "%" {
							want = ir.FloorModInt(x, d)
						}
						env := map[*ir.Var]int64{f.Params[1]: x, f.Params[2]: y}
						if got := evalInt(t, value, env); got != want {
							t.Fatalf("x %s %s with x = %d, y = %d (signs known: %v): %d, want %d", op, divisor, x, y, known, got, want)
						}
					}
				}
			}
		}
	}
}

// evalInt evaluates int32 expressions of the operators LowerIntrin leaves.
func evalInt(t *testing.T, e ir.Expr, env map[*ir.Var]int64) int64 {
	switch e := e.(type) {
	case *ir.IntImm:
		return e.Value
	case *ir.Var:
		return env[e]
	case *ir.Select:
		if evalInt(t, e.Cond, env) != 0 {
			return evalInt(t, e.True, env)
		}
		return evalInt(t, e.False, env)
	case *ir.Binary:
		if e.Op == ir.FloorDiv || e.Op == ir.FloorMod {
			t.Fatalf("%s is left", e.Op)
		}
		ty := e.A.DType()
		a, b := ir.IntConst(ty, evalInt(t, e.A, env)), ir.IntConst(ty, evalInt(t, e.B, env))
		if c, ok := ir.FoldInt(e.Op, a, b).(*ir.IntImm); ok {
			return c.Value
		}
	case *ir.Call:
		a, b := int32(evalInt(t, e.Args[0], env)), int32(evalInt(t, e.Args[1], env))
		switch e.Op.Name {
		case "shift_right":
			return int64(a >> uint(b))
		case "bitwise_and":
			return int64(a & b)
		}
	}
	t.Fatalf("cannot evaluate a %T", e)
	return 0
}
