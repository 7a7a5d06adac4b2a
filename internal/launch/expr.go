package launch

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Limits on an expression; the deepest accepted one needs little stack.
const (
	MaxExprBytes = 1 << 16
	MaxExprDepth = 200
)

// Env gives the names in sizes their values.
type Env map[string]int64

// Size is an integer or an integer expression over symbols.
type Size struct {
	n    int64
	expr *expr // nil: the constant n
}

// Const returns a constant size.
func Const(n int64) Size { return Size{n: n} }

// ParseSize returns the size that the text stands for. A text that is a plain
// number gives a constant.
func ParseSize(text string) (Size, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Const(n), nil
	}
	e, err := parseExpr(text)
	if err != nil {
		return Size{}, err
	}
	return Size{expr: e}, nil
}

// Const returns the value of a constant size.
func (z Size) Const() (n int64, ok bool) { return z.n, z.expr == nil }

// Eval returns the size's value.
func (z Size) Eval(env Env) (int64, error) {
	if z.expr == nil {
		return z.n, nil
	}
	return z.expr.eval(env)
}

// String returns the number or the expression's text.
func (z Size) String() string {
	if z.expr == nil {
		return strconv.FormatInt(z.n, 10)
	}
	return z.expr.text
}

// MarshalJSON writes a number or a string.
func (z Size) MarshalJSON() ([]byte, error) {
	if z.expr == nil {
		return strconv.AppendInt(nil, z.n, 10), nil
	}
	return marshal(z.expr.text)
}

// UnmarshalJSON reads a number or a string.
func (z *Size) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		v, err := ParseSize(s)
		*z = v
		return err
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not an integer size", b)
	}
	*z = Const(n)
	return nil
}

// Value is the value of a scalar parameter: a number, a truth value, or an
// expression (a scalar argument's name among them).
type Value struct {
	num  json.Number // "" unless a number
	b    *bool
	expr *expr
}

// Number returns the value that is the number f.
func Number(f float64) Value {
	return Value{num: json.Number(strconv.FormatFloat(f, 'g', -1, 64))}
}

// Int returns the value that is the integer n.
func Int(n int64) Value { return Value{num: json.Number(strconv.FormatInt(n, 10))} }

// Bool returns the value that is the truth value b.
func Bool(b bool) Value { return Value{b: &b} }

// ValueExpr returns the value of an expression or a scalar argument's name.
func ValueExpr(text string) (Value, error) {
	e, err := parseExpr(text)
	return Value{expr: e}, err
}

// MarshalJSON writes a number, a truth value or a string.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.expr != nil:
		return marshal(v.expr.text)
	case v.b != nil:
		return strconv.AppendBool(nil, *v.b), nil
	}
	return []byte(v.num), nil
}

// UnmarshalJSON reads a number, a truth value or a string.
func (v *Value) UnmarshalJSON(b []byte) error {
	*v = Value{}
	switch {
	case len(b) > 0 && b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		e, err := parseExpr(s)
		v.expr = e
		return err
	case string(b) == "true" || string(b) == "false":
		t := string(b) == "true"
		v.b = &t
		return nil
	}
	return json.Unmarshal(b, &v.num)
}

// Bits returns the value's bits as a scalar of type dtype (the low Bits(dtype)
// bits of the result). Scalar arguments come from args, as bits of their own
// type; env holds the integers that expressions may use.
func (v Value) Bits(dtype string, args map[string]uint64, env Env) (uint64, error) {
	switch {
	case v.b != nil:
		if *v.b {
			return FloatBits(1, dtype)
		}
		return 0, nil
	case v.expr != nil:
		if bits, ok := args[v.expr.text]; ok {
			return bits, nil
		}
		n, err := v.expr.eval(env)
		if err != nil {
			return 0, err
		}
		return IntBits(n, dtype)
	}
	if IsInteger(dtype) {
		if n, err := v.num.Int64(); err == nil {
			return IntBits(n, dtype)
		}
		if u, err := strconv.ParseUint(string(v.num), 10, 64); err == nil && dtype == "uint64" {
			return u, nil
		}
		return 0, fmt.Errorf("%s is not a value of type %s", v.num, dtype)
	}
	f, err := v.num.Float64()
	if err != nil {
		return 0, err
	}
	return FloatBits(f, dtype)
}

