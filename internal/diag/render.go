package diag

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"lowertrace/internal/ir"
)

// Limits of the text renderer, in columns.
const (
	tabStop = 4
	// maxLine is the longest piece of a source line shown under a message;
	// longer lines are cut around what is underlined.
	maxLine = 120
)

// TextOptions say how diagnostics are written as text.
type TextOptions struct {
	Color bool // with ANSI escapes
	All   bool // all of them, not just the first MaxShown
}

type palette struct{ bold, red, yellow, blue, reset string }

// WriteText writes diagnostics for people: file:line:col: message, the line
// and what is meant underlined, then notes and a hint.
func (l *List) WriteText(w io.Writer, o TextOptions) error {
	var c palette
	if o.Color {
		c = palette{"\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[0m"}
	}
	var b strings.Builder
	shown := 0
	for _, d := range l.All() {
		if shown == MaxShown && !o.All {
			break
		}
		shown++
		d.write(&b, c)
	}
	if n := l.Len() - shown; n > 0 {
		fmt.Fprintf(&b, "and %d more\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Text is a diagnostic as WriteText writes it, without colours.
func (d *Diagnostic) Text() string {
	var b strings.Builder
	d.write(&b, palette{})
	return b.String()
}

func (d *Diagnostic) write(b *strings.Builder, c palette) {
	mark := c.red
	label := ""
	if d.Severity == Warning {
		mark, label = c.yellow, c.yellow+"warning: "+c.reset
	}
	writeHead(b, d.Span, label, d.Message, c)
	writeSnippet(b, d.Span, mark, c)
	for _, n := range d.Notes {
		writeHead(b, n.Span, c.blue+"note: "+c.reset, n.Message, c)
		writeSnippet(b, n.Span, c.blue, c)
	}
	if d.Hint != "" {
		fmt.Fprintf(b, "  %shint:%s %s\n", c.blue, c.reset, Printable(d.Hint))
	}
}

func writeHead(b *strings.Builder, s ir.Span, label, msg string, c palette) {
	if s.IsValid() {
		fmt.Fprintf(b, "%s%s:%s ", c.bold, s, c.reset)
	}
	b.WriteString(label)
	b.WriteString(Printable(msg))
	b.WriteByte('\n')
}

// writeSnippet shows the first line of a span with what it covers underlined.
func writeSnippet(b *strings.Builder, s ir.Span, mark string, c palette) {
	if !s.IsValid() || s.Src.Text == "" {
		return
	}
	lineNo, col := s.Src.Position(int(s.Pos))
	line := s.Src.Line(lineNo)
	if strings.TrimSpace(line) == "" {
		return
	}
	from := min(col-1, len(line))
	to := min(max(from+int(s.End-s.Pos), from), len(line))
	head, under, tail := line[:from], line[from:to], line[to:]

	// Cut a long line around the span.
	pre, post := "", ""
	if len(line) > maxLine {
		if len(under) > maxLine/2 {
			under, tail, post = cutAt(under, maxLine/2), "", "..."
		}
		if n := maxLine - len(under); len(head) > n/2 && len(head)+len(tail) > n {
			keep := max(n/2, n-len(tail))
			head, pre = cutFront(head, len(head)-keep), "..."
		}
		if n := maxLine - len(under) - len(head); len(tail) > n {
			tail, post = cutAt(tail, max(n, 0)), "..."
		}
	}
	text, column := "", 0
	add := func(s string) string {
		start := len(text)
		text, column = expand(text, column, s)
		return text[start:]
	}
	headText := pre + add(head)
	column += len(pre)
	width := column
	underText := add(under)
	width = max(column-width, 1)
	tailText := add(tail) + post

	number := fmt.Sprintf("%5d", lineNo)
	fmt.Fprintf(b, "%s | %s%s%s\n", number, headText, underText, tailText)
	fmt.Fprintf(b, "%*s | %s%s^%s%s\n", len(number), "", strings.Repeat(" ", uniseg.StringWidth(headText)),
		mark, strings.Repeat("~", width-1), c.reset)
}

// cutAt is at most n bytes of s, whole characters.
func cutAt(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// cutFront drops n bytes of s, and what is left of a character.
func cutFront(s string, n int) string {
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return s[n:]
}

// expand appends s to a line of text whose end is at a column, with tabs as
// blanks and control characters escaped.
func expand(text string, column int, s string) (string, int) {
	var b strings.Builder
	b.WriteString(text)
	for s != "" {
		if s[0] == '\t' {
			n := tabStop - column%tabStop
			b.WriteString(strings.Repeat(" ", n))
			column += n
			s = s[1:]
			continue
		}
		g, rest, width, _ := uniseg.FirstGraphemeClusterInString(s, -1)
		if p := Printable(g); p != g {
			g, width = p, len(p)
		}
		b.WriteString(g)
		column += width
		s = rest
	}
	return b.String(), column
}

// Printable is s with control characters and invalid bytes escaped, so that
// text from a file cannot drive a terminal.
func Printable(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' && s[i] != '\t' || s[i] >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02X`, s[i])
		case r == '\t':
			b.WriteByte('\t')
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02X`, r)
		case 0x80 <= r && r < 0xa0 || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069:
			fmt.Fprintf(&b, `\u%04X`, r) // C1 controls; bidirectional overrides
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
