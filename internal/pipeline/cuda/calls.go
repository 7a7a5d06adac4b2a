package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
)

// callPrinter prints a call of an operator.
type callPrinter func(g *gen, c *ir.Call) text

var bitTokens = map[string]string{
	"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "shift_left": "<<", "shift_right": ">>",
}

// callTable says how each operator is printed; see also math.go.
var callTable map[string]callPrinter

func init() {
	callTable = map[string]callPrinter{
		"if_then_else": func(g *gen, c *ir.Call) text { return g.choose(c.Args[0], c.Args[1], c.Args[2]) },
		"reinterpret":  (*gen).reinterpret,
		"likely":       func(g *gen, c *ir.Call) text { return g.expr(c.Args[0]) },
		"bitwise_not": func(g *gen, c *ir.Call) text {
			if c.Type.Lanes > 1 {
				return g.mapLanes("~", c.Type, c.Args[0])
			}
			return text{"~" + g.expr(c.Args[0]).in(precUnary), precUnary}
		},

		"address_of":             (*gen).addressOf,
		"access_ptr":             (*gen).addressOf,
		"tvm_access_ptr":         (*gen).accessPtr,
		"handle_add_byte_offset": (*gen).byteOffset,
		"isnullptr":              func(g *gen, c *ir.Call) text { return infixText("==", g.expr(c.Args[0]), atom("nullptr")) },

		"call_extern":      (*gen).extern,
		"call_pure_extern": (*gen).extern,

		"ret":           func(g *gen, c *ir.Call) text { return atom("return") },
		"thread_return": func(g *gen, c *ir.Call) text { return atom("return") },
		"break_loop":    func(g *gen, c *ir.Call) text { return atom("break") },
		"continue_loop": func(g *gen, c *ir.Call) text { return atom("continue") },
		"device_assert": func(g *gen, c *ir.Call) text {
			cond := g.expr(c.Args[0]).s
			return atomf("%s(%s, %s)", g.pre.use("device_assert"), cond, quoteC(cond))
		},
		"device_assert_with_msg": func(g *gen, c *ir.Call) text {
			return atomf("%s(%s, %s)", g.pre.use("device_assert"), g.expr(c.Args[0]).s, g.expr(c.Args[1]).s)
		},

		"tvm_storage_sync":      (*gen).storageSync,
		"sync_grid":             plain("grid_sync"),
		"cluster_sync":          plain("cluster_sync"),
		"cluster_arrive":        plain("cluster_arrive"),
		"cluster_wait":          plain("cluster_wait"),
		"block_rank_in_cluster": plain("block_rank_in_cluster"),
		"pdl_sync":              plain("pdl_sync"),
		"pdl_trigger":           plain("pdl_trigger"),
		"sync_warp": func(g *gen, c *ir.Call) text {
			return atomf("__syncwarp(%s)", g.args(c.Args))
		},
		"tl_shuffle_elect": func(g *gen, c *ir.Call) text {
			return atomf("%s<%d>()", g.pre.use("elect_one"), g.constant(c, 0))
		},

		"rng_init":       (*gen).rngInit,
		"rng_rand":       func(g *gen, c *ir.Call) text { return g.draw(c, "philox_next") },
		"rng_rand_float": (*gen).rngFloat,

		"shfl_sync":      func(g *gen, c *ir.Call) text { return g.shfl(c, "shuffle") },
		"shfl_xor_sync":  func(g *gen, c *ir.Call) text { return g.shfl(c, "shuffle_xor") },
		"shfl_up_sync":   func(g *gen, c *ir.Call) text { return g.shfl(c, "shuffle_up") },
		"shfl_down_sync": func(g *gen, c *ir.Call) text { return g.shfl(c, "shuffle_down") },
		// (mask, value, lane, width, threads of a warp), which are 32.
		"tvm_warp_shuffle":      func(g *gen, c *ir.Call) text { return g.shfl(shuffleArgs(c), "shuffle") },
		"tvm_warp_shuffle_up":   func(g *gen, c *ir.Call) text { return g.shfl(shuffleArgs(c), "shuffle_up") },
		"tvm_warp_shuffle_down": func(g *gen, c *ir.Call) text { return g.shfl(shuffleArgs(c), "shuffle_down") },
		"any_sync":              builtin("__any_sync"),
		"all_sync":              builtin("__all_sync"),
		"ballot_sync":           builtin("__ballot_sync"),
		"activemask":            builtin("__activemask"),
		"warp_reduce_sum":       func(g *gen, c *ir.Call) text { return g.warpReduce(c, "SumOp") },
		"warp_reduce_max":       func(g *gen, c *ir.Call) text { return g.warpReduce(c, "MaxOp") },
		"warp_reduce_min":       func(g *gen, c *ir.Call) text { return g.warpReduce(c, "MinOp") },
		"warp_reduce_bitand":    func(g *gen, c *ir.Call) text { return g.warpReduce(c, "BitAndOp") },
		"warp_reduce_bitor":     func(g *gen, c *ir.Call) text { return g.warpReduce(c, "BitOrOp") },

		"atomic_add_elem_op":       func(g *gen, c *ir.Call) text { return g.atomic(c, "add") },
		"atomic_max_elem_op":       func(g *gen, c *ir.Call) text { return g.atomic(c, "max") },
		"atomic_min_elem_op":       func(g *gen, c *ir.Call) text { return g.atomic(c, "min") },
		"atomic_add_ret_elem_op":   func(g *gen, c *ir.Call) text { return g.atomic(c, "add") },
		"atomic_max_ret_elem_op":   func(g *gen, c *ir.Call) text { return g.atomic(c, "max") },
		"atomic_min_ret_elem_op":   func(g *gen, c *ir.Call) text { return g.atomic(c, "min") },
		"atomic_addx2_elem_op":     func(g *gen, c *ir.Call) text { return g.atomicVector(c, 2) },
		"atomic_addx4_elem_op":     func(g *gen, c *ir.Call) text { return g.atomicVector(c, 4) },
		"atomic_addx2_ret_elem_op": func(g *gen, c *ir.Call) text { return g.atomicVector(c, 2) },
		"atomic_addx4_ret_elem_op": func(g *gen, c *ir.Call) text { return g.atomicVector(c, 4) },
		"atomic_load_elem_op":      (*gen).atomicLoad,
		"atomic_store_elem_op":     (*gen).atomicStore,

		"ptx_cp_async":     (*gen).cpAsync,
		"ptx_commit_group": plain("cp_async_commit"),
		"ptx_wait_group": func(g *gen, c *ir.Call) text {
			if _, ok := ir.AsInt(c.Args[0]); !ok {
				return atomf("%s(%s)", g.pre.use("cp_async_wait_for"), g.expr(c.Args[0]).s)
			}
			return templated("cp_async_wait", "cp_async_wait")(g, c)
		},
		"ptx_cp_async_barrier_noinc": onBarrier("cp_async_arrive"),

		"ptx_init_barrier_thread_count": onBarrier("mbarrier_init"),
		"ptx_arrive_barrier_expect_tx":  onBarrier("mbarrier_arrive_expect_tx"),
		"mbarrier_expect_tx":            onBarrier("mbarrier_expect_tx"),
		"mbarrier_wait_parity":          onBarrier("mbarrier_wait"),
		"ptx_arrive_barrier": func(g *gen, c *ir.Call) text {
			switch len(c.Args) {
			case 1:
				return onBarrier("mbarrier_arrive")(g, c)
			case 2:
				c = &ir.Call{Op: c.Op, Type: c.Type, Args: append(append([]ir.Expr(nil), c.Args...), ir.BoolConst(true))}
			}
			return onBarrier("mbarrier_arrive_cluster")(g, c)
		},
		"ptx_fence_barrier_init": plain("fence_barrier_init"),
		"fence_proxy_async":      plain("fence_proxy_async"),

		"prefetch_tma_descriptor": func(g *gen, c *ir.Call) text {
			return atomf("%s(%s)", g.pre.use("prefetch_tensor_map"), g.args(c.Args))
		},
		"tma_load":         func(g *gen, c *ir.Call) text { return g.tmaLoad(c, false) },
		"tma_load_im2col":  func(g *gen, c *ir.Call) text { return g.tmaLoad(c, true) },
		"tma_store":        (*gen).tmaStore,
		"tma_store_arrive": plain("tma_store_arrive"),
		"tma_store_wait": func(g *gen, c *ir.Call) text {
			return atomf("%s<%d>()", g.pre.use("tma_store_wait"), g.constant(c, 0))
		},

		"ptx_mma":      (*gen).mma,
		"ptx_ldmatrix": (*gen).ldmatrix,
		"ptx_stmatrix": (*gen).stmatrix,

		"ptx_wgmma_ss":                (*gen).wgmmaShared,
		"ptx_wgmma_rs":                (*gen).wgmmaRegisters,
		"warpgroup_arrive":            plain("wgmma_fence"),
		"warpgroup_commit_batch":      plain("wgmma_commit"),
		"warpgroup_wait":              templated("wgmma_wait", "wgmma_wait"),
		"warpgroup_fence_operand":     (*gen).fenceOperand,
		"initialize_wgmma_descriptor": (*gen).wgmmaDescriptor,
		"increase_descriptor_offset": func(g *gen, c *ir.Call) text {
			v := g.expr(c.Args[0])
			return text{fmt.Sprintf("%s += (%s) >> 4", v.s, g.expr(c.Args[1]).s), precTernary}
		},
		"set_max_nreg": func(g *gen, c *ir.Call) text {
			if g.constant(c, 1) != 0 {
				g.pre.use("set_max_registers_inc")
				return atomf("raise_registers<%d>()", g.constant(c, 0))
			}
			g.pre.use("set_max_registers_dec")
			return atomf("lower_registers<%d>()", g.constant(c, 0))
		},
		"no_set_max_nreg": func(g *gen, c *ir.Call) text { return atom("/* register limit unchanged */") },

		"pack_b16": func(g *gen, c *ir.Call) text { return atomf("%s(%s)", g.pre.use("pack_b16"), g.args(c.Args)) },
		"add2":     func(g *gen, c *ir.Call) text { return g.operator("+", c.Args[0], c.Args[1]) },
		"sub2":     func(g *gen, c *ir.Call) text { return g.operator("-", c.Args[0], c.Args[1]) },
		"mul2":     func(g *gen, c *ir.Call) text { return g.operator("*", c.Args[0], c.Args[1]) },
		"max2":     func(g *gen, c *ir.Call) text { return g.operator("max", c.Args[0], c.Args[1]) },
		"min2":     func(g *gen, c *ir.Call) text { return g.operator("min", c.Args[0], c.Args[1]) },
		"abs2":     (*gen).abs2,
		"fma2":     (*gen).fma2,
	}
	for name, token := range bitTokens {
		callTable[name] = func(g *gen, c *ir.Call) text { return g.operator(token, c.Args[0], c.Args[1]) }
	}
}

