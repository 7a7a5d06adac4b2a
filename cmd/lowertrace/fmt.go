package main

import (
	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newFmtCmd(d *driver.Deps, s *settings, run func(*driver.Deps, driver.FmtOptions) error) *cobra.Command {
	var o driver.FmtOptions
	cmd := &cobra.Command{
		Use:   "fmt [FILE...]",
		Short: "Print the canonical text of a kernel",
		Long: `Print kernels as canonical IR on standard output. --check tells which files
are not canonical and how they differ (exit 1); --write rewrites them. Files
whose comments would be lost are refused by both.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.viewing(cmd, d); err != nil {
				return err
			}
			o.Files = args
			return run(d, o)
		},
	}
	addSourceFlags(cmd.Flags(), &o.SourceOptions)
	cmd.Flags().BoolVar(&o.Check, "check", false, "tell which files are not canonical, exit 1 if any")
	cmd.Flags().BoolVar(&o.Write, "write", false, "rewrite the files")
	cmd.MarkFlagsMutuallyExclusive("check", "write")
	return cmd
}
