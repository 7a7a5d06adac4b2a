package driver

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"lowertrace/internal/gpu"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/launch"
	"lowertrace/internal/npy"
	"lowertrace/internal/pipeline"
)

// ExecOptions are what `exec` was asked for.
type ExecOptions struct {
	RunOptions
	NVRTC     string // library or folder; "": look in the usual places
	Device    int
	Runs      int           // timed runs; 0: none
	RunsGiven bool          // Runs was asked for, not the default
	Timeout   time.Duration // of each wait for the GPU
	Inputs    string        // folder of NAME.npy or NAME.in.npy
	Expect    string        // folder of NAME.npy or NAME.out.npy
	InputSpec []string      // NAME=HOW: how an input is drawn
	Seed      uint64
	Tolerance float64  // relative; negative: by type
	Unordered []string // buffers compared as sorted lists
	Bisect    bool
}

// Defaults of exec's flags.
const (
	DefaultExecRuns    = 20
	DefaultExecTimeout = 30 * time.Second
)

// maxExecRuns bounds --runs: each is a few events and launches in a queue.
const maxExecRuns = 10000

// Exec lowers a kernel, runs it on a GPU as its working copy stands, compares
// the answer and times it.
func Exec(ctx context.Context, d *Deps, o ExecOptions) error {
	x, err := d.newExecution(o)
	if err != nil {
		return err
	}
	defer x.close()
	if o.JSON {
		defer d.divertPrintf()()
	}
	if o.Bisect {
		return x.bisect(ctx)
	}
	r, err := x.run(ctx)
	if err != nil {
		return err
	}
	if o.JSON {
		if err := writeJSON(d.Stdout, r); err != nil {
			return err
		}
	} else if err := r.write(d.Stdout); err != nil {
		return err
	}
	if !r.Right {
		return reported(ExitFailed)
	}
	return nil
}

// execution is one kernel on one GPU.
type execution struct {
	d     *Deps
	o     ExecOptions
	gpu   execGPU
	nvrtc *gpu.NVRTC
	job   *job
	arch  string

	// Found with the first launch description and kept: inputs and the answer
	// do not depend on how a kernel is lowered.
	args   *interp.Args
	answer *execAnswer
}

// execAnswer is what a kernel should give.
type execAnswer struct {
	from      string // "interpreter" or the folder
	arrays    map[string]*npy.Array
	types     map[string]ir.DType
	unordered map[string]bool
	sums      map[string]int    // see interp.Result
	written   map[string][]bool // what the interpreted blocks wrote; nil: all blocks were
	blocks    int               // about as many of total were interpreted; 0: all, or none
	total     int
	work      work
}

