package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// AnnotateEntryFunc marks the function that a module is called through.
//
// Precondition: none. Effect: when exactly one function of the module has a
// global symbol it gets the attribute "tirx.is_entry_func". Invariant: bodies
// are not touched.
var AnnotateEntryFunc = &pipeline.Pass{
	Name:         "AnnotateEntryFunc",
	Stage:        stage,
	Doc:          "mark the module's entry function",
	Precondition: "None.",
	Effect:       "The only public function of the module gets the attribute \"tirx.is_entry_func\". A module with several is left alone.",
	Before:       "@T.prim_func\ndef k(A_handle: T.handle):",
	After:        "@T.prim_func\ndef k(A_handle: T.handle):\n    T.func_attr({\"tirx.is_entry_func\": True})",
	Run:          annotateEntry,
}

func annotateEntry(_ *pipeline.Context, m *ir.IRModule) (*ir.IRModule, error) {
	var entry *ir.PrimFunc
	for _, f := range m.Funcs {
		if f.Private {
			continue
		}
		if entry != nil {
			return m, nil
		}
		entry = f
	}
	if entry == nil {
		return m, nil
	}
	return m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
		if n, ok := ir.AttrInt(f.Attr("tirx.is_entry_func")); f != entry || ok && n == 1 {
			return f, nil
		}
		return f.WithAttr("tirx.is_entry_func", ir.AttrBool(true)), nil
	})
}
