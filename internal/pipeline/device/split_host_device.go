package device

import (
	"fmt"
	"sort"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// SplitHostDevice cuts device regions out into kernels.
//
// Precondition: AnnotateDeviceRegions. Effect: each region becomes a private
// function NAME_kernel, NAME_kernel_1, …, whose parameters are what the region
// uses but does not define: pointers first, then scalars, each by name. The
// region is replaced by a call. Buffers that the kernel sees through its
// pointers are declared at its top. Assumptions around the region hold in the
// kernel too and are repeated there. Invariant: a kernel refers to its
// parameters alone.
var SplitHostDevice = &pipeline.Pass{
	Name:         "SplitHostDevice",
	Stage:        stage,
	Doc:          "cut device regions out into kernels",
	Precondition: "Device regions are marked (AnnotateDeviceRegions) and buffers are flat.",
	Effect:       "Every region becomes a private function with the pointers and scalars it uses as parameters, in the order of their names, and a call of it takes the region's place.",
	Before:       "def k(A_handle: T.handle):\n    T.attr(T.target({...}), \"target\", 0)\n    bx = T.launch_thread(\"blockIdx.x\", 8)\n    ...",
	After:        "def k(A_handle: T.handle):\n    Module.k_kernel(A.data)\n\ndef k_kernel(A: T.handle(\"float32\", \"global\")):\n    A_1 = T.decl_buffer((1024,), data=A)\n    bx = T.launch_thread(\"blockIdx.x\", 8)\n    ...",
	Run:          splitHostDevice,
}

// kernelAttrs are the attributes of the whole function that speak of its
// kernels and go with them.
var kernelAttrs = []string{"cluster_dims", "tl.smem_alignment_map"}

func splitHostDevice(_ *pipeline.Context, m *ir.IRModule) (*ir.IRModule, error) {
	names := map[string]bool{}
	for _, f := range m.Funcs {
		names[f.Name] = true
	}
	var out, kernels []*ir.PrimFunc
	for _, f := range m.Funcs {
		var assumptions []*ir.AttrStmt
		var r ir.Rewriter
		var err error
		r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
			a, ok := s.(*ir.AttrStmt)
			if !ok {
				return s, false
			}
			if a.Key == ir.KeyAssume {
				assumptions = append(assumptions, a)
				t := r.Inside(s)
				assumptions = assumptions[:len(assumptions)-1]
				return t, true
			}
			target, ok := a.Node.(*ir.Target)
			if a.Key != ir.KeyTarget || !ok {
				return s, false
			}
			name := f.Name + "_kernel"
			for i := 1; names[name]; i++ {
				name = fmt.Sprintf("%s_kernel_%d", f.Name, i)
			}
			names[name] = true
			k, kerr := cutKernel(f, name, target, a, assumptions)
			if kerr != nil {
				err = kerr
				return s, true
			}
			kernels = append(kernels, k)
			args := make([]ir.Expr, len(k.Params))
			for i, p := range k.Params {
				args[i] = p
			}
			return &ir.Evaluate{Value: &ir.Call{Global: name, Type: ir.DInt32, Args: args}, Org: a.Org}, true
		}
		body := r.Stmt(f.Body)
		if err != nil {
			return nil, err
		}
		g := f.WithBody(body)
		if g != f && g.Attr("tl.non_restrict_params") != nil {
			g = g.WithAttr("tl.non_restrict_params", nil) // the kernels have it now
		}
		out = append(out, g)
	}
	if len(kernels) == 0 {
		return m, nil
	}
	return &ir.IRModule{Funcs: append(out, kernels...)}, nil
}

