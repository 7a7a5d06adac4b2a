//go:build !nogpu && ((linux && (amd64 || arm64)) || (darwin && (amd64 || arm64)))

package gpu

import "github.com/ebitengine/purego"

// openLibrary opens a shared library for the life of the process. Its symbols
// become visible to libraries opened later, which is how libnvrtc finds its
// builtins.
func openLibrary(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func symbol(lib uintptr, name string) (uintptr, error) { return purego.Dlsym(lib, name) }
