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

// largeTexts are 201 states of 2,000 lines, each pass changing one line in twenty.
func largeTexts() []string {
	lines := make([]string, 2000)
	for i := range lines {
		lines[i] = fmt.Sprintf("        buffer_%d[i * %d + j] = T.float32(0)\n", i, i)
	}
	texts := make([]string, 201)
	for p := range texts {
		texts[p] = strings.Join(lines, "")
		for k := range 100 {
			i := (p*37 + k*20) % len(lines)
			lines[i] = fmt.Sprintf("        buffer_%d[i * %d + j] = T.float32(%d)\n", i, i, p)
		}
	}
	return texts
}

func recordLarge(b *testing.B, dir string, texts []string) *Recorder {
	r := NewRecorder(Config{
		TraceDir: dir, Stem: "k", InputKey: "k", Clock: time.Now, PID: os.Getpid(), Rand: rand.Reader,
		Warn:     func(s string) { b.Error(s) },
		DiffStat: func(string, string) (int, int) { return 100, 100 },
	})
	for p := range len(texts) - 1 {
		h := r.Begin(Pass{Name: fmt.Sprintf("Pass%d", p), Phase: "p"}, Text{Text: texts[p]})
		r.End(h, Text{Text: texts[p+1]}, nil, nil)
	}
	r.Finish(Ending{})
	return r
}

// BenchmarkRecordLarge records 200 passes over 2,000 lines, 20 MB of text, and reports what is kept.
func BenchmarkRecordLarge(b *testing.B) {
	texts, dir := largeTexts(), b.TempDir()
	b.ResetTimer()
	for i := range b.N {
		r := recordLarge(b, fmt.Sprintf("%s/%d", dir, i), texts)
		for _, f := range []string{traceFile, journalFile} {
			if st, err := os.Stat(r.Dir() + "/" + f); err == nil {
				b.ReportMetric(float64(st.Size()), f+"-bytes")
			}
		}
	}
}

// BenchmarkOpenLarge reads such a run back.
func BenchmarkOpenLarge(b *testing.B) {
	r := recordLarge(b, b.TempDir(), largeTexts())
	b.ResetTimer()
	for range b.N {
		if _, err := Open(r.Dir(), OpenOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
