package device

import (
	"math/bits"

	"lowertrace/internal/ir"
)

// stretch is how many threads an expression is computed for at once: as many
// as a block can have.
const stretch = 1024

// column is an integer expression for a stretch of threads.
type column struct {
	// val has one value for each thread, or a single one if all threads agree.
	val []int64
	// fixed columns depend on nothing but the thread.
	fixed bool
	// f computes a value from those of the arguments; nil for variables and
	// constants, whose values are set from outside.
	f    func(x, y, z int64) int64
	args [3]*column
	add  bool // f adds x and y, as most of an index does
}

// at selects a thread's value: val[i&c.at()].
func (c *column) at() int {
	if len(c.val) == 1 {
		return 0
	}
	return -1
}

// compute sets the values of a column from its arguments'.
func (c *column) compute() {
	x, y, z := c.args[0], c.args[1], c.args[2]
	mx, my, mz := x.at(), y.at(), z.at()
	if c.add {
		for i := range c.val {
			c.val[i] = x.val[i&mx] + y.val[i&my]
		}
		return
	}
	f := c.f
	for i := range c.val {
		c.val[i] = f(x.val[i&mx], y.val[i&my], z.val[i&mz])
	}
}

// compiler turns the integer expressions of two accesses into columns.
type compiler struct {
	axes    []axis
	threads int64
	vars    map[*ir.Var]*column
	free    []*ir.Var // the variables that are no axes, in the order met
	first   int64     // the thread that columns of axes begin with
	// steps are the columns to compute, arguments first.
	steps []*column
}

func newCompiler(axes []axis, threads int64) *compiler {
	c := &compiler{axes: axes, threads: threads, vars: map[*ir.Var]*column{}}
	for _, x := range axes {
		c.vars[x.v] = &column{val: make([]int64, c.width()), fixed: true}
	}
	c.begin(0)
	return c
}

func (c *compiler) width() int64 { return max(1, min(c.threads, stretch)) }

// begin sets the axes to the threads from first on.
func (c *compiler) begin(first int64) {
	c.first = first
	for i := range c.width() {
		rest := first + i
		for _, x := range c.axes {
			n := max(1, x.extent)
			c.vars[x.v].val[i] = rest % n
			rest /= n
		}
	}
}

// set gives a variable that is no axis its value.
func (c *compiler) set(v *ir.Var, value int64) {
	if x, ok := c.vars[v]; ok { // otherwise it does not matter
		x.val[0] = value
	}
}

var zero = constant(0)

func constant(v int64) *column { return &column{val: []int64{v}, fixed: true} }

// apply is the column of an operation, nil if an argument's is.
func (c *compiler) apply(f func(x, y, z int64) int64, args ...ir.Expr) *column {
	out := &column{f: f, fixed: true}
	n := 1
	for i := range out.args {
		a := zero
		if i < len(args) {
			if a = c.compile(args[i]); a == nil {
				return nil
			}
		}
		out.args[i] = a
		out.fixed = out.fixed && a.fixed
		n = max(n, len(a.val))
	}
	out.val = make([]int64, n)
	c.steps = append(c.steps, out)
	return out
}

