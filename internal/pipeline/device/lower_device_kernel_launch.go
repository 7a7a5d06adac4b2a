package device

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// LowerDeviceKernelLaunch turns calls of kernels into launches.
//
// Precondition: MakePackedAPI; dynamic shared memory is one buffer of constant
// size. Effect: a kernel learns how it is launched: its axes and their extents
// in the order of the text, and its dynamic shared memory; it becomes public.
// A call of it becomes a packed call by name, whose arguments are followed by
// the cluster's shape, the extents and the bytes of shared memory, with the
// kernel's parameters replaced by the call's arguments. Invariant: extents are
// expressions over parameters.
var LowerDeviceKernelLaunch = &pipeline.Pass{
	Name:         "LowerDeviceKernelLaunch",
	Stage:        stage,
	Doc:          "turn calls of kernels into launches",
	Precondition: "Kernels are functions of their own and shared memory has been merged.",
	Effect:       "Kernels get \"thread_extent\", \"tirx.kernel_launch_params\" and \"dyn_shared_memory_buf\"; calls become T.call_packed(\"NAME\", arguments…, extents…, shared memory).",
	Before:       "Module.k_kernel(A)",
	After:        "T.call_packed(\"k_kernel\", A, 8, 128, 1, 1, 512)",
	Run:          lowerLaunch,
}

// Entries of "tirx.kernel_launch_params" besides launch axes.
const (
	clusterX     = "tir.cluster_dim_x"
	clusterY     = "tir.cluster_dim_y"
	clusterZ     = "tir.cluster_dim_z"
	dynamicParam = "tirx.use_dyn_shared_memory"
)

type kernelLaunch struct {
	fn      *ir.PrimFunc // with the attributes of a launch
	params  []*ir.Var
	extents []ir.Expr // appended to the arguments of a call
}

func lowerLaunch(_ *pipeline.Context, m *ir.IRModule) (*ir.IRModule, error) {
	kernels := map[string]*kernelLaunch{}
	for _, f := range m.Funcs {
		if !pipeline.IsDeviceFunc(f) {
			continue
		}
		k, err := describeLaunch(f)
		if err != nil {
			return nil, err
		}
		kernels[f.Name] = k
	}
	op := ir.MustOp("call_packed")
	return m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
		if k := kernels[f.Name]; k != nil {
			return k.fn, nil
		}
		var err error
		r := ir.Rewriter{PostExpr: func(e ir.Expr) ir.Expr {
			c, ok := e.(*ir.Call)
			if !ok || c.Global == "" || kernels[c.Global] == nil || err != nil {
				return e
			}
			k := kernels[c.Global]
			if len(c.Args) != len(k.params) {
				err = pipeline.Errorf(f.Org, "%s takes %d arguments, the call has %d", c.Global, len(k.params), len(c.Args))
				return e
			}
			given := map[*ir.Var]ir.Expr{}
			for i, p := range k.params {
				given[p] = c.Args[i]
			}
			args := append([]ir.Expr{ir.Str(c.Global)}, c.Args...)
			for _, x := range k.extents {
				args = append(args, ir.Substitute(x, ir.SubstMap(given)))
			}
			return &ir.Call{Op: op, Type: ir.DInt32, Args: args}
		}}
		body := r.Stmt(f.Body)
		if err != nil {
			return nil, err
		}
		g := f.WithBody(body)
		if f.Attr("thread_extent") == nil {
			g = g.WithAttr("thread_extent", &ir.Dict{})
		}
		return g, nil
	})
}

func describeLaunch(f *ir.PrimFunc) (*kernelLaunch, error) {
	k := &kernelLaunch{params: f.Params}
	extents, names := &ir.Dict{}, ir.List{}
	if l, ok := f.Attr("cluster_dims").(ir.List); ok && len(l) == 3 {
		for i, n := range []string{clusterX, clusterY, clusterZ} {
			v, ok := l[i].(ir.Expr)
			if !ok {
				return nil, pipeline.Errorf(f.Org, "cluster_dims of %s must be three integers", f.Name)
			}
			names = append(names, ir.Str(n))
			k.extents = append(k.extents, v)
		}
	}
	isParam := map[*ir.Var]bool{}
	for _, p := range f.Params {
		isParam[p] = true
	}
	bytes, dynamic := int64(0), false
	var err error
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.AttrStmt:
			iv, ok := s.Node.(*ir.IterVar)
			if !ok || s.Key != ir.KeyThreadExtent || extents.Get(iv.Tag) != nil {
				break
			}
			x, ok := s.Value.(ir.Expr)
			if !ok || ir.UsesVar(x, func(v *ir.Var) bool { return !isParam[v] }) || ir.SideEffect(x) > ir.Pure {
				err = pipeline.Errorf(s.Org, "the extent of %s must depend on the kernel's parameters alone", iv.Tag)
				return false
			}
			extents = extents.With(iv.Tag, x)
			names = append(names, ir.Str(iv.Tag))
			k.extents = append(k.extents, x)
		case *ir.AllocBuffer:
			if s.Buffer.Scope() != "shared.dyn" {
				break
			}
			if dynamic {
				err = pipeline.Errorf(s.Org, "a second dynamic shared buffer, %s: MergeSharedMemoryAllocations must run first", s.Buffer.Name)
				return false
			}
			dynamic = true
			bytes = int64(s.Buffer.Type.Bytes())
			for _, d := range s.Buffer.Shape {
				n, ok := ir.AsInt(d)
				if !ok || n < 0 || n > 1<<31 || bytes*n > 1<<31 {
					err = pipeline.Errorf(s.Org, "the size of the shared buffer %s must be a constant", s.Buffer.Name)
					return false
				}
				bytes *= n
			}
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	attrs := (&ir.Dict{}).With("calling_conv", ir.I32(pipeline.CallingConvDeviceKernelLaunch))
	if dynamic {
		attrs = attrs.With("dyn_shared_memory_buf", ir.I32(bytes))
		names = append(names, ir.Str(dynamicParam))
		k.extents = append(k.extents, ir.I32(bytes))
	}
	attrs = attrs.With("thread_extent", extents).With("tirx.is_global_func", ir.BoolConst(true)).With("tirx.kernel_launch_params", names)
	g := *f
	for _, e := range attrs.Entries {
		key, _ := ir.AttrString(e.Key)
		g.Attrs = g.Attrs.With(key, e.Value)
	}
	g.Private = false
	k.fn = &g
	return k, nil
}
