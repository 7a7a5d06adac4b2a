package tilelang

import (
	"cmp"
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// ctl says how a statement ended.
type ctl uint8

const (
	ctlNext ctl = iota
	ctlBreak
	ctlContinue
	ctlReturn
)

// runBody runs the body of a function.
func (in *interp) runBody(f *frame, body []syntax.Stmt) { in.block(f, body) }

// block runs statements in order. In a kernel body a failed statement is
// reported, its targets become unknown, and the next one is tried, so that
// several mistakes are told at once.
func (in *interp) block(f *frame, body []syntax.Stmt) ctl {
	for _, s := range body {
		if in.dry && in.b == nil {
			if c := in.dryStmt(f, s); c != ctlNext {
				return c
			}
			continue
		}
		if !f.dsl || in.b == nil {
			if c := in.stmt(f, s); c != ctlNext {
				return c
			}
			continue
		}
		var c ctl
		depth := len(in.b.frames)
		if fl := in.try(func() { c = in.stmt(f, s) }); fl != nil {
			if fl.limit || in.diags.Full() {
				panic(fl)
			}
			in.b.unwind(depth)
			in.b.failed = true
			in.report(fl)
			in.poison(f, s, fl)
			continue
		}
		if c != ctlNext {
			return c
		}
	}
	return ctlNext
}

// dryStmt runs a statement of test code for the calls in it: failures are
// passed over, and of a branch that depends on something unknown both sides
// are run.
func (in *interp) dryStmt(f *frame, s syntax.Stmt) (c ctl) {
	fl := in.try(func() { c = in.stmt(f, s) })
	if fl == nil {
		return c
	}
	if fl.limit {
		panic(fl)
	}
	in.poison(f, s, fl)
	if x, ok := s.(*syntax.If); ok {
		unknownCond := in.try(func() { in.truth(in.eval(f, x.Cond)) }) != nil
		if unknownCond {
			in.block(f, x.Then)
			in.block(f, x.Else)
		}
	}
	return ctlNext
}

// poison makes the names that a failed statement assigns unknown.
func (in *interp) poison(f *frame, s syntax.Stmt, why *failure) {
	var set func(e syntax.Expr)
	set = func(e syntax.Expr) {
		switch e := e.(type) {
		case *syntax.Name:
			f.target(in, e.ID).vars[e.ID] = &unknown{what: e.ID, why: why, at: in.file.SpanOf(e)}
		case *syntax.Tuple:
			for _, x := range e.Elts {
				set(x)
			}
		case *syntax.List:
			for _, x := range e.Elts {
				set(x)
			}
		case *syntax.Starred:
			set(e.X)
		}
	}
	bind := func(name string, at syntax.Node) {
		f.target(in, name).vars[name] = &unknown{what: name, why: why, at: in.file.SpanOf(at)}
	}
	var stmts func(list []syntax.Stmt)
	one := func(s syntax.Stmt) {
		switch s := s.(type) {
		case *syntax.Assign:
			for _, t := range s.Targets {
				set(t)
			}
		case *syntax.AugAssign:
			set(s.Target)
		case *syntax.AnnAssign:
			set(s.Target)
		case *syntax.FuncDef:
			f.target(in, s.Name).vars[s.Name] = &unknown{what: s.Name, why: why, at: in.file.Span(s.NameLoc)}
		case *syntax.ClassDef:
			f.target(in, s.Name).vars[s.Name] = &unknown{what: s.Name, why: why, at: in.file.Span(s.NameLoc)}
		case *syntax.For:
			set(s.Target)
			stmts(s.Body)
			stmts(s.Else)
		case *syntax.While:
			stmts(s.Body)
			stmts(s.Else)
		case *syntax.If:
			stmts(s.Then)
			stmts(s.Else)
		case *syntax.With:
			for _, it := range s.Items {
				if it.Target != nil {
					set(it.Target)
				}
			}
			stmts(s.Body)
		case *syntax.Try:
			stmts(s.Body)
		case *syntax.Import:
			for _, a := range s.Names {
				name := a.As
				if name == "" {
					name, _, _ = strings.Cut(a.Name, ".")
				}
				bind(name, s)
			}
		case *syntax.ImportFrom:
			for _, a := range s.Names {
				bind(cmp.Or(a.As, a.Name), s)
			}
		}
	}
	stmts = func(list []syntax.Stmt) {
		for _, s := range list {
			one(s)
		}
	}
	// What a block set before it failed is kept: only what it would have bound
	// besides is unknown. Of a loop or branch nothing is known: its next turn, or the
	// branch not taken, would have set it anew.
	switch s.(type) {
	case *syntax.With, *syntax.Try:
		before := map[string]value{}
		for k, v := range f.vars {
			before[k] = v
		}
		one(s)
		for k, v := range before {
			if u, ok := f.vars[k].(*unknown); ok && u.why == why {
				f.vars[k] = v
			}
		}
	default:
		one(s)
	}
}

// stmt runs one statement.
func (in *interp) stmt(f *frame, s syntax.Stmt) ctl {
	in.at = s.Range()
	in.step()
	if in.b != nil && f.dsl {
		in.b.org = in.file.Span(headerOf(s))
	}
	switch s := s.(type) {
	case *syntax.ExprStmt:
		v := in.eval(f, s.X)
		in.at = s.Loc
		if f.dsl && in.b != nil {
			in.b.evalStmt(in, v)
		}
	case *syntax.Assign:
		in.assignStmt(f, s)
	case *syntax.AugAssign:
		in.augAssign(f, s)
	case *syntax.AnnAssign:
		in.annAssign(f, s)
	case *syntax.Return:
		v := value(none)
		if s.Value != nil {
			v = in.eval(f, s.Value)
		}
		in.at = s.Loc
		if f.dsl && in.b != nil {
			v = in.b.ret(in, v)
		}
		f.ret = v
		return ctlReturn
	case *syntax.If:
		return in.ifStmt(f, s)
	case *syntax.For:
		return in.forStmt(f, s)
	case *syntax.While:
		return in.whileStmt(f, s)
	case *syntax.With:
		return in.withStmt(f, s)
	case *syntax.FuncDef:
		in.defStmt(f, s)
	case *syntax.ClassDef:
		in.classStmt(f, s)
	case *syntax.Assert:
		in.assertStmt(f, s)
	case *syntax.Import:
		for _, a := range s.Names {
			in.importModule(f, a)
		}
	case *syntax.ImportFrom:
		in.importFrom(f, s)
	case *syntax.Global:
		for _, n := range s.Names {
			m := &f.globals
			if s.Nonlocal {
				m = &f.nonlocal
			}
			if *m == nil {
				*m = map[string]bool{}
			}
			(*m)[n] = true
		}
	case *syntax.Delete:
		for _, t := range s.Targets {
			in.deleteTarget(f, t)
		}
	case *syntax.Raise:
		in.raise(f, s)
	case *syntax.Try:
		return in.tryStmt(f, s)
	case *syntax.Match:
		return in.matchStmt(f, s)
	case *syntax.Simple:
		switch s.Kind {
		case syntax.Break:
			if f.dsl && in.b != nil && !in.b.pythonLoop(in) {
				in.b.loopExit(in, "break_loop")
				return ctlNext
			}
			return ctlBreak
		case syntax.Continue:
			if f.dsl && in.b != nil && !in.b.pythonLoop(in) {
				in.b.loopExit(in, "continue_loop")
				return ctlNext
			}
			return ctlContinue
		}
	default:
		panic(in.errorf("this statement is not supported"))
	}
	return ctlNext
}

// headerOf is the part of a statement that IR made of it points to: the
// statement, without its body.
func headerOf(s syntax.Stmt) syntax.Loc {
	loc := s.Range()
	cut := func(n syntax.Node) syntax.Loc {
		if n != nil {
			loc.End = n.Range().End
		}
		return loc
	}
	switch s := s.(type) {
	case *syntax.If:
		return cut(s.Cond)
	case *syntax.For:
		return cut(s.Iter)
	case *syntax.While:
		return cut(s.Cond)
	case *syntax.With:
		if n := len(s.Items); n > 0 {
			if t := s.Items[n-1].Target; t != nil {
				return cut(t)
			}
			return cut(s.Items[n-1].Context)
		}
	}
	return loc
}

func (in *interp) assignStmt(f *frame, s *syntax.Assign) {
	v := in.eval(f, s.Value)
	for _, t := range s.Targets {
		in.at = t.Range()
		if _, ok := t.(*syntax.Index); ok {
			in.at = s.Value.Range() // what is wrong with a store is its value
		}
		in.assign(f, t, v)
	}
	if f == in.main.globals {
		in.overrideModule(s)
	}
}

// assign gives a value to a target, in the way of the running mode.
func (in *interp) assign(f *frame, t syntax.Expr, v value) {
	if f.dsl && in.b != nil && !f.comp {
		in.b.assign(in, f, t, v)
		return
	}
	in.assignPlain(f, t, v)
}

func (in *interp) assignName(f *frame, name string, v value) {
	f.target(in, name).vars[name] = v
}

// assignPlain is Python's assignment.
func (in *interp) assignPlain(f *frame, t syntax.Expr, v value) {
	switch t := t.(type) {
	case *syntax.Name:
		if f.comp {
			f.vars[t.ID] = v
			return
		}
		in.assignName(f, t.ID, v)
	case *syntax.Tuple:
		in.unpack(t.Elts, v, func(x syntax.Expr, v value) { in.assignPlain(f, x, v) })
	case *syntax.List:
		in.unpack(t.Elts, v, func(x syntax.Expr, v value) { in.assignPlain(f, x, v) })
	case *syntax.Index:
		x := in.eval(f, t.X)
		i := in.evalIndex(f, t)
		in.at = t.Loc
		in.setIndex(x, i, v)
	case *syntax.Attr:
		x := in.eval(f, t.X)
		in.at = t.Loc
		in.setAttr(x, t.Name, v)
	case *syntax.Starred:
		in.assignPlain(f, t.X, v)
	default:
		panic(in.errorf("this cannot be assigned to").is("SyntaxError"))
	}
}

// unpack assigns the elements of a value to targets, one of which may be
// starred.
func (in *interp) unpack(targets []syntax.Expr, v value, set func(syntax.Expr, value)) {
	if u, ok := v.(*unknown); ok && u.why == nil {
		for _, t := range targets {
			set(t, in.derived(u, ""))
		}
		return
	}
	if t, ok := v.(*tensor); ok {
		v = &unknown{what: "a part of a tensor", at: t.at}
		in.unpack(targets, v, set)
		return
	}
	elts := in.iterate(v)
	star := -1
	for i, t := range targets {
		if _, ok := t.(*syntax.Starred); ok {
			star = i
		}
	}
	if star < 0 {
		if len(elts) != len(targets) {
			panic(in.errorf("%s unpacked into %s", diag.Count(len(elts), "value"), diag.Count(len(targets), "target")).is("ValueError"))
		}
		for i, t := range targets {
			set(t, elts[i])
		}
		return
	}
	after := len(targets) - star - 1
	if len(elts) < len(targets)-1 {
		panic(in.errorf("%s unpacked into at least %s", diag.Count(len(elts), "value"), diag.Count(len(targets)-1, "target")).is("ValueError"))
	}
	for i := range star {
		set(targets[i], elts[i])
	}
	mid := elts[star : len(elts)-after]
	in.cells(len(mid))
	set(targets[star].(*syntax.Starred).X, &list{append([]value(nil), mid...)})
	for i := range after {
		set(targets[star+1+i], elts[len(elts)-after+i])
	}
}

func (in *interp) augAssign(f *frame, s *syntax.AugAssign) {
	switch t := s.Target.(type) {
	case *syntax.Name:
		old, scope := f.lookup(t.ID)
		if scope == nil {
			in.locate(t)
			panic(in.errorf("name %s is not defined", t.ID).is("NameError"))
		}
		if u, ok := old.(*unknown); ok && u.why != nil {
			panic(in.needKnown(u))
		}
		v := in.eval(f, s.Value)
		in.at = s.Loc
		if f.dsl && in.b != nil {
			in.assignName(f, t.ID, in.b.augAssign(in, s.Op, old, v, t.ID))
			return
		}
		in.assignName(f, t.ID, in.inPlace(s.Op, old, v))
	case *syntax.Index:
		x := in.eval(f, t.X)
		i := in.evalIndex(f, t)
		v := in.eval(f, s.Value)
		in.at = s.Loc
		if b, ok := x.(*ir.Buffer); ok && in.b != nil {
			old := in.index(b, i)
			in.b.store(in, b, i, in.binaryOp(s.Op, old, v))
			return
		}
		in.setIndex(x, i, in.inPlace(s.Op, in.index(x, i), v))
	case *syntax.Attr:
		x := in.eval(f, t.X)
		v := in.eval(f, s.Value)
		in.at = s.Loc
		in.setAttr(x, t.Name, in.inPlace(s.Op, in.attr(x, t.Name), v))
	default:
		panic(in.errorf("this cannot be assigned to").is("SyntaxError"))
	}
}

// inPlace is op=, which changes lists in place.
func (in *interp) inPlace(op syntax.Op, a, b value) value {
	switch x := a.(type) {
	case *list:
		if op == syntax.Add {
			elts := in.iterate(b)
			in.cells(len(elts))
			x.elts = append(x.elts, elts...)
			return x
		}
	case *set:
		if y, ok := b.(*set); ok && op == syntax.BitOr {
			for _, k := range y.d.keys {
				x.d.set(in, k, none)
			}
			return x
		}
	case *dict:
		if y, ok := b.(*dict); ok && op == syntax.BitOr {
			x.update(in, y)
			return x
		}
	}
	return in.binaryOp(op, a, b)
}

func (in *interp) annAssign(f *frame, s *syntax.AnnAssign) {
	if f.dsl && in.b != nil {
		in.b.annAssign(in, f, s)
		return
	}
	if s.Value == nil {
		return
	}
	v := in.eval(f, s.Value)
	in.at = s.Loc
	in.assignPlain(f, s.Target, v)
	if f == in.main.globals {
		in.overrideModule(&syntax.Assign{Loc: s.Loc, Targets: []syntax.Expr{s.Target}, Value: s.Value})
	}
}

func (in *interp) ifStmt(f *frame, s *syntax.If) ctl {
	c := in.eval(f, s.Cond)
	in.at = s.Cond.Range()
	if f.dsl && in.b != nil {
		cond, known := in.condition(c)
		if cond != nil {
			in.wantBool(cond)
			in.b.branch(in, cond, func() { in.block(f, s.Then) }, s.Else != nil, func() { in.block(f, s.Else) })
			return ctlNext
		}
		if known {
			return in.block(f, s.Then)
		}
		return in.block(f, s.Else)
	}
	if in.truth(c) {
		return in.block(f, s.Then)
	}
	return in.block(f, s.Else)
}

func (in *interp) forStmt(f *frame, s *syntax.For) ctl {
	if f.dsl && in.b != nil {
		if len(s.Else) > 0 {
			in.at = s.Loc
			panic(in.errorf("for ... else is not supported in a kernel").hint("move the else body behind the loop"))
		}
		return in.b.forStmt(in, f, s)
	}
	it := in.eval(f, s.Iter)
	in.at = s.Iter.Range()
	result := ctlNext
	in.each(it, func(v value) bool {
		in.at = s.Target.Range()
		in.assignPlain(f, s.Target, v)
		switch in.block(f, s.Body) {
		case ctlBreak:
			result = ctlBreak
			return false
		case ctlReturn:
			result = ctlReturn
			return false
		}
		return true
	})
	switch result {
	case ctlReturn:
		return ctlReturn
	case ctlBreak:
		return ctlNext
	}
	return in.block(f, s.Else)
}

func (in *interp) whileStmt(f *frame, s *syntax.While) ctl {
	if f.dsl && in.b != nil {
		if len(s.Else) > 0 {
			panic(in.errorf("while ... else is not supported in a kernel").hint("move the else body behind the loop"))
		}
		c := in.eval(f, s.Cond)
		in.at = s.Cond.Range()
		cond, known := in.condition(c)
		if cond == nil {
			if known {
				panic(in.errorf("the condition is always true: the loop would not end").is("RuntimeError"))
			}
			cond = ir.BoolConst(false)
		}
		in.wantBool(cond)
		in.b.while(in, cond, func() { in.block(f, s.Body) })
		return ctlNext
	}
	for {
		c := in.eval(f, s.Cond)
		in.at = s.Cond.Range()
		if !in.truth(c) {
			return in.block(f, s.Else)
		}
		switch in.block(f, s.Body) {
		case ctlBreak:
			return ctlNext
		case ctlReturn:
			return ctlReturn
		}
	}
}

func (in *interp) withStmt(f *frame, s *syntax.With) ctl {
	return in.withItems(f, s, 0)
}

func (in *interp) withItems(f *frame, s *syntax.With, i int) (c ctl) {
	if i == len(s.Items) {
		return in.block(f, s.Body)
	}
	it := s.Items[i]
	v := in.eval(f, it.Context)
	in.at = it.Context.Range()
	body := func(entered value) {
		if it.Target != nil {
			in.at = it.Target.Range()
			in.assignPlain(f, it.Target, entered)
		}
		c = in.withItems(f, s, i+1)
	}
	if ctx, ok := v.(ctxValue); ok && in.b != nil {
		in.b.with(in, ctx, body)
		return c
	}
	switch v := v.(type) {
	case *unknown:
		if f.dsl && in.b != nil {
			panic(in.needKnown(v))
		}
		body(v) // with torch.no_grad():
		return c
	case *instance:
		enter, ok := v.cls.lookup("__enter__")
		if ok {
			entered := in.call(&boundMethod{v, enter}, nil)
			body(entered)
			if exit, ok := v.cls.lookup("__exit__"); ok {
				in.call(&boundMethod{v, exit}, []value{none, none, none})
			}
			return c
		}
	case ctxValue:
		panic(in.errorf("this context belongs into a kernel").hint("put it into a function with @T.prim_func or @tilelang.jit"))
	}
	panic(in.errorf("%s is not a context", in.typeWithValue(v)).is("TypeError"))
}

// defStmt defines a function and applies its decorators.
func (in *interp) defStmt(f *frame, s *syntax.FuncDef) {
	fn := &function{name: s.Name, params: s.Params, def: s, env: f, home: in.pyFile, gen: yields(s.Body)}
	fn.defaults = in.evalDefaults(f, s.Params)
	v := value(fn)
	for i := len(s.Decorators) - 1; i >= 0; i-- {
		d := in.eval(f, s.Decorators[i])
		in.at = s.Decorators[i].Range()
		if _, ok := d.(*unknown); ok {
			continue // @pytest.mark..., @torch.no_grad(): not our business
		}
		v = in.call(d, []value{v})
	}
	in.assignName(f, s.Name, v)
	if f == in.main.globals {
		in.moduleKernel(s.Name, v)
	} else if p, ok := v.(*primFunc); ok && in.building {
		if in.innerFuncs == nil {
			in.innerFuncs = map[string]*primFunc{}
		}
		in.innerFuncs[p.name] = p
	}
}

// yields reports a yield of this function itself.
func yields(body []syntax.Stmt) bool {
	found := false
	walkStmts(body, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.Yield:
			found = true
		case *syntax.FuncDef, *syntax.Lambda, *syntax.ClassDef:
			return false
		}
		return !found
	})
	return found
}

