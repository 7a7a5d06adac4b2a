package tilelang

import (
	"slices"
	"strings"

	"lowertrace/internal/ir"
)

// langSync adds barriers, warp-level exchange and the other operators that are
// calls of one intrinsic.
func langSync(def definer) {
	// Plain calls: the signature's parameters are the operator's arguments.
	plain := func(sig, op string) {
		def(sig, func(in *interp, a *args) value {
			argv := make([]value, len(a.v))
			for i := range a.v {
				argv[i] = in.exprArg(a, i)
			}
			return in.intrin(op, argv...)
		})
	}
	for _, op := range []string{"sync_grid", "cluster_sync", "cluster_arrive", "cluster_wait", "cluster_arrive_relaxed", "pdl_sync", "pdl_trigger",
		"block_rank_in_cluster", "fence_proxy_async", "tma_store_arrive", "warpgroup_arrive", "warpgroup_commit_batch", "no_set_max_nreg",
		"activemask", "loop_break", "ptx_fence_barrier_init", "tcgen05_before_thread_sync", "tcgen05_after_thread_sync", "thread_return"} {
		plain(op+"()", op)
	}
	plain("warpgroup_wait(num_mma)", "warpgroup_wait")
	plain("wait_wgmma(id)", "wait_wgmma")
	plain("set_max_nreg(reg_count, is_inc)", "set_max_nreg")
	plain("annotate_producer_reg_dealloc(reg_count=24)", "annotate_producer_reg_dealloc")
	plain("annotate_consumer_reg_alloc(reg_count=240)", "annotate_consumer_reg_alloc")
	plain("named_barrier_arrive(barrier_id, thread_count)", "named_barrier_arrive")
	plain("shuffle_elect(thread_extent)", "tl_shuffle_elect")
	plain("tma_store_wait(count=0, read=True)", "tma_store_wait")
	plain("ptx_wait_group(num)", "ptx_wait_group")
	plain("ptx_commit_group()", "ptx_commit_group")
	plain("tvm_storage_sync(storage_scope)", "tvm_storage_sync")
	def("inc_max_nreg(reg_count)", func(in *interp, a *args) value { return in.intrin("set_max_nreg", in.exprArg(a, 0), int64(1)) })
	def("dec_max_nreg(reg_count)", func(in *interp, a *args) value { return in.intrin("set_max_nreg", in.exprArg(a, 0), int64(0)) })

	def("ptx_cp_async(dst_access_ptr, src_access_ptr, num_elems, predicate=None)", func(in *interp, a *args) value {
		argv := []value{in.exprArg(a, 0), in.exprArg(a, 1), in.exprArg(a, 2)}
		if !isNone(a.v[3]) {
			argv = append(argv, in.exprArg(a, 3))
		}
		return in.intrin("ptx_cp_async", argv...)
	})
	def("sync_threads(barrier_id=None, arrive_count=None)", func(in *interp, a *args) value {
		argv := []value{"shared"}
		for i := range 2 {
			if !isNone(a.v[i]) {
				argv = append(argv, in.exprArg(a, i))
			}
		}
		return in.intrin("tvm_storage_sync", argv...)
	})
	def("sync_warp(mask=None)", func(in *interp, a *args) value {
		if isNone(a.v[0]) {
			return in.intrin("sync_warp")
		}
		return in.intrin("sync_warp", in.exprArg(a, 0))
	})

	// Barriers in shared memory.
	bar := func(sig, op string, rest int) {
		def(sig, func(in *interp, a *args) value {
			argv := []value{in.barrierLoad(a, 0)}
			for i := 1; i <= rest; i++ {
				argv = append(argv, in.exprArg(a, i))
			}
			return in.intrin(op, argv...)
		})
	}
	bar("mbarrier_wait_parity(mbarrier, parity)", "mbarrier_wait_parity", 1)
	bar("mbarrier_expect_tx(mbarrier, tx)", "mbarrier_expect_tx", 1)
	bar("mbarrier_arrive_expect_tx(mbarrier, tx)", "ptx_arrive_barrier_expect_tx", 1)
	bar("cp_async_barrier_noinc(barrier)", "ptx_cp_async_barrier_noinc", 0)
	bar("barrier_arrive(mbarrier)", "ptx_arrive_barrier", 0)
	bar("ptx_arrive_barrier(mbarrier)", "ptx_arrive_barrier", 0)
	def("mbarrier_arrive(mbarrier, cta_id=None)", func(in *interp, a *args) value {
		b := in.barrierLoad(a, 0)
		if isNone(a.v[1]) {
			return in.intrin("ptx_arrive_barrier", b)
		}
		if l, ok := b.(*ir.BufferLoad); ok && l.Buffer.Scope() != "shared.cluster_barrier" {
			panic(in.errorAt(a.at[0], "%s is no cluster barrier", l.Buffer.Name).note(l.Buffer.Org, "%s is declared here", l.Buffer.Name).
				hint("make it with T.alloc_cluster_barrier").is("AssertionError"))
		}
		return in.intrin("ptx_arrive_cluster_barrier", b, in.exprArg(a, 1))
	})

	// Threads of a warp.
	mask := func(in *interp, a *args, i int) value {
		if isNone(a.v[i]) {
			return ir.IntConst(ir.DUInt32, 0xffffffff)
		}
		if isPyInt(a.v[i]) {
			return in.constOf(ir.DUInt32, a.v[i])
		}
		return in.exprArg(a, i)
	}
	for _, f := range []struct{ name, op, arg string }{
		{"shfl_xor", "shfl_xor_sync", "delta"}, {"shfl_down", "shfl_down_sync", "delta"},
		{"shfl_up", "shfl_up_sync", "delta"}, {"shfl_sync", "shfl_sync", "srcLane"},
	} {
		def(f.name+"(value, "+f.arg+", width=32, mask=None)", func(in *interp, a *args) value {
			return in.intrin(f.op, mask(in, a, 3), in.exprArg(a, 0), in.exprArg(a, 1), in.exprArg(a, 2))
		})
	}
	for _, name := range []string{"tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down"} {
		def(name+"(mask, value, delta, width, warp_size)", func(in *interp, a *args) value {
			return in.intrin(name, in.exprArg(a, 0), in.exprArg(a, 1), in.exprArg(a, 2), in.exprArg(a, 3), in.exprArg(a, 4))
		})
	}
	def("tvm_warp_activemask()", func(in *interp, a *args) value { return in.intrin("tvm_warp_activemask") })

	// Random numbers.
	oneOf := func(in *interp, a *args, i int, names ...string) string {
		s := in.stringArg(a, i)
		if !slices.Contains(names, s) {
			f := in.errorAt(a.at[i], "%s of %s is %s", a.param(i), a.name(), pyQuote(s)).is("AssertionError")
			panic(f.hint("expected one of %s", strings.Join(names, ", ")))
		}
		return s
	}
	def("rng_init(seed, seq=None, off=0, generator=\"curandStatePhilox4_32_10_t\")", func(in *interp, a *args) value {
		gen := oneOf(in, a, 3, "curandStateMRG32k3a_t", "curandStatePhilox4_32_10_t", "curandStateXORWOW_t")
		var seq ir.Expr
		if isNone(a.v[1]) {
			l := in.b.current(in)
			if len(l.threads) == 0 || len(l.grid) == 0 {
				panic(in.errorf("the thread's number is not known here").hint("pass seq="))
			}
			seq = in.add(l.threads[0], in.mul(l.grid[0], ir.I32(l.threadExtents(in)[0])))
		} else {
			seq = in.exprArg(a, 1)
		}
		return in.intrin("rng_init", in.exprArg(a, 0), seq, in.exprArg(a, 2), &ir.StringImm{Value: gen})
	})
	def("rng_rand()", func(in *interp, a *args) value { return in.intrin("rng_rand") })
	def("rng_rand_float(bit=32, dist=\"uniform\")", func(in *interp, a *args) value {
		dist := oneOf(in, a, 1, "uniform", "normal")
		if bit := in.intArg(a, 0); bit != 32 {
			panic(in.errorAt(a.at[0], "T.rng_rand_float of %d bits is not supported", bit))
		}
		return in.intrin("rng_rand_float", &ir.StringImm{Value: dist})
	})
	predicate := func(in *interp, a *args) ir.Expr {
		e := in.exprArg(a, 0)
		if t := e.DType(); !t.IsInteger() && !t.IsBool() {
			panic(in.errorAt(a.at[0], "%s needs an integer or a condition, got %s", a.name(), t).is("TypeError"))
		}
		return e
	}
	for _, name := range []string{"any_sync", "all_sync", "ballot_sync"} {
		def(name+"(predicate, mask=None)", func(in *interp, a *args) value {
			return in.intrin(name, mask(in, a, 1), predicate(in, a))
		})
	}
	for _, name := range []string{"ballot", "syncthreads_count", "syncthreads_and", "syncthreads_or"} {
		def(name+"(predicate)", func(in *interp, a *args) value { return in.intrin(name, predicate(in, a)) })
	}
	for _, name := range []string{"match_any_sync", "match_all_sync"} {
		def(name+"(value, mask=None)", func(in *interp, a *args) value {
			return in.intrin(name, mask(in, a, 1), in.exprArg(a, 0))
		})
	}
	for _, name := range []string{"get_lane_idx", "get_warp_idx", "get_warp_idx_sync"} {
		def(name+"(warp_size=None)", func(in *interp, a *args) value {
			if isNone(a.v[0]) {
				return in.intrin(name)
			}
			return in.intrin(name, in.exprArg(a, 0))
		})
	}
	def("get_warp_group_idx(warp_size=None, warps_per_group=None)", func(in *interp, a *args) value {
		var argv []value
		for i := range 2 {
			if isNone(a.v[i]) {
				continue
			}
			if i > len(argv) {
				panic(in.errorf("warps_per_group needs warp_size too").is("ValueError"))
			}
			argv = append(argv, in.exprArg(a, i))
		}
		return in.intrin("get_warp_group_idx", argv...)
	})

	// Loads and stores of a stated width.
	for _, f := range []struct {
		name string
		t    ir.DType
	}{{"32", ir.DUInt32}, {"64", ir.DUInt32.WithLanes(2)}, {"128", ir.DUInt32.WithLanes(4)}, {"256", ir.DUInt32.WithLanes(8)}} {
		def("ldg"+f.name+"(src, pred=None)", func(in *interp, a *args) value {
			argv := []value{in.bufferPtr(a, 0, accessRead)}
			if !isNone(a.v[1]) {
				argv = append(argv, in.exprArg(a, 1))
			}
			return in.typedIntrin("ldg"+f.name, f.t, argv...)
		})
		def("stg"+f.name+"(dst, value, pred=None)", func(in *interp, a *args) value {
			argv := []value{in.bufferPtr(a, 0, accessWrite), in.exprArg(a, 1)}
			if !isNone(a.v[2]) {
				argv = append(argv, in.exprArg(a, 2))
			}
			return in.intrin("stg"+f.name, argv...)
		})
		if f.name == "256" {
			continue
		}
		def("lds"+f.name+"(src)", func(in *interp, a *args) value {
			return in.typedIntrin("lds"+f.name, f.t, in.bufferPtr(a, 0, accessRead))
		})
		def("sts"+f.name+"(dst, value)", func(in *interp, a *args) value {
			return in.intrin("sts"+f.name, in.bufferPtr(a, 0, accessWrite), in.exprArg(a, 1))
		})
	}
}

