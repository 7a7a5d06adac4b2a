package schedule_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/judge"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// TestCausalAttention lowers attention whose number of iterations depends on
// the block, with more stages than it was written for: the first blocks have
// fewer iterations than stages. The lowered kernel must give the expected
// arrays without a race.
func TestCausalAttention(t *testing.T) {
	pipe, target := sm80(t)
	for _, k := range corpus.Kernels() {
		if k.Name != "flash_attention_causal" {
			continue
		}
		text := corpus.Text(k.Input("sm_80"))
		const stages = `"num_stages": 1`
		if strings.Count(text, stages) != 1 {
			t.Fatalf("the text does not hold %s once", stages)
		}
		for n := 1; n <= 3; n++ {
			m, err := script.ParseString("k.tir", strings.Replace(text, stages, fmt.Sprintf(`"num_stages": %d`, n), 1))
			if err != nil {
				t.Fatal(err)
			}
			w := &watch{}
			ctx := &pipeline.Context{Target: target, Options: pipeline.Options{}, VerifyEach: true, Instruments: []pipeline.Instrument{w}}
			if _, err := pipe.Run(ctx, m); err != nil {
				t.Fatal(err)
			}
			if w.copies == 0 {
				t.Errorf("%d stages: nothing is copied asynchronously", n)
			}
			res, err := interp.Run(context.Background(), w.kept, judge.Args(&k), interp.Options{Findings: true, Sync: interp.SyncExplicit})
			if err != nil {
				t.Fatal(err)
			}
			if d := judge.Wrong(&k, res); d != "" {
				t.Errorf("%d stages: %s", n, d)
			}
			for _, f := range res.Findings {
				t.Errorf("%d stages: %v", n, f)
			}
		}
		return
	}
	t.Fatal("the corpus has no causal attention")
}
