package cuda

import (
	"slices"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// TestOrders checks the table against the constraints on it.
func TestOrders(t *testing.T) {
	for _, name := range []string{"cuda", "cuda-phased"} {
		p, err := pipeline.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		rows := p.Rows()
		at := func(pass *pipeline.Pass) (first, last int) {
			first = slices.IndexFunc(rows, func(r pipeline.Row) bool { return r.Pass == pass })
			last = first
			for i, r := range rows {
				if r.Pass == pass {
					last = i
				}
			}
			return first, last
		}
		for _, o := range orders {
			_, before := at(o.Before)
			after, _ := at(o.After)
			if before < 0 || after < 0 {
				t.Errorf("%s: a constraint names %s and %s, which are not both in the table", name, o.Before.Name, o.After.Name)
			} else if before >= after {
				t.Errorf("%s: %s must come before %s: %s", name, o.Before.Name, o.After.Name, o.Reason)
			}
			if o.Reason == "" {
				t.Errorf("%s before %s: no reason", o.Before.Name, o.After.Name)
			}
		}
	}
}

// TestReferenceOrder checks that the passes both pipelines have stand in the
// reference's order.
func TestReferenceOrder(t *testing.T) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	// Ours run where the reference has another pass or none, for the reason given.
	moved := map[string]string{
		"HoistBroadcastValues": "the reference calls it by no name",
	}
	var names []string
	for _, r := range corpus.Passes("softmax", "sm_80") {
		names = append(names, r.Name)
	}
	i := 0
	for _, r := range p.Rows() {
		if moved[r.Pass.Name] != "" || !slices.Contains(names, r.Pass.Name) {
			continue
		}
		j := slices.Index(names[i:], r.Pass.Name)
		if j < 0 {
			t.Errorf("%s stands later in the reference's order than here", r.Label)
			continue
		}
		i += j + 1
	}
}

// TestInferStart finds where the states of a reference lowering go on.
func TestInferStart(t *testing.T) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	rows := p.Rows()
	start := func(path string) string {
		m, err := script.ParseString(path, corpus.Text(path))
		if err != nil {
			t.Fatal(err)
		}
		label, _ := InferStart(m, rows)
		return label
	}
	if got := start("softmax/sm_80/input.tir"); got != "" {
		t.Errorf("input.tir starts at %s", got)
	}
	previous := 0
	for _, s := range corpus.States("softmax", "sm_80") {
		if s.Pass == "Filter" {
			break
		}
		label := start(s.Path)
		i, err := pipeline.FindRow(rows, label)
		if err != nil {
			t.Errorf("%s: starts at %q: %v", s.Path, label, err)
			continue
		}
		if i < previous {
			t.Errorf("%s: starts at %s, before where the state before it starts", s.Path, label)
		}
		previous = i
	}
}

// TestTargets looks targets up.
func TestTargets(t *testing.T) {
	for _, arch := range []string{"sm_80", "sm_86", "sm_89", "sm_90a"} {
		got, err := LookupTarget(arch)
		if err != nil || got.Arch != arch || got.Features.SharedPerBlock < got.Features.SharedStatic {
			t.Errorf("%s: %+v, %v", arch, got, err)
		}
	}
	if _, err := LookupTarget("sm_70"); err == nil {
		t.Error("sm_70 is a target")
	}
}
