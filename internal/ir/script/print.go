package script

import (
	"slices"
	"strconv"

	"lowertrace/internal/ir"
)

// Print writes a module. The text ends in a newline.
func Print(m *ir.IRModule) string {
	p := newPrinter()
	p.module(m)
	return string(p.out)
}

// PrintWithOrigins writes a module and says for each line of the text which
// line of the source its statement came from, 0 where that is not known or is a
// line of another file than the one named; "" is any file.
func PrintWithOrigins(m *ir.IRModule, file string) (text string, lines []int32) {
	p := newPrinter()
	p.file = file
	p.marks = make([]mark, 0, 64)
	p.module(m)
	i := 0
	for pos, start := 0, 0; pos < len(p.out); pos++ {
		if p.out[pos] != '\n' {
			continue
		}
		line := int32(0)
		for ; i < len(p.marks) && p.marks[i].off <= pos; i++ {
			if p.marks[i].off >= start {
				line = p.marks[i].line
			}
		}
		lines = append(lines, line)
		start = pos + 1
	}
	return string(p.out), lines
}

// lineOf is the line of a place that counts as an origin.
func (p *printer) lineOf(at ir.Span) int32 {
	if p.file != "" && at.Src != nil && at.Src.Name != p.file {
		return 0
	}
	return int32(at.Line())
}

// PrintFunc writes one function, without the comment that heads a file.
func PrintFunc(f *ir.PrimFunc) string {
	p := newPrinter()
	p.function(f, 0)
	p.finish()
	return string(p.out)
}

// StmtString writes statements out of their context: variables that they do
// not define appear by their names, undeclared.
func StmtString(s ir.Stmt) string {
	p := newPrinter()
	p.loose = true
	p.push(nil, partBody, 0)
	p.body(s)
	p.pop()
	p.insertAll()
	return string(p.out)
}

// ExprString writes an expression (see StmtString).
func ExprString(e ir.Expr) string {
	p := newPrinter()
	p.loose = true
	p.push(nil, partBody, 0)
	p.expr(e, precNone)
	return string(p.out)
}

// AttrString writes an attribute (see StmtString).
func AttrString(a ir.Attr) string {
	p := newPrinter()
	p.loose = true
	p.push(nil, partBody, 0)
	p.attr(a)
	return string(p.out)
}

const indentWidth = 4

// printer writes text straight into one buffer. What declares a free variable
// or buffer stands before the statement of the scope that encloses all its
// uses, and is found out only at the first use: such lines are kept apart,
// with the place where they belong, and put in at the end.
type printer struct {
	out     []byte
	inserts []insert
	decls   []byte // texts of inserts
	pool    [][]byte

	names  map[string]bool // names in use
	next   map[string]int  // lower bound of the next free suffix of a name
	vars   map[*ir.Var]spelling
	bufs   map[*ir.Buffer]string
	frames []frame
	loops  []*ir.For // loops around the current statement
	uses   *useTree  // where variables are used, once it is needed
	fn     *ir.PrimFunc

	loose  bool // declare nothing
	hidden bool // something was printed as metadata[..]
	marks  []mark
	file   string // the marks are of this file alone, unless it is ""
}

// mark notes the source line of the statement whose text begins at off.
type mark struct {
	off  int
	line int32
}

// insert is a line to be put before the text at an offset: decls[from:to].
type insert struct {
	at, from, to int
	line         int32 // of the source it came from, where that is known
}

// spelling is how a variable is written: by a name, or through a buffer.
type spelling struct {
	name string
	buf  *ir.Buffer
	via  uint8 // viaData, ...
	dim  int
}

const (
	viaName = iota
	viaData
	viaStride
	viaOffset
)

// Which scope of a statement a frame is.
const (
	partBody = iota
	partThen
	partElse
	partInit
	partNone // a scope within an expression
)

// frame is an open scope of the text.
type frame struct {
	owner   ir.Stmt // whose scope it is, nil for the function's
	part    uint8   // which of the owner's scopes
	indent  int
	start   int  // where the current statement's text begins
	concise bool // the current statement is the scope's last
	vars    []*ir.Var
	bufs    []*ir.Buffer
	used    []usedName
}

// usedName is a name that a scope gives back: hint, or hint_n.
type usedName struct {
	name, hint string
	n          int
}

func newPrinter() *printer {
	return &printer{
		out:   make([]byte, 0, 4096),
		names: map[string]bool{"T": true, "I": true, "R": true},
		vars:  map[*ir.Var]spelling{},
		bufs:  map[*ir.Buffer]string{},
	}
}

func (p *printer) str(s string) { p.out = append(p.out, s...) }

