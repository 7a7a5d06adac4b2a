package device

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// MarkCudaSyncCalls notes how a kernel takes part in programmatic dependent
// launches.
//
// Precondition: SplitHostDevice. Effect: kernels that wait for the kernel
// before them get "has_cuda_pdl_sync", those that release the next one
// "has_cuda_pdl_trigger". Invariant: bodies are not touched.
var MarkCudaSyncCalls = &pipeline.Pass{
	Name:         "MarkCudaSyncCalls",
	Stage:        stage,
	Doc:          "note kernels that take part in programmatic dependent launches",
	Precondition: "Host and device functions are apart (SplitHostDevice).",
	Effect:       "Functions that call T.pdl_sync or T.pdl_trigger get the attributes \"has_cuda_pdl_sync\" and \"has_cuda_pdl_trigger\".",
	Before:       "def k_kernel(...):\n    T.pdl_sync()",
	After:        "def k_kernel(...):\n    T.func_attr({\"has_cuda_pdl_sync\": 1})\n    T.pdl_sync()",
	Run: pipeline.FuncPass(nil, func(_ *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
		return markCalls(f, map[string]string{"pdl_sync": "has_cuda_pdl_sync", "pdl_trigger": "has_cuda_pdl_trigger"}), nil
	}),
}

// markCalls sets attributes on a function that calls certain operators.
func markCalls(f *ir.PrimFunc, attrs map[string]string) *ir.PrimFunc {
	found := map[string]bool{}
	ir.WalkExprs(f.Body, func(e ir.Expr) bool {
		if c, ok := e.(*ir.Call); ok && c.Op != nil && attrs[c.Op.Name] != "" {
			found[c.Op.Name] = true
		}
		return true
	})
	for _, op := range ir.Ops() { // in table order
		if !found[op.Name] {
			continue
		}
		if n, ok := ir.AttrInt(f.Attr(attrs[op.Name])); !ok || n != 1 {
			f = f.WithAttr(attrs[op.Name], ir.I32(1))
		}
	}
	return f
}
