package interp_test

import (
	"context"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/judge"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
)

// TestSeededFaults plants a fault in a state of the reference, as a wrong pass
// would, and looks for the first state that goes wrong: it must be that one.
func TestSeededFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("runs whole kernels")
	}
	for _, f := range corpus.Faults {
		t.Run(f.Name, func(t *testing.T) {
			k := corpus.Lookup(f.Kernel)
			states := statesOf(f.Kernel, f.Arch)
			at, n := -1, 0
			for i, s := range states {
				if s.pass == f.Pass {
					if n++; n == f.Nth {
						at = i
					}
				}
			}
			if at < 1 {
				t.Fatalf("no state %d of %s", f.Nth, f.Pass)
			}
			s := states[at]
			if len(s.text) != 1 {
				t.Fatal("a joined state")
			}
			text := corpus.Text(s.text[0])
			bad, err := f.Plant(text)
			if err != nil {
				t.Fatal(err)
			}
			// The state before and the state itself are right; the fault is seen.
			args := judge.Args(&k)
			for _, prev := range []state{states[at-1], s} {
				res, err := interp.Run(context.Background(), prev.module(t), args, interp.Options{Findings: true, Sync: prev.sync, Bounds: prev.bounds})
				if err != nil || len(res.Findings) > 0 || compareExpected(&k, res) != "" {
					t.Fatalf("%s is wrong without the fault: %v", prev.path, err)
				}
			}
			mod, err := script.ParseString(s.path, bad)
			if err != nil {
				t.Fatal(err)
			}
			res, err := interp.Run(context.Background(), mod, args, interp.Options{Findings: true, Sync: s.sync, Bounds: s.bounds})
			if res == nil {
				t.Fatalf("no result: %v", err)
			}
			if f.Want == "differs" {
				if err != nil {
					t.Fatal(err)
				}
				if d := compareExpected(&k, res); d == "" {
					t.Errorf("the fault is not seen; findings %v", res.Findings)
				}
				return
			}
			for _, x := range res.Findings {
				if string(x.Kind) == f.Want && x.Span.IsValid() {
					return
				}
			}
			d := ""
			if err == nil {
				d = compareExpected(&k, res)
			}
			t.Errorf("no %s; findings %v, error %v, %s", f.Want, res.Findings, err, d)
		})
	}
}
