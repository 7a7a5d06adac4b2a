package render

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"sync"

	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// The report is one HTML file: the viewer (markup, style, program) followed by chunks of data, each
// a script element of type application/json on one line. Nothing written is ever touched again, so
// that a report costs one write for each record, and a file that was cut off opens with everything
// before the cut. The page needs nothing but itself.
//
// Chunks, by their key k. Every chunk may begin with new lines of text (l, joined by line feeds) and
// new states (s); both are numbered from 0 over the whole file in the order of their appearance.
//
//	head   schema, man: the manifest, src: the state that is the source text or -1, cmp: a comparison
//	pass   one record; b and a are the states before and after, or -1
//	row    one row of a comparison; b and a are the states of the two runs
//	time   t: index, inclusive and self time in microseconds for each record, flat
//	end    man: the manifest as it is at the end, notes
//
// A state is the edits that make it of an earlier state p (-1: of nothing): o is a flat list of
// groups [keep, drop, runs, (first line, count) × runs]; what follows the last group is kept. nn is 1
// where the last line lacks its line end. go is 1 where the lines' origins are known: g then gives
// those of the new lines, run-length encoded as origin, count, and x lists position, origin of kept
// lines whose origin is another than in p.

// ReportSchema is the version of the report's data.
const ReportSchema = 1

//go:embed report/page.html
var pageHTML string

//go:embed report/style.css
var pageCSS string

//go:embed report/data.js
var jsData string

//go:embed report/diff.js
var jsDiff string

//go:embed report/syntax.js
var jsSyntax string

//go:embed report/rows.js
var jsRows string

//go:embed report/view.js
var jsView string

//go:embed report/list.js
var jsList string

//go:embed report/follow.js
var jsFollow string

//go:embed report/outline.js
var jsOutline string

//go:embed report/panels.js
var jsPanels string

//go:embed report/app.js
var jsApp string

// ReportWriter writes a report record by record. Its methods may be called from several
// goroutines. Each makes one call of Write. The first error is kept and returned by all that follow.
type ReportWriter struct {
	mu     sync.Mutex
	w      io.Writer
	err    error
	lines  map[string]int32
	states map[string][]int // by text; states of one text differ in their origins
	table  []reportState
	last   int // the state of the latest text, which the next is written as an edit of
	times  []int64
	ended  bool

	newLines  []string
	newStates []jsonState
}

// reportState is a state as the writer remembers it. Of all but the latest the lines' numbers are
// forgotten, and found again from the text when an older state comes up once more.
type reportState struct {
	text    string
	given   []int32 // the origins as they were given, possibly shorter than the text
	ids     []int32 // a number for each line
	origins []int32 // one for each line, or nil
}

type jsonState struct {
	Parent  int     `json:"p"`
	Ops     []int32 `json:"o,omitempty"`
	NoEnd   int     `json:"nn,omitempty"`
	Known   int     `json:"go,omitempty"`
	Origins []int32 `json:"g,omitempty"`
	Moved   []int32 `json:"x,omitempty"`
}

type jsonChunk struct {
	Kind   string      `json:"k"`
	Lines  *string     `json:"l,omitempty"`
	States []jsonState `json:"s,omitempty"`

	Schema     int           `json:"schema,omitempty"`
	Manifest   *jsonManifest `json:"man,omitempty"`
	Source     *int          `json:"src,omitempty"`
	Comparison *jsonCompare  `json:"cmp,omitempty"`
	Pass       *jsonPass     `json:"pass,omitempty"`
	Row        *jsonRow      `json:"row,omitempty"`
	Times      []int64       `json:"t,omitempty"`
	Notes      []string      `json:"notes,omitempty"`
}

// jsonManifest adds what the manifest keeps out of trace.json.
type jsonManifest struct {
	trace.Manifest
	ID           string `json:"id,omitempty"`
	InvocationID string `json:"invocation_id,omitempty"`
}

