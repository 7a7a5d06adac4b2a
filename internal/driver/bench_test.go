//go:build unix

package driver

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lowertrace/internal/corpus"
)

// BenchmarkRecordedRun is what recording costs: a lowering by itself, and one
// that writes a run directory, a report and the working copy. The times are the
// process's, user and system, which other programs on the machine do not
// lengthen as they do the wall's. The figures are in docs/performance.md.
func BenchmarkRecordedRun(b *testing.B) {
	for _, name := range []string{"softmax", "gemm_f16", "flash_attention", "flash_attention_causal", "linear_attention_chunk", "dequant_gemm_w4a16"} {
		k, ok := kernelNamed(name)
		if !ok || !k.Has("sm_80") {
			continue
		}
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			file := filepath.Join(dir, name+".tir")
			if err := os.WriteFile(file, []byte(corpus.Text(k.Input("sm_80"))), 0o666); err != nil {
				b.Fatal(err)
			}
			d := OSDeps()
			d.Stdin, d.Stdout, d.Stderr = strings.NewReader(""), io.Discard, io.Discard
			d.StdoutTTY, d.StderrTTY = false, false
			o := RunOptions{Files: []string{file}, Pipeline: DefaultPipeline, TraceDir: filepath.Join(dir, "traces"), Context: 3}
			lower := func(m Mode) time.Duration {
				o.Mode = m
				start := cpuTime()
				if err := Run(context.Background(), d, o); err != nil {
					b.Fatalf("%v: %v", m, err)
				}
				return cpuTime() - start
			}
			lower(ModeHTML) // tables are built, the folders are there
			var plain, recorded time.Duration
			for b.Loop() {
				plain += lower(ModeOff)
				recorded += lower(ModeHTML)
			}
			n := float64(b.N)
			b.ReportMetric(float64(plain.Microseconds())/1e3/n, "plain-ms")
			b.ReportMetric(float64(recorded.Microseconds())/1e3/n, "recorded-ms")
			b.ReportMetric(float64(recorded)/float64(plain), "recorded/plain")
		})
	}
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func kernelNamed(name string) (corpus.Kernel, bool) {
	for _, k := range corpus.Kernels() {
		if k.Name == name {
			return k, true
		}
	}
	return corpus.Kernel{}, false
}
