package cuda

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// The seeds above the first are those of kernels that once were refused or
// lowered wrongly.
var randomSeeds = flag.String("seeds", "0-19,1310,50730,50951,51050,51480", "seeds of the kernels TestRandomKernels lowers: numbers and ranges A-B, separated by commas")

// seeds reads a list of numbers and ranges.
func seeds(list string) ([]uint64, error) {
	var out []uint64
	for _, w := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(w, "-")
		a, err := strconv.ParseUint(first, 10, 64)
		b := a
		if err == nil && isRange {
			b, err = strconv.ParseUint(last, 10, 64)
		}
		if err != nil {
			return nil, err
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
	}
	return out, nil
}

// TestRandomKernels lowers random kernels, of tile operators, of single
// threads and around pipelined loops, for sm_80: every state that can be run as a whole must leave the
// arrays that the kernel as written does, and have no findings.
//
//	go test ./internal/pipeline/cuda -run RandomKernels -seeds 1000-3999
func TestRandomKernels(t *testing.T) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	list, err := seeds(*randomSeeds)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, seed := range list {
		for _, k := range randomKernels {
			n, err := lowerRandom(t, p, seed, k.text(seed))
			if err != nil {
				t.Errorf("seed %d, %s: %v", seed, k.name, err)
			}
			ran += n
		}
	}
	if ran < len(list) {
		t.Errorf("%d states of %d kernels were run", ran, len(randomKernels)*len(list))
	}
	t.Logf("%d kernels, %d states", len(randomKernels)*len(list), ran)
}

// randomKernels are the kinds of kernels that are lowered for each seed.
var randomKernels = []struct {
	name string
	text func(seed uint64) string
}{
	{"threads", func(seed uint64) string { return interp.RandomKernel(seed, false) }},
	{"tiles", func(seed uint64) string { return interp.RandomKernel(seed, true) }},
	{"pipeline", interp.RandomPipeline},
	{"partitions", interp.RandomPartitions},
}

func lowerRandom(t *testing.T, p pipeline.Pipeline, seed uint64, text string) (ran int, err error) {
	m, err := script.ParseString("random.tir", text)
	if err != nil {
		return 0, err
	}
	args, err := interp.Inputs(m, interp.InputOptions{Seed: seed})
	if err != nil {
		return 0, err
	}
	want, err := interp.Run(context.Background(), m, args, interp.Options{})
	if err != nil {
		return 0, err
	}
	c := newContext(t, "sm_80")
	keep := &stateKeeper{ctx: c}
	c.Instruments = []pipeline.Instrument{keep}
	if _, err := p.Run(c, m); err != nil {
		return 0, err
	}
	for _, s := range keep.states {
		got, err := interp.Run(context.Background(), s.mod, args, interp.Options{Findings: true, Workers: 1, Sync: s.sync})
		var not *interp.NotRunnable
		switch {
		case errors.As(err, &not):
			continue
		case err != nil:
			return ran, fmt.Errorf("after %s: %w", s.label, err)
		case len(got.Findings) > 0:
			return ran, fmt.Errorf("after %s: %v", s.label, got.Findings[0])
		}
		ran++
		for _, d := range interp.Compare(want.Outputs, got.Outputs, interp.CompareOptions{Types: want.Types}) {
			if d.Verdict == interp.Wrong {
				return ran, fmt.Errorf("after %s: %v", s.label, d)
			}
		}
	}
	return ran, nil
}
