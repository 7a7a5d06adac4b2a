package cuda

import (
	"slices"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/source"
	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// TestExtras lowers the extra kernels and runs them like TestCorpusResults
// does the corpus, but at every state: products of matrices of symbolic sizes,
// ragged and empty, popcount of signed integers, loops whose number of
// iterations depends on the block.
func TestExtras(t *testing.T) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range source.Extras() {
		t.Run(e.Name, func(t *testing.T) {
			if testing.Short() && e.Kernel.Own == nil {
				t.Skip("attention takes seconds")
			}
			m, err := e.Module()
			if err != nil {
				t.Fatal(err)
			}
			n, err := checkKernel(t, p, &e.Kernel, m, true)
			if err != nil {
				t.Error(err)
			}
			if n < 15 {
				t.Errorf("only %d states ran", n)
			}
		})
	}
}

// TestLowerFromSource compiles, for both architectures, the kernels that are
// read from TileLang source: those whose texts hide what is needed, and the
// extra ones.
func TestLowerFromSource(t *testing.T) {
	type kernel struct {
		name string
		mod  *ir.IRModule
	}
	n := gputest.NVRTC(t)
	for _, arch := range []string{"sm_80", "sm_90a"} {
		var list []kernel
		for _, k := range corpus.Kernels() {
			if k.Has(arch) && source.Hides(&k, arch) {
				list = append(list, kernel{k.Name, input(t, k.Name, arch)})
			}
		}
		for _, e := range source.Extras() {
			m, err := e.Module()
			if err != nil {
				t.Fatal(err)
			}
			// The sizes of a kernel's arrays change nothing here.
			same := func(k kernel) bool { return ir.Difference(k.mod, m, ir.EqualOptions{}) == "" }
			if !slices.ContainsFunc(list, same) {
				list = append(list, kernel{e.Name, m})
			}
		}
		for _, k := range list {
			t.Run(k.name+"/"+arch, func(t *testing.T) {
				p, err := pipeline.Lookup("cuda")
				if err != nil {
					t.Fatal(err)
				}
				_, out, err := lowerAll(newContext(t, arch), p, k.mod)
				if err != nil {
					t.Fatal(err)
				}
				compile(t, n, out.Source, arch)
				// The text itself comes out where one was hidden.
				if k.name == "extern_l2" && !strings.Contains(out.Source, "float twice_plus(float x, int k)") {
					t.Errorf("the imported C source is not in the CUDA:\n%s", out.Source)
				}
			})
		}
	}
}
