package tilelang

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// value is what an expression evaluates to. Python's values are
//
//	none, bool, int64 or *big.Int (an int; big only where it does not fit),
//	float64, string, *tuple, *list, *dict, *set, pyRange, *slice,
//	*function, *builtin, *class, *instance, *module, *exception
//
// those of the kernel language
//
//	ir.DType, ir.Expr, *eqOp, *ir.Buffer, *region, *ref, loops and frames,
//	*macro, *primFunc, *jitFunc, *ir.Layout, *ir.Fragment, ...
//
// and *unknown stands for what cannot be known (a torch tensor, a name whose
// statement failed).
type value any

type noneType struct{}

var none = noneType{}

type tuple struct{ elts []value }
type list struct{ elts []value }

// pyRange is Python's range.
type pyRange struct{ start, stop, step int64 }

func (r pyRange) len() int64 {
	switch {
	case r.step > 0 && r.start < r.stop:
		return (r.stop-r.start-1)/r.step + 1
	case r.step < 0 && r.start > r.stop:
		return (r.start-r.stop-1)/(-r.step) + 1
	}
	return 0
}

// slice is lo:hi:step; each may be none.
type slice struct{ lo, hi, step value }

// dict is a dictionary in insertion order.
type dict struct {
	keys  []value
	vals  []value
	index map[any]int
}

// set is a set in insertion order, which makes results deterministic.
type set struct{ d dict }

// function is a def or lambda with what it closes over.
type function struct {
	name     string
	params   []syntax.Param
	defaults []value // by parameter; nil: none
	def      *syntax.FuncDef
	lambda   *syntax.Lambda
	env      *frame
	home     *pyFile // the file it stands in
	gen      bool    // it yields
	memo     *dict   // what functools.cache keeps, nil without
}

// builtin is a function of ours.
type builtin struct {
	name string
	sig  *signature // nil: raw
	fn   func(in *interp, a *args) value
}

// module is something with attributes: a Python module, or a namespace such as
// T.GemmWarpPolicy.
type module struct {
	name  string
	attrs map[string]value
	// get finds attributes that are not in attrs; ok is false if there is none.
	get func(in *interp, name string) (v value, ok bool)
	// names lists what attributes there are, for suggestions.
	names func() []string
}

// class is a Python class; instance an object of one.
type class struct {
	name   string
	bases  []*class
	attrs  map[string]value
	fields []string // of a dataclass or NamedTuple, in order
	data   bool
	meta   bool // T.meta_class
	valued bool // an enumeration whose members are ints or strings
	span   ir.Span
}

type instance struct {
	cls   *class
	attrs map[string]value
}

// boundMethod is a function with its first argument.
type boundMethod struct {
	self value
	fn   value
}

// property is a method that is called when it is looked up.
type property struct{ fn value }

// staticMethod and classMethod are methods without self.
type staticMethod struct{ fn value }
type classMethod struct{ fn value }

// exception is a raised or raisable Python exception.
type exception struct {
	kind string
	cls  *class // nil: one of Python's own
	args []value
}

// unknown stands for a value that cannot be known here.
type unknown struct {
	what string   // how it was come by, in the user's words
	why  *failure // the statement that should have set it failed; nil otherwise
	at   ir.Span
	// looked says which files were looked for, of what is imported.
	looked string
}

// eqOp is a comparison of IR expressions that has not become IR yet: as a
// Python condition it asks for identity.
type eqOp struct {
	a, b ir.Expr
	ne   bool
}

// region is a rectangular part of a buffer.
type region struct {
	buf *ir.Buffer
	rng []ir.Range
}

// parts are where a region begins and its extents.
func (r *region) parts() (mins, extents []ir.Expr) {
	mins, extents = make([]ir.Expr, len(r.rng)), make([]ir.Expr, len(r.rng))
	for i, d := range r.rng {
		mins[i], extents[i] = d.Min, d.Extent
	}
	return mins, extents
}

// ref is an element passed by reference (T.Ref).
type ref struct {
	buf *ir.Buffer
	idx []ir.Expr
}

func (r *ref) load() ir.Expr { return &ir.BufferLoad{Buffer: r.buf, Indices: r.idx} }

func intValue(x *big.Int) value {
	if x.IsInt64() {
		return x.Int64()
	}
	return x
}

func newDict() *dict { return &dict{index: map[any]int{}} }

