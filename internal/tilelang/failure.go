package tilelang

import (
	"fmt"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// Limits of one evaluation.
const (
	// MaxSteps bounds the syntax nodes evaluated.
	MaxSteps = 4_000_000
	// MaxModuleSteps bounds those of one statement outside a kernel, so that a
	// benchmark at the end of a file costs little.
	MaxModuleSteps = 400_000
	// MaxDepth bounds Python calls within each other.
	MaxDepth = 150
	// MaxCells bounds the elements of all strings, tuples, lists, sets and
	// dictionaries ever made.
	MaxCells = 8_000_000
	// MaxIntBits bounds an integer.
	MaxIntBits = 4096
	// MaxExprNodes bounds one IR expression, counted as a tree.
	MaxExprNodes = 20_000
	// MaxFrames bounds the kernel constructs (loops, branches, attributes)
	// within each other; the passes and the printer walk them recursively.
	MaxFrames = 400
	// MaxCallers bounds the calls told with an error.
	MaxCallers = 4
	// MaxStmts bounds the statements of a kernel.
	MaxStmts = 200_000
)

// failure is a failed evaluation on its way to whoever can go on.
type failure struct {
	d diag.Diagnostic
	// silent: the cause has been reported already.
	silent bool
	// limit: a bound of the evaluation was reached; nobody goes on after that.
	limit bool
	// callers are the calls around, which are told as notes.
	callers []caller
	// exc is the raised exception, nil if it was not raised by the file.
	exc value
	// kind is the Python exception, for try statements: "ValueError", ...
	kind string
}

// caller is a call of a function or macro of the file.
type caller struct {
	name string
	at   ir.Span
}

func (f *failure) Error() string { return f.d.Error() }

// errorf makes a failure at the place under evaluation.
func (in *interp) errorf(format string, args ...any) *failure {
	f := &failure{d: diag.Diagnostic{Span: in.here(), Message: fmt.Sprintf(format, args...)}}
	f.callers = append(f.callers, in.callers...)
	return f
}

// errorAt makes a failure at a span, the place under evaluation if it is
// unknown.
func (in *interp) errorAt(at ir.Span, format string, args ...any) *failure {
	f := in.errorf(format, args...)
	if at.IsValid() {
		f.d.Span = at
	}
	return f
}

func (f *failure) hint(format string, args ...any) *failure {
	f.d.Hint = fmt.Sprintf(format, args...)
	return f
}

func (f *failure) note(at ir.Span, format string, args ...any) *failure {
	if at.IsValid() {
		f.d.Notes = append(f.d.Notes, diag.Note{Span: at, Message: fmt.Sprintf(format, args...)})
	}
	return f
}

func (f *failure) is(kind string) *failure {
	f.kind = kind
	return f
}

// here is the place under evaluation.
func (in *interp) here() ir.Span { return in.file.Span(in.at) }

// try runs f and returns its failure, nil if it succeeds.
func (in *interp) try(f func()) (err *failure) {
	at, depth, callers := in.at, in.depth, len(in.callers)
	defer func() {
		if r := recover(); r != nil {
			fl, ok := r.(*failure)
			if !ok {
				panic(r)
			}
			err, in.at, in.depth, in.callers = fl, at, depth, in.callers[:callers]
		}
	}()
	f()
	return nil
}

// report records a failure.
func (in *interp) report(f *failure) {
	if !f.silent {
		f.silent = true
		shown := 0
		for i := len(f.callers) - 1; i >= 0 && shown < MaxCallers; i-- {
			if c := f.callers[i]; c.at != f.d.Span {
				f.note(c.at, "%s is called here", c.name)
				shown++
			}
		}
		in.diags.Add(f.d)
	}
}

// step counts a unit of work.
func (in *interp) step() {
	in.steps++
	if in.steps > in.maxSteps {
		f := in.errorf("the evaluation takes more than %d steps", in.budget)
		f.limit = true
		panic(f)
	}
}

// allow bounds the steps of the work ahead.
func (in *interp) allow(n int) { in.maxSteps, in.budget = in.steps+n, n }

// cells counts the elements of a new value.
func (in *interp) cells(n int) {
	in.ncells += n
	if n < 0 || in.ncells > MaxCells {
		f := in.errorf("the evaluation makes more than %d values", MaxCells)
		f.limit = true
		panic(f)
	}
}

// locate sets the place under evaluation.
func (in *interp) locate(n syntax.Node) { in.at = n.Range() }
