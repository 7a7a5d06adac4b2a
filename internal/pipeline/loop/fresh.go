package loop

import "lowertrace/internal/ir"

// fresh is a copy of a statement, as ir.Fresh makes it.
func fresh(s ir.Stmt) ir.Stmt { return freshWith(s, nil) }

// freshWith is fresh with some variables replaced by expressions as well.
func freshWith(s ir.Stmt, subst map[*ir.Var]ir.Expr) ir.Stmt {
	if s == nil {
		return nil
	}
	return ir.Fresh([]ir.Stmt{s}, subst, nil)[0]
}
