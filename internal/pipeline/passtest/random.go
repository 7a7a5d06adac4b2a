package passtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// Random runs a pass on n random programs: the result must be well formed and
// compute what the program did. The programs are the same in every run.
//
// A program is a launch of 2 blocks of 4 threads, each of which works on
// elements of its own: loops of all kinds, branches, bindings, integer and
// floating-point arithmetic, conversions, and registers.
func Random(t *testing.T, n int, p *pipeline.Pass) {
	t.Helper()
	t.Run(p.Name, func(t *testing.T) { RandomChain(t, n, p) })
}

// RandomChain is Random for several passes in a row.
func RandomChain(t *testing.T, n int, passes ...*pipeline.Pass) {
	t.Helper()
	for seed := range n {
		text := program(uint64(seed))
		m, err := script.ParseString("random.tir", text)
		if err != nil {
			t.Fatalf("program %d: %v\n%s", seed, err, text)
		}
		if err := ir.Verify(m); err != nil {
			t.Fatalf("program %d: %v\n%s", seed, err, text)
		}
		c, err := newContext("")
		if err != nil {
			t.Fatal(err)
		}
		out, err := chain(c, passes, m)
		if err != nil {
			t.Fatalf("program %d: %v\n%s", seed, err, text)
		}
		if out != m && !t.Run(fmt.Sprint(seed), func(t *testing.T) { sameResults(t, m, out) }) {
			t.Fatalf("program %d:\n%s\nbecame\n%s", seed, text, script.Print(out))
		}
	}
}

// generator writes one program.
type generator struct {
	*rand.Rand
	out    strings.Builder
	indent int
	ints   []string // integer variables in scope
	floats []string // float32 variables in scope
	next   int      // number of the next variable
	budget int      // statements left
}

func program(seed uint64) string {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), indent: 1, budget: 24}
	g.out.WriteString("# from tvm.script import tirx as T\n\n@T.prim_func\ndef k(A_handle: T.handle, B_handle: T.handle, C_handle: T.handle, n: T.int32):\n")
	g.line("A = T.match_buffer(A_handle, (8, 16), strides=(16, 1))")
	g.line(`B = T.match_buffer(B_handle, (128,), "float16", strides=(1,))`)
	g.line(`C = T.match_buffer(C_handle, (8, 2, 4), "int32", strides=(8, 4, 1))`)
	g.line(`bx = T.launch_thread("blockIdx.x", 2)`)
	g.line(`tx = T.launch_thread("threadIdx.x", 4)`)
	g.line(`L = T.alloc_buffer((8,), scope="local")`)
	g.ints = []string{"bx", "tx", "n"}
	g.line("for z in range(8):")
	g.line("    L[z] = T.Cast(\"float32\", z - 3)")
	g.stmts(0)
	return g.out.String()
}

func (g *generator) line(format string, args ...any) {
	g.out.WriteString(strings.Repeat("    ", g.indent))
	fmt.Fprintf(&g.out, format, args...)
	g.out.WriteByte('\n')
}

func (g *generator) name(prefix string) string {
	g.next++
	return fmt.Sprintf("%s%d", prefix, g.next)
}

// scope runs body one level in and forgets the names it made.
func (g *generator) scope(body func()) {
	ints, floats := len(g.ints), len(g.floats)
	g.indent++
	body()
	g.indent--
	g.ints, g.floats = g.ints[:ints], g.floats[:floats]
}

func (g *generator) stmts(depth int) {
	for i, n := 0, 1+g.IntN(4); i < n || depth == 0 && g.budget > 0; i++ {
		if g.budget--; g.budget < 0 && i > 0 {
			return
		}
		g.stmt(depth)
	}
}

func (g *generator) stmt(depth int) {
	switch k := g.IntN(12); {
	case depth < 3 && k < 2:
		v := g.name("i")
		kind := [...]string{"range(%d)", "T.unroll(%d)", "T.unroll(%d, annotations={\"pragma_unroll_explicit\": True})"}[g.IntN(3)]
		g.line("for %s in "+kind+":", v, 1+g.IntN(4))
		g.scope(func() {
			g.ints = append(g.ints, v)
			g.stmts(depth + 1)
		})
	case depth < 3 && k < 4:
		g.line("if %s:", g.cond(2))
		g.scope(func() { g.stmts(depth + 1) })
		if g.IntN(2) == 0 {
			g.line("else:")
			g.scope(func() { g.stmts(depth + 1) })
		}
	case k == 4:
		v := g.name("x")
		g.line("%s: T.int32 = %s", v, g.int(2))
		g.ints = append(g.ints, v)
	case k == 5:
		v := g.name("y")
		g.line("%s: T.float32 = %s", v, g.float(2))
		g.floats = append(g.floats, v)
	case k < 8:
		g.vectorized()
	default:
		g.store()
	}
}

// store writes an element of the thread.
func (g *generator) store() {
	switch g.IntN(4) {
	case 0:
		g.line("A[bx * 4 + tx, %s %% 16] = %s", g.int(2), g.float(3))
	case 1:
		g.line("B[bx * 64 + tx * 16 + %s %% 16] = T.Cast(\"float16\", %s)", g.int(2), g.float(2))
	case 2:
		g.line("C[bx * 4 + tx, %s %% 2, %s %% 4] = (%s) %% 97", g.int(1), g.int(1), g.int(3))
	case 3:
		g.line("L[%s %% 8] = %s", g.int(2), g.float(3))
	}
}

