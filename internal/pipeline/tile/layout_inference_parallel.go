package tile

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/pipeline"
)

// inferNest decides how the iterations of parallel loops are divided over the
// threads, and from that the layouts of the register tiles they access.
//
// Strict: a tile whose only element every iteration accesses must be held by
// all threads. Common: the partition follows from a tile whose layout is known,
// one that is written before one that is read. Free: it may also be
// planned for the widest contiguous accesses.
func (in *inferer) inferNest(op *inferOp, lv level, lay *layouts) ([]update, error) {
	n := op.nest
	if op.part != nil || n.ext == nil && lv != free {
		return nil, nil
	}
	if lv == strict {
		return in.inferConstant(op, lay)
	}
	if n.ext == nil {
		return nil, in.inferSymbolic(op)
	}
	constants, others := 0, 0
	for _, a := range n.frags {
		if allConst(a.indices) {
			constants++
		} else {
			others++
		}
	}
	follow := constants == 0 || others > 0
	src, read := in.sources(op, lay)
	var part *layout.Frag
	planned := false
	switch {
	case annotatedPart(n.root) != nil:
		f, err := layout.FromIR(annotatedPart(n.root), op.min, op.threads)
		if err != nil {
			return nil, pipeline.Errorf(n.root.Org, "parallel_loop_layout: %v", err)
		}
		part = f
	case src != nil && (follow || src.write):
		f, err := n.fromBuffer(src, lay.frags[src.buf])
		if err != nil {
			return nil, in.conflict(op, src.buf, "the parallel loop cannot follow the layout of %s: %v", src.buf.Name, err)
		}
		part, op.src = f, src.buf
	case lv == free:
		plan, err := in.plan(op, lay)
		if err != nil {
			return nil, pipeline.Errorf(n.root.Org, "%v", err)
		}
		part, planned = plan, true
		var follows *layout.Frag
		var followErr error
		if read != nil && follow && !in.planServes(op, plan, lay.frags[read.buf], lay) {
			follows, followErr = n.fromBuffer(read, lay.frags[read.buf])
		}
		if follows != nil && followErr == nil && !in.preferPlan(op, follows, plan, lay) {
			part, planned, op.src = follows, false, read.buf
		}
	default:
		return nil, nil
	}
	if _, err := part.Inverse(); err != nil {
		return nil, in.conflict(op, op.src, "the parallel loop cannot be divided over the threads: %v", err)
	}
	for _, a := range n.frags {
		f := lay.frags[a.buf]
		if f != nil && !a.allowed(part, f) {
			what := "reads"
			if a.write {
				what = "writes"
			}
			return nil, in.conflict(op, a.buf, "layout conflict: the loop %s %s on threads that do not hold its elements", what, a.buf.Name)
		}
	}
	var out []update
	for _, b := range op.uses {
		if lay.frags[b] != nil || isReducer(b) {
			continue
		}
		f, err := n.complete(b, part)
		if err != nil {
			return nil, in.conflict(op, op.src, "no layout of %s fits the parallel loop: %v", b.Name, err)
		}
		out = append(out, update{buf: b, frag: f})
	}
	for _, b := range op.uses {
		if !isReducer(b) {
			continue
		}
		f, err := in.placeReducer(op, b, part, lay.frags[b])
		if err != nil {
			return nil, err
		}
		if f != nil {
			out = append(out, update{buf: b, frag: f})
		}
	}
	op.part, op.pad = part, planned && len(n.frags)+len(n.reds) == 0
	return out, nil
}

func allConst(list []ir.Expr) bool {
	for _, e := range list {
		if _, ok := e.(*ir.IntImm); !ok {
			return false
		}
	}
	return true
}

// annotatedPart is the partition the user asked for.
func annotatedPart(f *ir.For) *ir.Fragment {
	l, _ := f.Annotations.Get("parallel_loop_layout").(*ir.Fragment)
	return l
}

// inferConstant replicates tiles of which every iteration accesses element 0.
func (in *inferer) inferConstant(op *inferOp, lay *layouts) ([]update, error) {
	var out []update
	for _, b := range op.uses {
		if lay.frags[b] != nil || isReducer(b) {
			continue
		}
		zero := true
		for _, a := range op.nest.frags {
			if a.buf != b {
				continue
			}
			for _, x := range a.indices {
				zero = zero && ir.IsConst(x, 0)
			}
		}
		if !zero {
			continue
		}
		shape, err := layout.ConstShape(b.Shape)
		if err != nil {
			return nil, pipeline.Errorf(op.stmt.Origin(), "fragment %s: %v", b.Name, err)
		}
		f, err := layout.FullyReplicated(shape, op.min, op.threads)
		if err != nil {
			return nil, pipeline.Errorf(op.stmt.Origin(), "fragment %s: %v", b.Name, err)
		}
		out = append(out, update{buf: b, frag: f})
	}
	return out, nil
}

