package trace

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// killChildEnv makes the test binary record passes without end, printing each finished index.
const killChildEnv = "TRACE_KILL_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killChildEnv); dir != "" {
		killChild(dir)
		return
	}
	os.Exit(m.Run())
}

// killText is the text after record i, so that the parent can tell what it must find.
func killText(i int) string { return module(40, i%40, i/3) }

func killChild(dir string) {
	out := bufio.NewWriterSize(os.Stdout, 1)
	r := NewRecorder(Config{
		Manifest: Manifest{InputName: "k.tir", Source: "source\n"},
		TraceDir: dir, Stem: "k", InputKey: "k", Clock: time.Now, PID: os.Getpid(), Rand: rand.Reader,
		Warn: func(s string) { fmt.Fprintln(os.Stderr, s); os.Exit(3) },
	})
	for i := 0; ; i++ {
		h := r.Begin(Pass{Name: "P", Phase: "p"}, Text{Text: killText(i)})
		r.End(h, Text{Text: killText(i + 1)}, nil, nil)
		fmt.Fprintln(out, i)
		out.Flush()
	}
}

// One hundred processes are killed at random moments; each record that a process said it finished
// must be readable, whole, afterwards.
func TestKilledRunsStayReadable(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const runs = 100
	rng := mrand.New(mrand.NewPCG(1, 2))
	base := t.TempDir()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for n := range runs {
		delay := time.Duration(rng.IntN(40_000)) * time.Microsecond
		slots <- struct{}{}
		wg.Add(1)
		go func() {
			defer func() { <-slots; wg.Done() }()
			dir := filepath.Join(base, strconv.Itoa(n))
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), killChildEnv+"="+dir)
			cmd.Stderr = os.Stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Error(err)
				return
			}
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			in := bufio.NewReader(stdout)
			first, err := in.ReadString('\n') // the run exists
			if err != nil {
				t.Errorf("run %d: no first record: %v", n, err)
			}
			time.AfterFunc(delay, func() { cmd.Process.Kill() })
			rest, _ := io.ReadAll(in)
			_ = cmd.Wait()
			said := strings.Fields(first + string(rest))
			checkKilled(t, dir, len(said))
		}()
	}
	wg.Wait()
}

func checkKilled(t *testing.T, dir string, said int) {
	run, err := Open("k", OpenOptions{TraceDir: dir})
	if err != nil {
		t.Error(err)
		return
	}
	if run.State != StateRunning || run.Source != "source\n" || run.InputName != "k.tir" {
		t.Errorf("state %s, source %q", run.State, run.Source)
	}
	// The last line said may be cut off itself, and a record may be written and not yet said.
	if len(run.Records) < said-1 || len(run.Records) > said+1 {
		t.Errorf("%d records, the process said %d", len(run.Records), said)
	}
	for i, rec := range run.Records {
		if rec.Index != i || rec.BeforeText != killText(i) || rec.AfterText != killText(i+1) || rec.Status != Completed {
			t.Errorf("%s: record %d is damaged", dir, i)
			return
		}
	}
	if len(run.Unfinished) > 1 {
		t.Errorf("%d passes open", len(run.Unfinished))
	}
	// Snapshots of all but the record that the kill met are there as well; a kill while names are
	// being widened leaves both widths.
	for i := 0; i+1 < len(run.Records); i++ {
		text, edited, err := ReadSnapshot(run, &run.Records[i], true)
		if err != nil || edited {
			t.Errorf("snapshot %d: %q %v", i, text, err)
			return
		}
	}
}

