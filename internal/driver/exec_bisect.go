package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lowertrace/internal/gpu"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/npy"
	"lowertrace/internal/pipeline"
)

// bisectOutcome is what came of a lowering with some passes left out.
type bisectOutcome uint8

const (
	outcomeRight bisectOutcome = iota
	outcomeWrong               // a wrong answer, a crash or a hang
	outcomeNone                // no answer: it does not lower, compile or launch
)

func (o bisectOutcome) String() string { return [...]string{"right", "WRONG", "no answer"}[o] }

// BisectReport is what exec --bisect found, and its document of --json.
type BisectReport struct {
	Schema int          `json:"bisect_schema_version"`
	Steps  []BisectStep `json:"steps"`
	// Culprits are the passes of which one is to blame: one, unless some
	// lowerings gave no answer. None: the answer is right, or wrong with every
	// optional pass left out.
	Culprits []string `json:"culprits"`
	// Interpreter is the interpreter's answer for what the lowering with the
	// culprit hands to the code generator: "right" (then the hardware or the
	// code generator differs), "WRONG", or why there is none.
	Interpreter string `json:"interpreter,omitempty"`
	Conclusion  string `json:"conclusion"`
}

// BisectStep is one lowering that was tried.
type BisectStep struct {
	Skipped []string `json:"skipped"`
	Outcome string   `json:"outcome"`
	Detail  string   `json:"detail,omitempty"`
}

// bisect leaves out optional passes until the one is found whose result is
// wrong: with the first k of them the answer is right, with the first k+1 it is
// not. The generated code runs, not the working copy.
func (x *execution) bisect(ctx context.Context) error {
	b := &BisectReport{Schema: execSchema, Steps: []BisectStep{}, Culprits: []string{}}
	var optional []string
	for _, r := range x.job.pipe.Rows() {
		if r.Optional && !named(x.o.Skip, r) {
			optional = append(optional, r.Label)
		}
	}
	try := func(kept int) (bisectOutcome, error) {
		step, out, err := x.tryWithout(ctx, optional[kept:])
		if err != nil {
			return out, err
		}
		b.Steps = append(b.Steps, step)
		if !x.o.JSON {
			fmt.Fprintf(x.d.Stdout, "%-9s  %s\n", step.Outcome, withoutText(step.Skipped, len(optional)))
			if step.Detail != "" {
				fmt.Fprintf(x.d.Stdout, "           %s\n", step.Detail)
			}
		}
		return out, nil
	}
	culprits, verdict, err := bisectPrefix(optional, try)
	if err != nil {
		return err
	}
	b.Culprits = append(b.Culprits, culprits...)
	switch {
	case verdict == outcomeRight:
		b.Conclusion = "the answer is right with every pass: nothing to look for"
	case verdict == outcomeNone:
		b.Conclusion = "there is no answer to begin with: " + b.Steps[len(b.Steps)-1].Detail
	case len(culprits) == 0:
		b.Conclusion = "the answer is wrong without any optional pass: look at the others with lowertrace check"
	case len(culprits) == 1:
		b.Conclusion = fmt.Sprintf("%s: without it and the optional passes behind it the answer is right, with it wrong", culprits[0])
	default:
		b.Conclusion = "one of " + strings.Join(culprits, ", ") + ": lowerings between them give no answer"
	}
	if len(culprits) > 0 {
		var why string
		b.Interpreter, why = x.interpretLowered(ctx, optional, culprits[len(culprits)-1])
		if why != "" {
			b.Conclusion += "; " + why
		}
	}
	if x.o.JSON {
		if err := writeJSON(x.d.Stdout, b); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(x.d.Stdout, "\n%s\n", b.Conclusion)
	}
	if verdict != outcomeRight {
		return reported(ExitFailed)
	}
	return nil
}

// bisectPrefix finds which of the passes makes the answer wrong. try(k) keeps
// the first k of them. Of several answers it takes the first to turn wrong that
// it meets, as any bisection does. More than one culprit: those between gave no
// answer. The verdict is that of all passes.
func bisectPrefix(passes []string, try func(kept int) (bisectOutcome, error)) (culprits []string, verdict bisectOutcome, err error) {
	verdict, err = try(len(passes))
	if err != nil || verdict != outcomeWrong || len(passes) == 0 {
		return nil, verdict, err
	}
	first, err := try(0)
	if err != nil || first == outcomeWrong {
		return nil, verdict, err
	}
	// passes[:lo] is right (or, at first, perhaps without an answer),
	// passes[:hi] wrong; silent are those known to give no answer.
	lo, hi := 0, len(passes)
	silent := map[int]bool{0: first == outcomeNone}
	for {
		k := between(lo, hi, silent)
		if k < 0 {
			break
		}
		o, err := try(k)
		switch {
		case err != nil:
			return nil, verdict, err
		case o == outcomeRight:
			lo = k
		case o == outcomeWrong:
			hi = k
		default:
			silent[k] = true
		}
	}
	return passes[lo:hi], verdict, nil
}

