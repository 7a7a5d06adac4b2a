package ir

// Stmt is an effect.
type Stmt interface {
	// Origin is the span of the input text the statement came from.
	Origin() Span
	stmt()
}

// SeqStmt runs statements in order and is a scope for what they declare.
// Build it with Seq, which keeps it flat.
type SeqStmt struct {
	Seq []Stmt
	Org Span
}

// Bind gives a value a name for the rest of its scope. It is TVM's flat form
// of LetStmt.
type Bind struct {
	Var   *Var
	Value Expr
	Org   Span
}

// AttrStmt says something about its body. Known keys are the Key... constants.
type AttrStmt struct {
	Node  Attr // what it speaks of: a *Var, *IterVar, *Buffer, List, constant or AttrNone
	Key   string
	Value Attr
	Body  Stmt // nil is an empty body
	Org   Span
}

// DefaultLaunchThreads is how many threads, all along x, a launch runs with
// whose text states none: TileLang leaves the number to the target, and its
// GPU pipelines take this one.
const DefaultLaunchThreads = 128

// Keys of AttrStmt with a meaning of their own in the text or in passes.
const (
	// KeyThreadExtent binds an IterVar to a launch axis of extent Value
	// (T.launch_thread).
	KeyThreadExtent = "thread_extent"
	// KeyAssume promises that the condition in Node holds in the body.
	KeyAssume = "tl.assume"
	// KeyLexicalAllocScope bounds the lifetime of allocations in its body.
	KeyLexicalAllocScope = "lexical_alloc_scope"
	// KeyWarpSpecialization marks a branch on the thread index as warp
	// specialised; Node lists the threads of each partition.
	KeyWarpSpecialization = "kWarpSpecializationScope"
	// KeyTarget marks a device region with its target in Node.
	KeyTarget = "target"
)

// ForKind says how a loop runs.
type ForKind uint8

// The kinds of loops.
const (
	Serial ForKind = iota
	Parallel
	Vectorized
	Unrolled
	ThreadBinding
)

var forKindNames = [...]string{"serial", "parallel", "vectorized", "unroll", "thread_binding"}

// String is the loop's name in the text (T.<name>).
func (k ForKind) String() string { return forKindNames[k] }

// For runs Body with Var = Min, Min+Step, ... for values below Min+Extent.
type For struct {
	Var         *Var
	Min, Extent Expr
	Step        Expr // nil is 1
	Kind        ForKind
	Thread      string // launch axis of a ThreadBinding loop
	Annotations *Dict  // nil when empty
	Body        Stmt
	Org         Span
}

// While runs Body as long as Cond holds.
type While struct {
	Cond Expr
	Body Stmt
	Org  Span
}

// IfThenElse runs Then or Else; Else may be nil.
type IfThenElse struct {
	Cond       Expr
	Then, Else Stmt
	Org        Span
}

// BufferStore writes an element, or a vector when an index has lanes.
type BufferStore struct {
	Buffer    *Buffer
	Indices   []Expr
	Value     Expr
	Predicate Expr // nil: unconditional
	Org       Span
}

// Evaluate runs an expression for its effect.
type Evaluate struct {
	Value Expr
	Org   Span
}

// Assert fails the launch, with an error of Kind whose message is the
// concatenation of Message, when Cond does not hold.
type Assert struct {
	Cond    Expr
	Kind    string
	Message []Expr
	Org     Span
}

// AllocBuffer allocates memory for a buffer for the rest of its scope.
type AllocBuffer struct {
	Buffer      *Buffer
	Annotations *Dict
	Org         Span
}

// DeclBuffer names a view of memory that exists already.
type DeclBuffer struct {
	Buffer *Buffer
	Org    Span
}

// MatchBufferRegion views a region of a buffer as a buffer of its own.
type MatchBufferRegion struct {
	Buffer *Buffer
	Source BufferRegion
}

// SBlock is a scheduled block: the scope of its allocations, with what it
// reads and writes and its attributes. A block and its realisation are one
// node: IterValues and Predicate are those of TVM's SBlockRealize.
type SBlock struct {
	Name          string
	IterVars      []*IterVar
	IterValues    []Expr
	Predicate     Expr // nil: always runs (T.where)
	Reads, Writes []BufferRegion
	Annotations   *Dict
	AllocBuffers  []*Buffer
	MatchBuffers  []MatchBufferRegion
	Init          Stmt
	Body          Stmt
	Org           Span
}

func (*SeqStmt) stmt()     {}
func (*Bind) stmt()        {}
func (*AttrStmt) stmt()    {}
func (*For) stmt()         {}
func (*While) stmt()       {}
func (*IfThenElse) stmt()  {}
func (*BufferStore) stmt() {}
func (*Evaluate) stmt()    {}
func (*Assert) stmt()      {}
func (*AllocBuffer) stmt() {}
func (*DeclBuffer) stmt()  {}
func (*SBlock) stmt()      {}

// Origin implements Stmt.
func (s *SeqStmt) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *Bind) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *AttrStmt) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *For) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *While) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *IfThenElse) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *BufferStore) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *Evaluate) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *Assert) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *AllocBuffer) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *DeclBuffer) Origin() Span { return s.Org }

// Origin implements Stmt.
func (s *SBlock) Origin() Span { return s.Org }

// Seq is statements in order as one statement: nested sequences are spliced
// in, nils dropped, a single statement returned as it is. It is nil when
// nothing is left.
func Seq(stmts ...Stmt) Stmt {
	n, nested := 0, false
	for _, s := range stmts {
		switch s := s.(type) {
		case nil:
		case *SeqStmt:
			n += len(s.Seq)
			nested = true
		default:
			n++
		}
	}
	if n == 0 {
		return nil
	}
	if n == 1 && !nested {
		for _, s := range stmts {
			if s != nil {
				return s
			}
		}
	}
	flat := make([]Stmt, 0, n)
	for _, s := range stmts {
		switch s := s.(type) {
		case nil:
		case *SeqStmt:
			flat = append(flat, s.Seq...)
		default:
			flat = append(flat, s)
		}
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return &SeqStmt{Seq: flat, Org: flat[0].Origin()}
}

// Stmts is a statement as a list: the elements of a SeqStmt, none for nil,
// else the statement alone. The list must not be changed.
func Stmts(s Stmt) []Stmt {
	switch s := s.(type) {
	case nil:
		return nil
	case *SeqStmt:
		return s.Seq
	}
	return []Stmt{s}
}