// plain calls a helper without arguments.
func plain(helper string) callPrinter {
	return func(g *gen, c *ir.Call) text { return atom(g.pre.use(helper) + "()") }
}

// builtin calls a function CUDA defines.
func builtin(name string) callPrinter {
	return func(g *gen, c *ir.Call) text { return atomf("%s(%s)", name, g.args(c.Args)) }
}

// templated passes the one, constant argument as a template argument.
func templated(helper, name string) callPrinter {
	return func(g *gen, c *ir.Call) text {
		g.pre.use(helper)
		return atomf("%s<%d>()", name, g.constant(c, 0))
	}
}

// onBarrier passes the address of the barrier in argument 0, then the rest.
func onBarrier(helper string) callPrinter {
	return func(g *gen, c *ir.Call) text {
		g.pre.use(helper)
		parts := []string{g.barrier(c.Args[0])}
		for _, a := range c.Args[1:] {
			parts = append(parts, g.expr(a).s)
		}
		return atomf("%s(%s)", helper, strings.Join(parts, ", "))
	}
}

// barrier is the address of an mbarrier that an argument loads or points to.
func (g *gen) barrier(e ir.Expr) string {
	if l, ok := e.(*ir.BufferLoad); ok {
		return text{"&" + g.element(l.Buffer, l.Indices, false).in(precPostfix), precUnary}.s
	}
	return g.expr(e).s
}