// hashKey maps equal values to equal Go values.
func (in *interp) hashKey(v value) any {
	switch v := v.(type) {
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case int64, string, noneType, pyRange:
		return v
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v)
		}
		return v
	case *big.Int:
		return "big " + v.String()
	case ir.DType:
		return v.String()
	case *tuple:
		var sb strings.Builder
		sb.WriteString("tuple")
		for _, e := range v.elts {
			switch k := in.hashKey(e).(type) {
			case string:
				fmt.Fprintf(&sb, " %q", k)
			case int64, float64, noneType, pyRange:
				fmt.Fprintf(&sb, " %v", k)
			default:
				fmt.Fprintf(&sb, " %p", k)
			}
		}
		return sb.String()
	case *list, *dict, *set:
		panic(in.errorf("a %s cannot be a key: it can change", typeName(v)).is("TypeError"))
	case *ir.IntImm:
		return v.Value
	case *unknown:
		panic(in.needKnown(v))
	}
	return v
}

func (d *dict) find(k any) int {
	if i, ok := d.index[k]; ok {
		return i
	}
	return -1
}

func (d *dict) get(in *interp, k value) (value, bool) {
	if i := d.find(in.hashKey(k)); i >= 0 {
		return d.vals[i], true
	}
	return nil, false
}

func (d *dict) set(in *interp, k, v value) {
	h := in.hashKey(k)
	if i, ok := d.index[h]; ok {
		d.vals[i] = v
		return
	}
	in.cells(2)
	d.index[h] = len(d.keys)
	d.keys = append(d.keys, k)
	d.vals = append(d.vals, v)
}

// update sets all that another dictionary has.
func (d *dict) update(in *interp, from *dict) {
	for i, k := range from.keys {
		d.set(in, k, from.vals[i])
	}
}

func (d *dict) del(in *interp, k value) bool {
	h := in.hashKey(k)
	i, ok := d.index[h]
	if !ok {
		return false
	}
	delete(d.index, h)
	d.keys = append(d.keys[:i:i], d.keys[i+1:]...)
	d.vals = append(d.vals[:i:i], d.vals[i+1:]...)
	for key, j := range d.index {
		if j > i {
			d.index[key] = j - 1
		}
	}
	return true
}

