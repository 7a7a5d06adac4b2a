package layout

import (
	"fmt"
	"slices"
	"sync"

	"lowertrace/internal/ir"
)

// Frag says which threads hold each element of a register tile, and in which
// of their registers: element p has Rep copies, copy r in register Index(p) of
// thread Min + Thread(p, r). It also describes a parallel loop: iteration p is
// the Index(p)-th of thread Thread(p, r). A Frag is immutable.
type Frag struct {
	Shape []int64
	Rep   int64
	// Thread is over Vars(len(Shape)) and Rep, Index over the former alone.
	Thread, Index ir.Expr
	// Min and Extent are the range of threads the fragment is spread over;
	// thread numbers are relative to Min.
	Min, Extent int64
	// Regs is the number of registers each thread needs.
	Regs int64

	thread []int64 // [p*Rep+r]
	index  []int64 // [p]
	attr   sync.Once
	ir     *ir.Fragment

	inverse sync.Once
	inv     []int64
	invErr  error
}

// NewFrag makes a fragment from expressions over the placeholders. A nil index
// numbers the elements of each thread in row-major order.
func NewFrag(shape []int64, rep int64, thread, index ir.Expr, min, extent int64) (*Frag, error) {
	if extent < 1 || extent > MaxThreads {
		return nil, fmt.Errorf("a fragment over %d threads", extent)
	}
	if n := product(shape); rep < 1 || n > MaxPoints || rep > MaxPoints || n*rep > MaxPoints {
		return nil, fmt.Errorf("a fragment of more than %d points", MaxPoints)
	}
	vars, ext := append(Vars(len(shape)), Rep), append(slices.Clone(shape), rep)
	tt, err := Evaluate(thread, vars, ext)
	if err != nil {
		return nil, fmt.Errorf("the thread of a fragment: %w", err)
	}
	f := &Frag{Shape: shape, Rep: rep, Thread: thread, Index: index, Min: min, Extent: extent, thread: tt}
	if index == nil {
		return f, f.number()
	}
	if f.index, err = Evaluate(index, Vars(len(shape)), shape); err != nil {
		return nil, fmt.Errorf("the register of a fragment: %w", err)
	}
	return f, f.check()
}

// FromTable makes a fragment from the threads of each element (rep for each,
// in row-major order of the elements). Elements whose threads are Hole take
// what the expression found for the others gives. A nil index numbers the
// elements of each thread in row-major order.
func FromTable(shape []int64, rep int64, thread, index []int64, min, extent int64) (*Frag, error) {
	vars := append(exprs(Vars(len(shape))), ir.Expr(Rep))
	te, ok := Fit(thread, vars, append(slices.Clone(shape), rep))
	if !ok {
		return nil, fmt.Errorf("the threads of the elements follow no affine pattern")
	}
	var ie ir.Expr
	if index != nil {
		if ie, ok = Fit(index, exprs(Vars(len(shape))), shape); !ok {
			return nil, fmt.Errorf("the registers of the elements follow no affine pattern")
		}
	}
	if !slices.Contains(thread, Hole) && !slices.Contains(index, Hole) {
		// Fit reproduces the tables, they need no evaluation.
		f := &Frag{Shape: shape, Rep: rep, Thread: te, Index: ie, Min: min, Extent: extent, thread: thread, index: index}
		if index == nil {
			return f, f.number()
		}
		return f, f.check()
	}
	return NewFrag(shape, rep, te, ie, min, extent)
}

// FullyReplicated is the fragment every thread holds all of.
func FullyReplicated(shape []int64, min, extent int64) (*Frag, error) {
	return NewFrag(shape, extent, Rep, nil, min, extent)
}

