package tile

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/pipeline"
)

// keyMultiplicity marks a statement of a parallel loop that must run once for
// each iteration, even where several threads run copies of the iteration.
const keyMultiplicity = "tl.parallel_multiplicity"

// ReducerPlanAndMaterialize turns reducers into fragments.
//
// Precondition: LayoutInference has placed the reducers.
//
// Effect: the memory of a reducer becomes a fragment that each thread fills
// with the operator's identity; a contribution combines into the thread's own
// part, in one of the threads that run copies of an iteration; the end
// becomes T.finalize_reducer with the exchange between the threads,
// followed by a copy to the destination. An initial value is kept aside and
// combined once, after the exchange.
//
// Invariant: afterwards there are no reducers.
//
//	T.reducer_init(acc)                      T.fill(acc, 0)
//	for i, j in T.parallel(16, 64):          for i, j in T.parallel(16, 64):
//	    T.reducer_update(acc[i], a[i, j])  ->    acc[i] = acc[i] + a[i, j]
//	T.finalize_reducer_v2(acc, out)          T.finalize_reducer(acc, 0, 16, 1); T.copy(acc, out)
var ReducerPlanAndMaterialize = &pipeline.Pass{
	Name:         "ReducerPlanAndMaterialize",
	Stage:        "tile",
	Doc:          "turn reducers into fragments, with the exchange between threads at their end",
	Precondition: "LayoutInference has placed the reducers.",
	Effect: "Reducers become fragments that each thread fills with the operator's identity and combines its contributions into; " +
		"their end becomes T.finalize_reducer, which exchanges the parts between threads, and a copy to the destination.",
	Before: "T.reducer_init(acc)\nfor i, j in T.parallel(16, 64):\n    T.reducer_update(acc[i], a[i, j])\nT.finalize_reducer_v2(acc, out)",
	After:  "T.fill(acc, 0.0)\nfor i, j in T.parallel(16, 64):\n    acc[i] = acc[i] + a[i, j]\nT.finalize_reducer(acc, 0, 16, 1, plan=1)\nT.copy(acc, out)",
	Run:    pipeline.BodyPass(isDevice, materializeReducers),
}

// reducerKinds are the kinds in the order of T.finalize_reducer's argument.
var reducerKinds = []string{"sum", "max", "min", "bitand", "bitor", "bitxor"}

func kindNumber(kind string) int64 {
	for i, k := range reducerKinds {
		if k == kind {
			return int64(i)
		}
	}
	return -1
}

type materializer struct {
	kinds map[*ir.Var]string
	frags map[*ir.Buffer]*layout.Frag
	// byData finds the placed buffer of a reducer's memory.
	byData map[*ir.Var]*ir.Buffer
	data   map[*ir.Var]*ir.Var
	bufs   map[*ir.Buffer]*ir.Buffer
	seeds  map[*ir.Var]*ir.Buffer
	needed []*ir.Buffer // seeds to allocate in the block at hand
	err    error
}

func materializeReducers(ctx *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	m := &materializer{
		kinds: map[*ir.Var]string{}, frags: map[*ir.Buffer]*layout.Frag{}, byData: map[*ir.Var]*ir.Buffer{},
		data: map[*ir.Var]*ir.Var{}, bufs: map[*ir.Buffer]*ir.Buffer{}, seeds: map[*ir.Var]*ir.Buffer{},
	}
	if err := m.collect(f.Body); err != nil {
		return nil, err
	}
	if len(m.kinds) == 0 {
		return f.Body, nil
	}
	body := m.rewriter().Stmt(f.Body)
	return body, m.err
}