// vectorized is a loop whose iterations do not depend on each other: each
// writes an element of its own of one buffer and reads others.
func (g *generator) vectorized() {
	v := g.name("v")
	lanes := [...]int{2, 4, 8}[g.IntN(3)]
	g.line("for %s in T.vectorized(%d):", v, lanes)
	g.scope(func() {
		g.ints = append(g.ints, v)
		at := fmt.Sprintf("%d + %s", lanes*g.IntN(8/lanes), v)
		if g.IntN(4) == 0 {
			at = v + " * 2"
		}
		if g.IntN(3) == 0 {
			g.line("if %s:", g.cond(1))
			g.indent++
			defer func() { g.indent-- }()
		}
		if g.IntN(2) == 0 {
			// A is written: L, B and C may be read.
			g.line("A[bx * 4 + tx, %s] = %s", at, g.floatFrom("LBC", 2, v))
		} else {
			g.line("B[bx * 64 + tx * 16 + (%s)] = T.Cast(\"float16\", %s)", at, g.floatFrom("LAC", 2, v))
		}
	})
}

func (g *generator) pick(list []string) string { return list[g.IntN(len(list))] }

// int is an integer expression of small values, in parentheses if need be.
func (g *generator) int(depth int) string {
	if depth == 0 || g.IntN(4) == 0 {
		if g.IntN(3) == 0 {
			return fmt.Sprint(g.IntN(10))
		}
		return g.pick(g.ints)
	}
	a := g.int(depth - 1)
	switch g.IntN(9) {
	case 0, 1:
		return fmt.Sprintf("(%s + %s)", a, g.int(depth-1))
	case 2:
		return fmt.Sprintf("(%s - %s)", a, g.int(depth-1))
	case 3:
		return fmt.Sprintf("(%s * %d)", a, 1+g.IntN(5))
	case 4:
		return fmt.Sprintf("(%s // %d)", a, 1+g.IntN(8))
	case 5:
		return fmt.Sprintf("(%s %% %d)", a, 1+g.IntN(8))
	case 6:
		return fmt.Sprintf("T.%s(%s, %s)", [...]string{"min", "max"}[g.IntN(2)], a, g.int(depth-1))
	case 7:
		return fmt.Sprintf("T.if_then_else(%s, %s, %s)", g.cond(1), a, g.int(depth-1))
	}
	return fmt.Sprintf("C[bx * 4 + tx, %s %% 2, %s %% 4]", a, g.int(depth-1))
}

func (g *generator) cond(depth int) string {
	a, b := g.int(1), g.int(1)
	c := fmt.Sprintf("%s %s %s", a, [...]string{"<", "<=", ">", ">=", "==", "!="}[g.IntN(6)], b)
	if depth <= 1 || g.IntN(2) == 0 {
		return c
	}
	return fmt.Sprintf("(%s) %s (%s)", c, [...]string{"and", "or"}[g.IntN(2)], g.cond(depth-1))
}

func (g *generator) float(depth int) string { return g.floatFrom("ALBC", depth, "") }

// floatFrom is a float32 expression that reads the named buffers. When lane is
// set, half of the accesses are of neighbouring elements.
func (g *generator) floatFrom(buffers string, depth int, lane string) string {
	if depth == 0 || g.IntN(5) == 0 {
		switch {
		case g.IntN(3) == 0:
			return fmt.Sprintf("T.float32(%d.5)", g.IntN(5))
		case len(g.floats) > 0 && g.IntN(2) == 0:
			return g.pick(g.floats)
		}
		at := g.int(1)
		if lane != "" {
			// C may be written only outside this loop, so that an index may
			// read it.
			at = lane
			if g.IntN(2) == 0 {
				at = fmt.Sprintf("(%s * %d + %d)", lane, 1+g.IntN(2), g.IntN(4))
			}
		}
		switch buffers[g.IntN(len(buffers))] {
		case 'A':
			return fmt.Sprintf("A[bx * 4 + tx, %s %% 16]", at)
		case 'B':
			return fmt.Sprintf("T.Cast(\"float32\", B[bx * 64 + tx * 16 + %s %% 16])", at)
		case 'C':
			return fmt.Sprintf("T.Cast(\"float32\", C[bx * 4 + tx, %s %% 2, %s %% 4])", g.int(1), at)
		}
		return fmt.Sprintf("L[%s %% 8]", at)
	}
	a := g.floatFrom(buffers, depth-1, lane)
	switch g.IntN(5) {
	case 0, 1:
		return fmt.Sprintf("(%s + %s)", a, g.floatFrom(buffers, depth-1, lane))
	case 2:
		return fmt.Sprintf("(%s * %s)", a, g.floatFrom(buffers, depth-1, lane))
	case 3:
		return fmt.Sprintf("T.max(%s, %s)", a, g.floatFrom(buffers, depth-1, lane))
	}
	return fmt.Sprintf("T.if_then_else(%s, %s, T.float32(0.0))", g.cond(1), a)
}