func (p *printer) char(c byte) { p.out = append(p.out, c) }

func (p *printer) top() *frame { return &p.frames[len(p.frames)-1] }

func (p *printer) push(owner ir.Stmt, part uint8, indent int) {
	n := len(p.frames)
	if n < cap(p.frames) { // keep the lists of an old frame
		p.frames = p.frames[:n+1]
		f := &p.frames[n]
		*f = frame{vars: f.vars[:0], bufs: f.bufs[:0], used: f.used[:0]}
	} else {
		p.frames = append(p.frames, frame{})
	}
	f := &p.frames[n]
	f.owner, f.part, f.indent, f.start = owner, part, indent, len(p.out)
}

func (p *printer) pop() {
	f := p.top()
	for _, v := range f.vars {
		delete(p.vars, v)
	}
	for _, b := range f.bufs {
		delete(p.bufs, b)
	}
	for _, u := range f.used {
		delete(p.names, u.name)
		if u.n > 0 && u.n < p.next[u.hint] {
			p.next[u.hint] = u.n
		}
	}
	p.frames = p.frames[:len(p.frames)-1]
}

// unique is a name nobody uses: the hint, or the hint with a suffix.
func (p *printer) unique(hint string, f *frame) string {
	if hint == "" {
		hint = "v"
	}
	for i := 0; i < len(hint); i++ {
		if !isNameByte(hint[i]) {
			hint = identifier(hint)
			break
		}
	}
	name, i := hint, 0
	if p.names[name] {
		for i = max(p.next[hint], 1); ; i++ {
			name = hint + "_" + strconv.Itoa(i)
			if !p.names[name] {
				break
			}
		}
		if p.next == nil {
			p.next = map[string]int{}
		}
		p.next[hint] = i + 1
	}
	p.names[name] = true
	f.used = append(f.used, usedName{name, hint, i})
	return name
}

func isNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// defineVar names a variable in a scope, unless it has a name already.
func (p *printer) defineVar(v *ir.Var, f *frame) spelling {
	if s, ok := p.vars[v]; ok {
		return s
	}
	s := spelling{name: p.unique(v.Name, f)}
	p.vars[v] = s
	f.vars = append(f.vars, v)
	return s
}

// defineVia spells a variable through a buffer.
func (p *printer) defineVia(v *ir.Var, f *frame, s spelling) {
	p.vars[v] = s
	f.vars = append(f.vars, v)
}

func (p *printer) defineBuffer(b *ir.Buffer, f *frame) string {
	if name, ok := p.bufs[b]; ok {
		return name
	}
	hint := b.Name
	if hint == "" {
		hint = "buffer"
	}
	name := p.unique(hint, f)
	p.bufs[b] = name
	f.bufs = append(f.bufs, b)
	return name
}

// line begins a line of the innermost scope, which comes from org.
func (p *printer) line(org ir.Span) {
	f := p.top()
	f.start = len(p.out)
	if p.marks != nil {
		p.marks = append(p.marks, mark{len(p.out), p.lineOf(org)})
	}
	p.indent(f.indent)
}

const blanks = "                                                                "

func (p *printer) indent(n int) {
	for n > len(blanks) {
		p.str(blanks)
		n -= len(blanks)
	}
	p.str(blanks[:n])
}

// end ends a line.
func (p *printer) end() { p.char('\n') }

// declare places what write writes, one line, before the current statement of
// scope fi.
func (p *printer) declare(fi int, write func()) {
	text := p.scratch(write)
	f := &p.frames[fi]
	in := insert{at: f.start, from: len(p.decls)}
	p.decls = append(p.decls, blanksFor(f.indent)...)
	p.decls = append(p.decls, text...)
	p.decls = append(p.decls, '\n')
	in.to = len(p.decls)
	p.release(text)
	p.inserts = append(p.inserts, in)
}

// insertAll puts the declarations where they belong.
func (p *printer) insertAll() {
	if len(p.inserts) == 0 {
		return
	}
	slices.SortStableFunc(p.inserts, func(a, b insert) int { return a.at - b.at })
	out := make([]byte, 0, len(p.out)+len(p.decls)+64)
	var marks []mark
	pos, m := 0, 0
	for _, in := range p.inserts {
		for ; m < len(p.marks) && p.marks[m].off < in.at; m++ {
			marks = append(marks, mark{p.marks[m].off + len(out) - pos, p.marks[m].line})
		}
		out = append(out, p.out[pos:in.at]...)
		pos = in.at
		switch {
		case p.marks == nil:
		case in.line > 0:
			marks = append(marks, mark{len(out), in.line})
		case m < len(p.marks): // it belongs to the statement it precedes
			marks = append(marks, mark{len(out), p.marks[m].line})
		}
		out = append(out, p.decls[in.from:in.to]...)
	}
	for ; m < len(p.marks); m++ {
		marks = append(marks, mark{p.marks[m].off + len(out) - pos, p.marks[m].line})
	}
	p.out = append(out, p.out[pos:]...)
	if p.marks != nil {
		p.marks = marks
	}
	p.inserts, p.decls = p.inserts[:0], p.decls[:0]
}

