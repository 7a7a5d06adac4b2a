package tilelang

import (
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
)

// attr is x.name.
func (in *interp) attr(x value, name string) value {
	if v, ok := in.getAttr(x, name); ok {
		return v
	}
	if what := unsupported(name); what != "" && x == value(in.lang) {
		panic(in.errorf("T.%s, for %s, is not supported", name, what).is("AttributeError"))
	}
	f := in.errorf("%s has no attribute %s", in.subject(x), name).is("AttributeError")
	if near := diag.Nearest(name, in.attrNames(x)); near != "" {
		f.hint("did you mean %s?", in.dotted(x, near))
	}
	panic(f)
}

func (in *interp) subject(x value) string {
	switch x := x.(type) {
	case *module:
		if x == in.lang {
			return "T"
		}
		return x.name
	case *class:
		return x.name
	case *ir.Buffer:
		return "buffer " + x.Name
	}
	return "a " + typeName(x)
}

func (in *interp) dotted(x value, name string) string {
	if x == value(in.lang) {
		return "T." + name
	}
	return name
}

func (in *interp) attrNames(x value) []string {
	switch x := x.(type) {
	case *module:
		if x.names != nil {
			return x.names()
		}
		return sortedKeys(x.attrs)
	case *instance:
		return append(sortedKeys(x.attrs), sortedKeys(x.cls.attrs)...)
	case *class:
		return sortedKeys(x.attrs)
	case *ir.Buffer:
		return []string{"shape", "dtype", "data", "strides", "scope", "name", "access_ptr", "elem_offset"}
	case ir.DType:
		return []string{"bits", "bytes", "lanes", "itemsize"}
	case ir.Expr:
		return []string{"dtype", "astype", "value", "buffer", "indices", "name"}
	}
	return sortedKeys(methods[typeName(x)])
}

// getAttr finds an attribute.
func (in *interp) getAttr(x value, name string) (value, bool) {
	switch x := x.(type) {
	case *unknown:
		return &unknown{what: x.what + "." + name, why: x.why, at: x.at, looked: x.looked}, true
	case *module:
		if v, ok := x.attrs[name]; ok {
			return v, true
		}
		if x.get != nil {
			return x.get(in, name)
		}
		return nil, false
	case *tensor:
		return x.attr(in, name)
	case ir.DType:
		return in.dtypeAttr(x, name)
	case *ir.Buffer:
		return in.bufferAttr(x, name)
	case *eqOp, *ref:
		return in.getAttr(in.toExpr(x), name)
	case ir.Expr:
		return in.exprAttr(x, name)
	case *region:
		switch name {
		case "buffer":
			return x.buf, true
		case "region":
			out := &list{}
			for _, r := range x.rng {
				out.elts = append(out.elts, &module{name: "Range", attrs: map[string]value{"min": r.Min, "extent": r.Extent}})
			}
			return out, true
		case "dtype":
			return x.buf.Type, true
		case "shape":
			_, ext := x.parts()
			return exprsValue(ext), true
		}
		return nil, false
	case *instance:
		return in.instanceAttr(x, name)
	case *class:
		return in.classAttr(x, name)
	case *function:
		switch name {
		case "__name__", "__qualname__":
			return x.name, true
		case "__doc__":
			return none, true
		}
		return nil, false
	case *jitFunc:
		return in.jitAttr(x, name)
	case *primFunc:
		switch name {
		case "__name__":
			return x.name, true
		}
		return &unknown{what: x.name + "." + name, at: in.here()}, true
	case *jitKernel:
		return &unknown{what: x.jit.name + "(...)." + name, at: in.here()}, true
	case *exception:
		if name == "args" {
			return &tuple{x.args}, true
		}
		return nil, false
	case *outTensor:
		switch name {
		case "shape":
			return exprsValue(x.shape), true
		case "dtype":
			return x.dtype, true
		}
		return nil, false
	case *ir.Layout:
		switch name {
		case "index":
			return exprsValue(x.Forward), true
		case "get_forward_index":
			return rawBuiltin(name, func(in *interp, a *args) value { return exprsValue(x.Forward) }), true
		}
		return nil, false
	case *builtin:
		if name == "__name__" {
			return x.name, true
		}
		if x.name == "T.Tensor" || x.name == "T.Buffer" {
			if name == "from_ptr" {
				return &builtin{name: "T.Tensor.from_ptr", sig: parseSig("T.Tensor.from_ptr(pointer_var, shape, dtype=\"float32\", strides=None)"), fn: func(in *interp, a *args) value {
					return in.apply(langFuncs()["make_tensor"], &args{pos: a.v, call: a.call})
				}}, true
			}
		}
		if m, ok := builtinAttrs[x.name]; ok {
			if v, ok := m[name]; ok {
				return v, true
			}
		}
		return nil, false
	}
	if m, ok := methods[typeName(x)][name]; ok {
		return &boundMethod{x, m}, true
	}
	return nil, false
}

