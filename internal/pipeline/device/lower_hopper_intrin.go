package device

import (
	"strconv"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
)

// LowerHopperIntrin moves tensor maps to the host.
//
// Precondition: launch axes are in place; host and device code are still one
// function. Effect: equal T.create_tma_descriptor calls become one variable
// BUFFER_desc, made on the host by a packed call before the launch and
// prefetched by one thread of each block; "tma_descriptor_args" lists them.
// The attribute is set on every function of a CUDA target, empty where there
// is no tensor map. L2 access policy windows ("l2_persistent_map") are set
// around the launches. Invariant: no T.create_tma_descriptor is left.
var LowerHopperIntrin = &pipeline.Pass{
	Name:         "LowerHopperIntrin",
	Stage:        stage,
	Doc:          "make tensor maps on the host, once each",
	Precondition: "Host and device code are one function; the launch axes are in place.",
	Effect:       "Equal T.create_tma_descriptor calls become one tensor map, made on the host before the launch and prefetched in the kernel. \"tma_descriptor_args\" lists them, empty where there are none. L2 access policy windows are set around the launches.",
	Before:       "T.tma_load(T.create_tma_descriptor(6, 2, A.data, ...), bar[0], ...)",
	After:        "A_desc = T.tvm_stack_alloca(\"tvm_ffi_any\", 16)\nT.call_packed(\"__tvm_tensormap_create_tiled\", A_desc, 6, 2, A, ...)\n...\nT.tma_load(A_desc, bar[0], ...)",
	Run:          pipeline.FuncPass(hasHost, lowerHopper),
}

// tensorMapAnys is the size of a tensor map in packed values of 8 bytes.
const tensorMapAnys = 16

var tensorMapMakers = map[string]string{
	"create_tma_descriptor":        "__tvm_tensormap_create_tiled",
	"create_tma_im2col_descriptor": "__tvm_tensormap_create_im2col",
}

func lowerHopper(_ *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
	type tensorMap struct {
		call *ir.Call
		v    *ir.Var
	}
	var all []tensorMap
	args := &ir.Dict{}
	taken := map[string]int{}
	var r ir.Rewriter
	find := func(c *ir.Call) *ir.Var {
		for _, t := range all {
			if arith.Equal(t.call, c) {
				return t.v
			}
		}
		name := "tensor_map"
		if len(c.Args) > 2 {
			if p, ok := c.Args[2].(*ir.Var); ok {
				name = p.Name + "_desc"
			}
		}
		n := taken[name]
		taken[name]++
		if n > 0 {
			name += "_" + strconv.Itoa(n)
		}
		v := ir.NewPointer(name, ir.DUInt8.WithLanes(128), "grid_constant")
		all = append(all, tensorMap{c, v})
		list := ir.List{ir.Str(tensorMapMakers[c.Op.Name]), v}
		for _, a := range c.Args {
			list = append(list, a)
		}
		args = &ir.Dict{Entries: append(args.Entries, ir.DictEntry{Key: v, Value: list})}
		return v
	}
	r.PostExpr = func(e ir.Expr) ir.Expr {
		if c, ok := e.(*ir.Call); ok && c.Op != nil && tensorMapMakers[c.Op.Name] != "" {
			return find(c)
		}
		return e
	}
	// Each launch makes and prefetches the maps it uses.
	var outer ir.Rewriter
	outer.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		a, ok := s.(*ir.AttrStmt)
		if !ok || a.Key != ir.KeyThreadExtent {
			return s, false
		}
		first := len(all)
		t := r.Stmt(s)
		fresh := all[first:]
		if len(fresh) == 0 {
			return t, true
		}
		var prefetch []ir.Stmt
		for _, m := range fresh {
			prefetch = append(prefetch, &ir.Evaluate{Value: ir.NewCall(ir.MustOp("prefetch_tma_descriptor"), m.v), Org: a.Org})
		}
		guard := &ir.IfThenElse{Cond: ir.NewCall(ir.MustOp("tl_shuffle_elect"), ir.I32(0)), Then: ir.Seq(prefetch...), Org: a.Org}
		t = afterAxis(t, "threadIdx.x", guard)
		var make []ir.Stmt
		for _, m := range fresh {
			make = append(make,
				&ir.Bind{Var: m.v, Value: ir.NewCall(ir.MustOp("tvm_stack_alloca"), ir.Str("tvm_ffi_any"), ir.I32(tensorMapAnys)), Org: a.Org},
				&ir.Evaluate{Value: &ir.Call{Op: ir.MustOp("call_packed"), Type: ir.DInt32,
					Args: append([]ir.Expr{ir.Str(tensorMapMakers[m.call.Op.Name]), m.v}, m.call.Args...)}, Org: a.Org})
		}
		return ir.Seq(append(make, t)...), true
	}
	body := outer.Stmt(f.Body)
	if len(all) == 0 && f.Attr("tma_descriptor_args") != nil {
		return f, nil
	}
	body, err := accessWindows(f, body)
	if err != nil {
		return nil, err
	}
	return f.WithBody(body).WithAttr("tma_descriptor_args", args), nil
}

// accessWindows sets the L2 access policy windows that "l2_persistent_map"
// asks for (buffer name → hit ratio, bytes) around the launches, and takes them
// off again.
func accessWindows(f *ir.PrimFunc, body ir.Stmt) (ir.Stmt, error) {
	windows, ok := f.Attr("l2_persistent_map").(*ir.Dict)
	if !ok || windows.Len() == 0 {
		return body, nil
	}
	packed := func(org ir.Span, args ...ir.Expr) ir.Stmt {
		return &ir.Evaluate{Value: &ir.Call{Op: ir.MustOp("call_packed"), Type: ir.DInt32, Args: args}, Org: org}
	}
	var err error
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		a, ok := s.(*ir.AttrStmt)
		if !ok || a.Key != ir.KeyThreadExtent {
			return s, false
		}
		var before []ir.Stmt
		for _, e := range windows.Entries {
			name, _ := ir.AttrString(e.Key)
			l, ok := e.Value.(ir.List)
			var data *ir.Var
			for _, b := range f.BufferMap {
				if b.Buffer.Name == name {
					data = b.Buffer.Data
				}
			}
			if !ok || len(l) != 2 || data == nil {
				err = pipeline.Errorf(a.Org, "l2_persistent_map has no buffer parameter %q with a hit ratio and a size", name)
				return s, true
			}
			ratio, ok := l[0].(ir.Expr)
			bytes, ok2 := l[1].(ir.Expr)
			if !ok || !ok2 {
				err = pipeline.Errorf(a.Org, "the access window of %s needs a hit ratio and a size", name)
				return s, true
			}
			before = append(before, packed(a.Org, ir.Str("__tvm_cuda_stream_set_access_policy_window"), data, bytes, ratio))
		}
		after := packed(a.Org, ir.Str("__tvm_cuda_stream_reset_access_policy_window"))
		return ir.Seq(append(before, s, after)...), true
	}
	body = r.Stmt(body)
	return body, err
}

// afterAxis puts a statement at the beginning of a launch axis's scope.
func afterAxis(s ir.Stmt, tag string, put ir.Stmt) ir.Stmt {
	r := ir.Rewriter{}
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		a, ok := s.(*ir.AttrStmt)
		if !ok || a.Key != ir.KeyThreadExtent {
			return s, false
		}
		iv, ok := a.Node.(*ir.IterVar)
		if !ok || iv.Tag != tag {
			return s, false
		}
		t := *a
		t.Body = ir.Seq(put, a.Body)
		return &t, true
	}
	return r.Stmt(s)
}
