package diag

import (
	"encoding/json"

	"lowertrace/internal/ir"
)

// Place is a span in JSON: 1-based lines and byte columns, the end exclusive.
type Place struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	EndLine int    `json:"end_line"`
	EndCol  int    `json:"end_col"`
}

// PlaceOf is a span as a Place, nil for an unknown one.
func PlaceOf(s ir.Span) *Place {
	if !s.IsValid() {
		return nil
	}
	p := &Place{File: s.Src.Name}
	p.Line, p.Col = s.Src.Position(int(s.Pos))
	p.EndLine, p.EndCol = s.Src.Position(int(s.End))
	return p
}

type jsonNote struct {
	Place   *Place `json:"place,omitempty"`
	Message string `json:"message"`
}

type jsonDiagnostic struct {
	Severity string     `json:"severity"`
	Place    *Place     `json:"place,omitempty"`
	Message  string     `json:"message"`
	Notes    []jsonNote `json:"notes,omitempty"`
	Hint     string     `json:"hint,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (d Diagnostic) MarshalJSON() ([]byte, error) {
	j := jsonDiagnostic{Severity: d.Severity.String(), Place: PlaceOf(d.Span), Message: d.Message, Hint: d.Hint}
	for _, n := range d.Notes {
		j.Notes = append(j.Notes, jsonNote{PlaceOf(n.Span), n.Message})
	}
	return json.Marshal(j)
}

// MarshalJSON is {"diagnostics": [...], "more": n}: all kept diagnostics, and
// how many were only counted.
func (l *List) MarshalJSON() ([]byte, error) {
	all := l.All()
	if all == nil {
		all = []Diagnostic{}
	}
	return json.Marshal(struct {
		Diagnostics []Diagnostic `json:"diagnostics"`
		More        int          `json:"more"`
	}{all, l.Len() - len(all)})
}
