package driver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
	"lowertrace/internal/render"
	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// DefaultTarget is what is lowered for when nothing says otherwise.
const DefaultTarget = "sm_80"

// job is one lowering: one input for one target.
type job struct {
	in     *input
	opts   RunOptions
	target *pipeline.Target
	pipe   pipeline.Pipeline
	config pipeline.Options
	inv    *invocation // nil: a job by itself
	copies []copyDoc   // what became of the working copies
}

// invocation is what the jobs of one command share.
type invocation struct {
	id   string
	jobs []*job
	// last are the finished recorders by input and target: a second pipeline
	// over one file goes on counting where the first ended.
	last   map[string]*trace.Recorder
	copies map[string]bool // working copies placed by --codegen-output
	docs   []any           // of --json
}

func (d *Deps) newInvocation(jobs []*job) *invocation {
	var id [8]byte
	if _, err := io.ReadFull(d.Rand, id[:]); err != nil {
		d.notef("warning: the runs of this command are not linked: %v", err)
	}
	inv := &invocation{id: hex.EncodeToString(id[:]), jobs: jobs, last: map[string]*trace.Recorder{}, copies: map[string]bool{}}
	for _, j := range jobs {
		j.inv = inv
	}
	return inv
}

// lane tells apart what has run directories of its own.
func (j *job) lane() string { return j.in.key + "\x00" + j.target.Arch }

// shares reports whether another job of the invocation has the same script
// directory.
func (j *job) shares() bool {
	n := 0
	for _, k := range j.inv.jobs {
		if k.in.key == j.in.key {
			n++
		}
	}
	return n > 1
}

// Run lowers kernels under trace.
func Run(ctx context.Context, d *Deps, o RunOptions) error {
	if o.Mode == ModeOff && (o.JSON || o.Stats) {
		return Usagef("--json and --stats tell of a recorded run: --mode off prints the CUDA alone")
	}
	if o.From != "" {
		return d.resume(ctx, o)
	}
	jobs, err := d.readJobs(ctx, o)
	if err != nil {
		return err
	}
	return d.runJobs(ctx, jobs, o)
}

// readJobs reads the files of a command and settles what is lowered: each
// kernel of --func in each file, for each target.
func (d *Deps) readJobs(ctx context.Context, o RunOptions) ([]*job, error) {
	files := o.Files
	if len(files) == 0 {
		files = []string{""}
	}
	var jobs []*job
	funcs := strings.Split(o.Func, ",")
	for _, f := range files {
		if f == "-" && len(funcs) > 1 {
			return nil, Usagef("standard input is read once: --func takes one name")
		}
		for _, fn := range funcs { // several kernels of one file are lowered one after the other
			one := o
			one.Func = fn
			in, err := d.readKernelUntil(ctx, f, o.TraceDir, one.source())
			if err != nil {
				return nil, err
			}
			for _, kv := range in.runtime {
				name, _, _ := strings.Cut(kv, "=")
				d.notef("%s: %s is settled when the kernel runs: --set %s changes what check and exec run it on, not its code", in.name, name, name)
			}
			js, err := d.plan(in, one)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, js...)
		}
	}
	return jobs, nil
}

// readKernelUntil is readKernel, given up on an interrupt: standard input may
// never end.
func (d *Deps) readKernelUntil(ctx context.Context, f, traceDir string, so SourceOptions) (*input, error) {
	if f != "-" {
		return d.readKernel(f, traceDir, so)
	}
	type result struct {
		in  *input
		err error
	}
	done := make(chan result, 1)
	go func() {
		in, err := d.readKernel(f, traceDir, so)
		done <- result{in, err}
	}()
	select {
	case r := <-done:
		return r.in, r.err
	case <-ctx.Done():
		return nil, reported(ExitInterrupted)
	}
}

// runJobs lowers one job after the other. A failed one does not keep the rest
// from running; an interrupt does.
func (d *Deps) runJobs(ctx context.Context, jobs []*job, o RunOptions) error {
	inv := d.newInvocation(jobs)
	code := ExitOK
	for i, j := range jobs {
		if i > 0 && j.showsDiffs() {
			fmt.Fprintln(d.Stdout)
		}
		if err := d.lower(ctx, j); err != nil {
			var ex *ExitError
			if !errors.As(err, &ex) {
				return err
			}
			if ex.Err != nil {
				d.notef("%v", ex.Err)
			}
			code = max(code, ex.Code)
		}
		if ctx.Err() != nil {
			code = ExitInterrupted
			break
		}
	}
	if o.JSON {
		if err := writeInvocationJSON(d.Stdout, inv); err != nil {
			return outputError(err)
		}
	}
	if code != ExitOK {
		return reported(code)
	}
	return nil
}

