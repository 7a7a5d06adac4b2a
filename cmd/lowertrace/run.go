package main

import (
	"context"

	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

const runLong = `Lower a kernel to CUDA C, recording every pass.

FILE is TileLang source (.py), or IR as TVMScript (.tir) at any stage, or - for
standard input. What Python source imports is read from the folder it lies in,
and nowhere else. Without FILE the embedded kernel is lowered. The diffs of a run
go to standard output; the records go to a run directory below the trace
directory, one for each file and each target of --target sm_80,sm_90a. --func a,b
takes several kernels of one file, one after the other; each has a working copy
of its own, and so has each function of an IR module.

With --mode off the CUDA alone goes to standard output, or to the file of
--codegen-output; several texts stand under a heading each, or in a file each.

With --from RUN --start-at PASS the IR that RUN recorded before PASS is lowered
from there on, edited in the run directory or not, with RUN's target, pipeline,
pass options and skipped passes unless flags say otherwise; how the new run
differs from RUN is printed.`

func newRunCmd(d *driver.Deps, s *settings, run func(context.Context, *driver.Deps, driver.RunOptions) error) *cobra.Command {
	var o driver.RunOptions
	cmd := &cobra.Command{
		Use:   "run [FILE...]",
		Short: "Lower a kernel under trace",
		Long:  runLong,
		Example: `  lowertrace run kernel.tir
  lowertrace run --mode both
  lowertrace run kernel.tir --stop-after LayoutInference
  lowertrace run a.tir b.tir --target sm_80,sm_90a
  lowertrace run --from softmax --start-at VectorizeLoop`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.lowering(cmd, d, &o); err != nil {
				return err
			}
			o.Files = args
			return run(cmd.Context(), d, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	s.addFlags(f, "mode", "target", "arch", "pipeline", "pass-config", "trace-dir", "codegen-output", "context", "host", "verify-each")
	f.StringVar(&o.From, "from", "", "go on from the IR that a run recorded before --start-at, and compare")
	addSourceFlags(f, &o.SourceOptions)
	f.Lookup("func").Usage += ", or several with commas between"
	addPassFlags(f, &o, "start-at", "stop-after", "skip", "only")
	f.BoolVar(&o.Stats, "stats", false, "compile with NVRTC and tell registers, spills and shared memory of each kernel")
	f.BoolVar(&o.JSON, "json", false, "print the run as one JSON document on standard output")
	s.completeFlags(cmd)
	return cmd
}

func completePasses(s *settings) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		if err := s.load(cmd); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return driver.PassLabels(s.str("pipeline")), cobra.ShellCompDirectiveNoFileComp
	}
}

func fixedCompletion(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// must panics on an error that only a mistake in the program can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
