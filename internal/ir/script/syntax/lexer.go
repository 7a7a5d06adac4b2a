package syntax

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
)

// maxIndentLevels bounds nested blocks, as Python does.
const maxIndentLevels = 100

// tabWidth is the column width of a tab in indentation (Python's rule).
const tabWidth = 8

type indent struct{ col, altCol int32 } // with tabs of 8 and of 1

type lexer struct {
	src      *ir.Source
	text     string
	pos      int
	limit    int // end of the text to read, len(text) except within a formatted string
	brackets []token
	indents  []indent
	pending  int  // dedents to deliver
	bol      bool // at the beginning of a line
	last     tokenKind
	lineHead bool
	comments []Comment
	diags    *diag.List
	// keepComments is off within formatted strings.
	keepComments bool
	// field: reading a replacement field of a formatted string, which a '!'
	// or ':' outside inner brackets ends.
	field bool
}

func newLexer(src *ir.Source, diags *diag.List) lexer {
	l := lexer{src: src, text: src.Text, limit: len(src.Text), bol: true, diags: diags, keepComments: true}
	l.indents = append(make([]indent, 0, 16), indent{})
	if strings.HasPrefix(l.text, "\ufeff") {
		l.pos = len("\ufeff")
	}
	return l
}

func (l *lexer) errorf(pos, end int, format string, args ...any) *diag.Diagnostic {
	return l.diags.Errorf(ir.Span{Src: l.src, Pos: int32(pos), End: int32(max(end, pos))}, format, args...)
}

// Character classes.
const (
	cLetter = 1 << iota // starts an identifier
	cDigit
)

var class = func() (t [256]uint8) {
	for c := range 256 {
		switch {
		case c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			t[c] = cLetter
		case '0' <= c && c <= '9':
			t[c] = cDigit
		}
	}
	return
}()

// next reads a token.
func (l *lexer) next() token {
	t := l.scan()
	t.lineHead = l.lineHead
	if t.kind != tNewline {
		l.lineHead = false
	}
	l.last = t.kind
	return t
}

func (l *lexer) tok(k tokenKind, n int) token {
	t := token{kind: k, pos: int32(l.pos), end: int32(l.pos + n)}
	l.pos += n
	return t
}

func (l *lexer) scan() token {
	if l.pending != 0 {
		return l.deliverIndent()
	}
	if l.bol && len(l.brackets) == 0 {
		if t, ok := l.indentation(); ok {
			return t
		}
	}
	text := l.text[:l.limit]
	for l.pos < len(text) {
		switch c := text[l.pos]; c {
		case ' ', '\t', '\f':
			l.pos++
			continue
		case '#':
			l.comment()
			continue
		case '\r':
			if l.pos+1 >= len(text) || text[l.pos+1] != '\n' {
				l.errorf(l.pos, l.pos+1, "carriage return without a line feed")
				l.pos++
				continue
			}
			l.pos++
			continue
		case '\n':
			l.lineHead = true
			if len(l.brackets) > 0 {
				l.pos++
				continue
			}
			t := l.tok(tNewline, 1)
			l.bol = true
			return t
		case '\\':
			n := 1
			if strings.HasPrefix(text[l.pos+1:], "\r") {
				n = 2
			}
			if l.pos+n < len(text) && text[l.pos+n] == '\n' {
				l.pos += n + 1
				continue
			}
			l.errorf(l.pos, l.pos+1, "unexpected '\\': a line continuation must end its line")
			l.pos++
			continue
		default:
			return l.token(text, c)
		}
	}
	// End of text: close the last line and all blocks.
	if len(l.brackets) == 0 && l.last != tNewline && l.last != tDedent && l.last != tEOF && l.keepComments {
		return l.tok(tNewline, 0)
	}
	if len(l.indents) > 1 && l.keepComments {
		l.pending = 1 - len(l.indents)
		l.indents = l.indents[:1]
		return l.deliverIndent()
	}
	return l.tok(tEOF, 0)
}

func (l *lexer) deliverIndent() token {
	if l.pending > 0 {
		l.pending--
		return l.tok(tIndent, 0)
	}
	l.pending++
	return l.tok(tDedent, 0)
}

