package render

import (
	"fmt"
	"regexp"
	"strings"

	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// CompareOptions say what of a comparison of two runs is shown.
type CompareOptions struct {
	All      bool   // every diverging pass, not only the first
	Stat     bool   // a line for each diverging pass and no diffs
	NameOnly bool   // the names of diverging passes alone
	Pass     string // this pass alone, NAME or NAME#k or a record number of either run, differing or not
}

// Compare writes how two aligned runs differ: settings, the first diverging pass and the diff of
// its texts; all of them with o.All.
func (t *Terminal) Compare(al *trace.Alignment, o CompareOptions) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.p.flush()
	rows, err := selectPairs(al, o)
	if err != nil {
		return err
	}
	if o.NameOnly {
		for _, i := range rows {
			t.p.print(EscapeLine(al.Pairs[i].Name()), "\n")
		}
		return t.p.flush()
	}
	t.compareHead(al)
	if len(rows) == 0 {
		t.p.print(t.verdict(al), "\n")
		return t.p.flush()
	}
	if o.Pass == "" && al.InputDiffers {
		t.p.print("the inputs differ before the first pass\n\n")
	}
	for n, i := range rows {
		if n > 0 && !o.Stat {
			t.p.print("\n")
		}
		t.pair(al, i, o.Stat)
	}
	if o.Pass == "" {
		t.p.print("\n", t.verdict(al), "\n")
	}
	return t.p.flush()
}

func selectPairs(al *trace.Alignment, o CompareOptions) ([]int, error) {
	if o.Pass != "" {
		rows := findPairs(al, o.Pass)
		if len(rows) == 0 {
			return nil, fmt.Errorf("no pass %q in either run", o.Pass)
		}
		return rows, nil
	}
	rows := al.Diverging()
	if !o.All && !o.Stat && !o.NameOnly {
		for n, i := range rows {
			if p := al.Pairs[i]; !idle(p.A, p.B) {
				rows = rows[:n+1]
				break
			}
		}
	}
	return rows, nil
}

// idle says that a record stands alone and changed nothing: it counts as a difference, but the one
// that matters is still to come.
func idle(a, b *trace.LowerRecord) bool {
	if a != nil && b != nil {
		return false
	}
	if a == nil {
		a = b
	}
	return !a.Changed && a.Status == trace.Completed
}

// findPairs finds the rows that a selector names: a name, NAME#k, or a record number.
func findPairs(al *trace.Alignment, sel string) []int {
	match := func(run *trace.Run, r *trace.LowerRecord) bool {
		if r == nil {
			return false
		}
		if r.Name == sel || fmt.Sprint(r.Index) == sel {
			return true
		}
		base, _, ok := strings.Cut(sel, "#")
		if !ok || base != r.Name {
			return false
		}
		for i := range run.Records {
			if run.Records[i].Index == r.Index {
				return fmt.Sprintf("%s#%d", r.Name, trace.Occurrence(run.Records, i)) == sel
			}
		}
		return false
	}
	var rows []int
	for i, p := range al.Pairs {
		if match(al.A, p.A) || match(al.B, p.B) {
			rows = append(rows, i)
		}
	}
	return rows
}

// RunLabel names a run in one short word group.
func RunLabel(r *trace.Run) string {
	name := r.ID
	if name == "" {
		name = r.Function
	}
	if name == "" {
		name = r.InputName
	}
	if r.Target != "" {
		name += " (" + r.Target + ")"
	}
	return name
}

func (t *Terminal) compareHead(al *trace.Alignment) {
	st := t.p.st
	t.p.print(st.del.Sprint("A"), "  ", EscapeLine(RunLabel(al.A)), "\n")
	t.p.print(st.add.Sprint("B"), "  ", EscapeLine(RunLabel(al.B)), "\n")
	for _, s := range al.Settings {
		t.p.print("   ", EscapeLine(s.Name), ": ", st.del.Sprint(settingValue(s.A)), " → ", st.add.Sprint(settingValue(s.B)), "\n")
	}
	t.p.print("\n")
}

