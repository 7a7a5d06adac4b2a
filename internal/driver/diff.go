package driver

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"lowertrace/internal/render"
	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// openRun opens what a RUN argument names.
func (d *Deps) openRun(arg, traceDir string) (*trace.Run, error) {
	run, err := trace.Open(arg, trace.OpenOptions{TraceDir: traceDir, DiffStat: textdiff.Stat})
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, Usagef("%s: no such run", arg)
		}
		return nil, Usagef("%v", err)
	}
	for _, n := range run.Notes {
		d.notef("%s: %s", arg, n)
	}
	return run, nil
}

// lastTwo are the two newest runs below a trace directory, older first.
func lastTwo(traceDir string) ([]string, error) {
	runs, err := trace.List(traceDir)
	if err != nil {
		return nil, Usagef("%v", err)
	}
	var a, b *trace.RunInfo // b is the newest
	for i := range runs {
		r := &runs[i]
		switch {
		case r.Problem != "":
		case b == nil || newer(r, b):
			a, b = b, r
		case a == nil || newer(r, a):
			a = r
		}
	}
	if a == nil {
		return nil, Usagef("%s holds fewer than two runs to compare", traceDir)
	}
	return []string{a.Dir, b.Dir}, nil
}

func newer(a, b *trace.RunInfo) bool {
	if !a.Started.Equal(b.Started) {
		return a.Started.After(b.Started)
	}
	return filepath.Base(a.Dir) > filepath.Base(b.Dir)
}

// Diff compares two runs. It fails with ExitFailed when they differ.
func Diff(d *Deps, o DiffOptions) error {
	names := o.Runs
	if len(names) == 0 {
		var err error
		if names, err = lastTwo(o.TraceDir); err != nil {
			return err
		}
	}
	var runs [2]*trace.Run
	for i, n := range names {
		var err error
		if runs[i], err = d.openRunOrText(n, o.TraceDir); err != nil {
			return err
		}
	}
	al := trace.Align(runs[0], runs[1])
	co := render.CompareOptions{All: o.All, Stat: o.Stat, NameOnly: o.NameOnly, Pass: o.Pass}
	do := render.DiffOptions{Context: o.Context, Host: o.Host, WordDiff: o.WordDiff, IgnoreSpace: o.IgnoreSpace, IgnoreRenames: o.IgnoreRenames}
	if o.HTML != "" {
		if err := writeFile(o.HTML, func(f *os.File) error { return render.WriteCompareReport(f, al) }); err != nil {
			return err
		}
		d.notef("wrote %s", o.HTML)
	}
	if o.JSON {
		c, err := render.NewComparison(al, co, do)
		if err != nil {
			return Usagef("%v", err)
		}
		enc := json.NewEncoder(d.Stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(c); err != nil {
			return err
		}
	} else if err := d.terminal(do).Compare(al, co); err != nil {
		return Usagef("%v", err)
	}
	if !al.Equal() {
		return reported(ExitFailed)
	}
	return nil
}

// openRunOrText opens a run, or takes a .tir file as a run of one state.
func (d *Deps) openRunOrText(arg, traceDir string) (*trace.Run, error) {
	if filepath.Ext(arg) != ".tir" {
		return d.openRun(arg, traceDir)
	}
	text, err := readFile(arg)
	if err != nil {
		return nil, openError(arg, err)
	}
	return &trace.Run{
		Manifest: trace.Manifest{Schema: trace.SchemaVersion, State: trace.StateComplete, InputName: arg, Source: text},
		Records: []trace.LowerRecord{{
			Phase: trace.PhaseUnscoped, Name: "text", Status: trace.Completed, ParentIndex: trace.NoParent,
			BeforeText: text, AfterText: text, HasBefore: true, HasAfter: true,
		}},
	}, nil
}
