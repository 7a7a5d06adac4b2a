package interp

import (
	"fmt"
	"math/rand/v2"
	"regexp"
)

// RandomPipeline is the text of a random kernel around one pipelined loop, the
// same for the same seed: tiles that are copied ahead, tiles that parallel loops
// write in the loop, one or more consumers of each, products whose accumulator is
// cleared within the loop, branches, and arrays that end within a tile. All
// accesses are in bounds or padded, so that it has one answer.
func RandomPipeline(seed uint64) string {
	g := &kernelGen{rnd: rand.New(rand.NewPCG(seed, 0x70697065))}
	return g.pipelineKernel(1)
}

// RandomPartitions is the text of a random kernel whose threads fall into two or
// three parts of whole warps, each of which runs a pipelined loop of its own as
// RandomPipeline has it.
func RandomPartitions(seed uint64) string {
	g := &kernelGen{rnd: rand.New(rand.NewPCG(seed, 0x70617274))}
	return g.pipelineKernel(2 + g.rnd.IntN(2))
}

// pipelineTile is the shape of the products of one pipelined loop.
type pipelineTile struct{ rows, cols, depth, rounds, length int }

// ownNames are the names that each part of a kernel has for itself.
var ownNames = regexp.MustCompile(`\b(a_s|b_s|s_s|t_s|acc|product|seen|Out)\b`)

// pipelineKernel is a kernel whose threads fall into parts, each with a pipelined
// loop.
func (g *kernelGen) pipelineKernel(parts int) string {
	rows, cols, depth := 16*(1+g.rnd.IntN(2)), 16<<g.rnd.IntN(3), 16<<g.rnd.IntN(3)
	threads, rounds := []int{64, 128}[g.rnd.IntN(2)], 1+g.rnd.IntN(6)
	if rows*cols < 512 { // four warps cannot divide the product
		threads = 64
	}
	length := rounds*depth - []int{0, 0, 0, 1, 5}[g.rnd.IntN(5)]
	tile := pipelineTile{rows, cols, depth, rounds, length}
	bufs := []genBuf{{"A", "float16", []int{rows, length}}, {"B", "float16", []int{cols, length}}, {"S", "float32", []int{rounds, rows}}}
	name := func(text string, part int) string {
		if parts == 1 {
			return text
		}
		return ownNames.ReplaceAllString(text, fmt.Sprintf("${1}_%d", part))
	}
	for i := range parts {
		bufs = append(bufs, genBuf{name("Out", i), "float32", []int{rows, cols}})
	}
	g.header(bufs)
	g.line(`for bx in T.thread_binding(1, thread="blockIdx.x"):`)
	g.depth++
	for i, v := range []string{"tx", "ty", "tz"} {
		g.line("%s: T.int32 = T.launch_thread_idx(%d)", v, i)
	}
	g.line(`with T.sblock("tilelang_root"):`)
	g.depth++
	g.line("T.reads()")
	g.line("T.writes()")
	g.line(`T.sblock_attr({"tl.launch_threads": [%d, 1, 1]})`, threads*parts)
	for i := range parts {
		g.line(`%s = T.sblock_alloc_buffer(%s, "float16", scope="shared.dyn")`, name("a_s", i), tuple([]int{rows, depth}))
		g.line(`%s = T.sblock_alloc_buffer(%s, "float16", scope="shared.dyn")`, name("b_s", i), tuple([]int{cols, depth}))
		g.line(`%s = T.sblock_alloc_buffer(%s, scope="shared.dyn")`, name("s_s", i), tuple([]int{rows}))
		g.line(`%s = T.sblock_alloc_buffer(%s, scope="shared.dyn")`, name("t_s", i), tuple([]int{rows, cols}))
		for _, f := range []string{"acc", "product", "seen"} {
			g.line(`%s = T.sblock_alloc_buffer(%s, scope="local.fragment")`, name(f, i), tuple([]int{rows, cols}))
		}
	}
	if parts == 1 {
		g.pipeline(tile)
		return g.out.String()
	}
	for i := range parts {
		g.line("if tx >= %d and tx < %d:", i*threads, (i+1)*threads)
		g.depth++
		g.line(`T.attr(0, "warp_specialize", 1)`)
		done := g.out.String()
		g.out.Reset()
		g.pipeline(tile)
		text := name(g.out.String(), i)
		g.out.Reset()
		g.out.WriteString(done + text)
		g.depth--
	}
	return g.out.String()
}

