package interp

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// RandomKernel is the text of a small random kernel, the same for the same seed.
// With tile it is a kernel as users write them, of tile operators and parallel
// loops; without, one of single threads as LowerTileOp leaves it. All accesses
// are in bounds and no two threads write one element, so that it has one answer;
// indices and values are full of divisions, remainders, guards and conversions.
func RandomKernel(seed uint64, tile bool) string {
	g := &kernelGen{rnd: rand.New(rand.NewPCG(seed, 0x6b65726e))}
	if tile {
		return g.tileKernel()
	}
	return g.threadKernel()
}

type kernelGen struct {
	rnd   *rand.Rand
	out   strings.Builder
	depth int
	vars  []genVar // integer variables in scope
	names int
	bufs  []genBuf // readable buffers
}

type genVar struct {
	name string
	hi   int // values are 0 to hi
}

type genBuf struct {
	name  string
	dtype string
	shape []int
}

func (g *kernelGen) line(format string, args ...any) {
	g.out.WriteString(strings.Repeat("    ", g.depth))
	fmt.Fprintf(&g.out, format, args...)
	g.out.WriteByte('\n')
}

func (g *kernelGen) pick(list ...string) string { return list[g.rnd.IntN(len(list))] }

func (g *kernelGen) fresh(prefix string) string {
	g.names++
	return fmt.Sprintf("%s%d", prefix, g.names)
}

// header opens a module with the given parameters.
func (g *kernelGen) header(bufs []genBuf) {
	g.line("# from tvm.script import ir as I")
	g.line("# from tvm.script import tirx as T")
	g.line("")
	g.line("@I.ir_module")
	g.line("class Module:")
	g.depth = 1
	g.line("@T.prim_func")
	var params []string
	for _, b := range bufs {
		params = append(params, b.name+"_handle: T.handle")
	}
	g.line("def main(%s):", strings.Join(params, ", "))
	g.depth = 2
	g.line(`T.func_attr({"target": T.target({"arch": "sm_80", "host": {"keys": ["cpu"], "kind": "c", "tag": ""}, "keys": ["cuda", "gpu"], "kind": "cuda", "max_num_threads": 1024, "tag": "", "thread_warp_size": 32})})`)
	for _, b := range bufs {
		strides := make([]int, len(b.shape))
		n := 1
		for i := len(b.shape) - 1; i >= 0; i-- {
			strides[i] = n
			n *= b.shape[i]
		}
		g.line("%s = T.match_buffer(%s_handle, %s%s, strides=%s)", b.name, b.name, tuple(b.shape), dtypeArg(b.dtype), tuple(strides))
	}
}

func dtypeArg(t string) string {
	if t == "float32" {
		return ""
	}
	return fmt.Sprintf(", %q", t)
}

func tuple(n []int) string {
	var l []string
	for _, x := range n {
		l = append(l, fmt.Sprint(x))
	}
	if len(l) == 1 {
		return "(" + l[0] + ",)"
	}
	return "(" + strings.Join(l, ", ") + ")"
}

// index is an integer expression with values from 0 to n-1.
func (g *kernelGen) index(n int) string {
	e := g.intExpr(2)
	if n == 1 {
		return "0"
	}
	for _, v := range g.vars {
		if v.hi < n && g.rnd.IntN(3) == 0 {
			return v.name
		}
	}
	return fmt.Sprintf("(%s) %% %d", e, n)
}

