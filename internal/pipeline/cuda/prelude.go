package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"lowertrace/internal/ir"
)

// helper is a piece of the prelude.
type helper struct {
	needs []string
	text  string
}

// prelude collects the helpers a module uses, each after those it needs.
type prelude struct {
	fastMath bool // approximations do, as the compiler will make them
	seen     map[string]bool
	types    []string // macros and types, which come first
	text     []string // functions
}

// use makes sure that a helper of the table is defined and returns its name.
func (p *prelude) use(name string) string {
	h, ok := helperTable[name]
	if !ok {
		panic("cuda: no helper " + name)
	}
	return p.add(name, h.needs, func() string { return h.text })
}

// add defines a generated helper once per key and returns the key.
func (p *prelude) add(key string, needs []string, text func() string) string {
	if p.seen[key] {
		return key
	}
	p.seen[key] = true
	for _, n := range needs {
		p.use(n)
	}
	if t := text(); t != "" {
		t = strings.TrimSuffix(t, "\n")
		if strings.HasPrefix(t, "struct ") || strings.HasPrefix(t, "#") {
			p.types = append(p.types, t)
		} else {
			p.text = append(p.text, t)
		}
	}
	return key
}

// device begins a function of the prelude.
const device = "__device__ __forceinline__ "

// typ defines a type, if the prelude must, and returns its CUDA name.
func (p *prelude) typ(t ctype) string {
	switch {
	case t.kind == scalarType && isNarrow(t.dtype):
		return p.use(t.name)
	case t.kind == pairType:
		p.typ(mustType(t.dtype.Scalar()))
		if t.lanes() == 2 {
			return p.use(t.name)
		}
		pair := p.typ(mustType(t.dtype.WithLanes(2)))
		return p.add(t.name, nil, func() string {
			return fmt.Sprintf("struct __align__(%d) %s { %s v[%d]; };", vecAlign(t.dtype.Bytes()), t.name, pair, t.lanes()/2)
		})
	case t.kind == arrayType:
		elem := p.typ(mustType(t.dtype.Scalar()))
		return p.add(t.name, nil, func() string {
			return fmt.Sprintf("struct __align__(%d) %s { %s v[%d]; };", vecAlign(t.dtype.Bytes()), t.name, elem, t.lanes())
		})
	}
	return t.name
}

// access prepares the lanes of a vector type for use by ctype.lane and build.
func (p *prelude) access(t ctype) {
	p.typ(t)
	if t.kind == pairType {
		p.use("lanes_" + mustType(t.dtype.WithLanes(2)).word())
	}
}

// mustType is ctypeOf for types known to have one.
func mustType(t ir.DType) ctype {
	c, ok := ctypeOf(t)
	if !ok {
		panic("cuda: no type for " + t.String())
	}
	return c
}

// maxUnrolledLanes bounds the vectors whose helpers name every lane; longer
// ones loop.
const maxUnrolledLanes = 16

// splat defines the function that repeats a scalar in every lane.
func (p *prelude) splat(t ctype) string {
	name := "splat" + strconv.Itoa(t.lanes())
	s := mustType(t.dtype.Scalar())
	p.access(t)
	p.add(name+"("+s.name+")", nil, func() string {
		return fmt.Sprintf("%s%s %s(%s s) { return %s; }", device, t.name, name, s.name, t.build(repeat("s", t.lanes())))
	})
	return name
}

func repeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// infix are the operators that vectors overload.
var infix = map[string]bool{"+": true, "-": true, "*": true, "/": true, "%": true, "&": true, "|": true, "^": true,
	"<<": true, ">>": true, "<": true, "<=": true, ">": true, ">=": true, "==": true, "!=": true, "&&": true, "||": true}

// scalarOp defines an operator or a function of two scalars, where CUDA does
// not. Arithmetic of 16-bit floats rounds once, as the instructions do.
func (p *prelude) scalarOp(op string, t ir.DType) {
	if !isNarrow(t) {
		return
	}
	c := mustType(t.Scalar())
	p.typ(c)
	key := op + "(" + c.name + ")"
	p.add(key, nil, func() string {
		name := op
		if infix[op] {
			name = "operator" + op
		}
		switch op {
		case "+", "-", "*", "min", "max":
			if is16(t) {
				return fmt.Sprintf("%s%s %s(%s a, %s b) {\n  %s r;\n  %s\n  return r;\n}", device, c.name, name, c.name, c.name,
					c.name, asm16(op, t, 1))
			}
		}
		up := p.conv(t.Scalar(), ir.DFloat32)
		if isComparison(op) {
			return fmt.Sprintf("%sbool %s(%s a, %s b) { return %s(a) %s %s(b); }", device, name, c.name, c.name, up, op, up)
		}
		down := p.conv(ir.DFloat32, t.Scalar())
		if infix[op] {
			return fmt.Sprintf("%s%s %s(%s a, %s b) { return %s(%s(a) %s %s(b)); }", device, c.name, name, c.name, c.name, down, up, op, up)
		}
		return fmt.Sprintf("%s%s %s(%s a, %s b) { return %s(%s(%s(a), %s(b))); }", device, c.name, name, c.name, c.name, down, op, up, up)
	})
}