// IntBits returns n as the bits of an integer type; it must fit.
func IntBits(n int64, dtype string) (uint64, error) {
	w := Bits(dtype)
	switch {
	case dtype == "bool" && (n == 0 || n == 1):
		return uint64(n), nil
	case !IsInteger(dtype):
		return FloatBits(float64(n), dtype)
	case dtype == "bool" || w == 0:
	case dtype[0] == 'u':
		if n >= 0 && (w == 64 || n>>w == 0) {
			return uint64(n), nil
		}
	case w == 64 || n >= -1<<(w-1) && n < 1<<(w-1):
		return uint64(n) & (1<<w - 1), nil
	}
	return 0, fmt.Errorf("%d does not fit type %s", n, dtype)
}

// FloatBits returns f rounded to the nearest value of a floating type, ties to
// even, as bits. An integer type takes f if it is a whole number.
func FloatBits(f float64, dtype string) (uint64, error) {
	switch dtype {
	case "float64":
		return math.Float64bits(f), nil
	case "float32", "tfloat32":
		return uint64(math.Float32bits(float32(f))), nil
	case "float16":
		return roundTo(f, 5, 10), nil
	case "bfloat16":
		return roundTo(f, 8, 7), nil
	}
	if IsInteger(dtype) && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return IntBits(int64(f), dtype)
	}
	return 0, fmt.Errorf("%v is not a value of type %s", f, dtype)
}

// roundTo encodes f in an IEEE-like format of the given field widths, with
// infinities and NaNs.
func roundTo(f float64, expBits, fracBits int) uint64 {
	b := math.Float64bits(f)
	sign := b >> 63 << (expBits + fracBits)
	inf := uint64(1<<expBits-1) << fracBits
	if math.IsNaN(f) {
		return sign | inf | 1<<(fracBits-1)
	}
	bias := 1<<(expBits-1) - 1
	exp := int(b>>52&0x7ff) - 1023
	if exp > bias {
		return sign | inf
	}
	// The step between neighbours at f's magnitude; all of it exact in float64.
	step := math.Ldexp(1, max(exp, 1-bias)-fracBits)
	n := uint64(math.RoundToEven(math.Abs(f) / step))
	if exp < 1-bias {
		return sign | n // subnormal, or rounded up to the smallest normal
	}
	// n counts steps from zero: 1<<fracBits .. 2<<fracBits. Adding it to the
	// exponent field below its own lets a carry go up by itself.
	v := uint64(exp+bias-1)<<fracBits + n
	return sign | min(v, inf)
}

// expr is a parsed expression in postfix order.
type expr struct {
	text string
	code []instr
}

type instr struct {
	op   string // "n": push n; "v": push the variable name; else an operator
	n    int64
	name string
}

func (e *expr) names() []string {
	var out []string
	for _, c := range e.code {
		if c.op == "v" && !slices.Contains(out, c.name) {
			out = append(out, c.name)
		}
	}
	return out
}