func (l *lexer) comment() {
	rest := l.text[l.pos:l.limit]
	n := strings.IndexByte(rest, '\n')
	if n < 0 {
		n = len(rest)
	}
	if l.keepComments {
		s := strings.TrimRight(rest[:n], " \t\r")
		l.comments = append(l.comments, Comment{Loc{int32(l.pos), int32(l.pos + len(s))}, s})
	}
	l.pos += n
}

// indentation handles the beginning of a line outside brackets: blank lines
// and comments are skipped, and a change of depth yields tokens.
func (l *lexer) indentation() (token, bool) {
	text := l.text[:l.limit]
	for {
		col, alt := int32(0), int32(0)
		start := l.pos
	blanks:
		for l.pos < len(text) {
			switch text[l.pos] {
			case ' ':
				col++
				alt++
			case '\t':
				col = (col/tabWidth + 1) * tabWidth
				alt++
			case '\f':
				col, alt = 0, 0
			default:
				break blanks
			}
			l.pos++
		}
		if l.pos >= len(text) {
			l.bol = false
			return token{}, false
		}
		switch text[l.pos] {
		case '#':
			l.comment()
			if l.pos < len(text) {
				l.pos++
			}
			continue
		case '\n':
			l.pos++
			continue
		case '\r':
			if l.pos+1 < len(text) && text[l.pos+1] == '\n' {
				l.pos += 2
				continue
			}
		}
		l.bol, l.lineHead = false, true
		top := l.indents[len(l.indents)-1]
		switch {
		case col == top.col:
			if alt != top.altCol {
				l.inconsistent(start)
			}
			return token{}, false
		case col > top.col:
			if alt <= top.altCol {
				l.inconsistent(start)
			}
			if len(l.indents) >= maxIndentLevels {
				l.errorf(start, l.pos, "more than %d nested blocks", maxIndentLevels)
				l.pos = l.limit
				return l.tok(tBad, 0), true
			}
			l.indents = append(l.indents, indent{col, alt})
			l.pending = 1
			return l.deliverIndent(), true
		}
		n := 0
		var left indent
		for col < l.indents[len(l.indents)-1].col {
			left = l.indents[len(l.indents)-1]
			l.indents = l.indents[:len(l.indents)-1]
			n--
		}
		if top := l.indents[len(l.indents)-1]; col != top.col {
			// Go on as if the line belonged to the block it nearly fits.
			l.errorf(start, l.pos, "indentation of %d columns matches no enclosing block", col)
			l.indents = append(l.indents, left)
			if n++; n == 0 {
				return token{}, false
			}
		} else if alt != top.altCol {
			l.inconsistent(start)
		}
		l.pending = n
		return l.deliverIndent(), true
	}
}

func (l *lexer) inconsistent(start int) {
	d := l.errorf(start, l.pos, "tabs and spaces are mixed in indentation")
	d.Hint = "indent with spaces only"
}

