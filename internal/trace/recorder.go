package trace

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

// Pass identifies what is about to run.
type Pass struct {
	Name  string
	Phase string // empty means unscoped; inside code generation it is always PhaseCodegen
	Stage string
	Doc   string
}

// Text is one state of the module: what it prints as, and for each line the 1-based line of the
// input file it came from (0 unknown; nil when nothing is known).
type Text struct {
	Text    string
	Origins []int32
}

// DiffStat counts the lines that turn before into after. Equal texts give 0, 0.
type DiffStat func(before, after string) (add, del int)

// Observer is told of records as they happen, on the goroutine that runs the passes and without the
// recorder's lock held. Each function may be nil. The records handed out are copies to be read only.
type Observer struct {
	Began func(LowerRecord) // a pass is about to run: names, depth, before text; a code generator's Index is -1
	Ended func(LowerRecord) // a record is complete and is in the journal
	Done  func(*Run)        // the run is over and trace.json is written
}

// Config is what a Recorder needs from the outside. Clock and Rand are required when TraceDir is
// set; nothing in the package reads the environment.
type Config struct {
	Manifest Manifest // ID and Schema are filled in

	// TraceDir is the base directory. Empty keeps the records in memory only.
	TraceDir string
	// Stem names the script directory: the input file's name without its extension, or an embedded
	// kernel's name. InputKey tells inputs apart that share a stem; see ClaimScriptDir.
	Stem     string
	InputKey string

	DiffStat  DiffStat         // nil: the lines between the common head and tail
	Clock     func() time.Time // required
	PID       int
	Rand      io.Reader    // source of the run's id
	Warn      func(string) // called once, for the first thing that could not be written
	Observers []Observer

	// Previous is the finished recorder of an earlier pipeline over the same input in this
	// invocation. Its records are taken over, indices go on, and phases get the prefix run2_, run3_, ….
	Previous *Recorder
}

// Handle is a pass that has begun. The zero Handle is not valid.
type Handle struct{ open *openRecord }

type openRecord struct {
	rec       LowerRecord
	started   time.Time
	overhead  time.Duration // the recorder's own time when the pass began
	children  time.Duration // inclusive time of finished records directly inside
	parent    *openRecord
	isCodegen bool
	closed    bool
}

// Recorder takes the records of one lowering of one input for one target. Its methods may be called
// from several goroutines, so that a signal handler can Finish it, but passes begin and end in one.
type Recorder struct {
	mu       sync.Mutex
	cfg      Config
	run      Run
	w        *writer // nil when nothing is written
	prefix   string  // of phases
	runNo    int
	next     int // index of the next record
	open     *openRecord
	overhead time.Duration
	started  bool
	finished bool
	failure  error
}

// NewRecorder returns a recorder. Nothing is written before the first record begins, so that an
// input refused before then leaves no directory.
func NewRecorder(cfg Config) *Recorder {
	if cfg.Clock == nil {
		panic("trace: Config.Clock is nil")
	}
	if cfg.DiffStat == nil {
		cfg.DiffStat = blockStat
	}
	r := &Recorder{cfg: cfg, runNo: 1}
	r.run.Manifest = cfg.Manifest
	r.run.Schema = SchemaVersion
	r.run.State = StateRunning
	if p := cfg.Previous; p != nil {
		p.mu.Lock()
		r.runNo = p.runNo + 1
		r.next = p.next
		r.run.Records = append([]LowerRecord(nil), p.run.Records...)
		r.prefix = fmt.Sprintf("run%d_", r.runNo)
		p.mu.Unlock()
	}
	return r
}

// start opens the run directory on the first event. The lock is held.
func (r *Recorder) start() {
	if r.started {
		return
	}
	r.started = true
	r.run.Started = r.cfg.Clock()
	if r.cfg.TraceDir == "" {
		return
	}
	w, err := newWriter(osDisk, r.cfg, &r.run)
	if err != nil {
		r.fail(err)
		return
	}
	r.w = w
	r.run.ID = w.id
	r.run.Dir = w.dir
	if err := w.begin(&r.run, r.cfg.PID); err != nil {
		r.fail(err)
	}
	for i := range r.run.Records {
		if err := w.record(&r.run.Records[i]); err != nil {
			r.fail(err)
		}
	}
}

// fail notes a write error and tells of the first one. The lock is held.
func (r *Recorder) fail(err error) {
	if err == nil {
		return
	}
	if r.failure == nil {
		r.failure = err
		if r.cfg.Warn != nil {
			r.cfg.Warn("trace not fully written: " + err.Error())
		}
	}
}

// Err returns the first error met in writing the run directory, or nil. A caller whose lowering
// went well exits 1 when it is not nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// Failed says whether something of the run could not be written.
func (r *Recorder) Failed() bool { return r.Err() != nil }

// Dir returns the run directory, or "" before the first record, without one, or when it could not
// be made.
func (r *Recorder) Dir() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run.Dir
}

