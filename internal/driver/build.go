package driver

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lowertrace/internal/gpu"
	"lowertrace/internal/launch"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
	"lowertrace/internal/render"
)

// BuildOptions are what `build` was asked for.
type BuildOptions struct {
	RunOptions
	Output string // folder
	NVRTC  string // library or folder; "": look in the usual places
}

//go:embed launcher/launcher.py
var launcherSource []byte

// Names of the files `build` writes.
const (
	kernelSource = "kernel.cu"
	kernelCubin  = "kernel.cubin"
	kernelPTX    = "kernel.ptx"
	launchJSON   = "launch.json"
	launcherPy   = "launcher.py"
)

// Build lowers and compiles a kernel into a folder: source, cubin, PTX, launch
// description, and a launcher for Python. Several kernels have a folder each
// below it, named after the function. It needs no GPU.
func Build(ctx context.Context, d *Deps, o BuildOptions) error {
	if strings.Contains(o.Target, ",") {
		return Usagef("build takes one target, got %s", o.Target)
	}
	jobs, err := d.readJobs(ctx, o.RunOptions)
	if err != nil {
		return err
	}
	nvrtc, err := d.openNVRTC(o.NVRTC)
	if err != nil {
		return err
	}
	d.newInvocation(jobs)
	byName := map[string]bool{}
	type part struct {
		*job
		generated
	}
	var parts []part
	for _, j := range jobs {
		ps, _, err := d.lowerUntraced(j.context(ctx), j)
		switch {
		case ctx.Err() != nil:
			return reported(ExitInterrupted)
		case err != nil:
			return d.passFailed(err)
		}
		for _, p := range ps {
			if byName[p.function] {
				return Usagef("two functions are named %s: build them into different folders", p.function)
			}
			byName[p.function] = true
			parts = append(parts, part{j, p})
		}
	}
	for _, p := range parts {
		dir := o.Output
		if len(parts) > 1 {
			dir = filepath.Join(dir, p.function)
		}
		if err := d.buildOne(p.job, nvrtc, p.out, dir); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return reported(ExitInterrupted)
		}
	}
	return nil
}

