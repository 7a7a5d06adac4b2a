package pipeline

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"lowertrace/internal/ir"
)

// Entry is one row of a pipeline's table.
type Entry struct {
	Pass *Pass
	// Phase overrides the phase of the records ("unscoped").
	Phase string
	// When decides whether the pass runs; when it does not, it gives the
	// reason. Nil: always.
	When func(*Context) (ok bool, reason string)
	// Optional passes may be left out (--skip): the kernel stays correct.
	Optional bool
	// Aside keeps the result beside the main module under this name, and the
	// table goes on with the module the pass was given.
	Aside string
}

// Output is what a code generator made.
type Output struct {
	Source string
	// Origins has, for each line of Source, the span it came from.
	Origins []ir.Span
	// Launch is launch.json.
	Launch []byte
	// Flags are options of the CUDA compiler that Source is meant for.
	Flags []string
}

// Codegen prints a device module.
type Codegen func(*Context, *ir.IRModule) (*Output, error)

// Pipeline lowers a module for a target.
type Pipeline interface {
	// Name is what --pipeline takes.
	Name() string
	// Rows is the table in order.
	Rows() []Row
	// Run runs the table. With ErrStopped the module is the state at
	// Selection.StopAfter.
	Run(*Context, *ir.IRModule) (*ir.IRModule, error)
	// Codegen prints what Run left.
	Codegen() Codegen
}

// Row is an Entry with the label and the phase it has in a pipeline.
type Row struct {
	Entry
	Label string // NAME, or NAME#k when a pass stands in the table repeatedly
	Phase string
}

// PassPipeline is one ordered table; its records come under
// pipeline_<backend>.
type PassPipeline struct {
	Backend string
	Table   []Entry
	Gen     Codegen
}

// Phase is a named part of a PhasePipeline.
type Phase struct {
	Name  string
	Table []Entry
}

// PhasePipeline is a list of named phases; its records come under each
// phase's name.
type PhasePipeline struct {
	Title  string
	Phases []Phase
	Gen    Codegen
}

// Name implements Pipeline.
func (p *PassPipeline) Name() string { return p.Backend }

// Rows implements Pipeline.
func (p *PassPipeline) Rows() []Row {
	rows := make([]Row, len(p.Table))
	for i, e := range p.Table {
		rows[i] = Row{Entry: e, Phase: "pipeline_" + p.Backend}
	}
	return label(rows)
}

// Run implements Pipeline.
func (p *PassPipeline) Run(c *Context, m *ir.IRModule) (*ir.IRModule, error) {
	return runRows(c, p.Rows(), m)
}

// Codegen implements Pipeline.
func (p *PassPipeline) Codegen() Codegen { return p.Gen }

// Name implements Pipeline.
func (p *PhasePipeline) Name() string { return p.Title }

// Rows implements Pipeline.
func (p *PhasePipeline) Rows() []Row {
	var rows []Row
	for _, ph := range p.Phases {
		for _, e := range ph.Table {
			rows = append(rows, Row{Entry: e, Phase: ph.Name})
		}
	}
	return label(rows)
}

// Run implements Pipeline.
func (p *PhasePipeline) Run(c *Context, m *ir.IRModule) (*ir.IRModule, error) {
	return runRows(c, p.Rows(), m)
}

// Codegen implements Pipeline.
func (p *PhasePipeline) Codegen() Codegen { return p.Gen }

// label fills in labels and phase overrides.
func label(rows []Row) []Row {
	total, seen := map[string]int{}, map[string]int{}
	for _, r := range rows {
		total[r.Pass.Name]++
	}
	for i := range rows {
		r := &rows[i]
		n := r.Pass.Name
		seen[n]++
		r.Label = n
		if total[n] > 1 {
			r.Label = fmt.Sprintf("%s#%d", n, seen[n])
		}
		if r.Entry.Phase != "" {
			r.Phase = r.Entry.Phase
		}
	}
	return rows
}

// AmbiguousPassError says that a bare name stands for several rows.
type AmbiguousPassError struct {
	Name   string
	Labels []string
}

