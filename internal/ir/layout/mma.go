package layout

import (
	"fmt"

	"lowertrace/internal/ir"
)

// WarpPolicy says how the warps of a block divide a matrix product; the values
// are those of T.gemm's policy argument.
type WarpPolicy int64

// The warp policies.
const (
	// Square balances the rows and columns of each warp.
	Square WarpPolicy = iota
	// FullRow gives as many warps as possible their own rows.
	FullRow
	// FullCol gives as many warps as possible their own columns.
	FullCol
)

// The smallest tile of a warp: mma.sync works on 16 rows and 8 columns.
const (
	rowsPerMMA = 16
	colsPerMMA = 8
	warpSize   = 32
)

// WarpPartition divides warps over the rows and columns of an m x n product:
// m must split into multiples of 16 rows, n into multiples of 8 columns. For
// Square the ratio of 16-row to 8-column tiles of a warp comes as near m/n as
// possible, fewer row warps first.
func WarpPartition(policy WarpPolicy, m, n, warps int64) (rows, cols int64, err error) {
	valid := func(r int64) bool {
		return warps%r == 0 && m%(r*rowsPerMMA) == 0 && n%(warps/r*colsPerMMA) == 0
	}
	switch policy {
	case FullRow:
		for r := warps; r >= 1; r-- {
			if valid(r) {
				return r, warps / r, nil
			}
		}
	case FullCol:
		for r := int64(1); r <= warps; r++ {
			if valid(r) {
				return r, warps / r, nil
			}
		}
	case Square:
		best := -1.0
		for r := int64(1); r <= warps; r++ {
			if !valid(r) {
				continue
			}
			c := warps / r
			d := float64(m*c*colsPerMMA)/float64(n*r*rowsPerMMA) - float64(m)/float64(n)
			if d < 0 {
				d = -d
			}
			if best < 0 || d < best {
				best, rows, cols = d, r, c
			}
		}
		if best >= 0 {
			return rows, cols, nil
		}
	default:
		return 0, 0, fmt.Errorf("unknown warp policy %d", policy)
	}
	return 0, 0, fmt.Errorf("%d warps cannot divide a %dx%d product into tiles of %dx%d", warps, m, n, rowsPerMMA, colsPerMMA)
}

// MMA is a matrix product C[M,N] += A[M,K] B[K,N] by mma.sync (PTX ISA,
// "Warp-level matrix instructions: mma.sync"): WarpM x WarpN warps, each with
// RowTiles x ColTiles tiles of 16 x MicroN, MicroK deep.
type MMA struct {
	M, N, K        int64
	Bits           int64 // of an element of A and B: 32, 16 or 8
	TransA, TransB bool  // A is stored [K,M], B is stored [N,K]
	WarpM, WarpN   int64
	// MicroN is 16 (two instructions) when a warp has a multiple of 16
	// columns, else 8; MicroK is the depth of one instruction.
	MicroN, MicroK int64
	// RowTiles and ColTiles are the tiles of one warp.
	RowTiles, ColTiles int64
	// LocalA, LocalB and LocalC are the elements of one tile each thread has.
	LocalA, LocalB, LocalC int64
}

// NewMMA checks the sizes and derives the tiling. threads is the number of
// threads that take part.
func NewMMA(m, n, k, bits int64, transA, transB bool, policy WarpPolicy, threads int64) (*MMA, error) {
	if bits != 8 && bits != 16 && bits != 32 {
		return nil, fmt.Errorf("no mma.sync on operands of %d bits", bits)
	}
	if threads%warpSize != 0 {
		return nil, fmt.Errorf("%d threads are no whole number of warps", threads)
	}
	g := &MMA{M: m, N: n, K: k, Bits: bits, TransA: transA, TransB: transB, MicroK: 256 / bits}
	if k <= 0 || k%g.MicroK != 0 {
		return nil, fmt.Errorf("K = %d is no multiple of %d, the depth of an mma.sync on operands of %d bits", k, g.MicroK, bits)
	}
	var err error
	if g.WarpM, g.WarpN, err = WarpPartition(policy, m, n, threads/warpSize); err != nil {
		return nil, err
	}
	rows, cols := m/g.WarpM, n/g.WarpN
	g.MicroN = 8
	if cols%16 == 0 {
		g.MicroN = 16
	}
	g.RowTiles, g.ColTiles = rows/rowsPerMMA, cols/g.MicroN
	g.LocalA, g.LocalB, g.LocalC = rowsPerMMA*g.MicroK/warpSize, g.MicroN*g.MicroK/warpSize, rowsPerMMA*g.MicroN/warpSize
	return g, nil
}

// Threads is the number of threads that take part.
func (g *MMA) Threads() int64 { return g.WarpM * g.WarpN * warpSize }

func idiv(e ir.Expr, n int64) ir.Expr { return ir.NewBinary(ir.FloorDiv, e, ir.I32(n)) }
func imod(e ir.Expr, n int64) ir.Expr { return ir.NewBinary(ir.FloorMod, e, ir.I32(n)) }
func imul(e ir.Expr, n int64) ir.Expr { return ir.NewBinary(ir.Mul, e, ir.I32(n)) }
func isum(e ...ir.Expr) ir.Expr {
	s := e[0]
	for _, x := range e[1:] {
		s = ir.NewBinary(ir.Add, s, x)
	}
	return s
}

// wrapped is e % n, left out when e stays below n anyway.
func wrapped(e ir.Expr, n, extent int64) ir.Expr {
	if n >= extent {
		return e
	}
	return imod(e, n)
}

// blockOf is e // n, 0 when there is but one block below extent.
func blockOf(e ir.Expr, n, extent int64) ir.Expr {
	if n >= extent {
		return ir.I32(0)
	}
	return idiv(e, n)
}