func exprsValue(list_ []ir.Expr) value {
	out := &list{}
	for _, e := range list_ {
		out.elts = append(out.elts, value(e))
	}
	return out
}

func (in *interp) dtypeAttr(t ir.DType, name string) (value, bool) {
	raw := func(fn func(in *interp, a *args) value) (value, bool) { return rawBuiltin("dtype."+name, fn), true }
	switch name {
	case "bits":
		return int64(t.Bits), true
	case "lanes":
		return int64(t.Lanes), true
	case "bytes", "itemsize":
		return int64(t.Bytes()), true
	case "dtype", "name":
		return t.String(), true
	case "as_torch":
		return raw(func(in *interp, a *args) value { return t })
	case "with_lanes":
		return raw(func(in *interp, a *args) value {
			n, ok := int64(0), false
			if len(a.pos) == 1 {
				n, ok = a.pos[0].(int64)
			}
			if !ok || n < 1 || n > ir.MaxLanes {
				panic(in.errorf("with_lanes needs a number of lanes").is("TypeError"))
			}
			return t.WithLanes(int(n))
		})
	case "is_float4", "is_float4_e2m1fn":
		return raw(func(in *interp, a *args) value { return t.Code == ir.Float4E2M1FN })
	case "is_floating_point":
		return t.IsFloat(), true
	}
	if m, ok := methods["str"][name]; ok {
		return &boundMethod{t.String(), m}, true
	}
	return nil, false
}

func (in *interp) bufferAttr(b *ir.Buffer, name string) (value, bool) {
	switch name {
	case "shape":
		return exprsValue(b.Shape), true
	case "strides":
		return exprsValue(b.Strides), true
	case "dtype":
		return b.Type, true
	case "data":
		return b.Data, true
	case "name":
		return b.Name, true
	case "ndim":
		return int64(len(b.Shape)), true
	case "elem_offset":
		if b.ElemOffset == nil {
			return ir.I32(0), true
		}
		return b.ElemOffset, true
	case "scope":
		return rawBuiltin("scope", func(in *interp, a *args) value { return b.Scope() }), true
	case "access_ptr":
		return &builtin{name: "access_ptr", sig: parseSig("access_ptr(access_mask, ptr_type=\"handle\", content_lanes=1, offset=0, extent=None)"), fn: func(in *interp, a *args) value {
			mask := int64(0)
			if isPyInt(a.v[0]) {
				mask = in.intArg(a, 0)
			} else {
				for _, c := range in.stringArg(a, 0) {
					switch c {
					case 'r':
						mask |= accessRead
					case 'w':
						mask |= accessWrite
					default:
						panic(in.errorAt(a.at[0], "access_mask has %q: expected r and w", c).is("ValueError"))
					}
				}
			}
			var ext ir.Expr
			if !isNone(a.v[4]) {
				ext = in.exprArg(a, 4)
			}
			return in.tvmAccessPtr(b, mask, in.exprArg(a, 3), ext)
		}}, true
	}
	return nil, false
}

func (in *interp) exprAttr(e ir.Expr, name string) (value, bool) {
	switch name {
	case "dtype":
		return e.DType(), true
	case "astype":
		return &builtin{name: "astype", sig: parseSig("astype(dtype)"), fn: func(in *interp, a *args) value {
			return in.cast(in.dtypeOf(a.v[0], a.at[0]), e)
		}}, true
	case "equal":
		return &builtin{name: "equal", sig: parseSig("equal(other)"), fn: func(in *interp, a *args) value {
			return in.binary(ir.EQ, e, in.exprArg(a, 0))
		}}, true
	}
	switch x := e.(type) {
	case *ir.IntImm:
		if name == "value" {
			return x.Value, true
		}
	case *ir.FloatImm:
		if name == "value" {
			return x.Value, true
		}
	case *ir.StringImm:
		if name == "value" {
			return x.Value, true
		}
	case *ir.Var:
		if name == "name" || name == "name_hint" {
			return x.Name, true
		}
	case *ir.BufferLoad:
		if isVarBuffer(x.Buffer) {
			if v, ok := in.bufferAttr(x.Buffer, name); ok {
				return v, true
			}
		}
		switch name {
		case "buffer":
			return x.Buffer, true
		case "indices":
			return exprsValue(x.Indices), true
		}
	}
	return nil, false
}

