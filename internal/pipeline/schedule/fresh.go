package schedule

import "lowertrace/internal/ir"

// fresh is a copy of statements, as ir.Fresh makes it, with constants folded.
func fresh(list []ir.Stmt, subst map[*ir.Var]ir.Expr) []ir.Stmt {
	return ir.Fresh(list, subst, fold)
}

// fold computes operators on constants, which a constant iteration leaves
// behind.
func fold(e ir.Expr) ir.Expr {
	b, ok := e.(*ir.Binary)
	if !ok || !b.A.DType().IsInteger() || !b.A.DType().IsScalar() {
		return e
	}
	_, c1 := ir.AsInt(b.A)
	_, c2 := ir.AsInt(b.B)
	if !c1 && !c2 {
		return e
	}
	return ir.NewBinary(b.Op, b.A, b.B)
}
