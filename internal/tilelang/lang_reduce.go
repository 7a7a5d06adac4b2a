package tilelang

import (
	"strings"

	"lowertrace/internal/ir"
)

// reduce is T.reduce: the arguments are (buffer, out, kind, dim, clear). Where
// an operand lies in shared memory it goes through a fragment.
func (in *interp) reduce(a *args, buf, out value, bufAt, outAt ir.Span, kind string, dim int64, dimAt ir.Span, clear value, attrs *callAttrs) value {
	b := in.needKernel(a.name())
	src := in.wholeRegion(buf, "the buffer of "+a.name(), bufAt)
	dst := in.wholeRegion(out, "the result of "+a.name(), outAt)
	rank := int64(len(src.rng))
	if dim < 0 {
		dim += rank
	}
	if dim < 0 || dim >= rank {
		panic(in.errorAt(dimAt, "dim %d of a buffer of %d dimensions", dim, rank).
			note(src.buf.Org, "%s is declared here", src.buf.Name).is("ValueError"))
	}
	if strings.HasPrefix(kind, "bit") && !dst.buf.Type.IsInteger() && !dst.buf.Type.IsBool() {
		panic(in.errorAt(outAt, "T.reduce_%s into %s, which holds %s: expected integers", kind, dst.buf.Name, dst.buf.Type).
			note(dst.buf.Org, "%s is declared here", dst.buf.Name).is("ValueError"))
	}
	want := func(keep bool) []ir.Expr {
		var s []ir.Expr
		for i, d := range src.rng {
			if int64(i) == dim {
				if keep {
					s = append(s, ir.I32(1))
				}
				continue
			}
			s = append(s, d.Extent)
		}
		return s
	}
	fits := func(s []ir.Expr) bool {
		if len(s) != len(dst.rng) {
			return false
		}
		for i, d := range dst.rng {
			if !in.provablyEqual(d.Extent, s[i]) {
				return false
			}
		}
		return true
	}
	if !fits(want(false)) && !fits(want(true)) {
		panic(in.errorf("%s of shape %s over dim %d gives shape %s or %s, but %s has shape %s", a.name(), regionShape(src), dim,
			shapeText(want(false)), shapeText(want(true)), dst.buf.Name, regionShape(dst)).
			note(src.buf.Org, "%s is declared here", src.buf.Name).note(dst.buf.Org, "%s is declared here", dst.buf.Name).is("ValueError"))
	}
	shared := func(b *ir.Buffer) bool { return b.Scope() == "shared" || b.Scope() == "shared.dyn" }
	frag := func(b *ir.Buffer) bool { return strings.HasPrefix(b.Scope(), "local.fragment") }
	local := func(b *ir.Buffer) bool { return b.Scope() == "local" || b.Scope() == "local.var" }
	emit := func(src, dst ir.Expr) {
		b.evaluate(in, in.withAttrs(in.intrin("reduce", src, dst, kind, dim, in.plain(clear)), attrs))
	}
	read, write := in.tileRegion(src, accessRead, "buffer", bufAt), in.tileRegion(dst, accessWrite, "out", outAt)
	if src.buf.Scope() == "local" && local(dst.buf) {
		emit(read, write)
		return none
	}
	okSrc, okDst := shared(src.buf) || frag(src.buf), shared(dst.buf) || frag(dst.buf)
	if !okSrc || !okDst {
		panic(in.errorf("%s from %s in %s to %s in %s: expected fragments or shared memory", a.name(), src.buf.Name, src.buf.Scope(), dst.buf.Name, dst.buf.Scope()).
			note(src.buf.Org, "%s is declared here", src.buf.Name).note(dst.buf.Org, "%s is declared here", dst.buf.Name).is("ValueError"))
	}
	copyTo := func(s, d ir.Expr) { b.evaluate(in, in.intrin("copy", s, d)) }
	fragment := func(r *region) *region {
		_, shape := r.parts()
		return in.wholeRegion(b.allocate(r.buf.Name+"_frag", r.buf.Type, "local.fragment", b.org, shape...), "", ir.Span{})
	}
	whole := func(r *region, access int64) ir.Expr { return in.tileRegion(r, access, "", ir.Span{}) }
	fin, fout := src, dst
	if shared(src.buf) {
		fin = fragment(src)
	}
	if shared(dst.buf) {
		fout = fragment(dst)
	}
	if fout != dst {
		if c, ok := clear.(bool); !ok || !c {
			copyTo(whole(dst, accessRead), whole(fout, accessWrite))
		}
	}
	if fin != src {
		copyTo(read, whole(fin, accessWrite))
	}
	emit(whole(fin, accessRead), whole(fout, accessWrite))
	if fout != dst {
		copyTo(whole(fout, accessRead), write)
	}
	return none
}

