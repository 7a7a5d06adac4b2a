package render

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lowertrace/internal/render/textdiff"
)

// enginePage is the report's data and diff code without its views, open to the test.
func enginePage(t *testing.T) *page {
	return openPage(t, []byte("<!DOCTYPE html><html><meta charset=utf-8><script>\n"+jsData+jsDiff+jsSyntax+jsRows+
		"\ndocument.documentElement.dataset.ready = '1';</script></html>"), 800, 600)
}

func toJS(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The page's engine finds edits as few as the one in Go, and its ops lead from one side to the
// other.
func TestBrowserEngineAgrees(t *testing.T) {
	p := enginePage(t)
	r := rand.New(rand.NewPCG(21, 22))
	type pair struct {
		A, B []int32
		Want int
	}
	var cases []pair
	add := func(a, b []int32) {
		want := 0
		for _, op := range textdiff.Ints(a, b) {
			want += op.A1 - op.A0 + op.B1 - op.B0
		}
		cases = append(cases, pair{a, b, want})
	}
	ints := func(n, kinds int) []int32 {
		out := make([]int32, n)
		for i := range out {
			out[i] = int32(r.IntN(kinds))
		}
		return out
	}
	for n := 0; n < 1500; n++ {
		kinds := 1 + r.IntN(6)
		add(ints(r.IntN(20), kinds), ints(r.IntN(20), kinds))
	}
	for n := 0; n < 6; n++ { // within the exact search of both
		a := ints(600, 50)
		b := append([]int32(nil), a...)
		for k := 0; k < 100; k++ {
			b[r.IntN(len(b))] = int32(r.IntN(60))
		}
		add(a, b)
	}
	js := `(() => { const bad = [];
		for (const c of ` + toJS(t, cases) + `) {
			const a = Int32Array.from(c.A || []), b = Int32Array.from(c.B || []), ops = diffInts(a, b);
			const out = []; let at = 0, n = 0;
			for (const [a0, a1, b0, b1] of ops) { out.push(...a.subarray(at, a0), ...b.subarray(b0, b1)); at = a1; n += a1 - a0 + b1 - b0; }
			out.push(...a.subarray(at));
			if (out.join() !== [...b].join() || n !== c.Want) bad.push([[...a].join(), [...b].join(), n, c.Want].join(" | "));
		}
		return bad.slice(0, 3).join("\n") })()`
	if got := p.str(js); got != "" {
		t.Errorf("a | b | edits | edits in Go:\n%s", got)
	}
	// Beyond the exact search the result must still be right.
	if got := p.str(`(() => { let s = 7; const rnd = (n) => (s = (s * 1103515245 + 12345) & 0x7fffffff) % n;
		for (const kinds of [3, 40, 100000]) {
			const a = Int32Array.from({length: 6000}, () => rnd(kinds)), b = Int32Array.from({length: 5000}, () => rnd(kinds));
			const out = []; let at = 0;
			for (const [a0, a1, b0, b1] of diffInts(a, b)) { out.push(...a.subarray(at, a0), ...b.subarray(b0, b1)); at = a1; }
			out.push(...a.subarray(at));
			if (out.join() !== [...b].join()) return "wrong with " + kinds + " kinds";
		} return "" })()`); got != "" {
		t.Error(got)
	}
}

// What the page calls equal under its looser comparisons is what Go calls equal.
func TestBrowserEqualityAgrees(t *testing.T) {
	p := enginePage(t)
	lines := []string{"a_1 = b", `f("sm_80")`, `f('a\'_1', x_2)`, "T.x_1(y_12)", "1_000 + z_3", "0x1f_2", "x__1", "_1", "__2", "  a\tb ", "é_1", "a_b_3[i_4]", "k_1_2", "'open_1", ""}
	got := p.str(`JSON.stringify(` + toJS(t, lines) + `.map(s => [withoutSpace(s), withoutSuffixes(s)]))`)
	var out [][2]string
	if err := json.Unmarshal([]byte(got), &out); err != nil {
		t.Fatal(err)
	}
	for i, s := range lines {
		if want := [2]string{textdiff.WithoutSpace(s), textdiff.WithoutSuffixes(s)}; out[i] != want {
			t.Errorf("%q: the page has %q, Go has %q", s, out[i], want)
		}
	}
}

// The diff that the page copies applies with patch.
func TestBrowserCopiedDiffApplies(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("patch is not installed")
	}
	p := enginePage(t)
	r := rand.New(rand.NewPCG(31, 32))
	words := []string{"a", "b", "", "  c", "--- x", "+++ y", "d"}
	text := func() string {
		var b strings.Builder
		n := r.IntN(14)
		for i := 0; i < n; i++ {
			b.WriteString(words[r.IntN(len(words))])
			if i < n-1 || r.IntN(3) > 0 {
				b.WriteByte('\n')
			}
		}
		return b.String()
	}
	dir := t.TempDir()
	for n := 0; n < 60; n++ {
		a, b := text(), text()
		if a == b || a == "" || b == "" {
			continue
		}
		diff := p.str(fmt.Sprintf(`(() => {
			const state = (s) => { const ls = s.split("\n"), nn = !s.endsWith("\n"); if (!nn) ls.pop();
				const f = LINES.length; LINES.push(...ls); const ids = Int32Array.from(ls, (x) => LINES.indexOf(x));
				return STATES.push({p: -1, o: [], nn, ids, org: null}) - 1; };
			return unifiedText(compareModel(state(%s), state(%s), {}), "f", "f") })()`, toJS(t, a), toJS(t, b)))
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, []byte(a), 0o666); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(patch, "-s", "--no-backup-if-mismatch", "f")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%q to %q: %v %s\n%s", a, b, err, out, diff)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != b {
			t.Fatalf("%q became %q, want %q (%v)\n%s", a, got, b, err, diff)
		}
	}
}

