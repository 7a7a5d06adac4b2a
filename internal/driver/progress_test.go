package driver

import (
	"bytes"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	now := time.Unix(0, 0)
	var out bytes.Buffer
	d := &Deps{Stderr: &out, StderrTTY: true, Clock: func() time.Time { return now }}
	p := d.newProgress(3)
	p.show("a")
	if out.Len() != 0 {
		t.Errorf("shown at once: %q", out.String())
	}
	now = now.Add(2 * progressDelay)
	p.show("b\x1b")
	p.end()
	if got, want := out.String(), "\r\x1b[K2/3 b\\x1b\r\x1b[K"; got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
	out.Reset()
	d.StderrTTY = false
	p = d.newProgress(3)
	now = now.Add(2 * progressDelay)
	p.show("c")
	p.end()
	if out.Len() != 0 {
		t.Errorf("shown where there is no terminal: %q", out.String())
	}
}
