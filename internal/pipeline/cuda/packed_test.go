package cuda

import (
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
	devpass "lowertrace/internal/pipeline/device"
	"lowertrace/internal/pipeline/expr"
)

// TestPackedAPI compares packed functions with the reference's, both
// simplified. The reference first writes conditions for parameters that may be
// null, which its Simplify folds away, since none may; it takes a stride that
// is not given for 1, ours for the compact one.
func TestPackedAPI(t *testing.T) {
	const (
		alias  = "a printed name with a number, or that of a view, stands in the messages"
		boolT  = "the reference types the pointer of a bool tensor as int8"
		symbol = "the reference repeats how a symbolic size is read, ours names it"
	)
	different := map[string]string{
		"conv2d_nhwc": alias, "cumsum": alias, "row_argmax": alias, "row_max": alias,
		"bool_mask_select": boolT, "cast_zoo": boolT,
		"dynamic_shape_add": symbol, "dynamic_shape_gemm": symbol, "dynamic_strided_add": symbol,
	}
	equal := 0
	for _, k := range corpus.Kernels() {
		if !k.Has("sm_80") {
			continue
		}
		states := corpus.States(k.Name, "sm_80")
		for i, s := range states {
			if s.Pass != "MakePackedAPI" {
				continue
			}
			before, err := script.ParseString(states[i-1].Path, corpus.Text(states[i-1].Path))
			if err != nil {
				t.Fatal(err)
			}
			want, err := script.ParseString(s.Path, corpus.Text(s.Path))
			if err != nil {
				t.Fatal(err)
			}
			c := &pipeline.Context{Options: pipeline.Options{}}
			got, err := c.Run(devpass.MakePackedAPI, before)
			if err != nil {
				t.Errorf("%s: %v", k.Name, err)
				continue
			}
			hosts := func(m *ir.IRModule) *ir.IRModule {
				out := &ir.IRModule{}
				for _, f := range m.Funcs {
					if pipeline.IsHostFunc(f) {
						out.Funcs = append(out.Funcs, f.WithBody(withoutStrideDefaults(f.Body)))
					}
				}
				out, err := c.Run(expr.Simplify, out)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			switch d := ir.Difference(hosts(got), hosts(want), ir.EqualOptions{}); {
			case d == "" && different[k.Name] != "":
				t.Errorf("%s: equal now, but listed as different (%s)", k.Name, different[k.Name])
			case d == "":
				equal++
			case different[k.Name] == "":
				t.Errorf("%s: %s", k.Name, d)
			}
		}
	}
	t.Logf("%d packed functions are the reference's", equal)
}

// withoutStrideDefaults drops the value of a stride whose pointer is null, and
// the checks that the value made of known strides.
func withoutStrideDefaults(s ir.Stmt) ir.Stmt {
	one := func(e ir.Expr) ir.Expr {
		c, ok := ir.IsCall(e, "if_then_else")
		if !ok {
			return e
		}
		if _, null := ir.IsCall(c.Args[0], "isnullptr"); !null {
			return e
		}
		return &ir.Call{Op: c.Op, Type: c.Type, Args: []ir.Expr{c.Args[0], ir.IntConst(c.Type, 1), c.Args[2]}}
	}
	r := ir.Rewriter{PostExpr: one}
	return r.Stmt(s)
}
