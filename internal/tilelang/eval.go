package tilelang

import (
	"math/big"
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// interp evaluates one file.
type interp struct {
	*pyFile // the file under evaluation
	diags   *diag.List
	main    *pyFile // the kernel's file
	open    func(path string) (text string, found bool, err error)
	imp     imports

	at       syntax.Loc // the place under evaluation
	steps    int
	maxSteps int        // the bound of steps
	budget   int        // the steps of it that the work at hand may take
	handled  []*failure // the exceptions that are being handled, outermost first
	callers  []caller   // the calls of the file's functions around, outermost first
	ncells   int
	depth    int

	b    *builder // the kernel under construction, nil outside of one
	lang *module  // the kernel language, T

	arch        string // what the kernel is compiled for, "" if that is not known
	askedDevice bool   // the source asked for it

	sel        selection
	calls      []kernelCall         // calls of the selected kernel's function
	dry        bool                 // running test code for the calls in it
	building   bool                 // running the selected factory
	innerFuncs map[string]*primFunc // kernels that the selected factory defines
}

// frame is the variables of a running function, or of the module.
type frame struct {
	vars   map[string]value
	parent *frame
	fn     *function
	// dsl: statements emit IR.
	dsl      bool
	globals  map[string]bool
	nonlocal map[string]bool
	// comp: a comprehension's own scope.
	comp  bool
	class bool
	ret   value
	yield *generator
}

func newFrame(parent *frame) *frame { return &frame{vars: map[string]value{}, parent: parent} }

// lookup finds a variable in the scopes around.
func (f *frame) lookup(name string) (value, *frame) {
	for s := f; s != nil; s = s.parent {
		if s.class && s != f {
			continue
		}
		if v, ok := s.vars[name]; ok {
			return v, s
		}
	}
	return nil, nil
}

// target is the scope that an assignment to a name goes to.
func (f *frame) target(in *interp, name string) *frame {
	s := f
	for s.comp && s.parent != nil {
		s = s.parent
	}
	if s.globals[name] {
		return in.globals
	}
	if s.nonlocal[name] {
		for p := s.parent; p != nil; p = p.parent {
			if _, ok := p.vars[name]; ok {
				return p
			}
		}
	}
	return s
}

// name reads a variable.
func (in *interp) name(f *frame, n *syntax.Name) value {
	v, scope := f.lookup(n.ID)
	if scope == nil {
		if b, ok := pyBuiltins[n.ID]; ok {
			return b
		}
		in.locate(n)
		fl := in.errorf("name %s is not defined", n.ID).is("NameError")
		if near := diag.Nearest(n.ID, in.visibleNames(f)); near != "" {
			fl.hint("did you mean %s?", near)
		}
		panic(fl)
	}
	if u, ok := v.(*unknown); ok && u.why != nil && u.why.silent {
		panic(u.why)
	}
	if f.dsl && in.b != nil {
		in.locate(n)
		if !f.comp || scope != f {
			in.b.checkAlive(in, n.ID, scope)
		}
		return in.b.unwrap(in, v)
	}
	return v
}

func (in *interp) visibleNames(f *frame) []string {
	var out []string
	for s := f; s != nil; s = s.parent {
		out = append(out, sortedKeys(s.vars)...)
	}
	return append(out, sortedKeys(pyBuiltins)...)
}

// eval evaluates an expression.
func (in *interp) eval(f *frame, e syntax.Expr) value {
	in.at = e.Range()
	in.step()
	switch e := e.(type) {
	case *syntax.Name:
		return in.name(f, e)
	case *syntax.Num:
		return in.num(e)
	case *syntax.Str:
		return e.Value
	case *syntax.FString:
		return in.fstring(f, e)
	case *syntax.Const:
		switch e.Kind {
		case syntax.True:
			return true
		case syntax.False:
			return false
		case syntax.Ellipsis:
			return ellipsis
		}
		return none
	case *syntax.Attr:
		x := in.eval(f, e.X)
		in.at = e.Loc
		return in.attr(x, e.Name)
	case *syntax.Call:
		return in.evalCall(f, e)
	case *syntax.Index:
		x := in.eval(f, e.X)
		i := in.evalIndex(f, e)
		in.at = e.Loc
		return in.index(x, i)
	case *syntax.Unary:
		if e.Op == syntax.Not {
			return in.evalNot(f, e)
		}
		v := in.eval(f, e.X)
		in.at = e.Loc
		return in.unaryOp(e.Op, v)
	case *syntax.Binary:
		return in.evalBinary(f, e)
	case *syntax.Compare:
		return in.evalCompare(f, e)
	case *syntax.IfExp:
		return in.evalIfExp(f, e)
	case *syntax.Lambda:
		return in.makeLambda(f, e)
	case *syntax.Tuple:
		return &tuple{in.evalElts(f, e.Elts)}
	case *syntax.List:
		return &list{in.evalElts(f, e.Elts)}
	case *syntax.Set:
		s := &set{*newDict()}
		for _, v := range in.evalElts(f, e.Elts) {
			s.d.set(in, v, none)
		}
		return s
	case *syntax.Dict:
		return in.evalDict(f, e)
	case *syntax.Comp:
		return in.evalComp(f, e)
	case *syntax.Walrus:
		v := in.eval(f, e.Value)
		in.assignName(f, e.Target.ID, v)
		return v
	case *syntax.Slice:
		return in.evalSlice(f, e)
	case *syntax.Starred:
		panic(in.errorf("a starred expression does not belong here").is("SyntaxError"))
	case *syntax.Yield:
		return in.evalYield(f, e)
	}
	panic(in.errorf("this expression is not supported"))
}

type ellipsisType struct{}

var ellipsis = ellipsisType{}

func (in *interp) num(e *syntax.Num) value {
	if strings.HasSuffix(e.Text, "j") || strings.HasSuffix(e.Text, "J") {
		panic(in.errorf("complex numbers are not supported"))
	}
	if e.IsFloat {
		v, ok := e.Float()
		if !ok {
			panic(in.errorf("%s is not a number", e.Text))
		}
		return v
	}
	if v, ok := e.Int(); ok && v >= 0 {
		return v
	}
	if len(e.Text) > MaxIntBits/3 {
		panic(in.tooLarge())
	}
	b, ok := new(big.Int).SetString(strings.ReplaceAll(e.Text, "_", ""), 0)
	if !ok || b.BitLen() > MaxIntBits {
		panic(in.tooLarge())
	}
	return intValue(b)
}

func (in *interp) evalElts(f *frame, list []syntax.Expr) []value {
	in.cells(len(list))
	out := make([]value, 0, len(list))
	for _, x := range list {
		if s, ok := x.(*syntax.Starred); ok {
			v := in.eval(f, s.X)
			in.at = s.Loc
			elts := in.iterate(v)
			in.cells(len(elts))
			out = append(out, elts...)
			continue
		}
		out = append(out, in.eval(f, x))
	}
	return out
}

func (in *interp) evalDict(f *frame, e *syntax.Dict) value {
	d := newDict()
	for i, k := range e.Keys {
		if k == nil {
			v := in.eval(f, e.Values[i])
			m, ok := v.(*dict)
			if !ok {
				panic(in.errorf("** needs a dict, got %s", typeName(v)).is("TypeError"))
			}
			d.update(in, m)
			continue
		}
		key := in.eval(f, k)
		d.set(in, key, in.eval(f, e.Values[i]))
	}
	return d
}

func (in *interp) evalSlice(f *frame, e *syntax.Slice) value {
	part := func(x syntax.Expr) value {
		if x == nil {
			return none
		}
		return in.eval(f, x)
	}
	return &slice{part(e.Lo), part(e.Hi), part(e.Step)}
}

// evalIndex is what stands in the brackets: one value, or a tuple.
func (in *interp) evalIndex(f *frame, e *syntax.Index) value {
	if len(e.Indices) == 1 {
		if _, star := e.Indices[0].(*syntax.Starred); !star {
			return in.eval(f, e.Indices[0])
		}
	}
	return &tuple{in.evalElts(f, e.Indices)}
}

func (in *interp) evalBinary(f *frame, e *syntax.Binary) value {
	switch e.Op {
	case syntax.And, syntax.Or:
		return in.evalLogical(f, e)
	}
	a := in.eval(f, e.X)
	b := in.eval(f, e.Y)
	in.at = e.Loc
	if e.Op.IsComparison() {
		return in.compareOp(e.Op, a, b)
	}
	return in.binaryOp(e.Op, a, b)
}

// condition is a value as a condition of a kernel: an expression, or a bool
// where it is known.
func (in *interp) condition(v value) (ir.Expr, bool) {
	switch x := v.(type) {
	case *ir.IntImm:
		return nil, x.Value != 0
	case *ir.FloatImm:
		return nil, x.Value != 0
	case *ir.StringImm:
		return nil, x.Value != ""
	case *eqOp, *ref:
		return in.condition(in.toExpr(v))
	case ir.Expr:
		return x, false
	case *ir.Buffer:
		if isVarBuffer(x) {
			return loadVar(x), false
		}
		panic(in.errorf("buffer %s is used as a condition", x.Name).note(x.Org, "%s is declared here", x.Name).is("TypeError"))
	}
	return nil, in.truth(v)
}

// evalLogical evaluates a chain of `and` or of `or`, which nests to the right.
func (in *interp) evalLogical(f *frame, e *syntax.Binary) value {
	return in.evalChain(f, in.operands(e), e)
}

// operands are the operands of a chain; one in parentheses is its own chain.
func (in *interp) operands(e *syntax.Binary) []syntax.Expr {
	var rev []syntax.Expr
	for {
		rev = append(rev, e.Y)
		x, ok := e.X.(*syntax.Binary)
		if !ok || x.Op != e.Op || in.closes(x.End, e.Y.Range().Pos) {
			rev = append(rev, e.X)
			break
		}
		e = x
	}
	out := make([]syntax.Expr, len(rev))
	for i, x := range rev {
		out[len(rev)-1-i] = x
	}
	return out
}

// closes reports a closing parenthesis between two places of the text.
func (in *interp) closes(from, to int32) bool {
	text := in.file.Source.Text
	if int(to) > len(text) || from > to {
		return false
	}
	comment := false
	for _, c := range []byte(text[from:to]) {
		switch {
		case c == '\n':
			comment = false
		case c == '#':
			comment = true
		case c == ')' && !comment:
			return true
		}
	}
	return false
}

func (in *interp) evalChain(f *frame, list []syntax.Expr, e *syntax.Binary) value {
	a := in.eval(f, list[0])
	if len(list) == 1 {
		return a
	}
	in.at = list[0].Range()
	if f.dsl && in.b != nil {
		c, known := in.condition(a)
		if c != nil {
			b := in.evalChain(f, list[1:], e)
			in.at = e.Loc
			op := ir.And
			if e.Op == syntax.Or {
				op = ir.Or
			}
			return in.logical(op, c, in.toExpr(b))
		}
		if known == (e.Op == syntax.Or) {
			return a
		}
	} else if in.truth(a) == (e.Op == syntax.Or) {
		return a
	}
	return in.evalChain(f, list[1:], e)
}

func (in *interp) evalNot(f *frame, e *syntax.Unary) value {
	v := in.eval(f, e.X)
	in.at = e.Loc
	if f.dsl && in.b != nil {
		c, known := in.condition(v)
		if c != nil {
			return in.not(c)
		}
		return !known
	}
	return !in.truth(v)
}

func (in *interp) evalCompare(f *frame, e *syntax.Compare) value {
	a := in.eval(f, e.X)
	var conds []ir.Expr
	for i, op := range e.Ops {
		b := in.eval(f, e.Rest[i])
		in.at = e.Loc
		r := in.compareOp(op, a, b)
		a = b
		if f.dsl && in.b != nil {
			c, known := in.condition(r)
			if c != nil {
				conds = append(conds, c)
				continue
			}
			if !known {
				if len(conds) == 0 {
					return false
				}
				conds = append(conds, ir.BoolConst(false))
				break
			}
			if len(conds) > 0 || i < len(e.Ops)-1 {
				if len(conds) > 0 {
					conds = append(conds, ir.BoolConst(true))
				}
				continue
			}
			return true
		}
		if i == len(e.Ops)-1 || !in.truth(r) {
			return r
		}
	}
	if len(conds) == 0 {
		return true
	}
	// a < b < c is (a < b) and (b < c), nested to the right.
	out := conds[len(conds)-1]
	for i := len(conds) - 2; i >= 0; i-- {
		out = in.logical(ir.And, conds[i], out)
	}
	return out
}

func (in *interp) evalIfExp(f *frame, e *syntax.IfExp) value {
	c := in.eval(f, e.Cond)
	in.at = e.Cond.Range()
	var truth bool
	if f.dsl && in.b != nil {
		cond, known := in.condition(c)
		if cond != nil {
			a := in.eval(f, e.Then)
			b := in.eval(f, e.Else)
			in.at = e.Loc
			return in.ifThenElse(cond, in.toExpr(a), in.toExpr(b))
		}
		truth = known
	} else {
		truth = in.truth(c)
	}
	if truth {
		return in.eval(f, e.Then)
	}
	return in.eval(f, e.Else)
}

// evalComp runs a comprehension; a generator expression is run at once.
func (in *interp) evalComp(f *frame, e *syntax.Comp) value {
	inner := newFrame(f)
	inner.comp, inner.dsl = true, f.dsl
	inner.fn, inner.yield = f.fn, f.yield
	var elts []value
	d := newDict()
	var loop func(i int)
	loop = func(i int) {
		if i == len(e.Fors) {
			switch e.Kind {
			case syntax.DictComp:
				k := in.eval(inner, e.Key)
				d.set(in, k, in.eval(inner, e.Elt))
			case syntax.SetComp:
				d.set(in, in.eval(inner, e.Elt), none)
			default:
				in.cells(1)
				elts = append(elts, in.eval(inner, e.Elt))
			}
			return
		}
		c := &e.Fors[i]
		scope := inner
		if i == 0 {
			scope = f // evaluated outside of the comprehension
		}
		it := in.eval(scope, c.Iter)
		in.at = c.Iter.Range()
		in.each(it, func(v value) bool {
			in.assignPlain(inner, c.Target, v)
			for _, cond := range c.Ifs {
				t := in.eval(inner, cond)
				in.at = cond.Range()
				if !in.truth(t) {
					return true
				}
			}
			loop(i + 1)
			return true
		})
	}
	loop(0)
	switch e.Kind {
	case syntax.DictComp:
		return d
	case syntax.SetComp:
		return &set{*d}
	case syntax.Generator:
		return &generator{elts: elts}
	}
	return &list{elts}
}

// generator is an iterator over values that have been computed.
type generator struct {
	elts []value
	next int
}

// each calls f with the elements of an iterable until it returns false.
func (in *interp) each(v value, f func(value) bool) {
	switch v := v.(type) {
	case pyRange:
		n := v.len()
		for i := range n {
			in.step()
			if !f(v.start + i*v.step) {
				return
			}
		}
		return
	case *list:
		for i := 0; i < len(v.elts); i++ { // the list may grow
			in.step()
			if !f(v.elts[i]) {
				return
			}
		}
		return
	case *generator:
		for v.next < len(v.elts) {
			in.step()
			v.next++
			if !f(v.elts[v.next-1]) {
				return
			}
		}
		return
	}
	for _, e := range in.iterate(v) {
		in.step()
		if !f(e) {
			return
		}
	}
}

// iterate is the elements of an iterable. The result must not be changed.
func (in *interp) iterate(v value) []value {
	switch v := v.(type) {
	case *tuple:
		return v.elts
	case *list:
		return v.elts
	case *dict:
		return v.keys
	case *set:
		return v.d.keys
	case *generator:
		rest := v.elts[v.next:]
		v.next = len(v.elts)
		return rest
	case pyRange:
		n := v.len()
		if n > MaxCells {
			in.cells(-1)
		}
		in.cells(int(n))
		out := make([]value, n)
		for i := range out {
			out[i] = v.start + int64(i)*v.step
		}
		return out
	case ir.DType: // a string in Python
		return in.iterate(v.String())
	case string:
		in.cells(len(v))
		var out []value
		for _, r := range v {
			out = append(out, string(r))
		}
		return out
	case *ir.Var:
		return []value{v} // with T.Kernel(n) as (bx,)
	case *unknown:
		panic(in.needKnown(v))
	case *instance:
		if m, ok := v.cls.lookup("__iter__"); ok {
			return in.iterate(in.call(&boundMethod{v, m}, nil))
		}
		if v.cls.fields != nil && !v.cls.data { // NamedTuple
			out := make([]value, len(v.cls.fields))
			for i, name := range v.cls.fields {
				out[i] = v.attrs[name]
			}
			return out
		}
	case *class:
		if vals, ok := v.attrs["__members__"].(*list); ok {
			return vals.elts
		}
	case *loopSpec, *stepLoop:
		panic(in.errorf("a T loop can be used in a for statement only").hint("use range for loops over constants").is("TypeError"))
	}
	if isExpr(v) {
		panic(in.errorf("%s is known only when the kernel runs: it cannot be iterated over", in.describe(v)).hint("use T.serial in a for statement").is("TypeError"))
	}
	panic(in.errorf("%s cannot be iterated over", in.typeWithValue(v)).is("TypeError"))
}

// typeWithValue is "str 'x'" for a message.
func (in *interp) typeWithValue(v value) string {
	switch v.(type) {
	case string, int64, float64, bool, ir.DType, *ir.Buffer, *function, *builtin, *tuple, *list:
		return typeName(v) + " " + in.describe(v)
	}
	return typeName(v)
}
