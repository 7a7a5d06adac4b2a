package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// decoded is a report's data as the page reads it.
type decoded struct {
	lines   []string
	states  []decodedState
	passes  []*jsonPass
	rows    []*jsonRow
	chunks  int
	ended   bool
	broken  bool
	head    *jsonChunk
	lastMan *jsonManifest
	times   []int64
}

type decodedState struct {
	ids, origins []int32
	noEnd        bool
}

func (d *decoded) text(k int) string {
	var b strings.Builder
	for i, id := range d.states[k].ids {
		b.WriteString(d.lines[id])
		if i < len(d.states[k].ids)-1 || !d.states[k].noEnd {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// decodeReport reads the chunks of a report, whole or cut off, the way the page does: an element
// that is not closed or does not parse is passed over.
func decodeReport(t testing.TB, file []byte) *decoded {
	t.Helper()
	const open, shut = `<script type="application/json" class="lt">`, `</script>`
	d := &decoded{}
	rest := string(file)
	for {
		i := strings.Index(rest, open)
		if i < 0 {
			return d
		}
		rest = rest[i+len(open):]
		body := rest
		if j := strings.Index(rest, shut); j >= 0 {
			body, rest = rest[:j], rest[j:]
		} else {
			rest = ""
		}
		var c jsonChunk
		if err := json.Unmarshal([]byte(body), &c); err != nil {
			d.broken = true
			continue
		}
		d.chunks++
		if c.Lines != nil {
			d.lines = append(d.lines, strings.Split(*c.Lines, "\n")...)
		}
		for _, s := range c.States {
			d.states = append(d.states, d.state(s))
		}
		switch c.Kind {
		case "head":
			d.head = &c
		case "pass":
			d.passes = append(d.passes, c.Pass)
		case "row":
			d.rows = append(d.rows, c.Row)
		case "time":
			d.times = c.Times
		case "end":
			d.ended = true
			d.lastMan = c.Manifest
		}
	}
}

func (d *decoded) state(s jsonState) decodedState {
	var from decodedState
	if s.Parent >= 0 {
		from = d.states[s.Parent]
	}
	out := decodedState{noEnd: s.NoEnd == 1}
	at := 0
	runs := s.Origins
	keep := func(n int) {
		out.ids = append(out.ids, from.ids[at:at+n]...)
		if s.Known == 1 {
			if from.origins != nil {
				out.origins = append(out.origins, from.origins[at:at+n]...)
			} else {
				out.origins = append(out.origins, make([]int32, n)...)
			}
		}
		at += n
	}
	for o := s.Ops; len(o) > 0; {
		keep(int(o[0]))
		at += int(o[1])
		n := int(o[2])
		o = o[3:]
		for ; n > 0; n-- {
			for q := int32(0); q < o[1]; q++ {
				out.ids = append(out.ids, o[0]+q)
				if s.Known == 1 {
					out.origins = append(out.origins, runs[0])
					if runs[1]--; runs[1] == 0 {
						runs = runs[2:]
					}
				}
			}
			o = o[2:]
		}
	}
	keep(len(from.ids) - at)
	for i := 0; i < len(s.Moved); i += 2 {
		out.origins[s.Moved[i]] = s.Moved[i+1]
	}
	return out
}

// openCorpus reads a recorded lowering of the corpus as a foreign trace.
func openCorpus(t testing.TB, dir string) *trace.Run {
	t.Helper()
	sub, err := fs.Sub(corpus.FS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(t.TempDir(), filepath.FromSlash(dir))
	if err := os.MkdirAll(filepath.Dir(tmp), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(tmp, sub); err != nil {
		t.Fatal(err)
	}
	run, err := trace.Open(tmp, trace.OpenOptions{DiffStat: textdiff.Stat})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func report(t testing.TB, run *trace.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteReport(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// checkReport compares what the page would read with the run.
func checkReport(t *testing.T, run *trace.Run, d *decoded) {
	t.Helper()
	if len(d.passes) != len(run.Records) {
		t.Fatalf("%d passes, want %d", len(d.passes), len(run.Records))
	}
	for i, r := range run.Records {
		p := d.passes[i]
		if p.Name != r.Name || p.Index != r.Index || p.Status != string(r.Status) {
			t.Fatalf("record %d is %+v", i, p)
		}
		for _, side := range []struct {
			has     bool
			k       int
			text    string
			origins []int32
		}{{r.HasBefore, p.Before, r.BeforeText, r.BeforeOrigins}, {r.HasAfter, p.After, r.AfterText, r.AfterOrigins}} {
			if side.has != (side.k >= 0) {
				t.Fatalf("record %d: state %d, recorded %v", i, side.k, side.has)
			}
			if !side.has {
				continue
			}
			if got := d.text(side.k); got != strings.ToValidUTF8(side.text, "\ufffd") {
				t.Fatalf("record %d: text differs\n%s", i, textdiff.Unified("want", "got", side.text, got, 1))
			}
			if len(side.origins) == 0 {
				continue
			}
			want := make([]int32, len(d.states[side.k].ids))
			copy(want, side.origins)
			if got := d.states[side.k].origins; !reflect.DeepEqual(got, want) {
				t.Fatalf("record %d: origins %v, want %v", i, got, want)
			}
		}
	}
}

func TestReportHoldsTheRun(t *testing.T) {
	for _, dir := range []string{"gemm_f16/sm_80", "flash_attention/sm_90a", "softmax/sm_80"} {
		run := openCorpus(t, dir)
		file := report(t, run)
		d := decodeReport(t, file)
		checkReport(t, run, d)
		if !d.ended || d.broken {
			t.Errorf("%s: ended %v, broken %v", dir, d.ended, d.broken)
		}
		seen := map[string]bool{}
		for _, s := range d.lines {
			if seen[s] {
				t.Fatalf("%s: a line is stored twice: %s", dir, s)
			}
			seen[s] = true
		}
	}
}

// randomRun makes a run of texts that are edits of one another, with origins.
func randomRun(r *rand.Rand) *trace.Run {
	run := &trace.Run{}
	words := []string{"a", "b", "</script>", "<!--", "c\\", "\u2028", "", "  d", "\"q\"", "é"}
	var text string
	var origins []int32
	for i := 0; i < 12; i++ {
		rec := trace.LowerRecord{Index: i, Name: fmt.Sprint("P", i), Phase: "p", Status: trace.Completed, ParentIndex: trace.NoParent,
			BeforeText: text, BeforeOrigins: origins, HasBefore: true, HasAfter: true}
		if r.IntN(3) > 0 {
			lines := textdiff.Lines(text)
			for k := r.IntN(4); k >= 0; k-- {
				at := r.IntN(len(lines) + 1)
				lines = append(lines[:at:at], append([]string{words[r.IntN(len(words))] + "\n"}, lines[min(len(lines), at+r.IntN(2)):]...)...)
			}
			text = strings.Join(lines, "")
			if r.IntN(4) == 0 {
				text = strings.TrimSuffix(text, "\n")
			}
			origins = nil
			if r.IntN(4) > 0 {
				for range textdiff.Lines(text) {
					origins = append(origins, int32(r.IntN(4)))
				}
				origins = origins[:r.IntN(len(origins)+1)]
			}
		}
		rec.AfterText, rec.AfterOrigins = text, origins
		rec.Changed = rec.AfterText != rec.BeforeText
		run.Records = append(run.Records, rec)
	}
	return run
}

func TestReportHoldsRandomRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 0; n < 300; n++ {
		run := randomRun(r)
		file := report(t, run)
		checkReport(t, run, decodeReport(t, file))
		data := file[bytes.Index(file, []byte(`class="lt"`)):]
		for _, c := range bytes.Split(data, []byte("\n")) {
			if bytes.Count(c, []byte("<")) > 2 {
				t.Fatalf("text can end its element: %s", c)
			}
		}
	}
}

// A report cut off anywhere has everything up to the cut.
func TestReportCutOff(t *testing.T) {
	run := openCorpus(t, "vector_add/sm_80")
	file := report(t, run)
	start := bytes.Index(file, []byte(`class="lt"`))
	before := 0
	for at := start; at < len(file); at += 97 {
		d := decodeReport(t, file[:at])
		if len(d.passes) < before {
			t.Fatalf("cut at %d: %d passes, fewer than before", at, len(d.passes))
		}
		before = len(d.passes)
		for k := range d.states {
			d.text(k)
		}
		if d.ended {
			t.Fatalf("cut at %d: claims to be whole", at)
		}
	}
	if before < len(run.Records)-2 {
		t.Errorf("%d of %d passes at the last cut", before, len(run.Records))
	}
}

// countingWriter notes how often and how much was written.
type countingWriter struct {
	calls, bytes int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.calls++
	w.bytes += len(p)
	return len(p), nil
}

// bigRun is a run of passes over a text of that many lines, each of which changes a share of them.
func bigRun(passes, lines, changed int) *trace.Run {
	r := rand.New(rand.NewPCG(5, 5))
	run := &trace.Run{}
	run.Function = "big"
	text := make([]string, lines)
	fresh := func(i int) string {
		return fmt.Sprintf("%sbuf_%d[i_%d * %d + thread_binding // %d] = T.Cast(\"float16\", acc_%d[vec])\n",
			strings.Repeat("    ", 1+i%5), r.IntN(40), r.IntN(900), r.IntN(4096), 1<<r.IntN(7), r.IntN(64))
	}
	for i := range text {
		text[i] = fresh(i)
	}
	before := strings.Join(text, "")
	for p := 0; p < passes; p++ {
		for k := 0; k < changed; k++ {
			i := r.IntN(lines)
			text[i] = fresh(i)
		}
		after := strings.Join(text, "")
		add, del := changed, changed
		if before == after {
			add, del = 0, 0
		}
		run.Records = append(run.Records, trace.LowerRecord{
			Index: p, Name: fmt.Sprintf("Pass%d", p%40), Phase: "pipeline_cuda", Status: trace.Completed, ParentIndex: trace.NoParent,
			BeforeText: before, AfterText: after, HasBefore: true, HasAfter: true, Changed: before != after, AddLines: add, DelLines: del,
		})
		before = after
	}
	return run
}

func TestReportSizes(t *testing.T) {
	gemm := report(t, openCorpus(t, "gemm_f16/sm_80"))
	if len(gemm) > 600_000 {
		t.Errorf("the GEMM's report has %d bytes", len(gemm))
	}
	run := bigRun(200, 2000, 100)
	var w countingWriter
	if err := WriteReport(&w, run); err != nil {
		t.Fatal(err)
	}
	if w.bytes > 3_000_000 {
		t.Errorf("200 passes over 2,000 lines: %d bytes", w.bytes)
	}
	if want := len(run.Records) + 2; w.calls > want {
		t.Errorf("%d writes for %d records", w.calls, len(run.Records))
	}
	// Appending alone means that the bytes written are the bytes of the file.
	if size := len(report(t, run)); size != w.bytes {
		t.Errorf("%d bytes written, %d in the file", w.bytes, size)
	}
}

func TestReportIsTheSameTwice(t *testing.T) {
	run := openCorpus(t, "softmax/sm_80")
	if !bytes.Equal(report(t, run), report(t, run)) {
		t.Error("two reports of one run differ")
	}
}

func TestReportKeepsTimesApart(t *testing.T) {
	run := openCorpus(t, "vector_add/sm_80")
	plain := report(t, run)
	for i := range run.Records {
		run.Records[i].Duration = 1500
		run.Records[i].SelfDuration = 1500
	}
	timed := report(t, run)
	var diff []string
	add := func(b []byte) { diff = append(diff, string(b)) }
	p, q := bytes.Split(plain, []byte("\n")), bytes.Split(timed, []byte("\n"))
	have := map[string]bool{}
	for _, l := range p {
		have[string(l)] = true
	}
	for _, l := range q {
		if !have[string(l)] {
			add(l)
		}
	}
	if len(diff) != 1 || !strings.Contains(diff[0], `"k":"time"`) {
		t.Errorf("%d lines depend on the clock", len(diff))
	}
}

func TestReportStopsAtTheFirstError(t *testing.T) {
	w := &failingWriter{}
	if err := WriteReport(w, openCorpus(t, "vector_add/sm_80")); err == nil || w.n != 1 {
		t.Errorf("error %v after %d writes", err, w.n)
	}
}

func TestCompareReport(t *testing.T) {
	a, b := openCorpus(t, "gemm_f16/sm_80"), openCorpus(t, "gemm_f16/sm_90a")
	al := trace.Align(a, b)
	var out bytes.Buffer
	if err := WriteCompareReport(&out, al); err != nil {
		t.Fatal(err)
	}
	d := decodeReport(t, out.Bytes())
	if len(d.rows) != len(al.Pairs) || !d.ended {
		t.Fatalf("%d rows for %d pairs", len(d.rows), len(al.Pairs))
	}
	for i, row := range d.rows {
		before, after, _, _ := PairTexts(al, i)
		if row.Before >= 0 && (d.text(row.Before) != before || d.text(row.After) != after) {
			t.Fatalf("row %d: texts differ", i)
		}
	}
}

func TestTitleStaysText(t *testing.T) {
	run := &trace.Run{}
	run.Function = `</title><script>alert(1)</script>{{program}}`
	file := string(report(t, run))
	if strings.Contains(file, "<script>alert") || strings.Count(file, "function loadChunks") != 1 {
		t.Error("the title is taken as markup")
	}
}

func BenchmarkReportSoftmax(b *testing.B) {
	run := openCorpus(b, "softmax/sm_80")
	b.ReportAllocs()
	for b.Loop() {
		var w countingWriter
		WriteReport(&w, run)
		b.ReportMetric(float64(w.bytes), "bytes")
	}
}

func BenchmarkReportGEMM(b *testing.B) {
	run := openCorpus(b, "gemm_f16/sm_80")
	for b.Loop() {
		var w countingWriter
		WriteReport(&w, run)
		b.ReportMetric(float64(w.bytes), "bytes")
	}
}

func BenchmarkReport1000x20000(b *testing.B) {
	run := bigRun(1000, 20000, 40)
	for b.Loop() {
		var w countingWriter
		WriteReport(&w, run)
		b.ReportMetric(float64(w.bytes), "bytes")
	}
}

func BenchmarkReport200x2000(b *testing.B) {
	run := bigRun(200, 2000, 100)
	for b.Loop() {
		var w countingWriter
		WriteReport(&w, run)
		b.ReportMetric(float64(w.bytes), "bytes")
	}
}