func (l *lexer) token(text string, c byte) token {
	switch {
	case class[c]&cLetter != 0:
		return l.name(text)
	case class[c]&cDigit != 0:
		return l.number(text)
	case c >= utf8.RuneSelf:
		r, n := utf8.DecodeRuneInString(text[l.pos:])
		if unicode.IsLetter(r) {
			return l.name(text)
		}
		t := l.tok(tBad, n)
		l.errorf(int(t.pos), int(t.end), "unexpected character %q", r)
		return t
	}
	second := byte(0)
	if l.pos+1 < len(text) {
		second = text[l.pos+1]
	}
	switch c {
	case '"', '\'':
		return l.str(text, l.pos, false)
	case '(':
		return l.open(tLParen)
	case '[':
		return l.open(tLBracket)
	case '{':
		return l.open(tLBrace)
	case ')':
		return l.close(tRParen, tLParen)
	case ']':
		return l.close(tRBracket, tLBracket)
	case '}':
		return l.close(tRBrace, tLBrace)
	case ',':
		return l.tok(tComma, 1)
	case ';':
		return l.tok(tSemicolon, 1)
	case '~':
		return l.tok(tTilde, 1)
	case ':':
		if second == '=' && !(l.field && len(l.brackets) == 1) {
			return l.tok(tWalrus, 2)
		}
		return l.tok(tColon, 1)
	case '.':
		if class[second]&cDigit != 0 {
			return l.number(text)
		}
		if strings.HasPrefix(text[l.pos:], "...") {
			return l.tok(tEllipsis, 3)
		}
		return l.tok(tDot, 1)
	case '=':
		if second == '=' {
			return l.tok(tEQ, 2)
		}
		return l.tok(tAssign, 1)
	case '!':
		if second == '=' {
			return l.tok(tNE, 2)
		}
		if l.field && len(l.brackets) == 1 {
			return l.tok(tEOF, 0)
		}
	case '<':
		switch second {
		case '=':
			return l.tok(tLE, 2)
		case '<':
			return l.operator(text, tShl, LShift, 2)
		}
		return l.tok(tLT, 1)
	case '>':
		switch second {
		case '=':
			return l.tok(tGE, 2)
		case '>':
			return l.operator(text, tShr, RShift, 2)
		}
		return l.tok(tGT, 1)
	case '+':
		return l.operator(text, tPlus, Add, 1)
	case '-':
		if second == '>' {
			return l.tok(tArrow, 2)
		}
		return l.operator(text, tMinus, Sub, 1)
	case '*':
		if second == '*' {
			return l.operator(text, tStarStar, Pow, 2)
		}
		return l.operator(text, tStar, Mul, 1)
	case '/':
		if second == '/' {
			return l.operator(text, tSlashSlash, FloorDiv, 2)
		}
		return l.operator(text, tSlash, Div, 1)
	case '%':
		return l.operator(text, tPercent, Mod, 1)
	case '&':
		return l.operator(text, tAmp, BitAnd, 1)
	case '|':
		return l.operator(text, tPipe, BitOr, 1)
	case '^':
		return l.operator(text, tCaret, BitXor, 1)
	case '@':
		return l.operator(text, tAt, MatMul, 1)
	}
	t := l.tok(tBad, 1)
	l.errorf(int(t.pos), int(t.end), "unexpected character %q", rune(c))
	return t
}

// operator is an operator token, or an augmented assignment if = follows.
func (l *lexer) operator(text string, k tokenKind, op Op, n int) token {
	if l.pos+n < len(text) && text[l.pos+n] == '=' {
		t := l.tok(tAugAssign, n+1)
		t.op = op
		return t
	}
	return l.tok(k, n)
}

func (l *lexer) open(k tokenKind) token {
	t := l.tok(k, 1)
	l.brackets = append(l.brackets, t)
	return t
}

func (l *lexer) close(k, opener tokenKind) token {
	t := l.tok(k, 1)
	n := len(l.brackets)
	if n == 0 {
		return t // the parser reports it
	}
	if open := l.brackets[n-1]; open.kind != opener {
		d := l.errorf(int(t.pos), int(t.end), "'%s' does not close '%s'", tokenText[k], tokenText[open.kind])
		d.Notes = append(d.Notes, diag.Note{
			Span:    ir.Span{Src: l.src, Pos: open.pos, End: open.end},
			Message: "opened here",
		})
		t.kind = tBad
	}
	l.brackets = l.brackets[:n-1]
	return t
}

func (l *lexer) name(text string) token {
	i := l.pos
	ascii := true
	for i < len(text) {
		c := text[i]
		if class[c] != 0 {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			break
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			break
		}
		ascii = false
		i += n
	}
	s := text[l.pos:i]
	if i < len(text) && (text[i] == '"' || text[i] == '\'') && len(s) <= 2 && isStringPrefix(s) {
		return l.str(text, i, strings.ContainsAny(s, "fF"))
	}
	k := tName
	if ascii {
		k = keyword(s)
	}
	return l.tok(k, len(s))
}

func isStringPrefix(s string) bool {
	switch strings.ToLower(s) {
	case "r", "u", "b", "f", "br", "rb", "fr", "rf":
		return true
	}
	return false
}

