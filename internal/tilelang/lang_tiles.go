package tilelang

import (
	"strings"

	"lowertrace/internal/ir"
)

// copyRegions checks and sizes the two sides of a copy. Both are nil when it is
// of single elements.
func (in *interp) copyRegions(a *args, src, dst int) (ir.Expr, ir.Expr) {
	in.knownOperands(a, src, dst)
	sv, dv := in.resolveLet(a.v[src]), in.resolveLet(a.v[dst])
	in.tileTypes(a, src, dst)
	sb, sIsBuf := sv.(*ir.Buffer)
	db, dIsBuf := dv.(*ir.Buffer)
	if sIsBuf && dIsBuf {
		in.sameShapes(a, sb, db)
	}
	se, de := in.extentOf(sv), in.extentOf(dv)
	_, sLoad := sv.(*ir.BufferLoad)
	_, dLoad := dv.(*ir.BufferLoad)
	if se == nil && de == nil {
		if sLoad && dLoad {
			return nil, nil
		}
		panic(in.errorf("%s needs a buffer, region or element on each side, got %s and %s", a.name(), in.typeWithValue(sv), in.typeWithValue(dv)).is("TypeError"))
	}
	if se == nil && !sLoad || de == nil && !dLoad {
		i := src
		if de == nil && !dLoad {
			i = dst
		}
		panic(in.errorAt(a.at[i], "%s of %s is %s: expected a buffer, a region or an element", a.param(i), a.name(), in.typeWithValue(a.v[i])).is("ValueError"))
	}
	if se == nil {
		se = onesOf(len(de))
	}
	if de == nil {
		de = onesOf(len(se))
	}
	se, de = in.pairExtents(se, de)
	s := in.sizedRegion(sv, accessRead, se, "the source of "+a.name(), a.at[src])
	d := in.sizedRegion(dv, accessWrite, de, "the destination of "+a.name(), a.at[dst])
	in.comparableSizes(a, src, dst, s, d)
	return s, d
}

// knownOperands refuses unknown values among arguments.
func (in *interp) knownOperands(a *args, list ...int) {
	for _, i := range list {
		if u, ok := a.v[i].(*unknown); ok {
			panic(in.needKnown(u))
		}
	}
}

// sameShapes refuses a copy between whole buffers of different shapes.
func (in *interp) sameShapes(a *args, s, d *ir.Buffer) {
	same := len(s.Shape) == len(d.Shape)
	for i := range s.Shape {
		same = same && in.provablyEqual(s.Shape[i], d.Shape[i])
	}
	if !same {
		panic(in.errorf("%s from %s of shape %s to %s of shape %s", a.name(), s.Name, shapeText(s.Shape), d.Name, shapeText(d.Shape)).
			note(s.Org, "%s is declared here", s.Name).note(d.Org, "%s is declared here", d.Name).
			hint("copy a region of the larger one").is("ValueError"))
	}
}

// comparableSizes refuses a copy whose sides have different constant sizes.
func (in *interp) comparableSizes(a *args, src, dst int, s, d ir.Expr) {
	size := func(e ir.Expr) (int64, []ir.Expr, bool) {
		n := int64(1)
		ext := e.(*ir.Call).Args[2:]
		for _, x := range ext {
			c, ok := ir.AsInt(x)
			if !ok {
				return 0, ext, false
			}
			n *= c
		}
		return n, ext, true
	}
	x, se, okS := size(s)
	y, de, okD := size(d)
	if okS && okD && x != y {
		sb, db := in.operand(a.v[src]), in.operand(a.v[dst])
		panic(in.errorf("%s of %s elements %s to %s elements %s", a.name(), sb.Name, shapeText(se), db.Name, shapeText(de)).
			note(sb.Org, "%s is declared here", sb.Name).note(db.Org, "%s is declared here", db.Name).is("ValueError"))
	}
}

