package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"lowertrace/internal/trace"
)

func followText(f *Followed) string {
	var b bytes.Buffer
	NewTerminal(&b, TerminalOptions{}).Follow(f)
	return b.String()
}

// originsRun is a source line lowered to two, vectorized back to one, and written as CUDA.
func originsRun() *trace.Run {
	ir0 := "def k(A, B):\n    B[0] = A[0]\n    C[0] = A[0]\n"
	ir1 := "def k(A, B):\n    for i in range(4):\n        B[i] = A[i]\n    C[0] = A[0]\n"
	cu := "__global__ void k() {\n  B4 = A4;\n  C = A;\n}\n"
	run := &trace.Run{Records: []trace.LowerRecord{
		{Index: 0, Name: "Idle", Phase: "p", Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true,
			BeforeText: ir0, AfterText: ir0, BeforeOrigins: []int32{1, 2, 3}, AfterOrigins: []int32{1, 2, 3}},
		{Index: 1, Name: "Lower", Phase: "p", Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true, Changed: true,
			BeforeText: ir0, AfterText: ir1, BeforeOrigins: []int32{1, 2, 3}, AfterOrigins: []int32{1, 2, 2, 3}},
		{Index: 2, Name: "codegen", Phase: "codegen", Status: trace.Codegen, ParentIndex: -1, HasBefore: true, HasAfter: true, Changed: true,
			BeforeText: ir1, AfterText: cu, BeforeOrigins: []int32{1, 2, 2, 3}, AfterOrigins: []int32{1, 2, 3, 0}},
	}}
	run.InputName, run.Source = "k.py", "def k(A, B):\n  copy(A, B)\n  copy(A, C)\n"
	return run
}

func TestFollowLineByOrigins(t *testing.T) {
	f, err := FollowLine(originsRun(), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := `k.py:2
      source 2    copy(A, B)
      input  in the input
         2      B[0] = A[0]
      1 pass without a change to it
   1  Lower  changes
         2      for i in range(4):
         3          B[i] = A[i]
   2  codegen  in the CUDA
         2    B4 = A4;
`
	if got := followText(f); got != want {
		t.Errorf("got\n%s", got)
	}
	if _, err := FollowLine(originsRun(), 4); err == nil {
		t.Error("a line beyond the source is taken")
	}
}

func TestFollowLineByText(t *testing.T) {
	run := originsRun()
	for i := range run.Records {
		run.Records[i].BeforeOrigins, run.Records[i].AfterOrigins = nil, nil
	}
	f, err := FollowLine(run, 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Steps) == 0 || f.Steps[0].Approximate || f.Steps[0].Text[0] != "    C[0] = A[0]" {
		t.Fatalf("%+v", f.Steps)
	}
	last := f.Steps[len(f.Steps)-1]
	if last.What != FollowCUDA || !last.Approximate {
		t.Errorf("the last step is %+v", last)
	}
	if !strings.Contains(followText(f), "approximate") {
		t.Error("the text does not say that it is approximate")
	}
}

func TestFollowName(t *testing.T) {
	run := openCorpus(t, "gemm_f16/sm_80")
	f, err := FollowName(run, "a_s_1", true)
	if err != nil {
		t.Fatal(err)
	}
	var what []string
	for _, s := range f.Steps {
		what = append(what, fmt.Sprintf("%d %s", s.Index, s.What))
		for i, l := range s.Text {
			if !strings.Contains(l, "a_s") {
				t.Errorf("step %d, line %d: %s", s.Index, s.Lines[i], l)
			}
		}
	}
	if f.Title != "a_s" || what[0] != "0 in the input" || what[len(what)-1] != "84 in the CUDA" {
		t.Errorf("%s: %v", f.Title, what)
	}
	if _, err := FollowName(run, "a b", true); err == nil {
		t.Error("a name with a blank is taken")
	}
	if f, _ := FollowName(run, "nowhere_to_be_seen", false); len(f.Steps) != 0 {
		t.Errorf("%+v", f.Steps)
	}
}

func TestHasName(t *testing.T) {
	for _, c := range []struct {
		s, name string
		loose   bool
		want    bool
	}{
		{"a_s[i]", "a_s", false, true}, {"a_s_1[i]", "a_s", false, false}, {"a_s_1[i]", "a_s", true, true},
		{"xa_s", "a_s", true, false}, {"a_sx a_s", "a_s", false, true}, {"a_s_x", "a_s", true, false}, {"", "a", true, false},
	} {
		if got := hasName(c.s, c.name, c.loose); got != c.want {
			t.Errorf("%q in %q, loose %v: %v", c.name, c.s, c.loose, got)
		}
	}
}

// setAsideRun is originsRun with the host's half of a module set aside before the code is generated.
func setAsideRun(origins bool) *trace.Run {
	run := originsRun()
	gen := run.Records[2]
	aside := trace.LowerRecord{Index: 2, Name: "Filter", Phase: "p", Status: trace.Completed, ParentIndex: -1, HasBefore: true, HasAfter: true, Changed: true,
		BeforeText: gen.BeforeText, AfterText: "host\n", BeforeOrigins: gen.BeforeOrigins}
	skipped := trace.LowerRecord{Index: 3, Name: "Tidy", Phase: "p", Status: trace.Skipped, ParentIndex: -1}
	gen.Index = 4
	run.Records = append(run.Records[:2], aside, skipped, gen)
	if !origins {
		run.Source = ""
		for i := range run.Records {
			run.Records[i].BeforeOrigins, run.Records[i].AfterOrigins = nil, nil
		}
	}
	return run
}

// A pass whose result is set aside, as the host's half of a module is, is no step on the way.
func TestFollowPassesOverResultsSetAside(t *testing.T) {
	f, err := FollowLine(setAsideRun(true), 2)
	if err != nil {
		t.Fatal(err)
	}
	if s := followText(f); strings.Contains(s, "gone") || strings.Contains(s, "Filter") || !strings.Contains(s, "in the CUDA") {
		t.Errorf("got\n%s", s)
	}
}

// What the split of host and device leaves to the host is not gone.
func TestFollowIntoTheHost(t *testing.T) {
	f, err := FollowName(openCorpus(t, "flash_attention/sm_90a"), "Q", false)
	if err != nil {
		t.Fatal(err)
	}
	if last := f.Steps[len(f.Steps)-1]; last.What != FollowHost || last.Pass != "Filter" || len(last.Lines) > 0 {
		t.Errorf("the last step of Q is %+v", last)
	}
}
