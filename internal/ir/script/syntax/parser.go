package syntax

import (
	"strings"
	"unicode/utf8"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
)

// Limits of what is read. They keep memory and stack bounded for any input.
const (
	// MaxSource is the largest text, in bytes.
	MaxSource = 64 << 20
	// MaxNesting bounds brackets and prefix operators within each other.
	MaxNesting = 200
	// MaxHeight bounds the height of an expression tree, which a long chain
	// of operators makes high without nesting.
	MaxHeight = 5000
	// MaxElifs bounds the branches of one if.
	MaxElifs = 500
)

// Parse reads a text. Mistakes go to diags; what could be read is returned
// all the same, nil only for texts that are not read at all (too large, not
// UTF-8, NUL bytes).
func Parse(src *ir.Source, diags *diag.List) *File {
	if !checkText(src, diags) {
		return nil
	}
	p := &parser{lexer: newLexer(src, diags)}
	p.advance()
	f := &File{Source: src}
	for p.tok.kind != tEOF && !diags.Full() {
		p.statement(&f.Body)
	}
	f.Comments = p.comments
	return f
}

// ParseExpr reads a text that is one expression.
func ParseExpr(src *ir.Source, diags *diag.List) Expr {
	if !checkText(src, diags) {
		return nil
	}
	p := &parser{lexer: newLexer(src, diags)}
	p.advance()
	e := p.exprList()
	if p.tok.kind == tNewline {
		p.advance()
	}
	if p.tok.kind != tEOF {
		p.unexpected("end of expression")
	}
	return e
}

func checkText(src *ir.Source, diags *diag.List) bool {
	text := src.Text
	at := func(i int) ir.Span { return ir.Span{Src: src, Pos: int32(i), End: int32(i + 1)} }
	if len(text) > MaxSource {
		// Point into the beginning alone: finding all lines would take long.
		const beginning = 1 << 10
		diags.Errorf(ir.Span{Src: ir.NewSource(src.Name, text[:beginning])}, "the text has %d bytes; at most %d are read", len(text), MaxSource)
		return false
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		diags.Errorf(at(i), "the text holds a NUL byte: expected source text")
		return false
	}
	if !utf8.ValidString(text) {
		i := 0
		for i < len(text) {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			i += n
		}
		d := diags.Errorf(at(i), "byte 0x%02X is not valid UTF-8", text[i])
		d.Hint = "save the file as UTF-8"
		return false
	}
	return true
}

type parser struct {
	lexer
	tok       token
	prevEnd   int32 // end of the token before tok
	nesting   int
	height    int  // height of the expression last returned
	failed    bool // within a statement: a mistake was reported, say no more
	skipped   bool // the line before could not be read
	inPattern bool // reading a pattern: `if` ends it, `as` names a part
	inFor     int  // reading the target of a for: `in` ends an expression

	exprs []Expr // stack for lists under construction
	mem   arena
}

func (p *parser) advance() {
	p.prevEnd = p.tok.end
	p.tok = p.next()
	if p.tok.kind == tBad {
		p.failed = true
	}
}

// loc is the range from a position to the end of the last token read.
func (p *parser) loc(pos int32) Loc { return Loc{pos, max(pos, p.prevEnd)} }

func (p *parser) got(k tokenKind) bool {
	if p.tok.kind == k {
		p.advance()
		return true
	}
	return false
}

// expect reads a token of a kind; context completes "expected ':' ...".
func (p *parser) expect(k tokenKind, context string) bool {
	if p.tok.kind == k {
		p.advance()
		return true
	}
	what := "'" + tokenText[k] + "'"
	if k == tName || k == tNewline {
		what = "a " + tokenText[k]
	}
	if k == tNewline {
		what = "the end of the line"
	}
	p.unexpected(strings.TrimRight(what+" "+context, " "))
	return false
}

// unexpected reports that the current token is not what was expected, once
// in a statement.
func (p *parser) unexpected(expected string) {
	if p.failed {
		return
	}
	p.failed = true
	t := p.tok
	if t.kind == tBad {
		return // reported by the lexer
	}
	if t.kind == tEOF || t.kind == tNewline {
		if n := len(p.brackets); n > 0 {
			p.unclosed(p.brackets[n-1])
			return
		}
	}
	if t.kind == tNewline || t.kind == tEOF || t.kind == tDedent {
		pos := int(p.prevEnd)
		p.errorf(pos, pos, "expected %s", expected)
		return
	}
	p.errorf(int(t.pos), int(t.end), "expected %s, found %s", expected, t.describe(p.text))
}

func (p *parser) unclosed(open token) {
	p.errorf(int(open.pos), int(open.end), "'%s' is never closed", tokenText[open.kind])
}

// fail reports a mistake at a range, once in a statement.
func (p *parser) fail(l Loc, format string, args ...any) {
	if p.failed {
		return
	}
	p.failed = true
	p.errorf(int(l.Pos), int(l.End), format, args...)
}

// startsStatement reports tokens that begin a statement and cannot stand
// within brackets.
func startsStatement(k tokenKind) bool {
	switch k {
	case kwDef, kwClass, kwReturn, kwWith, kwWhile, kwImport, kwRaise, kwTry, kwDel, kwPass, kwBreak, kwContinue,
		kwGlobal, kwNonlocal, kwAssert:
		return true
	}
	return false
}

// resync skips to the end of a statement that could not be read, so that the
// next one is read afresh.
func (p *parser) resync() {
	for {
		switch k := p.tok.kind; {
		case k == tEOF:
			if n := len(p.brackets); n > 0 {
				p.brackets = p.brackets[:0]
				p.advance()
				continue
			}
			return
		case k == tNewline:
			p.advance()
			p.skipped = true
			return
		case k == tIndent || k == tDedent:
			return
		case p.tok.lineHead && len(p.brackets) > 0 && startsStatement(k):
			// A bracket was left open: read this line again as a line.
			p.brackets = p.brackets[:0]
			p.pos = strings.LastIndexByte(p.text[:p.tok.pos], '\n') + 1
			p.bol, p.last = true, tNewline
			p.advance()
			return
		}
		p.advance()
	}
}

// arena hands out nodes of the frequent kinds from chunks.
type arena struct {
	names   slab[Name]
	nums    slab[Num]
	attrs   slab[Attr]
	calls   slab[Call]
	binary  slab[Binary]
	indexes slab[Index]
	strs    slab[Str]
	list    []Expr
}

type slab[T any] struct {
	free []T
	size int
}

const maxSlab = 256

func (s *slab[T]) new() *T {
	if len(s.free) == 0 {
		s.size = min(max(2*s.size, 8), maxSlab)
		s.free = make([]T, s.size)
	}
	n := &s.free[0]
	s.free = s.free[1:]
	return n
}

// pop makes a list of the expressions on the stack from base on.
func (p *parser) pop(base int) []Expr {
	n := len(p.exprs) - base
	if n == 0 {
		return nil
	}
	const chunk = 512
	if n > chunk/4 {
		list := make([]Expr, n)
		copy(list, p.exprs[base:])
		p.exprs = p.exprs[:base]
		return list
	}
	if len(p.mem.list) < n {
		p.mem.list = make([]Expr, chunk)
	}
	list := p.mem.list[:n:n]
	p.mem.list = p.mem.list[n:]
	copy(list, p.exprs[base:])
	p.exprs = p.exprs[:base]
	return list
}