// tileTypes refuses a copy between types that do not convert.
func (in *interp) tileTypes(a *args, src, dst int) {
	sb, db := in.operand(a.v[src]), in.operand(a.v[dst])
	if sb == nil || db == nil {
		return
	}
	bad := func(t ir.DType) bool { return t.IsHandle() || t.IsVoid() }
	if sb.Type != db.Type && (bad(sb.Type) || bad(db.Type)) {
		panic(in.errorf("%s from %s, which holds %s, to %s, which holds %s", a.name(), sb.Name, sb.Type, db.Name, db.Type).
			note(sb.Org, "%s is declared here", sb.Name).note(db.Org, "%s is declared here", db.Name).is("TypeError"))
	}
}

var evictionPolicies = map[string]int64{"evict_normal": 0, "evict_first": 1, "evict_last": 2}

func (in *interp) evictionPolicy(a *args, i int) (ir.Attr, bool) {
	if isNone(a.v[i]) {
		return nil, false
	}
	return ir.I32(evictionPolicies[in.oneOf(a, i, "evict_normal", "evict_first", "evict_last")]), true
}

// barrierLoad is a barrier argument as an element of its buffer.
func (in *interp) barrierLoad(a *args, i int) ir.Expr {
	switch x := in.resolveLet(a.v[i]).(type) {
	case *ir.BufferLoad:
		return x
	case *ir.Buffer:
		if len(x.Shape) != 1 {
			panic(in.errorAt(a.at[i], "barrier %s has %d dimensions: expected one", x.Name, len(x.Shape)).is("AssertionError"))
		}
		return &ir.BufferLoad{Buffer: x, Indices: []ir.Expr{ir.I32(0)}}
	case *unknown:
		panic(in.needKnown(x))
	}
	panic(in.errorAt(a.at[i], "%s of %s is %s: expected a barrier", a.param(i), a.name(), in.typeWithValue(a.v[i])).hint("make it with T.alloc_barrier").is("TypeError"))
}

// scalarCopy is a copy of one element: a store.
func (in *interp) scalarCopy(a *args, src, dst int) value {
	s, d := in.resolveLet(a.v[src]).(*ir.BufferLoad), in.resolveLet(a.v[dst]).(*ir.BufferLoad)
	return &storeValue{buf: d.Buffer, idx: d.Indices, value: in.cast(d.DType(), s)}
}

