package render

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// FollowStep is one state in which what is followed stands differently than before.
type FollowStep struct {
	Index int    `json:"index"` // of the record that left the state; of the first one for the input
	Pass  string `json:"pass"`
	What  string `json:"what"`  // FollowInput, FollowAppears, FollowChanges, FollowGone, FollowHost or FollowCUDA
	Lines []int  `json:"lines"` // 1-based lines of the state
	// Text is those lines, without their line ends.
	Text []string `json:"text"`
	// Quiet is how many outer passes before this one left it as it was.
	Quiet int `json:"passes_without_change"`
	// Approximate says that the lines were found by comparing texts, for want of origins.
	Approximate bool `json:"approximate"`
}

// What happened to a name or line in a step.
const (
	FollowInput   = "in the input"
	FollowAppears = "appears"
	FollowChanges = "changes"
	FollowGone    = "gone"
	FollowHost    = "in the host code" // left in the half of the module that is set aside
	FollowCUDA    = "in the CUDA"
)

// Followed is a name or a line through all states of a run.
type Followed struct {
	Title  string       `json:"title"`  // the name, or file:line
	Source []int        `json:"source"` // 1-based lines of the source text, where the run carries it
	Text   []string     `json:"source_text"`
	Steps  []FollowStep `json:"steps"`
	Quiet  int          `json:"passes_without_change"` // after the last step
}

// state is a text on the way from the input to the generated code.
type state struct {
	rec     *trace.LowerRecord // that left it; of the input, the first
	input   bool
	lines   []string
	origins []int32
	aside   *state // what another pass made of the text before it, and set aside
}

// statesOf lists the input and what each outer pass left of it. A pass whose result was set aside,
// so that the next one began with what it had begun with, left nothing on the way.
func statesOf(run *trace.Run) []state {
	var out []state
	var outer []*trace.LowerRecord
	for i := range run.Records {
		if r := &run.Records[i]; r.Depth == 0 && (r.HasBefore || r.HasAfter) {
			outer = append(outer, r)
		}
	}
	var aside *state
	for i, r := range outer {
		if i+1 < len(outer) && r.Changed && outer[i+1].HasBefore && outer[i+1].BeforeText == r.BeforeText && len(out) > 0 {
			aside = &state{rec: r, lines: textdiff.Lines(r.AfterText), origins: r.AfterOrigins}
			continue
		}
		if len(out) == 0 && r.HasBefore {
			out = append(out, state{rec: r, input: true, lines: textdiff.Lines(r.BeforeText), origins: r.BeforeOrigins})
		}
		if !r.HasAfter || !r.HasBefore {
			continue
		}
		s := state{rec: r, origins: r.AfterOrigins}
		if n := len(out); n > 0 && !r.Changed {
			s.lines = out[n-1].lines
			// A sibling that starts from an earlier state may end in that state unchanged.
			if strings.Join(s.lines, "") != r.AfterText {
				s.lines = textdiff.Lines(r.AfterText)
			}
		} else {
			s.lines = textdiff.Lines(r.AfterText)
		}
		if aside != nil && aside.rec.BeforeText == r.BeforeText {
			s.aside = aside
		}
		aside = nil
		out = append(out, s)
	}
	return out
}

var nameSuffix = regexp.MustCompile(`_\d+$`)

// FollowName finds a name in every state. With loose set, x stands for x_1, x_2 and so on as well.
// The name must be one: letters, digits and underscores.
func FollowName(run *trace.Run, name string, loose bool) (*Followed, error) {
	if !isName(name) {
		return nil, fmt.Errorf("%q is not a name", name)
	}
	if loose {
		name = nameSuffix.ReplaceAllString(name, "")
	}
	has := func(s string) bool { return hasName(s, name, loose) }
	f := &Followed{Title: name}
	for i, s := range textdiff.Lines(run.Source) {
		if has(s) {
			f.Source = append(f.Source, i+1)
			f.Text = append(f.Text, strings.TrimRight(s, "\r\n"))
		}
	}
	f.gather(statesOf(run), func(s *state) (at []int) {
		for i, line := range s.lines {
			if has(line) {
				at = append(at, i)
			}
		}
		return at
	}, func(*state) bool { return false })
	return f, nil
}

