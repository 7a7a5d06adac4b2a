package memory

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// HoistGlobalBufferAllocations moves allocations of global memory out of the
// launches to the outermost block, for a kernel cannot allocate what all its
// blocks share: the host does, before it launches.
//
// Precondition: buffers are allocated by blocks. Effect: a block within a
// launch allocates no global buffer; the function's outermost block does, in
// the order of the text. Invariant: uses are not touched.
var HoistGlobalBufferAllocations = &pipeline.Pass{
	Name:         "HoistGlobalBufferAllocations",
	Stage:        stage,
	Doc:          "allocate global workspaces outside the launches",
	Precondition: "Buffers are allocated by blocks.",
	Effect:       "Global buffers that a block within a launch allocates are allocated by the function's outermost block, once for the whole grid.",
	Before:       "bx = T.launch_thread(\"blockIdx.x\", 4)\nwith T.sblock(\"tilelang_root\"):\n    w = T.sblock_alloc_buffer((1024,))",
	After:        "with T.sblock(\"root\"):\n    w = T.sblock_alloc_buffer((1024,))\n    bx = T.launch_thread(\"blockIdx.x\", 4)\n    with T.sblock(\"tilelang_root\"):\n        ...",
	Run:          pipeline.BodyPass(nil, hoistGlobals),
}

func hoistGlobals(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	var hoisted []*ir.Buffer
	launched := 0
	defined := map[*ir.Var]bool{} // within a launch
	var err error
	var r ir.Rewriter
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.For:
			if launched > 0 {
				defined[s.Var] = true
			}
		case *ir.Bind:
			if launched > 0 {
				defined[s.Var] = true
			}
		case *ir.AttrStmt:
			iv, ok := s.Node.(*ir.IterVar)
			if !ok || s.Key != ir.KeyThreadExtent {
				break
			}
			defined[iv.Var] = true
			launched++
			out := r.Inside(s)
			launched--
			return out, true
		case *ir.SBlock:
			if launched == 0 {
				break
			}
			var stay []*ir.Buffer
			for _, b := range s.AllocBuffers {
				if b.Scope() != "global" {
					stay = append(stay, b)
					continue
				}
				for _, e := range b.Shape {
					if ir.UsesVar(e, func(v *ir.Var) bool { return defined[v] }) && err == nil {
						err = pipeline.Errorf(b.Org, "global buffer %s is allocated before the launch, but its shape depends on a variable of the launch", b.Name)
					}
				}
				hoisted = append(hoisted, b)
			}
			t := r.Inside(s).(*ir.SBlock)
			if len(stay) == len(s.AllocBuffers) {
				return t, true
			}
			c := *t
			c.AllocBuffers = stay
			return &c, true
		}
		return s, false
	}
	body := r.Stmt(f.Body)
	if err != nil || len(hoisted) == 0 {
		return body, err
	}
	if root, ok := body.(*ir.SBlock); ok && len(root.IterVars) == 0 {
		c := *root
		c.AllocBuffers = append(append([]*ir.Buffer(nil), root.AllocBuffers...), hoisted...)
		return &c, nil
	}
	return &ir.SBlock{Name: "root", AllocBuffers: hoisted, Body: body, Org: f.Org}, nil
}
