package trace

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Texts are kept by line: every distinct line once, and a text as the numbers of its lines. A pass
// that changes five lines of two thousand then costs five lines and a few numbers, and the same form
// serves the journal, where it grows record by record, and trace.json.
//
// A text is split at each line feed, which belongs to no line: "a\n" is the lines "a" and "", "a" is
// the line "a", "" is the line "". Joining gives the text back byte for byte.
//
// Line numbers are written as spans: a number n ≥ 0 is line n; a number -k < 0 is the k lines that
// follow the last one. [0,-9,3] is the lines 0 to 9, then line 3.

// Limits on what a reader accepts, so that a damaged or hostile file costs bounded memory.
const (
	// maxTraceBytes bounds trace.json, journal.ndjson and a foreign run's files taken together.
	maxTraceBytes = 1 << 30
	// maxTextBytes bounds all distinct texts of one run together, once their spans are expanded.
	maxTextBytes = 1 << 30
	// maxOriginEntries bounds all origin lists of one run together.
	maxOriginEntries = 64 << 20
)

// textEntry is one distinct text as it is stored.
type textEntry struct {
	SHA256 string  `json:"sha256"`
	Lines  []int64 `json:"lines"`
}

// textStore interns lines, texts and origin lists in order of first appearance. The zero value is
// not ready; use newTextStore.
type textStore struct {
	lineID   map[string]int64
	lines    []string
	textID   map[string]int
	texts    []textEntry
	originID map[string]int
	origins  [][]int64

	lastOrigins []int32 // the list interned last and its number: neighbours share one slice
	lastID      int
}

func newTextStore() *textStore {
	return &textStore{
		lineID: make(map[string]int64, 1024), textID: make(map[string]int, 64),
		originID: make(map[string]int, 64), lastID: -1,
	}
}

// text interns a text and returns its number.
func (s *textStore) text(t string) int {
	if id, ok := s.textID[t]; ok {
		return id
	}
	sum := sha256.Sum256([]byte(t))
	e := textEntry{SHA256: hex.EncodeToString(sum[:])}
	var last int64 = -2
	for rest, more := t, true; more; {
		var line string
		line, rest, more = strings.Cut(rest, "\n")
		id, ok := s.lineID[line]
		if !ok {
			id = int64(len(s.lines))
			s.lineID[line] = id
			s.lines = append(s.lines, line)
		}
		e.Lines = appendSpan(e.Lines, last, id)
		last = id
	}
	n := len(s.texts)
	s.textID[t] = n
	s.texts = append(s.texts, e)
	return n
}

// appendSpan adds line id to spans whose last line is last.
func appendSpan(spans []int64, last, id int64) []int64 {
	n := len(spans)
	if n == 0 || id != last+1 {
		return append(spans, id)
	}
	if spans[n-1] < 0 {
		spans[n-1]--
		return spans
	}
	return append(spans, -1)
}

// origin interns an origin list and returns its number, or -1 for none. A list is stored as pairs:
// a line number and how many lines of the text have it.
func (s *textStore) origin(o []int32) int {
	if len(o) == 0 {
		return -1
	}
	if len(s.lastOrigins) == len(o) && &s.lastOrigins[0] == &o[0] {
		return s.lastID
	}
	var pairs []int64
	for i := 0; i < len(o); {
		j := i + 1
		for j < len(o) && o[j] == o[i] {
			j++
		}
		pairs = append(pairs, int64(o[i]), int64(j-i))
		i = j
	}
	key := make([]byte, 0, len(pairs)*4)
	for _, v := range pairs {
		key = strconv.AppendInt(key, v, 36)
		key = append(key, ' ')
	}
	id, ok := s.originID[string(key)]
	if !ok {
		id = len(s.origins)
		s.originID[string(key)] = id
		s.origins = append(s.origins, pairs)
	}
	s.lastOrigins, s.lastID = o, id
	return id
}

// textTable is the reader's half: it expands what a store wrote. Equal numbers give the same string,
// so that texts share memory.
type textTable struct {
	lines   []string
	texts   []string
	hashes  []string
	origins [][]int32

	textBytes   int64
	originCount int64
}

var errTooLarge = errors.New("the trace is larger than this program reads")

