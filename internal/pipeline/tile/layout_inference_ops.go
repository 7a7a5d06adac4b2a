package tile

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/pipeline"
)

// level says how much an operator may decide.
type level uint8

const (
	// strict: layouts the operator's instruction demands.
	strict level = iota
	// common: layouts that follow from those known.
	common
	// free: an operator may choose.
	free
)

// inferOp is an operator that takes part in the inference.
type inferOp struct {
	stmt         ir.Stmt
	call         *ir.Call // nil for a parallel loop
	kind         string   // name of the operator, "parallel" for loops
	env          env
	min, threads int64        // the threads that run it
	nest         *nest        // parallel loops and operators that become them
	uses         []*ir.Buffer // register tiles and reducers it touches

	part *layout.Frag // partition of the nest, once decided
	pad  bool         // part was planned without register tiles
	src  *ir.Buffer   // register tile the partition came from
	done bool         // gemm: layouts given
	fall bool         // decides only when nothing else did (fill)

	gemm            gemmArgs     // of a gemm
	mma             *layout.MMA  // of a gemm
	red             reduceArgs   // of a reduce
	scan            []*ir.Buffer // shared buffers a scan needs in row-major order
	reducer, result *ir.Buffer   // of a finalize_reducer_v2
}

// conflict says that an attempt cannot work; another may.
type conflict struct {
	op   *inferOp
	text string
	span ir.Span // where the other side comes from
	note string
}

func (c *conflict) Error() string { return c.text }

func (c *conflict) report() error {
	e := pipeline.Errorf(c.op.stmt.Origin(), "%s", c.text)
	if c.note != "" {
		e.WithNote(c.span, "%s", c.note)
	}
	return e
}

// accumulator is MMA.C, operand MMA.A or MMA.B.
func (c *cache) accumulator(m *layout.MMA, min, threads int64) (*layout.Frag, error) {
	return c.get(fmt.Sprint("C", *m, min, threads), func() (*layout.Frag, error) { return m.C(min, threads) })
}

func (c *cache) operand(m *layout.MMA, isA bool, min, threads int64) (*layout.Frag, error) {
	return c.get(fmt.Sprint("AB", isA, *m, min, threads), func() (*layout.Frag, error) {
		if isA {
			return m.A(min, threads)
		}
		return m.B(min, threads)
	})
}

// inferer holds the operators and what is known.
type inferer struct {
	ctx   *pipeline.Context
	cache *cache
	ops   []*inferOp
	users map[*ir.Buffer][]int
	views map[*ir.Var][]*ir.Buffer // buffers by their memory
	fixed map[*ir.Buffer]bool      // layouts of the strict level: never replaced
	from  map[*ir.Buffer]ir.Span   // what decided a layout
}

