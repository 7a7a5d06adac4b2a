package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
	"lowertrace/internal/pipeline/device"
	"lowertrace/internal/pipeline/legalize"
	"lowertrace/internal/render"
	"lowertrace/internal/trace"
)

// CheckOptions are what `check` was asked for.
type CheckOptions struct {
	RunOptions
	Inputs    string   // folder of NAME.npy or NAME.in.npy
	Expect    string   // folder of NAME.npy or NAME.out.npy
	Tolerance float64  // relative; negative: by type
	Unordered []string // buffers compared as sorted lists
	InputSpec []string // NAME=HOW: how an input is drawn
	Blocks    int      // about how many blocks of a launch to run; 0: all
	Perf      bool
	All       bool // go on behind the first bad state
}

// checkState is one state of the module to run.
type checkState struct {
	label string // of the pass whose result it is; "input" for the first
	index int    // of the record
	mod   *ir.IRModule
	// A state whose text is that before its pass is not run again.
	before, text string
	// sync says whether barriers are implied in this state: until ThreadSync
	// has put them there.
	sync interp.SyncMode
	// bounds says likewise whether accesses beyond a buffer mean nothing.
	bounds interp.BoundsMode
	skip   string // why the state cannot be run at all
	failed string // the pass failed: its message
}

// stateVerdict is what became of a state.
type stateVerdict struct {
	Label    string           `json:"pass"`
	Index    int              `json:"index"`
	Verdict  string           `json:"verdict"` // same, rounding, WRONG, finding, not runnable, unchanged, failed
	MaxError jsonFloat        `json:"max_error,omitempty"`
	Details  []string         `json:"details,omitempty"`
	Findings []checkedFinding `json:"findings,omitempty"`
}

// jsonFloat is a number that JSON may not know: infinities and NaN become
// strings.
type jsonFloat float64