// However the journal is cut, the records before the cut are read and nothing panics.
func TestJournalCutAnywhere(t *testing.T) {
	r := NewRecorder(testConfig(t, t.TempDir()))
	want := recordExample(r)
	data := mustRead(t, filepath.Join(r.Dir(), journalFile))
	dir := t.TempDir()
	path := filepath.Join(dir, journalFile)
	whole := strings.SplitAfter(data, "\n")
	for cut := 0; cut <= len(data); cut += 7 {
		mustWrite(t, path, data[:cut])
		run, err := Open(dir, OpenOptions{})
		lines := strings.Count(data[:cut], "\n")
		if lines == 0 {
			if err == nil {
				t.Fatalf("cut at %d: no error without a whole line", cut)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		records := 0
		for _, l := range whole[:lines] {
			if strings.HasPrefix(l, `{"event":"record"`) {
				records++
			}
		}
		if len(run.Records) != records {
			t.Fatalf("cut at %d: %d records, want %d", cut, len(run.Records), records)
		}
		for i := range run.Records {
			if w := want.Record(run.Records[i].Index); w.AfterText != run.Records[i].AfterText {
				t.Fatalf("cut at %d: record %d differs", cut, i)
			}
		}
		if cutOff := !strings.HasSuffix(data[:cut], "\n"); cutOff != (len(run.Notes) == 1) {
			t.Fatalf("cut at %d: notes %q", cut, run.Notes)
		}
	}
}

// A damaged trace.json, one written by a later version, and numbers that lead nowhere are errors or
// give way to the journal; none panics or takes memory without bound.
func TestDamagedTraces(t *testing.T) {
	r := NewRecorder(testConfig(t, t.TempDir()))
	recordExample(r)
	good := mustRead(t, filepath.Join(r.Dir(), traceFile))
	for _, c := range []struct{ name, from, to, want string }{
		{"later version", `{"schema_version":1`, `{"schema_version":2`, "schema version 2"},
		{"no version", `{"schema_version":1`, `{"schema":1`, "not a trace"},
		{"cut", good[len(good)/2:], "", "unexpected end"},
		{"line out of range", `"lines":[0,`, `"lines":[900000,`, "line 900000"},
		{"span out of range", `"lines":[0,-`, `"lines":[0,-99999999999`, "leaves the line table"},
		{"huge span", `"lines":[0,-`, `"lines":[-9223372036854775808,-`, "leaves the line table"},
		{"text out of range", `"before":1`, `"before":77`, "text 77"},
		{"negative text", `"before":1`, `"before":-2`, "text -2"},
		{"origins out of range", `"before_origins":0`, `"before_origins":5`, "origins 5"},
		{"origins bomb", "\"origins\":[\n[1,2,", "\"origins\":[\n[1,99999999999,", "bad entry"},
		{"parent after its child", `"parent_index":2`, `"parent_index":3`, "impossible"},
		{"negative depth", `"depth":1`, `"depth":-1`, "impossible"},
		{"not JSON", good, "\x00\x01", "invalid character"},
		{"array", good, "[]", "cannot unmarshal"},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		if bad == good {
			t.Errorf("%s: nothing replaced", c.name)
			continue
		}
		dir := t.TempDir()
		mustWrite(t, filepath.Join(dir, traceFile), bad)
		_, err := Open(dir, OpenOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		mustWrite(t, filepath.Join(dir, journalFile), mustRead(t, filepath.Join(r.Dir(), journalFile)))
		run, err := Open(dir, OpenOptions{})
		if err != nil || len(run.Records) != 9 || len(run.Notes) != 1 {
			t.Errorf("%s: the journal does not stand in: %v", c.name, err)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	dir := f.TempDir()
	cfg := Config{TraceDir: dir, Stem: "k", Clock: fakeClock(1), Rand: seeded(1), Manifest: Manifest{Source: "s"}}
	r := NewRecorder(cfg)
	recordExample(r)
	for _, name := range []string{traceFile, journalFile} {
		data, err := os.ReadFile(filepath.Join(r.Dir(), name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		for _, name := range []string{traceFile, journalFile} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			run, err := Open(path, OpenOptions{})
			if (run == nil) == (err == nil) {
				t.Fatalf("run %v, error %v", run, err)
			}
		}
	})
}
