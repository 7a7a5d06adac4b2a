package arith

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lowertrace/internal/ir"
)

// itersOf makes iterators from "i:8 j:32".
func itersOf(text string) ([]Iter, map[string]*ir.Var) {
	var iters []Iter
	vars := map[string]*ir.Var{}
	for _, w := range strings.Fields(text) {
		name, n, _ := strings.Cut(w, ":")
		v := &ir.Var{Name: name, Type: ir.DInt32}
		vars[name] = v
		it := Iter{Var: v}
		fmt.Sscan(n, &it.Extent)
		iters = append(iters, it)
	}
	return iters, vars
}

func TestDetectIterMap(t *testing.T) {
	for _, c := range []struct {
		iters, indices, pred string
		level                IterLevel
		want                 string // the inverse over o0, o1, ..., or "error: ..."
	}{
		{"i:8 j:32", "i; j", "", Bijective, "o0; o1"},
		{"i:8 j:32", "i * 32 + j", "", Bijective, "o0 // 32; o0 % 32"},
		{"i:256", "i // 32; i % 32", "", Bijective, "o0 * 32 + o1"},
		{"i:128 j:32", "i // 16; j // 8 * 128 + i % 16 * 8 + j % 8", "", Bijective, "o0 * 16 + o1 % 128 // 8; o1 // 128 * 8 + o1 % 8"},
		{"i:8 j:32", "j; i + 5", "", Bijective, "o1 - 5; o0"},
		{"i:8 j:32", "i; i", "", Bijective, "error: i is used twice"},
		{"i:8 j:32", "i", "", Bijective, "error: a part of j is not used"},
		{"i:8 j:32", "i", "", Surjective, "error: a part of j is not used"},
		{"i:8 j:32", "i * 64 + j", "", Bijective, "error: the values of an index have gaps"},
		{"i:8 j:32", "i * 64 + j", "", Injective, "o0 // 64; o0 % 64"},
		{"i:8 j:32", "i * 16 + j", "", Injective, "error: digits overlap: 32 values under a step of 16"},
		{"i:6 j:6", "(i * 6 + j) // 4; (i * 6 + j) % 4", "", Bijective, "(o0 * 4 + o1) // 6; (o0 * 4 + o1) % 6"},
		{"i:5", "i // 2; i % 2", "", Bijective, "error: divisor 2 does not divide extent 5"},
		{"i:8 j:32", "i * 16 + j", "j < 16", Bijective, "o0 // 16; o0 % 16"},
		{"i:8 j:32", "i * j", "", Bijective, "error: not a split and fuse of the iterators"},
		{"i:8", "7 - i", "", Bijective, "error: an iterator runs backwards"},
		{"i:8 p:1", "i", "", Bijective, "o0; 0"},
		{"i:16", "i // 4", "i != 3", Bijective, "error: the condition bounds no single iterator by a constant"},
	} {
		iters, vars := itersOf(c.iters)
		a := New()
		var idx []ir.Expr
		for _, s := range strings.Split(c.indices, ";") {
			idx = append(idx, read(vars, strings.TrimSpace(s)))
		}
		var pred ir.Expr
		if c.pred != "" {
			pred = read(vars, c.pred)
		}
		got := ""
		m, err := a.DetectIterMap(idx, iters, pred, c.level)
		if err == nil {
			var inv []ir.Expr
			if inv, err = m.Inverse(a, outputsFor(len(idx))); err == nil {
				parts := make([]string, len(inv))
				for i, e := range inv {
					parts[i] = show(e)
				}
				got = strings.Join(parts, "; ")
			}
		}
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("%s -> %s\n  got %s\n want %s", c.iters, c.indices, got, c.want)
		}
	}
}

func outputsFor(n int) []*ir.Var {
	out := make([]*ir.Var, n)
	for i := range out {
		out[i] = &ir.Var{Name: fmt.Sprintf("o%d", i), Type: ir.DInt32}
	}
	return out
}

