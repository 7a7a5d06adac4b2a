package driver

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// defaultPager is used where $PAGER is empty.
const defaultPager = "less"

// paged runs a command with its output going through a pager, on a terminal.
// Nothing is started before there is output, and a pager that ends early ends
// the output: that is success.
func (d *Deps) paged(work func(*Deps) error) error {
	pager := strings.TrimSpace(d.Getenv("PAGER"))
	if pager == "" {
		pager = defaultPager
	}
	term := d.Getenv("TERM")
	if !d.StdoutTTY || pager == "cat" || term == "" || term == "dumb" || runtime.GOOS == "windows" {
		return workError(work(d))
	}
	w := &pagerWriter{d: d, command: pager}
	to := *d
	to.Stdout = w
	err := work(&to)
	if cerr := w.close(); err == nil {
		err = cerr
	}
	return workError(err)
}

// workError is what a command's work came to: its own error, or that of its
// output.
func workError(err error) error {
	var ex *ExitError
	if errors.As(err, &ex) {
		return err
	}
	return outputError(err)
}

// pagerWriter starts the pager with the first write, so that an error message
// alone is not paged.
type pagerWriter struct {
	d       *Deps
	command string
	cmd     *exec.Cmd
	pipe    io.WriteCloser
	plain   bool // the pager could not be started
}

func (w *pagerWriter) Write(b []byte) (int, error) {
	if w.cmd == nil && !w.plain {
		w.start()
	}
	if w.plain {
		return w.d.Stdout.Write(b)
	}
	return w.pipe.Write(b)
}

func (w *pagerWriter) start() {
	name, _, _ := strings.Cut(w.command, " ")
	if _, err := exec.LookPath(name); err != nil {
		w.plain = true
		return
	}
	cmd := exec.Command("sh", "-c", w.command)
	cmd.Stdout, cmd.Stderr = w.d.Stdout, w.d.Stderr
	cmd.Env = os.Environ()
	if w.d.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.plain = true
		return
	}
	w.cmd, w.pipe = cmd, pipe
}

// close waits until the reader has seen enough. How the pager ends is its own
// affair.
func (w *pagerWriter) close() error {
	if w.cmd == nil {
		return nil
	}
	_ = w.pipe.Close()
	var exit *exec.ExitError
	if err := w.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}