// number reads an integer or float in any of Python's spellings.
func (l *lexer) number(text string) token {
	i := l.pos
	kind := tInt
	digits := func(ok func(byte) bool) {
		for i < len(text) && (ok(text[i]) || text[i] == '_') {
			i++
		}
	}
	dec := func(c byte) bool { return class[c]&cDigit != 0 }
	if text[i] == '0' && i+1 < len(text) && strings.IndexByte("xXoObB", text[i+1]) >= 0 {
		i += 2
		digits(func(c byte) bool { return class[c]&cDigit != 0 || 'a' <= c|0x20 && c|0x20 <= 'f' })
	} else {
		digits(dec)
		if i < len(text) && text[i] == '.' {
			kind = tFloat
			i++
			digits(dec)
		}
		if i < len(text) && text[i]|0x20 == 'e' {
			j := i + 1
			if j < len(text) && (text[j] == '+' || text[j] == '-') {
				j++
			}
			if j < len(text) && dec(text[j]) {
				kind = tFloat
				i = j
				digits(dec)
			}
		}
	}
	if i < len(text) && text[i]|0x20 == 'j' && (i+1 == len(text) || class[text[i+1]] == 0) {
		i++
		return l.tok(tFloat, i-l.pos) // imaginary
	}
	if i < len(text) && class[text[i]]&cLetter != 0 {
		start := l.pos
		for i < len(text) && class[text[i]] != 0 {
			i++
		}
		l.errorf(start, i, "malformed number %s", clip(text[start:i]))
	}
	return l.tok(kind, i-l.pos)
}

// str reads a string literal whose opening quote is at q; the token begins at
// l.pos, with the prefix.
func (l *lexer) str(text string, q int, format bool) token {
	quote := text[q]
	triple := strings.HasPrefix(text[q:], `"""`) || strings.HasPrefix(text[q:], `'''`)
	i := q + 1
	if triple {
		i = q + 3
	}
	for i < len(text) {
		switch c := text[i]; {
		case c == '\\':
			i += escapeLen(text, i, format)
			continue
		case c == '\n' && !triple:
			return l.unterminated(q, i)
		case c == quote && !triple:
			return l.tok(tString, i+1-l.pos)
		case c == quote && i+2 < len(text) && text[i+1] == quote && text[i+2] == quote:
			return l.tok(tString, i+3-l.pos)
		case c == '{' && format:
			if i+1 < len(text) && text[i+1] == '{' {
				i += 2
				continue
			}
			i = skipField(text, i, 0)
			continue
		}
		i++
	}
	return l.unterminated(q, len(text))
}

func (l *lexer) unterminated(q, end int) token {
	l.errorf(l.pos, q+1, "string is not terminated")
	return l.tok(tBad, min(end, len(l.text))-l.pos)
}

// escapeLen is the length of what the backslash at i belongs to, as far as
// finding the end of a literal goes. In formatted strings \{ is a backslash
// before a field, and \N{..} is no field.
func escapeLen(text string, i int, format bool) int {
	if format && i+1 < len(text) {
		switch text[i+1] {
		case '{', '}':
			return 1
		case 'N':
			if end := strings.IndexAny(text[i:], "}\"'\n"); end > 2 && text[i+2] == '{' && text[i+end] == '}' {
				return end + 1
			}
		}
	}
	return 2
}

// skipField is the offset after the replacement field of a formatted string
// that begins at i, or after its line if it is not closed there. Strings
// within the field may use any quotes.
func skipField(text string, i, depth int) int {
	level := 0
	for i < len(text) {
		switch c := text[i]; c {
		case '{', '[', '(':
			level++
		case '}', ']', ')':
			level--
			if level == 0 {
				return i + 1
			}
		case '\n':
			return i
		case '\'', '"':
			j := strings.IndexByte(text[i+1:], c)
			nl := strings.IndexByte(text[i+1:], '\n')
			if j < 0 || nl >= 0 && nl < j {
				return i // not a string: the quote ends the literal
			}
			i += j + 1
		}
		i++
	}
	return i
}

func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
