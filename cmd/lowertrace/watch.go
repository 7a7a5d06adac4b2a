package main

import (
	"context"

	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newWatchCmd(d *driver.Deps, s *settings, run func(context.Context, *driver.Deps, driver.ExecOptions) error) *cobra.Command {
	var o driver.ExecOptions
	cmd := &cobra.Command{
		Use:   "watch FILE",
		Short: "Rerun on each save of a kernel or its generated code",
		Long: `Lower a kernel whenever it or its working copy (codegen.cpp) is saved, and show
what changed: the first pass that gives something else, and the code. With a GPU
and NVRTC the code runs each time, and the answer and its speed are told as exec
does. Ctrl-C ends.`,
		Args: cobra.ExactArgs(1),
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
	s.addFlags(f, "context", "host")
	s.completeFlags(cmd)
	return cmd
}
