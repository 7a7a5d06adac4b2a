package render

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"lowertrace/internal/trace"
)

func TestCompareGolden(t *testing.T) {
	s := readArchive(t, "testdata/compare/two.txtar")
	a := s.readRun(t, "a.json", "a.records")
	b := s.readRun(t, "b.json", "b.records")
	al := trace.Align(&a, &b)
	for _, c := range []struct {
		name string
		cmp  CompareOptions
		o    TerminalOptions
	}{
		{"want.first", CompareOptions{}, TerminalOptions{}},
		{"want.all", CompareOptions{All: true}, TerminalOptions{Diff: DiffOptions{Context: 3}}},
		{"want.stat", CompareOptions{Stat: true}, TerminalOptions{}},
		{"want.names", CompareOptions{NameOnly: true}, TerminalOptions{}},
		{"want.pass", CompareOptions{Pass: "Simplify#1"}, TerminalOptions{}},
		{"want.words", CompareOptions{Pass: "LowerTileOp"}, TerminalOptions{Diff: DiffOptions{WordDiff: true}}},
		{"want.renames", CompareOptions{Pass: "LowerTileOp"}, TerminalOptions{Diff: DiffOptions{IgnoreRenames: true}}},
		{"want.color", CompareOptions{}, TerminalOptions{Color: true, Palette: PaletteBlueOrange}},
	} {
		var out bytes.Buffer
		if err := NewTerminal(&out, c.o).Compare(al, c.cmp); err != nil {
			t.Fatal(err)
		}
		s.check(t, c.name, out.String())
	}
	doc, err := NewComparison(al, CompareOptions{}, DiffOptions{Context: 3})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	s.check(t, "want.json", string(text)+"\n")
}

func TestCompareEqualAndUnknown(t *testing.T) {
	s := readArchive(t, "testdata/compare/two.txtar")
	a := s.readRun(t, "a.json", "a.records")
	b := s.readRun(t, "a.json", "a.records")
	al := trace.Align(&a, &b)
	var out bytes.Buffer
	if err := NewTerminal(&out, TerminalOptions{}).Compare(al, CompareOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "no difference in 4 passes") {
		t.Errorf("%s", out.String())
	}
	if err := NewTerminal(&out, TerminalOptions{}).Compare(al, CompareOptions{Pass: "Nope"}); err == nil {
		t.Error("an unknown pass is taken")
	}
}

// A pass that one run alone has and that changed nothing is told, and the first difference of text
// after it is shown.
func TestCompareGoesOnPastIdlePasses(t *testing.T) {
	rec := func(i int, name, before, after string) trace.LowerRecord {
		return trace.LowerRecord{Index: i, Name: name, Phase: "p", Status: trace.Completed, ParentIndex: trace.NoParent,
			BeforeText: before, AfterText: after, HasBefore: true, HasAfter: true, Changed: before != after}
	}
	a := &trace.Run{Records: []trace.LowerRecord{rec(0, "Same", "x\n", "y\n"), rec(1, "Idle", "y\n", "y\n"), rec(2, "Last", "y\n", "a\n")}}
	b := &trace.Run{Records: []trace.LowerRecord{rec(0, "Same", "x\n", "y\n"), rec(1, "Last", "y\n", "b\n")}}
	var out bytes.Buffer
	if err := NewTerminal(&out, TerminalOptions{}).Compare(trace.Align(a, b), CompareOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"only in A", "\n-a\n+b\n", "first diverging at Idle"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
