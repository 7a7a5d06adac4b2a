package loop

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// UnrollMaxStatements bounds what UnrollLoop writes out for one loop: beyond it
// the loop keeps its pragma and is left to the device compiler.
const UnrollMaxStatements = 1 << 14

// UnrollLoop writes out the loops that ask for it explicitly, and drops loops
// of no iterations.
//
// Precondition: none. Effect: a loop T.unroll with "pragma_unroll_explicit" and
// a constant extent becomes a copy of its body per iteration, each with
// variables and buffers of its own. Other T.unroll loops stay as they are: the
// code generator gives them a pragma. Invariant: iterations run in order.
var UnrollLoop = &pipeline.Pass{
	Name:         "UnrollLoop",
	Stage:        stage,
	Doc:          "write out loops that ask for explicit unrolling",
	Precondition: "None.",
	Effect:       "T.unroll loops with the annotation \"pragma_unroll_explicit\" become one copy of their body per iteration. A loop of unknown or too large extent stays, with a remark.",
	Before:       "for i in T.unroll(2, annotations={\"pragma_unroll_explicit\": True}):\n    A[i] = B[i]",
	After:        "A[0] = B[0]\nA[1] = B[1]",
	Run:          pipeline.BodyPass(nil, unrollLoops),
}

func unrollLoops(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
		loop, ok := s.(*ir.For)
		if !ok || loop.Kind != ir.Unrolled {
			return s
		}
		if v, ok := ir.AttrInt(loop.Annotations.Get("pragma_unroll_explicit")); !ok || v == 0 {
			return s
		}
		return unroll(c, loop)
	}}
	return r.Stmt(f.Body), nil
}

func unroll(c *pipeline.Context, loop *ir.For) ir.Stmt {
	n, ok := ir.AsInt(loop.Extent)
	if !ok {
		c.Remark(loop.Org, "not unrolled: the number of iterations of %s is not constant", loop.Var.Name)
		return loop
	}
	if leavesLoop(loop.Body) {
		c.Remark(loop.Org, "not unrolled: the loop over %s has a break or continue", loop.Var.Name)
		return loop
	}
	size := int64(0)
	ir.Walk(loop.Body, func(ir.Stmt) bool { size++; return true })
	if n > 0 && size > UnrollMaxStatements/n {
		c.Remark(loop.Org, "not unrolled: %d iterations of %d statements are more than %d", n, size, UnrollMaxStatements)
		return loop
	}
	step := int64(1)
	if loop.Step != nil {
		if step, ok = ir.AsInt(loop.Step); !ok || step <= 0 {
			c.Remark(loop.Org, "not unrolled: the step of %s is not a positive constant", loop.Var.Name)
			return loop
		}
	}
	var out []ir.Stmt
	for i := int64(0); i < n; i += step {
		at := ir.NewBinary(ir.Add, loop.Min, ir.IntConst(loop.Var.Type, i))
		out = append(out, freshWith(loop.Body, map[*ir.Var]ir.Expr{loop.Var: at}))
	}
	return ir.Seq(out...)
}

// leavesLoop reports a break or continue that belongs to the loop around body.
func leavesLoop(body ir.Stmt) bool {
	found := false
	ir.Walk(body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.For, *ir.While:
			return false
		case *ir.Evaluate:
			if c, ok := s.Value.(*ir.Call); ok && c.Op != nil && (c.Op.Name == "break_loop" || c.Op.Name == "continue_loop") {
				found = true
			}
		}
		return !found
	})
	return found
}
