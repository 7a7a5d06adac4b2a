package ir

import (
	"fmt"
	"hash/fnv"
	"math"
	"sort"
	"strings"
)

// Structural equality and hashing work on one canonical form: the tree as a
// sequence of tokens, in which every variable and buffer is a number given at
// its first occurrence. Two trees are equal up to renaming exactly when their
// sequences are the same. Free variables are renamed like bound ones.
// Origins never take part.

// EqualOptions say what else StructuralEqual compares.
type EqualOptions struct {
	// Names compares the names of variables and buffers too.
	Names bool
}

// StructuralEqual reports whether two nodes are equal up to the names of
// variables and buffers. A node is an *IRModule, *PrimFunc, Stmt, Expr or
// Attr.
func StructuralEqual(a, b any) bool { return Difference(a, b, EqualOptions{}) == "" }

// Difference describes the first place in which two nodes differ, "" if they
// are equal.
func Difference(a, b any, o EqualOptions) string {
	ca, cb := canonical(a, o), canonical(b, o)
	for i := 0; i < len(ca.toks) && i < len(cb.toks); i++ {
		if ca.toks[i] != cb.toks[i] {
			return fmt.Sprintf("%s is not %s (at %s, near %s)", ca.show(i), cb.show(i), ca.path(i), ca.spanAt(i))
		}
	}
	switch n := min(len(ca.toks), len(cb.toks)); {
	case len(ca.toks) < len(cb.toks):
		return fmt.Sprintf("the first one ends before %s", cb.show(n))
	case len(ca.toks) > len(cb.toks):
		return fmt.Sprintf("the second one ends before %s", ca.show(n))
	}
	return ""
}

// StructuralHash is a hash that is the same for nodes that are StructuralEqual.
// It does not depend on the process.
func StructuralHash(a any) uint64 {
	h := fnv.New64a()
	var buf [9]byte
	for _, t := range canonical(a, EqualOptions{}).toks {
		buf[0] = byte(t.kind)
		for i := range 8 {
			buf[i+1] = byte(uint64(t.n) >> (8 * i))
		}
		h.Write(buf[:])
		h.Write([]byte(t.s))
	}
	return h.Sum64()
}

type tokenKind uint8

const (
	tNode tokenKind = iota // s: node name, n: detail (operator, lanes, count)
	tInt
	tFloat
	tStr
	tType
	tVar // n: number
	tBuf // n: number
	tNil
)

type token struct {
	kind tokenKind
	n    int64
	s    string
}

type canon struct {
	toks  []token
	vars  map[*Var]int
	nvars int // numbers given; those of redefined variables are not reused
	bufs  map[*Buffer]int
	names bool
	spans []tokenSpan
}

type tokenSpan struct {
	tok  int
	span Span
}

func canonical(a any, o EqualOptions) *canon {
	c := &canon{vars: map[*Var]int{}, bufs: map[*Buffer]int{}, names: o.Names}
	switch a := a.(type) {
	case nil:
		c.emit(tNil, 0, "")
	case *IRModule:
		c.node("module", len(a.Funcs))
		for _, f := range a.Funcs {
			c.fn(f)
		}
	case *PrimFunc:
		c.fn(a)
	case Stmt:
		c.stmt(a)
	case Attr:
		c.attr(a)
	default:
		panic(fmt.Sprintf("ir: %T is not a node", a))
	}
	return c
}

func (c *canon) emit(k tokenKind, n int64, s string) { c.toks = append(c.toks, token{k, n, s}) }
func (c *canon) node(name string, n int)             { c.emit(tNode, int64(n), name) }
func (c *canon) dtype(t DType) {
	c.emit(tType, int64(t.Code)<<32|int64(t.Bits)<<16|int64(t.Lanes), "")
}

func (c *canon) show(i int) string {
	t := c.toks[i]
	switch t.kind {
	case tNode:
		return fmt.Sprintf("%s/%d", t.s, t.n)
	case tInt:
		return fmt.Sprint(t.n)
	case tFloat:
		return fmt.Sprint(math.Float64frombits(uint64(t.n)))
	case tStr:
		return fmt.Sprintf("%q", t.s)
	case tType:
		return DType{TypeCode(t.n >> 32), uint8(t.n >> 16), uint16(t.n)}.String()
	case tVar:
		return fmt.Sprintf("variable %d %s", t.n, t.s)
	case tBuf:
		return fmt.Sprintf("buffer %d %s", t.n, t.s)
	}
	return "nothing"
}

func (c *canon) path(i int) string {
	var names []string
	for ; i >= 0 && len(names) < 6; i-- {
		if c.toks[i].kind == tNode {
			names = append(names, c.toks[i].s)
		}
	}
	for l, r := 0, len(names)-1; l < r; l, r = l+1, r-1 {
		names[l], names[r] = names[r], names[l]
	}
	return strings.Join(names, " ")
}

func (c *canon) spanAt(i int) string {
	j := sort.Search(len(c.spans), func(j int) bool { return c.spans[j].tok > i }) - 1
	if j < 0 {
		return "-"
	}
	return c.spans[j].span.String()
}

