package driver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"lowertrace/internal/render"
	"lowertrace/internal/trace"
)

// ShowOptions are what `show` was asked for.
type ShowOptions struct {
	Run, Pass     string // Pass: a record number, NAME, or NAME#k; "" lists the passes
	TraceDir      string
	Before, After bool // print that text alone
	Line          int  // follow this line of the source through the passes; 0: none
	Var           string
	Loose         bool // with Var: x stands for x_1, x_2, … as well
	Timing        bool // list the times by pass
	Context       int
	Host          bool
	JSON          bool
}

// ListOptions are what `list` was asked for.
type ListOptions struct {
	Dir  string // a trace directory or a script directory
	JSON bool
}

// PruneOptions are what `prune` was asked for.
type PruneOptions struct {
	Dir  string
	Keep int
}

// Show lists a run's passes, prints one record, or follows a name or a line.
func Show(d *Deps, o ShowOptions) error {
	switch {
	case o.Line < 0:
		return Usagef("--line %d: lines count from 1", o.Line)
	case o.Pass != "" && (o.Line > 0 || o.Var != "" || o.Timing):
		return Usagef("--line, --var and --timing are about the whole run: no PASS beside them")
	case o.Pass == "" && (o.Before || o.After):
		return Usagef("--before and --after need a PASS")
	}
	run, err := d.openRun(o.Run, o.TraceDir)
	if err != nil {
		return err
	}
	return d.paged(func(d *Deps) error { return d.show(run, o) })
}

func (d *Deps) show(run *trace.Run, o ShowOptions) error {
	switch {
	case o.Line > 0 || o.Var != "":
		return d.follow(run, o)
	case o.Timing && o.JSON:
		return writeJSON(d.Stdout, struct {
			Schema int         `json:"schema_version"`
			Passes []timingDoc `json:"passes"`
		}{1, timingDocs(run)})
	case o.Timing:
		t := d.terminal(render.DiffOptions{})
		t.WriteTiming(run.Records)
		return t.Err()
	case o.Pass == "" && o.JSON:
		return writeRunJSON(d.Stdout, run)
	case o.Pass == "":
		return d.listPasses(run)
	}
	i, err := findRecord(run, o.Pass)
	if err != nil {
		return err
	}
	rec := run.Records[i]
	switch {
	case o.JSON:
		return writeJSON(d.Stdout, struct {
			Schema int `json:"record_schema_version"`
			trace.LowerRecord
			Before string `json:"before"`
			After  string `json:"after"`
		}{1, rec, rec.BeforeText, rec.AfterText})
	case o.Before:
		return d.printText(rec.BeforeText, rec.HasBefore, "before", rec.Name)
	case o.After:
		return d.printText(rec.AfterText, rec.HasAfter, "after", rec.Name)
	}
	t := d.terminal(render.DiffOptions{Context: o.Context, Host: o.Host})
	rec.Depth, rec.ParentIndex = 0, trace.NoParent // alone, it has no pass around it
	t.Record(rec)
	t.Flush()
	return t.Err()
}

// follow shows what became of a line of the source or of a name.
func (d *Deps) follow(run *trace.Run, o ShowOptions) error {
	var f *render.Followed
	var err error
	if o.Line > 0 {
		f, err = render.FollowLine(run, o.Line)
	} else {
		f, err = render.FollowName(run, o.Var, o.Loose)
	}
	if err != nil {
		return Usagef("%v", err)
	}
	if o.Var != "" && len(f.Steps) == 0 {
		return Usagef("%s occurs nowhere in the run", o.Var)
	}
	if o.JSON {
		return writeJSON(d.Stdout, struct {
			Schema int `json:"schema_version"`
			*render.Followed
		}{1, f})
	}
	t := d.terminal(render.DiffOptions{Host: o.Host})
	t.Follow(f)
	return t.Err()
}

// timingDoc is the time of all runs of one pass.
type timingDoc struct {
	Name  string  `json:"name"`
	Runs  int     `json:"runs"`
	Total float64 `json:"total_ms"` // inclusive
	Self  float64 `json:"self_ms"`
	Share float64 `json:"share"` // of the run's time, by self time, 0 to 1
}

func timingDocs(run *trace.Run) []timingDoc {
	docs := []timingDoc{}
	ms := func(t time.Duration) float64 { return float64(t.Microseconds()) / 1000 }
	for _, r := range render.Timing(run.Records) {
		docs = append(docs, timingDoc{r.Name, r.Runs, ms(r.Total), ms(r.Self), r.Share})
	}
	return docs
}

