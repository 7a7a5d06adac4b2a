package tile

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// Shared memory serves a warp in wavefronts of up to 128 bytes: 32 banks of 4
// bytes, each giving one word (CUDA C++ Programming Guide, "Shared memory").
const (
	bankBytes  = 4
	banks      = 32
	phaseBytes = bankBytes * banks
	// sampledWarps is how many warps of a loop are looked at: the others do the
	// same at other rows.
	sampledWarps = 2
)

// chooseBanks gives shared buffers that no operator and no user laid out a
// swizzle, where that saves at least a fifth of the wavefronts of the loops
// that access it.
func (in *inferer) chooseBanks(f *ir.PrimFunc, lay *layouts) {
	pinned := pinnedMemory(f.Body)
	uses := map[*ir.Buffer][]sharedUse{}
	var order []*ir.Buffer
	for _, op := range in.ops {
		if op.nest == nil || op.part == nil {
			if op.call != nil { // another operator, with demands of its own
				for _, x := range op.call.Args {
					if r, err := decodeRegion(x); err == nil && op.kind != "gemm" {
						pinned[r.buf.Data] = true
					}
				}
			}
			continue
		}
		ir.Walk(op.nest.body, func(s ir.Stmt) bool {
			touch := func(b *ir.Buffer, idx []ir.Expr) {
				if isShared(b) && lay.maps[b] == nil {
					if uses[b] == nil {
						order = append(order, b)
					}
					uses[b] = append(uses[b], sharedUse{op, b, idx})
				}
			}
			if st, ok := s.(*ir.BufferStore); ok {
				touch(st.Buffer, st.Indices)
			}
			ir.StmtExprs(s, func(e ir.Expr) bool {
				if ld, ok := e.(*ir.BufferLoad); ok {
					touch(ld.Buffer, ld.Indices)
				}
				return true
			})
			return true
		})
	}
	for _, b := range order {
		if pinned[b.Data] || b.Strides != nil || len(b.Shape) < 2 || b.ElemOffset != nil {
			continue
		}
		shape, err := layout.ConstShape(b.Shape)
		if err != nil {
			continue
		}
		m, err := layout.SharedTile(shape, bitsOf(b.Type))
		if err != nil || m.IsIdentity() {
			continue
		}
		plain, swizzled := int64(0), int64(0)
		known := true
		for _, u := range uses[b] {
			p, ok1 := u.wavefronts(lay, shape, func(at int64) int64 { return at })
			q, ok2 := u.wavefronts(lay, shape, m.At)
			plain, swizzled, known = plain+p, swizzled+q, known && ok1 && ok2
		}
		if known && swizzled*5 <= plain*4 {
			in.from[b] = uses[b][0].op.stmt.Origin()
			lay.setMap(b, m)
		}
	}
}

// sharedUse is one access of a loop to a shared buffer.
type sharedUse struct {
	op  *inferOp
	buf *ir.Buffer
	idx []ir.Expr
}

// wavefronts counts what the access costs the first warps when element p lies
// at place(p). Variables outside of the loop count as 0: they move whole tiles.
func (u sharedUse) wavefronts(lay *layouts, shape []int64, place func(int64) int64) (int64, bool) {
	n, part := u.op.nest, u.op.part
	at := make([]int64, n.points())
	for d, x := range u.idx {
		x = ir.Substitute(x, func(v *ir.Var) ir.Expr {
			for _, w := range n.vars {
				if v == w {
					return v
				}
			}
			return ir.IntConst(v.Type, 0)
		})
		col, err := layout.Evaluate(x, n.vars, n.ext)
		if err != nil {
			return 0, false
		}
		for p, v := range col {
			if at[p] == layout.Hole || v < 0 || v >= shape[d] {
				at[p] = layout.Hole
			} else {
				at[p] = at[p]*shape[d] + v
			}
		}
	}
	inv, err := part.Inverse()
	if err != nil {
		return 0, false
	}
	bits := bitsOf(u.buf.Type)
	v := min(part.Contiguity(), n.width(lay, u.op.env))
	for v > 1 && (part.Regs%v != 0 || v*bits > maxVectorBits) {
		v /= 2
	}
	bytes := max(1, v*bits/8)
	lanes := min(32, phaseBytes/max(bytes, bankBytes))
	total := int64(0)
	words := map[int64]bool{}
	var perBank [banks]int64
	for w := int64(0); w < min(part.Extent/32, sampledWarps); w++ {
		for g := int64(0); g < part.Regs; g += v {
			for first := int64(0); first < 32; first += lanes {
				clear(words)
				perBank = [banks]int64{}
				worst := int64(0)
				for l := first; l < first+lanes; l++ {
					p := inv[(w*32+l)*part.Regs+g]
					if p == layout.Hole || at[p] == layout.Hole {
						continue
					}
					from := place(at[p]) * bits / 8
					for word := from / bankBytes; word <= (from+bytes-1)/bankBytes; word++ {
						if !words[word] {
							words[word] = true
							perBank[word%banks]++
							worst = max(worst, perBank[word%banks])
						}
					}
				}
				total += worst
			}
		}
	}
	return total, true
}

// pinnedMemory is the memory whose layout is visible: its pointer is used as a
// value, or buffers of different shapes view it.
func pinnedMemory(body ir.Stmt) map[*ir.Var]bool {
	pinned := map[*ir.Var]bool{}
	view := map[*ir.Var]*ir.Buffer{}
	see := func(b *ir.Buffer) {
		if o := view[b.Data]; o != nil && o != b && !(sameExprs(o.Shape, b.Shape) && o.Type == b.Type) {
			pinned[b.Data] = true
		}
		view[b.Data] = b
	}
	ir.Walk(body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.SBlock:
			for _, b := range s.AllocBuffers {
				see(b)
			}
			return true // its regions and attributes are no uses
		case *ir.BufferStore:
			see(s.Buffer)
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			switch e := e.(type) {
			case *ir.BufferLoad:
				see(e.Buffer)
			case *ir.Var:
				if e.Type.IsHandle() {
					pinned[e] = true
				}
			case *ir.Call:
				if e.Op == nil || e.Op.Tile {
					return true
				}
				switch e.Op.Name {
				case "region":
				case "address_of", "access_ptr":
					n := int64(2)
					if e.Op.Name == "access_ptr" {
						n, _ = ir.AsInt(e.Args[1])
					}
					if ld := pointee(e); ld != nil && n != 1 {
						pinned[ld.Buffer.Data] = true
					}
				}
			}
			return true
		})
		return true
	})
	return pinned
}
