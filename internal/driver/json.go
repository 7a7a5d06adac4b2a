package driver

import (
	"io"

	"lowertrace/internal/render"
	"lowertrace/internal/trace"
)

// runSchema is the version of what `run --json` prints.
const runSchema = 1

// runDoc is a run as data: the manifest and each record with its texts left
// out (they lie in the run directory).
type runDoc struct {
	Schema int `json:"run_schema_version"`
	trace.Manifest
	ID           string      `json:"id"`
	InvocationID string      `json:"invocation_id,omitempty"`
	Dir          string      `json:"dir,omitempty"`
	Records      []recordDoc `json:"records"`
	Copies       []copyDoc   `json:"working_copies,omitempty"`
	// Comparison is how a resumed run differs from the one it came from.
	Comparison *render.Comparison `json:"comparison,omitempty"`
}

// copyDoc is what became of a working copy.
type copyDoc struct {
	Path     string   `json:"path"`
	Function string   `json:"function"`
	Target   string   `json:"target"`
	State    string   `json:"state"` // init, INIT-BACKUP, unchanged, REGENERATED, PATCHED, SYNCED or CONFLICT
	Message  string   `json:"message,omitempty"`
	Backups  []string `json:"backups,omitempty"`
	Command  string   `json:"command,omitempty"` // shows the edit that was set aside
}

type recordDoc struct {
	trace.LowerRecord
	Milliseconds float64 `json:"ms"`
}

func newRunDoc(run *trace.Run) *runDoc {
	doc := &runDoc{Schema: runSchema, Manifest: run.Manifest, ID: run.ID, InvocationID: run.InvocationID, Dir: run.Dir, Records: []recordDoc{}}
	for _, r := range run.Records {
		doc.Records = append(doc.Records, recordDoc{r, float64(r.Duration.Microseconds()) / 1000})
	}
	return doc
}

// writeRunJSON prints a run as one document.
func writeRunJSON(w io.Writer, run *trace.Run) error { return writeJSON(w, newRunDoc(run)) }

// writeInvocationJSON prints the runs of one command as one document.
func writeInvocationJSON(w io.Writer, inv *invocation) error {
	docs := inv.docs
	if docs == nil {
		docs = []any{}
	}
	return writeJSON(w, struct {
		Schema       int    `json:"schema_version"`
		InvocationID string `json:"invocation_id"`
		Runs         []any  `json:"runs"`
	}{runSchema, inv.id, docs})
}