func cutKernel(f *ir.PrimFunc, name string, target *ir.Target, region *ir.AttrStmt, assumptions []*ir.AttrStmt) (*ir.PrimFunc, error) {
	body := region.Body
	free := freeUses(body)
	for i := len(assumptions) - 1; i >= 0; i-- {
		a := assumptions[i]
		ir.WalkAttr(a.Node, func(e ir.Expr) bool {
			if v, ok := e.(*ir.Var); ok {
				free.vars[v] = true
			}
			return true
		})
	}
	params := make([]*ir.Var, 0, len(free.vars))
	for v := range free.vars {
		params = append(params, v)
	}
	order := map[*ir.Var]int{}
	for i, v := range free.order {
		order[v] = i
	}
	sort.Slice(params, func(i, j int) bool {
		a, b := params[i], params[j]
		if a.Type.IsHandle() != b.Type.IsHandle() {
			return a.Type.IsHandle()
		}
		if a.Name != b.Name {
			return a.Name < b.Name
		}
		return order[a] < order[b]
	})
	for _, p := range params {
		if p.Type.IsHandle() && p.Ptr == nil {
			return nil, pipeline.Errorf(region.Org, "the kernel uses %s, a pointer to elements of unknown type", p.Name)
		}
	}
	var decls []ir.Stmt
	for _, p := range params {
		for _, b := range free.buffers {
			if b.Data == p {
				decls = append(decls, &ir.DeclBuffer{Buffer: b, Org: region.Org})
			}
		}
	}
	body = ir.Seq(append(decls, body)...)
	for i := len(assumptions) - 1; i >= 0; i-- {
		a := *assumptions[i]
		a.Body = body
		body = &a
	}
	attrs := (&ir.Dict{}).With("target", target).With("tirx.is_global_func", ir.AttrBool(true)).With("tirx.noalias", ir.AttrBool(true))
	attrs = attrs.With("tl.non_restrict_params", aliased(f, free.vars))
	for _, key := range kernelAttrs {
		if v := f.Attr(key); v != nil {
			attrs = attrs.With(key, v)
		}
	}
	return &ir.PrimFunc{Name: name, Params: params, Attrs: attrs, Private: true, Body: body, Org: region.Org}, nil
}

// aliased are the pointers among vars that may overlap with others.
func aliased(f *ir.PrimFunc, vars map[*ir.Var]bool) ir.List {
	out := ir.List{}
	l, _ := f.Attr("tl.non_restrict_params").(ir.List)
	for _, a := range l {
		if v, ok := a.(*ir.Var); ok && vars[v] {
			out = append(out, v)
		}
	}
	return out
}

// uses is what a statement uses but does not define.
type uses struct {
	vars    map[*ir.Var]bool
	order   []*ir.Var    // of vars, by first use
	buffers []*ir.Buffer // by first use, of memory from outside, not declared within
}

// freeUses collects the variables and buffers a statement takes from outside.
// A buffer counts with its pointer and the variables of its shape and strides.
func freeUses(body ir.Stmt) uses {
	u := uses{vars: map[*ir.Var]bool{}}
	defined := map[*ir.Var]bool{}
	declared := map[*ir.Buffer]bool{}
	ir.Walk(body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Bind:
			defined[s.Var] = true
		case *ir.For:
			defined[s.Var] = true
		case *ir.AttrStmt:
			switch n := s.Node.(type) {
			case *ir.IterVar:
				if s.Key == ir.KeyThreadExtent {
					defined[n.Var] = true
				}
			case *ir.CommReducer:
				for i := range n.LHS {
					defined[n.LHS[i]], defined[n.RHS[i]] = true, true
				}
			}
		case *ir.AllocBuffer:
			defined[s.Buffer.Data] = true
			declared[s.Buffer] = true
		case *ir.DeclBuffer:
			declared[s.Buffer] = true
		case *ir.SBlock:
			for _, iv := range s.IterVars {
				defined[iv.Var] = true
			}
			for _, b := range s.AllocBuffers {
				defined[b.Data] = true
				declared[b] = true
			}
		}
		return true
	})
	seen := map[*ir.Buffer]bool{}
	var visit func(ir.Expr) bool
	use := func(v *ir.Var) {
		if !defined[v] && !u.vars[v] {
			u.vars[v] = true
			u.order = append(u.order, v)
		}
	}
	buffer := func(b *ir.Buffer) {
		if seen[b] {
			return
		}
		seen[b] = true
		use(b.Data)
		for _, e := range b.Shape {
			ir.WalkExpr(e, visit)
		}
		for _, e := range b.Strides {
			ir.WalkExpr(e, visit)
		}
		ir.WalkExpr(b.ElemOffset, visit)
		if !declared[b] && !defined[b.Data] {
			u.buffers = append(u.buffers, b)
		}
	}
	visit = func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Var:
			use(e)
		case *ir.Let:
			defined[e.Var] = true
		case *ir.BufferLoad:
			buffer(e.Buffer)
		}
		return true
	}
	ir.Walk(body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.BufferStore:
			buffer(s.Buffer)
		case *ir.DeclBuffer:
			buffer(s.Buffer)
		}
		ir.StmtExprs(s, visit)
		return true
	})
	return u
}
