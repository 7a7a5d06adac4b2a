package script

import (
	"lowertrace/internal/ir"
)

func (p *printer) module(m *ir.IRModule) {
	if m.Bare {
		p.str("# from tvm.script import tirx as T\n\n")
		for i, f := range m.Funcs {
			if i > 0 {
				p.end()
			}
			p.function(f, 0)
		}
		p.finish()
		return
	}
	p.names["Module"] = true
	p.str("# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n")
	for i, f := range m.Funcs {
		if i > 0 {
			p.end()
		}
		p.function(f, indentWidth)
	}
	if len(m.Funcs) == 0 {
		p.str("    pass\n")
	}
	p.finish()
}

// isSimpleBuffer reports buffers that a parameter's annotation says all of.
func isSimpleBuffer(b *ir.Buffer) bool {
	if len(b.Strides) > 0 || b.Scope() != "global" || b.Align != 0 && b.Align != defaultAlign {
		return false
	}
	if b.ElemOffset != nil && !ir.IsConst(b.ElemOffset, 0) {
		return false
	}
	for _, e := range b.Shape {
		if ir.UsesVar(e, func(*ir.Var) bool { return true }) {
			return false
		}
	}
	return true
}

func (p *printer) function(f *ir.PrimFunc, indent int) {
	p.fn, p.uses = f, nil
	p.push(nil, partBody, indent)
	p.str(blanksFor(indent))
	p.str("@T.prim_func")
	if f.Private {
		p.str("(private=True)")
	}
	p.end()
	if p.marks != nil {
		p.marks = append(p.marks, mark{len(p.out), p.lineOf(f.Org)})
	}
	p.indent(indent)
	p.str("def ")
	p.str(f.Name)
	p.char('(')
	top := p.top()
	top.indent = indent + indentWidth
	inlined := map[*ir.Buffer]bool{}
	for i, v := range f.Params {
		if i > 0 {
			p.str(", ")
		}
		if b := f.BufferOf(v); b != nil && isSimpleBuffer(b) && p.onlyHandle(f, v, b) {
			p.str(p.defineBuffer(b, p.top()))
			p.defineVia(b.Data, p.top(), spelling{buf: b, via: viaData})
			inlined[b] = true
			p.str(": T.Buffer(")
			p.tuple(b.Shape)
			p.str(`, "`)
			p.str(b.Type.Quoted())
			p.str(`")`)
			continue
		}
		p.str(p.defineVar(v, p.top()).name)
		p.str(": ")
		p.varType(v)
	}
	p.char(')')
	if !f.Ret.IsVoid() {
		p.str(" -> T.")
		p.str(f.Ret.String())
	}
	p.str(":\n")
	p.top().start = len(p.out)
	start := len(p.out)
	if f.Attrs.Len() > 0 {
		p.line(ir.Span{})
		p.str("T.func_attr(")
		p.dict(f.Attrs)
		p.str(")\n")
	}
	for _, v := range f.Params {
		b := f.BufferOf(v)
		if b == nil || inlined[b] {
			continue
		}
		p.line(b.Org)
		name := p.defineBuffer(b, p.top())
		p.str(name)
		p.str(" = ")
		p.bufferCall("match_buffer", b, len(p.frames)-1, mayDefineAll, func() { p.varRef(v) })
		p.end()
	}
	if root := implicitRoot(f.Body); root != nil {
		p.line(ir.Span{})
		p.str("# " + rootComment + "\n")
		p.allocs(root)
		p.body(root.Body)
	} else {
		p.body(f.Body)
	}
	if len(p.out) == start {
		p.line(ir.Span{})
		p.str("pass\n")
	}
	p.pop()
	p.insertAll()
}

// onlyHandle reports that a parameter is mentioned as the handle of its buffer
// and nowhere else, and that no other parameter's buffer shares the memory.
func (p *printer) onlyHandle(f *ir.PrimFunc, v *ir.Var, b *ir.Buffer) bool {
	for _, m := range f.BufferMap {
		if m.Buffer != b && m.Buffer.Data == b.Data {
			return false
		}
	}
	used := false
	see := func(e ir.Expr) bool {
		used = used || e == ir.Expr(v)
		return !used
	}
	ir.WalkExprs(f.Body, see)
	return !used
}