// newExecution settles everything before a kernel is lowered: what is missing
// is told before anything runs.
func (d *Deps) newExecution(o ExecOptions) (*execution, error) {
	switch {
	case o.Runs < 0 || o.Runs > maxExecRuns:
		return nil, Usagef("--runs %d: expected 0 to %d", o.Runs, maxExecRuns)
	case o.Timeout <= 0:
		return nil, Usagef("--timeout %v: expected a positive duration", o.Timeout)
	}
	in, err := d.readKernel(o.file(), o.TraceDir, o.source())
	if err != nil {
		return nil, err
	}
	x, err := d.planExecution("exec", in, o)
	if err != nil {
		return nil, err
	}
	if o.Bisect { // goes on after a crash or a hang
		x.gpu, err = openWorkerGPU(o.Device, d.Stderr)
	} else {
		x.gpu, err = openGPU(o.Device)
	}
	if err != nil {
		return nil, &ExitError{ExitUsage, err}
	}
	dev := x.gpu.Device()
	if x.arch = o.Arch; x.arch == "" {
		x.arch = dev.Arch()
	}
	if x.nvrtc, err = d.openNVRTC(o.NVRTC); err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

// planExecution settles what a command lowers and runs: one function, for one
// target.
func (d *Deps) planExecution(command string, in *input, o ExecOptions) (*execution, error) {
	if err := in.onlyFunction(); err != nil {
		return nil, err
	}
	jobs, err := d.plan(in, o.RunOptions)
	if err != nil {
		return nil, err
	}
	if len(jobs) != 1 {
		return nil, Usagef("%s takes one target, got %s", command, o.Target)
	}
	o.Set = in.runtime // the source took the others
	return &execution{d: d, o: o, job: jobs[0]}, nil
}

func (x *execution) close() { x.gpu.Close() }

// onlyFunction refuses an input of several functions, of which none was chosen.
func (in *input) onlyFunction() error {
	if in.python {
		return nil // the evaluator chose
	}
	return in.pickFunction("")
}

// pickFunction leaves one function of an input with several.
func (in *input) pickFunction(name string) error {
	var names []string
	var picked *ir.PrimFunc
	for _, f := range in.mod.Funcs {
		if f.Private || pipeline.IsDeviceFunc(f) {
			continue
		}
		names = append(names, f.Name)
		if f.Name == name {
			picked = f
		}
	}
	switch {
	case name != "" && picked == nil:
		return Usagef("%s has no function %s%s", in.name, name, DidYouMean(name, names))
	case name == "" && len(names) > 1:
		return Usagef("%s has several functions: choose one with --func (%s)", in.name, strings.Join(names, ", "))
	case picked != nil && len(names) > 1:
		in.mod = &ir.IRModule{Funcs: []*ir.PrimFunc{picked}}
	}
	return nil
}

// run does all of it once, under trace.
func (x *execution) run(ctx context.Context) (*ExecReport, error) {
	l, err := x.d.lowerKept(ctx, x.job)
	if err != nil {
		return nil, err
	}
	return x.runLowered(ctx, l)
}

// runLowered compiles, runs, checks and times what a lowering left.
func (x *execution) runLowered(ctx context.Context, l *lowered) (*ExecReport, error) {
	obj, err := x.d.compileLowered(x.nvrtc, x.arch, l)
	if err != nil {
		return nil, err
	}
	if err := x.prepare(l.spec); err != nil {
		return nil, err
	}
	dev, err := encodeArgs(l.spec, *x.args)
	if err != nil {
		return nil, Usagef("%v", err)
	}
	r := x.newReport(l, obj)
	r.work = countWork(x.job.in.mod, l.spec, dev.env)
	runs := x.o.Runs
	if strings.Contains(l.source(), "printf(") && !x.o.RunsGiven {
		runs, r.NotTimed = 0, "the kernel prints; --runs N times it all the same"
	}
	if err := x.expect(ctx, l.spec, dev, r.work); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, x.o.Timeout)
	defer cancel()
	res, err := x.gpu.Run(wait, obj, l.spec, dev, runs)
	if err != nil {
		return nil, x.gpuFailed(ctx, err)
	}
	if err := x.judge(r, l.spec, dev, res); err != nil {
		return nil, err
	}
	r.measure(l.spec, dev.env, obj, res)
	return r, nil
}

// gpuFailed words what went wrong on the GPU.
func (x *execution) gpuFailed(ctx context.Context, err error) error {
	var ce *gpu.CUDAError
	switch {
	case ctx.Err() != nil:
		return reported(ExitInterrupted)
	case errors.Is(err, gpu.ErrHang):
		return Failf("the kernel did not finish within %v: it hangs, or --timeout is too short", x.o.Timeout)
	case errors.As(err, &ce) && ce.Sticky():
		return Failf("the kernel crashed: %w", err)
	}
	return Failf("%v", err)
}

// prepare draws or reads the inputs.
func (x *execution) prepare(spec *launch.Spec) error {
	if x.args != nil {
		return nil
	}
	set, err := readSettings("--set", x.o.Set)
	if err != nil {
		return err
	}
	for name := range set {
		_, isSym := spec.Symbols[name]
		_, isScalar := spec.Scalars[name]
		if !isSym && !isScalar {
			known := append(slices.Sorted(maps.Keys(spec.Symbols)), slices.Sorted(maps.Keys(spec.Scalars))...)
			if len(known) == 0 {
				return Usagef("--set %s: %s has no symbolic size and no scalar", name, spec.Name)
			}
			return Usagef("--set %s: %s has no such size or scalar, it has %s%s", name, spec.Name, strings.Join(known, ", "), DidYouMean(name, known))
		}
	}
	opts := interp.InputOptions{Set: set, Specs: map[string]string{}, Seed: x.o.Seed}
	for _, kv := range x.o.InputSpec {
		name, how, ok := strings.Cut(kv, "=")
		if _, known := spec.Buffers[name]; !ok || !known {
			return Usagef("--input %s: expected NAME=HOW with NAME one of %s", kv, strings.Join(spec.Args, ", "))
		}
		opts.Specs[name] = how
	}
	if opts.Given, err = readArrays(x.o.Inputs, ".in.npy", ".npy"); err != nil {
		return err
	}
	for name := range spec.Scalars { // a scalar may lie there too, as an array of one element
		if a := opts.Given[name]; a != nil && a.Len() == 1 {
			if _, ok := set[name]; !ok {
				set[name] = a.Float(0)
			}
			delete(opts.Given, name)
		}
	}
	mod := x.job.in.mod
	for buffer, handle := range handleNames(mod) {
		bothNames(opts.Given, buffer, handle)
	}
	for name, v := range sizesOf(mod, opts.Given) {
		if _, ok := set[name]; !ok {
			set[name] = v
		}
	}
	args, err := interp.Inputs(mod, opts)
	if err != nil {
		return Usagef("inputs: %v", err)
	}
	poison(args)
	for buffer, handle := range handleNames(mod) { // both names serve
		bothNames(args.Arrays, buffer, handle)
		bothNames(args.Strides, buffer, handle)
		bothNames(args.Unwritten, buffer, handle)
	}
	x.args = &args
	return nil
}

