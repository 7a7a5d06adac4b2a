package trace

import (
	"sort"
	"strings"
)

// PairKind says how two aligned records compare.
type PairKind string

const (
	// PairSame is two records with the same text after and the same status.
	PairSame PairKind = "same"
	// PairDiffers is two records whose texts after, or whose status or error, differ although the
	// texts before are equal: this pass made the difference.
	PairDiffers PairKind = "differs"
	// PairInherits is two records whose texts after differ and whose texts before differed already.
	PairInherits PairKind = "inherits"
	// PairOnlyA and PairOnlyB are a record that one side alone has.
	PairOnlyA PairKind = "only-a"
	PairOnlyB PairKind = "only-b"
)

// Pair is one row of an alignment. A or B is nil for a record that the other side alone has. The
// pointers lead into the runs' Records.
type Pair struct {
	A, B *LowerRecord
	Kind PairKind
	// Renamed is set where the two are one pass under two names (see the alias table) or phases.
	Renamed bool
	// Note says in a few words what makes the pair different when it is not the text: "status
	// completed against failed".
	Note string
}

// Name is the pair's pass name; A's where both have one, unless A's is a bare pass_fn.
func (p Pair) Name() string {
	switch {
	case p.A == nil:
		return p.B.Name
	case p.B == nil || p.A.Name != unnamedPass:
		return p.A.Name
	}
	return p.B.Name
}

// Diverging says whether the pair counts as a difference.
func (p Pair) Diverging() bool { return p.Kind != PairSame }

// Setting is one manifest entry in which two runs differ.
type Setting struct{ Name, A, B string }

// Alignment is two runs compared pass by pass. Times never count.
type Alignment struct {
	A, B  *Run
	Pairs []Pair
	// First is the position in Pairs of the first diverging pair, or -1 when there is none.
	First int
	// InputDiffers says that at the first pair the texts before differ already: no pass made the
	// difference, the inputs did.
	InputDiffers bool
	// StateDiffers says that one run failed or was cut off and the other was not.
	StateDiffers bool
	// Settings are the differences of target, pipeline, options, input and tool.
	Settings []Setting
}

// Equal says whether the runs show the same passes with the same texts and ends.
func (a *Alignment) Equal() bool { return a.First < 0 && !a.StateDiffers }

// Diverging lists the positions of all diverging pairs.
func (a *Alignment) Diverging() []int {
	var out []int
	for i, p := range a.Pairs {
		if p.Diverging() {
			out = append(out, i)
		}
	}
	return out
}

// unnamedPass is the name of a TileLang pass that is a bare function.
const unnamedPass = "pass_fn"

// aliasOfUnnamed is the alias table: what an unnamed pass may be under its own name: the checkers that run before a
// lowering, recognised by their suffix, and the pass before code generation.
func aliasOfUnnamed(name string) bool {
	return strings.HasSuffix(name, "Checker") || strings.HasSuffix(name, "Check") || name == "HoistBroadcastValues"
}

// samePass says whether two records may stand for one pass.
func samePass(a, b *LowerRecord) (same, renamed bool) {
	if a.Depth != b.Depth || (a.Status == Codegen) != (b.Status == Codegen) && a.Status != Failed && b.Status != Failed {
		return false, false
	}
	if a.Name == b.Name {
		return true, a.Phase != b.Phase
	}
	if a.Status == Codegen && b.Status == Codegen {
		return true, true
	}
	if a.Name == unnamedPass && aliasOfUnnamed(b.Name) || b.Name == unnamedPass && aliasOfUnnamed(a.Name) {
		return true, true
	}
	return false, false
}

// Alignment weights: a pair always beats two lone records, and among several partners of one name
// the one with the same phase and the same texts wins.
const (
	weightPair  = 8
	weightPhase = 2
	weightText  = 1

	// maxAlignCells bounds the table of the exact alignment; longer runs are paired by occurrence.
	maxAlignCells = 32 << 20
)

// alignRec is a record with its texts by number, so that comparing texts costs nothing.
type alignRec struct {
	*LowerRecord
	before, after int // -1 for a text that was not recorded
}

// textNumbers gives equal texts of two runs equal numbers.
type textNumbers struct {
	ids map[string]int
	// chomp leaves out a last line feed: our texts end in one, other tracers' do not.
	chomp bool
}

func (t *textNumbers) number(s string, has bool) int {
	if !has {
		return -1
	}
	if t.chomp {
		s = strings.TrimSuffix(s, "\n")
	}
	id, ok := t.ids[s]
	if !ok {
		id = len(t.ids)
		t.ids[s] = id
	}
	return id
}