func isComparison(op string) bool {
	switch op {
	case "<", "<=", ">", ">=", "==", "!=":
		return true
	}
	return false
}

// asm16 is the instruction for an operator on one or two 16-bit floats a and
// b, into r. bfloat16 has no add, sub and mul before sm_90: they are written
// as fused multiply-adds with 1, -1 and -0, which round the same.
func asm16(op string, t ir.DType, lanes int) string {
	x2, con := "", "h"
	if lanes == 2 {
		x2, con = "x2", "r"
	}
	k := func(v uint32) string {
		if lanes == 2 {
			return fmt.Sprintf("\"%s\"(0x%08xu)", con, v<<16|v)
		}
		return fmt.Sprintf("\"%s\"((unsigned short)0x%04x)", con, v)
	}
	a, b := fmt.Sprintf("%q(a.bits)", con), fmt.Sprintf("%q(b.bits)", con)
	out := fmt.Sprintf("\"=%s\"(r.bits)", con)
	names := map[string]string{"+": "add", "-": "sub", "*": "mul", "min": "min", "max": "max"}
	if isHalf(t.Scalar()) || op == "min" || op == "max" {
		f := "f16"
		if !isHalf(t.Scalar()) {
			f = "bf16"
		}
		return fmt.Sprintf("asm(\"%s.%s%s %%0, %%1, %%2;\" : %s : %s, %s);", names[op], f, x2, out, a, b)
	}
	fma := func(x, y, z string) string {
		return fmt.Sprintf("asm(\"fma.rn.bf16%s %%0, %%1, %%2, %%3;\" : %s : %s, %s, %s);", x2, out, x, y, z)
	}
	switch op {
	case "+":
		return fma(a, k(0x3f80), b)
	case "-":
		return fma(b, k(0xbf80), a)
	}
	return fma(a, b, k(0x8000))
}

// vectorOp defines an operator or function of two vectors, or of a vector and
// a scalar that stands for all lanes (left or right: which side is scalar).
func (p *prelude) vectorOp(op string, t ctype, scalarLeft, scalarRight bool) {
	p.access(t)
	s := mustType(t.dtype.Scalar())
	ta, tb := t.name, t.name
	if scalarLeft {
		ta = s.name
	}
	if scalarRight {
		tb = s.name
	}
	name := op
	if infix[op] {
		name = "operator" + op
	}
	key := op + "(" + ta + ", " + tb + ")"
	p.add(key, nil, func() string {
		rt := t
		if isComparison(op) {
			rt = mustType(ir.DBool.WithLanes(t.lanes()))
			p.access(rt)
		}
		head := fmt.Sprintf("%s%s %s(%s a, %s b)", device, rt.name, name, ta, tb)
		if p.divides(op, t, scalarRight) {
			return p.division(head, t)
		}
		if t.kind == pairType && (op == "+" || op == "-" || op == "*" || op == "min" || op == "max") {
			if t.lanes() == 2 && !scalarLeft && !scalarRight {
				return head + fmt.Sprintf(" {\n  %s r;\n  %s\n  return r;\n}", t.name, asm16(op, t.dtype, 2))
			}
			pair := mustType(t.dtype.WithLanes(2))
			if t.lanes() == 2 {
				p.vectorOp(op, t, false, false)
				a, b := "a", "b"
				if scalarLeft {
					a = p.splat(t) + "(a)"
				} else {
					b = p.splat(t) + "(b)"
				}
				return head + " { return " + apply(op, a, b) + "; }"
			}
			p.vectorOp(op, pair, scalarLeft, scalarRight)
			a, b := "a.v[i]", "b.v[i]"
			if scalarLeft {
				a = "a"
			}
			if scalarRight {
				b = "b"
			}
			return fmt.Sprintf("%s {\n  %s r;\n  for (int i = 0; i < %d; ++i) r.v[i] = %s;\n  return r;\n}", head, t.name, t.lanes()/2, apply(op, a, b))
		}
		p.scalarOp(op, t.dtype.Scalar())
		lanes := make([]string, t.lanes())
		for i := range lanes {
			a, b := "a", "b"
			if !scalarLeft {
				a = t.lane("a", i)
			}
			if !scalarRight {
				b = t.lane("b", i)
			}
			lanes[i] = rt.narrow(apply(op, a, b))
		}
		return p.lanewise(head, rt, t.lanes(), func(i string) string {
			a, b := "a", "b"
			if !scalarLeft {
				a = "a.v[" + i + "]"
			}
			if !scalarRight {
				b = "b.v[" + i + "]"
			}
			return apply(op, a, b)
		}, lanes)
	})
}

// narrow casts a lane to the element type where an initialiser would refuse
// the int that C++ promotes to.
func (t ctype) narrow(lane string) string {
	if e := t.dtype.Scalar(); t.kind == arrayType && e.IsInteger() && e.Bits < 32 {
		return "(" + intNames[e] + ")(" + lane + ")"
	}
	return lane
}

