package tile

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// TestMutatedTexts changes numbers, operators and scopes of the golden inputs:
// whatever still parses must pass through or give a positioned error.
func TestMutatedTexts(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	number := regexp.MustCompile(`\b\d+\b`)
	word := regexp.MustCompile(`"(float16|float32|int8|int32|shared\.dyn|local\.fragment|local|sum|max)"|T\.bool\((True|False)\)`)
	words := []string{`"float16"`, `"float32"`, `"int8"`, `"int32"`, `"shared.dyn"`, `"local.fragment"`, `"local"`, `"sum"`, `"bitand"`, "T.bool(True)", "T.bool(False)"}
	numbers := []string{"0", "1", "2", "3", "7", "8", "16", "24", "32", "33", "64", "128", "1000", "100000", "2147483647"}
	r := rand.New(rand.NewSource(3))
	rounds := 12
	if testing.Short() {
		rounds = 2
	}
	ran := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(data), "-- input.tir --\n")
		for _, end := range []string{"-- want.tir --", "-- error --", "-- unchanged --"} {
			text, _, _ = strings.Cut(text, end)
		}
		head, body, ok := strings.Cut(text, "bx = T.launch_thread")
		if !ok {
			t.Fatalf("%s: no launch", file)
		}
		for n := 0; n < rounds; n++ {
			re, with := number, numbers
			if r.Intn(3) == 0 {
				re, with = word, words
			}
			at := re.FindAllStringIndex(body, -1)
			if len(at) == 0 {
				continue
			}
			m := at[r.Intn(len(at))]
			changed := body[:m[0]] + with[r.Intn(len(with))] + body[m[1]:]
			mod, err := script.ParseString("input.tir", head+"bx = T.launch_thread"+changed)
			if err != nil || ir.Verify(mod) != nil {
				continue
			}
			ran++
			if msg := survives(mod); msg != "" {
				t.Errorf("%s: %s\n%s", file, msg, changed)
			}
		}
	}
	if ran < rounds*20 {
		t.Errorf("only %d mutated texts could be run", ran)
	}
}

func survives(m *ir.IRModule) (msg string) {
	defer func() {
		if x := recover(); x != nil {
			msg = fmt.Sprintf("panic: %v", x)
		}
	}()
	for _, p := range []*pipeline.Pass{CanonicalizeLegacyReducer, VerifyReducerEpoch, LayoutInference, ReducerPlanAndMaterialize, LowerTileOp, VerifyReducerConsumed} {
		out, err := p.Run(newContext(), m)
		if err != nil {
			var pe *pipeline.Error
			if !errors.As(err, &pe) {
				return fmt.Sprintf("%s: the error is no pipeline.Error: %v", p.Name, err)
			}
			if !pe.Span.IsValid() {
				return fmt.Sprintf("%s: the error has no position: %v", p.Name, err)
			}
			return ""
		}
		if err := ir.Verify(out); err != nil {
			return fmt.Sprintf("%s: not well formed: %v", p.Name, err)
		}
		m = out
	}
	return ""
}
