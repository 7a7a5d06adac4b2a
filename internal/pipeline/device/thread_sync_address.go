package device

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
)

// access is one thread's access to shared memory: count elements, each of so
// many bytes, from element index on, base bytes into pool. index may mention the
// thread axes, the variables in ranged, which take all values of their ranges,
// and uniform variables, which are the same for all threads.
type access struct {
	pool   *ir.Var // the allocation
	base   int64
	index  ir.Expr // nil: all of the buffer, Count elements
	bytes  int64
	count  int64
	guards []ir.Expr // threads for which one does not hold do not access
	ranged []rangedVar
	write  bool
	atomic bool
	async  bool // a write that lands at an unknown time before a wait
	// party: no access of memory, but the use of a reduction's hardware barrier
	// by a partition's threads.
	party *partition
}

type rangedVar struct {
	v           *ir.Var
	min, extent int64
}

// maxThreadEvals bounds the addresses computed to compare two accesses. Beyond
// it they count as a conflict: a barrier too many is safe.
const maxThreadEvals = 1 << 20

// maxUniformValues is how many values of a uniform variable without a constant
// range are tried when it only occurs under a remainder.
const maxUniformValues = 256

// comparer decides whether accesses of different threads can meet.
type comparer struct {
	axes    []axis
	threads int64
	// ranges are the ranges of uniform loop variables in scope, where
	// constant.
	ranges map[*ir.Var]rangedVar
	evals  int64
	owners owners
	// guess says why the last conflict was assumed rather than found, "" if
	// it was found.
	guess string
	// exact: all guards of the accesses compared last were computed.
	exact bool
}

// mentions reports a variable in an access's index or guards.
func mentions(a *access, index ir.Expr, v *ir.Var) bool {
	is := func(w *ir.Var) bool { return w == v }
	if ir.UsesVar(index, is) {
		return true
	}
	for _, g := range a.guards {
		if ir.UsesVar(g, is) {
			return true
		}
	}
	return false
}

// conflict reports whether an access b may touch what another thread accessed
// by a before. An asynchronous copy is not even ordered after what its own
// thread read or stored.
func (c *comparer) conflict(a, b *access) bool {
	c.guess, c.exact = "", true
	if a.pool != b.pool || !a.write && !b.write || a.atomic && b.atomic {
		return false
	}
	if a.index == nil || b.index == nil {
		lo, hi, ok := c.bounds(a)
		lo2, hi2, ok2 := c.bounds(b)
		if !ok || !ok2 || lo < hi2 && lo2 < hi {
			c.guess = "an index has no known range"
			return true
		}
		return false
	}
	if lo, hi, ok := c.bounds(a); ok {
		if lo2, hi2, ok := c.bounds(b); ok && (hi <= lo2 || hi2 <= lo) {
			return false
		}
	}
	ia, ib := cancelUniform(a.index, b.index, a.bytes == b.bytes, func(e ir.Expr) bool { return c.isUniform(e, a, b) })
	comp := newCompiler(c.axes, c.threads)
	// A variable that is ranged in both accesses takes its values in each
	// independently.
	pa := c.compileAccess(comp, a, ia)
	pb := c.compileAccess(comp, b, ib)
	if pa == nil || pb == nil {
		c.guess = "an index depends on data"
		return true
	}
	isRanged := map[*ir.Var]bool{}
	for _, r := range append(append([]rangedVar(nil), a.ranged...), b.ranged...) {
		isRanged[r.v] = true
	}
	var uniform []rangedVar
	for _, v := range comp.free {
		if isRanged[v] {
			continue
		}
		r, ok := c.ranges[v]
		if !ok {
			if r, ok = periodOf(v, ia, ib, a.guards, b.guards); !ok {
				c.guess = "the range of " + v.Name + " is not known"
				return true
			}
		}
		uniform = append(uniform, onePeriod(r, ia, ib, a.guards, b.guards))
	}
	// A uniform variable that only one access mentions takes all values there.
	ra, rb := periods(a.ranged, ia, a.guards), periods(b.ranged, ib, b.guards)
	both := uniform[:0]
	for _, r := range uniform {
		switch inA, inB := mentions(a, ia, r.v), mentions(b, ib, r.v); {
		case inA && inB:
			both = append(both, r)
		case inA:
			ra = append(ra[:len(ra):len(ra)], r)
		case inB:
			rb = append(rb[:len(rb):len(rb)], r)
		}
	}
	uniform = both
	// The places compared are as large as all addresses allow.
	unit := max(1, gcd(gcd(a.bytes, b.bytes), gcd(a.base, b.base)))
	na, nb := a.bytes*a.count/unit, b.bytes*b.count/unit
	work := c.threads * (combinations(ra) + combinations(rb)) * combinations(uniform)
	if work <= 0 || work > maxThreadEvals || max(na, nb) > nearPlaces {
		c.guess = "there are too many addresses to compare"
		return true
	}
	c.evals += work
	return !comp.forAll(uniform, func() bool {
		c.owners.reset(c.threads)
		comp.each(pa, ra, func(thread, index int64) bool {
			c.owners.touch(thread, (a.base+index*a.bytes)/unit, na)
			return true
		})
		return comp.each(pb, rb, func(thread, index int64) bool {
			return !c.owners.meets(thread, (b.base+index*b.bytes)/unit, nb, b.async && !a.async)
		})
	})
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}