// sources are the accesses whose layouts may give the partition: src, the last
// written tile with a known layout, else the first read one without copies;
// and read, the known read tile of most dimensions.
func (in *inferer) sources(op *inferOp, lay *layouts) (src, read *access) {
	for _, a := range op.nest.frags {
		f := lay.frags[a.buf]
		if f == nil {
			continue
		}
		if a.write {
			src = a
			continue
		}
		if read == nil || len(a.indices) > len(read.indices) {
			read = a
		}
		if f.Rep == 1 && src == nil {
			src = a
		}
	}
	return src, read
}

// plan divides the iterations so that neighbouring threads access neighbouring
// vectors, each as wide as the accesses allow.
func (in *inferer) plan(op *inferOp, lay *layouts) (*layout.Frag, error) {
	n := op.nest
	w := n.width(lay, op.env)
	total := n.points()
	if len(n.frags) > 0 {
		for w > 1 && total%(op.threads*w) != 0 {
			w /= 2
		}
	} else if c, ok := ir.AttrInt(n.root.Annotations.Get("coalesced_width")); !ok {
		w = leastPadding(w, total, op.threads)
	} else if c < 1 || w%c != 0 {
		return nil, fmt.Errorf("coalesced_width %d does not divide the %d elements that can be accessed at once", c, w)
	} else {
		w = c
	}
	return planPartition(in.cache, n.ext, w, op.min, op.threads, len(n.frags) > 0)
}

// leastPadding is the width, at most w, that leaves the fewest threads idle in
// the last round; the widest of several.
func leastPadding(w, total, threads int64) int64 {
	best, least := w, int64(-1)
	for ; w >= 1; w /= 2 {
		round := threads * w
		pad := (total+round-1)/round*round - total
		if least < 0 || pad < least {
			best, least = w, pad
		}
	}
	return best
}

// planPartition deals vectors of w iterations to the threads in row-major
// order, round by round. With spread, the copies of register tiles fill up
// the threads; and rows whose vectors neither divide nor are a multiple of
// the threads are dealt row by row, so that the threads of a row are
// the same in each round: a reduction along the row then stays among them.
func planPartition(c *cache, ext []int64, w, min, threads int64, spread bool) (*layout.Frag, error) {
	return c.get(fmt.Sprint("plan", ext, w, min, threads, spread), func() (*layout.Frag, error) {
		return deal(ext, w, min, threads, spread)
	})
}

func deal(ext []int64, w, min, threads int64, spread bool) (*layout.Frag, error) {
	size := int64(1)
	for _, x := range ext {
		size *= x
	}
	if spread && len(ext) > 1 {
		row := ext[len(ext)-1]
		if vecs := row / w; vecs%threads != 0 && threads%vecs != 0 {
			return planRows(ext, w, min, threads)
		}
	}
	thread, index := make([]int64, size), make([]int64, size)
	for p := int64(0); p < size; p += w {
		v := p / w
		t, first := v%threads, v/threads*w
		for l := int64(0); l < w && p+l < size; l++ {
			thread[p+l], index[p+l] = t, first+l
		}
	}
	f, err := layout.FromTable(ext, 1, thread, index, min, threads)
	if err != nil || !spread {
		return f, err
	}
	return f.Replicate(threads / f.ThreadExtent())
}