func (g *gen) args(list []ir.Expr) string {
	parts := make([]string, len(list))
	for i, a := range list {
		parts[i] = g.expr(a).s
	}
	return strings.Join(parts, ", ")
}

// constant is an argument that must be an integer constant.
func (g *gen) constant(c *ir.Call, i int) int64 {
	if i < len(c.Args) {
		if v, ok := ir.AsInt(c.Args[i]); ok {
			return v
		}
	}
	g.fail("argument %d of T.%s must be an integer constant", i+1, c.Op.Name)
	return 0
}

func (g *gen) str(c *ir.Call, i int) string {
	if i < len(c.Args) {
		if s, ok := c.Args[i].(*ir.StringImm); ok {
			return s.Value
		}
	}
	g.fail("argument %d of T.%s must be a string", i+1, c.Op.Name)
	return ""
}

func (g *gen) call(c *ir.Call) text {
	if c.Op == nil {
		g.fail("a call of %s inside a kernel", c.Global)
	}
	if len(c.Args) < c.Op.MinArgs || c.Op.MaxArgs >= 0 && len(c.Args) > c.Op.MaxArgs {
		g.fail("T.%s has %d arguments", c.Op.Name, len(c.Args))
	}
	if p := callTable[c.Op.Name]; p != nil {
		return p(g, c)
	}
	if t, ok := g.math(c); ok {
		return t
	}
	g.fail("T.%s has no CUDA form; it must be lowered before code generation", c.Op.Name)
	return text{}
}