// showsDiffs reports whether a job prints its passes on standard output.
func (j *job) showsDiffs() bool {
	return !j.opts.JSON && (j.opts.Mode == ModeTerminal || j.opts.Mode == ModeBoth)
}

// outputError is the error of a command whose output could not be written. A
// reader that closed the pipe has seen enough: that is success.
func outputError(err error) error {
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return Failf("standard output: %w", err)
}

// plan settles target, pipeline, pass options and the passes to run, before
// anything is written.
func (d *Deps) plan(in *input, o RunOptions) ([]*job, error) {
	pipe, err := pipeline.Lookup(o.Pipeline)
	if err != nil {
		return nil, usageName(err)
	}
	config := pipeline.Options{}
	var odd []string
	for _, kv := range in.passConfig {
		// A decorator may name options of passes that another compiler has.
		if k, v, _ := strings.Cut(kv, "="); config.Set(k, v) != nil {
			odd = append(odd, k+"="+v)
		}
	}
	switch len(odd) {
	case 0:
	case 1:
		d.notef("%s: pass option %s of the source has no meaning here", in.name, odd[0])
	default:
		d.notef("%s: pass options %s of the source have no meaning here", in.name, strings.Join(odd, ", "))
	}
	for _, kv := range o.PassConfig {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, Usagef("--pass-config %s: expected KEY=VALUE", kv)
		}
		if err := config.Set(strings.TrimSpace(k), strings.TrimSpace(v)); err != nil {
			return nil, usageName(err)
		}
	}
	rows := pipe.Rows()
	sel := selection(o)
	if err := pipeline.CheckSelection(rows, sel); err != nil {
		return nil, usageName(err)
	}
	if o.StartAt == "" && len(o.Only) == 0 {
		if at, why := cuda.InferStart(in.mod, rows); at != "" {
			d.notef("%s: %s; starting at %s (--start-at says otherwise)", in.name, why, at)
			o.StartAt = at
		}
	}
	bound := boundArch(in.mod)
	wanted := o.Target
	if arch := archOf(in.target); arch != "" && !o.TargetFromFlag && bound == "" {
		wanted = arch
	}
	var jobs []*job
	for _, name := range targetNames(wanted, bound) {
		t, err := cuda.LookupTarget(name)
		if err != nil {
			return nil, usageName(err)
		}
		if bound != "" && bound != name {
			if cuda.AfterTileLowering(o.StartAt, rows) {
				return nil, Usagef("%s is lowered for %s already: --target %s cannot change that after LowerTileOp", in.name, bound, name)
			}
			d.notef("%s: target %s of the text is replaced by %s", in.name, bound, name)
			if in.mod, err = rebindTarget(in.mod, t); err != nil {
				return nil, err
			}
		}
		of, err := d.inputFor(in, name)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, &job{in: of, opts: o, target: t, pipe: pipe, config: config})
	}
	return jobs, nil
}

func selection(o RunOptions) pipeline.Selection {
	return pipeline.Selection{StartAt: o.StartAt, StopAfter: o.StopAfter, Skip: o.Skip, Only: o.Only}
}

// archOf is the architecture in a decorator's target, "cuda -arch=sm_90a" or
// the bare name; "" if it names none.
func archOf(target string) string {
	for _, w := range strings.Fields(target) {
		if a := strings.TrimPrefix(w, "-arch="); strings.HasPrefix(a, "sm_") {
			return a
		}
	}
	return ""
}

func targetNames(flag, bound string) []string {
	switch {
	case flag != "":
		return strings.Split(flag, ",")
	case bound != "":
		return []string{bound}
	}
	return []string{DefaultTarget}
}

// boundArch is the architecture a text is bound to, "" if none.
func boundArch(m *ir.IRModule) string {
	for _, f := range m.Funcs {
		if a := pipeline.FuncArch(f); a != "" {
			return a
		}
	}
	return ""
}

func rebindTarget(m *ir.IRModule, t *pipeline.Target) (*ir.IRModule, error) {
	return m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
		old, ok := f.Attr("target").(*ir.Target)
		if !ok || pipeline.FuncArch(f) == "" {
			return f, nil
		}
		return f.WithAttr("target", t.Attr(old.Fields.Get("host") != nil)), nil
	})
}

// usageName words an unknown or ambiguous name with the nearest known one.
func usageName(err error) error {
	var u *pipeline.UnknownNameError
	if errors.As(err, &u) {
		return Usagef("%v%s", err, DidYouMean(u.Name, u.Known))
	}
	return Usagef("%v", err)
}

