package ir

// Attr is what attributes and annotations hold: an Expr, or one of AttrBool,
// AttrNone, List, *Dict, *Target, *Buffer, *IterVar, *CommReducer, *Layout,
// *Fragment, *Hidden. Bare integers and strings of the text are IntImm (int32) and
// StringImm.
type Attr interface{ attr() }

// AttrBool is a plain bool ("True"), as opposed to a bool constant
// ("T.bool(True)").
type AttrBool bool

// AttrNone is the text's None.
type AttrNone struct{}

// List is an ordered list of attributes.
type List []Attr

// DictEntry is one entry of a Dict. The key is a *StringImm, *Buffer or *Var
// (a buffer's data pointer).
type DictEntry struct{ Key, Value Attr }

// Dict maps keys to attributes, in the order of the text.
type Dict struct{ Entries []DictEntry }

// Target is what a function is compiled for, as the fields of T.target({...})
// in order. Values are *StringImm, *IntImm, AttrBool, List or *Dict.
type Target struct{ Fields *Dict }

// CommReducer is a commutative combiner for reduce scopes.
type CommReducer struct {
	LHS, RHS         []*Var
	Result, Identity []Expr
}

// Hidden stands for what a printed text left out: metadata["Type"][Index].
// It reads, prints and compares, but a pass that needs the value behind it
// must report an error. As an Expr it is a string of unknown content.
type Hidden struct {
	Type  string
	Index int
}

// DType implements Expr.
func (*Hidden) DType() DType { return DHandle }

func (AttrBool) attr()     {}
func (AttrNone) attr()     {}
func (List) attr()         {}
func (*Dict) attr()        {}
func (*Target) attr()      {}
func (*Buffer) attr()      {}
func (*CommReducer) attr() {}
func (*Hidden) attr()      {}
func (*Layout) attr()      {}
func (*Fragment) attr()    {}

// Get is the value of a string key, nil if there is none. It works on a nil
// Dict.
func (d *Dict) Get(key string) Attr {
	if d == nil {
		return nil
	}
	for i := range d.Entries {
		if s, ok := d.Entries[i].Key.(*StringImm); ok && s.Value == key {
			return d.Entries[i].Value
		}
	}
	return nil
}

// With is a Dict with a string key set: replaced in place, or appended. The
// receiver, which may be nil, is not changed. A nil value removes the key.
func (d *Dict) With(key string, v Attr) *Dict {
	out := &Dict{}
	done := false
	if d != nil {
		out.Entries = make([]DictEntry, 0, len(d.Entries)+1)
		for _, e := range d.Entries {
			if s, ok := e.Key.(*StringImm); ok && s.Value == key {
				done = true
				if v == nil {
					continue
				}
				e.Value = v
			}
			out.Entries = append(out.Entries, e)
		}
	}
	if !done && v != nil {
		out.Entries = append(out.Entries, DictEntry{&StringImm{key}, v})
	}
	return out
}

// Len is the number of entries of a Dict, 0 for nil.
func (d *Dict) Len() int {
	if d == nil {
		return 0
	}
	return len(d.Entries)
}

// AttrInt is an attribute as an integer: an IntImm or an AttrBool.
func AttrInt(a Attr) (int64, bool) {
	switch a := a.(type) {
	case *IntImm:
		return a.Value, true
	case AttrBool:
		if a {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// AttrString is an attribute as a string.
func AttrString(a Attr) (string, bool) {
	if s, ok := a.(*StringImm); ok {
		return s.Value, true
	}
	return "", false
}

// Layout maps the logical indices of a buffer to physical ones:
// (Vars over Shape) -> Forward. Vars are int32 and bound here only.
type Layout struct {
	Vars    []*Var
	Shape   []Expr // extent of each of Vars
	Forward []Expr // physical index, one per physical dimension
}

// Fragment maps the logical indices of a register tile to a thread and to an
// index in that thread's registers. An element may be held by several
// threads: Rep runs over the copies.
type Fragment struct {
	Vars      []*Var
	Shape     []Expr
	Rep       *Var // replica number, in 0..Replicate-1; used by Thread only
	Replicate Expr
	Thread    Expr   // thread that holds the element, relative to ThreadRange.Min
	Index     []Expr // physical register index
	// ThreadRange is the range of threads the fragment is spread over; nil
	// Extent: the whole block.
	ThreadRange Range
}
