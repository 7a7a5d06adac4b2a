package render

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

// story is a run written down in an archive: its manifest, its records, and the texts they name.
type story struct {
	path string
	ar   *txtar.Archive
	run  trace.Run
}

type storyRecord struct {
	Index, Depth  int
	Parent        *int
	Name, Phase   string
	Stage, Doc    string
	Before, After string // names of files of the archive
	Status        trace.Status
	Error         string
	Ms            float64
	Remarks       []trace.Remark
}

func readStory(t testing.TB, path string) *story {
	t.Helper()
	s := readArchive(t, path)
	s.run = s.readRun(t, "manifest.json", "records.json")
	return s
}

// readArchive reads an archive without a run of the usual names.
func readArchive(t testing.TB, path string) *story {
	t.Helper()
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &story{path: path, ar: ar}
}

func (s *story) file(name string) (string, bool) {
	for _, f := range s.ar.Files {
		if f.Name == name {
			return string(f.Data), true
		}
	}
	return "", false
}

func (s *story) readRun(t testing.TB, manifest, records string) trace.Run {
	t.Helper()
	var run trace.Run
	text, _ := s.file(manifest)
	if err := json.Unmarshal([]byte(text), &run.Manifest); err != nil {
		t.Fatal(err)
	}
	var recs []storyRecord
	text, _ = s.file(records)
	if err := json.Unmarshal([]byte(text), &recs); err != nil {
		t.Fatal(err)
	}
	for _, sr := range recs {
		r := trace.LowerRecord{
			Index: sr.Index, Depth: sr.Depth, Name: sr.Name, Phase: sr.Phase, Stage: sr.Stage, Doc: sr.Doc,
			Status: sr.Status, ErrorMsg: sr.Error, Remarks: sr.Remarks, ParentIndex: trace.NoParent,
			Duration: time.Duration(sr.Ms * 1e6), SelfDuration: time.Duration(sr.Ms * 1e6),
		}
		if sr.Parent != nil {
			r.ParentIndex = *sr.Parent
		}
		if r.Status == "" {
			r.Status = trace.Completed
		}
		if r.Phase == "" {
			r.Phase = "pipeline_cuda"
		}
		r.BeforeText, r.HasBefore = s.file(sr.Before)
		r.AfterText, r.HasAfter = s.file(sr.After)
		if r.HasAfter {
			r.AddLines, r.DelLines = textdiff.Stat(r.BeforeText, r.AfterText)
			r.Changed = r.BeforeText != r.AfterText
		}
		run.Records = append(run.Records, r)
	}
	return run
}