// intExpr is an int32 expression of moderate size.
func (g *kernelGen) intExpr(depth int) string {
	if depth == 0 || g.rnd.IntN(4) == 0 {
		if len(g.vars) > 0 && g.rnd.IntN(4) != 0 {
			return g.vars[g.rnd.IntN(len(g.vars))].name
		}
		return fmt.Sprint(g.rnd.IntN(17))
	}
	a, b := g.intExpr(depth-1), g.intExpr(depth-1)
	k := []int{2, 3, 4, 5, 7, 8, 16, 32}[g.rnd.IntN(8)]
	v := g.pick("bx", "tx")
	if len(g.vars) > 0 {
		v = g.vars[g.rnd.IntN(len(g.vars))].name
	}
	switch g.rnd.IntN(9) {
	case 0:
		return fmt.Sprintf("(%s + %s)", a, b)
	case 1:
		return fmt.Sprintf("(%s - %s)", a, b)
	case 2:
		return fmt.Sprintf("(%s * %d)", a, k)
	case 3:
		return fmt.Sprintf("(%s + %s) // %d", a, v, k)
	case 4:
		return fmt.Sprintf("(%s + %s) %% %d", a, v, k)
	case 5:
		return fmt.Sprintf("T.min(%s, %s + %s)", a, b, v)
	case 6:
		return fmt.Sprintf("T.max(%s, %s + %s)", a, b, v)
	case 7:
		return fmt.Sprintf("T.truncmod(%s + %s, %d)", a, v, k)
	}
	return fmt.Sprintf("T.if_then_else(%s, %s + %s, %s)", g.cond(), a, v, b)
}

func (g *kernelGen) cond() string {
	v := g.vars[g.rnd.IntN(len(g.vars))]
	switch g.rnd.IntN(4) {
	case 0:
		return fmt.Sprintf("%s < %d", v.name, g.rnd.IntN(v.hi+2))
	case 1:
		return fmt.Sprintf("%s %% %d == %d", v.name, 2+g.rnd.IntN(3), g.rnd.IntN(2))
	case 2:
		w := g.vars[g.rnd.IntN(len(g.vars))]
		return fmt.Sprintf("%s + %s * 2 < %d", v.name, w.name, 1+g.rnd.IntN(2*w.hi+v.hi+1))
	}
	return fmt.Sprintf("%d <= %s", g.rnd.IntN(v.hi+2), v.name)
}

// value is an expression of a type.
func (g *kernelGen) value(dtype string, depth int) string {
	lit := func() string {
		if strings.HasPrefix(dtype, "int") {
			return fmt.Sprint(g.rnd.IntN(9))
		}
		return fmt.Sprintf("T.%s(%d.%s)", dtype, g.rnd.IntN(4), g.pick("0", "5", "25"))
	}
	if depth == 0 || g.rnd.IntN(5) == 0 {
		if len(g.bufs) == 0 {
			return lit()
		}
		b := g.bufs[g.rnd.IntN(len(g.bufs))]
		var idx []string
		for _, n := range b.shape {
			idx = append(idx, g.index(n))
		}
		e := fmt.Sprintf("%s[%s]", b.name, strings.Join(idx, ", "))
		if b.dtype != dtype {
			return fmt.Sprintf("T.Cast(%q, %s)", dtype, e)
		}
		return e
	}
	a, b := g.value(dtype, depth-1), g.value(dtype, depth-1)
	switch g.rnd.IntN(8) {
	case 0, 1:
		return fmt.Sprintf("(%s + %s)", a, b)
	case 2:
		return fmt.Sprintf("(%s - %s)", a, b)
	case 3:
		return fmt.Sprintf("%s * %s", a, lit())
	case 4:
		return fmt.Sprintf("T.max(%s, %s + %s)", a, b, lit())
	case 5:
		return fmt.Sprintf("T.min(%s, %s + %s)", a, b, lit())
	case 6:
		return fmt.Sprintf("T.if_then_else(%s, %s, %s)", g.cond(), a, b)
	}
	return fmt.Sprintf("T.Select(%s, %s, %s)", g.cond(), a, b)
}

var genTypes = []string{"float32", "float16", "int32", "bfloat16"}

func (g *kernelGen) dtype() string { return genTypes[g.rnd.IntN(len(genTypes))] }