func blanksFor(n int) string {
	s := blanks
	for len(s) < n {
		s += blanks
	}
	return s[:n]
}

// scratch collects what f writes as a text of its own, to be given back with
// release.
func (p *printer) scratch(f func()) []byte {
	var buf []byte
	if n := len(p.pool); n > 0 {
		buf, p.pool = p.pool[n-1], p.pool[:n-1]
	}
	keep := p.out
	p.out = buf
	f()
	text := p.out
	p.out = keep
	return text
}

func (p *printer) release(text []byte) { p.pool = append(p.pool, text[:0]) }

// paste writes a scratch text and gives it back.
func (p *printer) paste(text []byte) {
	p.out = append(p.out, text...)
	p.release(text)
}

// place is the scope for the declaration of something used at a node of the
// use tree: the innermost open one around all uses.
func (p *printer) place(node int32) int {
	t := p.useTree()
	for ; node >= 0; node = t.parent[node] {
		for i := range p.frames { // outermost first: scopes may share a node
			if t.node(&p.frames[i]) == node {
				return i
			}
		}
	}
	return len(p.frames) - 1
}

func (p *printer) useTree() *useTree {
	if p.uses == nil {
		p.uses = newUseTree(p.fn)
	}
	return p.uses
}

// varRef writes a variable, declaring it if nothing defines it.
func (p *printer) varRef(v *ir.Var) {
	s, ok := p.vars[v]
	if !ok {
		s = p.freeVar(v)
	}
	switch s.via {
	case viaName:
		p.str(s.name)
	case viaData:
		p.bufRef(s.buf)
		p.str(".data")
	case viaStride:
		p.bufRef(s.buf)
		p.str(".strides[")
		p.int(int64(s.dim))
		p.char(']')
	case viaOffset:
		p.bufRef(s.buf)
		p.str(".elem_offset")
	}
}

func (p *printer) freeVar(v *ir.Var) spelling {
	if p.loose || p.fn == nil {
		return p.defineVar(v, &p.frames[0])
	}
	node, ok := p.useTree().vars[v]
	fi := len(p.frames) - 1
	if ok {
		fi = p.place(node)
	}
	s := p.defineVar(v, &p.frames[fi])
	p.declare(fi, func() {
		p.str(s.name)
		p.str(" = ")
		p.varCreation(v)
	})
	return s
}

// varCreation writes what declares a free variable: T.int32().
func (p *printer) varCreation(v *ir.Var) {
	if v.Ptr != nil {
		p.varType(v)
		return
	}
	p.str("T.")
	p.str(v.Type.String())
	p.str("()")
}

// varType writes a variable's type: T.int32, T.handle("float16", "global").
func (p *printer) varType(v *ir.Var) {
	p.str("T.")
	if v.Ptr == nil {
		p.str(v.Type.String())
		return
	}
	p.str(`handle("`)
	p.str(v.Ptr.Elem.Quoted())
	p.char('"')
	if v.Ptr.Scope != "" {
		p.str(", ")
		p.quoted(v.Ptr.Scope)
	}
	p.char(')')
}

// bufRef writes a buffer's name, declaring the buffer if nothing does.
func (p *printer) bufRef(b *ir.Buffer) {
	name, ok := p.bufs[b]
	if !ok {
		name = p.freeBuffer(b)
	}
	p.str(name)
}

func (p *printer) freeBuffer(b *ir.Buffer) string {
	if p.loose || p.fn == nil {
		name := p.defineBuffer(b, &p.frames[0])
		if _, ok := p.vars[b.Data]; !ok {
			p.defineVia(b.Data, &p.frames[0], spelling{buf: b, via: viaData})
		}
		return name
	}
	node, ok := p.useTree().bufs[b]
	fi := len(p.frames) - 1
	if ok {
		fi = p.place(node)
	}
	name := p.defineBuffer(b, &p.frames[fi])
	p.declare(fi, func() {
		p.str(name)
		p.str(" = ")
		p.bufferCall("Buffer", b, fi, mayDefineData)
	})
	p.inserts[len(p.inserts)-1].line = p.lineOf(b.Org)
	return name
}

