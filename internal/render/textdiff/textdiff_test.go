package textdiff

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/hexops/gotextdiff"
)

// lcs is the length of a longest common subsequence, by the textbook table.
func lcs(a, b []int32) int {
	t := make([][]int, len(a)+1)
	for i := range t {
		t[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				t[i][j] = t[i+1][j+1] + 1
			} else {
				t[i][j] = max(t[i+1][j], t[i][j+1])
			}
		}
	}
	return t[0][0]
}

// checkOps verifies that ops lead from a to b and are separated; it returns the edits they make.
func checkOps(t *testing.T, a, b []int32, ops []Op) int {
	t.Helper()
	i, j, edits := 0, 0, 0
	for n, op := range ops {
		if op.A0 > op.A1 || op.B0 > op.B1 || op.A0 == op.A1 && op.B0 == op.B1 {
			t.Fatalf("op %d is empty or reversed: %+v", n, op)
		}
		if n > 0 && op.A0 == i {
			t.Fatalf("op %d touches the one before: %+v", n, ops)
		}
		if op.A0-i != op.B0-j {
			t.Fatalf("op %d: unequal gap: %+v", n, ops)
		}
		for i < op.A0 {
			if a[i] != b[j] {
				t.Fatalf("kept elements differ at %d, %d", i, j)
			}
			i++
			j++
		}
		edits += op.A1 - op.A0 + op.B1 - op.B0
		i, j = op.A1, op.B1
	}
	if len(a)-i != len(b)-j {
		t.Fatalf("unequal tail: %+v", ops)
	}
	for ; i < len(a); i, j = i+1, j+1 {
		if a[i] != b[j] {
			t.Fatalf("kept elements differ at %d, %d", i, j)
		}
	}
	return edits
}

func randomInts(r *rand.Rand, n, kinds int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(r.IntN(kinds))
	}
	return out
}

func TestIntsAreShortest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 0; n < 20000; n++ {
		kinds := 1 + r.IntN(6)
		a, b := randomInts(r, r.IntN(14), kinds), randomInts(r, r.IntN(14), kinds)
		edits := checkOps(t, a, b, Ints(a, b))
		if want := len(a) + len(b) - 2*lcs(a, b); edits != want {
			t.Fatalf("%v to %v: %d edits, shortest is %d", a, b, edits, want)
		}
	}
}

// Mid-sized inputs stay within the exact search too.
func TestIntsAreShortestMidSize(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 0; n < 30; n++ {
		a := randomInts(r, 400, 2+r.IntN(60))
		b := append([]int32(nil), a...)
		for k := r.IntN(200); k > 0; k-- {
			b[r.IntN(len(b))] = int32(r.IntN(80))
		}
		edits := checkOps(t, a, b, Ints(a, b))
		if want := len(a) + len(b) - 2*lcs(a, b); edits != want {
			t.Fatalf("%d edits, shortest is %d", edits, want)
		}
	}
}

// Beyond the exact search the result must still be right, and near the shortest.
func TestIntsBeyondBudget(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, kinds := range []int{2, 5, 50, 3000, 1 << 20} {
		a, b := randomInts(r, 7000, kinds), randomInts(r, 6000, kinds)
		edits := checkOps(t, a, b, Ints(a, b))
		if want := len(a) + len(b) - 2*lcs(a, b); edits > want*5/4 {
			t.Errorf("%d kinds: %d edits, shortest is %d", kinds, edits, want)
		}
	}
	// A shuffle has only unique elements: the anchors are the longest increasing run.
	a := make([]int32, 20000)
	for i, p := range r.Perm(len(a)) {
		a[i] = int32(p)
	}
	b := make([]int32, len(a))
	for i := range b {
		b[i] = int32(i)
	}
	checkOps(t, a, b, Ints(a, b))
}

