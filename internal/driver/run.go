package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sort"
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

// DefaultTarget is what is lowered for when nothing says otherwise.
const DefaultTarget = "sm_80"

// job is one lowering: one input for one target.
type job struct {
	in     *input
	opts   RunOptions
	target *pipeline.Target
	pipe   pipeline.Pipeline
	config pipeline.Options
}

// Run lowers kernels under trace.
func Run(ctx context.Context, d *Deps, o RunOptions) error {
	files := o.Files
	if len(files) == 0 {
		files = []string{""}
	}
	var jobs []*job
	for _, f := range files {
		in, err := d.readKernel(f, o.TraceDir)
		if err != nil {
			return err
		}
		js, err := d.plan(in, o)
		if err != nil {
			return err
		}
		jobs = append(jobs, js...)
	}
	code := ExitOK
	for _, j := range jobs {
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
	}
	if code != ExitOK {
		return reported(code)
	}
	return nil
}

// plan settles target, pipeline, pass options and the passes to run, before
// anything is written.
func (d *Deps) plan(in *input, o RunOptions) ([]*job, error) {
	pipe, err := pipeline.Lookup(o.Pipeline)
	if err != nil {
		return nil, usageName(err)
	}
	config := pipeline.Options{}
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
	var jobs []*job
	for _, name := range targetNames(o.Target, bound) {
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
		jobs = append(jobs, &job{in: in, opts: o, target: t, pipe: pipe, config: config})
	}
	return jobs, nil
}

func selection(o RunOptions) pipeline.Selection {
	return pipeline.Selection{StartAt: o.StartAt, StopAfter: o.StopAfter, Skip: o.Skip, Only: o.Only}
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
	c := &pipeline.Context{
		Target: j.target, Options: j.config, Select: selection(j.opts), VerifyEach: j.opts.VerifyEach,
		Interrupted: ctx.Err,
	}
	if j.opts.Mode == ModeOff {
		return d.lowerUntraced(c, j)
	}
	var term *render.Terminal
	cfg := trace.Config{
		Manifest: d.manifest(j), TraceDir: j.opts.TraceDir, Stem: j.in.stem, InputKey: j.in.key,
		DiffStat: textdiff.Stat, Clock: d.Clock, PID: d.PID, Rand: d.Rand,
		Warn: func(s string) { d.notef("warning: %s", s) },
	}
	if !j.opts.JSON && (j.opts.Mode == ModeTerminal || j.opts.Mode == ModeBoth) {
		term = d.terminal(render.DiffOptions{Context: j.opts.Context, Host: j.opts.Host})
		cfg.Observers = append(cfg.Observers, term.Observer())
		term.Start(cfg.Manifest)
	}
	var report *reportFile
	if j.opts.Mode == ModeHTML || j.opts.Mode == ModeBoth {
		report = &reportFile{}
		cfg.Observers = append(cfg.Observers, report.observer())
	}
	rec := trace.NewRecorder(cfg)
	if report != nil {
		report.rec = rec
	}
	ins := &recording{rec: rec}
	c.Instruments = append(c.Instruments, ins)

	m, err := j.pipe.Run(c, j.in.mod)
	stopped := errors.Is(err, pipeline.ErrStopped)
	var end trace.Ending
	var lines []render.SummaryLine
	if err == nil {
		lines, err = d.generate(c, j, ins, m, &end)
	}
	if err != nil && !stopped {
		end.Error = err.Error()
	}
	if ctx.Err() != nil {
		end.State = trace.StateInterrupted
	}
	run := rec.Finish(end)
	reportPath := ""
	if report != nil {
		var rerr error
		if reportPath, rerr = report.finish(run); rerr != nil {
			d.notef("warning: report not written: %v", rerr)
		}
	}
	switch {
	case term != nil:
		if reportPath != "" {
			lines = append(lines, render.SummaryLine{Label: "report", Text: reportPath})
		} else if run.Dir != "" {
			lines = append(lines, render.SummaryLine{Label: "run", Text: run.Dir})
		}
		term.Finish(run, render.Summary{Lines: lines})
	case !j.opts.JSON && reportPath != "":
		fmt.Fprintln(d.Stdout, reportPath)
	}
	if j.opts.JSON {
		if err := writeRunJSON(d.Stdout, run); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return reported(ExitInterrupted)
	case err != nil && !stopped:
		return d.passFailed(err)
	case rec.Failed() || report != nil && report.err != nil:
		return reported(ExitFailed)
	}
	return nil
}