// reducerInfo reads a block's reducer_info_v2 (or, for the old form,
// reducer_info): the operator of each reducer by its memory.
func reducerInfo(s *ir.SBlock, key string, f func(v *ir.Var, kind string)) error {
	d, ok := s.Annotations.Get(key).(*ir.Dict)
	if !ok {
		return nil
	}
	for _, e := range d.Entries {
		var v *ir.Var
		switch k := e.Key.(type) {
		case *ir.Var:
			v = k
		case *ir.Buffer:
			v = k.Data
		}
		info, ok := e.Value.(*ir.Dict)
		kind, isStr := ir.AttrString(info.Get("op"))
		if v == nil || !ok || !isStr || kindNumber(kind) < 0 {
			return pipeline.Errorf(s.Org, "%s: expected a buffer's data with the operator of its reduction", key)
		}
		f(v, kind)
	}
	return nil
}

func (m *materializer) collect(body ir.Stmt) error {
	var err error
	walkEnv(body, env{}, func(s ir.Stmt, e env) bool {
		b, ok := s.(*ir.SBlock)
		if !ok || err != nil {
			return err == nil
		}
		err = reducerInfo(b, "reducer_info_v2", func(v *ir.Var, kind string) { m.kinds[v] = kind })
		if d, ok := b.Annotations.Get("layout_map").(*ir.Dict); ok && err == nil {
			for _, ent := range d.Entries {
				buf, ok1 := ent.Key.(*ir.Buffer)
				fr, ok2 := ent.Value.(*ir.Fragment)
				if !ok1 || !ok2 || !isReducer(buf) {
					continue
				}
				min, n := e.bounds()
				f, ferr := layout.FromIR(fr, min, n)
				if ferr != nil {
					err = pipeline.Errorf(b.Org, "the layout of reducer %s: %v", buf.Name, ferr)
					return false
				}
				m.frags[buf] = f
				m.byData[buf.Data] = buf
			}
		}
		return err == nil
	})
	return err
}

// buffer is the fragment a reducer becomes.
func (m *materializer) buffer(b *ir.Buffer) *ir.Buffer {
	if m.kinds[b.Data] == "" {
		return b
	}
	if n := m.bufs[b]; n != nil {
		return n
	}
	d := m.data[b.Data]
	if d == nil {
		d = ir.NewPointer(b.Data.Name, b.Type, "local.fragment")
		m.data[b.Data] = d
	}
	n := *b
	n.Data = d
	m.bufs[b] = &n
	return &n
}

func (m *materializer) rewriter() *ir.Rewriter {
	r := &ir.Rewriter{Buffer: m.buffer}
	r.Var = func(v *ir.Var) ir.Expr {
		if d := m.data[v]; d != nil {
			return d
		}
		return v
	}
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.SBlock:
			outer := m.needed
			m.needed = nil
			b := *s
			b.Annotations = m.annotations(s.Annotations)
			out := r.Inside(&b).(*ir.SBlock)
			if len(m.needed) > 0 {
				c := *out
				c.AllocBuffers = append(append([]*ir.Buffer{}, out.AllocBuffers...), m.needed...)
				out = &c
			}
			m.needed = outer
			return out, true
		case *ir.Evaluate:
			if c, ok := s.Value.(*ir.Call); ok && c.Op != nil {
				return m.operator(s, c, r)
			}
		}
		return nil, false
	}
	return r
}

// annotations leaves out what spoke of reducers and keeps their layouts.
func (m *materializer) annotations(d *ir.Dict) *ir.Dict {
	d = d.With("reducer_info_v2", nil)
	if d.Len() == 0 {
		return nil
	}
	return d
}

func (m *materializer) fail(s ir.Stmt, format string, args ...any) {
	if m.err == nil {
		m.err = pipeline.Errorf(s.Origin(), format, args...)
	}
}