func langTiles(def definer) {
	def("copy(src, dst, *, coalesced_width=None, disable_tma=False, eviction_policy=None, prefer_instruction=None, annotations=None, loop_layout=None)", func(in *interp, a *args) value {
		s, d := in.copyRegions(a, 0, 1)
		c := (&callAttrs{}).from(in, a.v[6])
		if in.boolArg(a, 3) {
			c.set("disable_tma", ir.BoolConst(true))
		}
		if p, ok := in.evictionPolicy(a, 4); ok {
			c.set("eviction_policy", p)
		}
		if !isNone(a.v[5]) {
			c.set("prefer_instruction", ir.Str(in.stringArg(a, 5)))
		}
		if !isNone(a.v[2]) {
			c.set("coalesced_width", in.callAttr(a.v[2]))
		}
		if !isNone(a.v[7]) {
			c.set("parallel_loop_layout", in.callAttr(a.v[7]))
		}
		if s == nil {
			if len(c.list) == 0 {
				return in.scalarCopy(a, 0, 1)
			}
			s, d = in.tileRegion(a.v[0], accessRead, "src", a.at[0]), in.tileRegion(a.v[1], accessWrite, "dst", a.at[1])
		}
		return in.withAttrs(in.intrin("copy", s, d), c)
	})
	def("async_copy(src, dst, *, coalesced_width=None, annotations=None, loop_layout=None)", func(in *interp, a *args) value {
		s, d := in.copyRegions(a, 0, 1)
		c := (&callAttrs{}).from(in, a.v[3])
		if !isNone(a.v[2]) {
			c.set("coalesced_width", in.callAttr(a.v[2]))
		}
		if !isNone(a.v[4]) {
			c.set("parallel_loop_layout", in.callAttr(a.v[4]))
		}
		if s == nil {
			return in.scalarCopy(a, 0, 1)
		}
		return in.withAttrs(in.intrin("async_copy", s, d), c)
	})
	def("tma_copy(src, dst, *, barrier=None, cluster_mask=None, leader_scope_threads=None, eviction_policy=None, annotations=None)", func(in *interp, a *args) value {
		s, d := in.copyRegions(a, 0, 1)
		if s == nil {
			panic(in.errorf("the size of the copy is not known").hint("give a region on one side").is("AssertionError"))
		}
		c := (&callAttrs{}).from(in, a.v[6])
		if !isNone(a.v[2]) {
			c.set("barrier", in.barrierLoad(a, 2))
		}
		if !isNone(a.v[3]) {
			n := in.intArg(a, 3)
			if n <= 0 {
				panic(in.errorAt(a.at[3], "cluster_mask is %d: expected a positive bit mask", n).is("ValueError"))
			}
			c.set("cluster_mask", ir.I32(n))
		}
		if !isNone(a.v[4]) {
			n := in.intArg(a, 4)
			if n <= 0 || n%32 != 0 {
				panic(in.errorAt(a.at[4], "leader_scope_threads is %d: expected a multiple of 32", n).is("ValueError"))
			}
			c.set("leader_scope_threads", ir.I32(n))
		}
		if p, ok := in.evictionPolicy(a, 5); ok {
			c.set("eviction_policy", p)
		}
		return in.withAttrs(in.intrin("tma_copy", s, d), c)
	})
	def("copy_cluster(src, dst, *, dst_block=None, cluster_mask=None, remote_barrier=None, eviction_policy=None, coalesced_width=None, annotations=None, loop_layout=None)", func(in *interp, a *args) value {
		s, d := in.copyRegions(a, 0, 1)
		if s == nil {
			s, d = in.tileRegion(a.v[0], accessRead, "src", a.at[0]), in.tileRegion(a.v[1], accessWrite, "dst", a.at[1])
		}
		c := (&callAttrs{}).from(in, a.v[7])
		if !isNone(a.v[2]) {
			c.set("dst_block", in.callAttr(a.v[2]))
		}
		if !isNone(a.v[3]) {
			c.set("cluster_mask", in.callAttr(a.v[3]))
		}
		if !isNone(a.v[4]) {
			c.set("barrier", in.barrierLoad(a, 4))
		}
		if p, ok := in.evictionPolicy(a, 5); ok {
			c.set("eviction_policy", p)
		}
		if !isNone(a.v[6]) {
			c.set("coalesced_width", in.callAttr(a.v[6]))
		}
		if !isNone(a.v[8]) {
			c.set("parallel_loop_layout", in.callAttr(a.v[8]))
		}
		return in.withAttrs(in.intrin("copy", s, d), c)
	})
	def("transpose(src, dst, annotations=None)", func(in *interp, a *args) value {
		for i := range 2 {
			if len(in.extentOf(a.v[i])) < 2 {
				panic(in.errorAt(a.at[i], "T.transpose needs a buffer or region of at least two dimensions").is("AssertionError"))
			}
		}
		s, d := in.tileRegion(a.v[0], accessRead, "src", a.at[0]), in.tileRegion(a.v[1], accessWrite, "dst", a.at[1])
		return in.withAttrs(in.intrin("transpose", s, d), (&callAttrs{}).from(in, a.v[2]))
	})
	def("im2col(img, col, nhw_step, c_step, kernel, stride, dilation, pad, eviction_policy=None, annotations=None)", func(in *interp, a *args) value {
		c := (&callAttrs{}).from(in, a.v[9])
		if p, ok := in.evictionPolicy(a, 8); ok {
			c.set("eviction_policy", p)
		}
		s, d := in.tileRegion(a.v[0], accessRead, "img", a.at[0]), in.tileRegion(a.v[1], accessWrite, "col", a.at[1])
		return in.withAttrs(in.intrin("im2col", s, d, a.v[2], a.v[3], a.v[4], a.v[5], a.v[6], a.v[7]), c)
	})
	fill := func(in *interp, a *args, val value, ann value) value {
		v := in.resolveLet(a.v[0])
		in.knownOperands(a, 0)
		if in.operand(v) == nil {
			panic(in.errorAt(a.at[0], "%s of %s is %s: expected a buffer, a region or an element", a.param(0), a.name(), in.typeWithValue(a.v[0])).is("ValueError"))
		}
		ext := in.extentOf(v)
		if ext == nil {
			ext = onesOf(len(v.(*ir.BufferLoad).Indices))
		}
		dst := in.sizedRegion(v, accessWrite, ext, "the buffer of "+a.name(), a.at[0])
		return in.withAttrs(in.intrin("fill", dst, val), (&callAttrs{}).from(in, ann))
	}
	def("fill(buffer, value, annotations=None)", func(in *interp, a *args) value { return fill(in, a, a.v[1], a.v[2]) })
	def("clear(buffer, annotations=None)", func(in *interp, a *args) value { return fill(in, a, int64(0), a.v[1]) })

	gemm := func(op string, mbar int, attrs func(in *interp, a *args, c *callAttrs)) func(in *interp, a *args) value {
		return func(in *interp, a *args) value {
			c := &callAttrs{}
			attrs(in, a, c)
			return in.gemm(op, a, mbar, c)
		}
	}
	def("gemm(A, B, C, transpose_A=False, transpose_B=False, policy=0, clear_accum=False, mbar=None, annotations=None, k_pack=1, wg_wait=0)",
		gemm("gemm", 7, func(in *interp, a *args, c *callAttrs) {
			c.from(in, a.v[8])
			if n := in.intArg(a, 9); n != 1 {
				c.set("k_pack", ir.I32(n))
			}
			if n := in.intArg(a, 10); n != 0 {
				c.set("wg_wait", ir.I32(n))
			}
		}))
	def("wgmma_gemm(A, B, C, transpose_A=False, transpose_B=False, policy=0, clear_accum=False, annotations=None)",
		gemm("wgmma_gemm", -1, func(in *interp, a *args, c *callAttrs) {
			c.from(in, a.v[7])
			c.set("wg_wait", ir.I32(-1))
		}))
	def("tcgen05_gemm(A, B, C, transpose_A=False, transpose_B=False, policy=0, clear_accum=False, *, mbar=None, use_2cta=False, annotations=None)",
		gemm("tcgen05_gemm", 7, func(in *interp, a *args, c *callAttrs) {
			c.from(in, a.v[9])
			c.set("is_tcgen05", ir.I32(1))
			if in.boolArg(a, 8) {
				c.set("use_2cta", ir.I32(1))
			}
		}))
}

