package driver

import (
	"slices"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/gpu"
	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
)

// BenchmarkExecCompile compiles what is generated for every kernel of the
// corpus; "all" reports the median and the largest time of a kernel. The goal is
// a median of at most 150 ms.
func BenchmarkExecCompile(b *testing.B) {
	n := gputest.NVRTC(b)
	pipe, err := pipeline.Lookup(DefaultPipeline)
	if err != nil {
		b.Fatal(err)
	}
	for _, arch := range []string{"sm_80", "sm_90a"} {
		target, err := cuda.LookupTarget(arch)
		if err != nil {
			b.Fatal(err)
		}
		var all []time.Duration
		for _, k := range corpus.Kernels() {
			if !k.Has(arch) {
				continue
			}
			mod, err := script.ParseString(k.Name, corpus.Text(k.Input(arch)))
			if err != nil {
				b.Fatal(err)
			}
			l := &lowered{}
			if l.lower(&pipeline.Context{Target: target}, &job{in: &input{mod: mod}, target: target, pipe: pipe}, &recording{}) != nil {
				continue // its text hides what is needed
			}
			b.Run(k.Name+"/"+arch, func(b *testing.B) {
				var times []time.Duration
				for b.Loop() {
					start := time.Now()
					if _, err := n.Compile(l.out.Source, gpu.CompileOptions{Arch: arch}); err != nil {
						b.Fatal(err)
					}
					times = append(times, time.Since(start))
				}
				all = append(all, slices.Min(times))
			})
		}
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		b.Run("all/"+arch, func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1e3, "p50-ms")
			b.ReportMetric(float64(all[len(all)-1].Microseconds())/1e3, "max-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
