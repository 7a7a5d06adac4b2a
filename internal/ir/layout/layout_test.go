package layout

import (
	"math/rand"
	"testing"

	"lowertrace/internal/ir"
)

func add(a, b ir.Expr) ir.Expr { return ir.NewBinary(ir.Add, a, b) }

func TestSwizzleIsXorOfChunks(t *testing.T) {
	for _, bitsOf := range []int64{8, 16, 32} {
		vec := 128 / bitsOf
		for bits := 1; bits <= 3; bits++ {
			for _, blocks := range []int64{1, 2, 3} {
				width := vec << bits
				rows, cols := int64(24), width*blocks
				m, err := Swizzle(rows, cols, bitsOf, bits)
				if err != nil {
					t.Fatal(err)
				}
				if err := m.CheckInjective(); err != nil {
					t.Fatalf("%d bits, %d-bit swizzle: %v", bitsOf, bits, err)
				}
				if m.OutSize() != m.Size() {
					t.Fatalf("physical size %d of %d elements", m.OutSize(), m.Size())
				}
				for i := int64(0); i < rows; i++ {
					for j := int64(0); j < cols; j++ {
						chunk := j % width / vec
						x := chunk ^ (i % 8 >> (3 - bits))
						want := j/width*rows*width + i*width + x*vec + j%vec
						if got := m.At(i*cols + j); got != want {
							t.Fatalf("swizzle %d of %d-bit elements at (%d,%d): %d, want %d", bits, bitsOf, i, j, got, want)
						}
					}
				}
			}
		}
	}
}

// TestSwizzleBankConflicts counts the banks that eight ldmatrix rows touch.
func TestSwizzleBankConflicts(t *testing.T) {
	for bits := 1; bits <= 3; bits++ {
		vec := int64(8)
		width := vec << bits
		m, err := Swizzle(64, width, 16, bits)
		if err != nil {
			t.Fatal(err)
		}
		for r := int64(0); r < 64; r += 8 {
			for c := int64(0); c < width; c += vec {
				seen := map[int64]bool{}
				for i := r; i < r+8; i++ {
					seen[m.At(i*width+c)*2/16%8] = true
				}
				if len(seen) != 8 {
					t.Errorf("%d-bit swizzle: rows %d.. chunk %d fall into %d of 8 bank groups", bits, r, c, len(seen))
				}
			}
		}
	}
}

func TestWarpPartition(t *testing.T) {
	for _, c := range []struct {
		p                   WarpPolicy
		m, n, w, rows, cols int64
	}{
		{Square, 128, 128, 4, 2, 2}, {Square, 64, 64, 4, 2, 2}, {Square, 128, 256, 8, 2, 4},
		{FullRow, 64, 64, 4, 4, 1}, {FullCol, 64, 64, 4, 1, 4}, {FullRow, 32, 64, 4, 2, 2}, {Square, 16, 64, 4, 1, 4},
	} {
		r, k, err := WarpPartition(c.p, c.m, c.n, c.w)
		if err != nil || r != c.rows || k != c.cols {
			t.Errorf("policy %d, %dx%d, %d warps: %d x %d (%v), want %d x %d", c.p, c.m, c.n, c.w, r, k, err, c.rows, c.cols)
		}
	}
	if _, _, err := WarpPartition(Square, 16, 8, 4); err == nil {
		t.Error("four warps on one tile: no error")
	}
}

// TestMMAFragments checks the fragments against the instruction's operation:
// each warp must find, in the registers the instruction takes for a tile, the
// elements of that tile.
func TestMMAFragments(t *testing.T) {
	for _, bits := range []int64{8, 16, 32} {
		for _, trans := range []bool{false, true} {
			for _, pol := range []WarpPolicy{Square, FullRow, FullCol} {
				for _, n := range []int64{32, 64, 96} {
					g, err := NewMMA(64, n, 64, bits, trans, !trans, pol, 128)
					if err != nil {
						t.Fatal(err)
					}
					checkMMA(t, g)
				}
			}
		}
	}
}