func randomText(r *rand.Rand) string {
	words := []string{"", "a", "b", "    c", "--- x", "+++ y", "@@ -1 +1 @@", "é", "\\ no", "d\r", "-", "+"}
	var b strings.Builder
	n := r.IntN(12)
	for i := 0; i < n; i++ {
		b.WriteString(words[r.IntN(len(words))])
		if i < n-1 || r.IntN(3) > 0 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// applyUnified is a small patch: it reads a unified diff as text and applies it strictly.
func applyUnified(before, diff string) (string, error) {
	if diff == "" {
		return before, nil
	}
	src := Lines(before)
	lines := Lines(diff)
	var out strings.Builder
	at := 0
	lines = lines[2:]
	for len(lines) > 0 {
		var fields = strings.Fields(lines[0])
		if len(fields) != 4 || fields[0] != "@@" {
			return "", fmt.Errorf("bad hunk header %q", lines[0])
		}
		parse := func(s string) (line, n int, err error) {
			l, c, ok := strings.Cut(s[1:], ",")
			if line, err = strconv.Atoi(l); err != nil {
				return
			}
			n = 1
			if ok {
				n, err = strconv.Atoi(c)
			}
			return
		}
		fl, fn, err := parse(fields[1])
		if err != nil {
			return "", err
		}
		tl, tn, err := parse(fields[2])
		if err != nil {
			return "", err
		}
		lines = lines[1:]
		start := fl - 1
		if fn == 0 {
			start = fl
		}
		if start < at || start > len(src) {
			return "", fmt.Errorf("hunk out of place at %d", fl)
		}
		for at < start {
			out.WriteString(src[at])
			at++
		}
		wantTo := tl - 1
		if tn == 0 {
			wantTo = tl
		}
		if got := len(Lines(out.String())); got != wantTo {
			return "", fmt.Errorf("hunk says it starts behind line %d of the result, which has %d", wantTo, got)
		}
		for fn > 0 || tn > 0 {
			if len(lines) == 0 {
				return "", fmt.Errorf("hunk cut off")
			}
			sign, body := lines[0][0], lines[0][1:]
			lines = lines[1:]
			if len(lines) > 0 && lines[0] == NoNewline+"\n" {
				body = strings.TrimSuffix(body, "\n")
				lines = lines[1:]
			}
			if sign != '+' {
				if at >= len(src) || src[at] != body {
					return "", fmt.Errorf("line %d is not %q", at+1, body)
				}
				at++
				fn--
			}
			if sign != '-' {
				out.WriteString(body)
				tn--
			}
		}
	}
	for _, s := range src[at:] {
		out.WriteString(s)
	}
	return out.String(), nil
}

func TestUnifiedApplies(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := 0; n < 5000; n++ {
		a, b := randomText(r), randomText(r)
		context := r.IntN(5)
		diff := Unified("a", "b", a, b, context)
		got, err := applyUnified(a, diff)
		if err != nil || got != b {
			t.Fatalf("context %d\n%q\n%q\n%s\n%v, got %q", context, a, b, diff, err, got)
		}
		if got := Compute(a, b, Options{}).Apply(); got != b {
			t.Fatalf("ops of %q give %q, want %q", a, got, b)
		}
		if diff == "" != (a == b) {
			t.Fatalf("diff of %q and %q is %q", a, b, diff)
		}
	}
}

func TestPatchAccepts(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("patch is not installed")
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(9, 10))
	cases := [][2]string{
		{"", "x\n"}, {"x\n", ""}, {"", "x"}, {"x", ""}, {"x", "x\n"}, {"x\n", "x"},
		{"-- a\n", "++ b\n"}, {"a\nb\nc\n", "a\nc\n"}, {"a\nc\n", "a\nb\nc\n"},
	}
	for n := 0; n < 60; n++ {
		cases = append(cases, [2]string{randomText(r), randomText(r)})
	}
	for _, c := range cases {
		for _, context := range []int{0, 1, 3} {
			if c[0] == c[1] {
				continue
			}
			file := filepath.Join(dir, "f")
			if err := os.WriteFile(file, []byte(c[0]), 0o666); err != nil {
				t.Fatal(err)
			}
			diff := Unified("f", "f", c[0], c[1], context)
			// --binary: patch otherwise drops the carriage returns of a diff.
			cmd := exec.Command(patch, "--binary", "-s", "--no-backup-if-mismatch", "f")
			cmd.Dir = dir
			cmd.Stdin = strings.NewReader(diff)
			out, err := cmd.CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Fatalf("patch: %v\n%s\n%s", err, out, diff)
			}
			got, err := os.ReadFile(file)
			if err != nil && !(os.IsNotExist(err) && c[1] == "") { // patch may remove an emptied file
				t.Fatal(err)
			}
			if string(got) != c[1] {
				t.Fatalf("%q became %q, want %q\n%s", c[0], got, c[1], diff)
			}
			os.Remove(file)
		}
	}
}

