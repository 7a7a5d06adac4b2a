package syntax

import "lowertrace/internal/ir"

// Loc is the half-open range of bytes a node covers in its source.
type Loc struct{ Pos, End int32 }

// Range is the node's position; it makes every node that embeds a Loc a Node.
func (l Loc) Range() Loc { return l }

// Node is an expression or a statement.
type Node interface{ Range() Loc }

// Expr is an expression.
type Expr interface {
	Node
	expr()
}

// Stmt is a statement.
type Stmt interface {
	Node
	stmt()
}

// File is a parsed text.
type File struct {
	Source   *ir.Source
	Body     []Stmt
	Comments []Comment
}

// Span is a location as a span of the file's source.
func (f *File) Span(l Loc) ir.Span { return ir.Span{Src: f.Source, Pos: l.Pos, End: l.End} }

// SpanOf is a node's span.
func (f *File) SpanOf(n Node) ir.Span { return f.Span(n.Range()) }

// Comment is a comment from its # to the end of the line.
type Comment struct {
	Loc
	Text string // with the #, without trailing blanks
}

// Name is an identifier.
type Name struct {
	Loc
	ID string
}

// Num is a number as it is spelt; see Int and Float. Imaginary numbers (1j)
// are floats.
type Num struct {
	Loc
	Text    string
	IsFloat bool
}

// Str is a string literal (adjacent ones joined), decoded.
type Str struct {
	Loc
	Value string
	Bytes bool // b"..."
}

// FString is a formatted string: literal parts (*Str) and fields
// (*FormatField) in order.
type FString struct {
	Loc
	Parts []Expr
}

// FormatField is {X!Conv:Spec} in a formatted string.
type FormatField struct {
	Loc
	X     Expr
	Conv  byte // 'r', 's', 'a' or 0
	Spec  Expr // *Str or *FString, nil if there is none
	Debug bool // {x=}
}

// ConstKind is a constant with a keyword of its own.
type ConstKind uint8

// The constants.
const (
	None ConstKind = iota
	True
	False
	Ellipsis
)

// Const is None, True, False or ... .
type Const struct {
	Loc
	Kind ConstKind
}

// Attr is X.Name.
type Attr struct {
	Loc
	X    Expr
	Name string
}

// Keyword is a named argument of a call, or **Value when Name is empty. Names
// may be dotted.
type Keyword struct {
	Loc
	Name  string
	Value Expr
}

// Call is Fn(Args..., Keywords...).
type Call struct {
	Loc
	Fn       Expr
	Args     []Expr // may hold *Starred
	Keywords []Keyword
}

// Index is X[Indices...]. X[a, b] has two indices, X[(a, b)] one tuple,
// X[()] none.
type Index struct {
	Loc
	X       Expr
	Indices []Expr // may hold *Slice
}

// Slice is Lo:Hi:Step within an Index; each may be nil.
type Slice struct {
	Loc
	Lo, Hi, Step Expr
}

// Op is an operator.
type Op uint8

// The operators.
const (
	NoOp Op = iota
	Add
	Sub
	Mul
	Div
	FloorDiv
	Mod
	Pow
	MatMul
	LShift
	RShift
	BitAnd
	BitOr
	BitXor
	And
	Or
	EQ
	NE
	LT
	LE
	GT
	GE
	In
	NotIn
	Is
	IsNot
	Not    // unary
	Neg    // unary -
	Plus   // unary +
	Invert // unary ~
	numOps
)

var opText = [numOps]string{"", "+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>", "&", "|", "^", "and", "or",
	"==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not", "not", "-", "+", "~"}

// String is the operator as it is written.
func (op Op) String() string { return opText[op] }

// IsComparison reports operators that Python chains (a < b < c).
func (op Op) IsComparison() bool { return op >= EQ && op <= IsNot }

// Unary is a prefix operator.
type Unary struct {
	Loc
	Op Op
	X  Expr
}

// Binary is an infix operator, a single comparison included. `and` and `or`
// nest to the left.
type Binary struct {
	Loc
	Op   Op
	X, Y Expr
}

// Compare is a chain of two comparisons or more: X Ops[0] Rest[0] Ops[1] ...
type Compare struct {
	Loc
	X    Expr
	Ops  []Op
	Rest []Expr
}

// IfExp is Then if Cond else Else.
type IfExp struct {
	Loc
	Cond, Then, Else Expr
}

// ParamKind says how a parameter takes its argument.
type ParamKind uint8

// The kinds of parameters.
const (
	Positional     ParamKind = iota
	PositionalOnly           // before /
	VarArgs                  // *args
	KeywordOnly              // after * or *args
	VarKeywords              // **kwargs
)

// Param is a parameter of a function or lambda.
type Param struct {
	Loc
	Name    string
	Kind    ParamKind
	Ann     Expr // nil if there is none
	Default Expr // nil if there is none
}

// Lambda is an anonymous function.
type Lambda struct {
	Loc
	Params []Param
	Body   Expr
}

// Tuple is a tuple, in parentheses or bare.
type Tuple struct {
	Loc
	Elts []Expr
}

// List is [Elts...].
type List struct {
	Loc
	Elts []Expr
}

// Set is {Elts...}.
type Set struct {
	Loc
	Elts []Expr
}

// Dict is {Keys[i]: Values[i], ...}; a nil key is **value.
type Dict struct {
	Loc
	Keys, Values []Expr
}

// CompKind is the kind of a comprehension.
type CompKind uint8

// The kinds of comprehensions.
const (
	ListComp CompKind = iota
	SetComp
	DictComp
	Generator
)

// CompFor is one `for Target in Iter if Ifs...` of a comprehension.
type CompFor struct {
	Target, Iter Expr
	Ifs          []Expr
}

