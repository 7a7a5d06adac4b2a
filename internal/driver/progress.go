package driver

import (
	"fmt"
	"io"
	"time"

	"lowertrace/internal/render"
)

// progressDelay is how long work goes on before its progress is shown.
const progressDelay = time.Second

// progress is one line on a terminal that says what is being done; nothing
// where standard error is none.
type progress struct {
	w           io.Writer // nil: nothing is shown
	clock       func() time.Time
	start       time.Time
	done, total int
	shown       bool
}

func (d *Deps) newProgress(total int) *progress {
	p := &progress{clock: d.Clock, total: total}
	if d.StderrTTY {
		p.w, p.start = d.Stderr, d.Clock()
	}
	return p
}

// show says that the next step begins.
func (p *progress) show(what string) {
	p.done++
	if p.w == nil || p.clock().Sub(p.start) < progressDelay {
		return
	}
	p.shown = true
	fmt.Fprintf(p.w, "\r\x1b[K%d/%d %s", p.done, p.total, render.EscapeLine(what))
}

// end takes the line away.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
