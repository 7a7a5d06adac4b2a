package tilelang

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// methods are the methods of Python's types; their first parameter is self.
var methods map[string]map[string]*builtin

func init() {
	methods = map[string]map[string]*builtin{}
	def := func(typ, sig string, fn func(in *interp, a *args) value) {
		s := parseSig(sig)
		if methods[typ] == nil {
			methods[typ] = map[string]*builtin{}
		}
		methods[typ][s.name] = &builtin{name: typ + "." + s.name, sig: s, fn: fn}
	}
	str := func(sig string, fn func(in *interp, s string, a *args) value) {
		def("str", sig, func(in *interp, a *args) value {
			s, _ := textOf(a.v[0])
			return fn(in, s, a)
		})
	}
	str("upper(self)", func(in *interp, s string, a *args) value { return strings.ToUpper(s) })
	str("lower(self)", func(in *interp, s string, a *args) value { return strings.ToLower(s) })
	str("capitalize(self)", func(in *interp, s string, a *args) value {
		if s == "" {
			return s
		}
		return strings.ToUpper(s[:1]) + strings.ToLower(s[1:])
	})
	str("title(self)", func(in *interp, s string, a *args) value {
		var b strings.Builder
		inWord := false
		for _, r := range s {
			if inWord {
				b.WriteRune(unicode.ToLower(r))
			} else {
				b.WriteRune(unicode.ToTitle(r))
			}
			inWord = unicode.IsLetter(r)
		}
		return b.String()
	})
	cut := func(name string, chars func(s, set string) string, space func(s string) string) {
		str(name+"(self, chars=None)", func(in *interp, s string, a *args) value {
			if isNone(a.v[1]) {
				return space(s)
			}
			return chars(s, in.stringArg(a, 1))
		})
	}
	cut("strip", strings.Trim, strings.TrimSpace)
	cut("lstrip", strings.TrimLeft, func(s string) string { return strings.TrimLeft(s, " \t\n\r\f\v") })
	cut("rstrip", strings.TrimRight, func(s string) string { return strings.TrimRight(s, " \t\n\r\f\v") })
	affix := func(name string, has func(s, t string) bool) {
		str(name+"(self, prefix)", func(in *interp, s string, a *args) value {
			if t, ok := a.v[1].(*tuple); ok {
				for _, x := range t.elts {
					if p, ok := x.(string); ok && has(s, p) {
						return true
					}
				}
				return false
			}
			return has(s, in.stringArg(a, 1))
		})
	}
	affix("startswith", strings.HasPrefix)
	affix("endswith", strings.HasSuffix)
	str("removeprefix(self, prefix)", func(in *interp, s string, a *args) value { return strings.TrimPrefix(s, in.stringArg(a, 1)) })
	str("removesuffix(self, suffix)", func(in *interp, s string, a *args) value { return strings.TrimSuffix(s, in.stringArg(a, 1)) })
	str("replace(self, old, new, count=-1)", func(in *interp, s string, a *args) value {
		old, to, n := in.stringArg(a, 1), in.stringArg(a, 2), in.intArg(a, 3)
		in.cells(strings.Count(s, old)*len(to)/16 + len(s)/16)
		return strings.Replace(s, old, to, int(max(min(n, 1<<30), -1)))
	})
	str("split(self, sep=None, maxsplit=-1)", func(in *interp, s string, a *args) value {
		var parts []string
		if isNone(a.v[1]) {
			parts = strings.Fields(s)
		} else {
			sep, n := in.stringArg(a, 1), in.intArg(a, 2)
			if sep == "" {
				panic(in.errorf("an empty separator").is("ValueError"))
			}
			if n >= 0 {
				n++
			}
			parts = strings.SplitN(s, sep, int(max(min(n, 1<<30), -1)))
		}
		in.cells(len(parts))
		out := &list{}
		for _, p := range parts {
			out.elts = append(out.elts, p)
		}
		return out
	})
	str("splitlines(self)", func(in *interp, s string, a *args) value {
		out := &list{}
		for _, p := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
			out.elts = append(out.elts, p)
		}
		in.cells(len(out.elts))
		return out
	})
	str("join(self, iterable)", func(in *interp, s string, a *args) value {
		var parts []string
		n := 0
		in.each(a.v[1], func(v value) bool {
			p, ok := textOf(v)
			if !ok {
				panic(in.errorf("join of %s: expected strings", in.typeWithValue(v)).is("TypeError"))
			}
			parts = append(parts, p)
			n += len(p) + len(s)
			in.cells((len(p) + len(s)) / 16)
			return true
		})
		return strings.Join(parts, s)
	})
	find := func(name string, at func(s, t string) int, must bool) {
		str(name+"(self, sub)", func(in *interp, s string, a *args) value {
			i := at(s, in.stringArg(a, 1))
			if i < 0 {
				if must {
					panic(in.errorf("the substring is not found").is("ValueError"))
				}
				return int64(-1)
			}
			return int64(len([]rune(s[:i])))
		})
	}
	find("find", strings.Index, false)
	find("rfind", strings.LastIndex, false)
	find("index", strings.Index, true)
	str("count(self, sub)", func(in *interp, s string, a *args) value { return int64(strings.Count(s, in.stringArg(a, 1))) })
	test := func(name string, ok func(r rune) bool) {
		str(name+"(self)", func(in *interp, s string, a *args) value {
			return s != "" && strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0
		})
	}
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	alpha := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	test("isdigit", digit)
	test("isnumeric", digit)
	test("isalpha", alpha)
	test("isalnum", func(r rune) bool { return digit(r) || alpha(r) })
	test("isupper", func(r rune) bool { return !(r >= 'a' && r <= 'z') })
	test("islower", func(r rune) bool { return !(r >= 'A' && r <= 'Z') })
	for name, align := range map[string]string{"ljust": "<", "rjust": ">", "center": "^"} {
		str(name+"(self, width, fillchar=\" \")", func(in *interp, s string, a *args) value {
			fill := in.stringArg(a, 2)
			if utf8.RuneCountInString(fill) != 1 {
				panic(in.errorAt(a.at[2], "%s is filled with %s: expected one character", a.name(), pyQuote(fill)).is("TypeError"))
			}
			return in.format(s, fill+align+in.str(in.intArg(a, 1)))
		})
	}
	str("zfill(self, width)", func(in *interp, s string, a *args) value {
		sign := ""
		if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
			sign, s = s[:1], s[1:]
		}
		return sign + in.format(s, "0>"+in.str(max(in.intArg(a, 1)-int64(len(sign)), 0)))
	})
	str("encode(self, encoding=\"utf-8\")", func(in *interp, s string, a *args) value { return s })
	str("rsplit(self, sep=None, maxsplit=-1)", func(in *interp, s string, a *args) value {
		n := in.intArg(a, 2)
		var parts []value
		blank := isNone(a.v[1])
		sep := " "
		if !blank {
			if sep = in.stringArg(a, 1); sep == "" {
				panic(in.errorf("an empty separator").is("ValueError"))
			}
		}
		for {
			cut := strings.LastIndex(s, sep)
			if blank {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
				cut = strings.LastIndexFunc(s, unicode.IsSpace)
			}
			if cut < 0 || n >= 0 && int64(len(parts)) >= n {
				break
			}
			in.cells(1)
			parts = append(parts, s[cut+len(sep):])
			s = s[:cut]
		}
		if blank {
			s = strings.TrimSpace(s)
		}
		if !blank || s != "" {
			parts = append(parts, s)
		}
		slices.Reverse(parts)
		return &list{parts}
	})
	str("swapcase(self)", func(in *interp, s string, a *args) value {
		return strings.Map(func(r rune) rune {
			if unicode.IsUpper(r) {
				return unicode.ToLower(r)
			}
			return unicode.ToUpper(r)
		}, s)
	})
	str("rpartition(self, sep)", func(in *interp, s string, a *args) value {
		sep := in.stringArg(a, 1)
		i := strings.LastIndex(s, sep)
		if i < 0 {
			return &tuple{[]value{"", "", s}}
		}
		return &tuple{[]value{s[:i], sep, s[i+len(sep):]}}
	})
	str("partition(self, sep)", func(in *interp, s string, a *args) value {
		sep := in.stringArg(a, 1)
		before, after, ok := strings.Cut(s, sep)
		if !ok {
			sep = ""
		}
		return &tuple{[]value{before, sep, after}}
	})
	str("format(self, *args, **kwargs)", func(in *interp, s string, a *args) value { return in.strFormat(s, a) })

	// Lists.
	def("list", "append(self, x)", func(in *interp, a *args) value {
		l := a.v[0].(*list)
		in.cells(1)
		l.elts = append(l.elts, a.v[1])
		return none
	})
	def("list", "extend(self, iterable)", func(in *interp, a *args) value {
		l := a.v[0].(*list)
		e := in.iterate(a.v[1])
		in.cells(len(e))
		l.elts = append(l.elts, e...)
		return none
	})
	def("list", "insert(self, i, x)", func(in *interp, a *args) value {
		l := a.v[0].(*list)
		i := in.intArg(a, 1)
		if i < 0 {
			i += int64(len(l.elts))
		}
		i = max(min(i, int64(len(l.elts))), 0)
		in.cells(1)
		l.elts = append(l.elts[:i:i], append([]value{a.v[2]}, l.elts[i:]...)...)
		return none
	})
	def("list", "pop(self, i=-1)", func(in *interp, a *args) value {
		l := a.v[0].(*list)
		k := in.seqIndex(a.v[1], len(l.elts), "list")
		v := l.elts[k]
		l.elts = append(l.elts[:k:k], l.elts[k+1:]...)
		return v
	})
	def("list", "remove(self, x)", func(in *interp, a *args) value {
		l := a.v[0].(*list)
		for i, v := range l.elts {
			if in.equal(v, a.v[1]) {
				l.elts = append(l.elts[:i:i], l.elts[i+1:]...)
				return none
			}
		}
		panic(in.errorf("the list does not hold %s", in.describe(a.v[1])).is("ValueError"))
	})
	def("list", "clear(self)", func(in *interp, a *args) value { a.v[0].(*list).elts = nil; return none })
	def("list", "copy(self)", func(in *interp, a *args) value {
		l := a.v[0].(*list)
		in.cells(len(l.elts))
		return &list{append([]value(nil), l.elts...)}
	})
	def("list", "reverse(self)", func(in *interp, a *args) value {
		l := a.v[0].(*list)
		for i, j := 0, len(l.elts)-1; i < j; i, j = i+1, j-1 {
			l.elts[i], l.elts[j] = l.elts[j], l.elts[i]
		}
		return none
	})
	def("list", "sort(self, *, key=None, reverse=False)", func(in *interp, a *args) value {
		l := a.v[0].(*list)
		l.elts = in.sorted(l.elts, a.v[1], in.boolArg(a, 2))
		return none
	})
	for _, t := range []string{"list", "tuple"} {
		def(t, "index(self, x)", func(in *interp, a *args) value {
			for i, v := range in.iterate(a.v[0]) {
				if in.equal(v, a.v[1]) {
					return int64(i)
				}
			}
			panic(in.errorf("the %s does not hold %s", t, in.describe(a.v[1])).is("ValueError"))
		})
		def(t, "count(self, x)", func(in *interp, a *args) value {
			n := int64(0)
			for _, v := range in.iterate(a.v[0]) {
				if in.equal(v, a.v[1]) {
					n++
				}
			}
			return n
		})
	}

	// Dictionaries.
	def("dict", "get(self, key, default=None)", func(in *interp, a *args) value {
		if v, ok := a.v[0].(*dict).get(in, a.v[1]); ok {
			return v
		}
		return a.v[2]
	})
	def("dict", "setdefault(self, key, default=None)", func(in *interp, a *args) value {
		d := a.v[0].(*dict)
		if v, ok := d.get(in, a.v[1]); ok {
			return v
		}
		d.set(in, a.v[1], a.v[2])
		return a.v[2]
	})
	def("dict", "pop(self, key, default=None)", func(in *interp, a *args) value {
		d := a.v[0].(*dict)
		v, ok := d.get(in, a.v[1])
		if !ok {
			if a.given[2] {
				return a.v[2]
			}
			panic(in.errorf("no key %s", in.describe(a.v[1])).is("KeyError"))
		}
		d.del(in, a.v[1])
		return v
	})
	def("dict", "keys(self)", func(in *interp, a *args) value {
		return &list{append([]value(nil), a.v[0].(*dict).keys...)}
	})
	def("dict", "values(self)", func(in *interp, a *args) value {
		return &list{append([]value(nil), a.v[0].(*dict).vals...)}
	})
	def("dict", "items(self)", func(in *interp, a *args) value {
		d := a.v[0].(*dict)
		out := &list{}
		in.cells(3 * len(d.keys))
		for i := range d.keys {
			out.elts = append(out.elts, &tuple{[]value{d.keys[i], d.vals[i]}})
		}
		return out
	})
	def("dict", "update(self, other=None, **kwargs)", func(in *interp, a *args) value {
		d := a.v[0].(*dict)
		if m, ok := a.v[1].(*dict); ok {
			d.update(in, m)
		} else if !isNone(a.v[1]) {
			in.each(a.v[1], func(v value) bool {
				p := in.iterate(v)
				if len(p) != 2 {
					panic(in.errorf("update needs pairs").is("ValueError"))
				}
				d.set(in, p[0], p[1])
				return true
			})
		}
		for _, k := range a.kwVar {
			d.set(in, k.name, k.v)
		}
		return none
	})
	def("dict", "copy(self)", func(in *interp, a *args) value { return in.inPlace(syntax.BitOr, newDict(), a.v[0]) })
	def("dict", "clear(self)", func(in *interp, a *args) value { *a.v[0].(*dict) = *newDict(); return none })

	// Sets.
	def("set", "add(self, x)", func(in *interp, a *args) value { a.v[0].(*set).d.set(in, a.v[1], none); return none })
	def("set", "discard(self, x)", func(in *interp, a *args) value { a.v[0].(*set).d.del(in, a.v[1]); return none })
	def("set", "remove(self, x)", func(in *interp, a *args) value {
		if !a.v[0].(*set).d.del(in, a.v[1]) {
			panic(in.errorf("no element %s", in.describe(a.v[1])).is("KeyError"))
		}
		return none
	})
	toSet := func(in *interp, v value) *set {
		if s, ok := v.(*set); ok {
			return s
		}
		s := &set{*newDict()}
		in.each(v, func(x value) bool { s.d.set(in, x, none); return true })
		return s
	}
	for name, op := range map[string]syntax.Op{"union": syntax.BitOr, "intersection": syntax.BitAnd, "difference": syntax.Sub, "symmetric_difference": syntax.BitXor} {
		def("set", name+"(self, other)", func(in *interp, a *args) value {
			return in.setOp(op, a.v[0].(*set), toSet(in, a.v[1]))
		})
	}
	def("set", "update(self, other)", func(in *interp, a *args) value {
		in.each(a.v[1], func(x value) bool { a.v[0].(*set).d.set(in, x, none); return true })
		return none
	})
	def("set", "issubset(self, other)", func(in *interp, a *args) value {
		o := toSet(in, a.v[1])
		for _, k := range a.v[0].(*set).d.keys {
			if _, ok := o.d.get(in, k); !ok {
				return false
			}
		}
		return true
	})

	// Numbers.
	def("int", "bit_length(self)", func(in *interp, a *args) value {
		i, _, b, _ := number(a.v[0])
		return int64(toBig(i, b).BitLen())
	})
	def("int", "bit_count(self)", func(in *interp, a *args) value {
		i, _, b, _ := number(a.v[0])
		n := 0
		for _, w := range toBig(i, b).Bits() {
			n += bits.OnesCount(uint(w))
		}
		return int64(n)
	})
	def("float", "is_integer(self)", func(in *interp, a *args) value {
		f := a.v[0].(float64)
		return f == float64(int64(f))
	})
}

