package script

import (
	"math"
	"slices"
	"strconv"

	"lowertrace/internal/ir"
)

// Binding strengths in the text, from loosest to tightest.
const (
	precNone = iota
	precLambda
	precOr
	precAnd
	precNot
	precCompare
	precAdd
	precMul
	precAtom
)

var binaryText = [...]struct {
	infix string // empty: function form only
	prec  uint8
	name  string
}{
	ir.Add: {" + ", precAdd, "Add"}, ir.Sub: {" - ", precAdd, "Sub"}, ir.Mul: {" * ", precMul, "Mul"},
	ir.Div: {" / ", precMul, "Div"}, ir.TruncMod: {"", 0, "truncmod"},
	ir.FloorDiv: {" // ", precMul, "FloorDiv"}, ir.FloorMod: {" % ", precMul, "FloorMod"},
	ir.Min: {"", 0, "min"}, ir.Max: {"", 0, "max"},
	ir.EQ: {" == ", precCompare, "EQ"}, ir.NE: {" != ", precCompare, "NE"},
	ir.LT: {" < ", precCompare, "LT"}, ir.LE: {" <= ", precCompare, "LE"},
	ir.GT: {" > ", precCompare, "GT"}, ir.GE: {" >= ", precCompare, "GE"},
	ir.And: {" and ", precAnd, "And"}, ir.Or: {" or ", precOr, "Or"},
}

// expr writes an expression, in parentheses if it binds looser than prec.
func (p *printer) expr(e ir.Expr, prec uint8) {
	switch e := e.(type) {
	case *ir.Var:
		p.varRef(e)
	case *ir.IntImm:
		p.intImm(e)
	case *ir.Binary:
		p.binary(e, prec)
	case *ir.BufferLoad:
		if e.Predicate != nil {
			p.bufRef(e.Buffer)
			p.str(".vload([")
			p.exprs(e.Indices)
			p.str("], predicate=")
			p.expr(e.Predicate, precNone)
			p.char(')')
			return
		}
		p.bufRef(e.Buffer)
		p.indices(e.Indices)
	case *ir.Call:
		p.call(e)
	case *ir.FloatImm:
		p.str("T.")
		p.str(e.Type.String())
		p.char('(')
		p.float(e.Value)
		p.char(')')
	case *ir.StringImm:
		p.quoted(e.Value)
	case *ir.Cast:
		p.str(`T.Cast("`)
		p.str(e.Type.Quoted())
		p.str(`", `)
		p.expr(e.Value, precNone)
		p.char(')')
	case *ir.Not:
		p.paren(precNot < prec, func() {
			p.str("not ")
			p.expr(e.A, precNot)
		})
	case *ir.Select:
		p.str("T.Select(")
		p.expr(e.Cond, precNone)
		p.str(", ")
		p.expr(e.True, precNone)
		p.str(", ")
		p.expr(e.False, precNone)
		p.char(')')
	case *ir.Ramp:
		p.str("T.Ramp(")
		p.expr(e.Base, precNone)
		p.str(", ")
		p.expr(e.Stride, precNone)
		p.str(", ")
		p.int(int64(e.Lanes))
		p.char(')')
	case *ir.Broadcast:
		p.str("T.Broadcast(")
		p.expr(e.Value, precNone)
		p.str(", ")
		p.int(int64(e.Lanes))
		p.char(')')
	case *ir.Shuffle:
		p.str("T.Shuffle([")
		p.exprs(e.Vectors)
		p.str("], [")
		p.exprs(e.Indices)
		p.str("])")
	case *ir.Let:
		// The variable is declared free, as in TVM's text.
		body := p.scratch(func() { p.expr(e.Body, precNone) })
		p.str("T.Let(")
		p.paste(body)
		p.str(", where={")
		p.varRef(e.Var)
		p.str(": ")
		p.expr(e.Value, precNone)
		p.str("})")
	case *ir.Hidden:
		p.hiddenRef(e)
	case nil:
		p.str("None")
	}
}

func (p *printer) hiddenRef(h *ir.Hidden) {
	p.hidden = true
	p.str("metadata[")
	p.quoted(h.Type)
	p.str("][")
	p.int(int64(h.Index))
	p.char(']')
}

func (p *printer) paren(yes bool, f func()) {
	if yes {
		p.char('(')
		f()
		p.char(')')
		return
	}
	f()
}