// lower runs one job.
func (d *Deps) lower(ctx context.Context, j *job) error {
	if j.inv == nil {
		d.newInvocation([]*job{j})
	}
	c := j.context(ctx)
	if j.opts.Mode == ModeOff {
		return d.printUntraced(ctx, c, j)
	}
	cfg := trace.Config{
		Manifest: d.manifest(j), TraceDir: j.opts.TraceDir, Stem: j.in.stem, InputKey: j.in.key,
		DiffStat: textdiff.Stat, Clock: d.Clock, PID: d.PID, Rand: d.Rand, Previous: j.inv.last[j.lane()],
		Warn: func(s string) { d.notef("warning: %s", s) },
	}
	var term *render.Terminal
	if j.showsDiffs() {
		term = d.runTerminal(j)
		cfg.Observers = append(cfg.Observers, term.Observer())
		head := cfg.Manifest
		head.InputName = j.in.place()
		term.Start(head)
	}
	var report *reportFile
	if j.opts.Mode == ModeHTML || j.opts.Mode == ModeBoth {
		report = &reportFile{}
		cfg.Observers = append(cfg.Observers, report.observer())
	}
	rec := trace.NewRecorder(cfg)
	if report != nil {
		report.use(rec)
	}
	earlier := len(rec.Run().Records)
	ins := &recording{rec: rec, text: textCache{file: j.originFile()}}
	c.Instruments = append(c.Instruments, ins)

	var m *ir.IRModule
	err := ins.guard(c, func() (err error) {
		m, err = j.pipe.Run(c, j.in.mod)
		return err
	})
	stopped := errors.Is(err, pipeline.ErrStopped)
	var end trace.Ending
	var lines []render.SummaryLine
	if err == nil {
		lines, err = d.generate(c, j, ins, m, &end)
	}
	switch interrupted := ctx.Err() != nil; {
	case interrupted:
		end.State = trace.StateInterrupted
	case err != nil && !stopped:
		end.Error = err.Error()
	}
	run := rec.Finish(end)
	j.inv.last[j.lane()] = rec
	reportPath := ""
	if report != nil {
		var rerr error
		if reportPath, rerr = report.finish(run, j.shares()); rerr != nil && !rec.Failed() {
			d.notef("warning: report not written: %v", rerr)
		}
	}
	var outErr error
	switch {
	case term != nil:
		d.summarize(j, term, rec, run, earlier, reportPath, lines)
		outErr = term.Err()
	case j.opts.JSON:
		doc := newRunDoc(run)
		doc.Copies = j.copies
		j.inv.docs = append(j.inv.docs, doc)
	case reportPath != "":
		_, outErr = fmt.Fprintln(d.Stdout, reportPath)
	}
	if j.in.from != nil && outErr == nil && ctx.Err() == nil {
		outErr = d.compareResumed(j, run)
	}
	switch {
	case ctx.Err() != nil:
		return reported(ExitInterrupted)
	case err != nil && !stopped:
		return d.passFailed(err)
	case outputError(outErr) != nil:
		return outputError(outErr)
	case rec.Failed() || report != nil && report.err != nil:
		return reported(ExitFailed)
	}
	return nil
}

// context is what the passes of a job see.
func (j *job) context(ctx context.Context) *pipeline.Context {
	return &pipeline.Context{
		Target: j.target, Options: j.config, Select: selection(j.opts), VerifyEach: j.opts.VerifyEach,
		Interrupted: ctx.Err,
	}
}

// runTerminal is the renderer of a run's records.
func (d *Deps) runTerminal(j *job) *render.Terminal {
	o := render.TerminalOptions{
		Color: d.stdoutColor(), Width: d.Width, Diff: render.DiffOptions{Context: j.opts.Context, Host: j.opts.Host},
		Heading: "TL_LOWER_TRACE=" + j.opts.Mode.String(),
		// What failed is told on standard error; on one screen once is enough.
		NoErrors: d.StdoutTTY && d.StderrTTY,
		// A resumed run is shown by what differs from the run it came from.
		NoDiffs: j.in.from != nil,
	}
	return render.NewTerminal(d.Stdout, o)
}

// summarize ends a run's terminal output: counts and times of this run alone,
// the working copies, where the records are and what to do next.
func (d *Deps) summarize(j *job, term *render.Terminal, rec *trace.Recorder, run *trace.Run, earlier int, reportPath string, lines []render.SummaryLine) {
	own := *run
	own.Records = run.Records[earlier:]
	switch {
	case reportPath != "":
		lines = append(lines, render.SummaryLine{Label: "report", Text: reportPath})
	case run.Dir != "":
		lines = append(lines, render.SummaryLine{Label: "run", Text: run.Dir})
	}
	if run.Dir != "" {
		lines = append(lines, render.SummaryLine{Label: "next", Text: j.next(run, rec.ScriptDir())})
	}
	term.Finish(&own, render.Summary{Recording: rec.Overhead(), Lines: lines})
}