// Our text equals gotextdiff's wherever that one is valid, so either may print a hunk.
func TestTextEqualsGotextdiff(t *testing.T) {
	d := Compute("a\nb\nc\nd\n", "a\nB\nc\nd\nx\n", Options{})
	h := d.Hunks(1)
	if len(h) != 1 {
		t.Fatalf("%d hunks, want 1", len(h))
	}
	want := "--- f\n+++ g\n@@ -1,4 +1,5 @@\n a\n-b\n+B\n c\n d\n+x\n"
	if got := fmt.Sprint(gotextdiff.Unified{From: "f", To: "g", Hunks: h}); got != want {
		t.Errorf("gotextdiff prints\n%s", got)
	}
	if got := Unified("f", "g", "a\nb\nc\nd\n", "a\nB\nc\nd\nx\n", 1); got != want {
		t.Errorf("we print\n%s", got)
	}
	if got := Header(h[0]); got != "@@ -1,4 +1,5 @@" {
		t.Errorf("header %q", got)
	}
}

func TestEmptySide(t *testing.T) {
	for _, c := range []struct {
		a, b    string
		context int
		want    string
	}{
		{"", "x\ny\n", 3, "@@ -0,0 +1,2 @@"},
		{"x\n", "", 3, "@@ -1 +0,0 @@"},
		{"a\nb\n", "a\nx\nb\n", 0, "@@ -1,0 +2 @@"},
		{"a\nb\nc\n", "a\nc\n", 0, "@@ -2 +1,0 @@"},
		{"x", "x\n", 3, "@@ -1 +1 @@"},
	} {
		if got := Header(Compute(c.a, c.b, Options{}).Hunks(c.context)[0]); got != c.want {
			t.Errorf("%q to %q: %s, want %s", c.a, c.b, got, c.want)
		}
	}
}

func TestStat(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for n := 0; n < 5000; n++ {
		a, b := randomText(r), randomText(r)
		add, del := Stat(a, b)
		wantAdd, wantDel := Compute(a, b, Options{}).Stat()
		if add != wantAdd || del != wantDel {
			t.Fatalf("%q to %q: +%d -%d, want +%d -%d", a, b, add, del, wantAdd, wantDel)
		}
	}
	if add, del := Stat("--x\n", "++y\n"); add != 1 || del != 1 {
		t.Errorf("lines beginning with signs: +%d -%d", add, del)
	}
}

func TestReplacedLinesStayFew(t *testing.T) {
	var a, b strings.Builder
	for i := 0; i < 5000; i++ {
		line := fmt.Sprintf("    T.writes() # %d\n", i%7)
		a.WriteString(line)
		if i%50 == 25 {
			line = fmt.Sprintf("    changed %d\n", i)
		}
		b.WriteString(line)
	}
	if add, del := Stat(a.String(), b.String()); add+del > 200 {
		t.Errorf("100 replaced lines show as +%d -%d", add, del)
	}
}

