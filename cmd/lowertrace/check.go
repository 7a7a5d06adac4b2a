package main

import (
	"context"

	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newCheckCmd(d *driver.Deps, s *settings, run func(context.Context, *driver.Deps, driver.CheckOptions) error) *cobra.Command {
	var o driver.CheckOptions
	cmd := &cobra.Command{
		Use:   "check [FILE|RUN]",
		Short: "Run the IR at every pass boundary; name the first pass that changed the result",
		Long: `Lower a kernel and run the IR on the CPU after every pass that changed it, on
the same inputs; or do so for the states of a recorded run, ours or TileLang's.
One line a state: same, changed by rounding, WRONG, or what was found (out of
bounds, race, deadlock, …). The first bad pass is named with its diff.

Inputs are drawn by the kernel's shapes, the same ones each time; --inputs and
--expect take folders of .npy files (NAME.npy, NAME.in.npy, NAME.out.npy).

Exit 0: no pass changed the result; 1: one did; 2: bad usage or input.`,
		Example: `  lowertrace check kernel.tir
  lowertrace check softmax@2
  lowertrace check kernel.tir --set n=1000 --input idx=uniform_int:0..99`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.lowering(cmd, d, &o.RunOptions); err != nil {
				return err
			}
			o.Files = args
			return run(cmd.Context(), d, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Inputs, "inputs", "", "folder of input arrays, NAME.npy or NAME.in.npy; others are drawn")
	f.StringVar(&o.Expect, "expect", "", "folder of expected arrays, NAME.npy or NAME.out.npy; default: what the first state gives")
	addSourceFlags(f, &o.SourceOptions)
	f.StringArrayVar(&o.InputSpec, "input", nil, inputUsage)
	f.Float64Var(&o.Tolerance, "tolerance", -1, "relative tolerance; default: by type")
	f.StringArrayVar(&o.Unordered, "unordered", nil, "array whose elements may stand in any order; may repeat")
	f.IntVar(&o.Blocks, "blocks", 0, "run about this many blocks of each launch and compare what they write; 0: all")
	f.BoolVar(&o.Perf, "perf", false, "tell bank conflicts, coalescing, bytes and operations of the last state")
	f.BoolVar(&o.All, "all", false, "go on behind the first bad pass")
	f.BoolVar(&o.JSON, "json", false, "print one JSON document")
	s.addFlags(f, "target", "pipeline", "pass-config", "trace-dir", "context", "host")
	addPassFlags(f, &o.RunOptions, "start-at", "stop-after", "skip")
	s.completeFlags(cmd)
	return cmd
}
