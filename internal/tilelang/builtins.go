package tilelang

import (
	"math"
	"math/big"
	"sort"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// pyBuiltins are Python's built-in functions and types.
var pyBuiltins map[string]value

// builtinAttrs are attributes of some of them, such as dict.fromkeys.
var builtinAttrs map[string]map[string]value

func init() {
	pyBuiltins = map[string]value{"__name__": "__kernel__", "__file__": "", "NotImplemented": &unknown{what: "NotImplemented"}, "Ellipsis": ellipsis, "__debug__": true}
	def := func(sig string, fn func(in *interp, a *args) value) {
		s := parseSig(sig)
		pyBuiltins[s.name] = &builtin{name: s.name, sig: s, fn: fn}
	}
	raw := func(name string, fn func(in *interp, a *args) value) { pyBuiltins[name] = rawBuiltin(name, fn) }
	for _, name := range []string{"Exception", "BaseException", "ValueError", "TypeError", "RuntimeError", "KeyError", "IndexError", "AttributeError",
		"NotImplementedError", "AssertionError", "ImportError", "ModuleNotFoundError", "OverflowError", "ZeroDivisionError", "StopIteration",
		"NameError", "OSError", "FileNotFoundError", "RecursionError", "Warning", "UserWarning", "DeprecationWarning", "KeyboardInterrupt", "SystemExit"} {
		pyBuiltins[name] = &class{name: name, attrs: map[string]value{"__exception__": true}}
	}
	raw("range", func(in *interp, a *args) value {
		if len(a.pos) < 1 || len(a.pos) > 3 || len(a.kw) > 0 {
			panic(in.errorf("range takes one to three arguments").is("TypeError"))
		}
		n := make([]int64, len(a.pos))
		for i, v := range a.pos {
			switch x := v.(type) {
			case int64:
				n[i] = x
			case bool:
				n[i] = b2i(x)
			case *ir.IntImm:
				n[i] = x.Value
			case *unknown:
				panic(in.needKnown(x))
			default:
				f := in.errorf("range of %s: expected an int", in.typeWithValue(v)).is("TypeError")
				if isExpr(v) {
					f.hint("use T.serial for loops whose extent is known only to the kernel")
				}
				panic(f)
			}
		}
		switch len(n) {
		case 1:
			return pyRange{0, n[0], 1}
		case 2:
			return pyRange{n[0], n[1], 1}
		}
		if n[2] == 0 {
			panic(in.errorf("range with step 0").is("ValueError"))
		}
		return pyRange{n[0], n[1], n[2]}
	})
	def("len(obj)", func(in *interp, a *args) value { return in.length(a.v[0]) })
	raw("min", func(in *interp, a *args) value { return in.extreme(a, syntax.LT, "min") })
	raw("max", func(in *interp, a *args) value { return in.extreme(a, syntax.GT, "max") })
	def("sum(iterable, start=0)", func(in *interp, a *args) value {
		s := a.v[1]
		in.each(a.v[0], func(v value) bool { s = in.binaryOp(syntax.Add, s, v); return true })
		return s
	})
	def("abs(x)", func(in *interp, a *args) value {
		switch x := a.v[0].(type) {
		case bool:
			return b2i(x)
		case int64:
			if x < 0 {
				return in.unaryOp(syntax.Neg, x)
			}
			return x
		case *big.Int:
			return intValue(new(big.Int).Abs(x))
		case float64:
			return math.Abs(x)
		case *unknown:
			return x
		}
		if isExpr(a.v[0]) {
			return in.abs(in.toExpr(a.v[0]))
		}
		panic(in.errorf("abs of %s", typeName(a.v[0])).is("TypeError"))
	})
	def("int(x=0, base=10)", func(in *interp, a *args) value { return in.toInt(a.v[0], a) })
	def("float(x=0.0)", func(in *interp, a *args) value {
		switch x := a.v[0].(type) {
		case string:
			if f, ok := parsePyFloat(x); ok {
				return f
			}
			panic(in.errorf("float of string %s", pyQuote(x)).is("ValueError"))
		case *ir.FloatImm:
			return x.Value
		case *ir.IntImm:
			return float64(x.Value)
		case *unknown:
			return x
		}
		if f, ok := toFloat(a.v[0]); ok {
			return f
		}
		panic(in.errorf("float of %s", in.typeWithValue(a.v[0])).is("TypeError"))
	})
	def("bool(x=False)", func(in *interp, a *args) value {
		if u, ok := a.v[0].(*unknown); ok {
			return u
		}
		return in.truth(a.v[0])
	})
	def("str(object=\"\", *args)", func(in *interp, a *args) value {
		if u, ok := a.v[0].(*unknown); ok {
			return u
		}
		return in.str(a.v[0])
	})
	def("repr(object)", func(in *interp, a *args) value {
		if u, ok := a.v[0].(*unknown); ok {
			return u
		}
		return in.repr(a.v[0])
	})
	def("format(value, spec=\"\")", func(in *interp, a *args) value { return in.format(a.v[0], in.stringArg(a, 1)) })
	seq := func(name string, wrap func(elts []value) value) {
		def(name+"(iterable=None)", func(in *interp, a *args) value {
			if !a.given[0] {
				return wrap(nil)
			}
			if u, ok := a.v[0].(*unknown); ok {
				return u
			}
			elts := in.iterate(a.v[0])
			in.cells(len(elts))
			return wrap(append([]value(nil), elts...))
		})
	}
	seq("list", func(e []value) value { return &list{e} })
	seq("tuple", func(e []value) value { return &tuple{e} })
	for _, name := range []string{"set", "frozenset"} {
		def(name+"(iterable=None)", func(in *interp, a *args) value {
			s := &set{*newDict()}
			if a.given[0] {
				in.each(a.v[0], func(v value) bool { s.d.set(in, v, none); return true })
			}
			return s
		})
	}
	raw("dict", func(in *interp, a *args) value {
		d := newDict()
		if len(a.pos) > 0 {
			if m, ok := a.pos[0].(*dict); ok {
				d.update(in, m)
			} else {
				in.each(a.pos[0], func(v value) bool {
					p := in.iterate(v)
					if len(p) != 2 {
						panic(in.errorf("dict needs pairs").is("ValueError"))
					}
					d.set(in, p[0], p[1])
					return true
				})
			}
		}
		for _, k := range a.kw {
			d.set(in, k.name, k.v)
		}
		return d
	})
	raw("zip", func(in *interp, a *args) value {
		var cols [][]value
		n := -1
		for _, v := range a.pos {
			c := in.iterate(v)
			if n < 0 || len(c) < n {
				n = len(c)
			}
			cols = append(cols, c)
		}
		out := &generator{}
		for i := range max(n, 0) {
			row := make([]value, len(cols))
			for k := range cols {
				row[k] = cols[k][i]
			}
			out.elts = append(out.elts, &tuple{row})
		}
		in.cells(max(n, 0) * (len(cols) + 1))
		return out
	})
	def("enumerate(iterable, start=0)", func(in *interp, a *args) value {
		out := &generator{}
		i := in.intArg(a, 1)
		in.each(a.v[0], func(v value) bool {
			in.cells(3)
			out.elts = append(out.elts, &tuple{[]value{i, v}})
			i++
			return true
		})
		return out
	})
	def("reversed(sequence)", func(in *interp, a *args) value {
		elts := in.iterate(a.v[0])
		in.cells(len(elts))
		out := &generator{elts: make([]value, len(elts))}
		for i, v := range elts {
			out.elts[len(elts)-1-i] = v
		}
		return out
	})
	def("sorted(iterable, *, key=None, reverse=False)", func(in *interp, a *args) value {
		return &list{in.sorted(in.iterate(a.v[0]), a.v[1], in.boolArg(a, 2))}
	})
	raw("map", func(in *interp, a *args) value {
		if len(a.pos) < 2 {
			panic(in.errorf("map takes a function and iterables").is("TypeError"))
		}
		rows := in.iterate(in.call(pyBuiltins["zip"], a.pos[1:]))
		out := &generator{}
		for _, r := range rows {
			in.cells(1)
			out.elts = append(out.elts, in.call(a.pos[0], r.(*tuple).elts))
		}
		return out
	})
	def("filter(function, iterable)", func(in *interp, a *args) value {
		out := &generator{}
		in.each(a.v[1], func(v value) bool {
			keep := v
			if !isNone(a.v[0]) {
				keep = in.call(a.v[0], []value{v})
			}
			if in.truth(keep) {
				out.elts = append(out.elts, v)
			}
			return true
		})
		return out
	})
	def("any(iterable)", func(in *interp, a *args) value {
		found := false
		in.each(a.v[0], func(v value) bool { found = in.truth(v); return !found })
		return found
	})
	def("all(iterable)", func(in *interp, a *args) value {
		ok := true
		in.each(a.v[0], func(v value) bool { ok = in.truth(v); return ok })
		return ok
	})
	def("iter(iterable)", func(in *interp, a *args) value {
		if g, ok := a.v[0].(*generator); ok {
			return g
		}
		return &generator{elts: in.iterate(a.v[0])}
	})
	def("next(iterator, default=None)", func(in *interp, a *args) value {
		g, ok := a.v[0].(*generator)
		if !ok {
			panic(in.errorf("next of %s", typeName(a.v[0])).is("TypeError"))
		}
		if g.next < len(g.elts) {
			g.next++
			return g.elts[g.next-1]
		}
		if !a.given[1] {
			panic(in.errorf("the iterator is at its end").is("StopIteration"))
		}
		return a.v[1]
	})
	def("isinstance(obj, cls)", func(in *interp, a *args) value {
		if u, ok := a.v[0].(*unknown); ok {
			return u
		}
		return in.isInstance(a.v[0], a.v[1])
	})
	def("issubclass(cls, parent)", func(in *interp, a *args) value {
		c, ok := a.v[0].(*class)
		p, ok2 := a.v[1].(*class)
		return ok && ok2 && subclass(c, p, 0)
	})
	def("hasattr(obj, name)", func(in *interp, a *args) value {
		if u, ok := a.v[0].(*unknown); ok {
			return u
		}
		_, ok := in.getAttr(a.v[0], in.stringArg(a, 1))
		return ok
	})
	def("getattr(obj, name, default=None)", func(in *interp, a *args) value {
		if v, ok := in.getAttr(a.v[0], in.stringArg(a, 1)); ok {
			return v
		}
		if a.given[2] {
			return a.v[2]
		}
		return in.attr(a.v[0], in.stringArg(a, 1))
	})
	def("setattr(obj, name, value)", func(in *interp, a *args) value {
		in.setAttr(a.v[0], in.stringArg(a, 1), a.v[2])
		return none
	})
	def("callable(obj)", func(in *interp, a *args) value {
		switch a.v[0].(type) {
		case *function, *builtin, *boundMethod, *class, *macro, *jitFunc:
			return true
		}
		return false
	})
	raw("print", func(in *interp, a *args) value { return none })
	raw("super", func(in *interp, a *args) value {
		return &unknown{what: "super(...)", at: in.here()}
	})
	def("type(obj)", func(in *interp, a *args) value {
		switch x := a.v[0].(type) {
		case *instance:
			return x.cls
		case *unknown:
			return x
		}
		if b, ok := pyBuiltins[typeName(a.v[0])]; ok {
			return b
		}
		return &class{name: typeName(a.v[0]), attrs: map[string]value{}}
	})
	def("id(obj)", func(in *interp, a *args) value { return &unknown{what: "id(...)", at: in.here()} })
	def("hash(obj)", func(in *interp, a *args) value { return &unknown{what: "hash(...)", at: in.here()} })
	def("pow(base, exp, mod=None)", func(in *interp, a *args) value {
		if isNone(a.v[2]) {
			return in.binaryOp(syntax.Pow, a.v[0], a.v[1])
		}
		return in.binaryOp(syntax.Mod, in.binaryOp(syntax.Pow, a.v[0], a.v[1]), a.v[2])
	})
	def("divmod(a, b)", func(in *interp, a *args) value {
		return &tuple{[]value{in.binaryOp(syntax.FloorDiv, a.v[0], a.v[1]), in.binaryOp(syntax.Mod, a.v[0], a.v[1])}}
	})
	def("round(number, ndigits=None)", func(in *interp, a *args) value {
		if isPyInt(a.v[0]) && isNone(a.v[1]) {
			return a.v[0]
		}
		if i, _, b, k := number(a.v[0]); (k == 'i' || k == 'b') && !isNone(a.v[1]) {
			return in.roundInt(toBig(i, b), in.intArg(a, 1))
		}
		f, ok := toFloat(a.v[0])
		if !ok {
			panic(in.errorf("round of %s", in.typeWithValue(a.v[0])).is("TypeError"))
		}
		if isNone(a.v[1]) {
			return in.floatToInt(math.RoundToEven(f))
		}
		n := in.intArg(a, 1)
		if n < -300 || n > 300 {
			return f
		}
		r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(max(n, 0)), 64), 64)
		if n < 0 {
			p := math.Pow(10, float64(-n))
			r = math.RoundToEven(f/p) * p
		}
		return r
	})
	for name, base := range map[string]int{"hex": 16, "bin": 2, "oct": 8} {
		def(name+"(x)", func(in *interp, a *args) value {
			i, _, b, k := number(a.v[0])
			if k != 'i' && k != 'b' {
				panic(in.errorf("%s of %s", name, typeName(a.v[0])).is("TypeError"))
			}
			x := toBig(i, b)
			s := map[int]string{16: "0x", 2: "0b", 8: "0o"}[base] + new(big.Int).Abs(x).Text(base)
			if x.Sign() < 0 {
				s = "-" + s
			}
			return s
		})
	}
	def("chr(i)", func(in *interp, a *args) value {
		n := in.intArg(a, 0)
		if n < 0 || n > 0x10ffff {
			panic(in.errorf("chr of %d", n).is("ValueError"))
		}
		return string(rune(n))
	})
	def("ord(c)", func(in *interp, a *args) value {
		r := []rune(in.stringArg(a, 0))
		if len(r) != 1 {
			panic(in.errorf("ord of a string of %d characters", len(r)).is("TypeError"))
		}
		return int64(r[0])
	})
	def("slice(start, stop=None, step=None)", func(in *interp, a *args) value {
		if !a.given[1] {
			return &slice{none, a.v[0], none}
		}
		return &slice{a.v[0], a.v[1], a.v[2]}
	})
	def("property(fget)", func(in *interp, a *args) value { return &property{a.v[0]} })
	def("staticmethod(function)", func(in *interp, a *args) value { return &staticMethod{a.v[0]} })
	def("classmethod(function)", func(in *interp, a *args) value { return &classMethod{a.v[0]} })
	for _, name := range []string{"open", "input", "exit", "quit", "vars", "dir", "globals", "locals", "object", "bytes", "bytearray", "memoryview", "complex", "exec", "eval", "compile", "__import__", "help", "breakpoint", "aiter", "anext", "delattr", "ascii"} {
		pyBuiltins[name] = &unknown{what: name}
	}
	builtinAttrs = map[string]map[string]value{
		"dict": {"fromkeys": &builtin{name: "dict.fromkeys", sig: parseSig("dict.fromkeys(iterable, value=None)"), fn: func(in *interp, a *args) value {
			d := newDict()
			in.each(a.v[0], func(v value) bool { d.set(in, v, a.v[1]); return true })
			return d
		}}},
	}
}

