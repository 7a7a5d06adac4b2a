package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// BindTarget attaches the target that is compiled for to every function.
//
// Precondition: none. Effect: each function has the attribute "target", with
// its host; a function of the host keeps its own target. Invariant: bodies
// are not touched.
//
//	def k(...):  ->  T.func_attr({"target": T.target({"arch": "sm_80", ...})})
var BindTarget = &pipeline.Pass{
	Name:         "BindTarget",
	Stage:        stage,
	Doc:          "attach the compilation target to every function",
	Precondition: "None.",
	Effect:       "Every function has the attribute \"target\" with the host it is launched from. A device target that the text names is replaced, with a remark, when it is not the one compiled for.",
	Before:       "@T.prim_func\ndef k(A_handle: T.handle):\n    ...",
	After:        "@T.prim_func\ndef k(A_handle: T.handle):\n    T.func_attr({\"target\": T.target({\"arch\": \"sm_80\", ...})})\n    ...",
	Run:          pipeline.FuncPass(nil, bindTarget),
}

func bindTarget(c *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
	if c.Target == nil {
		return nil, pipeline.Errorf(f.Org, "no target to compile %s for", f.Name)
	}
	if pipeline.IsHostFunc(f) {
		return f, nil
	}
	want := c.Target.Attr(true)
	if old, ok := f.Attr("target").(*ir.Target); ok {
		if ir.StructuralEqual(old, want) {
			return f, nil
		}
		if arch := pipeline.FuncArch(f); arch != "" && arch != c.Target.Arch {
			c.Remark(f.Org, "target %s of the text replaced by %s", arch, c.Target.Arch)
		}
	}
	return f.WithAttr("target", want), nil
}
