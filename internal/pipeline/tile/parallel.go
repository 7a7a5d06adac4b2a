package tile

import (
	"fmt"
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// layouts are the layouts known so far.
type layouts struct {
	frags map[*ir.Buffer]*layout.Frag
	maps  map[*ir.Buffer]*layout.Map
	order []*ir.Buffer // in order of discovery
}

func newLayouts() *layouts {
	return &layouts{frags: map[*ir.Buffer]*layout.Frag{}, maps: map[*ir.Buffer]*layout.Map{}}
}

func (l *layouts) clone() *layouts {
	c := newLayouts()
	for b, f := range l.frags {
		c.frags[b] = f
	}
	for b, m := range l.maps {
		c.maps[b] = m
	}
	c.order = slices.Clone(l.order)
	return c
}

func (l *layouts) has(b *ir.Buffer) bool { return l.frags[b] != nil || l.maps[b] != nil }

func (l *layouts) setFrag(b *ir.Buffer, f *layout.Frag) {
	if !l.has(b) {
		l.order = append(l.order, b)
	}
	l.frags[b] = f
}

func (l *layouts) setMap(b *ir.Buffer, m *layout.Map) {
	if !l.has(b) {
		l.order = append(l.order, b)
	}
	l.maps[b] = m
}

// cache keeps fragments that are made again and again while a function is
// worked on, by what they were made from.
type cache struct {
	frags map[string]*layout.Frag
	read  map[*ir.Fragment]*layout.Frag
}

func newCache() *cache {
	return &cache{frags: map[string]*layout.Frag{}, read: map[*ir.Fragment]*layout.Frag{}}
}

// fromIR is layout.FromIR.
func (c *cache) fromIR(a *ir.Fragment, min, threads int64) (*layout.Frag, error) {
	if f := c.read[a]; f != nil {
		return f, nil
	}
	f, err := layout.FromIR(a, min, threads)
	if err == nil && a.ThreadRange.Extent != nil {
		c.read[a] = f
	}
	return f, err
}

func (c *cache) get(key string, make func() (*layout.Frag, error)) (*layout.Frag, error) {
	if f := c.frags[key]; f != nil {
		return f, nil
	}
	f, err := make()
	if err == nil {
		c.frags[key] = f
	}
	return f, err
}

// nest is a nest of parallel loops: its iterations are to be divided over the
// threads.
type nest struct {
	root  *ir.For
	loops []*ir.For // outermost first
	body  ir.Stmt   // of the innermost
	vars  []*ir.Var
	// ext are the constant extents, nil when one is symbolic.
	ext []int64
	env env // outside the nest

	frags []*access // accesses to register tiles, in order of appearance
	reds  []*access // updates of reducers
	// storesShared and storesFrag say what the body writes; reachesMemory
	// that it accesses shared or global memory at all.
	storesShared, storesFrag, reachesMemory bool

	widest int64  // answer of width, 0 before it was asked
	narrow string // why widest is 1, as far as known
}

// access is what a nest does with one index list of a register tile.
type access struct {
	buf         *ir.Buffer
	indices     []ir.Expr
	read, write bool
	// at is the element accessed in each iteration (row-major over the nest,
	// then over free), Hole where it lies outside the buffer; nil when it is
	// not a function of the nest's variables and of loops with constant
	// bounds.
	at []int64
	// freeVars are the other variables the index uses, free their extents.
	freeVars []ir.Expr
	free     []int64
	bad      *ir.Var // a variable that made at nil
	why      error   // or another reason
}

// isDirect reports an access by the nest's own variables in order.
func (a *access) isDirect(n *nest) bool {
	if len(a.indices) != len(n.vars) || n.ext == nil {
		return false
	}
	for d, x := range a.indices {
		s, ok := ir.AsInt(a.buf.Shape[d])
		if x != ir.Expr(n.vars[d]) || !ok || s != n.ext[d] {
			return false
		}
	}
	return true
}

// newNest collects a nest of parallel loops.
func newNest(root *ir.For, e env) (*nest, error) {
	n := &nest{root: root, env: e}
	var s ir.Stmt = root
	constant := true
	for {
		f, ok := s.(*ir.For)
		if !ok || f.Kind != ir.Parallel {
			break
		}
		if f.Step != nil && !ir.IsConst(f.Step, 1) {
			return nil, fmt.Errorf("a parallel loop with a step")
		}
		n.loops = append(n.loops, f)
		n.vars = append(n.vars, f.Var)
		x, ok := ir.AsInt(f.Extent)
		constant = constant && ok && ir.IsConst(f.Min, 0)
		n.ext = append(n.ext, x)
		s = f.Body
	}
	n.body = s
	if len(n.vars) > layout.MaxDims {
		return nil, fmt.Errorf("more than %d nested parallel loops", layout.MaxDims)
	}
	points := int64(1)
	for _, x := range n.ext {
		if constant {
			if x <= 0 {
				return nil, fmt.Errorf("a parallel loop of extent %d", x)
			}
			if points *= x; points > layout.MaxPoints {
				constant = false
			}
		}
	}
	if !constant {
		n.ext = nil
	}
	inner := e
	for _, f := range n.loops {
		inner = inner.loop(f)
	}
	walkEnv(n.body, inner, func(s ir.Stmt, e env) bool {
		if st, ok := s.(*ir.BufferStore); ok {
			n.touch(st.Buffer, st.Indices, true, e)
		}
		ir.StmtExprs(s, func(x ir.Expr) bool {
			n.visit(x, e)
			return true
		})
		return true
	})
	return n, nil
}

func (n *nest) visit(x ir.Expr, e env) {
	switch x := x.(type) {
	case *ir.BufferLoad:
		n.touch(x.Buffer, x.Indices, false, e)
	case *ir.Var:
		// A bound value may hide accesses; bindings inside the nest are
		// statements of their own.
		if v := n.env.valueOf(x); v != nil {
			ir.WalkExpr(v, func(y ir.Expr) bool {
				n.visit(y, e)
				return true
			})
		}
	case *ir.Call:
		if ld := pointee(x); ld != nil {
			n.reachesMemory = n.reachesMemory || !isFragment(ld.Buffer)
		}
		if pointerWrites(x) && !isFragment(pointee(x.Args[0]).Buffer) {
			n.storesShared = true
		}
		if ld := reducerUpdate(x); ld != nil {
			a := &access{buf: ld.Buffer, indices: ld.Indices, write: true}
			n.place(a, e)
			n.reds = append(n.reds, a)
		}
	}
}

// reducerUpdate is the element a call of T.reducer_update contributes to, nil
// if it is another call.
func reducerUpdate(c *ir.Call) *ir.BufferLoad {
	if c.Op == nil || c.Op.Name != "reducer_update" {
		return nil
	}
	ld, _ := c.Args[0].(*ir.BufferLoad)
	return ld
}

// pointerWrites reports calls that write through their first argument.
func pointerWrites(c *ir.Call) bool {
	return c.Op != nil && c.Op.Effect >= ir.UpdateState && len(c.Args) > 0 && pointee(c.Args[0]) != nil
}

// pointee is the element a pointer argument points to, nil if it is none.
func pointee(e ir.Expr) *ir.BufferLoad {
	c, ok := e.(*ir.Call)
	if !ok || c.Op == nil || len(c.Args) == 0 {
		return nil
	}
	switch c.Op.Name {
	case "address_of", "access_ptr":
		ld, _ := c.Args[0].(*ir.BufferLoad)
		return ld
	}
	return nil
}

func (n *nest) touch(b *ir.Buffer, indices []ir.Expr, write bool, e env) {
	switch {
	case isFragment(b):
		n.storesFrag = n.storesFrag || write
	case isShared(b) || isGlobal(b):
		n.reachesMemory = true
		n.storesShared = n.storesShared || write
		return
	default:
		return
	}
	for _, a := range n.frags {
		if a.buf == b && sameExprs(a.indices, indices) {
			a.read, a.write = a.read || !write, a.write || write
			return
		}
	}
	a := &access{buf: b, indices: indices, read: !write, write: write}
	n.place(a, e)
	n.frags = append(n.frags, a)
}

func sameExprs(a, b []ir.Expr) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !ir.Same(a[i], b[i]) {
			return false
		}
	}
	return true
}

