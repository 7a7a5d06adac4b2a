//go:build unix

package trace

import (
	"errors"
	"os"
	"syscall"
)

// processAlive says whether a process with that id exists.
func processAlive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// tryLock takes the lock file for this process. The system gives it back when the process ends,
// however it ends. ok is false while another holds it.
func tryLock(path string) (unlock func(), ok bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		// The holder before may have removed the file: then this is a lock on nothing.
		mine, err1 := f.Stat()
		now, err2 := os.Stat(path)
		if err1 != nil || err2 != nil || !os.SameFile(mine, now) {
			f.Close()
			return nil, false, nil
		}
		return func() { f.Close() }, true, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		f.Close()
		return nil, false, nil
	}
	f.Close()
	return nil, false, &os.PathError{Op: "lock", Path: path, Err: err}
}