// planRows deals each row to as many threads as divide its vectors, at most a
// warp if there are rows enough to keep every warp busy.
func planRows(ext []int64, w, min, threads int64) (*layout.Frag, error) {
	row := ext[len(ext)-1]
	rows := int64(1)
	for _, x := range ext[:len(ext)-1] {
		rows *= x
	}
	per := gcd(row/w, threads)
	if per > 32 && per%32 == 0 && rows%(threads/32) == 0 {
		per = 32
	}
	par := gcd(rows, threads/per)
	size := rows * row
	thread, index := make([]int64, size), make([]int64, size)
	for p := int64(0); p < size; p++ {
		i, j := p/row, p%row
		thread[p] = i%par*per + j/w%per
		index[p] = i/par*(row/per) + j/(w*per)*w + j%w
	}
	f, err := layout.FromTable(ext, 1, thread, index, min, threads)
	if err != nil {
		return nil, err
	}
	return f.Replicate(threads / f.ThreadExtent())
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// width is the number of iterations along the innermost loop that one access
// can serve, a power of two.
func (n *nest) width(lay *layouts, e env) int64 {
	for _, f := range n.loops {
		e = e.loop(f)
	}
	k := len(n.loops) - 1
	for k > 0 && ir.IsConst(n.loops[k].Extent, 1) {
		k--
	}
	ext, ok := ir.AsInt(n.loops[k].Extent)
	if !ok {
		return 1
	}
	// Only the layouts of memory matter, and those are all known before the
	// first plan is made.
	if n.widest == 0 {
		w := newWidths(e.analyzer(), n.loops[k].Var, ext, lay)
		n.widest = w.limit(n.body, maxVectorBits/8, true)
		n.narrow = w.why
	}
	return n.widest
}

// planServes reports that a plan is sure to be preferred to following a tile
// that all threads hold: it is valid and needs no register number that depends
// on the thread. The other partition, of all iterations on all threads, need
// not be made then.
func (in *inferer) planServes(op *inferOp, plan, read *layout.Frag, lay *layouts) bool {
	return read.IsFullyReplicated() && op.valid(plan, lay) && !(op.nest.storesShared && in.threadIndexed(op, plan, lay))
}

// valid reports a partition that agrees with the known layouts.
func (op *inferOp) valid(part *layout.Frag, lay *layouts) bool {
	if _, err := part.Inverse(); err != nil {
		return false
	}
	for _, a := range op.nest.frags {
		if f := lay.frags[a.buf]; f != nil && !a.allowed(part, f) {
			return false
		}
	}
	return true
}

// preferPlan chooses between a partition that follows a tile that is read and
// a planned one.
func (in *inferer) preferPlan(op *inferOp, follows, plan *layout.Frag, lay *layouts) bool {
	n := op.nest
	okFollows, okPlan := op.valid(follows, lay), op.valid(plan, lay)
	if okFollows != okPlan {
		return okPlan
	}
	if !okFollows {
		return false
	}
	if n.storesShared {
		// A register number that depends on the thread would force the tile out
		// of the registers.
		a, b := in.threadIndexed(op, follows, lay), in.threadIndexed(op, plan, lay)
		if a != b {
			return a
		}
	}
	big, small := layout.Contains(follows, plan, nil, nil), layout.Contains(plan, follows, nil, nil)
	if big != small {
		return big
	}
	return plan.Rep <= follows.Rep
}

// threadIndexed reports a partition under which some access uses different
// registers of a tile in different threads.
func (in *inferer) threadIndexed(op *inferOp, part *layout.Frag, lay *layouts) bool {
	inv, err := part.Inverse()
	if err != nil {
		return true
	}
	for _, a := range op.nest.frags {
		f := lay.frags[a.buf]
		if f == nil || a.at == nil {
			continue
		}
		r := a.repeat()
		for k := int64(0); k < part.Regs; k++ {
			first := int64(-1)
			for t := int64(0); t < part.Extent; t++ {
				p := inv[t*part.Regs+k]
				if p == layout.Hole || a.at[p*r] == layout.Hole {
					continue
				}
				x := f.Register(a.at[p*r])
				if first >= 0 && x != first {
					return true
				}
				first = x
			}
		}
	}
	return false
}

// inferSymbolic checks a nest whose extents are not constant: it can only be
// dealt round by round, which its lowering does.
func (in *inferer) inferSymbolic(op *inferOp) error {
	for _, a := range op.nest.frags {
		return pipeline.Errorf(op.stmt.Origin(), "the parallel loop accesses the fragment %s, but its extents are not constant", a.buf.Name)
	}
	return nil
}

// traffic estimates what a nest costs: accesses to global memory each thread
// issues, one for every vector.
func (op *inferOp) traffic(lay *layouts) int64 {
	if op.nest == nil || op.part == nil || !op.nest.reachesGlobal() {
		return 0
	}
	w := op.nest.width(lay, op.env)
	for w > 1 && op.part.Contiguity() < w {
		w /= 2
	}
	return (op.part.Regs + w - 1) / w
}

func (n *nest) reachesGlobal() bool {
	found := false
	ir.Walk(n.body, func(s ir.Stmt) bool {
		if st, ok := s.(*ir.BufferStore); ok && isGlobal(st.Buffer) {
			found = true
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if ld, ok := e.(*ir.BufferLoad); ok && isGlobal(ld.Buffer) {
				found = true
			}
			return true
		})
		return !found
	})
	return found
}