func (d *Deps) printText(text string, has bool, which, pass string) error {
	if !has {
		return Usagef("the text %s %s was not recorded", which, pass)
	}
	_, err := io.WriteString(d.Stdout, text)
	return err
}

func (d *Deps) listPasses(run *trace.Run) error {
	w := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	phase := ""
	for i := range run.Records {
		r := &run.Records[i]
		if r.Phase != phase {
			phase = r.Phase
			fmt.Fprintf(w, "%s\n", render.EscapeLine(phase))
		}
		changes := ""
		if r.Changed {
			changes = fmt.Sprintf("+%d −%d", r.AddLines, r.DelLines)
		}
		took := ""
		if r.Duration > 0 { // other tracers keep no times
			took = render.FormatDuration(r.Duration)
		}
		fmt.Fprintf(w, "%4d  %*s%s\t%s\t%s\t%s\n", r.Index, 2*r.Depth, "", render.EscapeLine(recordLabel(run, i)), render.Tag(r), changes, took)
	}
	return w.Flush()
}

// recordLabel is NAME, or NAME#k when the run has several at depth 0.
func recordLabel(run *trace.Run, i int) string {
	r := &run.Records[i]
	total := 0
	for j := range run.Records {
		if s := &run.Records[j]; s.Depth == 0 && s.Name == r.Name && s.Phase == r.Phase {
			total++
		}
	}
	if r.Depth != 0 || total < 2 {
		return r.Name
	}
	return fmt.Sprintf("%s#%d", r.Name, trace.Occurrence(run.Records, i))
}

// findRecord is the position of the record that a number, a label or an
// unambiguous name stands for.
func findRecord(run *trace.Run, name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil {
		return recordNumbered(run, n)
	}
	var hits []int
	var known []string
	for i := range run.Records {
		label := recordLabel(run, i)
		known = append(known, label)
		if label == name {
			return i, nil
		}
		if run.Records[i].Name == name {
			hits = append(hits, i)
		}
	}
	switch len(hits) {
	case 0:
		return 0, Usagef("the run has no pass %q%s", name, DidYouMean(name, known))
	case 1:
		return hits[0], nil
	}
	var labels []string
	for _, i := range hits {
		labels = append(labels, fmt.Sprintf("%d", run.Records[i].Index))
	}
	return 0, Usagef("%s occurs %d times in the run: say its record number, one of %v", name, len(hits), labels)
}

// recordNumbered is the position of the record with a number.
func recordNumbered(run *trace.Run, n int) (int, error) {
	i := slices.IndexFunc(run.Records, func(r trace.LowerRecord) bool { return r.Index == n })
	if i < 0 {
		return 0, Usagef("the run has no record %d; it has %d records", n, len(run.Records))
	}
	return i, nil
}

// listRuns is trace.List with its errors worded.
func listRuns(dir string) ([]trace.RunInfo, error) {
	runs, err := trace.List(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, noRuns(dir)
	case err != nil:
		return nil, Usagef("%v", err)
	}
	return runs, nil
}

func noRuns(dir string) error {
	return Usagef("%s does not exist: lowertrace run makes it, --trace-dir or TL_LOWER_TRACE_DIR names another", dir)
}

// List lists runs.
func List(d *Deps, o ListOptions) error {
	runs, err := listRuns(o.Dir)
	if err != nil {
		return err
	}
	if o.JSON {
		return writeJSON(d.Stdout, map[string]any{"schema_version": 1, "runs": runs})
	}
	w := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range runs {
		what := fmt.Sprintf("%d of %d changed", r.Changed, r.Records)
		if r.Failed != "" {
			what += ", " + r.Failed + " failed"
		}
		if r.Problem != "" {
			what = r.Problem
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", render.EscapeLine(r.Script), r.ID, r.Target, r.State, render.EscapeLine(what))
	}
	return w.Flush()
}

// Prune removes old runs.
func Prune(d *Deps, o PruneOptions) error {
	if o.Keep < 1 {
		return Usagef("--keep %d: at least one run of each script is kept", o.Keep)
	}
	removed, err := trace.Prune(o.Dir, o.Keep)
	var outErr error
	for _, r := range removed {
		if outErr == nil {
			_, outErr = fmt.Fprintf(d.Stdout, "removed %s\n", r)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(removed) == 0:
		return noRuns(o.Dir)
	case err != nil:
		return Failf("%v", err)
	}
	return outputError(outErr)
}
