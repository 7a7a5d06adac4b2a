package textdiff

import "strings"

// Op says that lines A0:A1 of the text before were replaced by lines B0:B1 of the text after.
// Positions count from 0. One side may be empty, never both.
type Op struct {
	A0, A1 int
	B0, B1 int
}

// Options choose what counts as the same line. The zero value compares bytes.
type Options struct {
	// IgnoreSpace takes lines for equal that differ in white space only.
	IgnoreSpace bool
	// IgnoreRenames takes lines for equal that differ in the numeric suffixes of names only, as in
	// x_1 and x_2. Text within quotation marks is compared as it stands.
	IgnoreRenames bool
}

// Diff is how one text became another.
type Diff struct {
	A, B []string // the lines, each with its line end; only a last line may lack one
	Ops  []Op     // the changes, in order, with at least one equal line between two of them
}

// Lines splits a text after each line feed. The empty text has no lines.
func Lines(text string) []string {
	if text == "" {
		return nil
	}
	lines := make([]string, 0, strings.Count(text, "\n")+1)
	for text != "" {
		i := strings.IndexByte(text, '\n') + 1
		if i == 0 {
			i = len(text)
		}
		lines = append(lines, text[:i])
		text = text[i:]
	}
	return lines
}

// Compute compares two texts.
func Compute(before, after string, o Options) *Diff {
	if before == after {
		lines := Lines(before)
		return &Diff{A: lines, B: lines}
	}
	d := &Diff{A: Lines(before), B: Lines(after)}
	a, b := intern(d.A, d.B, o)
	d.Ops = Ints(a, b)
	slide(d.Ops, a, b, d.A, d.B)
	return d
}

// Stat counts the lines added and deleted between two texts.
func Stat(before, after string) (add, del int) {
	if before == after {
		return 0, 0
	}
	// Common head and tail need not be split into lines. Both cuts lie behind a line feed.
	before, after = trimCommon(before, after)
	la, lb := Lines(before), Lines(after)
	a, b := intern(la, lb, Options{})
	for _, op := range Ints(a, b) {
		add += op.B1 - op.B0
		del += op.A1 - op.A0
	}
	return add, del
}

// Stat counts the lines added and deleted.
func (d *Diff) Stat() (add, del int) {
	for _, op := range d.Ops {
		add += op.B1 - op.B0
		del += op.A1 - op.A0
	}
	return add, del
}

// FinalNewlineOnly reports whether the texts differ in nothing but the line end of their last line.
func FinalNewlineOnly(before, after string) bool {
	return before != after && strings.TrimSuffix(before, "\n") == strings.TrimSuffix(after, "\n")
}

// trimCommon cuts whole lines that two texts share at their beginning and end.
func trimCommon(a, b string) (string, string) {
	n := min(len(a), len(b))
	i := commonPrefix(a[:n], b[:n])
	i = strings.LastIndexByte(a[:i], '\n') + 1
	a, b = a[i:], b[i:]
	n = min(len(a), len(b))
	j := 0
	for j < n && a[len(a)-1-j] == b[len(b)-1-j] {
		j++
	}
	// The tail may start only behind a line feed on both sides (or at the very beginning of both).
	for j > 0 && !(startsLine(a, len(a)-j) && startsLine(b, len(b)-j)) {
		k := strings.IndexByte(a[len(a)-j:], '\n')
		if k < 0 {
			j = 0
			break
		}
		j -= k + 1
	}
	return a[:len(a)-j], b[:len(b)-j]
}

func startsLine(s string, i int) bool { return i == 0 || s[i-1] == '\n' }

func commonPrefix(a, b string) int {
	const step = 256
	i := 0
	for i+step <= len(a) && i+step <= len(b) && a[i:i+step] == b[i:i+step] {
		i += step
	}
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

// intern gives each distinct line a number, counted from 0 over both sides.
func intern(a, b []string, o Options) (ia, ib []int32) {
	key := o.key()
	ids := make(map[string]int32, len(a)+len(b)/8)
	number := func(lines []string) []int32 {
		out := make([]int32, len(lines))
		for i, s := range lines {
			if key != nil {
				s = key(s)
			}
			id, ok := ids[s]
			if !ok {
				id = int32(len(ids))
				ids[s] = id
			}
			out[i] = id
		}
		return out
	}
	return number(a), number(b)
}

func (o Options) key() func(string) string {
	switch {
	case o.IgnoreSpace && o.IgnoreRenames:
		return func(s string) string { return WithoutSpace(WithoutSuffixes(s)) }
	case o.IgnoreSpace:
		return WithoutSpace
	case o.IgnoreRenames:
		return WithoutSuffixes
	}
	return nil
}

// WithoutSpace returns s without its blanks, tabs, carriage returns and line feeds.
func WithoutSpace(s string) string {
	if !strings.ContainsAny(s, " \t\r\n") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ', '\t', '\r', '\n':
		default:
			out = append(out, s[i])
		}
	}
	return string(out)
}

// WithoutSuffixes returns s with the numeric suffixes of names cut off, x_1 and x_12 becoming x.
// A name after a dot (an attribute) and text in quotation marks stay as they are.
func WithoutSuffixes(s string) string {
	var out []byte // nil until something was cut
	from := 0      // s[:from] is in out
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\'':
			i = endOfString(s, i)
		case isNameStart(c):
			start := i
			for i < len(s) && isNameByte(s[i]) {
				i++
			}
			cut := i
			for cut > start && s[cut-1] >= '0' && s[cut-1] <= '9' {
				cut--
			}
			attribute := start > 0 && s[start-1] == '.'
			if cut == i || cut-1 <= start || s[cut-1] != '_' || attribute {
				continue
			}
			out = append(out, s[from:cut-1]...)
			from = i
		case c >= '0' && c <= '9': // a number takes its letters along: 0x1f, 1e5, 4096L
			for i < len(s) && isNameByte(s[i]) {
				i++
			}
		default:
			i++
		}
	}
	if out == nil {
		return s
	}
	return string(append(out, s[from:]...))
}

// endOfString returns the position behind the string literal that starts at s[i].
func endOfString(s string, i int) int {
	quote := s[i]
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			return i + 1
		case '\n':
			return i
		}
	}
	return len(s)
}

func isNameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func isNameByte(c byte) bool { return isNameStart(c) || c >= '0' && c <= '9' }
