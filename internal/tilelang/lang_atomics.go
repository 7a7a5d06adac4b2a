package tilelang

import "lowertrace/internal/ir"

var memoryOrders = map[string]int64{"relaxed": 0, "consume": 1, "acquire": 2, "release": 3, "acq_rel": 4, "seq_cst": 5}

func (in *interp) memoryOrder(a *args, i int, allowed ...string) int64 {
	if len(allowed) == 0 {
		allowed = []string{"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"}
	}
	return memoryOrders[in.oneOf(a, i, allowed...)]
}

// accessPtr is T.access_ptr of a buffer, region or element.
func (in *interp) accessPtr(v value, what string, at ir.Span, mask int64, extent ir.Expr) *ir.Call {
	var buf *ir.Buffer
	var mins []ir.Expr
	idx := func() ir.DType {
		if len(buf.Shape) > 0 {
			return buf.Shape[0].DType()
		}
		return ir.DInt32
	}
	product := func(list []ir.Expr) ir.Expr {
		e := ir.Expr(ir.IntConst(idx(), 1))
		for _, x := range list {
			e = in.mul(e, x)
		}
		return e
	}
	switch x := in.resolveLet(v).(type) {
	case *ir.BufferLoad:
		buf = x.Buffer
		if r := rampRegion(x); r != nil {
			mins, _ = r.parts()
		} else {
			mins = x.Indices
		}
		if extent == nil {
			extent = ir.IntConst(idx(), 1)
		}
	case *region:
		buf = x.buf
		var ext []ir.Expr
		mins, ext = x.parts()
		if extent == nil {
			extent = product(ext)
		}
	case *ir.Buffer:
		buf = x
		for range x.Shape {
			mins = append(mins, ir.IntConst(idx(), 0))
		}
		if extent == nil {
			extent = product(x.Shape)
		}
	case *unknown:
		panic(in.needKnown(x))
	default:
		panic(in.errorAt(at, "%s is %s: expected a buffer, a region or an element", what, in.typeWithValue(v)).is("TypeError"))
	}
	return in.intrin("access_ptr", in.checked(&ir.BufferLoad{Buffer: buf, Indices: mins}), extent, ir.I32(mask))
}

// atomic is T.atomic_add and its like: of a single element, or of a tile.
func (in *interp) atomic(name string, a *args, order, ret int, attrs *callAttrs, always bool) value {
	in.knownOperands(a, 0, 1)
	dv, sv := in.resolveLet(a.v[0]), in.resolveLet(a.v[1])
	de, se := in.extentOf(dv), in.extentOf(sv)
	prev := in.boolArg(a, ret)
	hasOrder := !isNone(a.v[order])
	var id int64
	if hasOrder {
		id = in.memoryOrder(a, order)
	}
	buf := in.operand(dv)
	if buf == nil {
		panic(in.errorAt(a.at[0], "dst of %s is %s: expected a buffer element or region", a.name(), in.typeWithValue(a.v[0])).is("TypeError"))
	}
	if de == nil && se == nil {
		op := "atomic_" + name + "_elem_op"
		if prev {
			op = "atomic_" + name + "_ret_elem_op"
		}
		argv := []value{in.accessPtr(dv, "dst", a.at[0], accessRead|accessWrite, nil), in.exprAt(in.plain(a.v[1]), a.at[1])}
		if hasOrder || always {
			argv = append(argv, id)
		}
		return in.withAttrs(in.intrin(op, argv...), attrs)
	}
	db, dIsBuf := dv.(*ir.Buffer)
	sb, sIsBuf := sv.(*ir.Buffer)
	if dIsBuf && sIsBuf {
		in.sameShapes(a, sb, db)
	}
	if prev {
		panic(in.errorAt(a.at[ret], "return_prev is for single elements").is("NotImplementedError"))
	}
	var src value
	if se != nil {
		src = in.sizedRegion(sv, accessRead, se, "value", a.at[1])
	} else {
		src = in.exprAt(sv, a.at[1])
		se = onesOf(len(de))
	}
	if de == nil {
		de = onesOf(len(se))
	}
	_, de = in.pairExtents(se, de)
	dst := in.sizedRegion(dv, accessWrite, de, "dst", a.at[0])
	if hasOrder {
		attrs.list = append(attrs.list, ir.Arg{Name: "memory_order", Value: ir.I32(id)})
	}
	return in.withAttrs(in.intrin("atomic"+name, src, dst), attrs)
}

func langAtomics(def definer) {
	def("atomic_add(dst, value, memory_order=None, return_prev=False, use_tma=False, annotations=None)", func(in *interp, a *args) value {
		c := (&callAttrs{}).from(in, a.v[5])
		if in.boolArg(a, 4) {
			c.set("use_tma", ir.I32(1))
		}
		return in.atomic("add", a, 2, 3, c, false)
	})
	for _, name := range []string{"max", "min"} {
		def("atomic_"+name+"(dst, value, memory_order=None, return_prev=False, annotations=None)", func(in *interp, a *args) value {
			return in.atomic(name, a, 2, 3, (&callAttrs{}).from(in, a.v[4]), true)
		})
	}
	for _, w := range []string{"x2", "x4"} {
		def("atomic_add"+w+"(dst, value, return_prev=False)", func(in *interp, a *args) value {
			in.knownOperands(a, 0, 1)
			op := "atomic_add" + w + "_elem_op"
			dst := in.accessPtr(a.v[0], "dst", a.at[0], accessRead|accessWrite, nil)
			val := in.accessPtr(a.v[1], "value", a.at[1], accessRead, nil)
			if !in.boolArg(a, 2) {
				return in.intrin(op, dst, val)
			}
			lanes := 2
			if w == "x4" {
				lanes = 4
			}
			return in.typedIntrin("atomic_add"+w+"_ret_elem_op", in.operand(a.v[0]).Type.WithLanes(lanes), dst, val)
		})
	}
	def("atomic_load(src, memory_order=\"seq_cst\")", func(in *interp, a *args) value {
		return in.intrin("atomic_load_elem_op", in.accessPtr(a.v[0], "src", a.at[0], accessRead, nil),
			in.memoryOrder(a, 1, "relaxed", "consume", "acquire", "seq_cst"))
	})
	def("atomic_store(dst, src, memory_order=\"seq_cst\")", func(in *interp, a *args) value {
		return in.intrin("atomic_store_elem_op", in.accessPtr(a.v[0], "dst", a.at[0], accessWrite, nil), in.exprArg(a, 1),
			in.memoryOrder(a, 2, "relaxed", "release", "seq_cst"))
	})
	def("atomic_or(dst, value, memory_order=None)", func(in *interp, a *args) value {
		if in.extentOf(a.v[0]) != nil || in.extentOf(a.v[1]) != nil {
			panic(in.errorf("T.atomic_or works on single elements").is("NotImplementedError"))
		}
		id := int64(0)
		if !isNone(a.v[2]) {
			id = in.memoryOrder(a, 2)
		}
		return in.intrin("atomic_or_elem_op", in.accessPtr(a.v[0], "dst", a.at[0], accessRead|accessWrite, nil), in.exprArg(a, 1), id)
	})
}
