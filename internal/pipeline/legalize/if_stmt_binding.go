package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// IfStmtBinding gives every statement of a branch a branch of its own, so that
// the statements can be scheduled into different stages of a pipeline.
//
// Precondition: none. Effect: an if without else whose body is a sequence
// becomes one if per statement with the same condition. An if whose condition
// reads memory that its body may write is split only behind a binding of the
// condition. Sequences that define names, or leave the loop, keep together
// what depends on it. Invariant: what is computed does not change; MergeIfStmt
// puts back together what nobody pulled apart.
//
//	if c: A; B  ->  if c: A
//	                if c: B
var IfStmtBinding = &pipeline.Pass{
	Name:         "IfStmtBinding",
	Stage:        stage,
	Doc:          "split branches so that each statement has its own condition",
	Precondition: "None.",
	Effect:       "An if without else over several statements becomes one if for each. Statements that follow a definition in the branch stay with it. A branch whose condition its own statements may change is left, with a remark.",
	Before:       "if bx == 0:\n    T.copy(A, s)\n    T.copy(s, B)",
	After:        "if bx == 0:\n    T.copy(A, s)\nif bx == 0:\n    T.copy(s, B)",
	Run:          pipeline.BodyPass(nil, splitIfs),
}

func splitIfs(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		br, ok := s.(*ir.IfThenElse)
		if !ok || br.Else != nil {
			return s
		}
		list := groups(ir.Stmts(br.Then))
		if len(list) < 2 {
			return s
		}
		if b := clobbered(br.Cond, list[:len(list)-1]); b != "" {
			c.Remark(br.Org, "branch not split: its statements may change %s, which its condition reads", b)
			return s
		}
		out := make([]ir.Stmt, len(list))
		for i, t := range list {
			out[i] = &ir.IfThenElse{Cond: br.Cond, Then: t, Org: orgOf(t, br.Org)}
		}
		return ir.Seq(out...)
	}}
	return r.Stmt(f.Body), nil
}

func orgOf(s ir.Stmt, or ir.Span) ir.Span {
	if o := s.Origin(); o.IsValid() {
		return o
	}
	return or
}

// groups cuts a list of statements where nothing is lost by it: a definition
// takes all that follows with it.
func groups(list []ir.Stmt) []ir.Stmt {
	for i, s := range list {
		switch s.(type) {
		case *ir.Bind, *ir.AllocBuffer, *ir.DeclBuffer, *ir.Assert:
			return append(append([]ir.Stmt(nil), list[:i]...), ir.Seq(list[i:]...))
		}
	}
	return list
}

// clobbered names memory that cond reads and the statements may write, "" if
// there is none.
func clobbered(cond ir.Expr, list []ir.Stmt) string {
	reads := map[*ir.Var]string{}
	ir.WalkExpr(cond, func(e ir.Expr) bool {
		if l, ok := e.(*ir.BufferLoad); ok {
			reads[l.Buffer.Data] = l.Buffer.Name
		}
		return true
	})
	if ir.SideEffect(cond) > ir.ReadState {
		return "state"
	}
	if len(reads) == 0 {
		return ""
	}
	hit := ""
	for _, s := range list {
		ir.Walk(s, func(s ir.Stmt) bool {
			if st, ok := s.(*ir.BufferStore); ok && reads[st.Buffer.Data] != "" {
				hit = reads[st.Buffer.Data]
			}
			// A call with an effect may write every buffer its arguments name.
			ir.StmtExprs(s, func(e ir.Expr) bool {
				call, ok := e.(*ir.Call)
				if !ok || call.Op != nil && call.Op.Effect < ir.UpdateState {
					return true
				}
				for _, a := range call.Args {
					ir.WalkExpr(a, func(e ir.Expr) bool {
						switch e := e.(type) {
						case *ir.BufferLoad:
							if n := reads[e.Buffer.Data]; n != "" {
								hit = n
							}
						case *ir.Var:
							if n := reads[e]; n != "" {
								hit = n
							}
						}
						return true
					})
				}
				return true
			})
			return hit == ""
		})
	}
	return hit
}