// number sets Index to the rank of each element among those of its threads.
func (f *Frag) number() error {
	if err := f.checkThreads(); err != nil {
		return err
	}
	n := f.Size()
	count := make([]int64, f.Extent)
	f.index = make([]int64, n)
	for p := int64(0); p < n; p++ {
		ts := f.Threads(p)
		f.index[p] = count[ts[0]]
		for _, t := range ts {
			if count[t] != f.index[p] {
				return fmt.Errorf("the threads that share an element hold different numbers of elements before it")
			}
		}
		for _, t := range ts {
			count[t] = f.index[p] + 1
		}
	}
	e, ok := Fit(f.index, exprs(Vars(len(f.Shape))), f.Shape)
	if !ok {
		return fmt.Errorf("the elements of a thread follow no affine pattern")
	}
	f.Index = e
	return f.check()
}

// MaxThreads bounds the threads of a fragment; a block has at most 1024 (CUDA
// C++ Programming Guide, "Compute Capabilities").
const MaxThreads = 1 << 12

func (f *Frag) checkThreads() error {
	if f.Extent < 1 || f.Extent > MaxThreads {
		return fmt.Errorf("a fragment over %d threads", f.Extent)
	}
	for _, t := range f.thread {
		if t < 0 || t >= f.Extent {
			return fmt.Errorf("thread %d is outside the %d threads of the fragment", t, f.Extent)
		}
	}
	return nil
}

func (f *Frag) check() error {
	if err := f.checkThreads(); err != nil {
		return err
	}
	for _, x := range f.index {
		if x < 0 {
			return fmt.Errorf("register %d", x)
		}
		f.Regs = max(f.Regs, x+1)
	}
	if f.Regs > MaxPoints || f.Regs*f.Extent > MaxPoints {
		return fmt.Errorf("%d registers in each of %d threads", f.Regs, f.Extent)
	}
	return nil
}

// Size is the number of elements.
func (f *Frag) Size() int64 { return product(f.Shape) }

// Threads are the threads that hold element p (row-major), relative to Min.
// The slice must not be changed.
func (f *Frag) Threads(p int64) []int64 { return f.thread[p*f.Rep : (p+1)*f.Rep] }

// Register is the register number of element p (row-major).
func (f *Frag) Register(p int64) int64 { return f.index[p] }

// IsFullyReplicated reports whether every thread of the range holds all
// elements.
func (f *Frag) IsFullyReplicated() bool {
	if f.Rep < f.Extent {
		return false
	}
	seen := make([]int64, f.Extent)
	for p := int64(0); p < f.Size(); p++ {
		n := int64(0)
		for _, t := range f.Threads(p) {
			if seen[t] != p+1 {
				seen[t] = p + 1
				n++
			}
		}
		if n != f.Extent {
			return false
		}
	}
	return true
}

// ThreadExtent is one more than the highest thread that holds an element.
func (f *Frag) ThreadExtent() int64 { return slices.Max(f.thread) + 1 }

// Forward is the register expression of an element.
func (f *Frag) Forward(indices []ir.Expr) ir.Expr { return apply(f.Index, indices, nil) }

// ForwardThread is the thread expression of a copy of an element, relative to
// Min.
func (f *Frag) ForwardThread(indices []ir.Expr, rep ir.Expr) ir.Expr {
	return apply(f.Thread, indices, rep)
}

// Equal reports whether two fragments put every element into the same register
// of the same threads.
func (f *Frag) Equal(g *Frag) bool {
	if f == g {
		return true
	}
	if !sameShape(f.Shape, g.Shape) || f.Min != g.Min || f.Extent != g.Extent || !slices.Equal(f.index, g.index) {
		return false
	}
	if f.Rep == g.Rep && slices.Equal(f.thread, g.thread) {
		return true
	}
	return Contains(f, g, nil, nil) && Contains(g, f, nil, nil)
}