// operator replaces the operators on reducers.
func (m *materializer) operator(s *ir.Evaluate, c *ir.Call, r *ir.Rewriter) (ir.Stmt, bool) {
	switch c.Op.Name {
	case "reducer_init", "reducer_update", "finalize_reducer_v2":
	default:
		return nil, false
	}
	reg, err := decodeRegion(c.Args[0])
	if err != nil {
		m.fail(s, "T.%s: %v", c.Op.Name, err)
		return s, true
	}
	kind := m.kinds[reg.buf.Data]
	if kind == "" {
		m.fail(s, "T.%s: %s is not a reducer", c.Op.Name, reg.buf.Name)
		return s, true
	}
	k, b, org := reducers[kind], m.buffer(reg.buf), s.Org
	if (kind == "bitand" || kind == "bitor" || kind == "bitxor") && !b.Type.IsInteger() {
		m.fail(s, "T.%s: %s of %s values", c.Op.Name, kind, b.Type)
		return s, true
	}
	switch c.Op.Name {
	case "reducer_init":
		fill := &ir.Evaluate{Value: ir.NewCall(ir.MustOp("fill"), wholeRegion(b, 2), k.init(b.Type)), Org: org}
		if len(c.Args) < 2 || ir.StructuralEqual(c.Args[1], k.init(b.Type)) {
			return fill, true
		}
		seed := m.seeds[reg.buf.Data]
		if seed == nil {
			seed = ir.NewBuffer(b.Name+"_seed", b.Type, "local", i32(1))
			m.seeds[reg.buf.Data] = seed
			m.needed = append(m.needed, seed)
		}
		set := &ir.BufferStore{Buffer: seed, Indices: []ir.Expr{i32(0)}, Value: ir.CastTo(r.Expr(c.Args[1]), b.Type), Org: org}
		return ir.Seq(set, fill), true
	case "reducer_update":
		idx, _ := r.Exprs(reg.min)
		old := &ir.BufferLoad{Buffer: b, Indices: idx}
		st := &ir.BufferStore{Buffer: b, Indices: idx, Value: k.combine(old, ir.CastTo(r.Expr(c.Args[1]), b.Type)), Org: org}
		return &ir.AttrStmt{Node: i32(0), Key: keyMultiplicity, Value: i32(1), Body: st, Org: org}, true
	}
	dst, err := decodeRegion(c.Args[1])
	if err != nil {
		m.fail(s, "T.%s: %v", c.Op.Name, err)
		return s, true
	}
	placed := m.byData[reg.buf.Data]
	if placed == nil {
		m.fail(s, "reducer %s has no layout: nothing contributes to it", b.Name)
		return s, true
	}
	mask := exchangeMask(m.frags[placed])
	if mask < 0 {
		m.fail(s, "the layout of reducer %s allows no exchange between its threads", b.Name)
		return s, true
	}
	var out []ir.Stmt
	steps := maskSteps(mask)
	if len(steps) == 0 {
		steps = []lane{{1, 1}}
	}
	for i, st := range steps {
		call := ir.NewCall(ir.MustOp("finalize_reducer"), wholeRegion(b, 3), i32(kindNumber(kind)), i32(st.threads), i32(st.scale))
		call.Attrs = []ir.Arg{{Name: "plan", Value: i32(1)}}
		if seed := m.seeds[reg.buf.Data]; seed != nil && i == len(steps)-1 {
			call.Attrs = append(call.Attrs, ir.Arg{Name: "seed", Value: &ir.BufferLoad{Buffer: seed, Indices: []ir.Expr{i32(0)}}})
		}
		out = append(out, &ir.Evaluate{Value: call, Org: org})
	}
	if dst.buf != reg.buf {
		out = append(out, &ir.Evaluate{Value: ir.NewCall(ir.MustOp("copy"), wholeRegion(b, 1), wholeRegion(m.buffer(dst.buf), 2)), Org: org})
	}
	return ir.Seq(out...), true
}

// wholeRegion is T.region on all of a buffer.
func wholeRegion(b *ir.Buffer, mask int64) ir.Expr {
	idx := make([]ir.Expr, len(b.Shape))
	for d := range idx {
		idx[d] = i32(0)
	}
	args := []ir.Expr{&ir.BufferLoad{Buffer: b, Indices: idx}, i32(mask)}
	return ir.NewCall(ir.MustOp("region"), append(args, b.Shape...)...)
}
