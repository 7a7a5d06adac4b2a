package render

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// TerminalOptions say how records are shown as text.
type TerminalOptions struct {
	Color   bool
	Palette Palette
	// Width is the terminal's width in columns. 0 means that the stream is no terminal: our own
	// lines are then folded at DefaultWidth, and no line of a diff is ever cut.
	Width int
	Diff  DiffOptions
	// NoDiffs shows one line for each pass and no diffs.
	NoDiffs bool
	// All shows a line for every pass, unchanged ones too.
	All bool
	// Heading stands at the right end of a run's heading, where the line has room for it.
	Heading string
	// NoErrors leaves out the messages of failed records, where the caller tells them elsewhere on
	// the same screen.
	NoErrors bool
}

// DefaultWidth is the width assumed where none is known.
const DefaultWidth = 80

// MaxTerminalLine is how many bytes of one line are shown on a terminal.
const MaxTerminalLine = 3000

// Terminal shows the records of a run as they arrive. Its methods may be called from several
// goroutines. The first write error is kept and ends the output; see Err.
type Terminal struct {
	mu    sync.Mutex
	p     printer
	o     TerminalOptions
	quiet []trace.LowerRecord // unchanged records not yet shown
	held  []trace.LowerRecord // nested records that wait for the outer one
	gap   bool                // the last thing written was a diff: a blank line follows it
}

// NewTerminal returns a renderer that writes to w.
func NewTerminal(w io.Writer, o TerminalOptions) *Terminal {
	if o.Width > 0 && o.Diff.MaxLine == 0 {
		o.Diff.MaxLine = MaxTerminalLine
	}
	return &Terminal{p: printer{w: w, st: newStyles(o.Color, o.Palette)}, o: o}
}

// Err returns the first error of writing.
func (t *Terminal) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.p.err
}

func (t *Terminal) width() int {
	if t.o.Width > 0 {
		return max(t.o.Width, 20)
	}
	return DefaultWidth
}

// Start writes the heading of a run.
func (t *Terminal) Start(m trace.Manifest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.p.flush()
	parts := []string{t.p.st.bold.Sprint(EscapeLine(m.Function))}
	if m.Function == "" {
		parts[0] = t.p.st.bold.Sprint(EscapeLine(m.InputName))
	}
	if m.Target != "" {
		parts = append(parts, EscapeLine(m.Target))
	}
	if m.Arch != "" && m.Arch != m.Target {
		parts = append(parts, "compiled for "+EscapeLine(m.Arch))
	}
	if m.InputName != "" && m.Function != "" {
		parts = append(parts, t.p.st.dim.Sprint(EscapeLine(m.InputName)))
	}
	if used := headingWidth(parts); t.o.Heading != "" && used+2+displayWidth(t.o.Heading) <= t.width() {
		pad := t.width() - used - displayWidth(t.o.Heading)
		parts[len(parts)-1] += strings.Repeat(" ", pad) + t.p.st.dim.Sprint(EscapeLine(t.o.Heading))
	}
	t.joined("", 2, parts)
	if n := len(m.PassConfig); n > 0 {
		items := make([]string, n)
		for i, o := range m.PassConfig {
			items[i] = EscapeLine(o.Name + "=" + o.Value)
		}
		t.labelled("pass config", strings.Join(items, ", "))
	}
	t.p.print("\n")
}

// headingWidth is the width of parts with dots between them.
func headingWidth(parts []string) int {
	w := 3 * (len(parts) - 1)
	for _, p := range parts {
		w += displayWidth(stripStyles(p))
	}
	return w
}

// Record shows one record. Records that ran inside another wait for it, so that the outer one comes
// first; unchanged ones are gathered and shown as one line before the next that has something to
// say.
func (t *Terminal) Record(r trace.LowerRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.p.flush()
	if r.Depth > 0 {
		t.held = append(t.held, r)
		return
	}
	t.show(r)
	held := t.held
	t.held = nil
	sort.SliceStable(held, func(i, j int) bool { return held[i].Index < held[j].Index })
	for _, h := range held {
		t.show(h)
	}
}

func (t *Terminal) show(r trace.LowerRecord) {
	if Tag(&r) == TagNoOp && len(r.Remarks) == 0 && !t.o.All {
		t.quiet = append(t.quiet, r)
		return
	}
	t.flushQuiet()
	t.afterDiff()
	t.head(&r)
	t.remarks(&r)
	if r.ErrorMsg != "" && !(t.o.NoErrors && r.Status == trace.Failed) {
		t.message(&r)
	}
	if t.o.NoDiffs || !r.HasBefore || !r.HasAfter || !r.Changed {
		return
	}
	if r.Status == trace.Codegen {
		// IR against CUDA is all deletions and additions. The generated code is a file of its own.
		t.p.print("      ", t.p.st.dim.Sprintf("%s of IR became %s of CUDA",
			lineCount(r.BeforeText), lineCount(r.AfterText)), "\n")
		return
	}
	t.p.diff(r.BeforeText, r.AfterText, t.o.Diff)
	t.gap = true
}

