package driver

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
	"lowertrace/internal/render"
	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// Options that a resumed run carries in its manifest.
const (
	optFrom       = "from"        // id of the run
	optFromRecord = "from-record" // index of the record whose IR was taken
	optEdited     = "edited"      // the lines of it that a user had edited
)

// resumed is where the IR of a resumed run comes from.
type resumed struct {
	run    *trace.Run
	at     int        // position in run.Records of the record that is run anew first
	source *ir.Source // what run lowered
	edited int        // lines
}

// options are those that say so in the manifest.
func (r *resumed) options() []trace.Option {
	out := []trace.Option{
		{Name: optFrom, Value: runName(r.run)},
		{Name: optFromRecord, Value: strconv.Itoa(r.run.Records[r.at].Index)},
	}
	if r.edited > 0 {
		out = append(out, trace.Option{Name: optEdited, Value: countOf(r.edited, "line")})
	}
	return out
}

func runName(run *trace.Run) string {
	if run.ID != "" {
		return run.ID
	}
	return filepath.Base(run.Dir)
}

// resume lowers the IR that a run recorded before a pass, edited or not, from
// that pass on, with that run's target, pipeline, pass options and skipped
// passes unless flags say otherwise, and shows how the two runs differ.
func (d *Deps) resume(ctx context.Context, o RunOptions) error {
	switch {
	case len(o.Files) > 0:
		return Usagef("--from takes the IR from a run: no FILE beside it")
	case o.Func != "" || len(o.Set) > 0:
		return Usagef("--from takes the kernel as it was recorded: no --func and no --set beside it")
	case o.StartAt == "":
		return Usagef("--from needs --start-at PASS: the pass to go on with")
	}
	run, err := d.openRun(o.From, o.TraceDir)
	if err != nil {
		return err
	}
	if !o.TargetFromFlag && run.Target != "" {
		o.Target = run.Target
	}
	if !o.PipelineFromFlag && run.Pipeline != "" {
		if _, err := pipeline.Lookup(run.Pipeline); err == nil {
			o.Pipeline = run.Pipeline
		}
	}
	var config []string
	for _, c := range run.PassConfig {
		config = append(config, c.Name+"="+c.Value)
	}
	o.PassConfig = append(config, o.PassConfig...)
	for _, op := range run.Options {
		if op.Name == "skip" && len(o.Skip) == 0 {
			o.Skip = strings.Split(op.Value, ",")
		}
	}
	at, label, err := resumePoint(run, o)
	if err != nil {
		return err
	}
	o.StartAt = label
	in, err := d.recordedInput(run, at, &o)
	if err != nil {
		return err
	}
	jobs, err := d.plan(in, o)
	if err != nil {
		return err
	}
	if len(jobs) != 1 {
		return Usagef("--from goes on for one target, got %s", o.Target)
	}
	return d.runJobs(ctx, jobs, o)
}

// resumePoint finds the record that --start-at names, by number or as the
// pipeline names its passes, and its label in the pipeline.
func resumePoint(run *trace.Run, o RunOptions) (at int, label string, err error) {
	pipe, err := pipeline.Lookup(o.Pipeline)
	if err != nil {
		return 0, "", usageName(err)
	}
	rows := pipe.Rows()
	labels := rowLabels(run, rows, o)
	if n, err := strconv.Atoi(o.StartAt); err == nil {
		i, err := recordNumbered(run, n)
		switch {
		case err != nil:
			return 0, "", err
		case labels[i] == "":
			return 0, "", Usagef("record %d, %s, is no pass of the %s pipeline's table", n, run.Records[i].Name, o.Pipeline)
		}
		return i, labels[i], nil
	}
	row, err := pipeline.FindRow(rows, o.StartAt)
	if err != nil {
		return 0, "", usageName(err)
	}
	i := slices.Index(labels, rows[row].Label)
	if i < 0 {
		return 0, "", Usagef("%s has no record in %s", rows[row].Label, runName(run))
	}
	return i, rows[row].Label, nil
}

