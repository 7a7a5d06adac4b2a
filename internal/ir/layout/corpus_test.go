package layout_test

import (
	"strings"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir/layout"
	"lowertrace/internal/ir/layout/layouttest"
)

// TestReferenceLayouts reads every layout the reference corpus states: each
// must be consistent with itself, survive the way through an attribute, and,
// for shared memory, be one of the layouts this package makes.
func TestReferenceLayouts(t *testing.T) {
	files, entries := 0, 0
	for _, name := range corpus.Files("/layouts.tsv") {
		if !strings.Contains(name, "/sm_80/") {
			continue
		}
		files++
		list, err := layouttest.Parse(corpus.Text(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, e := range list {
			entries++
			if e.Map != nil {
				checkMap(t, name, e)
				continue
			}
			if _, err := e.Frag.Inverse(); err != nil {
				t.Errorf("%s: %s: %v", name, e.Text, err)
			}
			g, err := layout.FromIR(e.Frag.IR(), 0, 1)
			if err != nil || !g.Equal(e.Frag) {
				t.Errorf("%s: %s through an attribute: %v", name, e.Text, err)
			}
			h, err := layout.NewFrag(e.Frag.Shape, e.Frag.Rep, e.Frag.Thread, nil, e.Frag.Min, e.Frag.Extent)
			if err != nil {
				t.Errorf("%s: %s: default registers: %v", name, e.Text, err)
			} else if h.Regs != e.Frag.Regs {
				t.Errorf("%s: %s: %d registers by default", name, e.Text, h.Regs)
			}
		}
	}
	if files < 60 || entries < 280 {
		t.Errorf("only %d files with %d layouts", files, entries)
	}
}

func checkMap(t *testing.T, file string, e layouttest.Entry) {
	m := e.Map
	if err := m.CheckInjective(); err != nil {
		t.Errorf("%s: %s: %v", file, e.Text, err)
	}
	for _, bits := range []int64{8, 16, 32} {
		if s, err := layout.SharedTile(m.Shape, bits); err == nil && s.SameOffsets(m) {
			return
		}
	}
	if l, err := layout.Linear(m.Shape); err == nil && l.SameOffsets(m) {
		return
	}
	if strings.HasPrefix(file, "gemm_annotate_layout/") && e.Name == "c_s" {
		return // the kernel's own
	}
	t.Errorf("%s: %s %s is none of the package's layouts", file, e.Name, e.Text)
}
