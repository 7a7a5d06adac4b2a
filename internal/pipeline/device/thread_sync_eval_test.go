package device

import (
	"math/rand"
	"testing"

	"lowertrace/internal/ir"
)

// TestEach compares the elements of more threads than one stretch with those
// that plain arithmetic gives.
func TestEach(t *testing.T) {
	tx, ty := &ir.Var{Name: "tx", Type: ir.DType{Code: ir.Int, Bits: 32, Lanes: 1}}, &ir.Var{Name: "ty", Type: ir.DType{Code: ir.Int, Bits: 32, Lanes: 1}}
	i, k := &ir.Var{Name: "i", Type: ir.DType{Code: ir.Int, Bits: 32, Lanes: 1}}, &ir.Var{Name: "k", Type: ir.DType{Code: ir.Int, Bits: 32, Lanes: 1}}
	bin := ir.NewBinary
	n := func(v int64) ir.Expr { return ir.I32(v) }
	c := newCompiler([]axis{{tx, 96}, {ty, 25}}, 96*25)
	p := &places{
		// ty*7 + (tx + k) % 5 + i // 2 where tx < 90
		index:  c.compile(bin(ir.Add, bin(ir.Add, bin(ir.Mul, ty, n(7)), bin(ir.FloorMod, bin(ir.Add, tx, k), n(5))), bin(ir.FloorDiv, i, n(2)))),
		guards: []*column{c.compile(bin(ir.LT, tx, n(90)))},
	}
	c.take(p)
	for _, uniform := range []int64{3, -4} {
		c.set(k, uniform)
		want := map[[2]int64]int{}
		for thread := range int64(96 * 25) {
			x, y := thread%96, thread/96
			if x >= 90 {
				continue
			}
			for v := int64(-3); v < 2; v++ {
				want[[2]int64{thread, y*7 + ir.FloorModInt(x+uniform, 5) + ir.FloorDivInt(v, 2)}]++
			}
		}
		c.each(p, []rangedVar{{i, -3, 5}}, func(thread, index int64) bool {
			want[[2]int64{thread, index}]--
			return true
		})
		for at, count := range want {
			if count != 0 {
				t.Errorf("k = %d: thread %d reaches element %d %d times too few", uniform, at[0], at[1], count)
			}
		}
	}
}

// TestOwners compares owners with sets of threads, at places near and far.
func TestOwners(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	var o owners
	for range 2000 {
		threads := 1 + r.Int63n(5)
		o.reset(threads)
		sets := map[int64]map[int64]bool{}
		base := []int64{-3, 0, 40, nearPlaces - 4, 1 << 40}[r.Intn(5)]
		for range r.Intn(6) {
			thread, at, n := r.Int63n(threads), base+r.Int63n(12), r.Int63n(4)
			o.touch(thread, at, n)
			for i := at; i < at+n; i++ {
				if sets[i] == nil {
					sets[i] = map[int64]bool{}
				}
				sets[i][thread] = true
			}
		}
		for range 8 {
			thread, at, n, self := r.Int63n(threads), base+r.Int63n(12), r.Int63n(4), r.Intn(2) == 0
			want := false
			for i := at; i < at+n; i++ {
				for other := range sets[i] {
					want = want || self || other != thread
				}
			}
			if got := o.meets(thread, at, n, self); got != want {
				t.Fatalf("thread %d at %d+%d, self %v: got %v, want %v", thread, at, n, self, got, want)
			}
		}
	}
}
