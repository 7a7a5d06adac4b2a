package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lowertrace/internal/render"
	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// openRun opens what a RUN argument names.
func (d *Deps) openRun(arg, traceDir string) (*trace.Run, error) {
	run, err := trace.Open(arg, trace.OpenOptions{TraceDir: traceDir, DiffStat: textdiff.Stat})
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, Usagef("%s: no such run", arg)
		}
		return nil, Usagef("%v", err)
	}
	for _, n := range run.Notes {
		d.notef("%s: %s", arg, n)
	}
	return run, nil
}

// lastTwo are the two newest runs below a trace directory, older first.
func lastTwo(traceDir string) ([]string, error) {
	runs, err := listRuns(traceDir)
	if err != nil {
		return nil, err
	}
	var a, b *trace.RunInfo // b is the newest
	for i := range runs {
		r := &runs[i]
		switch {
		case r.Problem != "":
		case b == nil || newer(r, b):
			a, b = b, r
		case a == nil || newer(r, a):
			a = r
		}
	}
	if a == nil {
		return nil, Usagef("%s holds fewer than two runs to compare", traceDir)
	}
	return []string{a.Dir, b.Dir}, nil
}

func newer(a, b *trace.RunInfo) bool {
	if !a.Started.Equal(b.Started) {
		return a.Started.After(b.Started)
	}
	return filepath.Base(a.Dir) > filepath.Base(b.Dir)
}

// Diff compares two runs, or two text files. It fails with ExitFailed when they
// differ.
func Diff(d *Deps, o DiffOptions) error {
	names := o.Runs
	if len(names) == 0 {
		var err error
		if names, err = lastTwo(o.TraceDir); err != nil {
			return err
		}
	}
	text := [2]bool{isText(names[0]), isText(names[1])}
	switch {
	case text[0] && text[1]:
		return d.paged(func(d *Deps) error { return d.diffTexts(names, o) })
	case text[0] || text[1]:
		return d.paged(func(d *Deps) error { return d.diffTextAndRun(names, text[0], o) })
	}
	var runs [2]*trace.Run
	for i, n := range names {
		var err error
		if runs[i], err = d.openRun(n, o.TraceDir); err != nil {
			return err
		}
	}
	var res *resourceDiff
	if o.Resources || o.PTX {
		var err error
		if res, err = d.diffResources(runs, names, o); err != nil {
			return err
		}
	}
	al := align(resumedFrom(runs[0], runs[1]), resumedFrom(runs[1], runs[0]))
	return d.paged(func(d *Deps) error { return d.diffRuns(al, res, o) })
}

// align aligns two runs in one form.
func align(a, b *trace.Run) *trace.Alignment {
	return trace.Align(sameForm(withSkipped(a), withSkipped(b)))
}

// withSkipped gives the records of passes that were skipped the text that they
// left as it was, so that what a pass did is compared with that.
func withSkipped(run *trace.Run) *trace.Run {
	out := *run
	out.Records = slices.Clone(run.Records)
	next := -1 // the next record on the way that has a text before it
	for i := len(out.Records) - 1; i >= 0; i-- {
		r := &out.Records[i]
		switch {
		case r.Depth > 0:
		case r.HasBefore:
			next = i
		case r.Status == trace.Skipped && !r.HasAfter && next >= 0:
			text, origins := out.Records[next].BeforeText, out.Records[next].BeforeOrigins
			r.HasBefore, r.BeforeText, r.BeforeOrigins = true, text, origins
			r.HasAfter, r.AfterText, r.AfterOrigins = true, text, origins
		}
	}
	return &out
}

// sameForm brings the texts of two tools into one form: other tracers print a
// function that stands alone as a module around it, and no last line feed. Runs
// of one tool stay as they are.
func sameForm(a, b *trace.Run) (*trace.Run, *trace.Run) {
	if (a.Foreign == "") == (b.Foreign == "") {
		return a, b
	}
	return aloneForm(a), aloneForm(b)
}

// What stands above the only function of a module, and above a function that
// stands alone.
var (
	moduleHead = regexp.MustCompile(`\A# from tvm\.script import ir as I\n(# from tvm\.script import (?:tirx|tir) as T\n)\n@I\.ir_module\nclass Module:\n`)
	moduleFunc = regexp.MustCompile(`(?m)^    def `)
)

func aloneForm(run *trace.Run) *trace.Run {
	out := *run
	out.Records = slices.Clone(run.Records)
	seen := map[string]string{}
	alone := func(text string) string {
		if s, ok := seen[text]; ok {
			return s
		}
		s := text
		if m := moduleHead.FindStringSubmatchIndex(text); m != nil && len(moduleFunc.FindAllStringIndex(text, 2)) == 1 {
			var b strings.Builder
			b.WriteString(text[m[2]:m[3]])
			b.WriteByte('\n')
			for _, line := range strings.SplitAfter(text[m[1]:], "\n") {
				b.WriteString(strings.TrimPrefix(line, "    "))
			}
			s = b.String()
		}
		if s != "" && !strings.HasSuffix(s, "\n") {
			s += "\n"
		}
		seen[text] = s
		return s
	}
	for i := range out.Records {
		r := &out.Records[i]
		r.BeforeText, r.AfterText = alone(r.BeforeText), alone(r.AfterText)
	}
	return &out
}

func (o DiffOptions) render() render.DiffOptions {
	return render.DiffOptions{Context: o.Context, Host: o.Host, WordDiff: o.WordDiff, IgnoreSpace: o.IgnoreSpace, IgnoreRenames: o.IgnoreRenames}
}

