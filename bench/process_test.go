package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/gpu"
	"lowertrace/internal/gpu/gputest"
)

// processes are kernels of the corpus and how they are lowered.
var processes = []struct{ kernel, target string }{
	{"vector_add", "sm_80"},
	{"softmax", "sm_80"},
	{"softmax", "sm_90a"},
	{"gemm_f16", "sm_80"},
	{"flash_attention", "sm_80"},
}

// build builds the program and returns its path.
func build(b *testing.B) string {
	b.Helper()
	root, err := corpus.Root()
	if err != nil {
		b.Fatal(err)
	}
	bin := filepath.Join(b.TempDir(), "lowertrace")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", bin, "./cmd/lowertrace")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// BenchmarkProcess runs the whole program, with recording, diffs and report,
// and without; the median of the wall time is reported as p50-ms.
func BenchmarkProcess(b *testing.B) {
	bin := build(b)
	for _, p := range processes {
		k := corpus.Lookup(p.kernel)
		for _, mode := range []string{"both", "off"} {
			b.Run(p.kernel+"/"+p.target+"/"+mode, func(b *testing.B) {
				dir := b.TempDir()
				input := filepath.Join(dir, p.kernel+".tir")
				if err := os.WriteFile(input, []byte(corpus.Text(k.Input(p.target))), 0o666); err != nil {
					b.Fatal(err)
				}
				var times []time.Duration
				for b.Loop() {
					cmd := exec.Command(bin, "run", input, "--target", p.target, "--mode", mode, "--trace-dir", filepath.Join(dir, "trace"))
					var stderr bytes.Buffer
					cmd.Dir, cmd.Stderr = dir, &stderr
					start := time.Now()
					if err := cmd.Run(); err != nil {
						b.Skipf("%v: %s", err, stderr.Bytes())
					}
					times = append(times, time.Since(start))
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds())/1e3, "p50-ms")
			})
		}
	}
}

// BenchmarkStart runs the program for its version: what starting it costs.
func BenchmarkStart(b *testing.B) {
	bin := build(b)
	for b.Loop() {
		if err := exec.Command(bin, "version").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompile compiles what the program generates with NVRTC.
func BenchmarkCompile(b *testing.B) {
	n := gputest.NVRTC(b)
	bin := build(b)
	for _, p := range processes {
		k := corpus.Lookup(p.kernel)
		b.Run(p.kernel+"/"+p.target, func(b *testing.B) {
			dir := b.TempDir()
			input := filepath.Join(dir, p.kernel+".tir")
			if err := os.WriteFile(input, []byte(corpus.Text(k.Input(p.target))), 0o666); err != nil {
				b.Fatal(err)
			}
			cmd := exec.Command(bin, "run", input, "--target", p.target, "--mode", "off")
			cmd.Dir = dir
			src, err := cmd.Output()
			if err != nil {
				b.Skip(err)
			}
			for b.Loop() {
				if _, err := n.Compile(string(src), gpu.CompileOptions{Arch: p.target}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
