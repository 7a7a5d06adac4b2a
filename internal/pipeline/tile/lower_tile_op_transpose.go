package tile

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// A transposition in shared memory reads rows and writes columns. With the
// 16-byte chunks of both tiles swizzled, a warp that works on a block of 4 rows and
// 8 columns reads 4 chunks and writes 8, all in different banks.
const (
	transposeRows = 4
	transposeCols = 8
)

// swizzled gives a shared buffer of a transposition the widest swizzle its
// rows allow; nil if it has a layout, is not shared, or its rows are too short.
func swizzled(b *ir.Buffer, lay *layouts) *layout.Map {
	if !isShared(b) || lay.maps[b] != nil || len(b.Shape) < 2 || b.Strides != nil {
		return nil
	}
	shape, err := layout.ConstShape(b.Shape)
	if err != nil {
		return nil
	}
	m, err := layout.SharedTile(shape, bitsOf(b.Type))
	if err != nil || m.IsIdentity() {
		return nil
	}
	return m
}

// planTranspose deals blocks of 4x8 elements to the warps, one element to each
// lane; nil when the extents do not divide.
func planTranspose(ext []int64, min, threads int64) *layout.Frag {
	if len(ext) != 2 || ext[0]%transposeRows != 0 || ext[1]%transposeCols != 0 || threads%32 != 0 || ext[0]*ext[1] < threads {
		return nil
	}
	warps := threads / 32
	cols := ext[1] / transposeCols
	size := ext[0] * ext[1]
	thread, index := make([]int64, size), make([]int64, size)
	for p := int64(0); p < size; p++ {
		i, j := p/ext[1], p%ext[1]
		block := i/transposeRows*cols + j/transposeCols
		thread[p] = block%warps*32 + i%transposeRows*transposeCols + j%transposeCols
		index[p] = block / warps
	}
	f, err := layout.FromTable(ext, 1, thread, index, min, threads)
	if err != nil {
		return nil
	}
	return f
}

// transpose lowers T.transpose.
func (lw *lowerer) transpose(s ir.Stmt, c *ir.Call, e env) (ir.Stmt, error) {
	loop, err := transposeLoop(c, e, s.Origin())
	if err != nil {
		return nil, err
	}
	f, ok := loop.(*ir.For)
	if !ok {
		return lw.simt(s, loop, e)
	}
	n, err := newNest(f, e)
	if err != nil {
		return nil, err
	}
	min, threads := e.bounds()
	if len(n.frags) == 0 && n.ext != nil {
		if part := planTranspose(n.ext, min, threads); part != nil {
			return lw.partition(n, part, e, nil)
		}
	}
	return lw.simt(s, loop, e)
}
