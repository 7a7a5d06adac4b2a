package driver

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/trace"
)

// reportTimes is the chunk of a report that depends on the clock.
var reportTimes = regexp.MustCompile(`(?m)^<script type="application/json" class="lt">\{"k":"time",.*$`)

// reportInvocation is the id of the command, which is drawn like the run's.
var reportInvocation = regexp.MustCompile(`"invocation_id":"[0-9a-f]*"`)

// timeless reads a run directory: every file by its name, without what the
// trace's documentation says depends on the clock and the run's name.
func timeless(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	id := filepath.Base(dir)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		switch rel {
		case "journal.ndjson", "timing.json":
			return nil
		}
		b, err := os.ReadFile(path)
		if rel == reportName {
			b = reportTimes.ReplaceAll(b, nil)
			b = reportInvocation.ReplaceAll(b, nil)
			b = bytes.ReplaceAll(b, []byte(id), []byte("ID"))
		}
		files[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestRunsOfOneInputAreEqual lowers every kernel of the corpus for sm_80 twice:
// the run directories, and the output, differ in the run's name and times only.
func TestRunsOfOneInputAreEqual(t *testing.T) {
	for _, k := range corpus.Kernels() {
		if !k.Has("sm_80") {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			var files [2]map[string]string
			var told [2]string
			f := ""
			d := newTraceDeps(t)
			f = d.file(t, k.Name+".tir", corpus.Text(k.Input("sm_80")))
			for i := range files {
				d.stderr.Reset()
				if code := exitCodeOf(Run(context.Background(), d.Deps, d.options(ModeHTML, f))); code == ExitUsage {
					t.Fatalf("not lowered: %s", d.stderr.String())
				}
				told[i] = d.stderr.String()
				dir, err := trace.Find(k.Name, filepath.Join(d.dir, "traces"))
				if err != nil {
					t.Fatal(err)
				}
				files[i] = timeless(t, dir)
			}
			if told[0] != told[1] {
				t.Errorf("told differently:\n%s\n%s", told[0], told[1])
			}
			if len(files[0]) != len(files[1]) {
				t.Errorf("%d and %d files", len(files[0]), len(files[1]))
			}
			for name, a := range files[0] {
				if b, ok := files[1][name]; !ok || a != b {
					t.Errorf("%s differs: %s", name, firstDifference(a, b))
				}
			}
		})
	}
}

func firstDifference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	around := func(s string) string { return fmt.Sprintf("%q", s[max(0, min(i-60, len(s))):min(i+60, len(s))]) }
	return around(a) + " against " + around(b)
}

// TestResumeIsTheSameRun goes on from every pass of a run that changed
// something: what follows is the same, byte for byte, for the IR is printed
// with nothing left out, and names and origins are carried over.
func TestResumeIsTheSameRun(t *testing.T) {
	for _, name := range []string{"softmax", "gemm_f16", "flash_attention"} {
		k := corpus.Lookup(name)
		d := newTraceDeps(t)
		f := d.file(t, name+".tir", corpus.Text(k.Input("sm_80")))
		if err := Run(context.Background(), d.Deps, d.options(ModeHTML, f)); err != nil {
			t.Fatalf("%s: %v %s", name, err, d.stderr.String())
		}
		first := d.open(t, name)
		d.Clock = later(d.Clock)
		n := 0
		for _, r := range first.Records {
			if !r.Changed || r.Depth > 0 || r.Status == trace.Codegen {
				continue
			}
			o := d.options(ModeTerminal)
			o.From, o.StartAt = first.Dir, fmt.Sprint(r.Index)
			d.stdout.Reset()
			d.stderr.Reset()
			if err := Run(context.Background(), d.Deps, o); err != nil {
				t.Errorf("%s from %s: %v %s", name, r.Name, err, d.stderr.String())
				continue
			}
			if !strings.Contains(d.stdout.String(), "\nno difference in ") {
				t.Errorf("%s from %d %s: %s", name, r.Index, r.Name, d.stdout.String())
			}
			n++
		}
		if n < 5 {
			t.Errorf("%s: resumed %d times only", name, n)
		}
	}
}

// later keeps a clock from standing still between runs.
func later(clock func() time.Time) func() time.Time {
	return func() time.Time { return clock().Add(time.Second) }
}