// setAttr is x.name = v.
func (in *interp) setAttr(x value, name string, v value) {
	switch x := x.(type) {
	case *instance:
		x.attrs[name] = v
		if x.cls.meta {
			if b, ok := v.(*ir.Buffer); ok && in.b != nil && b.Name == "" {
				in.b.nameBuffer(b, strings.TrimLeft(name, "_"))
			}
		}
		return
	case *class:
		x.attrs[name] = v
		return
	case *unknown, *function, *tensor, *jitFunc, *primFunc, *jitKernel:
		return // torch.manual_seed = ..., fn.attribute = ...
	case *module:
		if x != in.lang {
			x.attrs[name] = v
			return
		}
	}
	panic(in.errorf("attribute %s of %s cannot be set", name, in.subject(x)).is("AttributeError"))
}

// index is x[i].
func (in *interp) index(x, i value) value {
	switch x := x.(type) {
	case *unknown:
		return &unknown{what: x.what + "[...]", why: x.why, at: x.at, looked: x.looked}
	case *tensor:
		return x
	case *ir.Buffer:
		return in.bufferIndex(x, i)
	case *region:
		panic(in.errorf("a region of %s is indexed again", x.buf.Name).hint("index the buffer itself").is("TypeError"))
	case *ir.BufferLoad:
		if isVarBuffer(x.Buffer) {
			return in.bufferIndex(x.Buffer, i)
		}
	case *dict:
		v, ok := x.get(in, i)
		if !ok {
			f := in.errorf("no key %s", in.describe(i)).is("KeyError")
			if s, ok := i.(string); ok {
				var names []string
				for _, k := range x.keys {
					if n, ok := k.(string); ok {
						names = append(names, n)
					}
				}
				if near := diag.Nearest(s, names); near != "" {
					f.hint("did you mean %s?", pyQuote(near))
				}
			}
			panic(f)
		}
		return v
	case *builtin:
		if strings.HasPrefix(x.name, "T.") { // T.Tensor[(M, N), "float16"]
			pos := []value{i}
			if t, ok := i.(*tuple); ok && len(t.elts) > 0 {
				nested := false
				for _, e := range t.elts {
					switch e.(type) {
					case *tuple, *list, string, ir.DType:
						nested = true
					}
				}
				if nested {
					pos = t.elts
				}
			}
			return in.apply(x, &args{pos: pos, call: in.here()})
		}
		return &unknown{what: "a type", at: in.here()}
	case *module:
		return &unknown{what: "a type", at: in.here()} // typing.List[int]
	case *class:
		if m, ok := x.attrs["__members_by_name__"].(*dict); ok {
			if v, ok := m.get(in, i); ok {
				return v
			}
		}
		return x
	case *instance:
		if m, ok := x.cls.lookup("__getitem__"); ok {
			return in.call(&boundMethod{x, m}, []value{i})
		}
		if x.cls.fields != nil && !x.cls.data {
			return in.index(&tuple{in.iterate(x)}, i)
		}
	case *jitFunc:
		return x
	case *generator:
		panic(in.errorf("a generator cannot be indexed").is("TypeError"))
	}
	switch c := x.(type) {
	case string, *tuple, *list, pyRange:
		return in.seqItem(c, i)
	case ir.DType:
		return in.seqItem(c.String(), i)
	}
	if isExpr(x) {
		panic(in.errorf("%s is indexed, but it is a single value", in.describe(x)).is("TypeError"))
	}
	panic(in.errorf("%s cannot be indexed", in.typeWithValue(x)).is("TypeError"))
}

// seqItem is an element or slice of a string, tuple, list or range.
func (in *interp) seqItem(x, i value) value {
	var elts []value
	switch c := x.(type) {
	case string:
		for _, r := range c {
			elts = append(elts, string(r))
		}
		in.cells(len(elts) / 16)
	case *tuple:
		elts = c.elts
	case *list:
		elts = c.elts
	case pyRange:
		if n, ok := i.(int64); ok {
			l := c.len()
			if n < 0 {
				n += l
			}
			if n < 0 || n >= l {
				panic(in.errorf("index %d of a range of %d", n, l).is("IndexError"))
			}
			return c.start + n*c.step
		}
		elts = in.iterate(c)
	}
	if s, ok := i.(*slice); ok {
		lo, hi, step := in.sliceBounds(s, len(elts))
		var out []value
		for k := lo; step > 0 && k < hi || step < 0 && k > hi; k += step {
			out = append(out, elts[k])
		}
		in.cells(len(out))
		switch x.(type) {
		case string:
			var sb strings.Builder
			for _, e := range out {
				sb.WriteString(e.(string))
			}
			return sb.String()
		case *tuple:
			return &tuple{out}
		}
		return &list{out}
	}
	return elts[in.seqIndex(i, len(elts), typeName(x))]
}

