package cuda

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
)

// Precedence of C++ operators, tighter ones higher.
const (
	precTernary = iota + 3
	precOr
	precAnd
	precBitOr
	precBitXor
	precBitAnd
	precEqual
	precCompare
	precShift
	precAdd
	precMul
	precUnary
	precPostfix
)

// text is a printed expression.
type text struct {
	s    string
	prec int
}

func atom(s string) text                    { return text{s, precPostfix} }
func atomf(format string, args ...any) text { return text{fmt.Sprintf(format, args...), precPostfix} }
func (t text) in(prec int) string {
	if t.prec < prec {
		return "(" + t.s + ")"
	}
	return t.s
}

// operators of scalars: the token, its precedence, and the least precedence of
// each operand. Bit operations and shifts parenthesise arithmetic operands,
// and || its && operands, although C++ would not need it: people do.
var operators = map[string]struct {
	prec, left, right int
}{
	"+": {precAdd, precAdd, precMul}, "-": {precAdd, precAdd, precMul},
	"*": {precMul, precMul, precUnary}, "/": {precMul, precMul, precUnary}, "%": {precMul, precMul, precUnary},
	"<<": {precShift, precUnary, precUnary}, ">>": {precShift, precUnary, precUnary},
	"<": {precCompare, precShift, precShift}, "<=": {precCompare, precShift, precShift},
	">": {precCompare, precShift, precShift}, ">=": {precCompare, precShift, precShift},
	"==": {precEqual, precShift, precShift}, "!=": {precEqual, precShift, precShift},
	"&": {precBitAnd, precUnary, precUnary}, "^": {precBitXor, precUnary, precUnary}, "|": {precBitOr, precUnary, precUnary},
	"&&": {precAnd, precAnd, precBitOr}, "||": {precOr, precOr, precBitOr},
}

// infixText joins two operands. The left operand of a chain of one
// associative operator needs no parentheses.
func infixText(op string, a, b text) text {
	o := operators[op]
	left := o.left
	if (op == "&" || op == "|" || op == "^" || op == "||") && a.prec == o.prec {
		left = o.prec
	}
	return text{a.in(left) + " " + op + " " + b.in(o.right), o.prec}
}

// expr prints an expression.
func (g *gen) expr(e ir.Expr) text {
	switch e := e.(type) {
	case *ir.Var:
		return g.variable(e)
	case *ir.IntImm:
		return g.intConst(e.Type, e.Value)
	case *ir.FloatImm:
		return g.floatConst(e.Type, e.Value)
	case *ir.StringImm:
		return atom(quoteC(e.Value))
	case *ir.Cast:
		return g.cast(e)
	case *ir.Binary:
		return g.binary(e)
	case *ir.Not:
		if e.A.DType().Lanes > 1 {
			return g.mapLanes("!", e.DType(), e.A)
		}
		return text{"!" + g.expr(e.A).in(precUnary), precUnary}
	case *ir.Select:
		return g.choose(e.Cond, e.True, e.False)
	case *ir.Ramp:
		t := g.ctype(e.DType())
		g.pre.access(t)
		lanes := make([]string, e.Lanes)
		for i := range lanes {
			lanes[i] = g.expr(rampLane(e, i)).s
		}
		return atom(t.build(lanes))
	case *ir.Broadcast:
		return g.splat(g.ctype(e.DType()), e.Value)
	case *ir.Shuffle:
		return g.shuffle(e)
	case *ir.Let:
		return g.expr(ir.Substitute(e.Body, ir.SubstMap(map[*ir.Var]ir.Expr{e.Var: e.Value})))
	case *ir.BufferLoad:
		return g.load(e)
	case *ir.Call:
		return g.call(e)
	case *ir.Hidden:
		g.fail("a string that the text hides behind metadata")
	}
	g.fail("cannot print %T", e)
	return text{}
}

func rampLane(r *ir.Ramp, i int) ir.Expr {
	if i == 0 {
		return r.Base
	}
	return ir.NewBinary(ir.Add, r.Base, ir.NewBinary(ir.Mul, r.Stride, ir.IntConst(r.Stride.DType(), int64(i))))
}

func (g *gen) variable(v *ir.Var) text {
	if e := g.inline[v]; e != nil {
		return g.expr(e)
	}
	d, ok := g.vars[v]
	if !ok {
		d, ok = g.lost(v)
	}
	if !ok {
		g.fail("%s is not defined here", v.Name)
	}
	if d.single {
		return text{"&" + d.name, precUnary}
	}
	return atom(d.name)
}

