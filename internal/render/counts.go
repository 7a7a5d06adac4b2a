package render

import (
	"sort"
	"time"

	"lowertrace/internal/trace"
)

// Counts sums a run up. Passes that ran inside others are not counted, and neither is the code
// generator's own record.
type Counts struct {
	Passes, Changed, Failed, Skipped int
	CUDALines                        int           // of the generated code, all texts
	Time                             time.Duration // of the outer records, the code generator's included

	names map[string]bool
}

// Count sums up records.
func Count(recs []trace.LowerRecord) Counts {
	c := Counts{names: map[string]bool{}}
	for i := range recs {
		r := &recs[i]
		c.names[r.Name] = true
		if r.Depth > 0 {
			continue
		}
		c.Time += r.Duration
		switch r.Status {
		case trace.Failed:
			c.Failed++
			if isCodegen(r) {
				continue
			}
			c.Passes++
		case trace.Skipped:
			c.Skipped++
		case trace.Codegen:
			c.CUDALines += countLines(r.AfterText)
		default:
			c.Passes++
			if r.Changed {
				c.Changed++
			}
		}
	}
	return c
}

func isCodegen(r *trace.LowerRecord) bool {
	return r.Status == trace.Codegen || r.Phase == trace.PhaseCodegen && r.Name == trace.PhaseCodegen
}

// TimingRow is the time that all runs of one pass took.
type TimingRow struct {
	Name  string
	Runs  int
	Total time.Duration // inclusive; nested runs inside the same pass are not counted twice
	Self  time.Duration
	Share float64 // of the run's time, from 0 to 1, by self time
}

// Timing adds up times by pass name, the greatest self time first.
func Timing(recs []trace.LowerRecord) []TimingRow {
	at := map[string]int{}
	var rows []TimingRow
	var whole time.Duration
	for i := range recs {
		r := &recs[i]
		k, ok := at[r.Name]
		if !ok {
			k = len(rows)
			at[r.Name] = k
			rows = append(rows, TimingRow{Name: r.Name})
		}
		rows[k].Runs++
		rows[k].Self += r.SelfDuration
		if !insideSameName(recs, r) {
			rows[k].Total += r.Duration
		}
		if r.Depth == 0 {
			whole += r.Duration
		}
	}
	for i := range rows {
		if whole > 0 {
			rows[i].Share = float64(rows[i].Self) / float64(whole)
		}
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].Self > rows[j].Self })
	return rows
}

func insideSameName(recs []trace.LowerRecord, r *trace.LowerRecord) bool {
	for parent := r.ParentIndex; parent != trace.NoParent; {
		k := sort.Search(len(recs), func(i int) bool { return recs[i].Index >= parent })
		if k == len(recs) || recs[k].Index != parent {
			return false
		}
		if recs[k].Name == r.Name {
			return true
		}
		if recs[k].ParentIndex >= parent {
			return false // damaged: a parent precedes its children
		}
		parent = recs[k].ParentIndex
	}
	return false
}

// WriteTiming writes the table of times by pass.
func (t *Terminal) WriteTiming(recs []trace.LowerRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.p.flush()
	st := t.p.st
	t.p.print(st.bold.Sprintf("%-40s %5s %10s %10s %6s", "pass", "runs", "inclusive", "self", "share"), "\n")
	for _, r := range Timing(recs) {
		name := EscapeLine(r.Name)
		if n := []rune(name); len(n) > 40 {
			name = string(n[:39]) + "…"
		}
		t.p.printf("%-40s %5d %10s %10s %5.1f%%\n", name, r.Runs, FormatDuration(r.Total), FormatDuration(r.Self), 100*r.Share)
	}
}