// next names the commands that go on from a run.
func (j *job) next(run *trace.Run, scriptDir string) string {
	name := run.Script
	if filepath.Clean(j.opts.TraceDir) != filepath.Clean(DefaultTraceDir) {
		name = scriptDir // found without --trace-dir
	}
	if f := run.Failed(); f != nil {
		next := fmt.Sprintf("lowertrace show %s %d --before", name, f.Index)
		if f.Depth == 0 && !strings.HasSuffix(f.Phase, trace.PhaseCodegen) {
			next += fmt.Sprintf(" · lowertrace run --from %s --start-at %d", name, f.Index)
		}
		return next
	}
	next := fmt.Sprintf("lowertrace show %s", name)
	if old, err := trace.Find(name+"@2", j.opts.TraceDir); err == nil && old != run.Dir {
		next += fmt.Sprintf(" · lowertrace diff %s@2 %s", name, name)
	}
	return next
}

func (d *Deps) manifest(j *job) trace.Manifest {
	if j.inv == nil {
		d.newInvocation([]*job{j})
	}
	m := trace.Manifest{
		InvocationID: j.inv.id,
		Tool:         "lowertrace", ToolVersion: d.Version, Command: append([]string{"lowertrace"}, d.Args...),
		Script: j.in.stem, InputName: j.in.name, InputHash: j.in.hash(), Source: j.in.src.Text,
		Function: j.in.mod.Funcs[0].Name, Target: j.target.Arch, Arch: j.opts.Arch, Pipeline: j.pipe.Name(),
		Host: runtime.GOOS + "/" + runtime.GOARCH,
	}
	for _, s := range j.in.imports {
		m.Imports = append(m.Imports, trace.ImportedFile{Name: s.Name, Hash: hashOf(s.Text), Text: s.Text})
	}
	m.PassConfig = passConfig(j.config)
	m.Options = selectionOptions(j.opts)
	if r := j.in.from; r != nil {
		m.InputName, m.Source, m.Function, m.Imports = r.run.InputName, r.source.Text, r.run.Function, r.run.Imports
		if r.edited == 0 {
			m.InputHash = r.run.InputHash
		}
		m.Options = append(m.Options, r.options()...)
	}
	return m
}

// passConfig are pass options as they are recorded, sorted by name.
func passConfig(config pipeline.Options) []trace.Option {
	var out []trace.Option
	for _, k := range slices.Sorted(maps.Keys(config)) {
		out = append(out, trace.Option{Name: k, Value: fmt.Sprint(config[k])})
	}
	return out
}

// selectionOptions are the flags that choose the kernel, its sizes and the
// passes, those that were given.
func selectionOptions(o RunOptions) []trace.Option {
	var out []trace.Option
	for _, kv := range o.Set {
		name, value, _ := strings.Cut(kv, "=")
		out = append(out, trace.Option{Name: "set " + strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	if o.Func != "" {
		out = append(out, trace.Option{Name: "func", Value: o.Func})
	}
	for _, p := range []trace.Option{{Name: "start-at", Value: o.StartAt}, {Name: "stop-after", Value: o.StopAfter},
		{Name: "skip", Value: strings.Join(o.Skip, ",")}, {Name: "only", Value: strings.Join(o.Only, ",")}} {
		if p.Value != "" {
			out = append(out, p)
		}
	}
	return out
}

// passFailed tells of a pass that could not go on.
func (d *Deps) passFailed(err error) error {
	var l diag.List
	var pe *pipeline.Error
	if !errors.As(err, &pe) {
		return Failf("%v", err)
	}
	dg := diag.Diagnostic{Span: pe.Span, Message: pe.Msg, Hint: pe.Hint}
	for _, n := range pe.Notes {
		dg.Notes = append(dg.Notes, diag.Note{Span: n.Span, Message: n.Msg})
	}
	l.Add(dg)
	d.printDiagnostics(&l)
	return reported(ExitFailed)
}

// originFile is the file whose lines are recorded as origins, "" where all
// there are come from one.
func (j *job) originFile() string {
	if len(j.in.imports) == 0 {
		return ""
	}
	return j.in.src.Name
}

// lineNumbers are the lines of places in a file, 0 for those of other files.
func lineNumbers(spans []ir.Span, file string) []int32 {
	out := make([]int32, len(spans))
	for i, s := range spans {
		if file == "" || s.Src == nil || s.Src.Name == file {
			out[i] = int32(s.Line())
		}
	}
	return out
}
