package layout

import (
	"fmt"

	"lowertrace/internal/ir"
)

// Shared memory has 32 banks of 4 bytes; eight threads of a quarter warp
// access 16 bytes each, 128 bytes in all, without conflict when their 16-byte
// chunks fall into different banks. A swizzle permutes the 16-byte chunks of
// each row by the row number, so that a column of chunks (what ldmatrix reads)
// is as free of conflicts as a row (what the copy from global memory writes).
// The chunk permutations are those of the tensor map swizzle modes (PTX ISA,
// "Tensor: Swizzling modes"): the chunk number, of `bits` bits, is xored with
// the high bits of the row number modulo 8.

// Swizzle permutes the 16-byte chunks of a row-major (rows, columns) tile:
// bits is 3 for rows of 128 bytes and their multiples, 2 for 64 bytes, 1 for
// 32 bytes. The physical shape is (column blocks, row blocks of 8, block).
// elemBits is the size of an element.
func Swizzle(rows, cols, elemBits int64, bits int) (*Map, error) {
	vec := 128 / elemBits
	width := vec << bits
	if elemBits <= 0 || 128%elemBits != 0 || bits < 1 || bits > 3 || cols%width != 0 || rows%8 != 0 {
		return nil, fmt.Errorf("no %d-bit swizzle of %dx%d elements of %d bits", bits, rows, cols, elemBits)
	}
	i, j := ir.Expr(Var(0)), ir.Expr(Var(1))
	div := func(e ir.Expr, n int64) ir.Expr { return ir.NewBinary(ir.FloorDiv, e, ir.I32(n)) }
	mod := func(e ir.Expr, n int64) ir.Expr { return ir.NewBinary(ir.FloorMod, e, ir.I32(n)) }
	mul := func(e ir.Expr, n int64) ir.Expr { return ir.NewBinary(ir.Mul, e, ir.I32(n)) }
	add := func(a, b ir.Expr) ir.Expr { return ir.NewBinary(ir.Add, a, b) }
	// Bit b of the chunk number, weight vec<<b elements, is xored with bit
	// b+3-bits of the row: the sum of two bits modulo 2.
	at := mul(mod(i, 8), width)
	for b := bits - 1; b >= 0; b-- {
		w, r := vec<<b, int64(1)<<(b+3-bits)
		col := j
		if w*2 < cols {
			col = mod(col, w*2)
		}
		row := mod(i, 2*r)
		at = add(at, mul(mod(add(div(col, w), div(row, r)), 2), w))
	}
	at = add(at, mod(j, vec))
	return NewMap([]int64{rows, cols}, div(j, width), div(i, 8), at)
}

// SharedTile is the layout of a matrix operand in shared memory: the widest
// swizzle its rows allow, else row-major. Leading dimensions stay.
func SharedTile(shape []int64, elemBits int64) (*Map, error) {
	k := len(shape) - 2
	if k < 0 {
		return nil, fmt.Errorf("a matrix of %d dimensions", len(shape))
	}
	rows, cols := shape[k], shape[k+1]
	for bits := 3; bits >= 1; bits-- {
		if m, err := Swizzle(rows, cols, elemBits, bits); err == nil {
			if k == 0 {
				return m, nil
			}
			return m.ExpandLeading(shape[:k]...)
		}
	}
	return Linear(shape)
}

// Padded is the row-major layout whose rows are pad elements longer.
func Padded(shape []int64, pad int64) (*Map, error) {
	if len(shape) == 0 || pad < 0 {
		return nil, fmt.Errorf("a padding of %d", pad)
	}
	wide := append([]int64{}, shape...)
	wide[len(wide)-1] += pad
	return NewMap(shape, Flatten(exprs(Vars(len(shape))), wide))
}
