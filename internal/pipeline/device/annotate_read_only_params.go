package device

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// ReadOnlyParams is the function attribute that lists the numbers of the
// pointer parameters nothing is written through.
const ReadOnlyParams = "tl.readonly_param_indices"

// AnnotateReadOnlyParams finds the pointers a function only reads through.
//
// Precondition: SplitHostDevice. Effect: "tl.readonly_param_indices" lists the
// pointer parameters that no statement of the function writes through; the
// code generator makes them const, which lets the hardware cache them apart.
// Invariant: bodies are not touched; a pointer that escapes to an unknown
// function counts as written.
var AnnotateReadOnlyParams = &pipeline.Pass{
	Name:         "AnnotateReadOnlyParams",
	Stage:        stage,
	Doc:          "list the pointer parameters that are only read",
	Precondition: "Host and device functions are apart (SplitHostDevice).",
	Effect:       "The attribute \"tl.readonly_param_indices\" lists the numbers of pointer parameters through which nothing is written.",
	Before:       "def k_kernel(X: T.handle(\"float32\", \"global\"), Y: T.handle(\"float32\", \"global\")):\n    Y_1[tx] = X_1[tx]",
	After:        "def k_kernel(...):\n    T.func_attr({\"tl.readonly_param_indices\": [0]})\n    Y_1[tx] = X_1[tx]",
	Run: pipeline.FuncPass(nil, func(_ *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
		written := writtenThrough(f.Body)
		list := ir.List{}
		for i, p := range f.Params {
			if p.Type.IsHandle() && !written[p] {
				list = append(list, ir.I32(int64(i)))
			}
		}
		return f.WithAttr(ReadOnlyParams, list), nil
	}),
}

// readingArgs are the arguments, by operator, that point to what is only read.
var readingArgs = map[string][]int{
	"ptx_cp_async": {1}, "ptx_ldmatrix": {2}, "tma_load": {0}, "tma_load_im2col": {0}, "tma_store": {0, 1},
	"prefetch_tma_descriptor": {0}, "atomic_addx2_elem_op": {1}, "atomic_addx4_elem_op": {1}, "atomic_load_elem_op": {0},
	"initialize_wgmma_descriptor": {1}, "ptx_stmatrix": {3, 4, 5, 6}, "ptx_mma": {6, 8}, "isnullptr": {0},
	// The data behind these is global memory that other kernels see.
	"ptx_wgmma_ss": {7, 9},
}

// accessWrite is the bit of an access mask that says "written".
const accessWrite = 2

// writtenThrough are the pointers that a statement writes through, or lets an
// unknown function write through. Calls of kernels do not count: the kernels
// are functions of their own.
func writtenThrough(body ir.Stmt) map[*ir.Var]bool {
	w := map[*ir.Var]bool{}
	var visit func(e ir.Expr) bool
	visit = func(e ir.Expr) bool {
		c, ok := e.(*ir.Call)
		if !ok || c.Op == nil {
			return !ok // arguments of a kernel call are not followed
		}
		reading := map[int]bool{}
		for _, i := range readingArgs[c.Op.Name] {
			reading[i] = true
		}
		for i, a := range c.Args {
			v, how := pointerArg(a)
			switch {
			case v == nil:
				ir.WalkExpr(a, visit)
			case how >= 0: // an access mask
				if how&accessWrite != 0 {
					w[v] = true
				}
			case !reading[i] && c.Op.Name != "call_packed":
				w[v] = true
			}
		}
		return false
	}
	ir.Walk(body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.BufferStore:
			w[s.Buffer.Data] = true
		case *ir.AttrStmt:
			// Its node names a pointer but does not use it.
			ir.WalkAttr(s.Value, visit)
			return true
		case *ir.Bind:
			if s.Var.Type.IsHandle() {
				return true
			}
		}
		ir.StmtExprs(s, visit)
		return true
	})
	return w
}

// pointerArg is the pointer an argument passes on, nil if it passes none, and
// the access mask it states, -1 if it states none.
func pointerArg(a ir.Expr) (v *ir.Var, mask int) {
	switch a := a.(type) {
	case *ir.Var:
		if a.Type.IsHandle() {
			return a, -1
		}
	case *ir.Call:
		if a.Op == nil {
			return nil, -1
		}
		switch a.Op.Name {
		case "address_of":
			if l, ok := a.Args[0].(*ir.BufferLoad); ok {
				return l.Buffer.Data, -1
			}
		case "access_ptr":
			if l, ok := a.Args[0].(*ir.BufferLoad); ok {
				m, _ := ir.AsInt(a.Args[2])
				return l.Buffer.Data, int(m)
			}
		case "tvm_access_ptr":
			if v, ok := a.Args[1].(*ir.Var); ok {
				m, _ := ir.AsInt(a.Args[4])
				return v, int(m)
			}
		}
	}
	return nil, -1
}