// implicitRoot is the root block when it is shown as a comment only: it has
// nothing but allocations and a body in which there are blocks.
func implicitRoot(s ir.Stmt) *ir.SBlock {
	b, ok := s.(*ir.SBlock)
	if !ok || len(b.IterValues) > 0 || len(b.IterVars) > 0 || b.Predicate != nil || b.Annotations.Len() > 0 || len(b.MatchBuffers) > 0 ||
		len(b.Reads) > 0 || len(b.Writes) > 0 || b.Init != nil {
		return nil
	}
	if len(b.AllocBuffers) > 0 {
		return b
	}
	if in, ok := b.Body.(*ir.SBlock); ok {
		if len(in.IterVars) > 0 {
			return b
		}
		return nil
	}
	found := false
	ir.Walk(b.Body, func(s ir.Stmt) bool {
		if _, ok := s.(*ir.SBlock); ok {
			found = true
		}
		return !found
	})
	if found {
		return b
	}
	return nil
}

// body writes the statements of the innermost scope.
func (p *printer) body(s ir.Stmt) {
	if seq, ok := s.(*ir.SeqStmt); ok {
		for i, c := range seq.Seq {
			p.top().concise = i == len(seq.Seq)-1
			p.stmt(c)
		}
		return
	}
	if s != nil {
		p.top().concise = true
		p.stmt(s)
	}
}

// nested writes a body in a scope of its own, one step further in.
func (p *printer) nested(owner ir.Stmt, part uint8, s ir.Stmt) {
	p.push(owner, part, p.top().indent+indentWidth)
	p.nestedBody(s)
	p.pop()
}

func (p *printer) nestedBody(s ir.Stmt) {
	before := len(p.out)
	p.body(s)
	if len(p.out) == before {
		p.line(ir.Span{})
		p.str("pass\n")
	}
}

func (p *printer) stmt(s ir.Stmt) {
	switch s := s.(type) {
	case *ir.SeqStmt:
		p.body(s)
	case *ir.BufferStore:
		p.line(s.Org)
		p.bufRef(s.Buffer)
		if s.Predicate != nil {
			p.str(".vstore([")
			p.exprs(s.Indices)
			p.str("], ")
			p.expr(s.Value, precNone)
			p.str(", predicate=")
			p.expr(s.Predicate, precNone)
			p.str(")\n")
			return
		}
		// What the value declares comes before what the indices declare.
		value := p.scratch(func() { p.expr(s.Value, precNone) })
		p.indices(s.Indices)
		p.str(" = ")
		p.paste(value)
		p.end()
	case *ir.Evaluate:
		p.line(s.Org)
		if c, ok := s.Value.(*ir.Call); ok {
			if c.Op == opRet && len(c.Args) == 1 {
				p.str("return ")
				p.expr(c.Args[0], precNone)
			} else {
				p.call(c)
			}
		} else {
			p.str("T.evaluate(")
			p.expr(s.Value, precNone)
			p.char(')')
		}
		p.end()
	case *ir.Bind:
		p.bind(s)
	case *ir.AttrStmt:
		p.attrStmt(s)
	case *ir.For:
		p.forStmt(s)
	case *ir.IfThenElse:
		p.line(s.Org)
		p.str("if ")
		p.expr(s.Cond, precNone)
		p.str(":\n")
		p.nested(s, partThen, s.Then)
		if s.Else != nil {
			p.indent(p.top().indent)
			p.str("else:\n")
			p.nested(s, partElse, s.Else)
		}
	case *ir.While:
		p.line(s.Org)
		p.str("while ")
		p.expr(s.Cond, precNone)
		p.str(":\n")
		p.nested(s, partBody, s.Body)
	case *ir.Assert:
		p.line(s.Org)
		p.str("assert ")
		p.expr(s.Cond, precNone)
		p.str(", (")
		p.quoted(s.Kind)
		p.str(", [")
		p.exprs(s.Message)
		p.str("])\n")
	case *ir.AllocBuffer:
		p.alloc(s)
	case *ir.DeclBuffer:
		p.line(s.Org)
		// The name is taken after the fields, as in TVM's printer.
		fi := len(p.frames) - 1
		text := p.scratch(func() { p.bufferCall("decl_buffer", s.Buffer, fi, definesNothing) })
		p.str(p.defineBuffer(s.Buffer, p.top()))
		p.str(" = ")
		p.paste(text)
		p.end()
	case *ir.SBlock:
		p.sblock(s)
	}
}

