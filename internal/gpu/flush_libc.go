//go:build !nogpu && ((linux && (amd64 || arm64)) || (darwin && (amd64 || arm64)))

package gpu

import "github.com/ebitengine/purego"

// FlushOutput writes out what a kernel's printf has left in the C library's
// buffers, which Go does not flush when it ends the process.
func FlushOutput() {
	addr, err := purego.Dlsym(purego.RTLD_DEFAULT, "fflush")
	if err != nil || addr == 0 {
		return // no C library, no buffers of it
	}
	var fflush func(stream uintptr) int32
	purego.RegisterFunc(&fflush, addr)
	fflush(0)
}
