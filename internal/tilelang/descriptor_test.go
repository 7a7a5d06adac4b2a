package tilelang

import (
	"fmt"
	"strings"
	"testing"

	"lowertrace/internal/ir/script"
)

// The type that one descriptor is given is not the next one's.
func TestDescriptorTypes(t *testing.T) {
	for _, c := range []struct{ arg, want string }{{"", "uint64"}, {`"uint32"`, "uint32"}, {"", "uint64"}} {
		p, msg := loadWithDiags(t, "kernel.py", fmt.Sprintf(`import tilelang.language as T


@T.prim_func
def main(A: T.Tensor((32,), "float32")):
    with T.Kernel(1, threads=32) as bx:
        d = T.alloc_wgmma_desc(%s)
        A[bx] = 1
`, c.arg), Options{})
		if msg != "" {
			t.Fatal(msg)
		}
		if text := script.Print(p.Module); !strings.Contains(text, `"`+c.want+`", scope="local.descriptor.wgmma"`) {
			t.Errorf("alloc_wgmma_desc(%s) is not of %s:\n%s", c.arg, c.want, text)
		}
	}
}
