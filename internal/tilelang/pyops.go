package tilelang

import (
	"math"
	"math/big"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// isExpr reports a value that makes an operator build IR.
func isExpr(v value) bool {
	switch v.(type) {
	case ir.Expr, *eqOp, *ref:
		return true
	}
	return false
}

// number is a value as the operand of a Python operator: bools count as ints.
func number(v value) (i int64, f float64, b *big.Int, kind byte) {
	switch v := v.(type) {
	case bool:
		return b2i(v), 0, nil, 'i'
	case int64:
		return v, 0, nil, 'i'
	case *big.Int:
		return 0, 0, v, 'b'
	case float64:
		return 0, v, nil, 'f'
	case *instance:
		if v.cls.valued {
			return number(v.attrs["value"])
		}
	}
	return 0, 0, nil, 0
}

func toBig(i int64, b *big.Int) *big.Int {
	if b != nil {
		return b
	}
	return big.NewInt(i)
}

func toFloat(v value) (float64, bool) {
	i, f, b, kind := number(v)
	switch kind {
	case 'i':
		return float64(i), true
	case 'f':
		return f, true
	case 'b':
		r, _ := new(big.Float).SetInt(b).Float64()
		return r, true
	}
	return 0, false
}

// binaryOp is `a op b` for the arithmetic operators.
func (in *interp) binaryOp(op syntax.Op, a, b value) value {
	if u, ok := a.(*unknown); ok {
		return in.derived(u, "the result of "+op.String())
	}
	if u, ok := b.(*unknown); ok {
		return in.derived(u, "the result of "+op.String())
	}
	if t, ok := a.(*tensor); ok {
		return t
	}
	if t, ok := b.(*tensor); ok {
		return t
	}
	a, b = in.readVar(a), in.readVar(b)
	if isExpr(a) || isExpr(b) {
		return in.exprOp(op, a, b)
	}
	if v := in.userOp(op, a, b); v != nil {
		return v
	}
	i, f, x, ka := number(a)
	j, g, y, kb := number(b)
	if ka != 0 && kb != 0 {
		if ka == 'f' || kb == 'f' {
			if ka != 'f' {
				f, _ = toFloat(a)
			}
			if kb != 'f' {
				g, _ = toFloat(b)
			}
			return in.floatOp(op, f, g)
		}
		if ab, ok := a.(bool); ok {
			if bb, ok := b.(bool); ok {
				switch op {
				case syntax.BitAnd:
					return ab && bb
				case syntax.BitOr:
					return ab || bb
				case syntax.BitXor:
					return ab != bb
				}
			}
		}
		if ka == 'i' && kb == 'i' {
			if v, ok := in.smallIntOp(op, i, j); ok {
				return v
			}
		}
		return in.bigIntOp(op, toBig(i, x), toBig(j, y))
	}
	switch va := a.(type) {
	case string:
		switch op {
		case syntax.Add:
			if vb, ok := textOf(b); ok {
				in.cells((len(va) + len(vb)) / 16)
				return va + vb
			}
		case syntax.Mul:
			if kb == 'i' {
				return in.repeatString(va, j)
			}
		case syntax.Mod:
			return in.percentFormat(va, b)
		}
	case ir.DType: // a string in Python
		return in.binaryOp(op, va.String(), b)
	case *tuple:
		if vb, ok := b.(*tuple); ok && op == syntax.Add {
			return &tuple{in.concat(va.elts, vb.elts)}
		}
		if kb == 'i' && op == syntax.Mul {
			return &tuple{in.repeat(va.elts, j)}
		}
	case *list:
		if vb, ok := b.(*list); ok && op == syntax.Add {
			return &list{in.concat(va.elts, vb.elts)}
		}
		if kb == 'i' && op == syntax.Mul {
			return &list{in.repeat(va.elts, j)}
		}
	case *dict:
		if vb, ok := b.(*dict); ok && op == syntax.BitOr {
			d := newDict()
			d.update(in, va)
			d.update(in, vb)
			return d
		}
	case *set:
		if vb, ok := b.(*set); ok {
			return in.setOp(op, va, vb)
		}
	}
	if ka == 'i' && op == syntax.Mul {
		switch vb := b.(type) {
		case string:
			return in.repeatString(vb, i)
		case ir.DType:
			return in.repeatString(vb.String(), i)
		case *list:
			return &list{in.repeat(vb.elts, i)}
		case *tuple:
			return &tuple{in.repeat(vb.elts, i)}
		}
	}
	if op == syntax.BitOr && (isType(a) || isType(b)) {
		return &unknown{what: "a type", at: in.here()} // int | None in an annotation
	}
	panic(in.operandError(op, a, b))
}

func (in *interp) setOp(op syntax.Op, a, b *set) value {
	out := &set{*newDict()}
	put := func(s *set, keep func(k value) bool) {
		for _, k := range s.d.keys {
			if keep(k) {
				out.d.set(in, k, none)
			}
		}
	}
	has := func(s *set, k value) bool { _, ok := s.d.get(in, k); return ok }
	switch op {
	case syntax.BitOr:
		put(a, func(value) bool { return true })
		put(b, func(value) bool { return true })
	case syntax.BitAnd:
		put(a, func(k value) bool { return has(b, k) })
	case syntax.Sub:
		put(a, func(k value) bool { return !has(b, k) })
	case syntax.BitXor:
		put(a, func(k value) bool { return !has(b, k) })
		put(b, func(k value) bool { return !has(a, k) })
	default:
		panic(in.errorf("%s of two sets", op).is("TypeError"))
	}
	return out
}

// userOp calls __add__ and its like of an instance; nil if there is none.
func (in *interp) userOp(op syntax.Op, a, b value) value {
	name := dunder[op]
	if x, ok := a.(*instance); ok && name != "" {
		if m, ok := x.cls.lookup("__" + name + "__"); ok {
			return in.call(&boundMethod{x, m}, []value{b})
		}
	}
	if y, ok := b.(*instance); ok && name != "" {
		if m, ok := y.cls.lookup("__r" + name + "__"); ok {
			return in.call(&boundMethod{y, m}, []value{a})
		}
	}
	return nil
}

var dunder = map[syntax.Op]string{
	syntax.Add: "add", syntax.Sub: "sub", syntax.Mul: "mul", syntax.Div: "truediv", syntax.FloorDiv: "floordiv",
	syntax.Mod: "mod", syntax.Pow: "pow", syntax.MatMul: "matmul", syntax.LShift: "lshift", syntax.RShift: "rshift",
	syntax.BitAnd: "and", syntax.BitOr: "or", syntax.BitXor: "xor",
}

func (in *interp) concat(a, b []value) []value {
	in.cells(len(a) + len(b))
	out := make([]value, 0, len(a)+len(b))
	return append(append(out, a...), b...)
}

func (in *interp) repeat(a []value, n int64) []value {
	if n <= 0 || len(a) == 0 {
		return nil
	}
	if n > MaxCells/int64(len(a)) {
		in.cells(-1)
	}
	in.cells(len(a) * int(n))
	out := make([]value, 0, len(a)*int(n))
	for range n {
		out = append(out, a...)
	}
	return out
}

func (in *interp) repeatString(s string, n int64) value {
	if n <= 0 || s == "" {
		return ""
	}
	if n > MaxCells/int64(len(s)) {
		in.cells(-1)
	}
	in.cells(len(s) * int(n) / 16)
	return strings.Repeat(s, int(n))
}

func (in *interp) zeroDivision() *failure {
	return in.errorf("division by zero").is("ZeroDivisionError")
}

func (in *interp) floatOp(op syntax.Op, a, b float64) value {
	switch op {
	case syntax.Add:
		return a + b
	case syntax.Sub:
		return a - b
	case syntax.Mul:
		return a * b
	case syntax.Div:
		if b == 0 {
			panic(in.zeroDivision())
		}
		return a / b
	case syntax.FloorDiv:
		if b == 0 {
			panic(in.zeroDivision())
		}
		return math.Floor(a / b)
	case syntax.Mod:
		if b == 0 {
			panic(in.zeroDivision())
		}
		r := math.Mod(a, b)
		if r != 0 && (r < 0) != (b < 0) {
			r += b
		}
		return r
	case syntax.Pow:
		if a == 0 && b < 0 {
			panic(in.zeroDivision())
		}
		if a < 0 && b != math.Trunc(b) {
			panic(in.errorf("a negative number to a fraction is complex").is("ValueError"))
		}
		in.steps += bigSteps
		r := pow(a, b)
		if math.IsInf(r, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
			panic(in.errorf("%s ** %s is too large for a float", pyFloat(a), pyFloat(b)).is("OverflowError"))
		}
		return r
	}
	panic(in.errorf("%s of floats", op).is("TypeError"))
}

// smallIntOp is an operator on ints that fit 64 bits; false if the result may
// not.
func (in *interp) smallIntOp(op syntax.Op, a, b int64) (value, bool) {
	switch op {
	case syntax.Add:
		if r := a + b; (r > a) == (b > 0) || b == 0 {
			return r, true
		}
	case syntax.Sub:
		if r := a - b; (r < a) == (b > 0) || b == 0 {
			return r, true
		}
	case syntax.Mul:
		if a == 0 || b == 0 {
			return int64(0), true
		}
		if a > -1<<31 && a < 1<<31 && b > -1<<31 && b < 1<<31 {
			return a * b, true
		}
		if r := a * b; a != math.MinInt64 && b != math.MinInt64 && r/b == a && r != math.MinInt64 {
			return r, true
		}
	case syntax.Div:
		if b == 0 {
			panic(in.zeroDivision())
		}
		return float64(a) / float64(b), true
	case syntax.FloorDiv, syntax.Mod:
		if b == 0 {
			panic(in.zeroDivision())
		}
		if a == math.MinInt64 && b == -1 {
			return nil, false
		}
		if op == syntax.Mod {
			return ir.FloorModInt(a, b), true
		}
		return ir.FloorDivInt(a, b), true
	case syntax.BitAnd:
		return a & b, true
	case syntax.BitOr:
		return a | b, true
	case syntax.BitXor:
		return a ^ b, true
	case syntax.RShift:
		if b >= 0 {
			return a >> uint(min(b, 63)), true
		}
	case syntax.LShift:
		if b >= 0 && b < 62 {
			if r := a << uint(b); r>>uint(b) == a {
				return r, true
			}
		}
	}
	return nil, false
}

func (in *interp) bigIntOp(op syntax.Op, a, b *big.Int) value {
	r := new(big.Int)
	switch op {
	case syntax.Add:
		r.Add(a, b)
	case syntax.Sub:
		r.Sub(a, b)
	case syntax.Mul:
		if a.BitLen()+b.BitLen() > MaxIntBits+1 {
			panic(in.tooLarge())
		}
		r.Mul(a, b)
	case syntax.Div:
		x, _ := new(big.Float).SetInt(a).Float64()
		y, _ := new(big.Float).SetInt(b).Float64()
		return in.floatOp(op, x, y)
	case syntax.FloorDiv, syntax.Mod:
		if b.Sign() == 0 {
			panic(in.zeroDivision())
		}
		q, m := new(big.Int).QuoRem(a, b, new(big.Int))
		if m.Sign() != 0 && m.Sign() != b.Sign() {
			q.Sub(q, big.NewInt(1))
			m.Add(m, b)
		}
		if op == syntax.Mod {
			return intValue(m)
		}
		return intValue(q)
	case syntax.Pow:
		if b.Sign() < 0 {
			x, _ := new(big.Float).SetInt(a).Float64()
			y, _ := new(big.Float).SetInt(b).Float64()
			return in.floatOp(op, x, y)
		}
		if !b.IsInt64() || a.BitLen() > 1 && int64(a.BitLen()-1)*b.Int64() > MaxIntBits || b.Int64() > 1<<40 {
			panic(in.tooLarge())
		}
		if a.BitLen() <= 1 { // 0, 1, -1
			b = big.NewInt(min(b.Int64(), 2) + b.Int64()%2)
		}
		r.Exp(a, b, nil)
	case syntax.LShift, syntax.RShift:
		if b.Sign() < 0 {
			panic(in.errorf("a shift by a negative count").is("ValueError"))
		}
		if op == syntax.RShift {
			if !b.IsInt64() || b.Int64() > MaxIntBits {
				b = big.NewInt(MaxIntBits + 1)
			}
			r.Rsh(a, uint(b.Int64()))
			break
		}
		if a.Sign() != 0 {
			if !b.IsInt64() || b.Int64()+int64(a.BitLen()) > MaxIntBits {
				panic(in.tooLarge())
			}
			r.Lsh(a, uint(b.Int64()))
		}
	case syntax.BitAnd:
		r.And(a, b)
	case syntax.BitOr:
		r.Or(a, b)
	case syntax.BitXor:
		r.Xor(a, b)
	default:
		panic(in.errorf("%s of ints", op).is("TypeError"))
	}
	if r.BitLen() > MaxIntBits {
		panic(in.tooLarge())
	}
	return intValue(r)
}

func (in *interp) tooLarge() *failure {
	return in.errorf("an integer of more than %d bits", MaxIntBits).is("OverflowError")
}

// exprOp is an operator with an IR expression on one side.
func (in *interp) exprOp(op syntax.Op, a, b value) value {
	switch op {
	case syntax.LShift:
		return in.bits("shift_left", in.plain(a), in.plain(b))
	case syntax.RShift:
		return in.bits("shift_right", in.plain(a), in.plain(b))
	case syntax.BitAnd:
		return in.bits("bitwise_and", in.plain(a), in.plain(b))
	case syntax.BitOr:
		return in.bits("bitwise_or", in.plain(a), in.plain(b))
	case syntax.BitXor:
		return in.bits("bitwise_xor", in.plain(a), in.plain(b))
	}
	x, y := in.toExpr(a), in.toExpr(b)
	switch op {
	case syntax.Add:
		return in.add(x, y)
	case syntax.Sub:
		return in.sub(x, y)
	case syntax.Mul:
		return in.mul(x, y)
	case syntax.Div:
		return in.divide(x, y)
	case syntax.FloorDiv:
		return in.binary(ir.FloorDiv, x, y)
	case syntax.Mod:
		return in.binary(ir.FloorMod, x, y)
	case syntax.Pow:
		panic(in.errorf("** of expressions").hint("use T.pow").is("TypeError"))
	}
	panic(in.errorf("%s of expressions", op).is("TypeError"))
}

// plain resolves the wrappers of expressions and leaves other values.
func (in *interp) plain(v value) value {
	switch v.(type) {
	case *eqOp, *ref:
		return in.toExpr(v)
	}
	return v
}

// unaryOp is -x, +x, ~x.
func (in *interp) unaryOp(op syntax.Op, v value) value {
	switch v := v.(type) {
	case *unknown:
		return in.derived(v, "the result of "+op.String())
	case *tensor:
		return v
	case *instance:
		name := map[syntax.Op]string{syntax.Neg: "__neg__", syntax.Plus: "__pos__", syntax.Invert: "__invert__"}[op]
		if m, ok := v.cls.lookup(name); ok {
			return in.call(&boundMethod{v, m}, nil)
		}
	}
	v = in.readVar(v)
	if isExpr(v) {
		e := in.toExpr(v)
		switch op {
		case syntax.Neg:
			return in.mul(e, in.constOf(e.DType(), int64(-1)))
		case syntax.Plus:
			return e
		case syntax.Invert:
			t := e.DType()
			if !t.IsInteger() && !t.IsBool() {
				panic(in.errorf("~ of %s: expected an integer", t).is("TypeError"))
			}
			return &ir.Call{Op: ir.MustOp("bitwise_not"), Type: t, Args: []ir.Expr{e}}
		}
	}
	i, f, b, kind := number(v)
	switch {
	case kind == 'f' && op == syntax.Neg:
		return -f
	case kind == 'f' && op == syntax.Plus:
		return f
	case kind == 'i' && op == syntax.Neg && i != math.MinInt64:
		return -i
	case kind == 'i' && op == syntax.Plus:
		return i
	case kind == 'i' && op == syntax.Invert:
		return ^i
	case kind == 'i' || kind == 'b':
		x := toBig(i, b)
		switch op {
		case syntax.Neg:
			return intValue(new(big.Int).Neg(x))
		case syntax.Plus:
			return intValue(x)
		case syntax.Invert:
			return intValue(new(big.Int).Not(x))
		}
	}
	panic(in.errorf("%s of %s", op, typeName(v)).is("TypeError"))
}

// derived is an unknown value made of another: it is known by its origin.
func (in *interp) derived(u *unknown, what string) *unknown { return u }

// operandError is what an operator says of operands that it does not take.
func (in *interp) operandError(op syntax.Op, a, b value) *failure {
	f := in.errorf("%s does not take %s and %s", op, typeName(a), typeName(b)).is("TypeError")
	for _, v := range []value{a, b} {
		if x, ok := v.(*ir.Buffer); ok {
			f.hint("take an element of it, %s[...]", x.Name).note(x.Org, "%s is declared here", x.Name)
		}
	}
	return f
}
