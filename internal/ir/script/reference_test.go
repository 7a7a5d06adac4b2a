package script

import (
	"path"
	"sort"
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
)

// knownDifferent are the texts whose free variables TVM declares in places
// that do not follow from the tree: its printer counts an expression that two
// statements share once, where it comes first. See the package comment.
var knownDifferent = map[string]bool{
	"gemm_f32_tf32/sm_90a/26_LetInline.tir": true,
	"gemm_ldg_cast/sm_80/23_LetInline.tir":  true,
	"gemm_ldg_cast/sm_80/24_Simplify.tir":   true,
}

// passOf is the pass a text comes from: "Simplify" of ".../24_Simplify.tir".
func passOf(name string) string {
	s := strings.TrimSuffix(path.Base(name), ".tir")
	s = strings.TrimSuffix(strings.TrimSuffix(s, "_before"), "_after")
	if _, rest, ok := strings.Cut(s, "_"); ok && s[0] >= '0' && s[0] <= '9' {
		return rest
	}
	return s
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return "line " + itoa(i+1) + ":\n got " + x + "\nwant " + y
		}
	}
	return "none"
}

func itoa(n int) string { return ExprString(ir.I32(int64(n))) }

// TestReferenceTexts reads every text another compiler printed, at every
// pass. Printing gives the same bytes, and reading that the same tree.
func TestReferenceTexts(t *testing.T) {
	type count struct{ same, all int }
	passes := map[string]*count{}
	hidden := 0
	for i, name := range corpus.Files(".tir") {
		text := corpus.Text(name)
		if text == "" {
			continue // what a failed pass leaves
		}
		m, diags := Parse(ir.NewSource(name, text), Options{})
		if err := diags.Err(); err != nil {
			t.Errorf("%v", err)
			continue
		}
		got := Print(m)
		want := strings.TrimRight(text, "\n") + "\n"
		c := passes[passOf(name)]
		if c == nil {
			c = &count{}
			passes[passOf(name)] = c
		}
		c.all++
		switch {
		case got == want:
			c.same++
			if knownDifferent[name] {
				t.Errorf("%s: now the same: take it off the list", name)
			}
		case !knownDifferent[name]:
			t.Errorf("%s: %s", name, firstDifference(got, want))
		}
		if strings.Contains(text, "metadata[") {
			hidden++
		}

		if got == want && i%10 != 0 {
			continue // reading the same text again gives the same tree
		}
		m2, diags := Parse(ir.NewSource("printed "+name, got), Options{})
		if err := diags.Err(); err != nil {
			t.Errorf("reading what was printed: %v", err)
			continue
		}
		if d := ir.Difference(m, m2, ir.EqualOptions{Names: true}); d != "" {
			t.Errorf("%s: the tree differs after a trip: %s", name, d)
		}
		if again := Print(m2); again != got {
			t.Errorf("%s: printing is no fixed point: %s", name, firstDifference(again, got))
		}
	}
	var names []string
	same, all := 0, 0
	for p, c := range passes {
		names = append(names, p)
		same += c.same
		all += c.all
	}
	sort.Strings(names)
	for _, p := range names {
		t.Logf("%-45s %4d of %4d identical", p, passes[p].same, passes[p].all)
	}
	t.Logf("%-45s %4d of %4d identical (%d with metadata)", "all", same, all, hidden)
}

// TestOrigins: every line of a printed text that a statement of the source
// stands for names that statement's line.
func TestOrigins(t *testing.T) {
	for _, name := range corpus.Files("/sm_80/codegen_input.tir") {
		text := corpus.Text(name)
		m, diags := Parse(ir.NewSource(name, text), Options{})
		if err := diags.Err(); err != nil {
			t.Fatal(err)
		}
		got, lines := PrintWithOrigins(m, "")
		if want := strings.Count(got, "\n"); len(lines) != want {
			t.Fatalf("%s: %d origins for %d lines", name, len(lines), want)
		}
		for i, l := range lines {
			s := strings.TrimSpace(line(got, i+1))
			switch {
			case l == 0 && !isFrame(s):
				t.Errorf("%s:%d: no origin: %s", name, i+1, s)
			case l != 0 && int(l) != i+1 && !isDeclaration(s):
				// The text is the same, so a statement stands on its own
				// line; a declaration has that of the statement it precedes.
				t.Errorf("%s:%d comes from line %d", name, i+1, l)
			}
		}
	}
}

// isFrame reports lines that are no statement of the source.
func isFrame(s string) bool {
	return s == "" || s == "else:" || s[0] == '#' || s[0] == '@' || strings.HasPrefix(s, "class ") || strings.HasPrefix(s, "T.func_attr(")
}

func line(text string, n int) string { return ir.NewSource("", text).Line(n) }

func isDeclaration(s string) bool {
	return strings.Contains(s, " = T.Buffer(") || strings.HasSuffix(s, "= T.int32()") || strings.Contains(s, " = T.handle(")
}
