package interp

import (
	"fmt"
	"testing"
)

// TestFragmentsCover checks that the registers of a warp hold each element of
// the operands of a matrix instruction exactly once.
func TestFragmentsCover(t *testing.T) {
	for _, c := range []struct{ m, n, k, bits int }{
		{16, 8, 4, 32}, {16, 8, 8, 32}, {16, 8, 8, 16}, {16, 8, 16, 16}, {16, 8, 16, 8}, {16, 8, 32, 8}, {16, 8, 32, 4}, {16, 8, 64, 4}, {8, 8, 4, 64}, {8, 8, 16, 8}, {8, 8, 32, 4},
	} {
		name := fmt.Sprintf("m%dn%dk%d of %d bits", c.m, c.n, c.k, c.bits)
		per := max(32/c.bits, 1)
		a, b, acc := map[[2]int]int{}, map[[2]int]int{}, map[[2]int]int{}
		for l := range lanes {
			for i := range c.m * c.k / lanes {
				r, k := aPlace(l, i, per, c.m)
				a[[2]int{r, k}]++
			}
			for i := range c.n * c.k / lanes {
				k, n := bPlace(l, i, per)
				b[[2]int{k, n}]++
			}
			for i := range c.m * c.n / lanes {
				r, n := cPlace(l, i)
				acc[[2]int{r, n}]++
			}
		}
		covers := func(what string, m map[[2]int]int, rows, cols int) {
			for i := range rows {
				for j := range cols {
					if m[[2]int{i, j}] != 1 {
						t.Errorf("%s: %s[%d, %d] is held %d times", name, what, i, j, m[[2]int{i, j}])
						return
					}
				}
			}
			if len(m) != rows*cols {
				t.Errorf("%s: %s has elements beyond its shape", name, what)
			}
		}
		covers("A", a, c.m, c.k)
		covers("B", b, c.k, c.n)
		covers("C", acc, c.m, c.n)
	}
}

// TestMatrixLayouts checks for every swizzle and direction of a matrix in
// shared memory that its elements lie at different places and together fill the
// bytes that the layout spans.
func TestMatrixLayouts(t *testing.T) {
	for mode := int64(0); mode <= 3; mode++ {
		for _, size := range []int64{1, 2, 4} {
			for _, kMajor := range []bool{true, false} {
				if !kMajor && size != 2 {
					continue // only 16-bit operands may be stored that way
				}
				span := int64(16) << mode
				rows, depth := int64(64), 32/size
				x := matrix{mode: mode, kMajor: kMajor, size: size}
				switch {
				case kMajor && mode == 0:
					x.stride, x.lead = 8*16, rows/8*128
				case kMajor:
					x.stride = 8 * span
				case mode == 0:
					x.stride, x.lead = 128, rows*size/16*128
				default:
					x.stride, x.lead = 8*span, depth/8*8*span
				}
				seen := map[int64]bool{}
				hi := int64(0)
				for i := range rows {
					for k := range depth {
						a := x.at(i, k)
						if seen[a] || a%size != 0 {
							t.Fatalf("mode %d, size %d, K-major %v: element (%d, %d) at %d", mode, size, kMajor, i, k, a)
						}
						seen[a] = true
						hi = max(hi, a+size)
					}
				}
				full := rows * depth * size
				if kMajor && mode > 0 {
					full = rows * span // lines longer than one instruction's depth
				}
				if hi > full {
					t.Errorf("mode %d, size %d, K-major %v: %d bytes used of %d", mode, size, kMajor, hi, full)
				}
			}
		}
	}
}

// TestSwizzled compares with the definition: the number of the 16-byte chunk is
// exclusive-ored with that of the 128-byte line, within the span.
func TestSwizzled(t *testing.T) {
	for mode := int64(0); mode <= 3; mode++ {
		chunks := int64(1) << mode
		for a := range int64(4096) {
			chunk, line := a/16%8, a/128%8
			want := a - chunk*16 + (chunk^(line%chunks))*16
			if got := swizzled(a, mode); got != want {
				t.Fatalf("mode %d: %d becomes %d, want %d", mode, a, got, want)
			}
		}
	}
}
