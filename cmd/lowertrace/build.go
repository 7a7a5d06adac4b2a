package main

import (
	"context"

	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newBuildCmd(d *driver.Deps, s *settings, run func(context.Context, *driver.Deps, driver.BuildOptions) error) *cobra.Command {
	var o driver.BuildOptions
	cmd := &cobra.Command{
		Use:   "build [FILE] -o DIR",
		Short: "Lower and compile a kernel into a folder that Python can launch",
		Long: `Lower a kernel, compile it with NVRTC and write a folder: kernel.cu, the cubin
and PTX, launch.json, and launcher.py, which launches it on torch tensors with
nothing but the CUDA driver. No GPU is needed to build. Where FILE has several
functions, or --func a,b names them, each has a folder DIR/FUNCTION.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.lowering(cmd, d, &o.RunOptions); err != nil {
				return err
			}
			o.Files = args
			return run(cmd.Context(), d, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.Output, "output", "o", "", "folder to write")
	must(cmd.MarkFlagRequired("output"))
	s.addFlags(f, "target", "arch", "pipeline", "pass-config")
	addSourceFlags(f, &o.SourceOptions)
	f.Lookup("func").Usage += ", or several with commas between"
	addNVRTCFlag(f, &o.NVRTC)
	addPassFlags(f, &o.RunOptions, "skip")
	s.completeFlags(cmd)
	return cmd
}
