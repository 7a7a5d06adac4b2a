package driver

import (
	"fmt"
	"path"
	"runtime"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// maxCrashReruns bounds how often a pass that panicked is run again on parts of
// its input to find the statement it panics on.
const maxCrashReruns = 256

// guard calls step and turns a panic in it into an error that names the pass
// and, where it can be found, the statement. Records still open end as failed
// with that error, so that the trace and the report have it before the user is
// told.
func (r *recording) guard(c *pipeline.Context, step func() error) (err error) {
	defer func() {
		x := recover()
		if x == nil {
			return
		}
		err = r.crash(c, x)
		r.fail(err)
	}()
	return step()
}

// crash words a panic. It is called while the panic unwinds, so that the
// calling stack still is the pass's.
func (r *recording) crash(c *pipeline.Context, x any) error {
	name, place := "the pipeline", panicPlace()
	e := &pipeline.Error{Hint: "this is a fault of lowertrace, not of the kernel: please report it with the run directory"}
	if n := len(r.open); n > 0 {
		o := r.open[n-1]
		name = o.name
		if o.pass != nil && o.input != nil {
			var fn string
			fn, e.Span = crashSite(c, o.pass, o.input, fmt.Sprint(x))
			if fn != "" {
				name += " in function " + fn
			}
		}
	}
	e.Msg = fmt.Sprintf("internal error in %s: %v", name, x)
	if place != "" {
		e.Msg += " (" + place + ")"
	}
	return e
}

// panicPlace is the file and line of ours that panicked, without its folder.
func panicPlace() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	panicking := false
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			panicking = panicking || f.Function == "runtime.gopanic"
		case panicking:
			return fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}

// crashSite finds the function, and the innermost statement of it, on which a
// pass panics with the same words. It runs the pass again on ever smaller parts
// of the module; a pass that needs the whole shows no place.
func crashSite(c *pipeline.Context, p *pipeline.Pass, m *ir.IRModule, words string) (fn string, at ir.Span) {
	left := maxCrashReruns
	panics := func(f *ir.PrimFunc) (yes bool) {
		if left--; left < 0 {
			return false
		}
		defer func() {
			if x := recover(); x != nil {
				yes = fmt.Sprint(x) == words
			}
		}()
		again := &pipeline.Context{Target: c.Target, Options: c.Options, Aside: map[string]*ir.IRModule{}}
		_, _ = p.Run(again, &ir.IRModule{Funcs: []*ir.PrimFunc{f}, Bare: m.Bare})
		return false
	}
	for _, f := range m.Funcs {
		if !panics(f) {
			continue
		}
		body := f.Body
		for inner := body; inner != nil; {
			body, inner = inner, nil
			ir.Children(body, func(s ir.Stmt) {
				if inner == nil && panics(f.WithBody(s)) {
					inner = s
				}
			})
		}
		if body != nil && body.Origin().IsValid() {
			return f.Name, body.Origin()
		}
		return f.Name, f.Org
	}
	return "", ir.Span{}
}