// bothNames makes what a map has under one of two names known under both.
func bothNames[V any](m map[string]V, a, b string) {
	if v, ok := m[a]; ok {
		m[b] = v
	} else if v, ok := m[b]; ok {
		m[a] = v
	}
}

// Budgets of the interpreter as judge: with more work than this, sampled
// blocks are interpreted, as many as fit, but at least a few.
const (
	execWorkBudget = 2e9 // operations and bytes
	execMinBlocks  = 4
)

// expect finds what the kernel should give.
func (x *execution) expect(ctx context.Context, spec *launch.Spec, dev *deviceArgs, w work) error {
	if x.answer != nil {
		return nil
	}
	a := &execAnswer{unordered: map[string]bool{}, types: map[string]ir.DType{}, work: w}
	for _, n := range x.o.Unordered {
		if _, ok := spec.Buffers[n]; !ok {
			return Usagef("--unordered %s: %s has no such buffer%s", n, spec.Name, DidYouMean(n, spec.Args))
		}
		a.unordered[n] = true
	}
	for _, n := range spec.Args {
		if t, err := ir.ParseDType(spec.Buffers[n].DType); err == nil {
			a.types[n] = t
		}
	}
	if x.o.Expect != "" {
		a.from = x.o.Expect
		all, err := readArrays(x.o.Expect, ".out.npy", ".npy")
		if err != nil {
			return err
		}
		for buffer, handle := range handleNames(x.job.in.mod) {
			bothNames(all, buffer, handle)
		}
		a.arrays = map[string]*npy.Array{}
		for _, n := range writtenArgs(spec) {
			if all[n] != nil {
				a.arrays[n] = all[n]
			}
		}
		if len(a.arrays) == 0 {
			return Usagef("%s: no array of an output (%s)", x.o.Expect, strings.Join(writtenArgs(spec), ", "))
		}
		x.answer = a
		return nil
	}
	a.from = "interpreter"
	opts := interp.Options{}
	if n, total := sampleBlocks(x.job.in.mod, spec, dev.env, w, *x.args); n > 0 {
		a.blocks, a.total = n, total
		opts.Sample = n
	}
	res, err := interp.Run(ctx, x.job.in.mod, *x.args, opts)
	switch {
	case ctx.Err() != nil:
		return reported(ExitInterrupted)
	case err != nil:
		return Failf("the interpreter gives no answer to compare with (--expect DIR does): %v", err)
	}
	a.arrays = res.Outputs
	if res.Written == nil {
		a.blocks, a.total = 0, 0
	} else {
		a.written = res.Written
	}
	for _, n := range res.Atomic {
		a.unordered[n] = true
	}
	a.sums = res.Sums
	for buffer, handle := range handleNames(x.job.in.mod) {
		bothNames(a.arrays, buffer, handle)
		bothNames(a.written, buffer, handle)
		bothNames(a.unordered, buffer, handle)
		bothNames(a.sums, buffer, handle)
	}
	x.answer = a
	return nil
}

// writtenArgs are the buffers that a function writes, in order.
func writtenArgs(spec *launch.Spec) []string {
	var out []string
	for _, n := range spec.Args {
		if b, ok := spec.Buffers[n]; ok && (b.Role == launch.Out || b.Role == launch.InOut) {
			out = append(out, n)
		}
	}
	return out
}

// sampleBlocks says how many of a launch's blocks to interpret, 0 for all. Only
// where blocks have nothing to do with each other can some stand for all: one
// launch without clusters, grid barriers and atomics. What is written is known
// of dense arrays alone.
func sampleBlocks(mod *ir.IRModule, spec *launch.Spec, env launch.Env, w work, args interp.Args) (n, total int) {
	cost := w.Flops + w.Bytes
	if cost <= execWorkBudget || len(spec.Launches) != 1 || slices.ContainsFunc(slices.Collect(maps.Values(args.Strides)), func(s []int64) bool { return s != nil }) {
		return 0, 0
	}
	l := &spec.Launches[0]
	if l.Cluster != nil || l.Cooperative {
		return 0, 0
	}
	for _, f := range mod.Funcs {
		shared := false
		ir.WalkExprs(f.Body, func(e ir.Expr) bool {
			if c, ok := e.(*ir.Call); ok && c.Op != nil && strings.Contains(c.Op.Name, "atomic") {
				shared = true
			}
			return !shared
		})
		if shared {
			return 0, 0
		}
	}
	blocks := int64(1)
	for _, g := range l.Grid {
		k, err := g.Eval(env)
		if err != nil || k < 1 {
			return 0, 0
		}
		blocks *= k
	}
	n = max(int(float64(blocks)*execWorkBudget/cost), execMinBlocks)
	if int64(n) >= blocks || blocks > interp.MaxBlocks {
		return 0, 0
	}
	return n, int(blocks)
}