func (in *interp) assertStmt(f *frame, s *syntax.Assert) {
	c := in.eval(f, s.Cond)
	in.at = s.Cond.Range()
	msg := func() value {
		if s.Msg == nil {
			return "Assertion failed"
		}
		return in.eval(f, s.Msg)
	}
	if f.dsl && in.b != nil {
		cond, known := in.condition(c)
		if cond != nil {
			m := msg()
			in.b.assert(in, cond, m)
			return
		}
		if !known {
			panic(in.assertFailed(msg))
		}
		return
	}
	if !in.truth(c) {
		panic(in.assertFailed(msg))
	}
}

func (in *interp) assertFailed(msg func() value) *failure {
	at := in.at
	text := "the assertion does not hold"
	exc := &exception{kind: "AssertionError"}
	if m, ok := msg().(string); ok && m != "Assertion failed" && m != "" {
		text += ": " + m
		exc.args = []value{m}
	}
	in.at = at
	f := in.errorf("%s", text).is("AssertionError")
	f.exc = exc
	return f
}

func (in *interp) deleteTarget(f *frame, t syntax.Expr) {
	switch t := t.(type) {
	case *syntax.Name:
		vars := f.target(in, t.ID).vars
		if _, ok := vars[t.ID]; !ok {
			in.locate(t)
			panic(in.errorf("name %s is not defined", t.ID).is("NameError"))
		}
		delete(vars, t.ID)
	case *syntax.Index:
		x := in.eval(f, t.X)
		i := in.evalIndex(f, t)
		in.at = t.Loc
		switch x := x.(type) {
		case *dict:
			if !x.del(in, i) {
				panic(in.errorf("no key %s", in.describe(i)).is("KeyError"))
			}
			return
		case *list:
			k := in.seqIndex(i, len(x.elts), "list")
			x.elts = append(x.elts[:k:k], x.elts[k+1:]...)
			return
		case *unknown:
			return
		}
		panic(in.errorf("an element of %s cannot be deleted", typeName(x)).is("TypeError"))
	case *syntax.Tuple:
		for _, x := range t.Elts {
			in.deleteTarget(f, x)
		}
	}
}