// typeName is what a message calls the type of a value.
func typeName(v value) string {
	switch v := v.(type) {
	case noneType:
		return "None"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *tuple:
		return "tuple"
	case *list:
		return "list"
	case *dict:
		return "dict"
	case *set:
		return "set"
	case pyRange:
		return "range"
	case *slice:
		return "slice"
	case ir.DType:
		return "dtype"
	case *ir.Buffer:
		return "buffer"
	case *ir.BufferLoad:
		return "buffer element"
	case ir.Expr, *eqOp:
		return "expression"
	case *region:
		return "buffer region"
	case *ref:
		return "reference"
	case *function, *builtin, *boundMethod:
		return "function"
	case *class:
		return "type"
	case *instance:
		return v.cls.name
	case *module:
		return "module"
	case *macro:
		return "macro"
	case *primFunc, *jitFunc:
		return "kernel"
	case *jitKernel:
		return "compiled kernel"
	case *ir.Layout:
		return "layout"
	case *ir.Fragment:
		return "fragment layout"
	case *loopSpec, *stepLoop:
		return "loop"
	case *exception:
		return v.kind
	case *outTensor:
		return "T.empty tensor"
	case *generator:
		return "generator"
	case *tensor:
		return "tensor"
	case ctxValue:
		return "context"
	case *unknown:
		return "unknown value"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", v), "*tilelang.")
}

// describe shows a value in a message, cut to a sensible length.
func (in *interp) describe(v value) string {
	s := in.repr(v)
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return s
}

// maxRepr bounds the text repr makes of one value.
const maxRepr = 1 << 16

func (in *interp) repr(v value) string {
	var sb strings.Builder
	in.writeRepr(&sb, v, 0)
	return sb.String()
}

func (in *interp) writeRepr(sb *strings.Builder, v value, depth int) {
	if depth > 50 || sb.Len() > maxRepr {
		sb.WriteString("...")
		return
	}
	seq := func(open string, elts []value, end string) {
		sb.WriteString(open)
		for i, e := range elts {
			if i > 0 {
				sb.WriteString(", ")
			}
			in.writeRepr(sb, e, depth+1)
		}
		sb.WriteString(end)
	}
	switch v := v.(type) {
	case noneType:
		sb.WriteString("None")
	case bool:
		if v {
			sb.WriteString("True")
		} else {
			sb.WriteString("False")
		}
	case int64:
		sb.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		sb.WriteString(v.String())
	case float64:
		sb.WriteString(pyFloat(v))
	case string:
		sb.WriteString(pyQuote(v))
	case ir.DType:
		sb.WriteString("dtype('" + v.String() + "')")
	case *tuple:
		if len(v.elts) == 1 {
			seq("(", v.elts, ",)")
			return
		}
		seq("(", v.elts, ")")
	case *list:
		seq("[", v.elts, "]")
	case *set:
		if len(v.d.keys) == 0 {
			sb.WriteString("set()")
			return
		}
		seq("{", v.d.keys, "}")
	case *dict:
		sb.WriteString("{")
		for i := range v.keys {
			if i > 0 {
				sb.WriteString(", ")
			}
			in.writeRepr(sb, v.keys[i], depth+1)
			sb.WriteString(": ")
			in.writeRepr(sb, v.vals[i], depth+1)
		}
		sb.WriteString("}")
	case pyRange:
		if v.step == 1 {
			fmt.Fprintf(sb, "range(%d, %d)", v.start, v.stop)
		} else {
			fmt.Fprintf(sb, "range(%d, %d, %d)", v.start, v.stop, v.step)
		}
	case *eqOp:
		in.writeRepr(sb, in.toExpr(v), depth+1)
	case *ir.Buffer:
		sb.WriteString(v.Name)
	case ir.Expr:
		sb.WriteString(exprText(v))
	case *region:
		sb.WriteString(v.buf.Name + "[")
		for i, r := range v.rng {
			if i > 0 {
				sb.WriteString(", ")
			}
			sb.WriteString(exprText(r.Min) + ":" + exprText(in.add(r.Min, r.Extent)))
		}
		sb.WriteString("]")
	case *function:
		sb.WriteString("<function " + v.name + ">")
	case *builtin:
		sb.WriteString("<function " + v.name + ">")
	case *class:
		sb.WriteString("<class '" + v.name + "'>")
	case *instance:
		if v.cls.data {
			sb.WriteString(v.cls.name + "(")
			for i, f := range v.cls.fields {
				if i > 0 {
					sb.WriteString(", ")
				}
				sb.WriteString(f + "=")
				in.writeRepr(sb, v.attrs[f], depth+1)
			}
			sb.WriteString(")")
			return
		}
		if m, ok := v.cls.lookup("__repr__"); ok {
			if s, ok := in.call(&boundMethod{v, m}, nil).(string); ok {
				sb.WriteString(s)
				return
			}
		}
		sb.WriteString("<" + v.cls.name + " object>")
	case *module:
		sb.WriteString("<module '" + v.name + "'>")
	case *exception:
		seq(v.kind+"(", v.args, ")")
	default:
		sb.WriteString("<" + typeName(v) + ">")
	}
}

// str is Python's str().
func (in *interp) str(v value) string {
	switch v := v.(type) {
	case string:
		return v
	case ir.DType:
		return v.String()
	case *exception:
		if len(v.args) == 1 {
			return in.str(v.args[0])
		}
		if len(v.args) == 0 {
			return ""
		}
		return in.repr(&tuple{v.args})
	case *instance:
		for _, name := range []string{"__str__", "__repr__"} {
			if m, ok := v.cls.lookup(name); ok {
				if s, ok := in.call(&boundMethod{v, m}, nil).(string); ok {
					return s
				}
			}
		}
	case *unknown:
		panic(in.needKnown(v))
	}
	return in.repr(v)
}

// pyFloat spells a float as Python does: the shortest text that reads back.
func pyFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mant, exp, _ := strings.Cut(s, "e")
	e, _ := strconv.Atoi(exp)
	if e < -4 || e >= 16 {
		sign := "+"
		if e < 0 {
			sign, e = "-", -e
		}
		return fmt.Sprintf("%se%s%02d", mant, sign, e)
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// pyQuote spells a string as Python's repr does.
func pyQuote(s string) string {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var sb strings.Builder
	sb.WriteByte(q)
	for _, r := range s {
		switch {
		case r == rune(q) || r == '\\':
			sb.WriteByte('\\')
			sb.WriteRune(r)
		case r == '\n':
			sb.WriteString(`\n`)
		case r == '\t':
			sb.WriteString(`\t`)
		case r == '\r':
			sb.WriteString(`\r`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&sb, `\x%02x`, r)
		default:
			sb.WriteRune(r)
		}
	}
	sb.WriteByte(q)
	return sb.String()
}