func (in *interp) length(v value) value {
	switch x := v.(type) {
	case string:
		return int64(len([]rune(x)))
	case ir.DType:
		return int64(len(x.String()))
	case *tuple:
		return int64(len(x.elts))
	case *list:
		return int64(len(x.elts))
	case *dict:
		return int64(len(x.keys))
	case *set:
		return int64(len(x.d.keys))
	case pyRange:
		return x.len()
	case *ir.Var:
		return int64(1)
	case *unknown:
		return in.derived(x, "len")
	case *instance:
		if m, ok := x.cls.lookup("__len__"); ok {
			return in.call(&boundMethod{x, m}, nil)
		}
		if x.cls.fields != nil && !x.cls.data {
			return int64(len(x.cls.fields))
		}
	case *class:
		if m, ok := x.attrs["__members__"].(*list); ok {
			return int64(len(m.elts))
		}
	case *tensor:
		if len(x.shape) > 0 {
			return x.shape[0]
		}
	}
	panic(in.errorf("%s has no length", in.typeWithValue(v)).is("TypeError"))
}

// extreme is min and max. Of IR expressions Python compares, which fails; the
// message says what to use.
func (in *interp) extreme(a *args, op syntax.Op, name string) value {
	elts := a.pos
	var key, def value
	for _, k := range a.kw {
		switch k.name {
		case "key":
			key = k.v
		case "default":
			def = k.v
		default:
			panic(in.errorAt(k.at, "%s has no argument %s", name, k.name).is("TypeError"))
		}
	}
	if len(elts) == 1 {
		if u, ok := elts[0].(*unknown); ok {
			return u
		}
		elts = in.iterate(elts[0])
	}
	if len(elts) == 0 {
		if def != nil {
			return def
		}
		panic(in.errorf("%s of nothing", name).is("ValueError"))
	}
	rank := func(v value) value {
		if u, ok := v.(*unknown); ok {
			panic(in.needKnown(u))
		}
		if key != nil && !isNone(key) {
			return in.call(key, []value{v})
		}
		return v
	}
	best, bestKey := elts[0], rank(elts[0])
	for _, v := range elts[1:] {
		k := rank(v)
		r := in.compareOp(op, k, bestKey)
		if e, ok := r.(ir.Expr); ok {
			if _, isConst := e.(*ir.IntImm); !isConst {
				panic(in.errorf("Python's %s cannot compare what is known only when the kernel runs", name).hint("use T.%s", name).is("ValueError"))
			}
		}
		if in.truth(r) {
			best, bestKey = v, k
		}
	}
	return best
}