// strFormat is "{} {name:spec}".format(...).
func (in *interp) strFormat(s string, a *args) value {
	var sb strings.Builder
	auto := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c == '{' || c == '}') && i+1 < len(s) && s[i+1] == c {
			sb.WriteByte(c)
			i++
			continue
		}
		if c != '{' {
			sb.WriteByte(c)
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			panic(in.errorf("a { without }").is("ValueError"))
		}
		field := s[i+1 : i+end]
		i += end
		name, spec, _ := strings.Cut(field, ":")
		name, conv, _ := strings.Cut(name, "!")
		var v value
		switch n, isNum := parseIndex(name); {
		case name == "":
			n = auto
			auto++
			fallthrough
		case isNum:
			if n >= len(a.rest) {
				panic(in.errorf("the format has more fields than arguments").is("IndexError"))
			}
			v = a.rest[n]
		default:
			base, attr, dotted := strings.Cut(name, ".")
			for _, k := range a.kwVar {
				if k.name == base {
					v = k.v
				}
			}
			if v == nil {
				panic(in.errorf("no argument %s", base).is("KeyError"))
			}
			if dotted {
				v = in.attr(v, attr)
			}
		}
		if conv == "r" {
			v = in.repr(v)
		}
		sb.WriteString(in.format(v, spec))
	}
	in.cells(sb.Len() / 16)
	return sb.String()
}

func parseIndex(s string) (int, bool) {
	if s == "" || len(s) > 4 {
		return 0, false
	}
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// lookupOp is an operator by its name in the text or TVM's registry.
func lookupOp(name string) *ir.Op {
	for _, p := range []string{"tl.tileop.", "tirx.", "tir.", "tl."} {
		if s, ok := strings.CutPrefix(name, p); ok {
			name = s
			break
		}
	}
	return ir.LookupOp(name)
}
