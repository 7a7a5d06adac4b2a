package cuda

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/judge"
	"lowertrace/internal/corpus/source"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/pipeline"
	devpass "lowertrace/internal/pipeline/device"
	"lowertrace/internal/pipeline/tile"
)

var checkStates = flag.String("states", "key", "states TestCorpusResults runs: key (after LowerTileOp, after the last ThreadSync, the device module) or all")

// cannotRun are the kernels of the corpus that cannot be run on the CPU, and
// what says so. All lower and compile: TestLower and TestLowerFromSource.
var cannotRun = map[string]string{
	// C code in a pragma: the interpreter runs IR alone.
	"extern_l2": `call of the unknown function "twice_plus"`,
}

// lowered is one state of a lowering that can be run as a whole.
type lowered struct {
	label string
	mod   *ir.IRModule
	sync  interp.SyncMode
}

// stateKeeper is the instrument that keeps the state after each pass of the
// table that changed something, and after those the options of a run change at.
type stateKeeper struct {
	ctx    *pipeline.Context
	states []lowered
}

func (s *stateKeeper) Before(*pipeline.Event) {}

func (s *stateKeeper) After(e *pipeline.Event) {
	if e.Depth > 0 || e.Err != nil || e.Skipped != "" || e.Pass == devpass.FilterHost {
		return
	}
	if e.Result == e.Input && e.Pass != devpass.ThreadSyncDynamic {
		return
	}
	mod := e.Result
	if host := s.ctx.Aside[AsideHost]; host != nil {
		mod = &ir.IRModule{Funcs: slices.Concat(host.Funcs, mod.Funcs)}
	}
	// Barriers are implied until the last ThreadSync has put them there.
	sync := interp.SyncImplied
	if e.Pass == devpass.ThreadSyncDynamic || len(s.states) > 0 && s.states[len(s.states)-1].sync == interp.SyncExplicit {
		sync = interp.SyncExplicit
	}
	s.states = append(s.states, lowered{e.Label, mod, sync})
}

// input is a kernel of the corpus as it was written.
func input(t testing.TB, kernel, arch string) *ir.IRModule {
	t.Helper()
	k := corpus.Lookup(kernel)
	m, err := source.Module(&k, arch)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newContext is a context that lowers for a target and checks every pass.
func newContext(t testing.TB, arch string) *pipeline.Context {
	t.Helper()
	target, err := LookupTarget(arch)
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Context{Target: target, Options: pipeline.Options{}, VerifyEach: true}
}

// runOne runs a state and says what is wrong with it; "" is nothing.
func runOne(k *corpus.Kernel, s lowered) (wrong string, err error) {
	res, err := interp.Run(context.Background(), s.mod, judge.Args(k), interp.Options{Findings: true, Workers: 1, Sync: s.sync})
	if err != nil {
		return "", err
	}
	if d := judge.Wrong(k, res); d != "" {
		return d, nil
	}
	if len(res.Findings) > 0 {
		return fmt.Sprintf("%d findings, first %v", len(res.Findings), res.Findings[0]), nil
	}
	return "", nil
}

// TestCorpusResults lowers every kernel of the corpus for sm_80 and runs the
// states between the passes on the CPU: each must give the expected arrays
// and have no race, no access out of bounds and no read of memory never
// written. Without further flags the states are those at which most can go
// wrong;
//
//	go test ./internal/pipeline/cuda -run CorpusResults -v -states all
//
// runs all that a pass changed. With -v a table is printed.
func TestCorpusResults(t *testing.T) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "kernel\tstates run\tresult\tseconds\n")
	clean := 0
	for _, k := range corpus.Kernels() {
		if !k.Has("sm_80") || testing.Short() && !slices.Contains(elementwise, k.Name) {
			continue
		}
		start := time.Now()
		// What is not read from the reference's own text is checked throughout.
		all := *checkStates == "all" || source.Hides(&k, "sm_80")
		n, err := checkKernel(t, p, &k, input(t, k.Name, "sm_80"), all)
		verdict := "clean"
		if err != nil {
			verdict = err.Error()
		} else {
			clean++
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%.2f\n", k.Name, n, verdict, time.Since(start).Seconds())
		switch why := cannotRun[k.Name]; {
		case why == "" && err != nil:
			t.Errorf("%s: %v", k.Name, err)
		case why != "" && err == nil:
			t.Errorf("%s is clean now, but listed as one that cannot be run: %s", k.Name, why)
		case why != "" && !strings.Contains(err.Error(), why):
			t.Errorf("%s: %v; want an error that says %q", k.Name, err, why)
		}
	}
	w.Flush()
	t.Logf("%d kernels are clean\n%s", clean, table.String())
}

// checkKernel lowers m for sm_80, runs the key states or all of them against
// k's arrays, and counts those that ran.
func checkKernel(t *testing.T, p pipeline.Pipeline, k *corpus.Kernel, m *ir.IRModule, all bool) (ran int, err error) {
	c := newContext(t, "sm_80")
	keep := &stateKeeper{ctx: c}
	c.Instruments = []pipeline.Instrument{keep}
	if _, err := p.Run(c, m); err != nil {
		return 0, err
	}
	var errs []error
	for i, s := range keep.states {
		key := s.label == tile.LowerTileOp.Name || i == len(keep.states)-1 ||
			s.sync == interp.SyncExplicit && keep.states[i-1].sync == interp.SyncImplied
		if !all && !key {
			continue
		}
		wrong, err := runOne(k, s)
		ran++
		var not *interp.NotRunnable
		switch {
		case errors.As(err, &not):
			return ran - 1, fmt.Errorf("after %s: %w", s.label, err)
		case err != nil:
			errs = append(errs, fmt.Errorf("after %s: %w", s.label, err))
		case wrong != "":
			errs = append(errs, fmt.Errorf("after %s: %s", s.label, wrong))
		}
		if len(errs) > 0 {
			break // the states that follow inherit it
		}
	}
	return ran, errors.Join(errs...)
}

// TestCorpusResultsSees checks that runs without barriers are not clean: the
// races that TestCorpusResults finds none of are there to be found.
func TestCorpusResultsSees(t *testing.T) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"softmax", "gemm_f16", "flash_attention", "transpose_smem", "histogram"} {
		c := newContext(t, "sm_80")
		c.Select.Skip = []string{devpass.ThreadSyncDynamic.Name}
		m, err := p.Run(c, input(t, name, "sm_80"))
		if err != nil {
			t.Fatal(err)
		}
		m = &ir.IRModule{Funcs: slices.Concat(c.Aside[AsideHost].Funcs, m.Funcs)}
		k := corpus.Lookup(name)
		wrong, err := runOne(&k, lowered{"", m, interp.SyncExplicit})
		if err != nil || wrong == "" {
			t.Errorf("%s is clean without a barrier (%v)", name, err)
		}
	}
}