// lost finds the allocation that a pointer of another text stands for: a
// shared buffer used after the block that allocates it is printed as a buffer
// of its own there.
func (g *gen) lost(v *ir.Var) (variable, bool) {
	b := g.facts.shared[v.Name]
	if b == nil || v.Ptr == nil || v.Ptr.Elem != b.Type || v.Ptr.Scope != b.Scope() {
		return variable{}, false
	}
	d, ok := g.vars[b.Data]
	return d, ok
}

func (g *gen) intConst(t ir.DType, v int64) text {
	neg := func(s string) text {
		if strings.HasPrefix(s, "-") {
			return text{s, precUnary}
		}
		return atom(s)
	}
	switch {
	case t.IsBool():
		if v != 0 {
			return atom("true")
		}
		return atom("false")
	case t.IsUInt() && t.Bits == 64:
		return atom(strconv.FormatUint(uint64(v), 10) + "ull")
	case t.IsUInt() && t.Bits == 32:
		if v >= 1<<31 {
			return atomf("0x%xu", v)
		}
		return atom(itoa(v) + "u")
	case t.IsInt() && t.Bits == 64:
		if v == math.MinInt64 {
			return text{"(-9223372036854775807ll - 1)", precPostfix}
		}
		return neg(itoa(v) + "ll")
	case v == math.MinInt32:
		return text{"(-2147483647 - 1)", precPostfix}
	case t.IsInteger() || t.IsHandle():
		return neg(itoa(v))
	}
	g.fail("an integer constant of type %s", t)
	return text{}
}

// floatConst prints a constant that reads back as the same value: decimal
// where the short form is exact, hexadecimal otherwise.
func (g *gen) floatConst(t ir.DType, v float64) text {
	sign := func(s string) text {
		if strings.HasPrefix(s, "-") {
			return text{s, precUnary}
		}
		return atom(s)
	}
	switch {
	case t == ir.DFloat64 || t.Code == ir.Float && t.Bits == 64:
		switch {
		case math.IsNaN(v):
			return atom("(double)" + g.use("nan", "NAN"))
		case math.IsInf(v, 0):
			return sign(minus(v) + "(double)" + g.use("infinity", "INFINITY"))
		}
		return sign(decimal(v, 64))
	case t.Code == ir.Float && t.Bits == 32 || t.Code == ir.TFloat32:
		f := float32(v)
		switch {
		case f != f:
			return atom(g.use("nan", "NAN"))
		case math.IsInf(float64(f), 0):
			return sign(minus(v) + g.use("infinity", "INFINITY"))
		}
		s := decimal(float64(f), 32)
		// The compiler may read the digits as a double first.
		if d, err := strconv.ParseFloat(s, 64); err != nil || float32(d) != f {
			s = strconv.FormatFloat(float64(f), 'x', -1, 32)
		}
		return sign(s + "f")
	case isNarrow(t):
		bits, ok := narrowBits(t, v)
		if !ok {
			g.fail("a constant of type %s", t)
		}
		c := g.ctype(t)
		digits := 4
		if t.IsFloat8() {
			digits = 2
		}
		return atomf("%s{0x%0*x /* %s */}", g.pre.typ(c), digits, bits, strconv.FormatFloat(v, 'g', 6, 64))
	}
	g.fail("a constant of type %s", t)
	return text{}
}

// use defines a helper and returns the name it goes by.
func (g *gen) use(helper, name string) string {
	g.pre.use(helper)
	return name
}

func minus(v float64) string {
	if v < 0 {
		return "-"
	}
	return ""
}