// newOp makes the operator of a statement; nil when it takes no part.
func newOp(s ir.Stmt, e env) (*inferOp, error) {
	op := &inferOp{stmt: s, env: e}
	op.min, op.threads = e.bounds()
	if f, ok := s.(*ir.For); ok {
		op.kind = "parallel"
		var err error
		if op.nest, err = newNest(f, e); err != nil {
			return nil, pipeline.Errorf(f.Org, "%v", err)
		}
		op.addNestUses()
		return op, nil
	}
	c := tileCall(s)
	op.call, op.kind = c, c.Op.Name
	var loop ir.Stmt
	var err error
	switch c.Op.Name {
	case "copy", "async_copy", "tma_copy":
		var a copyArgs
		if a, err = decodeCopy(c); err == nil {
			loop, err = copyLoop(c, a, e, nil, s.Origin())
		}
	case "transpose":
		loop, err = transposeLoop(c, e, s.Origin())
	case "atomicadd", "atomicmax", "atomicmin":
		loop, err = atomicLoop(c, e, s.Origin())
	case "im2col":
		loop, err = im2colLoop(c, e, s.Origin())
	case "fill":
		loop, err = fillLoop(c, e, s.Origin())
		op.fall = true
	case "gemm":
		if op.gemm, err = decodeGemm(c); err == nil {
			if op.mma, err = op.gemm.mma(op.threads); err == nil {
				for _, r := range []region{op.gemm.a, op.gemm.b, op.gemm.c} {
					op.use(r.buf)
				}
			}
		}
	case "reduce":
		if op.red, err = decodeReduce(c); err == nil {
			op.use(op.red.src.buf)
			op.use(op.red.dst.buf)
		}
	case "finalize_reducer_v2":
		for i, b := range []**ir.Buffer{&op.reducer, &op.result} {
			var r region
			if r, err = decodeRegion(c.Args[i]); err != nil {
				break
			}
			*b = r.buf
			op.use(r.buf)
		}
		if err == nil && !sameExprs(op.reducer.Shape, op.result.Shape) {
			err = fmt.Errorf("%s and %s have different shapes", op.reducer.Name, op.result.Name)
		}
	case "reducer_init", "reducer_update":
		// The updates in parallel loops place a reducer.
	case "cumsum":
		for i := range 2 {
			var r region
			if r, err = decodeRegion(c.Args[i]); err != nil {
				break
			}
			op.use(r.buf)
			if isShared(r.buf) {
				op.scan = append(op.scan, r.buf)
			}
		}
	default:
		for _, x := range c.Args {
			if r, err := decodeRegion(x); err == nil {
				op.use(r.buf)
			}
		}
	}
	if err != nil {
		return nil, opError(s, c, err)
	}
	if f, ok := loop.(*ir.For); ok {
		if op.nest, err = newNest(f, e); err != nil {
			return nil, opError(s, c, err)
		}
		op.addNestUses()
	}
	return op, nil
}

func (op *inferOp) addNestUses() {
	for _, a := range op.nest.frags {
		op.use(a.buf)
	}
	for _, a := range op.nest.reds {
		op.use(a.buf)
	}
}

func (op *inferOp) use(b *ir.Buffer) {
	if !isFragment(b) && !isReducer(b) {
		return
	}
	for _, x := range op.uses {
		if x == b {
			return
		}
	}
	op.uses = append(op.uses, b)
}

// update is a layout an operator gives to a buffer.
type update struct {
	buf  *ir.Buffer
	frag *layout.Frag
	m    *layout.Map
}

