package driver

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lowertrace/internal/ir/script"
	"lowertrace/internal/render"
)

// FmtOptions are what `fmt` was asked for.
type FmtOptions struct {
	SourceOptions
	Files []string // none or "-": standard input
	Check bool     // tell which files are not canonical, exit 1
	Write bool     // rewrite the files
}

// Fmt prints the canonical text of kernels.
func Fmt(d *Deps, o FmtOptions) error {
	files := o.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	differ := false
	for _, path := range files {
		same, err := d.format(path, o)
		if err != nil {
			return err
		}
		differ = differ || !same
	}
	if o.Check && differ {
		return reported(ExitFailed)
	}
	return nil
}

// format formats one file and reports whether it was canonical already.
func (d *Deps) format(path string, o FmtOptions) (same bool, err error) {
	if o.Write && path == "-" {
		return false, Usagef("fmt --write needs a file, not standard input")
	}
	in, err := d.readKernel(path, DefaultTraceDir, o.SourceOptions)
	if err != nil {
		return false, err
	}
	text := script.Print(in.mod)
	if !o.Check && !o.Write {
		_, err := io.WriteString(d.Stdout, text)
		return true, err
	}
	if filepath.Ext(path) == ".py" {
		return false, Usagef("%s is Python: fmt prints the IR it stands for, and rewrites IR only", path)
	}
	if lost := script.LostComments(in.src); len(lost) > 0 {
		return false, Usagef("%s: a comment would be lost", lost[0])
	}
	if text == in.src.Text {
		return true, nil
	}
	if o.Check {
		fmt.Fprintln(d.Stdout, path)
		t := d.terminal(render.DiffOptions{Context: render.DefaultContext, Host: true})
		t.Diff(path, path+" (canonical)", in.src.Text, text)
		return false, t.Err()
	}
	return false, writeFile(path, func(f *os.File) error { _, err := io.WriteString(f, text); return err })
}
