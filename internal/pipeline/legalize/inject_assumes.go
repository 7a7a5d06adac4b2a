package legalize

import (
	"fmt"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
)

// InjectAssumes states what the shapes of buffers imply: a symbolic dimension
// is not negative.
//
// Precondition: none. Effect: the body stands within one AttrStmt "tl.assume"
// per symbolic dimension of the parameters' buffers, and what T.assume states
// as a call covers the rest of its scope likewise. Invariant: nothing is
// assumed that a caller can violate with a valid tensor.
var InjectAssumes = &pipeline.Pass{
	Name:         "InjectAssumes",
	Stage:        stage,
	Doc:          "state that symbolic dimensions are not negative",
	Precondition: "None.",
	Effect:       "The body is wrapped in a \"tl.assume\" scope for every symbolic dimension of a parameter's buffer, naming the buffers it came from. Later passes use the conditions in their proofs.",
	Before:       "A = T.match_buffer(A_handle, (n,))\nbx = T.launch_thread(\"blockIdx.x\", (n + 255) // 256)",
	After:        "A = T.match_buffer(A_handle, (n,))\nT.attr(0 <= n, \"tl.assume\", \"Buffer shape should be greater than or equal to 0: shape `n` from buffer `A`\")\nbx = T.launch_thread(\"blockIdx.x\", (n + 255) // 256)",
	Run:          pipeline.BodyPass(nil, injectAssumes),
}

func injectAssumes(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	type dimension struct {
		expr    ir.Expr
		buffers []string
	}
	var dims []*dimension
	for _, p := range f.Params {
		b := f.BufferOf(p)
		if b == nil {
			continue
		}
		for _, e := range b.Shape {
			if _, isConst := ir.AsInt(e); isConst {
				continue
			}
			var d *dimension
			for _, x := range dims {
				if arith.Equal(x.expr, e) {
					d = x
				}
			}
			if d == nil {
				d = &dimension{expr: e}
				dims = append(dims, d)
			}
			if n := len(d.buffers); n == 0 || d.buffers[n-1] != b.Name {
				d.buffers = append(d.buffers, b.Name)
			}
		}
	}
	body := f.Body
	root, hasRoot := body.(*ir.SBlock)
	if hasRoot {
		body = root.Body
	}
	for _, d := range dims {
		msg := fmt.Sprintf("Buffer shape should be greater than or equal to 0: shape `%s` from buffer `%s`", describe(d.expr), strings.Join(d.buffers, "`, `"))
		cond := &ir.Binary{Op: ir.LE, A: ir.IntConst(d.expr.DType(), 0), B: d.expr}
		body = &ir.AttrStmt{Node: cond, Key: ir.KeyAssume, Value: ir.Str(msg), Body: body, Org: f.Org}
	}
	if hasRoot && len(dims) > 0 {
		t := *root
		t.Body = body
		return &t, nil
	}
	if hasRoot {
		return root, nil
	}
	return body, nil
}

// describe is a dimension for a message: a variable by its name, anything else
// as the variables it is computed from.
func describe(e ir.Expr) string {
	if v, ok := e.(*ir.Var); ok {
		return v.Name
	}
	var names []string
	ir.WalkExpr(e, func(e ir.Expr) bool {
		if v, ok := e.(*ir.Var); ok {
			names = append(names, v.Name)
		}
		return true
	})
	return "f(" + strings.Join(names, ", ") + ")"
}
