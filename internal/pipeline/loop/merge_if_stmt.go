package loop

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
)

// MergeIfStmt joins neighbouring branches with the same condition.
//
// Precondition: none. Effect: if c: A; if c: B becomes if c: A; B, also for
// what stands in them, when A cannot change c. Branches with an else are joined
// when both have one. Invariant: what is computed does not change.
var MergeIfStmt = &pipeline.Pass{
	Name:         "MergeIfStmt",
	Stage:        stage,
	Doc:          "join neighbouring branches with the same condition",
	Precondition: "None.",
	Effect:       "Neighbouring ifs with the same condition become one, when the statements of the first cannot change the condition.",
	Before:       "if bx == 0:\n    A[0] = x\nif bx == 0:\n    A[1] = y",
	After:        "if bx == 0:\n    A[0] = x\n    A[1] = y",
	Run:          pipeline.BodyPass(nil, mergeIfs),
}

func mergeIfs(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		seq, ok := s.(*ir.SeqStmt)
		if !ok {
			return s, false
		}
		// Join on the way down, so that what was joined is looked into again.
		var out []ir.Stmt
		merged := false
		for _, c := range seq.Seq {
			if n := len(out); n > 0 {
				if j := joinIfs(out[n-1], c); j != nil {
					out[n-1], merged = j, true
					continue
				}
			}
			out = append(out, c)
		}
		if !merged {
			return r.Inside(seq), true
		}
		return r.Stmt(ir.Seq(out...)), true
	}
	return r.Stmt(f.Body), nil
}

// joinIfs is two branches as one, nil if they cannot be joined.
func joinIfs(a, b ir.Stmt) ir.Stmt {
	x, ok := a.(*ir.IfThenElse)
	y, ok2 := b.(*ir.IfThenElse)
	if !ok || !ok2 || (x.Else == nil) != (y.Else == nil) || !arith.Equal(x.Cond, y.Cond) {
		return nil
	}
	if ir.SideEffect(x.Cond) > ir.ReadState || changes(x.Then, x.Cond) || changes(x.Else, x.Cond) {
		return nil
	}
	return &ir.IfThenElse{Cond: x.Cond, Then: joined(x.Then, y.Then), Else: joined(x.Else, y.Else), Org: x.Org}
}

// joined is two bodies in sequence. Names the first defines at its outermost
// level do not reach into the second, so the second's own definitions only
// clash when they are the same variables.
func joined(a, b ir.Stmt) ir.Stmt {
	if a == nil {
		return b
	}
	defined := map[*ir.Var]bool{}
	for _, s := range ir.Stmts(a) {
		if v := definedBy(s); v != nil {
			defined[v] = true
		}
	}
	for _, s := range ir.Stmts(b) {
		if v := definedBy(s); v != nil && defined[v] {
			return ir.Seq(a, fresh(b))
		}
	}
	return ir.Seq(a, b)
}

func definedBy(s ir.Stmt) *ir.Var {
	switch s := s.(type) {
	case *ir.Bind:
		return s.Var
	case *ir.AllocBuffer:
		return s.Buffer.Data
	}
	return nil
}

// changes reports that s may write memory that cond reads.
func changes(s ir.Stmt, cond ir.Expr) bool {
	reads := map[*ir.Var]bool{}
	ir.WalkExpr(cond, func(e ir.Expr) bool {
		if l, ok := e.(*ir.BufferLoad); ok {
			reads[l.Buffer.Data] = true
		}
		return true
	})
	if len(reads) == 0 || s == nil {
		return false
	}
	hit := false
	ir.Walk(s, func(s ir.Stmt) bool {
		if st, ok := s.(*ir.BufferStore); ok && reads[st.Buffer.Data] {
			hit = true
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			call, ok := e.(*ir.Call)
			if !ok || call.Op != nil && call.Op.Effect < ir.UpdateState {
				return true
			}
			if call.Op != nil && call.Op.Effect == ir.Control {
				hit = true // a barrier: other threads may have written
			}
			for _, a := range call.Args {
				ir.WalkExpr(a, func(e ir.Expr) bool {
					switch e := e.(type) {
					case *ir.BufferLoad:
						hit = hit || reads[e.Buffer.Data]
					case *ir.Var:
						hit = hit || reads[e]
					}
					return true
				})
			}
			return true
		})
		return !hit
	})
	return hit
}