// seqIndex is an index into a sequence, counted from its end if negative.
func (in *interp) seqIndex(i value, n int, what string) int {
	var k int64
	switch v := i.(type) {
	case int64:
		k = v
	case bool:
		k = b2i(v)
	case *ir.IntImm:
		k = v.Value
	case *unknown:
		panic(in.needKnown(v))
	default:
		if isExpr(i) {
			panic(in.errorf("a %s is indexed with %s, which is known only when the kernel runs", what, in.describe(i)).
				hint("put the values into a buffer").is("TypeError"))
		}
		panic(in.errorf("an index of a %s is %s: expected an int", what, in.typeWithValue(i)).is("TypeError"))
	}
	j := k
	if j < 0 {
		j += int64(n)
	}
	if j < 0 || j >= int64(n) {
		panic(in.errorf("index %d of a %s of %s", k, what, diag.Count(n, "element")).is("IndexError"))
	}
	return int(j)
}

func (in *interp) sliceBounds(s *slice, n int) (lo, hi, step int) {
	get := func(v value, def int) int {
		switch x := v.(type) {
		case noneType:
			return def
		case int64:
			return int(max(min(x, 1<<40), -1<<40))
		case bool:
			return int(b2i(x))
		case *ir.IntImm:
			return int(max(min(x.Value, 1<<40), -1<<40))
		case *unknown:
			panic(in.needKnown(x))
		}
		panic(in.errorf("a slice bound is %s: expected an int", in.typeWithValue(v)).is("TypeError"))
	}
	step = get(s.step, 1)
	if step == 0 {
		panic(in.errorf("a slice with step 0").is("ValueError"))
	}
	clamp := func(v, lo, hi int) int {
		if v < 0 {
			v += n
		}
		return max(min(v, hi), lo)
	}
	if step > 0 {
		return clamp(get(s.lo, 0), 0, n), clamp(get(s.hi, n), 0, n), step
	}
	lo, hi = n-1, -1
	if !isNone(s.lo) {
		lo = clamp(get(s.lo, 0), -1, n-1)
	}
	if !isNone(s.hi) {
		hi = clamp(get(s.hi, 0), -1, n-1)
	}
	return lo, hi, step
}

// setIndex is x[i] = v.
func (in *interp) setIndex(x, i, v value) {
	switch x := x.(type) {
	case *dict:
		x.set(in, i, v)
		return
	case *list:
		if s, ok := i.(*slice); ok {
			lo, hi, step := in.sliceBounds(s, len(x.elts))
			if step != 1 {
				panic(in.errorf("a slice with a step cannot be assigned to"))
			}
			mid := in.iterate(v)
			in.cells(len(x.elts) + len(mid))
			x.elts = append(append(append([]value(nil), x.elts[:lo]...), mid...), x.elts[max(lo, hi):]...)
			return
		}
		x.elts[in.seqIndex(i, len(x.elts), "list")] = v
		return
	case *ir.Buffer:
		if in.b != nil {
			in.b.store(in, x, i, v)
			return
		}
	case *unknown, *tensor:
		return
	case *instance:
		if m, ok := x.cls.lookup("__setitem__"); ok {
			in.call(&boundMethod{x, m}, []value{i, v})
			return
		}
	}
	panic(in.errorf("an element of %s cannot be assigned to", in.typeWithValue(x)).is("TypeError"))
}

// indices are the indices of a buffer access as values.
func (in *interp) indices(b *ir.Buffer, i value) []value {
	var idx []value
	switch x := i.(type) {
	case *tuple:
		idx = x.elts
	case *list:
		idx = x.elts
	default:
		idx = []value{i}
	}
	if len(idx) != len(b.Shape) {
		panic(in.errorf("%s has %s, but %s given", b.Name, diag.Count(len(b.Shape), "dimension"), indexCount(len(idx))).
			note(b.Org, "%s is declared here, with shape %s", b.Name, shapeText(b.Shape)).is("IndexError"))
	}
	return idx
}

func indexCount(n int) string {
	if n == 1 {
		return "1 index is"
	}
	return diag.Count(n, "index") + " are"
}