// place tabulates the elements of an access.
func (n *nest) place(a *access, e env) {
	shape, err := layout.ConstShape(a.buf.Shape)
	if err != nil {
		a.why = err
		return
	}
	if n.ext == nil {
		a.why = fmt.Errorf("the extent of a parallel loop is not constant")
		return
	}
	vars, ext := slices.Clone(n.vars), slices.Clone(n.ext)
	var free []int64
	for _, x := range a.indices {
		ir.WalkExpr(x, func(y ir.Expr) bool {
			v, ok := y.(*ir.Var)
			if !ok || slices.Contains(vars, v) {
				return true
			}
			if m, k, ok := e.constRange(v); ok && m == 0 && k > 0 {
				vars, ext, free = append(vars, v), append(ext, k), append(free, k)
				a.freeVars = append(a.freeVars, v)
			} else if a.bad == nil {
				a.bad = v
			}
			return true
		})
	}
	if a.bad != nil {
		return
	}
	size := int64(1)
	for _, x := range ext {
		if size *= x; size > layout.MaxPoints {
			a.why = fmt.Errorf("more than %d points", layout.MaxPoints)
			return
		}
	}
	at := make([]int64, size)
	for d, x := range a.indices {
		col, err := layout.Evaluate(x, vars, ext)
		if err != nil {
			a.why = err
			return
		}
		for p, v := range col {
			if at[p] == layout.Hole || v < 0 || v >= shape[d] {
				at[p] = layout.Hole
			} else {
				at[p] = at[p]*shape[d] + v
			}
		}
	}
	a.at, a.free = at, free
}