// Contains reports whether the threads that hold an element of small are among
// those that hold the corresponding element of large. Correspondence is given
// by two lists of equal length; nil lists mean "element p and element p".
func Contains(large, small *Frag, largeAt, smallAt []int64) bool {
	n := int64(len(largeAt))
	if largeAt == nil && smallAt == nil {
		if n = small.Size(); n != large.Size() {
			return false
		}
	} else if largeAt == nil {
		n = int64(len(smallAt))
	}
	if n == 0 {
		return true
	}
	off := small.Min - large.Min
	mark := make([]int64, large.Extent)
	lastLarge, lastSmall := int64(-1), int64(-1)
	for k := int64(0); k < n; k++ {
		pl, ps := k, k
		if largeAt != nil {
			pl = largeAt[k]
		}
		if smallAt != nil {
			ps = smallAt[k]
		}
		if pl == lastLarge && ps == lastSmall {
			continue
		}
		lastLarge, lastSmall = pl, ps
		for _, t := range large.Threads(pl) {
			mark[t] = k + 1
		}
		for _, t := range small.Threads(ps) {
			if t += off; t < 0 || t >= large.Extent || mark[t] != k+1 {
				return false
			}
		}
	}
	return true
}

// Replicate spreads n times as many copies: copy c*Rep+r of an element lies
// c times the thread extent above copy r.
func (f *Frag) Replicate(n int64) (*Frag, error) {
	if n <= 1 {
		return f, nil
	}
	var r ir.Expr = ir.NewBinary(ir.FloorMod, Rep, ir.I32(f.Rep))
	t := apply(f.Thread, nil, r)
	c := ir.NewBinary(ir.FloorDiv, Rep, ir.I32(f.Rep))
	t = ir.NewBinary(ir.Add, ir.NewBinary(ir.Mul, c, ir.I32(f.ThreadExtent())), t)
	return NewFrag(f.Shape, f.Rep*n, t, f.Index, f.Min, f.Extent)
}

// DeReplicate keeps the first copy of each element.
func (f *Frag) DeReplicate() (*Frag, error) {
	if f.Rep == 1 {
		return f, nil
	}
	return NewFrag(f.Shape, 1, apply(f.Thread, nil, ir.I32(0)), f.Index, f.Min, f.Extent)
}

// Repeat tiles the fragment along each dimension: the copies of the tile in
// row-major order take further registers.
func (f *Frag) Repeat(times ...int64) (*Frag, error) { return f.tile(times, false) }

// RepeatThreads tiles the fragment along each dimension: the copies of the
// tile in row-major order take further threads. The thread range grows.
func (f *Frag) RepeatThreads(times ...int64) (*Frag, error) { return f.tile(times, true) }

func (f *Frag) tile(times []int64, threads bool) (*Frag, error) {
	if len(times) != len(f.Shape) {
		return nil, fmt.Errorf("%d repetitions of %d dimensions", len(times), len(f.Shape))
	}
	shape := make([]int64, len(times))
	inner, outer := make([]ir.Expr, len(times)), make([]ir.Expr, len(times))
	n := int64(1)
	for d, k := range times {
		shape[d] = f.Shape[d] * k
		inner[d] = ir.NewBinary(ir.FloorMod, Var(d), ir.I32(f.Shape[d]))
		outer[d] = ir.NewBinary(ir.FloorDiv, Var(d), ir.I32(f.Shape[d]))
		n *= k
	}
	t, x, c := apply(f.Thread, inner, Rep), apply(f.Index, inner, nil), Flatten(outer, times)
	extent := f.Extent
	if threads {
		t = ir.NewBinary(ir.Add, ir.NewBinary(ir.Mul, c, ir.I32(f.Extent)), t)
		extent *= n
	} else {
		x = ir.NewBinary(ir.Add, ir.NewBinary(ir.Mul, c, ir.I32(f.Regs)), x)
	}
	return NewFrag(shape, f.Rep, t, x, f.Min, extent)
}

