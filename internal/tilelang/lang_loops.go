package tilelang

import "lowertrace/internal/ir"

func (in *interp) extents(list []value, at []ir.Span) []ir.Expr {
	out := make([]ir.Expr, len(list))
	for i, v := range list {
		save := in.at
		if i < len(at) && at[i].IsValid() {
			in.at.Pos, in.at.End = at[i].Pos, at[i].End
		}
		out[i] = in.extent(v)
		in.at = save
	}
	return out
}

func langLoops(def definer) {
	def("serial(start, stop=None, step=None, *, annotations=None)", func(in *interp, a *args) value {
		return in.serial(a.v[0], a.v[1], a.v[2], in.annotations(a.v[3]), ir.Serial)
	})
	def("unroll(start, stop=None, step=None, *, explicit=False, unroll_factor=None, annotations=None)", func(in *interp, a *args) value {
		ann := in.annotations(a.v[5])
		if !isNone(a.v[4]) && ann.Get("pragma_unroll_factor") == nil {
			ann = ann.With("pragma_unroll_factor", ir.I32(in.intArg(a, 4)))
		}
		if in.boolArg(a, 3) {
			ann = ann.With("pragma_unroll_explicit", ir.AttrBool(true))
		}
		if ann.Get("pragma_unroll_explicit") == ir.AttrBool(true) && ann.Get("pragma_unroll_factor") != nil {
			panic(in.errorf("explicit and unroll_factor of T.unroll exclude each other").is("ValueError"))
		}
		return in.serial(a.v[0], a.v[1], a.v[2], sortDict(ann), ir.Unrolled)
	})
	def("vectorized(start, stop=None, *, annotations=None)", func(in *interp, a *args) value {
		return in.serial(a.v[0], a.v[1], none, in.annotations(a.v[2]), ir.Vectorized)
	})
	def("thread_binding(start, stop=None, thread=None, *, annotations=None)", func(in *interp, a *args) value {
		start, stop, thread := a.v[0], a.v[1], a.v[2]
		if s, ok := stop.(string); ok && isNone(thread) {
			stop, thread = none, s
		}
		tag, ok := thread.(string)
		if !ok {
			panic(in.errorf("T.thread_binding needs a thread axis, such as \"threadIdx.x\"").is("ValueError"))
		}
		if isNone(stop) {
			start, stop = in.zeroLike(start), start
		}
		spec := in.rangeLoop(start, stop, ir.ThreadBinding, in.annotations(a.v[3]))
		make := spec.make
		spec.make = func(body ir.Stmt, org ir.Span) ir.Stmt {
			f := make(body, org).(*ir.For)
			f.Thread = tag
			return f
		}
		return spec
	})
	def("grid(*extents)", func(in *interp, a *args) value {
		if len(a.rest) == 0 {
			panic(in.errorf("T.grid needs an extent").is("TypeError"))
		}
		return in.nest(in.extents(a.rest, a.restW), ir.Serial, nil)
	})
	def("Parallel(*extents, coalesced_width=None, loop_layout=None, prefer_async=None, annotations=None)", func(in *interp, a *args) value {
		if len(a.rest) == 0 {
			panic(in.errorf("T.Parallel needs an extent").is("TypeError"))
		}
		ann := in.annotations(a.v[3])
		if !isNone(a.v[2]) && ann.Get("parallel_prefer_async") == nil {
			ann = ann.With("parallel_prefer_async", ir.AttrBool(in.boolArg(a, 2)))
		}
		if !isNone(a.v[0]) {
			ann = ann.With("coalesced_width", in.toAttr(a.v[0]))
		}
		if !isNone(a.v[1]) {
			ann = ann.With("parallel_loop_layout", in.toAttr(a.v[1]))
		}
		return in.nest(in.extents(a.rest, a.restW), ir.Parallel, sortDict(ann))
	})
	def("Pipelined(start, stop=None, num_stages=0, order=None, stage=None, annotations=None, sync=None, group=None)", func(in *interp, a *args) value {
		start, stop := a.v[0], a.v[1]
		if isNone(stop) {
			start, stop = in.zeroLike(start), start
		}
		ann := in.annotations(a.v[5])
		if n := in.intArg(a, 2); n > 0 {
			ann = ann.With("num_stages", ir.I32(n))
		} else if n < 0 {
			panic(in.errorAt(a.at[2], "num_stages is %d", n).is("ValueError"))
		}
		intList := func(i int, key string) {
			if isNone(a.v[i]) {
				return
			}
			var l ir.List
			for _, v := range in.iterate(a.v[i]) {
				n, ok := v.(int64)
				if !ok {
					panic(in.errorAt(a.at[i], "%s holds %s: expected integers", a.param(i), in.typeWithValue(v)).is("TypeError"))
				}
				l = append(l, ir.I32(n))
			}
			if len(l) > 0 {
				ann = ann.With(key, l)
			}
		}
		intList(3, "tl_pipeline_order")
		intList(4, "tl_pipeline_stage")
		if !isNone(a.v[6]) || !isNone(a.v[7]) {
			i := 6
			if isNone(a.v[6]) {
				i = 7
			}
			panic(in.errorAt(a.at[i], "T.Pipelined has no argument %s any more", a.param(i)).hint("use order= and stage=").is("TypeError"))
		}
		lo := in.extent(start)
		hi := in.extents([]value{stop}, a.at[1:2])[0]
		return in.simpleLoop(lo, in.sub(hi, lo), ir.Serial, sortDict(ann))
	})
	def("Persistent(domain, wave_size, index, group_size=8, num_stages=0, *, annotations=None)", func(in *interp, a *args) value {
		domain := in.extents(in.iterate(a.v[0]), nil)
		if len(domain) == 0 {
			panic(in.errorAt(a.at[0], "T.Persistent needs a domain").is("ValueError"))
		}
		group := value(int64(8))
		if !isNone(a.v[3]) {
			group = a.v[3]
		}
		return in.persistent(domain, in.extent(a.v[1]), in.extent(a.v[2]), in.extent(group), in.intArg(a, 4), in.annotations(a.v[5]))
	})

	kernel := func(in *interp, a *args, threads, prelude, cluster int) value {
		in.needKernel(a.name())
		if len(a.rest) == 0 || len(a.rest) > 3 {
			panic(in.errorf("%s takes one to three grid extents, got %d", a.name(), len(a.rest)).is("TypeError"))
		}
		c := &launchCtx{extents: in.extents(a.rest, a.restW), attrs: map[string]ir.Attr{}}
		for i, e := range c.extents {
			if n, ok := ir.AsInt(e); ok && n <= 0 {
				panic(in.errorAt(a.restW[i], "a grid extent of %d", n).is("ValueError"))
			}
		}
		dims := func(i int) []ir.Expr {
			v := a.v[i]
			if isNone(v) {
				return nil
			}
			var out []ir.Expr
			switch v.(type) {
			case *tuple, *list:
				out = in.extents(in.iterate(v), nil)
			default:
				out = in.extents([]value{v}, a.at[i:i+1])
			}
			if len(out) > 3 {
				panic(in.errorAt(a.at[i], "%s of %s has %d dimensions: at most three", a.param(i), a.name(), len(out)).is("ValueError"))
			}
			for _, e := range out {
				if n, ok := ir.AsInt(e); ok && n <= 0 {
					panic(in.errorAt(a.at[i], "%s must be positive, got %d", a.param(i), n).is("ValueError"))
				}
			}
			for len(out) < 3 {
				out = append(out, ir.I32(1))
			}
			return out
		}
		c.threads = dims(threads)
		if c.threads != nil {
			n := int64(1)
			for _, e := range c.threads {
				if k, ok := ir.AsInt(e); ok {
					n *= k
				}
			}
			if n > maxThreads {
				panic(in.errorAt(a.at[threads], "a block of %d threads: at most %d", n, maxThreads).is("ValueError"))
			}
		}
		if !isNone(a.v[prelude]) {
			c.attrs["pragma_import_c"] = ir.Str(in.stringArg(a, prelude))
		}
		if d := dims(cluster); d != nil {
			l := ir.List{}
			one := true
			for _, e := range d {
				l = append(l, e)
				one = one && ir.IsConst(e, 1)
			}
			if !one {
				c.attrs["cluster_dims"] = l
			}
		}
		return c
	}
	def("Kernel(*blocks, threads=None, prelude=None, cluster_dims=None)", func(in *interp, a *args) value { return kernel(in, a, 0, 1, 2) })
	def("ClusterKernel(*blocks, cluster_dims, threads=None, prelude=None)", func(in *interp, a *args) value { return kernel(in, a, 1, 2, 0) })

	axis := func(in *interp, a *args, list []*ir.Var) value {
		i := in.intArg(a, 0)
		if i < 0 || int(i) >= len(list) {
			panic(in.errorAt(a.at[0], "axis %d of %d", i, len(list)).is("IndexError"))
		}
		return list[i]
	}
	all := func(vars []*ir.Var) value { return &list{varValues(vars)} }
	def("get_thread_binding(dim=0)", func(in *interp, a *args) value { return axis(in, a, in.b.current(in).threads) })
	def("get_thread_bindings()", func(in *interp, a *args) value { return all(in.b.current(in).threads) })
	def("get_block_binding(dim=0)", func(in *interp, a *args) value { return axis(in, a, in.b.current(in).grid) })
	def("get_block_bindings()", func(in *interp, a *args) value { return all(in.b.current(in).grid) })
	ints := func(n [3]int64) value { return &list{[]value{n[0], n[1], n[2]}} }
	intAxis := func(in *interp, a *args, n [3]int64) value {
		i := in.intArg(a, 0)
		if i < 0 || i > 2 {
			panic(in.errorAt(a.at[0], "axis %d of 3", i).is("IndexError"))
		}
		return n[i]
	}
	blockExtents := func(in *interp) [3]int64 {
		out := [3]int64{1, 1, 1}
		for i, e := range in.b.current(in).extents {
			n, ok := ir.AsInt(e)
			if !ok {
				panic(in.errorf("the grid extent %s is not a constant", exprText(e)).is("TypeError"))
			}
			out[i] = n
		}
		return out
	}
	def("get_thread_extent(dim=0)", func(in *interp, a *args) value { return intAxis(in, a, in.b.current(in).threadExtents(in)) })
	def("get_thread_extents()", func(in *interp, a *args) value { return ints(in.b.current(in).threadExtents(in)) })
	def("get_block_extent(dim=0)", func(in *interp, a *args) value { return intAxis(in, a, blockExtents(in)) })
	def("get_block_extents()", func(in *interp, a *args) value { return ints(blockExtents(in)) })
	def("get_cluster_dims()", func(in *interp, a *args) value { return ints(in.b.current(in).clusterDims()) })
	def("get_cluster_size()", func(in *interp, a *args) value {
		d := in.b.current(in).clusterDims()
		return d[0] * d[1] * d[2]
	})
	clusterID := func(in *interp, i int) value {
		l := in.b.current(in)
		if i >= len(l.grid) {
			return ir.I32(0)
		}
		if d := l.clusterDims()[i]; d != 1 {
			return in.binary(ir.FloorDiv, l.grid[i], ir.IntConst(l.grid[i].Type, d))
		}
		return l.grid[i]
	}
	def("get_cluster_id(dim=0)", func(in *interp, a *args) value { return clusterID(in, int(in.intArg(a, 0))) })
	def("get_cluster_ids()", func(in *interp, a *args) value {
		out := &list{}
		for i := range in.b.current(in).grid {
			out.elts = append(out.elts, clusterID(in, i))
		}
		return out
	})
	clusterExtents := func(in *interp) [3]int64 {
		e, d := blockExtents(in), in.b.current(in).clusterDims()
		for i := range e {
			e[i] = (e[i] + d[i] - 1) / d[i]
		}
		return e
	}
	def("get_cluster_extent(dim=0)", func(in *interp, a *args) value { return intAxis(in, a, clusterExtents(in)) })
	def("get_cluster_extents()", func(in *interp, a *args) value { return ints(clusterExtents(in)) })

	def("ws(*warp_group_idx)", func(in *interp, a *args) value {
		l := in.needKernel(a.name()).current(in)
		ext := l.threadExtents(in)
		tid := ir.Expr(l.threads[0])
		if ext[1] > 1 {
			tid = in.add(in.mul(l.threads[1], ir.I32(ext[0])), tid)
		}
		if ext[2] > 1 {
			tid = in.add(in.mul(l.threads[2], ir.I32(ext[0]*ext[1])), tid)
		}
		if len(a.rest) == 0 {
			panic(in.errorf("T.ws needs a warp group").is("AssertionError"))
		}
		groups := map[int64]bool{}
		for i, v := range a.rest {
			n, ok := v.(int64)
			if !ok || n < 0 || n > maxThreads/warpGroup {
				panic(in.errorAt(a.restW[i], "warp group %s", in.describe(v)).is("ValueError"))
			}
			groups[n] = true
		}
		var cond ir.Expr
		for lo := int64(0); lo <= maxThreads/warpGroup; lo++ {
			if !groups[lo] {
				continue
			}
			hi := lo
			for groups[hi+1] {
				hi++
			}
			c := in.logical(ir.And, in.binary(ir.GE, tid, ir.I32(lo*warpGroup)), in.binary(ir.LT, tid, ir.I32((hi+1)*warpGroup)))
			if cond == nil {
				cond = c
			} else {
				cond = in.logical(ir.Or, cond, c)
			}
			lo = hi
		}
		return &wsCtx{cond}
	})
}

const (
	// maxThreads is the largest thread block of CUDA.
	maxThreads = 1024
	// warpGroup is the number of threads of a warp group.
	warpGroup = 128
)