// binary writes an operator. Its left operand may bind equally tight, its
// right one not; chains to the left are written in a loop, for they may be
// long.
func (p *printer) binary(e *ir.Binary, prec uint8) {
	t := &binaryText[e.Op]
	if t.infix == "" || e.Op == ir.Div && e.A.DType().IsInteger() || folds(e.Op, e.A, e.B) {
		p.str("T.")
		p.str(t.name)
		p.char('(')
		p.expr(e.A, precNone)
		p.str(", ")
		p.expr(e.B, precNone)
		p.char(')')
		return
	}
	open := t.prec < prec
	if open {
		p.char('(')
	}
	p.expr(e.A, t.prec)
	p.str(t.infix)
	p.expr(e.B, t.prec+1)
	if open {
		p.char(')')
	}
}

func (p *printer) exprs(list []ir.Expr) {
	for i, e := range list {
		if i > 0 {
			p.str(", ")
		}
		p.expr(e, precNone)
	}
}

// tuple writes (a, b), or (a,) for one.
func (p *printer) tuple(list []ir.Expr) {
	p.char('(')
	p.exprs(list)
	if len(list) == 1 {
		p.char(',')
	}
	p.char(')')
}

// indices writes [i, lo:hi]; a ramp of constant stride is a slice.
func (p *printer) indices(list []ir.Expr) {
	if len(list) == 0 {
		p.str("[()]")
		return
	}
	p.char('[')
	for i, e := range list {
		if i > 0 {
			p.str(", ")
		}
		r, ok := e.(*ir.Ramp)
		if !ok {
			p.expr(e, precNone)
			continue
		}
		stride, ok := r.Stride.(*ir.IntImm)
		if !ok {
			p.expr(e, precNone)
			continue
		}
		p.expr(r.Base, precNone)
		p.char(':')
		p.expr(plus(r.Base, &ir.IntImm{Type: stride.Type, Value: stride.Value * int64(r.Lanes)}), precNone)
		if stride.Value != 1 {
			p.char(':')
			p.intImm(stride)
		}
	}
	p.char(']')
}

func (p *printer) call(e *ir.Call) {
	if e.Op == nil {
		p.str("Module.")
		p.str(e.Global)
		p.char('(')
		p.exprs(e.Args)
		p.char(')')
		return
	}
	p.str("T.")
	p.str(e.Op.Name)
	p.char('(')
	sep := ""
	if e.Op.Rule == ir.TypeFirst {
		p.char('"')
		p.str(e.Type.Quoted())
		p.char('"')
		sep = ", "
	}
	for _, a := range e.Args {
		p.str(sep)
		p.expr(a, precNone)
		sep = ", "
	}
	if e.Op.Rule == ir.TypeLast {
		p.str(sep)
		p.char('"')
		p.str(e.Type.Quoted())
		p.char('"')
		sep = ", "
	}
	for i := range e.Attrs {
		p.str(sep)
		p.str(e.Attrs[i].Name)
		p.char('=')
		p.attr(e.Attrs[i].Value)
		sep = ", "
	}
	p.char(')')
}

func (p *printer) int(v int64) { p.out = strconv.AppendInt(p.out, v, 10) }

func (p *printer) intImm(e *ir.IntImm) {
	switch {
	case e.Type == ir.DInt32:
		p.int(e.Value)
	case e.Type.IsBool():
		if e.Value != 0 {
			p.str("T.bool(True)")
		} else {
			p.str("T.bool(False)")
		}
	default:
		p.str("T.")
		p.str(e.Type.String())
		p.char('(')
		if e.Type.IsUInt() {
			p.out = strconv.AppendUint(p.out, uint64(e.Value), 10)
		} else {
			p.int(e.Value)
		}
		p.char(')')
	}
}

// float writes a float as C++ streams do in TVM's printer: one decimal for
// whole numbers, else up to 17 significant digits; what is not finite is a
// string.
func (p *printer) float(v float64) {
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		switch {
		case math.IsInf(v, 1):
			p.str(`"inf"`)
		case math.IsInf(v, -1):
			p.str(`"-inf"`)
		case math.Signbit(v):
			p.str(`"-nan"`)
		default:
			p.str(`"nan"`)
		}
	case v == math.Trunc(v):
		p.out = strconv.AppendFloat(p.out, v, 'f', 1, 64)
	default:
		p.out = strconv.AppendFloat(p.out, v, 'g', 17, 64)
	}
}

// quoted writes a string literal. Bytes beyond ASCII are escaped one by one.
func (p *printer) quoted(s string) {
	p.char('"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			continue
		}
		p.str(s[start:i])
		start = i + 1
		switch c {
		case '"', '\\':
			p.char('\\')
			p.char(c)
		case '\n':
			p.str(`\n`)
		case '\t':
			p.str(`\t`)
		case '\r':
			p.str(`\r`)
		default:
			const hex = "0123456789ABCDEF"
			p.str(`\x`)
			p.char(hex[c>>4])
			p.char(hex[c&15])
		}
	}
	p.str(s[start:])
	p.char('"')
}

