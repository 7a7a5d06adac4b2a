package passtest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

var update = flag.Bool("update", false, "rewrite golden files with what the passes give")

// Golden runs a pass on every case that matches a pattern, usually
// "testdata/PASS/*.txtar".
func Golden(t *testing.T, p *pipeline.Pass, pattern string) {
	t.Helper()
	GoldenChain(t, []*pipeline.Pass{p}, pattern)
}

// GoldenChain is Golden for several passes in a row.
func GoldenChain(t *testing.T, passes []*pipeline.Pass, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no case matches %s", pattern)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			golden(t, passes, file)
		})
	}
}

func golden(t *testing.T, passes []*pipeline.Pass, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var input string
	for _, f := range a.Files {
		if f.Name == "input.tir" {
			input = string(f.Data)
		}
	}
	if input == "" {
		t.Fatalf("%s has no section input.tir", file)
	}
	c, err := newContext(string(a.Comment))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	out := run(t, c, passes, string(a.Comment), input)
	got := []txtar.File{{Name: "input.tir", Data: []byte(input)}}
	if out.text != "" {
		got = append(got, txtar.File{Name: out.section, Data: []byte(out.text)})
	} else {
		got = append(got, txtar.File{Name: out.section})
	}
	if out.remarks != "" {
		got = append(got, txtar.File{Name: "remarks", Data: []byte(out.remarks)})
	}
	want := string(txtar.Format(a))
	b := *a
	b.Files = got
	if have := string(txtar.Format(&b)); have != want {
		if *update {
			if err := os.WriteFile(file, []byte(have), 0o666); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("%s differs; -update accepts it. Got:\n%s", file, have)
	}
}

// newContext is the context a case's comment asks for.
func newContext(comment string) (*pipeline.Context, error) {
	arch := "sm_80"
	c := &pipeline.Context{Options: pipeline.Options{}, VerifyEach: true}
	for _, line := range strings.Split(comment, "\n") {
		if s, ok := strings.CutPrefix(line, "target:"); ok {
			arch = strings.TrimSpace(s)
		}
		if s, ok := strings.CutPrefix(line, "set:"); ok {
			k, v, found := strings.Cut(strings.TrimSpace(s), "=")
			if !found {
				return nil, fmt.Errorf("set: expected KEY=VALUE, got %q", s)
			}
			if err := c.Options.Set(k, v); err != nil {
				return nil, err
			}
		}
	}
	var err error
	c.Target, err = target(arch)
	return c, err
}

type outcome struct {
	section string // want.tir, unchanged or error
	text    string
	remarks string
}

// recorder collects remarks.
type recorder struct{ remarks []string }

func (r *recorder) Before(*pipeline.Event) {}

func (r *recorder) After(e *pipeline.Event) {
	for _, m := range e.Remarks {
		r.remarks = append(r.remarks, strings.TrimPrefix(m.Span.String()+": "+m.Text, "-: "))
	}
}

// run runs the passes and checks what every pass must keep.
func run(t *testing.T, c *pipeline.Context, passes []*pipeline.Pass, comment, input string) outcome {
	t.Helper()
	m, err := script.ParseString("input.tir", input)
	if err != nil {
		t.Fatalf("input.tir: %v", err)
	}
	if err := ir.Verify(m); err != nil {
		t.Fatalf("input.tir is not well formed: %v", err)
	}
	before := script.Print(m)
	rec := &recorder{}
	c.Instruments = []pipeline.Instrument{rec}
	out, err := chain(c, passes, m)
	if script.Print(m) != before {
		t.Errorf("the pass changed its input")
	}
	remarks := strings.Join(rec.remarks, "\n")
	if remarks != "" {
		remarks += "\n"
	}
	if err != nil {
		var pe *pipeline.Error
		if !errors.As(err, &pe) {
			t.Errorf("the error is no pipeline.Error: %v", err)
		} else if !pe.Span.IsValid() {
			t.Errorf("the error has no position: %v", err)
		}
		return outcome{"error", err.Error() + "\n", remarks}
	}
	text := script.Print(out)
	if text == before {
		if out != m {
			t.Errorf("nothing changed, but the pass returned another module")
		}
		return outcome{"unchanged", "", remarks}
	}
	checkResult(t, c, passes, comment, m, out, text)
	return outcome{"want.tir", text, remarks}
}

func checkResult(t *testing.T, c *pipeline.Context, passes []*pipeline.Pass, comment string, m, out *ir.IRModule, text string) {
	t.Helper()
	if again, err := script.ParseString("want.tir", text); err != nil {
		t.Errorf("the result does not parse back: %v\n%s", err, text)
	} else if d := ir.Difference(again, out, ir.EqualOptions{}); d != "" {
		t.Errorf("the result parses back as something else: %s\n%s", d, text)
	}
	for _, f := range out.Funcs {
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			if _, seq := s.(*ir.SeqStmt); !seq && !s.Origin().IsValid() {
				t.Errorf("a %T of the result has no origin", s)
			}
			return true
		})
	}
	if !strings.Contains(comment, "\nresults: differ") {
		sameResults(t, m, out)
	}
	second, err := chain(c, passes, m)
	if err != nil {
		t.Errorf("the second run fails: %v", err)
	} else if got := script.Print(second); got != text {
		t.Errorf("a second run gives another result:\n%s", got)
	}
}

func chain(c *pipeline.Context, passes []*pipeline.Pass, m *ir.IRModule) (*ir.IRModule, error) {
	for _, p := range passes {
		out, err := c.Run(p, m)
		if err != nil {
			return nil, err
		}
		m = out
	}
	return m, nil
}

// target is the target of an architecture, with the features passes ask about
// in this package's cases.
func target(arch string) (*pipeline.Target, error) {
	t := &pipeline.Target{Kind: "cuda", Arch: arch, MaxThreads: 1024, WarpSize: 32}
	t.Features = pipeline.Features{AsyncCopy: true, LdMatrix: true, BF16: true, SharedPerBlock: 166912, SharedStatic: 49152}
	switch arch {
	case "sm_80":
	case "sm_86":
		t.Features.SharedPerBlock = 101376
	case "sm_89":
		t.Features.FP8, t.Features.SharedPerBlock = true, 101376
	case "sm_90a":
		t.Features.FP8, t.Features.StMatrix, t.Features.TMA, t.Features.WGMMA = true, true, true, true
		t.Features.SharedPerBlock = 232448
	default:
		return nil, fmt.Errorf("unknown target %q", arch)
	}
	return t, nil
}