func isName(s string) bool {
	return s != "" && regexp.MustCompile(`^[A-Za-z_]\w*$`).MatchString(s)
}

// hasName looks for a whole name in a line.
func hasName(s, name string, loose bool) bool {
	word := func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(s[from:], name)
		if i < 0 {
			return false
		}
		i += from
		from = i + 1
		if i > 0 && word(s[i-1]) {
			continue
		}
		rest := s[i+len(name):]
		n := 0
		for n < len(rest) && word(rest[n]) {
			n++
		}
		if n == 0 || loose && nameSuffix.FindString(rest[:n]) == rest[:n] {
			return true
		}
	}
}

// gather turns the lines found in each state into steps. Generated code in which they are found is
// always one; of several texts, one for each function, some may be without them.
func (f *Followed) gather(states []state, find func(*state) []int, guessed func(*state) bool) {
	var last []string
	written := false // found in a text of this generated code
	for i := range states {
		s := &states[i]
		at := find(s)
		text := make([]string, len(at))
		for k, l := range at {
			text[k] = strings.TrimRight(s.lines[l], "\r\n")
		}
		code := !s.input && isCodegen(s.rec)
		written = code && (written || len(at) > 0)
		what := FollowChanges
		switch {
		case s.input:
			what = FollowInput
		case code && len(at) > 0:
			what = FollowCUDA
		case code && (written || i+1 < len(states) && isCodegen(states[i+1].rec)):
			f.Quiet++
			continue
		case len(at) == 0 && s.aside != nil && len(find(s.aside)) > 0:
			what = FollowHost
		case len(at) == 0:
			what = FollowGone
		case len(last) == 0:
			what = FollowAppears
		}
		if what != FollowCUDA && slices.Equal(text, last) {
			if !s.input {
				f.Quiet++
			}
			continue
		}
		step := FollowStep{Index: s.rec.Index, Pass: s.rec.Name, What: what, Lines: []int{}, Text: text, Quiet: f.Quiet, Approximate: guessed(s)}
		for _, l := range at {
			step.Lines = append(step.Lines, l+1)
		}
		f.Steps = append(f.Steps, step)
		f.Quiet = 0
		last = text
	}
}

// FollowLine finds in every state what became of a 1-based line of the source. In a run that
// records no origins it is a line of the input's text, followed from state to state by comparing
// them; such steps are approximate.
func FollowLine(run *trace.Run, line int) (*Followed, error) {
	states := statesOf(run)
	known := false
	for _, s := range states {
		known = known || len(s.origins) > 0
	}
	f := &Followed{Title: fmt.Sprintf("%s:%d", run.InputName, line)}
	if known {
		source := textdiff.Lines(run.Source)
		if line < 1 || run.Source != "" && line > len(source) {
			return nil, fmt.Errorf("%s has no line %d; it has %d lines", run.InputName, line, len(source))
		}
		if run.Source != "" {
			f.Source = []int{line}
			f.Text = []string{strings.TrimRight(source[line-1], "\r\n")}
		}
		f.gather(states, func(s *state) (at []int) {
			for i, o := range s.origins {
				if int(o) == line && i < len(s.lines) {
					at = append(at, i)
				}
			}
			return at
		}, func(*state) bool { return false })
		return f, nil
	}
	if len(states) == 0 || line < 1 || line > len(states[0].lines) {
		n := 0
		if len(states) > 0 {
			n = len(states[0].lines)
		}
		return nil, fmt.Errorf("the input has no line %d; it has %d lines", line, n)
	}
	for i := range states {
		states[i].aside = nil // lines are followed along one way
	}
	at, sure := []int{line - 1}, true
	first := true
	var prev *state
	f.gather(states, func(s *state) []int {
		if !first {
			at, sure = mapLines(prev.lines, s.lines, at, sure)
		}
		first = false
		prev = s
		return at
	}, func(*state) bool { return !sure })
	return f, nil
}

