package tile

import (
	"math/bits"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/pipeline"
)

// A reducer's element is held in parts by the threads that contribute to it;
// T.finalize_reducer exchanges the parts, after which each of these threads
// holds the result.

// placeReducer is the layout of a reducer that a loop with the given partition
// updates: the threads that contribute, together with those of old, the
// layout by the loops before. It is nil when old needs no change. Threads in no
// pattern that an exchange can use are completed to all threads; the idle ones
// contribute nothing.
func (in *inferer) placeReducer(op *inferOp, b *ir.Buffer, part, old *layout.Frag) (*layout.Frag, error) {
	shape, err := layout.ConstShape(b.Shape)
	if err != nil {
		return nil, pipeline.Errorf(op.stmt.Origin(), "reducer %s: %v", b.Name, err)
	}
	f, err := op.nest.covering(b, op.nest.reds, part)
	if err != nil || exchangeMask(f) < 0 {
		if f, err = layout.FullyReplicated(shape, op.min, op.threads); err != nil {
			return nil, pipeline.Errorf(op.stmt.Origin(), "reducer %s: %v", b.Name, err)
		}
	}
	if old != nil {
		if layout.Contains(old, f, nil, nil) {
			return nil, nil
		}
		if !layout.Contains(f, old, nil, nil) {
			if f, err = layout.FullyReplicated(shape, op.min, op.threads); err != nil {
				return nil, pipeline.Errorf(op.stmt.Origin(), "reducer %s: %v", b.Name, err)
			}
		}
	}
	if exchangeMask(f) < 0 {
		return nil, in.conflict(op, nil, "the parts of reducer %s lie on %d threads, which is no power of two", b.Name, f.Rep)
	}
	return f, nil
}

// exchangeMask is the bits in which the numbers of the threads that hold an
// element differ, when the threads of every element are all those that agree
// outside of these bits; -1 otherwise.
func exchangeMask(f *layout.Frag) int64 {
	mask := int64(-1)
	seen := make([]int64, f.Extent)
	for p := int64(0); p < f.Size(); p++ {
		ts := f.Threads(p)
		m, n := int64(0), int64(0)
		for _, t := range ts {
			if seen[t] != p+1 {
				seen[t] = p + 1
				n++
			}
			m |= t ^ ts[0]
		}
		if n != 1<<bits.OnesCount64(uint64(m)) || mask >= 0 && m != mask {
			return -1
		}
		mask = m
	}
	return mask
}

// maskSteps are the exchanges for a mask, one for each run of bits.
func maskSteps(mask int64) []lane {
	var out []lane
	for mask > 0 {
		lo := mask & -mask
		hi := lo
		for mask&hi != 0 {
			mask &^= hi
			hi <<= 1
		}
		out = append(out, lane{hi, lo})
	}
	return out
}

// inferFinalize gives the destination of T.finalize_reducer the layout of the
// reducer, or checks that its threads are among those that hold the result.
func (in *inferer) inferFinalize(op *inferOp, lv level, lay *layouts) ([]update, error) {
	src := lay.frags[op.reducer]
	if lv == strict || src == nil || !isFragment(op.result) {
		return nil, nil
	}
	dst := lay.frags[op.result]
	if dst == nil {
		return []update{{buf: op.result, frag: src}}, nil
	}
	if !layout.Contains(src, dst, nil, nil) {
		return nil, in.conflict(op, op.result, "T.finalize_reducer: %s must lie on threads that hold a part of %s, but it does not", op.result.Name, op.reducer.Name)
	}
	return nil, nil
}
