package tile

import (
	"slices"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// TestComb checks combs against their definition: what is recognized has the
// numbers listed, and each knows its place.
func TestComb(t *testing.T) {
	for _, c := range []struct {
		list []int64
		ok   bool
	}{
		{[]int64{0}, true}, {[]int64{7}, true}, {[]int64{0, 1, 2, 3}, true}, {[]int64{112, 113, 114}, true},
		{[]int64{0, 4, 8}, true}, {[]int64{3, 5, 7}, true}, {[]int64{0, 1, 16, 17, 32, 33}, true}, {[]int64{2, 4, 6, 18, 20, 22}, true},
		{[]int64{0, 1, 16, 17, 32}, true}, // the last run may end early
		{[]int64{0, 1, 3}, true}, {[]int64{0, 1, 3, 4, 7}, false}, {[]int64{0, 1, 2, 8, 9}, true}, {[]int64{0, 3, 4}, true}, {[]int64{0, 1, 2, 8, 10}, false},
	} {
		got, ok := regular(c.list)
		if ok != c.ok {
			t.Errorf("%v: %v %v", c.list, got, ok)
		}
		if !ok {
			continue
		}
		v := layout.Var(0)
		last := c.list[len(c.list)-1]
		place, in := got.number(v)
		if in == nil {
			in = ir.BoolConst(true)
		}
		ins, err := layout.Evaluate(ir.CastTo(in, ir.DInt32), []*ir.Var{v}, []int64{last + 1})
		if err != nil {
			t.Fatalf("%v: %v", c.list, err)
		}
		places, err := layout.Evaluate(place, []*ir.Var{v}, []int64{last + 1})
		if err != nil {
			t.Fatalf("%v: %v", c.list, err)
		}
		for x := range last + 1 {
			want := slices.Index(c.list, x)
			if (ins[x] != 0) != (want >= 0) || want >= 0 && places[x] != int64(want) {
				t.Errorf("%v: %d is in %v, at place %d", c.list, x, ins[x] != 0, places[x])
			}
		}
	}
}