// judge compares what the GPU gave with what it should be.
func (x *execution) judge(r *ExecReport, spec *launch.Spec, dev *deviceArgs, res *gpuResult) error {
	a := x.answer
	r.Answer.From, r.Answer.Blocks, r.Answer.TotalBlocks = a.from, a.blocks, a.total
	r.Right = len(res.outside) == 0
	r.Answer.Outside = res.outside
	for _, n := range spec.Args { // what is only read must be as it was
		if b, ok := spec.Buffers[n]; ok && b.Role == launch.In && string(dev.buffers[n]) != string(res.buffers[n]) {
			r.Answer.Changed = append(r.Answer.Changed, n)
			r.Right = false
		}
	}
	for _, name := range writtenArgs(spec) {
		want := a.arrays[name]
		if want == nil {
			continue
		}
		like := x.args.Arrays[name]
		got, err := decodeArray(spec.Buffers[name].DType, res.buffers[name], like, x.args.Strides[name])
		if err != nil {
			return Failf("buffer %s: %v", name, err)
		}
		b := BufferVerdict{Name: name, Elements: want.Len(), Compared: want.Len()}
		if only := a.written[name]; only != nil {
			b.Compared = 0
			for _, w := range only {
				if w {
					b.Compared++
				}
			}
		}
		tol := x.tolerance(name)
		diffs := interp.Compare(map[string]*npy.Array{name: want}, map[string]*npy.Array{name: got},
			interp.CompareOptions{Types: a.types, RTol: tol, Unordered: a.unordered, Written: a.written})
		b.take(diffs[0])
		if len(b.FirstBad) == len(got.Shape) && !b.Unordered && x.args.Unwritten[name] {
			at := 0
			for d, k := range b.FirstBad {
				at = at*got.Shape[d] + k
			}
			b.Unwritten = b.Wrong > 0 && untouched(got, like, at)
		}
		if tol != nil {
			b.Tolerance = *tol
		}
		r.Right = r.Right && b.Right && b.Compared > 0
		r.Answer.Buffers = append(r.Answer.Buffers, b)
	}
	if len(r.Answer.Buffers) == 0 {
		r.Right = false
	}
	return nil
}

// untouched reports an element that is what it was before a run; any NaN is as
// good as another, for narrow formats do not keep its bits.
func untouched(after, before *npy.Array, i int) bool {
	return after.Uint(i) == before.Uint(i) || math.IsNaN(after.Float(i)) && math.IsNaN(before.Float(i))
}

// tolerance is that of an output: rounding of an intermediate value of a
// narrower type shows in it, so the coarsest of the kernel's types counts. Where
// n atomic additions of 16-bit floats make an element, in whatever order, their
// roundings add up as the root of n. Nil: the type's own.
func (x *execution) tolerance(name string) *float64 {
	if x.o.Tolerance >= 0 {
		return &x.o.Tolerance
	}
	own := interp.Tolerance(x.answer.types[name])
	if own <= 0 { // integers exactly, narrow floats by their steps
		return nil
	}
	if w := x.answer.work; w.Tensor > 0 && (w.TensorType == "float32" || w.TensorType == "tfloat32") {
		own = max(own, interp.Tolerance(ir.DFloat16)) // tensor cores take as many bits of them
	}
	for _, f := range x.job.in.mod.Funcs {
		widen := func(b *ir.Buffer) {
			switch t := interp.Tolerance(b.Type); {
			case t < 0:
				own = max(own, interp.Tolerance(ir.DFloat16))
			default:
				own = max(own, t)
			}
		}
		for _, b := range f.BufferMap {
			widen(b.Buffer)
		}
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.AllocBuffer:
				widen(s.Buffer)
			case *ir.SBlock:
				for _, b := range s.AllocBuffers {
					widen(b)
				}
			}
			return true
		})
	}
	own *= math.Sqrt(float64(max(1, x.answer.sums[name])))
	return &own
}
