package driver

import (
	"io"

	"lowertrace/internal/trace"
)

// runSchema is the version of what `run --json` prints.
const runSchema = 1

// writeRunJSON prints a run as one document: the manifest and each record with
// its texts left out (they lie in the run directory).
func writeRunJSON(w io.Writer, run *trace.Run) error {
	type record struct {
		trace.LowerRecord
		Milliseconds float64 `json:"ms"`
	}
	recs := make([]record, len(run.Records))
	for i, r := range run.Records {
		recs[i] = record{r, float64(r.Duration.Microseconds()) / 1000}
	}
	return writeJSON(w, struct {
		Schema int `json:"run_schema_version"`
		trace.Manifest
		ID      string   `json:"id"`
		Dir     string   `json:"dir,omitempty"`
		Records []record `json:"records"`
	}{runSchema, run.Manifest, run.ID, run.Dir, recs})
}
