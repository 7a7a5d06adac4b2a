package interp

import (
	"context"
	"errors"
	"fmt"

	"lowertrace/internal/ir"
)

// SameOptions adjust SameAnswer.
type SameOptions struct {
	Inputs InputOptions
	// Before and After are the options of the two runs.
	Before, After Options
	// Exact allows no difference at all, not even by rounding.
	Exact bool
}

// ErrNotCompared is what SameAnswer returns, wrapped, when the first module
// cannot be run, or fails: then there is nothing to compare with.
var ErrNotCompared = errors.New("the module before the pass gives no answer")

// SameAnswer runs a module and what a pass made of it on the same drawn inputs
// and returns an error unless they leave the same arrays and the second run has
// no findings of a kind the first does not have.
func SameAnswer(before, after *ir.IRModule, o SameOptions) error {
	args, err := Inputs(before, o.Inputs)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotCompared, err)
	}
	ctx := context.Background()
	want, err := Run(ctx, before, args, o.Before)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotCompared, err)
	}
	got, err := Run(ctx, after, args, o.After)
	if err != nil {
		return fmt.Errorf("after the pass: %w", err)
	}
	known := map[Kind]bool{}
	for _, f := range want.Findings {
		known[f.Kind] = true
	}
	for _, f := range got.Findings {
		if !known[f.Kind] {
			return fmt.Errorf("after the pass: %v", f)
		}
	}
	unordered := map[string]bool{}
	for _, n := range append(want.Atomic, got.Atomic...) {
		unordered[n] = true
	}
	for _, d := range Compare(want.Outputs, got.Outputs, CompareOptions{Types: want.Types, Unordered: unordered}) {
		if d.Verdict == Wrong || o.Exact && d.Verdict != Identical {
			return fmt.Errorf("after the pass: %v", d)
		}
	}
	return nil
}