func (g *gen) reinterpret(c *ir.Call) text {
	from, to := c.Args[0].DType(), c.Type
	x := g.expr(c.Args[0])
	if from == to {
		return x
	}
	if fn := bitCasts[[2]ir.DType{from, to}]; fn != "" {
		return atom(fn + "(" + x.s + ")")
	}
	if to.IsHandle() || from.IsHandle() {
		return text{"(void*)" + x.in(precUnary), precUnary}
	}
	if from.Bytes() != to.Bytes() {
		g.fail("a reinterpretation of %s as %s, which has another size", from, to)
	}
	g.pre.typ(g.ctype(from))
	return atomf("%s<%s>(%s)", g.pre.use("bit_cast"), g.pre.typ(g.ctype(to)), x.s)
}

// bitCasts are CUDA's own functions for reading bits as another type.
var bitCasts = map[[2]ir.DType]string{
	{ir.DFloat32, ir.DInt32}: "__float_as_int", {ir.DInt32, ir.DFloat32}: "__int_as_float",
	{ir.DFloat32, ir.DUInt32}: "__float_as_uint", {ir.DUInt32, ir.DFloat32}: "__uint_as_float",
	{ir.DFloat64, ir.DInt64}: "__double_as_longlong", {ir.DInt64, ir.DFloat64}: "__longlong_as_double",
}

func (g *gen) addressOf(c *ir.Call) text {
	l, ok := c.Args[0].(*ir.BufferLoad)
	if !ok {
		g.fail("T.%s needs an element of a buffer", c.Op.Name)
	}
	base, d := g.base(l.Buffer)
	if len(l.Indices) != 1 {
		g.fail("%s has %d indices: FlattenBuffer must run first", l.Buffer.Name, len(l.Indices))
	}
	idx := l.Indices[0]
	if r, ok := idx.(*ir.Ramp); ok {
		idx = r.Base
	}
	if d.single && ir.IsConst(idx, 0) {
		return text{"&" + base.in(precPostfix), precUnary}
	}
	return g.address(base, idx)
}

// accessPtr prints tvm_access_ptr(type, data, offset, extent, access).
func (g *gen) accessPtr(c *ir.Call) text {
	p := g.expr(c.Args[1])
	if ir.IsConst(c.Args[2], 0) {
		return p
	}
	return infixText("+", p, g.expr(c.Args[2]))
}

func (g *gen) byteOffset(c *ir.Call) text {
	v, ok := c.Args[0].(*ir.Var)
	if !ok {
		g.fail("T.handle_add_byte_offset needs a pointer variable")
	}
	p := g.expr(v)
	d, ok := g.vars[v]
	if !ok || d.elem.Bytes() != 1 {
		p = text{"(unsigned char*)" + p.in(precUnary), precUnary}
	}
	return g.address(p, c.Args[1])
}

func (g *gen) storageSync(c *ir.Call) text {
	switch scope := g.str(c, 0); scope {
	case "shared", "shared.dyn":
		if len(c.Args) == 3 {
			return atomf("%s(%s)", g.pre.use("bar_sync"), g.args(c.Args[1:]))
		}
		return atom("__syncthreads()")
	case "warp":
		return atom("__syncwarp()")
	case "global":
		return atom(g.pre.use("grid_sync") + "()")
	default:
		g.fail("no barrier for %s memory", scope)
	}
	return text{}
}

// shuffleArgs leaves out the last argument of TVM's shuffles.
func shuffleArgs(c *ir.Call) *ir.Call { return &ir.Call{Op: c.Op, Type: c.Type, Args: c.Args[:4]} }

