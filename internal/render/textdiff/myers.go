package textdiff

import "slices"

const (
	// exactCost is how many edits the exact search follows from each end of a region before the
	// region is cut at its anchors. Below it the result is a shortest edit script. The search takes
	// about exactCost² steps, about a millisecond.
	exactCost = 512

	unreached = -1
	beyond    = int32(1) << 30
)

// Ints compares two sequences of numbers, which should be small and not negative (memory is taken
// in proportion to the largest). It returns the changes in order.
func Ints(a, b []int32) []Op {
	pre := 0
	for pre < len(a) && pre < len(b) && a[pre] == b[pre] {
		pre++
	}
	suf := 0
	for suf < len(a)-pre && suf < len(b)-pre && a[len(a)-1-suf] == b[len(b)-1-suf] {
		suf++
	}
	ca, cb := a[pre:len(a)-suf], b[pre:len(b)-suf]
	if len(ca) == 0 && len(cb) == 0 {
		return nil
	}
	if len(ca) == 0 || len(cb) == 0 {
		return []Op{{pre, pre + len(ca), pre, pre + len(cb)}}
	}

	// Set aside what has no partner: it cannot be part of any common subsequence.
	e := newEngine(ca, cb)
	e.compare(0, len(e.a), 0, len(e.b))

	var ops []Op
	i, j := 0, 0 // next line of ca, cb
	emit := func(i1, j1 int) {
		if i1 > i || j1 > j {
			ops = append(ops, Op{pre + i, pre + i1, pre + j, pre + j1})
		}
	}
	for x, y := range e.match {
		if y == unmatched {
			continue
		}
		i1, j1 := int(e.ia[x]), int(e.ib[y])
		emit(i1, j1)
		i, j = i1+1, j1+1
	}
	emit(len(ca), len(cb))
	return ops
}

const unmatched = int32(-1)

// engine compares two sequences of which every element occurs on both sides.
type engine struct {
	a, b   []int32 // the sequences without the elements that have no partner
	ia, ib []int32 // where those elements stood
	match  []int32 // for each element of a its partner's position in b, or unmatched

	countA, countB []int32 // scratch for anchors, indexed by element; zero between uses
	whereB         []int32
	fwd, bwd       []int32 // furthest x on each diagonal, from the start and from the end
}

func newEngine(a, b []int32) *engine {
	top := max(slices.Max(a), slices.Max(b))
	e := &engine{
		countA: make([]int32, top+1),
		countB: make([]int32, top+1),
	}
	for _, v := range a {
		e.countA[v]++
	}
	for _, v := range b {
		e.countB[v]++
	}
	keep := func(from, other []int32) (vals, at []int32) {
		for i, v := range from {
			if other[v] > 0 {
				vals = append(vals, v)
				at = append(at, int32(i))
			}
		}
		return vals, at
	}
	e.a, e.ia = keep(a, e.countB)
	e.b, e.ib = keep(b, e.countA)
	clear(e.countA)
	clear(e.countB)
	e.match = make([]int32, len(e.a))
	for i := range e.match {
		e.match[i] = unmatched
	}
	return e
}

// compare records the matches between a[a0:a1] and b[b0:b1].
func (e *engine) compare(a0, a1, b0, b1 int) {
	for {
		for a0 < a1 && b0 < b1 && e.a[a0] == e.b[b0] {
			e.match[a0] = int32(b0)
			a0++
			b0++
		}
		for a0 < a1 && b0 < b1 && e.a[a1-1] == e.b[b1-1] {
			a1--
			b1--
			e.match[a1] = int32(b1)
		}
		if a0 == a1 || b0 == b1 {
			return
		}
		x, y, exact := e.middle(a0, a1, b0, b1)
		if !exact {
			if anchors := e.anchors(a0, a1, b0, b1); len(anchors) > 0 {
				for _, p := range anchors {
					e.compare(a0, p.x, b0, p.y)
					e.match[p.x] = int32(p.y)
					a0, b0 = p.x+1, p.y+1
				}
				continue
			}
		}
		// Recur into the smaller half, so that the depth stays logarithmic.
		if x-a0+y-b0 < a1-x+b1-y {
			e.compare(a0, x, b0, y)
			a0, b0 = x, y
		} else {
			e.compare(x, a1, y, b1)
			a1, b1 = x, y
		}
	}
}

