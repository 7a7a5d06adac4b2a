//go:build nogpu || !((linux && (amd64 || arm64)) || (darwin && (amd64 || arm64)) || (windows && (amd64 || arm64)))

package gpu

import "errors"

// canLoad tells whether this build can open libraries at all.
const canLoad = false

var errNoLoading = errors.New("this binary was built without GPU support")

func openLibrary(string) (uintptr, error) { return 0, errNoLoading }

func bind(uintptr, any) error { return errNoLoading }