// shfl prints a warp shuffle (mask, value, lane or distance, width).
func (g *gen) shfl(c *ir.Call, kind string) text {
	mask := g.expr(c.Args[0]).s
	width := ""
	if len(c.Args) == 4 && !ir.IsConst(c.Args[3], 32) {
		width = ", " + g.expr(c.Args[3]).s
	}
	v, d := g.expr(c.Args[1]).s, g.expr(c.Args[2]).s
	if is16(c.Type) && c.Type.IsScalar() {
		g.pre.use(kind + "_" + mustType(c.Type).word())
		return atomf("%s(%s, %s, %s%s)", kind, v, d, mask, width)
	}
	if isNarrow(c.Type) || c.Type.Lanes != 1 {
		g.fail("no shuffle of %s", c.Type)
	}
	fn := "__shfl" + strings.TrimPrefix(kind, "shuffle") + "_sync"
	s := atomf("%s(%s, %s, %s%s)", fn, mask, v, d, width)
	if c.Type.Bits < 32 {
		return text{"(" + g.ctype(c.Type).name + ")" + s.s, precUnary}
	}
	return s
}

// shuffles defines a shuffle for use by the templates of the prelude.
func (g *gen) shuffles(kind string, t ir.DType) {
	if is16(t) {
		g.pre.use(kind + "_" + mustType(t).word())
		return
	}
	if isNarrow(t) || t.Lanes != 1 {
		g.fail("no shuffle of %s", t)
	}
	g.pre.use(kind)
}

// reduce defines and names the reduction of an operator over threads.
func (g *gen) reduce(op string, t ir.DType, threads int64, party bool) string {
	c := combiners[op]
	if c.op != "" {
		g.pre.scalarOp(c.op, t)
	}
	g.shuffles("shuffle_xor", t)
	var name string
	switch {
	case threads <= 32:
		name = "warp_" + c.name
		g.pre.add(name, nil, func() string { return warpReduce(op)[1:] })
	case party:
		name = "party_" + c.name
		g.pre.add(name, []string{"bar_sync"}, func() string { return blockReduce(op, true)[1:] })
	default:
		name = "block_" + c.name
		g.pre.add(name, nil, func() string { return blockReduce(op, false)[1:] })
	}
	return name
}

func (g *gen) warpReduce(c *ir.Call, op string) text {
	return atomf("%s<32>(%s)", g.reduce(op, c.Type, 32, false), g.expr(c.Args[0]).s)
}

// extern prints a call by name. TileLang's own templates are known and have
// helpers; any other name is a function of CUDA or of imported C.
func (g *gen) extern(c *ir.Call) text {
	name := g.str(c, 0)
	args := c.Args[1:]
	switch {
	case strings.HasPrefix(name, "tl::AllReduce<"):
		return g.allReduce(c, name)
	case strings.HasPrefix(name, "tl::CumSum"):
		return g.cumsum(c, name)
	case name == "debug_print_var" || name == "debug_print_buffer_value":
		return g.debugPrint(c, name)
	case name == "DP4A" && !g.imported(name):
		return atomf("%s(%s)", g.pre.use("DP4A"), g.args(args))
	case strings.Contains(name, "::") || strings.ContainsAny(name, "<>"):
		g.fail("no device function for %q", name)
	case !isIdentifier(name):
		g.fail("%q is not the name of a function", name)
	}
	if t, ok := g.narrowMath(c, name, args); ok {
		return t
	}
	if c.Type.Lanes > 1 {
		return g.mapLanes(name, c.Type, args...)
	}
	return atomf("%s(%s)", name, g.args(args))
}