// copies is the thread offset of a copy, 0 when there is but one.
func copies(n, stride int64) ir.Expr {
	if n == 1 {
		return ir.I32(0)
	}
	return imul(Rep, stride)
}

// C is the accumulator: element (i, j) of a 16x8 tile lies in lane
// i%8*4 + j/2, register i/8*2 + j%2 (PTX ISA, "Matrix fragments for
// mma.m16n8k16": c0..c3). Warps are numbered down the rows first.
func (g *MMA) C(min, extent int64) (*Frag, error) {
	i, j := ir.Expr(Var(0)), ir.Expr(Var(1))
	rows, cols := g.M/g.WarpM, g.N/g.WarpN
	thread := isum(
		imul(blockOf(j, cols, g.N), g.WarpM*warpSize), imul(blockOf(i, rows, g.M), warpSize),
		imul(imod(i, 8), 4), idiv(imod(j, 8), 2))
	tileC := imul(blockOf(wrapped(i, rows, g.M), rowsPerMMA, rows), g.ColTiles*g.LocalC)
	index := isum(tileC,
		imul(idiv(wrapped(j, cols, g.N), 8), 4),
		imul(idiv(imod(i, 16), 8), 2), imod(j, 2))
	return NewFrag([]int64{g.M, g.N}, 1, thread, index, min, extent)
}

// operand gives lane and register of element (s, k) of an operand: s is the
// row of A or the column of B, k the depth. Four lanes share a row of
// MicroK elements and hold v = 32/Bits neighbours each, in runs 8 rows and
// 4v depths apart (PTX ISA, "Matrix fragments for mma.m16n8k16" and its kin:
// registers a0.. run over the rows first, b0.. over the depth first).
func (g *MMA) operand(s, k ir.Expr, isA bool) (lane, reg ir.Expr) {
	v := 32 / g.Bits
	lane = isum(imul(imod(s, 8), 4), idiv(imod(k, 4*v), v))
	hiS, hiK := idiv(imod(s, 16), 8), idiv(imod(k, 8*v), 4*v)
	if isA {
		return lane, isum(imul(hiK, 2*v), imul(hiS, v), imod(k, v))
	}
	if g.MicroN == 8 {
		return lane, isum(imul(hiK, v), imod(k, v))
	}
	return lane, isum(imul(hiS, 2*v), imul(hiK, v), imod(k, v))
}

// A is operand A in registers; the warps of a row of warps hold copies.
func (g *MMA) A(min, extent int64) (*Frag, error) {
	s, k := ir.Expr(Var(0)), ir.Expr(Var(1))
	shape := []int64{g.M, g.K}
	if g.TransA {
		s, k, shape = Var(1), Var(0), []int64{g.K, g.M}
	}
	lane, reg := g.operand(s, k, true)
	rows := g.M / g.WarpM
	thread := isum(copies(g.WarpN, g.WarpM*warpSize), imul(blockOf(s, rows, g.M), warpSize), lane)
	index := isum(imul(idiv(k, g.MicroK), g.RowTiles*g.LocalA), imul(blockOf(wrapped(s, rows, g.M), rowsPerMMA, rows), g.LocalA), reg)
	return NewFrag(shape, g.WarpN, thread, index, min, extent)
}

// B is operand B in registers; the warps of a column of warps hold copies.
func (g *MMA) B(min, extent int64) (*Frag, error) {
	k, s := ir.Expr(Var(0)), ir.Expr(Var(1))
	shape := []int64{g.K, g.N}
	if g.TransB {
		s, k, shape = Var(0), Var(1), []int64{g.N, g.K}
	}
	lane, reg := g.operand(s, k, false)
	cols := g.N / g.WarpN
	thread := isum(imul(blockOf(s, cols, g.N), g.WarpM*warpSize), copies(g.WarpM, warpSize), lane)
	index := isum(imul(idiv(k, g.MicroK), g.ColTiles*g.LocalB), imul(blockOf(wrapped(s, cols, g.N), g.MicroN, cols), g.LocalB), reg)
	return NewFrag(shape, g.WarpM, thread, index, min, extent)
}

// LdMatrix is the row and depth, within a tile, of the 16-byte row that a lane
// passes to ldmatrix.x4 (or x2 for an 8-column tile of B): lanes 0-7 address
// the first 8x8 matrix of 16-bit cells, lanes 8-15 the second, and so on (PTX
// ISA, "ldmatrix"). trans says whether the instruction transposes, which it
// does when the operand is stored with the depth as its row; only 16-bit
// operands can be.
func (g *MMA) LdMatrix(lane ir.Expr, isA bool) (s, k ir.Expr, trans, ok bool) {
	trans = g.TransA
	if !isA {
		trans = !g.TransB
	}
	if trans && g.Bits != 16 {
		return nil, nil, trans, false
	}
	v := 128 / g.Bits // elements of a row
	lo, hi := idiv(imod(lane, 16), 8), idiv(lane, 16)
	r := imod(lane, 8)
	if isA { // matrices: rows 0-7, rows 8-15, then the second half of the depth
		s, k = imod(lane, 16), imul(hi, v)
		if trans {
			s, k = imul(lo, 8), isum(imul(hi, 8), r)
		}
		return s, k, trans, true
	}
	if g.MicroN == 8 { // matrices: the first half of the depth, the second
		s, k = r, imul(lo, v)
		if trans {
			s, k = ir.I32(0), imod(lane, 16)
		}
		return s, k, trans, true
	}
	// Matrices: columns 0-7 by halves of the depth, then columns 8-15.
	s, k = isum(imul(hi, 8), r), imul(lo, v)
	if trans {
		s, k = imul(hi, 8), imod(lane, 16)
	}
	return s, k, trans, true
}
