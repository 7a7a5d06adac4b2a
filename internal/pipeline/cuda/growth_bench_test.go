package cuda

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// unrolled is flash_attention with the body of its loop written out n times,
// over arrays long enough for 64 rounds.
func unrolled(t testing.TB, n int) *ir.IRModule {
	t.Helper()
	text := corpus.Text("flash_attention/sm_80/input.tir")
	for _, r := range []struct{ old, new string }{
		{"(1, 256, 2, 64)", "(1, 4096, 2, 64)"},
		{"strides=(32768, 128, 64, 1)", "strides=(524288, 128, 64, 1)"},
		{"(1, 2, 256), strides=(512, 256, 1)", "(1, 2, 4096), strides=(8192, 4096, 1)"},
		{`T.serial(4, annotations={"num_stages": 2})`, fmt.Sprintf(`T.unroll(%d, annotations={"pragma_unroll_explicit": True})`, n)},
	} {
		if !strings.Contains(text, r.old) {
			t.Fatalf("flash_attention has no %q any more", r.old)
		}
		text = strings.ReplaceAll(text, r.old, r.new)
	}
	m, err := script.ParseString("unrolled.tir", text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// clock is the instrument that keeps the shortest time of each row.
type clock struct {
	start []time.Time
	best  map[string]time.Duration
}

func (c *clock) took(label string, d time.Duration) {
	if old, ok := c.best[label]; !ok || d < old {
		c.best[label] = d
	}
}

func (c *clock) Before(*pipeline.Event) { c.start = append(c.start, time.Now()) }

func (c *clock) After(e *pipeline.Event) {
	i := len(c.start) - 1
	if e.Depth == 0 {
		c.took(e.Label, time.Since(c.start[i]))
	}
	c.start = c.start[:i]
}

// BenchmarkGrowth lowers one body written out 1, 4, 16 and 64 times. With -v
// it logs what each pass takes at every size, in microseconds for one copy of
// the body, the shortest of its runs: a row whose numbers rise is a pass that
// is worse than linear.
func BenchmarkGrowth(b *testing.B) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		b.Fatal(err)
	}
	sizes := []int{1, 4, 16, 64}
	each := map[string][]float64{} // by row: microseconds for a copy
	for _, n := range sizes {
		m := unrolled(b, n)
		var ck *clock
		b.Run(fmt.Sprintf("%dx", n), func(b *testing.B) {
			ck = &clock{best: map[string]time.Duration{}}
			for b.Loop() {
				c := newContext(b, "sm_80")
				c.VerifyEach = false
				c.Instruments = []pipeline.Instrument{ck}
				out, err := p.Run(c, m)
				if err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				if _, err := p.Codegen()(c, out); err != nil {
					b.Fatal(err)
				}
				ck.took("codegen", time.Since(start))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/copy")
		})
		for label, d := range ck.best {
			each[label] = append(each[label], float64(d.Microseconds())/float64(n))
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-40s", "µs for a copy of the body")
	for _, n := range sizes {
		fmt.Fprintf(&table, "%9dx", n)
	}
	labels := []string{}
	for _, r := range p.Rows() {
		labels = append(labels, r.Label)
	}
	for _, l := range append(labels, "codegen") {
		fmt.Fprintf(&table, "\n%-40s", l)
		for _, us := range each[l] {
			fmt.Fprintf(&table, "%10.1f", us)
		}
	}
	b.Log(table.String())
}

// TestGrowth holds lowering to memory linear in the size of the body: time
// depends on the machine's other work, allocations do not.
func TestGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("lowers a body written out 16 times")
	}
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	allocs := func(n int) float64 {
		m := unrolled(t, n)
		return testing.AllocsPerRun(1, func() {
			c := newContext(t, "sm_80")
			c.VerifyEach = false
			if _, _, err := lowerAll(c, p, m); err != nil {
				t.Fatal(err)
			}
		})
	}
	small, large := allocs(4), allocs(16)
	t.Logf("%.0f allocations for 4 copies of the body, %.0f for 16", small, large)
	if large > 4*small*1.2 {
		t.Errorf("4 times the code takes %.1f times the allocations", large/small)
	}
}
