package tilelang

import (
	"fmt"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
)

func langAnnotations(def definer) {
	def("use_swizzle(panel_size, order=\"row\", enable=True)", func(in *interp, a *args) value {
		if !in.boolArg(a, 2) {
			return none
		}
		fn := map[string]string{"row": "rasterization2DRow", "column": "rasterization2DColumn", "mlx": "rasterization2DMLX"}[in.oneOf(a, 1, "row", "column", "mlx")]
		return &attrCtx{node: ir.AttrNone{}, key: "threadblock_swizzle_pattern", value: in.intrin("tvm_tuple", fn, in.exprArg(a, 0))}
	})
	// bufferMap is a dict from buffers to something, as a block attribute.
	bufferMap := func(in *interp, a *args, each func(b *ir.Buffer, v value) ir.Attr) *ir.Dict {
		d, ok := a.v[0].(*dict)
		if !ok {
			panic(in.errorAt(a.at[0], "%s needs a dict from buffers, got %s", a.name(), typeName(a.v[0])).is("TypeError"))
		}
		out := &ir.Dict{}
		for i, k := range d.keys {
			b, ok := k.(*ir.Buffer)
			if !ok {
				panic(in.errorAt(a.at[0], "a key of %s is %s: expected a buffer", a.name(), in.typeWithValue(k)).is("TypeError"))
			}
			out.Entries = append(out.Entries, ir.DictEntry{Key: b.Data, Value: each(b, d.vals[i])})
		}
		return out
	}
	def("annotate_layout(layout_map)", func(in *interp, a *args) value {
		in.needKernel(a.name())
		in.b.blockAttr(in, "layout_map", bufferMap(in, a, func(b *ir.Buffer, v value) ir.Attr {
			return in.layoutFor(a, b, v)
		}))
		return none
	})
	def("annotate_safe_value(safe_value_map)", func(in *interp, a *args) value {
		in.needKernel(a.name())
		in.b.blockAttr(in, "safe_value_map", bufferMap(in, a, func(b *ir.Buffer, v value) ir.Attr { return in.toAttr(v) }))
		return none
	})
	def("annotate_l2_hit_ratio(l2_hit_ratio_map)", func(in *interp, a *args) value {
		in.needKernel(a.name())
		in.b.blockAttr(in, "l2_hit_ratio_map", bufferMap(in, a, func(b *ir.Buffer, v value) ir.Attr {
			if b.Scope() != "global" {
				panic(in.errorAt(a.at[0], "persistence in L2 is for global buffers, but %s lies in %s", b.Name, b.Scope()).
					note(b.Org, "%s is declared here", b.Name).is("AssertionError"))
			}
			f, ok := toFloat(v)
			if !ok {
				panic(in.errorAt(a.at[0], "a hit ratio is %s: expected a number", in.typeWithValue(v)).is("TypeError"))
			}
			return ir.FloatConst(ir.DFloat32, f)
		}))
		return none
	})
	def("annotate_restrict_buffers(*buffers)", func(in *interp, a *args) value {
		in.needKernel(a.name())
		var l ir.List
		for i, v := range a.rest {
			b, ok := v.(*ir.Buffer)
			if !ok {
				panic(in.errorAt(a.restW[i], "%s needs buffers, got %s", a.name(), in.typeWithValue(v)).is("TypeError"))
			}
			l = append(l, b.Data)
		}
		if l != nil {
			in.b.blockAttr(in, "tl.non_restrict_params", l)
		}
		return none
	})
	def("annotate_min_blocks_per_sm(n)", func(in *interp, a *args) value {
		n := in.intArg(a, 0)
		if n <= 0 {
			panic(in.errorAt(a.at[0], "n is %d: expected a positive number", n).is("AssertionError"))
		}
		return &attrCtx{node: ir.AttrNone{}, key: "tl.min_blocks_per_sm", value: ir.I32(n)}
	})
	def("annotate_ws_pipeline_depth(depth_map)", func(in *interp, a *args) value {
		return &attrCtx{node: bufferMap(in, a, func(b *ir.Buffer, v value) ir.Attr {
			n, ok := v.(int64)
			if !ok || n < 1 {
				panic(in.errorAt(a.at[0], "a pipeline depth is %s: expected a positive number", in.describe(v)).is("AssertionError"))
			}
			return ir.I32(n)
		}), key: "tl.ws_pipeline_depth", value: ir.I32(0)}
	})
	def("annotate_compile_flags(flags)", func(in *interp, a *args) value {
		b := in.needKernel(a.name())
		v := a.v[0]
		if s, ok := v.(string); ok {
			v = &list{[]value{s}}
		}
		b.flags = ir.List{}
		for _, x := range in.iterate(v) {
			b.flags = append(b.flags, in.toAttr(x))
		}
		return none
	})
	def("annotate_pass_configs(configs)", func(in *interp, a *args) value {
		d, ok := a.v[0].(*dict)
		if !ok {
			panic(in.errorAt(a.at[0], "%s needs a dict, got %s", a.name(), typeName(a.v[0])).is("TypeError"))
		}
		in.needKernel(a.name()).configs = d
		return none
	})
	def("import_source(source=None)", func(in *interp, a *args) value {
		if !isNone(a.v[0]) {
			in.needKernel(a.name()).blockAttr(in, "pragma_import_c", ir.Str(in.stringArg(a, 0)))
		}
		return none
	})
	def("attr(node, attr_key, value)", func(in *interp, a *args) value {
		return &attrCtx{node: in.toAttr(a.v[0]), key: in.stringArg(a, 1), value: in.toAttr(a.v[2])}
	})
	def("ws_op(op_id)", func(in *interp, a *args) value {
		s := in.stringArg(a, 0)
		if s == "" {
			panic(in.errorAt(a.at[0], "the id of T.ws_op is empty").is("AssertionError"))
		}
		return &attrCtx{node: ir.AttrNone{}, key: "tl.ws_op_id", value: ir.Str(s)}
	})
	def("sblock_attr(attrs)", func(in *interp, a *args) value {
		d, ok := a.v[0].(*dict)
		if !ok {
			panic(in.errorAt(a.at[0], "%s needs a dict, got %s", a.name(), typeName(a.v[0])).is("TypeError"))
		}
		b := in.needKernel(a.name())
		for i, k := range d.keys {
			name, ok := k.(string)
			if !ok {
				panic(in.errorAt(a.at[0], "an attribute's name is %s", in.typeWithValue(k)).is("TypeError"))
			}
			b.blockAttr(in, name, in.toAttr(d.vals[i]))
		}
		return none
	})
}