// Which variables a buffer's declaration may define.
const (
	definesNothing = iota
	mayDefineData
	mayDefineAll
)

// bufferCall writes T.<how>(shape, dtype, data=..., ...). Variables that the
// declaration itself defines are spelt through the buffer; others that are
// new are declared before it, in scope fi. An argument before the shape was
// written by the caller: T.match_buffer( comes without its parenthesis then.
func (p *printer) bufferCall(how string, b *ir.Buffer, fi int, defines int, first ...func()) {
	// Variables are defined in TVM's order: shape, data, strides, offset.
	var late []*ir.Var // to be declared on one line
	isNew := func(e ir.Expr) *ir.Var {
		v, ok := e.(*ir.Var)
		if !ok || v == nil {
			return nil
		}
		if _, known := p.vars[v]; known {
			return nil
		}
		return v
	}
	declareLate := func(v *ir.Var) {
		p.defineVar(v, &p.frames[fi])
		late = append(late, v)
	}
	p.str("T.")
	p.str(how)
	p.char('(')
	for _, f := range first {
		f()
		p.str(", ")
	}
	for _, e := range b.Shape {
		if v := isNew(e); v != nil {
			if p.loose {
				p.defineVar(v, &p.frames[fi])
			} else {
				declareLate(v)
			}
		}
	}
	p.tuple(b.Shape)
	if b.Type != ir.DFloat32 {
		p.str(", ")
		p.quoted(b.Type.Quoted())
	}
	inline := false
	if v := isNew(b.Data); v != nil {
		if defines >= mayDefineData && countVar(b, v) == 1 {
			p.defineVia(v, &p.frames[fi], spelling{buf: b, via: viaData})
			inline = true
		} else {
			declareLate(v)
		}
	}
	if !inline {
		p.str(", data=")
		p.varRef(b.Data)
	}
	if len(b.Strides) > 0 {
		p.str(", strides=(")
		for i, e := range b.Strides {
			if i > 0 {
				p.str(", ")
			}
			if v := isNew(e); v != nil {
				if countVar(b, v) == 1 {
					p.defineVia(v, &p.frames[fi], spelling{buf: b, via: viaStride, dim: i})
					p.quoted(v.Name)
					continue
				}
				declareLate(v)
			}
			p.expr(e, precNone)
		}
		if len(b.Strides) == 1 {
			p.char(',')
		}
		p.char(')')
	}
	factor := false
	if e := b.ElemOffset; e != nil {
		if v := isNew(e); v != nil {
			if countVar(b, v) == 1 {
				p.defineVia(v, &p.frames[fi], spelling{buf: b, via: viaOffset})
			} else {
				declareLate(v)
			}
			factor = true
		} else if c, ok := e.(*ir.IntImm); !ok || c.Value != 0 {
			p.str(", elem_offset=")
			p.expr(e, precNone)
		}
	}
	if s := b.Scope(); s != "global" {
		p.str(", scope=")
		p.quoted(s)
	}
	if b.Align != 0 && b.Align != defaultAlign {
		p.str(", align=")
		p.int(int64(b.Align))
	}
	if factor {
		p.str(", offset_factor=1")
	}
	p.char(')')
	if len(late) > 0 && !p.loose {
		p.declare(fi, func() {
			for i, v := range late {
				if i > 0 {
					p.str(", ")
				}
				p.str(p.vars[v].name)
			}
			p.str(" = ")
			for i, v := range late {
				if i > 0 {
					p.str(", ")
				}
				p.varCreation(v)
			}
		})
	}
}

// defaultAlign is TVM's kAllocAlignment, in bytes.
const defaultAlign = 64

// countVar counts the uses of a variable in a buffer's fields.
func countVar(b *ir.Buffer, v *ir.Var) int {
	n := 0
	count := func(e ir.Expr) bool {
		if e == ir.Expr(v) {
			n++
		}
		return true
	}
	if b.Data == v {
		n++
	}
	for _, e := range b.Shape {
		ir.WalkExpr(e, count)
	}
	for _, e := range b.Strides {
		ir.WalkExpr(e, count)
	}
	ir.WalkExpr(b.ElemOffset, count)
	return n
}

// finish ends the text: the note on what is hidden, and one newline.
func (p *printer) finish() {
	p.insertAll()
	n := len(p.out)
	for n > 0 && p.out[n-1] == '\n' {
		n--
	}
	p.out = append(p.out[:n], '\n')
	if p.hidden {
		p.str("\n" + metadataNote + "\n")
	}
}