// ScriptDir returns the directory that holds the input's runs and working copies, or "".
func (r *Recorder) ScriptDir() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w == nil {
		return ""
	}
	return r.w.scriptDir
}

// SnapshotPath returns where the text before or after a finished record is kept, or "".
func (r *Recorder) SnapshotPath(index int, after bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w == nil {
		return ""
	}
	return r.w.snapshotPath(index, after)
}

// Begin records that a pass starts on the module that prints as before. A pass begun while another
// is open is nested in it; only inside code generation passes stand at depth 0.
func (r *Recorder) Begin(p Pass, before Text) Handle { return r.begin(p, before, false) }

// BeginCodegen records that code generation starts. Passes begun until it ends get PhaseCodegen; the
// code generator's own record is numbered when it ends, after all of theirs.
func (r *Recorder) BeginCodegen(p Pass, before Text) Handle { return r.begin(p, before, true) }

// valid makes the names text that JSON keeps as it is.
func (p Pass) valid() Pass {
	for _, s := range []*string{&p.Name, &p.Phase, &p.Stage, &p.Doc} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
	}
	return p
}

func (r *Recorder) begin(p Pass, before Text, codegen bool) Handle {
	p = p.valid()
	r.mu.Lock()
	enter := r.cfg.Clock()
	r.start()
	o := &openRecord{parent: r.open, isCodegen: codegen}
	o.rec = LowerRecord{
		Phase: r.phase(p.Phase, codegen), Stage: p.Stage, Name: p.Name, Doc: p.Doc,
		BeforeText: before.Text, BeforeOrigins: before.Origins, HasBefore: true,
		Index: NoParent, ParentIndex: NoParent,
	}
	if r.open != nil && !r.open.isCodegen {
		o.rec.Depth = r.open.rec.Depth + 1
		o.rec.ParentIndex = r.open.rec.Index
	}
	if r.finished { // a signal handler ended the run: what still runs is not recorded
		r.open = o
		r.mu.Unlock()
		return Handle{o}
	}
	if !codegen {
		o.rec.Index = r.next
		r.next++
	}
	r.open = o
	if r.w != nil {
		r.fail(r.w.started(&o.rec))
	}
	rec := o.rec
	r.mu.Unlock()
	for _, ob := range r.cfg.Observers {
		if ob.Began != nil {
			ob.Began(rec)
		}
	}
	r.mu.Lock()
	now := r.cfg.Clock()
	r.overhead += now.Sub(enter)
	o.overhead = r.overhead
	o.started = now
	r.mu.Unlock()
	return Handle{o}
}

func (r *Recorder) phase(asked string, codegen bool) string {
	if codegen {
		return r.prefix + PhaseCodegen
	}
	for o := r.open; o != nil; o = o.parent {
		if o.isCodegen {
			return r.prefix + PhaseCodegen
		}
	}
	if asked == "" {
		asked = PhaseUnscoped
	}
	return r.prefix + asked
}

// ErrEndedWithOuter is the error of a record that was still open when the pass around it ended.
var ErrEndedWithOuter = errors.New("ended with the pass that ran it")

// End records how a pass ended and returns its record. With an error the record is failed and after
// is not looked at. Records still open inside it, left behind by a panic, end as failed with it.
// Ending a handle twice returns the record again and does nothing else.
func (r *Recorder) End(h Handle, after Text, err error, remarks []Remark) LowerRecord {
	if h.open == nil {
		panic("trace: End of a pass that never began")
	}
	r.mu.Lock()
	o := h.open
	if o.closed {
		rec := o.rec
		r.mu.Unlock()
		return rec
	}
	enter := r.cfg.Clock()
	var ended []LowerRecord
	for r.open != nil && r.open != o {
		inner := ErrEndedWithOuter
		if err != nil {
			inner = err
		}
		ended = append(ended, r.close(r.open, Text{}, inner, nil, enter))
	}
	ended = append(ended, r.close(o, after, err, remarks, enter))
	silent := r.finished
	r.mu.Unlock()
	if !silent {
		for _, rec := range ended {
			for _, ob := range r.cfg.Observers {
				if ob.Ended != nil {
					ob.Ended(rec)
				}
			}
		}
	}
	r.mu.Lock()
	r.overhead += r.cfg.Clock().Sub(enter)
	r.mu.Unlock()
	return o.rec
}

// close finishes one open record and writes it. The lock is held.
func (r *Recorder) close(o *openRecord, after Text, err error, remarks []Remark, now time.Time) LowerRecord {
	rec := &o.rec
	o.closed = true
	r.open = o.parent
	rec.Duration = now.Sub(o.started) - (r.overhead - o.overhead)
	if rec.Duration < 0 {
		rec.Duration = 0
	}
	rec.SelfDuration = rec.Duration - o.children
	if rec.SelfDuration < 0 {
		rec.SelfDuration = 0
	}
	if o.parent != nil {
		o.parent.children += rec.Duration
	}
	rec.Remarks = remarks
	switch {
	case err != nil:
		rec.Status = Failed
		rec.ErrorMsg = err.Error()
	default:
		rec.Status = Completed
		if o.isCodegen {
			rec.Status = Codegen
		}
		rec.AfterText, rec.AfterOrigins, rec.HasAfter = after.Text, after.Origins, true
		if rec.BeforeText != rec.AfterText {
			rec.Changed = true
			rec.AddLines, rec.DelLines = r.cfg.DiffStat(rec.BeforeText, rec.AfterText)
		}
	}
	if r.finished {
		return *rec
	}
	if o.isCodegen {
		rec.Index = r.next
		r.next++
	}
	r.insert(*rec)
	if r.w != nil {
		r.fail(r.w.record(rec))
	}
	return *rec
}

