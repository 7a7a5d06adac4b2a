package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/gpu"
	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// hiddenStrings are the strings that the corpus' texts hide behind metadata,
// from the kernels' sources, by kernel.
var hiddenStrings = map[string]string{
	"assert_if":   "mode out of range\n\tsee 'docs'",
	"debug_print": "tile \"s\" = 100%\n",
	"extern_l2":   "\n__device__ __forceinline__ float twice_plus(float x, int k) { return x * 2.0f + k; } // \"quoted\"\n",
}

// reveal puts a string in the place of hidden ones.
func reveal(m *ir.IRModule, text string) *ir.IRModule {
	str := ir.Str(text)
	r := ir.Rewriter{PostExpr: func(e ir.Expr) ir.Expr {
		if _, ok := e.(*ir.Hidden); ok {
			return str
		}
		return e
	}}
	out, _ := m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) { return f.WithBody(r.Stmt(f.Body)), nil })
	return out
}

// generate prints what the reference handed to its code generator.
func generate(t testing.TB, kernel, arch string, comments bool) *pipeline.Output {
	t.Helper()
	name := kernel + "/" + arch + "/codegen_input.tir"
	m, err := script.ParseString(name, corpus.Text(name))
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := hiddenStrings[kernel]; ok {
		m = reveal(m, s)
	}
	c := &pipeline.Context{Options: pipeline.Options{OptSourceComments: comments}}
	out, err := Generate(c, m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// compile compiles without a header or an include path, wants no message from
// the compiler, and reports the time.
func compile(t testing.TB, n *gpu.NVRTC, src, arch string) time.Duration {
	t.Helper()
	start := time.Now()
	obj, err := n.Compile(src, gpu.CompileOptions{Arch: arch})
	d := time.Since(start)
	if err == nil && obj.Log != "" {
		t.Errorf("%s: the compiler has something to say:\n%s", arch, obj.Log)
	}
	var ce *gpu.CompileError
	if errors.As(err, &ce) {
		t.Errorf("%s: does not compile:\n%s", arch, ce.Log)
	} else if err != nil {
		t.Errorf("%s: %v", arch, err)
	}
	return d
}

// TestCorpusCompiles prints every kernel that the reference compiler handed to
// its own code generator, and compiles each for the architecture it was
// lowered for and, since binaries are not portable, for sm_90a.
func TestCorpusCompiles(t *testing.T) {
	n := gputest.NVRTC(t)
	var times []time.Duration
	for _, k := range corpus.Kernels() {
		if testing.Short() && !slices.Contains(elementwise, k.Name) {
			continue
		}
		for _, arch := range k.Archs {
			t.Run(k.Name+"/"+arch, func(t *testing.T) {
				out := generate(t, k.Name, arch, false)
				if dir := os.Getenv("CUDA_DUMP"); dir != "" {
					os.WriteFile(filepath.Join(dir, k.Name+"."+arch+".cu"), []byte(out.Source), 0o644)
				}
				if lines := strings.Count(out.Source, "\n"); lines != len(out.Origins) {
					t.Errorf("%d lines but %d origins", lines, len(out.Origins))
				}
				if strings.Contains(out.Source, "#include") {
					t.Error("the text needs a header")
				}
				d := compile(t, n, out.Source, "sm_90a")
				times = append(times, d)
				if arch != "sm_90a" {
					d80 := compile(t, n, out.Source, arch)
					times = append(times, d80)
					t.Logf("%s %v, sm_90a %v", arch, d80.Round(time.Millisecond), d.Round(time.Millisecond))
				} else {
					t.Logf("sm_90a %v", d.Round(time.Millisecond))
				}
			})
		}
	}
	if len(times) > 0 {
		sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
		t.Logf("%d compilations: median %v, slowest %v", len(times), times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
	}
}
