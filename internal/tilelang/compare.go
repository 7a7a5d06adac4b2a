package tilelang

import (
	"math"
	"math/big"
	"path"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// compareOp is a single comparison.
func (in *interp) compareOp(op syntax.Op, a, b value) value {
	switch op {
	case syntax.Is:
		return in.identical(a, b)
	case syntax.IsNot:
		r := in.identical(a, b)
		if same, ok := r.(bool); ok {
			return !same
		}
		return r
	case syntax.In, syntax.NotIn:
		r := in.contains(b, a)
		if found, ok := r.(bool); ok {
			return found == (op == syntax.In)
		}
		return r
	}
	if u, ok := a.(*unknown); ok {
		return in.derived(u, "a comparison")
	}
	if u, ok := b.(*unknown); ok {
		return in.derived(u, "a comparison")
	}
	a, b = in.readVar(a), in.readVar(b)
	if isExpr(a) || isExpr(b) {
		return in.exprCompare(op, a, b)
	}
	if x, ok := a.(*instance); ok {
		name := map[syntax.Op]string{syntax.EQ: "__eq__", syntax.NE: "__ne__", syntax.LT: "__lt__", syntax.LE: "__le__", syntax.GT: "__gt__", syntax.GE: "__ge__"}[op]
		if m, ok := x.cls.lookup(name); ok {
			return in.call(&boundMethod{x, m}, []value{b})
		}
	}
	switch op {
	case syntax.EQ:
		return in.equal(a, b)
	case syntax.NE:
		return !in.equal(a, b)
	}
	if x, ok := a.(*set); ok {
		if y, ok := b.(*set); ok {
			return in.orderSets(op, x, y)
		}
	}
	c := in.order(a, b, op)
	if c == unordered {
		return false
	}
	switch op {
	case syntax.LT:
		return c < 0
	case syntax.LE:
		return c <= 0
	case syntax.GT:
		return c > 0
	}
	return c >= 0
}

// exprCompare compares with an IR expression on one side. Where only the right
// one is, Python asks it for the mirrored comparison.
func (in *interp) exprCompare(op syntax.Op, a, b value) value {
	if op == syntax.EQ || op == syntax.NE {
		if !isExpr(a) {
			a, b = b, a
		}
		switch b.(type) {
		case noneType, string, ir.DType, *tuple, *list, *dict:
			if s, ok := a.(*ir.StringImm); ok {
				t, ok := textOf(b)
				return (ok && s.Value == t) == (op == syntax.EQ)
			}
			return op == syntax.NE
		}
		x, y := in.toExpr(a), in.toExpr(b)
		if _, ok := x.(*ir.IntImm); ok {
			o := ir.EQ
			if op == syntax.NE {
				o = ir.NE
			}
			return in.binary(o, x, y)
		}
		return &eqOp{a: x, b: y, ne: op == syntax.NE}
	}
	if !isExpr(a) {
		a, b = b, a
		switch op {
		case syntax.LT:
			op = syntax.GT
		case syntax.LE:
			op = syntax.GE
		case syntax.GT:
			op = syntax.LT
		case syntax.GE:
			op = syntax.LE
		}
	}
	x, y := in.toExpr(a), in.toExpr(b)
	switch op {
	case syntax.LT:
		return in.binary(ir.LT, x, y)
	case syntax.LE:
		return in.binary(ir.LE, x, y)
	case syntax.GT:
		return in.binary(ir.GT, x, y)
	}
	return in.binary(ir.GE, x, y)
}

func (in *interp) identical(a, b value) value {
	_, na := a.(noneType)
	_, nb := b.(noneType)
	if na || nb {
		if u, ok := a.(*unknown); ok && nb {
			if u.why != nil {
				panic(in.needKnown(u))
			}
			return in.derived(u, "a comparison")
		}
		return na && nb
	}
	for _, v := range []value{a, b} {
		if u, ok := v.(*unknown); ok && a != b {
			return in.derived(u, "a comparison")
		}
	}
	switch x := a.(type) {
	case bool, int64, string, ir.DType:
		switch b.(type) {
		case bool, int64, string, ir.DType:
			return typeName(a) == typeName(b) && in.equal(a, b)
		}
		return false
	case *module:
		y, ok := b.(*module)
		return ok && x.name == y.name
	case *builtin:
		y, ok := b.(*builtin)
		return ok && x.name == y.name
	case float64, pyRange, *big.Int:
		return in.equal(a, b)
	}
	return a == b
}

// textOf is a string, or a dtype as the string it is in Python.
func textOf(v value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case ir.DType:
		return v.String(), true
	case *instance:
		if v.cls.valued {
			return textOf(v.attrs["value"])
		}
	}
	return "", false
}

