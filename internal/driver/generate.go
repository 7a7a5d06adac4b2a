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
	host     *ir.IRModule // nil where the lowering kept no host side
}

// units parts a lowered module by the functions of the input, so that each has
// generated code, and a working copy, of its own. Kernels belong to the host
// function that names them. Where that is not known, or there is one function,
// the module is one unit.
func units(j *job, m, host *ir.IRModule) []unit {
	whole := []unit{{j.in.mod.Funcs[0].Name, m, host}}
	if r := j.in.from; r != nil && r.run.Function != "" {
		whole[0].function = r.run.Function
	}
	if host == nil || len(host.Funcs) < 2 {
		return whole
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
	for _, k := range m.Funcs {
		if owner[k.Name] == "" {
			return whole
		}
	}
	return out
}

// generate prints the device module and takes it into the working copies, one
// for each function of the input.
func (d *Deps) generate(c *pipeline.Context, j *job, ins *recording, m *ir.IRModule, end *trace.Ending) ([]render.SummaryLine, error) {
	var lines []render.SummaryLine
	host := c.Aside[cuda.AsideHost]
	for _, u := range units(j, m, host) {
		if u.host != nil {
			c.Aside[cuda.AsideHost] = u.host
		}
		out, err := d.generateUnit(c, j, ins, u)
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

// generateUnit runs the code generator as a record.
func (d *Deps) generateUnit(c *pipeline.Context, j *job, ins *recording, u unit) (out *pipeline.Output, err error) {
	h := ins.rec.BeginCodegen(trace.Pass{Name: "codegen", Stage: "codegen", Doc: "print the device module as CUDA C"}, ins.text.print(u.device))
	ins.open = append(ins.open, openPass{handle: h, name: "the code generator"})
	err = ins.guard(c, func() error {
		var err error
		out, err = j.pipe.Codegen()(c, u.device)
		var after trace.Text
		if err == nil {
			after = trace.Text{Text: out.Source, Origins: lineNumbers(out.Origins)}
		}
		ins.open = ins.open[:len(ins.open)-1]
		ins.rec.End(h, after, err, nil)
		return err
	})
	return out, err
}

// updateCopy takes generated code into its working copy and says in the
// summary what came of it.
func (d *Deps) updateCopy(j *job, scriptDir, function, source string, end *trace.Ending) ([]render.SummaryLine, error) {
	u := trace.CopyUpdate{
		ScriptDir: scriptDir, Function: function, Target: j.target.Arch,
		Newest: source, Settings: j.codeSettings(), DiffStat: textdiff.Stat,
	}
	switch p := j.opts.CodegenOutput; {
	case p == "none", p == "" && (j.opts.Mode == ModeTerminal || u.ScriptDir == ""):
		return nil, nil
	case p != "":
		u.Path = j.copyPath(p, function)
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

// lowerUntraced lowers and prints the CUDA of the whole module, or the state
// where it was told to stop.
func (d *Deps) lowerUntraced(ctx context.Context, c *pipeline.Context, j *job) error {
	var text string
	var m *ir.IRModule
	ins := &recording{}
	c.Instruments = append(c.Instruments, ins)
	err := ins.guard(c, func() (err error) {
		m, err = j.pipe.Run(c, j.in.mod)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return reported(ExitInterrupted)
	case errors.Is(err, pipeline.ErrStopped):
		_, err := io.WriteString(d.Stdout, script.Print(m))
		return outputError(err)
	case err != nil:
		return d.passFailed(err)
	}
	if host := c.Aside[cuda.AsideHost]; host != nil && len(host.Funcs) > 1 {
		delete(c.Aside, cuda.AsideHost) // the text holds the kernels of all functions
	}
	ins.open = append(ins.open, openPass{name: "the code generator"})
	err = ins.guard(c, func() error {
		out, err := j.pipe.Codegen()(c, m)
		if err == nil {
			text = out.Source
		}
		return err
	})
	if err != nil {
		return d.passFailed(err)
	}
	if p := j.opts.CodegenOutput; p != "" && p != "none" {
		p = j.copyPath(p, j.in.mod.Funcs[0].Name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			return Failf("%v", err)
		}
		return nil
	}
	_, err = io.WriteString(d.Stdout, text)
	return outputError(err)
}
