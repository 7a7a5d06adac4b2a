package gpu_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lowertrace/internal/gpu"
	"lowertrace/internal/gpu/gputest"
)

var update = flag.Bool("update", false, "compile testdata/*.cubin anew")

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Sources that include nothing compile for every target, the instructions of
// Hopper for sm_90a, and give PTX beside the cubin.
func TestCompileWithoutHeaders(t *testing.T) {
	for _, tc := range []struct {
		file  string
		archs []string
	}{
		{"ampere.cu", []string{"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"}},
		{"hopper.cu", []string{"sm_90a"}},
	} {
		for i, obj := range gputest.Compile(t, read(t, tc.file), tc.archs...) {
			if obj.Log != "" {
				t.Errorf("%s for %s: log\n%s", tc.file, tc.archs[i], obj.Log)
			}
			if !strings.Contains(string(obj.PTX), ".target "+tc.archs[i]+"\n") {
				t.Errorf("%s for %s: the PTX is for another target:\n%.300s", tc.file, tc.archs[i], obj.PTX)
			}
			if len(obj.Kernels) != 1 || obj.Kernels[0].Registers == 0 || !obj.Kernels[0].Spills {
				t.Errorf("%s for %s: kernels %+v", tc.file, tc.archs[i], obj.Kernels)
			}
		}
	}
}

// The instructions of Hopper don't compile for sm_80, and the message says so.
func TestWrongTarget(t *testing.T) {
	_, err := gputest.NVRTC(t).Compile(read(t, "hopper.cu"), gpu.CompileOptions{Arch: "sm_80"})
	var ce *gpu.CompileError
	if !errors.As(err, &ce) || !strings.Contains(ce.Log, "sm_90") {
		t.Errorf("have %v", err)
	}
}

// The half-precision headers are found and handed over without an include path.
func TestCompileWithRuntimeHeaders(t *testing.T) {
	for header, body := range map[string]string{
		"cuda_fp16.h": "__half2 h = __floats2half2_rn(x[0], x[1]); x[2] = __low2float(__hmul2(h, h));",
		"cuda_bf16.h": "x[2] = __bfloat162float(__float2bfloat16(x[0]));",
		"cuda_fp8.h":  "x[2] = float(__half(__nv_fp8_e4m3(x[0])));",
	} {
		src := "#include <" + header + ">\nextern \"C\" __global__ void k(float *x) { " + body + " }\n"
		gputest.Compile(t, src, "sm_80", "sm_90a")
	}
}

func TestCompileOptions(t *testing.T) {
	n := gputest.NVRTC(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cuda_mine.h"), []byte("#define MINE 3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	src := "#include \"two.h\"\n#include <cuda_mine.h>\nextern \"C\" __global__ void k(int *x) { *x = TWO * MINE * FLAG; }\n"
	obj, err := n.Compile(src, gpu.CompileOptions{Arch: "sm_80", Headers: map[string]string{"two.h": "#define TWO 2\n"},
		Includes: []string{dir}, Flags: []string{"-DFLAG=7"}, LineInfo: true})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(obj.PTX), ", 42;") {
		t.Errorf("no 2*3*7 in\n%s", obj.PTX)
	}
}

func TestCompileErrors(t *testing.T) {
	n := gputest.NVRTC(t)
	for _, tc := range []struct {
		name, src string
		opt       gpu.CompileOptions
		want      string
	}{
		{"undefined name", "extern \"C\" __global__ void k(float *a) {\n  a[0] = b;\n}\n", gpu.CompileOptions{}, "kernel.cu:2:10: error: identifier \"b\" is undefined"},
		{"file name", "int f() { return x; }\n", gpu.CompileOptions{Name: "codegen.cpp", Flags: []string{"--device-as-default-execution-space"}}, "codegen.cpp:1:18: error: identifier \"x\" is undefined"},
		{"#line", "#line 77 \"softmax.py\"\n__device__ int f() { return x; }\n", gpu.CompileOptions{}, "softmax.py:77:29: error: identifier \"x\" is undefined"},
		{"several", "__device__ int f() { return x + y + z; }\n", gpu.CompileOptions{}, "(and 2 more)"},
		{"assembly", "extern \"C\" __global__ void k() { asm(\"bogus.u32;\"); }\n", gpu.CompileOptions{}, "ptx:"},
		{"option", "", gpu.CompileOptions{Flags: []string{"--no-such-option"}}, "no-such-option"},
		{"header", "#include <nope.h>\n", gpu.CompileOptions{}, "nope.h"},
		{"NUL", "int a;\x00", gpu.CompileOptions{}, "NUL byte"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opt.Arch = "sm_80"
			_, err := n.Compile(tc.src, tc.opt)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("have %v, want an error with %q", err, tc.want)
			}
		})
	}
	for _, arch := range []string{"sm_20", "sm_999", "90a", "", "compute_80", "sm_80; rm"} {
		_, err := n.Compile("", gpu.CompileOptions{Arch: arch})
		var ae *gpu.ArchError
		if !errors.As(err, &ae) || !strings.Contains(err.Error(), "sm_80") {
			t.Errorf("%q: have %v, want an ArchError that names what is known", arch, err)
		}
	}
}