func (g *kernelGen) params(threads, blocks, per int) (in []genBuf, out genBuf) {
	for i := range 1 + g.rnd.IntN(3) {
		shape := []int{8 + g.rnd.IntN(40)}
		if g.rnd.IntN(2) == 0 {
			shape = append(shape, 4*(1+g.rnd.IntN(8)))
		}
		in = append(in, genBuf{string(rune('A' + i)), g.dtype(), shape})
	}
	return in, genBuf{"Out", g.dtype(), []int{blocks * threads, per}}
}

// threadKernel is a kernel of single threads.
func (g *kernelGen) threadKernel() string {
	threads, blocks, per := []int{32, 64, 128}[g.rnd.IntN(3)], 1+g.rnd.IntN(3), []int{1, 2, 4, 8}[g.rnd.IntN(4)]
	in, out := g.params(threads, blocks, per)
	g.header(append(append([]genBuf{}, in...), out))
	g.line(`bx = T.launch_thread("blockIdx.x", %d)`, blocks)
	g.line(`tx = T.launch_thread("threadIdx.x", %d)`, threads)
	g.line(`ty = T.launch_thread("threadIdx.y", 1)`)
	g.line(`tz = T.launch_thread("threadIdx.z", 1)`)
	g.line(`with T.sblock("tilelang_root"):`)
	g.depth++
	g.line("T.reads()")
	g.line("T.writes()")
	g.line(`T.sblock_attr({"tl.launch_threads": [%d, 1, 1]})`, threads)
	g.vars = []genVar{{"bx", blocks - 1}, {"tx", threads - 1}}
	g.bufs = in
	acc := genBuf{"acc", g.pick("float32", "float16", "int32"), []int{per}}
	g.line(`acc = T.sblock_alloc_buffer(%s%s, scope="local")`, tuple(acc.shape), dtypeArg(acc.dtype))
	shared := g.rnd.IntN(2) == 0
	if shared {
		g.line(`s = T.sblock_alloc_buffer(%s%s, scope="shared.dyn")`, tuple([]int{threads}), dtypeArg(acc.dtype))
		g.line("s[tx] = %s", g.value(acc.dtype, 2))
	}
	g.loop(per, g.pick("range", "T.unroll", "T.vectorized"), func(v string) {
		g.line("acc[%s] = %s", v, g.value(acc.dtype, 2))
	})
	if shared {
		g.bufs = append(g.bufs, genBuf{"s", acc.dtype, []int{threads}})
	}
	for range 1 + g.rnd.IntN(2) {
		g.loop(1+g.rnd.IntN(4), g.pick("range", "T.unroll"), func(string) {
			if g.rnd.IntN(2) == 0 {
				n := g.fresh("n")
				g.line("%s: T.int32 = %s", n, fmt.Sprintf("(%s) %% 16", g.intExpr(2)))
				g.vars = append(g.vars, genVar{n, 15})
			}
			g.guarded(func() {
				g.loop(per, g.pick("range", "T.unroll", "T.vectorized"), func(v string) {
					g.line("acc[%s] = %s(acc[%s], %s)", v, g.pick("T.max", "T.min"), v, g.value(acc.dtype, 2))
				})
			})
		})
	}
	g.loop(per, g.pick("range", "T.vectorized"), func(v string) {
		x := fmt.Sprintf("acc[%s]", v)
		if acc.dtype != out.dtype {
			x = fmt.Sprintf("T.Cast(%q, %s)", out.dtype, x)
		}
		g.line("Out[bx * %d + tx, %s] = %s", threads, v, x)
	})
	return g.out.String()
}

func (g *kernelGen) loop(n int, kind string, body func(v string)) {
	v := g.fresh("i")
	g.line("for %s in %s(%d):", v, kind, n)
	g.depth++
	saved := g.vars
	g.vars = append(append([]genVar{}, saved...), genVar{v, n - 1})
	body(v)
	g.vars = saved
	g.depth--
}

func (g *kernelGen) guarded(body func()) {
	if g.rnd.IntN(2) == 0 {
		body()
		return
	}
	g.line("if %s:", g.cond())
	g.depth++
	body()
	g.depth--
}