// add appends what one journal line or trace.json holds: lines first, for the texts refer to them.
func (t *textTable) add(lines []jsonLine, texts []textEntry, origins [][]int64) error {
	for _, l := range lines {
		t.lines = append(t.lines, string(l))
	}
	for i := range texts {
		s, err := t.expand(texts[i].Lines)
		if err != nil {
			return fmt.Errorf("text %d: %w", len(t.texts), err)
		}
		t.texts = append(t.texts, s)
		t.hashes = append(t.hashes, texts[i].SHA256)
	}
	for _, pairs := range origins {
		if len(pairs)%2 != 0 {
			return fmt.Errorf("origins %d: odd number of entries", len(t.origins))
		}
		var o []int32
		for i := 0; i < len(pairs); i += 2 {
			line, n := pairs[i], pairs[i+1]
			if line < 0 || line > 1<<31-1 || n < 0 || n > maxOriginEntries {
				return fmt.Errorf("origins %d: bad entry", len(t.origins))
			}
			if t.originCount += n; t.originCount > maxOriginEntries {
				return errTooLarge
			}
			for ; n > 0; n-- {
				o = append(o, int32(line))
			}
		}
		t.origins = append(t.origins, o)
	}
	return nil
}

func (t *textTable) expand(spans []int64) (string, error) {
	// Two passes: the first checks every number and the size, the second copies.
	size := int64(-1)
	next := int64(-1) // the line a negative span starts at
	total := int64(len(t.lines))
	for _, v := range spans {
		if v >= 0 {
			if v >= total {
				return "", fmt.Errorf("line %d of %d", v, total)
			}
			size += int64(len(t.lines[v])) + 1
			next = v + 1
			continue
		}
		if next < 0 || next-v > total || next-v < 0 {
			return "", errors.New("a span leaves the line table")
		}
		for ; v < 0; v++ {
			size += int64(len(t.lines[next])) + 1
			next++
		}
		if t.textBytes+size > maxTextBytes {
			return "", errTooLarge
		}
	}
	if len(spans) == 0 {
		return "", errors.New("no lines")
	}
	if t.textBytes += size; t.textBytes > maxTextBytes {
		return "", errTooLarge
	}
	var b strings.Builder
	b.Grow(int(size))
	first := true
	put := func(l string) {
		if !first {
			b.WriteByte('\n')
		}
		first = false
		b.WriteString(l)
	}
	for _, v := range spans {
		if v >= 0 {
			put(t.lines[v])
			next = v + 1
			continue
		}
		for ; v < 0; v++ {
			put(t.lines[next])
			next++
		}
	}
	return b.String(), nil
}

// get returns text id and whether there is one; -1 stands for none.
func (t *textTable) get(id int) (string, bool, error) {
	if id == -1 {
		return "", false, nil
	}
	if id < 0 || id >= len(t.texts) {
		return "", false, fmt.Errorf("text %d of %d", id, len(t.texts))
	}
	return t.texts[id], true, nil
}

func (t *textTable) getOrigins(id int) ([]int32, error) {
	if id == -1 {
		return nil, nil
	}
	if id < 0 || id >= len(t.origins) {
		return nil, fmt.Errorf("origins %d of %d", id, len(t.origins))
	}
	return t.origins[id], nil
}

// jsonLine is a line of text in JSON: a string, or {"base64": "…"} where the bytes are not UTF-8.
type jsonLine string

type base64Line struct {
	Base64 string `json:"base64"`
}

// UnmarshalJSON reads either form.
func (l *jsonLine) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var b base64Line
		if err := json.Unmarshal(data, &b); err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(b.Base64)
		if err != nil {
			return err
		}
		*l = jsonLine(raw)
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*l = jsonLine(s)
	return nil
}

// appendJSONLine writes a line in the form jsonLine reads. It exists because lines are most of what
// is written and encoding/json spends several times as long on them.
func appendJSONLine(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		b = append(b, `{"base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, []byte(s))
		return append(b, `"}`...)
	}
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendInts(b []byte, v []int64) []byte {
	b = append(b, '[')
	for i, n := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, ']')
}

// appendTables writes what the store gained since lines, texts and origins, each as a member preceded
// by sep, and leaves out a member that gained nothing. between separates the elements.
func (s *textStore) appendTables(b []byte, lines, texts, origins int, sep, between string) []byte {
	open := func(name string) {
		b = append(b, sep...)
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":[`...)
		b = append(b, between...)
	}
	comma := func(i int) {
		if i > 0 {
			b = append(b, ',')
			b = append(b, between...)
		}
	}
	if texts < len(s.texts) {
		open("texts")
		for i, t := range s.texts[texts:] {
			comma(i)
			b = append(b, `{"sha256":"`...)
			b = append(b, t.SHA256...)
			b = append(b, `","lines":`...)
			b = appendInts(b, t.Lines)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if origins < len(s.origins) {
		open("origins")
		for i, o := range s.origins[origins:] {
			comma(i)
			b = appendInts(b, o)
		}
		b = append(b, ']')
	}
	if lines < len(s.lines) {
		open("lines")
		for i, l := range s.lines[lines:] {
			comma(i)
			b = appendJSONLine(b, l)
		}
		b = append(b, ']')
	}
	return b
}
