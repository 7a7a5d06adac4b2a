package ir

import (
	"fmt"
	"sort"
	"strings"
	"sync"
)

// Source is an input text that spans point into.
type Source struct {
	Name string // as the user named it, for messages
	Text string

	once  sync.Once
	lines []int32 // byte offset of each line's start
}

// NewSource makes a Source of a name and a text.
func NewSource(name, text string) *Source { return &Source{Name: name, Text: text} }

func (s *Source) index() []int32 {
	s.once.Do(func() {
		s.lines = append(s.lines, 0)
		for i := 0; i < len(s.Text); {
			j := strings.IndexByte(s.Text[i:], '\n')
			if j < 0 {
				break
			}
			i += j + 1
			s.lines = append(s.lines, int32(i))
		}
	})
	return s.lines
}

// Position is the 1-based line and 1-based byte column of an offset. An
// offset beyond the text counts as its end.
func (s *Source) Position(off int) (line, col int) {
	off = min(max(off, 0), len(s.Text))
	idx := s.index()
	i := sort.Search(len(idx), func(i int) bool { return int(idx[i]) > off }) - 1
	return i + 1, off - int(idx[i]) + 1
}

// Offset is where a 1-based line begins; the text's length for one beyond it.
func (s *Source) Offset(n int) int {
	idx := s.index()
	if n < 1 || n > len(idx) {
		return len(s.Text)
	}
	return int(idx[n-1])
}

// Line is the text of a 1-based line without its line ending.
func (s *Source) Line(n int) string {
	idx := s.index()
	if n < 1 || n > len(idx) {
		return ""
	}
	t := s.Text[idx[n-1]:]
	if i := strings.IndexByte(t, '\n'); i >= 0 {
		t = t[:i]
	}
	return strings.TrimSuffix(t, "\r")
}

// Span is a half-open range of bytes of a Source. The zero Span is "unknown":
// a statement a pass made out of nothing, or IR built in memory.
type Span struct {
	Src      *Source
	Pos, End int32
}

// IsValid reports whether the span points anywhere.
func (s Span) IsValid() bool { return s.Src != nil }

// Line is the 1-based line the span begins on, 0 if it is unknown.
func (s Span) Line() int {
	if s.Src == nil {
		return 0
	}
	l, _ := s.Src.Position(int(s.Pos))
	return l
}

// Column is the 1-based byte column the span begins at, 0 if it is unknown.
func (s Span) Column() int {
	if s.Src == nil {
		return 0
	}
	_, c := s.Src.Position(int(s.Pos))
	return c
}

// To extends s to the end of t, when both lie in one source.
func (s Span) To(t Span) Span {
	if s.Src == t.Src && t.End > s.End {
		s.End = t.End
	}
	return s
}

// String is file:line:col, or "-" for an unknown span.
func (s Span) String() string {
	if s.Src == nil {
		return "-"
	}
	l, c := s.Src.Position(int(s.Pos))
	return fmt.Sprintf("%s:%d:%d", s.Src.Name, l, c)
}
