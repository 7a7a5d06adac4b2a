package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"
)

// readFileLimit reads a regular file of at most limit bytes.
func readFileLimit(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	if st.Size() > limit {
		return nil, fmt.Errorf("%s: %w", path, errTooLarge)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: %w", path, errTooLarge)
	}
	return data, err
}

// traceDoc is trace.json as it is read.
type traceDoc struct {
	Schema     int          `json:"schema_version"`
	Manifest   Manifest     `json:"manifest"`
	Summary    traceSummary `json:"summary"`
	Source     int          `json:"source"`
	Records    []jsonRecord `json:"records"`
	Unfinished []jsonRecord `json:"unfinished"`
	Texts      []textEntry  `json:"texts"`
	Origins    [][]int64    `json:"origins"`
	Lines      []jsonLine   `json:"lines"`
}

// checkSchema refuses what a later version wrote.
func checkSchema(path string, v int) error {
	switch {
	case v <= 0:
		return fmt.Errorf("%s is not a trace: no schema_version", path)
	case v > SchemaVersion:
		return fmt.Errorf("%s has schema version %d; this program reads up to %d", path, v, SchemaVersion)
	}
	return nil
}

// readRunDir reads one of our run directories: trace.json, or the journal while that is missing or
// damaged.
func readRunDir(dir string) (*Run, error) {
	run, err := readTrace(filepath.Join(dir, traceFile))
	if err == nil {
		return run, nil
	}
	j := filepath.Join(dir, journalFile)
	if _, serr := os.Stat(j); serr != nil {
		return nil, err
	}
	run, jerr := readJournal(j)
	if jerr != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, jerr
		}
		return nil, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		run.Notes = append(run.Notes, fmt.Sprintf("trace.json is damaged (%v); read from the journal", err))
	}
	return run, nil
}

// readTrace reads trace.json and, where it lies beside, timing.json.
func readTrace(path string) (*Run, error) {
	data, err := readFileLimit(path, maxTraceBytes)
	if err != nil {
		return nil, err
	}
	var doc traceDoc
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := checkSchema(path, doc.Schema); err != nil {
		return nil, err
	}
	var tab textTable
	if err := tab.add(doc.Lines, doc.Texts, doc.Origins); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	run := &Run{Manifest: doc.Manifest, Dir: filepath.Dir(path)}
	run.Schema = doc.Schema
	if run.Source, _, err = tab.get(doc.Source); err != nil {
		return nil, fmt.Errorf("%s: source: %w", path, err)
	}
	if run.Records, err = tab.records(doc.Records); err == nil {
		run.Unfinished, err = tab.records(doc.Unfinished)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	sortRecords(run.Records)
	run.ID = idOfDir(run.Dir)
	readTiming(run)
	return run, nil
}

// idOfDir is a run directory's name when it has the form of one.
func idOfDir(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if _, ok := runStamp(filepath.Base(dir)); ok {
		return filepath.Base(dir)
	}
	return ""
}

// readTiming adds what timing.json knows. A run without it has no times.
func readTiming(run *Run) {
	data, err := readFileLimit(filepath.Join(run.Dir, timingFile), maxTraceBytes)
	if err != nil {
		return
	}
	var t timing
	if err := json.Unmarshal(data, &t); err != nil || t.Schema > SchemaVersion {
		run.Notes = append(run.Notes, "timing.json can't be read")
		return
	}
	if t.ID != "" {
		run.ID = t.ID
	}
	run.InvocationID = t.InvocationID
	run.Started, _ = time.Parse(time.RFC3339Nano, t.Started)
	for _, p := range t.Passes {
		if r := run.Record(p.Index); r != nil {
			r.Duration, r.SelfDuration = time.Duration(p.InclusiveNS), time.Duration(p.SelfNS)
		}
	}
}

func (t *textTable) records(js []jsonRecord) ([]LowerRecord, error) {
	recs := make([]LowerRecord, 0, len(js))
	for i := range js {
		r, err := t.record(&js[i])
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", js[i].Index, err)
		}
		recs = append(recs, r)
	}
	return recs, nil
}

func (t *textTable) record(j *jsonRecord) (r LowerRecord, err error) {
	r = j.LowerRecord
	if r.Index < 0 && r.Index != NoParent || r.Depth < 0 || r.Depth > maxDepth ||
		r.ParentIndex < NoParent || r.Index >= 0 && r.ParentIndex >= r.Index {
		return r, errors.New("impossible number, depth or parent")
	}
	if r.BeforeText, r.HasBefore, err = t.get(j.Before); err != nil {
		return r, err
	}
	if r.AfterText, r.HasAfter, err = t.get(j.After); err != nil {
		return r, err
	}
	if r.BeforeOrigins, err = t.getOrigins(j.BeforeOrigins); err != nil {
		return r, err
	}
	r.AfterOrigins, err = t.getOrigins(j.AfterOrigins)
	return r, err
}

// maxDepth bounds how deep a reader lets passes nest.
const maxDepth = 1000

func sortRecords(recs []LowerRecord) {
	sort.SliceStable(recs, func(i, j int) bool { return recs[i].Index < recs[j].Index })
}

