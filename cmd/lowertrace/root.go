package main

import (
	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

const rootLong = `lowertrace reads a GPU kernel's IR, lowers it pass by pass to CUDA C, records
every pass, and shows what each one did.

  lowertrace run kernel.tir           lower a kernel and show each pass's diff
  lowertrace run --mode both          lower the embedded kernel; diffs and a report`

// noSuchCommand refuses an argument that is no command, with the nearest one.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			known = append(known, c.Name())
		}
	}
	return driver.Usagef("unknown command %q%s (see lowertrace --help)", args[0], driver.DidYouMean(args[0], known))
}

func newRootCmd(d *driver.Deps) *cobra.Command {
	s := newSettings()
	root := &cobra.Command{
		Use:           "lowertrace",
		Short:         "Lower GPU kernels to CUDA C and see what every pass did",
		Long:          rootLong,
		Args:          noSuchCommand,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return driver.Usagef("%v (see %s --help)", err, cmd.CommandPath())
	})
	s.addGlobalFlags(root)
	root.AddCommand(
		newRunCmd(d, s, driver.Run),
		newBuildCmd(d, s, driver.Build),
		newExecCmd(d, s, driver.Exec),
		newWatchCmd(d, s, driver.Watch),
		newWorkerCmd(d, driver.ServeGPU),
		newCheckCmd(d, s, driver.Check),
		newDiffCmd(d, s, driver.Diff),
		newFmtCmd(d, s, driver.Fmt),
		newShowCmd(d, s, driver.Show),
		newReportCmd(d, s, driver.Report),
		newListCmd(d, s, driver.List),
		newPruneCmd(d, s, driver.Prune),
		newPassesCmd(d, s, driver.Passes),
		newConfigCmd(d, s),
		newVersionCmd(d),
	)
	root.AddCommand(helpTopics()...)
	return root
}
