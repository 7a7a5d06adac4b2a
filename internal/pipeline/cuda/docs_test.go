package cuda

import (
	"strings"
	"testing"

	"lowertrace/internal/pipeline"
)

// TestPassReference keeps docs/passes.md what the tables say.
func TestPassReference(t *testing.T) {
	var all []pipeline.Pipeline
	for _, name := range pipeline.Names() {
		p, err := pipeline.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	checkGolden(t, "../../../docs/passes.md", pipeline.Reference(all))
}

// TestPassDocs checks that the reference has something to say about every
// pass, and that every option belongs to a pass or to the code generator.
func TestPassDocs(t *testing.T) {
	p, err := pipeline.Lookup("cuda")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{OptSourceComments: true, EnableFastMath: true}
	for _, r := range p.Rows() {
		q := r.Pass
		for what, text := range map[string]string{"doc": q.Doc, "precondition": q.Precondition, "effect": q.Effect, "before": q.Before, "after": q.After} {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s has no %s", q.Name, what)
			}
		}
		if strings.HasSuffix(q.Doc, ".") || strings.Contains(q.Doc, "\n") || strings.ToLower(q.Doc[:1]) != q.Doc[:1] {
			t.Errorf("%s: the doc is not one line in lower case without a full stop: %q", q.Name, q.Doc)
		}
		for _, text := range []string{q.Precondition, q.Effect} {
			// Markdown takes these for markup.
			if strings.ContainsAny(text, "<`|") || !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is no plain sentence", q.Name, text)
			}
		}
		for _, key := range q.Options {
			read[key] = true
		}
	}
	for _, o := range pipeline.OptionTable() {
		if !read[o.Key] {
			t.Errorf("option %s: no pass says that it reads it", o.Key)
		}
		delete(read, o.Key)
	}
	for key := range read {
		t.Errorf("option %s is read by a pass, but not registered", key)
	}
}
