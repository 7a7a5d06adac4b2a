package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// makeRuns records n runs of a script, one second apart, with ids counted from seed, and returns
// their directories, oldest first.
func makeRuns(t *testing.T, traces, stem string, seed byte, n int) []string {
	t.Helper()
	var dirs []string
	for i := range n {
		cfg := testConfig(t, traces)
		cfg.Stem, cfg.InputKey = stem, stem
		at := time.Date(2026, 1, 2, 3, 4, 5+i, int(seed)*1000, time.UTC)
		cfg.Clock = func() time.Time { return at }
		cfg.Rand = strings.NewReader(string([]byte{0xa0 + seed, byte(i), 7, 7}))
		r := NewRecorder(cfg)
		r.End(r.Begin(Pass{Name: fmt.Sprintf("P%d", i)}, Text{Text: "a"}), Text{Text: "b"}, nil, nil)
		if i == 1 {
			r.End(r.Begin(Pass{Name: "Bad"}, Text{Text: "b"}), Text{}, errors.New("no"), nil)
		}
		r.Finish(Ending{})
		dirs = append(dirs, r.Dir())
	}
	return dirs
}

func TestOpenArguments(t *testing.T) {
	traces := filepath.Join(t.TempDir(), "traces")
	k := makeRuns(t, traces, "k", 1, 3)
	other := makeRuns(t, traces, "other", 2, 1)
	mustWrite(t, filepath.Join(k[1], reportFile), "report")
	if err := PublishReport(filepath.Join(traces, "k"), k[1]); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(traces, "k", "codegen.cpp"), "//")
	elsewhere := filepath.Join(t.TempDir(), "copied.json")
	mustWrite(t, elsewhere, mustRead(t, filepath.Join(k[0], traceFile)))
	script := filepath.Join(traces, "k")
	for _, c := range []struct{ arg, want string }{
		{k[0], "P0"},
		{k[0] + string(filepath.Separator), "P0"},
		{filepath.Join(k[0], traceFile), "P0"},
		{filepath.Join(k[0], journalFile), "P0"},
		{elsewhere, "P0"},
		{script, "P2"},
		{filepath.Join(script, recordsDir), "P2"},
		{script + "@1", "P2"},
		{script + "@3", "P0"},
		{filepath.Join(script, reportFile), "P1"},
		{filepath.Join(k[1], reportFile), "P1"},
		{"k", "P2"},
		{"k@2", "P1"},
		{"other", "P0"},
		{filepath.Base(k[1]), "P1"},
		{"run_20260102_030406", "P1"},
		{"20260102_030407", "P2"},
		{"a101", "P1"},
		{"a102", "P2"},
		{"a20", "P0"},
	} {
		run, err := Open(c.arg, OpenOptions{TraceDir: traces})
		if err != nil {
			t.Errorf("%s: %v", c.arg, err)
			continue
		}
		if run.Records[0].Name != c.want {
			t.Errorf("%s opens the run of %s, want %s", c.arg, run.Records[0].Name, c.want)
		}
	}
	_ = other
	for _, c := range []struct{ arg, want string }{
		{"", "empty"},
		{"k@4", "3 runs"},
		{"k@0", "k@0"},
		{"a1", "a1"}, // too short
		{"a10", "beginning of several"},
		{"zzz", "neither a script nor a run"},
		{traces, "several scripts: name one of k, other"},
		{t.TempDir(), "holds no run"},
		{filepath.Join(traces, "k", "codegen.cpp"), "not a trace"},
	} {
		_, err := Open(c.arg, OpenOptions{TraceDir: traces})
		if !errors.Is(err, ErrNoRun) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.arg, err, c.want)
		}
	}
	if _, err := Open("k", OpenOptions{}); !errors.Is(err, ErrNoRun) {
		t.Errorf("a stem without a trace directory: %v", err)
	}
	if _, err := Open("k", OpenOptions{TraceDir: filepath.Join(traces, "absent")}); !errors.Is(err, ErrNoRun) {
		t.Errorf("no trace directory: %v", err)
	}
}

