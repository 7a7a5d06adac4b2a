package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lowertrace/internal/driver"
)

const execLong = `Lower a kernel under trace, compile its working copy with NVRTC, run it on a GPU,
compare what it gives, and time it.

The working copy (codegen.cpp in the script directory) is what runs: edit it and
call exec again. Inputs are drawn from a seed, or read from --inputs DIR as
NAME.npy or NAME.in.npy; the answer is compared with the interpreter's on the
kernel as it was written, on some of the blocks where there are many, or with
--expect DIR, NAME.npy or NAME.out.npy. A wrong answer exits with 1.

With --bisect the optional pass is looked for without which the answer is right.
docs/exec.md explains each figure.`

func newExecCmd(d *driver.Deps, s *settings, run func(context.Context, *driver.Deps, driver.ExecOptions) error) *cobra.Command {
	var o driver.ExecOptions
	cmd := &cobra.Command{
		Use:   "exec [FILE]",
		Short: "Compile a kernel, run it on a GPU, check and time it",
		Long:  execLong,
		Example: `  lowertrace exec kernel.tir
  lowertrace exec kernel.tir --set m=1000 --runs 100
  lowertrace exec kernel.tir --inputs data --expect data --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.lowering(cmd, d, &o.RunOptions); err != nil {
				return err
			}
			o.Files, o.RunsGiven = args, s.fromFlag("runs")
			return run(cmd.Context(), d, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	addExecFlags(s, f, &o)
	s.completeFlags(cmd)
	f.BoolVar(&o.Bisect, "bisect", false, "find the optional pass whose result is wrong on the GPU alone")
	f.BoolVar(&o.JSON, "json", false, "print what was found as one JSON document on standard output")
	return cmd
}

// inputUsage is the help of --input.
const inputUsage = "NAME=HOW an input is drawn: normal, zeros, uniform:LO..HI, uniform_int:LO..HI, const:X, bernoulli:P; may repeat"

// addExecFlags defines the flags that exec and watch share.
func addExecFlags(s *settings, f *pflag.FlagSet, o *driver.ExecOptions) {
	s.addFlags(f, "mode", "target", "arch", "pipeline", "pass-config", "trace-dir", "codegen-output", "verify-each")
	addPassFlags(f, &o.RunOptions, "skip", "start-at")
	addSourceFlags(f, &o.SourceOptions)
	f.StringVar(&o.Inputs, "inputs", "", "folder of input arrays, NAME.npy or NAME.in.npy; others are drawn")
	f.StringArrayVar(&o.InputSpec, "input", nil, inputUsage)
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the inputs that are drawn")
	f.StringVar(&o.Expect, "expect", "", "folder of expected arrays, NAME.npy or NAME.out.npy; default: the interpreter's answer")
	f.Float64Var(&o.Tolerance, "tolerance", -1, "relative tolerance; default: by the kernel's types")
	f.StringArrayVar(&o.Unordered, "unordered", nil, "compare a buffer as a sorted list; may repeat")
	f.IntVar(&o.Device, "device", 0, "GPU to run on, counted from 0")
	f.IntVar(&o.Runs, "runs", driver.DefaultExecRuns, "timed runs; 0: none")
	f.DurationVar(&o.Timeout, "timeout", driver.DefaultExecTimeout, "how long to wait for the GPU")
	addNVRTCFlag(f, &o.NVRTC)
}
