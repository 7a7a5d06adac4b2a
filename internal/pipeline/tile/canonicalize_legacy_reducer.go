package tile

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// CanonicalizeLegacyReducer gives reducers written in the old form, as
// fragments with a reducer_info annotation, their first-class form.
//
// Precondition: tile operators and parallel loops are not lowered.
//
// Effect: T.fill of such a fragment becomes T.reducer_init; a store that
// combines a value into it becomes T.reducer_update; T.finalize_reducer becomes
// T.finalize_reducer_v2 into a fragment of its own, which later reads use.
//
//	T.fill(acc, 0)                        T.reducer_init(acc)
//	acc[i] = acc[i] + x            ->     T.reducer_update(acc[i], x)
//	T.finalize_reducer(acc)               T.finalize_reducer_v2(acc, acc_result)
var CanonicalizeLegacyReducer = &pipeline.Pass{
	Name:         "CanonicalizeLegacyReducer",
	Stage:        "tile",
	Doc:          "give reducers of the old form their first-class form",
	Precondition: "Tile operators and parallel loops are not lowered.",
	Effect: "Fragments annotated as reducers become reducers: their fill, their combining stores and their end become operators, " +
		"and the result goes to a fragment of its own, which later reads use.",
	Before: "T.fill(acc, 0)\nacc[i] = acc[i] + x\nT.finalize_reducer(acc)",
	After:  "T.reducer_init(acc)\nT.reducer_update(acc[i], x)\nT.finalize_reducer_v2(acc, acc_result)",
	Run:    pipeline.BodyPass(isDevice, canonicalizeReducers),
}

type legacy struct {
	kinds   map[*ir.Var]string
	data    map[*ir.Var]*ir.Var
	bufs    map[*ir.Buffer]*ir.Buffer // the reducer
	results map[*ir.Buffer]*ir.Buffer // the result, by the old buffer
	done    map[*ir.Var]bool          // finalized: reads go to the result
	err     error
}

func canonicalizeReducers(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	l := &legacy{
		kinds: map[*ir.Var]string{}, data: map[*ir.Var]*ir.Var{}, bufs: map[*ir.Buffer]*ir.Buffer{},
		results: map[*ir.Buffer]*ir.Buffer{}, done: map[*ir.Var]bool{},
	}
	var err error
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		if b, ok := s.(*ir.SBlock); ok && err == nil {
			err = reducerInfo(b, "reducer_info", func(v *ir.Var, kind string) { l.kinds[v] = kind })
		}
		return err == nil
	})
	if err != nil || len(l.kinds) == 0 {
		return f.Body, err
	}
	body := l.rewriter().Stmt(f.Body)
	return body, l.err
}

func (l *legacy) is(b *ir.Buffer) bool { return l.kinds[b.Data] != "" }

func (l *legacy) reducer(b *ir.Buffer) *ir.Buffer {
	if n := l.bufs[b]; n != nil {
		return n
	}
	d := l.data[b.Data]
	if d == nil {
		d = ir.NewPointer(b.Data.Name, b.Type, "local.reducer")
		l.data[b.Data] = d
	}
	n := *b
	n.Data = d
	l.bufs[b] = &n
	return &n
}

func (l *legacy) result(b *ir.Buffer) *ir.Buffer {
	r := l.results[b]
	if r == nil {
		r = ir.NewBuffer(b.Data.Name+"_result", b.Type, "local.fragment", b.Shape...)
		r.Org = b.Org
		l.results[b] = r
	}
	return r
}

func (l *legacy) fail(s ir.Stmt, format string, args ...any) {
	if l.err == nil {
		l.err = pipeline.Errorf(s.Origin(), format, args...)
	}
}

func (l *legacy) rewriter() *ir.Rewriter {
	r := &ir.Rewriter{}
	r.Var = func(v *ir.Var) ir.Expr {
		if d := l.data[v]; d != nil {
			return d
		}
		return v
	}
	// Buffer is where a plain mention of a buffer goes: after the end, the
	// result.
	r.Buffer = func(b *ir.Buffer) *ir.Buffer {
		if !l.is(b) {
			return b
		}
		if l.done[b.Data] {
			return l.result(b)
		}
		return l.reducer(b)
	}
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.SBlock:
			return l.block(s, r), true
		case *ir.BufferStore:
			if l.is(s.Buffer) && !l.done[s.Buffer.Data] {
				return l.store(s, r), true
			}
		case *ir.Evaluate:
			if c := tileCall(s); c != nil {
				return l.operator(s, c, r)
			}
		}
		return nil, false
	}
	return r
}

