package ir

// Expr is a value. Every Expr can also stand in an annotation (see Attr).
type Expr interface {
	Attr
	// DType is the type of the value.
	DType() DType
	expr()
}

// PointerType says what a handle points to. Handles whose pointee is not
// known (a packed argument, "T.handle" alone) have none.
type PointerType struct {
	Elem  DType  // may have lanes, for example uint8x128 of a tensor map
	Scope string // storage scope: "global", "shared.dyn", ...
}

// Var is a named value. Identity is the pointer.
type Var struct {
	Name string
	Type DType
	Ptr  *PointerType // set for typed handles
}

// IntImm is an integer or bool constant. Value holds the bits sign-extended
// for signed types and zero-extended for unsigned ones (uint64 wraps).
type IntImm struct {
	Type  DType
	Value int64
}

// FloatImm is a floating-point constant, kept as the float64 it was written
// as; it takes its type's precision where it is used.
type FloatImm struct {
	Type  DType
	Value float64
}

// StringImm is a string constant.
type StringImm struct{ Value string }

// Cast converts a value to another type, lane by lane.
type Cast struct {
	Type  DType
	Value Expr
}

// BinOp is the operator of a Binary.
type BinOp uint8

// The binary operators. Div on integers truncates toward zero and TruncMod is
// its remainder; FloorDiv and FloorMod round toward negative infinity. And
// and Or evaluate their right side only when the left side does not decide.
const (
	Add BinOp = iota
	Sub
	Mul
	Div
	TruncMod
	FloorDiv
	FloorMod
	Min
	Max
	EQ
	NE
	LT
	LE
	GT
	GE
	And
	Or
	numBinOps
)

var binOpNames = [numBinOps]string{"Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or"}

// String is TVM's name of the operator's node.
func (op BinOp) String() string { return binOpNames[op] }

// IsComparison reports EQ, NE, LT, LE, GT and GE.
func (op BinOp) IsComparison() bool { return op >= EQ && op <= GE }

// IsLogical reports And and Or.
func (op BinOp) IsLogical() bool { return op >= And }

// Binary applies a binary operator to two values of one type.
type Binary struct {
	Op   BinOp
	A, B Expr
}

// Not negates a truth value.
type Not struct{ A Expr }

// Select chooses a value. Only the chosen side has to be evaluated, lane by
// lane, and passes may use the condition inside it; a target may evaluate
// both where that does no harm. The call if_then_else never evaluates the
// other side.
type Select struct{ Cond, True, False Expr }

// Ramp is the vector Base, Base+Stride, ... of Lanes elements.
type Ramp struct {
	Base, Stride Expr
	Lanes        int
}

// Broadcast repeats a value. The value may be a vector itself.
type Broadcast struct {
	Value Expr
	Lanes int
}

// Shuffle picks lanes by number from the concatenation of vectors.
type Shuffle struct{ Vectors, Indices []Expr }

// Let binds a variable within one expression.
type Let struct {
	Var         *Var
	Value, Body Expr
}

// BufferLoad reads an element, or a vector when an index has lanes.
type BufferLoad struct {
	Buffer    *Buffer
	Indices   []Expr
	Predicate Expr // nil: unconditional
}

// Arg is a keyword argument of a Call.
type Arg struct {
	Name  string
	Value Attr
}

// Call applies a registered operator, or calls a function of the module when
// Global is set (Op is nil then).
type Call struct {
	Op     *Op
	Global string
	Type   DType
	Args   []Expr
	Attrs  []Arg // keyword arguments ("annotations" in TVM), in text order
}

func (*Var) expr()        {}
func (*IntImm) expr()     {}
func (*FloatImm) expr()   {}
func (*StringImm) expr()  {}
func (*Cast) expr()       {}
func (*Binary) expr()     {}
func (*Not) expr()        {}
func (*Select) expr()     {}
func (*Ramp) expr()       {}
func (*Broadcast) expr()  {}
func (*Shuffle) expr()    {}
func (*Let) expr()        {}
func (*BufferLoad) expr() {}
func (*Call) expr()       {}
func (*Hidden) expr()     {}

func (*Var) attr()        {}
func (*IntImm) attr()     {}
func (*FloatImm) attr()   {}
func (*StringImm) attr()  {}
func (*Cast) attr()       {}
func (*Binary) attr()     {}
func (*Not) attr()        {}
func (*Select) attr()     {}
func (*Ramp) attr()       {}
func (*Broadcast) attr()  {}
func (*Shuffle) attr()    {}
func (*Let) attr()        {}
func (*BufferLoad) attr() {}
func (*Call) attr()       {}

// DType implements Expr.
func (e *Var) DType() DType { return e.Type }

// DType implements Expr.
func (e *IntImm) DType() DType { return e.Type }

// DType implements Expr.
func (e *FloatImm) DType() DType { return e.Type }

// DType implements Expr.
func (e *StringImm) DType() DType { return DHandle }

// DType implements Expr.
func (e *Cast) DType() DType { return e.Type }

// DType implements Expr.
func (e *Binary) DType() DType {
	t := e.A.DType()
	if e.Op.IsComparison() || e.Op.IsLogical() {
		return DBool.WithLanes(int(t.Lanes))
	}
	return t
}

// DType implements Expr.
func (e *Not) DType() DType { return e.A.DType() }

// DType implements Expr.
func (e *Select) DType() DType { return e.True.DType() }

// DType implements Expr.
func (e *Ramp) DType() DType { return e.Base.DType().WithLanes(e.Lanes) }

// DType implements Expr.
func (e *Broadcast) DType() DType {
	t := e.Value.DType()
	return t.WithLanes(int(t.Lanes) * e.Lanes)
}

// DType implements Expr.
func (e *Shuffle) DType() DType { return e.Vectors[0].DType().WithLanes(len(e.Indices)) }

// DType implements Expr.
func (e *Let) DType() DType { return e.Body.DType() }

// DType implements Expr.
func (e *BufferLoad) DType() DType { return accessType(e.Buffer, e.Indices) }

// DType implements Expr.
func (e *Call) DType() DType { return e.Type }

// accessType is the type of an access to a buffer: its element type times the
// lanes of the index vector.
func accessType(b *Buffer, indices []Expr) DType {
	t := b.Type
	if n := len(indices); n > 0 {
		if l := int(indices[n-1].DType().Lanes); l > 1 {
			return t.WithLanes(int(t.Lanes) * l)
		}
	}
	return t
}