// readJournal reads a run from its journal: every whole line counts, and what follows the last one,
// a line that a kill cut off, is left out. A damaged line ends the reading likewise, for later lines
// may refer to it.
func readJournal(path string) (*Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	run := &Run{Dir: filepath.Dir(path)}
	run.State = StateRunning
	var (
		tab  textTable
		open = map[string]LowerRecord{}
		in   = bufio.NewReaderSize(io.LimitReader(f, maxTraceBytes+1), 256<<10)
		read int64
		n    int
	)
	for {
		line, err := in.ReadBytes('\n')
		if read += int64(len(line)); read > maxTraceBytes {
			return nil, fmt.Errorf("%s: %w", path, errTooLarge)
		}
		if err == io.EOF {
			if len(line) > 0 {
				run.Notes = append(run.Notes, fmt.Sprintf("the journal's last line, number %d, is cut off", n+1))
			}
			break
		}
		if err != nil {
			return nil, err
		}
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := journalApply(run, &tab, open, line); err != nil {
			if run.Schema == 0 {
				return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
			}
			run.Notes = append(run.Notes, fmt.Sprintf("the journal is damaged at line %d (%v); what follows is left out", n, err))
			break
		}
	}
	if run.Schema == 0 {
		return nil, fmt.Errorf("%s: the run ended before anything was recorded", path)
	}
	for _, rec := range open {
		run.Unfinished = append(run.Unfinished, rec)
	}
	sort.Slice(run.Unfinished, func(i, j int) bool {
		a, b := &run.Unfinished[i], &run.Unfinished[j]
		if a.Index != b.Index {
			return uint(a.Index) < uint(b.Index) // a code generator has index -1 and is innermost or alone
		}
		return a.Name < b.Name
	})
	sortRecords(run.Records)
	return run, nil
}

// openKey identifies a pass between its start and its record. A code generator is numbered only at
// the end, so its phase and name have to do.
func openKey(r *LowerRecord, ended bool) string {
	if r.Index < 0 || ended && r.Status == Codegen {
		return "codegen\x00" + r.Phase + "\x00" + r.Name
	}
	return fmt.Sprint(r.Index)
}

// journalApply adds one journal line to the run.
func journalApply(run *Run, tab *textTable, open map[string]LowerRecord, line []byte) error {
	var l journalLine
	l.Source = new(int)
	*l.Source = -1
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	if run.Schema == 0 && l.Event != "begin" {
		return errors.New("not the beginning of a journal")
	}
	if l.Event == "begin" {
		if err := checkSchema(journalFile, l.Schema); err != nil {
			return err
		}
	}
	if err := tab.add(l.Lines, l.Texts, l.Origins); err != nil {
		return err
	}
	switch l.Event {
	case "begin":
		if l.Manifest == nil {
			return errors.New("no manifest")
		}
		run.Manifest = *l.Manifest
		run.State = StateRunning
		run.ID, run.InvocationID = l.ID, l.InvocationID
		run.Started, _ = time.Parse(time.RFC3339Nano, l.Started)
		var err error
		if l.Source != nil {
			run.Source, _, err = tab.get(*l.Source)
		}
		if err != nil {
			return err
		}
		run.Schema = l.Schema
	case "start", "record":
		if l.Record == nil {
			return errors.New("no record")
		}
		rec, err := tab.record(l.Record)
		if err != nil {
			return err
		}
		if l.Event == "start" {
			open[openKey(&rec, false)] = rec
			return nil
		}
		rec.Duration, rec.SelfDuration = time.Duration(l.DurationNS), time.Duration(l.SelfNS)
		delete(open, openKey(&rec, true))
		if rec.Status == Failed { // a failed code generator does not say that it is one
			delete(open, openKey(&LowerRecord{Index: -1, Phase: rec.Phase, Name: rec.Name}, false))
		}
		run.Records = append(run.Records, rec)
	case "end":
		run.State, run.Error, run.Generated = l.State, l.Error, l.Generated
		run.Arch, run.Device = l.Arch, l.Device
	}
	return nil
}

// ReadSnapshot reads the plain text file beside the trace for one side of a record, which a user may
// have edited, and says whether it still is what was recorded.
func ReadSnapshot(run *Run, rec *LowerRecord, after bool) (text string, edited bool, err error) {
	want, has, side, ext := rec.BeforeText, rec.HasBefore, "_before", ".tir"
	if after {
		want, has, side = rec.AfterText, rec.HasAfter, "_after"
		if rec.Status == Codegen {
			ext = ".cpp"
		}
	}
	if !has || run.Dir == "" {
		return "", false, fs.ErrNotExist
	}
	// The phase directory's name may carry a hash against another phase's, and the number has as many
	// digits as the run needed.
	phases, err := os.ReadDir(run.Dir)
	if err != nil {
		return "", false, err
	}
	for width := 2; width <= maxIndexDigits; width++ {
		base := fmt.Sprintf("%0*d_%s", width, rec.Index, fileName(rec.Name)+side+ext)
		for _, ph := range phases {
			if !ph.IsDir() {
				continue
			}
			data, err := readFileLimit(filepath.Join(run.Dir, ph.Name(), base), maxTraceBytes)
			if err == nil {
				return string(data), string(data) != want, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return "", false, err
			}
		}
	}
	return "", false, fs.ErrNotExist
}

// maxIndexDigits bounds the digits of a record's number in a file name.
const maxIndexDigits = 9