// tileKernel is a kernel of tile operators.
func (g *kernelGen) tileKernel() string {
	rows, cols := 16*(1+g.rnd.IntN(2)), 16*(1+g.rnd.IntN(4))
	threads, blocks := []int{64, 128}[g.rnd.IntN(2)], 1+g.rnd.IntN(3)
	in, _ := g.params(threads, blocks, 1)
	in = append(in, genBuf{"X", g.pick("float16", "float32"), []int{blocks*rows - g.rnd.IntN(5), cols}})
	out := genBuf{"Out", g.dtype(), []int{blocks * rows, cols}}
	sum := genBuf{"Sum", "float32", []int{blocks * rows}}
	g.header(append(append([]genBuf{}, in...), out, sum))
	g.line(`for bx in T.thread_binding(%d, thread="blockIdx.x"):`, blocks)
	g.depth++
	for i, v := range []string{"tx", "ty", "tz"} {
		g.line("%s: T.int32 = T.launch_thread_idx(%d)", v, i)
	}
	g.line(`with T.sblock("tilelang_root"):`)
	g.depth++
	g.line("T.reads()")
	g.line("T.writes()")
	g.line(`T.sblock_attr({"tl.launch_threads": [%d, 1, 1]})`, threads)
	x := in[len(in)-1]
	g.line(`x_s = T.sblock_alloc_buffer(%s%s, scope="shared.dyn")`, tuple([]int{rows, cols}), dtypeArg(x.dtype))
	g.line(`f = T.sblock_alloc_buffer(%s, scope="local.fragment")`, tuple([]int{rows, cols}))
	g.line(`r = T.sblock_alloc_buffer((%d,), scope="local.fragment")`, rows)
	g.line("T.copy(T.region(X[bx * %d, 0], 1, %d, %d), T.region(x_s[0, 0], 2, %d, %d))", rows, rows, cols, rows, cols)
	g.line("T.copy(T.region(x_s[0, 0], 1, %d, %d), T.region(f[0, 0], 2, %d, %d))", rows, cols, rows, cols)
	g.vars = []genVar{{"bx", blocks - 1}}
	g.bufs = in[:len(in)-1]
	for range 1 + g.rnd.IntN(2) {
		g.parallel(rows, cols, func(i, j string) {
			g.guarded(func() {
				g.line("f[%s, %s] = T.%s(f[%s, %s], %s)", i, j, g.pick("max", "min"), i, j, g.value("float32", 2))
			})
		})
	}
	op := g.pick("sum", "max", "min")
	g.line(`T.reduce(T.region(f[0, 0], 1, %d, %d), T.region(r[0], 2, %d), %q, 1, T.bool(True))`, rows, cols, rows, op)
	g.line("T.copy(T.region(r[0], 1, %d), T.region(Sum[bx * %d], 2, %d))", rows, rows, rows)
	g.parallel(rows, cols, func(i, j string) {
		e := fmt.Sprintf("f[%s, %s]", i, j)
		if g.rnd.IntN(2) == 0 {
			e = fmt.Sprintf("T.max(%s, r[%s] * T.float32(0.5))", e, i)
		}
		if out.dtype != "float32" {
			e = fmt.Sprintf("T.Cast(%q, %s)", out.dtype, e)
		}
		g.line("Out[bx * %d + %s, %s] = %s", rows, i, j, e)
	})
	return g.out.String()
}

func (g *kernelGen) parallel(rows, cols int, body func(i, j string)) {
	i, j := g.fresh("i"), g.fresh("j")
	g.line("for %s in T.parallel(%d):", i, rows)
	g.depth++
	g.line("for %s in T.parallel(%d):", j, cols)
	g.depth++
	saved := g.vars
	g.vars = append(append([]genVar{}, saved...), genVar{i, rows - 1}, genVar{j, cols - 1})
	body(i, j)
	g.vars = saved
	g.depth -= 2
}