type jsonPass struct {
	Index   int            `json:"i"`
	Name    string         `json:"n"`
	Phase   string         `json:"ph"`
	Stage   string         `json:"st,omitempty"`
	Doc     string         `json:"doc,omitempty"`
	Status  string         `json:"s"`
	Error   string         `json:"err,omitempty"`
	Depth   int            `json:"d,omitempty"`
	Parent  int            `json:"par"`
	Add     int            `json:"add,omitempty"`
	Del     int            `json:"del,omitempty"`
	Changed bool           `json:"c,omitempty"`
	Remarks []trace.Remark `json:"rem,omitempty"`
	Before  int            `json:"b"`
	After   int            `json:"a"`
}

type jsonCompare struct {
	A        string           `json:"a"`
	B        string           `json:"b"`
	First    int              `json:"first"`
	Input    bool             `json:"input,omitempty"`
	Settings []ComparedOption `json:"settings"`
	B2       *jsonManifest    `json:"bman"`
}

type jsonRow struct {
	Name   string         `json:"n"`
	Kind   trace.PairKind `json:"kind"`
	Note   string         `json:"note,omitempty"`
	Error  string         `json:"err,omitempty"`
	Phase  string         `json:"ph"`
	Stage  string         `json:"st,omitempty"`
	Doc    string         `json:"doc,omitempty"`
	AIndex int            `json:"ai"`
	BIndex int            `json:"bi"`
	Add    int            `json:"add,omitempty"`
	Del    int            `json:"del,omitempty"`
	Before int            `json:"b"`
	After  int            `json:"a"`
}

// NewReportWriter writes the viewer and the head of a run's report to w.
func NewReportWriter(w io.Writer, m trace.Manifest) *ReportWriter {
	title := m.Function
	if title == "" {
		title = m.InputName
	}
	r := newReport(w)
	c := jsonChunk{Kind: "head", Schema: ReportSchema, Manifest: manifestOf(m)}
	src := -1
	if m.Source != "" {
		src = r.state(m.Source, nil)
	}
	c.Source = &src
	r.write(&c, viewer(title))
	r.last = -1
	return r
}

func newReport(w io.Writer) *ReportWriter {
	return &ReportWriter{w: w, lines: map[string]int32{}, states: map[string][]int{}, last: -1}
}

func manifestOf(m trace.Manifest) *jsonManifest {
	return &jsonManifest{Manifest: m, ID: m.ID, InvocationID: m.InvocationID}
}

// viewer returns the page without its data.
func viewer(title string) []byte {
	if title == "" {
		title = "lowering"
	}
	var b bytes.Buffer
	heading := html.EscapeString(EscapeLine(title))
	rest := pageHTML
	for {
		i := strings.Index(rest, "{{")
		if i < 0 {
			b.WriteString(rest)
			return b.Bytes()
		}
		j := i + strings.Index(rest[i:], "}}")
		b.WriteString(rest[:i])
		switch rest[i+2 : j] {
		case "title", "heading":
			b.WriteString(heading)
		case "style":
			b.WriteString(pageCSS)
		case "program":
			b.WriteString("\"use strict\";(()=>{\n")
			for _, js := range []string{jsData, jsDiff, jsSyntax, jsRows, jsView, jsList, jsFollow, jsOutline, jsPanels, jsApp} {
				b.WriteString(js)
			}
			b.WriteString("})();\n")
		}
		rest = rest[j+2:]
	}
}

// Record appends a record. A record without a status is one that had begun when its run was cut
// off.
func (r *ReportWriter) Record(rec trace.LowerRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &jsonPass{
		Index: rec.Index, Name: rec.Name, Phase: rec.Phase, Stage: rec.Stage, Doc: rec.Doc,
		Status: string(rec.Status), Error: rec.ErrorMsg, Depth: rec.Depth, Parent: rec.ParentIndex,
		Add: rec.AddLines, Del: rec.DelLines, Changed: rec.Changed, Remarks: rec.Remarks,
		Before: -1, After: -1,
	}
	if rec.HasBefore {
		p.Before = r.state(rec.BeforeText, rec.BeforeOrigins)
	}
	if rec.HasAfter {
		p.After = r.state(rec.AfterText, rec.AfterOrigins)
	}
	if rec.Duration > 0 {
		r.times = append(r.times, int64(rec.Index), rec.Duration.Microseconds(), rec.SelfDuration.Microseconds())
	}
	r.write(&jsonChunk{Kind: "pass", Pass: p}, nil)
	return r.err
}

