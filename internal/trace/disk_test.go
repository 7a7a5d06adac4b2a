package trace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// brittleDisk fails what its function says, with "no space left on device".
type brittleDisk struct {
	disk
	fails func(op, path string) bool
}

func (d brittleDisk) check(op, path string) error {
	if d.fails(op, filepath.ToSlash(path)) {
		return &os.PathError{Op: op, Path: path, Err: syscall.ENOSPC}
	}
	return nil
}

func (d brittleDisk) MkdirAll(p string) error {
	return errors.Join(d.check("mkdir", p), d.disk.MkdirAll(p))
}

func (d brittleDisk) Mkdir(p string) error {
	if err := d.check("mkdir", p); err != nil {
		return err
	}
	return d.disk.Mkdir(p)
}

func (d brittleDisk) Create(p string, perm os.FileMode) (io.WriteCloser, error) {
	if err := d.check("open", p); err != nil {
		return nil, err
	}
	f, err := d.disk.Create(p, perm)
	if err != nil {
		return nil, err
	}
	return brittleFile{f, d, p}, nil
}

func (d brittleDisk) Link(a, b string) error {
	if err := d.check("link", b); err != nil {
		return err
	}
	return d.disk.Link(a, b)
}

func (d brittleDisk) Symlink(a, b string) error {
	if err := d.check("symlink", b); err != nil {
		return err
	}
	return d.disk.Symlink(a, b)
}

func (d brittleDisk) Rename(a, b string) error {
	if err := d.check("rename", b); err != nil {
		return err
	}
	return d.disk.Rename(a, b)
}

type brittleFile struct {
	io.WriteCloser
	d    brittleDisk
	path string
}

// Write writes half of what it is given where it fails, as a full disk does.
func (f brittleFile) Write(b []byte) (int, error) {
	if err := f.d.check("write", f.path); err != nil {
		n, _ := f.WriteCloser.Write(b[:len(b)/2])
		return n, err
	}
	return f.WriteCloser.Write(b)
}

// withDisk runs f with all of the package's writing going through d.
func withDisk(d disk, f func()) {
	old := osDisk
	osDisk = d
	defer func() { osDisk = old }()
	f()
}

// What can't be written is said once; the lowering goes on, every record reaches the observers, and
// what could be written is readable.
func TestWriteFailures(t *testing.T) {
	for _, c := range []struct {
		name     string
		fails    func(op, path string) bool
		readable int // records found afterwards, -1 for no run
	}{
		{"no trace directory", func(op, p string) bool { return op == "mkdir" }, -1},
		{"no run directory", func(op, p string) bool { return op == "mkdir" && strings.Contains(p, "/run_") }, -1},
		{"no phase directory", func(op, p string) bool { return op == "mkdir" && strings.HasSuffix(p, "/pipeline_cuda") }, 9},
		{"no snapshots", func(op, p string) bool { return strings.HasSuffix(p, ".tir") || strings.HasSuffix(p, ".cpp") }, 9},
		{"no journal", func(op, p string) bool { return op == "open" && strings.HasSuffix(p, journalFile) }, 9},
		{"journal full", func(op, p string) bool { return op == "write" && strings.HasSuffix(p, journalFile) }, 9},
		{"no timing", func(op, p string) bool { return strings.HasSuffix(p, timingFile) }, 9},
		{"no trace.json", func(op, p string) bool { return strings.HasSuffix(p, traceFile) }, 9},
		{"disk full", diskFullAfter(12), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			withDisk(brittleDisk{osDisk, c.fails}, func() {
				cfg := testConfig(t, filepath.Join(t.TempDir(), "traces"))
				var warnings []string
				cfg.Warn = func(s string) { warnings = append(warnings, s) }
				ended := 0
				cfg.Observers = []Observer{{Ended: func(LowerRecord) { ended++ }}}
				r := NewRecorder(cfg)
				run := recordExample(r)
				if len(run.Records) != 9 || ended != 9 {
					t.Errorf("%d records, %d seen", len(run.Records), ended)
				}
				if len(warnings) != 1 || !strings.Contains(warnings[0], "no space left") {
					t.Errorf("warnings: %q", warnings)
				}
				if !r.Failed() || !errors.Is(r.Err(), syscall.ENOSPC) {
					t.Errorf("error: %v", r.Err())
				}
				got, err := Open("k", OpenOptions{TraceDir: cfg.TraceDir})
				if c.readable < 0 {
					if err == nil {
						t.Error("a run was found")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Records) != c.readable {
					t.Errorf("%d records readable, want %d; notes %q", len(got.Records), c.readable, got.Notes)
				}
				for i := range got.Records {
					if w := run.Record(got.Records[i].Index); w.AfterText != got.Records[i].AfterText {
						t.Errorf("record %d reads differently", i)
					}
				}
				// No half-written snapshot stays.
				for _, f := range tree(t, got.Dir) {
					if index, _, side, ok := parseSnapshotName(filepath.Base(f)); ok {
						rec := run.Record(index)
						want := rec.BeforeText
						if side == "_after" {
							want = rec.AfterText
						}
						if mustRead(t, filepath.Join(got.Dir, f)) != want {
							t.Errorf("%s is not whole", f)
						}
					}
				}
			})
		})
	}
}

