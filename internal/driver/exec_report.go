package driver

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"lowertrace/internal/gpu"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/launch"
	"lowertrace/internal/trace"
)

// execSchema is the version of what `exec --json` prints.
const execSchema = 1

// ExecReport is what exec found, and the document of --json. Times are in
// microseconds, sizes in bytes.
type ExecReport struct {
	Schema     int          `json:"exec_schema_version"`
	Function   string       `json:"function"`
	Lowered    string       `json:"lowered_for"`
	Compiled   string       `json:"compiled_for"`
	GPU        string       `json:"gpu"`
	Copy       string       `json:"working_copy,omitempty"`
	CopyState  string       `json:"working_copy_state,omitempty"`
	CopyNote   string       `json:"working_copy_note,omitempty"`
	RunDir     string       `json:"run_dir,omitempty"`
	Right      bool         `json:"right"`
	Answer     ExecVerdict  `json:"answer"`
	Kernels    []ExecKernel `json:"kernels"`
	Time       *ExecTime    `json:"time,omitempty"`
	NotTimed   string       `json:"not_timed,omitempty"`
	Work       *ExecWork    `json:"work,omitempty"`
	Warnings   []string     `json:"warnings,omitempty"`
	work       work
	device     gpu.Device
	copyResult trace.CopyResult
}

// ExecVerdict says how the answer was judged.
type ExecVerdict struct {
	From        string          `json:"from"`                   // "interpreter" or the folder of expected arrays
	Blocks      int             `json:"blocks,omitempty"`       // interpreted, when not all were
	TotalBlocks int             `json:"total_blocks,omitempty"` // of the launch
	Buffers     []BufferVerdict `json:"buffers"`
	Outside     []string        `json:"written_outside,omitempty"` // buffers beside which something was written
	Changed     []string        `json:"inputs_changed,omitempty"`
}

// BufferVerdict is the comparison of one output.
type BufferVerdict struct {
	Name      string  `json:"name"`
	Right     bool    `json:"right"`
	Identical bool    `json:"identical,omitempty"`
	Elements  int     `json:"elements"`
	Compared  int     `json:"compared"`
	Wrong     int     `json:"wrong,omitempty"`
	MaxError  float64 `json:"max_error"` // relative to |want| + rms(want); -1 for infinity
	Tolerance float64 `json:"tolerance"`
	Unordered bool    `json:"unordered,omitempty"`
	FirstBad  []int   `json:"first_bad,omitempty"`
	Got       string  `json:"got,omitempty"`
	Want      string  `json:"want,omitempty"`
	Unwritten bool    `json:"unwritten,omitempty"` // nothing was written to the first bad element
	Note      string  `json:"note,omitempty"`
}

// ExecKernel is what one kernel uses.
type ExecKernel struct {
	Name       string   `json:"name"`
	Grid       [3]int64 `json:"grid"`
	Block      [3]int64 `json:"block"`
	Registers  int      `json:"registers"`
	Stack      int      `json:"stack"`
	SpillStore int      `json:"spill_store"`
	SpillLoad  int      `json:"spill_load"`
	Shared     int      `json:"shared"`            // static and dynamic
	PerSM      int      `json:"blocks_per_sm"`     // resident at once, by the driver
	Occupancy  float64  `json:"occupancy_percent"` // of the warps an SM can hold
	Limits     []string `json:"limited_by,omitempty"`
	Micros     float64  `json:"us,omitempty"` // median by itself, where there are several
}

// ExecTime is how long the function takes.
type ExecTime struct {
	Runs       int     `json:"runs"`
	Flushed    float64 `json:"flushed_us"`      // median, nothing in the L2 cache before
	BackToBack float64 `json:"back_to_back_us"` // average of runs that follow each other
}

// ExecWork is what the function computes and moves, and at which rate with the
// L2 cache flushed. A rate is of the median; percent is of the device's peak.
type ExecWork struct {
	Flops        float64 `json:"flops"`
	Exact        bool    `json:"flops_exact"`
	Bytes        float64 `json:"bytes"` // arguments read and written once
	GFlops       float64 `json:"gflop_per_s,omitempty"`
	GBytes       float64 `json:"gb_per_s,omitempty"`
	PeakUnit     string  `json:"peak_unit"` // what the arithmetic peak is of: "float32", "float16 tensor cores"
	PeakGFlops   float64 `json:"peak_gflop_per_s,omitempty"`
	PeakGBytes   float64 `json:"peak_gb_per_s,omitempty"`
	FlopsPercent float64 `json:"flop_percent,omitempty"`
	BytesPercent float64 `json:"bytes_percent,omitempty"`
}

func (x *execution) newReport(l *lowered, obj *gpu.Object) *ExecReport {
	r := &ExecReport{
		Schema: execSchema, Function: l.spec.Name, Lowered: x.job.target.Arch, Compiled: obj.Arch,
		Copy: l.copy.Path, CopyState: string(l.copy.State), CopyNote: l.copy.Message,
		device: x.gpu.Device(), copyResult: l.copy,
	}
	r.GPU = r.device.Name
	if l.run != nil {
		r.RunDir = l.run.Dir
	}
	for _, m := range obj.Messages {
		r.Warnings = append(r.Warnings, m.String())
	}
	return r
}

