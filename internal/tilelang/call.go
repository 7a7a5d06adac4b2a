package tilelang

import (
	"sort"
	"strconv"
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// args are the arguments of a call. A builtin with a signature finds them by
// parameter in v; a raw one as they were written.
type args struct {
	sig   *signature
	pos   []value
	kw    []kwarg
	posAt []ir.Span
	call  ir.Span

	v     []value   // by parameter; defaults filled in
	at    []ir.Span // where each was written; the call where it was not
	given []bool
	rest  []value // of *name
	restW []ir.Span
	kwVar []kwarg // of **name
}

type kwarg struct {
	name string
	v    value
	at   ir.Span
}

// signature is the parameters of a builtin.
type signature struct {
	name   string
	params []sigParam
	star   int // index from which positional arguments go to rest; -1: none
	kwVar  bool
	// shift names the first parameter where TileLang puts it, given by keyword,
	// before the positional arguments: f("x", dtype=t) is f(t, "x").
	shift string
}

type sigParam struct {
	name   string
	def    value // nil: required
	kwOnly bool
}

// parseSig reads "name(a, b=None, *, c=1, *rest, **kw)". It is for signatures
// written in the program; a mistake panics.
func parseSig(s string) *signature {
	name, list, ok := strings.Cut(s, "(")
	if !ok || !strings.HasSuffix(list, ")") {
		panic("tilelang: bad signature " + s)
	}
	sig := &signature{name: name, star: -1}
	kwOnly := false
	for _, p := range strings.Split(strings.TrimSuffix(list, ")"), ", ") {
		switch {
		case p == "":
			continue
		case p == "*":
			kwOnly = true
			continue
		case strings.HasPrefix(p, "**"):
			sig.kwVar = true
			continue
		case strings.HasPrefix(p, "*"):
			sig.star = len(sig.params)
			kwOnly = true
			continue
		}
		n, def, has := strings.Cut(p, "=")
		q := sigParam{name: n, kwOnly: kwOnly}
		if has {
			q.def = sigDefault(def)
		}
		sig.params = append(sig.params, q)
	}
	return sig
}

func sigDefault(s string) value {
	switch s {
	case "None":
		return none
	case "True":
		return true
	case "False":
		return false
	}
	if strings.HasPrefix(s, `"`) {
		return strings.Trim(s, `"`)
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic("tilelang: bad default " + s)
	}
	return f
}

// bind sorts the arguments into the parameters of a builtin.
func (in *interp) bind(sig *signature, a *args) {
	a.sig = sig
	if sig.shift != "" {
		a.shift(sig.shift)
	}
	n := len(sig.params)
	a.v, a.at, a.given = make([]value, n), make([]ir.Span, n), make([]bool, n)
	npos := n
	for i, p := range sig.params {
		if p.kwOnly {
			npos = i
			break
		}
	}
	for i, v := range a.pos {
		at := a.call
		if i < len(a.posAt) {
			at = a.posAt[i]
		}
		switch {
		case i < npos:
			a.v[i], a.at[i], a.given[i] = v, at, true
		case sig.star >= 0:
			a.rest = append(a.rest, v)
			a.restW = append(a.restW, at)
		default:
			panic(in.errorAt(at, "%s takes at most %s, got %d", sig.name, diag.Count(npos, "positional argument"), len(a.pos)).is("TypeError"))
		}
	}
	for _, k := range a.kw {
		i := sig.index(k.name)
		switch {
		case i >= 0 && a.given[i]:
			panic(in.errorAt(k.at, "%s gets %s twice", sig.name, k.name).is("TypeError"))
		case i >= 0:
			a.v[i], a.at[i], a.given[i] = k.v, k.at, true
		case sig.kwVar:
			a.kwVar = append(a.kwVar, k)
		default:
			f := in.errorAt(k.at, "%s has no argument %s", sig.name, k.name).is("TypeError")
			var names []string
			for _, p := range sig.params {
				names = append(names, p.name)
			}
			if near := diag.Nearest(k.name, names); near != "" {
				f.hint("did you mean %s?", near)
			} else if len(names) > 0 {
				f.hint("it takes %s", strings.Join(names, ", "))
			}
			panic(f)
		}
	}
	for i, p := range sig.params {
		if a.given[i] {
			continue
		}
		if p.def == nil {
			panic(in.errorAt(a.call, "%s needs an argument %s", sig.name, p.name).is("TypeError"))
		}
		a.v[i], a.at[i] = p.def, a.call
	}
}

// shift puts the keyword argument of a name before the positional ones.
func (a *args) shift(name string) {
	for i, k := range a.kw {
		if k.name != name {
			continue
		}
		a.kw = append(a.kw[:i:i], a.kw[i+1:]...)
		for len(a.posAt) < len(a.pos) {
			a.posAt = append(a.posAt, a.call)
		}
		a.pos, a.posAt = append([]value{k.v}, a.pos...), append([]ir.Span{k.at}, a.posAt...)
		return
	}
}

func (s *signature) index(name string) int {
	for i, p := range s.params {
		if p.name == name {
			return i
		}
	}
	return -1
}

// evalCall evaluates a call.
func (in *interp) evalCall(f *frame, e *syntax.Call) value {
	fn := in.eval(f, e.Fn)
	if b, ok := fn.(*builtin); ok && b.name == "super" && len(e.Args) == 0 {
		return in.super(f)
	}
	a := in.evalArgs(f, e)
	in.at = e.Loc
	return in.apply(fn, a)
}

func (in *interp) evalArgs(f *frame, e *syntax.Call) *args {
	a := &args{call: in.file.Span(e.Loc)}
	for _, x := range e.Args {
		if s, ok := x.(*syntax.Starred); ok {
			v := in.eval(f, s.X)
			in.at = s.Loc
			for _, v := range in.iterate(v) {
				a.pos = append(a.pos, v)
				a.posAt = append(a.posAt, in.file.Span(s.Loc))
			}
			in.cells(len(a.pos))
			continue
		}
		a.pos = append(a.pos, in.eval(f, x))
		a.posAt = append(a.posAt, in.file.SpanOf(x))
	}
	for _, k := range e.Keywords {
		v := in.eval(f, k.Value)
		at := in.file.Span(k.Loc)
		if k.Name != "" {
			a.kw = append(a.kw, kwarg{k.Name, v, at})
			continue
		}
		switch m := v.(type) {
		case *dict:
			for i, key := range m.keys {
				name, ok := key.(string)
				if !ok {
					panic(in.errorAt(at, "** needs string keys, got %s", in.typeWithValue(key)).is("TypeError"))
				}
				a.kw = append(a.kw, kwarg{name, m.vals[i], at})
			}
		case *unknown:
			panic(in.needKnown(m))
		default:
			panic(in.errorAt(at, "** needs a dict, got %s", typeName(v)).is("TypeError"))
		}
	}
	return a
}

// call calls a value with positional arguments.
func (in *interp) call(fn value, pos []value) value {
	return in.apply(fn, &args{pos: pos, call: in.here()})
}

// apply calls a value.
func (in *interp) apply(fn value, a *args) value {
	in.step()
	in.depth++
	defer func() { in.depth-- }()
	if in.depth > MaxDepth {
		f := in.errorf("calls more than %d deep", MaxDepth).is("RecursionError")
		f.limit = true
		panic(f)
	}
	at := in.at
	r := in.apply1(fn, a)
	in.at = at
	return r
}

// remember calls a function under functools.cache.
func (in *interp) remember(fn *function, a *args) value {
	key := &tuple{a.pos}
	var known bool
	var v value
	if f := in.try(func() { v, known = fn.memo.get(in, key) }); f != nil {
		return in.callFunction(fn, a) // not hashable
	}
	if !known {
		v = in.callFunction(fn, a)
		fn.memo.set(in, key, v)
	}
	return v
}

// calling notes a call of a function of the file until the result is called.
func (in *interp) calling(fn *function, a *args) func() {
	n := len(in.callers)
	if fn.lambda == nil {
		in.callers = append(in.callers, caller{fn.name, a.call})
	}
	return func() { in.callers = in.callers[:n] }
}

func (in *interp) apply1(fn value, a *args) value {
	switch fn := fn.(type) {
	case *builtin:
		if fn.sig != nil {
			in.bind(fn.sig, a)
		}
		return fn.fn(in, a)
	case *function:
		if fn.def != nil && fn.def == in.sel.def && !in.building && in.b == nil {
			in.calls = append(in.calls, kernelCall{fn: fn, args: a})
			if in.dry {
				return &unknown{what: "the result of " + fn.name, at: a.call}
			}
		}
		defer in.calling(fn, a)()
		if fn.memo != nil && in.b == nil && len(a.kw) == 0 {
			return in.remember(fn, a)
		}
		return in.callFunction(fn, a)
	case *boundMethod:
		b := *a
		b.pos = append([]value{fn.self}, a.pos...)
		b.posAt = append([]ir.Span{a.call}, a.posAt...)
		return in.apply1(fn.fn, &b)
	case *macro:
		defer in.calling(fn.fn, a)()
		return in.callMacro(fn, a)
	case *jitFunc:
		return in.callJIT(fn, a)
	case *class:
		return in.instantiate(fn, a)
	case ir.DType:
		return in.callDType(fn, a)
	case *unknown:
		if fn.why != nil || strings.HasSuffix(fn.what, ")") || len(fn.what) > 60 {
			return fn
		}
		return &unknown{what: fn.what + "(...)", at: fn.at, looked: fn.looked}
	case *primFunc:
		panic(in.errorf("kernel %s is called from a kernel or from Python: it can only be compiled", fn.name).is("TypeError"))
	case *jitKernel:
		return &unknown{what: "the result of running kernel " + fn.jit.name, at: in.here()}
	case *tensor:
		return fn
	case *staticMethod:
		return in.apply1(fn.fn, a)
	case *module:
		if f, ok := fn.attrs["__call__"]; ok {
			return in.apply1(f, a)
		}
	case *instance:
		if m, ok := fn.cls.lookup("__call__"); ok {
			return in.apply1(&boundMethod{fn, m}, a)
		}
	}
	panic(in.errorf("%s cannot be called", in.typeWithValue(fn)).is("TypeError"))
}

func (in *interp) makeLambda(f *frame, e *syntax.Lambda) value {
	fn := &function{name: "<lambda>", params: e.Params, lambda: e, env: f, home: in.pyFile}
	fn.defaults = in.evalDefaults(f, e.Params)
	return fn
}

func (in *interp) evalDefaults(f *frame, params []syntax.Param) []value {
	out := make([]value, len(params))
	for i, p := range params {
		if p.Default != nil {
			out[i] = in.eval(f, p.Default)
		}
	}
	return out
}

// bindParams sorts arguments into the parameters of a Python function.
func (in *interp) bindParams(fn *function, a *args) map[string]value {
	vars := make(map[string]value, len(fn.params))
	var rest []value
	var extra *dict
	npos, hasRest, hasKw := 0, false, false
	for _, p := range fn.params {
		switch p.Kind {
		case syntax.Positional, syntax.PositionalOnly:
			npos++
		case syntax.VarArgs:
			hasRest = true
		case syntax.VarKeywords:
			hasKw = true
			extra = newDict()
		}
	}
	i := 0
	for _, p := range fn.params {
		if p.Kind == syntax.Positional || p.Kind == syntax.PositionalOnly {
			if i < len(a.pos) {
				vars[p.Name] = a.pos[i]
				i++
			}
		}
	}
	if i < len(a.pos) {
		if !hasRest {
			panic(in.errorf("%s takes at most %s, got %d", fn.name, diag.Count(npos, "positional argument"), len(a.pos)).
				note(fn.nameSpan(), "%s is defined here", fn.name).is("TypeError"))
		}
		rest = a.pos[i:]
	}
	for _, k := range a.kw {
		known := false
		for _, p := range fn.params {
			if p.Name == k.name && (p.Kind == syntax.Positional || p.Kind == syntax.KeywordOnly) {
				known = true
			}
		}
		switch {
		case known:
			if _, dup := vars[k.name]; dup {
				panic(in.errorAt(k.at, "%s gets %s twice", fn.name, k.name).is("TypeError"))
			}
			vars[k.name] = k.v
		case hasKw:
			extra.set(in, k.name, k.v)
		default:
			f := in.errorAt(k.at, "%s has no argument %s", fn.name, k.name).is("TypeError")
			var names []string
			for _, p := range fn.params {
				names = append(names, p.Name)
			}
			if near := diag.Nearest(k.name, names); near != "" {
				f.hint("did you mean %s?", near)
			}
			panic(f.note(fn.nameSpan(), "%s is defined here", fn.name))
		}
	}
	var missing []string
	for i, p := range fn.params {
		switch p.Kind {
		case syntax.VarArgs:
			vars[p.Name] = &tuple{rest}
		case syntax.VarKeywords:
			vars[p.Name] = extra
		default:
			if _, ok := vars[p.Name]; ok {
				continue
			}
			if fn.defaults[i] == nil {
				missing = append(missing, p.Name)
				continue
			}
			vars[p.Name] = fn.defaults[i]
		}
	}
	if len(missing) > 0 {
		panic(in.errorf("%s needs %s", fn.name, strings.Join(missing, ", ")).
			note(fn.nameSpan(), "%s is defined here", fn.name).is("TypeError"))
	}
	return vars
}

func (fn *function) nameSpan() ir.Span {
	switch {
	case fn.def != nil:
		return fn.home.file.Span(fn.def.NameLoc)
	case fn.lambda != nil:
		return fn.home.file.Span(fn.lambda.Loc)
	}
	return ir.Span{}
}

// callFunction runs a function as plain Python.
func (in *interp) callFunction(fn *function, a *args) value {
	f := newFrame(fn.env)
	f.fn = fn
	f.vars = in.bindParams(fn, a)
	defer in.enterFunction(fn)()
	if fn.lambda != nil {
		// A lambda in a kernel body is part of it.
		f.dsl = fn.env.dsl
		return in.eval(f, fn.lambda.Body)
	}
	if fn.gen {
		f.yield = &generator{}
	}
	in.runBody(f, fn.def.Body)
	if f.yield != nil {
		return f.yield
	}
	if f.ret == nil {
		return none
	}
	return f.ret
}

func (in *interp) evalYield(f *frame, e *syntax.Yield) value {
	s := f
	for s != nil && s.yield == nil {
		s = s.parent
	}
	if e.Await || s == nil {
		panic(in.errorf("this expression is not supported"))
	}
	v := value(none)
	if e.X != nil {
		v = in.eval(f, e.X)
	}
	if e.From {
		elts := in.iterate(v)
		in.cells(len(elts))
		s.yield.elts = append(s.yield.elts, elts...)
		return none
	}
	in.cells(1)
	s.yield.elts = append(s.yield.elts, v)
	return none
}

// callDType is T.float16(x): a constant, a cast, or a fresh variable.
func (in *interp) callDType(t ir.DType, a *args) value {
	if len(a.pos) == 0 {
		return &ir.Var{Type: t}
	}
	if len(a.pos) > 1 {
		s := &ir.Shuffle{}
		for i, v := range a.pos {
			s.Vectors = append(s.Vectors, in.toExpr(v))
			s.Indices = append(s.Indices, ir.I32(int64(i)))
		}
		return s
	}
	switch v := a.pos[0].(type) {
	case noneType:
		return &ir.Var{Type: t}
	case string:
		f, ok := parsePyFloat(v)
		if !ok || !t.IsFloat() {
			panic(in.errorf("%s of string %s", t, pyQuote(v)).is("TypeError"))
		}
		return ir.FloatConst(t, f)
	case bool, int64, float64:
		return in.constOf(t, v)
	}
	if isPyInt(a.pos[0]) {
		return in.constOf(t, a.pos[0])
	}
	return in.cast(t, in.toExpr(a.pos[0]))
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
