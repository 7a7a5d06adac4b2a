package tilelang

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// attrValue is something only annotations hold.
type attrValue struct{ a ir.Attr }

// opValue is an operator by name: tvm.tirx.op.Op.get("tl.copy").
type opValue struct{ op *ir.Op }

// layoutFor is an entry of T.annotate_layout: a layout, or a function that
// makes one for the buffer's shape.
func (in *interp) layoutFor(a *args, b *ir.Buffer, v value) ir.Attr {
	frag := b.Scope() == "local.fragment"
	switch x := v.(type) {
	case *ir.Fragment:
		return x
	case *ir.Layout:
		if !frag {
			return x
		}
	case *function, *builtin, *boundMethod:
		if !frag {
			return in.makeLayout(b.Shape, v)
		}
	case *attrValue:
		return x.a
	case *unknown:
		panic(in.needKnown(x))
	}
	if frag {
		panic(in.errorAt(a.at[0], "the layout of %s is %s: a fragment needs a T.Fragment", b.Name, in.typeWithValue(v)).
			note(b.Org, "%s is declared here", b.Name).is("AssertionError"))
	}
	panic(in.errorAt(a.at[0], "the layout of %s is %s: expected a T.Layout", b.Name, in.typeWithValue(v)).is("ValueError"))
}

func layoutVars(n int) []*ir.Var {
	vars := make([]*ir.Var, n)
	for i := range vars {
		vars[i] = &ir.Var{Name: "i" + string(rune('0'+i%10)), Type: ir.DInt32}
	}
	return vars
}

func varValues(vars []*ir.Var) []value {
	out := make([]value, len(vars))
	for i, v := range vars {
		out[i] = v
	}
	return out
}

// makeLayout is T.Layout(shape, fn).
func (in *interp) makeLayout(shape []ir.Expr, fn value) *ir.Layout {
	l := &ir.Layout{Vars: layoutVars(len(shape)), Shape: shape}
	l.Forward = in.exprList(in.call(fn, varValues(l.Vars)))
	return l
}

func (in *interp) exprList(v value) []ir.Expr {
	switch v.(type) {
	case *list, *tuple:
		var out []ir.Expr
		for _, x := range in.iterate(v) {
			out = append(out, in.checked(in.toExpr(x)))
		}
		return out
	}
	return []ir.Expr{in.checked(in.toExpr(v))}
}

// constShape is a buffer's shape as numbers.
func (in *interp) constShape(a *args, i int) (*ir.Buffer, []int64) {
	b := in.operand(a.v[i])
	if b == nil {
		panic(in.errorAt(a.at[i], "%s of %s is %s: expected a buffer", a.param(i), a.name(), in.typeWithValue(a.v[i])).is("TypeError"))
	}
	out := make([]int64, len(b.Shape))
	for k, e := range b.Shape {
		n, ok := ir.AsInt(e)
		if !ok {
			panic(in.errorAt(a.at[i], "%s needs a constant shape, but %s has %s", a.name(), b.Name, shapeText(b.Shape)).is("TypeError"))
		}
		out[k] = n
	}
	return b, out
}

func langLayouts(def definer) {
	def("Layout(shape, forward_fn)", func(in *interp, a *args) value {
		return in.makeLayout(in.shapeOf(a.v[0], a.at[0]), a.v[1])
	})
	def("Fragment(shape, forward_fn=None, forward_thread_fn=None, replicate=1, forward_index_fn=None)", func(in *interp, a *args) value {
		shape, rep := in.shapeOf(a.v[0], a.at[0]), in.intArg(a, 3)
		f := &ir.Fragment{Vars: layoutVars(len(shape)), Shape: shape, Rep: &ir.Var{Name: "rep", Type: ir.DInt32}, Replicate: ir.I32(max(rep, 1))}
		argv := varValues(f.Vars)
		threadArgs := argv
		if rep > 1 {
			threadArgs = append(append([]value(nil), argv...), f.Rep)
		}
		if !isNone(a.v[1]) {
			r := in.iterate(in.call(a.v[1], threadArgs))
			if len(r) != 2 {
				panic(in.errorAt(a.at[1], "forward_fn gives %d values: expected the thread and the index", len(r)).is("ValueError"))
			}
			f.Thread = in.checked(in.toExpr(r[0]))
			f.Index = in.exprList(r[1])
			return f
		}
		if isNone(a.v[2]) {
			panic(in.errorf("T.Fragment needs forward_fn or forward_thread_fn").is("TypeError"))
		}
		f.Thread = in.checked(in.toExpr(in.call(a.v[2], threadArgs)))
		if !isNone(a.v[4]) {
			f.Index = in.exprList(in.call(a.v[4], argv))
		}
		return f
	})
}

