package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// NonRestrictParams lists, on a block and then on a function, the data
// pointers that may alias others.
const NonRestrictParams = "tl.non_restrict_params"

// HoistNonRestrictParams moves the list of parameters that may alias from the
// block that states it to the function, where code generation sees it.
//
// Precondition: none. Effect: the function has the attribute
// "tl.non_restrict_params" with every pointer any of its blocks names, in the
// order of first mention. Invariant: the body is not touched.
var HoistNonRestrictParams = &pipeline.Pass{
	Name:         "HoistNonRestrictParams",
	Stage:        stage,
	Doc:          "move the list of parameters that may alias from blocks to the function",
	Precondition: "None.",
	Effect:       "The function has the attribute \"tl.non_restrict_params\" with all pointers its blocks name.",
	Before:       "T.sblock_attr({\"tl.non_restrict_params\": [X.data]})",
	After:        "T.func_attr({\"tl.non_restrict_params\": [X.data]})",
	Run:          pipeline.FuncPass(nil, hoistNonRestrict),
}

func hoistNonRestrict(_ *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
	var list ir.List
	if l, ok := f.Attr(NonRestrictParams).(ir.List); ok {
		list = append(list, l...)
	}
	before := len(list)
	var err error
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		b, ok := s.(*ir.SBlock)
		if !ok {
			return err == nil
		}
		switch a := b.Annotations.Get(NonRestrictParams).(type) {
		case nil:
		case ir.List:
			for _, x := range a {
				v := dataPointer(x)
				if v == nil {
					err = pipeline.Errorf(b.Org, "%q lists something that is no pointer", NonRestrictParams)
					return false
				}
				if !containsAttr(list, v) {
					list = append(list, v)
				}
			}
		default:
			err = pipeline.Errorf(b.Org, "%q must be a list of pointers", NonRestrictParams)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	if len(list) == before {
		return f, nil
	}
	return f.WithAttr(NonRestrictParams, list), nil
}

func dataPointer(a ir.Attr) *ir.Var {
	switch a := a.(type) {
	case *ir.Var:
		return a
	case *ir.Buffer:
		return a.Data
	}
	return nil
}

func containsAttr(list ir.List, v *ir.Var) bool {
	for _, x := range list {
		if x == ir.Attr(v) {
			return true
		}
	}
	return false
}
