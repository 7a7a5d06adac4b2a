package memory

import (
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// LowerOpaqueBlock removes the blocks: what they allocate is allocated where
// they stood, and loops of one iteration go with them.
//
// Precondition: blocks have no axes. Effect: each block becomes its body, with
// an AllocBuffer and a DeclBuffer per allocation in front, its predicate as an
// if, and those of its attributes that later passes know ("pragma_…",
// "lexical_alloc_scope") as AttrStmts, "cluster_dims" as a function attribute.
// Unit loops without annotations become
// their body. Invariant: no SBlock is left.
var LowerOpaqueBlock = &pipeline.Pass{
	Name:         "LowerOpaqueBlock",
	Stage:        stage,
	Doc:          "replace blocks by their allocations and bodies",
	Precondition: "Blocks have no axes and no match buffers.",
	Effect:       "Blocks become their bodies; allocations become T.alloc_buffer and a T.decl_buffer view; predicates become ifs; pragmas and lexical scopes become attributes. Loops of one iteration are replaced by their body.",
	Before:       "with T.sblock(\"tilelang_root\"):\n    x = T.sblock_alloc_buffer((64,), scope=\"local\")\n    x[0] = T.float32(0.0)",
	After:        "x = T.alloc_buffer((64,), scope=\"local\")\nx_1 = T.decl_buffer((64,), data=x.data, scope=\"local\")\nx_1[0] = T.float32(0.0)",
	Run:          pipeline.FuncPass(nil, lowerBlocks),
}

type blockLowering struct {
	r     ir.Rewriter
	err   error
	alloc map[*ir.Var]bool    // memory that has its allocation
	unit  map[*ir.Var]ir.Expr // variables of loops of one iteration
	// cluster is what a block says about clusters, for the function.
	cluster ir.Attr
}

func lowerBlocks(_ *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
	l := &blockLowering{alloc: map[*ir.Var]bool{}, unit: map[*ir.Var]ir.Expr{}}
	l.r = ir.Rewriter{PreStmt: l.stmt, Var: func(v *ir.Var) ir.Expr {
		if e, ok := l.unit[v]; ok {
			return e
		}
		return v
	}}
	body := l.r.Stmt(f.Body)
	if l.err != nil {
		return nil, l.err
	}
	out := f.WithBody(body)
	if l.cluster != nil {
		out = out.WithAttr(clusterDims, l.cluster)
	}
	return out, nil
}

// clusterDims is the attribute, of a block and then of the function, with the
// blocks of a cluster along each axis.
const clusterDims = "cluster_dims"

func (l *blockLowering) stmt(s ir.Stmt) (ir.Stmt, bool) {
	if l.err != nil {
		return s, true
	}
	switch s := s.(type) {
	case *ir.SBlock:
		return l.block(s), true
	case *ir.For:
		return l.loop(s)
	case *ir.Evaluate:
		// T.evaluate(0) stands for a body that is empty.
		if _, ok := s.Value.(*ir.IntImm); ok {
			return nil, true
		}
	}
	return s, false
}

func (l *blockLowering) block(s *ir.SBlock) ir.Stmt {
	if len(s.IterVars) > 0 {
		l.err = pipeline.Errorf(s.Org, "block %q still has axes", s.Name)
		return s
	}
	if len(s.MatchBuffers) > 0 {
		l.err = pipeline.Errorf(s.Org, "block %q still matches regions to buffers", s.Name)
		return s
	}
	var out []ir.Stmt
	for _, b := range s.AllocBuffers {
		org := b.Org
		if !org.IsValid() {
			org = s.Org
		}
		if !l.alloc[b.Data] {
			l.alloc[b.Data] = true
			mem := *b
			out = append(out, &ir.AllocBuffer{Buffer: &mem, Org: org})
		}
		out = append(out, &ir.DeclBuffer{Buffer: b, Org: org})
	}
	out = append(out, l.r.Stmt(s.Init), l.r.Stmt(s.Body))
	body := ir.Seq(out...)
	if s.Predicate != nil {
		if p := l.r.Expr(s.Predicate); !ir.IsConst(p, 1) {
			body = &ir.IfThenElse{Cond: p, Then: body, Org: s.Org}
		}
	}
	if s.Annotations == nil {
		return body
	}
	if a := s.Annotations.Get(clusterDims); a != nil {
		if l.cluster != nil && !ir.StructuralEqual(a, l.cluster) {
			l.err = pipeline.Errorf(s.Org, "two launches of one function have clusters of different size")
			return s
		}
		l.cluster = a
	}
	for i := len(s.Annotations.Entries) - 1; i >= 0; i-- {
		e := s.Annotations.Entries[i]
		key, ok := e.Key.(*ir.StringImm)
		if ok && (key.Value == ir.KeyLexicalAllocScope || strings.HasPrefix(key.Value, "pragma_")) {
			body = &ir.AttrStmt{Node: ir.I32(0), Key: key.Value, Value: e.Value, Body: body, Org: s.Org}
		}
	}
	return body
}

func (l *blockLowering) loop(s *ir.For) (ir.Stmt, bool) {
	if s.Kind == ir.ThreadBinding {
		iv := &ir.IterVar{Var: s.Var, Kind: ir.ThreadIndex, Tag: s.Thread}
		extent := l.r.Expr(s.Extent)
		return &ir.AttrStmt{Node: iv, Key: ir.KeyThreadExtent, Value: extent, Body: l.r.Stmt(s.Body), Org: s.Org}, true
	}
	if !ir.IsConst(s.Extent, 1) || s.Annotations.Len() > 0 || leavesLoop(s.Body) {
		return s, false
	}
	l.unit[s.Var] = l.r.Expr(s.Min)
	return l.r.Stmt(s.Body), true
}

// leavesLoop reports a break or continue that belongs to the loop around body.
func leavesLoop(body ir.Stmt) bool {
	found := false
	ir.Walk(body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.For, *ir.While:
			return false
		case *ir.Evaluate:
			if c, ok := s.Value.(*ir.Call); ok && c.Op != nil && (c.Op.Name == "break_loop" || c.Op.Name == "continue_loop") {
				found = true
			}
		}
		return !found
	})
	return found
}