// infer asks an operator for layouts at a level. A *conflict means that the
// layouts known cannot work for it; other errors are final.
func (in *inferer) infer(op *inferOp, lv level, lay *layouts) ([]update, error) {
	switch op.kind {
	case "gemm":
		return in.inferGemm(op, lay)
	case "reduce":
		return in.inferReduce(op, lv, lay)
	case "finalize_reducer_v2":
		return in.inferFinalize(op, lv, lay)
	case "cumsum":
		if lv != strict {
			return nil, nil
		}
		var out []update
		for _, b := range op.scan {
			shape, err := layout.ConstShape(b.Shape)
			if err != nil {
				return nil, opError(op.stmt, op.call, err)
			}
			m, err := layout.Linear(shape)
			if err != nil {
				return nil, opError(op.stmt, op.call, err)
			}
			if old := lay.maps[b]; old != nil {
				if !old.SameOffsets(m) {
					return nil, pipeline.Errorf(op.stmt.Origin(), "T.cumsum needs %s in row-major order, but it has another layout", b.Name).
						WithNote(in.from[b], "which comes from here")
				}
				continue
			}
			out = append(out, update{buf: b, m: m})
		}
		return out, nil
	}
	if op.nest == nil || op.fall && lv != free {
		return nil, nil
	}
	if op.kind == "transpose" && lv == common {
		var out []update
		for _, x := range op.call.Args[:2] {
			r, err := decodeRegion(x)
			if err != nil {
				return nil, opError(op.stmt, op.call, err)
			}
			if m := swizzled(r.buf, lay); m != nil {
				out = append(out, update{buf: r.buf, m: m})
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	return in.inferNest(op, lv, lay)
}

func (in *inferer) inferGemm(op *inferOp, lay *layouts) ([]update, error) {
	if op.done {
		return nil, nil
	}
	op.done = true
	g := op.gemm
	var out []update
	for i, r := range []region{g.a, g.b} {
		switch {
		case isFragment(r.buf):
			f, err := in.cache.operand(op.mma, i == 0, op.min, op.threads)
			if err != nil {
				return nil, opError(op.stmt, op.call, err)
			}
			out = append(out, update{buf: r.buf, frag: f})
		case isShared(r.buf):
			if lay.maps[r.buf] != nil {
				continue // any layout can be read; an earlier operator's stays
			}
			shape, err := layout.ConstShape(r.buf.Shape)
			if err != nil {
				return nil, opError(op.stmt, op.call, err)
			}
			m, err := layout.SharedTile(shape, bitsOf(r.buf.Type))
			if err != nil {
				return nil, opError(op.stmt, op.call, err)
			}
			out = append(out, update{buf: r.buf, m: m})
		default:
			return nil, opError(op.stmt, op.call, fmt.Errorf("operand %s is in %s memory; it must be shared or a fragment", r.buf.Name, r.buf.Scope()))
		}
	}
	if !isFragment(g.c.buf) {
		return nil, opError(op.stmt, op.call, fmt.Errorf("the accumulator %s is not a fragment", g.c.buf.Name))
	}
	f, err := in.cache.accumulator(op.mma, op.min, op.threads)
	if err != nil {
		return nil, opError(op.stmt, op.call, err)
	}
	return append(out, update{buf: g.c.buf, frag: f}), nil
}

func (in *inferer) inferReduce(op *inferOp, lv level, lay *layouts) ([]update, error) {
	src := lay.frags[op.red.src.buf]
	if lv == strict || src == nil || !isFragment(op.red.dst.buf) {
		return nil, nil
	}
	f, err := op.reduced(src)
	if err != nil {
		return nil, in.conflict(op, op.red.src.buf, "T.reduce: the result of reducing %s along dimension %d cannot be placed: %v", op.red.src.buf.Name, op.red.dim, err)
	}
	dst := lay.frags[op.red.dst.buf]
	if dst == nil {
		return []update{{buf: op.red.dst.buf, frag: f}}, nil
	}
	if !layout.Contains(f, dst, nil, nil) {
		return nil, in.conflict(op, op.red.dst.buf, "T.reduce: %s must lie on threads that hold a part of %s, but it does not; stage it through shared memory", op.red.dst.buf.Name, op.red.src.buf.Name)
	}
	return nil, nil
}

// reduced is the layout that a reduction's result has by its source, in the
// shape of its destination.
func (op *inferOp) reduced(src *layout.Frag) (*layout.Frag, error) {
	f, err := src.Reduced(op.red.dim)
	if err != nil || len(op.red.dst.min) == len(f.Shape) {
		return f, err
	}
	// keepdims: the reduced dimension stays with extent 1.
	d := op.red.dim
	vars := layout.Vars(len(f.Shape) + 1)
	idx := make([]ir.Expr, 0, len(f.Shape))
	shape := make([]int64, 0, len(f.Shape)+1)
	for i, v := range vars {
		if i == d {
			shape = append(shape, 1)
			continue
		}
		idx = append(idx, v)
		shape = append(shape, f.Shape[len(idx)-1])
	}
	return layout.NewFrag(shape, f.Rep, f.ForwardThread(idx, layout.Rep), f.Forward(idx), f.Min, f.Extent)
}

func (in *inferer) conflict(op *inferOp, other *ir.Buffer, format string, args ...any) *conflict {
	c := &conflict{op: op, text: fmt.Sprintf(format, args...)}
	if other != nil {
		c.span, c.note = in.from[other], "the layout of "+other.Name+" comes from here"
	}
	return c
}