func (l *legacy) block(s *ir.SBlock, r *ir.Rewriter) ir.Stmt {
	b := *s
	b.AllocBuffers = nil
	for _, a := range s.AllocBuffers {
		if l.is(a) {
			b.AllocBuffers = append(b.AllocBuffers, l.reducer(a))
		} else {
			b.AllocBuffers = append(b.AllocBuffers, a)
		}
	}
	info := &ir.Dict{}
	if d, ok := s.Annotations.Get("reducer_info").(*ir.Dict); ok {
		for _, e := range d.Entries {
			v, ok := e.Key.(*ir.Var)
			if b, isBuf := e.Key.(*ir.Buffer); isBuf {
				v, ok = b.Data, true
			}
			if !ok {
				continue
			}
			if l.data[v] == nil {
				l.data[v] = ir.NewPointer(v.Name, v.Ptr.Elem, "local.reducer")
			}
			info.Entries = append(info.Entries, ir.DictEntry{Key: l.data[v], Value: (&ir.Dict{}).With("op", ir.Str(l.kinds[v]))})
		}
		var entries []ir.DictEntry
		for _, e := range s.Annotations.Entries {
			if k, ok := e.Key.(*ir.StringImm); ok && k.Value == "reducer_info" {
				e = ir.DictEntry{Key: ir.Str("reducer_info_v2"), Value: info}
			}
			entries = append(entries, e)
		}
		b.Annotations = &ir.Dict{Entries: entries}
	}
	b.Init, b.Body = r.Stmt(s.Init), r.Stmt(s.Body)
	for _, a := range s.AllocBuffers {
		if res := l.results[a]; res != nil {
			b.AllocBuffers = append(b.AllocBuffers, res)
		}
	}
	return &b
}

// store turns acc[i] = acc[i] op x into a contribution.
func (l *legacy) store(s *ir.BufferStore, r *ir.Rewriter) ir.Stmt {
	kind := l.kinds[s.Buffer.Data]
	x, ok := contribution(s, kind)
	if !ok {
		l.fail(s, "the reducer %s is stored to other than by %s of itself and a value", s.Buffer.Name, kind)
		return s
	}
	idx, _ := r.Exprs(s.Indices)
	c := ir.NewCall(ir.MustOp("reducer_update"), &ir.BufferLoad{Buffer: l.reducer(s.Buffer), Indices: idx}, r.Expr(x))
	return &ir.Evaluate{Value: c, Org: s.Org}
}

// contribution is x of acc[i] = acc[i] op x, in either order.
func contribution(s *ir.BufferStore, kind string) (ir.Expr, bool) {
	var a, b ir.Expr
	switch v := s.Value.(type) {
	case *ir.Binary:
		want := map[string]ir.BinOp{"sum": ir.Add, "max": ir.Max, "min": ir.Min}
		if op, ok := want[kind]; !ok || op != v.Op {
			return nil, false
		}
		a, b = v.A, v.B
	case *ir.Call:
		want := map[string]string{"bitand": "bitwise_and", "bitor": "bitwise_or", "bitxor": "bitwise_xor"}
		if v.Op == nil || want[kind] != v.Op.Name {
			return nil, false
		}
		a, b = v.Args[0], v.Args[1]
	default:
		return nil, false
	}
	self := func(e ir.Expr) bool {
		ld, ok := e.(*ir.BufferLoad)
		return ok && ld.Buffer == s.Buffer && sameExprs(ld.Indices, s.Indices)
	}
	switch {
	case self(a):
		return b, true
	case self(b):
		return a, true
	}
	return nil, false
}

func (l *legacy) operator(s *ir.Evaluate, c *ir.Call, r *ir.Rewriter) (ir.Stmt, bool) {
	if c.Op.Name != "fill" && c.Op.Name != "finalize_reducer" {
		return nil, false
	}
	reg, err := decodeRegion(c.Args[0])
	if err != nil || !l.is(reg.buf) {
		return nil, false
	}
	d := reg.buf.Data
	if c.Op.Name == "fill" {
		l.done[d] = false
		b := l.reducer(reg.buf)
		args := []ir.Expr{wholeRegion(b, 2)}
		v := ir.CastTo(r.Expr(c.Args[1]), b.Type)
		if !ir.StructuralEqual(v, reducers[l.kinds[d]].init(b.Type)) {
			args = append(args, v)
		}
		return &ir.Evaluate{Value: ir.NewCall(ir.MustOp("reducer_init"), args...), Org: s.Org}, true
	}
	l.done[d] = true
	call := ir.NewCall(ir.MustOp("finalize_reducer_v2"), wholeRegion(l.reducer(reg.buf), 3), wholeRegion(l.result(reg.buf), 2))
	return &ir.Evaluate{Value: call, Org: s.Org}, true
}