// compile is nil where an expression depends on memory or on anything that is
// not integer arithmetic. Every operation has a value for all operands: where
// it is undefined any will do.
func (c *compiler) compile(e ir.Expr) *column {
	switch e := e.(type) {
	case *ir.IntImm:
		return constant(e.Value)
	case *ir.Var:
		if !e.Type.IsInteger() && !e.Type.IsBool() {
			return nil
		}
		x, ok := c.vars[e]
		if !ok {
			x = &column{val: []int64{0}}
			c.vars[e] = x
			c.free = append(c.free, e)
		}
		return x
	case *ir.Cast:
		if !(e.Type.IsInteger() || e.Type.IsBool()) || e.Value.DType().IsFloat() {
			return nil
		}
		t := e.Type
		return c.apply(func(x, _, _ int64) int64 { return ir.WrapInt(t, x) }, e.Value)
	case *ir.Not:
		return c.apply(func(x, _, _ int64) int64 { return 1 - x }, e.A)
	case *ir.Select:
		return c.apply(choose, e.Cond, e.True, e.False)
	case *ir.Binary:
		if !e.A.DType().IsInteger() && !e.A.DType().IsBool() {
			return nil
		}
		if f := byPowerOfTwo(e); f != nil {
			return c.apply(f, e.A)
		}
		if f, ok := binaryFuncs[e.Op]; ok {
			out := c.apply(f, e.A, e.B)
			if out != nil {
				out.add = e.Op == ir.Add
			}
			return out
		}
	case *ir.Call:
		if e.Op == nil {
			return nil
		}
		switch e.Op.Name {
		case "if_then_else":
			return c.apply(choose, e.Args[0], e.Args[1], e.Args[2])
		case "likely":
			return c.compile(e.Args[0])
		case "bitwise_not":
			return c.apply(func(x, _, _ int64) int64 { return ^x }, e.Args[0])
		case "bitwise_and":
			return c.apply(func(x, y, _ int64) int64 { return x & y }, e.Args[0], e.Args[1])
		case "bitwise_or":
			return c.apply(func(x, y, _ int64) int64 { return x | y }, e.Args[0], e.Args[1])
		case "bitwise_xor":
			return c.apply(func(x, y, _ int64) int64 { return x ^ y }, e.Args[0], e.Args[1])
		case "shift_left":
			t := e.Type
			return c.apply(func(x, y, _ int64) int64 { return ir.WrapInt(t, x<<uint64(y&63)) }, e.Args[0], e.Args[1])
		case "shift_right":
			return c.apply(func(x, y, _ int64) int64 { return x >> uint64(y&63) }, e.Args[0], e.Args[1])
		}
	}
	return nil
}

// byPowerOfTwo is a division that rounds down, or its remainder, by a constant
// power of two; nil for other operations.
func byPowerOfTwo(e *ir.Binary) func(x, y, z int64) int64 {
	n, ok := ir.AsInt(e.B)
	if !ok || n <= 0 || n&(n-1) != 0 {
		return nil
	}
	switch e.Op {
	case ir.FloorDiv:
		s := bits.TrailingZeros64(uint64(n))
		return func(x, _, _ int64) int64 { return x >> s }
	case ir.FloorMod:
		return func(x, _, _ int64) int64 { return x & (n - 1) }
	}
	return nil
}

func choose(x, y, z int64) int64 {
	if x != 0 {
		return y
	}
	return z
}

