package ir

import "fmt"

// Effect says what a call may do besides giving a value.
type Effect uint8

// The effects, from weakest to strongest.
const (
	// Pure calls depend on their arguments alone and may be removed,
	// repeated or moved.
	Pure Effect = iota
	// ReadState calls read memory or thread state.
	ReadState
	// UpdateState calls write memory.
	UpdateState
	// Control calls synchronise, wait or change control flow: nothing moves
	// across them.
	Control
)

// TypeRule says how the type of a call follows from its arguments.
type TypeRule uint8

// The type rules.
const (
	// TypeVoid: evaluated for its effect.
	TypeVoid TypeRule = iota
	// TypeArg0, TypeArg1: the type of that argument.
	TypeArg0
	TypeArg1
	// TypeMatch: the common type of the first two arguments.
	TypeMatch
	// TypeFixed: Op.Type, with the lanes of the first argument if it has one.
	TypeFixed
	// TypeFirst: the text states it as the first argument, before Args.
	TypeFirst
	// TypeLast: the text states it as the last argument, after Args.
	TypeLast
	// TypePointee: what the pointer in argument 0 points to.
	TypePointee
)

// Op is a registered operator. Operators are compared by pointer.
type Op struct {
	// Name is the operator's name in the text, after "T.".
	Name string
	// Dialect is TVM's registry prefix: "tirx" or "tl".
	Dialect string
	// MinArgs and MaxArgs bound the arguments, the stated type not counted;
	// MaxArgs < 0 is no bound.
	MinArgs, MaxArgs int
	Rule             TypeRule
	Type             DType // for TypeFixed
	Effect           Effect
	// Tile marks operators on whole tiles, which LowerTileOp expands.
	Tile bool
}

// FullName is TVM's registered name, for example "tl.copy".
func (o *Op) FullName() string { return o.Dialect + "." + o.Name }

// LookupOp is the operator of a name as the text has it, nil if unknown.
func LookupOp(name string) *Op { return opsByName[name] }

// MustOp is the operator of a name; it panics on an unregistered name, which
// is a mistake in the program.
func MustOp(name string) *Op {
	o := opsByName[name]
	if o == nil {
		panic(fmt.Sprintf("ir: operator %q is not registered", name))
	}
	return o
}

// Ops is every registered operator, in table order.
func Ops() []*Op { return opTable }

// ResultType is the type of a call by its rule. For TypeFirst and TypeLast the
// stated type must be given.
func (o *Op) ResultType(args []Expr, stated DType) (DType, error) {
	switch o.Rule {
	case TypeVoid:
		return DVoid, nil
	case TypeArg0, TypeArg1:
		i := int(o.Rule - TypeArg0)
		if i >= len(args) {
			return DVoid, fmt.Errorf("T.%s takes at least %d arguments, got %d", o.Name, i+1, len(args))
		}
		return args[i].DType(), nil
	case TypeMatch:
		if len(args) < 2 {
			return DVoid, fmt.Errorf("T.%s takes 2 arguments, got %d", o.Name, len(args))
		}
		t := args[0].DType()
		if u := args[1].DType(); t.Scalar() == u.Scalar() && u.Lanes > t.Lanes {
			t = u
		}
		return t, nil
	case TypeFixed:
		t := o.Type
		if len(args) > 0 && args[0].DType().Lanes > 1 && !t.IsHandle() {
			t = t.WithLanes(int(args[0].DType().Lanes))
		}
		return t, nil
	case TypePointee:
		if len(args) > 0 {
			if t, ok := Pointee(args[0]); ok {
				return t, nil
			}
		}
		return DVoid, fmt.Errorf("T.%s needs a pointer to an element as its first argument", o.Name)
	}
	return stated, nil
}

// Pointee is the type of the element a pointer expression points to.
func Pointee(e Expr) (DType, bool) {
	switch e := e.(type) {
	case *Var:
		if e.Ptr != nil {
			return e.Ptr.Elem, true
		}
	case *BufferLoad:
		return e.Buffer.Type, true
	case *Call:
		if e.Op == nil || len(e.Args) == 0 {
			return DVoid, false
		}
		switch e.Op.Name {
		case "address_of", "access_ptr", "region":
			return Pointee(e.Args[0])
		case "tvm_access_ptr":
			return e.Args[0].DType(), true
		}
	}
	return DVoid, false
}

var opsByName = func() map[string]*Op {
	m := make(map[string]*Op, len(opTable))
	for _, o := range opTable {
		if m[o.Name] != nil {
			panic("ir: operator " + o.Name + " is registered twice")
		}
		m[o.Name] = o
	}
	return m
}()