// layoutModule is tilelang.layout.
func layoutModule() *module {
	m := &module{name: "tilelang.layout", attrs: map[string]value{
		"Layout": langFuncs()["Layout"], "Fragment": langFuncs()["Fragment"],
	}}
	def := func(sig string, fn func(in *interp, a *args) value) {
		s := parseSig(sig)
		m.attrs[s.name] = &builtin{name: s.name, sig: s, fn: fn}
	}
	result := func(in *interp, l *layout.Map, err error) value {
		if err != nil {
			panic(in.errorf("%v", err).is("ValueError"))
		}
		return l.IR()
	}
	def("make_swizzled_layout(buffer, k_major=True, allow_pad=True)", func(in *interp, a *args) value {
		b, shape := in.constShape(a, 0)
		l, err := layout.SharedTile(shape, int64(b.Type.Bits))
		return result(in, l, err)
	})
	def("make_wgmma_swizzled_layout(buffer, continuity=None, k_major=True)", func(in *interp, a *args) value {
		b, shape := in.constShape(a, 0)
		l, err := layout.SharedTile(shape, int64(b.Type.Bits))
		return result(in, l, err)
	})
	for bits, name := range map[int]string{3: "full", 2: "half", 1: "quarter"} {
		def("make_"+name+"_bank_swizzled_layout(buffer)", func(in *interp, a *args) value {
			b, shape := in.constShape(a, 0)
			if len(shape) != 2 {
				panic(in.errorAt(a.at[0], "%s needs a buffer of two dimensions, got %d", a.name(), len(shape)).is("ValueError"))
			}
			l, err := layout.Swizzle(shape[0], shape[1], int64(b.Type.Bits), bits)
			return result(in, l, err)
		})
	}
	def("make_linear_layout(buffer_or_load_or_region)", func(in *interp, a *args) value {
		_, shape := in.constShape(a, 0)
		l, err := layout.Linear(shape)
		return result(in, l, err)
	})
	m.names = func() []string { return sortedKeys(m.attrs) }
	return m
}

// addWarpSchedules adds T.WSSchedule and what it is made of. A schedule is kept
// as nested dictionaries.
func addWarpSchedules(m *module) {
	record := func(sig string) *builtin {
		s := parseSig(sig)
		return &builtin{name: "T." + s.name, sig: s, fn: func(in *interp, a *args) value {
			d := (&ir.Dict{}).With("kind", ir.Str(s.name))
			for i, p := range s.params {
				d = d.With(p.name, in.toAttr(a.v[i]))
			}
			return &attrValue{d}
		}}
	}
	m.attrs["WSRole"] = record("WSRole(name, *, warps_lo, warps_hi, max_nreg=0)")
	m.attrs["WSPipeline"] = record("WSPipeline(name, buffers, depth)")
	m.attrs["WSOpRef"] = record("WSOpRef(id)")
	scope := record("WSScope(id, bodies)")
	m.attrs["WSScope"] = &module{name: "WSScope", attrs: map[string]value{"ROOT": "tl.ws_scope_root", "__call__": scope}}
	sync := &module{name: "WSSync", attrs: map[string]value{}}
	for _, kind := range []string{"producer_acquire", "producer_commit", "consumer_wait", "consumer_release"} {
		sync.attrs[kind] = record(kind + "(pipeline, stage=0)")
	}
	m.attrs["WSSync"] = sync
	sched := parseSig("WSSchedule(num_warps, roles, pipelines, scopes)")
	rec := record("WSSchedule(num_warps, roles, pipelines, scopes)")
	m.attrs["WSSchedule"] = &builtin{name: "T.WSSchedule", sig: sched, fn: func(in *interp, a *args) value {
		if n := in.intArg(a, 0); n <= 0 || n%4 != 0 {
			panic(in.errorAt(a.at[0], "num_warps is %d: expected a positive multiple of 4", n).is("AssertionError"))
		}
		return rec.fn(in, a)
	}}
	m.attrs["annotate_ws_schedule"] = &builtin{name: "T.annotate_ws_schedule", sig: parseSig("T.annotate_ws_schedule(schedule)"), fn: func(in *interp, a *args) value {
		s, ok := a.v[0].(*attrValue)
		if !ok {
			panic(in.errorAt(a.at[0], "T.annotate_ws_schedule needs a T.WSSchedule, got %s", in.typeWithValue(a.v[0])).is("AssertionError"))
		}
		in.needKernel(a.name()).blockAttr(in, "tl.ws_schedule", s.a)
		return none
	}}
}
