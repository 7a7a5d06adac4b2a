package interp

import (
	"fmt"
	"runtime"
	"sort"
	"sync"

	"lowertrace/internal/ir"
	"lowertrace/internal/npy"
)

// Limits of a run. Reaching one is an *Error.
const (
	// DefaultMaxSteps is the number of statements one warp may execute.
	DefaultMaxSteps = 200_000_000
	// DefaultMaxMemory is the number of bytes that all buffers of a run may take.
	DefaultMaxMemory = 1 << 30
	// MaxThreads is the number of threads of a block (CUDA C++ Programming
	// Guide, "Compute Capabilities").
	MaxThreads = 1024
	// MaxBlocks bounds the grid of a launch.
	MaxBlocks = 1 << 22
	// maxFindings is how many different findings are kept.
	maxFindings = 100
	// maxNesting bounds the depth of the IR.
	maxNesting = 2000
)

// SyncMode says whether barriers are implied.
type SyncMode uint8

// The modes. Auto decides by the module: explicit once it has device functions
// as LowerDeviceKernelLaunch or MakePackedAPI leave them.
const (
	SyncAuto SyncMode = iota
	SyncImplied
	SyncExplicit
)

// BoundsMode says what an access to global memory outside its buffer means.
type BoundsMode uint8

// The modes. Auto: implied as long as the module has blocks (SBlock).
const (
	BoundsAuto BoundsMode = iota
	BoundsImplied
	BoundsExplicit
)

// Args are a run's inputs by parameter name: the name of a buffer, of a scalar
// or symbolic size. bfloat16 and the 8-bit and narrower floats are passed as "f4" arrays
// of representable values, or as raw bits ("u2", "u1").
type Args struct {
	Arrays  map[string]*npy.Array
	Scalars map[string]float64
	// Unwritten names the arrays whose contents do not count as written yet: a
	// read before the first write is a finding.
	Unwritten map[string]bool
	// Strides are the strides of arrays that do not lie densely in memory, in
	// elements; the arrays themselves are always dense.
	Strides map[string][]int64
}

// Options adjust a run. The zero value is right for a state whose stage can be
// told from its text.
type Options struct {
	Sync   SyncMode
	Bounds BoundsMode
	// Entry is the function to run; empty: the host function, or all device
	// functions in order where there is none.
	Entry     string
	MaxSteps  int64
	MaxMemory int64
	// Workers is the number of blocks run at once; 0: one per CPU.
	Workers int
	// Sample, when above 0, is about how many blocks of the launch are run: they
	// are spread evenly, and Result.Written says what they wrote. It has no effect on a
	// module of several launches, whose later ones need all that the earlier
	// ones wrote, or whose blocks synchronise with each other.
	Sample int
	// Cover, with Sample, names elements (Result.Written of another run) that
	// must be written: further blocks are run until they are. A pass may have
	// given the same tile to another block.
	Cover map[string][]bool
	// Findings asks for checks beyond memory safety: reads of memory never
	// written, and races.
	Findings bool
	// Stats asks for access statistics.
	Stats bool
	// Print receives the output of T.print; nil discards it.
	Print func(string)
}

func (o *Options) fill() {
	if o.MaxSteps == 0 {
		o.MaxSteps = DefaultMaxSteps
	}
	if o.MaxMemory == 0 {
		o.MaxMemory = DefaultMaxMemory
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Print != nil {
		o.Workers = 1 // lines come in the order of blocks
	}
}

// Result is what a run gave.
type Result struct {
	// Outputs are all buffer parameters after the run, by name, in the form
	// the inputs had.
	Outputs map[string]*npy.Array
	// Types are the element types of the buffers behind them.
	Types map[string]ir.DType
	// Atomic names the buffers addressed by the result of an atomic operation:
	// the order of their elements depends on the order of threads.
	Atomic []string
	// Sums has, for buffers of 16-bit floats that atomics add to, the most
	// additions to one element: each rounds, in an order that is not settled.
	Sums     map[string]int
	Findings []Finding
	Stats    *Stats
	// Written says, with Options.Sample, which elements of each array were
	// written; nil when all blocks ran.
	Written map[string][]bool
}

// Error is a failure of a run: the program did something no device would go on
// from, or a limit was reached.
type Error struct {
	Span  ir.Span
	Msg   string
	limit bool // a limit was reached, not the program at fault
}

func (e *Error) Error() string {
	if e.Span.IsValid() {
		return e.Span.String() + ": " + e.Msg
	}
	return e.Msg
}

// NotRunnable says why a state cannot be run: it hides data that is needed, or
// calls something unknown.
type NotRunnable struct {
	Span   ir.Span
	Reason string
}

func (e *NotRunnable) Error() string {
	s := "cannot be run: " + e.Reason
	if e.Span.IsValid() {
		return e.Span.String() + ": " + s
	}
	return s
}

// Kind classifies a finding.
type Kind string

// The kinds of findings.
const (
	OutOfBounds  Kind = "out-of-bounds"
	Unwritten    Kind = "unwritten-read"
	SharedRace   Kind = "shared-race"
	GlobalRace   Kind = "global-race"
	AsyncRace    Kind = "async-race"
	ProxyFence   Kind = "missing-proxy-fence"
	BarrierSplit Kind = "partial-barrier"
	Deadlock     Kind = "deadlock"
	Misaligned   Kind = "misaligned"
	DivByZero    Kind = "division-by-zero"
	AssertFailed Kind = "assertion"
	BadOperand   Kind = "bad-operand"
)

// Finding is something wrong that a run saw.
type Finding struct {
	Kind   Kind
	Span   ir.Span // origin of the statement
	Msg    string
	Block  [3]int
	Thread int // linear index in the block, -1 when it concerns no single one
	Count  int // how often it happened at this statement
}

func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s", f.Kind, f.Msg)
	if f.Span.IsValid() {
		s = f.Span.String() + ": " + s
	}
	s += fmt.Sprintf(" (block %d,%d,%d", f.Block[0], f.Block[1], f.Block[2])
	if f.Thread >= 0 {
		s += fmt.Sprintf(", thread %d", f.Thread)
	}
	s += ")"
	if f.Count > 1 {
		s += fmt.Sprintf(", %d times", f.Count)
	}
	return s
}

type findingKey struct {
	kind Kind
	span ir.Span
	name string
}

// collector gathers findings from all blocks. The first in block order is the
// one whose coordinates are kept, whatever ran first.
type collector struct {
	mu sync.Mutex
	m  map[findingKey]*foundAt
}

type foundAt struct {
	Finding
	linear int
}

func (c *collector) add(f Finding, name string, linear int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := findingKey{f.Kind, f.Span, name}
	if old := c.m[k]; old != nil {
		old.Count++
		if linear < old.linear {
			n := old.Count
			old.Finding, old.linear = f, linear
			old.Count = n
		}
		return
	}
	if len(c.m) >= maxFindings {
		return
	}
	f.Count = 1
	if c.m == nil {
		c.m = map[findingKey]*foundAt{}
	}
	c.m[k] = &foundAt{f, linear}
}

func (c *collector) list() []Finding {
	var l []Finding
	for _, f := range c.m {
		l = append(l, f.Finding)
	}
	sort.Slice(l, func(i, j int) bool {
		a, b := l[i], l[j]
		if a.Span.Pos != b.Span.Pos {
			return a.Span.Pos < b.Span.Pos
		}
		if a.Kind != b.Kind {
			return a.Kind < b.Kind
		}
		return a.Msg < b.Msg
	})
	return l
}
