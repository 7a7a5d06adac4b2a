package driver

import (
	"fmt"
	"os"
	"path/filepath"

	"lowertrace/internal/render"
	"lowertrace/internal/trace"
)

// reportName is the report's file in a run directory.
const reportName = "report.html"

// reportFile writes a run's report as its records finish. It opens the file
// with the first record, since a run has no directory before.
type reportFile struct {
	rec     *trace.Recorder
	earlier []trace.LowerRecord
	f       *os.File
	w       *render.ReportWriter
	err     error
}

// use takes the recorder that the report is about. Records it has already are
// those of an earlier pipeline over the same input.
func (r *reportFile) use(rec *trace.Recorder) {
	r.rec = rec
	r.earlier = rec.Run().Records
}

// observer feeds the report from a recorder.
func (r *reportFile) observer() trace.Observer {
	return trace.Observer{Ended: func(rec trace.LowerRecord) {
		if r.open(); r.err == nil {
			r.err = r.w.Record(rec)
		}
	}}
}

func (r *reportFile) open() {
	if r.f != nil || r.err != nil {
		return
	}
	dir := r.rec.Dir()
	if dir == "" {
		r.err = fmt.Errorf("there is no run directory")
		return
	}
	if r.f, r.err = os.Create(filepath.Join(dir, reportName)); r.err != nil {
		return
	}
	m := r.rec.Run().Manifest
	r.w = render.NewReportWriter(r.f, m)
	for _, rec := range r.earlier {
		if r.err == nil {
			r.err = r.w.Record(rec)
		}
	}
	if r.err == nil {
		r.err = r.w.Err()
	}
	if r.err == nil {
		r.err = trace.PublishReport(r.rec.ScriptDir(), dir)
	}
}

// finish ends the report and gives its path for people: the link beside the
// working copies, or, where another run of the command moves that link on, the
// report itself. "" when there is none.
func (r *reportFile) finish(run *trace.Run, own bool) (string, error) {
	if r.f == nil {
		return "", r.err
	}
	if r.err == nil {
		r.err = r.w.Finish(run)
	}
	if err := r.f.Close(); r.err == nil {
		r.err = err
	}
	if r.err == nil {
		// Where links are impossible the published report is a copy.
		r.err = trace.PublishReport(r.rec.ScriptDir(), run.Dir)
	}
	if own {
		return filepath.Join(run.Dir, reportName), r.err
	}
	return filepath.Join(r.rec.ScriptDir(), reportName), r.err
}

// ReportOptions are what `report` was asked for.
type ReportOptions struct {
	Run      string
	TraceDir string
	Output   string // "": report.html in the run directory
}

// Report writes a run's report anew.
func Report(d *Deps, o ReportOptions) error {
	run, err := d.openRun(o.Run, o.TraceDir)
	if err != nil {
		return err
	}
	path := o.Output
	if path == "" {
		if run.Dir == "" || run.Foreign != "" {
			return Usagef("%s is another tracer's run: say where the report goes with --output", o.Run)
		}
		path = filepath.Join(run.Dir, reportName)
	}
	if err := writeFile(path, func(f *os.File) error { return render.WriteReport(f, run) }); err != nil {
		return err
	}
	_, err = fmt.Fprintln(d.Stdout, path)
	return outputError(err)
}

// writeFile writes a file whole: beside it first, then in its place.
func writeFile(path string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return Failf("%v", err)
	}
	defer os.Remove(f.Name())
	err = write(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return Failf("%s: %v", path, err)
	}
	return nil
}