// afterDiff sets the next record off from a diff above it.
func (t *Terminal) afterDiff() {
	if t.gap {
		t.p.print("\n")
	}
	t.gap = false
}

func lineCount(text string) string {
	n := countLines(text)
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// nameWidth is the column the tag stands in, counted from the name; longer names push it.
const nameWidth = 28

// head writes a record's line: number, name, tag, changed lines, time.
func (t *Terminal) head(r *trace.LowerRecord) {
	st := t.p.st
	tag := Tag(r)
	name := EscapeLine(r.Name)
	if r.Depth > 0 {
		name = strings.Repeat("  ", min(r.Depth, 8)-1) + "└ " + name
	}
	pad := max(nameWidth-displayWidth(name), 1)
	tagPad := strings.Repeat(" ", len(TagChanged)-len(tag))
	nameStyle := st.bold
	if tag == TagNoOp || tag == TagSkipped {
		nameStyle = st.dim
	}
	stat := ""
	if r.AddLines+r.DelLines > 0 {
		stat = fmt.Sprintf("+%d -%d", r.AddLines, r.DelLines)
	}
	line := fmt.Sprintf("%4d  %s%*s%s", r.Index, nameStyle.Sprint(name), pad, "", st.status[tag].Sprint(tag))
	if stat != "" || r.Duration > 0 {
		line += tagPad + fmt.Sprintf("%*s", max(12-len(stat), 1), "")
	}
	if stat != "" {
		line += st.add.Sprintf("+%d", r.AddLines) + " " + st.del.Sprintf("-%d", r.DelLines)
	}
	if r.Duration > 0 {
		line += st.dim.Sprintf("%11s", FormatDuration(r.Duration))
	}
	t.p.print(strings.TrimRight(line, " "), "\n")
}

func displayWidth(s string) int { return utf8.RuneCountInString(s) }

// FormatDuration writes a time in the unit that fits it, with at most three digits that matter.
func FormatDuration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 ms"
	case d < 50*time.Microsecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func (t *Terminal) remarks(r *trace.LowerRecord) {
	for _, m := range r.Remarks {
		text := EscapeLine(m.Text)
		if place := RemarkPlace(m); place != "" {
			text = EscapeLine(place) + ": " + text
		}
		t.wrapped("      "+t.p.st.remark.Sprint("remark")+"  ", 14, text)
	}
}

// RemarkPlace writes where a remark belongs, as file:line:column as far as known.
func RemarkPlace(m trace.Remark) string {
	s := m.File
	if m.Line > 0 {
		s += fmt.Sprintf(":%d", m.Line)
		if m.Col > 0 {
			s += fmt.Sprintf(":%d", m.Col)
		}
	}
	return strings.TrimPrefix(s, ":")
}

func (t *Terminal) message(r *trace.LowerRecord) {
	label, style := "error", t.p.st.status[TagFailed]
	if r.Status == trace.Skipped {
		label, style = "reason", t.p.st.dim
	}
	lines := strings.Split(strings.TrimRight(Escape(r.ErrorMsg), "\n"), "\n")
	t.wrapped("      "+style.Sprint(label)+strings.Repeat(" ", 8-len(label)), 14, lines[0])
	for _, s := range lines[1:] {
		// Further lines are a diagnostic's source and caret: they keep their shape.
		t.p.print("      ", s, "\n")
	}
}

// flushQuiet writes the gathered unchanged records as one line.
func (t *Terminal) flushQuiet() {
	q := t.quiet
	t.quiet = nil
	if len(q) == 0 {
		return
	}
	t.afterDiff()
	sort.SliceStable(q, func(i, j int) bool { return q[i].Index < q[j].Index })
	numbers := fmt.Sprint(q[0].Index)
	if last := q[len(q)-1].Index; last != q[0].Index {
		numbers += fmt.Sprintf("–%d", last)
	}
	names := make([]string, 0, len(q))
	for i := 0; i < len(q); {
		j := i
		for j < len(q) && q[j].Name == q[i].Name {
			j++
		}
		name := EscapeLine(q[i].Name)
		if j-i > 1 {
			name += fmt.Sprintf(" ×%d", j-i)
		}
		names = append(names, name)
		i = j
	}
	head := fmt.Sprintf("%4s  no effect: ", numbers)
	t.wrappedStyle(t.p.st.dim.Sprint(head), displayWidth(head), 6, strings.Join(names, ", "), t.p.st.dim.Sprint)
}

// wrapped writes text behind a head that is headWidth columns wide, folded at the width, with
// continuation lines indented to where the text began.
func (t *Terminal) wrapped(head string, headWidth int, text string) {
	t.wrappedStyle(head, headWidth, headWidth, text, fmt.Sprint)
}

func (t *Terminal) wrappedStyle(head string, headWidth, hang int, text string, style func(...any) string) {
	t.p.print(head)
	if !strings.Contains(text, "\n") && headWidth+displayWidth(text) <= t.width() {
		t.p.print(style(text), "\n")
		return
	}
	col := headWidth
	for i, word := range strings.Fields(text) {
		w := displayWidth(word)
		switch {
		case i == 0:
		case col+1+w > t.width() && col > hang:
			t.p.print("\n", strings.Repeat(" ", hang))
			col = hang
		default:
			t.p.print(" ")
			col++
		}
		t.p.print(style(word))
		col += w
	}
	t.p.print("\n")
}

// Summary is what the end of a run tells beside its records.
type Summary struct {
	Lowering  time.Duration // 0: the sum of the outer passes' times
	Recording time.Duration // time spent on recording; 0 leaves it out
	// Lines are printed below the counts, a label and a text each: the working copy and what
	// became of it, where the report is, what to run next.
	Lines []SummaryLine
	// Slowest is how many of the slowest passes are named; 0 names none.
	Slowest int
}

// SummaryLine is one labelled line of a summary.
type SummaryLine struct{ Label, Text string }

// Flush shows the records that are still held back: the last unchanged ones, and nested ones whose
// outer pass never ended.
func (t *Terminal) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.p.flush()
	t.release()
}

