package loop

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// Options of LoopUnswitching.
var (
	DisableLoopUnswitching = pipeline.RegisterOption(pipeline.Option{
		Key: "tl.disable_loop_unswitching", Default: false,
		Doc: "leave branches that do not depend on their loop inside it",
	})
	UnswitchNonTrivialElse = pipeline.RegisterOption(pipeline.Option{
		Key: "tl.loop_unswitching_allow_non_trivial_else", Default: false,
		Doc: "unswitch also where both versions of the loop have something to do",
	})
)

// maxUnswitched bounds the statements of a loop that is duplicated.
const maxUnswitched = 256

// LoopUnswitching moves a branch whose condition does not depend on the loop
// around it out of the loop.
//
// Precondition: none. Effect: for i: if c: A becomes if c: for i: A, with a
// version of the loop for the other case where that has anything to do. Without
// the option "tl.loop_unswitching_allow_non_trivial_else" only loops are
// unswitched of which one version does nothing. Invariant: the condition is
// evaluated once and has no effect; what is computed does not change.
var LoopUnswitching = &pipeline.Pass{
	Name:         "LoopUnswitching",
	Stage:        stage,
	Doc:          "move branches that do not depend on a loop out of it",
	Precondition: "None.",
	Effect:       "A branch on a condition that no iteration changes is taken once, around the loop.",
	Before:       "for i in range(8):\n    if tx < 35:\n        A[i] = B[i]",
	After:        "if tx < 35:\n    for i in range(8):\n        A[i] = B[i]",
	Options:      []string{DisableLoopUnswitching, UnswitchNonTrivialElse},
	Run:          pipeline.BodyPass(nil, unswitchLoops),
}

func unswitchLoops(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	if c.Bool(DisableLoopUnswitching) {
		return f.Body, nil
	}
	general := c.Bool(UnswitchNonTrivialElse)
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		loop, ok := s.(*ir.For)
		if !ok || loop.Kind == ir.ThreadBinding {
			return s
		}
		return unswitch(loop, general)
	}}
	return r.Stmt(f.Body), nil
}

func unswitch(loop *ir.For, general bool) ir.Stmt {
	branch := invariantBranch(loop)
	if branch == nil {
		return loop
	}
	with := func(s ir.Stmt) ir.Stmt {
		r := ir.Rewriter{PreStmt: func(t ir.Stmt) (ir.Stmt, bool) {
			if t == ir.Stmt(branch) {
				return s, true
			}
			_, nested := t.(*ir.For)
			return t, nested
		}}
		body := r.Stmt(loop.Body)
		if doesNothing(body) {
			return nil
		}
		t := *loop
		t.Body = body
		return &t
	}
	then, other := with(branch.Then), with(branch.Else)
	if then != nil && other != nil {
		if !general || size(loop) > maxUnswitched {
			return loop
		}
		other = fresh(other)
	}
	switch {
	case then == nil && other == nil:
		return loop
	case then == nil:
		return &ir.IfThenElse{Cond: negate(branch.Cond), Then: other, Org: branch.Org}
	}
	return &ir.IfThenElse{Cond: branch.Cond, Then: then, Else: other, Org: branch.Org}
}

// invariantBranch is the first branch directly in a loop's body whose condition
// is pure and mentions nothing the loop defines.
func invariantBranch(loop *ir.For) *ir.IfThenElse {
	inside := map[*ir.Var]bool{loop.Var: true}
	for _, s := range ir.Stmts(loop.Body) {
		switch s := s.(type) {
		case *ir.Bind:
			inside[s.Var] = true
		case *ir.IfThenElse:
			if ir.SideEffect(s.Cond) == ir.Pure && !ir.UsesVar(s.Cond, func(v *ir.Var) bool { return inside[v] }) {
				return s
			}
		}
	}
	return nil
}

// doesNothing reports statements that only define names or evaluate what has
// no effect.
func doesNothing(s ir.Stmt) bool {
	for _, c := range ir.Stmts(s) {
		switch c := c.(type) {
		case *ir.DeclBuffer, *ir.AllocBuffer:
		case *ir.Bind:
			if ir.SideEffect(c.Value) > ir.ReadState {
				return false
			}
		case *ir.Evaluate:
			if ir.SideEffect(c.Value) > ir.ReadState {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func size(s ir.Stmt) int {
	n := 0
	ir.Walk(s, func(ir.Stmt) bool { n++; return true })
	return n
}