func (p *printer) bind(s *ir.Bind) {
	p.line(s.Org)
	if _, ok := p.vars[s.Var]; ok {
		p.varRef(s.Var)
		p.str(" = ")
		p.expr(s.Value, precNone)
		p.end()
		return
	}
	// The value is written first: what it declares comes before the name.
	value := p.scratch(func() { p.expr(s.Value, precNone) })
	p.str(p.defineVar(s.Var, p.top()).name)
	p.str(": ")
	p.varType(s.Var)
	p.str(" = ")
	p.paste(value)
	p.end()
}

// alloc writes `A = T.alloc_buffer(shape, dtype, scope=..)`.
func (p *printer) alloc(s *ir.AllocBuffer) {
	p.line(s.Org)
	b := s.Buffer
	fi := len(p.frames) - 1
	if _, ok := p.vars[b.Data]; !ok {
		p.defineVia(b.Data, p.top(), spelling{buf: b, via: viaData})
	}
	text := p.scratch(func() {
		p.str("T.alloc_buffer(")
		for _, e := range b.Shape {
			if v, ok := e.(*ir.Var); ok {
				if _, known := p.vars[v]; !known && !p.loose {
					name := p.defineVar(v, &p.frames[fi]).name
					p.declare(fi, func() {
						p.str(name)
						p.str(" = ")
						p.varCreation(v)
					})
				}
			}
		}
		p.tuple(b.Shape)
		if b.Type != ir.DFloat32 {
			p.str(", ")
			p.quoted(b.Type.Quoted())
		}
		if p.vars[b.Data].buf != b { // not its own memory: unknown to TVM's text
			p.str(", data=")
			p.varRef(b.Data)
		}
		if len(b.Strides) > 0 {
			p.str(", strides=")
			p.tuple(b.Strides)
		}
		if b.ElemOffset != nil && !ir.IsConst(b.ElemOffset, 0) {
			p.str(", elem_offset=")
			p.expr(b.ElemOffset, precNone)
		}
		if scope := b.Scope(); scope != "global" {
			p.str(", scope=")
			p.quoted(scope)
		}
		if b.Align != 0 && b.Align != defaultAlign {
			p.str(", align=")
			p.int(int64(b.Align))
		}
		if s.Annotations.Len() > 0 {
			p.str(", annotations=")
			p.dict(s.Annotations)
		}
		p.char(')')
	})
	p.str(p.defineBuffer(b, p.top()))
	p.str(" = ")
	p.paste(text)
	p.end()
}

// attrStmt writes T.attr or T.launch_thread: flat when it is the last of its
// scope, else with a block.
func (p *printer) attrStmt(s *ir.AttrStmt) {
	concise := p.top().concise
	p.line(s.Org)
	var define *ir.Var
	head := p.scratch(func() {
		if iv, ok := s.Node.(*ir.IterVar); ok && s.Key == ir.KeyThreadExtent {
			define = p.launch(s, iv)
			return
		}
		p.str("T.attr(")
		p.attr(s.Node)
		p.str(", ")
		p.quoted(s.Key)
		p.str(", ")
		p.attr(s.Value)
		p.char(')')
	})
	indent := p.top().indent
	if !concise {
		p.str("with ")
		indent += indentWidth
	}
	p.push(s, partBody, indent)
	name := ""
	if define != nil {
		name = p.defineVar(define, p.top()).name
	}
	switch {
	case concise && name != "":
		p.str(name)
		p.str(" = ")
		p.paste(head)
	case name != "":
		p.paste(head)
		p.str(" as ")
		p.str(name)
		p.char(':')
	case concise:
		p.paste(head)
	default:
		p.paste(head)
		p.char(':')
	}
	p.end()
	p.top().start = len(p.out)
	if concise {
		p.body(s.Body)
	} else {
		p.nestedBody(s.Body)
	}
	p.pop()
}

// launch writes T.launch_thread(..) and returns the variable it defines, nil
// if that is defined elsewhere.
func (p *printer) launch(s *ir.AttrStmt, iv *ir.IterVar) *ir.Var {
	var define *ir.Var
	p.str("T.launch_thread(")
	if _, known := p.vars[iv.Var]; known || iv.Tag == "" {
		p.varRef(iv.Var)
	} else if p.loose || p.coversUses(s, iv.Var) {
		p.quoted(iv.Tag)
		define = iv.Var
	} else {
		fi := p.place(p.useTree().vars[iv.Var])
		name := p.defineVar(iv.Var, &p.frames[fi]).name
		p.declare(fi, func() {
			p.str(name)
			p.str(" = T.env_thread(")
			p.quoted(iv.Tag)
			p.char(')')
		})
		p.varRef(iv.Var)
	}
	p.str(", ")
	p.attr(s.Value)
	p.char(')')
	return define
}

