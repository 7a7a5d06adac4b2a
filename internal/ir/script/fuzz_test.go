package script

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
)

// FuzzRoundTrip: whatever reads without a mistake prints to a text that reads
// to the same tree and prints to itself.
func FuzzRoundTrip(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range ar.Files {
			if strings.HasSuffix(x.Name, ".tir") {
				f.Add(string(x.Data))
			}
		}
	}
	const small = 6000 // bytes: larger texts slow the fuzzer down
	for i, name := range corpus.Files(".tir") {
		if text := corpus.Text(name); i%50 == 0 && len(text) < small {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) { checkTrip(t, text) })
}

func checkTrip(t *testing.T, text string) (read bool) {
	t.Helper()
	m, diags := Parse(ir.NewSource("fuzz", text), Options{})
	for _, d := range diags.All() {
		_ = d.Text()
	}
	if m == nil {
		if !diags.HasErrors() {
			t.Fatal("no module and no error")
		}
		return false
	}
	printed := Print(m)
	m2, diags := Parse(ir.NewSource("printed", printed), Options{})
	if err := diags.Err(); err != nil {
		t.Fatalf("reading what was printed: %v\n%s", err, printed)
	}
	// A variable that is used outside of what defines it, as malformed IR may
	// do, can come apart into two.
	if d := ir.Difference(m, m2, ir.EqualOptions{}); d != "" && ir.Verify(m) == nil {
		t.Fatalf("the tree differs after a trip: %s\n%s", d, printed)
	}
	if again := Print(m2); again != printed {
		t.Fatalf("printing is no fixed point: %s\n%s", firstDifference(again, printed), printed)
	}
	if _, lines := PrintWithOrigins(m, ""); len(lines) != strings.Count(printed, "\n") {
		t.Fatal("origins do not match the lines")
	}
	return true
}

// mutations is how many damaged texts TestMutations tries.
var mutations = flag.Int("mutations", 1500, "damaged texts to try")

var mutationSeed = flag.Int("mutation-seed", 2, "seed of the damage")

// TestMutations damages texts token by token and line by line, so that many
// of them still mean something, and checks that they survive the trip.
func TestMutations(t *testing.T) {
	var texts []string
	ar, err := txtar.ParseFile("testdata/forms.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range ar.Files {
		texts = append(texts, string(x.Data))
	}
	const small = 4000
	for i, name := range corpus.Files(".tir") {
		if text := corpus.Text(name); i%30 == 0 && len(text) < small {
			texts = append(texts, text)
		}
	}
	rng := rand.New(rand.NewPCG(1, uint64(*mutationSeed)))
	read := 0
	for range *mutations {
		text := texts[rng.IntN(len(texts))]
		for range 1 + rng.IntN(3) {
			text = damage(rng, text, texts[rng.IntN(len(texts))])
		}
		if checkTrip(t, text) {
			read++
		}
	}
	t.Logf("%d of %d damaged texts can be read", read, *mutations)
	if read < *mutations/20 {
		t.Error("too few damaged texts can be read for the test to mean much")
	}
}

var tokenPattern = regexp.MustCompile(`[A-Za-z_][A-Za-z_0-9]*|[0-9]+|"[^"\n]*"|[^\sA-Za-z0-9_]`)

// damage changes one token or line, possibly by one of another text.
func damage(rng *rand.Rand, text, other string) string {
	if rng.IntN(3) == 0 {
		lines, from := strings.SplitAfter(text, "\n"), strings.SplitAfter(other, "\n")
		i, j := rng.IntN(len(lines)), rng.IntN(len(lines))
		switch rng.IntN(4) {
		case 0:
			lines = slices.Delete(lines, i, i+1)
		case 1:
			lines = slices.Insert(lines, i, lines[j])
		case 2:
			lines[i], lines[j] = lines[j], lines[i]
		case 3:
			lines = slices.Insert(lines, i, from[rng.IntN(len(from))])
		}
		return strings.Join(lines, "")
	}
	toks, from := tokenPattern.FindAllStringIndex(text, -1), tokenPattern.FindAllString(text+other, -1)
	if len(toks) == 0 {
		return text
	}
	at := toks[rng.IntN(len(toks))]
	with := from[rng.IntN(len(from))]
	switch rng.IntN(5) {
	case 0:
		with = ""
	case 1:
		with += text[at[0]:at[1]]
	case 2:
		with = []string{"0", "1", "2", "-1", "T", "(", "None", "True", "T.int32()", "not ", "x", "range", "T.bool(True)"}[rng.IntN(13)]
	}
	return text[:at[0]] + with + text[at[1]:]
}
