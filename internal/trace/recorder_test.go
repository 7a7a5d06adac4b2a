package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// recordExample drives a recorder through every kind of record.
func recordExample(r *Recorder) *Run {
	a, b, c := module(6, 2, 1), module(6, 2, 2), module(6, 3, 3)
	run := func(p Pass, before, after Text, remarks ...Remark) {
		r.End(r.Begin(p, before), after, nil, remarks)
	}
	run(Pass{Name: "Check", Doc: "looks only"}, Text{Text: a}, Text{Text: a})
	run(Pass{Name: "BindTarget", Phase: "pipeline_cuda", Stage: "device"},
		Text{Text: a, Origins: []int32{1, 1, 2, 0, 3, 3}}, Text{Text: b, Origins: []int32{1, 1, 2, 0, 3, 4}},
		Remark{Text: "bound sm_80", File: "k.tir", Line: 3, Col: 7})
	outer := r.Begin(Pass{Name: "LowerTileOp", Phase: "pipeline_cuda", Stage: "tile"}, Text{Text: b})
	run(Pass{Name: "LetInline", Phase: "pipeline_cuda"}, Text{Text: "let"}, Text{Text: "inlined"})
	run(Pass{Name: "Simplify", Phase: "pipeline_cuda"}, Text{Text: "inlined"}, Text{Text: "inlined"})
	r.End(outer, Text{Text: c}, nil, nil)
	r.Skip(Pass{Name: "LowerHopperIntrin", Phase: "pipeline_cuda"}, "the target has no TMA")
	cg := r.BeginCodegen(Pass{Name: "codegen"}, Text{Text: c})
	run(Pass{Name: "LowerIntrin", Phase: "pipeline_cuda"}, Text{Text: c}, Text{Text: c})
	r.End(cg, Text{Text: "extern \"C\" __global__ void k() {}\n"}, nil, nil)
	run(Pass{Name: "After"}, Text{Text: c}, Text{Text: c})
	return r.Finish(Ending{Generated: []GeneratedFile{{Kind: "codegen", Path: "codegen.cpp"}}, Device: "GPU"})
}

