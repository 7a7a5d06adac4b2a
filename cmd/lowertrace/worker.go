package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

// newWorkerCmd is the command that exec --bisect and watch start to run kernels
// in a process of their own.
func newWorkerCmd(d *driver.Deps, serve func(*driver.Deps, int) error) *cobra.Command {
	return &cobra.Command{
		Use:    driver.WorkerCommand + " DEVICE",
		Short:  "Run kernels for a parent process",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return driver.Usagef("%s: %q is no device number", driver.WorkerCommand, args[0])
			}
			return serve(d, n)
		},
	}
}
