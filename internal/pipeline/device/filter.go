package device

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// FilterHost and FilterDevice take a module apart.
//
// Precondition: LowerDeviceKernelLaunch. Effect: the functions of one side are
// left, unchanged. Both start from the same module: the pipeline keeps the
// host's side aside.
var (
	FilterHost = &pipeline.Pass{
		Name:         "Filter",
		Stage:        stage,
		Doc:          "keep the host functions or the device functions",
		Precondition: "Every function belongs to one side (MakePackedAPI, LowerDeviceKernelLaunch).",
		Effect:       "The first Filter leaves the host functions, which are kept aside; the second, from the same module, leaves the device functions.",
		Before:       "def k(self_handle, args, num_args, result): ...\ndef k_kernel(A): ...",
		After:        "def k_kernel(A): ...",
		Run:          filter(pipeline.IsHostFunc),
	}
	FilterDevice = &pipeline.Pass{
		Name:         "Filter",
		Stage:        stage,
		Doc:          FilterHost.Doc,
		Precondition: FilterHost.Precondition,
		Effect:       FilterHost.Effect,
		Before:       FilterHost.Before,
		After:        FilterHost.After,
		Run:          filter(pipeline.IsDeviceFunc),
	}
)

func filter(keep func(*ir.PrimFunc) bool) func(*pipeline.Context, *ir.IRModule) (*ir.IRModule, error) {
	return func(_ *pipeline.Context, m *ir.IRModule) (*ir.IRModule, error) {
		out, err := m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
			if keep(f) {
				return f, nil
			}
			if !pipeline.IsHostFunc(f) && !pipeline.IsDeviceFunc(f) {
				return nil, pipeline.Errorf(f.Org, "%s is neither host nor device code: BindTarget and SplitHostDevice must run first", f.Name)
			}
			return nil, nil
		})
		if err != nil || out == m {
			return out, err
		}
		for _, f := range out.Funcs {
			if err := callsWithin(out, f); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// callsWithin reports a call of a function that a module does not have.
func callsWithin(m *ir.IRModule, f *ir.PrimFunc) error {
	var err error
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if c, ok := e.(*ir.Call); ok && c.Global != "" && m.Func(c.Global) == nil && err == nil {
				err = pipeline.Errorf(s.Origin(), "%s still calls %s, which is on the other side: LowerDeviceKernelLaunch must run first", f.Name, c.Global)
			}
			return true
		})
		return err == nil
	})
	return err
}