func combinations(list []rangedVar) int64 {
	n := int64(1)
	for _, r := range list {
		if r.extent <= 0 || n > maxThreadEvals {
			return maxThreadEvals + 1
		}
		n *= r.extent
	}
	return n
}

func (c *comparer) isAxis(v *ir.Var) bool {
	for _, x := range c.axes {
		if x.v == v {
			return true
		}
	}
	return false
}

// compileAccess compiles an access's index and those of its guards that can
// be; a guard that cannot counts as true. It is nil if the index cannot be.
func (c *comparer) compileAccess(comp *compiler, a *access, index ir.Expr) *places {
	p := &places{index: comp.compile(index)}
	if p.index == nil {
		return nil
	}
	for _, e := range a.guards {
		trial := newCompiler(nil, 1)
		if trial.compile(e) == nil {
			c.exact = false
			continue
		}
		known := true
		for _, v := range trial.free {
			_, inRange := c.ranges[v]
			known = known && (c.isAxis(v) || inRange || isRangedIn(a, v))
		}
		if known {
			p.guards = append(p.guards, comp.compile(e))
		} else {
			c.exact = false
		}
	}
	comp.take(p)
	return p
}

func isRangedIn(a *access, v *ir.Var) bool {
	for _, r := range a.ranged {
		if r.v == v {
			return true
		}
	}
	return false
}

// isUniform reports an expression whose value is one for all threads, and the
// same in both accesses.
func (c *comparer) isUniform(e ir.Expr, a, b *access) bool {
	return !ir.UsesVar(e, func(v *ir.Var) bool { return c.isAxis(v) || isRangedIn(a, v) || isRangedIn(b, v) }) && ir.SideEffect(e) <= ir.Pure
}

// cancelUniform drops terms that both indices have and that do not depend on
// the thread, for the difference of two addresses does not depend on them.
func cancelUniform(a, b ir.Expr, sameUnit bool, uniform func(ir.Expr) bool) (ir.Expr, ir.Expr) {
	if !sameUnit {
		return a, b
	}
	ta, tb := terms(a), terms(b)
	restA := make([]ir.Expr, 0, len(ta))
	used := make([]bool, len(tb))
next:
	for _, x := range ta {
		if uniform(x) {
			for j, y := range tb {
				if !used[j] && arith.Equal(x, y) {
					used[j] = true
					continue next
				}
			}
		}
		restA = append(restA, x)
	}
	var restB []ir.Expr
	for j, y := range tb {
		if !used[j] {
			restB = append(restB, y)
		}
	}
	return sum(restA, a.DType()), sum(restB, b.DType())
}

func terms(e ir.Expr) []ir.Expr {
	if b, ok := e.(*ir.Binary); ok && b.Op == ir.Add {
		return append(terms(b.A), terms(b.B)...)
	}
	return []ir.Expr{e}
}

func sum(list []ir.Expr, t ir.DType) ir.Expr {
	if len(list) == 0 {
		return ir.IntConst(t, 0)
	}
	e := list[0]
	for _, x := range list[1:] {
		e = &ir.Binary{Op: ir.Add, A: e, B: x}
	}
	return e
}

// periodOf is a set of values of a uniform variable that stands for all: it
// occurs only as the dividend's part of remainders by constants, so that one
// period shows everything.
func periodOf(v *ir.Var, a, b ir.Expr, ga, gb []ir.Expr) (rangedVar, bool) {
	period := int64(1)
	var visit func(e ir.Expr, under bool) bool
	visit = func(e ir.Expr, under bool) bool {
		switch e := e.(type) {
		case *ir.Var:
			return e != v || under
		case *ir.Binary:
			if (e.Op == ir.FloorMod || e.Op == ir.TruncMod) && !under && ir.UsesVar(e.A, func(x *ir.Var) bool { return x == v }) {
				m, ok := ir.AsInt(e.B)
				if !ok || m <= 0 || !linearIn(e.A, v) {
					return false
				}
				period = period / gcd(period, m) * m
				return period <= maxUniformValues
			}
			return visit(e.A, under) && visit(e.B, under)
		case *ir.Call:
			if e.Op != nil && e.Op.Name == "bitwise_and" && len(e.Args) == 2 {
				if m, ok := ir.AsInt(e.Args[1]); ok && m > 0 && m&(m+1) == 0 && linearIn(e.Args[0], v) {
					period = period / gcd(period, m+1) * (m + 1)
					return period <= maxUniformValues
				}
			}
			for _, x := range e.Args {
				if !visit(x, under) {
					return false
				}
			}
			return true
		case *ir.Cast:
			return visit(e.Value, under)
		}
		return !ir.UsesVar(e, func(x *ir.Var) bool { return x == v })
	}
	for _, e := range append(append([]ir.Expr{a, b}, ga...), gb...) {
		if !visit(e, false) {
			return rangedVar{}, false
		}
	}
	// Past the first period nothing is negative that would not be later.
	return rangedVar{v, period, period}, true
}

