package ir

// opTable is every operator of the IR. The names, argument orders and effects
// are those of TVM's tirx and TileLang's tl registries (release 0.1.15).
var opTable = concat(
	// Elementwise math. The type is that of the first argument.
	pure("tirx", TypeArg0, 1, 1,
		"exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh",
		"asin", "acos", "atan", "asinh", "acosh", "atanh", "tanh", "sigmoid", "erf", "sqrt", "rsqrt",
		"floor", "ceil", "trunc", "round", "nearbyint", "fabs", "bitwise_not", "popcount", "abs"),
	pure("tirx", TypeMatch, 2, 2,
		"pow", "fmod", "atan2", "copysign", "nextafter", "hypot", "ldexp",
		"bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"),
	pure("tirx", TypeArg0, 3, 3, "clamp", "fma"),
	fixed("tirx", DInt32, Pure, 1, 1, "clz"),
	fixed("tirx", DBool, Pure, 1, 1, "isnan", "isinf", "isfinite", "isnullptr", "likely"),
	pure("tirx", TypeArg1, 3, 3, "if_then_else"),
	fixed("tl", DInt32, Pure, 1, 1, "__ffs"),
	fixed("tl", DUInt32, Pure, 3, 3, "__fns"),
	pure("tl", TypeArg0, 1, 1, "fast_rcp", "round_ties_away_from_zero"),
	pure("tl", TypeArg0, 2, 2, "pow_of_int", "fmul"),
	fixed("tirx", DUInt64, Pure, 2, 2, "large_uint_imm"),
	pure("tirx", TypeFirst, 0, 0, "infinity", "max_value", "min_value", "type_annotation"),
	pure("tirx", TypeFirst, 1, 1, "reinterpret"),

	// Fast-math variants and packed pairs of TileLang.
	pure("tl", TypeArg0, 1, 1, "__exp", "__exp10", "__log", "__log2", "__log10", "__tan", "__cos", "__sin",
		"ieee_frsqrt", "abs2"),
	pure("tl", TypeArg0, 2, 2, "max2", "min2", "add2", "sub2", "mul2"),
	pure("tl", TypeArg0, 2, 3, "ieee_add", "ieee_sub", "ieee_mul", "ieee_fdiv"),
	pure("tl", TypeArg0, 3, 3, "fma2"),
	pure("tl", TypeArg0, 3, 4, "ieee_fmaf"),
	pure("tl", TypeArg0, 1, 2, "ieee_frcp", "ieee_fsqrt"),
	fixed("tl", DUInt32, Pure, 2, 2, "pack_b16"),

	// Memory and pointers.
	fixed("tirx", DHandle, Pure, 1, 1, "address_of"),
	fixed("tirx", DHandle, Pure, 5, 5, "tvm_access_ptr"),
	fixed("tl", DHandle, Pure, 3, 3, "access_ptr"),
	fixed("tirx", DHandle, Pure, 2, 2, "handle_add_byte_offset"),
	fixed("tirx", DHandle, UpdateState, 2, 2, "tvm_stack_alloca"),
	fixed("tirx", DHandle, Pure, 0, -1, "tvm_tuple"),
	ops("tirx", TypeLast, ReadState, 3, 3, "tvm_struct_get"),
	ops("tirx", TypeVoid, UpdateState, 4, 4, "tvm_struct_set"),

	pure("tl", TypeArg0, 1, 1, "__ldg"),
	fixed("tl", DBool, ReadState, 2, 2, "any_of", "all_of"),
	ops("tl", TypeFirst, ReadState, 1, 2, "ldg32", "ldg64", "ldg128", "ldg256", "lds32", "lds64", "lds128"),
	ops("tl", TypeVoid, UpdateState, 2, 3, "stg32", "stg64", "stg128", "stg256", "sts32", "sts64", "sts128"),

	// Calls out of the IR. The first argument is the name.
	ops("tirx", TypeFirst, UpdateState, 1, -1, "call_extern"),
	ops("tirx", TypeFirst, Pure, 1, -1, "call_pure_extern"),
	fixed("tirx", DInt32, UpdateState, 1, -1, "call_packed"),
	fixed("tirx", DInt32, UpdateState, 1, -1, "call_cpacked"),

	// Control flow and launches.
	ops("tirx", TypeVoid, Control, 0, 1, "ret"),
	ops("tirx", TypeVoid, Control, 0, 0, "break_loop", "continue_loop", "thread_return"),
	fixed("tl", DInt32, Pure, 1, 1, "launch_thread_idx"),
	ops("tl", TypeVoid, Control, 0, 0, "loop_break"),
	ops("tirx", TypeVoid, Control, 1, 1, "assume"),
	ops("tl", TypeVoid, Control, 1, 1, "annotate_producer_reg_dealloc", "annotate_consumer_reg_alloc"),
	ops("tl", TypeVoid, Control, 1, 1, "device_assert"),
	ops("tl", TypeVoid, Control, 2, 2, "device_assert_with_msg"),

	// Synchronisation.
	ops("tirx", TypeVoid, Control, 1, 3, "tvm_storage_sync"),
	ops("tirx", TypeVoid, Control, 3, -1, "tvm_thread_allreduce"),
	ops("tl", TypeVoid, Control, 0, 0, "sync_grid", "cluster_sync", "pdl_sync", "pdl_trigger", "cluster_arrive", "cluster_wait",
		"cluster_arrive_relaxed"),
	ops("tl", TypeVoid, Control, 2, 2, "named_barrier_arrive", "ptx_arrive_cluster_barrier"),
	fixed("tl", DInt32, Control, 1, 1, "syncthreads_count", "syncthreads_and", "syncthreads_or"),

	ops("tl", TypeVoid, Control, 0, 1, "sync_warp"),
	fixed("tl", DInt32, Pure, 0, 0, "block_rank_in_cluster"),
	fixed("tl", DBool, ReadState, 1, 1, "tl_shuffle_elect"),

	// Warp-level exchange. Arguments: mask, value, lane or offset, width.
	ops("tl", TypeArg1, Control, 3, 4, "shfl_sync", "shfl_xor_sync", "shfl_down_sync", "shfl_up_sync"),
	ops("tirx", TypeArg1, Control, 5, 5, "tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down"),
	fixed("tirx", DUInt32, Control, 0, 0, "tvm_warp_activemask"),
	ops("tl", TypeArg0, Control, 1, 1, "warp_reduce_sum", "warp_reduce_max", "warp_reduce_min", "warp_reduce_bitand", "warp_reduce_bitor"),
	fixed("tl", DInt32, Control, 2, 2, "any_sync", "all_sync"),
	fixed("tl", DUInt32, Control, 2, 2, "match_any_sync", "match_all_sync"),
	fixed("tl", DUInt64, Control, 2, 2, "ballot_sync"),
	fixed("tl", DUInt64, Control, 1, 1, "ballot"),
	fixed("tl", DUInt64, Control, 0, 0, "activemask"),
	fixed("tl", DInt32, Pure, 0, 1, "get_lane_idx", "get_warp_idx", "get_warp_idx_sync"),
	fixed("tl", DInt32, Pure, 0, 2, "get_warp_group_idx"),

	// Random numbers: seed, sequence, offset and the generator's name; the name
	// of the distribution.
	ops("tl", TypeVoid, UpdateState, 4, 4, "rng_init"),
	fixed("tl", DUInt32, UpdateState, 0, 0, "rng_rand"),
	fixed("tl", DFloat32, UpdateState, 1, 1, "rng_rand_float"),

	// Tile operators.
	tile(2, 2, "copy", "async_copy", "tma_copy", "fill", "atomicadd", "atomicmax", "atomicmin", "transpose"),
	tile(8, 8, "im2col"),
	tile(10, 19, "gemm", "wgmma_gemm", "tcgen05_gemm"),
	tile(5, 6, "reduce"),
	tile(4, 4, "cumsum", "cummax"),
	tile(1, 2, "reducer_init"),
	tile(2, 2, "reducer_update", "finalize_reducer_v2"),
	tile(1, 4, "finalize_reducer"),
	fixed("tl", DHandle, Pure, 2, -1, "region"),

	// Atomics. Argument 0 points to the element.
	ops("tl", TypeVoid, UpdateState, 2, 3, "atomic_add_elem_op", "atomic_max_elem_op", "atomic_min_elem_op",
		"atomic_addx2_elem_op", "atomic_addx4_elem_op"),
	ops("tl", TypePointee, UpdateState, 2, 3, "atomic_add_ret_elem_op", "atomic_max_ret_elem_op", "atomic_min_ret_elem_op",
		"atomic_addx2_ret_elem_op", "atomic_addx4_ret_elem_op"),
	ops("tl", TypeVoid, UpdateState, 3, 3, "atomic_or_elem_op"),
	ops("tl", TypePointee, ReadState, 2, 2, "atomic_load_elem_op"),
	ops("tl", TypeVoid, UpdateState, 3, 3, "atomic_store_elem_op"),

	// Asynchronous copies (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy").
	ops("tl", TypeVoid, UpdateState, 3, 5, "ptx_cp_async"),
	ops("tirx", TypeVoid, Control, 0, 0, "ptx_commit_group"),
	ops("tirx", TypeVoid, Control, 1, 1, "ptx_wait_group"),
	ops("tl", TypeVoid, Control, 1, 1, "ptx_cp_async_barrier_noinc"),

	// mbarrier (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
	ops("tirx", TypeVoid, Control, 2, 2, "ptx_init_barrier_thread_count", "ptx_arrive_barrier_expect_tx"),
	ops("tirx", TypeVoid, Control, 1, 3, "ptx_arrive_barrier"),
	ops("tl", TypeVoid, Control, 0, 0, "ptx_fence_barrier_init", "fence_proxy_async"),
	ops("tl", TypeVoid, Control, 2, 2, "mbarrier_wait_parity", "mbarrier_expect_tx"),

	// Tensor memory accelerator (PTX ISA, "cp.async.bulk.tensor").
	fixed("tl", DHandle, Pure, 5, -1, "create_tma_descriptor", "create_tma_im2col_descriptor"),
	ops("tl", TypeVoid, Control, 1, 1, "prefetch_tma_descriptor"),
	ops("tl", TypeVoid, Control, 4, -1, "tma_load", "tma_load_im2col"),
	ops("tl", TypeVoid, Control, 3, -1, "tma_store"),
	ops("tl", TypeVoid, Control, 0, 0, "tma_store_arrive"),
	ops("tl", TypeVoid, Control, 1, 2, "tma_store_wait"),

	// Warp-level matrix instructions (PTX ISA, "Warp Level Matrix Instructions").
	ops("tirx", TypeFirst, UpdateState, 13, 15, "ptx_mma"),
	ops("tl", TypeVoid, UpdateState, 4, 4, "ptx_ldmatrix"),
	ops("tl", TypeVoid, UpdateState, 4, -1, "ptx_stmatrix"),

	// Warpgroup matrix instructions (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
	ops("tl", TypeVoid, Control, 15, 15, "ptx_wgmma_ss"),
	ops("tl", TypeVoid, Control, 14, 14, "ptx_wgmma_rs"),
	ops("tl", TypeVoid, Control, 0, 0, "warpgroup_arrive", "warpgroup_commit_batch"),
	ops("tl", TypeVoid, Control, 1, 1, "warpgroup_wait", "wait_wgmma"),
	ops("tl", TypeVoid, Control, 0, 0, "tcgen05_before_thread_sync", "tcgen05_after_thread_sync"),
	ops("tl", TypeVoid, Control, 4, 4, "warpgroup_fence_operand"),
	ops("tl", TypeVoid, UpdateState, 5, 5, "initialize_wgmma_descriptor"),
	ops("tl", TypeVoid, UpdateState, 2, 2, "increase_descriptor_offset"),
	ops("tl", TypeVoid, Control, 2, 2, "set_max_nreg"),
	ops("tl", TypeVoid, Control, 0, 0, "no_set_max_nreg"),
)

func concat(lists ...[]*Op) []*Op {
	var all []*Op
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func ops(dialect string, rule TypeRule, eff Effect, lo, hi int, names ...string) []*Op {
	list := make([]*Op, len(names))
	for i, n := range names {
		list[i] = &Op{Name: n, Dialect: dialect, MinArgs: lo, MaxArgs: hi, Rule: rule, Effect: eff}
	}
	return list
}

func pure(dialect string, rule TypeRule, lo, hi int, names ...string) []*Op {
	return ops(dialect, rule, Pure, lo, hi, names...)
}

func fixed(dialect string, t DType, eff Effect, lo, hi int, names ...string) []*Op {
	list := ops(dialect, TypeFixed, eff, lo, hi, names...)
	for _, o := range list {
		o.Type = t
	}
	return list
}

func tile(lo, hi int, names ...string) []*Op {
	list := ops("tl", TypeVoid, UpdateState, lo, hi, names...)
	for _, o := range list {
		o.Tile = true
	}
	return list
}