// langCalls adds calls out of the IR, evaluation, asserts and printing.
func langCalls(def definer) {
	for _, name := range []string{"call_extern", "call_pure_extern"} {
		def(name+"(dtype, func_name, *args)", func(in *interp, a *args) value {
			return in.typedIntrin(name, in.dtypeOf(a.v[0], a.at[0]), append([]value{in.stringArg(a, 1)}, a.rest...)...)
		}).shift = "dtype"
	}
	def("call_intrin(dtype, func_name, *args, annotations=None)", func(in *interp, a *args) value {
		name := ""
		switch f := a.v[1].(type) {
		case string:
			name = f
		case *opValue:
			name = f.op.Name
		}
		op := lookupOp(name)
		if op == nil {
			f := in.errorAt(a.at[1], "there is no operator %s", in.describe(a.v[1])).is("ValueError")
			var names []string
			for _, o := range ir.Ops() {
				names = append(names, o.Name)
			}
			if near := diag.Nearest(name, names); near != "" {
				f.hint("did you mean %s?", near)
			}
			panic(f)
		}
		t := in.dtypeOf(a.v[0], a.at[0])
		list := in.intrinArgs(a.rest)
		if len(list) < op.MinArgs || op.MaxArgs >= 0 && len(list) > op.MaxArgs {
			panic(in.errorf("operator %s with %d arguments", op.Name, len(list)).is("TypeError"))
		}
		if op.Rule != ir.TypeFirst && op.Rule != ir.TypeLast {
			r, err := op.ResultType(list, t)
			if err != nil {
				panic(in.errorf("%v", err).is("TypeError"))
			}
			t = r
		}
		c := &ir.Call{Op: op, Type: t, Args: list}
		return in.withAttrs(c, (&callAttrs{}).from(in, a.v[2]))
	}).shift = "dtype"
	def("call_packed(*args)", func(in *interp, a *args) value { return in.intrin("call_packed", a.rest...) })
	def("tvm_tuple(*args)", func(in *interp, a *args) value { return in.intrin("tvm_tuple", a.rest...) })
	def("type_annotation(dtype)", func(in *interp, a *args) value {
		return in.typedIntrin("type_annotation", in.dtypeOf(a.v[0], a.at[0]))
	})
	def("tvm_access_ptr(ptype, data, offset, extent, rw_mask)", func(in *interp, a *args) value {
		return in.intrin("tvm_access_ptr", a.v...)
	})
	def("address_of(obj)", func(in *interp, a *args) value {
		switch x := in.resolveLet(a.v[0]).(type) {
		case *ir.Buffer:
			idx := make([]ir.Expr, len(x.Shape))
			for i := range idx {
				idx[i] = ir.I32(0)
			}
			return in.intrin("address_of", &ir.BufferLoad{Buffer: x, Indices: idx})
		case *ir.BufferLoad:
			return in.intrin("address_of", x)
		case *region:
			return in.intrin("address_of", in.toExpr(x))
		}
		panic(in.errorAt(a.at[0], "T.address_of of %s: expected an element of a buffer", in.typeWithValue(a.v[0])).is("ValueError"))
	})
	def("access_ptr(base, access_type=\"r\", *extents, offset=0, extent=None, ignore_last_ndim=0)", func(in *interp, a *args) value {
		mask := int64(0)
		if isPyInt(a.v[1]) {
			mask = in.intArg(a, 1)
		} else {
			mask = map[string]int64{"r": 1, "w": 2, "rw": 3}[in.oneOf(a, 1, "r", "w", "rw")]
		}
		if in.intArg(a, 4) != 0 {
			panic(in.errorAt(a.at[4], "ignore_last_ndim is not supported"))
		}
		var ext ir.Expr
		switch {
		case !isNone(a.v[3]):
			ext = in.exprArg(a, 3)
		case len(a.rest) > 0:
			list := a.rest
			if t, ok := list[0].(*tuple); ok && len(list) == 1 {
				list = t.elts
			}
			ext = ir.Expr(ir.I32(1))
			for _, v := range list {
				ext = in.mul(ext, in.toExpr(v))
			}
		}
		c := in.accessPtr(a.v[0], "base", a.at[0], mask, ext)
		if off := in.exprArg(a, 2); !ir.IsConst(off, 0) {
			l := c.Args[0].(*ir.BufferLoad)
			if len(l.Indices) != 1 {
				panic(in.errorAt(a.at[2], "offset is for buffers of one dimension").hint("write it into the index").is("ValueError"))
			}
			c.Args[0] = &ir.BufferLoad{Buffer: l.Buffer, Indices: []ir.Expr{in.add(l.Indices[0], off)}}
		}
		return c
	})
	def("tvm_thread_allreduce(*args, dtype=None)", func(in *interp, a *args) value { return in.intrin("tvm_thread_allreduce", a.rest...) })
	def("comm_reducer(combiner, identity)", func(in *interp, a *args) value { return in.commReducer(a) })
	def("evaluate(value)", func(in *interp, a *args) value {
		b := in.needKernel(a.name())
		if s, ok := a.v[0].(*storeValue); ok {
			b.storeAt(in, s.buf, s.idx, s.value)
			return none
		}
		b.evaluate(in, in.exprArg(a, 0))
		return none
	})
	def("buffer_store(buffer, value, indices)", func(in *interp, a *args) value {
		in.needKernel(a.name()).store(in, in.bufferArg(a, 0), a.v[2], a.v[1])
		return none
	})
	def("assume(cond)", func(in *interp, a *args) value { return in.intrin("assume", in.exprArg(a, 0)) })
	def("If(condition)", func(in *interp, a *args) value {
		in.needKernel(a.name())
		e := in.exprArg(a, 0)
		in.wantBool(e)
		return &ifCtx{e}
	})
	def("Then()", func(in *interp, a *args) value {
		in.needKernel(a.name())
		return &branchCtx{}
	})
	def("Else()", func(in *interp, a *args) value {
		in.needKernel(a.name())
		return &branchCtx{els: true}
	})
	def("Assert(condition, message, error_kind=\"RuntimeError\")", func(in *interp, a *args) value {
		c := &assertCtx{cond: in.exprArg(a, 0), kind: in.stringArg(a, 2)}
		in.wantBool(c.cond)
		v := a.v[1]
		if s, ok := textOf(v); ok {
			v = &list{[]value{s}}
		}
		for _, x := range in.iterate(v) {
			c.message = append(c.message, in.toExpr(x))
		}
		return c
	})
	def("device_assert(condition, msg=\"\", no_stack_info=False)", func(in *interp, a *args) value {
		b := in.needKernel(a.name())
		c := in.exprArg(a, 0)
		in.wantBool(c)
		// It is a macro, which binds its condition, but for == and !=.
		switch c.(type) {
		case *ir.Var, *ir.IntImm:
		default:
			if _, unbound := a.v[0].(*eqOp); !unbound {
				c = b.bindVar(in, "condition", c)
			}
		}
		msg := in.stringArg(a, 1)
		switch {
		case !in.boolArg(a, 2):
			msg += "\n"
			for _, s := range append(append([]string(nil), b.stack...), fmt.Sprintf("%s:%d in %s", a.call.Src.Name, a.call.Line(), b.fn.Name)) {
				msg += "  at " + s + "\n"
			}
		case msg == "":
			b.evaluate(in, in.intrin("device_assert", c))
			return none
		}
		b.evaluate(in, in.intrin("device_assert_with_msg", c, msg))
		return none
	})
	def("print(obj=None, msg=\"\", warp_group_id=0, warp_id=0)", func(in *interp, a *args) value { return in.devicePrint(a) })
	anyAll := func(op string) func(in *interp, a *args) value {
		return func(in *interp, a *args) value {
			r := in.wholeRegion(a.v[0], "buffer of "+a.name(), a.at[0])
			n := ir.Expr(ir.I32(1))
			if _, whole := in.resolveLet(a.v[0]).(*ir.Buffer); whole {
				n = r.buf.Shape[0]
				for _, e := range r.buf.Shape[1:] {
					n = in.mul(n, e)
				}
			} else {
				for i, d := range r.rng {
					if !ir.IsConst(d.Extent, 1) && i != len(r.rng)-1 {
						panic(in.errorAt(a.at[0], "%s of a region needs extent 1 in all dimensions but the last", a.name()).is("ValueError"))
					}
					n = d.Extent
				}
			}
			mins, _ := r.parts()
			return in.intrin(op, in.accessPtr(&ir.BufferLoad{Buffer: r.buf, Indices: mins}, "", a.at[0], accessRead, n), n)
		}
	}
	def("any_of(buffer)", anyAll("any_of"))
	def("all_of(buffer)", anyAll("all_of"))
	def("dp4a(A, B, C)", func(in *interp, a *args) value {
		for i, t := range []ir.DType{ir.DInt8, ir.DInt8, ir.DInt32} {
			b := in.operand(a.v[i])
			if b == nil || b.Type != t {
				panic(in.errorAt(a.at[i], "operand %s of T.dp4a must hold %s", a.param(i), t).is("ValueError"))
			}
		}
		return in.typedIntrin("call_extern", ir.DHandle, "DP4A", in.accessPtr(a.v[0], "A", a.at[0], accessRead, nil),
			in.accessPtr(a.v[1], "B", a.at[1], accessRead, nil), in.accessPtr(a.v[2], "C", a.at[2], accessRead|accessWrite, nil))
	})
}