func TestRecorderNestsNumbersAndTimes(t *testing.T) {
	run := recordExample(NewRecorder(testConfig(t, "")))
	var got []string
	for _, r := range run.Records {
		got = append(got, fmt.Sprintf("%d %s/%s depth=%d parent=%d %s changed=%v +%d -%d",
			r.Index, r.Phase, r.Name, r.Depth, r.ParentIndex, r.Status, r.Changed, r.AddLines, r.DelLines))
	}
	want := []string{
		"0 unscoped/Check depth=0 parent=-1 completed changed=false +0 -0",
		"1 pipeline_cuda/BindTarget depth=0 parent=-1 completed changed=true +1 -1",
		"2 pipeline_cuda/LowerTileOp depth=0 parent=-1 completed changed=true +2 -2",
		"3 pipeline_cuda/LetInline depth=1 parent=2 completed changed=true +1 -1",
		"4 pipeline_cuda/Simplify depth=1 parent=2 completed changed=false +0 -0",
		"5 pipeline_cuda/LowerHopperIntrin depth=0 parent=-1 skipped changed=false +0 -0",
		"6 codegen/LowerIntrin depth=0 parent=-1 completed changed=false +0 -0",
		"7 codegen/codegen depth=0 parent=-1 codegen changed=true +1 -6",
		"8 unscoped/After depth=0 parent=-1 completed changed=false +0 -0",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// The clock steps 1 ms at each reading. A pass with nothing inside sees one step, one with n inside
	// n+1 of its own and theirs: what the recorder spends on nested passes is in nobody's time.
	for _, r := range run.Records {
		inside := map[string]time.Duration{"LowerTileOp": 2, "codegen": 1}[r.Name]
		want := (2*inside + 1) * time.Millisecond
		if r.Status == Skipped {
			want = 0
		}
		if r.Duration != want {
			t.Errorf("%s took %v, want %v", r.Name, r.Duration, want)
		}
	}
	for _, r := range run.Records {
		inside := time.Duration(0)
		for _, c := range run.Records {
			if c.ParentIndex == r.Index || r.Status == Codegen && c.Name == "LowerIntrin" {
				inside += c.Duration
			}
		}
		if r.Status == Skipped {
			continue
		}
		if r.SelfDuration != r.Duration-inside || r.SelfDuration <= 0 {
			t.Errorf("%s: inclusive %v, self %v, inside %v", r.Name, r.Duration, r.SelfDuration, inside)
		}
	}
	total := time.Duration(0)
	for _, r := range run.Records {
		total += r.SelfDuration
	}
	if got := TotalDuration(run.Records); got != total {
		t.Errorf("total %v, sum of self times %v", got, total)
	}
	if n := Occurrence(run.Records, 4); n != 0 {
		t.Errorf("a nested record has occurrence %d", n)
	}
}

func TestRecorderObserversSeeRecordsAsTheyFinish(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	var events []string
	var r *Recorder
	cfg.Observers = []Observer{{
		Began: func(rec LowerRecord) { events = append(events, "began "+rec.Name) },
		Ended: func(rec LowerRecord) {
			// The record is readable from the directory by the time it is announced.
			run, err := Open(r.Dir(), OpenOptions{})
			if err != nil || run.Record(rec.Index) == nil || run.Record(rec.Index).AfterText != rec.AfterText {
				t.Errorf("%s announced before it was written: %v", rec.Name, err)
			}
			events = append(events, "ended "+rec.Name)
		},
		Done: func(run *Run) { events = append(events, fmt.Sprintf("done %d", len(run.Records))) },
	}}
	r = NewRecorder(cfg)
	recordExample(r)
	want := "began Check,ended Check,began BindTarget,ended BindTarget,began LowerTileOp,began LetInline," +
		"ended LetInline,began Simplify,ended Simplify,ended LowerTileOp,ended LowerHopperIntrin,began codegen," +
		"began LowerIntrin,ended LowerIntrin,ended codegen,began After,ended After,done 9"
	if got := strings.Join(events, ","); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

var cmpRun = cmp.Options{
	cmpopts.IgnoreFields(Run{}, "Dir", "Started"),
	cmpopts.EquateEmpty(),
}

func TestRunReadsBackFromTraceAndJournal(t *testing.T) {
	dir := t.TempDir()
	r := NewRecorder(testConfig(t, dir))
	want := recordExample(r)
	if r.Failed() {
		t.Fatal(r.Err())
	}
	check := func(arg string) {
		t.Helper()
		got, err := Open(arg, OpenOptions{TraceDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpRun); d != "" {
			t.Errorf("%s: %s", arg, d)
		}
		if !got.Started.Equal(want.Started) {
			t.Errorf("%s: started %v, want %v", arg, got.Started, want.Started)
		}
	}
	check(r.Dir())
	check(filepath.Join(r.Dir(), traceFile))
	check(filepath.Join(r.Dir(), journalFile))
	if err := os.Remove(filepath.Join(r.Dir(), traceFile)); err != nil {
		t.Fatal(err)
	}
	check(r.Dir())
}

func TestRunDirectoryLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	r := NewRecorder(testConfig(t, dir))
	recordExample(r)
	const id = "run_20260102_030405_680901_4242_00000100"
	if got := filepath.Base(r.Dir()); got != id {
		t.Errorf("run directory %s, want %s", got, id)
	}
	want := []string{
		".gitignore",
		"k/.run_records/owner.json",
	}
	for _, f := range []string{
		"journal.ndjson", "trace.json", "timing.json",
		"unscoped/00_Check_before.tir", "unscoped/00_Check_after.tir",
		"pipeline_cuda/01_BindTarget_before.tir", "pipeline_cuda/01_BindTarget_after.tir",
		"pipeline_cuda/02_LowerTileOp_before.tir", "pipeline_cuda/02_LowerTileOp_after.tir",
		"pipeline_cuda/03_LetInline_before.tir", "pipeline_cuda/03_LetInline_after.tir",
		"pipeline_cuda/04_Simplify_before.tir", "pipeline_cuda/04_Simplify_after.tir",
		"codegen/06_LowerIntrin_before.tir", "codegen/06_LowerIntrin_after.tir",
		"codegen/07_codegen_before.tir", "codegen/07_codegen_after.cpp",
		"unscoped/08_After_before.tir", "unscoped/08_After_after.tir",
	} {
		want = append(want, "k/.run_records/"+id+"/"+f)
	}
	sort.Strings(want)
	got := tree(t, dir)
	sort.Strings(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := mustRead(t, filepath.Join(dir, ".gitignore")); got != "*\n" {
		t.Errorf(".gitignore is %q", got)
	}
	run, err := Open(r.Dir(), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Every snapshot is its record's text and read-only; a text that repeats is one file.
	inodes := map[string]os.FileInfo{}
	for i := range run.Records {
		rec := &run.Records[i]
		for _, after := range []bool{false, true} {
			path := r.SnapshotPath(rec.Index, after)
			if rec.Status == Skipped {
				if path != "" {
					t.Errorf("a skipped pass has a snapshot %s", path)
				}
				continue
			}
			text := rec.BeforeText
			if after {
				text = rec.AfterText
			}
			if got := mustRead(t, path); got != text {
				t.Errorf("%s holds %q, want %q", path, got, text)
			}
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if st.Mode().Perm()&0o222 != 0 {
				t.Errorf("%s is writable: %v", path, st.Mode())
			}
			if first, ok := inodes[text]; ok && !os.SameFile(first, st) {
				t.Errorf("%s is a second copy of its text", path)
			}
			inodes[text] = st
		}
	}
}

func TestSnapshotEditIsNoticed(t *testing.T) {
	r := NewRecorder(testConfig(t, t.TempDir()))
	recordExample(r)
	run, err := Open(r.Dir(), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rec := run.Record(2)
	text, edited, err := ReadSnapshot(run, rec, false)
	if err != nil || edited || text != rec.BeforeText {
		t.Fatalf("untouched: edited=%v err=%v", edited, err)
	}
	path := r.SnapshotPath(2, false)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, path, "edited")
	text, edited, err = ReadSnapshot(run, rec, false)
	if err != nil || !edited || text != "edited" {
		t.Errorf("edited snapshot: %q edited=%v err=%v", text, edited, err)
	}
	if _, _, err := ReadSnapshot(run, run.Record(5), true); err == nil {
		t.Error("a skipped pass has a snapshot")
	}
	if _, _, err := ReadSnapshot(run, run.Record(7), true); err != nil {
		t.Error(err)
	}
}

// Two runs of one input: nothing but the run's own name and times differs.
func TestTwoRunsDifferInTimesOnly(t *testing.T) {
	dir := t.TempDir()
	files := func(seed byte, step time.Duration) map[string]string {
		cfg := testConfig(t, dir)
		cfg.Rand, cfg.Clock, cfg.PID = seeded(seed), fakeClock(step), int(seed)
		cfg.Manifest.InvocationID = fmt.Sprint(seed)
		r := NewRecorder(cfg)
		recordExample(r)
		m := map[string]string{}
		for _, f := range tree(t, r.Dir()) {
			m[f] = mustRead(t, filepath.Join(r.Dir(), f))
		}
		return m
	}
	a, b := files(1, time.Millisecond), files(2, 3*time.Millisecond)
	var differ []string
	for f := range a {
		if a[f] != b[f] {
			differ = append(differ, f)
		}
	}
	sort.Strings(differ)
	if len(a) != len(b) || !reflect.DeepEqual(differ, []string{journalFile, timingFile}) {
		t.Errorf("files that differ: %v (%d and %d files)", differ, len(a), len(b))
	}
}

func TestFailedPassKeepsItsIR(t *testing.T) {
	for _, where := range []string{"pass", "codegen", "inside codegen", "nested"} {
		t.Run(where, func(t *testing.T) {
			r := NewRecorder(testConfig(t, t.TempDir()))
			r.End(r.Begin(Pass{Name: "First", Phase: "p"}, Text{Text: "a"}), Text{Text: "b"}, nil, nil)
			boom := errors.New("check failed: a < b\n  at k.tir:3")
			var h Handle
			want := "LayoutInference"
			switch where {
			case "pass":
				h = r.Begin(Pass{Name: "LayoutInference", Phase: "p"}, Text{Text: "b"})
			case "codegen":
				h = r.BeginCodegen(Pass{Name: "codegen"}, Text{Text: "b"})
				want = "codegen"
			case "inside codegen":
				h = r.BeginCodegen(Pass{Name: "codegen"}, Text{Text: "b"})
				r.Begin(Pass{Name: "LowerIntrin", Phase: "p"}, Text{Text: "b"})
				want = "LowerIntrin"
			case "nested": // a panic in an inner pass is caught outside the outer one
				h = r.Begin(Pass{Name: "Outer", Phase: "p"}, Text{Text: "b"})
				r.Begin(Pass{Name: "Inner", Phase: "p"}, Text{Text: "b"})
				want = "Outer"
			}
			r.End(h, Text{Text: "not looked at"}, boom, nil)
			// After a failed code generator the phase is what it was before.
			if rec := r.End(r.Begin(Pass{Name: "Late", Phase: "p"}, Text{Text: "b"}), Text{Text: "b"}, nil, nil); rec.Phase != "p" || rec.Depth != 0 {
				t.Errorf("after the failure: phase %s depth %d", rec.Phase, rec.Depth)
			}
			r.Finish(Ending{})
			run, err := Open(r.Dir(), OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if run.State != StateFailed {
				t.Errorf("state %s", run.State)
			}
			f := run.Failed()
			if f == nil || f.Name != want || f.ErrorMsg != boom.Error() || f.BeforeText != "b" || f.HasAfter {
				t.Fatalf("failed record: %+v", f)
			}
			if run.Records[0].AfterText != "b" || run.Records[0].Status != Completed {
				t.Errorf("the record before: %+v", run.Records[0])
			}
			if got := mustRead(t, r.SnapshotPath(f.Index, false)); got != "b" {
				t.Errorf("snapshot before: %q", got)
			}
			for i := 1; i < len(run.Records); i++ {
				if run.Records[i].Index <= run.Records[i-1].Index {
					t.Errorf("indices %d, %d", run.Records[i-1].Index, run.Records[i].Index)
				}
			}
			if j, err := readJournal(filepath.Join(r.Dir(), journalFile)); err != nil || len(j.Unfinished) != 0 {
				t.Errorf("journal: unfinished %v, %v", j.Unfinished, err)
			}
		})
	}
}

// A signal handler ends the run while a pass is at work: what had finished is there, what is open is
// named, and what the pass still does leaves no trace.
func TestInterruptedRun(t *testing.T) {
	r := NewRecorder(testConfig(t, t.TempDir()))
	r.End(r.Begin(Pass{Name: "First"}, Text{Text: "a"}), Text{Text: "b"}, nil, nil)
	outer := r.Begin(Pass{Name: "Outer"}, Text{Text: "b"})
	inner := r.Begin(Pass{Name: "Inner"}, Text{Text: "b"})
	r.Finish(Ending{State: StateInterrupted, Error: "interrupt"})
	r.End(inner, Text{Text: "c"}, nil, nil)
	r.End(outer, Text{Text: "c"}, nil, nil)
	r.End(r.Begin(Pass{Name: "Late"}, Text{Text: "b"}), Text{}, nil, nil)
	r.Skip(Pass{Name: "Never"}, "")
	for _, path := range []string{r.Dir(), filepath.Join(r.Dir(), journalFile)} {
		run, err := Open(path, OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if run.State != StateInterrupted || run.Error != "interrupt" || len(run.Records) != 1 {
			t.Errorf("%s: %s %q %d records", path, run.State, run.Error, len(run.Records))
		}
		if len(run.Unfinished) != 2 || run.Unfinished[0].Name != "Outer" || run.Unfinished[1].Name != "Inner" || run.Unfinished[1].BeforeText != "b" {
			t.Errorf("%s: unfinished %+v", path, run.Unfinished)
		}
	}
}

// A second pipeline over one input: a new run directory, prefixed phases, indices that go on, and
// the first run's records in the second's trace.
func TestSecondPipelineOfOneInvocation(t *testing.T) {
	dir := t.TempDir()
	first := NewRecorder(testConfig(t, dir))
	first.End(first.Begin(Pass{Name: "A", Phase: "pipeline_cuda"}, Text{Text: "x"}), Text{Text: "y"}, nil, nil)
	first.Finish(Ending{})
	cfg := testConfig(t, dir)
	cfg.Rand, cfg.Previous = seeded(9), first
	second := NewRecorder(cfg)
	second.End(second.Begin(Pass{Name: "A", Phase: "pipeline_cuda"}, Text{Text: "x"}), Text{Text: "z"}, nil, nil)
	second.End(second.BeginCodegen(Pass{Name: "codegen"}, Text{Text: "z"}), Text{Text: "//"}, nil, nil)
	second.End(second.Begin(Pass{Name: "B"}, Text{Text: "z"}), Text{Text: "z"}, nil, nil)
	second.Finish(Ending{})
	if first.Dir() == second.Dir() || first.ScriptDir() != second.ScriptDir() {
		t.Errorf("directories %s and %s", first.Dir(), second.Dir())
	}
	run, err := Open(second.Dir(), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range run.Records {
		got = append(got, fmt.Sprintf("%d %s/%s", r.Index, r.Phase, r.Name))
	}
	if s := strings.Join(got, ", "); s != "0 pipeline_cuda/A, 1 run2_pipeline_cuda/A, 2 run2_codegen/codegen, 3 run2_unscoped/B" {
		t.Error(s)
	}
	if run.Records[2].Status != Codegen || mustRead(t, second.SnapshotPath(2, true)) != "//" {
		t.Errorf("code generator's record: %+v", run.Records[2])
	}
	if one, err := Open(first.Dir(), OpenOptions{}); err != nil || len(one.Records) != 1 {
		t.Errorf("the first run changed: %v %v", one, err)
	}
}

func TestNothingIsWrittenBeforeTheFirstRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	r := NewRecorder(testConfig(t, dir))
	r.Finish(Ending{State: StateFailed, Error: "parse error"})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the trace directory exists: %v", err)
	}
	if r.Dir() != "" || r.ScriptDir() != "" {
		t.Errorf("directories %q %q", r.Dir(), r.ScriptDir())
	}
}

// Twenty recorders at once in one trace directory, for two inputs: nothing mixes.
func TestConcurrentRunsDoNotMix(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	var wg sync.WaitGroup
	recs := make([]*Recorder, 20)
	for i := range recs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			cfg := testConfig(t, dir)
			cfg.Rand = seeded(7) // the same ids for all: names must still come out distinct
			cfg.InputKey = fmt.Sprintf("k%d.tir", i%2)
			r := NewRecorder(cfg)
			recs[i] = r
			for p := range 20 {
				h := r.Begin(Pass{Name: fmt.Sprintf("Pass%d", p), Phase: fmt.Sprintf("p%d", i)}, Text{Text: module(10, p, i)})
				r.End(h, Text{Text: module(10, p+1, i)}, nil, nil)
			}
			r.Finish(Ending{})
		}()
	}
	wg.Wait()
	dirs := map[string]bool{}
	for i, r := range recs {
		dirs[r.Dir()] = true
		run, err := Open(r.Dir(), OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Records) != 20 {
			t.Errorf("run %d has %d records", i, len(run.Records))
		}
		for p, rec := range run.Records {
			if rec.Index != p || rec.Phase != fmt.Sprintf("p%d", i) || rec.AfterText != module(10, p+1, i) {
				t.Errorf("run %d record %d is another's: %d %s", i, p, rec.Index, rec.Phase)
			}
		}
		if r.ScriptDir() == recs[1-i%2].ScriptDir() {
			t.Errorf("two inputs share %s", r.ScriptDir())
		}
	}
	if len(dirs) != len(recs) {
		t.Errorf("%d directories for %d runs", len(dirs), len(recs))
	}
}

// A thousand records: numbers widen, names sort as numbers do, and everything reads back.
func TestThousandRecords(t *testing.T) {
	r := NewRecorder(testConfig(t, t.TempDir()))
	const n = 1003
	for i := range n {
		h := r.Begin(Pass{Name: fmt.Sprintf("P%d", n-i), Phase: "p"}, Text{Text: module(30, i%30, i/5)})
		r.End(h, Text{Text: module(30, (i+1)%30, (i+1)/5)}, nil, nil)
	}
	r.Finish(Ending{})
	entries, err := os.ReadDir(filepath.Join(r.Dir(), "p")) // sorted by name
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2*n {
		t.Errorf("%d files", len(entries))
	}
	last := -1
	for _, e := range entries {
		i, _, _, ok := parseSnapshotName(e.Name())
		if !ok || i < last || !strings.HasPrefix(e.Name(), fmt.Sprintf("%04d_", i)) {
			t.Fatalf("%s sorts after number %d", e.Name(), last)
		}
		last = i
	}
	run, err := Open(r.Dir(), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		rec := run.Record(i)
		if rec == nil || rec.BeforeText != module(30, i%30, i/5) || mustRead(t, r.SnapshotPath(i, false)) != rec.BeforeText {
			t.Fatalf("record %d", i)
		}
	}
	var doc map[string]json.RawMessage
	data := mustRead(t, filepath.Join(r.Dir(), traceFile))
	if err := json.Unmarshal([]byte(data), &doc); err != nil {
		t.Fatal(err)
	}
	if len(data) > 1<<20 {
		t.Errorf("trace.json has %d bytes", len(data))
	}
}

func TestGeneratedFilesAreRelativeToTheScript(t *testing.T) {
	r := NewRecorder(testConfig(t, t.TempDir()))
	r.Skip(Pass{Name: "P"}, "")
	outside := filepath.Join(t.TempDir(), "x.cpp")
	run := r.Finish(Ending{Generated: []GeneratedFile{
		{Kind: "codegen", Path: filepath.Join(r.ScriptDir(), "sub", "codegen.cpp")}, {Kind: "codegen", Path: outside},
	}})
	if run.Generated[0].Path != "sub/codegen.cpp" || run.Generated[1].Path != outside {
		t.Errorf("%+v", run.Generated)
	}
}
