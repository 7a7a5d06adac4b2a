package arith

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"lowertrace/internal/ir"
)

// The tests write expressions as the IR's text does, in a small subset that is
// read and printed here so that this package is tested alone.

// exprReader reads expressions over a set of variables.
type exprReader struct {
	src  string
	pos  int
	vars map[string]*ir.Var
}

func (p *exprReader) space() {
	for p.pos < len(p.src) && p.src[p.pos] == ' ' {
		p.pos++
	}
}

func (p *exprReader) eat(tok string) bool {
	p.space()
	if !strings.HasPrefix(p.src[p.pos:], tok) {
		return false
	}
	if unicode.IsLetter(rune(tok[0])) {
		if end := p.pos + len(tok); end < len(p.src) && (unicode.IsLetter(rune(p.src[end])) || p.src[end] == '_') {
			return false
		}
	}
	p.pos += len(tok)
	return true
}

func (p *exprReader) fail(format string, args ...any) {
	panic(fmt.Sprintf("%q at %d: %s", p.src, p.pos, fmt.Sprintf(format, args...)))
}

var readLevels = [][]struct {
	tok string
	op  ir.BinOp
}{
	{{"or", ir.Or}},
	{{"and", ir.And}},
	{{"<=", ir.LE}, {">=", ir.GE}, {"==", ir.EQ}, {"!=", ir.NE}, {"<", ir.LT}, {">", ir.GT}},
	{{"+", ir.Add}, {"-", ir.Sub}},
	{{"//", ir.FloorDiv}, {"*", ir.Mul}, {"%", ir.FloorMod}, {"/", ir.Div}},
}

func (p *exprReader) level(n int) ir.Expr {
	if n == len(readLevels) {
		return p.primary()
	}
	if n == 2 && p.eat("not") {
		return &ir.Not{A: p.level(2)}
	}
	e := p.level(n + 1)
next:
	for {
		for _, o := range readLevels[n] {
			if p.eat(o.tok) {
				a, b, err := ir.MatchTypes(e, p.level(n+1))
				if err != nil {
					p.fail("%v", err)
				}
				e = &ir.Binary{Op: o.op, A: a, B: b}
				continue next
			}
		}
		return e
	}
}

func (p *exprReader) args() []ir.Expr {
	var out []ir.Expr
	for !p.eat(")") {
		out = append(out, p.level(0))
		p.eat(",")
	}
	return out
}

func (p *exprReader) primary() ir.Expr {
	p.space()
	start := p.pos
	if p.eat("(") {
		e := p.level(0)
		if !p.eat(")") {
			p.fail("expected )")
		}
		return e
	}
	p.eat("-")
	for p.pos < len(p.src) && (unicode.IsLetter(rune(p.src[p.pos])) || unicode.IsDigit(rune(p.src[p.pos])) || p.src[p.pos] == '_' || p.src[p.pos] == '.') {
		p.pos++
	}
	word := p.src[start:p.pos]
	if v, err := strconv.ParseInt(word, 10, 64); err == nil {
		return ir.I32(v)
	}
	if v, err := strconv.ParseFloat(word, 64); err == nil {
		return ir.FloatConst(ir.DFloat32, v)
	}
	if !p.eat("(") {
		v := p.vars[word]
		if v == nil {
			p.fail("unknown name %q", word)
		}
		return v
	}
	name := strings.TrimPrefix(word, "T.")
	if t, err := ir.ParseDType(name); err == nil {
		return ir.CastTo(p.args()[0], t)
	}
	a := p.args()
	bin := func(op ir.BinOp) ir.Expr {
		x, y, err := ir.MatchTypes(a[0], a[1])
		if err != nil {
			p.fail("%v", err)
		}
		return &ir.Binary{Op: op, A: x, B: y}
	}
	switch name {
	case "min":
		return bin(ir.Min)
	case "max":
		return bin(ir.Max)
	case "truncmod":
		return bin(ir.TruncMod)
	case "Div":
		return bin(ir.Div)
	case "Select":
		return &ir.Select{Cond: a[0], True: a[1], False: a[2]}
	case "Ramp":
		n, _ := ir.AsInt(a[2])
		return &ir.Ramp{Base: a[0], Stride: a[1], Lanes: int(n)}
	case "Broadcast":
		n, _ := ir.AsInt(a[1])
		return &ir.Broadcast{Value: a[0], Lanes: int(n)}
	}
	op := ir.LookupOp(name)
	if op == nil {
		p.fail("unknown function %q", name)
	}
	return ir.NewCall(op, a...)
}

