package cuda

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/launch"
	"lowertrace/internal/pipeline"
)

// elementwise are the twelve kernels without matrix products, all that short
// tests run.
var elementwise = []string{"vector_add", "scalar_axpy", "cast_scale_f16_f32", "silu_mul", "gelu_f16", "elementwise_add_2d",
	"copy_2d", "transpose_smem", "bounds_predicate_add", "dynamic_shape_add", "row_sum", "softmax"}

// lower lowers a kernel of the corpus as it was written.
func lower(t testing.TB, kernel, arch, name string) (*pipeline.Output, error) {
	t.Helper()
	p, err := pipeline.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	m := input(t, kernel, arch)
	target, err := LookupTarget(arch)
	if err != nil {
		t.Fatal(err)
	}
	c := &pipeline.Context{Target: target, Options: pipeline.Options{}, VerifyEach: true}
	m, err = p.Run(c, m)
	if err != nil {
		return nil, err
	}
	return p.Codegen()(c, m)
}

// TestLower lowers every kernel from what the reference's front end printed, by
// both pipelines, and compiles the result for sm_80 and, since binaries are not
// portable, for sm_90a.
func TestLower(t *testing.T) {
	n := gputest.NVRTC(t)
	done := 0
	for _, k := range corpus.Kernels() {
		if !k.Has("sm_80") || testing.Short() && !slices.Contains(elementwise, k.Name) {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			out, err := lower(t, k.Name, "sm_80", "cuda")
			if err != nil {
				t.Fatal(err)
			}
			if dir := os.Getenv("CUDA_DUMP"); dir != "" {
				os.WriteFile(filepath.Join(dir, k.Name+".cu"), []byte(out.Source), 0o644)
				os.WriteFile(filepath.Join(dir, k.Name+".json"), out.Launch, 0o644)
			}
			if phased, err := lower(t, k.Name, "sm_80", "cuda-phased"); err != nil {
				t.Errorf("cuda-phased: %v", err)
			} else if phased.Source != out.Source || string(phased.Launch) != string(out.Launch) {
				t.Error("the two pipelines give different CUDA")
			}
			spec, err := launch.Parse(out.Launch)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range k.Params {
				// The printer numbers a parameter whose name a view has too.
				if i >= len(spec.Args) || strings.TrimSuffix(spec.Args[i], "_1") != p.Name {
					t.Errorf("argument %d is not %s: %v", i, p.Name, spec.Args)
				}
			}
			for _, p := range k.Params {
				b, ok := spec.Buffers[p.Name]
				// "inout" is right wherever the code generator cannot tell.
				if ok && string(b.Role) != p.Role && b.Role != launch.InOut {
					t.Errorf("buffer %s has the role %s, not %s", p.Name, b.Role, p.Role)
				}
			}
			compile(t, n, out.Source, "sm_80")
			compile(t, n, out.Source, "sm_90a")
			done++
		})
	}
	t.Logf("%d kernels lower", done)
}

// TestOrigins checks that every line of a kernel, and no line of the prelude,
// leads to the source.
func TestOrigins(t *testing.T) {
	out, err := lower(t, "softmax", "sm_80", "cuda")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	seen := map[int]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(out.Source, "\n"), "\n") {
		org := out.Origins[i]
		switch {
		case strings.HasPrefix(line, "extern \"C\""):
			inside = true
		case strings.HasPrefix(line, "// Launch"):
			inside = false
		}
		if inside && line != "" && !org.IsValid() {
			t.Errorf("line %d has no origin: %s", i+1, line)
		}
		if !inside && org.IsValid() {
			t.Errorf("line %d has an origin: %s", i+1, line)
		}
		seen[org.Line()] = true
	}
	// The statements of softmax/sm_80/input.tir: two copies, two reductions,
	// two elementwise loops and their bodies.
	for _, n := range []int{19, 20, 21, 23, 24, 25, 27, 28} {
		if !seen[n] {
			t.Errorf("no line of the CUDA comes from line %d of the input", n)
		}
	}
}