// randomMap splits iterators into digits and deals them out to indices in
// random order, now and then wrongly.
func randomMap(r *rand.Rand, iters []Iter) []ir.Expr {
	type part struct {
		e ir.Expr
		n int64
	}
	var parts []part
	bin := func(op ir.BinOp, a ir.Expr, c int64) ir.Expr {
		return &ir.Binary{Op: op, A: a, B: ir.I32(c)}
	}
	var split func(e ir.Expr, n int64)
	split = func(e ir.Expr, n int64) {
		for _, f := range []int64{2, 3, 4} {
			if n > f && n%f == 0 && r.IntN(3) == 0 {
				split(bin(ir.FloorDiv, e, f), n/f)
				split(bin(ir.FloorMod, e, f), f)
				return
			}
		}
		parts = append(parts, part{e, n})
	}
	for _, it := range iters {
		split(it.Var, it.Extent)
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	if r.IntN(10) == 0 {
		parts = parts[1:]
	}
	if r.IntN(10) == 0 && len(parts) > 0 {
		parts = append(parts, parts[0])
	}
	var out []ir.Expr
	for len(parts) > 0 {
		n := 1 + r.IntN(len(parts))
		var e ir.Expr = ir.I32(0)
		ext := int64(1)
		for _, p := range parts[:n] {
			f := p.n
			if r.IntN(12) == 0 {
				f++
			}
			e = &ir.Binary{Op: ir.Add, A: bin(ir.Mul, e, f), B: p.e}
			ext *= p.n
		}
		parts = parts[n:]
		if ext%4 == 0 && r.IntN(4) == 0 { // fuse, then split again elsewhere
			out = append(out, bin(ir.FloorDiv, e, 4), bin(ir.FloorMod, e, 4))
		} else {
			out = append(out, e)
		}
	}
	return out
}

func TestIterMapAgainstBruteForce(t *testing.T) {
	found := [3]int{}
	n := rounds(6000)
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		iters, _ := itersOf([]string{"i:4 j:6", "i:8 j:3 k:2", "i:12", "i:4 j:4 k:4", "i:16 j:6"}[r.IntN(5)])
		idx := randomMap(r, iters)
		level := IterLevel(r.IntN(3))
		a := New()
		m, err := a.DetectIterMap(idx, iters, nil, level)
		if err != nil {
			continue
		}
		found[level]++
		outs := outputsFor(len(idx))
		var inv []ir.Expr
		if level != Surjective {
			if inv, err = m.Inverse(a, outs); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		b := box{}
		for _, it := range iters {
			b.vars, b.lo, b.hi = append(b.vars, it.Var), append(b.lo, 0), append(b.hi, it.Extent-1)
		}
		seen := map[string]int{}
		lo, hi := make([]int64, len(idx)), make([]int64, len(idx))
		b.each(func(env map[*ir.Var]int64) bool {
			key := ""
			oenv := map[*ir.Var]int64{}
			for k, e := range idx {
				v := eval(e, env).v
				key += fmt.Sprint(v, " ")
				oenv[outs[k]] = v
				lo[k], hi[k] = min(lo[k], v), max(hi[k], v)
			}
			seen[key]++
			for k, e := range inv {
				if got := eval(e, oenv).v; got != env[iters[k].Var] {
					t.Errorf("seed %d: inverse %s gives %d for %s=%d", seed, show(e), got, iters[k].Var.Name, env[iters[k].Var])
					return false
				}
			}
			return true
		})
		size := int64(1)
		for k := range idx {
			size *= hi[k] - lo[k] + 1
			if s := m.Indices[k]; s.Base+s.Extent-1 != hi[k] || s.Base != lo[k] {
				t.Errorf("seed %d: index %s spans %d..%d, not base %d extent %d", seed, show(idx[k]), lo[k], hi[k], s.Base, s.Extent)
			}
		}
		if level != Injective && int64(len(seen)) != size {
			t.Errorf("seed %d: %d of %d values of the box are reached", seed, len(seen), size)
		}
		for key, c := range seen {
			if level != Surjective && c != 1 {
				t.Errorf("seed %d: %s comes from %d values of the iterators", seed, key, c)
			}
		}
		if t.Failed() {
			for _, e := range idx {
				t.Log(show(e))
			}
			t.FailNow()
		}
	}
	for l, c := range found {
		if c < n/20 {
			t.Errorf("level %d: only %d maps of %d were found", l, c, n)
		}
	}
}
