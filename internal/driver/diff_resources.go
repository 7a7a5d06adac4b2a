package driver

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"lowertrace/internal/gpu"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
	"lowertrace/internal/render"
	"lowertrace/internal/trace"
)

// kernelResources is what a kernel of one side of a comparison uses; nil on a
// side that does not have the kernel.
type kernelResources struct {
	Kernel string       `json:"kernel"`
	A      *kernelUsage `json:"a,omitempty"`
	B      *kernelUsage `json:"b,omitempty"`
}

// kernelUsage is per thread but for Shared, which is the bytes of static
// shared memory of a block.
type kernelUsage struct {
	Registers int `json:"registers"`
	Stack     int `json:"stack_bytes"`
	Spills    int `json:"spill_bytes"` // stored and loaded
	Shared    int `json:"static_shared_bytes"`
}

// resourceDiff is what the code of two runs uses.
type resourceDiff struct {
	Kernels []kernelResources `json:"resources"`
	ptx     [2]string
}

// compiledRun is the generated code of a run, compiled.
type compiledRun struct {
	kernels []gpu.Kernel
	ptx     string
}

// compileRun compiles what a run generated for the architecture it was
// compiled for, else the one it was lowered for.
func (d *Deps) compileRun(n *gpu.NVRTC, run *trace.Run, name string) (*compiledRun, error) {
	c := &compiledRun{}
	arch := run.Arch
	if arch == "" {
		arch = run.Target
	}
	config := pipeline.Options{}
	for _, o := range run.PassConfig {
		_ = config.Set(o.Name, o.Value) // another version may have had further options
	}
	flags := cuda.CompileFlags(config)
	var ptx strings.Builder
	for i := range run.Records {
		r := &run.Records[i]
		if r.Status != trace.Codegen || !r.HasAfter {
			continue
		}
		obj, err := d.compileSource(n, arch, &pipeline.Output{Source: r.AfterText, Flags: flags}, r.AfterText, name)
		if err != nil {
			return nil, err
		}
		c.kernels = append(c.kernels, obj.Kernels...)
		ptx.Write(obj.PTX)
	}
	if len(c.kernels) == 0 {
		return nil, Usagef("%s has no generated code to compile", name)
	}
	c.ptx = ptx.String()
	return c, nil
}

// diffResources compiles the generated code of both runs.
func (d *Deps) diffResources(runs [2]*trace.Run, names []string, o DiffOptions) (*resourceDiff, error) {
	n, err := d.openNVRTC(o.NVRTC)
	if err != nil {
		return nil, err
	}
	res := &resourceDiff{}
	for i, run := range runs {
		c, err := d.compileRun(n, run, names[i])
		if err != nil {
			return nil, err
		}
		res.ptx[i] = c.ptx
		for _, k := range c.kernels {
			u := &kernelUsage{k.Registers, k.Stack, k.SpillStores + k.SpillLoads, k.Shared}
			if r := res.row(k.Name); i == 0 {
				r.A = u
			} else {
				r.B = u
			}
		}
	}
	return res, nil
}

func (r *resourceDiff) row(kernel string) *kernelResources {
	i := slices.IndexFunc(r.Kernels, func(k kernelResources) bool { return k.Kernel == kernel })
	if i < 0 {
		r.Kernels = append(r.Kernels, kernelResources{Kernel: kernel})
		i = len(r.Kernels) - 1
	}
	return &r.Kernels[i]
}

// tell prints the table, and with o.PTX the diff of the PTX. It does nothing
// when resources were not asked for.
func (r *resourceDiff) tell(d *Deps, o DiffOptions) error {
	if r == nil {
		return nil
	}
	fmt.Fprintln(d.Stdout)
	w := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "kernel\tregisters\tstack\tspills\tstatic shared\n")
	for _, k := range r.Kernels {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", k.Kernel,
			k.change(func(u *kernelUsage) int { return u.Registers }), k.change(func(u *kernelUsage) int { return u.Stack }),
			k.change(func(u *kernelUsage) int { return u.Spills }), k.change(func(u *kernelUsage) int { return u.Shared }))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !o.PTX || r.ptx[0] == r.ptx[1] {
		return nil
	}
	fmt.Fprintln(d.Stdout)
	t := d.terminal(render.DiffOptions{Context: o.Context, Host: true})
	t.Diff("a.ptx", "b.ptx", r.ptx[0], r.ptx[1])
	return t.Err()
}

// change is a figure of both sides: "40", "40 → 48", or "- → 48".
func (r *kernelResources) change(get func(*kernelUsage) int) string {
	side := func(u *kernelUsage) string {
		if u == nil {
			return "-"
		}
		return fmt.Sprint(get(u))
	}
	a, b := side(r.A), side(r.B)
	if a == b {
		return a
	}
	return a + " → " + b
}