func TestSlideStartsAtTheHead(t *testing.T) {
	before := "for i:\n    x()\n    y()\nend\n"
	after := "for i:\n    x()\n    y()\nfor i:\n    x()\n    z()\nend\n"
	d := Compute(before, after, Options{})
	if len(d.Ops) != 1 || d.Ops[0] != (Op{3, 3, 3, 6}) {
		t.Errorf("ops %+v", d.Ops)
	}
}

func TestIgnore(t *testing.T) {
	for _, c := range []struct {
		a, b string
		o    Options
		same bool
	}{
		{"a_1 = b", "a_2 = b", Options{IgnoreRenames: true}, true},
		{"a = b", "a_12 = b", Options{IgnoreRenames: true}, true},
		{"a_1 = b", "a_2 = c", Options{IgnoreRenames: true}, false},
		{`f("sm_80")`, `f("sm_90")`, Options{IgnoreRenames: true}, false},
		{`f('a\'_1')`, `f('a\'_2')`, Options{IgnoreRenames: true}, false},
		{"T.x_1", "T.x_2", Options{IgnoreRenames: true}, false},
		{"1_000", "1_001", Options{IgnoreRenames: true}, false},
		{"f(a,b)", "f(a, b)", Options{IgnoreSpace: true}, true},
		{"  x", "x\t", Options{IgnoreSpace: true}, true},
		{"x y_1", "xy_2", Options{IgnoreSpace: true, IgnoreRenames: true}, true},
		{"x_1", "x_2", Options{}, false},
		{"_1", "_2", Options{IgnoreRenames: true}, false},
	} {
		if same := len(Compute(c.a+"\n", c.b+"\n", c.o).Ops) == 0; same != c.same {
			t.Errorf("%q, %q with %+v: same is %v", c.a, c.b, c.o, same)
		}
	}
}

func marked(s string, spans []Span) string {
	var b strings.Builder
	at := 0
	for _, sp := range spans {
		b.WriteString(s[at:sp.From] + "[" + s[sp.From:sp.To] + "]")
		at = sp.To
	}
	return b.String() + s[at:]
}

func TestWords(t *testing.T) {
	for _, c := range [][4]string{
		{"x = a + 1", "x = b + 1", "x = [a] + 1", "x = [b] + 1"},
		{"f(a)", "f(a, b)", "f(a)", "f(a[, b])"},
		{"    x", "  x", "[    ]x", "[  ]x"},
		{"same", "same", "same", "same"},
		{"", "new", "", "[new]"},
		{"a b c", "x y c", "[a b] c", "[x y] c"},
		{"naïve", "naive", "[naïve]", "[naive]"},
	} {
		sa, sb := Words(c[0], c[1])
		if ga, gb := marked(c[0], sa), marked(c[1], sb); ga != c[2] || gb != c[3] {
			t.Errorf("%q, %q: %s %s", c[0], c[1], ga, gb)
		}
	}
}

func TestWordsCap(t *testing.T) {
	long := strings.Repeat("é", MaxWordBytes)
	sa, sb := Words("a"+long+"b", "c"+long+"d")
	if len(sa) != 1 || len(sb) != 1 || sa[0] != (Span{0, len(long) + 2}) {
		t.Errorf("beyond the cap: %v %v", sa, sb)
	}
	// A cut never falls inside a character: é is c3 a9, ê is c3 aa.
	c := middle("xéy", "xêy")
	if marked("xéy", []Span{c.A}) != "x[é]y" || marked("xêy", []Span{c.B}) != "x[ê]y" {
		t.Errorf("cut in a character: %v", c)
	}
}

