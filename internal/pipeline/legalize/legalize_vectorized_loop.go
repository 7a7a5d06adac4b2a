package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/scoped"
)

// maxVectorBits is the widest access of a thread: 128 bits (PTX ISA, "ld",
// .v4.b32).
const maxVectorBits = 128

// LegalizeVectorizedLoop splits vectorized loops that are longer than one
// access of each of their buffers may be.
//
// Precondition: layouts are applied, buffers are not flat. Effect: a vectorized
// loop becomes a serial loop over shorter vectorized ones, of the largest
// length that divides it for which every access of the loop is either one of
// neighbouring elements within 128 bits or the same in all iterations. A loop
// for which no length serves is left to VectorizeLoop. Invariant: iterations
// run in order.
//
//	for v in T.vectorized(8): x[v] = y[v] (float32)
//	->  for v in range(2): for v_1 in T.vectorized(4): x[v * 4 + v_1] = y[v * 4 + v_1]
var LegalizeVectorizedLoop = &pipeline.Pass{
	Name:         "LegalizeVectorizedLoop",
	Stage:        stage,
	Doc:          "split vectorized loops that are longer than an access may be",
	Precondition: "Layouts are applied; the loop's accesses have their final indices.",
	Effect:       "A vectorized loop whose accesses exceed 128 bits, or are contiguous over a part of it only, is split into a serial loop over vectorized ones that fit.",
	Before:       "for v in T.vectorized(8):\n    x[v] = T.Cast(\"float32\", y[v])",
	After:        "for v in range(2):\n    for v_1 in T.vectorized(4):\n        x[v * 4 + v_1] = T.Cast(\"float32\", y[v * 4 + v_1])",
	Run:          pipeline.BodyPass(nil, splitVectorized),
}

func splitVectorized(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	r := scoped.New()
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		loop, ok := s.(*ir.For)
		if !ok || loop.Kind != ir.Vectorized || loop.Step != nil {
			return s, false
		}
		extent, ok := ir.AsInt(loop.Extent)
		if !ok || extent < 2 || extent > ir.MaxLanes {
			return s, true
		}
		w := &vectorWidth{r: r, loop: loop}
		w.collect(loop.Body)
		for n := extent; n > 1; n-- {
			if extent%n != 0 || !w.fits(extent, n) {
				continue
			}
			if n == extent {
				return s, true
			}
			return splitLoop(loop, extent, n), true
		}
		return s, true
	}
	return r.Stmt(f.Body), nil
}

func splitLoop(loop *ir.For, extent, n int64) ir.Stmt {
	t := loop.Var.Type
	outer := &ir.Var{Name: loop.Var.Name, Type: t}
	inner := &ir.Var{Name: loop.Var.Name, Type: t}
	at := ir.NewBinary(ir.Add, loop.Min, ir.NewBinary(ir.Add, ir.NewBinary(ir.Mul, outer, ir.IntConst(t, n)), inner))
	body := ir.SubstituteStmt(loop.Body, ir.SubstMap(map[*ir.Var]ir.Expr{loop.Var: at}))
	in := &ir.For{Var: inner, Min: ir.IntConst(t, 0), Extent: ir.IntConst(t, n), Kind: ir.Vectorized, Body: body, Org: loop.Org}
	return &ir.For{Var: outer, Min: ir.IntConst(t, 0), Extent: ir.IntConst(t, extent/n), Kind: ir.Serial, Annotations: loop.Annotations, Body: in, Org: loop.Org}
}

// vectorWidth finds the vector lengths a loop's accesses allow.
type vectorWidth struct {
	r        *scoped.Rewriter
	loop     *ir.For
	accesses []vectorAccess
	// unknown is set when the body has something whose lanes cannot be told.
	unknown bool
}

type vectorAccess struct {
	offset ir.Expr // in elements
	bits   int64   // of an element
}

func (w *vectorWidth) varies(e ir.Expr) bool {
	return ir.UsesVar(e, func(v *ir.Var) bool { return v == w.loop.Var })
}

func (w *vectorWidth) access(b *ir.Buffer, indices []ir.Expr) {
	offset := elementOffset(&ir.BufferLoad{Buffer: b, Indices: indices})
	if !w.varies(offset) {
		return
	}
	if !offset.DType().IsScalar() || ir.SideEffect(offset) != ir.Pure {
		w.unknown = true
		return
	}
	w.accesses = append(w.accesses, vectorAccess{offset, int64(b.Type.Bits) * int64(b.Type.Lanes)})
}

func (w *vectorWidth) collect(s ir.Stmt) {
	if s == nil {
		w.unknown = true
		return
	}
	ir.Walk(s, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.For, *ir.While, *ir.SBlock, *ir.Bind:
			w.unknown = true // its variables are not known here
		case *ir.BufferStore:
			if len(s.Indices) != len(s.Buffer.Shape) {
				w.unknown = true
				return false
			}
			w.access(s.Buffer, s.Indices)
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			switch e := e.(type) {
			case *ir.BufferLoad:
				if len(e.Indices) != len(e.Buffer.Shape) {
					w.unknown = true
					return false
				}
				w.access(e.Buffer, e.Indices)
			case *ir.Let:
				w.unknown = true
			case *ir.Call:
				// Pointers are not accesses, and calls with an effect have
				// lengths of their own.
				if e.Op == nil || e.Op.Effect > ir.ReadState {
					w.unknown = true
				}
			}
			return !w.unknown
		})
		return !w.unknown
	})
}

// fits reports that every access of n neighbouring iterations is one vector
// access, or the same element.
func (w *vectorWidth) fits(extent, n int64) bool {
	if w.unknown {
		return n == extent
	}
	t := w.loop.Var.Type
	group := &ir.Var{Name: w.loop.Var.Name, Type: t}
	undo := w.r.An.BindVar(group, ir.IntConst(t, 0), ir.IntConst(t, extent/n))
	defer undo()
	lane := func(e ir.Expr, l int64) ir.Expr {
		at := ir.NewBinary(ir.Add, w.loop.Min, ir.NewBinary(ir.Add, ir.NewBinary(ir.Mul, group, ir.IntConst(t, n)), ir.IntConst(t, l)))
		return ir.Substitute(e, ir.SubstMap(map[*ir.Var]ir.Expr{w.loop.Var: at}))
	}
	for _, a := range w.accesses {
		first := lane(a.offset, 0)
		step := int64(-1)
		for l := int64(1); l < n; l++ {
			d, ok := ir.AsInt(w.r.An.Simplify(&ir.Binary{Op: ir.Sub, A: lane(a.offset, l), B: first}))
			if l == 1 {
				step = d
			}
			if !ok || step != 0 && step != 1 || d != step*l {
				return false
			}
		}
		if step == 1 && a.bits*n > maxVectorBits {
			return false
		}
	}
	return true
}
