package trace

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// parseRun makes a run from lines "phase/Name before after"; "!" as after is a failed pass, a
// leading "> " a nested one, "CUDA" in the name the code generator.
func parseRun(t *testing.T, text string) *Run {
	t.Helper()
	run := &Run{}
	run.State = StateComplete
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		r := LowerRecord{Index: i, ParentIndex: NoParent, Status: Completed, HasBefore: true, HasAfter: true}
		if rest, ok := strings.CutPrefix(line, "> "); ok {
			line, r.Depth, r.ParentIndex = rest, 1, i-1
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("line %q", line)
		}
		r.Phase, r.Name, _ = strings.Cut(f[0], "/")
		r.BeforeText, r.AfterText = f[1], f[2]
		r.Duration = time.Duration(rand.Int64N(1000)) // times never count
		if f[2] == "!" {
			r.AfterText, r.HasAfter, r.Status, r.ErrorMsg = "", false, Failed, "boom"
			run.State = StateFailed
		}
		if r.Name == "codegen" {
			r.Status = Codegen
		}
		r.Changed = r.HasAfter && r.BeforeText != r.AfterText
		run.Records = append(run.Records, r)
	}
	return run
}

func formatAlignment(al *Alignment) string {
	var b strings.Builder
	for i, p := range al.Pairs {
		mark := " "
		if i == al.First {
			mark = "*"
		}
		side := func(r *LowerRecord) string {
			if r == nil {
				return "-"
			}
			return fmt.Sprintf("%d:%s", r.Index, r.Name)
		}
		fmt.Fprintf(&b, "%s%s %s %s", mark, side(p.A), side(p.B), p.Kind)
		if p.Renamed {
			b.WriteString(" renamed")
		}
		if p.Note != "" {
			b.WriteString(" (" + p.Note + ")")
		}
		b.WriteByte('\n')
	}
	if al.InputDiffers {
		b.WriteString("the input differs\n")
	}
	if al.StateDiffers {
		b.WriteString("the states differ\n")
	}
	return b.String()
}

