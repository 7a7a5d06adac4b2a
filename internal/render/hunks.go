package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/hexops/gotextdiff"

	"lowertrace/internal/render/textdiff"
)

// DiffOptions say how two texts are compared and shown.
type DiffOptions struct {
	Context       int  // equal lines around a change; negative means 0
	Host          bool // show host code, which is folded otherwise
	WordDiff      bool // show changed words within one line instead of the line before and after
	IgnoreSpace   bool
	IgnoreRenames bool
	// MaxLine cuts lines shown on a terminal to that many bytes; 0 shows them whole. A cut line
	// says so.
	MaxLine int
}

func (o DiffOptions) equality() textdiff.Options {
	return textdiff.Options{IgnoreSpace: o.IgnoreSpace, IgnoreRenames: o.IgnoreRenames}
}

// DefaultContext is the number of equal lines around a change where the user names none.
const DefaultContext = 3

// visible is what of a diff is shown.
type visible struct {
	hunks            []*gotextdiff.Hunk
	hostAdd, hostDel int // changed lines left out as host code
}

// visibleHunks cuts host code out of a diff's hunks. What remains of a hunk keeps its true line
// numbers, and patch accepts it.
func visibleHunks(d *textdiff.Diff, o DiffOptions) visible {
	hunks := d.Hunks(o.Context)
	if o.Host {
		return visible{hunks: hunks}
	}
	hostA, hostB := hostLines(d.A, d.B)
	if hostA == nil && hostB == nil {
		return visible{hunks: hunks}
	}
	var v visible
	for _, h := range hunks {
		from, to := textdiff.Sides(h)
		a, b := h.FromLine-1, h.ToLine-1
		if from == 0 {
			a++
		}
		if to == 0 {
			b++
		}
		var cur *gotextdiff.Hunk
		changed := false
		flush := func() {
			if cur != nil && changed {
				if from, to := textdiff.Sides(cur); from == 0 {
					cur.FromLine--
				} else if to == 0 {
					cur.ToLine--
				}
				v.hunks = append(v.hunks, cur)
			}
			cur, changed = nil, false
		}
		for _, l := range h.Lines {
			hidden := false
			switch l.Kind {
			case gotextdiff.Delete:
				if hidden = inside(hostA, a); hidden {
					v.hostDel++
				}
			case gotextdiff.Insert:
				if hidden = inside(hostB, b); hidden {
					v.hostAdd++
				}
			default:
				hidden = inside(hostA, a) || inside(hostB, b)
			}
			switch {
			case !hidden:
				if cur == nil {
					cur = &gotextdiff.Hunk{FromLine: a + 1, ToLine: b + 1}
				}
				cur.Lines = append(cur.Lines, l)
				changed = changed || l.Kind != gotextdiff.Equal
			default:
				flush()
			}
			if l.Kind != gotextdiff.Insert {
				a++
			}
			if l.Kind != gotextdiff.Delete {
				b++
			}
		}
		flush()
	}
	return v
}

// printer gathers text for a stream and keeps the first error of writing.
type printer struct {
	w   io.Writer
	st  *styles
	buf []byte
	err error
}

// flushSize is how much text is gathered before it is written.
const flushSize = 64 << 10

func (p *printer) print(parts ...string) {
	if p.err != nil {
		return
	}
	for _, s := range parts {
		p.buf = append(p.buf, s...)
	}
	if len(p.buf) >= flushSize {
		p.flush()
	}
}