func (in *interp) raise(f *frame, s *syntax.Raise) {
	if s.X == nil {
		if len(in.handled) == 0 {
			panic(in.errorf("there is no exception to raise again").is("RuntimeError"))
		}
		panic(in.handled[len(in.handled)-1])
	}
	v := in.eval(f, s.X)
	in.at = s.Loc
	if b, ok := v.(*builtin); ok {
		v = in.call(b, nil)
	}
	if c, ok := v.(*class); ok {
		v = in.call(c, nil)
	}
	kind, text := "Exception", ""
	switch e := v.(type) {
	case *exception:
		kind = e.kind
		text = in.str(e)
	case *instance:
		kind = e.cls.name
		text = in.str(e)
	case *unknown:
		panic(in.needKnown(e))
	default:
		panic(in.errorf("%s is raised: expected an exception", in.typeWithValue(v)).is("TypeError"))
	}
	fl := in.errorf("%s: %s", kind, text).is(kind)
	if text == "" {
		fl = in.errorf("%s is raised", kind).is(kind)
	}
	fl.exc = v
	panic(fl)
}

func (in *interp) tryStmt(f *frame, s *syntax.Try) (c ctl) {
	fl := in.try(func() { c = in.block(f, s.Body) })
	if fl != nil {
		if fl.limit {
			panic(fl)
		}
		handled := false
		for _, h := range s.Handlers {
			if !in.handles(f, h, fl) {
				continue
			}
			handled = true
			if h.Name != "" {
				in.assignName(f, h.Name, fl.value())
			}
			in.handled = append(in.handled, fl)
			again := in.try(func() { c = in.block(f, h.Body) })
			in.handled = in.handled[:len(in.handled)-1]
			if again != nil {
				if !again.limit {
					in.block(f, s.Finally)
				}
				panic(again)
			}
			break
		}
		if !handled {
			in.block(f, s.Finally)
			panic(fl)
		}
	} else if c == ctlNext {
		c = in.block(f, s.Else)
	}
	if fc := in.block(f, s.Finally); fc != ctlNext {
		c = fc
	}
	return c
}