// Finish appends the times and the run's last word. A report that never was finished says so.
func (r *ReportWriter) Finish(run *trace.Run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return r.err
	}
	r.ended = true
	if len(r.times) > 0 {
		r.write(&jsonChunk{Kind: "time", Times: r.times}, nil)
	}
	r.write(&jsonChunk{Kind: "end", Manifest: manifestOf(run.Manifest), Notes: run.Notes}, nil)
	return r.err
}

// Observer returns the callbacks that feed the report from a recorder.
func (r *ReportWriter) Observer() trace.Observer {
	return trace.Observer{
		Ended: func(rec trace.LowerRecord) { r.Record(rec) },
		Done:  func(run *trace.Run) { r.Finish(run) },
	}
}

// Err returns the first error of writing.
func (r *ReportWriter) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// WriteReport writes the whole report of a run.
func WriteReport(w io.Writer, run *trace.Run) error {
	r := NewReportWriter(w, run.Manifest)
	for _, rec := range run.Records {
		r.Record(rec)
	}
	for _, rec := range run.Unfinished {
		r.Record(rec)
	}
	return r.Finish(run)
}

// WriteCompareReport writes two aligned runs side by side.
func WriteCompareReport(w io.Writer, al *trace.Alignment) error {
	r := newReport(w)
	c := jsonChunk{Kind: "head", Schema: ReportSchema, Manifest: manifestOf(al.A.Manifest), Comparison: &jsonCompare{
		A: RunLabel(al.A), B: RunLabel(al.B), First: al.First, Input: al.InputDiffers,
		Settings: []ComparedOption{}, B2: manifestOf(al.B.Manifest),
	}}
	for _, s := range al.Settings {
		c.Comparison.Settings = append(c.Comparison.Settings, ComparedOption(s))
	}
	src := -1
	c.Source = &src
	r.write(&c, viewer(fmt.Sprintf("%s against %s", RunLabel(al.A), RunLabel(al.B))))
	for i, p := range al.Pairs {
		row := &jsonRow{Name: p.Name(), Kind: p.Kind, Note: p.Note, AIndex: -1, BIndex: -1, Before: -1, After: -1}
		if p.B != nil {
			row.BIndex, row.Phase, row.Stage, row.Doc, row.Error = p.B.Index, p.B.Phase, p.B.Stage, p.B.Doc, p.B.ErrorMsg
		}
		if p.A != nil {
			row.AIndex, row.Phase, row.Stage, row.Doc = p.A.Index, p.A.Phase, p.A.Stage, p.A.Doc
			if p.A.ErrorMsg != "" {
				row.Error = strings.TrimPrefix(row.Error+"; ", "; ") + p.A.ErrorMsg
			}
		}
		before, after, _, _ := PairTexts(al, i)
		if before != "" || after != "" {
			row.Before, row.After = r.state(before, nil), r.state(after, nil)
			row.Add, row.Del = textdiff.Stat(before, after)
		}
		r.write(&jsonChunk{Kind: "row", Row: row}, nil)
	}
	r.write(&jsonChunk{Kind: "end", Manifest: manifestOf(al.A.Manifest), Notes: slices.Concat(al.A.Notes, al.B.Notes)}, nil)
	return r.err
}