// Several goroutines may compile at once, and equal sources give equal cubins.
func TestCompileConcurrently(t *testing.T) {
	n := gputest.NVRTC(t)
	src := read(t, "scale.cu")
	cubins := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range cubins {
		wg.Go(func() {
			obj, err := n.Compile(src, gpu.CompileOptions{Arch: []string{"sm_80", "sm_90a"}[i%2]})
			if err != nil {
				t.Error(err)
				return
			}
			cubins[i] = obj.Cubin
		})
	}
	wg.Wait()
	for i := range cubins[2:] {
		if string(cubins[i]) != string(cubins[i+2]) {
			t.Errorf("cubin %d differs from cubin %d", i+2, i)
		}
	}
}

func TestSpills(t *testing.T) {
	src := read(t, "ampere.cu") + `
extern "C" __global__ void spill(const float *x, float *y) {
  float v[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = x[i * 32 + threadIdx.x];
  __syncthreads();
  float s = 1;
  #pragma unroll
  for (int i = 0; i < 64; ++i) { s = s * v[i] + v[63 - i]; y[i * 32 + threadIdx.x] = s; }
}
`
	obj, err := gputest.NVRTC(t).Compile(src, gpu.CompileOptions{Arch: "sm_80", Flags: []string{"--maxrregcount=32"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range obj.Kernels {
		if spills := k.SpillStores > 0 && k.SpillLoads > 0 && k.Stack > 0; spills != (k.Name == "spill") || k.Registers > 32 {
			t.Errorf("%+v", k)
		}
	}
}

// What ReadCubin says of the committed cubins, and NVRTC of the same source.
func TestReadCubin(t *testing.T) {
	src := read(t, "scale.cu")
	for arch, want := range map[string]*gpu.Cubin{
		"sm_80": {SM: 80, Kernels: []gpu.Kernel{
			{Name: "fill", Registers: 10, Params: []gpu.ParamSlot{{0, 8}, {8, 4}}},
			{Name: "scale", Registers: 31, Shared: 256, Stack: 64, Barriers: 1, MaxThreads: 64, Params: []gpu.ParamSlot{{0, 8}, {8, 8}, {16, 4}, {20, 4}, {24, 1}}}}},
		"sm_90a": {SM: 90, Kernels: []gpu.Kernel{
			{Name: "fill", Registers: 10, Params: []gpu.ParamSlot{{0, 8}, {8, 4}}},
			{Name: "scale", Registers: 31, Shared: 256, Stack: 64, Barriers: 1, MaxThreads: 64, Params: []gpu.ParamSlot{{0, 8}, {8, 8}, {16, 4}, {20, 4}, {24, 1}}}}},
	} {
		file := "scale." + arch + ".cubin"
		if *update {
			if err := os.WriteFile(filepath.Join("testdata", file), gputest.Compile(t, src, arch)[0].Cubin, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		c, err := gpu.ReadCubin([]byte(read(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, c); d != "" {
			t.Errorf("%s (-want +have)\n%s", file, d)
		}
	}
}

func TestReadCubinErrors(t *testing.T) {
	good := read(t, "scale.sm_80.cubin")
	for name, in := range map[string]string{"empty": "", "text": "not an ELF file", "cut off": good[:len(good)/2], "host program": "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 57)} {
		if c, err := gpu.ReadCubin([]byte(in)); err == nil {
			t.Errorf("%s: read as %+v", name, c)
		}
	}
}

func FuzzReadCubin(f *testing.F) {
	f.Add([]byte(read(f, "scale.sm_80.cubin")))
	f.Add([]byte(read(f, "scale.sm_90a.cubin")))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := gpu.ReadCubin(b)
		if err == nil && c == nil {
			t.Fatal("neither a cubin nor an error")
		}
	})
}

func BenchmarkNVRTC(b *testing.B) {
	n := gputest.NVRTC(b)
	for _, file := range []string{"scale.cu", "ampere.cu", "hopper.cu"} {
		b.Run(strings.TrimSuffix(file, ".cu"), func(b *testing.B) {
			src := read(b, file)
			for b.Loop() {
				if _, err := n.Compile(src, gpu.CompileOptions{Arch: "sm_90a"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