// take fills a verdict from a comparison.
func (b *BufferVerdict) take(d interp.Difference) {
	b.Right, b.Identical = d.Verdict != interp.Wrong, d.Verdict == interp.Identical
	b.Unordered, b.Note = d.Unordered, d.Note
	if b.MaxError = d.MaxError; d.MaxError > 1e308 {
		b.MaxError = -1 // JSON has no infinity
	}
	if d.Verdict == interp.Wrong && d.Note == "" {
		b.Wrong, b.FirstBad = d.Count, d.Index
		b.Got, b.Want = fmt.Sprint(d.Got), fmt.Sprint(d.Want)
	}
}

// measure fills in what the kernels use and how fast they are.
func (r *ExecReport) measure(spec *launch.Spec, env launch.Env, obj *gpu.Object, res *gpuResult) {
	at := 0
	for i := range spec.Launches {
		l := &spec.Launches[i]
		k := ExecKernel{Name: l.Kernel}
		threads, empty := int64(1), false
		for d := range 3 {
			k.Grid[d], _ = l.Grid[d].Eval(env)
			k.Block[d], _ = l.Block[d].Eval(env)
			threads *= k.Block[d]
			empty = empty || k.Grid[d] == 0
		}
		smem, _ := l.SMem.Eval(env)
		for _, c := range obj.Kernels {
			if c.Name == l.Kernel {
				k.Registers, k.Stack, k.SpillStore, k.SpillLoad = c.Registers, c.Stack, c.SpillStores, c.SpillLoads
				k.Shared = c.Shared + int(smem)
			}
		}
		if sm, ok := gpu.LookupSM(r.device.Arch()); ok {
			o := sm.Occupancy(int(threads), k.Registers, k.Shared)
			k.PerSM, k.Limits = o.Blocks, o.Limits
			if !empty && at < len(res.resident) {
				k.PerSM = res.resident[at]
			}
			warps := (threads + 31) / 32
			k.Occupancy = 100 * float64(int64(k.PerSM)*warps) / float64(sm.Warps)
		} else if !empty && at < len(res.resident) {
			k.PerSM = res.resident[at]
		}
		if !empty {
			if at < len(res.launches) {
				k.Micros = micros(res.launches[at])
			}
			at++
		}
		r.Kernels = append(r.Kernels, k)
	}
	w := &ExecWork{Flops: r.work.Flops, Exact: r.work.Exact, Bytes: r.work.Bytes, PeakUnit: "float32"}
	r.Work = w
	clock := float64(r.device.ClockKHz) * 1e3
	if sm, ok := gpu.LookupSM(r.device.Arch()); ok {
		rate := sm.Float32
		if r.work.Tensor > 0 {
			if t := sm.TensorRate(r.work.TensorType); t > 0 {
				rate, w.PeakUnit = t, r.work.TensorType+" tensor cores"
			}
		}
		w.PeakGFlops = float64(rate) * float64(r.device.SMs) * clock / 1e9
	}
	// Two transfers per clock: all these memories send on both edges.
	w.PeakGBytes = 2 * float64(r.device.MemoryClockKHz) * 1e3 * float64(r.device.MemoryBusBits) / 8 / 1e9
	if res.timing == nil {
		return
	}
	t := gpu.Median(res.timing.Flushed)
	r.Time = &ExecTime{Runs: len(res.timing.Flushed), Flushed: micros(t), BackToBack: micros(res.timing.BackToBack)}
	if s := t.Seconds(); s > 0 {
		w.GFlops, w.GBytes = w.Flops/s/1e9, w.Bytes/s/1e9
		if w.PeakGFlops > 0 {
			w.FlopsPercent = 100 * w.GFlops / w.PeakGFlops
		}
		if w.PeakGBytes > 0 {
			w.BytesPercent = 100 * w.GBytes / w.PeakGBytes
		}
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// write prints the report for people.
func (r *ExecReport) write(w io.Writer) error {
	var padded, out strings.Builder
	r.layOut(&padded)
	for line := range strings.Lines(padded.String()) { // columns are padded, the last too
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return outputError(err)
}

func (r *ExecReport) layOut(w io.Writer) {
	fmt.Fprintf(w, "%s · lowered for %s, compiled for %s · %s\n\n", r.Function, r.Lowered, r.Compiled, r.GPU)
	for _, m := range r.Warnings {
		fmt.Fprintln(w, m)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "kernel\tgrid\tblock\tregisters\tstack\tspills\tshared\tper SM\toccupancy\t")
	for _, k := range r.Kernels {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d/%d\t%d\t%d\t%.0f %%%s\t", k.Name, dims(k.Grid), dims(k.Block),
			k.Registers, k.Stack, k.SpillStore, k.SpillLoad, k.Shared, k.PerSM, k.Occupancy, limitText(k.Limits))
		if k.Micros > 0 {
			fmt.Fprintf(t, "%s µs", sig(k.Micros))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if r.Copy != "" {
		text := r.Copy
		if r.CopyState != string(trace.CopyUnchanged) {
			text += fmt.Sprintf("   %s: %s", r.CopyState, r.CopyNote)
		}
		fmt.Fprintf(t, "code\t%s\n", text)
		if r.copyResult.Command != "" {
			fmt.Fprintf(t, "your edit\t%s\n", r.copyResult.Command)
		}
	}
	for i, line := range r.answerLines() {
		label := ""
		if i == 0 {
			label = "answer"
		}
		fmt.Fprintf(t, "%s\t%s\n", label, line)
	}
	switch {
	case r.Time != nil:
		fmt.Fprintf(t, "time\t%s µs with L2 flushed (median of %d), %s µs back to back\n", sig(r.Time.Flushed), r.Time.Runs, sig(r.Time.BackToBack))
	case r.NotTimed != "":
		fmt.Fprintf(t, "time\tnot measured: %s\n", r.NotTimed)
	}
	if k := r.Work; k != nil {
		about := ""
		if !k.Exact {
			about = "at most "
		}
		if k.Flops > 0 {
			fmt.Fprintf(t, "work\t%s%s\n", about, count(k.Flops, "FLOP")+rateText(k.GFlops, k.FlopsPercent, k.PeakGFlops, "FLOP/s", k.PeakUnit))
		}
		fmt.Fprintf(t, "memory\t%s\n", count(k.Bytes, "B")+" read or written once"+rateText(k.GBytes, k.BytesPercent, k.PeakGBytes, "B/s", "memory"))
	}
	t.Flush()
}

// answerLines say whether the answer is right, and what is wrong.
func (r *ExecReport) answerLines() []string {
	a := &r.Answer
	from := "expected arrays in " + a.From
	if a.From == "interpreter" {
		from = "the interpreter"
		if a.Blocks > 0 {
			from += fmt.Sprintf(", %d of %d blocks", a.Blocks, a.TotalBlocks)
		}
	}
	var lines []string
	if r.Right {
		lines = append(lines, "right, by "+from)
	} else {
		lines = append(lines, "WRONG, by "+from)
	}
	for _, n := range a.Outside {
		lines = append(lines, fmt.Sprintf("memory beside buffer %s was written", n))
	}
	for _, n := range a.Changed {
		lines = append(lines, fmt.Sprintf("input %s was changed", n))
	}
	if len(a.Buffers) == 0 {
		lines = append(lines, "no output was compared")
	}
	for _, b := range a.Buffers {
		lines = append(lines, b.text())
	}
	return lines
}

func (b *BufferVerdict) text() string {
	what := fmt.Sprintf("%d elements", b.Elements)
	if b.Compared < b.Elements {
		what = fmt.Sprintf("%d of %d elements", b.Compared, b.Elements)
	}
	if b.Unordered {
		what += " in any order"
	}
	err := fmt.Sprintf("max error %.2g", b.MaxError)
	if b.MaxError < 0 {
		err = "max error infinite"
	}
	if b.Tolerance > 0 {
		err += fmt.Sprintf(", tolerance %.2g", b.Tolerance)
	}
	switch {
	case b.Note != "":
		return fmt.Sprintf("%s: %s", b.Name, b.Note)
	case !b.Right:
		at := strings.ReplaceAll(strings.Trim(fmt.Sprint(b.FirstBad), "[]"), " ", ", ")
		got := b.Got
		if b.Unwritten {
			got = "never written"
		}
		return fmt.Sprintf("%s[%s] is %s, want %s: first of %d wrong among %s (%s)", b.Name, at, got, b.Want, b.Wrong, what, err)
	case b.Compared == 0:
		return fmt.Sprintf("%s: none of its %d elements could be compared", b.Name, b.Elements)
	case b.Identical:
		return fmt.Sprintf("%s: %s, identical", b.Name, what)
	}
	return fmt.Sprintf("%s: %s, %s", b.Name, what, err)
}

func dims(d [3]int64) string {
	s := fmt.Sprint(d[0])
	if d[1] != 1 || d[2] != 1 {
		s += fmt.Sprintf("×%d", d[1])
	}
	if d[2] != 1 {
		s += fmt.Sprintf("×%d", d[2])
	}
	return s
}

func limitText(limits []string) string {
	if len(limits) == 0 {
		return ""
	}
	return " (limit: " + strings.Join(limits, ", ") + ")"
}

// rateText is a rate, in 10⁹ of a unit, and its share of the device's peak.
func rateText(rate, percent, peak float64, unit, of string) string {
	if rate == 0 {
		return ""
	}
	s := " · " + count(rate*1e9, unit)
	if peak > 0 {
		s += fmt.Sprintf(", %s %% of the %s peak of %s", sig(percent), of, count(peak*1e9, unit))
	}
	return s
}

// sig prints a number with three significant digits and no exponent.
func sig(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

// count prints a number of units with a decimal prefix.
func count(x float64, unit string) string {
	for _, p := range []struct {
		at     float64
		prefix string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if x >= p.at {
			return fmt.Sprintf("%s %s%s", sig(x/p.at), p.prefix, unit)
		}
	}
	return fmt.Sprintf("%.0f %s", x, unit)
}
