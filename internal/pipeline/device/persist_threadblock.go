package device

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// PersistThreadblock notes kernels whose blocks wait for each other.
//
// Precondition: SplitHostDevice. Effect: kernels with a barrier across the
// grid get "use_cooperative_groups": all their blocks must be resident at
// once. Invariant: bodies are not touched.
var PersistThreadblock = &pipeline.Pass{
	Name:         "PersistThreadblock",
	Stage:        stage,
	Doc:          "ask for a cooperative launch where blocks wait for each other",
	Precondition: "Host and device functions are apart (SplitHostDevice).",
	Effect:       "Functions that call T.sync_grid get the attribute \"use_cooperative_groups\".",
	Before:       "def k_kernel(...):\n    T.sync_grid()",
	After:        "def k_kernel(...):\n    T.func_attr({\"use_cooperative_groups\": 1})\n    T.sync_grid()",
	Run: pipeline.FuncPass(nil, func(_ *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
		return markCalls(f, map[string]string{"sync_grid": "use_cooperative_groups"}), nil
	}),
}