// generate prints the device module and takes it into the working copy.
func (d *Deps) generate(c *pipeline.Context, j *job, ins *recording, m *ir.IRModule, end *trace.Ending) ([]render.SummaryLine, error) {
	h := ins.rec.BeginCodegen(trace.Pass{Name: "codegen", Stage: "codegen", Doc: "print the device module as CUDA C"}, ins.text.print(m))
	out, err := j.pipe.Codegen()(c, m)
	var after trace.Text
	if err == nil {
		after = trace.Text{Text: out.Source, Origins: lineNumbers(out.Origins)}
	}
	ins.rec.End(h, after, err, nil)
	if err != nil {
		return nil, err
	}
	u := trace.CopyUpdate{
		ScriptDir: ins.rec.ScriptDir(), Function: j.in.mod.Funcs[0].Name, Target: j.target.Arch,
		Newest: out.Source, DiffStat: textdiff.Stat,
	}
	switch p := j.opts.CodegenOutput; {
	case p == "none", p == "" && (j.opts.Mode == ModeTerminal || u.ScriptDir == ""):
		return nil, nil
	case p != "":
		u.Path = p
	}
	res, err := trace.UpdateWorkCopy(u)
	if err != nil {
		return nil, Failf("working copy: %v", err)
	}
	end.Generated = append(end.Generated, trace.GeneratedFile{Kind: "codegen", Path: res.Path})
	text := res.Path
	if res.State != trace.CopyUnchanged {
		text += fmt.Sprintf("   %s: %s", res.State, res.Message)
	}
	lines := []render.SummaryLine{{Label: filepath.Base(res.Path), Text: text}}
	if res.Command != "" {
		lines = append(lines, render.SummaryLine{Label: "your edit", Text: res.Command})
	}
	return lines, nil
}

func (d *Deps) lowerUntraced(c *pipeline.Context, j *job) error {
	m, err := j.pipe.Run(c, j.in.mod)
	if errors.Is(err, pipeline.ErrStopped) {
		_, err = io.WriteString(d.Stdout, script.Print(m))
		return err
	}
	if err != nil {
		return d.passFailed(err)
	}
	out, err := j.pipe.Codegen()(c, m)
	if err != nil {
		return d.passFailed(err)
	}
	if p := j.opts.CodegenOutput; p != "" && p != "none" {
		return os.WriteFile(p, []byte(out.Source), 0o644)
	}
	_, err = io.WriteString(d.Stdout, out.Source)
	return err
}

func (d *Deps) manifest(j *job) trace.Manifest {
	m := trace.Manifest{
		Tool: "lowertrace", ToolVersion: d.Version, Command: append([]string{"lowertrace"}, d.Args...),
		Script: j.in.stem, InputName: j.in.name, InputHash: j.in.hash(), Source: j.in.src.Text,
		Function: j.in.mod.Funcs[0].Name, Target: j.target.Arch, Arch: j.opts.Arch, Pipeline: j.pipe.Name(),
		Host: runtime.GOOS + "/" + runtime.GOARCH,
	}
	keys := make([]string, 0, len(j.config))
	for k := range j.config {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		m.PassConfig = append(m.PassConfig, trace.Option{Name: k, Value: fmt.Sprint(j.config[k])})
	}
	for _, p := range []trace.Option{{Name: "start-at", Value: j.opts.StartAt}, {Name: "stop-after", Value: j.opts.StopAfter},
		{Name: "skip", Value: strings.Join(j.opts.Skip, ",")}, {Name: "only", Value: strings.Join(j.opts.Only, ",")}} {
		if p.Value != "" {
			m.Options = append(m.Options, p)
		}
	}
	return m
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

func lineNumbers(spans []ir.Span) []int32 {
	out := make([]int32, len(spans))
	for i, s := range spans {
		out[i] = int32(s.Line())
	}
	return out
}
