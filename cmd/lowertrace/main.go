// Command lowertrace lowers a GPU kernel's IR to CUDA C under trace and shows
// what every pass did.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"lowertrace/internal/driver"
)

func main() {
	// A run is short and makes much garbage: collecting half as often takes a
	// seventh off the lowering of a GEMM. GOGC has the last word.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	// A reader that closes the pipe is no reason to die in the middle of a run.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the process
	os.Exit(run(ctx, os.Args[1:], driver.OSDeps()))
}

// run is the command without the process around it: it returns the exit code.
func run(ctx context.Context, args []string, d *driver.Deps) int {
	d.Args = args
	root := newRootCmd(d)
	root.SetArgs(args)
	root.SetIn(d.Stdin)
	root.SetOut(d.Stdout)
	root.SetErr(d.Stderr)
	err := root.ExecuteContext(ctx)
	return exitCode(err, d.Stderr)
}

// exitCode tells of an error once and gives the process's exit code for it.
func exitCode(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return driver.ExitOK
	}
	var ex *driver.ExitError
	if !errors.As(err, &ex) {
		// What cobra itself reports is bad usage.
		ex = &driver.ExitError{Code: driver.ExitUsage, Err: err}
	}
	if ex.Err != nil {
		fmt.Fprintf(stderr, "lowertrace: %v\n", ex.Err)
	}
	return ex.Code
}
