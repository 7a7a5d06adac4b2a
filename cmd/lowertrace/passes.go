package main

import (
	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newPassesCmd(d *driver.Deps, s *settings, run func(*driver.Deps, driver.PassesOptions) error) *cobra.Command {
	var o driver.PassesOptions
	cmd := &cobra.Command{
		Use:               "passes [NAME]",
		Short:             "List what a pipeline runs, or explain one pass",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completePasses(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.viewing(cmd, d); err != nil {
				return err
			}
			o.Pipeline = s.str("pipeline")
			if len(args) > 0 {
				o.Name = args[0]
			}
			return run(d, o)
		},
	}
	s.addFlags(cmd.Flags(), "pipeline")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print one JSON document")
	cmd.Flags().BoolVar(&o.Options, "options", false, "list the pass options of --pass-config")
	s.completeFlags(cmd)
	return cmd
}
