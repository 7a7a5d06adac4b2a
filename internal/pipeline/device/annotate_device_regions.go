package device

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// AnnotateDeviceRegions marks what runs on the device.
//
// Precondition: the function is bound to a target with a host. Effect: each
// outermost launch axis, with everything in its scope, is wrapped in an
// attribute "target" that names the device. Invariant: regions do not nest.
var AnnotateDeviceRegions = &pipeline.Pass{
	Name:         "AnnotateDeviceRegions",
	Stage:        stage,
	Doc:          "mark the regions that run on the device",
	Precondition: "The function has a target attribute with a host (BindTarget).",
	Effect:       "The outermost launch axis of every launch gets an attribute \"target\" around it, whose node is the device's target.",
	Before:       "bx = T.launch_thread(\"blockIdx.x\", 8)\n...",
	After:        "T.attr(T.target({...}), \"target\", 0)\nbx = T.launch_thread(\"blockIdx.x\", 8)\n...",
	Run:          pipeline.BodyPass(hasHost, annotateRegions),
}

// hasHost reports a function that holds host and device code.
func hasHost(f *ir.PrimFunc) bool {
	t, ok := f.Attr("target").(*ir.Target)
	return ok && t.Fields.Get("host") != nil
}

// deviceTarget is a function's target without its host.
func deviceTarget(f *ir.PrimFunc) *ir.Target {
	t, ok := f.Attr("target").(*ir.Target)
	if !ok {
		return nil
	}
	return &ir.Target{Fields: t.Fields.With("host", nil)}
}

// hostTarget is the host of a function's target.
func hostTarget(f *ir.PrimFunc) *ir.Target {
	if t, ok := f.Attr("target").(*ir.Target); ok {
		if d, ok := t.Fields.Get("host").(*ir.Dict); ok {
			return &ir.Target{Fields: d}
		}
	}
	return pipeline.HostAttr()
}

func annotateRegions(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	target := deviceTarget(f)
	r := ir.Rewriter{PreStmt: func(s ir.Stmt) (ir.Stmt, bool) {
		a, ok := s.(*ir.AttrStmt)
		if !ok {
			return s, false
		}
		switch a.Key {
		case ir.KeyTarget:
			return s, true
		case ir.KeyThreadExtent:
			return &ir.AttrStmt{Node: target, Key: ir.KeyTarget, Value: ir.I32(0), Body: s, Org: a.Org}, true
		}
		return s, false
	}}
	return r.Stmt(f.Body), nil
}
