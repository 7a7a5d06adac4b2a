package trace

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// BenchmarkRecordSmallKernel records what a softmax lowering records: 75 passes over a text of about
// 150 lines, 24 of which change something, into a real directory.
func BenchmarkRecordSmallKernel(b *testing.B) {
	dir := b.TempDir()
	var texts []string
	for i := range 25 {
		texts = append(texts, strings.Repeat("    prefix line of some length that is not changed at all\n", 3)+module(150, i*5, i))
	}
	b.ResetTimer()
	for i := range b.N {
		r := NewRecorder(Config{
			TraceDir: fmt.Sprintf("%s/%d", dir, i%8), Stem: "k", InputKey: "k", Clock: time.Now,
			PID: os.Getpid(), Rand: rand.Reader, Warn: func(s string) { b.Error(s) },
		})
		cur := 0
		for p := range 75 {
			h := r.Begin(Pass{Name: fmt.Sprintf("Pass%d", p), Phase: "pipeline_cuda"}, Text{Text: texts[cur]})
			if p%3 == 0 && cur < 24 {
				cur++
			}
			r.End(h, Text{Text: texts[cur]}, nil, nil)
		}
		r.Finish(Ending{})
	}
}