// attr writes what attributes hold.
func (p *printer) attr(a ir.Attr) {
	switch a := a.(type) {
	case ir.Expr:
		p.expr(a, precNone)
	case ir.AttrBool:
		if a {
			p.str("True")
		} else {
			p.str("False")
		}
	case ir.AttrNone, nil:
		p.str("None")
	case ir.List:
		p.char('[')
		for i, x := range a {
			if i > 0 {
				p.str(", ")
			}
			p.attr(x)
		}
		p.char(']')
	case *ir.Dict:
		p.dict(a)
	case *ir.Target:
		p.str("T.target(")
		p.dict(a.Fields)
		p.char(')')
	case *ir.Buffer:
		p.bufRef(a)
	case *ir.IterVar:
		p.str("T.iter_var(")
		p.varRef(a.Var)
		p.str(", ")
		if a.Dom.Extent != nil {
			p.str("T.Range(")
			p.expr(a.Dom.Min, precNone)
			p.str(", ")
			p.expr(plus(a.Dom.Min, a.Dom.Extent), precNone)
			p.char(')')
		} else {
			p.str("None")
		}
		p.str(", ")
		p.quoted(iterKindNames[a.Kind])
		p.str(", ")
		p.quoted(a.Tag)
		p.char(')')
	case *ir.CommReducer:
		p.push(nil, partNone, p.top().indent)
		p.top().start = p.frames[len(p.frames)-2].start
		p.str("T.comm_reducer(")
		p.lambda(append(slices.Clip(a.LHS), a.RHS...))
		if len(a.Result) == 1 {
			p.expr(a.Result[0], precLambda)
		} else {
			p.tuple(a.Result)
		}
		p.pop()
		p.str(", [")
		p.exprs(a.Identity)
		p.str("])")
	case *ir.Layout:
		p.str("T.Layout(")
		p.tuple(a.Shape)
		p.str(", ")
		p.push(nil, partNone, p.top().indent)
		p.top().start = p.frames[len(p.frames)-2].start
		p.lambda(a.Vars)
		p.tuple(a.Forward)
		p.pop()
		p.char(')')
	case *ir.Fragment:
		p.fragment(a)
	}
}

var iterKindNames = [...]string{
	ir.ThreadIndex: "ThreadIndex", ir.DataPar: "DataPar", ir.CommReduce: "CommReduce", ir.OpaqueIter: "Opaque",
}

// lambda writes "lambda x, y: " and defines the variables.
func (p *printer) lambda(vars []*ir.Var) {
	p.str("lambda")
	for i, v := range vars {
		if i > 0 {
			p.char(',')
		}
		p.char(' ')
		p.str(p.defineVar(v, p.top()).name)
	}
	p.str(": ")
}

func (p *printer) fragment(a *ir.Fragment) {
	p.str("T.Fragment(")
	p.tuple(a.Shape)
	p.push(nil, partNone, p.top().indent)
	p.top().start = p.frames[len(p.frames)-2].start
	p.str(", thread=")
	p.lambda(append(slices.Clip(a.Vars), a.Rep))
	p.expr(a.Thread, precLambda)
	p.str(", index=")
	p.lambda(a.Vars)
	p.tuple(a.Index)
	p.pop()
	p.str(", replicate=")
	p.expr(a.Replicate, precNone)
	if r := a.ThreadRange; r.Extent != nil {
		p.str(", threads=(")
		p.expr(r.Min, precNone)
		p.str(", ")
		p.expr(plus(r.Min, r.Extent), precNone)
		p.char(')')
	}
	p.char(')')
}

// dict writes a dictionary; if all keys are strings they are sorted.
func (p *printer) dict(d *ir.Dict) {
	var entries []ir.DictEntry
	if d != nil {
		entries = d.Entries
	}
	key := func(e ir.DictEntry) string {
		s, _ := e.Key.(*ir.StringImm)
		return s.Value
	}
	allStrings := true
	for i := range entries {
		if _, ok := entries[i].Key.(*ir.StringImm); !ok {
			allStrings = false
		}
	}
	if allStrings {
		byKey := func(a, b ir.DictEntry) int {
			switch x, y := key(a), key(b); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		}
		if !slices.IsSortedFunc(entries, byKey) {
			entries = slices.Clone(entries)
			slices.SortStableFunc(entries, byKey)
		}
	}
	p.char('{')
	for i, e := range entries {
		if i > 0 {
			p.str(", ")
		}
		p.attr(e.Key)
		p.str(": ")
		p.attr(e.Value)
	}
	p.char('}')
}