// coversUses reports whether a variable is used within a statement only.
func (p *printer) coversUses(s ir.Stmt, v *ir.Var) bool {
	t := p.useTree()
	n, ok := t.vars[v]
	if !ok {
		return true
	}
	for want := t.stmts[s]; n >= 0; n = t.parent[n] {
		if n == want {
			return true
		}
	}
	return false
}

func (p *printer) forStmt(s *ir.For) {
	p.line(s.Org)
	p.push(s, partBody, p.top().indent+indentWidth)
	p.top().start = p.frames[len(p.frames)-2].start
	depth := len(p.loops)
	p.str("for ")
	if n := gridDepth(s); n > 1 {
		loop := s
		heads := p.scratch(func() {
			for i := range n {
				if i > 0 {
					p.str(", ")
				}
				p.defineVar(loop.Var, p.top())
				p.expr(loop.Extent, precNone)
				p.loops = append(p.loops, loop)
				if i+1 < n {
					loop = loop.Body.(*ir.For)
				}
			}
		})
		for i, l := range p.loops[depth:] {
			if i > 0 {
				p.str(", ")
			}
			p.str(p.defineVar(l.Var, p.top()).name)
		}
		p.str(" in T.grid(")
		p.paste(heads)
		p.str("):\n")
		p.top().start = len(p.out)
		p.nestedBody(loop.Body)
	} else {
		p.loops = append(p.loops, s)
		p.str(p.defineVar(s.Var, p.top()).name)
		p.str(" in ")
		p.loopHead(s)
		p.str(":\n")
		p.top().start = len(p.out)
		p.nestedBody(s.Body)
	}
	p.loops = p.loops[:depth]
	p.pop()
}

func plainSerial(s *ir.For) bool {
	return s.Kind == ir.Serial && ir.IsConst(s.Min, 0) && s.Annotations.Len() == 0 && s.Step == nil
}

// gridDepth is the number of loops that go into one T.grid.
func gridDepth(s *ir.For) int {
	n := 0
	var vars []*ir.Var
	for l := s; plainSerial(l); {
		if len(vars) > 0 && ir.UsesVar(l.Extent, func(v *ir.Var) bool {
			for _, u := range vars {
				if u == v {
					return true
				}
			}
			return false
		}) {
			break
		}
		n++
		vars = append(vars, l.Var)
		next, ok := l.Body.(*ir.For)
		if !ok {
			break
		}
		l = next
	}
	return n
}

func (p *printer) loopHead(s *ir.For) {
	if s.Kind == ir.Serial && s.Annotations.Len() == 0 {
		p.str("range(")
	} else {
		p.str("T.")
		p.str(s.Kind.String())
		p.char('(')
	}
	if ir.IsConst(s.Min, 0) && s.Step == nil {
		p.expr(s.Extent, precNone)
	} else {
		p.expr(s.Min, precNone)
		p.str(", ")
		p.expr(plus(s.Min, s.Extent), precNone)
	}
	if s.Step != nil && s.Kind == ir.Serial && s.Annotations.Len() == 0 {
		p.str(", ")
		p.expr(s.Step, precNone)
	}
	if s.Kind == ir.ThreadBinding {
		p.str(", thread=")
		p.quoted(s.Thread)
	}
	if n := s.Annotations.Len(); n > 0 {
		switch {
		case n == 1 && s.Annotations.Get("disable_unroll") != nil:
			p.str(", unroll=False")
		case n == 1 && s.Annotations.Get("pragma_unroll") != nil:
			p.str(", unroll=")
			p.attr(s.Annotations.Get("pragma_unroll"))
		default:
			p.str(", annotations=")
			p.dict(s.Annotations)
		}
	}
	if s.Step != nil && !(s.Kind == ir.Serial && s.Annotations.Len() == 0) {
		p.str(", step=")
		p.expr(s.Step, precNone)
	}
	p.char(')')
}

func (p *printer) allocs(s *ir.SBlock) {
	for _, b := range s.AllocBuffers {
		p.line(b.Org)
		p.str(p.defineBuffer(b, p.top()))
		p.str(" = ")
		p.bufferCall("sblock_alloc_buffer", b, len(p.frames)-1, mayDefineData)
		p.end()
	}
}