// pipeline is one pipelined loop, which keeps sums of tiles in the fragments acc,
// product and seen.
func (g *kernelGen) pipeline(t pipelineTile) {
	rows, cols, depth, rounds, length := t.rows, t.cols, t.depth, t.rounds, t.length
	fill := func(f string) { g.line("T.fill(T.region(%s[0, 0], 2, %d, %d), 0)", f, rows, cols) }
	fill("acc")
	fill("product")
	fill("seen")
	g.line(`for k in T.serial(%d, annotations={"num_stages": %d}):`, rounds, g.rnd.IntN(5))
	g.depth++
	// What is loaded, in any order.
	scaled := g.rnd.IntN(3) > 0
	loads := []func(){
		func() { g.loadTile("A", "a_s", rows, depth, length) },
		func() { g.loadTile("B", "b_s", cols, depth, length) },
	}
	used := map[string]bool{}
	if scaled {
		factor := g.pick("", " * T.float32(2.0)", " + T.Cast(\"float32\", k)")
		loads = append(loads, func() {
			if factor == "" && g.rnd.IntN(2) == 0 {
				g.line("T.copy(T.region(S[k, 0], 1, 1, %d), T.region(s_s[0], 2, %d))", rows, rows)
				return
			}
			g.parallelRow(rows, func(i string) { g.line("s_s[%s] = S[k, %s]%s", i, i, factor) })
		})
	}
	g.rnd.Shuffle(len(loads), func(i, j int) { loads[i], loads[j] = loads[j], loads[i] })
	for _, f := range loads {
		f()
	}
	scale := func(i string) string {
		if scaled {
			used["s_s"] = true
			return fmt.Sprintf("s_s[%s]", i)
		}
		return "T.float32(0.5)"
	}
	// What uses it: each step leaves memory that the others may read.
	steps := []func(){
		func() {
			used["a_s"], used["b_s"] = true, true
			g.line("T.gemm(T.region(a_s[0, 0], 1, %d, %d), T.region(b_s[0, 0], 1, %d, %d), T.region(product[0, 0], 3, %d, %d), T.bool(False), T.bool(True), %d, %d, %d, 0, T.bool(False), 0, 0, 0)",
				rows, depth, cols, depth, rows, cols, rows, cols, depth)
			if g.rnd.IntN(2) == 0 {
				return
			}
			g.parallel(rows, cols, func(i, j string) {
				g.line("acc[%[1]s, %[2]s] = acc[%[1]s, %[2]s] + product[%[1]s, %[2]s] * %[3]s", i, j, scale(i))
			})
			fill("product")
		},
		func() { // by other threads than those that loaded it
			used["a_s"] = true
			g.parallel(rows, cols, func(i, j string) {
				g.line("seen[%[1]s, %[2]s] = seen[%[1]s, %[2]s] + T.Cast(\"float32\", %[3]s[%[4]s, (%[2]s * 3 + k) %% %[5]d]) * %[6]s", i, j,
					"a_s", fmt.Sprintf("%d - %s", rows-1, i), depth, scale(i))
			})
		},
		func() { // a tile made in the loop
			used["b_s"] = true
			g.parallel(rows, cols, func(i, j string) {
				g.line("t_s[%[1]s, %[2]s] = T.Cast(\"float32\", b_s[%[2]s, %[1]s %% %[3]d]) + %[4]s", i, j, depth, scale(i))
			})
			g.parallel(rows, cols, func(i, j string) {
				g.line("seen[%[1]s, %[2]s] = seen[%[1]s, %[2]s] + t_s[%[3]d - %[1]s, %[4]d - %[2]s]", i, j, rows-1, cols-1)
			})
		},
		func() { // a loaded tile changed in place
			g.parallel(rows, depth, func(i, j string) {
				g.line("a_s[%[1]s, %[2]s] = a_s[%[1]s, %[2]s] * T.float16(0.5)", i, j)
			})
		},
	}
	for range 1 + g.rnd.IntN(4) {
		step := steps[g.rnd.IntN(len(steps))]
		if g.rnd.IntN(4) == 0 {
			g.line("if %s:", g.pick("k > 0", "k % 2 == 0", "S[k, 0] > T.float32(0.5)"))
			g.depth++
			step()
			g.depth--
			continue
		}
		step()
	}
	// A copy that nothing waits for would still be under way when its tile is
	// filled again.
	for _, t := range []string{"a_s", "b_s", "s_s"} {
		at := map[string]string{"a_s": "%[1]s, 0", "b_s": "%[2]s, 0", "s_s": "%[1]s"}[t]
		if used[t] || t == "s_s" && !scaled {
			continue
		}
		g.parallel(rows, cols, func(i, j string) {
			g.line("seen[%[1]s, %[2]s] = seen[%[1]s, %[2]s] + T.Cast(\"float32\", "+t+"["+at+"])", i, j)
		})
	}
	g.depth--
	g.parallel(rows, cols, func(i, j string) {
		g.line("Out[%[1]s, %[2]s] = acc[%[1]s, %[2]s] + product[%[1]s, %[2]s] + seen[%[1]s, %[2]s]", i, j)
	})
}

// loadTile fills a tile from the columns of round k of an array.
func (g *kernelGen) loadTile(from, to string, rows, cols, length int) {
	if length%cols != 0 || g.rnd.IntN(3) > 0 {
		g.line("T.copy(T.region(%s[0, k * %d], 1, %d, %d), T.region(%s[0, 0], 2, %d, %d))", from, cols, rows, cols, to, rows, cols)
		return
	}
	g.parallel(rows, cols, func(i, j string) {
		g.line("%[1]s[%[3]s, %[4]s] = %[2]s[%[3]s, k * %[5]d + %[4]s]", to, from, i, j, cols)
	})
}

func (g *kernelGen) parallelRow(n int, body func(i string)) {
	i := g.fresh("i")
	g.line("for %s in T.parallel(%d):", i, n)
	g.depth++
	body(i)
	g.depth--
}
