package tilelang

import (
	"math"
	"math/big"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// module is a module by name; those we do not know are unknown.
func (in *interp) module(name string) value {
	switch name {
	case "math":
		return mathModule()
	case "itertools":
		return itertoolsModule()
	case "functools":
		return functoolsModule()
	case "torch":
		return in.torchModule()
	case "dataclasses":
		return dataclassesModule()
	case "argparse":
		return argparseModule()
	case "copy":
		return &module{name: "copy", attrs: map[string]value{
			"copy":     rawBuiltin("copy.copy", func(in *interp, a *args) value { return in.copyValue(a, false) }),
			"deepcopy": rawBuiltin("copy.deepcopy", func(in *interp, a *args) value { return in.copyValue(a, true) }),
		}}
	case "collections":
		return &module{name: "collections", attrs: map[string]value{
			"OrderedDict": pyBuiltins["dict"],
			"namedtuple": &builtin{name: "namedtuple", sig: parseSig("namedtuple(typename, field_names)"), fn: func(in *interp, a *args) value {
				c := &class{name: in.stringArg(a, 0), attrs: map[string]value{}, fields: []string{}}
				if s, ok := a.v[1].(string); ok {
					c.fields = append(c.fields, strings.Fields(strings.ReplaceAll(s, ",", " "))...)
					return c
				}
				for _, v := range in.iterate(a.v[1]) {
					c.fields = append(c.fields, in.str(v))
				}
				return c
			}},
		}}
	case "operator":
		m := &module{name: "operator", attrs: map[string]value{}}
		for name, op := range map[string]syntax.Op{"add": syntax.Add, "sub": syntax.Sub, "mul": syntax.Mul, "floordiv": syntax.FloorDiv, "mod": syntax.Mod, "truediv": syntax.Div} {
			m.attrs[name] = rawBuiltin("operator."+name, func(in *interp, a *args) value {
				if len(a.pos) != 2 {
					panic(in.errorf("operator.%s takes two arguments", name).is("TypeError"))
				}
				return in.binaryOp(op, a.pos[0], a.pos[1])
			})
		}
		return m
	case "os":
		return &module{name: "os", get: func(in *interp, n string) (value, bool) { return &unknown{what: "os." + n, at: in.here()}, true }}
	}
	if m := in.tilelangModule(name); m != nil {
		return m
	}
	if m := in.torchSubmodule(name); m != nil {
		return m
	}
	return &unknown{what: name, at: in.here()}
}

// jitDecorator is @tilelang.jit, with or without arguments.
func jitDecorator(name string) *builtin {
	return rawBuiltin(name, func(in *interp, a *args) value {
		opts := map[string]value{}
		for _, k := range a.kw {
			opts[k.name] = k.v
		}
		apply := func(in *interp, v value) value {
			switch f := v.(type) {
			case *function:
				if f.def == nil {
					panic(in.errorf("a lambda cannot be a kernel").is("TypeError"))
				}
				return &jitFunc{name: f.name, fn: f, opts: opts}
			case *primFunc:
				return f
			case *jitFunc:
				return f
			case *unknown:
				return f
			}
			panic(in.errorf("%s decorates %s: expected a function", name, in.typeWithValue(v)).is("TypeError"))
		}
		if len(a.pos) == 1 {
			return apply(in, a.pos[0])
		}
		return rawBuiltin(name, func(in *interp, a *args) value {
			if len(a.pos) != 1 {
				panic(in.errorf("a decorator takes one function").is("TypeError"))
			}
			return apply(in, a.pos[0])
		})
	})
}

// jitAttr is an attribute of a jit function.
func (in *interp) jitAttr(j *jitFunc, name string) (value, bool) {
	switch name {
	case "compile", "get_tir", "par_compile", "get_kernel_source":
		return rawBuiltin(j.name+"."+name, func(in *interp, a *args) value { return in.callJIT(j, a) }), true
	case "__name__":
		return j.name, true
	case "__wrapped__", "func", "orig_func":
		return j.fn, true
	}
	return &unknown{what: j.name + "." + name, at: in.here()}, true
}

// addDecorators adds T.prim_func, T.macro and T.meta_class.
func addDecorators(m *module) {
	decorator := func(name string, apply func(in *interp, f *function) value) {
		m.attrs[name] = rawBuiltin("T."+name, func(in *interp, a *args) value {
			one := func(in *interp, v value) value {
				switch f := v.(type) {
				case *function:
					if f.def != nil {
						return apply(in, f)
					}
				case *macro, *primFunc:
					return f
				}
				panic(in.errorf("@T.%s decorates %s: expected a function", name, in.typeWithValue(v)).is("TypeError"))
			}
			if len(a.pos) == 1 {
				return one(in, a.pos[0])
			}
			return rawBuiltin("T."+name, func(in *interp, a *args) value {
				if len(a.pos) != 1 {
					panic(in.errorf("a decorator takes one function").is("TypeError"))
				}
				return one(in, a.pos[0])
			})
		})
	}
	decorator("prim_func", func(in *interp, f *function) value { return &primFunc{name: f.name, fn: f} })
	decorator("macro", func(in *interp, f *function) value { return &macro{fn: f} })
	decorator("inline", func(in *interp, f *function) value { return &macro{fn: f} })
	m.attrs["meta_class"] = rawBuiltin("T.meta_class", func(in *interp, a *args) value { return a.pos[0] })
	m.attrs["dtype"] = &builtin{name: "T.dtype", sig: parseSig("T.dtype(value)"), fn: func(in *interp, a *args) value {
		return in.dtypeOf(a.v[0], a.at[0])
	}}
}

func mathModule() *module {
	m := &module{name: "math", attrs: map[string]value{"pi": math.Pi, "e": math.E, "inf": math.Inf(1), "nan": math.NaN(), "tau": 2 * math.Pi}}
	def := func(sig string, fn func(in *interp, a *args) value) {
		s := parseSig(sig)
		m.attrs[s.name] = &builtin{name: "math." + s.name, sig: s, fn: fn}
	}
	float := func(in *interp, a *args, i int) float64 {
		if c, ok := a.v[i].(*ir.IntImm); ok {
			return float64(c.Value)
		}
		if u, ok := a.v[i].(*unknown); ok {
			panic(in.needKnown(u))
		}
		f, ok := toFloat(a.v[i])
		if !ok {
			fl := in.errorAt(a.at[i], "math.%s of %s: expected a number", a.sig.name, in.typeWithValue(a.v[i])).is("TypeError")
			if isExpr(a.v[i]) {
				fl.hint("use T.%s", a.sig.name)
			}
			panic(fl)
		}
		return f
	}
	for name, fn := range map[string]func(float64) float64{
		"sqrt": math.Sqrt, "exp": exp, "exp2": exp2, "log2": log2, "log10": log10, "log1p": math.Log1p, "sin": math.Sin, "cos": math.Cos,
		"tan": math.Tan, "tanh": math.Tanh, "fabs": math.Abs, "erf": math.Erf, "atan": math.Atan, "sinh": math.Sinh, "cosh": math.Cosh, "expm1": math.Expm1,
	} {
		def(name+"(x)", func(in *interp, a *args) value {
			in.steps += bigSteps
			r := fn(float(in, a, 0))
			if math.IsNaN(r) || math.IsInf(r, 0) {
				panic(in.errorf("math.%s of %s", name, in.describe(a.v[0])).is("ValueError"))
			}
			return r
		})
	}
	m.attrs["hypot"] = rawBuiltin("math.hypot", func(in *interp, a *args) value {
		sum := 0.0
		for _, v := range a.pos {
			x, ok := toFloat(v)
			if !ok {
				panic(in.errorf("math.hypot of %s: expected a number", in.typeWithValue(v)).is("TypeError"))
			}
			sum = math.Hypot(sum, x)
		}
		return sum
	})
	def("log(x, base=None)", func(in *interp, a *args) value {
		x := float(in, a, 0)
		if x <= 0 {
			panic(in.errorf("math.log of %s", in.describe(a.v[0])).is("ValueError"))
		}
		in.steps += bigSteps
		if isNone(a.v[1]) {
			return log(x)
		}
		b := float(in, a, 1)
		if b <= 0 || b == 1 {
			panic(in.errorf("math.log to base %s", in.describe(a.v[1])).is("ValueError"))
		}
		return log(x) / log(b)
	})
	for name, fn := range map[string]func(float64) float64{"floor": math.Floor, "ceil": math.Ceil, "trunc": math.Trunc} {
		def(name+"(x)", func(in *interp, a *args) value {
			if isPyInt(a.v[0]) {
				return a.v[0]
			}
			return in.floatToInt(fn(float(in, a, 0)))
		})
	}
	def("pow(x, y)", func(in *interp, a *args) value {
		in.steps += bigSteps
		return pow(float(in, a, 0), float(in, a, 1))
	})
	def("fmod(x, y)", func(in *interp, a *args) value {
		y := float(in, a, 1)
		if y == 0 {
			panic(in.zeroDivision())
		}
		return math.Mod(float(in, a, 0), y)
	})
	def("atan2(y, x)", func(in *interp, a *args) value { return math.Atan2(float(in, a, 0), float(in, a, 1)) })
	def("isnan(x)", func(in *interp, a *args) value { return math.IsNaN(float(in, a, 0)) })
	def("isinf(x)", func(in *interp, a *args) value { return math.IsInf(float(in, a, 0), 0) })
	def("isclose(a, b, *, rel_tol=1e-09, abs_tol=0.0)", func(in *interp, a *args) value {
		x, y := float(in, a, 0), float(in, a, 1)
		return math.Abs(x-y) <= math.Max(float(in, a, 2)*math.Max(math.Abs(x), math.Abs(y)), float(in, a, 3))
	})
	def("isqrt(n)", func(in *interp, a *args) value {
		i, _, b, k := number(a.v[0])
		x := toBig(i, b)
		if k == 0 || k == 'f' || x.Sign() < 0 {
			panic(in.errorf("math.isqrt of %s", in.describe(a.v[0])).is("ValueError"))
		}
		return intValue(new(big.Int).Sqrt(x))
	})
	def("prod(iterable, *, start=1)", func(in *interp, a *args) value {
		p := a.v[1]
		in.each(a.v[0], func(v value) bool { p = in.binaryOp(syntax.Mul, p, v); return true })
		return p
	})
	fold := func(name string, f func(a, b *big.Int) *big.Int, zero int64) {
		m.attrs[name] = rawBuiltin("math."+name, func(in *interp, a *args) value {
			acc := big.NewInt(zero)
			for _, v := range a.pos {
				i, _, b, k := number(v)
				if k != 'i' && k != 'b' {
					panic(in.errorf("math.%s of %s", name, in.typeWithValue(v)).is("TypeError"))
				}
				acc = f(acc, new(big.Int).Abs(toBig(i, b)))
				if acc.BitLen() > MaxIntBits {
					panic(in.tooLarge())
				}
			}
			return intValue(acc)
		})
	}
	fold("gcd", func(a, b *big.Int) *big.Int { return new(big.Int).GCD(nil, nil, a, b) }, 0)
	fold("lcm", func(a, b *big.Int) *big.Int {
		if a.Sign() == 0 || b.Sign() == 0 {
			return new(big.Int)
		}
		g := new(big.Int).GCD(nil, nil, a, b)
		return new(big.Int).Mul(new(big.Int).Div(a, g), b)
	}, 1)
	def("factorial(n)", func(in *interp, a *args) value {
		n := in.intArg(a, 0)
		if n < 0 || n > 500 {
			panic(in.errorf("math.factorial of %d", n).is("ValueError"))
		}
		return intValue(new(big.Int).MulRange(1, max(n, 1)))
	})
	def("comb(n, k)", func(in *interp, a *args) value {
		n, k := in.intArg(a, 0), in.intArg(a, 1)
		if n < 0 || k < 0 || n > 1000 {
			panic(in.errorf("math.comb of %d and %d", n, k).is("ValueError"))
		}
		return intValue(new(big.Int).Binomial(n, k))
	})
	return m
}

func itertoolsModule() *module {
	m := &module{name: "itertools", attrs: map[string]value{}}
	out := func(in *interp, rows [][]value) value {
		g := &generator{}
		for _, r := range rows {
			in.cells(len(r) + 1)
			g.elts = append(g.elts, &tuple{r})
		}
		return g
	}
	def := func(sig string, fn func(in *interp, a *args) value) {
		s := parseSig(sig)
		m.attrs[s.name] = &builtin{name: "itertools." + s.name, sig: s, fn: fn}
	}
	def("product(*iterables, repeat=1)", func(in *interp, a *args) value {
		var pools [][]value
		n := in.intArg(a, 0)
		if n < 0 || n > 16 {
			panic(in.errorf("itertools.product with repeat %d", n).is("ValueError"))
		}
		for range n {
			for _, v := range a.rest {
				pools = append(pools, in.iterate(v))
			}
		}
		rows := [][]value{nil}
		for _, p := range pools {
			var next [][]value
			in.cells(len(rows) * len(p))
			for _, r := range rows {
				for _, v := range p {
					in.step()
					in.cells(len(r) + 1)
					next = append(next, append(append([]value(nil), r...), v))
				}
			}
			rows = next
		}
		return out(in, rows)
	})
	m.attrs["chain"] = rawBuiltin("itertools.chain", func(in *interp, a *args) value {
		g := &generator{}
		for _, v := range a.pos {
			e := in.iterate(v)
			in.cells(len(e))
			g.elts = append(g.elts, e...)
		}
		return g
	})
	builtinAttrsAdd("itertools.chain", "from_iterable", &builtin{name: "chain.from_iterable", sig: parseSig("chain.from_iterable(iterable)"), fn: func(in *interp, a *args) value {
		g := &generator{}
		for _, v := range in.iterate(a.v[0]) {
			e := in.iterate(v)
			in.cells(len(e))
			g.elts = append(g.elts, e...)
		}
		return g
	}})
	choose := func(name string, ordered, repeat bool) {
		def(name+"(iterable, r=None)", func(in *interp, a *args) value {
			pool := in.iterate(a.v[0])
			r := len(pool)
			if !isNone(a.v[1]) {
				r = int(in.intArg(a, 1))
			}
			if r < 0 || r > 16 {
				panic(in.errorf("itertools.%s of %d elements", name, r).is("ValueError"))
			}
			var rows [][]value
			pick := make([]int, 0, r)
			var rec func()
			rec = func() {
				in.step()
				if len(pick) == r {
					row := make([]value, r)
					for i, k := range pick {
						row[i] = pool[k]
					}
					in.cells(r)
					rows = append(rows, row)
					return
				}
				from := 0
				if !ordered && len(pick) > 0 {
					from = pick[len(pick)-1]
					if !repeat {
						from++
					}
				}
				for k := from; k < len(pool); k++ {
					used := false
					for _, p := range pick {
						used = used || p == k
					}
					if used && !repeat {
						continue
					}
					pick = append(pick, k)
					rec()
					pick = pick[:len(pick)-1]
				}
			}
			rec()
			return out(in, rows)
		})
	}
	choose("combinations", false, false)
	choose("combinations_with_replacement", false, true)
	choose("permutations", true, false)
	def("accumulate(iterable, func=None)", func(in *interp, a *args) value {
		g := &generator{}
		var acc value
		in.each(a.v[0], func(v value) bool {
			switch {
			case acc == nil:
				acc = v
			case isNone(a.v[1]):
				acc = in.binaryOp(syntax.Add, acc, v)
			default:
				acc = in.call(a.v[1], []value{acc, v})
			}
			in.cells(1)
			g.elts = append(g.elts, acc)
			return true
		})
		return g
	})
	def("repeat(object, times)", func(in *interp, a *args) value {
		return &generator{elts: in.repeat([]value{a.v[0]}, in.intArg(a, 1))}
	})
	m.attrs["islice"] = rawBuiltin("itertools.islice", func(in *interp, a *args) value {
		if len(a.pos) < 2 || len(a.pos) > 4 {
			panic(in.errorf("itertools.islice takes an iterable and bounds").is("TypeError"))
		}
		s := &slice{none, none, none}
		switch len(a.pos) {
		case 2:
			s.hi = a.pos[1]
		case 3:
			s.lo, s.hi = a.pos[1], a.pos[2]
		case 4:
			s.lo, s.hi, s.step = a.pos[1], a.pos[2], a.pos[3]
		}
		return in.seqItem(&list{in.iterate(a.pos[0])}, s)
	})
	m.attrs["zip_longest"] = rawBuiltin("itertools.zip_longest", func(in *interp, a *args) value {
		fill := value(none)
		for _, k := range a.kw {
			if k.name != "fillvalue" {
				panic(in.errorf("itertools.zip_longest has no argument %s", k.name).is("TypeError"))
			}
			fill = k.v
		}
		var rows []*tuple
		for i, v := range a.pos {
			for j, e := range in.iterate(v) {
				if j == len(rows) {
					in.cells(len(a.pos) + 1)
					r := &tuple{make([]value, len(a.pos))}
					for k := range r.elts {
						r.elts[k] = fill
					}
					rows = append(rows, r)
				}
				rows[j].elts[i] = e
			}
		}
		out := &list{}
		for _, r := range rows {
			out.elts = append(out.elts, r)
		}
		return out
	})
	return m
}

func builtinAttrsAdd(name, attr string, v value) {
	if builtinAttrs[name] == nil {
		builtinAttrs[name] = map[string]value{}
	}
	builtinAttrs[name][attr] = v
}

func functoolsModule() *module {
	m := &module{name: "functools", attrs: map[string]value{}}
	m.attrs["reduce"] = rawBuiltin("functools.reduce", func(in *interp, a *args) value {
		if len(a.pos) < 2 {
			panic(in.errorf("functools.reduce takes a function and an iterable").is("TypeError"))
		}
		elts := in.iterate(a.pos[1])
		var acc value
		if len(a.pos) > 2 {
			acc = a.pos[2]
		}
		for _, v := range elts {
			if acc == nil {
				acc = v
				continue
			}
			acc = in.call(a.pos[0], []value{acc, v})
		}
		if acc == nil {
			panic(in.errorf("functools.reduce of nothing").is("TypeError"))
		}
		return acc
	})
	m.attrs["partial"] = rawBuiltin("functools.partial", func(in *interp, p *args) value {
		if len(p.pos) == 0 {
			panic(in.errorf("functools.partial needs a function").is("TypeError"))
		}
		return rawBuiltin("partial", func(in *interp, a *args) value {
			b := *a
			b.pos = append(append([]value(nil), p.pos[1:]...), a.pos...)
			b.posAt = nil
			b.kw = append(append([]kwarg(nil), p.kw...), a.kw...)
			return in.apply(p.pos[0], &b)
		})
	})
	var cached *builtin
	cached = rawBuiltin("functools.cache", func(in *interp, a *args) value {
		if len(a.pos) == 1 {
			if fn, ok := a.pos[0].(*function); ok && !fn.gen {
				c := *fn
				c.memo = newDict()
				return &c
			}
			switch a.pos[0].(type) {
			case *function, *jitFunc, *primFunc, *macro, *builtin:
				return a.pos[0]
			}
		}
		return cached
	})
	m.attrs["lru_cache"], m.attrs["cache"], m.attrs["wraps"] = cached, cached, rawBuiltin("functools.wraps", func(in *interp, a *args) value {
		return rawBuiltin("functools.wraps", func(in *interp, a *args) value { return a.pos[0] })
	})
	return m
}

func dataclassesModule() *module {
	return &module{name: "dataclasses", attrs: map[string]value{
		"dataclass": rawBuiltin("dataclasses.dataclass", func(in *interp, a *args) value {
			if len(a.pos) == 1 {
				return a.pos[0]
			}
			return rawBuiltin("dataclasses.dataclass", func(in *interp, a *args) value { return a.pos[0] })
		}),
		"field": &builtin{name: "dataclasses.field", sig: parseSig("dataclasses.field(*, default=None, default_factory=None, **kwargs)"), fn: func(in *interp, a *args) value {
			f := &fieldDefault{value: a.v[0]}
			if !isNone(a.v[1]) {
				f.factory = a.v[1]
			}
			return f
		}},
		"asdict": &builtin{name: "dataclasses.asdict", sig: parseSig("dataclasses.asdict(obj)"), fn: func(in *interp, a *args) value {
			x, ok := a.v[0].(*instance)
			if !ok {
				panic(in.errorf("dataclasses.asdict of %s", typeName(a.v[0])).is("TypeError"))
			}
			d := newDict()
			for _, f := range x.cls.fields {
				d.set(in, f, x.attrs[f])
			}
			return d
		}},
		"replace": rawBuiltin("dataclasses.replace", func(in *interp, a *args) value {
			if len(a.pos) != 1 {
				panic(in.errorf("dataclasses.replace takes an object").is("TypeError"))
			}
			x, ok := a.pos[0].(*instance)
			if !ok {
				panic(in.errorf("dataclasses.replace of %s", typeName(a.pos[0])).is("TypeError"))
			}
			y := &instance{cls: x.cls, attrs: map[string]value{}}
			for k, v := range x.attrs {
				y.attrs[k] = v
			}
			for _, k := range a.kw {
				y.attrs[k.name] = k.v
			}
			return y
		}),
	}}
}