// commReducer is T.comm_reducer(lambda x, y: ..., [identity]).
func (in *interp) commReducer(a *args) value {
	r := &ir.CommReducer{}
	names := [2]string{"x", "y"}
	if f, ok := a.v[0].(*function); ok && len(f.params) == 2 {
		names = [2]string{f.params[0].Name, f.params[1].Name}
	}
	var xs, ys []value
	for _, v := range in.iterate(a.v[1]) {
		id := in.toExpr(v)
		x, y := &ir.Var{Name: names[0], Type: id.DType()}, &ir.Var{Name: names[1], Type: id.DType()}
		r.Identity = append(r.Identity, id)
		r.LHS, r.RHS = append(r.LHS, x), append(r.RHS, y)
		xs, ys = append(xs, x), append(ys, y)
	}
	res := in.call(a.v[0], append(xs, ys...))
	if t, ok := res.(*tuple); ok {
		for _, v := range t.elts {
			r.Result = append(r.Result, in.toExpr(v))
		}
	} else {
		r.Result = []ir.Expr{in.toExpr(res)}
	}
	if len(r.Result) != len(r.LHS) {
		panic(in.errorf("the combiner gives %d values for %d", len(r.Result), len(r.LHS)).is("ValueError"))
	}
	return &attrValue{r}
}

