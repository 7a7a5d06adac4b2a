package driver

import (
	"fmt"

	"lowertrace/internal/diag"
	"lowertrace/internal/render"
)

// stdoutColor reports whether standard output gets color.
func (d *Deps) stdoutColor() bool {
	return render.ColorMode(d.color).Enabled(d.Getenv, d.StdoutTTY)
}

// stderrColor reports whether standard error gets color.
func (d *Deps) stderrColor() bool {
	return render.ColorMode(d.color).Enabled(d.Getenv, d.StderrTTY)
}

// terminal is a renderer of records on standard output.
func (d *Deps) terminal(o render.DiffOptions) *render.Terminal {
	if d.StdoutTTY {
		o.MaxLine = render.MaxTerminalLine
	}
	return render.NewTerminal(d.Stdout, render.TerminalOptions{Color: d.stdoutColor(), Width: d.Width, Diff: o})
}

// printDiagnostics tells what is wrong with an input on standard error.
func (d *Deps) printDiagnostics(l *diag.List) {
	l.WriteText(d.Stderr, diag.TextOptions{Color: d.stderrColor()})
}

func (d *Deps) notef(format string, args ...any) {
	fmt.Fprintf(d.Stderr, "lowertrace: "+format+"\n", args...)
}

// DidYouMean is "; did you mean X?" when a known name is near, else "".
func DidYouMean(name string, known []string) string {
	if n := diag.Nearest(name, known); n != "" {
		return fmt.Sprintf("; did you mean %s?", n)
	}
	return ""
}