// onePeriod shortens the range of a variable to one period, where that shows
// everything.
func onePeriod(r rangedVar, a, b ir.Expr, ga, gb []ir.Expr) rangedVar {
	if p, ok := periodOf(r.v, a, b, ga, gb); ok && p.extent < r.extent {
		r.extent = p.extent
	}
	return r
}

// periods is onePeriod for the variables that range within one access.
func periods(list []rangedVar, index ir.Expr, guards []ir.Expr) []rangedVar {
	out := make([]rangedVar, len(list))
	for i, r := range list {
		out[i] = onePeriod(r, index, index, guards, nil)
	}
	return out
}

// linearIn reports sums and differences in which v has integer coefficients.
func linearIn(e ir.Expr, v *ir.Var) bool {
	switch e := e.(type) {
	case *ir.Binary:
		switch e.Op {
		case ir.Add, ir.Sub:
			return linearIn(e.A, v) && linearIn(e.B, v)
		case ir.Mul:
			_, ok := ir.AsInt(e.B)
			return ok && linearIn(e.A, v)
		}
	case *ir.Var, *ir.IntImm:
		return true
	case *ir.Cast:
		return e.Type.IsInteger() && e.Type.Bits >= 32 && linearIn(e.Value, v)
	}
	return !ir.UsesVar(e, func(x *ir.Var) bool { return x == v })
}

// bounds are the first byte and the byte after the last that an access may
// touch, from the ranges of its variables.
func (c *comparer) bounds(a *access) (lo, hi int64, ok bool) {
	if a.index == nil {
		return a.base, a.base + a.bytes*a.count, true
	}
	lo, hi, ok = c.interval(a.index, a)
	return a.base + lo*a.bytes, a.base + (hi+a.count)*a.bytes, ok
}

// interval bounds an index; hi is included.
func (c *comparer) interval(e ir.Expr, a *access) (lo, hi int64, ok bool) {
	switch e := e.(type) {
	case *ir.IntImm:
		return e.Value, e.Value, true
	case *ir.Var:
		for _, x := range c.axes {
			if x.v == e {
				return 0, x.extent - 1, true
			}
		}
		for _, r := range a.ranged {
			if r.v == e {
				return r.min, r.min + r.extent - 1, true
			}
		}
		if r, ok := c.ranges[e]; ok {
			return r.min, r.min + r.extent - 1, true
		}
	case *ir.Cast:
		return c.interval(e.Value, a)
	case *ir.Binary:
		al, ah, ok := c.interval(e.A, a)
		bl, bh, ok2 := c.interval(e.B, a)
		switch e.Op {
		case ir.FloorMod:
			if ok2 && bl == bh && bl > 0 {
				if ok && al >= 0 && ah < bl {
					return al, ah, true
				}
				return 0, bl - 1, true
			}
		}
		if !ok || !ok2 || outside(al) || outside(ah) || outside(bl) || outside(bh) {
			return 0, 0, false
		}
		switch e.Op {
		case ir.Add:
			return al + bl, ah + bh, true
		case ir.Sub:
			return al - bh, ah - bl, true
		case ir.Mul:
			p := []int64{al * bl, al * bh, ah * bl, ah * bh}
			return min(p[0], p[1], p[2], p[3]), max(p[0], p[1], p[2], p[3]), true
		case ir.FloorDiv, ir.Div:
			if bl == bh && bl > 0 && al >= 0 {
				return al / bl, ah / bl, true
			}
		case ir.TruncMod:
			if bl == bh && bl > 0 && al >= 0 {
				if ah < bl {
					return al, ah, true
				}
				return 0, bl - 1, true
			}
		}
	case *ir.Call:
		if e.Op != nil && e.Op.Name == "bitwise_and" && len(e.Args) == 2 {
			if m, ok := ir.AsInt(e.Args[1]); ok && m >= 0 {
				return 0, m, true
			}
		}
		if e.Op != nil && e.Op.Name == "shift_right" && len(e.Args) == 2 {
			if n, ok := ir.AsInt(e.Args[1]); ok && n >= 0 && n < 63 {
				l, h, ok := c.interval(e.Args[0], a)
				return l >> n, h >> n, ok
			}
		}
	}
	return 0, 0, false
}

// outside reports values whose products could overflow.
func outside(v int64) bool { return v > 1<<31 || v < -1<<31 }
