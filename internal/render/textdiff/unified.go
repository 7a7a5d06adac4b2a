package textdiff

import (
	"fmt"
	"io"
	"strings"

	"github.com/hexops/gotextdiff"
)

// Hunks groups the changes with up to context equal lines around each, as gotextdiff's values.
// Groups whose context would touch are one hunk. Line numbers count from 1; a hunk with nothing on
// one side carries there the number of the line before it, as unified diffs do.
func (d *Diff) Hunks(context int) []*gotextdiff.Hunk {
	context = max(context, 0)
	var hunks []*gotextdiff.Hunk
	for i := 0; i < len(d.Ops); {
		j := i + 1
		for j < len(d.Ops) && d.Ops[j].A0-d.Ops[j-1].A1 <= 2*context {
			j++
		}
		hunks = append(hunks, d.hunk(d.Ops[i:j], context))
		i = j
	}
	return hunks
}

func (d *Diff) hunk(ops []Op, context int) *gotextdiff.Hunk {
	first, last := ops[0], ops[len(ops)-1]
	lead := min(context, first.A0)
	tail := min(context, len(d.A)-last.A1)
	h := &gotextdiff.Hunk{FromLine: first.A0 - lead + 1, ToLine: first.B0 - lead + 1}
	if last.A1+tail == first.A0-lead {
		h.FromLine--
	}
	if last.B1+tail == first.B0-lead {
		h.ToLine--
	}
	add := func(kind gotextdiff.OpKind, lines []string) {
		for _, s := range lines {
			h.Lines = append(h.Lines, gotextdiff.Line{Kind: kind, Content: s})
		}
	}
	// Equal lines are shown as they stand before: patch compares them with its input.
	at := first.A0 - lead
	for _, op := range ops {
		add(gotextdiff.Equal, d.A[at:op.A0])
		add(gotextdiff.Delete, d.A[op.A0:op.A1])
		add(gotextdiff.Insert, d.B[op.B0:op.B1])
		at = op.A1
	}
	add(gotextdiff.Equal, d.A[at:at+tail])
	return h
}

// Sides counts a hunk's lines before and after.
func Sides(h *gotextdiff.Hunk) (from, to int) {
	for _, l := range h.Lines {
		if l.Kind != gotextdiff.Insert {
			from++
		}
		if l.Kind != gotextdiff.Delete {
			to++
		}
	}
	return from, to
}

// Header returns a hunk's line "@@ -a,b +c,d @@", with counts of one left out.
func Header(h *gotextdiff.Hunk) string {
	from, to := Sides(h)
	side := func(line, n int) string {
		if n == 1 {
			return fmt.Sprint(line)
		}
		return fmt.Sprintf("%d,%d", line, n)
	}
	return "@@ -" + side(h.FromLine, from) + " +" + side(h.ToLine, to) + " @@"
}

// NoNewline is the line that follows, in a unified diff, a last line without a line end.
const NoNewline = `\ No newline at end of file`

// WriteUnified writes a unified diff with that many lines of context. It writes nothing for equal
// texts. The names go into the --- and +++ lines; line ends in them become blanks.
func (d *Diff) WriteUnified(w io.Writer, from, to string, context int) error {
	hunks := d.Hunks(context)
	if len(hunks) == 0 {
		return nil
	}
	u := gotextdiff.Unified{From: headerName(from), To: headerName(to), Hunks: hunks}
	if !hasEmptySide(hunks) {
		_, err := fmt.Fprint(w, u)
		return err
	}
	// gotextdiff writes an empty side as one line, which patch refuses.
	ew := &errWriter{w: w}
	ew.print("--- ", u.From, "\n+++ ", u.To, "\n")
	for _, h := range hunks {
		ew.print(Header(h), "\n")
		for _, l := range h.Lines {
			ew.print(string(Sign(l.Kind)), l.Content)
			if !strings.HasSuffix(l.Content, "\n") {
				ew.print("\n", NoNewline, "\n")
			}
		}
	}
	return ew.err
}

// Unified returns the unified diff of two texts.
func Unified(from, to, before, after string, context int) string {
	var b strings.Builder
	Compute(before, after, Options{}).WriteUnified(&b, from, to, context)
	return b.String()
}

// Sign is the character before a line of a unified diff.
func Sign(k gotextdiff.OpKind) byte {
	switch k {
	case gotextdiff.Delete:
		return '-'
	case gotextdiff.Insert:
		return '+'
	}
	return ' '
}

func hasEmptySide(hunks []*gotextdiff.Hunk) bool {
	for _, h := range hunks {
		if from, to := Sides(h); from == 0 || to == 0 {
			return true
		}
	}
	return false
}

var nameCleaner = strings.NewReplacer("\n", " ", "\r", " ")

func headerName(s string) string { return nameCleaner.Replace(s) }

// errWriter keeps the first error and drops what comes after it.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) print(parts ...string) {
	for _, s := range parts {
		if e.err == nil {
			_, e.err = io.WriteString(e.w, s)
		}
	}
}

// Apply returns the text that a diff's changes make of before. It is the inverse of Compute, and
// exists for checking.
func (d *Diff) Apply() string {
	var b strings.Builder
	at := 0
	for _, op := range d.Ops {
		for _, s := range d.A[at:op.A0] {
			b.WriteString(s)
		}
		for _, s := range d.B[op.B0:op.B1] {
			b.WriteString(s)
		}
		at = op.A1
	}
	for _, s := range d.A[at:] {
		b.WriteString(s)
	}
	return b.String()
}
