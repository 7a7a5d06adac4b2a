package arith

import (
	"math/rand/v2"
	"strings"
	"testing"

	"lowertrace/internal/ir"
)

func TestBoundsOf(t *testing.T) {
	for _, c := range []struct{ e, ranges, want string }{
		{"i * 16 + j", "i:0:4 j:0:16", "0 .. 63"},
		{"x * 32 + j", "j:0:16", "x * 32 .. x * 32 + 15"},
		{"x - j", "j:0:16", "x - 15 .. x"},
		{"(x * 32 + j) // 8", "j:0:8", "x * 4 .. x * 4"},
		{"(x * 32 + j) // 8", "j:0:16", "x * 4 .. x * 4 + 1"},
		{"(x + j) % 8", "j:0:8", "0 .. 7"},
		{"min(j, n)", "j:0:16", "T.min(0, n) .. T.min(15, n)"},
		{"j + y", "j:x:16", "x + y .. x + y + 15"},
		{"i + j", "i:0:j+1 j:0:16", "0 .. 30"},
		{"j * nn", "j:0:16", "0 .. nn * 15"},
		{"j * n", "j:0:16", "unknown"},
		{"if_then_else(j < 4, j, n)", "j:0:16", "T.min(0, n) .. T.max(15, n)"},
		{"j // nn", "j:0:16", "0 .. 15 // nn"},
		{"x", "j:0:16", "x .. x"},
	} {
		a, vars := testEnv()
		ranges := map[*ir.Var]ir.Range{}
		for _, w := range strings.Fields(c.ranges) {
			p := strings.Split(w, ":")
			// Range variables are fresh: testEnv's have bounds of their own.
			ranges[vars[p[0]]] = ir.Range{Min: read(vars, p[1]), Extent: read(vars, p[2])}
		}
		got := "unknown"
		if lo, hi, ok := a.BoundsOf(read(vars, c.e), ranges); ok {
			got = show(lo) + " .. " + show(hi)
		}
		if got != c.want {
			t.Errorf("%s over %s: got %s, want %s", c.e, c.ranges, got, c.want)
		}
	}
}

func TestBoundsOfAgainstBruteForce(t *testing.T) {
	known := 0
	n := rounds(10000)
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		b := randomBox(r, ir.DInt32, 3)
		g := &generator{r, ir.DInt32, b.vars, smallConsts}
		a := New()
		e := g.expr(2 + r.IntN(2))
		ranges := map[*ir.Var]ir.Range{}
		for i, v := range b.vars[:2] { // the third stays symbolic
			ranges[v] = ir.Range{Min: ir.I32(b.lo[i]), Extent: ir.I32(b.hi[i] - b.lo[i] + 1)}
		}
		a.BindVar(b.vars[2], ir.I32(b.lo[2]), ir.I32(b.hi[2]-b.lo[2]+1))
		lo, hi, ok := a.BoundsOf(e, ranges)
		if !ok {
			continue
		}
		known++
		b.each(func(env map[*ir.Var]int64) bool {
			v, l, h := eval(e, env), eval(lo, env), eval(hi, env)
			if v.exact && l.exact && h.exact && (v.v < l.v || v.v > h.v) {
				t.Errorf("seed %d: %s is %d, outside %s .. %s = %d .. %d;%s", seed, show(e), v.v, show(lo), show(hi), l.v, h.v, describe(a, b.vars))
				return false
			}
			return true
		})
	}
	if known < n/2 {
		t.Errorf("only %d of %d expressions were bounded", known, n)
	}
}

func TestRegions(t *testing.T) {
	a, vars := testEnv()
	rng := func(s string) []ir.Range {
		var out []ir.Range
		for _, w := range strings.Split(s, ",") {
			lo, n, _ := strings.Cut(strings.TrimSpace(w), ":")
			out = append(out, ir.Range{Min: read(vars, lo), Extent: read(vars, n)})
		}
		return out
	}
	text := func(rs []ir.Range) string {
		var parts []string
		for _, r := range rs {
			parts = append(parts, show(r.Min)+":"+show(r.Extent))
		}
		return strings.Join(parts, ", ")
	}
	for _, c := range [][3]string{
		{"x:16, 0:4", "x + 16:16, 0:4", "x:32, 0:4"},
		{"0:8", "4:2", "0:8"},
		{"x * 8:8", "x * 8 + 4:8", "x * 8:12"},
	} {
		if got := text(a.UnionRegion(rng(c[0]), rng(c[1]))); got != c[2] {
			t.Errorf("union of %s and %s: got %s, want %s", c[0], c[1], got, c[2])
		}
	}
	if !a.RegionCovers(rng("x * 8:16"), rng("x * 8 + 4:8")) || a.RegionCovers(rng("x * 8:8"), rng("x * 8 + 4:8")) {
		t.Error("RegionCovers is wrong")
	}
	if !a.RegionsDisjoint(rng("0:4, x:8"), rng("0:4, x + 8:8")) || a.RegionsDisjoint(rng("0:4, x:8"), rng("0:4, x + 7:8")) {
		t.Error("RegionsDisjoint is wrong")
	}
	j := vars["j"]
	r, ok := a.RegionOf([]ir.Expr{read(vars, "x * 16 + j"), read(vars, "Ramp(j * 4, 1, 4)")}, map[*ir.Var]ir.Range{j: {Min: ir.I32(0), Extent: ir.I32(16)}})
	if got := text(r); !ok || got != "x * 16:16, 0:64" {
		t.Errorf("RegionOf: got %s, %v", got, ok)
	}
}