// middle finds a point that a shortest edit path from (a0,b0) to (a1,b1) passes, searching from
// both ends until the searches meet. If they have not met after exactCost edits each, it returns
// the point that either has come furthest to and false. The ends of the region differ, so that the
// point is never a corner.
func (e *engine) middle(a0, a1, b0, b1 int) (x, y int, exact bool) {
	n, m := a1-a0, b1-b0
	delta := n - m
	odd := delta&1 != 0
	span := min(n+m, 2*exactCost) + 4
	if len(e.fwd) < 2*span+1 {
		e.fwd = make([]int32, 2*span+1)
		e.bwd = make([]int32, 2*span+1)
	}
	// Diagonal k = x-y of the forward search is at fwd[span+k]; that of the backward search, which
	// counts from the end diagonal delta, at bwd[span+k-delta].
	f, g := e.fwd, e.bwd

	for d := 0; ; d++ {
		lo, hi := diagonals(d, n, m)
		for k := lo; k <= hi; k += 2 {
			cx := int(unreached)
			if d == 0 {
				cx = 0
			} else {
				if k > -d && k-1 >= -m { // from the diagonal below: one line of a deleted
					if left := int(f[span+k-1]); left != unreached && left < n {
						cx = left + 1
					}
				}
				if k < d && k+1 <= n { // from the diagonal above: one line of b added
					if right := int(f[span+k+1]); right > cx && right-k <= m {
						cx = right
					}
				}
			}
			if cx == unreached {
				f[span+k] = unreached
				continue
			}
			for cx < n && cx-k < m && e.a[a0+cx] == e.b[b0+cx-k] {
				cx++
			}
			f[span+k] = int32(cx)
			if r := k - delta; odd && r > -d && r < d && cx >= int(g[span+r]) {
				return a0 + cx, b0 + cx - k, true
			}
		}
		// The backward search is the forward one turned around: its diagonal r stands for
		// k = r+delta, and r runs over the mirrored range.
		lo, hi = diagonals(d, m, n)
		for r := lo; r <= hi; r += 2 {
			k := r + delta
			cx := int(beyond)
			if d == 0 {
				cx = n
			} else {
				if r < d && r+1 <= m {
					if right := int(g[span+r+1]); right != int(beyond) && right > 0 {
						cx = right - 1
					}
				}
				if r > -d && r-1 >= -n {
					if left := int(g[span+r-1]); left < cx && left-k >= 0 {
						cx = left
					}
				}
			}
			if cx == int(beyond) {
				g[span+r] = beyond
				continue
			}
			for cx > 0 && cx-k > 0 && e.a[a0+cx-1] == e.b[b0+cx-1-k] {
				cx--
			}
			g[span+r] = int32(cx)
			if !odd && k >= -d && k <= d && cx <= int(f[span+k]) {
				return a0 + cx, b0 + cx - k, true
			}
		}
		if d >= exactCost {
			x, y = e.furthest(d, n, m, span)
			return a0 + x, b0 + y, false
		}
	}
}

// diagonals returns the first and last diagonal, in steps of two, that a search after d edits can
// stand on inside an n × m rectangle.
func diagonals(d, n, m int) (lo, hi int) {
	lo, hi = -d, d
	if lo < -m {
		lo = -m + (d-m)&1
	}
	if hi > n {
		hi = n - (d-n)&1
	}
	return lo, hi
}