// points is the number of iterations.
func (n *nest) points() int64 {
	k := int64(1)
	for _, x := range n.ext {
		k *= x
	}
	return k
}

// repeat is how many elements an access touches in one iteration.
func (a *access) repeat() int64 {
	k := int64(1)
	for _, x := range a.free {
		k *= x
	}
	return k
}

// allowed reports whether a partition of the nest agrees with the layout of a
// register tile it accesses: a thread that reads an element must hold it, and
// the threads that write one must be exactly those that hold it.
func (a *access) allowed(loop, frag *layout.Frag) bool {
	if frag.IsFullyReplicated() && !a.write {
		return loop.Min >= frag.Min && loop.Min+loop.Extent <= frag.Min+frag.Extent
	}
	if a.at == nil {
		return frag.IsFullyReplicated() && loop.Rep >= frag.Extent
	}
	r := a.repeat()
	buf, it := a.at, []int64(nil)
	if r > 1 || slices.Contains(a.at, layout.Hole) {
		buf, it = nil, nil
		for p, q := range a.at {
			if q != layout.Hole {
				buf, it = append(buf, q), append(it, int64(p)/r)
			}
		}
		if buf == nil {
			return true
		}
	}
	if !layout.Contains(frag, loop, buf, it) {
		return false
	}
	return !a.write || layout.Contains(loop, frag, it, buf)
}

