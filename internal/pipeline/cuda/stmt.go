package cuda

import (
	"fmt"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
)

// block prints statements in a scope the caller has opened.
func (g *gen) block(s ir.Stmt) {
	list := ir.Stmts(s)
	for i, c := range list {
		g.stmt(c, i == len(list)-1)
	}
}

// body prints a body after an opening line that ends in "{", and leaves the
// closing line to the caller.
func (g *gen) body(s ir.Stmt) {
	g.indent++
	g.push()
	g.block(s)
	g.pop()
	g.indent--
}

func (g *gen) push() { g.names.push() }

// pop ends a scope, and with it what was never declared there.
func (g *gen) pop() {
	g.names.pop()
	for n := len(g.pending); n > 0 && g.pending[n-1].scope > len(g.names.stack); n-- {
		g.pending = g.pending[:n-1]
	}
}

// stmt prints a statement; last says that the scope it is in ends after it.
func (g *gen) stmt(s ir.Stmt, last bool) {
	at := g.at
	switch s := s.(type) {
	case *ir.SeqStmt:
		g.block(s)
		return
	case *ir.AttrStmt, *ir.AllocBuffer, *ir.DeclBuffer:
	case *ir.BufferStore:
		g.quote(s)
		if g.declare(s) {
			g.at = at
			return
		}
	default:
		g.quote(s)
		if g.declare(s) {
			g.at = at
			return
		}
	}
	switch s := s.(type) {
	case *ir.AttrStmt:
		g.attr(s, last)
	case *ir.Bind:
		g.bind(s)
	case *ir.For:
		g.loop(s)
	case *ir.While:
		g.emit("while (%s) {", g.expr(s.Cond).s)
		g.body(s.Body)
		g.emit("}")
	case *ir.IfThenElse:
		g.branch(s, "")
	case *ir.BufferStore:
		g.store(s)
	case *ir.Evaluate:
		g.evaluate(s)
	case *ir.AllocBuffer:
		g.alloc(s)
	case *ir.DeclBuffer:
		// A view: its accesses go through the pointer it views.
	case *ir.Assert:
		g.fail("an assertion of the host in device code")
	default:
		g.at = s.Origin()
		g.fail("%T must be lowered before code generation", s)
	}
	g.at = at
}

func (g *gen) branch(s *ir.IfThenElse, lead string) {
	g.emit("%sif (%s) {", lead, g.expr(s.Cond).s)
	g.body(s.Then)
	switch e := s.Else.(type) {
	case nil:
		g.emit("}")
	case *ir.IfThenElse:
		g.branch(e, "} else ")
	default:
		g.emit("} else {")
		g.body(e)
		g.emit("}")
	}
}

func (g *gen) attr(s *ir.AttrStmt, last bool) {
	switch s.Key {
	case ir.KeyLexicalAllocScope:
		if last || !declares(s.Body) {
			break
		}
		g.declareOuter(s)
		g.emit("{")
		g.body(s.Body)
		g.emit("}")
		return
	case "pragma_unroll_factor":
		if v, ok := s.Node.(*ir.Var); ok {
			if n, ok := ir.AttrInt(s.Value); ok && n > 0 {
				g.unroll[v] = n
			}
		}
	}
	g.block(s.Body)
}

// declares reports declarations directly in a body, which end with it.
func declares(s ir.Stmt) bool {
	for _, c := range ir.Stmts(s) {
		switch c := c.(type) {
		case *ir.Bind:
			return true
		case *ir.AllocBuffer:
			if !strings.HasPrefix(c.Buffer.Scope(), "shared") {
				return true
			}
		case *ir.AttrStmt:
			if declares(c.Body) {
				return true
			}
		}
	}
	return false
}

func (g *gen) bind(s *ir.Bind) {
	switch v := s.Value.(type) {
	case *ir.IntImm, *ir.FloatImm:
		// A named constant reads better where it is used.
		g.inline[s.Var] = v
		return
	}
	if !g.facts.used[s.Var] && ir.SideEffect(s.Value) <= ir.ReadState {
		return
	}
	if s.Var.Type.IsHandle() {
		g.pointer(s)
		return
	}
	t := g.pre.typ(g.ctype(s.Var.Type))
	value := g.expr(s.Value).s
	name := g.names.fresh(s.Var.Name)
	g.vars[s.Var] = variable{name: name}
	g.statement("const " + t + " " + name + " = " + value + ";")
}