func (p *printer) regions(how string, list []ir.BufferRegion, org ir.Span) {
	p.line(org)
	p.str("T.")
	p.str(how)
	p.char('(')
	for i := range list {
		if i > 0 {
			p.str(", ")
		}
		p.region(&list[i])
	}
	p.str(")\n")
}

func (p *printer) region(r *ir.BufferRegion) {
	p.bufRef(r.Buffer)
	if len(r.Region) == 0 {
		p.str("[()]")
		return
	}
	p.char('[')
	for i, d := range r.Region {
		if i > 0 {
			p.str(", ")
		}
		p.expr(d.Min, precNone)
		if !ir.IsConst(d.Extent, 1) {
			p.char(':')
			p.expr(plus(d.Min, d.Extent), precNone)
		}
	}
	p.char(']')
}

func (p *printer) sblock(s *ir.SBlock) {
	p.line(s.Org)
	p.str("with T.sblock(")
	p.quoted(s.Name)
	p.str("):\n")
	p.push(s, partBody, p.top().indent+indentWidth)
	p.axes(s)
	if s.Predicate != nil {
		p.line(ir.Span{})
		p.str("T.where(")
		p.expr(s.Predicate, precNone)
		p.str(")\n")
	}
	p.regions("reads", s.Reads, s.Org)
	p.regions("writes", s.Writes, s.Org)
	if s.Annotations.Len() > 0 {
		p.line(ir.Span{})
		p.str("T.sblock_attr(")
		p.dict(s.Annotations)
		p.str(")\n")
	}
	p.allocs(s)
	for i := range s.MatchBuffers {
		m := &s.MatchBuffers[i]
		p.line(m.Buffer.Org)
		p.str(p.defineBuffer(m.Buffer, p.top()))
		p.str(" = ")
		p.bufferCall("match_buffer", m.Buffer, len(p.frames)-1, mayDefineAll, func() { p.region(&m.Source) })
		p.end()
	}
	if s.Init != nil {
		p.line(ir.Span{})
		p.str("with T.init():\n")
		p.nested(s, partInit, s.Init)
	}
	p.body(s.Body)
	p.pop()
}

// axes writes the axes of a block; those that are the variables of enclosing
// loops, two in a row or more, as T.axis.remap.
func (p *printer) axes(s *ir.SBlock) {
	remaps := func(i int) bool {
		iv := s.IterVars[i]
		v, ok := s.IterValues[i].(*ir.Var)
		if !ok || iv.Kind != ir.DataPar && iv.Kind != ir.CommReduce {
			return false
		}
		for _, l := range p.loops {
			if l.Var == v {
				return equal(l.Min, iv.Dom.Min) && equal(l.Extent, iv.Dom.Extent)
			}
		}
		return false
	}
	for i := 0; i < len(s.IterVars); {
		j := i
		for j < len(s.IterVars) && remaps(j) {
			j++
		}
		p.line(ir.Span{})
		if j-i < 2 {
			p.axis(s.IterVars[i], s.IterValues[i])
			i++
			continue
		}
		kinds := make([]byte, 0, j-i)
		for k := i; k < j; k++ {
			if k > i {
				p.str(", ")
			}
			p.str(p.defineVar(s.IterVars[k].Var, p.top()).name)
			if s.IterVars[k].Kind == ir.DataPar {
				kinds = append(kinds, 'S')
			} else {
				kinds = append(kinds, 'R')
			}
		}
		p.str(" = T.axis.remap(")
		p.quoted(string(kinds))
		p.str(", [")
		p.exprs(s.IterValues[i:j])
		p.str("])\n")
		i = j
	}
}

var axisNames = [...]string{ir.DataPar: "spatial", ir.CommReduce: "reduce", ir.OpaqueIter: "opaque", ir.ThreadIndex: "spatial"}

func (p *printer) axis(iv *ir.IterVar, value ir.Expr) {
	text := p.scratch(func() {
		p.str("T.axis.")
		p.str(axisNames[iv.Kind])
		p.char('(')
		if ir.IsConst(iv.Dom.Min, 0) {
			p.expr(iv.Dom.Extent, precNone)
		} else {
			p.tuple([]ir.Expr{iv.Dom.Min, plus(iv.Dom.Min, iv.Dom.Extent)})
		}
		p.str(", ")
		p.expr(value, precNone)
		p.char(')')
	})
	p.str(p.defineVar(iv.Var, p.top()).name)
	p.str(" = ")
	p.paste(text)
	p.end()
}
