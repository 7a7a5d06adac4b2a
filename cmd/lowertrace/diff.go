package main

import (
	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newDiffCmd(d *driver.Deps, s *settings, run func(*driver.Deps, driver.DiffOptions) error) *cobra.Command {
	var o driver.DiffOptions
	cmd := &cobra.Command{
		Use:   "diff [A B]",
		Short: "Compare two runs: the first pass that differs, and how",
		Long: `Compare two runs pass by pass and print the first pass whose result differs,
then its diff. A and B are run directories (TileLang's own as well), script
directories (their newest run), trace.json files, or names of scripts (softmax,
softmax@2 for the second newest run). Without arguments the last two runs are
compared.

Two text files (.tir, .cpp, .cu, …) are compared as such. A text file and a run:
the file is compared with the run's text after --pass, or with its generated
code. On a terminal the output goes through $PAGER.

--resources compiles the generated code of both runs with NVRTC and compares
what it uses; no GPU is needed.

Exit 0: no difference; 1: they differ; 2: bad usage or input.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return driver.Usagef("diff takes two runs, got %d (see lowertrace diff --help)", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.viewing(cmd, d); err != nil {
				return err
			}
			o.Runs = args
			o.TraceDir, o.Context, o.Host = s.str("trace-dir"), s.int("context"), s.bool("host")
			return run(d, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	s.addFlags(f, "trace-dir", "context", "host")
	f.BoolVar(&o.All, "all", false, "print the diff of every pass that differs")
	f.BoolVar(&o.Stat, "stat", false, "print counts of changed lines only")
	f.BoolVar(&o.NameOnly, "name-only", false, "print the names of passes that differ")
	f.StringVar(&o.Pass, "pass", "", "compare this pass's results (NAME or NAME#k)")
	f.BoolVar(&o.WordDiff, "word-diff", false, "mark changed words within lines")
	f.BoolVarP(&o.IgnoreSpace, "ignore-space", "w", false, "ignore white space")
	f.BoolVar(&o.IgnoreRenames, "ignore-renames", false, "ignore shifted name suffixes such as x_1 for x_2")
	f.BoolVar(&o.JSON, "json", false, "print one JSON document")
	f.StringVar(&o.HTML, "html", "", "also write a side-by-side report to a file")
	f.BoolVar(&o.Resources, "resources", false, "compile both runs' code with NVRTC and compare registers, spills and shared memory")
	f.BoolVar(&o.PTX, "ptx", false, "as --resources, and show how the PTX differs")
	addNVRTCFlag(f, &o.NVRTC)
	return cmd
}
