package driver

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/trace"
)

// recording is the instrument that hands what passes do to a recorder.
type recording struct {
	rec  *trace.Recorder
	open []trace.Handle
	text textCache
}

// textCache keeps the printed form of the module printed last: a pass that
// changed nothing returns the same module, and the next pass begins with it.
type textCache struct {
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
	text, lines := script.PrintWithOrigins(m)
	e := &c.entries[c.next]
	c.next = (c.next + 1) % len(c.entries)
	e.mod, e.text = m, trace.Text{Text: text, Origins: lines}
	return e.text
}

// Before implements pipeline.Instrument.
func (r *recording) Before(e *pipeline.Event) {
	if e.Skipped != "" {
		r.rec.Skip(passOf(e), e.Skipped)
		return
	}
	r.open = append(r.open, r.rec.Begin(passOf(e), r.text.print(e.Input)))
}

// After implements pipeline.Instrument.
func (r *recording) After(e *pipeline.Event) {
	if e.Skipped != "" {
		return
	}
	h := r.open[len(r.open)-1]
	r.open = r.open[:len(r.open)-1]
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
