package main

import (
	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newReportCmd(d *driver.Deps, s *settings, run func(*driver.Deps, driver.ReportOptions) error) *cobra.Command {
	var o driver.ReportOptions
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Write a run's HTML report anew",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.viewing(cmd, d); err != nil {
				return err
			}
			o.Run, o.TraceDir = args[0], s.str("trace-dir")
			return run(d, o)
		},
	}
	s.addFlags(cmd.Flags(), "trace-dir")
	cmd.Flags().StringVarP(&o.Output, "output", "o", "", "file to write (default: report.html in the run directory)")
	return cmd
}