// maxCompareDepth bounds containers within each other in a comparison.
const maxCompareDepth = 100

// equal is Python's == on values that are no IR.
func (in *interp) equal(a, b value) bool { return in.equalAt(a, b, 0) }

func (in *interp) equalAt(a, b value, depth int) bool {
	in.step()
	if depth > maxCompareDepth {
		panic(in.errorf("containers more than %d deep are compared", maxCompareDepth).is("RecursionError"))
	}
	i, f, x, ka := number(a)
	j, g, y, kb := number(b)
	if ka != 0 && kb != 0 {
		switch {
		case ka == 'i' && kb == 'i':
			return i == j
		case ka == 'f' && kb == 'f':
			return f == g
		case ka == 'f' || kb == 'f':
			return in.order(a, b, syntax.EQ) == 0
		}
		return toBig(i, x).Cmp(toBig(j, y)) == 0
	}
	if s, ok := textOf(a); ok {
		t, ok := textOf(b)
		if da, isD := a.(ir.DType); isD && ok {
			if d, good := in.dtypeName(t); good {
				return d == da
			}
		}
		if db, isD := b.(ir.DType); isD && ok {
			if d, good := in.dtypeName(s); good {
				return d == db
			}
		}
		return ok && s == t
	}
	elts := func(p, q []value) bool {
		if len(p) != len(q) {
			return false
		}
		for i := range p {
			if isExpr(p[i]) || isExpr(q[i]) {
				if !sameExpr(in.toExpr(p[i]), in.toExpr(q[i])) {
					return false
				}
			} else if !in.equalAt(p[i], q[i], depth+1) {
				return false
			}
		}
		return true
	}
	switch p := a.(type) {
	case *tuple:
		q, ok := b.(*tuple)
		return ok && elts(p.elts, q.elts)
	case *list:
		q, ok := b.(*list)
		return ok && elts(p.elts, q.elts)
	case *dict:
		q, ok := b.(*dict)
		if !ok || len(p.keys) != len(q.keys) {
			return false
		}
		for i, k := range p.keys {
			v, ok := q.get(in, k)
			if !ok || !in.equalAt(p.vals[i], v, depth+1) {
				return false
			}
		}
		return true
	case *set:
		q, ok := b.(*set)
		if !ok || len(p.d.keys) != len(q.d.keys) {
			return false
		}
		for _, k := range p.d.keys {
			if _, ok := q.d.get(in, k); !ok {
				return false
			}
		}
		return true
	case *instance:
		q, ok := b.(*instance)
		if !ok || p.cls != q.cls || !p.cls.data {
			return a == b
		}
		for _, name := range p.cls.fields {
			if !in.equalAt(p.attrs[name], q.attrs[name], depth+1) {
				return false
			}
		}
		return true
	case *unknown:
		panic(in.needKnown(p))
	}
	if u, ok := b.(*unknown); ok {
		panic(in.needKnown(u))
	}
	return a == b
}

const unordered = 2

// order compares for <; unordered for NaN.
func (in *interp) order(a, b value, op syntax.Op) int {
	i, f, x, ka := number(a)
	j, g, y, kb := number(b)
	if ka != 0 && kb != 0 {
		if ka == 'f' || kb == 'f' {
			if ka != 'f' {
				if c := orderFloat(g, toBig(i, x)); c != unordered {
					return -c
				}
				return unordered
			}
			if kb != 'f' {
				return orderFloat(f, toBig(j, y))
			}
			switch {
			case f < g:
				return -1
			case f > g:
				return 1
			case f == g:
				return 0
			}
			return unordered
		}
		if ka == 'i' && kb == 'i' {
			switch {
			case i < j:
				return -1
			case i > j:
				return 1
			}
			return 0
		}
		return toBig(i, x).Cmp(toBig(j, y))
	}
	if s, ok := textOf(a); ok {
		if t, ok := textOf(b); ok {
			return strings.Compare(s, t)
		}
	}
	var p, q []value
	switch va := a.(type) {
	case *tuple:
		vb, ok := b.(*tuple)
		if !ok {
			break
		}
		p, q = va.elts, vb.elts
	case *list:
		vb, ok := b.(*list)
		if !ok {
			break
		}
		p, q = va.elts, vb.elts
	}
	if _, isSeq := a.(*tuple); isSeq || p != nil || q != nil {
		if typeName(a) == typeName(b) {
			for i := range min(len(p), len(q)) {
				if !in.equal(p[i], q[i]) {
					return in.order(p[i], q[i], op)
				}
			}
			return len(p) - len(q)
		}
	}
	if _, ok := a.(*list); ok && typeName(b) == "list" {
		return 0 // two empty lists
	}
	panic(in.operandError(op, a, b))
}