// flush writes what has been gathered. Whoever prints calls it before it returns to the caller.
func (p *printer) flush() error {
	if p.err == nil && len(p.buf) > 0 {
		_, p.err = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
	return p.err
}

func (p *printer) printf(format string, args ...any) { p.print(fmt.Sprintf(format, args...)) }

// diff writes the hunks of a change from before to after.
func (p *printer) diff(before, after string, o DiffOptions) {
	p.shown(visibleHunks(textdiff.Compute(before, after, o.equality()), o), o)
	if textdiff.FinalNewlineOnly(before, after) {
		p.print(p.st.dim.Sprint("(the texts differ only in the final newline)"), "\n")
	}
}

func (p *printer) shown(v visible, o DiffOptions) {
	for _, h := range v.hunks {
		p.print(p.st.hunk.Sprint(textdiff.Header(h)), "\n")
		p.hunkLines(h.Lines, o)
	}
	if v.hostAdd+v.hostDel > 0 {
		p.print(p.st.dim.Sprintf("(host code folded: +%d -%d; --host shows it)", v.hostAdd, v.hostDel), "\n")
	}
}

func (p *printer) hunkLines(lines []gotextdiff.Line, o DiffOptions) {
	for i := 0; i < len(lines); {
		if lines[i].Kind == gotextdiff.Equal {
			p.line(' ', lines[i].Content, nil, o)
			i++
			continue
		}
		var del, add []string
		for ; i < len(lines) && lines[i].Kind == gotextdiff.Delete; i++ {
			del = append(del, lines[i].Content)
		}
		for ; i < len(lines) && lines[i].Kind == gotextdiff.Insert; i++ {
			add = append(add, lines[i].Content)
		}
		p.block(del, add, o)
	}
}

// block writes deleted lines and the added ones that replaced them.
func (p *printer) block(del, add []string, o DiffOptions) {
	if len(del) == 0 || len(add) == 0 || !p.st.enabled && !o.WordDiff {
		for _, s := range del {
			p.line('-', s, nil, o)
		}
		for _, s := range add {
			p.line('+', s, nil, o)
		}
		return
	}
	pairs := textdiff.Pair(del, add)
	if o.WordDiff {
		p.wordBlock(del, add, pairs, o)
		return
	}
	delMarks, addMarks := make([][]textdiff.Span, len(del)), make([][]textdiff.Span, len(add))
	delSoft, addSoft := make([]bool, len(del)), make([]bool, len(add))
	for i, j := range pairs {
		switch {
		case j < 0:
		case textdiff.SpaceOnly(del[i:i+1], add[j:j+1]):
			delSoft[i], addSoft[j] = true, true
		default:
			delMarks[i], addMarks[j] = textdiff.Words(del[i], add[j])
		}
	}
	for i, s := range del {
		p.styled('-', s, delMarks[i], delSoft[i], o)
	}
	for j, s := range add {
		p.styled('+', s, addMarks[j], addSoft[j], o)
	}
}

func (p *printer) line(sign byte, content string, marks []textdiff.Span, o DiffOptions) {
	p.styled(sign, content, marks, false, o)
}

// styled writes one line of a diff. Where there is color, the marked words are emphasized and a soft
// line, one that changed in white space only, is toned down.
func (p *printer) styled(sign byte, content string, marks []textdiff.Span, soft bool, o DiffOptions) {
	text, ended := strings.CutSuffix(content, "\n")
	rest := ""
	if o.MaxLine > 0 && len(text) > o.MaxLine {
		cut := o.MaxLine
		for cut > 0 && text[cut]&0xc0 == 0x80 {
			cut--
		}
		rest = fmt.Sprintf(" … %d more bytes", len(text)-cut)
		text = text[:cut]
	}
	plain, word := p.st.dim, p.st.dim
	switch {
	case sign == '-' && soft:
		plain = p.st.delSoft
	case sign == '+' && soft:
		plain = p.st.addSoft
	case sign == '-':
		plain, word = p.st.del, p.st.delWord
	case sign == '+':
		plain, word = p.st.add, p.st.addWord
	default:
		p.print(" ", Escape(text))
	}
	if sign != ' ' {
		var b strings.Builder
		at := 0
		piece := func(to int, marked bool) {
			to = min(to, len(text))
			if to <= at {
				return
			}
			s := Escape(text[at:to])
			if marked && strings.TrimSpace(s) != "" { // a shifted indentation is seen without it
				b.WriteString(word.Sprint(s))
			} else {
				b.WriteString(plain.Sprint(s))
			}
			at = to
		}
		for _, m := range marks {
			// White space at a mark's edges is not emphasized.
			marked := text[min(m.From, len(text)):min(m.To, len(text))]
			piece(m.From+len(marked)-len(strings.TrimLeft(marked, " \t")), false)
			piece(m.From+len(strings.TrimRight(marked, " \t")), true)
		}
		piece(len(text), false)
		p.print(plain.Sprint(string(sign)), b.String())
	}
	if rest != "" {
		p.print(p.st.dim.Sprint(rest))
	}
	p.print("\n")
	if !ended {
		p.print(p.st.dim.Sprint(textdiff.NoNewline), "\n")
	}
}

// wordBlock writes pairs of lines as one, [-gone-]{+come+}, or by color alone where there is color.
func (p *printer) wordBlock(del, add []string, pairs []int, o DiffOptions) {
	j := 0
	for i, s := range del {
		if pairs[i] < 0 {
			p.line('-', s, nil, o)
			continue
		}
		for ; j < pairs[i]; j++ {
			p.line('+', add[j], nil, o)
		}
		p.words(s, add[j])
		j++
	}
	for ; j < len(add); j++ {
		p.line('+', add[j], nil, o)
	}
}

func (p *printer) words(a, b string) {
	a, b = strings.TrimSuffix(a, "\n"), strings.TrimSuffix(b, "\n")
	var out strings.Builder
	out.WriteString("~")
	at := 0
	for _, c := range textdiff.Changes(a, b) {
		out.WriteString(Escape(a[at:c.A.From]))
		out.WriteString(p.mark(a[c.A.From:c.A.To], "[-", "-]", false))
		out.WriteString(p.mark(b[c.B.From:c.B.To], "{+", "+}", true))
		at = c.A.To
	}
	out.WriteString(Escape(a[at:]))
	p.print(out.String(), "\n")
}

func (p *printer) mark(s, open, shut string, added bool) string {
	if s == "" {
		return ""
	}
	c := p.st.delWord
	if added {
		c = p.st.addWord
	}
	return c.Sprint(open + Escape(s) + shut)
}