func (t *Terminal) release() {
	held := t.held
	t.held = nil
	for _, h := range held {
		t.show(h)
	}
	t.flushQuiet()
}

// Diff writes one change as a unified diff with its file names, which patch accepts.
func (t *Terminal) Diff(from, to, before, after string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.p.flush()
	v := visibleHunks(textdiff.Compute(before, after, t.o.Diff.equality()), t.o.Diff)
	if len(v.hunks) > 0 {
		t.p.print(t.p.st.del.Sprint("--- "+EscapeLine(from)), "\n", t.p.st.add.Sprint("+++ "+EscapeLine(to)), "\n")
	}
	t.p.shown(v, t.o.Diff)
}

// Finish shows what is still held back, and the summary.
func (t *Terminal) Finish(run *trace.Run, s Summary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.p.flush()
	t.release()
	st := t.p.st
	t.p.print("\n")

	c := Count(run.Records)
	parts := []string{fmt.Sprintf("%d of %d passes changed the IR", c.Changed, c.Passes)}
	if c.Failed > 0 {
		parts = append(parts, st.status[TagFailed].Sprintf("%d failed", c.Failed))
	}
	if c.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", c.Skipped))
	}
	if s.Lowering == 0 {
		s.Lowering = c.Time
	}
	if s.Lowering > 0 {
		text := FormatDuration(s.Lowering) + " lowering"
		if s.Recording > 0 {
			text += ", " + FormatDuration(s.Recording) + " recording"
		}
		parts = append(parts, text)
	}
	if c.CUDALines > 0 {
		parts = append(parts, fmt.Sprintf("CUDA %d lines", c.CUDALines))
	}
	t.joined("", 2, parts)
	if run.State == trace.StateInterrupted {
		t.labelled("state", "interrupted: the passes above are all that finished")
	}
	if s.Slowest > 0 && c.Time > 0 {
		items := []string{}
		for _, row := range Timing(run.Records)[:min(s.Slowest, len(c.names))] {
			items = append(items, fmt.Sprintf("%s %s", EscapeLine(row.Name), FormatDuration(row.Self)))
		}
		t.joined(t.label("slowest"), 14, items)
	}
	for _, l := range s.Lines {
		t.labelled(l.Label, l.Text)
	}
}

func (t *Terminal) labelled(label, text string) {
	head := t.label(label)
	if displayWidth(label) > 13 { // too long to stand before a column
		head = t.p.st.bold.Sprint(label) + "\n" + strings.Repeat(" ", 14)
	}
	t.wrapped(head, 14, EscapeLine(text))
}

func (t *Terminal) label(s string) string {
	return t.p.st.bold.Sprint(s) + strings.Repeat(" ", max(14-displayWidth(s), 1))
}

// joined writes parts with dots between them, starting a new line, indented by hang, before a part
// that does not fit.
func (t *Terminal) joined(head string, hang int, parts []string) {
	col := displayWidth(stripStyles(head))
	t.p.print(head)
	for i, s := range parts {
		w := displayWidth(stripStyles(s))
		switch {
		case i == 0:
		case col+3+w > t.width():
			t.p.print("\n", strings.Repeat(" ", hang))
			col = hang
		default:
			t.p.print(" · ")
			col += 3
		}
		t.p.print(s)
		col += w
	}
	t.p.print("\n")
}

// stripStyles removes the escape sequences that our own styles put around a text.
func stripStyles(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			return b.String() + s
		}
		b.WriteString(s[:i])
		j := strings.IndexByte(s[i:], 'm')
		if j < 0 {
			return b.String()
		}
		s = s[i+j+1:]
	}
}

// Observer returns the callbacks that feed this renderer from a recorder. The caller writes the
// summary itself, since it knows more than the recorder does.
func (t *Terminal) Observer() trace.Observer {
	return trace.Observer{Ended: t.Record}
}