func (in *interp) floatToInt(f float64) value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		panic(in.errorf("int of %s", pyFloat(f)).is("OverflowError"))
	}
	b, _ := new(big.Float).SetFloat64(f).Int(nil)
	return intValue(b)
}

func (in *interp) toInt(v value, a *args) value {
	switch x := v.(type) {
	case bool:
		return b2i(x)
	case int64, *big.Int:
		return x
	case float64:
		return in.floatToInt(math.Trunc(x))
	case string:
		base := in.intArg(a, 1)
		b, ok := new(big.Int).SetString(strings.ReplaceAll(strings.TrimSpace(x), "_", ""), int(base))
		if !ok || len(x) > MaxIntBits || base < 0 || base > 36 {
			panic(in.errorf("int of string %s", pyQuote(x)).is("ValueError"))
		}
		return intValue(b)
	case *ir.IntImm:
		return x.Value
	case *ir.FloatImm:
		return in.floatToInt(math.Trunc(x.Value))
	case *unknown:
		return x
	case *instance:
		if n, ok := x.attrs["value"]; ok {
			return in.toInt(n, a)
		}
	}
	f := in.errorf("int of %s", in.typeWithValue(v)).is("TypeError")
	if isExpr(v) {
		f.hint("use T.cast")
	}
	panic(f)
}