// Reshape is the fragment of a buffer that views the same registers with
// another shape and element size (bits of the old and new elements).
func (f *Frag) Reshape(shape []int64, oldBits, newBits int64) (*Frag, error) {
	if product(shape)*newBits != f.Size()*oldBits {
		return nil, fmt.Errorf("views %v of %d bits and %v of %d bits differ in size", f.Shape, oldBits, shape, newBits)
	}
	flat := Flatten(exprs(Vars(len(shape))), shape)
	make := func(old ir.Expr, index func(ir.Expr) ir.Expr) (*Frag, error) {
		idx := Unflatten(old, f.Shape)
		return NewFrag(shape, f.Rep, f.ForwardThread(idx, Rep), index(f.Forward(idx)), f.Min, f.Extent)
	}
	switch {
	case oldBits == newBits:
		return make(flat, func(x ir.Expr) ir.Expr { return x })
	case oldBits%newBits == 0: // several new elements in an old one
		r := oldBits / newBits
		return make(idiv(flat, r), func(x ir.Expr) ir.Expr { return isum(imul(x, r), imod(flat, r)) })
	case newBits%oldBits == 0: // a new element spans several old ones, which must lie together
		r := newBits / oldBits
		for p := int64(0); p < f.Size(); p++ {
			b := p - p%r
			if f.index[p] != f.index[b]+p-b || f.index[b]%r != 0 || !slices.Equal(f.Threads(p), f.Threads(b)) {
				return nil, fmt.Errorf("the fragment splits elements of the wider view")
			}
		}
		return make(imul(flat, r), func(x ir.Expr) ir.Expr { return idiv(x, r) })
	}
	return nil, fmt.Errorf("views of %d and %d bits", oldBits, newBits)
}

// Inverse maps (thread, register) to the element held there, row-major over
// Extent x Regs, Hole where there is none. It is an error when two elements
// share a register of a thread. The slice must not be changed.
func (f *Frag) Inverse() ([]int64, error) {
	f.inverse.Do(func() { f.inv, f.invErr = f.invert() })
	return f.inv, f.invErr
}

func (f *Frag) invert() ([]int64, error) {
	inv := make([]int64, f.Extent*f.Regs)
	for i := range inv {
		inv[i] = Hole
	}
	for p := int64(0); p < f.Size(); p++ {
		for _, t := range f.Threads(p) {
			at := t*f.Regs + f.index[p]
			if q := inv[at]; q != Hole && q != p {
				return nil, fmt.Errorf("elements %d and %d share register %d of thread %d", q, p, f.index[p], t)
			}
			inv[at] = p
		}
	}
	return inv, nil
}

// Copy maps (thread, register) to the number of the copy held there, 0 for
// holes; where a thread holds several copies of an element, the lowest.
func (f *Frag) Copy() []int64 {
	out := make([]int64, f.Extent*f.Regs)
	for p := f.Size() - 1; p >= 0; p-- {
		ts := f.Threads(p)
		for r := len(ts) - 1; r >= 0; r-- {
			out[ts[r]*f.Regs+f.index[p]] = int64(r)
		}
	}
	return out
}

// Contiguity is the longest power-of-two run of elements, aligned to its
// length along the last dimension, that lie in successive registers of one
// thread.
func (f *Frag) Contiguity() int64 {
	last := f.Shape[len(f.Shape)-1]
	for v := last & -last; v > 1; v /= 2 {
		if f.contiguous(v) {
			return v
		}
	}
	return 1
}

func (f *Frag) contiguous(v int64) bool {
	for b := int64(0); b < f.Size(); b += v {
		first := f.index[b]
		if first%v != 0 {
			return false
		}
		for p := b + 1; p < b+v; p++ {
			if f.index[p] != first+p-b || !slices.Equal(f.Threads(p), f.Threads(b)) {
				return false
			}
		}
	}
	return true
}