// pointer declares a pointer into an array, usually a buffer's place in
// dynamic shared memory.
func (g *gen) pointer(s *ir.Bind) {
	if s.Var.Ptr == nil {
		g.fail("pointer %s has no element type", s.Var.Name)
	}
	value := g.expr(s.Value)
	t := g.pre.typ(g.ctype(s.Var.Ptr.Elem))
	name := g.names.fresh(s.Var.Name)
	g.vars[s.Var] = variable{name: name, elem: s.Var.Ptr.Elem}
	g.emit("%s* const %s = (%s*)%s;", t, name, t, value.in(precUnary))
}

// A loop that asks to be unrolled is unrolled in full up to maxUnroll
// iterations: more than a thread has registers (255) cannot keep an array in
// them, and takes the compiler seconds. Longer loops are unrolled by
// longUnroll.
const (
	maxUnroll  = 256
	longUnroll = 8
)

func (g *gen) loop(s *ir.For) {
	switch s.Kind {
	case ir.Vectorized:
		g.fail("a vectorized loop: VectorizeLoop must run first")
	case ir.ThreadBinding:
		g.fail("a loop bound to threads must be lowered before code generation")
	}
	factor, byFactor := g.unroll[s.Var]
	if n, ok := ir.AttrInt(annotation(s, "pragma_unroll_factor")); ok && n > 0 {
		factor, byFactor = n, true
	}
	switch {
	case byFactor:
		g.emit("#pragma unroll %d", factor)
	case s.Kind == ir.Unrolled:
		if n, ok := ir.AsInt(s.Extent); ok && n > maxUnroll {
			g.emit("#pragma unroll %d", longUnroll)
		} else {
			g.emit("#pragma unroll")
		}
	}
	from := g.expr(s.Min).s
	to := g.expr(ir.NewBinary(ir.Add, s.Min, s.Extent)).in(precShift)
	g.push()
	name := g.names.fresh(s.Var.Name)
	g.vars[s.Var] = variable{name: name}
	step := "++" + name
	if s.Step != nil && !ir.IsConst(s.Step, 1) {
		step = name + " += " + g.expr(s.Step).s
	}
	g.emit("for (%s %s = %s; %s < %s; %s) {", g.ctype(s.Var.Type).name, name, from, name, to, step)
	g.indent++
	g.block(s.Body)
	g.indent--
	g.pop()
	g.emit("}")
}

func annotation(s *ir.For, key string) ir.Attr {
	if s.Annotations == nil {
		return nil
	}
	return s.Annotations.Get(key)
}

// maxRegisterBytes bounds a thread's array: the local memory of a thread.
const maxRegisterBytes = 512 << 10

func (g *gen) alloc(s *ir.AllocBuffer) {
	b := s.Buffer
	if strings.HasPrefix(b.Scope(), "shared") {
		return // declared at the top of the kernel
	}
	if !g.facts.used[b.Data] {
		return
	}
	g.at = s.Org
	if !strings.HasPrefix(b.Scope(), "local") {
		g.fail("%s is in %s memory, which a kernel cannot allocate", b.Name, b.Scope())
	}
	n := int64(1)
	for _, d := range b.Shape {
		v, ok := ir.AsInt(d)
		if !ok || v < 1 || v > maxRegisterBytes {
			g.fail("the size of %s must be a constant of at most %d", b.Name, maxRegisterBytes)
		}
		if n *= v; n*int64(b.Type.Bytes()) > maxRegisterBytes {
			g.fail("%s takes more than %d bytes of a thread's memory", b.Name, maxRegisterBytes)
		}
	}
	g.pending = append(g.pending, pendingArray{b, n, len(g.names.stack)})
}

// pendingArray is an allocation whose declaration waits for the first
// statement of its scope that uses it.
type pendingArray struct {
	b     *ir.Buffer
	n     int64
	scope int // depth of the scope it belongs to
}