// lanewise is a function body that builds a vector from lane expressions, or
// loops over an array when there are many.
func (p *prelude) lanewise(head string, t ctype, n int, at func(i string) string, lanes []string) string {
	if t.kind == arrayType && n > maxUnrolledLanes {
		return fmt.Sprintf("%s {\n  %s r;\n  for (int i = 0; i < %d; ++i) r.v[i] = %s;\n  return r;\n}", head, t.name, n, at("i"))
	}
	return head + " { return " + t.build(lanes) + "; }"
}

func apply(op, a, b string) string {
	if infix[op] {
		return a + " " + op + " " + b
	}
	return op + "(" + a + ", " + b + ")"
}

// vectorMap defines a function of one or more scalars for vectors, lane by
// lane; ret is the result, args the types of the arguments.
func (p *prelude) vectorMap(fn string, ret ctype, args []ctype) string {
	p.access(ret)
	key := fn
	params := make([]string, len(args))
	for i, a := range args {
		p.access(a)
		key += "," + a.name
		params[i] = a.name + " " + string(rune('a'+i))
	}
	p.add(key, nil, func() string {
		lanes := make([]string, ret.lanes())
		for i := range lanes {
			xs := make([]string, len(args))
			for j, a := range args {
				xs[j] = string(rune('a' + j))
				if a.lanes() > 1 {
					xs[j] = a.lane(xs[j], i)
				}
			}
			lanes[i] = ret.narrow(fn + "(" + strings.Join(xs, ", ") + ")")
		}
		head := fmt.Sprintf("%s%s %s(%s)", device, ret.name, fn, strings.Join(params, ", "))
		return head + " { return " + ret.build(lanes) + "; }"
	})
	return fn
}

// conv defines the conversion of a scalar or vector type to another and
// returns the function that does it, or "" when a C++ cast does.
func (p *prelude) conv(from, to ir.DType) string {
	if from.Lanes == 1 {
		return p.scalarConv(from, to)
	}
	f, t := mustType(from), mustType(to)
	p.access(f)
	p.access(t)
	name := "to_" + t.word()
	p.add(name+"("+f.name+")", nil, func() string {
		n := t.lanes()
		lanes := make([]string, n)
		head := fmt.Sprintf("%s%s %s(%s a)", device, t.name, name, f.name)
		// Formats that PTX converts two at a time.
		if n%2 == 0 && from.Scalar() == ir.DFloat32 && (is16(to) || fp8Pair(to)) {
			p.use("pair_to_" + mustType(to.Scalar()).word())
			two := "to_" + mustType(to.WithLanes(2)).word()
			pairs := make([]string, n/2)
			for i := range pairs {
				pairs[i] = fmt.Sprintf("%s(%s, %s)", two, f.lane("a", 2*i), f.lane("a", 2*i+1))
			}
			if is16(to) {
				if n == 2 {
					return head + " { return " + pairs[0] + "; }"
				}
				return head + " { return " + t.name + "{{" + strings.Join(pairs, ", ") + "}}; }"
			}
			body := " {\n  " + t.name + " r;\n"
			for i, x := range pairs {
				body += fmt.Sprintf("  ((unsigned short*)r.v)[%d] = %s;\n", i, x)
			}
			return head + body + "  return r;\n}"
		}
		for i := range lanes {
			lanes[i] = p.castText(from.Scalar(), to.Scalar(), atom(f.lane("a", i))).s
		}
		return head + " { return " + t.build(lanes) + "; }"
	})
	return name
}

func fp8Pair(t ir.DType) bool {
	return t.Code == ir.Float8E4M3FN || t.Code == ir.Float8E4M3 || t.Code == ir.Float8E5M2
}

// castText converts a scalar expression.
func (p *prelude) castText(from, to ir.DType, x text) text {
	if from == to {
		return x
	}
	if to.IsBool() && !isNarrow(from) {
		return infixText("!=", x, atom("0"))
	}
	if fn := p.scalarConv(from, to); fn != "" {
		if !isNarrow(from) && from != ir.DFloat32 && !(isHalf(to) && from == ir.DFloat64) {
			x = text{"(float)" + x.in(precUnary), precUnary}
		}
		return atom(fn + "(" + x.s + ")")
	}
	if isNarrow(from) {
		return p.castText(ir.DFloat32, to, atom(p.scalarConv(from, ir.DFloat32)+"("+x.s+")"))
	}
	return text{"(" + mustType(to).name + ")" + x.in(precUnary), precUnary}
}

// scalarConv is the function that converts between a narrow float and float,
// "" for conversions that C++ casts do or that need two steps.
func (p *prelude) scalarConv(from, to ir.DType) string {
	switch {
	case isNarrow(from) && to == ir.DFloat32:
		p.use("float_of_" + mustType(from).word())
		return "to_float"
	case isNarrow(to) && !isNarrow(from):
		if isHalf(to) && from == ir.DFloat64 {
			p.use("half_of_double")
		} else {
			p.use(mustType(to).word() + "_of_float")
		}
		return "to_" + mustType(to).word()
	}
	return ""
}