func (e *AmbiguousPassError) Error() string {
	return fmt.Sprintf("%s occurs %d times in the pipeline: say which of %s", e.Name, len(e.Labels), strings.Join(e.Labels, ", "))
}

// FindRow is the index of the row a label or an unambiguous name stands for.
func FindRow(rows []Row, name string) (int, error) {
	var hits []int
	for i, r := range rows {
		if r.Label == name {
			return i, nil
		}
		if r.Pass.Name == name {
			hits = append(hits, i)
		}
	}
	switch len(hits) {
	case 0:
		return 0, &UnknownNameError{"pass", name, rowNames(rows)}
	case 1:
		return hits[0], nil
	}
	e := &AmbiguousPassError{Name: name}
	for _, i := range hits {
		e.Labels = append(e.Labels, rows[i].Label)
	}
	return 0, e
}

func rowNames(rows []Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Label)
	}
	return out
}

// CheckSelection reports names in a selection that the rows do not have, or
// that are ambiguous.
func CheckSelection(rows []Row, s Selection) error {
	for _, n := range []string{s.StartAt, s.StopAfter} {
		if n != "" {
			if _, err := FindRow(rows, n); err != nil {
				return err
			}
		}
	}
	for _, n := range slices.Concat(s.Skip, s.Only) {
		var amb *AmbiguousPassError
		if _, err := FindRow(rows, n); err != nil && !asAmbiguous(err, &amb) {
			return err
		}
	}
	return nil
}

func asAmbiguous(err error, to **AmbiguousPassError) bool {
	a, ok := err.(*AmbiguousPassError)
	*to = a
	return ok
}

func named(list []string, r Row) bool {
	return slices.Contains(list, r.Pass.Name) || slices.Contains(list, r.Label)
}

func runRows(c *Context, rows []Row, m *ir.IRModule) (*ir.IRModule, error) {
	if err := CheckSelection(rows, c.Select); err != nil {
		return nil, err
	}
	first, last := 0, len(rows)-1
	if n := c.Select.StartAt; n != "" {
		first, _ = FindRow(rows, n)
	}
	if n := c.Select.StopAfter; n != "" {
		last, _ = FindRow(rows, n)
	}
	if c.Aside == nil {
		c.Aside = map[string]*ir.IRModule{}
	}
	for i := first; i <= last; i++ {
		r := rows[i]
		if c.Interrupted != nil {
			if err := c.Interrupted(); err != nil {
				return m, err
			}
		}
		if len(c.Select.Only) > 0 && !named(c.Select.Only, r) {
			continue
		}
		if named(c.Select.Skip, r) {
			c.skip(r.Pass, r.Label, r.Phase, m, "skipped by --skip")
			continue
		}
		if r.When != nil {
			if ok, why := r.When(c); !ok {
				if named(c.Select.Only, r) || i == first && c.Select.StartAt != "" {
					c.skip(r.Pass, r.Label, r.Phase, m, why)
				}
				continue
			}
		}
		out, err := c.run(r.Pass, r.Label, r.Phase, m)
		if err != nil {
			return m, err
		}
		if r.Aside != "" {
			c.Aside[r.Aside] = out
			continue
		}
		m = out
	}
	if c.Select.StopAfter != "" || len(c.Select.Only) > 0 {
		return m, ErrStopped
	}
	return m, nil
}

var registry = map[string]Pipeline{}

// Register adds a pipeline to those --pipeline can name.
func Register(p Pipeline) {
	if _, dup := registry[p.Name()]; dup {
		panic("pipeline: " + p.Name() + " is registered twice")
	}
	registry[p.Name()] = p
}

// Lookup is the pipeline of a name.
func Lookup(name string) (Pipeline, error) {
	if p, ok := registry[name]; ok {
		return p, nil
	}
	return nil, &UnknownNameError{"pipeline", name, keysOf(registry)}
}

// Names are the registered pipelines, sorted.
func Names() []string {
	names := keysOf(registry)
	sort.Strings(names)
	return names
}