// gemm checks the operands of a matrix product and builds the call. The first
// seven arguments are A, B, C, transpose_A, transpose_B, policy, clear_accum.
func (in *interp) gemm(op string, a *args, mbar int, attrs *callAttrs) value {
	in.knownOperands(a, 0, 1, 2)
	var reg [3]*region
	for i := range 3 {
		r := in.wholeRegion(a.v[i], "operand "+a.param(i)+" of "+a.name(), a.at[i])
		reg[i] = r
		n := len(r.rng)
		lead := true
		for _, d := range r.rng[:max(n-2, 0)] {
			lead = lead && ir.IsConst(d.Extent, 1)
		}
		if n < 2 || !lead {
			panic(in.errorAt(a.at[i], "operand %s of %s has shape %s: expected a matrix", a.param(i), a.name(), regionShape(r)).
				note(r.buf.Org, "%s is declared here", r.buf.Name).is("AssertionError"))
		}
	}
	ta, tb := in.boolArg(a, 3), in.boolArg(a, 4)
	last := func(r *region, k int) ir.Expr { return r.rng[len(r.rng)-k].Extent }
	pick := func(r *region, trans bool) (ir.Expr, ir.Expr) {
		if trans {
			return last(r, 1), last(r, 2)
		}
		return last(r, 2), last(r, 1)
	}
	ma, ka := pick(reg[0], ta)
	kb, nb := pick(reg[1], tb)
	m, n := last(reg[2], 2), last(reg[2], 1)
	check := func(what string, i, j int, x, y ir.Expr) {
		if in.provablyEqual(x, y) {
			return
		}
		f := in.errorf("%s: %s has %s = %s, but %s has %s = %s", a.name(), a.param(i), what, exprText(x), a.param(j), what, exprText(y)).is("AssertionError")
		for _, k := range []int{i, j} {
			f.note(reg[k].buf.Org, "%s is %s, of shape %s", a.param(k), reg[k].buf.Name, regionShape(reg[k]))
		}
		panic(f)
	}
	if attrs.has("use_2cta") {
		nb = in.mul(nb, ir.I32(2))
	}
	check("M", 0, 2, ma, m)
	check("K", 0, 1, ka, kb)
	check("N", 1, 2, nb, n)
	for _, d := range []struct {
		name string
		e    ir.Expr
	}{{"M", m}, {"N", n}, {"K", ka}} {
		if _, ok := ir.AsInt(d.e); !ok {
			panic(in.errorf("%s needs constant tile sizes, but %s is %s", a.name(), d.name, exprText(d.e)).is("ValueError"))
		}
	}
	in.gemmTypes(a, reg)
	access := int64(accessRead | accessWrite)
	clear := a.v[6]
	if c, ok := clear.(bool); ok && c {
		access = accessWrite
	}
	call := func(i int, acc int64) ir.Expr { return in.tileRegion(reg[i], acc, a.param(i), a.at[i]) }
	bar := value(int64(0))
	if mbar >= 0 && !isNone(a.v[mbar]) {
		bar = in.tileRegion(a.v[mbar], accessRead|accessWrite, "mbar", a.at[mbar])
	}
	coord := func(k int) ir.Expr { return reg[2].rng[len(reg[2].rng)-k].Min }
	return in.withAttrs(in.intrin(op, call(0, accessRead), call(1, accessRead), call(2, access),
		ta, tb, m, n, ka, in.policy(a, 5), in.plain(clear), bar, coord(2), coord(1)), attrs)
}