func (c *canon) fn(f *PrimFunc) {
	c.node("func", len(f.Params))
	c.emit(tStr, 0, f.Name)
	c.dtype(f.Ret)
	if f.Private {
		c.node("private", 0)
	}
	for _, p := range f.Params {
		c.varDef(p)
	}
	c.node("buffer_map", len(f.BufferMap))
	for _, b := range f.BufferMap {
		c.variable(b.Param)
		c.buffer(b.Buffer)
	}
	if f.Attrs.Len() > 0 {
		c.attr(f.Attrs)
	}
	c.stmt(f.Body)
}

// varDef numbers a variable afresh: a variable defined again is another one.
func (c *canon) varDef(v *Var) {
	delete(c.vars, v)
	c.variable(v)
}

func (c *canon) variable(v *Var) {
	if v == nil {
		c.emit(tNil, 0, "")
		return
	}
	if n, ok := c.vars[v]; ok {
		c.emit(tVar, int64(n), "")
		return
	}
	n := c.nvars
	c.nvars++
	c.vars[v] = n
	name := ""
	if c.names {
		name = v.Name
	}
	c.emit(tVar, int64(n), name)
	c.dtype(v.Type)
	if v.Ptr != nil {
		c.dtype(v.Ptr.Elem)
		c.emit(tStr, 0, v.Ptr.Scope)
	}
}

func (c *canon) buffer(b *Buffer) {
	if b == nil {
		c.emit(tNil, 0, "")
		return
	}
	if n, ok := c.bufs[b]; ok {
		c.emit(tBuf, int64(n), "")
		return
	}
	n := len(c.bufs)
	c.bufs[b] = n
	name := ""
	if c.names {
		name = b.Name
	}
	c.emit(tBuf, int64(n), name)
	c.dtype(b.Type)
	c.emit(tStr, 0, b.Scope())
	c.variable(b.Data)
	c.exprs("shape", b.Shape)
	c.exprs("strides", b.Strides)
	c.expr(b.ElemOffset)
	c.emit(tInt, int64(b.Align), "")
}

func (c *canon) exprs(what string, list []Expr) {
	c.node(what, len(list))
	for _, e := range list {
		c.expr(e)
	}
}

func (c *canon) regions(what string, list []BufferRegion) {
	c.node(what, len(list))
	for _, r := range list {
		c.buffer(r.Buffer)
		c.node("region", len(r.Region))
		for _, d := range r.Region {
			c.expr(d.Min)
			c.expr(d.Extent)
		}
	}
}

func (c *canon) expr(e Expr) {
	switch e := e.(type) {
	case nil:
		c.emit(tNil, 0, "")
	case *Var:
		c.variable(e)
	case *IntImm:
		c.dtype(e.Type)
		c.emit(tInt, e.Value, "")
	case *FloatImm:
		c.dtype(e.Type)
		c.emit(tFloat, int64(math.Float64bits(e.Value)), "")
	case *StringImm:
		c.emit(tStr, 0, e.Value)
	case *Cast:
		c.node("Cast", 1)
		c.dtype(e.Type)
		c.expr(e.Value)
	case *Binary:
		c.node(e.Op.String(), 2)
		c.expr(e.A)
		c.expr(e.B)
	case *Not:
		c.node("Not", 1)
		c.expr(e.A)
	case *Select:
		c.node("Select", 3)
		c.expr(e.Cond)
		c.expr(e.True)
		c.expr(e.False)
	case *Ramp:
		c.node("Ramp", e.Lanes)
		c.expr(e.Base)
		c.expr(e.Stride)
	case *Broadcast:
		c.node("Broadcast", e.Lanes)
		c.expr(e.Value)
	case *Shuffle:
		c.exprs("Shuffle", e.Vectors)
		c.exprs("indices", e.Indices)
	case *Let:
		c.node("Let", 3)
		c.expr(e.Value)
		c.varDef(e.Var)
		c.expr(e.Body)
	case *BufferLoad:
		c.node("BufferLoad", len(e.Indices))
		c.buffer(e.Buffer)
		c.exprs("indices", e.Indices)
		c.expr(e.Predicate)
	case *Call:
		name := "@" + e.Global
		if e.Op != nil {
			name = e.Op.FullName()
		}
		c.exprs(name, e.Args)
		c.dtype(e.Type)
		for _, a := range e.Attrs {
			c.node("keyword "+a.Name, 1)
			c.attr(a.Value)
		}
	case *Hidden:
		c.node("metadata "+e.Type, e.Index)
	default:
		panic(fmt.Sprintf("ir: unknown expression %T", e))
	}
}

