package expr

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
)

// DecoupleTypeCast separates memory accesses from conversions in vectorized
// loops, so that each can have its own vector width: a loop that converts
// float16 to float32 moves 8 elements per access on one side and 4 on the
// other, and would have to settle for 4 on both.
//
// Precondition: buffers are not flat; the body of the loop is one store.
// Effect: when the loop converts between types, what it reads from or writes to
// global or shared memory goes through a register buffer of the loop's length:
// a copy in, the computation on registers, a copy out, in a block of its own. A
// choice between a load and another value is copied as it is, with its
// condition; where conditions stand elsewhere the loop stays, with a remark.
// Invariant: every element is read and written once, with the same value.
var DecoupleTypeCast = &pipeline.Pass{
	Name:         "DecoupleTypeCast",
	Stage:        stage,
	Doc:          "separate memory accesses from conversions in vectorized loops",
	Precondition: "Vectorized loops have one store as body; layouts are applied.",
	Effect:       "A vectorized loop that converts types copies its operands from memory to registers first, computes there, and copies the result to memory last, each in a loop of its own.",
	Before:       "for v in T.vectorized(8):\n    x[v] = T.Cast(\"float32\", X[tx * 8 + v])",
	After:        "with T.sblock(\"decoupled_cast\"):\n    X_local_cast = T.alloc_buffer((8,), \"float16\", scope=\"local\")\n    for v_copy in T.vectorized(8):\n        X_local_cast[v_copy] = X[tx * 8 + v_copy]\n    for v in T.vectorized(8):\n        x[v] = T.Cast(\"float32\", X_local_cast[v])",
	Run:          pipeline.BodyPass(nil, decoupleCasts),
}

func decoupleCasts(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	made := 0
	r := ir.Rewriter{PreStmt: func(s ir.Stmt) (ir.Stmt, bool) {
		loop, ok := s.(*ir.For)
		if !ok || loop.Kind != ir.Vectorized {
			return s, false
		}
		if out := decouple(c, loop, &made); out != nil {
			return out, true
		}
		return s, true
	}}
	return r.Stmt(f.Body), nil
}

func inMemory(b *ir.Buffer) bool { return b.Scope() == "global" || pipeline.IsShared(b.Scope()) }

// decouple is the block that replaces a loop, nil when it stays.
func decouple(c *pipeline.Context, loop *ir.For, made *int) ir.Stmt {
	store, ok := loop.Body.(*ir.BufferStore)
	n, isConst := ir.AsInt(loop.Extent)
	if !ok || !isConst || n < 2 || loop.Step != nil || store.Predicate != nil || !converts(store, loop.Var) {
		return nil
	}
	varies := func(list []ir.Expr) bool {
		for _, e := range list {
			if ir.UsesVar(e, func(v *ir.Var) bool { return v == loop.Var }) {
				return true
			}
		}
		return false
	}
	// operands are what is copied to registers first: loads, and choices
	// between a load and something else, which keep their condition.
	var operands []ir.Expr
	guarded := false
	add := func(e ir.Expr) {
		for _, l := range operands {
			if arith.Equal(l, e) {
				return
			}
		}
		operands = append(operands, e)
	}
	fromMemory := func(e ir.Expr) *ir.BufferLoad {
		var found *ir.BufferLoad
		ir.WalkExpr(e, func(e ir.Expr) bool {
			if l, ok := e.(*ir.BufferLoad); ok && inMemory(l.Buffer) && varies(l.Indices) {
				found = l
			}
			return found == nil
		})
		return found
	}
	ir.WalkExpr(store.Value, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Call:
			if e.Op == nil || e.Op.Name != "if_then_else" {
				return true
			}
			switch l := fromMemory(e.Args[1]); {
			case l == nil && fromMemory(e.Args[2]) == nil:
				return true
			case l != nil && e.Args[1] == ir.Expr(l) && l.Predicate == nil && l.DType() == e.Type && fromMemory(e.Args[2]) == nil:
				add(e)
			default:
				guarded = true
			}
			return false
		case *ir.BufferLoad:
			if !inMemory(e.Buffer) || !varies(e.Indices) {
				return true
			}
			guarded = guarded || e.Predicate != nil
			add(e)
			return false
		}
		return true
	})
	out := inMemory(store.Buffer) && varies(store.Indices)
	if guarded {
		c.Remark(loop.Org, "conversion not decoupled: a load of the loop is conditional")
		return nil
	}
	if len(operands) == 0 && !out {
		return nil
	}
	var head, before, after []ir.Stmt
	var at ir.Expr = loop.Var
	if !ir.IsConst(loop.Min, 0) {
		at = ir.NewBinary(ir.Sub, loop.Var, loop.Min)
	}
	register := func(b *ir.Buffer) *ir.Buffer {
		name := b.Name + "_local_cast"
		if *made > 0 {
			name = fmt.Sprintf("%s_%d", name, *made)
		}
		*made++
		t := ir.NewBuffer(name, b.Type, "local", ir.I32(n))
		t.Org = store.Org
		head = append(head, &ir.AllocBuffer{Buffer: t, Org: store.Org})
		return t
	}
	// copyLoop runs body in a loop of its own over a fresh variable.
	copyLoop := func(s *ir.BufferStore) ir.Stmt {
		v := &ir.Var{Name: loop.Var.Name + "_copy", Type: loop.Var.Type}
		body := ir.SubstituteStmt(s, ir.SubstMap(map[*ir.Var]ir.Expr{loop.Var: v}))
		return &ir.For{Var: v, Min: loop.Min, Extent: loop.Extent, Kind: ir.Vectorized, Body: body, Org: loop.Org}
	}
	main := *store
	if out {
		t := register(store.Buffer)
		main.Buffer, main.Indices = t, []ir.Expr{at}
		load := &ir.BufferLoad{Buffer: t, Indices: []ir.Expr{at}}
		after = append(after, copyLoop(&ir.BufferStore{Buffer: store.Buffer, Indices: store.Indices, Value: load, Org: store.Org}))
	}
	copies := make([]ir.Expr, len(operands))
	for i, e := range operands {
		t := register(fromMemory(e).Buffer)
		copies[i] = &ir.BufferLoad{Buffer: t, Indices: []ir.Expr{at}}
		before = append(before, copyLoop(&ir.BufferStore{Buffer: t, Indices: []ir.Expr{at}, Value: e, Org: store.Org}))
	}
	r := ir.Rewriter{PreExpr: func(e ir.Expr) (ir.Expr, bool) {
		for i, m := range operands {
			if arith.Equal(e, m) {
				return copies[i], true
			}
		}
		return e, false
	}}
	main.Value = r.Expr(store.Value)
	compute := *loop
	compute.Body = &main
	body := append(head, before...)
	body = append(append(body, &compute), after...)
	return &ir.SBlock{
		Name:        "decoupled_cast",
		Annotations: (&ir.Dict{}).With(ir.KeyLexicalAllocScope, ir.I32(1)),
		Body:        ir.Seq(body...),
		Org:         loop.Org,
	}
}

// converts reports a conversion, in the value of a store, of something that
// varies with the loop.
func converts(s *ir.BufferStore, loop *ir.Var) bool {
	found := false
	ir.WalkExpr(s.Value, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			return false // conversions of indices do not count
		case *ir.Cast:
			from := e.Value.DType()
			if from.Scalar() != e.Type.Scalar() && !from.IsBool() && ir.UsesVar(e.Value, func(v *ir.Var) bool { return v == loop }) {
				found = true
			}
		}
		return !found
	})
	return found
}