func langReductions(def definer) {
	batch := func(in *interp, a *args, i int, c *callAttrs) {
		n := in.intArg(a, i)
		if n < 1 {
			panic(in.errorAt(a.at[i], "batch is %d: at least 1 is expected", n).is("ValueError"))
		}
		if n > 1 {
			c.list = append(c.list, ir.Arg{Name: "batch", Value: ir.I32(n)})
		}
	}
	def("reduce(buffer, out, reduce_type, dim, clear, batch=1, annotations=None)", func(in *interp, a *args) value {
		in.knownOperands(a, 0, 1)
		kind := in.oneOf(a, 2, "sum", "abssum", "max", "absmax", "min", "bitand", "bitor", "bitxor")
		c := (&callAttrs{}).from(in, a.v[6])
		batch(in, a, 5, c)
		return in.reduce(a, a.v[0], a.v[1], a.at[0], a.at[1], kind, in.intArg(a, 3), a.at[3], a.v[4], c)
	})
	for _, kind := range []string{"sum", "max", "min", "absmax", "bitand", "bitor", "bitxor"} {
		nan := kind == "max" || kind == "min" || kind == "absmax"
		sig := "reduce_" + kind + "(buffer, out, dim=-1, clear=True, batch=1, annotations=None)"
		if nan {
			sig = "reduce_" + kind + "(buffer, out, dim=-1, clear=True, batch=1, nan_propagate=False, annotations=None)"
		}
		def(sig, func(in *interp, a *args) value {
			in.knownOperands(a, 0, 1)
			c := (&callAttrs{}).from(in, a.v[len(a.v)-1])
			if nan && in.boolArg(a, 5) {
				c.set("nan_propagate", ir.BoolConst(true))
			}
			batch(in, a, 4, c)
			return in.reduce(a, a.v[0], a.v[1], a.at[0], a.at[1], kind, in.intArg(a, 2), a.at[2], a.v[3], c)
		})
	}
	def("reduce_abssum(buffer, out, dim=-1, batch=1, annotations=None)", func(in *interp, a *args) value {
		in.knownOperands(a, 0, 1)
		c := (&callAttrs{}).from(in, a.v[4])
		batch(in, a, 3, c)
		return in.reduce(a, a.v[0], a.v[1], a.at[0], a.at[1], "abssum", in.intArg(a, 2), a.at[2], true, c)
	})

	scan := func(op string) func(in *interp, a *args) value {
		return func(in *interp, a *args) value {
			in.knownOperands(a, 0, 1)
			src := in.wholeRegion(a.v[0], "src of "+a.name(), a.at[0])
			rank := int64(len(src.rng))
			dim := in.intArg(a, 2)
			if dim >= rank || dim < -rank {
				panic(in.errorAt(a.at[2], "dim %d of a buffer of %d dimensions", dim, rank).
					note(src.buf.Org, "%s is declared here", src.buf.Name).is("ValueError"))
			}
			if dim < 0 {
				dim += rank
			}
			dst := src
			if !isNone(a.v[1]) {
				dst = in.wholeRegion(a.v[1], "dst of "+a.name(), a.at[1])
				same := len(dst.rng) == len(src.rng)
				for i := range src.rng {
					same = same && sameExpr(src.rng[i].Extent, dst.rng[i].Extent)
				}
				if !same {
					panic(in.errorf("%s from shape %s to shape %s", a.name(), regionShape(src), regionShape(dst)).
						note(src.buf.Org, "%s is declared here", src.buf.Name).note(dst.buf.Org, "%s is declared here", dst.buf.Name).is("ValueError"))
				}
			}
			reverse := in.boolArg(a, 3)
			attrs := (&callAttrs{}).from(in, a.v[4])
			r := func(r *region, access int64) ir.Expr { return in.tileRegion(r, access, "", ir.Span{}) }
			if !strings.HasPrefix(src.buf.Scope(), "local.fragment") {
				return in.withAttrs(in.intrin(op, r(src, accessRead), r(dst, accessWrite), dim, reverse), attrs)
			}
			// A fragment is scanned in shared memory.
			b := in.needKernel(a.name())
			_, shape := src.parts()
			t := in.wholeRegion(b.allocate("scan_smem", src.buf.Type, "shared.dyn", b.org, shape...), "", ir.Span{})
			b.evaluate(in, in.intrin("copy", r(src, accessRead), r(t, accessWrite)))
			b.evaluate(in, in.withAttrs(in.intrin(op, r(t, accessRead), r(t, accessWrite), dim, reverse), attrs))
			b.evaluate(in, in.intrin("copy", r(t, accessRead), r(dst, accessWrite)))
			return none
		}
	}
	def("cumsum(src, dst=None, dim=0, reverse=False, annotations=None)", scan("cumsum"))
	def("cummax(src, dst=None, dim=0, reverse=False, annotations=None)", scan("cummax"))

	def("reducer_init(reducer, init=None)", func(in *interp, a *args) value {
		buf := in.bufferArg(a, 0)
		in.wantReducer(a, buf)
		argv := []value{in.tileRegion(buf, accessWrite, "reducer", a.at[0])}
		if !isNone(a.v[1]) {
			v := a.v[1]
			if isPyNumber(v) {
				v = in.constOf(buf.Type, v)
			}
			argv = append(argv, v)
		}
		return in.intrin("reducer_init", argv...)
	})
	def("reducer_update(target, value)", func(in *interp, a *args) value {
		l, ok := in.resolveLet(a.v[0]).(*ir.BufferLoad)
		if !ok {
			panic(in.errorAt(a.at[0], "target of T.reducer_update is %s: expected an element, acc[...]", in.typeWithValue(a.v[0])).is("ValueError"))
		}
		in.wantReducer(a, l.Buffer)
		return in.intrin("reducer_update", l, in.constOf(l.Buffer.Type, in.plain(a.v[1])))
	})
	def("finalize_reducer(reducer, dst=None, batch=1, annotations=None)", func(in *interp, a *args) value {
		c := (&callAttrs{}).from(in, a.v[3])
		batch(in, a, 2, c)
		if isNone(a.v[1]) {
			return in.withAttrs(in.intrin("finalize_reducer", in.tileRegion(a.v[0], accessWrite, "reducer", a.at[0])), c)
		}
		return in.withAttrs(in.intrin("finalize_reducer_v2", in.tileRegion(a.v[0], accessRead|accessWrite, "reducer", a.at[0]),
			in.tileRegion(a.v[1], accessWrite, "dst", a.at[1])), c)
	})
	for _, kind := range []string{"sum", "max", "min", "bitand", "bitor"} {
		def("warp_reduce_"+kind+"(value)", func(in *interp, a *args) value {
			return in.intrin("warp_reduce_"+kind, in.exprArg(a, 0))
		})
	}
}

func (in *interp) wantReducer(a *args, b *ir.Buffer) {
	if b.Scope() != "local.reducer" {
		panic(in.errorAt(a.at[0], "%s of %s, which lies in %s: expected a reducer", a.name(), b.Name, b.Scope()).
			note(b.Org, "%s is declared here", b.Name).hint("make it with T.alloc_reducer").is("ValueError"))
	}
}