func (c *canon) attr(a Attr) {
	switch a := a.(type) {
	case nil:
		c.emit(tNil, 0, "")
	case Expr:
		c.expr(a)
	case AttrBool:
		n, _ := AttrInt(a)
		c.node("bool", int(n))
	case AttrNone:
		c.node("None", 0)
	case List:
		c.node("list", len(a))
		for _, x := range a {
			c.attr(x)
		}
	case *Dict:
		c.node("dict", a.Len())
		if a == nil {
			return
		}
		for _, e := range sortedEntries(a) {
			c.attr(e.Key)
			c.attr(e.Value)
		}
	case *Target:
		c.node("target", 1)
		c.attr(a.Fields)
	case *Buffer:
		c.buffer(a)
	case *IterVar:
		c.node("itervar "+a.Tag, int(a.Kind))
		c.varDef(a.Var)
		c.expr(a.Dom.Min)
		c.expr(a.Dom.Extent)
	case *CommReducer:
		c.node("reducer", len(a.LHS))
		for i := range a.LHS {
			c.varDef(a.LHS[i])
			c.varDef(a.RHS[i])
		}
		c.exprs("result", a.Result)
		c.exprs("identity", a.Identity)
	case *Layout:
		c.layoutVars("Layout", a.Vars, a.Shape)
		c.exprs("forward", a.Forward)
	case *Fragment:
		c.layoutVars("Fragment", a.Vars, a.Shape)
		if a.Rep != nil {
			c.varDef(a.Rep)
		}
		c.expr(a.Replicate)
		c.expr(a.Thread)
		c.exprs("index", a.Index)
		c.expr(a.ThreadRange.Min)
		c.expr(a.ThreadRange.Extent)
	default:
		panic(fmt.Sprintf("ir: unknown attribute %T", a))
	}
}

func (c *canon) layoutVars(name string, vars []*Var, shape []Expr) {
	c.node(name, len(vars))
	for _, v := range vars {
		c.varDef(v)
	}
	c.exprs("shape", shape)
}

// sortedEntries puts the entries of a Dict with string keys alone in key
// order; a map has no order of its own.
func sortedEntries(d *Dict) []DictEntry {
	for _, e := range d.Entries {
		if _, ok := e.Key.(*StringImm); !ok {
			return d.Entries
		}
	}
	out := append([]DictEntry(nil), d.Entries...)
	sort.SliceStable(out, func(i, j int) bool {
		return out[i].Key.(*StringImm).Value < out[j].Key.(*StringImm).Value
	})
	return out
}

func (c *canon) stmt(s Stmt) {
	if s == nil {
		c.emit(tNil, 0, "")
		return
	}
	c.spans = append(c.spans, tokenSpan{tok: len(c.toks), span: s.Origin()})
	switch s := s.(type) {
	case *SeqStmt:
		c.node("Seq", len(s.Seq))
		for _, x := range s.Seq {
			c.stmt(x)
		}
	case *Bind:
		c.node("Bind", 2)
		c.expr(s.Value)
		c.varDef(s.Var)
	case *AttrStmt:
		c.node("Attr "+s.Key, 3)
		c.attr(s.Node)
		c.attr(s.Value)
		c.stmt(s.Body)
	case *For:
		c.node("For "+s.Kind.String()+" "+s.Thread, 4)
		c.expr(s.Min)
		c.expr(s.Extent)
		if s.Step != nil && !IsConst(s.Step, 1) {
			c.node("step", 1)
			c.expr(s.Step)
		}
		c.varDef(s.Var)
		if s.Annotations.Len() > 0 {
			c.attr(s.Annotations)
		}
		c.stmt(s.Body)
	case *While:
		c.node("While", 2)
		c.expr(s.Cond)
		c.stmt(s.Body)
	case *IfThenElse:
		c.node("If", 3)
		c.expr(s.Cond)
		c.stmt(s.Then)
		c.stmt(s.Else)
	case *BufferStore:
		c.node("BufferStore", len(s.Indices))
		c.buffer(s.Buffer)
		c.exprs("indices", s.Indices)
		c.expr(s.Value)
		c.expr(s.Predicate)
	case *Evaluate:
		c.node("Evaluate", 1)
		c.expr(s.Value)
	case *Assert:
		c.node("Assert "+s.Kind, 2)
		c.expr(s.Cond)
		c.exprs("message", s.Message)
	case *AllocBuffer:
		c.node("AllocBuffer", 1)
		c.buffer(s.Buffer)
		if s.Annotations.Len() > 0 {
			c.attr(s.Annotations)
		}
	case *DeclBuffer:
		c.node("DeclBuffer", 1)
		c.buffer(s.Buffer)
	case *SBlock:
		c.block(s)
	default:
		panic(fmt.Sprintf("ir: unknown statement %T", s))
	}
}

func (c *canon) block(s *SBlock) {
	c.node("SBlock", len(s.IterVars))
	c.emit(tStr, 0, s.Name)
	c.exprs("values", s.IterValues)
	c.expr(s.Predicate)
	for _, iv := range s.IterVars {
		c.attr(iv)
	}
	c.regions("reads", s.Reads)
	c.regions("writes", s.Writes)
	if s.Annotations.Len() > 0 {
		c.attr(s.Annotations)
	}
	c.node("alloc", len(s.AllocBuffers))
	for _, b := range s.AllocBuffers {
		c.buffer(b)
	}
	c.node("match", len(s.MatchBuffers))
	for _, m := range s.MatchBuffers {
		c.buffer(m.Buffer)
		c.regions("source", []BufferRegion{m.Source})
	}
	c.stmt(s.Init)
	c.stmt(s.Body)
}