// decimal is the shortest decimal form of a finite number, with a point or an
// exponent so that it is a floating-point literal.
func decimal(v float64, bits int) string {
	a := math.Abs(v)
	f := byte('f')
	if a != 0 && (a < 1e-5 || a >= 1e15) {
		f = 'e'
	}
	s := strconv.FormatFloat(v, f, -1, bits)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

var binaryTokens = map[ir.BinOp]string{
	ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.Div: "/", ir.TruncMod: "%", ir.EQ: "==", ir.NE: "!=", ir.LT: "<", ir.LE: "<=",
	ir.GT: ">", ir.GE: ">=", ir.And: "&&", ir.Or: "||", ir.Min: "min", ir.Max: "max",
}

func (g *gen) binary(e *ir.Binary) text {
	if e.Op == ir.FloorDiv || e.Op == ir.FloorMod {
		return g.floor(e)
	}
	return g.operator(binaryTokens[e.Op], e.A, e.B)
}

// operator prints an operator or two-argument function on operands of one type.
func (g *gen) operator(op string, x, y ir.Expr) text {
	t := x.DType()
	if t.Lanes > 1 {
		return g.vectorOperator(op, x, y)
	}
	g.pre.scalarOp(op, t)
	a, b := g.expr(x), g.expr(y)
	if !infix[op] {
		return atomf("%s(%s, %s)", op, a.s, b.s)
	}
	if op == "+" && t.IsInt() && strings.HasPrefix(b.s, "-") && b.prec == precUnary {
		if c, ok := ir.AsInt(y); ok && c > math.MinInt32 {
			op, b = "-", g.intConst(t, -c)
		}
	}
	r := infixText(op, a, b)
	// C++ computes in int what is narrower.
	if t.IsInteger() && t.Bits < 32 && !isComparison(op) && op != "&" && op != "|" && op != "^" {
		return text{"(" + intNames[t] + ")(" + r.s + ")", precUnary}
	}
	return r
}

func (g *gen) vectorOperator(op string, x, y ir.Expr) text {
	t := g.ctype(x.DType())
	bx, isX := x.(*ir.Broadcast)
	by, isY := y.(*ir.Broadcast)
	left := isX && bx.Value.DType().Lanes == 1
	right := isY && by.Value.DType().Lanes == 1 && !left
	g.pre.vectorOp(op, t, left, right)
	var a, b text
	if left {
		a = g.expr(bx.Value)
	} else {
		a = g.expr(x)
	}
	if right {
		b = g.expr(by.Value)
	} else {
		b = g.expr(y)
	}
	if !infix[op] {
		return atomf("%s(%s, %s)", op, a.s, b.s)
	}
	return infixText(op, a, b)
}

// floor divides toward negative infinity. LowerIntrin leaves none behind; a
// positive constant divisor of a value known to be positive is common in IR
// written by hand.
func (g *gen) floor(e *ir.Binary) text {
	name := "floor_div"
	if e.Op == ir.FloorMod {
		name = "floor_mod"
	}
	if t := e.DType(); t.IsUInt() {
		return g.operator(map[string]string{"floor_div": "/", "floor_mod": "%"}[name], e.A, e.B)
	}
	g.pre.use(name)
	if t := e.DType(); t.Lanes > 1 {
		c := g.ctype(t)
		g.pre.vectorMap(name, c, []ctype{c, c})
	}
	return atomf("%s(%s, %s)", name, g.expr(e.A).s, g.expr(e.B).s)
}

// choose prints a conditional value; one side is evaluated.
func (g *gen) choose(cond, t, f ir.Expr) text {
	if n := int(cond.DType().Lanes); n > 1 {
		c, v := g.ctype(cond.DType()), g.ctype(t.DType())
		g.pre.access(c)
		g.pre.access(v)
		g.pre.add("select("+v.name+")", nil, func() string {
			lanes := make([]string, n)
			for i := range lanes {
				lanes[i] = v.narrow(fmt.Sprintf("%s ? %s : %s", c.lane("c", i), v.lane("a", i), v.lane("b", i)))
			}
			return fmt.Sprintf("%s%s select(%s c, %s a, %s b) { return %s; }", device, v.name, c.name, v.name, v.name, v.build(lanes))
		})
		return atomf("select(%s, %s, %s)", g.expr(cond).s, g.expr(t).s, g.expr(f).s)
	}
	return text{g.expr(cond).in(precOr) + " ? " + g.expr(t).in(precOr) + " : " + g.expr(f).in(precTernary), precTernary}
}

func (g *gen) cast(e *ir.Cast) text {
	from, to := e.Value.DType(), e.Type
	if from == to {
		return g.expr(e.Value)
	}
	if from.IsHandle() || to.IsHandle() {
		return text{"(" + g.ctypeOfPointer(to) + ")" + g.expr(e.Value).in(precUnary), precUnary}
	}
	f, t := g.ctype(from), g.ctype(to)
	if from.Lanes > 1 {
		if b, ok := e.Value.(*ir.Broadcast); ok && b.Value.DType().Lanes == 1 {
			return g.splat(t, &ir.Cast{Type: to.Scalar(), Value: b.Value})
		}
		return atomf("%s(%s)", g.pre.conv(from, to), g.expr(e.Value).s)
	}
	g.pre.typ(f)
	g.pre.typ(t)
	return g.pre.castText(from, to, g.expr(e.Value))
}

func (g *gen) ctypeOfPointer(t ir.DType) string {
	if t.IsHandle() {
		return "void*"
	}
	return g.ctype(t).name
}

func (g *gen) splat(t ctype, v ir.Expr) text {
	if n := int(v.DType().Lanes); n > 1 {
		g.fail("a vector of vectors: %s repeated %d times", v.DType(), t.lanes()/n)
	}
	fn, s := g.pre.splat(t), g.expr(v).s
	if _, err := strconv.ParseInt(s, 10, 32); err == nil && t.dtype.Bits < 32 && v.DType().IsInteger() {
		s = "(" + intNames[v.DType()] + ")" + s // an int would fit several types alike
	}
	return atomf("%s(%s)", fn, s)
}

// shuffle picks lanes. Vectors that are not plain values are repeated in the
// text for each lane taken from them; they have no effect besides their value.
func (g *gen) shuffle(e *ir.Shuffle) text {
	var lanes []string
	for _, v := range e.Vectors {
		t := v.DType()
		if t.Lanes == 1 {
			lanes = append(lanes, g.expr(v).s)
			continue
		}
		c := g.ctype(t)
		g.pre.access(c)
		s := g.expr(v).in(precPostfix)
		for i := 0; i < c.lanes(); i++ {
			lanes = append(lanes, c.lane(s, i))
		}
	}
	var out []string
	for _, x := range e.Indices {
		i, ok := ir.AsInt(x)
		if !ok || i < 0 || i >= int64(len(lanes)) {
			g.fail("a shuffle index must be a constant in 0..%d", len(lanes)-1)
		}
		out = append(out, lanes[i])
	}
	if len(out) == 1 {
		return atom(out[0])
	}
	t := g.ctype(e.DType())
	g.pre.access(t)
	return atom(t.build(out))
}

// mapLanes applies a scalar function or prefix operator to every lane.
func (g *gen) mapLanes(fn string, ret ir.DType, args ...ir.Expr) text {
	types := make([]ctype, len(args))
	parts := make([]string, len(args))
	for i, a := range args {
		types[i] = g.ctype(a.DType())
		parts[i] = g.expr(a).s
	}
	if ret.Lanes == 1 {
		return atomf("%s(%s)", fn, strings.Join(parts, ", "))
	}
	name := fn
	if fn == "!" || fn == "~" {
		name = "operator" + fn
	}
	g.pre.vectorMap(name, g.ctype(ret), types)
	if name != fn {
		return text{fn + g.expr(args[0]).in(precUnary), precUnary}
	}
	return atomf("%s(%s)", fn, strings.Join(parts, ", "))
}

// element is an lvalue: an element or a vector of a buffer.
func (g *gen) element(b *ir.Buffer, indices []ir.Expr, constant bool) text {
	base, d := g.base(b)
	if len(indices) != 1 {
		g.fail("%s has %d indices: FlattenBuffer must run first", b.Name, len(indices))
	}
	if b.ElemOffset != nil && !ir.IsConst(b.ElemOffset, 0) {
		g.fail("%s has an element offset: FlattenBuffer must run first", b.Name)
	}
	idx := indices[0]
	if idx.DType().Lanes == 1 {
		if d.single && ir.IsConst(idx, 0) {
			return base
		}
		return text{base.in(precPostfix) + "[" + g.expr(idx).s + "]", precPostfix}
	}
	r, ok := idx.(*ir.Ramp)
	if !ok || !ir.IsConst(r.Stride, 1) {
		g.fail("an access to %s whose lanes are not adjacent", b.Name)
	}
	t := g.ctype(b.Type.WithLanes(r.Lanes * int(b.Type.Lanes)))
	name := g.pre.typ(t)
	if constant {
		name = "const " + name
	}
	return text{"*(" + name + "*)" + g.address(base, r.Base).in(precUnary), precUnary}
}

func (g *gen) address(base text, index ir.Expr) text {
	if ir.IsConst(index, 0) {
		return base
	}
	return text{"&" + base.in(precPostfix) + "[" + g.expr(index).s + "]", precUnary}
}

// base is the pointer to a buffer's first element, cast where it was declared
// with another element type.
func (g *gen) base(b *ir.Buffer) (text, variable) {
	d, ok := g.vars[b.Data]
	if !ok {
		d, ok = g.lost(b.Data)
	}
	if !ok {
		g.fail("buffer %s is not defined here", b.Name)
	}
	if d.elem != b.Type {
		p := d.name
		if d.single {
			p = "&" + p
		}
		d.single = false
		return text{"(" + g.pre.typ(g.ctype(b.Type)) + "*)" + p, precUnary}, d
	}
	return atom(d.name), d
}

// readonly reports a pointer declared const.
func (g *gen) readonly(v *ir.Var) bool {
	for i, p := range g.fn.Params {
		if p == v {
			return indexSet(g.fn.Attr("tl.readonly_param_indices"))[i]
		}
	}
	return false
}

func (g *gen) load(e *ir.BufferLoad) text {
	var r text
	if idx, ok := scattered(e.Indices); ok {
		t := g.ctype(e.DType())
		if e.Buffer.Type.Lanes > 1 {
			g.fail("scattered lanes of a buffer of vectors")
		}
		g.pre.access(t)
		lanes := make([]string, len(idx))
		for i, x := range idx {
			lanes[i] = g.element(e.Buffer, []ir.Expr{x}, false).s
		}
		r = atom(t.build(lanes))
	} else {
		r = g.element(e.Buffer, e.Indices, g.readonly(e.Buffer.Data))
	}
	if e.Predicate != nil {
		t := g.ctype(e.DType())
		zero := g.expr(ir.Const(e.DType().Scalar(), 0)).s
		if t.lanes() > 1 {
			zero = g.pre.splat(t) + "(" + zero + ")"
		}
		return text{g.expr(e.Predicate).in(precOr) + " ? " + r.s + " : " + zero, precTernary}
	}
	return r
}

// scattered splits a vector index whose lanes are not adjacent.
func scattered(indices []ir.Expr) ([]ir.Expr, bool) {
	if len(indices) != 1 || indices[0].DType().Lanes == 1 {
		return nil, false
	}
	switch x := indices[0].(type) {
	case *ir.Ramp:
		if ir.IsConst(x.Stride, 1) {
			return nil, false
		}
	}
	out := make([]ir.Expr, indices[0].DType().Lanes)
	for i := range out {
		l, ok := laneOf(indices[0], i)
		if !ok {
			return nil, false
		}
		out[i] = l
	}
	return out, true
}

// laneOf is one lane of a vector expression of integers as a scalar.
func laneOf(e ir.Expr, i int) (ir.Expr, bool) {
	switch e := e.(type) {
	case *ir.Ramp:
		if e.Base.DType().Lanes > 1 {
			return nil, false
		}
		return rampLane(e, i), true
	case *ir.Broadcast:
		if n := int(e.Value.DType().Lanes); n > 1 {
			return laneOf(e.Value, i%n)
		}
		return e.Value, true
	case *ir.Binary:
		a, ok := laneOf(e.A, i)
		b, ok2 := laneOf(e.B, i)
		if !ok || !ok2 {
			return nil, false
		}
		return &ir.Binary{Op: e.Op, A: a, B: b}, true
	case *ir.Cast:
		v, ok := laneOf(e.Value, i)
		return &ir.Cast{Type: e.Type.Scalar(), Value: v}, ok
	case *ir.Call:
		if e.Op == nil || e.Op.Effect != ir.Pure {
			return nil, false
		}
		args := make([]ir.Expr, len(e.Args))
		for j, a := range e.Args {
			args[j] = a
			if a.DType().Lanes > 1 {
				l, ok := laneOf(a, i)
				if !ok {
					return nil, false
				}
				args[j] = l
			}
		}
		return &ir.Call{Op: e.Op, Type: e.Type.Scalar(), Args: args, Attrs: e.Attrs}, true
	case *ir.BufferLoad:
		idx := make([]ir.Expr, len(e.Indices))
		for j, x := range e.Indices {
			l, ok := laneOf(x, i)
			if x.DType().Lanes == 1 {
				l, ok = x, true
			}
			if !ok {
				return nil, false
			}
			idx[j] = l
		}
		return &ir.BufferLoad{Buffer: e.Buffer, Indices: idx}, true
	}
	return nil, false
}