// templateArgs splits "tl::Name<a, b, c<d>>::run" into its arguments.
func templateArgs(s string) (name string, args []string, ok bool) {
	open, end := strings.IndexByte(s, '<'), strings.LastIndex(s, ">::run")
	if open < 0 || end < open || end+len(">::run") != len(s) {
		return "", nil, false
	}
	depth, from := 0, open+1
	for i := open + 1; i <= end; i++ {
		switch {
		case s[i] == '<':
			depth++
		case s[i] == '>' && i < end:
			depth--
		case s[i] == ',' && depth == 0 || i == end:
			args = append(args, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	return s[:open], args, true
}

// allReduce prints tl::AllReduce<Op, threads, scale, first thread, barrier>.
func (g *gen) allReduce(c *ir.Call, name string) text {
	bad := func() { g.fail("cannot read the template arguments of %q", name) }
	_, targs, ok := templateArgs(name)
	if !ok || len(targs) < 3 || len(c.Args) < 2 {
		bad()
	}
	op := strings.TrimPrefix(targs[0], "tl::")
	if _, ok := combiners[op]; !ok {
		g.fail("no reduction for %s", targs[0])
	}
	num := []int64{0, 1, 0}
	for i := range num {
		if i+1 < len(targs) {
			v, err := strconv.ParseInt(targs[i+1], 10, 32)
			if err != nil || v < 0 {
				bad()
			}
			num[i] = v
		}
	}
	party := int64(0)
	if len(targs) > 4 {
		if b, ok := strings.CutPrefix(targs[4], "tl::NamedBarrier<"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(b, ">"), 10, 32)
			if err != nil || n < 1 {
				bad()
			}
			if all, ok := g.blockThreads(); !ok || all != n {
				party = n
			}
		} else if targs[4] != "tl::SyncThreadsBarrier" {
			bad()
		}
	}
	threads, scale, first := num[0], num[1], num[2]
	if threads < 1 || threads > 1024 || threads&(threads-1) != 0 || scale < 1 || scale&(scale-1) != 0 || scale > threads {
		g.fail("a reduction over %d threads with scale %d", threads, scale)
	}
	if first != 0 && party == 0 && threads > 32 {
		g.fail("a reduction from thread %d on needs a barrier of its own", first)
	}
	fn := g.reduce(op, c.Type, threads, party != 0)
	switch {
	case threads > 32 && len(c.Args) < 3:
		g.fail("a reduction over %d threads needs a workspace", threads)
	case threads > 32 && party != 0:
		return atomf("%s<%d, %d, %d, %d>(%s)", fn, threads, scale, first, party, g.args(c.Args[1:]))
	case threads <= 32 && scale != 1:
		return atomf("%s<%d, %d>(%s)", fn, threads, scale, g.expr(c.Args[1]).s)
	case scale != 1:
		return atomf("%s<%d, %d>(%s)", fn, threads, scale, g.args(c.Args[1:]))
	case threads <= 32:
		return atomf("%s<%d>(%s)", fn, threads, g.expr(c.Args[1]).s)
	}
	return atomf("%s<%d>(%s)", fn, threads, g.args(c.Args[1:]))
}

// blockThreads is the number of threads of a block, if it is constant.
func (g *gen) blockThreads() (int64, bool) {
	n := int64(1)
	seen := map[string]bool{}
	for _, a := range g.facts.threads {
		iv, ok := a.Node.(*ir.IterVar)
		if !ok || !strings.HasPrefix(iv.Tag, "threadIdx") || seen[iv.Tag] {
			continue
		}
		seen[iv.Tag] = true
		v, ok := ir.AttrInt(a.Value)
		if !ok {
			return 0, false
		}
		n *= v
	}
	return n, true
}

// cumsum prints tl::CumSum1D<threads, reverse>(src, dst, n) and
// tl::CumSum2D<threads, axis, reverse>(src, dst, rows, columns, pitch, pitch).
func (g *gen) cumsum(c *ir.Call, name string) text {
	class, targs, ok := templateArgs(name)
	g.pre.scalarOp("+", c.Type)
	g.shuffles("shuffle_up", c.Type)
	g.shuffles("shuffle", c.Type)
	args := g.args(c.Args[1:])
	switch {
	case ok && class == "tl::CumSum1D" && len(targs) == 2 && len(c.Args) == 4:
		return atomf("%s<%s>(%s)", g.pre.use("cumsum"), targs[1], args)
	case ok && class == "tl::CumSum2D" && len(targs) == 3 && len(c.Args) == 7:
		return atomf("%s<%s>(%s)", g.pre.use("cumsum_2d"), strings.Join(targs, ", "), args)
	}
	g.fail("cannot read %q", name)
	return text{}
}

func (g *gen) debugPrint(c *ir.Call, name string) text {
	v := c.Args[len(c.Args)-1]
	t := g.ctype(v.DType())
	if t.lanes() != 1 {
		g.fail("printing a vector")
	}
	typ := g.pre.typ(t)
	format, arg := "%d", "(int)value"
	switch d := v.DType(); {
	case isNarrow(d):
		format, arg = "%f", g.pre.conv(d, ir.DFloat32)+"(value)"
	case d.IsFloat():
		format, arg = "%f", "value"
	case d.Bits == 64 && d.IsUInt():
		format, arg = "%llu", "value"
	case d.Bits == 64:
		format, arg = "%lld", "value"
	case d.IsUInt() && d.Bits == 32:
		format, arg = "%u", "value"
	}
	buffer := name == "debug_print_buffer_value"
	g.pre.add(name+"("+typ+")", nil, func() string {
		return strings.TrimPrefix(debugPrint(buffer, typ, v.DType().String(), format, arg), "\n")
	})
	return atomf("%s(%s)", name, g.args(c.Args[1:]))
}