// insert keeps the records sorted by index: a pass ends after those it ran.
func (r *Recorder) insert(rec LowerRecord) {
	recs := append(r.run.Records, rec)
	i := len(recs) - 1
	for i > 0 && recs[i-1].Index > rec.Index {
		recs[i] = recs[i-1]
		i--
	}
	recs[i] = rec
	r.run.Records = recs
}

// Skip records that a pass the user named did not run, and why.
func (r *Recorder) Skip(p Pass, reason string) LowerRecord {
	p = p.valid()
	r.mu.Lock()
	enter := r.cfg.Clock()
	r.start()
	rec := LowerRecord{
		Phase: r.phase(p.Phase, false), Stage: p.Stage, Name: p.Name, Doc: p.Doc,
		Status: Skipped, ErrorMsg: reason, ParentIndex: NoParent, Index: r.next,
	}
	if r.open != nil && !r.open.isCodegen {
		rec.Depth = r.open.rec.Depth + 1
		rec.ParentIndex = r.open.rec.Index
	}
	if r.finished {
		r.mu.Unlock()
		return rec
	}
	r.next++
	r.insert(rec)
	if r.w != nil {
		r.fail(r.w.record(&rec))
	}
	r.mu.Unlock()
	for _, ob := range r.cfg.Observers {
		if ob.Ended != nil {
			ob.Ended(rec)
		}
	}
	r.mu.Lock()
	r.overhead += r.cfg.Clock().Sub(enter)
	r.mu.Unlock()
	return rec
}

// Ending is what is known only when a run is over.
type Ending struct {
	State     RunState        // empty: StateFailed when a record failed, else StateComplete
	Error     string          // what ended the run, where no record says it
	Generated []GeneratedFile // paths inside the script directory are made relative to it
	Arch      string          // replaces the manifest's when set
	Device    string          // likewise
}

// Finish ends the run: the journal is closed, trace.json and timing.json are written, the observers
// told. Passes still open stay unfinished in the journal. A second Finish does nothing. A run without
// a single record has no directory and stays without. It returns the run, whose Records are final.
func (r *Recorder) Finish(e Ending) *Run {
	r.mu.Lock()
	if r.finished {
		r.mu.Unlock()
		return &r.run
	}
	r.finished = true
	m := &r.run.Manifest
	m.State = e.State
	if m.State == "" {
		m.State = StateComplete
		if r.run.Failed() != nil || e.Error != "" {
			m.State = StateFailed
		}
	}
	m.Error = e.Error
	for _, g := range e.Generated {
		if r.w != nil {
			g.Path = below(r.w.scriptDir, g.Path)
		}
		m.Generated = append(m.Generated, g)
	}
	if e.Arch != "" {
		m.Arch = e.Arch
	}
	if e.Device != "" {
		m.Device = e.Device
	}
	for o := r.open; o != nil; o = o.parent {
		r.run.Unfinished = append(r.run.Unfinished, o.rec)
	}
	sort.SliceStable(r.run.Unfinished, func(i, j int) bool {
		return r.run.Unfinished[i].Depth < r.run.Unfinished[j].Depth
	})
	if r.w != nil {
		r.fail(r.w.finish(&r.run, r.cfg.Clock(), r.overhead))
	}
	r.mu.Unlock()
	for _, ob := range r.cfg.Observers {
		if ob.Done != nil {
			ob.Done(&r.run)
		}
	}
	return &r.run
}

// below makes a path inside dir relative to it, with slashes, and leaves any other as it is.
func below(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return filepath.ToSlash(rel)
}

// Overhead returns the time spent on recording so far, observers included; it is part of no
// record's time.
func (r *Recorder) Overhead() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overhead
}

// Run returns a copy of the run as it stands, for a report written while passes run.
func (r *Recorder) Run() *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.run
	c.Records = append([]LowerRecord(nil), r.run.Records...)
	return &c
}

// blockStat counts the lines between the common head and the common tail of two texts: exact for
// one changed place, an upper bound for several. It stands in where no diff engine is given.
func blockStat(before, after string) (add, del int) {
	a, b := linesOf(before), linesOf(after)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(b), len(a)
}

// linesOf splits a text into lines that keep their line feed, so that a missing last one counts.
func linesOf(s string) []string {
	l := strings.SplitAfter(s, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}