// show prints an expression with the parentheses it needs.
func show(e ir.Expr) string { return showAt(e, 0) }

func showAt(e ir.Expr, min int) string {
	switch e := e.(type) {
	case *ir.Var:
		return e.Name
	case *ir.IntImm:
		s := strconv.FormatInt(e.Value, 10)
		if e.Type != ir.DInt32 {
			s = fmt.Sprintf("T.%s(%s)", e.Type, s)
		}
		return s
	case *ir.FloatImm:
		return strconv.FormatFloat(e.Value, 'g', -1, 64)
	case *ir.Not:
		return "not " + showAt(e.A, 2)
	case *ir.Cast:
		return fmt.Sprintf("T.%s(%s)", e.Type, show(e.Value))
	case *ir.Select:
		return fmt.Sprintf("T.Select(%s, %s, %s)", show(e.Cond), show(e.True), show(e.False))
	case *ir.Ramp:
		return fmt.Sprintf("T.Ramp(%s, %s, %d)", show(e.Base), show(e.Stride), e.Lanes)
	case *ir.Broadcast:
		return fmt.Sprintf("T.Broadcast(%s, %d)", show(e.Value), e.Lanes)
	case *ir.Call:
		parts := make([]string, len(e.Args))
		for i, a := range e.Args {
			parts[i] = show(a)
		}
		return fmt.Sprintf("T.%s(%s)", e.Op.Name, strings.Join(parts, ", "))
	case *ir.Binary:
		for n, lvl := range readLevels {
			for _, o := range lvl {
				if o.op == e.Op {
					s := showAt(e.A, n) + " " + o.tok + " " + showAt(e.B, n+1)
					if n < min {
						s = "(" + s + ")"
					}
					return s
				}
			}
		}
		name := map[ir.BinOp]string{ir.Min: "min", ir.Max: "max", ir.TruncMod: "truncmod"}[e.Op]
		return fmt.Sprintf("T.%s(%s, %s)", name, show(e.A), show(e.B))
	}
	return fmt.Sprintf("<%T>", e)
}

// testVars are the variables of the text tests, with their ranges; the text
// "?" is an unbounded int32.
const testVarText = `i:0:4 j:0:16 k:0:8 ko:0:64 vec:0:4 v8:0:8 tx:0:128 tid:0:256 bx:0:8 by:0:8 p:0:1 x:? y:? z:? n:? m:? nn:1:1000000 b:bool c:bool u:uint32 w:uint32 L:int64 f:float32 g:float32`

func testEnv() (*Analyzer, map[string]*ir.Var) {
	a := New()
	vars := map[string]*ir.Var{}
	for _, w := range strings.Fields(testVarText) {
		parts := strings.Split(w, ":")
		v := &ir.Var{Name: parts[0], Type: ir.DInt32}
		vars[parts[0]] = v
		switch {
		case len(parts) == 3:
			lo, _ := strconv.ParseInt(parts[1], 10, 64)
			n, _ := strconv.ParseInt(parts[2], 10, 64)
			a.BindVar(v, ir.I32(lo), ir.I32(n))
		case parts[1] != "?":
			t, err := ir.ParseDType(parts[1])
			if err != nil {
				panic(err)
			}
			v.Type = t
		}
	}
	return a, vars
}

func read(vars map[string]*ir.Var, src string) ir.Expr {
	p := &exprReader{src: src, vars: vars}
	e := p.level(0)
	p.space()
	if p.pos != len(src) {
		p.fail("trailing text")
	}
	return e
}

// constrain puts the conditions of a list with semicolons in force.
func constrain(a *Analyzer, vars map[string]*ir.Var, given string) {
	if given == "" {
		return
	}
	for _, g := range strings.Split(given, ";") {
		a.WithConstraint(read(vars, g))
	}
}

type textCase struct{ given, in, want string }

func runText(t *testing.T, cases []textCase) {
	t.Helper()
	for _, c := range cases {
		a, vars := testEnv()
		constrain(a, vars, c.given)
		in := read(vars, c.in)
		got := show(a.Simplify(in))
		if got != c.want {
			t.Errorf("%s\n given %s\n  got %s\n want %s", c.in, c.given, got, c.want)
		}
		// What is simplified stays as it is, down to the pointer.
		once := a.Simplify(in)
		if again := New2(a).Simplify(once); again != once {
			t.Errorf("%s: a second pass gives %s after %s", c.in, show(again), show(once))
		}
	}
}

// New2 is an Analyzer with the knowledge of another and no remembered results.
func New2(a *Analyzer) *Analyzer {
	b := *a
	b.q = nil
	return &b
}
