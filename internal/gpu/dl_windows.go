//go:build !nogpu && windows && (amd64 || arm64)

package gpu

import "syscall"

// openLibrary opens a shared library for the life of the process.
func openLibrary(path string) (uintptr, error) {
	h, err := syscall.LoadLibrary(path)
	return uintptr(h), err
}

func symbol(lib uintptr, name string) (uintptr, error) {
	return syscall.GetProcAddress(syscall.Handle(lib), name)
}
