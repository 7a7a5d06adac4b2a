package syntax

import (
	"flag"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/corpus"
	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
)

var update = flag.Bool("update", false, "rewrite the expected parts of golden files")

// TestTrees compares the trees of testdata/trees.txtar: NAME.py is a text,
// NAME.out its diagnostics, then one line for each statement.
func TestTrees(t *testing.T) {
	const file = "testdata/trees.txtar"
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range ar.Files {
		want[f.Name] = string(f.Data)
	}
	out := &txtar.Archive{Comment: ar.Comment}
	for _, f := range ar.Files {
		name, ok := strings.CutSuffix(f.Name, ".py")
		if !ok {
			continue
		}
		var b strings.Builder
		var diags diag.List
		tree := Parse(ir.NewSource(f.Name, string(f.Data)), &diags)
		diags.WriteText(&b, diag.TextOptions{})
		for _, s := range tree.Body {
			b.WriteString(dump(s) + "\n")
		}
		out.Files = append(out.Files, f, txtar.File{Name: name + ".out", Data: []byte(b.String())})
		if !*update && b.String() != want[name+".out"] {
			t.Errorf("%s:\n--- got\n%s--- want\n%s", f.Name, b.String(), want[name+".out"])
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPython reads all Python of the corpus and checks that every node lies
// within the text and that names stand where they say.
func TestPython(t *testing.T) {
	for _, name := range corpus.Files(".py") {
		checkLocations(t, name, corpus.Text(name))
	}
}

func checkLocations(t *testing.T, name, text string) {
	t.Helper()
	var diags diag.List
	tree := Parse(ir.NewSource(name, text), &diags)
	if err := diags.Err(); err != nil {
		t.Error(err)
		return
	}
	walk(reflect.ValueOf(tree.Body), func(n Node) {
		l := n.Range()
		if l.Pos < 0 || l.End < l.Pos || int(l.End) > len(text) {
			t.Errorf("%s: %T at %v of %d bytes", name, n, l, len(text))
			return
		}
		if x, ok := n.(*Name); ok && text[l.Pos:l.End] != x.ID {
			t.Errorf("%s: name %s stands at %q", name, x.ID, text[l.Pos:l.End])
		}
	})
}

func parseErrors(text string) []string {
	var diags diag.List
	Parse(ir.NewSource("t", text), &diags)
	var out []string
	for _, d := range diags.All() {
		out = append(out, d.Error())
	}
	return out
}

// TestLimits: texts made to exhaust memory or the stack get one clear error,
// in a short time.
func TestLimits(t *testing.T) {
	rep := strings.Repeat
	nested := "expression is nested more than 200 levels deep"
	high := "expression has more than 5000 levels"
	for name, c := range map[string]struct{ text, want string }{
		"parentheses":       {rep("(", 20000) + "1" + rep(")", 20000), nested},
		"open parentheses":  {rep("(", 20000), nested},
		"brackets":          {rep("[", 20000) + rep("]", 20000), nested},
		"braces":            {rep("{", 20000), nested},
		"calls":             {rep("f(", 20000) + rep(")", 20000), nested},
		"indices":           {rep("a[", 20000) + rep("]", 20000), nested},
		"minus":             {rep("-", 20000) + "1", nested},
		"not":               {rep("not ", 20000) + "1", nested},
		"lambda":            {rep("lambda: ", 20000) + "1", nested},
		"power":             {rep("2**", 20000) + "1", nested},
		"conditional":       {rep("1 if 1 else ", 20000) + "1", nested},
		"await":             {rep("await ", 20000) + "x", nested},
		"sum":               {rep("1+", 20000) + "1", high},
		"and":               {rep("a and ", 20000) + "b", high},
		"comparisons":       {rep("a<", 20000) + "b", high},
		"attributes":        {"a" + rep(".a", 20000), high},
		"calls of calls":    {"a" + rep("()", 20000), high},
		"formatted strings": {rep(`f"{`, 300) + rep(`}"`, 300), nested},
		"blocks":            {blocks(200), "more than 100 nested blocks"},
		"branches":          {"if a:\n  b\n" + rep("elif a:\n  b\n", 20000), "more than 500 branches in one 'if'"},
		"size":              {rep("a\n", MaxSource/2+1), "the text has 67108866 bytes; at most 67108864 are read"},
		"nul":               {"a\x00b", "the text holds a NUL byte: expected source text"},
		"latin-1":           {"x = 'gr\xf6\xdfe'\n", "byte 0xF6 is not valid UTF-8 (save the file as UTF-8)"},
	} {
		start := time.Now()
		errs := parseErrors(c.text)
		if len(errs) != 1 || !strings.HasSuffix(errs[0], c.want) {
			if len(errs) > 3 {
				errs = errs[:3]
			}
			t.Errorf("%s: got %q, want one error %q", name, errs, c.want)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s took %v", name, d)
		}
	}
}

func blocks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "if a:\n")
	}
	b.WriteString(strings.Repeat(" ", n) + "b\n")
	return b.String()
}