func (in *interp) policy(a *args, i int) value {
	n := in.intArg(a, i)
	if n < 0 || n > 2 {
		panic(in.errorAt(a.at[i], "policy is %d: expected T.GemmWarpPolicy.Square, FullRow or FullCol", n).is("ValueError"))
	}
	return n
}

// gemmTypes refuses operands of types that no matrix instruction multiplies
// together.
func (in *interp) gemmTypes(a *args, reg [3]*region) {
	ta, tb := reg[0].buf.Type, reg[1].buf.Type
	family := func(t ir.DType) bool {
		return t.IsFloat8() || t.Code == ir.Float6E2M3FN || t.Code == ir.Float6E3M2FN || t.Code == ir.Float4E2M1FN
	}
	ints := ta.IsInteger() && tb.IsInteger() && ta.Bits == tb.Bits
	if ta == tb || family(ta) && family(tb) || ints {
		return
	}
	if strings.HasPrefix(reg[0].buf.Scope(), "shared.tmem") {
		return
	}
	panic(in.errorf("%s: A holds %s, but B holds %s", a.name(), ta, tb).
		note(reg[0].buf.Org, "A is %s, declared here", reg[0].buf.Name).
		note(reg[1].buf.Org, "B is %s, declared here", reg[1].buf.Name).is("ValueError"))
}

func regionShape(r *region) string {
	_, ext := r.parts()
	return shapeText(ext)
}