func checkMMA(t *testing.T, g *MMA) {
	t.Helper()
	c, err := g.C(0, 128)
	if err != nil {
		t.Fatal(err)
	}
	a, err := g.A(0, 128)
	if err != nil {
		t.Fatal(err)
	}
	b, err := g.B(0, 128)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*Frag{a, b, c} {
		if _, err := f.Inverse(); err != nil {
			t.Fatalf("%+v: %v", g, err)
		}
		if got, want := f.Regs*f.Extent, f.Size()*f.Rep; got != want {
			t.Fatalf("%+v: %d registers for %d copies", g, got, want)
		}
	}
	ci, _ := c.Inverse()
	ai, _ := a.Inverse()
	bi, _ := b.Inverse()
	v := 32 / g.Bits
	for thread := int64(0); thread < 128; thread++ {
		lane, wm, wn := thread%32, thread/32%g.WarpM, thread/32/g.WarpM
		grp, tig := lane/4, lane%4
		for ki := int64(0); ki < g.K/g.MicroK; ki++ {
			for rt := int64(0); rt < g.RowTiles; rt++ {
				row0 := wm*g.M/g.WarpM + rt*16
				for x := int64(0); x < g.LocalA; x++ { // a registers: PTX order
					reg := x / v
					row := row0 + grp + 8*(reg%2)
					k := ki*g.MicroK + tig*v + x%v + reg/2*4*v
					want := row*g.K + k
					if g.TransA {
						want = k*g.M + row
					}
					if got := ai[thread*a.Regs+(ki*g.RowTiles+rt)*g.LocalA+x]; got != want {
						t.Fatalf("%+v: A thread %d tile (%d,%d) register %d holds %d, want %d", g, thread, ki, rt, x, got, want)
					}
				}
			}
			for ct := int64(0); ct < g.ColTiles; ct++ {
				for x := int64(0); x < g.LocalB; x++ {
					per := 2 * v // elements of one 8-column instruction
					reg := x % per / v
					col := wn*g.N/g.WarpN + ct*g.MicroN + x/per*8 + grp
					k := ki*g.MicroK + tig*v + x%v + reg*4*v
					want := k*g.N + col
					if g.TransB {
						want = col*g.K + k
					}
					if got := bi[thread*b.Regs+(ki*g.ColTiles+ct)*g.LocalB+x]; got != want {
						t.Fatalf("%+v: B thread %d tile (%d,%d) register %d holds %d, want %d", g, thread, ki, ct, x, got, want)
					}
				}
			}
		}
		for rt := int64(0); rt < g.RowTiles; rt++ {
			for ct := int64(0); ct < g.ColTiles; ct++ {
				for x := int64(0); x < g.LocalC; x++ {
					row := wm*g.M/g.WarpM + rt*16 + grp + x%4/2*8
					col := wn*g.N/g.WarpN + ct*g.MicroN + x/4*8 + tig*2 + x%2
					if got := ci[thread*c.Regs+(rt*g.ColTiles+ct)*g.LocalC+x]; got != row*g.N+col {
						t.Fatalf("%+v: C thread %d tile (%d,%d) register %d holds %d, want %d", g, thread, rt, ct, x, got, row*g.N+col)
					}
				}
			}
		}
	}
}

