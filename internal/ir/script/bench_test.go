package script

import (
	"fmt"
	"go/parser"
	"go/token"
	"runtime"
	"sort"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// largest are the largest reference texts.
func largest(n int) []string {
	names := corpus.Files(".tir")
	sort.SliceStable(names, func(i, j int) bool { return len(corpus.Text(names[i])) > len(corpus.Text(names[j])) })
	texts := make([]string, n)
	for i := range texts {
		texts[i] = corpus.Text(names[i])
	}
	return texts
}

const benchTexts = 10

func BenchmarkParse(b *testing.B) {
	texts := largest(benchTexts)
	size := 0
	for _, t := range texts {
		size += len(t)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range texts {
			if m, diags := Parse(ir.NewSource("text", t), Options{}); m == nil {
				b.Fatal(diags.Err())
			}
		}
	}
}

// BenchmarkSyntax reads the syntax tree alone.
func BenchmarkSyntax(b *testing.B) {
	texts := largest(benchTexts)
	size := 0
	for _, t := range texts {
		size += len(t)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range texts {
			syntax.Parse(ir.NewSource("text", t), &diag.List{})
		}
	}
}

func BenchmarkPrint(b *testing.B) {
	var ms []*ir.IRModule
	size := 0
	for _, t := range largest(benchTexts) {
		ms = append(ms, MustParse(t))
		size += len(t)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, m := range ms {
			Print(m)
		}
	}
}

// goText is Go source of about n bytes: the yardstick is go/parser on a file
// with lines like those of a kernel.
func goText(n int) string {
	var s strings.Builder
	s.WriteString("package p\n\n")
	for i := 0; s.Len() < n; i++ {
		fmt.Fprintf(&s, `func f%d(aShared, bShared []float32, threadIdx, blockIdx int) {
	for i := 0; i < 4; i++ {
		aShared[i*1024+threadIdx/4*32+(threadIdx%%32/16+threadIdx%%4/2)%%2*16] = load(bShared[blockIdx*32768+i*8192+threadIdx/4*256+threadIdx%%4*8], 8)
		if threadIdx < 32 && blockIdx*128+i < %d {
			wait(addressOf(aShared, shiftRight(threadIdx, 2)*32+bitwiseAnd(threadIdx, 31)), "float16", 3)
		}
	}
}

`, i, i)
	}
	return s.String()
}

func BenchmarkGoParser(b *testing.B) {
	var texts []string
	size := 0
	for _, t := range largest(benchTexts) {
		g := goText(len(t))
		texts = append(texts, g)
		size += len(g)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range texts {
			if _, err := parser.ParseFile(token.NewFileSet(), "x.go", t, parser.SkipObjectResolution); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestMemory: reading takes at most 30 bytes of memory for each byte of text,
// what becomes garbage on the way included.
func TestMemory(t *testing.T) {
	const most = 30
	for _, text := range largest(3) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m := MustParse(text)
		runtime.ReadMemStats(&after)
		got := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(text))
		t.Logf("%d bytes of text: %.1f bytes allocated for each", len(text), got)
		if got > most {
			t.Errorf("%.1f bytes allocated for each byte of text, want at most %d", got, most)
		}
		runtime.KeepAlive(m)
	}
}
