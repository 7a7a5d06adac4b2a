package tilelang

import (
	"regexp"
	"strings"

	"lowertrace/internal/ir"
)

// alloc makes the buffer that a T.alloc_ function is called for.
func (in *interp) alloc(a *args, shape []ir.Expr, t ir.DType, scope string) *ir.Buffer {
	b := in.needKernel(a.name())
	if t.IsVoid() || t.IsHandle() {
		panic(in.errorAt(a.at[1], "a buffer of %s", t).is("TypeError"))
	}
	in.cells(len(shape) + 4)
	return b.allocate("", t, scope, a.call, shape...)
}

// allocArgs allocates by (shape, dtype, scope).
func (in *interp) allocArgs(a *args) value {
	shape, t := in.shapeOf(a.v[0], a.at[0]), in.dtypeOf(a.v[1], a.at[1])
	scope := in.stringArg(a, 2)
	return in.alloc(a, shape, t, scope)
}

func langBuffers(def definer) {
	def("alloc_shared(shape, dtype, scope=\"shared.dyn\")", func(in *interp, a *args) value {
		shape, t := in.shapeOf(a.v[0], a.at[0]), in.dtypeOf(a.v[1], a.at[1])
		scope := in.stringArg(a, 2)
		if t == ir.DBool {
			scope = "shared" // bools cannot live in the merged dynamic allocation
		}
		return in.alloc(a, shape, t, scope)
	})
	def("alloc_local(shape, dtype, scope=\"local\")", (*interp).allocArgs)
	def("alloc_fragment(shape, dtype, scope=\"local.fragment\")", (*interp).allocArgs)
	def("alloc_global(shape, dtype, scope=\"global\")", (*interp).allocArgs)
	def("alloc_tmem(shape, dtype)", func(in *interp, a *args) value {
		shape := in.shapeOf(a.v[0], a.at[0])
		if len(shape) < 2 {
			panic(in.errorAt(a.at[0], "tensor memory needs at least two dimensions, got %d", len(shape)).is("AssertionError"))
		}
		return in.alloc(a, shape, in.dtypeOf(a.v[1], a.at[1]), "shared.tmem")
	})
	def("alloc_var(dtype, *args, scope=\"local.var\", init=None)", func(in *interp, a *args) value {
		t := in.dtypeOf(a.v[0], a.at[0])
		scope, init := in.stringArg(a, 1), a.v[2]
		for i, x := range a.rest {
			if s, ok := x.(string); ok && (i == 1 || len(a.rest) == 1) {
				scope = s
				continue
			}
			if i > 0 || !isNone(init) {
				panic(in.errorAt(a.restW[i], "T.alloc_var gets its initial value twice").is("TypeError"))
			}
			init = x
		}
		buf := in.alloc(a, []ir.Expr{ir.I32(1)}, t, scope)
		if isNone(init) {
			return buf
		}
		var e ir.Expr
		if isPyNumber(init) {
			e = in.constOf(t, init)
		} else {
			e = in.toExpr(init)
			switch e.(type) {
			case *ir.IntImm, *ir.FloatImm:
				e = in.cast(t, e)
			}
		}
		in.b.storeAt(in, buf, []ir.Expr{ir.I32(0)}, e)
		return buf
	})
	barrier := func(scope string) func(in *interp, a *args) value {
		return func(in *interp, a *args) value {
			v := a.v[0]
			if isPyInt(v) || isExpr(v) {
				v = &list{[]value{v}}
			}
			var counts ir.List
			for _, x := range in.iterate(v) {
				n, ok := x.(int64)
				if c, isImm := x.(*ir.IntImm); isImm {
					n, ok = c.Value, true
				}
				if !ok {
					panic(in.errorAt(a.at[0], "an arrive count is %s: expected a constant integer", in.typeWithValue(x)).is("TypeError"))
				}
				if n <= 0 {
					panic(in.errorAt(a.at[0], "an arrive count of %d: at least 1 is expected", n).is("ValueError"))
				}
				counts = append(counts, ir.I32(n))
			}
			if len(counts) == 0 {
				panic(in.errorAt(a.at[0], "a barrier without an arrive count").is("ValueError"))
			}
			b := in.needKernel(a.name())
			buf := b.allocate("", ir.DUInt64, scope, a.call, ir.I32(int64(len(counts))))
			b.blockAttr(in, "barrier_init", &ir.Dict{Entries: []ir.DictEntry{{Key: buf.Data, Value: counts}}})
			return buf
		}
	}
	def("alloc_barrier(arrive_count)", barrier("shared.barrier"))
	def("alloc_cluster_barrier(arrive_count)", barrier("shared.cluster_barrier"))
	desc := func(kind string, usual ir.DType) func(in *interp, a *args) value {
		return func(in *interp, a *args) value {
			t := usual
			if !isNone(a.v[0]) {
				t = in.dtypeOf(a.v[0], a.at[0])
			}
			return in.needKernel(a.name()).allocate("", t, "local.descriptor."+kind, a.call, ir.I32(1))
		}
	}
	def("alloc_wgmma_desc(dtype=None)", desc("wgmma", ir.DUInt64))
	def("alloc_tcgen05_smem_desc(dtype=None)", desc("tcgen05_smem", ir.DUInt64))
	def("alloc_tcgen05_instruction_desc(dtype=None)", desc("tcgen05_instr", ir.DUInt32))
	def("alloc_reducer(shape, dtype, op=\"sum\", replication=None)", func(in *interp, a *args) value {
		op := in.oneOf(a, 2, "sum", "max", "min", "bitand", "bitor", "bitxor")
		shape, t := in.shapeOf(a.v[0], a.at[0]), in.dtypeOf(a.v[1], a.at[1])
		if strings.HasPrefix(op, "bit") && !t.IsInteger() && !t.IsBool() {
			panic(in.errorAt(a.at[1], "a %s reducer of %s: expected an integer type", op, t).is("AssertionError"))
		}
		entry := func(buf *ir.Buffer, d *ir.Dict) *ir.Dict {
			return &ir.Dict{Entries: []ir.DictEntry{{Key: buf.Data, Value: d}}}
		}
		info := (&ir.Dict{}).With("op", ir.Str(op))
		if isNone(a.v[3]) {
			buf := in.alloc(a, shape, t, "local.reducer")
			in.b.blockAttr(in, "reducer_info_v2", entry(buf, info))
			return buf
		}
		rep := in.oneOf(a, 3, "all", "none")
		buf := in.alloc(a, shape, t, "local.fragment")
		in.b.blockAttr(in, "reducer_info", entry(buf, info.With("rep", ir.Str(rep))))
		return buf
	})
	def("empty(*shape, dtype=None)", func(in *interp, a *args) value {
		shape, dt := value(&tuple{a.rest}), a.v[0]
		if len(a.rest) > 0 {
			switch a.rest[0].(type) {
			case *tuple, *list:
				shape = a.rest[0]
				if len(a.rest) == 2 {
					dt = a.rest[1]
				} else if len(a.rest) > 2 {
					panic(in.errorf("T.empty takes a shape and a dtype").is("TypeError"))
				}
			}
		}
		t := ir.DFloat32
		if !isNone(dt) {
			t = in.dtypeOf(dt, a.call)
		}
		return &outTensor{shape: in.shapeOf(shape, a.call), dtype: t}
	})

	tensor := func(in *interp, a *args) value {
		shape, t := in.shapeOf(a.v[0], a.at[0]), in.dtypeOf(a.v[1], a.at[1])
		return in.tensorBuffer(a, shape, t, in.rowMajor(shape), a.v[2], a.v[3])
	}
	def("Tensor(shape, dtype=\"float32\", data=None, scope=None)", tensor)
	def("StridedTensor(shape, strides, dtype=\"float32\", scope=None, *, data=None)", func(in *interp, a *args) value {
		shape, t := in.shapeOf(a.v[0], a.at[0]), in.dtypeOf(a.v[2], a.at[2])
		strides := in.shapeOf(a.v[1], a.at[1])
		if len(strides) != len(shape) {
			panic(in.errorAt(a.at[1], "%d strides for a tensor of %d dimensions", len(strides), len(shape)).is("ValueError"))
		}
		return in.tensorBuffer(a, shape, t, strides, a.v[4], a.v[3])
	})
	scoped := func(scope string) func(in *interp, a *args) value {
		return func(in *interp, a *args) value {
			shape, t := in.shapeOf(a.v[0], a.at[0]), in.dtypeOf(a.v[1], a.at[1])
			s := a.v[3]
			if isNone(s) {
				s = scope
			}
			return in.tensorBuffer(a, shape, t, nil, a.v[2], s)
		}
	}
	def("FragmentBuffer(shape, dtype=\"float32\", data=None, scope=None)", scoped("local.fragment"))
	def("SharedBuffer(shape, dtype=\"float32\", data=None, scope=None)", scoped("shared.dyn"))
	def("LocalBuffer(shape, dtype=\"float32\", data=None, scope=None)", scoped("local"))
	def("Buffer(shape, dtype=\"float32\", data=None, strides=None, elem_offset=None, scope=\"global\", align=0)", func(in *interp, a *args) value {
		shape, t := in.shapeOf(a.v[0], a.at[0]), in.dtypeOf(a.v[1], a.at[1])
		var strides []ir.Expr
		if !isNone(a.v[3]) {
			strides = in.shapeOf(a.v[3], a.at[3])
		}
		return in.tensorBuffer(a, shape, t, strides, a.v[2], a.v[5])
	})
	def("match_buffer(param, shape, dtype=\"float32\", data=None, strides=None)", func(in *interp, a *args) value {
		p, ok := a.v[0].(*ir.Var)
		if !ok {
			panic(in.errorAt(a.at[0], "%s is not a parameter of the kernel", in.typeWithValue(a.v[0])).is("TypeError"))
		}
		var strides []ir.Expr
		shape := in.shapeOf(a.v[1], a.at[1])
		if !isNone(a.v[4]) {
			strides = in.shapeOf(a.v[4], a.at[4])
		}
		return in.needKernel(a.name()).matchBuffer(in, p, shape, in.dtypeOf(a.v[2], a.at[2]), strides)
	})
	def("make_tensor(ptr, shape, dtype=\"float32\", strides=None)", func(in *interp, a *args) value {
		b := in.needKernel(a.name())
		shape, t := in.shapeOf(a.v[1], a.at[1]), in.dtypeOf(a.v[2], a.at[2])
		var strides []ir.Expr
		if !isNone(a.v[3]) {
			strides = in.shapeOf(a.v[3], a.at[3])
		}
		if p, ok := a.v[0].(*ir.Var); ok {
			return b.matchBuffer(in, p, shape, t, strides)
		}
		return in.pointerBuffer(in.exprArg(a, 0), shape, t, strides)
	})
	def("make_tensor_from_addr(addr, shape, dtype=\"float32\", strides=None, storage_scope=\"global\")", func(in *interp, a *args) value {
		in.needKernel(a.name())
		shape, t := in.shapeOf(a.v[1], a.at[1]), in.dtypeOf(a.v[2], a.at[2])
		var strides []ir.Expr
		if !isNone(a.v[3]) {
			strides = in.shapeOf(a.v[3], a.at[3])
		}
		return in.pointerBuffer(in.exprArg(a, 0), shape, t, strides)
	})
	def("ptr(dtype=None, storage_scope=\"global\")", func(in *interp, a *args) value {
		v := &ir.Var{Type: ir.DHandle}
		if !isNone(a.v[0]) {
			v.Ptr = &ir.PointerType{Elem: in.dtypeOf(a.v[0], a.at[0]), Scope: in.stringArg(a, 1)}
		}
		return v
	})
	def("handle(dtype=None, storage_scope=\"global\")", func(in *interp, a *args) value {
		v := &ir.Var{Type: ir.DHandle}
		if !isNone(a.v[0]) {
			v.Ptr = &ir.PointerType{Elem: in.dtypeOf(a.v[0], a.at[0]), Scope: in.stringArg(a, 1)}
		}
		return v
	})
	def("dynamic(name, dtype=\"int32\")", func(in *interp, a *args) value {
		t := in.dtypeOf(a.v[1], a.at[1])
		return in.namedVars(in.stringArg(a, 0), func(n string) value { return &ir.Var{Name: n, Type: t} })
	})
	def("Var(name, dtype=\"int32\")", func(in *interp, a *args) value {
		return &ir.Var{Name: in.stringArg(a, 0), Type: in.dtypeOf(a.v[1], a.at[1])}
	})
	def("const(name, dtype=\"int32\")", func(in *interp, a *args) value {
		if in.b == nil || !in.b.eager {
			panic(in.errorf("T.const belongs into an eager @tilelang.jit function").is("JITNoBuilderError"))
		}
		return in.namedVars(in.stringArg(a, 0), func(n string) value {
			in.b.consted = append(in.b.consted, n)
			v, ok := in.b.consts[n]
			if s, given := in.sel.set[n]; !ok && given { // of a function that the kernel calls
				v, ok = in.settingValue(s), true
				in.b.consts[n] = v
				in.sel.used[n] = true
				in.sel.consts = append(in.sel.consts, n)
			}
			if !ok {
				f := in.errorf("the size %s is not known", n).hint("set it with --set %s=VALUE", n)
				panic(f.is("ValueError"))
			}
			return v
		})
	})
	def("view(src, shape=None, dtype=None, strides=None)", func(in *interp, a *args) value {
		src := in.bufferArg(a, 0)
		shape, t := src.Shape, src.Type
		if !isNone(a.v[1]) {
			shape = in.shapeOf(a.v[1], a.at[1])
		}
		if !isNone(a.v[2]) {
			t = in.dtypeOf(a.v[2], a.at[2])
		}
		in.sameBits(a, src, shape, t)
		strides := in.rowMajor(shape)
		if !isNone(a.v[3]) {
			strides = in.shapeOf(a.v[3], a.at[3])
			if len(strides) != len(shape) {
				panic(in.errorAt(a.at[3], "%d strides for a view of %d dimensions", len(strides), len(shape)).is("ValueError"))
			}
		}
		return in.viewOf(a, src, shape, t, strides)
	})
	def("reshape(src, shape)", func(in *interp, a *args) value {
		src := in.bufferArg(a, 0)
		shape := in.shapeOf(a.v[1], a.at[1])
		in.sameBits(a, src, shape, src.Type)
		return in.viewOf(a, src, shape, src.Type, in.rowMajor(shape))
	})
}

