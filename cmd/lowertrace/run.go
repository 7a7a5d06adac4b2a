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
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := s.load(cmd); err != nil {
				return err
			}
			o.Files = args
			if o.Mode, err = s.mode(); err != nil {
				return err
			}
			if o.Context, err = s.int("context"); err != nil {
				return err
			}
			o.TraceDir = s.str("trace-dir")
			o.Target, o.TargetFromFlag = s.str("target"), s.fromFlag("target")
			o.Arch = s.str("arch")
			o.Pipeline, o.PipelineFromFlag = s.str("pipeline"), s.fromFlag("pipeline")
			o.PassConfig = s.list("pass-config")
			o.CodegenOutput = s.str("codegen-output")
			o.Host = s.bool("host")
			o.VerifyEach = s.bool("verify-each")
			if err := d.SetColor(s.str("color")); err != nil {
				return err
			}
			return run(cmd.Context(), d, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	s.addFlags(f, "mode", "target", "arch", "pipeline", "pass-config", "trace-dir", "codegen-output", "context", "host", "verify-each")
	f.StringVar(&o.From, "from", "", "go on from the IR that a run recorded before --start-at, and compare")
	addSourceFlags(f, &o.SourceOptions)
	f.StringVar(&o.StartAt, "start-at", "", "first pass to run; FILE is the IR as it stands before it")
	f.StringVar(&o.StopAfter, "stop-after", "", "last pass to run")
	f.StringArrayVar(&o.Skip, "skip", nil, "leave out a pass; may repeat")
	f.StringSliceVar(&o.Only, "only", nil, "run these passes alone, comma separated")
	f.BoolVar(&o.Stats, "stats", false, "compile with NVRTC and tell registers, spills and shared memory of each kernel")
	f.BoolVar(&o.JSON, "json", false, "print the run as one JSON document on standard output")
	for _, flag := range []string{"start-at", "stop-after", "skip", "only"} {
		must(cmd.RegisterFlagCompletionFunc(flag, completePasses(s)))
	}
	must(cmd.RegisterFlagCompletionFunc("target", fixedCompletion(driver.TargetNames()...)))
	must(cmd.RegisterFlagCompletionFunc("arch", fixedCompletion(driver.TargetNames()...)))
	must(cmd.RegisterFlagCompletionFunc("mode", fixedCompletion("off", "terminal", "html", "both")))
	must(cmd.RegisterFlagCompletionFunc("pipeline", fixedCompletion(driver.PipelineNames()...)))
	must(cmd.RegisterFlagCompletionFunc("pass-config", fixedCompletion(driver.PassConfigKeys()...)))
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