// bufferPtr is buffer.access_ptr(mask, offset) of an argument's first element.
func (in *interp) bufferPtr(a *args, i int, mask int64) ir.Expr {
	r := in.wholeRegion(a.v[i], a.param(i)+" of "+a.name(), a.at[i])
	_, whole := in.resolveLet(a.v[i]).(*ir.Buffer)
	offset := ir.Expr(ir.I32(0))
	if !whole {
		strides := r.buf.Strides
		if len(strides) == 0 {
			strides = in.rowMajor(r.buf.Shape)
		}
		for k, d := range r.rng {
			offset = in.add(offset, in.mul(d.Min, strides[k]))
		}
	}
	return in.tvmAccessPtr(r.buf, mask, offset, nil)
}

// tvmAccessPtr is Buffer.access_ptr: the pointer to an offset, with the rest
// of the buffer as its extent.
func (in *interp) tvmAccessPtr(b *ir.Buffer, mask int64, offset, extent ir.Expr) ir.Expr {
	if extent == nil {
		extent = ir.Expr(ir.I32(1))
		for i := len(b.Shape) - 1; i >= 0; i-- {
			extent = in.mul(extent, b.Shape[i])
		}
		extent = in.sub(extent, offset)
	}
	ann := in.typedIntrin("type_annotation", b.Type)
	return in.intrin("tvm_access_ptr", ann, b.Data, offset, extent, ir.I32(mask))
}
