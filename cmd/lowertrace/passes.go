package main

import (
	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newPassesCmd(d *driver.Deps, s *settings, run func(*driver.Deps, driver.PassesOptions) error) *cobra.Command {
	var o driver.PassesOptions
	cmd := &cobra.Command{
		Use:   "passes [NAME]",
		Short: "List what a pipeline runs, or explain one pass",
		Args:  cobra.MaximumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return completePasses(s)(cmd, args, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.load(cmd); err != nil {
				return err
			}
			o.Pipeline = s.str("pipeline")
			if len(args) > 0 {
				o.Name = args[0]
			}
			if err := d.SetColor(s.str("color")); err != nil {
				return err
			}
			return run(d, o)
		},
	}
	s.addFlags(cmd.Flags(), "pipeline")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print one JSON document")
	cmd.Flags().BoolVar(&o.Options, "options", false, "list the pass options of --pass-config")
	must(cmd.RegisterFlagCompletionFunc("pipeline", fixedCompletion(driver.PipelineNames()...)))
	return cmd
}
