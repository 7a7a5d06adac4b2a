package arith_test

import (
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/ir/script"
)

// scopedWalk visits the expressions of a statement with what is known there: ranges
// of loops and launch axes, conditions of branches, names of values.
func scopedWalk(a *arith.Analyzer, s ir.Stmt, visit func(ir.Expr)) {
	var walk func(s ir.Stmt)
	scope := func(undo *[]func()) {
		for i := len(*undo) - 1; i >= 0; i-- {
			(*undo)[i]()
		}
	}
	walk = func(s ir.Stmt) {
		if s == nil {
			return
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			visit(e)
			return false
		})
		switch s := s.(type) {
		case *ir.SeqStmt:
			var undo []func()
			defer scope(&undo)
			for _, c := range s.Seq {
				walk(c)
				switch c := c.(type) {
				case *ir.Bind:
					undo = append(undo, a.BindValue(c.Var, c.Value))
				case *ir.Assert:
					undo = append(undo, a.WithConstraint(c.Cond))
				}
			}
		case *ir.For:
			if s.Step == nil {
				defer a.BindVar(s.Var, s.Min, s.Extent)()
			}
			walk(s.Body)
		case *ir.IfThenElse:
			undo := a.WithConstraint(s.Cond)
			walk(s.Then)
			undo()
			if s.Else != nil {
				undo = a.WithoutConstraint(s.Cond)
				walk(s.Else)
				undo()
			}
		case *ir.AttrStmt:
			if iv, ok := s.Node.(*ir.IterVar); ok && s.Key == ir.KeyThreadExtent {
				if n, ok := s.Value.(ir.Expr); ok {
					defer a.BindVar(iv.Var, ir.IntConst(iv.Var.Type, 0), ir.CastTo(n, iv.Var.Type))()
				}
			}
			if e, ok := s.Node.(ir.Expr); ok && s.Key == ir.KeyAssume {
				defer a.WithConstraint(e)()
			}
			walk(s.Body)
		default:
			ir.Children(s, walk)
		}
	}
	walk(s)
}

// What another compiler's simplifier made is what ours makes of it: nearly all
// of its expressions are fixed points. Those that are not are simpler here.
func TestReferenceFormsAreFixedPoints(t *testing.T) {
	same, all, shown := 0, 0, 0
	for _, name := range corpus.Files("_Simplify.tir") {
		m, err := script.ParseString(name, corpus.Text(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Funcs {
			a := arith.New()
			seen := map[string]bool{}
			scopedWalk(a, f.Body, func(e ir.Expr) {
				r := a.Simplify(e)
				if r.DType() != e.DType() {
					t.Fatalf("%s: %s of type %s became %s of type %s", name, script.ExprString(e), e.DType(), script.ExprString(r), r.DType())
				}
				was, is := script.ExprString(e), script.ExprString(r)
				if seen[was] {
					return
				}
				seen[was] = true
				if all++; was == is {
					same++
					return
				}
				if shown++; shown <= 2000 && len(was) < 300 {
					t.Logf("%s:\n  theirs %s\n  ours   %s", strings.TrimSuffix(name, ".tir"), was, is)
				}
				if again := a.Simplify(r); again != r {
					t.Errorf("%s: %s\n becomes %s\n and then %s", name, was, is, script.ExprString(again))
				}
			})
		}
	}
	t.Logf("%d of %d expressions are the same", same, all)
	if same*100 < all*99 {
		t.Errorf("only %d of %d expressions are the same", same, all)
	}
}