// rowLabels gives each record of a run the label of the table row it came
// from, "" for records no row made. Rows whose condition did not hold left no
// record, so the k of NAME#k is counted over the rows, not over the records.
func rowLabels(run *trace.Run, rows []pipeline.Row, o RunOptions) []string {
	labels := make([]string, len(run.Records))
	c := &pipeline.Context{Options: pipeline.Options{}}
	c.Target, _ = cuda.LookupTarget(strings.Split(o.Target, ",")[0])
	for _, kv := range o.PassConfig {
		k, v, _ := strings.Cut(kv, "=")
		_ = c.Options.Set(strings.TrimSpace(k), strings.TrimSpace(v)) // plan tells of errors
	}
	first := 0
	for _, op := range run.Options {
		if k, err := pipeline.FindRow(rows, op.Value); op.Name == "start-at" && err == nil {
			first = k
		}
	}
	next := first
	for i := range run.Records {
		r := &run.Records[i]
		if r.Depth != 0 || r.Status == trace.Codegen || strings.HasSuffix(r.Phase, trace.PhaseCodegen) {
			continue
		}
		if i > 0 && runOf(r.Phase) != runOf(run.Records[i-1].Phase) {
			next = first // a further pipeline over the same input begins its table anew
			clear(labels[:i])
		}
		for k := next; k < len(rows); k++ {
			if rows[k].Pass.Name != r.Name {
				continue
			}
			if w := rows[k].When; w != nil && c.Target != nil && r.Status != trace.Skipped {
				if ok, _ := w(c); !ok {
					continue
				}
			}
			labels[i], next = rows[k].Label, k+1
			break
		}
	}
	return labels
}

// runOf is the run2_ of a phase of a second pipeline, "" of a first.
func runOf(phase string) string {
	if n, _, ok := strings.Cut(phase, "_"); ok && strings.HasPrefix(n, "run") {
		if _, err := strconv.Atoi(n[len("run"):]); err == nil {
			return n
		}
	}
	return ""
}

// recordedInput reads the IR before a record: the snapshot file where it is
// there, for a user may have edited it, else what the trace holds.
func (d *Deps) recordedInput(run *trace.Run, at int, o *RunOptions) (*input, error) {
	rec := &run.Records[at]
	if !rec.HasBefore {
		return nil, Usagef("the text before %s was not recorded", rec.Name)
	}
	r := &resumed{run: run, at: at, source: ir.NewSource(run.InputName, run.Source)}
	text := rec.BeforeText
	lines := rec.BeforeOrigins
	what := "as recorded"
	switch file, edited, err := trace.ReadSnapshot(run, rec, false); {
	case err != nil:
		what = "from the trace; its snapshot is not there"
	case edited && run.Foreign == "":
		diff := textdiff.Compute(text, file, textdiff.Options{})
		add, del := diff.Stat()
		if r.edited = max(add, del); r.edited > 0 {
			lines = editedOrigins(diff, lines)
			text, what = file, fmt.Sprintf("as edited in the run directory, %s", countOf(r.edited, "line"))
		}
	}
	d.notef("IR before %s of %s, %s", o.StartAt, runName(run), what)

	in := &input{name: run.InputName, from: r}
	in.src = ir.NewSource(fmt.Sprintf("%s_before.tir", rec.Name), text)
	if scriptDir := filepath.Dir(filepath.Dir(run.Dir)); run.Foreign == "" && run.Dir != "" {
		if key, err := trace.ScriptInput(scriptDir); err == nil {
			in.stem, in.key = filepath.Base(scriptDir), key
			o.TraceDir = filepath.Dir(scriptDir)
		}
	}
	if in.stem == "" {
		in.stem = run.Script
		if in.stem == "" {
			in.stem = run.Function
		}
		in.key = "run:" + runName(run)
	}
	var diags *diag.List
	in.mod, diags = script.Parse(in.src, script.Options{})
	if diags.Len() > 0 {
		d.printDiagnostics(diags)
	}
	if in.mod == nil || diags.HasErrors() {
		return nil, reported(ExitUsage)
	}
	restoreNames(in.mod)
	if run.Source != "" && len(lines) > 0 {
		relocate(in.mod, func(s ir.Span) ir.Span {
			if n := s.Line(); n >= 1 && n <= len(lines) {
				return lineSpan(r.source, int(lines[n-1]))
			}
			return ir.Span{}
		})
	}
	return in, nil
}

