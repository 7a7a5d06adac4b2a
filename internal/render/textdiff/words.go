package textdiff

import (
	"strings"
	"unicode/utf8"
)

// Limits of the comparison within lines. Beyond them whole lines are shown as changed, or only what
// lies between their common head and tail.
const (
	// MaxWordBytes is the length of a line up to which it is split into words.
	MaxWordBytes = 1 << 16
	// MaxPairCells bounds deleted × added lines of a block that are paired by likeness; larger
	// blocks are paired in order.
	MaxPairCells = 10000
	// minLikeness is the share of common words, in percent, from which two lines count as the same
	// line changed.
	minLikeness = 40
)

// Span is a range of bytes in a line.
type Span struct{ From, To int }

// Change is a replaced range of bytes in two lines. One side may be empty.
type Change struct{ A, B Span }

// Words compares two lines and returns what changed in each, as spans of bytes in order.
func Words(a, b string) (sa, sb []Span) {
	for _, c := range Changes(a, b) {
		if c.A.From < c.A.To {
			sa = append(sa, c.A)
		}
		if c.B.From < c.B.To {
			sb = append(sb, c.B)
		}
	}
	return sa, sb
}

// Changes compares two lines word by word. The line end takes no part. Changes with nothing but
// white space between them are one; what lies outside them is equal on both sides.
func Changes(a, b string) []Change {
	a, b = strings.TrimRight(a, "\r\n"), strings.TrimRight(b, "\r\n")
	if a == b {
		return nil
	}
	if len(a) > MaxWordBytes || len(b) > MaxWordBytes {
		return []Change{middle(a, b)}
	}
	ta, tb := tokens(a), tokens(b)
	ia, ib := intern(cut(a, ta), cut(b, tb), Options{})
	var out []Change
	for _, op := range Ints(ia, ib) {
		c := Change{byteSpan(ta, op.A0, op.A1), byteSpan(tb, op.B0, op.B1)}
		if n := len(out); n > 0 && strings.TrimLeft(a[out[n-1].A.To:c.A.From], " \t") == "" {
			out[n-1].A.To, out[n-1].B.To = c.A.To, c.B.To
			continue
		}
		out = append(out, c)
	}
	return out
}

// middle is what lies between the common head and tail of two different lines.
func middle(a, b string) Change {
	pre := commonPrefix(a, b)
	for pre > 0 && (pre < len(a) && !utf8.RuneStart(a[pre]) || pre < len(b) && !utf8.RuneStart(b[pre])) {
		pre--
	}
	suf := 0
	for suf < len(a)-pre && suf < len(b)-pre && a[len(a)-1-suf] == b[len(b)-1-suf] {
		suf++
	}
	for suf > 0 && !utf8.RuneStart(a[len(a)-suf]) {
		suf--
	}
	return Change{Span{pre, len(a) - suf}, Span{pre, len(b) - suf}}
}

// byteSpan turns a range of words into a range of bytes.
func byteSpan(ends []int, t0, t1 int) Span {
	at := func(t int) int {
		if t == 0 {
			return 0
		}
		return ends[t-1]
	}
	return Span{at(t0), at(t1)}
}

// tokens returns where the words of a line end: names, numbers, runs of blanks, single other
// characters.
func tokens(s string) []int {
	ends := make([]int, 0, len(s)/3+1)
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case isNameByte(c):
			for i < len(s) && isNameByte(s[i]) {
				i++
			}
		case c == ' ' || c == '\t':
			for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
				i++
			}
		default:
			i++
		}
		ends = append(ends, i)
	}
	return ends
}

func cut(s string, ends []int) []string {
	out := make([]string, len(ends))
	from := 0
	for i, to := range ends {
		out[i] = s[from:to]
		from = to
	}
	return out
}

// Pair says which line of a deleted block became which line of the added block that replaced it.
// For each line of a the result has the position in b, or -1; positions increase. Lines that differ
// in white space only are paired first, the others by their likeness.
func Pair(a, b []string) []int {
	out := make([]int, len(a))
	for i := range out {
		out[i] = -1
	}
	if len(a) == 0 || len(b) == 0 {
		return out
	}
	ia, ib := intern(a, b, Options{IgnoreSpace: true})
	i, j := 0, 0
	for _, op := range append(Ints(ia, ib), Op{len(a), len(a), len(b), len(b)}) {
		for ; i < op.A0; i, j = i+1, j+1 {
			out[i] = j
		}
		pairByLikeness(a[op.A0:op.A1], b[op.B0:op.B1], op.B0, out[op.A0:op.A1])
		i, j = op.A1, op.B1
	}
	return out
}

// pairByLikeness fills out with the alignment of a and b of the greatest sum of likenesses; first
// is added to positions in b.
func pairByLikeness(a, b []string, first int, out []int) {
	if len(a) == 0 || len(b) == 0 {
		return
	}
	if len(a)*len(b) > MaxPairCells {
		for i := 0; i < len(a) && i < len(b); i++ {
			out[i] = first + i
		}
		return
	}
	ba, bb := bags(a), bags(b)
	w := len(b) + 1
	score := make([]int32, (len(a)+1)*w)
	like := make([]int32, len(a)*len(b))
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			l := int32(likeness(ba[i], bb[j]))
			if l < minLikeness {
				l = 0
			}
			like[i*len(b)+j] = l
			best := max(score[(i+1)*w+j], score[i*w+j+1])
			if l > 0 {
				best = max(best, l+score[(i+1)*w+j+1])
			}
			score[i*w+j] = best
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		l := like[i*len(b)+j]
		switch {
		case l > 0 && score[i*w+j] == l+score[(i+1)*w+j+1]:
			out[i] = first + j
			i++
			j++
		case score[i*w+j] == score[(i+1)*w+j]:
			i++
		default:
			j++
		}
	}
}

// bag is the names and numbers of a line, counted; of a line without any, its other characters.
type bag struct {
	n     int
	words map[string]int
}

func bags(lines []string) []bag {
	out := make([]bag, len(lines))
	for i, s := range lines {
		if len(s) > MaxWordBytes {
			s = s[:MaxWordBytes]
		}
		s = strings.TrimSpace(s)
		b := bag{words: map[string]int{}}
		ts := cut(s, tokens(s))
		for _, wordsOnly := range []bool{true, false} {
			for _, t := range ts {
				if t[0] != ' ' && t[0] != '\t' && isNameByte(t[0]) == wordsOnly {
					b.words[t]++
					b.n++
				}
			}
			if b.n > 0 {
				break
			}
		}
		out[i] = b
	}
	return out
}

// likeness is the share of words that two lines have in common, in percent.
func likeness(a, b bag) int {
	if a.n+b.n == 0 {
		return 100
	}
	common := 0
	for w, n := range a.words {
		common += min(n, b.words[w])
	}
	return 200 * common / (a.n + b.n)
}

// SpaceOnly reports whether two blocks of lines differ in white space only.
func SpaceOnly(a, b []string) bool {
	return WithoutSpace(strings.Join(a, "")) == WithoutSpace(strings.Join(b, ""))
}