// declare prints the declarations that a statement needs. The store that
// initialises a variable becomes part of its declaration, and true is
// returned.
func (g *gen) declare(s ir.Stmt) bool {
	if len(g.pending) == 0 {
		return false
	}
	used := mentions(s)
	var wait []pendingArray
	merged := false
	for _, p := range g.pending {
		if used[p.b.Data] == 0 {
			wait = append(wait, p)
			continue
		}
		t := g.pre.typ(g.ctype(p.b.Type))
		name := g.names.fresh(p.b.Name)
		if p.n > 1 {
			g.vars[p.b.Data] = variable{name: name, elem: p.b.Type, array: true}
			align := ""
			if a := g.facts.align[p.b.Data]; a > vecAlign(p.b.Type.Bytes()) {
				align = fmt.Sprintf("__align__(%d) ", a)
			}
			g.emit("%s%s %s[%d];", align, t, name, p.n)
			continue
		}
		g.vars[p.b.Data] = variable{name: name, elem: p.b.Type, single: true}
		if st, ok := s.(*ir.BufferStore); ok && p.scope == len(g.names.stack) && initialises(st, p.b) {
			g.emit("%s %s = %s;", t, name, g.expr(st.Value).s)
			merged = true
			continue
		}
		if ev, ok := s.(*ir.Evaluate); ok && p.scope == len(g.names.stack) {
			if c, ok := ir.IsCall(ev.Value, "initialize_wgmma_descriptor"); ok && len(c.Args) == 5 {
				if l, ok := c.Args[0].(*ir.BufferLoad); ok && l.Buffer.Data == p.b.Data {
					g.emit("%s %s;", t, g.call(c).s)
					merged = true
					continue
				}
			}
		}
		g.emit("%s %s;", t, name)
	}
	g.pending = wait
	return merged
}

// declareOuter prints, before a scope in braces opens, the declarations of
// arrays that the scope uses first and that statements after it use as well.
// What no other statement uses waits for its statement in the scope.
func (g *gen) declareOuter(s *ir.AttrStmt) {
	if len(g.pending) == 0 {
		return
	}
	used := mentions(s)
	var outer, inner []pendingArray
	for _, p := range g.pending {
		if n := used[p.b.Data]; n > 0 && n < g.facts.mentions[p.b.Data] {
			outer = append(outer, p)
		} else {
			inner = append(inner, p)
		}
	}
	if len(outer) == 0 {
		return
	}
	g.quote(s)
	g.pending = outer
	g.declare(s)
	g.pending = inner
}

// mentions counts the places at which a statement mentions variables and the
// data pointers of buffers.
func mentions(s ir.Stmt) map[*ir.Var]int {
	n := map[*ir.Var]int{}
	mention := func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Var:
			n[e]++
		case *ir.BufferLoad:
			n[e.Buffer.Data]++
		}
		return true
	}
	ir.Walk(s, func(s ir.Stmt) bool {
		if st, ok := s.(*ir.BufferStore); ok {
			n[st.Buffer.Data]++
		}
		ir.StmtExprs(s, mention)
		return true
	})
	return n
}

// initialises reports a plain store to a one-element buffer whose value does
// not read it.
func initialises(s *ir.BufferStore, b *ir.Buffer) bool {
	if s.Buffer.Data != b.Data || s.Buffer.Type != b.Type || s.Predicate != nil || len(s.Indices) != 1 || !ir.IsConst(s.Indices[0], 0) {
		return false
	}
	reads := false
	ir.WalkExpr(s.Value, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			reads = reads || e.Buffer.Data == b.Data
		case *ir.Var:
			reads = reads || e == b.Data
		}
		return true
	})
	return !reads
}

func (g *gen) store(s *ir.BufferStore) {
	if s.Predicate != nil {
		g.emit("if (%s) {", g.expr(s.Predicate).s)
		g.indent++
		g.storeValue(s)
		g.indent--
		g.emit("}")
		return
	}
	g.storeValue(s)
}

func (g *gen) storeValue(s *ir.BufferStore) {
	if idx, ok := scattered(s.Indices); ok {
		g.scatter(s, idx)
		return
	}
	if g.copy(s) {
		return
	}
	if g.readonly(s.Buffer.Data) {
		g.fail("a store to %s, which tl.readonly_param_indices lists", s.Buffer.Name)
	}
	target := g.element(s.Buffer, s.Indices, false)
	t := s.Value.DType()
	if op, rest, ok := update(s); ok {
		if one, isInt := rest.(*ir.IntImm); isInt && one.Value == 1 && t.IsInteger() && (op == "+" || op == "-") {
			g.statement(op + op + target.in(precUnary) + ";")
			return
		}
		g.statement(target.s + " " + op + "= " + g.expr(rest).s + ";")
		return
	}
	v := g.expr(s.Value)
	// Storing truncates as the cast of a narrow result does.
	if t.IsInteger() && t.IsScalar() && t.Bits < 32 {
		if b, ok := s.Value.(*ir.Binary); ok && !b.Op.IsComparison() {
			v.s = strings.TrimPrefix(v.s, "("+intNames[t]+")")
			if v.prec == precUnary && strings.HasPrefix(v.s, "(") && strings.HasSuffix(v.s, ")") {
				v.s = v.s[1 : len(v.s)-1]
			}
		}
	}
	g.statement(target.s + " = " + v.s + ";")
}

