package main

import (
	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newShowCmd(d *driver.Deps, s *settings, run func(*driver.Deps, driver.ShowOptions) error) *cobra.Command {
	var o driver.ShowOptions
	cmd := &cobra.Command{
		Use:   "show RUN [PASS]",
		Short: "List a run's passes, print one record, or follow a line or name",
		Long: `List the passes of a run, or print one of its records: the diff, or with
--before or --after the text alone. PASS is a record number, NAME or NAME#k.

--line N follows a line of the kernel, --var NAME a variable or buffer, through
every pass into the CUDA. RUN may be another tracer's run. On a terminal the
output goes through $PAGER (less, unless set; "cat" for none).`,
		Example: `  lowertrace show softmax
  lowertrace show softmax LowerTileOp
  lowertrace show softmax --line 14
  lowertrace show softmax --var a_s
  lowertrace show softmax@2 22 --before > x.tir`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.viewing(cmd, d); err != nil {
				return err
			}
			o.Run = args[0]
			if len(args) > 1 {
				o.Pass = args[1]
			}
			o.TraceDir, o.Context, o.Host = s.str("trace-dir"), s.int("context"), s.bool("host")
			return run(d, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	s.addFlags(f, "trace-dir", "context", "host")
	f.BoolVar(&o.Before, "before", false, "print the text before the pass")
	f.BoolVar(&o.After, "after", false, "print the text after the pass")
	f.IntVar(&o.Line, "line", 0, "follow this line of the kernel through the passes")
	f.StringVar(&o.Var, "var", "", "follow this variable or buffer through the passes")
	f.BoolVar(&o.Loose, "loose", false, "with --var x: x_1, x_2, … as well")
	f.BoolVar(&o.Timing, "timing", false, "list the times by pass")
	f.BoolVar(&o.JSON, "json", false, "print one JSON document")
	cmd.MarkFlagsMutuallyExclusive("before", "after", "json")
	cmd.MarkFlagsMutuallyExclusive("before", "after", "line", "var", "timing")
	return cmd
}

func newListCmd(d *driver.Deps, s *settings, run func(*driver.Deps, driver.ListOptions) error) *cobra.Command {
	var o driver.ListOptions
	cmd := &cobra.Command{
		Use:   "list [DIR]",
		Short: "List runs below a trace directory or a script directory",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.viewing(cmd, d); err != nil {
				return err
			}
			o.Dir = s.str("trace-dir")
			if len(args) > 0 {
				o.Dir = args[0]
			}
			return run(d, o)
		},
	}
	s.addFlags(cmd.Flags(), "trace-dir")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print one JSON document")
	return cmd
}

func newPruneCmd(d *driver.Deps, s *settings, run func(*driver.Deps, driver.PruneOptions) error) *cobra.Command {
	var o driver.PruneOptions
	cmd := &cobra.Command{
		Use:   "prune [DIR] --keep N",
		Short: "Remove all but the newest runs of each script",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.viewing(cmd, d); err != nil {
				return err
			}
			o.Dir = s.str("trace-dir")
			if len(args) > 0 {
				o.Dir = args[0]
			}
			return run(d, o)
		},
	}
	s.addFlags(cmd.Flags(), "trace-dir")
	cmd.Flags().IntVar(&o.Keep, "keep", 0, "runs of each script to keep")
	must(cmd.MarkFlagRequired("keep"))
	return cmd
}