// Replacing each change's left side by its right one turns the line before into the line after.
func TestChangesRebuild(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	words := []string{"a", "b", " ", "  ", "(", ")", "x_1", "\t", "é", ","}
	line := func() string {
		var b strings.Builder
		for n := r.IntN(12); n > 0; n-- {
			b.WriteString(words[r.IntN(len(words))])
		}
		return b.String()
	}
	for n := 0; n < 20000; n++ {
		a, b := line(), line()
		var got strings.Builder
		at := 0
		for _, c := range Changes(a, b) {
			got.WriteString(a[at:c.A.From] + b[c.B.From:c.B.To])
			at = c.A.To
		}
		if got.String()+a[at:] != b {
			t.Fatalf("%q to %q: %+v", a, b, Changes(a, b))
		}
	}
}

func TestPair(t *testing.T) {
	got := Pair(
		[]string{"for i in range(4):\n", "  x[i] = y[i]\n"},
		[]string{"# new\n", "for i in range(8):\n", "  # more\n", "  x[i + 1] = y[i]\n"})
	if fmt.Sprint(got) != "[1 3]" {
		t.Errorf("paired %v", got)
	}
}

func TestFinalNewlineOnly(t *testing.T) {
	if !FinalNewlineOnly("x\n", "x") || FinalNewlineOnly("x", "x") || FinalNewlineOnly("x\n", "y") {
		t.Error("wrong verdict")
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("a\nb\n", "a\nc", 3)
	f.Add("", "x", 0)
	f.Add("\r\n\x00", "\n", 1)
	f.Fuzz(func(t *testing.T, a, b string, context int) {
		if context > 100 {
			return
		}
		diff := Unified("a", "b", a, b, context)
		if got, err := applyUnified(a, diff); err != nil || got != b {
			t.Fatalf("%v\n%s", err, diff)
		}
		for _, o := range []Options{{IgnoreSpace: true}, {IgnoreRenames: true}} {
			d := Compute(a, b, o)
			Words(strings.Join(d.A, ""), strings.Join(d.B, ""))
			Pair(d.A, d.B)
		}
	})
}

func numbered(prefix string, n int) string {
	var b bytes.Buffer
	for i := 0; i < n; i++ {
		fmt.Fprintf(&b, "%s line %d of the text\n", prefix, i)
	}
	return b.String()
}

// The memory of the worst case is checked here; its time is a benchmark's matter.
func TestAllDifferentMemory(t *testing.T) {
	a, b := numbered("old", 100_000), numbered("new", 100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	add, del := Compute(a, b, Options{}).Stat()
	runtime.ReadMemStats(&after)
	if add != 100_000 || del != 100_000 {
		t.Fatalf("+%d -%d", add, del)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 200<<20 {
		t.Errorf("%d MB allocated", used>>20)
	}
}

func BenchmarkAllDifferent100k(b *testing.B) {
	x, y := numbered("old", 100_000), numbered("new", 100_000)
	b.ReportAllocs()
	for b.Loop() {
		Compute(x, y, Options{})
	}
}

func BenchmarkFewKinds100k(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x, y := randomInts(r, 100_000, 10), randomInts(r, 100_000, 10)
	b.ReportAllocs()
	for b.Loop() {
		Ints(x, y)
	}
}

func BenchmarkShuffled100k(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	x, y := make([]int32, 100_000), make([]int32, 100_000)
	for i, p := range r.Perm(len(x)) {
		x[i], y[i] = int32(p), int32(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		Ints(x, y)
	}
}

func BenchmarkOneLongLine(b *testing.B) {
	mid := strings.Repeat("x + ", 250_000)
	x, y := "a"+mid+"b\n", "c"+mid+"d\n"
	b.ReportAllocs()
	for b.Loop() {
		d := Compute(x, y, Options{})
		Words(d.A[0], d.B[0])
	}
}

func Benchmark5PercentOf2000(b *testing.B) {
	x := numbered("old", 2000)
	lines := Lines(x)
	for i := 0; i < len(lines); i += 20 {
		lines[i] = fmt.Sprintf("new %d\n", i)
	}
	y := strings.Join(lines, "")
	b.ReportAllocs()
	for b.Loop() {
		Compute(x, y, Options{})
	}
}
