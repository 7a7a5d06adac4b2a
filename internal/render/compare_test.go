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