// bufferIndex is buf[...]: an element, or a region if there is a slice.
func (in *interp) bufferIndex(b *ir.Buffer, i value) value {
	idx := in.indices(b, i)
	sliced := false
	for _, v := range idx {
		if s, ok := v.(*slice); ok {
			sliced = true
			if !isNone(s.step) {
				panic(in.errorf("a slice of %s has a step: only slices without one are regions", b.Name).is("RuntimeError"))
			}
		}
	}
	if !sliced {
		out := make([]ir.Expr, len(idx))
		for k, v := range idx {
			out[k] = in.indexExpr(b, k, v)
		}
		return &ir.BufferLoad{Buffer: b, Indices: out}
	}
	r := &region{buf: b}
	for k, v := range idx {
		s, ok := v.(*slice)
		if !ok {
			e := in.indexExpr(b, k, v)
			r.rng = append(r.rng, ir.Range{Min: e, Extent: ir.IntConst(e.DType(), 1)})
			continue
		}
		lo, hi := ir.Expr(ir.I32(0)), b.Shape[k]
		if !isNone(s.lo) {
			lo = in.boundExpr(b, k, s.lo)
		}
		if !isNone(s.hi) {
			hi = in.boundExpr(b, k, s.hi)
		}
		n := in.simplify(in.sub(hi, lo))
		if c, ok := ir.AsInt(n); ok && c <= 0 {
			panic(in.errorf("the slice %s:%s of %s is empty", exprText(lo), exprText(hi), b.Name).
				note(b.Org, "%s is declared here, with shape %s", b.Name, shapeText(b.Shape)).is("IndexError"))
		}
		r.rng = append(r.rng, ir.Range{Min: lo, Extent: n})
	}
	return r
}

// boundExpr is an index, or a bound of a slice, as an expression.
func (in *interp) boundExpr(b *ir.Buffer, dim int, v value) ir.Expr {
	switch x := v.(type) {
	case *unknown:
		panic(in.needKnown(x))
	case float64, string, noneType, *tuple, *list, *region:
		panic(in.errorf("index %d of %s is %s: expected an integer", dim, b.Name, in.typeWithValue(v)).is("TypeError"))
	}
	e := in.toExpr(v)
	if t := e.DType(); !t.IsInteger() && !t.IsBool() {
		panic(in.errorf("index %d of %s has type %s: expected an integer", dim, b.Name, t).hint("cast it with T.cast").is("TypeError"))
	}
	return e
}

// indexExpr is an index of a buffer as an expression; a constant one must lie
// within the dimension.
func (in *interp) indexExpr(b *ir.Buffer, dim int, v value) ir.Expr {
	e := in.boundExpr(b, dim, v)
	if c, ok := ir.AsInt(e); ok {
		if n, known := ir.AsInt(b.Shape[dim]); known && (c >= n || c < -n) {
			panic(in.errorf("index %d is outside of dimension %d of %s, which has size %d", c, dim, b.Name, n).
				note(b.Org, "%s is declared here, with shape %s", b.Name, shapeText(b.Shape)).is("IndexError"))
		}
	}
	return e
}

// storeIndex is the index of a store; slices make vectors.
func (in *interp) storeIndex(b *ir.Buffer, i value) []ir.Expr {
	idx := in.indices(b, i)
	out := make([]ir.Expr, len(idx))
	for k, v := range idx {
		s, ok := v.(*slice)
		if !ok {
			out[k] = in.indexExpr(b, k, v)
			continue
		}
		lo, hi := ir.Expr(ir.I32(0)), b.Shape[k]
		if !isNone(s.lo) {
			lo = in.boundExpr(b, k, s.lo)
		}
		if !isNone(s.hi) {
			hi = in.boundExpr(b, k, s.hi)
		}
		step := ir.Expr(ir.IntConst(lo.DType(), 1))
		if !isNone(s.step) {
			step = in.toExpr(s.step)
		}
		n := in.simplify(in.binary(ir.FloorDiv, in.sub(in.add(in.sub(hi, lo), step), ir.IntConst(lo.DType(), 1)), step))
		c, ok := ir.AsInt(n)
		switch {
		case !ok || c > ir.MaxLanes:
			panic(in.errorf("the slice %s:%s of %s has no constant size", exprText(lo), exprText(hi), b.Name).
				hint("use T.copy, or a loop").is("TypeError"))
		case c < 1:
			panic(in.errorf("the slice %s:%s of %s is empty", exprText(lo), exprText(hi), b.Name).is("IndexError"))
		case c == 1:
			out[k] = lo
		default:
			out[k] = &ir.Ramp{Base: lo, Stride: step, Lanes: int(c)}
		}
	}
	return out
}