// TestNoLimit: long texts that are merely long are read.
func TestNoLimit(t *testing.T) {
	rep := strings.Repeat
	for name, text := range map[string]string{
		"list":       "x = [" + rep("1, ", 200000) + "]\n",
		"arguments":  "f(" + rep("a, ", 200000) + ")\n",
		"statements": rep("x = a[i] + 1\n", 100000),
		"string":     "x = '''" + rep("text\n", 200000) + "'''\n",
		"strings":    "x = (" + rep("'a'\n", 100000) + ")\n",
		"comments":   rep("# comment\n", 200000),
		"nesting":    rep("(", 150) + "1" + rep(")", 150) + "\n",
		"sum":        rep("1+", 4000) + "1\n",
		"bom":        "\ufeffx = 1\n",
		"crlf":       "if a:\r\n    x = '''a\r\nb'''\r\n\r\nelse:\r\n    y = 1 + \\\r\n  2\r\n",
		"no newline": "if a:\n    x",
		"empty":      "",
		"form feed":  "x\n\f\ny\n",
	} {
		if errs := parseErrors(text); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs[0])
		}
	}
}

// TestManyErrors: a text full of mistakes is given up on.
func TestManyErrors(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	errs := parseErrors(strings.Repeat("a b\n", 1<<20))
	runtime.ReadMemStats(&after)
	if len(errs) != diag.MaxKept {
		t.Errorf("%d errors, want %d", len(errs), diag.MaxKept)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("%d bytes allocated", n)
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "1_000": 1000, "0x1F": 31, "0b101": 5, "0o17": 15, "00": 0, "007": 7,
		"9223372036854775807": 1<<63 - 1, "18446744073709551615": -1,
	} {
		n := Num{Text: text}
		if got, ok := n.Int(); !ok || got != want {
			t.Errorf("%s = %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"18446744073709551616", "99999999999999999999999"} {
		n := Num{Text: text}
		if _, ok := n.Int(); ok {
			t.Errorf("%s fits 64 bits", text)
		}
		if f, ok := n.Float(); !ok || f < 1e19 {
			t.Errorf("%s as a float: %v, %v", text, f, ok)
		}
	}
	for text, want := range map[string]float64{"1.5": 1.5, ".5": .5, "1.": 1, "1e3": 1000, "1_0.0_1e-2": 0.1001, "3": 3} {
		n := Num{Text: text, IsFloat: text != "3"}
		if got, ok := n.Float(); !ok || got != want {
			t.Errorf("%s = %v, %v; want %v", text, got, ok, want)
		}
	}
}

var pieces = regexp.MustCompile(`[A-Za-z_][A-Za-z_0-9]*|[0-9]+|"[^"\n]*"|\s+|[^\sA-Za-z0-9_]`)

// TestDamaged reads kernels' sources in which a few words were replaced by
// others: mistakes must not lead out of the text.
func TestDamaged(t *testing.T) {
	const tries, small = 1500, 6000
	odd := []string{"", "(", `f"{`, "\n", "\t", "'''", "lambda ", "if ", "\\", "with (", "elif ", "for ", "case ", "}"}
	var texts []string
	for i, name := range corpus.Files(".py") {
		if text := corpus.Text(name); i%5 == 0 && len(text) < small {
			texts = append(texts, text)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range tries {
		text, other := texts[rng.IntN(len(texts))], texts[rng.IntN(len(texts))]
		for range 1 + rng.IntN(3) {
			at := pieces.FindAllStringIndex(text, -1)
			words := append(pieces.FindAllString(other, -1), odd...)
			if rng.IntN(3) == 0 {
				words = odd
			}
			i := at[rng.IntN(len(at))]
			text = text[:i[0]] + words[rng.IntN(len(words))] + text[i[1]:]
		}
		checkTree(t, text)
	}
}

// checkTree reads a text and checks that nodes and diagnostics lie in it.
func checkTree(t *testing.T, text string) {
	t.Helper()
	var diags diag.List
	tree := Parse(ir.NewSource("text", text), &diags)
	if tree == nil {
		if !diags.HasErrors() {
			t.Fatal("no tree and no error")
		}
		return
	}
	walk(reflect.ValueOf(tree.Body), func(n Node) {
		if l := n.Range(); l.Pos < 0 || l.End < l.Pos || int(l.End) > len(text) {
			t.Fatalf("%T at %v of %d bytes:\n%s", n, l, len(text), text)
		}
	})
	for _, d := range diags.All() {
		if int(d.Span.End) > len(text) || d.Span.End < d.Span.Pos || d.Span.Pos < 0 {
			t.Fatalf("span %d..%d of %d bytes: %v", d.Span.Pos, d.Span.End, len(text), d)
		}
		_ = d.Text()
	}
}

func FuzzParse(f *testing.F) {
	ar, err := txtar.ParseFile("testdata/trees.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range ar.Files {
		if strings.HasSuffix(file.Name, ".py") {
			f.Add(string(file.Data))
		}
	}
	for _, s := range []string{"(", "f'{x!r:{w}}'", "\\", "'''", "\tx\n        y\n", "a[:, ::2]", "\ufeff", "with (a as b, c):\n pass\n", "@\ndef", "lambda", "0x", "1e", "f'{", "else:", "x = (\nreturn\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkTree(t, text) })
}