func TestLinear(t *testing.T) {
	for _, c := range []struct{ e, want string }{
		{"i * 16 + j * 2 + x + 3", "i:16 j:2 base:x + 3"},
		{"i * n + j", "i:n j:1 base:0"},
		{"i * n * 4 - j", "i:n * 4 j:-1 base:0"},
		{"i * j", "no"},
		{"i // 2", "no"},
		{"(i * 4 + x) // 2", "i:2 j:0 base:x // 2"},
		{"x", "i:0 j:0 base:x"},
	} {
		a, vars := testEnv()
		got := "no"
		if cs, base, ok := a.DetectLinear(read(vars, c.e), []*ir.Var{vars["i"], vars["j"]}); ok {
			got = "i:" + show(cs[0]) + " j:" + show(cs[1]) + " base:" + show(base)
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.e, got, c.want)
		}
	}
	a, vars := testEnv()
	if s, ok := a.StrideOf(read(vars, "i * 16 + x // 2"), vars["i"]); !ok || s != 16 {
		t.Errorf("StrideOf: %d, %v", s, ok)
	}
	if s, ok := a.StrideOf(read(vars, "x // 2"), vars["i"]); !ok || s != 0 {
		t.Errorf("StrideOf: %d, %v", s, ok)
	}
	if _, ok := a.StrideOf(read(vars, "i * x"), vars["i"]); ok {
		t.Error("StrideOf found a constant in i * x")
	}
}

func TestVectorize(t *testing.T) {
	for _, c := range []struct {
		e     string
		lanes int
		want  string
	}{
		{"i * 4 + vec", 4, "i * 4 stride 1 aligned"},
		{"i * 2 + vec", 4, "i * 2 stride 1"},
		{"x * 8 + vec + 4", 4, "x * 8 + 4 stride 1 aligned"},
		{"(i * 4 + vec) // 8 * 64 + (i * 4 + vec) % 8", 4, "i // 2 * 64 + i % 2 * 4 stride 1 aligned"},
		{"(i * 4 + vec) % 6", 4, "no"},
		{"vec * 2", 4, "0 stride 2 aligned"},
		{"x", 4, "x stride 0"},
		{"x", 1, "x stride 0 aligned"},
		{"tx // 4 * 32 + ((tx // 8 + tx // 2) % 2) * 8 + vec", 8, "tx // 4 * 32 + (tx // 8 + tx // 2) % 2 * 8 stride 1 aligned"},
	} {
		a, vars := testEnv()
		got := "no"
		if acc, ok := a.Vectorize(read(vars, c.e), vars["vec"], c.lanes); ok {
			got = show(acc.Base) + " stride " + show(ir.I32(acc.Stride))
			if acc.Aligned {
				got += " aligned"
			}
		}
		if got != c.want {
			t.Errorf("%s over %d lanes: got %s, want %s", c.e, c.lanes, got, c.want)
		}
		if want := strings.HasSuffix(c.want, "1 aligned") || c.lanes == 1; a.IsContiguous(read(vars, c.e), vars["vec"], c.lanes) != want {
			t.Errorf("%s over %d lanes: IsContiguous is not %v", c.e, c.lanes, want)
		}
	}
}

func TestVectorizeAgainstBruteForce(t *testing.T) {
	hits := 0
	n := rounds(6000)
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		b := randomBox(r, ir.DInt32, 2)
		lanes := []int{2, 4, 8}[r.IntN(3)]
		v := &ir.Var{Name: "v", Type: ir.DInt32}
		g := &generator{r, ir.DInt32, append(b.vars[:2:2], v), smallConsts}
		inner := &ir.Binary{Op: ir.Add, A: &ir.Binary{Op: ir.Mul, A: g.expr(1), B: ir.I32(int64(lanes))}, B: v}
		g.vars = append(g.vars, v)
		var e ir.Expr = inner
		for range r.IntN(3) {
			c := ir.I32([]int64{2, 4, 8, 16, 3}[r.IntN(5)])
			e = &ir.Binary{Op: ir.Add,
				A: &ir.Binary{Op: ir.Mul, A: &ir.Binary{Op: ir.FloorDiv, A: e, B: c}, B: ir.I32([]int64{2, 8, 16, 5}[r.IntN(4)])},
				B: &ir.Binary{Op: ir.FloorMod, A: e, B: c}}
		}
		a := New()
		b.bind(a)
		acc, ok := a.Vectorize(e, v, lanes)
		if !ok {
			continue
		}
		hits++
		b.each(func(env map[*ir.Var]int64) bool {
			base := eval(acc.Base, env)
			for l := range lanes {
				env[v] = int64(l)
				if got := eval(e, env); got.exact && got.v != base.v+acc.Stride*int64(l) {
					t.Errorf("seed %d: %s at lane %d is %d, not %s + %d*lane = %d", seed, show(e), l, got.v, show(acc.Base), acc.Stride, base.v+acc.Stride*int64(l))
					return false
				}
			}
			if acc.Aligned && base.v%int64(lanes) != 0 {
				t.Errorf("seed %d: base %s = %d is no multiple of %d", seed, show(acc.Base), base.v, lanes)
				return false
			}
			return true
		})
	}
	if hits < n/10 {
		t.Errorf("only %d of %d accesses were understood", hits, n)
	}
}