// TestLdMatrix simulates the instruction: lane l passes the address of row l%8
// of matrix l/8; without transposition lane l receives cells 2(l%4), 2(l%4)+1
// of row l/4 of each matrix, with it those of column l/4.
func TestLdMatrix(t *testing.T) {
	lane := Var(0)
	for _, bits := range []int64{8, 16, 32} {
		for _, isA := range []bool{true, false} {
			for _, tr := range []bool{false, true} {
				for _, n := range []int64{8, 16} {
					g, err := NewMMA(16, n, 256/bits, bits, tr, tr, Square, 32)
					if err != nil {
						t.Fatal(err)
					}
					s, k, trans, ok := g.LdMatrix(lane, isA)
					if !ok {
						if bits == 16 || !trans {
							t.Errorf("ldmatrix refused for %+v", g)
						}
						continue
					}
					ss, err := Evaluate(s, []*ir.Var{lane}, []int64{32})
					if err != nil {
						t.Fatal(err)
					}
					kk, _ := Evaluate(k, []*ir.Var{lane}, []int64{32})
					num := int64(4)
					f, err := g.A(0, 32)
					if !isA {
						num = n / 4
						f, err = g.B(0, 32)
					}
					if err != nil {
						t.Fatal(err)
					}
					inv, _ := f.Inverse()
					per := 32 / bits // elements of a 32-bit register
					depthFirst := isA == g.TransA
					for l := int64(0); l < 32; l++ {
						for m := int64(0); m < num; m++ {
							for e := int64(0); e < per; e++ {
								var ps, pk int64
								if trans { // 16-bit cells: row 2(l%4)+e, column l/4
									at := m*8 + 2*(l%4) + e
									ps, pk = ss[at]+l/4, kk[at]
								} else {
									at := m*8 + l/4
									ps, pk = ss[at], kk[at]+(l%4)*per+e
								}
								want := ps*g.K + pk
								if isA && g.TransA {
									want = pk*g.M + ps
								} else if !isA && !g.TransB {
									want = pk*g.N + ps
								}
								if got := inv[l*f.Regs+m*per+e]; got != want {
									t.Fatalf("ldmatrix A=%v bits=%d trans=%v n=%d depthFirst=%v: lane %d register %d element %d gets %d, the instruction needs %d", isA, bits, trans, n, depthFirst, l, m, e, want, got)
								}
							}
						}
					}
				}
			}
		}
	}
}

// TestFitRandom builds random sums of digits and checks that Fit reproduces
// their tables.
func TestFitRandom(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for n := 0; n < 300; n++ {
		dims := 1 + r.Intn(3)
		ext := make([]int64, dims)
		var e ir.Expr = ir.I32(int64(r.Intn(3)))
		for d := range ext {
			lower := int64(1)
			for k := 0; k < 1+r.Intn(3); k++ {
				x := int64(2 + r.Intn(4))
				e = add(e, imul(idiv(imod(Var(d), lower*x), lower), int64(r.Intn(40)-8)))
				lower *= x
			}
			ext[d] = lower
		}
		vals, err := Evaluate(e, Vars(dims), ext)
		if err != nil {
			t.Fatal(err)
		}
		f, ok := Fit(vals, exprs(Vars(dims)), ext)
		if !ok {
			t.Fatalf("no fit of extents %v, values %v", ext, vals)
		}
		got, err := Evaluate(f, Vars(dims), ext)
		if err != nil {
			t.Fatal(err)
		}
		for i := range vals {
			if got[i] != vals[i] {
				t.Fatalf("extents %v: value %d is %d, want %d", ext, i, got[i], vals[i])
			}
		}
	}
}

func TestFitRefuses(t *testing.T) {
	if _, ok := Fit([]int64{0, 1, 5, 2, 9, 4, 4, 4}, []ir.Expr{Var(0)}, []int64{8}); ok {
		t.Error("a random table was fitted")
	}
}