// state returns the number of a text with those origins, adding it where it is new.
func (r *ReportWriter) state(text string, origins []int32) int {
	for _, k := range r.states[text] {
		if slices.Equal(r.table[k].given, origins) {
			r.last = k
			return k
		}
	}
	st := reportState{text: text, given: origins}
	r.number(&st)
	js := jsonState{Parent: r.last}
	if text != "" && !strings.HasSuffix(text, "\n") {
		js.NoEnd = 1
	}
	var parent reportState
	if r.last >= 0 {
		r.number(&r.table[r.last])
		parent = r.table[r.last]
		r.table[r.last].ids, r.table[r.last].origins = nil, nil
	}
	ops := textdiff.Ints(parent.ids, st.ids)
	at := 0
	for _, op := range ops {
		js.Ops = append(js.Ops, int32(op.A0-at), int32(op.A1-op.A0))
		js.Ops = appendRuns(js.Ops, st.ids[op.B0:op.B1])
		at = op.A1
	}
	if st.origins != nil {
		js.Known = 1
		js.Origins, js.Moved = originEdits(parent, st, ops)
	}
	k := len(r.table)
	r.table = append(r.table, st)
	r.newStates = append(r.newStates, js)
	r.states[text] = append(r.states[text], k)
	r.last = k
	return k
}

// number fills in a state's line numbers and origins where they are missing, numbering new lines.
func (r *ReportWriter) number(st *reportState) {
	if st.ids != nil {
		return
	}
	lines := textdiff.Lines(st.text)
	st.ids = make([]int32, len(lines))
	for i, s := range lines {
		s = strings.TrimSuffix(s, "\n")
		id, ok := r.lines[s]
		if !ok {
			id = int32(len(r.lines))
			r.lines[s] = id
			r.newLines = append(r.newLines, s)
		}
		st.ids[i] = id
	}
	if len(st.given) > 0 {
		st.origins = make([]int32, len(lines))
		copy(st.origins, st.given)
	}
}

// appendRuns appends the number of runs of consecutive numbers, and the runs.
func appendRuns(out, ids []int32) []int32 {
	head := len(out)
	out = append(out, 0)
	for i := 0; i < len(ids); {
		j := i + 1
		for j < len(ids) && ids[j] == ids[j-1]+1 {
			j++
		}
		out = append(out, ids[i], int32(j-i))
		out[head]++
		i = j
	}
	return out
}

// originEdits encodes a state's origins against its parent's.
func originEdits(parent, st reportState, ops []textdiff.Op) (runs, moved []int32) {
	kept := func(a, b, n int) {
		for i := 0; i < n; i++ {
			was := int32(0)
			if parent.origins != nil {
				was = parent.origins[a+i]
			}
			if is := st.origins[b+i]; is != was {
				moved = append(moved, int32(b+i), is)
			}
		}
	}
	a, b := 0, 0
	for _, op := range ops {
		kept(a, b, op.A0-a)
		for _, o := range st.origins[op.B0:op.B1] {
			if n := len(runs); n > 0 && runs[n-2] == o {
				runs[n-1]++
			} else {
				runs = append(runs, o, 1)
			}
		}
		a, b = op.A1, op.B1
	}
	kept(a, b, len(parent.ids)-a)
	return runs, moved
}

// write appends a chunk, with the new lines and states so far, behind a prefix.
func (r *ReportWriter) write(c *jsonChunk, prefix []byte) {
	if r.err != nil {
		return
	}
	if len(r.newLines) > 0 {
		l := strings.Join(r.newLines, "\n")
		c.Lines = &l
		r.newLines = nil
	}
	c.States, r.newStates = r.newStates, nil
	var b bytes.Buffer
	b.Write(prefix)
	b.WriteString(`<script type="application/json" class="lt">`)
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if r.err = enc.Encode(c); r.err != nil {
		return
	}
	// No text may end the element early or begin a comment in it. "<" stands in JSON strings only.
	b.Write(bytes.ReplaceAll(bytes.TrimSuffix(body.Bytes(), []byte("\n")), []byte("<"), []byte(`\u003c`)))
	b.WriteString("</script>\n")
	_, r.err = r.w.Write(b.Bytes())
}
