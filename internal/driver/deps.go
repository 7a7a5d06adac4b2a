package driver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// Exit codes of every command.
const (
	ExitOK          = 0
	ExitFailed      = 1   // the work itself failed or differs
	ExitUsage       = 2   // bad usage or bad input: nothing was run
	ExitInterrupted = 130 // a signal ended it
)

// ExitError ends a command with an exit code. A nil Err was told already.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Usagef is an error of bad usage or input.
func Usagef(format string, args ...any) error {
	return &ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// Failf is an error of work that failed.
func Failf(format string, args ...any) error {
	return &ExitError{ExitFailed, fmt.Errorf(format, args...)}
}

// reported is an error that the user has been told of.
func reported(code int) error { return &ExitError{Code: code} }

// Deps are what a command has of the outside world.
type Deps struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// StdoutTTY and StderrTTY say whether those are terminals; Width is the
	// terminal's width in columns, 0 when there is none.
	StdoutTTY, StderrTTY bool
	Width                int
	Getenv               func(string) string
	Clock                func() time.Time
	PID                  int
	Rand                 io.Reader
	Args                 []string // as typed, without the program
	Version              string

	color string // auto, always or never
}

// OSDeps are the process's own.
func OSDeps() *Deps {
	d := &Deps{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StdoutTTY: isatty.IsTerminal(os.Stdout.Fd()), StderrTTY: isatty.IsTerminal(os.Stderr.Fd()),
		Getenv: os.Getenv, Clock: time.Now, PID: os.Getpid(), Rand: rand.Reader,
		Version: buildVersion(), color: "auto",
	}
	if d.StdoutTTY {
		if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			d.Width = w
		}
	}
	return d
}

// Version is set by the linker for releases.
var Version = ""

func buildVersion() string {
	if Version != "" {
		return Version
	}
	if bi, ok := debug.ReadBuildInfo(); ok && bi.Main.Version != "" && bi.Main.Version != "(devel)" {
		return bi.Main.Version
	}
	return "devel"
}

// SetColor takes the value of --color.
func (d *Deps) SetColor(s string) error {
	switch s {
	case "auto", "always", "never":
		d.color = s
		return nil
	}
	return Usagef("--color: expected auto, always or never, got %q", s)
}

// readInput reads a whole input up to MaxInputBytes.
func readInput(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxInputBytes+1))
	if err != nil {
		return "", err
	}
	if len(b) > MaxInputBytes {
		return "", fmt.Errorf("more than %d MiB of text", MaxInputBytes>>20)
	}
	return string(b), nil
}

// MaxInputBytes bounds an input file. The largest dumps known are a few MB.
const MaxInputBytes = 256 << 20

// openError words an error of opening a file without the operation and the
// doubled path.
func openError(path string, err error) error {
	return Usagef("%s: %v", path, pathless(err))
}

// pathless is an error of the file system without its operation and path.
func pathless(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