// between is the number strictly between lo and hi nearest to their middle that
// is not silent, -1 when there is none.
func between(lo, hi int, silent map[int]bool) int {
	mid := (lo + hi) / 2
	for d := 0; mid-d > lo || mid+d < hi; d++ {
		for _, k := range []int{mid - d, mid + d} {
			if k > lo && k < hi && !silent[k] {
				return k
			}
		}
	}
	return -1
}

// tryWithout lowers without some passes, runs what comes out and judges it.
func (x *execution) tryWithout(ctx context.Context, skip []string) (BisectStep, bisectOutcome, error) {
	step := BisectStep{Skipped: append([]string{}, skip...)}
	out, detail, err := x.outcomeWithout(ctx, skip)
	step.Outcome, step.Detail = out.String(), detail
	return step, out, err
}

func (x *execution) outcomeWithout(ctx context.Context, skip []string) (bisectOutcome, string, error) {
	if ctx.Err() != nil {
		return outcomeNone, "", reported(ExitInterrupted)
	}
	l, err := x.lowerWithout(ctx, skip)
	if err != nil {
		return outcomeNone, err.Error(), nil
	}
	obj, err := x.nvrtc.Compile(l.out.Source, gpu.CompileOptions{Arch: x.arch, Name: kernelSource, Flags: l.out.Flags})
	if err != nil {
		return outcomeNone, err.Error(), nil
	}
	if err := x.prepare(l.spec); err != nil {
		return outcomeNone, "", err
	}
	dev, err := encodeArgs(l.spec, *x.args)
	if err != nil {
		return outcomeNone, "", Usagef("%v", err)
	}
	if err := x.expect(ctx, l.spec, dev, countWork(x.job.in.mod, l.spec, dev.env)); err != nil {
		return outcomeNone, "", err
	}
	wait, cancel := context.WithTimeout(ctx, x.o.Timeout)
	defer cancel()
	res, err := x.gpu.Run(wait, obj, l.spec, dev, 0)
	var ce *gpu.CUDAError
	switch {
	case ctx.Err() != nil:
		return outcomeNone, "", reported(ExitInterrupted)
	case errors.Is(err, gpu.ErrHang):
		return outcomeWrong, err.Error(), nil
	case errors.As(err, &ce) && ce.Sticky():
		return outcomeWrong, ce.Error(), nil
	case err != nil:
		return outcomeNone, err.Error(), nil
	}
	r := x.newReport(l, obj)
	if err := x.judge(r, l.spec, dev, res); err != nil {
		return outcomeNone, "", err
	}
	if r.Right {
		return outcomeRight, "", nil
	}
	return outcomeWrong, strings.Join(r.answerLines()[1:], "; "), nil
}

// lowerWithout lowers without a trace and without some passes.
func (x *execution) lowerWithout(ctx context.Context, skip []string) (*lowered, error) {
	c := x.job.context(ctx)
	c.Select.Skip = slices.Concat(c.Select.Skip, skip)
	l := &lowered{}
	if err := l.lower(c, x.job, &recording{}); err != nil {
		return nil, err
	}
	return l, nil
}

// interpretLowered runs what the lowering up to the culprit gives on the
// interpreter, to tell a wrong pass from one that is wrong on hardware alone.
func (x *execution) interpretLowered(ctx context.Context, optional []string, culprit string) (verdict, why string) {
	l, err := x.lowerWithout(ctx, optional[slices.Index(optional, culprit)+1:])
	if err != nil {
		return err.Error(), ""
	}
	res, err := interp.Run(ctx, joinHost(l.mod, l.host), *x.args, interp.Options{Sample: x.answer.blocks, Cover: x.answer.written})
	if err != nil {
		return err.Error(), "the interpreter cannot run what it leads to"
	}
	for buffer, handle := range handleNames(x.job.in.mod) {
		bothNames(res.Outputs, buffer, handle)
	}
	for name, want := range x.answer.arrays {
		got := res.Outputs[name]
		if got == nil {
			continue
		}
		d := interp.Compare(map[string]*npy.Array{name: want}, map[string]*npy.Array{name: got},
			interp.CompareOptions{Types: x.answer.types, RTol: x.tolerance(name), Unordered: x.answer.unordered, Written: x.answer.written})
		if d[0].Verdict == interp.Wrong {
			return outcomeWrong.String(), "the interpreter gives a wrong answer too: lowertrace check names the pass"
		}
	}
	return outcomeRight.String(), "the interpreter gives the right answer: it is wrong on the hardware alone"
}

// named reports a row that a list of names or labels covers.
func named(list []string, r pipeline.Row) bool {
	return slices.Contains(list, r.Label) || slices.Contains(list, r.Pass.Name)
}

// withoutText says which passes are left out; all is the number of optional
// ones.
func withoutText(skip []string, all int) string {
	switch {
	case len(skip) == 0:
		return "with every pass"
	case len(skip) == all:
		return "without any optional pass"
	case len(skip) > 4:
		return fmt.Sprintf("without %s and %d more", strings.Join(skip[:3], ", "), len(skip)-3)
	}
	return "without " + strings.Join(skip, ", ")
}