func TestFragmentAlgebra(t *testing.T) {
	f, err := NewFrag([]int64{16, 512}, 1, idiv(Var(1), 4), nil, 0, 128)
	if err != nil {
		t.Fatal(err)
	}
	if f.Regs != 64 || f.Contiguity() != 4 {
		t.Errorf("registers %d, contiguity %d", f.Regs, f.Contiguity())
	}
	red, err := f.Reduced(1)
	if err != nil || !red.IsFullyReplicated() || red.Regs != 16 {
		t.Fatalf("reduced: %v %v", red, err)
	}
	small, err := NewFrag([]int64{16}, 8, add(imul(Rep, 16), Var(0)), nil, 0, 128)
	if err != nil {
		t.Fatal(err)
	}
	if !Contains(red, small, nil, nil) || Contains(small, red, nil, nil) {
		t.Error("containment of a part in the whole is wrong")
	}
	one, err := small.DeReplicate()
	if err != nil || one.Rep != 1 || !Contains(small, one, nil, nil) {
		t.Errorf("dereplicated: %v %v", one, err)
	}
	rep, err := one.Replicate(8)
	if err != nil || !rep.Equal(small) {
		t.Errorf("replicated again: %v %v", rep, err)
	}
	tile, err := NewFrag([]int64{8, 8}, 1, add(imul(Var(0), 4), idiv(Var(1), 2)), imod(Var(1), 2), 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	two, err := tile.Repeat(2, 1)
	if err != nil || two.Regs != 4 || two.Extent != 32 {
		t.Fatalf("repeat: %v %v", two, err)
	}
	wide, err := two.RepeatThreads(1, 4)
	if err != nil || wide.Extent != 128 || wide.Regs != 4 {
		t.Fatalf("repeat over threads: %v %v", wide, err)
	}
	if _, err := wide.Inverse(); err != nil {
		t.Error(err)
	}
	back, err := FromIR(wide.IR(), 0, 1)
	if err != nil || !back.Equal(wide) {
		t.Errorf("through the IR: %v %v", back, err)
	}
}

func TestFragmentReshape(t *testing.T) {
	f, err := NewFrag([]int64{8, 64}, 2, add(imul(Rep, 64), add(imul(imod(Var(0), 4), 16), idiv(Var(1), 4))), nil, 0, 128)
	if err != nil {
		t.Fatal(err)
	}
	flat, err := f.Reshape([]int64{512}, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := f.Reshape([]int64{8, 128}, 16, 8)
	if err != nil {
		t.Fatal(err)
	}
	words, err := f.Reshape([]int64{4, 64}, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	for p := int64(0); p < f.Size(); p++ {
		for r := int64(0); r < f.Rep; r++ {
			want := f.Threads(p)[r]
			if flat.Threads(p)[r] != want || bytes.Threads(2*p + 1)[r] != want || words.Threads(p / 2)[r] != want {
				t.Fatalf("copy %d of element %d moves to another thread", r, p)
			}
		}
		x := f.Register(p)
		if flat.Register(p) != x || bytes.Register(2*p+1) != 2*x+1 || words.Register(p/2) != x/2 {
			t.Fatalf("element %d in register %d moves", p, x)
		}
	}
	if back, err := words.Reshape([]int64{8, 64}, 32, 16); err != nil || !back.Equal(f) {
		t.Errorf("reshaped back: %v", err)
	}
	odd, err := NewFrag([]int64{8}, 1, Var(0), nil, 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := odd.Reshape([]int64{4}, 16, 32); err == nil {
		t.Error("a wider view of elements on different threads: no error")
	}
}

func TestLayoutAlgebra(t *testing.T) {
	m, err := NewMap([]int64{4, 6}, Var(1), Var(0))
	if err != nil {
		t.Fatal(err)
	}
	inv, err := m.Inverse()
	if err != nil {
		t.Fatal(err)
	}
	id, err := m.Compose(inv)
	if err != nil || !id.IsIdentity() {
		t.Errorf("a layout and its inverse: %v %v", id, err)
	}
	ex, err := m.ExpandLeading(3)
	if err != nil || !sameShape(ex.Out, []int64{3, 6, 4}) {
		t.Errorf("expanded to %v (%v)", ex.Out, err)
	}
	pad, err := Padded([]int64{4, 6}, 2)
	if err != nil || pad.At(6) != 8 || pad.CheckInjective() != nil {
		t.Errorf("padded: %v", err)
	}
	sw, err := Swizzle(8, 64, 16, 3)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := sw.Reshape([]int64{8, 128}, 16, 8)
	if err != nil {
		t.Fatal(err)
	}
	for p := int64(0); p < bytes.Size(); p++ {
		if got, want := bytes.At(p), sw.At(p/2)*2+p%2; got != want {
			t.Fatalf("byte %d of a reshaped swizzle at %d, want %d", p, got, want)
		}
	}
	if back, err := bytes.Reshape([]int64{8, 64}, 8, 16); err != nil || !back.SameOffsets(sw) {
		t.Errorf("reshaped back: %v", err)
	}
	bad, err := NewMap([]int64{4}, idiv(Var(0), 2))
	if err != nil || bad.CheckInjective() == nil {
		t.Error("a layout with shared places passed")
	}
}