// devicePrint is T.print: of an expression, or of a buffer by one thread.
func (in *interp) devicePrint(a *args) value {
	b := in.needKernel(a.name())
	msg := in.stringArg(a, 1)
	if isNone(a.v[0]) {
		if msg == "" {
			panic(in.errorf("T.print needs something to print").is("AssertionError"))
		}
		b.evaluate(in, in.typedIntrin("call_extern", ir.DHandle, "debug_print_msg", msg))
		return none
	}
	buf, isBuf := in.resolveLet(a.v[0]).(*ir.Buffer)
	if !isBuf {
		e := in.exprArg(a, 0)
		if msg == "" {
			msg = "expr<" + exprText(e) + ">"
		}
		if _, isVar := e.(*ir.Var); !isVar {
			e = b.bindVar(in, "var", e)
		}
		b.evaluate(in, in.typedIntrin("call_extern", ir.DHandle, "debug_print_var", msg, e))
		return none
	}
	l := b.current(in)
	scope := buf.Scope()
	if msg == "" && scope != "global" {
		msg = "buffer<" + buf.Name + ", " + buf.Type.String() + ">"
	}
	n := ir.Expr(ir.I32(1))
	for _, e := range buf.Shape {
		n = in.mul(n, e)
	}
	from := buf
	cond := ir.Expr(nil)
	switch scope {
	case "local", "global":
	case "local.fragment", "shared", "shared.dyn":
		if scope == "local.fragment" {
			from = b.allocate("smem", buf.Type, "shared", b.org, buf.Shape...)
			b.evaluate(in, in.intrin("copy", in.tileRegion(buf, accessRead, "", ir.Span{}), in.tileRegion(from, accessWrite, "", ir.Span{})))
		}
		// TileLang's condition names the first axis of the block alone.
		lane := in.intArg(a, 2)*warpGroup + in.intArg(a, 3)*warpSize
		cond = in.binary(ir.EQ, l.threads[0], ir.I32(lane))
	default:
		panic(in.errorAt(a.at[0], "T.print of %s, which lies in %s", buf.Name, scope).note(buf.Org, "%s is declared here", buf.Name).is("ValueError"))
	}
	loop := func() {
		org := b.org
		spec := in.rangeLoop(int64(0), n, ir.Serial, nil)
		i := spec.vars[0]
		i.Name = "i"
		b.inside(in, &bframe{kind: fkFor, holds: true, close: func(s ir.Stmt) ir.Stmt { return spec.make(s, org) }}, func() {
			load := &ir.BufferLoad{Buffer: from, Indices: in.coordinates(i, buf.Shape)}
			b.evaluate(in, in.typedIntrin("call_extern", ir.DHandle, "debug_print_buffer_value", msg, buf.Name, i, load))
		})
	}
	if cond == nil {
		loop()
	} else {
		b.branch(in, cond, loop, false, nil)
	}
	return none
}

const warpSize = 32
