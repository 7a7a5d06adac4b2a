package driver

import (
	"context"
	"errors"

	"lowertrace/internal/gpu"
	"lowertrace/internal/ir"
	"lowertrace/internal/launch"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// lowered is a kernel's code, as it was generated and as it is to run.
type lowered struct {
	out  *pipeline.Output
	spec *launch.Spec
	mod  *ir.IRModule     // what the code generator printed
	host *ir.IRModule     // what launches it; nil where the lowering kept none
	copy trace.CopyResult // Path empty: no working copy is kept
	run  *trace.Run       // nil with --mode off
}

// source is the code to compile: the working copy where there is one.
func (l *lowered) source() string {
	if l.copy.Path != "" {
		return l.copy.Code
	}
	return l.out.Source
}

// sourceName is what the compiler calls it in its messages.
func (l *lowered) sourceName() string {
	if l.copy.Path != "" {
		return l.copy.Path
	}
	return kernelSource
}

// lowerKept lowers a job under trace and brings the working copy up to date,
// which is kept whatever the mode. It shows nothing of the passes.
func (d *Deps) lowerKept(ctx context.Context, j *job) (*lowered, error) {
	c := j.context(ctx)
	d.newInvocation([]*job{j})
	l := &lowered{}
	if j.opts.Mode == ModeOff {
		if err := l.lower(c, j, &recording{}); err != nil {
			return nil, d.lowerFailed(ctx, err)
		}
		dir := ""
		if j.opts.CodegenOutput == "" {
			var err error
			if dir, err = trace.ClaimScriptDir(j.opts.TraceDir, j.in.stem, j.in.key); err != nil {
				return nil, Failf("working copy: %v", err)
			}
		}
		return l, l.update(j, dir)
	}
	cfg := trace.Config{
		Manifest: d.manifest(j), TraceDir: j.opts.TraceDir, Stem: j.in.stem, InputKey: j.in.key,
		DiffStat: textdiff.Stat, Clock: d.Clock, PID: d.PID, Rand: d.Rand,
		Warn: func(s string) { d.notef("warning: %s", s) },
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
	err := l.lower(c, j, &recording{rec: rec, text: textCache{file: j.originFile()}})
	var copyErr error
	var end trace.Ending
	if err == nil {
		if copyErr = l.update(j, rec.ScriptDir()); l.copy.Path != "" {
			end.Generated = append(end.Generated, trace.GeneratedFile{Kind: "codegen", Path: l.copy.Path})
		}
	} else {
		end.Error = err.Error()
	}
	if ctx.Err() != nil {
		end.State = trace.StateInterrupted
	}
	l.run = rec.Finish(end)
	if report != nil {
		if _, rerr := report.finish(l.run, false); rerr != nil {
			d.notef("warning: report not written: %v", rerr)
		}
	}
	if err != nil {
		return nil, d.lowerFailed(ctx, err)
	}
	return l, copyErr
}

func (d *Deps) lowerFailed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return reported(ExitInterrupted)
	case errors.Is(err, pipeline.ErrStopped):
		return Usagef("--stop-after leaves no code to run")
	}
	return d.passFailed(err)
}

// lower runs the passes and the code generator, which ins records if it has a
// recorder.
func (l *lowered) lower(c *pipeline.Context, j *job, ins *recording) error {
	c.Instruments = append(c.Instruments, ins)
	err := ins.guard(c, func() (err error) {
		l.mod, err = j.pipe.Run(c, j.in.mod)
		return err
	})
	if err != nil {
		return err
	}
	l.host = c.Aside[cuda.AsideHost]
	if l.out, err = generateUnit(c, j, ins, unit{device: l.mod, host: l.host}); err != nil {
		return err
	}
	l.spec, err = launch.Parse(l.out.Launch)
	return err
}

// update takes the generated code into the working copy.
func (l *lowered) update(j *job, scriptDir string) error {
	u, kept := j.copyUpdate(scriptDir, j.in.mod.Funcs[0].Name, l.out.Source)
	if !kept {
		return nil
	}
	var err error
	if l.copy, err = trace.UpdateWorkCopy(u); err != nil {
		l.copy = trace.CopyResult{}
		return Failf("working copy: %v", err)
	}
	return nil
}

// mapLine is the line of the generated code that a line of an edit of it was,
// 0 for a line of the edit's own. Lines count from 1.
func mapLine(generated, edited string, line int) int {
	if generated == edited {
		return line
	}
	shift := 0
	for _, op := range textdiff.Compute(generated, edited, textdiff.Options{}).Ops {
		if line-1 < op.B0 {
			break
		}
		if line-1 < op.B1 {
			return 0
		}
		shift = op.A1 - op.B1
	}
	return line + shift
}

// originOf is the kernel's line that a line of the compiled source came from.
// A line that the user wrote has that of the nearest generated line before it.
func originOf(out *pipeline.Output, source string, line int) (origin ir.Span, edited bool) {
	for n := line; n > 0; n-- {
		g := mapLine(out.Source, source, n)
		if g == 0 {
			edited = true
			continue
		}
		if g <= len(out.Origins) && out.Origins[g-1].IsValid() {
			return out.Origins[g-1], edited
		}
		if !edited {
			break // a generated line that comes from nowhere, as the prelude does
		}
	}
	return ir.Span{}, edited
}

// compileLowered compiles what a lowering left, the working copy's edits and
// all.
func (d *Deps) compileLowered(n *gpu.NVRTC, arch string, l *lowered) (*gpu.Object, error) {
	return d.compileSource(n, arch, l.out, l.source(), l.sourceName())
}