func TestListAndPrune(t *testing.T) {
	traces := filepath.Join(t.TempDir(), "traces")
	k := makeRuns(t, traces, "k", 1, 4)
	makeRuns(t, traces, "other", 2, 1)
	// One run is running in this process, one was killed, one is damaged.
	live := NewRecorder(func() Config {
		c := testConfig(t, traces)
		c.PID, c.Clock = os.Getpid(), func() time.Time { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }
		c.InputKey = "k"
		return c
	}())
	live.Begin(Pass{Name: "Slow"}, Text{Text: "a"})
	mustWrite(t, filepath.Join(traces, "k", recordsDir, "run_20250101_000000_000001_999999999_ab", journalFile), "")
	mustWrite(t, filepath.Join(traces, "k", recordsDir, "not-a-run", "file"), "")
	mustWrite(t, filepath.Join(traces, "k", "codegen.cpp.bak"), "edit")
	mustWrite(t, filepath.Join(k[1], reportFile), "r1")
	mustWrite(t, filepath.Join(k[3], traceFile+".old"), "")

	infos, err := List(traces)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range infos {
		got = append(got, fmt.Sprintf("%s %s %s %d/%d %s", i.Script, i.ID[:22], i.State, i.Changed, i.Records, i.Failed))
	}
	want := []string{
		"k run_20260102_030408_00 complete 1/1 ",
		"k run_20260102_030407_00 complete 1/1 ",
		"k run_20260102_030406_00 failed 1/2 Bad",
		"k run_20260102_030405_00 complete 1/1 ",
		"k run_20250101_000000_00  0/0 ",
		"k run_20250101_000000_00 running 0/0 ",
		"other run_20260102_030405_00 complete 1/1 ",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("list:\n%s", strings.Join(got, "\n"))
	}
	if infos[4].Problem == "" || infos[0].Target != "sm_80" || infos[0].Function != "k" || !infos[0].Started.Equal(time.Date(2026, 1, 2, 3, 4, 8, 1000, time.UTC)) {
		t.Errorf("details: %+v", infos[0])
	}
	if one, err := List(filepath.Join(traces, "k")); err != nil || len(one) != 6 || one[0].Script != "k" {
		t.Errorf("one script: %v %v", one, err)
	}

	if err := PublishReport(filepath.Join(traces, "k"), k[1]); err != nil {
		t.Fatal(err)
	}
	removed, err := Prune(traces, 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(removed) != 2 || removed[0] != k[0] || !strings.HasSuffix(removed[1], "_ab") {
		t.Errorf("removed %v", removed)
	}
	if got := mustRead(t, filepath.Join(traces, "k", reportFile)); got != "r1" {
		t.Errorf("report.html: %q", got)
	}
	// The report's run goes: the link leads to the newest that has one, or nowhere and is removed.
	mustWrite(t, filepath.Join(k[2], reportFile), "r2")
	if err := os.Remove(filepath.Join(k[1], reportFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Prune(filepath.Join(traces, "k"), 2); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, filepath.Join(traces, "k", reportFile)); got != "r2" {
		t.Errorf("report.html after the second pruning: %q", got)
	}
	if _, err := Prune(traces, 0); err != nil {
		t.Fatal(err)
	}
	left := tree(t, filepath.Join(traces, "k"))
	for _, f := range left {
		switch {
		case strings.HasPrefix(f, recordsDir+"/"+filepath.Base(live.Dir())), f == "codegen.cpp.bak",
			f == recordsDir+"/not-a-run/file", f == recordsDir+"/"+ownerFile:
		default:
			t.Errorf("left: %s", f)
		}
	}
	if len(left) < 5 {
		t.Errorf("too much removed: %v", left)
	}
	if _, err := Prune(traces, -1); err == nil {
		t.Error("a negative number is taken")
	}
}