// buildOne compiles the code of one function and writes its folder.
func (d *Deps) buildOne(j *job, nvrtc *gpu.NVRTC, out *pipeline.Output, dir string) error {
	obj, err := d.compileSource(nvrtc, j.compileArch(), out, out.Source, kernelSource)
	if err != nil {
		return err
	}
	spec, err := launch.Parse(out.Launch)
	if err != nil {
		return Failf("%v", err)
	}
	spec.Source, spec.Cubin = kernelSource, kernelCubin
	if len(obj.PTX) > 0 {
		spec.PTX = kernelPTX
	}
	addResources(spec, obj)
	js, err := spec.Format()
	if err != nil {
		return Failf("%v", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return openError(dir, err)
	}
	files := []struct {
		name string
		data []byte
	}{
		{kernelSource, []byte(out.Source)}, {kernelCubin, obj.Cubin}, {kernelPTX, obj.PTX},
		{launchJSON, js}, {launcherPy, launcherSource},
	}
	for _, f := range files {
		if f.data == nil {
			continue
		}
		path := filepath.Join(dir, f.name)
		if err := writeFile(path, func(w *os.File) error { _, err := w.Write(f.data); return err }); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(d.Stdout, path); err != nil {
			return outputError(err)
		}
	}
	for _, k := range obj.Kernels {
		fmt.Fprintln(d.Stderr, kernelLine(obj.Arch, spec, k))
	}
	return nil
}

// openNVRTC opens the compiler, or says how to get it.
func (d *Deps) openNVRTC(path string) (*gpu.NVRTC, error) {
	f := gpu.NewFinder()
	f.NVRTC = path
	n, err := gpu.OpenNVRTC(f)
	if err != nil {
		return nil, &ExitError{ExitUsage, err}
	}
	return n, nil
}

// compileArch is what a job is compiled for.
func (j *job) compileArch() string {
	if j.opts.Arch != "" {
		return j.opts.Arch
	}
	return j.target.Arch
}

// compileSource compiles source, which is out's or an edit of it, called name in
// messages. Errors are told with the line of the source and, where one is
// known, the kernel's line it came from.
func (d *Deps) compileSource(n *gpu.NVRTC, arch string, out *pipeline.Output, source, name string) (*gpu.Object, error) {
	obj, err := n.Compile(source, gpu.CompileOptions{Arch: arch, Name: name, Flags: out.Flags})
	var ce *gpu.CompileError
	var ae *gpu.ArchError
	switch {
	case errors.As(err, &ae):
		return nil, Usagef("%v%s", err, DidYouMean(arch, cuda.TargetNames()))
	case errors.As(err, &ce):
		for _, m := range ce.Messages {
			fmt.Fprintln(d.Stderr, m)
			if m.Line == 0 || m.File != name {
				continue
			}
			if m.Source != "" {
				fmt.Fprintf(d.Stderr, "    %s\n", m.Source)
			}
			switch origin, edited := originOf(out, source, m.Line); {
			case edited && origin.IsValid():
				fmt.Fprintf(d.Stderr, "    a line of your edit, behind code from %s\n", origin)
			case edited:
				fmt.Fprintln(d.Stderr, "    a line of your edit")
			case origin.IsValid():
				fmt.Fprintf(d.Stderr, "    from %s\n", origin)
			}
		}
		if len(ce.Messages) == 0 {
			return nil, Failf("%v\n%s", err, ce.Log)
		}
		return nil, reported(ExitFailed)
	case err != nil:
		return nil, Failf("%v", err)
	}
	return obj, nil
}

// resources compiles generated code and says what its kernels use. What is in
// the way, a missing compiler or an error in the code, is told and fails
// nothing: the lowering itself is done.
func (d *Deps) resources(j *job, out *pipeline.Output) []render.SummaryLine {
	n, err := d.openNVRTC("")
	if err == nil {
		var obj *gpu.Object
		if obj, err = d.compileSource(n, j.compileArch(), out, out.Source, kernelSource); err == nil {
			var spec *launch.Spec
			if spec, err = launch.Parse(out.Launch); err == nil {
				var lines []render.SummaryLine
				for _, k := range obj.Kernels {
					lines = append(lines, render.SummaryLine{Label: "resources", Text: kernelLine(obj.Arch, spec, k)})
				}
				return lines
			}
		}
	}
	var ex *ExitError
	if !errors.As(err, &ex) || ex.Err != nil {
		d.notef("warning: --stats: %v", err)
	}
	return nil
}

func addResources(s *launch.Spec, obj *gpu.Object) {
	for i := range s.Launches {
		for _, k := range obj.Kernels {
			if k.Name == s.Launches[i].Kernel {
				s.Launches[i].Resources = &launch.Resources{Regs: k.Registers, Stack: k.Stack, SpillSt: k.SpillStores, SpillLd: k.SpillLoads, StaticSMem: k.Shared}
			}
		}
	}
}

// kernelLine says what a compiled kernel uses, and how many fit an SM.
func kernelLine(arch string, s *launch.Spec, k gpu.Kernel) string {
	text := fmt.Sprintf("%s: %s, %d registers, %d bytes of stack", k.Name, arch, k.Registers, k.Stack)
	if k.Spills {
		text += fmt.Sprintf(", spills %d/%d bytes", k.SpillStores, k.SpillLoads)
	}
	for _, l := range s.Launches {
		if l.Kernel != k.Name {
			continue
		}
		smem, err := l.SMem.Eval(nil)
		if err != nil {
			break
		}
		text += fmt.Sprintf(", %d bytes of shared memory", smem+int64(k.Shared))
		threads := int64(1)
		for _, b := range l.Block {
			n, err := b.Eval(nil)
			if err != nil {
				return text
			}
			threads *= n
		}
		if sm, ok := gpu.LookupSM(arch); ok {
			o := sm.Occupancy(int(threads), k.Registers, int(smem)+k.Shared)
			text += fmt.Sprintf(", %d blocks per SM (%.0f %% of warps, limit: %s)", o.Blocks, o.Percent, strings.Join(o.Limits, ", "))
		}
		break
	}
	return text
}