// Whatever is compared, both sides' line numbers only go up, and unfolded every line has its row.
func TestBrowserRowsAscend(t *testing.T) {
	p := enginePage(t)
	got := p.str(`(() => { let s = 11; const rnd = (n) => (s = (s * 1103515245 + 12345) & 0x7fffffff) % n;
		const words = ["a", " a", "  a", "a b", "a  b", "b_1", "b_2", "c", "", "T.writes()", "for i in x:"];
		const state = () => { const ls = Array.from({length: rnd(40)}, () => words[rnd(words.length)]);
			const ids = Int32Array.from(ls, (x) => { let k = LINES.indexOf(x); if (k < 0) k = LINES.push(x) - 1; return k; });
			return STATES.push({p: -1, o: [], nn: ls.length > 0 && rnd(4) === 0, ids, org: null}) - 1; };
		for (let n = 0; n < 400; n++) {
			const a = state(), b = state();
			for (const split of [true, false]) for (const space of [true, false]) for (const names of [true, false]) {
				const opt = {split, space, names, context: rnd(4), host: true};
				const m = compareModel(a, b, opt, rnd(3) ? [] : [[rnd(40), rnd(40)]]);
				for (const all of [false, true]) {
					m.allOpen = all;
					let la = -1, lb = -1, na = 0, nb = 0;
					for (const r of rowsOf(m, opt)) {
						if (r.a >= 0) { if (r.a <= la) return "left goes down at " + r.a; la = r.a; na++; }
						if (r.b >= 0) { if (r.b <= lb) return "right goes down at " + r.b; lb = r.b; nb++; }
					}
					if (all && (na !== ids(a).length || nb !== ids(b).length)) return "rows for " + na + " of " + ids(a).length + " and " + nb + " of " + ids(b).length;
				}
			}
		} return "" })()`)
	if got != "" {
		t.Error(got)
	}
}