// diskFullAfter fails every write from the nth on.
func diskFullAfter(n int) func(op, path string) bool {
	writes := 0
	return func(op, path string) bool {
		if op == "write" {
			writes++
		}
		return writes > n && op != "link"
	}
}

// Where hard links are impossible, repeated texts are copies.
func TestNoHardLinks(t *testing.T) {
	withDisk(brittleDisk{osDisk, func(op, p string) bool { return op == "link" }}, func() {
		r := NewRecorder(testConfig(t, t.TempDir()))
		run := recordExample(r)
		if r.Failed() {
			t.Error(r.Err())
		}
		for i := range run.Records {
			if rec := &run.Records[i]; rec.HasAfter {
				if got := mustRead(t, r.SnapshotPath(rec.Index, true)); got != rec.AfterText {
					t.Errorf("record %d: %q", i, got)
				}
			}
		}
	})
}

// A trace directory below a file, and one without write permission, are ordinary errors.
func TestUnwritableTraceDir(t *testing.T) {
	base := t.TempDir()
	mustWrite(t, filepath.Join(base, "file"), "")
	dirs := []string{filepath.Join(base, "file", "traces")}
	if os.Geteuid() != 0 && runtime.GOOS != "windows" {
		ro := filepath.Join(base, "ro")
		if err := os.Mkdir(ro, 0o555); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, filepath.Join(ro, "traces"))
	}
	for _, dir := range dirs {
		cfg := testConfig(t, dir)
		said := 0
		cfg.Warn = func(string) { said++ }
		r := NewRecorder(cfg)
		run := recordExample(r)
		if len(run.Records) != 9 || said != 1 || !r.Failed() || r.Dir() != "" {
			t.Errorf("%s: %d records, %d warnings, dir %q", dir, len(run.Records), said, r.Dir())
		}
	}
}

func TestPublishReport(t *testing.T) {
	for _, links := range []bool{true, false} {
		fails := func(op, p string) bool { return op == "symlink" && !links }
		withDisk(brittleDisk{osDisk, fails}, func() {
			script := t.TempDir()
			for _, id := range []string{"run_20260101_000000_000001_1_aa", "run_20260101_000000_000002_1_bb"} {
				run := filepath.Join(script, recordsDir, id)
				mustWrite(t, filepath.Join(run, reportFile), "report of "+id)
				for range 2 {
					if err := PublishReport(script, run); err != nil {
						t.Fatal(err)
					}
				}
				if got := mustRead(t, filepath.Join(script, reportFile)); got != "report of "+id {
					t.Errorf("links=%v: %q", links, got)
				}
				target, err := os.Readlink(filepath.Join(script, reportFile))
				if (err == nil) != links || links && filepath.IsAbs(target) {
					t.Errorf("links=%v: target %q, %v", links, target, err)
				}
			}
			entries, _ := os.ReadDir(script)
			if len(entries) != 2 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}