// update recognises x = x op y for types whose operators are built in.
func update(s *ir.BufferStore) (op string, rest ir.Expr, ok bool) {
	t := s.Value.DType()
	if !t.IsScalar() || isNarrow(t) {
		return "", nil, false
	}
	var a, b ir.Expr
	switch v := s.Value.(type) {
	case *ir.Binary:
		switch v.Op {
		case ir.Add, ir.Sub, ir.Mul, ir.Div:
			op, a, b = binaryTokens[v.Op], v.A, v.B
		}
	case *ir.Call:
		if v.Op != nil && len(v.Args) == 2 {
			op, a, b = bitTokens[v.Op.Name], v.Args[0], v.Args[1]
		}
	}
	if op == "" {
		return "", nil, false
	}
	l, isLoad := a.(*ir.BufferLoad)
	if !isLoad || l.Buffer.Data != s.Buffer.Data || l.Buffer.Type != s.Buffer.Type || l.Predicate != nil || len(l.Indices) != len(s.Indices) {
		return "", nil, false
	}
	for i, x := range l.Indices {
		if !arith.Equal(x, s.Indices[i]) || ir.SideEffect(x) > ir.ReadState {
			return "", nil, false
		}
	}
	return op, b, true
}

// copy prints a vector moved from memory to memory by a type of its size, so
// that no helper is needed for what is not computed with.
func (g *gen) copy(s *ir.BufferStore) bool {
	l, ok := s.Value.(*ir.BufferLoad)
	t := s.Value.DType()
	if !ok || t.Lanes == 1 || l.Predicate != nil || l.DType() != t {
		return false
	}
	if c, ok := ctypeOf(t); !ok || c.kind == builtinType {
		return false
	}
	if _, ok := scattered(l.Indices); ok {
		return false
	}
	if s.Buffer.Type.Lanes > 1 || l.Buffer.Type.Lanes > 1 {
		return false
	}
	name, ok := copyType(t.Bytes())
	if !ok {
		return false
	}
	src, ok := l.Indices[0].(*ir.Ramp)
	dst, ok2 := s.Indices[0].(*ir.Ramp)
	if !ok || !ok2 {
		return false
	}
	sb, _ := g.base(l.Buffer)
	db, _ := g.base(s.Buffer)
	from := name
	if g.readonly(l.Buffer.Data) {
		from = "const " + name
	}
	g.statement(fmt.Sprintf("*(%s*)%s = *(%s*)%s;", name, g.address(db, dst.Base).in(precUnary), from, g.address(sb, src.Base).in(precUnary)))
	return true
}

// scatter prints a store whose lanes go to places that are not adjacent.
func (g *gen) scatter(s *ir.BufferStore, idx []ir.Expr) {
	t := g.ctype(s.Value.DType())
	g.pre.access(t)
	b, isSplat := s.Value.(*ir.Broadcast)
	if isSplat && b.Value.DType().Lanes == 1 {
		v := g.expr(b.Value).s
		for _, x := range idx {
			g.emit("%s = %s;", g.element(s.Buffer, []ir.Expr{x}, false).s, v)
		}
		return
	}
	g.emit("{")
	g.indent++
	g.names.push()
	v := g.names.fresh("lanes")
	g.emit("const %s %s = %s;", t.name, v, g.expr(s.Value).s)
	for i, x := range idx {
		g.emit("%s = %s;", g.element(s.Buffer, []ir.Expr{x}, false).s, t.lane(v, i))
	}
	g.names.pop()
	g.indent--
	g.emit("}")
}

func (g *gen) evaluate(s *ir.Evaluate) {
	switch v := s.Value.(type) {
	case *ir.IntImm, *ir.Var:
		return // no effect
	case *ir.Call:
		g.statement(g.call(v).s + ";")
		return
	}
	if ir.SideEffect(s.Value) > ir.ReadState {
		g.emit("%s;", g.expr(s.Value).s)
	}
}