// check compares an output with the archive's part of that name, escape bytes shown as ␛.
func (s *story) check(t *testing.T, name, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, "\x1b", "␛")
	want, ok := s.file(name)
	if ok && want == got {
		return
	}
	if *update {
		for i := range s.ar.Files {
			if s.ar.Files[i].Name == name {
				s.ar.Files[i].Data = []byte(got)
				ok = true
			}
		}
		if !ok {
			s.ar.Files = append(s.ar.Files, txtar.File{Name: name, Data: []byte(got)})
		}
		if err := os.WriteFile(s.path, txtar.Format(s.ar), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s: %s differs (-update rewrites it):\n%s", s.path, name, textdiff.Unified("want", "got", want, got, 3))
}

func (s *story) show(o TerminalOptions) string {
	var b bytes.Buffer
	term := NewTerminal(&b, o)
	term.Start(s.run.Manifest)
	for _, r := range s.run.Records {
		term.Record(r)
	}
	term.Finish(&s.run, Summary{
		Recording: 3100 * time.Microsecond, Slowest: 3,
		Lines: []SummaryLine{
			{"codegen.cpp", "tmp/lower_trace_dir/softmax/codegen.cpp   PATCHED: your edit of 2 lines is what compiles"},
			{"next", "lowertrace check softmax.py · lowertrace diff softmax@2 softmax"},
		},
	})
	return b.String()
}

func TestTerminalGolden(t *testing.T) {
	paths, _ := filepath.Glob("testdata/terminal/*.txtar")
	if len(paths) == 0 {
		t.Fatal("no cases")
	}
	for _, path := range paths {
		s := readStory(t, path)
		s.check(t, "want.plain", s.show(TerminalOptions{Diff: DiffOptions{Context: 3}}))
		s.check(t, "want.color", s.show(TerminalOptions{Color: true, Width: 100, Diff: DiffOptions{Context: 1}}))
		s.check(t, "want.words-and-host", s.show(TerminalOptions{Diff: DiffOptions{WordDiff: true, Host: true}}))
	}
}

// The renderer's own lines fit the width, at any width; only a diff's lines and words that are
// longer than the line itself may stick out.
func TestTerminalFitsWidth(t *testing.T) {
	s := readStory(t, "testdata/terminal/story.txtar")
	s.run.Records[13].Name = "Short"
	for _, width := range []int{80, 100, 120} {
		for i, line := range strings.Split(s.show(TerminalOptions{Width: width, NoDiffs: true}), "\n") {
			if n := displayWidth(line); n > width {
				t.Errorf("width %d: line %d has %d columns: %s", width, i+1, n, line)
			}
		}
	}
}

func TestTerminalKeepsColorPerStream(t *testing.T) {
	s := readStory(t, "testdata/terminal/story.txtar")
	if out := s.show(TerminalOptions{}); strings.Contains(out, "\x1b") {
		t.Error("an uncolored stream has an escape byte")
	}
	if out := s.show(TerminalOptions{Color: true}); !strings.Contains(out, "\x1b[") {
		t.Error("a colored stream has no escape byte")
	}
}

func TestColorEnabled(t *testing.T) {
	for _, c := range []struct {
		mode ColorMode
		env  string
		tty  bool
		want bool
	}{
		{ColorAuto, "", true, true},
		{ColorAuto, "", false, false},
		{ColorAuto, "NO_COLOR=1", true, false},
		{ColorAuto, "NO_COLOR=1 CLICOLOR_FORCE=1", false, false},
		{ColorAuto, "CLICOLOR_FORCE=1", false, true},
		{ColorAuto, "CLICOLOR_FORCE=0", false, false},
		{ColorAuto, "TERM=dumb", true, false},
		{ColorAuto, "TERM=dumb CLICOLOR_FORCE=1", false, true},
		{ColorAuto, "CLICOLOR=0", true, false},
		{ColorAlways, "NO_COLOR=1 TERM=dumb", false, true},
		{ColorNever, "CLICOLOR_FORCE=1", true, false},
	} {
		env := map[string]string{}
		for _, kv := range strings.Fields(c.env) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		if got := c.mode.Enabled(func(k string) string { return env[k] }, c.tty); got != c.want {
			t.Errorf("%s with %q, terminal %v: %v", c.mode, c.env, c.tty, got)
		}
	}
	if _, err := ParseColorMode("sometimes"); err == nil {
		t.Error("an unknown mode is taken")
	}
	if _, err := ParsePalette("pink"); err == nil {
		t.Error("an unknown palette is taken")
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":       "plain\ttext\n",
		"\x1b[2J":             `\x1b[2J`,
		"a\rb\x00\x7f":        `a\x0db\x00\x7f`,
		"\xff\xc3":            `\xff\xc3`,
		"é\u0085\u202e\u2066": `é\u0085\u202e\u2066`,
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := EscapeLine("a\nb\t"); got != `a\nb\t` {
		t.Errorf("line: %q", got)
	}
}

type failingWriter struct{ n int }

func (w *failingWriter) Write(p []byte) (int, error) {
	w.n++
	return 0, fmt.Errorf("pipe closed")
}

func TestTerminalStopsAtTheFirstError(t *testing.T) {
	s := readStory(t, "testdata/terminal/story.txtar")
	w := &failingWriter{}
	term := NewTerminal(w, TerminalOptions{})
	for _, r := range s.run.Records {
		term.Record(r)
	}
	if term.Err() == nil || w.n != 1 {
		t.Errorf("error %v after %d writes", term.Err(), w.n)
	}
}

func BenchmarkTerminalGEMM(b *testing.B) {
	run := openCorpus(b, "gemm_f16/sm_80")
	for _, color := range []bool{false, true} {
		b.Run(fmt.Sprint("color=", color), func(b *testing.B) {
			for b.Loop() {
				var w countingWriter
				term := NewTerminal(&w, TerminalOptions{Color: color, Diff: DiffOptions{Context: 3}})
				for _, r := range run.Records {
					term.Record(r)
				}
				term.Finish(run, Summary{})
			}
		})
	}
}

func TestTiming(t *testing.T) {
	ms := time.Millisecond
	recs := []trace.LowerRecord{
		{Index: 0, Name: "A", Duration: 10 * ms, SelfDuration: 4 * ms, ParentIndex: trace.NoParent},
		{Index: 1, Name: "B", Duration: 6 * ms, SelfDuration: 5 * ms, Depth: 1, ParentIndex: 0},
		{Index: 2, Name: "A", Duration: 1 * ms, SelfDuration: 1 * ms, Depth: 2, ParentIndex: 1},
	}
	got := fmt.Sprint(Timing(recs))
	want := "[{A 2 10ms 5ms 0.5} {B 1 6ms 5ms 0.5}]"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Hidden host code leaves hunks that patch would still place right: their numbers are the text's.
func TestHostFoldKeepsNumbers(t *testing.T) {
	s := readStory(t, "testdata/terminal/story.txtar")
	before, _ := s.file("e")
	after, _ := s.file("f")
	for context := 0; context < 4; context++ {
		d := textdiff.Compute(before, after, textdiff.Options{})
		v := visibleHunks(d, DiffOptions{Context: context})
		if v.hostAdd == 0 {
			t.Error("no host line was folded")
		}
		for _, h := range v.hunks {
			a, b := h.FromLine-1, h.ToLine-1
			from, to := textdiff.Sides(h)
			if from == 0 {
				a++
			}
			if to == 0 {
				b++
			}
			for _, l := range h.Lines {
				if strings.Contains(l.Content, "assert args") {
					t.Error("host code is shown")
				}
				if textdiff.Sign(l.Kind) != '+' {
					if d.A[a] != l.Content {
						t.Fatalf("context %d: line %d before is not %q", context, a+1, l.Content)
					}
					a++
				}
				if textdiff.Sign(l.Kind) != '-' {
					if d.B[b] != l.Content {
						t.Fatalf("context %d: line %d after is not %q", context, b+1, l.Content)
					}
					b++
				}
			}
		}
	}
}

// No text, whatever it holds, makes the renderer panic or reaches the terminal as a control byte.
func FuzzTerminal(f *testing.F) {
	f.Add("def f(\n    T.func_attr({\"calling_conv\": 1})\n", "@x\n def f(\n\n", 1)
	f.Add("\x1b[2J", "\r\x00\xff", 0)
	f.Fuzz(func(t *testing.T, a, b string, context int) {
		for _, o := range []DiffOptions{{Context: context % 50}, {WordDiff: true, IgnoreRenames: true}, {IgnoreSpace: true, Host: true, MaxLine: 7}} {
			var out bytes.Buffer
			term := NewTerminal(&out, TerminalOptions{Diff: o})
			term.Record(trace.LowerRecord{Name: a, Status: trace.Completed, Changed: true, HasBefore: true, HasAfter: true,
				BeforeText: a, AfterText: b, Remarks: []trace.Remark{{Text: b}}})
			for _, c := range out.Bytes() {
				if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
					t.Fatalf("byte %#x in %q", c, out.String())
				}
			}
		}
	})
}

// The heading's right end is there where the line has room for it, and messages that the caller
// tells elsewhere are left out.
func TestTerminalHeadingAndErrors(t *testing.T) {
	m := trace.Manifest{Function: "softmax", Target: "sm_80", InputName: "softmax.py:9"}
	failed := trace.LowerRecord{Index: 3, Name: "Bad", Status: trace.Failed, ErrorMsg: "no way", ParentIndex: trace.NoParent}
	show := func(o TerminalOptions) string {
		var b strings.Builder
		term := NewTerminal(&b, o)
		term.Start(m)
		term.Record(failed)
		return b.String()
	}
	wide := show(TerminalOptions{Width: 60, Heading: "TL_LOWER_TRACE=both"})
	if want := "softmax · sm_80 · softmax.py:9           TL_LOWER_TRACE=both\n"; !strings.HasPrefix(wide, want) {
		t.Errorf("heading: %q", wide)
	}
	if !strings.Contains(wide, "no way") {
		t.Errorf("no message: %q", wide)
	}
	narrow := show(TerminalOptions{Width: 50, Heading: "TL_LOWER_TRACE=both", NoErrors: true})
	if strings.Contains(narrow, "TL_LOWER_TRACE") || strings.Contains(narrow, "no way") || !strings.Contains(narrow, "FAILED") {
		t.Errorf("narrow: %q", narrow)
	}
}
