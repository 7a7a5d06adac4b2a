package driver

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
)

// TestCheckInputsByEitherName gives check an array by the name of a parameter
// and by that of its buffer.
func TestCheckInputsByEitherName(t *testing.T) {
	const text = `from tvm.script import tirx as T

@T.prim_func
def f(a: T.handle):
    A = T.match_buffer(a, (4,))
    A[0] = A[1]
`
	m, err := script.ParseString("f.tir", text)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "A"} {
		for _, n := range []int{4, 7} {
			dir := t.TempDir()
			arr, err := npy.New("f4", n)
			if err != nil {
				t.Fatal(err)
			}
			arr.SetUint(1, uint64(math.Float32bits(5)))
			f, err := os.Create(filepath.Join(dir, name+".npy"))
			if err != nil {
				t.Fatal(err)
			}
			if err := npy.Write(f, arr); err != nil {
				t.Fatal(err)
			}
			f.Close()
			d, _, _ := execDeps()
			args, err := d.checkInputs(m, CheckOptions{Inputs: dir})
			switch {
			case n == 7:
				if err == nil || !strings.Contains(err.Error(), "shape") {
					t.Errorf("%s with %d elements: %v", name, n, err)
				}
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case args.Arrays["a"].Float(1) != 5 || args.Arrays["A"].Float(1) != 5:
				t.Errorf("%s: the array given is not what the kernel gets", name)
			}
			if _, err := d.checkInputs(m, CheckOptions{InputSpec: []string{name + "=zeros"}, Unordered: []string{name}}); err != nil {
				t.Errorf("--input %s=zeros --unordered %s: %v", name, name, err)
			}
		}
	}
}