// contains is `x in container`.
func (in *interp) contains(c, x value) value {
	switch c := c.(type) {
	case *unknown:
		return in.derived(c, "a membership test")
	case ir.DType:
		return in.contains(c.String(), x)
	case string:
		s, ok := textOf(x)
		if !ok {
			panic(in.errorf("in <string> needs a string, got %s", typeName(x)).is("TypeError"))
		}
		return strings.Contains(c, s)
	case *dict:
		_, ok := c.get(in, x)
		return ok
	case *set:
		_, ok := c.d.get(in, x)
		return ok
	case pyRange:
		if i, ok := x.(int64); ok {
			return c.len() > 0 && (i-c.start)%c.step == 0 && (c.step > 0 && i >= c.start && i < c.stop || c.step < 0 && i <= c.start && i > c.stop)
		}
		return false
	case *instance:
		if m, ok := c.cls.lookup("__contains__"); ok {
			return in.truth(in.call(&boundMethod{c, m}, []value{x}))
		}
	}
	if u, ok := x.(*unknown); ok {
		return in.derived(u, "a membership test")
	}
	for _, e := range in.iterate(c) {
		if isExpr(e) || isExpr(x) {
			if e == x || isExpr(e) && isExpr(x) && in.truth(in.compareOp(syntax.EQ, e, x)) {
				return true
			}
			continue
		}
		if in.equal(e, x) {
			return true
		}
	}
	return false
}

// truth is Python's bool(): of IR, only constants and comparisons by identity
// have one.
func (in *interp) truth(v value) bool {
	switch v := v.(type) {
	case noneType:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *tuple:
		return len(v.elts) > 0
	case *list:
		return len(v.elts) > 0
	case *dict:
		return len(v.keys) > 0
	case *set:
		return len(v.d.keys) > 0
	case pyRange:
		return v.len() > 0
	case *ir.IntImm:
		return v.Value != 0
	case *ir.FloatImm:
		return v.Value != 0
	case *ir.StringImm:
		return v.Value != ""
	case *eqOp:
		return (v.a == v.b) != v.ne
	case ir.Expr:
		panic(in.errorf("%s is known only when the kernel runs: it cannot decide Python code", in.describe(v)).
			hint("use T.if_then_else, or an if in a kernel or macro").is("ValueError"))
	case *unknown:
		panic(in.needKnown(v))
	case *instance:
		for _, name := range []string{"__bool__", "__len__"} {
			if m, ok := v.cls.lookup(name); ok {
				return in.truth(in.call(&boundMethod{v, m}, nil))
			}
		}
	}
	return true
}

// isType reports a value that an annotation may join with |.
func isType(v value) bool {
	switch v.(type) {
	case *builtin, *class, *unknown, *function, ir.DType:
		return true
	}
	return false
}

// needKnown is the failure of needing a value that is not known.
func (in *interp) needKnown(u *unknown) *failure {
	if u.why != nil {
		return u.why // told once, where the cause is
	}
	f := in.errorf("the value of %s is not known here", u.what).hint("give it with --set, or as a constant")
	switch {
	case strings.HasPrefix(u.what, "tilelang.") || strings.HasPrefix(u.what, "tvm."):
		f.hint("of TileLang's and TVM's own Python only the kernel language and the functions that kernels are commonly made with are known")
	case u.looked != "" && u.looked != nowhere:
		f.hint("no %s beside %s, and only what lies there is read: define it here, or give it with --set", strings.ReplaceAll(u.looked, " and ", ", no "), path.Base(in.main.file.Source.Name))
	case strings.Contains(u.what, "("):
		f.hint("only this file is read: define it here, or give what is made of it with --set")
	case u.looked == nowhere:
		f.hint("only this file is read: define it here, or give it with --set")
	}
	if u.at != in.here() {
		f.note(u.at, "it comes from here")
	}
	return f.is("NameError")
}

// orderFloat orders a float and an integer exactly.
func orderFloat(f float64, n *big.Int) int {
	switch {
	case math.IsNaN(f):
		return unordered
	case math.IsInf(f, 0):
		return int(math.Copysign(1, f))
	}
	return new(big.Float).SetFloat64(f).Cmp(new(big.Float).SetInt(n))
}

// orderSets are Python's comparisons of sets: subset and superset.
func (in *interp) orderSets(op syntax.Op, a, b *set) bool {
	if op == syntax.GT || op == syntax.GE {
		a, b = b, a
	}
	if (op == syntax.LT || op == syntax.GT) && len(a.d.keys) >= len(b.d.keys) {
		return false
	}
	for _, k := range a.d.keys {
		if _, ok := b.d.get(in, k); !ok {
			return false
		}
	}
	return true
}