func truth(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

var binaryFuncs = map[ir.BinOp]func(x, y, z int64) int64{
	ir.Add: func(x, y, _ int64) int64 { return x + y },
	ir.Sub: func(x, y, _ int64) int64 { return x - y },
	ir.Mul: func(x, y, _ int64) int64 { return x * y },
	ir.Min: func(x, y, _ int64) int64 { return min(x, y) },
	ir.Max: func(x, y, _ int64) int64 { return max(x, y) },
	ir.EQ:  func(x, y, _ int64) int64 { return truth(x == y) },
	ir.NE:  func(x, y, _ int64) int64 { return truth(x != y) },
	ir.LT:  func(x, y, _ int64) int64 { return truth(x < y) },
	ir.LE:  func(x, y, _ int64) int64 { return truth(x <= y) },
	ir.GT:  func(x, y, _ int64) int64 { return truth(x > y) },
	ir.GE:  func(x, y, _ int64) int64 { return truth(x >= y) },
	ir.And: func(x, y, _ int64) int64 { return truth(x != 0 && y != 0) },
	ir.Or:  func(x, y, _ int64) int64 { return truth(x != 0 || y != 0) },
	ir.Div: func(x, y, _ int64) int64 {
		if y == 0 {
			return 0
		}
		return x / y
	},
	ir.TruncMod: func(x, y, _ int64) int64 {
		if y == 0 {
			return 0
		}
		return x % y
	},
	ir.FloorDiv: func(x, y, _ int64) int64 {
		if y == 0 {
			return 0
		}
		return ir.FloorDivInt(x, y)
	},
	ir.FloorMod: func(x, y, _ int64) int64 {
		if y == 0 {
			return 0
		}
		return ir.FloorModInt(x, y)
	},
}

// places are the elements that an access touches.
type places struct {
	index  *column
	guards []*column
	fixed  []*column // to compute once for a stretch
	moving []*column // to compute for each combination of variables
	first  int64     // the stretch that fixed was computed for, -1 at first
}

// take makes the steps compiled since the last call those of p.
func (c *compiler) take(p *places) {
	for _, s := range c.steps {
		if s.fixed {
			p.fixed = append(p.fixed, s)
		} else {
			p.moving = append(p.moving, s)
		}
	}
	c.steps, p.first = c.steps[:0], -1
}

// each calls f with all threads and elements, for all values of the variables
// in ranged; it stops, and returns false, when f does.
func (c *compiler) each(p *places, ranged []rangedVar, f func(thread, index int64) bool) bool {
	for first := int64(0); first < c.threads; first += stretch {
		if c.first != first {
			c.begin(first)
		}
		if p.first != first {
			p.first = first
			for _, s := range p.fixed {
				s.compute()
			}
		}
		n := int(min(stretch, c.threads-first))
		at := p.index.at()
		ok := c.forAll(ranged, func() bool {
			for _, s := range p.moving {
				s.compute()
			}
		threads:
			for i := range n {
				for _, g := range p.guards {
					if g.val[i&g.at()] == 0 {
						continue threads
					}
				}
				if !f(first+int64(i), p.index.val[i&at]) {
					return false
				}
			}
			return true
		})
		if !ok {
			return false
		}
	}
	return true
}

// forAll calls f for every combination of values; it stops, and returns
// false, when f does.
func (c *compiler) forAll(list []rangedVar, f func() bool) bool {
	if len(list) == 0 {
		return f()
	}
	r := list[0]
	if _, ok := c.vars[r.v]; !ok { // the variable does not matter
		return c.forAll(list[1:], f)
	}
	for i := int64(0); i < r.extent; i++ {
		c.set(r.v, r.min+i)
		if !c.forAll(list[1:], f) {
			return false
		}
	}
	return true
}

// nearPlaces bounds the places that owners keeps in an array: more than shared
// memory has bytes.
const nearPlaces = 1 << 18

// owners tells which thread has touched a place: a number of places of one
// size from the beginning of an allocation.
type owners struct {
	near []uint32
	far  map[int64]uint32 // places outside any shared memory
	// A place that thread t has touched has base+t, one that several have
	// touched base+threads, one that none has touched something less than base.
	base, threads uint32
}

// reset forgets all touches.
func (o *owners) reset(threads int64) {
	o.base += o.threads + 1
	o.threads = uint32(threads)
	if o.base > 1<<31 {
		clear(o.near)
		o.base = 1
	}
	o.far = nil
}

// span are n places from at on, if all are near.
func (o *owners) span(at, n int64) ([]uint32, bool) {
	if at < 0 || at > nearPlaces-n {
		return nil, false
	}
	if need := int(at + n); need > len(o.near) {
		o.near = append(o.near, make([]uint32, max(need, 2*len(o.near))-len(o.near))...)
	}
	return o.near[at : at+n], true
}

func (o *owners) touched(old uint32, thread int64) uint32 {
	if t := o.base + uint32(thread); old < o.base || old == t {
		return t
	}
	return o.base + o.threads
}

// touch notes that a thread touches n places from at on.
func (o *owners) touch(thread, at, n int64) {
	near, ok := o.span(at, n)
	switch {
	case ok:
		for i, old := range near {
			near[i] = o.touched(old, thread)
		}
	case n != 1: // perhaps some are near
		for i := range n {
			o.touch(thread, at+i, 1)
		}
	default:
		if o.far == nil {
			o.far = map[int64]uint32{}
		}
		o.far[at] = o.touched(o.far[at], thread)
	}
}

// meets reports whether another thread has touched one of n places from at on,
// or with self whether any has.
func (o *owners) meets(thread, at, n int64, self bool) bool {
	near, ok := o.span(at, n)
	switch {
	case ok:
		for _, old := range near {
			if o.owned(old, thread, self) {
				return true
			}
		}
		return false
	case n != 1:
		for i := range n {
			if o.meets(thread, at+i, 1, self) {
				return true
			}
		}
		return false
	}
	return o.owned(o.far[at], thread, self)
}

func (o *owners) owned(old uint32, thread int64, self bool) bool {
	return old >= o.base && (self || old != o.base+uint32(thread))
}