// guessLines bounds the lines that one line without a counterpart is taken to have become.
const guessLines = 24

// mapLines follows lines of a into b. sure stays set while they are found unchanged.
func mapLines(a, b []string, at []int, sure bool) ([]int, bool) {
	if len(at) == 0 {
		return nil, sure
	}
	d := textdiff.Compute(strings.Join(a, ""), strings.Join(b, ""), textdiff.Options{})
	found := map[int]bool{}
	k, shift := 0, 0
	for _, l := range at {
		for k < len(d.Ops) && d.Ops[k].A1 <= l {
			shift = d.Ops[k].B1 - d.Ops[k].A1
			k++
		}
		if k == len(d.Ops) || l < d.Ops[k].A0 {
			found[l+shift] = true
			continue
		}
		sure = false
		op := d.Ops[k]
		lo, hi := inBlock(textdiff.Pair(d.A[op.A0:op.A1], d.B[op.B0:op.B1]), l-op.A0, op.B1-op.B0)
		for j := lo; j < hi; j++ {
			found[op.B0+j] = true
		}
	}
	out := make([]int, 0, len(found))
	for l := range found {
		out = append(out, l)
	}
	sort.Ints(out)
	return out, sure
}

// inBlock says what line i of a deleted block became in the added one of n lines: its partner; else
// what stands between the partners of its neighbours; else the next partner, or the last.
func inBlock(pairs []int, i, n int) (lo, hi int) {
	if pairs[i] >= 0 {
		return pairs[i], pairs[i] + 1
	}
	before, after := -1, n
	for k := i; k >= 0; k-- {
		if pairs[k] >= 0 {
			before = pairs[k]
			break
		}
	}
	for k := i; k < len(pairs); k++ {
		if pairs[k] >= 0 {
			after = pairs[k]
			break
		}
	}
	switch {
	case after-before > 1 && after-before-1 <= guessLines:
		return before + 1, after
	case after-before > 1:
		return 0, 0
	case after < n:
		return after, after + 1
	case before >= 0:
		return before, before + 1
	}
	return 0, 0
}

// Follow writes what became of a name or line.
func (t *Terminal) Follow(f *Followed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.p.flush()
	st := t.p.st
	t.p.print(st.bold.Sprint(EscapeLine(f.Title)), "\n")
	for i, l := range f.Source {
		t.p.printf("%14s  %s\n", st.dim.Sprintf("source %d", l), Escape(f.Text[i]))
	}
	approx := false
	quiet := func(n int) {
		switch {
		case n == 1:
			t.p.print(st.dim.Sprint("      1 pass without a change to it"), "\n")
		case n > 1:
			t.p.print(st.dim.Sprintf("      %d passes without a change to it", n), "\n")
		}
	}
	for _, s := range f.Steps {
		quiet(s.Quiet)
		mark := ""
		if s.Approximate {
			mark, approx = " ≈", true
		}
		name := fmt.Sprintf("%4d  %s", s.Index, EscapeLine(s.Pass))
		if s.What == FollowInput {
			name = "      input"
		}
		t.p.print(st.bold.Sprint(name), "  ", st.remark.Sprint(s.What), mark, "\n")
		for i, l := range s.Lines {
			if i == maxFollowLines && len(s.Lines) > maxFollowLines+1 {
				t.p.print(st.dim.Sprintf("%11s %d more lines", "…", len(s.Lines)-i), "\n")
				break
			}
			t.p.print(st.dim.Sprintf("%10d ", l), " ", Escape(s.Text[i]), "\n")
		}
	}
	if len(f.Steps) == 0 {
		t.p.print("it occurs in no pass\n")
	} else {
		quiet(f.Quiet)
	}
	if approx {
		t.p.print("≈ approximate: the trace has no origins, so texts were compared\n")
	}
}

// maxFollowLines is how many lines of one state are shown; the report shows all.
const maxFollowLines = 12