// diffRuns shows two aligned runs, and what their code uses where that was
// asked for.
func (d *Deps) diffRuns(al *trace.Alignment, res *resourceDiff, o DiffOptions) error {
	co := render.CompareOptions{All: o.All, Stat: o.Stat, NameOnly: o.NameOnly, Pass: o.Pass}
	if o.HTML != "" {
		if err := writeFile(o.HTML, func(f *os.File) error { return render.WriteCompareReport(f, al) }); err != nil {
			return err
		}
		d.notef("wrote %s", o.HTML)
	}
	if o.JSON {
		c, err := render.NewComparison(al, co, o.render())
		if err != nil {
			return Usagef("%v", err)
		}
		doc := struct {
			*render.Comparison
			*resourceDiff
		}{c, res}
		if err := writeJSON(d.Stdout, doc); err != nil {
			return err
		}
	} else {
		t := d.terminal(o.render())
		if err := t.Compare(al, co); err != nil && t.Err() == nil {
			return Usagef("%v", err)
		}
		if err := outputError(t.Err()); err != nil {
			return err
		}
		if err := outputError(res.tell(d, o)); err != nil {
			return err
		}
	}
	if !al.Equal() {
		return reported(ExitFailed)
	}
	return nil
}

// isText reports whether an argument of diff is a text to be compared as such:
// a file that is no trace.
func isText(arg string) bool {
	st, err := os.Stat(arg)
	if err != nil || st.IsDir() {
		return false
	}
	switch filepath.Ext(arg) {
	case ".json", ".ndjson", ".html":
		return false
	}
	return true
}

// textPair is two texts to compare, with names for them.
type textPair struct{ from, to, before, after string }

// diffTexts compares two files.
func (d *Deps) diffTexts(names []string, o DiffOptions) error {
	if o.Pass != "" || o.HTML != "" {
		return Usagef("--pass and --html compare runs, %s and %s are text files", names[0], names[1])
	}
	p := textPair{from: names[0], to: names[1]}
	var err error
	if p.before, err = readFile(names[0]); err != nil {
		return openError(names[0], err)
	}
	if p.after, err = readFile(names[1]); err != nil {
		return openError(names[1], err)
	}
	return d.diffPair(p, o)
}

// diffTextAndRun compares a file with what a run has: the text after --pass, or
// else the generated code.
func (d *Deps) diffTextAndRun(names []string, textFirst bool, o DiffOptions) error {
	file, arg := names[1], names[0]
	if textFirst {
		file, arg = arg, file
	}
	if o.HTML != "" {
		return Usagef("--html compares two runs, %s is a text file", file)
	}
	run, err := d.openRun(arg, o.TraceDir)
	if err != nil {
		return err
	}
	var rec *trace.LowerRecord
	if o.Pass != "" {
		i, err := findRecord(run, o.Pass)
		if err != nil {
			return err
		}
		rec = &run.Records[i]
	} else {
		if ext := filepath.Ext(file); ext == ".tir" {
			return Usagef("%s is compared with the text after a pass: say which with --pass", file)
		}
		for i := range run.Records {
			if run.Records[i].Status == trace.Codegen {
				rec = &run.Records[i]
			}
		}
		if rec == nil {
			return Usagef("%s has no generated code; --pass compares with the text after a pass", arg)
		}
	}
	if !rec.HasAfter {
		return Usagef("the text after %s was not recorded", rec.Name)
	}
	text, err := readFile(file)
	if err != nil {
		return openError(file, err)
	}
	p := textPair{from: file, to: fmt.Sprintf("%s/%02d_%s_after", runName(run), rec.Index, rec.Name), before: text, after: rec.AfterText}
	if run.Foreign != "" { // its texts have no last line feed
		p.after += "\n"
	}
	if !textFirst {
		p.from, p.to, p.before, p.after = p.to, p.from, p.after, p.before
	}
	return d.diffPair(p, o)
}

// diffPair shows how two texts differ.
func (d *Deps) diffPair(p textPair, o DiffOptions) error {
	diff := textdiff.Compute(p.before, p.after, textdiff.Options{IgnoreSpace: o.IgnoreSpace, IgnoreRenames: o.IgnoreRenames})
	add, del := diff.Stat()
	equal := add+del == 0
	switch {
	case o.JSON:
		doc := struct {
			Schema int    `json:"schema_version"`
			A      string `json:"a"`
			B      string `json:"b"`
			Equal  bool   `json:"equal"`
			Add    int    `json:"add_lines"`
			Del    int    `json:"del_lines"`
			Diff   string `json:"diff,omitempty"`
		}{1, p.from, p.to, equal, add, del, ""}
		if !o.Stat && !o.NameOnly {
			var b strings.Builder
			if err := diff.WriteUnified(&b, p.from, p.to, o.Context); err != nil {
				return err
			}
			doc.Diff = b.String()
		}
		if err := writeJSON(d.Stdout, doc); err != nil {
			return err
		}
	case equal:
		if _, err := fmt.Fprintln(d.Stdout, "no difference"); err != nil {
			return outputError(err)
		}
	case o.NameOnly:
		if _, err := fmt.Fprintln(d.Stdout, render.EscapeLine(p.to)); err != nil {
			return outputError(err)
		}
	case o.Stat:
		if _, err := fmt.Fprintf(d.Stdout, "%s → %s  +%d -%d\n", render.EscapeLine(p.from), render.EscapeLine(p.to), add, del); err != nil {
			return outputError(err)
		}
	default:
		t := d.terminal(o.render())
		t.Diff(p.from, p.to, p.before, p.after)
		if err := outputError(t.Err()); err != nil {
			return err
		}
	}
	if !equal {
		return reported(ExitFailed)
	}
	return nil
}