// roundInt is round(x, n): to a multiple of 10**-n, ties to even.
func (in *interp) roundInt(x *big.Int, n int64) value {
	if n >= 0 {
		return intValue(x)
	}
	if -n > int64(x.BitLen()) {
		return int64(0)
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(-n), nil)
	q, r := new(big.Int).DivMod(x, unit, new(big.Int))
	if c := r.Lsh(r, 1).Cmp(unit); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return intValue(q.Mul(q, unit))
}

// sorted sorts stably; a comparison that fails ends it.
func (in *interp) sorted(elts []value, key value, reverse bool) []value {
	type item struct{ v, k value }
	items := make([]item, len(elts))
	in.cells(len(elts))
	for i, v := range elts {
		items[i] = item{v, v}
		if !isNone(key) {
			items[i].k = in.call(key, []value{v})
		}
	}
	sort.SliceStable(items, func(i, j int) bool {
		in.step()
		a, b := items[i].k, items[j].k
		if reverse {
			a, b = b, a
		}
		return in.truth(in.compareOp(syntax.LT, a, b))
	})
	out := make([]value, len(items))
	for i := range items {
		out[i] = items[i].v
	}
	return out
}

// derives reports a class of a name among c and what it derives from.
func derives(c *class, name string, depth int) bool {
	if c.name == name {
		return true
	}
	for _, b := range c.bases {
		if depth < MaxDepth && derives(b, name, depth+1) {
			return true
		}
	}
	return false
}