func (e *expr) eval(env Env) (int64, error) {
	var st []int64
	for _, c := range e.code {
		switch c.op {
		case "n":
			st = append(st, c.n)
			continue
		case "v":
			v, ok := env[c.name]
			if !ok {
				return 0, fmt.Errorf("size %q: %s has no value", e.text, c.name)
			}
			st = append(st, v)
			continue
		case "neg":
			top := &st[len(st)-1]
			if *top == math.MinInt64 {
				return 0, fmt.Errorf("size %q overflows", e.text)
			}
			*top = -*top
			continue
		}
		a, b := st[len(st)-2], st[len(st)-1]
		st = st[:len(st)-1]
		v, ok := int64(0), true
		switch c.op {
		case "+":
			v = a + b
			ok = (v > a) == (b > 0)
		case "-":
			v = a - b
			ok = (v < a) == (b > 0)
		case "*":
			v, ok = mul(a, b)
		case "//", "%":
			if b == 0 {
				return 0, fmt.Errorf("size %q divides by zero", e.text)
			}
			if ok = a != math.MinInt64 || b != -1; ok {
				q, r := a/b, a%b
				if r != 0 && (r < 0) != (b < 0) {
					q, r = q-1, r+b
				}
				if v = q; c.op == "%" {
					v = r
				}
			}
		case "min":
			v = min(a, b)
		case "max":
			v = max(a, b)
		case "<":
			v = truth(a < b)
		case "<=":
			v = truth(a <= b)
		case ">":
			v = truth(a > b)
		case ">=":
			v = truth(a >= b)
		case "==":
			v = truth(a == b)
		case "!=":
			v = truth(a != b)
		}
		if !ok {
			return 0, fmt.Errorf("size %q overflows", e.text)
		}
		st[len(st)-1] = v
	}
	return st[0], nil
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// mul multiplies without overflow.
func mul(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(abs(a), abs(b))
	neg := (a < 0) != (b < 0)
	if hi != 0 || lo > 1<<63 || lo == 1<<63 && !neg {
		return 0, false
	}
	if neg {
		return -int64(lo), true
	}
	return int64(lo), true
}

func abs(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

type exprParser struct {
	e     *expr
	i     int
	depth int
	err   error
}

func parseExpr(text string) (*expr, error) {
	if len(text) > MaxExprBytes {
		return nil, fmt.Errorf("size of %d bytes, at most %d are supported", len(text), MaxExprBytes)
	}
	p := &exprParser{e: &expr{text: text}}
	p.compare()
	if p.skip(); p.err == nil && p.i < len(text) {
		p.fail("unexpected %q", text[p.i])
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.e, nil
}

func (p *exprParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("size %q, column %d: %s", p.e.text, p.i+1, fmt.Sprintf(format, args...))
	}
}

func (p *exprParser) skip() {
	for p.i < len(p.e.text) && (p.e.text[p.i] == ' ' || p.e.text[p.i] == '\t') {
		p.i++
	}
}

// accept takes the first of the tokens that comes next; longer ones must stand
// before their prefixes.
func (p *exprParser) accept(tokens ...string) string {
	p.skip()
	for _, t := range tokens {
		if len(p.e.text)-p.i >= len(t) && p.e.text[p.i:p.i+len(t)] == t {
			p.i += len(t)
			return t
		}
	}
	return ""
}

func (p *exprParser) emit(op string) { p.e.code = append(p.e.code, instr{op: op}) }

func (p *exprParser) compare() {
	if p.depth++; p.depth > MaxExprDepth {
		p.fail("nested deeper than %d", MaxExprDepth)
		return
	}
	p.sum()
	if op := p.accept("<=", ">=", "==", "!=", "<", ">"); op != "" && p.err == nil {
		p.sum()
		p.emit(op)
	}
	p.depth--
}

func (p *exprParser) sum() {
	p.product()
	for p.err == nil {
		op := p.accept("+", "-")
		if op == "" {
			return
		}
		p.product()
		p.emit(op)
	}
}

func (p *exprParser) product() {
	p.unary()
	for p.err == nil {
		op := p.accept("*", "//", "%")
		if op == "" {
			return
		}
		p.unary()
		p.emit(op)
	}
}

func (p *exprParser) unary() {
	signs := 0
	for p.accept("-") != "" {
		signs++
	}
	p.atom()
	if signs%2 == 1 {
		p.emit("neg")
	}
}

func (p *exprParser) atom() {
	if p.accept("(") != "" {
		p.compare()
		p.close()
		return
	}
	p.skip()
	start := p.i
	for p.i < len(p.e.text) && isWord(p.e.text[p.i]) {
		p.i++
	}
	w := p.e.text[start:p.i]
	switch {
	case w == "":
		p.fail("want a number, a name or a parenthesis")
	case w[0] >= '0' && w[0] <= '9':
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			p.fail("%s is no 64-bit integer", w)
		}
		p.e.code = append(p.e.code, instr{op: "n", n: n})
	case w == "min" || w == "max":
		if p.accept("(") == "" {
			p.fail("want ( after %s", w)
			return
		}
		p.compare()
		if p.accept(",") == "" {
			p.fail("want a comma: %s takes two values", w)
		}
		if p.err == nil {
			p.compare()
		}
		p.close()
		p.emit(w)
	default:
		p.e.code = append(p.e.code, instr{op: "v", name: w})
	}
}

func (p *exprParser) close() {
	if p.err == nil && p.accept(")") == "" {
		p.fail("want )")
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
