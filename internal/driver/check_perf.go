package driver

import (
	"fmt"
	"io"
	"text/tabwriter"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir/interp"
)

// perfDoc is what `check --perf` counted in the last state, as data.
type perfDoc struct {
	FloatOps  int64         `json:"float_ops"`
	MatrixOps int64         `json:"matrix_ops"`
	Accesses  []perfAccess  `json:"accesses"`
	Barriers  []perfBarrier `json:"barriers"`
}

type perfAccess struct {
	Place    *diag.Place `json:"place,omitempty"`
	Buffer   string      `json:"buffer"`
	Scope    string      `json:"scope"`
	Access   string      `json:"access"`
	Requests int64       `json:"requests"` // of a warp
	Bytes    int64       `json:"bytes"`
	// Units are 32-byte sectors of global memory, or passes through the banks
	// of shared memory; Ideal is the fewest that could do.
	Units int64 `json:"units"`
	Ideal int64 `json:"ideal"`
}

type perfBarrier struct {
	Place  *diag.Place `json:"place,omitempty"`
	Passed int64       `json:"passed"`
	Needed int64       `json:"needed"`
}

func perfOf(s *interp.Stats) perfDoc {
	doc := perfDoc{FloatOps: s.FloatOps, MatrixOps: s.MatrixOps}
	for i := range s.Sites {
		x := &s.Sites[i]
		a := perfAccess{diag.PlaceOf(x.Span), x.Buffer, x.Scope, x.Access, x.Requests, x.Bytes, x.Sectors, x.IdealSectors}
		if x.Scope != "global" {
			a.Units, a.Ideal = x.Wavefronts, x.IdealWavefronts
		}
		doc.Accesses = append(doc.Accesses, a)
	}
	for _, b := range s.Barriers {
		doc.Barriers = append(doc.Barriers, perfBarrier{diag.PlaceOf(b.Span), b.Passed, b.Needed})
	}
	return doc
}

// writePerf prints what a state did to memory, each place at the kernel's
// line: coalescing of global accesses, bank conflicts of shared ones, barriers
// that nothing needed, and how much was computed.
func writePerf(out io.Writer, s *interp.Stats) error {
	doc := perfOf(s)
	fmt.Fprintf(out, "\nmemory, by the kernel's line (blocks that ran):\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, a := range doc.Accesses {
		unit, note := "sectors", ""
		if a.Scope != "global" {
			unit = "bank passes"
		}
		if a.Ideal > 0 && a.Units > a.Ideal {
			note = fmt.Sprintf("%.2g× the fewest possible", float64(a.Units)/float64(a.Ideal))
		}
		fmt.Fprintf(w, "  %s\t%s %s\t%s\t%d bytes\t%d requests\t%d %s\t%s\n", place(a.Place), a.Access, a.Buffer, a.Scope, a.Bytes, a.Requests, a.Units, unit, note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, b := range doc.Barriers {
		note := ""
		if b.Needed == 0 {
			note = ": redundant here"
		}
		fmt.Fprintf(out, "  %s  barrier passed %d times, needed %d times%s\n", place(b.Place), b.Passed, b.Needed, note)
	}
	_, err := fmt.Fprintf(out, "operations: %d of single threads, %d of matrix instructions\n", doc.FloatOps, doc.MatrixOps)
	return err
}

func place(p *diag.Place) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}