func subclass(c, p *class, depth int) bool {
	if c == p || c.name == p.name && len(c.bases) == 0 {
		return true
	}
	if depth > MaxDepth {
		return false
	}
	for _, b := range c.bases {
		if subclass(b, p, depth+1) {
			return true
		}
	}
	return false
}

func (in *interp) isInstance(v, cls value) bool {
	switch c := cls.(type) {
	case *tuple:
		for _, x := range c.elts {
			if in.isInstance(v, x) {
				return true
			}
		}
		return false
	case *class:
		if e, ok := v.(*exception); ok {
			return e.kind == c.name || c.name == "Exception" || c.name == "BaseException" || e.cls != nil && derives(e.cls, c.name, 0)
		}
		x, ok := v.(*instance)
		if !ok {
			return c.name == typeName(v) && !c.span.IsValid()
		}
		return subclass(x.cls, c, 0)
	case *builtin:
		name := typeName(v)
		switch c.name {
		case "int":
			return name == "int" || name == "bool"
		case "str":
			return name == "str" || name == "dtype"
		case "T.dtype":
			return name == "dtype"
		case "NoneType":
			return isNone(v)
		case "type":
			return name == "type"
		}
		return c.name == name
	case *unknown:
		// tir.Buffer, tir.PrimExpr, tvm.tir.Var: by their names.
		i := strings.LastIndexByte(c.what, '.')
		switch c.what[i+1:] {
		case "Buffer":
			_, ok := v.(*ir.Buffer)
			return ok
		case "BufferRegion":
			_, ok := v.(*region)
			return ok
		case "BufferLoad":
			_, ok := v.(*ir.BufferLoad)
			return ok
		case "Var":
			_, ok := v.(*ir.Var)
			return ok
		case "IntImm":
			_, ok := v.(*ir.IntImm)
			return ok
		case "FloatImm":
			_, ok := v.(*ir.FloatImm)
			return ok
		case "PrimExpr":
			return isExpr(v)
		case "Tensor":
			_, ok := v.(*tensor)
			return ok
		}
		if !isExpr(v) {
			panic(in.needKnown(c))
		}
	}
	return false
}
