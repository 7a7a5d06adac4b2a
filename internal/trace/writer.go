package trace

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// writer keeps one run directory. The journal comes first: its line for a record holds all of the
// record, texts included, and is one append, so that a kill loses at most what had not ended. The
// snapshot files beside it are for people and for other tools; no reader of ours needs them.
type writer struct {
	d         disk
	scriptDir string
	dir       string
	id        string

	journal    io.WriteCloser
	journalOff bool  // a write failed: a reader stops at the last whole line, and nothing is added
	journalErr error // why the journal could not be made
	buf        []byte

	store  *textStore
	onDisk map[int]string // text number -> path of a snapshot file that holds it
	phases *nameSet
	made   map[string]bool // phase directories that exist
	snaps  []snapshot
	width  int // digits of NN
	refs   map[int]recordRefs
	source int // the input's text
}

// snapshot is one file below a phase directory; its path is <phase>/<index, width digits>_<rest>.
type snapshot struct {
	index int
	after bool
	text  int
	phase string
	rest  string
}

// recordRefs are the numbers of a record's texts and origins in the store, -1 for none.
type recordRefs struct{ before, after, beforeOrigins, afterOrigins int }

// idAttempts bounds the tries to find a run name nobody has.
const idAttempts = 16

// newWriter claims the script directory, makes the run directory and opens the journal.
func newWriter(d disk, cfg Config, run *Run) (*writer, error) {
	scriptDir, err := claimScriptDir(d, cfg.TraceDir, cfg.Stem, cfg.InputKey)
	if err != nil {
		return nil, err
	}
	w := &writer{
		d: d, scriptDir: scriptDir, width: 2, source: -1,
		store: newTextStore(), onDisk: map[int]string{}, made: map[string]bool{},
		phases: newNameSet(reportFile, traceFile, timingFile, journalFile),
		refs:   map[int]recordRefs{},
	}
	for range idAttempts {
		var id [4]byte
		if _, err := io.ReadFull(cfg.Rand, id[:]); err != nil {
			return nil, fmt.Errorf("run id: %w", err)
		}
		w.id = runName(run.Started, cfg.PID, hex.EncodeToString(id[:]))
		w.dir = filepath.Join(scriptDir, recordsDir, w.id)
		if err = d.Mkdir(w.dir); err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	run.Script = filepath.Base(scriptDir)
	w.journal, err = d.Create(filepath.Join(w.dir, journalFile), 0o644)
	if err != nil {
		w.journalOff, w.journalErr = true, err
	}
	return w, nil
}

// journalLine is one line of journal.ndjson. Event is begin, start, record or end. Lines, texts and
// origins are what the tables gain with this line.
type journalLine struct {
	Event string `json:"event"`

	// begin
	Schema       int       `json:"schema_version,omitempty"`
	Manifest     *Manifest `json:"manifest,omitempty"`
	ID           string    `json:"id,omitempty"`
	InvocationID string    `json:"invocation_id,omitempty"`
	PID          int       `json:"pid,omitempty"`
	Started      string    `json:"started,omitempty"`
	Source       *int      `json:"source,omitempty"`

	// start, record
	Record     *jsonRecord `json:"record,omitempty"`
	DurationNS int64       `json:"duration_ns,omitempty"`
	SelfNS     int64       `json:"self_ns,omitempty"`

	// end
	State     RunState        `json:"state,omitempty"`
	Error     string          `json:"error,omitempty"`
	Generated []GeneratedFile `json:"generated,omitempty"`
	Arch      string          `json:"arch,omitempty"`
	Device    string          `json:"device,omitempty"`
	Finished  string          `json:"finished,omitempty"`

	Texts   []textEntry `json:"texts,omitempty"`
	Origins [][]int64   `json:"origins,omitempty"`
	Lines   []jsonLine  `json:"lines,omitempty"`
}

// jsonRecord is a LowerRecord with its texts by number.
type jsonRecord struct {
	LowerRecord
	Before        int `json:"before"` // number of the text, or -1
	After         int `json:"after"`
	BeforeOrigins int `json:"before_origins"`
	AfterOrigins  int `json:"after_origins"`
}

// marshalInline encodes v without a line feed and without escaping <, > and &.
func marshalInline(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// append writes one journal line: v's members, then what the tables gained since the marks.
func (w *writer) append(v journalLine, lines, texts, origins int) error {
	if w.journalOff {
		return nil
	}
	head, err := marshalInline(v)
	if err != nil {
		return err
	}
	b := append(w.buf[:0], head[:len(head)-1]...)
	b = w.store.appendTables(b, lines, texts, origins, ",", "")
	b = append(b, '}', '\n')
	w.buf = b
	if _, err := w.journal.Write(b); err != nil {
		w.journalOff = true
		return err
	}
	return nil
}

func (w *writer) marks() (lines, texts, origins int) {
	return len(w.store.lines), len(w.store.texts), len(w.store.origins)
}

func (w *writer) begin(run *Run, pid int) error {
	l, t, o := w.marks()
	if run.Source != "" {
		w.source = w.store.text(run.Source)
	}
	if w.journalOff {
		return w.journalErr
	}
	return w.append(journalLine{
		Event: "begin", Schema: SchemaVersion, Manifest: &run.Manifest, ID: w.id,
		InvocationID: run.InvocationID, PID: pid, Started: run.Started.Format(time.RFC3339Nano),
		Source: &w.source,
	}, l, t, o)
}

// started writes that a pass begins, and the snapshot of the text before it: should the pass hang or
// take the process down, both say where.
func (w *writer) started(rec *LowerRecord) error {
	l, t, o := w.marks()
	j := jsonRecord{LowerRecord: *rec, Before: -1, After: -1, BeforeOrigins: -1, AfterOrigins: -1}
	j.Before = w.store.text(rec.BeforeText)
	j.BeforeOrigins = w.store.origin(rec.BeforeOrigins)
	err := w.append(journalLine{Event: "start", Record: &j}, l, t, o)
	if rec.Index >= 0 {
		err = errors.Join(err, w.snapshot(rec, false, j.Before))
	}
	return err
}

// record writes a finished record and the snapshots it does not have yet.
func (w *writer) record(rec *LowerRecord) error {
	l, t, o := w.marks()
	refs := recordRefs{-1, -1, -1, -1}
	if rec.HasBefore {
		refs.before = w.store.text(rec.BeforeText)
		refs.beforeOrigins = w.store.origin(rec.BeforeOrigins)
	}
	if rec.HasAfter {
		refs.after = w.store.text(rec.AfterText)
		refs.afterOrigins = w.store.origin(rec.AfterOrigins)
	}
	w.refs[rec.Index] = refs
	j := jsonRecord{*rec, refs.before, refs.after, refs.beforeOrigins, refs.afterOrigins}
	errs := w.append(journalLine{
		Event: "record", Record: &j,
		DurationNS: int64(rec.Duration), SelfNS: int64(rec.SelfDuration),
	}, l, t, o)
	if rec.HasBefore && w.snapshotPath(rec.Index, false) == "" {
		errs = errors.Join(errs, w.snapshot(rec, false, refs.before))
	}
	if rec.HasAfter {
		errs = errors.Join(errs, w.snapshot(rec, true, refs.after))
	}
	return errs
}

// snapshot writes one text file, as a link where the text is on disk already.
func (w *writer) snapshot(rec *LowerRecord, after bool, text int) error {
	for limit := pow10(w.width); rec.Index >= limit; limit *= 10 {
		if err := w.widen(); err != nil {
			return err
		}
	}
	ext := ".tir"
	side := "_before"
	if after {
		side = "_after"
		if rec.Status == Codegen {
			ext = ".cpp"
		}
	}
	s := snapshot{
		index: rec.Index, after: after, text: text,
		phase: w.phases.name(rec.Phase), rest: fileName(rec.Name) + side + ext,
	}
	if !w.made[s.phase] {
		if err := w.d.MkdirAll(filepath.Join(w.dir, s.phase)); err != nil {
			return err
		}
		w.made[s.phase] = true
	}
	path := w.path(s, w.width)
	first, ok := w.onDisk[text]
	if ok && w.d.Link(first, path) == nil {
		w.snaps = append(w.snaps, s)
		return nil
	}
	content := rec.BeforeText
	if after {
		content = rec.AfterText
	}
	if err := writeNew(w.d, path, 0o444, []byte(content)); err != nil {
		return err
	}
	w.onDisk[text] = path
	w.snaps = append(w.snaps, s)
	return nil
}

func (w *writer) path(s snapshot, width int) string {
	return filepath.Join(w.dir, s.phase, fmt.Sprintf("%0*d_%s", width, s.index, s.rest))
}

func pow10(n int) int {
	p := 1
	for range n {
		p *= 10
	}
	return p
}

// widen gives every snapshot's number one more digit, so that names sort as numbers do. It happens
// at record 100, at 1,000 and so on; a kill in between leaves names of both widths, and no reader
// looks at them.
func (w *writer) widen() error {
	var errs error
	for _, s := range w.snaps {
		if err := w.d.Rename(w.path(s, w.width), w.path(s, w.width+1)); err != nil && errs == nil {
			errs = err
		}
	}
	w.width++
	clear(w.onDisk)
	for _, s := range w.snaps {
		w.onDisk[s.text] = w.path(s, w.width)
	}
	return errs
}

func (w *writer) snapshotPath(index int, after bool) string {
	for i := len(w.snaps) - 1; i >= 0; i-- {
		if w.snaps[i].index == index && w.snaps[i].after == after {
			return w.path(w.snaps[i], w.width)
		}
	}
	return ""
}

// traceSummary is what a list of runs shows, held before the records.
type traceSummary struct {
	Records int    `json:"records"`
	Changed int    `json:"changed"`
	Failed  string `json:"failed"` // the first failed record's name
}

// timing is the content of timing.json: all that differs between two runs of one input.
type timing struct {
	Schema       int          `json:"schema_version"`
	ID           string       `json:"id"`
	InvocationID string       `json:"invocation_id"`
	PID          int          `json:"pid,omitempty"`
	Started      string       `json:"started"`
	Finished     string       `json:"finished"`
	TotalNS      int64        `json:"total_ns"`     // outermost records
	RecordingNS  int64        `json:"recording_ns"` // spent by the recorder, in no record's time
	Passes       []passTiming `json:"passes"`
}

type passTiming struct {
	Index       int   `json:"index"`
	InclusiveNS int64 `json:"inclusive_ns"`
	SelfNS      int64 `json:"self_ns"`
}

// finish writes the journal's end, timing.json and trace.json, the last in one step: while it is
// missing the journal is the truth.
func (w *writer) finish(run *Run, now time.Time, overhead time.Duration) error {
	l, t, o := w.marks()
	errs := w.append(journalLine{
		Event: "end", State: run.State, Error: run.Error, Generated: run.Generated,
		Arch: run.Arch, Device: run.Device, Finished: now.Format(time.RFC3339Nano),
	}, l, t, o)
	if w.journal != nil {
		errs = errors.Join(errs, w.journal.Close())
	}
	errs = errors.Join(errs, w.writeTiming(run, now, overhead))
	data, err := w.traceJSON(run)
	if err == nil {
		err = replaceFile(w.d, filepath.Join(w.dir, traceFile), filepath.Join(w.dir, "."+traceFile), 0o644, data)
	}
	return errors.Join(errs, err)
}

func (w *writer) writeTiming(run *Run, now time.Time, overhead time.Duration) error {
	t := timing{
		Schema: SchemaVersion, ID: run.ID, InvocationID: run.InvocationID,
		Started: run.Started.Format(time.RFC3339Nano), Finished: now.Format(time.RFC3339Nano),
		TotalNS: int64(TotalDuration(run.Records)), RecordingNS: int64(overhead),
		Passes: make([]passTiming, len(run.Records)),
	}
	for i := range run.Records {
		r := &run.Records[i]
		t.Passes[i] = passTiming{r.Index, int64(r.Duration), int64(r.SelfDuration)}
	}
	data, err := marshalInline(t)
	if err != nil {
		return err
	}
	return writeNew(w.d, filepath.Join(w.dir, timingFile), 0o644, append(data, '\n'))
}

// traceJSON builds trace.json: one member a line, one record, text and line of text a line, so that
// tools that work by line are of use.
func (w *writer) traceJSON(run *Run) ([]byte, error) {
	sum := traceSummary{Records: len(run.Records), Changed: run.ChangedCount()}
	if f := run.Failed(); f != nil {
		sum.Failed = f.Name
	}
	manifest, err := marshalInline(&run.Manifest)
	if err != nil {
		return nil, err
	}
	summary, err := marshalInline(sum)
	if err != nil {
		return nil, err
	}
	size := 4096
	for _, l := range w.store.lines {
		size += len(l) + 8
	}
	b := make([]byte, 0, size+len(run.Records)*256)
	b = fmt.Appendf(b, "{\"schema_version\":%d,\n\"manifest\":%s,\n\"summary\":%s,\n\"source\":%d,\n\"records\":[",
		SchemaVersion, manifest, summary, w.source)
	for i := range run.Records {
		rec := &run.Records[i]
		refs := w.refs[rec.Index]
		j, err := marshalInline(jsonRecord{*rec, refs.before, refs.after, refs.beforeOrigins, refs.afterOrigins})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '\n')
		b = append(b, j...)
	}
	b = append(b, ']')
	if len(run.Unfinished) > 0 {
		open := make([]jsonRecord, len(run.Unfinished))
		for i := range run.Unfinished {
			rec := &run.Unfinished[i]
			open[i] = jsonRecord{*rec, w.store.text(rec.BeforeText), -1, w.store.origin(rec.BeforeOrigins), -1}
		}
		j, err := marshalInline(open)
		if err != nil {
			return nil, err
		}
		b = append(b, ",\n\"unfinished\":"...)
		b = append(b, j...)
	}
	b = w.store.appendTables(b, 0, 0, 0, ",\n", "\n")
	return append(b, '}', '\n'), nil
}