func (t *textNumbers) records(recs []LowerRecord) []alignRec {
	out := make([]alignRec, len(recs))
	for i := range recs {
		r := &recs[i]
		out[i] = alignRec{r, t.number(r.BeforeText, r.HasBefore), t.number(r.AfterText, r.HasAfter)}
	}
	return out
}

func pairWeight(a, b *alignRec) int32 {
	same, _ := samePass(a.LowerRecord, b.LowerRecord)
	if !same {
		return 0
	}
	w := int32(weightPair)
	if a.Phase == b.Phase {
		w += weightPhase
	}
	if a.before == b.before {
		w += weightText
	}
	if a.after == b.after {
		w += weightText
	}
	return w
}

// Align pairs the records of two runs in order: by name and depth, preferring equal phases and
// texts, so that runs for different targets or through different pipelines meet again after the
// passes that only one of them has. Where one run is another tracer's, a last line feed is no
// difference, for our texts end in one and theirs do not.
func Align(a, b *Run) *Alignment {
	al := &Alignment{A: a, B: b, First: -1, Settings: settingDiffs(a, b)}
	nums := textNumbers{ids: map[string]int{}, chomp: (a.Foreign == "") != (b.Foreign == "")}
	ra, rb := nums.records(a.Records), nums.records(b.Records)
	matches := alignRecords(ra, rb)
	i, j := 0, 0
	lone := func(toA, toB int) {
		// The lone records of both sides between two matches are shown in the order of their indices.
		for i < toA || j < toB {
			if j >= toB || i < toA && a.Records[i].Index <= b.Records[j].Index {
				al.Pairs = append(al.Pairs, Pair{A: &a.Records[i], Kind: PairOnlyA})
				i++
			} else {
				al.Pairs = append(al.Pairs, Pair{B: &b.Records[j], Kind: PairOnlyB})
				j++
			}
		}
	}
	for _, m := range matches {
		lone(m[0], m[1])
		al.Pairs = append(al.Pairs, comparePair(ra[i], rb[j]))
		i++
		j++
	}
	lone(len(a.Records), len(b.Records))
	for k, p := range al.Pairs {
		if p.Diverging() {
			al.First = k
			al.InputDiffers = p.Kind == PairInherits
			break
		}
	}
	if al.First >= 0 && !al.InputDiffers && al.Pairs[al.First].Kind != PairDiffers {
		// A lone record comes first; it is the inputs that differ when the first records already do.
		x, y := firstBefore(ra), firstBefore(rb)
		al.InputDiffers = x >= 0 && y >= 0 && x != y
	}
	al.StateDiffers = a.State != b.State
	return al
}

// firstBefore is the number of the text a run started from, or -1.
func firstBefore(recs []alignRec) int {
	for i := range recs {
		if recs[i].before >= 0 {
			return recs[i].before
		}
	}
	return -1
}

func comparePair(a, b alignRec) Pair {
	p := Pair{A: a.LowerRecord, B: b.LowerRecord, Kind: PairSame}
	_, p.Renamed = samePass(p.A, p.B)
	// A text that was not kept on one side says nothing.
	differ := func(x, y int) bool { return x != y && x >= 0 && y >= 0 }
	switch {
	case a.Status != b.Status:
		p.Kind = PairDiffers
		p.Note = "status " + string(a.Status) + " against " + string(b.Status)
	case a.Status == Failed && a.ErrorMsg != b.ErrorMsg:
		p.Kind = PairDiffers
		p.Note = "the error messages differ"
	case differ(a.after, b.after), a.Status == Failed && differ(a.before, b.before):
		p.Kind = PairDiffers
	}
	if p.Kind == PairDiffers && differ(a.before, b.before) {
		p.Kind = PairInherits
	}
	return p
}

// alignRecords returns the matched positions, ascending on both sides.
func alignRecords(a, b []alignRec) [][2]int {
	var head, tail [][2]int
	i, n, m := 0, len(a), len(b)
	// Equal ends need no table. Only records equal in all that weighs are taken off, for others might
	// find a better partner further in.
	const full = weightPair + weightPhase + 2*weightText
	for i < n && i < m && pairWeight(&a[i], &b[i]) == full {
		head = append(head, [2]int{i, i})
		i++
	}
	for n > i && m > i && pairWeight(&a[n-1], &b[m-1]) == full {
		n--
		m--
		tail = append(tail, [2]int{n, m})
	}
	mid := alignTable(a[i:n], b[i:m])
	for _, p := range mid {
		head = append(head, [2]int{p[0] + i, p[1] + i})
	}
	for k := len(tail) - 1; k >= 0; k-- {
		head = append(head, tail[k])
	}
	return head
}

