package syntax

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Int is an integer literal's value. It is false for floats and for values
// that do not fit 64 bits; values from 2^63 on come out as their bit pattern
// (negative), as unsigned 64-bit constants are kept.
func (n *Num) Int() (int64, bool) {
	if n.IsFloat {
		return 0, false
	}
	s := n.Text
	if len(s) <= 18 { // plain decimal, the frequent case
		v, ok := int64(0), len(s) > 0 && (s[0] != '0' || len(s) == 1)
		for i := 0; i < len(s) && ok; i++ {
			c := s[i] - '0'
			ok = c <= 9
			v = v*10 + int64(c)
		}
		if ok {
			return v, true
		}
	}
	v, err := strconv.ParseUint(pythonInt(s), 0, 64)
	if err != nil {
		return 0, false
	}
	return int64(v), true
}

// pythonInt spells a Python integer so that strconv reads it with base 0:
// without underscores, and without leading zeros, which would mean octal.
func pythonInt(s string) string {
	s = strings.ReplaceAll(s, "_", "")
	if t := strings.TrimLeft(s, "0"); t == "" {
		return "0"
	} else if t[0] >= '1' && t[0] <= '9' {
		return t
	}
	return s
}

// Float is a number's value, integers included. It is false for imaginary
// numbers.
func (n *Num) Float() (float64, bool) {
	s := strings.ReplaceAll(n.Text, "_", "")
	if !n.IsFloat {
		if v, ok := n.Int(); ok && v >= 0 {
			return float64(v), true
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}

// strings reads one or more adjacent string literals.
func (p *parser) strings() Expr {
	first := p.tok
	if p.advance(); p.tok.kind != tString {
		return p.literal(first)
	}
	parts := []Expr{p.literal(first)}
	for p.tok.kind == tString {
		t := p.tok
		p.advance()
		parts = append(parts, p.literal(t))
	}
	loc := p.loc(first.pos)
	plain := true
	for _, x := range parts {
		_, ok := x.(*Str)
		plain = plain && ok
	}
	if plain {
		var b strings.Builder
		for _, x := range parts {
			b.WriteString(x.(*Str).Value)
		}
		return &Str{loc, b.String(), parts[0].(*Str).Bytes}
	}
	f := &FString{Loc: loc}
	for _, x := range parts {
		if g, ok := x.(*FString); ok {
			f.Parts = append(f.Parts, g.Parts...)
		} else {
			f.Parts = append(f.Parts, x)
		}
	}
	return f
}

// literal decodes one string token.
func (p *parser) literal(t token) Expr {
	s := p.text[t.pos:t.end]
	q := strings.IndexAny(s, `"'`)
	prefix := s[:q]
	n := 1
	if len(s)-q >= 6 && s[q] == s[q+1] && s[q] == s[q+2] {
		n = 3
	}
	lo, hi := int(t.pos)+q+n, int(t.end)-n
	raw := strings.ContainsAny(prefix, "rR")
	bytes := strings.ContainsAny(prefix, "bB")
	if strings.ContainsAny(prefix, "fF") {
		return p.fstring(Loc{t.pos, t.end}, lo, hi, raw)
	}
	x := p.mem.strs.new()
	*x = Str{Loc{t.pos, t.end}, p.unescape(lo, hi, raw, bytes), bytes}
	return x
}

// unescape decodes the text between two offsets.
func (p *parser) unescape(lo, hi int, raw, bytes bool) string {
	s := p.text[lo:hi]
	if raw || strings.IndexByte(s, '\\') < 0 {
		if strings.IndexByte(s, '\r') >= 0 {
			s = strings.ReplaceAll(s, "\r\n", "\n")
		}
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		c := s[i]
		if c == '\r' && i+1 < len(s) && s[i+1] == '\n' {
			i++
			continue
		}
		if c != '\\' || i+1 == len(s) {
			b.WriteByte(c)
			i++
			continue
		}
		c = s[i+1]
		i += 2
		switch c {
		case '\n':
		case '\r':
			if i < len(s) && s[i] == '\n' {
				i++
			}
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'a':
			b.WriteByte('\a')
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'v':
			b.WriteByte('\v')
		case 'x':
			// Bytes, also in text: a printed string spells non-ASCII text as
			// the bytes of its UTF-8.
			if v, ok := hexDigits(s, i, 2); ok {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
			p.errorf(lo+i-2, lo+i, `'\x' needs two hexadecimal digits`)
		case 'u', 'U':
			if bytes {
				b.WriteByte('\\')
				b.WriteByte(c)
				continue
			}
			n := 4
			if c == 'U' {
				n = 8
			}
			if v, ok := hexDigits(s, i, n); ok && v <= utf8.MaxRune { // surrogates become U+FFFD
				b.WriteRune(rune(v))
				i += n
				continue
			}
			p.errorf(lo+i-2, lo+i, `'\%c' needs %d hexadecimal digits of a character`, c, n)
		default:
			if '0' <= c && c <= '7' {
				v, n := 0, 0
				for i--; n < 3 && i < len(s) && '0' <= s[i] && s[i] <= '7'; n++ {
					v = v*8 + int(s[i]-'0')
					i++
				}
				b.WriteByte(byte(v))
				continue
			}
			b.WriteByte('\\') // Python keeps an unknown escape
			b.WriteByte(c)
		}
	}
	return b.String()
}

func hexDigits(s string, i, n int) (uint32, bool) {
	if i+n > len(s) {
		return 0, false
	}
	v, err := strconv.ParseUint(s[i:i+n], 16, 32)
	return uint32(v), err == nil
}

// fstring reads the parts of a formatted string between two offsets.
func (p *parser) fstring(loc Loc, lo, hi int, raw bool) Expr {
	f := &FString{Loc: loc}
	if !p.enter() {
		return f
	}
	defer p.leave()
	start := lo
	text := func(end int) {
		if end > start {
			s := p.unescape(start, end, raw, false)
			s = strings.ReplaceAll(strings.ReplaceAll(s, "{{", "{"), "}}", "}")
			f.Parts = append(f.Parts, &Str{Loc: Loc{int32(start), int32(end)}, Value: s})
		}
	}
	for i := lo; i < hi; {
		switch p.text[i] {
		case '\\':
			i += escapeLen(p.text[:hi], i, true)
			continue
		case '{':
			if i+1 < hi && p.text[i+1] == '{' {
				i += 2
				continue
			}
			text(i)
			i = p.formatField(f, i, hi, raw)
			start = i
			continue
		case '}':
			if i+1 < hi && p.text[i+1] == '}' {
				i += 2
				continue
			}
			p.errorf(i, i+1, "'}' in a formatted string closes nothing")
		}
		i++
	}
	text(hi)
	return f
}

// formatField reads {X!c:spec} at offset i and returns the offset after it.
func (p *parser) formatField(f *FString, i, hi int, raw bool) int {
	// A parser of its own reads the expression out of the same text, as if
	// within brackets.
	sub := parser{lexer: lexer{src: p.src, text: p.text, pos: i + 1, limit: hi, diags: p.diags, indents: []indent{{}}}}
	sub.nesting = p.nesting
	sub.brackets = append(sub.brackets, token{kind: tLBrace, pos: int32(i), end: int32(i + 1)})
	sub.field = true
	sub.advance()
	x := sub.exprList()
	n := &FormatField{X: x}
	end := int(sub.tok.pos)
	if sub.tok.kind == tAssign {
		n.Debug = true
		end++
		for end < hi && p.text[end] == ' ' {
			end++
		}
	}
	if sub.failed {
		return skipField(p.text[:hi], i, 0)
	}
	if end < hi && p.text[end] == '!' {
		if end+1 < hi {
			n.Conv = p.text[end+1]
		}
		end += 2
	}
	if end < hi && p.text[end] == ':' {
		lo := end + 1
		depth := 0
		for end = lo; end < hi && (p.text[end] != '}' || depth > 0); end++ {
			switch p.text[end] {
			case '{':
				depth++
			case '}':
				depth--
			}
		}
		n.Spec = p.fstring(Loc{int32(lo), int32(end)}, lo, end, raw)
	}
	if end >= hi || p.text[end] != '}' {
		p.errorf(i, i+1, "'{' in a formatted string is never closed")
		return hi
	}
	end++
	n.Loc = Loc{int32(i), int32(end)}
	f.Parts = append(f.Parts, n)
	return end
}