func TestAlign(t *testing.T) {
	for _, c := range []struct{ name, a, b, want string }{
		{"equal", `
			p/A x y
			p/B y y`, `
			p/A x y
			p/B y y`, `
			 0:A 0:A same
			 1:B 1:B same`},
		{"one pass makes the difference", `
			p/A x y
			p/B y z
			p/C z z`, `
			p/A x y
			p/B y w
			p/C w w`, `
			 0:A 0:A same
			*1:B 1:B differs
			 2:C 2:C inherits`},
		{"the input differs", `
			p/A x y
			p/B y z`, `
			p/A u v
			p/B v z`, `
			*0:A 0:A inherits
			 1:B 1:B same
			the input differs`},
		{"a pass more on one side", `
			p/A x y
			p/Simplify y y
			p/B y z`, `
			p/A x y
			p/Tma y y
			p/Simplify y y
			p/B y z`, `
			 0:A 0:A same
			*- 1:Tma only-b
			 1:Simplify 2:Simplify same
			 2:B 3:B same`},
		{"repeated names meet where the texts are equal", `
			p/Simplify a b
			p/A b c
			p/Simplify c d
			p/Simplify d e`, `
			p/A b c
			p/Simplify c d
			p/Simplify d e`, `
			*0:Simplify - only-a
			 1:A 0:A same
			 2:Simplify 1:Simplify same
			 3:Simplify 2:Simplify same
			the input differs`},
		{"a failure", `
			p/A x y
			p/B y z
			p/C z z`, `
			p/A x y
			p/B y !`, `
			 0:A 0:A same
			*1:B 1:B differs (status completed against failed)
			 2:C - only-a
			the states differ`},
		{"other phases", `
			pipeline_cuda/A x y
			pipeline_cuda/B y z
			codegen/codegen z c`, `
			LowerAndLegalize/A x y
			OptimizeForTarget/B y z
			codegen/codegen z c`, `
			 0:A 0:A same renamed
			 1:B 1:B same renamed
			 2:codegen 2:codegen same`},
		{"of two passes of one name the one in the same phase is taken", `
			p/S x x
			q/S x x`, `
			q/S x x`, `
			*0:S - only-a
			 1:S 0:S same`},
		{"nested records pair with nested ones", `
			p/Lower x y
			> p/Simplify i j
			p/Simplify y z`, `
			p/Lower x y
			p/Simplify y z`, `
			 0:Lower 0:Lower same
			*1:Simplify - only-a
			 2:Simplify 1:Simplify same`},
		{"unnamed passes of another tracer", `
			unscoped/NestedLoopChecker x x
			unscoped/FragmentLoopChecker x x
			p/A x y
			unscoped/HoistBroadcastValues y z`, `
			unscoped/pass_fn x x
			unscoped/pass_fn x x
			p/A x y
			unscoped/pass_fn y z`, `
			 0:NestedLoopChecker 0:pass_fn same renamed
			 1:FragmentLoopChecker 1:pass_fn same renamed
			 2:A 2:A same
			 3:HoistBroadcastValues 3:pass_fn same renamed`},
		{"nothing in common", `
			p/A x y`, `
			p/B x y`, `
			*0:A - only-a
			 - 0:B only-b`},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.ReplaceAll(strings.TrimPrefix(c.want, "\n"), "\t", "") + "\n"
			al := Align(parseRun(t, c.a), parseRun(t, c.b))
			if got := formatAlignment(al); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			if al.Equal() != (al.First < 0 && !al.StateDiffers) || (len(al.Diverging()) == 0) != (al.First < 0) {
				t.Errorf("Equal %v, Diverging %v, First %d", al.Equal(), al.Diverging(), al.First)
			}
			// The other way round finds the same pairs.
			back := formatAlignment(Align(parseRun(t, c.b), parseRun(t, c.a)))
			if strings.Count(back, "same") != strings.Count(want, "same") || strings.Count(back, "only-a") != strings.Count(want, "only-b") {
				t.Errorf("reversed:\n%s", back)
			}
		})
	}
}

