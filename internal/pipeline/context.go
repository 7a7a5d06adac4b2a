package pipeline

import (
	"errors"
	"fmt"

	"lowertrace/internal/ir"
)

// Instrument observes passes. Before is called with the module a pass gets,
// After with what came of it.
type Instrument interface {
	Before(*Event)
	After(*Event)
}

// Event is one run of a pass. Fields from Result on are set for After.
type Event struct {
	Pass  *Pass
	Phase string
	// Label tells occurrences of one pass in a table apart: NAME#k for the
	// k-th of several, the bare name otherwise. Nested runs have the bare
	// name.
	Label string
	Depth int // 0 for passes of the pipeline's table
	// Input is the module the pass got.
	Input *ir.IRModule
	// Skipped is why the pass did not run, for passes the user named in
	// --skip; neither Result nor Err is set then.
	Skipped string
	Result  *ir.IRModule
	Err     error
	Remarks []Remark
}

// Selection limits what a pipeline runs. The zero value runs everything.
type Selection struct {
	StartAt   string // label of the first pass to run
	StopAfter string // label of the last pass to run
	Skip      []string
	Only      []string // run these passes alone, in table order
}

// Context is what passes get: target, options, remarks, nested runs. One
// Context serves one lowering.
type Context struct {
	Target  *Target
	Options Options
	Select  Selection
	// VerifyEach checks the module after every pass.
	VerifyEach  bool
	Instruments []Instrument
	// Interrupted, when set, is asked between passes of the table; an error
	// ends the lowering with it.
	Interrupted func() error
	// Aside are results kept beside the main module, by name ("host").
	Aside map[string]*ir.IRModule

	stack []*Event
}

// ErrStopped is returned by a pipeline that ended at Selection.StopAfter; the
// module beside it is the state there.
var ErrStopped = errors.New("stopped as asked")

// Remark records a remark of the pass that is running.
func (c *Context) Remark(span ir.Span, format string, args ...any) {
	if len(c.stack) == 0 {
		return
	}
	e := c.stack[len(c.stack)-1]
	e.Remarks = append(e.Remarks, Remark{span, fmt.Sprintf(format, args...)})
}

// Run runs a pass inside the pass that is running, as a nested record.
func (c *Context) Run(p *Pass, m *ir.IRModule) (*ir.IRModule, error) {
	phase := "unscoped"
	if n := len(c.stack); n > 0 {
		phase = c.stack[n-1].Phase
	}
	return c.run(p, p.Name, phase, m)
}

func (c *Context) run(p *Pass, label, phase string, m *ir.IRModule) (*ir.IRModule, error) {
	e := &Event{Pass: p, Phase: phase, Label: label, Depth: len(c.stack), Input: m}
	for _, in := range c.Instruments {
		in.Before(e)
	}
	c.stack = append(c.stack, e)
	out, err := p.Run(c, m)
	c.stack = c.stack[:len(c.stack)-1]
	if err == nil && out == nil {
		err = Errorf(ir.Span{}, "pass %s returned no module", p.Name)
	}
	if err == nil && c.VerifyEach && out != m {
		// Foreign text may be ill-formed from the start; a pass answers for
		// what it was given well-formed.
		if verr := ir.Verify(out); verr != nil && ir.Verify(m) == nil {
			err = fmt.Errorf("after %s: %w", p.Name, verr)
		}
	}
	e.Result, e.Err = out, err
	for i := len(c.Instruments) - 1; i >= 0; i-- {
		c.Instruments[i].After(e)
	}
	return out, err
}

func (c *Context) skip(p *Pass, label, phase string, m *ir.IRModule, why string) {
	e := &Event{Pass: p, Phase: phase, Label: label, Depth: len(c.stack), Input: m, Skipped: why}
	for _, in := range c.Instruments {
		in.Before(e)
		in.After(e)
	}
}
