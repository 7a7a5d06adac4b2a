package driver

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
)

// TargetNames are the architectures --target takes.
func TargetNames() []string { return cuda.TargetNames() }

// PipelineNames are the pipelines --pipeline takes.
func PipelineNames() []string { return pipeline.Names() }

// PassConfigKeys are the keys --pass-config takes, with = behind each.
func PassConfigKeys() []string {
	var keys []string
	for _, o := range pipeline.OptionTable() {
		keys = append(keys, o.Key+"=")
	}
	return keys
}

// PassLabels are the labels of a pipeline's passes in order, none for an
// unknown pipeline.
func PassLabels(name string) []string {
	p, err := pipeline.Lookup(name)
	if err != nil {
		return nil
	}
	var out []string
	for _, r := range p.Rows() {
		out = append(out, r.Label)
	}
	return out
}

type passDoc struct {
	Label        string `json:"label"`
	Name         string `json:"name"`
	Phase        string `json:"phase"`
	Stage        string `json:"stage"`
	Doc          string `json:"doc"`
	Optional     bool   `json:"optional"`
	Conditional  bool   `json:"conditional"`
	Precondition string `json:"precondition,omitempty"`
	Effect       string `json:"effect,omitempty"`
	Before       string `json:"before,omitempty"`
	After        string `json:"after,omitempty"`

	Options []string `json:"options,omitempty"`
}

func describe(r pipeline.Row) passDoc {
	return passDoc{
		Label: r.Label, Name: r.Pass.Name, Phase: r.Phase, Stage: r.Pass.Stage, Doc: r.Pass.Doc,
		Optional: r.Optional, Conditional: r.When != nil,
		Precondition: r.Pass.Precondition, Effect: r.Pass.Effect, Before: r.Pass.Before, After: r.Pass.After,
		Options: r.Pass.Options,
	}
}

// Passes lists a pipeline or explains a pass.
func Passes(d *Deps, o PassesOptions) error {
	if o.Options {
		return listOptions(d, o.JSON)
	}
	p, err := pipeline.Lookup(o.Pipeline)
	if err != nil {
		return usageName(err)
	}
	var docs []passDoc
	var named *pipeline.Pass // the first row's
	for _, r := range p.Rows() {
		if o.Name == "" || r.Label == o.Name || r.Pass.Name == o.Name {
			docs = append(docs, describe(r))
			if named == nil {
				named = r.Pass
			}
		}
	}
	if o.Name != "" && len(docs) == 0 {
		_, err := pipeline.FindRow(p.Rows(), o.Name)
		return usageName(err)
	}
	switch {
	case o.JSON:
		return writeJSON(d.Stdout, map[string]any{"schema_version": 1, "pipeline": p.Name(), "passes": docs})
	case o.Name != "":
		_, err := fmt.Fprintf(d.Stdout, "%s\n\n%s", named.Name, pipeline.Describe(p.Rows(), named))
		return err
	}
	w := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	phase := ""
	for i, doc := range docs {
		if doc.Phase != phase {
			phase = doc.Phase
			fmt.Fprintf(w, "%s\n", phase)
		}
		mark := ""
		if doc.Conditional {
			mark = " (conditional)"
		}
		fmt.Fprintf(w, "%3d  %s\t%s\t%s%s\n", i, doc.Label, doc.Stage, doc.Doc, mark)
	}
	return w.Flush()
}

func listOptions(d *Deps, asJSON bool) error {
	if asJSON {
		type option struct {
			Key     string `json:"key"`
			Default any    `json:"default"`
			Doc     string `json:"doc"`
		}
		var list []option
		for _, o := range pipeline.OptionTable() {
			list = append(list, option{o.Key, o.Default, o.Doc})
		}
		return writeJSON(d.Stdout, map[string]any{"schema_version": 1, "options": list})
	}
	w := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	for _, o := range pipeline.OptionTable() {
		fmt.Fprintf(w, "%s=%v\t%s\n", o.Key, o.Default, o.Doc)
	}
	return w.Flush()
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