// fromBuffer is the partition in which every iteration runs on the threads
// that hold the element it accesses.
func (n *nest) fromBuffer(a *access, f *layout.Frag) (*layout.Frag, error) {
	if a.isDirect(n) {
		return f, nil
	}
	if a.at == nil {
		if f.IsFullyReplicated() && n.ext != nil {
			return layout.FullyReplicated(n.ext, f.Min, f.Extent)
		}
		if a.bad != nil {
			return nil, fmt.Errorf("the elements of %s are spread over threads, so the variable %s cannot choose one", a.buf.Name, a.bad.Name)
		}
		return nil, a.why
	}
	r := a.repeat()
	points := n.points()
	thread := make([]int64, 0, points*f.Rep)
	for p := int64(0); p < points; p++ {
		q := a.at[p*r]
		if q == layout.Hole {
			for i := int64(0); i < f.Rep; i++ {
				thread = append(thread, layout.Hole)
			}
			continue
		}
		ts := f.Threads(q)
		for k := int64(1); k < r; k++ {
			if q2 := a.at[p*r+k]; q2 != layout.Hole && !slices.Equal(f.Threads(q2), ts) {
				return nil, fmt.Errorf("one iteration accesses elements of %s that different threads hold", a.buf.Name)
			}
		}
		thread = append(thread, ts...)
	}
	part, err := layout.FromTable(n.ext, f.Rep, thread, nil, f.Min, f.Extent)
	if err != nil && slices.Contains(a.at, layout.Hole) {
		return nil, fmt.Errorf("its iterations go beyond the shape %v of the tile", f.Shape)
	}
	return part, err
}

// complete is the layout of a register tile whose elements lie on the threads
// that access them.
func (n *nest) complete(b *ir.Buffer, loop *layout.Frag) (*layout.Frag, error) {
	return n.covering(b, n.frags, loop)
}

// covering is complete for a list of accesses.
func (n *nest) covering(b *ir.Buffer, list []*access, loop *layout.Frag) (*layout.Frag, error) {
	shape, err := layout.ConstShape(b.Shape)
	if err != nil {
		return nil, err
	}
	size := int64(1)
	for _, x := range shape {
		size *= x
	}
	write := false
	var at []int64
	var src *layout.Frag
	for _, a := range list {
		if a.buf != b {
			continue
		}
		write = write || a.write
		if a.isDirect(n) {
			return loop, nil
		}
		if a.at == nil {
			if loop.Rep >= loop.Extent {
				return layout.FullyReplicated(shape, loop.Min, loop.Extent)
			}
			if a.bad != nil {
				return nil, fmt.Errorf("the element of %s depends on the variable %s", b.Name, a.bad.Name)
			}
			return nil, a.why
		}
		if a.repeat() == 1 && at == nil {
			at, src = a.at, loop
			continue
		}
		if src, at, err = n.union(a, at, loop); err != nil {
			return nil, err
		}
	}
	thread, rep, err := src.UnionThreads(size, at)
	if err == nil {
		var f *layout.Frag
		if f, err = layout.FromTable(shape, rep, thread, nil, loop.Min, loop.Extent); err == nil {
			return f, nil
		}
	}
	if !write {
		return layout.FullyReplicated(shape, loop.Min, loop.Extent)
	}
	return nil, err
}

// union adds the elements of an access to those of others: the loop's
// iterations once more for each element.
func (n *nest) union(a *access, at []int64, loop *layout.Frag) (*layout.Frag, []int64, error) {
	r := a.repeat()
	k := r + int64(len(at))/n.points()
	if k*n.points()*loop.Rep > layout.MaxPoints {
		return nil, nil, fmt.Errorf("more than %d points", layout.MaxPoints)
	}
	wide := append(slices.Clone(n.ext), k)
	f, err := layout.NewFrag(wide, loop.Rep, loop.Thread, i32(0), loop.Min, loop.Extent)
	if err != nil {
		return nil, nil, err
	}
	old := k - r
	out := make([]int64, 0, k*n.points())
	for p := int64(0); p < n.points(); p++ {
		out = append(out, at[p*old:(p+1)*old]...)
		out = append(out, a.at[p*r:(p+1)*r]...)
	}
	return f, out, nil
}
