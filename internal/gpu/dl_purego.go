//go:build !nogpu && ((linux && (amd64 || arm64)) || (darwin && (amd64 || arm64)) || (windows && (amd64 || arm64)))

package gpu

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/ebitengine/purego"
)

// canLoad tells whether this build can open libraries at all.
const canLoad = true

// bind sets every field of the struct of functions that api points to, from
// the symbol that its `sym` tag names. A tag may name several symbols, newest
// first, separated by "|"; a field that is also tagged optional stays nil if
// the library has none of them.
func bind(lib uintptr, api any) error {
	v := reflect.ValueOf(api).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		var addr uintptr
		for sym := range strings.SplitSeq(tag.Get("sym"), "|") {
			if p, err := symbol(lib, sym); err == nil && p != 0 {
				addr = p
				break
			}
		}
		if addr == 0 {
			if tag.Get("optional") != "" {
				continue
			}
			return fmt.Errorf("it has no function %s", tag.Get("sym"))
		}
		purego.RegisterFunc(v.Field(i).Addr().Interface(), addr)
	}
	return nil
}
