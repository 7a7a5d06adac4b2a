package driver

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/trace"
)

// recording is the instrument that hands what passes do to a recorder. Without
// one it only knows which passes are at work.
type recording struct {
	rec  *trace.Recorder
	open []openPass
	text textCache
}

// openPass is a pass, or the code generator, that has begun.
type openPass struct {
	handle trace.Handle
	name   string
	pass   *pipeline.Pass // nil for the code generator
	input  *ir.IRModule
}

// fail ends every open record with an error.
func (r *recording) fail(err error) {
	if len(r.open) > 0 && r.rec != nil {
		r.rec.End(r.open[0].handle, trace.Text{}, err, nil)
	}
	r.open = nil
}

// textCache keeps the printed forms of the two modules printed last: a pass that
// changed nothing returns the same module, and the next pass begins with it.
type textCache struct {
	file    string // origins are lines of this file; "": of the only one there is
	entries [2]struct {
		mod  *ir.IRModule
		text trace.Text
	}
	next int
}

func (c *textCache) print(m *ir.IRModule) trace.Text {
	if m == nil {
		return trace.Text{}
	}
	for i := range c.entries {
		if c.entries[i].mod == m {
			return c.entries[i].text
		}
	}
	text, lines := script.PrintWithOrigins(m, c.file)
	e := &c.entries[c.next]
	c.next = (c.next + 1) % len(c.entries)
	e.mod, e.text = m, trace.Text{Text: text, Origins: lines}
	return e.text
}

// Before implements pipeline.Instrument.
func (r *recording) Before(e *pipeline.Event) {
	if r.rec == nil {
		if e.Skipped == "" {
			r.open = append(r.open, openPass{name: e.Pass.Name, pass: e.Pass, input: e.Input})
		}
		return
	}
	if e.Skipped != "" {
		r.rec.Skip(passOf(e), e.Skipped)
		return
	}
	h := r.rec.Begin(passOf(e), r.text.print(e.Input))
	r.open = append(r.open, openPass{h, e.Pass.Name, e.Pass, e.Input})
}

// After implements pipeline.Instrument.
func (r *recording) After(e *pipeline.Event) {
	if e.Skipped != "" {
		return
	}
	h := r.open[len(r.open)-1].handle
	r.open = r.open[:len(r.open)-1]
	if r.rec == nil {
		return
	}
	var after trace.Text
	if e.Err == nil {
		after = r.text.print(e.Result)
	}
	r.rec.End(h, after, e.Err, remarksOf(e.Remarks))
}

func passOf(e *pipeline.Event) trace.Pass {
	return trace.Pass{Name: e.Pass.Name, Phase: e.Phase, Stage: e.Pass.Stage, Doc: e.Pass.Doc}
}

func remarksOf(list []pipeline.Remark) []trace.Remark {
	var out []trace.Remark
	for _, r := range list {
		t := trace.Remark{Text: r.Text}
		if r.Span.IsValid() {
			t.File = r.Span.Src.Name
			t.Line, t.Col = r.Span.Line(), r.Span.Column()
		}
		out = append(out, t)
	}
	return out
}