var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

func settingValue(s string) string {
	if s == "" {
		return "(none)"
	}
	if hash.MatchString(s) {
		return s[:12] + "…"
	}
	return EscapeLine(s)
}

func (t *Terminal) verdict(al *trace.Alignment) string {
	n := len(al.Diverging())
	if n == 0 {
		if al.StateDiffers {
			return fmt.Sprintf("the passes agree, but A is %s and B is %s", al.A.State, al.B.State)
		}
		return fmt.Sprintf("no difference in %d passes", len(al.Pairs))
	}
	first := al.Pairs[al.First]
	s := fmt.Sprintf("%d of %d passes differ; %s at %s", n, len(al.Pairs), t.p.st.bold.Sprint("first diverging"), EscapeLine(first.Name()))
	return s
}

func numbers(p trace.Pair) string {
	switch {
	case p.A == nil:
		return fmt.Sprintf("B %d", p.B.Index)
	case p.B == nil:
		return fmt.Sprintf("A %d", p.A.Index)
	case p.A.Index == p.B.Index:
		return fmt.Sprint(p.A.Index)
	}
	return fmt.Sprintf("A %d, B %d", p.A.Index, p.B.Index)
}

var kindText = map[trace.PairKind]string{
	trace.PairSame:     "same",
	trace.PairDiffers:  "differs",
	trace.PairInherits: "differs as before it",
	trace.PairOnlyA:    "only in A",
	trace.PairOnlyB:    "only in B",
}

// pair writes one row of an alignment.
func (t *Terminal) pair(al *trace.Alignment, i int, stat bool) {
	st := t.p.st
	p := al.Pairs[i]
	name := EscapeLine(p.Name())
	if p.Renamed {
		name = EscapeLine(p.A.Name + " / " + p.B.Name)
	}
	before, after, from, to := PairTexts(al, i)
	add, del := 0, 0
	d := textdiff.Compute(before, after, t.o.Diff.equality())
	if p.A != nil && p.B != nil {
		add, del = d.Stat()
	}
	line := fmt.Sprintf("%-12s %s%*s%s", numbers(p), st.bold.Sprint(name), max(nameWidth-displayWidth(name), 1), "", st.status[TagChanged].Sprint(kindText[p.Kind]))
	if add+del > 0 {
		line += "  " + st.add.Sprintf("+%d", add) + " " + st.del.Sprintf("-%d", del)
	}
	t.p.print(line, "\n")
	if p.Note != "" {
		t.wrapped("      ", 6, EscapeLine(p.Note))
	}
	if stat {
		return
	}
	for _, r := range []*trace.LowerRecord{p.A, p.B} {
		if r != nil && r.ErrorMsg != "" {
			side := "A"
			if r == p.B {
				side = "B"
			}
			t.wrapped("      "+side+" "+st.status[TagFailed].Sprint(Tag(r))+"  ", 17, EscapeLine(r.ErrorMsg))
		}
	}
	v := visibleHunks(d, t.o.Diff)
	if len(v.hunks) > 0 {
		t.p.print(st.del.Sprint("--- "+EscapeLine(from)), "\n", st.add.Sprint("+++ "+EscapeLine(to)), "\n")
	}
	t.p.shown(v, t.o.Diff)
	switch {
	case textdiff.FinalNewlineOnly(before, after):
		t.p.print(st.dim.Sprint("(the texts differ only in the final newline)"), "\n")
	case len(d.Ops) == 0 && before != after:
		t.p.print(st.dim.Sprint("(no difference but in what is ignored)"), "\n")
	case before == after && p.A != nil && p.B != nil:
		t.p.print(st.dim.Sprint("(the texts are equal)"), "\n")
	}
}