// tensorBuffer makes a buffer of T.Tensor(...): a parameter, or a view when
// data is given.
func (in *interp) tensorBuffer(a *args, shape []ir.Expr, t ir.DType, strides []ir.Expr, data, scope value) value {
	sc := "global"
	if s, ok := textOf(scope); ok {
		sc = s
	}
	buf := &ir.Buffer{Type: t, Shape: shape, Strides: strides, Org: a.call}
	switch p := data.(type) {
	case noneType:
		buf.Data = ir.NewPointer("", t, sc)
		if in.b != nil {
			in.b.owned[buf.Data] = true
		}
	case *ir.Var:
		if !p.Type.IsHandle() {
			panic(in.errorf("data= is %s, which is no pointer", exprText(p)).is("TypeError"))
		}
		buf.Data = p
	case *ir.Buffer:
		buf.Data = p.Data
	default:
		panic(in.errorf("data= is %s: expected a buffer's pointer, such as A.data", in.typeWithValue(data)).is("TypeError"))
	}
	return buf
}

// viewOf is another shape or type of a buffer's memory.
func (in *interp) viewOf(a *args, src *ir.Buffer, shape []ir.Expr, t ir.DType, strides []ir.Expr) value {
	if src.ElemOffset != nil && !ir.IsConst(src.ElemOffset, 0) {
		panic(in.errorf("%s does not begin at its pointer: it cannot be viewed", src.Name).is("ValueError"))
	}
	return &ir.Buffer{Type: t, Shape: shape, Strides: strides, Data: src.Data, Org: a.call}
}