// value is a failure as Python's exception.
func (f *failure) value() value {
	if f.exc != nil {
		return f.exc
	}
	return &exception{kind: kindOf(f), args: []value{f.d.Message}}
}

func kindOf(f *failure) string {
	if f.kind == "" {
		return "Exception"
	}
	return f.kind
}

func (in *interp) handles(f *frame, h syntax.Handler, fl *failure) bool {
	if h.Type == nil {
		return true
	}
	var cls *class
	switch e := fl.exc.(type) {
	case *exception:
		cls = e.cls
	case *instance:
		cls = e.cls
	}
	var match func(e syntax.Expr) bool
	match = func(e syntax.Expr) bool {
		switch e := e.(type) {
		case *syntax.Name:
			if cls != nil && derives(cls, e.ID, 0) {
				return true
			}
			return e.ID == "Exception" || e.ID == "BaseException" || e.ID == fl.kind ||
				e.ID == "ArithmeticError" && (fl.kind == "ZeroDivisionError" || fl.kind == "OverflowError") ||
				e.ID == "LookupError" && (fl.kind == "KeyError" || fl.kind == "IndexError")
		case *syntax.Attr:
			return e.Name == fl.kind
		case *syntax.Tuple:
			for _, x := range e.Elts {
				if match(x) {
					return true
				}
			}
		}
		return false
	}
	return match(h.Type)
}