// lineSpan is what a line of a source holds beside its indentation; unknown
// for a line that is not there.
func lineSpan(s *ir.Source, n int) ir.Span {
	line := s.Line(n)
	text := strings.TrimLeft(line, " \t")
	if text == "" {
		return ir.Span{}
	}
	end := s.Offset(n) + len(line)
	return ir.Span{Src: s, Pos: int32(end - len(text)), End: int32(end)}
}

// editedOrigins carries the origins of a text's lines over to an edit of it: a
// line that replaced another has its origin, an added one that of the line
// before.
func editedOrigins(d *textdiff.Diff, lines []int32) []int32 {
	at := func(i int) int32 {
		if i >= 0 && i < len(lines) {
			return lines[i]
		}
		return 0
	}
	out := make([]int32, 0, len(d.B))
	a := 0
	for _, op := range d.Ops {
		for ; a < op.A0; a++ {
			out = append(out, at(a))
		}
		became := make([]int32, op.B1-op.B0)
		last := at(op.A0 - 1)
		pairs := textdiff.Pair(d.A[op.A0:op.A1], d.B[op.B0:op.B1])
		from := make(map[int]int, len(pairs))
		for i, j := range pairs {
			if j >= 0 {
				from[j] = op.A0 + i
			}
		}
		for j := range became {
			if i, ok := from[j]; ok {
				last = at(i)
			}
			became[j] = last
		}
		out = append(out, became...)
		a = op.A1
	}
	for ; a < len(d.A); a++ {
		out = append(out, at(a))
	}
	return out
}

// relocate gives everything in a module that was just read, and that nobody
// else has seen, other origins.
func relocate(m *ir.IRModule, to func(ir.Span) ir.Span) {
	seen := map[*ir.Buffer]bool{}
	buffer := func(b *ir.Buffer) {
		if b != nil && !seen[b] {
			seen[b] = true
			b.Org = to(b.Org)
		}
	}
	for _, f := range m.Funcs {
		f.Org = to(f.Org)
		for _, b := range f.BufferMap {
			buffer(b.Buffer)
		}
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.SeqStmt:
				s.Org = to(s.Org)
			case *ir.Bind:
				s.Org = to(s.Org)
			case *ir.AttrStmt:
				s.Org = to(s.Org)
			case *ir.For:
				s.Org = to(s.Org)
			case *ir.While:
				s.Org = to(s.Org)
			case *ir.IfThenElse:
				s.Org = to(s.Org)
			case *ir.BufferStore:
				s.Org = to(s.Org)
			case *ir.Evaluate:
				s.Org = to(s.Org)
			case *ir.Assert:
				s.Org = to(s.Org)
			case *ir.AllocBuffer:
				s.Org = to(s.Org)
				buffer(s.Buffer)
			case *ir.DeclBuffer:
				s.Org = to(s.Org)
				buffer(s.Buffer)
			case *ir.SBlock:
				s.Org = to(s.Org)
				for _, b := range s.AllocBuffers {
					buffer(b)
				}
				for _, b := range s.MatchBuffers {
					buffer(b.Buffer)
				}
			}
			return true
		})
	}
}

// resumedFrom is run a, from the record on at which run b took it up, when b is
// a resumed run of a; else a itself.
func resumedFrom(a, b *trace.Run) *trace.Run {
	from, record := "", -1
	for _, o := range b.Options {
		switch o.Name {
		case optFrom:
			from = o.Value
		case optFromRecord:
			if n, err := strconv.Atoi(o.Value); err == nil {
				record = n
			}
		}
	}
	i := slices.IndexFunc(a.Records, func(r trace.LowerRecord) bool { return r.Index == record })
	if from != runName(a) || i < 0 {
		return a
	}
	rest := *a
	rest.Records = a.Records[i:]
	return &rest
}

// compareResumed shows how a resumed run differs from the one it came from.
func (d *Deps) compareResumed(j *job, run *trace.Run) error {
	al := align(resumedFrom(j.in.from.run, run), run)
	do := render.DiffOptions{Context: j.opts.Context, Host: j.opts.Host}
	if j.opts.JSON {
		c, err := render.NewComparison(al, render.CompareOptions{}, do)
		if err != nil {
			return err
		}
		j.inv.docs[len(j.inv.docs)-1].(*runDoc).Comparison = c
		return nil
	}
	if _, err := fmt.Fprintln(d.Stdout); err != nil {
		return err
	}
	return d.terminal(do).Compare(al, render.CompareOptions{})
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