// Comp is a comprehension; Key is set for DictComp only.
type Comp struct {
	Loc
	Kind     CompKind
	Key, Elt Expr
	Fors     []CompFor
}

// Starred is *X.
type Starred struct {
	Loc
	X Expr
}

// Walrus is (Target := Value).
type Walrus struct {
	Loc
	Target *Name
	Value  Expr
}

// Yield is `yield X`, `yield from X` or `await X`; X may be nil.
type Yield struct {
	Loc
	Await bool
	From  bool
	X     Expr
}

// BadExpr stands where an expression could not be read; the mistake has been
// reported.
type BadExpr struct{ Loc }

func (*Name) expr()        {}
func (*Num) expr()         {}
func (*Str) expr()         {}
func (*FString) expr()     {}
func (*FormatField) expr() {}
func (*Const) expr()       {}
func (*Attr) expr()        {}
func (*Call) expr()        {}
func (*Index) expr()       {}
func (*Slice) expr()       {}
func (*Unary) expr()       {}
func (*Binary) expr()      {}
func (*Compare) expr()     {}
func (*IfExp) expr()       {}
func (*Lambda) expr()      {}
func (*Tuple) expr()       {}
func (*List) expr()        {}
func (*Set) expr()         {}
func (*Dict) expr()        {}
func (*Comp) expr()        {}
func (*Starred) expr()     {}
func (*Walrus) expr()      {}
func (*Yield) expr()       {}
func (*BadExpr) expr()     {}

// ExprStmt is an expression that stands alone.
type ExprStmt struct {
	Loc
	X Expr
}

// Assign is Targets[0] = Targets[1] = ... = Value.
type Assign struct {
	Loc
	Targets []Expr
	Value   Expr
}

// AugAssign is Target Op= Value.
type AugAssign struct {
	Loc
	Op            Op
	Target, Value Expr
}

// AnnAssign is Target: Ann = Value; Value may be nil.
type AnnAssign struct {
	Loc
	Target, Ann, Value Expr
}

// Return is a return; Value may be nil.
type Return struct {
	Loc
	Value Expr
}

// If is an if; an elif is an If alone in Else.
type If struct {
	Loc
	Cond       Expr
	Then, Else []Stmt
}

// For is a for loop.
type For struct {
	Loc
	Target, Iter Expr
	Body, Else   []Stmt
}

// While is a while loop.
type While struct {
	Loc
	Cond       Expr
	Body, Else []Stmt
}

// WithItem is Context as Target; Target may be nil.
type WithItem struct{ Context, Target Expr }

// With is a with statement.
type With struct {
	Loc
	Items []WithItem
	Body  []Stmt
}

// FuncDef is a function definition. Loc starts at the first decorator.
type FuncDef struct {
	Loc
	Name       string
	NameLoc    Loc
	Decorators []Expr
	Params     []Param
	Returns    Expr // nil if there is none
	Body       []Stmt
	Async      bool
}

// ClassDef is a class definition. Loc starts at the first decorator.
type ClassDef struct {
	Loc
	Name       string
	NameLoc    Loc
	Decorators []Expr
	Bases      []Expr
	Keywords   []Keyword
	Body       []Stmt
}

// Assert is assert Cond, Msg; Msg may be nil.
type Assert struct {
	Loc
	Cond, Msg Expr
}

// Alias is Name as As; As is empty if there is none.
type Alias struct {
	Loc
	Name, As string
}

// Import is import a.b as c, ...
type Import struct {
	Loc
	Names []Alias
}

// ImportFrom is from Module import Names; one Alias named * imports all.
// Level counts leading dots.
type ImportFrom struct {
	Loc
	Module string
	Level  int
	Names  []Alias
}

// Global is a global or nonlocal statement.
type Global struct {
	Loc
	Names    []string
	Nonlocal bool
}

// Delete is del Targets...
type Delete struct {
	Loc
	Targets []Expr
}

// Raise is raise X from Cause; both may be nil.
type Raise struct {
	Loc
	X, Cause Expr
}

// Handler is except Type as Name; Type is nil for a bare except.
type Handler struct {
	Loc
	Type Expr
	Name string
	Body []Stmt
}

// Try is try, except, else and finally.
type Try struct {
	Loc
	Body     []Stmt
	Handlers []Handler
	Else     []Stmt
	Finally  []Stmt
}

// Case is case Pattern if Guard; Guard may be nil. Patterns are kept as the
// expressions they look like.
type Case struct {
	Loc
	Pattern Expr
	As      string // name after the pattern, empty if there is none
	Guard   Expr
	Body    []Stmt
}

// Match is a match statement.
type Match struct {
	Loc
	Subject Expr
	Cases   []Case
}

// SimpleKind is a statement that consists of a keyword.
type SimpleKind uint8

// The simple statements.
const (
	Pass SimpleKind = iota
	Break
	Continue
)

// Simple is pass, break or continue.
type Simple struct {
	Loc
	Kind SimpleKind
}

func (*ExprStmt) stmt()   {}
func (*Assign) stmt()     {}
func (*AugAssign) stmt()  {}
func (*AnnAssign) stmt()  {}
func (*Return) stmt()     {}
func (*If) stmt()         {}
func (*For) stmt()        {}
func (*While) stmt()      {}
func (*With) stmt()       {}
func (*FuncDef) stmt()    {}
func (*ClassDef) stmt()   {}
func (*Assert) stmt()     {}
func (*Import) stmt()     {}
func (*ImportFrom) stmt() {}
func (*Global) stmt()     {}
func (*Delete) stmt()     {}
func (*Raise) stmt()      {}
func (*Try) stmt()        {}
func (*Match) stmt()      {}
func (*Simple) stmt()     {}