// PairTexts returns the two texts a row of an alignment compares, with names for them: the texts
// after the pass; the texts before where a side has none after, or where the inputs of the first
// diverging row differ already; for a
// record on one side only, its own text before and after.
func PairTexts(al *trace.Alignment, i int) (before, after, from, to string) {
	p := al.Pairs[i]
	label := func(side string, r *trace.LowerRecord, when string) string {
		return fmt.Sprintf("%s/%s/%02d_%s_%s", side, r.Phase, r.Index, r.Name, when)
	}
	switch {
	case p.A == nil:
		return p.B.BeforeText, p.B.AfterText, label("b", p.B, "before"), label("b", p.B, "after")
	case p.B == nil:
		return p.A.BeforeText, p.A.AfterText, label("a", p.A, "before"), label("a", p.A, "after")
	case i == al.First && al.InputDiffers, !p.A.HasAfter || !p.B.HasAfter:
		return p.A.BeforeText, p.B.BeforeText, label("a", p.A, "before"), label("b", p.B, "before")
	}
	return p.A.AfterText, p.B.AfterText, label("a", p.A, "after"), label("b", p.B, "after")
}

// ComparisonSchema is the version of the Comparison document.
const ComparisonSchema = 1

// Comparison is the comparison of two runs as data, for --json.
type Comparison struct {
	Schema       int              `json:"schema_version"`
	A            ComparedRun      `json:"a"`
	B            ComparedRun      `json:"b"`
	Equal        bool             `json:"equal"`
	First        *int             `json:"first_diverging,omitempty"` // position in Pairs
	InputDiffers bool             `json:"input_differs"`
	Settings     []ComparedOption `json:"settings"`
	Pairs        []ComparedPair   `json:"pairs"`
}

// ComparedRun names one side.
type ComparedRun struct {
	ID     string         `json:"id"`
	State  trace.RunState `json:"state"`
	Target string         `json:"target"`
}

// ComparedOption is a setting with different values.
type ComparedOption struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// ComparedPair is one row. A and B are record numbers, absent on a side without one.
type ComparedPair struct {
	Name string         `json:"name"`
	A    *int           `json:"a,omitempty"`
	B    *int           `json:"b,omitempty"`
	Kind trace.PairKind `json:"kind"`
	Note string         `json:"note,omitempty"`
	Add  int            `json:"add_lines"`
	Del  int            `json:"del_lines"`
	Diff string         `json:"diff,omitempty"` // unified; of the rows that the options select
}

// NewComparison gathers the document. Diffs are put into the rows that o selects: the first
// diverging one, all with o.All, none with o.Stat or o.NameOnly. Host code is never folded here.
func NewComparison(al *trace.Alignment, o CompareOptions, d DiffOptions) (*Comparison, error) {
	rows, err := selectPairs(al, o)
	if err != nil {
		return nil, err
	}
	selected := map[int]bool{}
	for _, i := range rows {
		selected[i] = !o.Stat && !o.NameOnly
	}
	c := &Comparison{
		Schema: ComparisonSchema, Equal: al.Equal(), InputDiffers: al.InputDiffers,
		A:        ComparedRun{al.A.ID, al.A.State, al.A.Target},
		B:        ComparedRun{al.B.ID, al.B.State, al.B.Target},
		Settings: []ComparedOption{}, Pairs: []ComparedPair{},
	}
	if al.First >= 0 {
		first := al.First
		c.First = &first
	}
	for _, s := range al.Settings {
		c.Settings = append(c.Settings, ComparedOption(s))
	}
	for i, p := range al.Pairs {
		row := ComparedPair{Name: p.Name(), Kind: p.Kind, Note: p.Note}
		if p.A != nil {
			row.A = &p.A.Index
		}
		if p.B != nil {
			row.B = &p.B.Index
		}
		if p.Diverging() || selected[i] {
			before, after, from, to := PairTexts(al, i)
			diff := textdiff.Compute(before, after, d.equality())
			row.Add, row.Del = diff.Stat()
			if selected[i] {
				var b strings.Builder
				diff.WriteUnified(&b, from, to, d.Context)
				row.Diff = b.String()
			}
		}
		c.Pairs = append(c.Pairs, row)
	}
	return c, nil
}