func (in *interp) sameBits(a *args, src *ir.Buffer, shape []ir.Expr, t ir.DType) {
	bits := func(shape []ir.Expr, t ir.DType) ir.Expr {
		e := ir.Expr(ir.I32(1))
		for _, s := range shape {
			e = in.mul(e, s)
		}
		return in.mul(e, ir.I32(int64(t.Bits)*int64(t.Lanes)))
	}
	if x, y := bits(shape, t), bits(src.Shape, src.Type); !in.provablyEqual(x, y) {
		panic(in.errorf("a view of %s holds %s bits, but %s holds %s", shapeText(shape), exprText(in.simplify(x)), src.Name, exprText(in.simplify(y))).
			note(src.Org, "%s is declared here", src.Name).is("ValueError"))
	}
}

// pointerBuffer is a buffer at an address that is computed.
func (in *interp) pointerBuffer(addr ir.Expr, shape []ir.Expr, t ir.DType, strides []ir.Expr) value {
	if !addr.DType().IsHandle() {
		addr = in.typedIntrin("reinterpret", ir.DHandle, addr)
	}
	p := ir.NewPointer("", t, "global")
	in.b.add(in, &ir.Bind{Var: p, Value: in.checked(addr), Org: in.b.org})
	in.b.owned[p] = true
	return &ir.Buffer{Type: t, Shape: shape, Strides: strides, Data: p, Org: in.b.org}
}

