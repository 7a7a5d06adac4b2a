package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
	"lowertrace/internal/render"
	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// unit is what one working copy is generated from: the kernels that one
// function of the input launches.
type unit struct {
	function string
	device   *ir.IRModule
	host     *ir.IRModule // nil where the lowering kept no host side of it
}

// units parts a lowered module by the functions of the input, so that each has
// generated code, and a working copy, of its own. Kernels belong to the host
// function that names them. Where there is one function, or a kernel belongs to
// none, the module is one unit.
func units(j *job, m, host *ir.IRModule) []unit {
	whole := unit{j.in.mod.Funcs[0].Name, m, host}
	if r := j.in.from; r != nil && r.run.Function != "" {
		whole.function = r.run.Function
	}
	if host == nil || len(host.Funcs) < 2 {
		return []unit{whole}
	}
	owner := map[string]string{} // kernel → function
	for _, f := range host.Funcs {
		ir.WalkExprs(f.Body, func(e ir.Expr) bool {
			if s, ok := e.(*ir.StringImm); ok && m.Func(s.Value) != nil && owner[s.Value] == "" {
				owner[s.Value] = f.Name
			}
			return true
		})
	}
	for _, k := range m.Funcs {
		if owner[k.Name] == "" {
			whole.host = nil // no one function speaks for all kernels
			return []unit{whole}
		}
	}
	var out []unit
	for _, f := range host.Funcs {
		u := unit{function: f.Name, host: &ir.IRModule{Funcs: []*ir.PrimFunc{f}}, device: &ir.IRModule{}}
		for _, k := range m.Funcs {
			if owner[k.Name] == f.Name {
				u.device.Funcs = append(u.device.Funcs, k)
			}
		}
		if len(u.device.Funcs) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// source prints a unit as CUDA C.
func (u unit) source(c *pipeline.Context, j *job) (*pipeline.Output, error) {
	if u.host != nil {
		c.Aside[cuda.AsideHost] = u.host
	} else {
		delete(c.Aside, cuda.AsideHost)
	}
	return j.pipe.Codegen()(c, u.device)
}

// generate prints the device module and takes it into the working copies, one
// for each function of the input.
func (d *Deps) generate(c *pipeline.Context, j *job, ins *recording, m *ir.IRModule, end *trace.Ending) ([]render.SummaryLine, error) {
	var lines []render.SummaryLine
	for _, u := range units(j, m, c.Aside[cuda.AsideHost]) {
		out, err := generateUnit(c, j, ins, u)
		if err != nil {
			return lines, err
		}
		more, err := d.updateCopy(j, ins.rec.ScriptDir(), u.function, out.Source, end)
		if err != nil {
			return lines, err
		}
		lines = append(lines, more...)
		if j.opts.Stats {
			lines = append(lines, d.resources(j, out)...)
		}
	}
	return lines, nil
}

// generateUnit runs the code generator, as a record where there is a recorder.
func generateUnit(c *pipeline.Context, j *job, ins *recording, u unit) (out *pipeline.Output, err error) {
	o := openPass{name: "the code generator"}
	if ins.rec != nil {
		o.handle = ins.rec.BeginCodegen(trace.Pass{Name: "codegen", Stage: "codegen", Doc: "print the device module as CUDA C"}, ins.text.print(u.device))
	}
	ins.open = append(ins.open, o)
	err = ins.guard(c, func() error {
		var err error
		out, err = u.source(c, j)
		ins.open = ins.open[:len(ins.open)-1]
		if ins.rec != nil {
			var after trace.Text
			if err == nil {
				after = trace.Text{Text: out.Source, Origins: lineNumbers(out.Origins, j.originFile())}
			}
			ins.rec.End(o.handle, after, err, nil)
		}
		return err
	})
	return out, err
}

// updateCopy takes generated code into its working copy and says in the
// summary what came of it.
func (d *Deps) updateCopy(j *job, scriptDir, function, source string, end *trace.Ending) ([]render.SummaryLine, error) {
	if j.opts.CodegenOutput == "" && j.opts.Mode == ModeTerminal {
		return nil, nil
	}
	u, kept := j.copyUpdate(scriptDir, function, source)
	if !kept {
		return nil, nil
	}
	res, err := trace.UpdateWorkCopy(u)
	if err != nil {
		return nil, Failf("working copy: %v", err)
	}
	end.Generated = append(end.Generated, trace.GeneratedFile{Kind: "codegen", Path: res.Path})
	j.copies = append(j.copies, copyDoc{res.Path, function, j.target.Arch, copyWord(res.State), res.Message, res.Backups, res.Command})
	if !j.showsDiffs() && res.State != trace.CopyUnchanged && res.State != trace.CopyInit {
		d.notef("%s: %s", res.State, res.Message)
		if res.Command != "" {
			d.notef("your edit: %s", res.Command)
		}
	}
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

// copyUpdate is the update of a working copy by generated code; kept is false
// where none is.
func (j *job) copyUpdate(scriptDir, function, source string) (u trace.CopyUpdate, kept bool) {
	u = trace.CopyUpdate{
		ScriptDir: scriptDir, Function: function, Target: j.target.Arch,
		Newest: source, Settings: j.codeSettings(), DiffStat: textdiff.Stat,
	}
	switch p := j.opts.CodegenOutput; {
	case p == "none", p == "" && scriptDir == "":
		return u, false
	case p != "":
		u.Path = j.copyPath(p, function)
	}
	return u, true
}

// copyWord is a state in words; the state of a copy that stayed has none.
func copyWord(s trace.CopyState) string {
	if s == trace.CopyUnchanged {
		return "unchanged"
	}
	return string(s)
}

// codeSettings are the settings that decide the generated code beside the
// input and the target.
func (j *job) codeSettings() []trace.Option {
	var out []trace.Option
	for _, o := range passConfig(j.config) {
		out = append(out, trace.Option{Name: "--pass-config " + o.Name, Value: o.Value})
	}
	return append(out, selectionOptions(j.opts)...)
}

// copyPath is where a working copy goes under --codegen-output PATH: PATH for
// the first of a command; for others the function and target, and where that
// is taken the script's name, stand before the extension.
func (j *job) copyPath(path, function string) string {
	ext := filepath.Ext(path)
	stem := strings.TrimSuffix(path, ext)
	for _, p := range []string{path, stem + "." + function + "." + j.target.Arch + ext} {
		if !j.inv.copies[p] {
			j.inv.copies[p] = true
			return p
		}
	}
	base := stem + "." + j.in.stem + "." + function + "." + j.target.Arch
	p := base + ext
	for n := 2; j.inv.copies[p]; n++ {
		p = fmt.Sprintf("%s.%d%s", base, n, ext)
	}
	j.inv.copies[p] = true
	return p
}

// generated is the CUDA of one unit.
type generated struct {
	unit
	out *pipeline.Output
}

// lowerUntraced lowers and prints CUDA, a part for each function of the input.
// Told to stop, it returns the state there and pipeline.ErrStopped.
func (d *Deps) lowerUntraced(c *pipeline.Context, j *job) (parts []generated, state *ir.IRModule, err error) {
	ins := &recording{}
	c.Instruments = append(c.Instruments, ins)
	var m *ir.IRModule
	err = ins.guard(c, func() (err error) {
		m, err = j.pipe.Run(c, j.in.mod)
		return err
	})
	if err != nil {
		return nil, m, err
	}
	for _, u := range units(j, m, c.Aside[cuda.AsideHost]) {
		out, err := generateUnit(c, j, ins, u)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, generated{u, out})
	}
	return parts, nil, nil
}

// printUntraced lowers without a trace and writes CUDA alone: to standard
// output, each of several texts under a heading, or with --codegen-output to a
// file for each.
func (d *Deps) printUntraced(ctx context.Context, c *pipeline.Context, j *job) error {
	parts, state, err := d.lowerUntraced(c, j)
	switch {
	case ctx.Err() != nil:
		return reported(ExitInterrupted)
	case errors.Is(err, pipeline.ErrStopped):
		_, err := io.WriteString(d.Stdout, script.Print(state))
		return outputError(err)
	case err != nil:
		return d.passFailed(err)
	}
	for i, p := range parts {
		if path := j.opts.CodegenOutput; path != "" && path != "none" {
			path = j.copyPath(path, p.function)
			if err := os.WriteFile(path, []byte(p.out.Source), 0o644); err != nil {
				return Failf("%v", err)
			}
			continue
		}
		text := p.out.Source
		if len(parts) > 1 || len(j.inv.jobs) > 1 {
			text = fmt.Sprintf("// ==== %s · %s · %s ====\n\n%s", p.function, j.target.Arch, j.in.placeOf(p.function), text)
			if i > 0 || j != j.inv.jobs[0] {
				text = "\n" + text
			}
		}
		if _, err := io.WriteString(d.Stdout, text); err != nil {
			return outputError(err)
		}
	}
	return nil
}