// MarshalJSON implements json.Marshaler.
func (f jsonFloat) MarshalJSON() ([]byte, error) {
	if x := float64(f); math.IsInf(x, 0) || math.IsNaN(x) {
		return fmt.Appendf(nil, "%q", fmt.Sprint(x)), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', -1, 64), nil
}

type checkedFinding struct {
	Kind   string      `json:"kind"`
	Text   string      `json:"text"`
	Place  *diag.Place `json:"place,omitempty"`
	Block  [3]int      `json:"block"`
	Thread int         `json:"thread"`
	Count  int         `json:"count"`
}

// Words of a verdict.
const (
	verdictSame        = "same"
	verdictRounding    = "rounding"
	verdictWrong       = "WRONG"
	verdictFinding     = "finding"
	verdictNotRunnable = "not runnable"
	verdictUnchanged   = "unchanged"
	verdictFailed      = "failed"
)

// skippedSuffix marks the state that a skipped pass left as it was.
const skippedSuffix = " (skipped)"

// stateCollector is the instrument that keeps the module after each pass of
// the table.
type stateCollector struct {
	c      *pipeline.Context
	states []checkState
	text   textCache
	n      int
}

func (s *stateCollector) Before(e *pipeline.Event) {}

func (s *stateCollector) After(e *pipeline.Event) {
	n := s.n
	s.n++
	if e.Depth > 0 {
		return
	}
	st := checkState{label: e.Label, index: n, before: s.text.print(e.Input).Text}
	switch {
	case e.Skipped != "":
		st.label += skippedSuffix
		st.mod, st.text = joinHost(e.Input, s.c.Aside[cuda.AsideHost]), st.before
	case e.Err != nil:
		st.failed = e.Err.Error()
	case e.Pass == device.FilterHost:
		return // its sibling's result joins both halves
	default:
		st.mod = joinHost(e.Result, s.c.Aside[cuda.AsideHost])
		st.text = s.text.print(e.Result).Text
	}
	s.states = append(s.states, st)
}

// joinHost puts the host half back in front of a device module, so that both
// run as a whole.
func joinHost(dev, host *ir.IRModule) *ir.IRModule {
	if host == nil || dev == nil {
		return dev
	}
	return &ir.IRModule{Funcs: slices.Concat(host.Funcs, dev.Funcs)}
}

// Check runs the IR at every pass boundary and names the first pass that
// changed the result.
func Check(ctx context.Context, d *Deps, o CheckOptions) error {
	var states []checkState
	var title string
	var err error
	if o.Blocks < 0 {
		return Usagef("--blocks %d: expected the number of blocks, or 0 for all", o.Blocks)
	}
	file := o.file()
	if isKernelFile(file) {
		states, title, err = d.checkFile(ctx, file, &o)
	} else {
		states, title, err = d.checkRun(file, o)
	}
	if err != nil {
		return err
	}
	return d.judge(ctx, title, states, o)
}

// isKernelFile tells a kernel from what names a run.
func isKernelFile(arg string) bool {
	return arg == "" || arg == "-" || strings.HasSuffix(arg, ".tir") || strings.HasSuffix(arg, ".py")
}

// checkFile lowers a kernel and keeps its states. Settings that the source
// took for itself are left out of o.Set.
func (d *Deps) checkFile(ctx context.Context, file string, o *CheckOptions) ([]checkState, string, error) {
	in, err := d.readKernel(file, o.TraceDir, o.source())
	if err != nil {
		return nil, "", err
	}
	jobs, err := d.plan(in, o.RunOptions)
	if err != nil {
		return nil, "", err
	}
	if len(jobs) != 1 {
		return nil, "", Usagef("check takes one target, got %s", o.Target)
	}
	o.Set = in.runtime
	j := jobs[0]
	c := j.context(ctx)
	col := &stateCollector{c: c}
	col.states = append(col.states, checkState{label: "input", index: -1, mod: in.mod, text: script.Print(in.mod)})
	c.Instruments = append(c.Instruments, col)
	// A pass that fails is a state of its own.
	if _, err := j.pipe.Run(c, in.mod); err != nil && !errors.Is(err, pipeline.ErrStopped) && col.states[len(col.states)-1].failed == "" && ctx.Err() == nil {
		return nil, "", d.passFailed(err)
	}
	return col.states, fmt.Sprintf("%s · %s · %s", in.mod.Funcs[0].Name, j.target.Arch, in.name), nil
}

// checkRun takes the states of a recorded run.
func (d *Deps) checkRun(arg string, o CheckOptions) ([]checkState, string, error) {
	run, err := d.openRun(arg, o.TraceDir)
	if err != nil {
		return nil, "", err
	}
	var states []checkState
	var host *ir.IRModule
	parse := func(name, text string) (*ir.IRModule, string) {
		m, err := script.ParseString(name, text)
		if err != nil {
			return nil, err.Error()
		}
		return m, ""
	}
	for i := range run.Records {
		r := &run.Records[i]
		if r.Depth > 0 || r.Status == trace.Codegen || r.Status == trace.Skipped {
			continue
		}
		if len(states) == 0 && r.HasBefore {
			m, why := parse("input", r.BeforeText)
			states = append(states, checkState{label: "input", index: -1, mod: m, text: r.BeforeText, skip: why})
		}
		st := checkState{label: recordLabel(run, i), index: r.Index, before: r.BeforeText, text: r.AfterText}
		switch {
		case r.Status == trace.Failed:
			st.failed = r.ErrorMsg
		case !r.HasAfter:
			st.skip = "its text was not recorded"
		case r.Changed || len(states) == 0 || r.Name == device.ThreadSyncShared.Name:
			st.mod, st.skip = parse(r.Name, r.AfterText)
			if r.Name == "Filter" && st.mod != nil {
				if slices.ContainsFunc(st.mod.Funcs, func(f *ir.PrimFunc) bool { return !pipeline.IsDeviceFunc(f) }) {
					host = st.mod
					continue // the device half that follows joins it
				}
			}
			if host != nil {
				st.mod = joinHost(st.mod, host)
			}
		}
		states = append(states, st)
	}
	if len(states) == 0 {
		return nil, "", Usagef("%s has no recorded state to run", arg)
	}
	return states, fmt.Sprintf("%s · %s · %s", run.Function, run.Target, arg), nil
}

// settleStages says for each state whether barriers and bounds are implied in
// it, by the passes before it; a pass that was skipped counts as done, so that
// what it left out is found. Where the run does not have the pass that decides,
// each state's form does.
func settleStages(states []checkState) {
	names := make([]string, len(states))
	for i := range states {
		names[i], _, _ = strings.Cut(strings.TrimSuffix(states[i].label, skippedSuffix), "#")
	}
	barriers := slices.Contains(names, device.ThreadSyncShared.Name)
	bounds := slices.Contains(names, legalize.LegalizeSafeMemoryAccess.Name)
	for i := range states {
		s, b := interp.Stage(names[1 : i+1])
		if barriers {
			states[i].sync = s
		}
		if bounds {
			states[i].bounds = b
		}
	}
}

// judge runs the states and tells what came of each.
func (d *Deps) judge(ctx context.Context, title string, states []checkState, o CheckOptions) error {
	settleStages(states)
	first := -1 // the first state that runs: what the others are compared with
	for i := range states {
		if states[i].mod != nil && states[i].skip == "" {
			first = i
			break
		}
	}
	if first < 0 {
		return Failf("no state of %s can be run: %s", title, states[0].skip)
	}
	args, err := d.checkInputs(states[first].mod, o)
	if err != nil {
		return err
	}
	cmp := interp.CompareOptions{Unordered: map[string]bool{}}
	for _, n := range o.Unordered {
		cmp.Unordered[n] = true
	}
	if o.Tolerance >= 0 {
		cmp.RTol = &o.Tolerance
	}
	want, err := readArrays(o.Expect, ".out.npy", ".npy")
	if err != nil {
		return err
	}
	renameArrays(states[first].mod, want)
	handles := handleNames(states[first].mod)
	for buffer, handle := range handles {
		bothNames(cmp.Unordered, buffer, handle)
	}
	progress := d.newProgress(len(states))
	var verdicts []stateVerdict
	bad := -1
	var stats *interp.Stats
	for i := range states {
		if err := ctx.Err(); err != nil {
			return reported(ExitInterrupted)
		}
		st := &states[i]
		v := stateVerdict{Label: st.label, Index: st.index}
		switch {
		case st.failed != "":
			v.Verdict, v.Details = verdictFailed, []string{st.failed}
		case st.skip != "":
			v.Verdict, v.Details = verdictNotRunnable, []string{st.skip}
		case i > first && (st.mod == nil || st.before == st.text && st.sync == states[i-1].sync && st.bounds == states[i-1].bounds):
			v.Verdict = verdictUnchanged
		default:
			progress.show(st.label)
			res, rerr := interp.Run(ctx, st.mod, args, interp.Options{Sample: o.Blocks, Cover: cmp.Written, Findings: true, Stats: o.Perf, Sync: st.sync, Bounds: st.bounds})
			if ctx.Err() != nil {
				progress.end()
				return reported(ExitInterrupted)
			}
			if rerr == nil && want == nil {
				want = res.Outputs
				cmp.Types = res.Types
			}
			if rerr == nil {
				if cmp.Written == nil { // the first sample says what is compared
					cmp.Written = res.Written
				}
				for _, n := range res.Atomic {
					cmp.Unordered[n] = true
				}
				stats = res.Stats
			}
			v.take(res, rerr, want, handles, cmp)
		}
		verdicts = append(verdicts, v)
		if isBad(v.Verdict) && bad < 0 {
			bad = i
			if !o.All {
				break
			}
		}
	}
	progress.end()
	if o.JSON {
		doc := map[string]any{"schema_version": 1, "title": title, "states": verdicts}
		if bad >= 0 {
			doc["first_bad"] = verdicts[bad].Label
		}
		if o.Perf && stats != nil {
			doc["perf"] = perfOf(stats)
		}
		if err := writeJSON(d.Stdout, doc); err != nil {
			return err
		}
	} else {
		var text strings.Builder
		to := *d
		to.Stdout = &text
		to.tellVerdicts(title, states, verdicts, bad, o)
		if o.Perf && stats != nil {
			if err := writePerf(&text, stats); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(d.Stdout, text.String()); outputError(err) != nil {
			return outputError(err)
		}
	}
	if bad >= 0 || !slices.ContainsFunc(verdicts, ran) {
		return reported(ExitFailed)
	}
	return nil
}

// ran reports a state that was run.
func ran(v stateVerdict) bool {
	return v.Verdict != verdictNotRunnable && v.Verdict != verdictUnchanged
}

func isBad(v string) bool { return v == verdictWrong || v == verdictFinding || v == verdictFailed }

// take fills a verdict from a run.
func (v *stateVerdict) take(res *interp.Result, err error, want map[string]*npy.Array, handles map[string]string, cmp interp.CompareOptions) {
	var not *interp.NotRunnable
	switch {
	case errors.As(err, &not):
		v.Verdict, v.Details = verdictNotRunnable, []string{err.Error()}
		return
	case err != nil:
		v.Verdict, v.Details = verdictFinding, []string{err.Error()}
		return
	}
	got := map[string]*npy.Array{}
	for n := range want { // an expectation may name some of the buffers only
		if got[n] = res.Outputs[n]; got[n] == nil {
			got[n] = res.Outputs[handles[n]]
		}
	}
	worst := interp.Identical
	for _, d := range interp.Compare(want, got, cmp) {
		if d.Verdict > interp.Identical {
			v.MaxError = max(v.MaxError, jsonFloat(d.MaxError))
		}
		if d.Verdict == interp.Wrong {
			v.Details = append(v.Details, d.String())
		}
		worst = max(worst, d.Verdict)
	}
	v.Verdict = [...]string{verdictSame, verdictRounding, verdictWrong}[worst]
	for _, f := range res.Findings {
		v.Findings = append(v.Findings, checkedFinding{string(f.Kind), f.String(), diag.PlaceOf(f.Span), f.Block, f.Thread, f.Count})
	}
	if len(res.Findings) > 0 && worst != interp.Wrong {
		v.Verdict = verdictFinding
	}
}

// tellVerdicts prints a line for each state, the first bad one with its
// details and its diff.
func (d *Deps) tellVerdicts(title string, states []checkState, verdicts []stateVerdict, bad int, o CheckOptions) {
	fmt.Fprintf(d.Stdout, "%s\n\n", title)
	w := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	counts := map[string]int{}
	for _, v := range verdicts {
		counts[v.Verdict]++
		if v.Verdict == verdictUnchanged {
			continue
		}
		note := ""
		switch {
		case v.Verdict == verdictRounding || v.Verdict == verdictWrong:
			note = fmt.Sprintf("max error %.2g", v.MaxError)
		case v.Verdict == verdictNotRunnable:
			note = v.Details[0]
		case v.Verdict == verdictFinding && len(v.Findings) > 0:
			note = fmt.Sprintf("%d finding(s)", len(v.Findings))
		}
		num := ""
		if v.Index >= 0 {
			num = fmt.Sprint(v.Index)
		}
		fmt.Fprintf(w, "%4s  %s\t%s\t%s\n", num, v.Label, v.Verdict, note)
	}
	w.Flush()
	if ran := counts[verdictSame] + counts[verdictRounding]; bad < 0 && ran == 0 {
		fmt.Fprintf(d.Stdout, "\nno state could be run: %s\n", countsText(counts))
		return
	}
	if bad < 0 {
		fmt.Fprintf(d.Stdout, "\nno pass changed the result: %s\n", countsText(counts))
		return
	}
	v := verdicts[bad]
	fmt.Fprintf(d.Stdout, "\nfirst bad pass: %s\n", v.Label)
	for _, line := range v.Details {
		fmt.Fprintf(d.Stdout, "  %s\n", line)
	}
	for _, f := range v.Findings {
		fmt.Fprintf(d.Stdout, "  %s\n", f.Text)
	}
	if st := states[bad]; bad > 0 && st.text != "" {
		fmt.Fprintln(d.Stdout)
		t := d.terminal(render.DiffOptions{Context: o.Context, Host: o.Host})
		t.Diff("before", "after "+v.Label, st.before, st.text)
	}
}

func countsText(counts map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
	}
	return strings.Join(parts, ", ")
}
