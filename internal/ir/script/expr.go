package script

import (
	"math"
	"strconv"
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// smallInts are int32 constants shared by all texts.
var smallInts = func() (t [1025]ir.IntImm) {
	for i := range t {
		t[i] = ir.IntImm{Type: ir.DInt32, Value: int64(i)}
	}
	return
}()

func (b *builder) intImm(t ir.DType, v int64) *ir.IntImm {
	if t == ir.DInt32 && v >= 0 && v < int64(len(smallInts)) {
		return &smallInts[v]
	}
	n := b.ints.new()
	*n = ir.IntImm{Type: t, Value: v}
	return n
}

// literal is an integer literal: int32, or int64 where it does not fit.
func (b *builder) literal(v int64) *ir.IntImm {
	if v != int64(int32(v)) {
		return b.intImm(ir.DInt64, v)
	}
	return b.intImm(ir.DInt32, v)
}

// expr reads an expression. It is nil after a mistake, which was reported.
func (b *builder) expr(e syntax.Expr) ir.Expr {
	switch e := e.(type) {
	case *syntax.Name:
		s, ok := b.lookup(e.ID)
		if !ok {
			b.undefined(e)
			return nil
		}
		if s.v != nil {
			return s.v
		}
		if s.buf != nil {
			d := b.errorf(e, "%s is a buffer: expected a value", e.ID)
			d.Hint = "read an element, " + e.ID + "[..], or take its pointer, " + e.ID + ".data"
		}
		return nil
	case *syntax.Num:
		return b.num(e, false)
	case *syntax.Binary:
		return b.binary(e)
	case *syntax.Call:
		return b.call(e)
	case *syntax.Index:
		return b.index(e)
	case *syntax.Attr:
		return b.attribute(e)
	case *syntax.Str:
		return &ir.StringImm{Value: e.Value}
	case *syntax.Const:
		switch e.Kind {
		case syntax.True:
			return ir.BoolConst(true)
		case syntax.False:
			return ir.BoolConst(false)
		}
		b.errorf(e, "expected a value")
		return nil
	case *syntax.Unary:
		return b.unary(e)
	case *syntax.Compare:
		return b.compare(e)
	case *syntax.IfExp:
		c, t, f := b.cond(e.Cond), b.expr(e.Then), b.expr(e.Else)
		if c == nil || t == nil || f == nil {
			return nil
		}
		t, f, ok := b.match(e, t, f)
		if !ok {
			return nil
		}
		return ir.NewCall(opIfThenElse, c, t, f)
	case *syntax.BadExpr:
		return nil
	}
	b.errorf(e, "expected a value")
	return nil
}

var opIfThenElse = ir.MustOp("if_then_else")

func (b *builder) num(e *syntax.Num, neg bool) ir.Expr {
	if e.IsFloat {
		v, ok := e.Float()
		if !ok {
			b.errorf(e, "malformed number")
			return nil
		}
		if neg {
			v = -v
		}
		return ir.FloatConst(ir.DFloat32, v)
	}
	v, ok := e.Int()
	if !ok || v < 0 && !(neg && v == math.MinInt64) {
		b.errorf(e, "the number does not fit 64 bits")
		return nil
	}
	if neg {
		v = -v
	}
	return b.literal(v)
}

func (b *builder) unary(e *syntax.Unary) ir.Expr {
	if n, ok := e.X.(*syntax.Num); ok && e.Op == syntax.Neg {
		return b.num(n, true)
	}
	if e.Op == syntax.Not {
		x := b.cond(e.X)
		if x == nil {
			return nil
		}
		return &ir.Not{A: x} // not folded, not even of a constant
	}
	if v, _, ok := pyInt(e); ok && e.Op == syntax.Invert {
		return b.literal(v)
	}
	x := b.expr(e.X)
	if x == nil {
		return nil
	}
	switch t := x.DType(); e.Op {
	case syntax.Neg:
		if !t.IsHandle() && !t.IsVoid() && !t.IsBool() {
			return b.fold(ir.Mul, x, ir.Const(t, -1))
		}
		b.errorf(e, "'-' of %s", t)
		return nil
	case syntax.Invert:
		if t.IsInteger() {
			return ir.NewCall(ir.MustOp("bitwise_not"), x)
		}
		d := b.errorf(e, "'~' of %s", t)
		if t.IsBool() {
			d.Hint = "the opposite of a condition is `not`"
		}
		return nil
	}
	return x
}

var binaryOps = map[syntax.Op]ir.BinOp{
	syntax.Add: ir.Add, syntax.Sub: ir.Sub, syntax.Mul: ir.Mul, syntax.Div: ir.Div,
	syntax.FloorDiv: ir.FloorDiv, syntax.Mod: ir.FloorMod,
	syntax.EQ: ir.EQ, syntax.NE: ir.NE, syntax.LT: ir.LT, syntax.LE: ir.LE, syntax.GT: ir.GT, syntax.GE: ir.GE,
	syntax.And: ir.And, syntax.Or: ir.Or,
}

var binaryOpTable = func() (t [64]int8) {
	for i := range t {
		t[i] = -1
	}
	for op, x := range binaryOps {
		t[op] = int8(x)
	}
	return
}()

var bitOps = map[syntax.Op]*ir.Op{
	syntax.BitAnd: ir.MustOp("bitwise_and"), syntax.BitOr: ir.MustOp("bitwise_or"), syntax.BitXor: ir.MustOp("bitwise_xor"),
	syntax.LShift: ir.MustOp("shift_left"), syntax.RShift: ir.MustOp("shift_right"), syntax.Pow: ir.MustOp("pow"),
}

// binary reads an infix operator. Chains to the left are read in a loop, for
// they may be long.
func (b *builder) binary(e *syntax.Binary) ir.Expr {
	switch e.Y.(type) {
	case *syntax.Num, *syntax.Unary:
		if x, known := b.pyBinary(e); known {
			return x
		}
	}
	x := b.expr(e.X)
	return b.apply(e, e.Op, x, b.expr(e.Y), e.X, e.Y)
}

// apply applies an infix operator to operands that were read.
func (b *builder) apply(e syntax.Expr, op syntax.Op, x, y ir.Expr, ex, ey syntax.Expr) ir.Expr {
	if x == nil || y == nil {
		return nil
	}
	if o := bitOps[op]; o != nil {
		x, y, ok := b.match(e, x, y)
		if !ok {
			return nil
		}
		if t := x.DType(); t.IsBool() && (op == syntax.LShift || op == syntax.RShift || op == syntax.Pow) {
			b.errorf(e, "'%s' of %s", op, t)
			return nil
		}
		return ir.NewCall(o, x, y)
	}
	if binaryOpTable[op] < 0 {
		b.errorf(e, "operator '%s' has no meaning in a kernel", op)
		return nil
	}
	o := ir.BinOp(binaryOpTable[op])
	if x.DType() != y.DType() {
		if o.IsComparison() {
			x, y = constLike(x, y)
		}
		var ok bool
		if x, y, ok = b.match(e, x, y); !ok {
			return nil
		}
	}
	t := x.DType()
	switch {
	case o.IsLogical() && !t.IsBool():
		b.errorf(e, "'%s' of %s: expected conditions", op, t)
		return nil
	case o <= ir.FloorMod && (t.IsHandle() || t.IsVoid()):
		b.errorf(e, "'%s' of %s", op, t)
		return nil
	case o <= ir.FloorMod && t.IsBool():
		var ok bool
		if o, ok = onBools(o); !ok {
			b.errorf(e, "'%s' of %s", op, t).Hint = b.hintForBools()
			return nil
		}
	case (o == ir.FloorDiv || o == ir.FloorMod) && t.IsFloat():
		b.errorf(e, "'%s' of %s: expected integers", op, t).Hint = "the quotient rounded down is " + b.prefix + ".floor(a / b)"
		return nil
	case o == ir.Div && t.IsInteger():
		d := b.errorf(e, "'/' of integers")
		d.Hint = "write // to round down or " + b.prefix + ".Div to truncate"
		return nil
	}
	return b.fold(o, x, y)
}

// fold makes an operator node, folded where TVM's operators fold.
func (b *builder) fold(op ir.BinOp, x, y ir.Expr) ir.Expr {
	if folds(op, x, y) {
		return ir.NewBinary(op, x, y)
	}
	n := b.binaries.new()
	*n = ir.Binary{Op: op, A: x, B: y}
	return n
}

// index is an element or vector of a buffer, or metadata["T"][i].
func (b *builder) index(e *syntax.Index) ir.Expr {
	if h := b.metadata(e); h != nil {
		return h
	}
	if a, ok := e.X.(*syntax.Attr); ok {
		if v, ok := b.dimOf(a, e); ok {
			return v
		}
	}
	buf, isBuf := b.bufferRef(e.X)
	if !isBuf {
		b.errorf(e.X, "expected a buffer")
		return nil
	}
	if buf == nil {
		return nil
	}
	idx, ok := b.indices(e, buf)
	if !ok {
		return nil
	}
	n := b.loads.new()
	*n = ir.BufferLoad{Buffer: buf, Indices: idx}
	return n
}

// metadata reads metadata["Type"][index].
func (b *builder) metadata(e *syntax.Index) *ir.Hidden {
	in, ok := e.X.(*syntax.Index)
	if !ok || len(in.Indices) != 1 || len(e.Indices) != 1 {
		return nil
	}
	n, ok := in.X.(*syntax.Name)
	if !ok || n.ID != "metadata" {
		return nil
	}
	s, ok1 := in.Indices[0].(*syntax.Str)
	i, ok2 := e.Indices[0].(*syntax.Num)
	if !ok1 || !ok2 {
		return nil
	}
	v, ok := i.Int()
	if !ok || v < 0 || v > math.MaxInt32 {
		return nil
	}
	return &ir.Hidden{Type: s.Value, Index: int(v)}
}

// dimOf is A.shape[i] or A.strides[i].
func (b *builder) dimOf(a *syntax.Attr, e *syntax.Index) (ir.Expr, bool) {
	if a.Name != "shape" && a.Name != "strides" {
		return nil, false
	}
	buf, ok := b.bufferRef(a.X)
	if !ok {
		return nil, false
	}
	if buf == nil {
		return nil, true
	}
	list := buf.Shape
	if a.Name == "strides" {
		list = buf.Strides
	}
	if len(e.Indices) == 1 {
		if i, ok := b.intConst(e.Indices[0]); ok {
			if i >= 0 && i < int64(len(list)) {
				return list[i], true
			}
			b.errorf(e, "%s has %s", buf.Name, diag.Count(len(list), "dimension"))
		}
	}
	return nil, true
}

// checkRank compares the number of indices with the buffer's dimensions.
func (b *builder) checkRank(e *syntax.Index, buf *ir.Buffer) bool {
	if len(e.Indices) == len(buf.Shape) {
		return true
	}
	d := b.errorf(e, "%s has %s, but is given %s", buf.Name,
		diag.Count(len(buf.Shape), "dimension"), diag.Count(len(e.Indices), "index"))
	if buf.Org.IsValid() {
		d.Notes = append(d.Notes, diag.Note{Span: buf.Org, Message: "shape declared here"})
	}
	return false
}

func (b *builder) indices(e *syntax.Index, buf *ir.Buffer) ([]ir.Expr, bool) {
	if !b.checkRank(e, buf) {
		for _, x := range e.Indices {
			if _, ok := x.(*syntax.Slice); !ok {
				b.expr(x)
			}
		}
		return nil, false
	}
	base := len(b.exprs)
	ok := true
	for i, x := range e.Indices {
		v := b.oneIndex(x, buf, i)
		if v == nil {
			ok = false
			continue
		}
		if t := v.DType(); !t.IsInteger() {
			b.errorf(x, "an index is an integer, found %s", t)
			ok = false
			continue
		}
		b.exprs = append(b.exprs, v)
	}
	return b.popExprs(base), ok
}

func (b *builder) oneIndex(x syntax.Expr, buf *ir.Buffer, i int) ir.Expr {
	s, ok := x.(*syntax.Slice)
	if !ok {
		return b.expr(x)
	}
	lo, hi, ok := b.sliceEnds(s, buf.Shape[i])
	if !ok {
		return nil
	}
	step := int64(1)
	if s.Step != nil {
		if step, ok = b.intConst(s.Step); !ok || step == 0 {
			b.errorf(s.Step, "the step of a vector access is an integer other than 0")
			return nil
		}
	}
	n, ok := ir.AsInt(distance(lo, hi))
	if !ok || n%step != 0 || n/step < 1 || n/step > ir.MaxLanes {
		b.errorf(x, "a vector access needs a constant number of lanes between 1 and %d", ir.MaxLanes)
		return nil
	}
	if n == step {
		return lo
	}
	return &ir.Ramp{Base: lo, Stride: ir.IntConst(lo.DType(), step), Lanes: int(n / step)}
}

// popExprs makes a list of the expressions on the stack from base on.
func (b *builder) popExprs(base int) []ir.Expr {
	n := len(b.exprs) - base
	if n == 0 {
		return nil
	}
	const chunk = 256
	var list []ir.Expr
	if n > chunk/4 {
		list = make([]ir.Expr, n)
	} else {
		if len(b.list) < n {
			b.list = make([]ir.Expr, chunk)
		}
		list, b.list = b.list[:n:n], b.list[n:]
	}
	copy(list, b.exprs[base:])
	b.exprs = b.exprs[:base]
	return list
}

// exprList reads [a, b] or (a, b), or one expression.
func (b *builder) exprList(e syntax.Expr) ([]ir.Expr, bool) {
	list := []syntax.Expr{e}
	switch x := e.(type) {
	case *syntax.List:
		list = x.Elts
	case *syntax.Tuple:
		list = x.Elts
	}
	base, ok := len(b.exprs), true
	for _, x := range list {
		if v := b.expr(x); v != nil {
			b.exprs = append(b.exprs, v)
		} else {
			ok = false
		}
	}
	return b.popExprs(base), ok
}

// integer reads a scalar integer.
func (b *builder) integer(e syntax.Expr) ir.Expr {
	x := b.expr(e)
	if x == nil {
		return nil
	}
	if t := x.DType(); !t.IsInteger() || !t.IsScalar() {
		b.errorf(e, "expected an integer, found %s", t)
		return nil
	}
	return x
}

// integers reads [a, b] or (a, b), or one integer.
func (b *builder) integers(e syntax.Expr) ([]ir.Expr, bool) {
	list, ok := b.exprList(e)
	for i, x := range list {
		if t := x.DType(); ok && (!t.IsInteger() || !t.IsScalar()) {
			b.errorf(e, "expected integers, but element %d is %s", i+1, t)
			ok = false
		}
	}
	return list, ok
}

func (b *builder) intConst(e syntax.Expr) (int64, bool) {
	if x := b.expr(e); x != nil {
		if v, ok := ir.AsInt(x); ok {
			return v, true
		}
		b.errorf(e, "expected an integer constant")
	}
	return 0, false
}

// attribute is A.data and the like.
func (b *builder) attribute(e *syntax.Attr) ir.Expr {
	if name, ok := b.tirName(e); ok {
		if t, err := ir.ParseDType(name); err == nil {
			b.errorf(e, "%s.%s is a type: expected a value", b.prefix, t)
			return nil
		}
		b.errorf(e, "expected a call of %s.%s", b.prefix, name)
		return nil
	}
	buf, ok := b.bufferRef(e.X)
	if !ok {
		b.errorf(e, "expected a value")
		return nil
	}
	if buf == nil {
		return nil
	}
	switch e.Name {
	case "data":
		return buf.Data
	case "elem_offset":
		if buf.ElemOffset != nil {
			return buf.ElemOffset
		}
		return &smallInts[0]
	}
	d := b.errorf(e, "a buffer has no attribute %s", e.Name)
	if near := diag.Nearest(e.Name, bufferAttrs); near != "" {
		d.Hint = "did you mean " + near + "?"
	}
	return nil
}

var bufferAttrs = []string{"data", "shape", "strides", "elem_offset", "vload", "vstore"}

// unknown reports a name that T does not have.
func (b *builder) unknown(a *syntax.Attr, what string, known []string) {
	d := b.diags.Errorf(b.file.Span(syntax.Loc{Pos: a.End - int32(len(a.Name)), End: a.End}),
		"unknown %s %s.%s", what, b.prefix, a.Name)
	if near := diag.Nearest(a.Name, known); near != "" {
		d.Hint = "did you mean " + b.prefix + "." + near + "?"
	}
}

func (b *builder) unknownKeyword(k *syntax.Keyword, known []string) {
	name := k.Name
	if name == "" {
		name = "**"
	}
	d := b.errorf(k, "unknown keyword argument %s", name)
	if near := diag.Nearest(k.Name, known); near != "" {
		d.Hint = "did you mean " + near + "?"
	}
}

// parseFloatText reads the strings that stand for floats without a literal.
func parseFloatText(s string) (float64, bool) {
	switch strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+") {
	case "inf", "nan", "infinity":
		v, err := strconv.ParseFloat(s, 64)
		if err != nil { // ParseFloat has no signed NaN
			return math.NaN(), true
		}
		return v, true
	}
	return 0, false
}
