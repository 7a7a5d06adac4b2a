//go:build unix

package driver

import (
	"os"

	"golang.org/x/sys/unix"
)

// divertPrintf sends what kernels print, which goes to the process's standard
// output past Go, to standard error, so that a document on standard output
// stays whole. The result undoes it.
func (d *Deps) divertPrintf() (undo func()) {
	if d.Stdout != os.Stdout {
		return func() {}
	}
	own, err := unix.Dup(1)
	if err != nil {
		return func() {} // then kernels print where they do without --json
	}
	if err := unix.Dup2(2, 1); err != nil {
		unix.Close(own)
		return func() {}
	}
	f := os.NewFile(uintptr(own), os.Stdout.Name())
	d.Stdout = f
	return func() {
		d.Stdout = os.Stdout
		_ = unix.Dup2(own, 1) // the process is about to end
		f.Close()
	}
}
