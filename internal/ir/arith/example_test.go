package arith_test

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/ir/script"
)

func ExampleAnalyzer() {
	i := &ir.Var{Name: "i", Type: ir.DInt32}
	vec := &ir.Var{Name: "vec", Type: ir.DInt32}
	n := &ir.Var{Name: "n", Type: ir.DInt32}
	expr := func(text string) ir.Expr {
		e, err := script.ParseExpr(ir.NewSource("example", text), []*ir.Var{i, vec, n}, nil)
		if err != nil {
			panic(err)
		}
		return e
	}

	a := arith.New()
	a.BindVar(i, ir.I32(0), n) // for i in range(n)
	a.BindVar(vec, ir.I32(0), ir.I32(4))
	fmt.Println(script.ExprString(a.Simplify(expr("(i * 4 + vec) // 4 * 32 + (i * 4 + vec) % 4"))))
	fmt.Println(a.CanProve(expr("i * 4 + vec < n * 4")))

	leave := a.WithConstraint(expr("i < 8"))
	fmt.Println(a.Bound(expr("i * 4 + vec")))
	leave()

	fmt.Println(a.IsContiguous(expr("i * 32 + vec"), vec, 4))
	lo, hi, _ := a.BoundsOf(expr("i * 4 + vec"), map[*ir.Var]ir.Range{vec: {Min: ir.I32(0), Extent: ir.I32(4)}})
	fmt.Println(script.ExprString(lo), "..", script.ExprString(hi))
	// Output:
	// i * 32 + vec
	// true
	// [0, 31]
	// true
	// i * 4 .. i * 4 + 3
}