// alignTable finds the heaviest order-preserving matching by dynamic programming.
func alignTable(a, b []alignRec) [][2]int {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return nil
	}
	if n > maxAlignCells/m {
		return alignByOccurrence(a, b)
	}
	w := m + 1
	best := make([]int32, (n+1)*w) // best[i*w+j]: weight of the best matching of a[i:] and b[j:]
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			v := max(best[(i+1)*w+j], best[i*w+j+1])
			if pw := pairWeight(&a[i], &b[j]); pw > 0 {
				v = max(v, pw+best[(i+1)*w+j+1])
			}
			best[i*w+j] = v
		}
	}
	var out [][2]int
	for i, j := 0, 0; i < n && j < m; {
		v := best[i*w+j]
		if pw := pairWeight(&a[i], &b[j]); pw > 0 && v == pw+best[(i+1)*w+j+1] {
			out = append(out, [2]int{i, j})
			i++
			j++
		} else if v == best[(i+1)*w+j] {
			i++
		} else {
			j++
		}
	}
	return out
}

// alignByOccurrence pairs the k-th record of a name and depth with the k-th of the other side and
// keeps the longest increasing run of those pairs. Linear but for a logarithm; less exact.
func alignByOccurrence(a, b []alignRec) [][2]int {
	type key struct {
		name  string
		depth int
		k     int
	}
	at := map[key]int{}
	seen := map[key]int{}
	for j := range b {
		k := key{b[j].Name, b[j].Depth, 0}
		seen[k]++
		k.k = seen[k]
		at[k] = j
	}
	clear(seen)
	var pairs [][2]int
	for i := range a {
		k := key{a[i].Name, a[i].Depth, 0}
		seen[k]++
		k.k = seen[k]
		if j, ok := at[k]; ok {
			if same, _ := samePass(a[i].LowerRecord, b[j].LowerRecord); same {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	// Longest increasing subsequence of the second members.
	var ends []int // position in pairs of the smallest last member of each length
	prev := make([]int, len(pairs))
	for p := range pairs {
		n := sort.Search(len(ends), func(k int) bool { return pairs[ends[k]][1] >= pairs[p][1] })
		prev[p] = -1
		if n > 0 {
			prev[p] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, p)
		} else {
			ends[n] = p
		}
	}
	var out [][2]int
	if len(ends) > 0 {
		for p := ends[len(ends)-1]; p >= 0; p = prev[p] {
			out = append(out, pairs[p])
		}
	}
	for l, r := 0, len(out)-1; l < r; l, r = l+1, r-1 {
		out[l], out[r] = out[r], out[l]
	}
	return out
}

// settingDiffs lists what two manifests differ in, of what can explain a difference of texts.
func settingDiffs(a, b *Run) []Setting {
	var out []Setting
	add := func(name, x, y string) {
		if x != y {
			out = append(out, Setting{name, x, y})
		}
	}
	add("input", a.InputName, b.InputName)
	if a.InputHash != "" && b.InputHash != "" {
		add("input hash", a.InputHash, b.InputHash)
	}
	add("function", a.Function, b.Function)
	add("target", a.Target, b.Target)
	add("arch", a.Arch, b.Arch)
	add("pipeline", a.Pipeline, b.Pipeline)
	options := func(kind string, x, y []Option) {
		xs, ys := optionMap(x), optionMap(y)
		names := make([]string, 0, len(xs)+len(ys))
		for n := range xs {
			names = append(names, n)
		}
		for n := range ys {
			if _, ok := xs[n]; !ok {
				names = append(names, n)
			}
		}
		sort.Strings(names)
		for _, n := range names {
			add(kind+n, xs[n], ys[n])
		}
	}
	options("pass config ", a.PassConfig, b.PassConfig)
	options("", a.Options, b.Options)
	add("tool", strings.TrimSpace(a.Tool+" "+a.ToolVersion), strings.TrimSpace(b.Tool+" "+b.ToolVersion))
	return out
}

// optionMap joins the values of an option given several times.
func optionMap(opts []Option) map[string]string {
	m := map[string]string{}
	for _, o := range opts {
		if v, ok := m[o.Name]; ok {
			m[o.Name] = v + ", " + o.Value
		} else {
			m[o.Name] = o.Value
		}
	}
	return m
}