// UnionThreads gathers, for each element of a new shape, the threads that hold
// any of the elements of f mapped to it: at[p] is the element p is mapped to,
// in 0..n-1, or Hole. The sets are sorted; it is an error when they differ in size.
// Elements nothing is mapped to are Hole.
func (f *Frag) UnionThreads(n int64, at []int64) (thread []int64, rep int64, err error) {
	words := (f.Extent + 63) / 64
	if n*words > MaxPoints {
		return nil, 0, fmt.Errorf("more than %d points", MaxPoints)
	}
	sets := make([]uint64, n*words)
	for p, q := range at {
		if q == Hole {
			continue
		}
		set := sets[q*words : (q+1)*words]
		for _, t := range f.Threads(int64(p)) {
			set[t>>6] |= 1 << (t & 63)
		}
	}
	for q := int64(0); q < n; q++ {
		set := sets[q*words : (q+1)*words]
		start := len(thread)
		for t := int64(0); t < f.Extent; t++ {
			if set[t>>6]>>(t&63)&1 == 1 {
				thread = append(thread, t)
			}
		}
		size := int64(len(thread) - start)
		switch {
		case size == 0 && rep == 0:
			return nil, 0, fmt.Errorf("the first element is held by no thread")
		case size == 0:
			for i := int64(0); i < rep; i++ {
				thread = append(thread, Hole)
			}
		case rep == 0:
			rep = size
		case size != rep:
			return nil, 0, fmt.Errorf("the elements are held by different numbers of threads (%d and %d)", rep, size)
		}
		if int64(len(thread)) > MaxPoints {
			return nil, 0, fmt.Errorf("more than %d points", MaxPoints)
		}
	}
	return thread, rep, nil
}

// Reduced is the fragment of the result when f is reduced along a dimension:
// each element of the result is held by all threads that hold a part of it. A
// reduction to nothing has shape (1,).
func (f *Frag) Reduced(dim int) (*Frag, error) {
	shape := slices.Delete(slices.Clone(f.Shape), dim, dim+1)
	inner := product(f.Shape[dim+1:])
	at := make([]int64, f.Size())
	for p := range at {
		q := int64(p)
		at[p] = q/(inner*f.Shape[dim])*inner + q%inner
	}
	if len(shape) == 0 {
		shape = []int64{1}
	}
	t, rep, err := f.UnionThreads(product(shape), at)
	if err != nil {
		return nil, err
	}
	return FromTable(shape, rep, t, nil, f.Min, f.Extent)
}

// IR is the fragment as an attribute, the same each time.
func (f *Frag) IR() *ir.Fragment {
	f.attr.Do(func() {
		f.ir = &ir.Fragment{
			Vars: Vars(len(f.Shape)), Shape: intExprs(f.Shape), Rep: Rep, Replicate: ir.I32(f.Rep),
			Thread: f.Thread, Index: []ir.Expr{f.Index},
			ThreadRange: ir.Range{Min: ir.I32(f.Min), Extent: ir.I32(f.Extent)},
		}
	})
	return f.ir
}

// FromIR reads an attribute. A fragment without a thread range is spread over
// extent threads from min.
func FromIR(a *ir.Fragment, min, extent int64) (*Frag, error) {
	shape, err := ConstShape(a.Shape)
	if err != nil {
		return nil, err
	}
	rep := int64(1)
	if a.Replicate != nil {
		r, ok := ir.AsInt(a.Replicate)
		if !ok || r < 1 {
			return nil, fmt.Errorf("the replication is not a positive constant")
		}
		rep = r
	}
	if a.ThreadRange.Extent != nil {
		m, ok1 := ir.AsInt(a.ThreadRange.Min)
		x, ok2 := ir.AsInt(a.ThreadRange.Extent)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("the thread range is not constant")
		}
		min, extent = m, x
	}
	var index ir.Expr
	if len(a.Index) > 0 {
		index = canonical(a.Index[0], a.Vars, nil)
		for _, e := range a.Index[1:] {
			e = canonical(e, a.Vars, nil)
			vals, err := Evaluate(e, Vars(len(shape)), shape)
			if err != nil {
				return nil, fmt.Errorf("the register of a fragment: %w", err)
			}
			index = ir.NewBinary(ir.Add, ir.NewBinary(ir.Mul, index, ir.I32(slices.Max(vals)+1)), e)
		}
	}
	return NewFrag(shape, rep, canonical(a.Thread, a.Vars, a.Rep), index, min, extent)
}

// String shows a fragment as messages do.
func (f *Frag) String() string {
	return fmt.Sprintf("fragment %v over threads [%d, %d), %d copies, %d registers", f.Shape, f.Min, f.Min+f.Extent, f.Rep, f.Regs)
}