// Two targets of one kernel: what only Hopper runs stands alone, all else is paired by name.
func TestAlignTargets(t *testing.T) {
	dir := unpack(t, "softmax")
	a, err := Open(filepath.Join(dir, "sm_80"), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(filepath.Join(dir, "sm_90a"), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	al := Align(a, b)
	paired := 0
	for _, p := range al.Pairs {
		if p.A != nil && p.B != nil {
			paired++
			if p.A.Name != p.B.Name {
				t.Errorf("%s is paired with %s", p.A.Name, p.B.Name)
			}
		}
		if p.Kind == PairOnlyA {
			t.Errorf("%s runs on both targets and stands alone", p.A.Name)
		}
	}
	if paired != len(a.Records) {
		t.Errorf("%d of %d records paired", paired, len(a.Records))
	}
	if p := al.Pairs[al.First]; p.Name() != "BindTarget" || p.Kind != PairDiffers || al.InputDiffers {
		t.Errorf("first difference: %s %s", p.Name(), p.Kind)
	}
	if len(al.Settings) != 1 || al.Settings[0] != (Setting{"target", "sm_80", "sm_90a"}) {
		t.Errorf("settings %v", al.Settings)
	}
}

// Our texts end in a line feed and another tracer's do not: that alone is no difference.
func TestAlignWithForeignRun(t *testing.T) {
	a, b := parseRun(t, "p/A x y"), parseRun(t, "p/A x y")
	a.Records[0].BeforeText, a.Records[0].AfterText = "x\n", "y\n"
	if al := Align(a, b); al.Equal() {
		t.Error("a missing last line feed is no difference between two runs of ours")
	}
	b.Foreign = ForeignTileLang
	if al := Align(a, b); !al.Equal() {
		t.Errorf("against another tracer's run:\n%s", formatAlignment(al))
	}
}

func TestAlignSettings(t *testing.T) {
	a, b := &Run{}, &Run{}
	a.Target, b.Target = "sm_80", "sm_80"
	a.Options = []Option{{"N", "1"}, {"skip", "A"}, {"skip", "B"}}
	b.Options = []Option{{"N", "2"}, {"skip", "A"}}
	a.PassConfig = []Option{{"tl.x", "true"}}
	a.InputHash, b.InputHash = "1", "2"
	var got []string
	for _, s := range Align(a, b).Settings {
		got = append(got, fmt.Sprintf("%s: %q %q", s.Name, s.A, s.B))
	}
	want := `input hash: "1" "2"; pass config tl.x: "true" ""; N: "1" "2"; skip: "A, B" "A"`
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// The table's matching is as heavy as the best of all order-preserving ones, and the method for long
// runs gives an order-preserving one too.
func TestAlignTableIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	names := []string{"A", "B", "Simplify"}
	random := func() []LowerRecord {
		recs := make([]LowerRecord, rng.IntN(6))
		for i := range recs {
			recs[i] = LowerRecord{Index: i, Name: names[rng.IntN(3)], Phase: names[rng.IntN(2)], Status: Completed,
				HasBefore: true, HasAfter: true, BeforeText: names[rng.IntN(2)], AfterText: names[rng.IntN(2)]}
		}
		return recs
	}
	for range 400 {
		nums := textNumbers{ids: map[string]int{}}
		a, b := nums.records(random()), nums.records(random())
		weigh := func(m [][2]int) (w int32) {
			for k, p := range m {
				pw := pairWeight(&a[p[0]], &b[p[1]])
				if pw == 0 || k > 0 && (p[0] <= m[k-1][0] || p[1] <= m[k-1][1]) {
					t.Fatalf("not an order-preserving matching: %v", m)
				}
				w += pw
			}
			return w
		}
		var best func(i, j int) int32
		best = func(i, j int) int32 {
			if i == len(a) || j == len(b) {
				return 0
			}
			w := max(best(i+1, j), best(i, j+1))
			if pw := pairWeight(&a[i], &b[j]); pw > 0 {
				w = max(w, pw+best(i+1, j+1))
			}
			return w
		}
		if got, want := weigh(alignTable(a, b)), best(0, 0); got != want {
			t.Fatalf("weight %d, the best is %d", got, want)
		}
		if got, want := weigh(alignRecords(a, b)), best(0, 0); got != want {
			t.Fatalf("with equal ends taken off: weight %d, the best is %d", got, want)
		}
		weigh(alignByOccurrence(a, b))
	}
}

// Ten thousand records align in a moment, with one pass inserted in the middle of a run.
func TestAlignLongRuns(t *testing.T) {
	make := func(extra int) *Run {
		r := &Run{}
		for i := range 10_000 {
			if i == extra {
				r.Records = append(r.Records, LowerRecord{Index: len(r.Records), Name: "Extra", HasBefore: true, HasAfter: true})
			}
			// Each run has its own texts, so that nothing can be taken off the ends.
			r.Records = append(r.Records, LowerRecord{Index: len(r.Records), Name: fmt.Sprintf("P%d", i%70),
				HasBefore: true, HasAfter: true, BeforeText: fmt.Sprint(i, extra), AfterText: fmt.Sprint(i+1, extra)})
		}
		return r
	}
	start := time.Now()
	al := Align(make(-1), make(5000))
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	alone := 0
	for _, p := range al.Pairs {
		if p.Kind == PairOnlyB && p.B.Name == "Extra" {
			alone++
		} else if p.A == nil || p.B == nil {
			t.Errorf("%s stands alone", p.Name())
		}
	}
	if alone != 1 {
		t.Errorf("%d extra records", alone)
	}
}
