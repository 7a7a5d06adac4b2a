package interp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/judge"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
)

// compareExpected says how a run's outputs differ from the kernel's expected
// arrays, "" if they do not. Elements may be out of order in one array only.
func compareExpected(k *corpus.Kernel, res *interp.Result) string {
	for _, name := range res.Atomic {
		if k.Name != "atomic_zoo" || name != "Slot" {
			return name + " is addressed by no atomic, but was taken to be"
		}
	}
	return judge.Wrong(k, res)
}

// outcome of one state.
type outcome struct {
	path   string
	status string // "same", "not runnable", "differs", "error"
	why    string
	took   time.Duration
}

func runState(t testing.TB, k *corpus.Kernel, mod *ir.IRModule, name string, opts interp.Options) outcome {
	o := outcome{path: name}
	start := time.Now()
	res, err := interp.Run(context.Background(), mod, judge.Args(k), opts)
	o.took = time.Since(start)
	var nr *interp.NotRunnable
	switch {
	case errors.As(err, &nr):
		o.status, o.why = "not runnable", nr.Error()
	case err != nil:
		o.status, o.why = "error", err.Error()
	default:
		if d := compareExpected(k, res); d != "" {
			o.status, o.why = "differs", d
		} else {
			o.status = "same"
		}
		if len(res.Findings) > 0 {
			o.why += fmt.Sprintf(" [%d findings; %s]", len(res.Findings), res.Findings[0])
		}
	}
	return o
}

// state is one point of a lowering: a module that can be run as a whole.
type state struct {
	path, pass string
	text       []string // paths of the texts that make it up
	sync       interp.SyncMode
	bounds     interp.BoundsMode
}

// module parses a state.
func (s *state) module(t testing.TB) *ir.IRModule {
	t.Helper()
	var mod *ir.IRModule
	for _, p := range s.text {
		m, err := script.ParseString(p, corpus.Text(p))
		if err != nil {
			t.Fatal(err)
		}
		if mod == nil {
			mod = m
		} else {
			mod = &ir.IRModule{Funcs: append(append([]*ir.PrimFunc{}, mod.Funcs...), m.Funcs...)}
		}
	}
	return mod
}

// statesOf are the states of a lowering between its passes, the nested ones
// left out. From the two Filters on, the device functions are joined with the
// host functions.
func statesOf(kernel, arch string) []state {
	nested := map[int]bool{}
	for _, line := range strings.Split(corpus.Text(path.Join(kernel, arch, "nested.tsv")), "\n") {
		var i int
		if _, err := fmt.Sscan(line, &i); err == nil {
			nested[i] = true
		}
	}
	byIndex := map[int]corpus.State{}
	for _, s := range corpus.States(kernel, arch) {
		byIndex[s.Index] = s
	}
	in := path.Join(kernel, arch, "input.tir")
	list := []state{{path: in, pass: "input", text: []string{in}, sync: interp.SyncImplied, bounds: interp.BoundsImplied}}
	host := ""
	var done []string
	for _, r := range corpus.Passes(kernel, arch) {
		if nested[r.Index] {
			continue
		}
		done = append(done, r.Name)
		s, changed := byIndex[r.Index]
		if !changed {
			continue
		}
		st := state{path: s.Path, pass: s.Pass, text: []string{s.Path}}
		st.sync, st.bounds = interp.Stage(done)
		if s.Pass == "Filter" && host == "" {
			host = s.Path
			continue
		}
		if host != "" {
			st.text = []string{host, s.Path}
		}
		list = append(list, st)
	}
	cg := path.Join(kernel, arch, "codegen_input.tir")
	st := state{path: cg, pass: "codegen_input", text: []string{host, cg}}
	st.sync, st.bounds = interp.Stage(done)
	return append(list, st)
}

// quick are the states that the tests always run.
var quick = map[string]bool{"input": true, "LowerTileOp": true, "codegen_input": true}

// shortStep is how many kernels a short test goes on by, as the race detector's
// does, under which the interpreter takes ten times as long.
const shortStep = 8

// TestReference runs the reference's kernels at three stages, or at every state
// when INTERP_SWEEP is set (it then takes minutes and prints a table):
//
//	INTERP_SWEEP=1 go test -run TestReference -v ./internal/ir/interp
//
// INTERP_SWEEP may also name a kernel. Each state must give the expected arrays
// without any finding, but for what exceptions says.
func TestReference(t *testing.T) {
	sweep := os.Getenv("INTERP_SWEEP")
	for _, arch := range []string{"sm_80", "sm_90a"} {
		t.Run(arch, func(t *testing.T) {
			count := map[string]int{}
			for i, k := range corpus.Kernels() {
				if !k.Has(arch) || sweep != "" && sweep != "1" && sweep != k.Name || testing.Short() && i%shortStep != 0 {
					continue
				}
				for _, st := range statesOf(k.Name, arch) {
					if sweep == "" && !quick[st.pass] {
						continue
					}
					o := runState(t, &k, st.module(t), st.path, interp.Options{Findings: true, Sync: st.sync, Bounds: st.bounds})
					count[o.status]++
					if sweep != "" {
						t.Logf("%-60s %-12s %6.2fs %s", o.path, o.status, o.took.Seconds(), o.why)
					}
					want, why := "same", ""
					if e := exceptions(k.Name, arch, &st); e != nil {
						want, why = e[0], e[1]
					}
					if o.status != want || why == "" && o.why != "" || !strings.Contains(o.why, why) {
						t.Errorf("%s: %s %s, want %s %s", o.path, o.status, o.why, want, why)
					}
				}
			}
			t.Log(count)
		})
	}
}

// exceptions are the states that do not give the expected arrays: the outcome,
// and what must be said of it.
func exceptions(kernel, arch string, s *state) []string {
	switch {
	case kernel == "extern_l2":
		// Its function twice_plus is C source.
		return []string{"not runnable", `call of the unknown function "twice_plus"`}
	case kernel == "gemm_warp_specialized" && s.sync == interp.SyncExplicit:
		// ThreadSync put a barrier of all threads between the two parts: the
		// first waits for data that the second would only load after it. The
		// kernel hangs on a GPU too.
		return []string{"error", "deadlock: threads 0 to 127 wait for mbarrier full[0], phase of parity 0 (in phase 0; 128 of 128 arrivals missing)"}
	}
	return nil
}
