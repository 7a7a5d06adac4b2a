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
	"runtime"
	"runtime/debug"
	"syscall"

	"lowertrace/internal/driver"
)

func main() {
	collectLater()
	// A reader that closes the pipe is no reason to die in the middle of a run.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the process
	os.Exit(run(ctx, os.Args[1:], driver.OSDeps()))
}

// Garbage collection suits runs that are short and make much garbage: most end
// before their heap has firstHeap bytes, and are not collected at all. From the
// first collection on, one comes when the heap has grown by laterPercent. GOGC
// has the last word.
const (
	firstHeap    = 24 << 20
	laterPercent = 200
	leastHeap    = 4 << 20 // the runtime's first heap at 100 percent
)

func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(firstHeap / leastHeap * 100)
	// The first collection finds nobody holding this. It has a pointer, for small
	// objects without one share memory with others that live on.
	first := new(*int)
	runtime.AddCleanup(first, func(percent int) { debug.SetGCPercent(percent) }, laterPercent)
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
	var cause syscall.Errno
	switch {
	case errors.As(err, &ex):
	case errors.As(err, &cause): // what a command prints could not be written
		ex = &driver.ExitError{Code: driver.ExitFailed, Err: fmt.Errorf("standard output: %w", err)}
	default: // what cobra itself reports is bad usage
		ex = &driver.ExitError{Code: driver.ExitUsage, Err: err}
	}
	if ex.Err != nil {
		fmt.Fprintf(stderr, "lowertrace: %v\n", ex.Err)
	}
	return ex.Code
}
