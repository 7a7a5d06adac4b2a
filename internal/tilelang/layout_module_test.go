package tilelang

import (
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// make_mma_swizzle_layout is, place by place, the map that TileLang 0.1.15 gives:
// units of 16 bytes exchanged with the row, within tiles of up to 128 bytes.
func TestMMASwizzleLayout(t *testing.T) {
	for _, c := range []struct {
		rows, cols int64
		t          ir.DType
		smooth     bool
		at         [][5]int64 // row, column; tile, row, column of the place
	}{
		{64, 64, ir.DFloat16, false, [][5]int64{{0, 9, 0, 0, 9}, {3, 0, 0, 3, 24}, {13, 62, 0, 13, 22}}},
		{16, 128, ir.DFloat16, false, [][5]int64{{5, 70, 1, 5, 46}, {8, 127, 1, 8, 63}}},
		{32, 32, ir.DFloat16, false, [][5]int64{{2, 0, 0, 2, 8}, {7, 31, 0, 7, 7}}},
		{32, 64, ir.DInt8, false, [][5]int64{{6, 17, 0, 6, 33}}},
		{8, 20, ir.DFloat16, false, [][5]int64{{3, 7, -1, 3, 7}}},
		{64, 64, ir.DFloat16, true, [][5]int64{{3, 0, -1, 3, 0}}},
	} {
		in := newInterp(nil, nil)
		m := mmaLayoutModule("layouts").attrs["make_mma_swizzle_layout"].(*builtin)
		a := &args{pos: []value{ir.NewBuffer("s", c.t, "shared", ir.I32(c.rows), ir.I32(c.cols)), c.smooth}}
		in.bind(m.sig, a)
		l := m.fn(in, a).(*ir.Layout)
		for _, p := range c.at {
			want := p[2:]
			if p[2] < 0 {
				want = p[3:]
			}
			if len(want) != len(l.Forward) {
				t.Fatalf("%v: %d coordinates", c, len(l.Forward))
			}
			for i, e := range l.Forward {
				all, err := layout.Evaluate(e, l.Vars, []int64{c.rows, c.cols})
				if err != nil {
					t.Fatal(err)
				}
				if got := all[p[0]*c.cols+p[1]]; got != want[i] {
					t.Errorf("%dx%d %s: coordinate %d of (%d, %d) is %d, want %d", c.rows, c.cols, c.t, i, p[0], p[1], got, want[i])
				}
			}
		}
	}
}
