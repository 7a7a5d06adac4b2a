package ir

// Buffer is a typed view of memory: a pointer, a shape, and how indices map
// to elements. Identity is the pointer; two buffers may share Data.
type Buffer struct {
	Name string
	// Data points to the first element; its PointerType holds the storage
	// scope and agrees with Type.
	Data  *Var
	Type  DType
	Shape []Expr
	// Strides in elements; nil means compact row-major.
	Strides []Expr
	// ElemOffset is the offset of the first element from Data, in elements;
	// nil means 0.
	ElemOffset Expr
	// Align is the promised alignment of Data in bytes, 0 for the default
	// (64, TVM's kAllocAlignment).
	Align int
	Org   Span // where it was declared
}

// NewBuffer makes a buffer with a fresh data pointer of the same name.
func NewBuffer(name string, t DType, scope string, shape ...Expr) *Buffer {
	return &Buffer{Name: name, Data: NewPointer(name, t, scope), Type: t, Shape: shape}
}

// NewPointer makes a fresh pointer variable.
func NewPointer(name string, elem DType, scope string) *Var {
	return &Var{Name: name, Type: DHandle, Ptr: &PointerType{Elem: elem, Scope: scope}}
}

// Scope is the storage scope of the memory the buffer views; "global" when
// its pointer does not say.
func (b *Buffer) Scope() string {
	if b.Data != nil && b.Data.Ptr != nil && b.Data.Ptr.Scope != "" {
		return b.Data.Ptr.Scope
	}
	return "global"
}

// Range is a half-open interval: Extent values from Min.
type Range struct{ Min, Extent Expr }

// BufferRegion is a rectangular part of a buffer, one Range per dimension.
type BufferRegion struct {
	Buffer *Buffer
	Region []Range
}

// IterVarKind says what drives an iteration variable.
type IterVarKind uint8

// The kinds of iteration variables.
const (
	ThreadIndex IterVarKind = iota // bound to a launch axis
	DataPar                        // T.axis.spatial
	CommReduce                     // T.axis.reduce
	OpaqueIter                     // T.axis.opaque
)

// IterVar is a variable with its domain: a launch axis ("blockIdx.x") in an
// AttrStmt "thread_extent", or an axis of an SBlock.
type IterVar struct {
	Var  *Var
	Dom  Range // Extent nil: not stated here
	Kind IterVarKind
	Tag  string // launch axis, or empty when the text lost it
}

func (*IterVar) attr() {}
