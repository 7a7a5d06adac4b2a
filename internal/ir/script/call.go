package script

import (
	"slices"
	"strconv"
	"sync"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// special are the calls of T.* that are not operators: nodes with a type of
// their own, and operators of the IR in function form.
var special map[string]func(*builder, *syntax.Call) ir.Expr

func init() {
	special = map[string]func(*builder, *syntax.Call) ir.Expr{
		"Cast": (*builder).castCall, "cast": (*builder).oldCast,
		"Select": (*builder).selectCall, "Ramp": (*builder).ramp, "ramp": (*builder).ramp,
		"Broadcast": (*builder).broadcast, "broadcast": (*builder).broadcast,
		"Shuffle": (*builder).shuffle, "Let": (*builder).let, "Not": (*builder).notCall,
		"ceildiv": (*builder).ceilDiv, "meta_var": (*builder).metaVar,
	}
	for name, op := range functionForms {
		special[name] = func(b *builder, c *syntax.Call) ir.Expr { return b.functionForm(op, c) }
	}
}

// functionForms are the operators as functions: T.Mul(0, 32) is not folded.
var functionForms = map[string]ir.BinOp{
	"Add": ir.Add, "Sub": ir.Sub, "Mul": ir.Mul, "Div": ir.Div, "truncmod": ir.TruncMod, "Mod": ir.TruncMod,
	"FloorDiv": ir.FloorDiv, "FloorMod": ir.FloorMod, "min": ir.Min, "max": ir.Max, "Min": ir.Min, "Max": ir.Max,
	"EQ": ir.EQ, "NE": ir.NE, "LT": ir.LT, "LE": ir.LE, "GT": ir.GT, "GE": ir.GE, "And": ir.And, "Or": ir.Or,
	// older spellings
	"truncdiv": ir.Div, "floordiv": ir.FloorDiv, "floormod": ir.FloorMod,
}

// call reads a call in an expression.
func (b *builder) call(c *syntax.Call) ir.Expr {
	a, ok := c.Fn.(*syntax.Attr)
	if !ok {
		if n, isName := c.Fn.(*syntax.Name); isName {
			if loc, known := b.funcs[n.ID]; known && loc.End > 0 {
				return b.globalCall(n.ID, c)
			}
			if x, known := b.pyCall(n.ID, c); known {
				return x
			}
		}
		b.errorf(c.Fn, "expected a call of %s.NAME or %s.NAME", b.prefix, b.class)
		return nil
	}
	n, ok := a.X.(*syntax.Name)
	if ok && n.ID == b.class && b.class != b.prefix {
		if _, shadowed := b.lookup(n.ID); !shadowed {
			return b.globalCall(a.Name, c)
		}
	}
	if !ok || n.ID != b.prefix {
		return b.method(a, c)
	}
	name := a.Name
	if f := special[name]; f != nil {
		if len(c.Keywords) > 0 && name != "Let" && name != "Cast" {
			b.errorf(&c.Keywords[0], "%s.%s has no keyword arguments", b.prefix, name)
			return nil
		}
		return f(b, c)
	}
	if op := ir.LookupOp(name); op != nil {
		return b.opCall(op, c)
	}
	if t, err := ir.ParseDType(name); err == nil {
		return b.typedConst(t, c)
	}
	b.unknown(a, "operator", operatorNames())
	return nil
}

// operatorNames are all names of T that can be called, for suggestions.
var operatorNames = sync.OnceValue(func() []string {
	var names []string
	for _, op := range ir.Ops() {
		names = append(names, op.Name)
	}
	for name := range special {
		names = append(names, name)
	}
	names = append(names, typeNames...)
	names = append(names, "attr", "launch_thread", "evaluate", "reads", "writes", "where", "sblock", "sblock_attr",
		"sblock_alloc_buffer", "alloc_buffer", "decl_buffer", "match_buffer", "Buffer", "func_attr", "init", "block", "grid", "serial", "parallel",
		"vectorized", "unroll", "thread_binding")
	slices.Sort(names)
	return names
})

func (b *builder) globalCall(name string, c *syntax.Call) ir.Expr {
	n := &ir.Call{Global: name, Type: ir.DInt32}
	ok := true
	if n.Args, ok = b.args(c.Args); !ok {
		return nil
	}
	return n
}

// method is A.vload([indices], predicate=p), x.astype("float16"). The type that
// vload is given in texts of Python's is the one it has.
func (b *builder) method(a *syntax.Attr, c *syntax.Call) ir.Expr {
	switch a.Name {
	case "vload":
		buf, isBuf := b.bufferRef(a.X)
		if !isBuf || buf == nil || len(c.Args) < 1 || len(c.Args) > 2 {
			break
		}
		idx, ok := b.exprList(c.Args[0])
		if !ok {
			return nil
		}
		n := &ir.BufferLoad{Buffer: buf, Indices: idx}
		if len(c.Args) == 2 {
			if t, ok := b.dtype(c.Args[1]); !ok {
				return nil
			} else if have := n.DType(); t != have {
				b.errorf(c.Args[1], "the element is %s, not %s", have, t)
				return nil
			}
		}
		for i := range c.Keywords {
			if c.Keywords[i].Name == "predicate" {
				n.Predicate = b.expr(c.Keywords[i].Value)
			}
		}
		return n
	case "astype":
		if len(c.Args) == 1 {
			x := b.expr(a.X)
			t, ok := b.dtype(c.Args[0])
			if x == nil || !ok {
				return nil
			}
			return ir.CastTo(x, t)
		}
	}
	b.errorf(c.Fn, "expected a call of %s.NAME or %s.NAME", b.prefix, b.class)
	return nil
}

func (b *builder) args(list []syntax.Expr) ([]ir.Expr, bool) {
	base, ok := len(b.exprs), true
	for _, e := range list {
		if v := b.expr(e); v != nil {
			b.exprs = append(b.exprs, v)
		} else {
			ok = false
		}
	}
	return b.popExprs(base), ok
}

// opCall is a call of a registered operator.
func (b *builder) opCall(op *ir.Op, c *syntax.Call) ir.Expr {
	list, keywords := c.Args, c.Keywords
	stated := ir.DVoid
	ok := true
	switch op.Rule {
	case ir.TypeFirst:
		if i := slices.IndexFunc(keywords, func(k syntax.Keyword) bool { return k.Name == "dtype" }); i >= 0 { // as in older texts
			stated, ok = b.dtype(keywords[i].Value)
			keywords = slices.Concat(keywords[:i], keywords[i+1:])
			break
		}
		if len(list) == 0 {
			b.errorf(c, "%s.%s begins with its result type", b.prefix, op.Name)
			return nil
		}
		stated, ok = b.dtype(list[0])
		list = list[1:]
	case ir.TypeLast:
		if len(list) == 0 {
			b.errorf(c, "%s.%s ends with its result type", b.prefix, op.Name)
			return nil
		}
		stated, ok = b.dtype(list[len(list)-1])
		list = list[:len(list)-1]
	}
	args, good := b.args(list)
	n := b.calls.new()
	n.Op, n.Args = op, args
	if len(keywords) > 0 {
		n.Attrs = make([]ir.Arg, 0, len(keywords))
		for i := range keywords {
			k := &keywords[i]
			if k.Name == "" {
				b.unknownKeyword(k, nil)
				good = false
				continue
			}
			v := b.attr(k.Value)
			if v == nil {
				good = false
				continue
			}
			n.Attrs = append(n.Attrs, ir.Arg{Name: k.Name, Value: v})
		}
	}
	if !ok || !good {
		return nil
	}
	if len(args) < op.MinArgs || op.MaxArgs >= 0 && len(args) > op.MaxArgs {
		b.arity(op, c, len(args))
		return nil
	}
	if !b.operands(op, c, args) {
		return nil
	}
	t, err := op.ResultType(args, stated)
	if err != nil {
		b.errorf(c, "%v", err)
		return nil
	}
	n.Type = t
	return n
}

func (b *builder) arity(op *ir.Op, c *syntax.Call, got int) {
	want := diag.Count(op.MinArgs, "argument")
	switch {
	case op.MaxArgs < 0:
		want = "at least " + want
	case op.MinArgs != op.MaxArgs:
		want = strconv.Itoa(op.MinArgs) + " to " + diag.Count(op.MaxArgs, "argument")
	}
	verb := "are"
	if got == 1 {
		verb = "is"
	}
	b.errorf(c, "%s.%s takes %s, %d %s given", b.prefix, op.Name, want, got, verb)
}

// typedConst is T.float16(1.0), T.int64(3), T.bool(True); of other values it
// is a conversion.
func (b *builder) typedConst(t ir.DType, c *syntax.Call) ir.Expr {
	if len(c.Args) != 1 || len(c.Keywords) > 0 {
		d := b.errorf(c, "%s.%s takes one value", b.prefix, t)
		if len(c.Args) == 0 {
			d.Hint = "NAME = " + b.prefix + "." + t.String() + "() declares a variable"
		}
		return nil
	}
	neg := false
	arg := c.Args[0]
	if u, ok := arg.(*syntax.Unary); ok && u.Op == syntax.Neg {
		if _, isNum := u.X.(*syntax.Num); isNum {
			neg, arg = true, u.X
		}
	}
	switch x := arg.(type) {
	case *syntax.Num:
		if x.IsFloat || t.IsFloat() {
			v, ok := x.Float()
			if !ok || !t.IsFloat() || !t.IsScalar() {
				b.errorf(x, "expected a value of type %s", t)
				return nil
			}
			if neg {
				v = -v
			}
			return ir.FloatConst(t, v)
		}
		v, ok := x.Int()
		if !ok || !t.IsInteger() && !t.IsBool() {
			b.errorf(x, "expected a value of type %s", t)
			return nil
		}
		if neg {
			v = -v
		}
		if v < 0 && !neg && !(t.IsUInt() && t.Bits == 64) || ir.WrapInt(t, v) != v {
			b.errorf(x, "the number does not fit %s", t)
			return nil
		}
		return ir.Splat(b.intImm(t.Scalar(), v), int(t.Lanes))
	case *syntax.Str:
		if v, ok := parseFloatText(x.Value); ok && t.IsFloat() && t.IsScalar() {
			return ir.FloatConst(t, v)
		}
		b.errorf(x, "expected a value of type %s", t)
		return nil
	}
	v := b.expr(arg)
	if v == nil {
		return nil
	}
	if t.IsHandle() || t.IsVoid() || v.DType().IsHandle() {
		b.errorf(arg, "expected a value of type %s, found %s", t, v.DType())
		return nil
	}
	if v.DType() == t {
		return v
	}
	if v.DType().Lanes != t.Lanes {
		if !v.DType().IsScalar() {
			b.errorf(arg, "expected %s, found %d", diag.Count(int(t.Lanes), "lane"), v.DType().Lanes)
			return nil
		}
		return ir.Splat(ir.CastTo(v, t.Scalar()), int(t.Lanes))
	}
	return ir.CastTo(v, t)
}

func (b *builder) wantArgs(c *syntax.Call, n int, what string) bool {
	if len(c.Args) == n {
		return true
	}
	b.errorf(c, "expected %s", what)
	return false
}

// castCall is T.Cast(type, value). Of the hints that TileLang's T.cast leaves in
// annotations, "sat" changes nothing on the targets there are and is dropped.
func (b *builder) castCall(c *syntax.Call) ir.Expr {
	for i := range c.Keywords {
		k := &c.Keywords[i]
		hints, ok := k.Value.(*syntax.Dict)
		if k.Name != "annotations" || !ok {
			b.unknownKeyword(k, []string{"annotations"})
			return nil
		}
		for _, key := range hints.Keys {
			if s, ok := key.(*syntax.Str); !ok || s.Value != "sat" {
				b.errorf(key, "a conversion with a rounding mode has no lowering for the targets there are")
				return nil
			}
		}
	}
	if !b.wantArgs(c, 2, "a type and a value") {
		return nil
	}
	t, ok := b.dtype(c.Args[0])
	x := b.expr(c.Args[1])
	if !ok || x == nil {
		return nil
	}
	if t.Lanes != x.DType().Lanes {
		b.errorf(c, "a conversion from %s to %s changes the number of lanes", x.DType(), t)
		return nil
	}
	return &ir.Cast{Type: t, Value: x}
}

// oldCast is T.cast(value, type) of older texts.
func (b *builder) oldCast(c *syntax.Call) ir.Expr {
	if !b.wantArgs(c, 2, "a value and a type") {
		return nil
	}
	x := b.expr(c.Args[0])
	t, ok := b.dtype(c.Args[1])
	if !ok || x == nil {
		return nil
	}
	return ir.CastTo(x, t)
}

func (b *builder) selectCall(c *syntax.Call) ir.Expr {
	if !b.wantArgs(c, 3, "a condition and two values") {
		return nil
	}
	args, ok := b.args(c.Args)
	if !ok {
		return nil
	}
	if !args[0].DType().IsBool() {
		b.errorf(c.Args[0], "expected a condition, found %s", args[0].DType())
		return nil
	}
	x, y, ok := b.match(c, args[1], args[2])
	if !ok {
		return nil
	}
	return &ir.Select{Cond: args[0], True: x, False: y}
}

func (b *builder) lanes(e syntax.Expr) (int, bool) {
	n, ok := b.intConst(e)
	if ok && (n < 1 || n > ir.MaxLanes) {
		b.errorf(e, "the number of lanes must be between 1 and %d", ir.MaxLanes)
		ok = false
	}
	return int(n), ok
}

func (b *builder) ramp(c *syntax.Call) ir.Expr {
	if !b.wantArgs(c, 3, "a base, a stride and a number of lanes") {
		return nil
	}
	base, stride := b.expr(c.Args[0]), b.expr(c.Args[1])
	n, ok := b.lanes(c.Args[2])
	if base == nil || stride == nil || !ok {
		return nil
	}
	base, stride, ok = b.match(c, base, stride)
	if !ok {
		return nil
	}
	if t := base.DType(); !t.IsInteger() && !t.IsFloat() || int(t.Lanes)*n > ir.MaxLanes {
		b.errorf(c, "expected at most %d lanes", ir.MaxLanes)
		return nil
	}
	return &ir.Ramp{Base: base, Stride: stride, Lanes: n}
}

func (b *builder) broadcast(c *syntax.Call) ir.Expr {
	if !b.wantArgs(c, 2, "a value and a number of lanes") {
		return nil
	}
	x := b.expr(c.Args[0])
	n, ok := b.lanes(c.Args[1])
	if x == nil || !ok {
		return nil
	}
	if t := x.DType(); t.IsVoid() || int(t.Lanes)*n > ir.MaxLanes {
		b.errorf(c, "expected at most %d lanes of a value", ir.MaxLanes)
		return nil
	}
	return &ir.Broadcast{Value: x, Lanes: n}
}

func (b *builder) shuffle(c *syntax.Call) ir.Expr {
	if !b.wantArgs(c, 2, "a list of vectors and a list of lanes") {
		return nil
	}
	v, ok1 := b.exprList(c.Args[0])
	i, ok2 := b.exprList(c.Args[1])
	if !ok1 || !ok2 {
		return nil
	}
	if len(v) == 0 || len(i) == 0 || len(i) > ir.MaxLanes {
		b.errorf(c, "expected at least one vector and 1 to %d lanes", ir.MaxLanes)
		return nil
	}
	return &ir.Shuffle{Vectors: v, Indices: i}
}

// let is T.Let(body, where={variable: value}).
func (b *builder) let(c *syntax.Call) ir.Expr {
	var d *syntax.Dict
	if len(c.Keywords) == 1 && c.Keywords[0].Name == "where" {
		d, _ = c.Keywords[0].Value.(*syntax.Dict)
	}
	if d == nil || len(c.Args) != 1 || len(d.Keys) != 1 {
		b.errorf(c, "expected %s.Let(body, where={variable: value})", b.prefix)
		return nil
	}
	n, ok := d.Keys[0].(*syntax.Name)
	if !ok {
		b.errorf(c, "expected a variable")
		return nil
	}
	value := b.expr(d.Values[0])
	if value == nil {
		return nil
	}
	mark := b.open()
	defer b.close(mark)
	v := b.newVar(n.ID, value.DType(), pointerOf(value), n.Loc)
	body := b.expr(c.Args[0])
	if body == nil {
		return nil
	}
	return &ir.Let{Var: v, Value: value, Body: body}
}

func (b *builder) notCall(c *syntax.Call) ir.Expr {
	if !b.wantArgs(c, 1, "one condition") {
		return nil
	}
	x := b.cond(c.Args[0])
	if x == nil {
		return nil
	}
	return &ir.Not{A: x}
}

// functionForm is an operator in function form, which nothing folds.
func (b *builder) functionForm(op ir.BinOp, c *syntax.Call) ir.Expr {
	if !b.wantArgs(c, 2, "two operands") {
		return nil
	}
	x, y := b.expr(c.Args[0]), b.expr(c.Args[1])
	if x == nil || y == nil {
		return nil
	}
	if op.IsComparison() {
		x, y = constLike(x, y)
	}
	x, y, ok := b.match(c, x, y)
	if !ok {
		return nil
	}
	t := x.DType()
	if t.IsBool() {
		op, _ = onBools(op)
	}
	if op.IsLogical() != t.IsBool() && (op.IsLogical() || !op.IsComparison()) || t.IsVoid() ||
		!op.IsComparison() && t.IsHandle() {
		d := b.errorf(c, "%s of %s", op, t)
		if t.IsBool() {
			d.Hint = b.hintForBools()
		}
		return nil
	}
	n := b.binaries.new()
	*n = ir.Binary{Op: op, A: x, B: y}
	return n
}