var commaList = regexp.MustCompile(`\s*,\s*`)

// namedVars makes one value for each name in "m, n" or "m n".
func (in *interp) namedVars(s string, make func(name string) value) value {
	var names []string
	switch {
	case strings.Contains(s, ","):
		names = commaList.Split(strings.TrimSpace(s), -1)
	case strings.Contains(s, " "):
		names = strings.Fields(s)
	default:
		return make(s)
	}
	t := &tuple{}
	for _, n := range names {
		t.elts = append(t.elts, make(n))
	}
	return t
}

func isPyNumber(v value) bool {
	_, isFloat := v.(float64)
	return isFloat || isPyInt(v)
}

// bufferArg is an argument that must be a whole buffer.
func (in *interp) bufferArg(a *args, i int) *ir.Buffer {
	switch v := in.resolveLet(a.v[i]).(type) {
	case *ir.Buffer:
		return v
	case *ir.BufferLoad:
		if isVarBuffer(v.Buffer) {
			return v.Buffer
		}
	case *unknown:
		panic(in.needKnown(v))
	}
	panic(in.errorAt(a.at[i], "%s of %s is %s: expected a buffer", a.param(i), a.name(), in.typeWithValue(a.v[i])).is("TypeError"))
}

func shapeText(shape []ir.Expr) string {
	parts := make([]string, len(shape))
	for i, e := range shape {
		parts[i] = exprText(e)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}