// furthest picks, after d edits of both searches, the point with the most lines behind it.
func (e *engine) furthest(d, n, m, span int) (x, y int) {
	best := -1
	lo, hi := diagonals(d, n, m)
	for k := lo; k <= hi; k += 2 {
		cx := int(e.fwd[span+k])
		if cy := cx - k; cx >= 0 && cx <= n && cy >= 0 && cy <= m && cx+cy > best {
			best, x, y = cx+cy, cx, cy
		}
	}
	lo, hi = diagonals(d, m, n)
	for r := lo; r <= hi; r += 2 {
		cx := int(e.bwd[span+r])
		if cy := cx - r - (n - m); cx >= 0 && cx <= n && cy >= 0 && cy <= m && n+m-cx-cy > best {
			best, x, y = n+m-cx-cy, cx, cy
		}
	}
	return x, y
}

type point struct{ x, y int }

// anchors returns the elements that occur once in a[a0:a1] and once in b[b0:b1], thinned out to a
// longest run that is in the same order on both sides.
func (e *engine) anchors(a0, a1, b0, b1 int) []point {
	if e.whereB == nil {
		e.whereB = make([]int32, len(e.countB))
	}
	for _, v := range e.a[a0:a1] {
		e.countA[v]++
	}
	for j, v := range e.b[b0:b1] {
		e.countB[v]++
		e.whereB[v] = int32(b0 + j)
	}
	// Longest increasing subsequence of the partners' positions, by patience sorting.
	var pts []point
	var prev []int32 // of each point, its predecessor in the best run that ends there
	var piles []int32
	for i, v := range e.a[a0:a1] {
		if e.countA[v] != 1 || e.countB[v] != 1 {
			continue
		}
		y := int(e.whereB[v])
		pile, _ := slices.BinarySearchFunc(piles, y, func(p int32, y int) int { return pts[p].y - y })
		before := int32(-1)
		if pile > 0 {
			before = piles[pile-1]
		}
		pts = append(pts, point{a0 + i, y})
		prev = append(prev, before)
		if pile == len(piles) {
			piles = append(piles, 0)
		}
		piles[pile] = int32(len(pts) - 1)
	}
	for _, v := range e.a[a0:a1] {
		e.countA[v] = 0
	}
	for _, v := range e.b[b0:b1] {
		e.countB[v] = 0
	}
	if len(piles) == 0 {
		return nil
	}
	run := make([]point, len(piles))
	p := piles[len(piles)-1]
	for i := len(run) - 1; i >= 0; i-- {
		run[i] = pts[p]
		p = prev[p]
	}
	return run
}

// slide moves each change that only adds or only deletes to where it reads best. Such a change may
// stand at several places with the same effect when its first line equals the line behind it. The
// place chosen starts at the least indented line, so that a block is shown with its own head and
// not with the next one's; among equals it is the last.
func slide(ops []Op, a, b []int32, la, lb []string) {
	for i := range ops {
		op := &ops[i]
		ids, lines, s, t := b, lb, op.B0, op.B1
		if op.A0 != op.A1 {
			if op.B0 != op.B1 {
				continue
			}
			ids, lines, s, t = a, la, op.A0, op.A1
		}
		// One equal line must remain between neighbours.
		up, down := s, len(ids)-t
		if i > 0 {
			up = op.A0 - ops[i-1].A1 - 1
		}
		if i+1 < len(ops) {
			down = ops[i+1].A0 - op.A1 - 1
		}
		lo, hi := 0, 0
		for -lo < up && ids[s+lo-1] == ids[t+lo-1] {
			lo--
		}
		for hi < down && ids[s+hi] == ids[t+hi] {
			hi++
		}
		if lo == hi {
			continue
		}
		best, bestIndent := 0, int(beyond)
		for k := lo; k <= hi; k++ {
			if in := indent(lines[s+k]); in <= bestIndent {
				best, bestIndent = k, in
			}
		}
		op.A0, op.A1, op.B0, op.B1 = op.A0+best, op.A1+best, op.B0+best, op.B1+best
	}
}

// indent counts the blanks before a line's text; a blank line counts as the deepest, since a change
// should not start with one.
func indent(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ', '\t':
		case '\n', '\r':
			return int(beyond) - 1
		default:
			return i
		}
	}
	return int(beyond) - 1
}
