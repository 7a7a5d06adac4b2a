//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/trace"
)

// longRun starts a run whose output is more than a pipe holds, so that it waits
// in the middle until somebody reads on.
func longRun(t *testing.T, dir string) (cmd *exec.Cmd, stdout *os.File, stderr *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k := corpus.Lookup("flash_attention")
	if err := os.WriteFile(filepath.Join(dir, "k.tir"), []byte(corpus.Text(k.Input("sm_80"))), 0o666); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr = &bytes.Buffer{}
	cmd = exec.Command(exe, "run", "k.tir", "--mode", "both", "--host", "--context", "1000")
	cmd.Args[0] = "lowertrace" // TestMain is the program under this name
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, w, stderr
	cmd.Env = append(os.Environ(), "TL_LOWER_TRACE=", "TL_LOWER_TRACE_DIR=", "LOWERTRACE_MODE=")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		r.Close()
		cmd.Process.Kill()
	})
	// The first pass that changed something is out.
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		if strings.Contains(line, "CHANGED") {
			return cmd, r, stderr
		}
	}
}

func wait(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		var ex *exec.ExitError
		if err != nil && !errors.As(err, &ex) {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	return cmd.ProcessState.ExitCode()
}

func openRun(t *testing.T, dir string) *trace.Run {
	t.Helper()
	run, err := trace.Open("k", trace.OpenOptions{TraceDir: filepath.Join(dir, "tmp", "lower_trace_dir")})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestInterrupt: Ctrl-C in the middle of a run writes what finished, the
// report included, and exits 130.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	cmd, r, stderr := longRun(t, dir)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // it waits in a write; let the signal come first
	rest, _ := io.ReadAll(r)
	if code := wait(t, cmd); code != 130 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if !bytes.Contains(rest, []byte("interrupted: the passes above are all that finished")) {
		t.Errorf("the output does not say so: …%s", rest[max(0, len(rest)-400):])
	}
	run := openRun(t, dir)
	if run.State != trace.StateInterrupted || len(run.Records) == 0 || run.Records[len(run.Records)-1].Status == trace.Codegen {
		t.Errorf("%s with %d records", run.State, len(run.Records))
	}
	html, err := os.ReadFile(filepath.Join(dir, "tmp", "lower_trace_dir", "k", "report.html"))
	if err != nil || !bytes.Contains(html, []byte(`{"k":"end"`)) {
		t.Errorf("the report has no end: %v", err)
	}
}

// TestClosedPipe: a reader that closes the pipe, as head does, is success, and
// the run is recorded to its end.
func TestClosedPipe(t *testing.T) {
	dir := t.TempDir()
	cmd, r, stderr := longRun(t, dir)
	r.Close()
	if code := wait(t, cmd); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	run := openRun(t, dir)
	if run.State != trace.StateComplete || run.Records[len(run.Records)-1].Status != trace.Codegen {
		t.Errorf("%s with %d records", run.State, len(run.Records))
	}
}

// TestKilledRun: after a kill -9 every finished record is there to be shown,
// and the report opens as far as it goes.
func TestKilledRun(t *testing.T) {
	dir := t.TempDir()
	cmd, _, _ := longRun(t, dir)
	cmd.Process.Kill()
	wait(t, cmd)
	run := openRun(t, dir)
	if run.State != trace.StateRunning || len(run.Records) < 3 {
		t.Errorf("%s with %d records", run.State, len(run.Records))
	}
	for _, rec := range run.Records {
		if !rec.HasBefore || !rec.HasAfter {
			t.Errorf("%s lacks a text", rec.Name)
		}
	}
	if _, err := os.Stat(filepath.Join(run.Dir, "report.html")); err != nil {
		t.Error(err)
	}
}

// TestFullDevice: output that can't be written is told, and exit 1.
func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	defer full.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run", "--mode", "off"}, {"run"}, {"run", "--json"}} {
		cmd := exec.Command(exe, args...)
		var stderr bytes.Buffer
		cmd.Args[0], cmd.Dir, cmd.Stdout, cmd.Stderr = "lowertrace", t.TempDir(), full, &stderr
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 1 || strings.Count(stderr.String(), "no space left") != 1 {
			t.Errorf("%v: exit %d: %s", args, code, stderr.String())
		}
	}
}
