package legalize

import (
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// VerifyMemory checks that device memory is touched by device code alone: no
// load, store or address of memory stands outside the launch axes.
//
// Precondition: launches are materialized. Effect: none; an access outside a
// launch is an error with its position.
var VerifyMemory = &pipeline.Pass{
	Name:         "VerifyMemory",
	Stage:        stage,
	Doc:          "check that device memory is only accessed within a launch",
	Precondition: "Launches are AttrStmts; the function is compiled for a device.",
	Effect:       "None. A load or store outside every launch axis is an error.",
	Before:       "A[0] = T.float32(0.0)\nbx = T.launch_thread(\"blockIdx.x\", 8)",
	After:        "error: A is accessed by the host: the store stands outside every launch",
	Run:          pipeline.BodyPass(isDeviceCode, verifyMemory),
}

// isDeviceCode reports functions that are compiled for a device, alone or with
// their host.
func isDeviceCode(f *ir.PrimFunc) bool { return f.Attr("target") != nil && !pipeline.IsHostFunc(f) }

func verifyMemory(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	if pipeline.IsDeviceFunc(f) {
		return f.Body, nil
	}
	var err error
	var visit func(s ir.Stmt)
	visit = func(s ir.Stmt) {
		if err != nil {
			return
		}
		if st, ok := s.(*ir.BufferStore); ok {
			err = pipeline.Errorf(st.Org, "%s is accessed by the host: the store stands outside every launch", st.Buffer.Name)
			return
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if l, ok := e.(*ir.BufferLoad); ok && err == nil {
				err = pipeline.Errorf(s.Origin(), "%s is accessed by the host: the load stands outside every launch", l.Buffer.Name)
			}
			return err == nil
		})
		if a, ok := s.(*ir.AttrStmt); ok {
			if iv, ok := a.Node.(*ir.IterVar); ok && a.Key == ir.KeyThreadExtent && isLaunchAxis(iv.Tag) {
				return // what follows is device code; the extent is not
			}
		}
		ir.Children(s, visit)
	}
	if f.Body != nil {
		visit(f.Body)
	}
	if err != nil {
		return nil, err
	}
	return f.Body, nil
}

func isLaunchAxis(tag string) bool {
	return strings.HasPrefix(tag, "blockIdx.") || strings.HasPrefix(tag, "threadIdx.")
}
