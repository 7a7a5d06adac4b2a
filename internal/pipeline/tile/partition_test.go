package tile

import (
	"fmt"
	"math/rand"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// runThread runs a lowered loop as one thread and calls store for each store.
func runThread(t *testing.T, s ir.Stmt, vars map[*ir.Var]int64, store func(idx []int64)) {
	t.Helper()
	value := func(e ir.Expr) int64 {
		e = ir.Substitute(e, func(v *ir.Var) ir.Expr { return ir.IntConst(v.Type, vars[v]) })
		out, err := layout.Evaluate(e, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	switch s := s.(type) {
	case *ir.SeqStmt:
		for _, c := range s.Seq {
			runThread(t, c, vars, store)
		}
	case *ir.For:
		for k := int64(0); k < value(s.Extent); k++ {
			vars[s.Var] = k
			runThread(t, s.Body, vars, store)
		}
	case *ir.IfThenElse:
		if value(s.Cond) != 0 {
			runThread(t, s.Then, vars, store)
		}
	case *ir.BufferStore:
		idx := make([]int64, len(s.Indices))
		for d, e := range s.Indices {
			idx[d] = value(e)
		}
		store(idx)
	default:
		t.Fatalf("statement %T", s)
	}
}

// TestPartitionCoversOnce checks, for random nests and partitions, that the
// loops of all threads together run every iteration exactly once.
func TestPartitionCoversOnce(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	pick := func(list ...int64) int64 { return list[r.Intn(len(list))] }
	for n := 0; n < 200; n++ {
		threads := pick(32, 64, 96, 128, 256)
		dims := 1 + r.Intn(3)
		ext := make([]int64, dims)
		size := int64(1)
		for d := range ext {
			ext[d] = pick(1, 2, 3, 4, 5, 8, 12, 16, 34)
			size *= ext[d]
		}
		if size > 4000 {
			continue
		}
		vec := pick(1, 2, 4, 8)
		for ext[dims-1]%vec != 0 {
			vec /= 2
		}
		spread := r.Intn(2) == 0
		t.Run(fmt.Sprintf("%v/%d/%d/%v", ext, threads, vec, spread), func(t *testing.T) {
			checkCover(t, ext, threads, vec, spread)
		})
	}
}

func checkCover(t *testing.T, ext []int64, threads, vec int64, spread bool) {
	part, err := deal(ext, vec, 0, threads, spread)
	if err != nil {
		t.Skip(err) // no such plan; the inference looks for another
	}
	shape := make([]ir.Expr, len(ext))
	vars := make([]*ir.Var, len(ext))
	idx := make([]ir.Expr, len(ext))
	for d, x := range ext {
		shape[d] = i32(x)
		vars[d] = &ir.Var{Name: loopName(d), Type: ir.DInt32}
		idx[d] = vars[d]
	}
	buf := ir.NewBuffer("A", ir.DFloat32, "global", shape...)
	nestRoot := loopNest(vars, shape, &ir.BufferStore{Buffer: buf, Indices: idx, Value: ir.FloatConst(ir.DFloat32, 1)}, ir.Span{})
	tx := &ir.Var{Name: "tx", Type: ir.DInt32}
	e := env{tx: tx, threads: threads, lo: 0, hi: threads}
	n, err := newNest(nestRoot.(*ir.For), e)
	if err != nil {
		t.Fatal(err)
	}
	lw := &lowerer{ctx: newContext(), cache: newCache(), lay: newLayouts(), byData: map[*ir.Var][]*ir.Buffer{}, remap: map[*ir.Buffer]*ir.Buffer{}, data: map[*ir.Var]*ir.Var{}}
	out, err := lw.partition(n, part, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	op := &inferOp{env: e, nest: n, part: part, min: 0, threads: threads}
	if p := op.predicate(); p != nil {
		out = &ir.IfThenElse{Cond: p, Then: out}
	}
	runs := map[int64]int{}
	for th := int64(0); th < threads; th++ {
		runThread(t, out, map[*ir.Var]int64{tx: th}, func(at []int64) {
			p := int64(0)
			for d, x := range at {
				if x < 0 || x >= ext[d] {
					t.Fatalf("thread %d runs iteration %v", th, at)
				}
				p = p*ext[d] + x
			}
			runs[p]++
		})
	}
	for p := int64(0); p < part.Size(); p++ {
		if runs[p] != 1 {
			t.Fatalf("iteration %d runs %d times", p, runs[p])
		}
	}
}
