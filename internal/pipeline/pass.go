package pipeline

import (
	"fmt"

	"lowertrace/internal/ir"
)

// Pass is one transformation or check of a module. Passes are pure: the same
// module, target and options give the same result, and nothing is printed.
type Pass struct {
	// Name is TileLang's or TVM's own name of the pass.
	Name string
	// Stage is the folder the pass lives in: legalize, schedule, tile, loop,
	// memory, expr or device.
	Stage string
	// Doc is one line: what the pass does, lower case, no full stop.
	Doc string
	// Precondition and Effect explain the pass in full sentences; Before and
	// After are a tiny example as text. They feed the pass reference.
	Precondition, Effect string
	Before, After        string
	// Options are the keys of the options the pass reads.
	Options []string
	// Run transforms the module. It returns the same pointer when nothing
	// changed. Errors carry the origin of the statement concerned (Errorf).
	Run func(*Context, *ir.IRModule) (*ir.IRModule, error)
}

// Error is why a pass, or the code generator, cannot go on.
type Error struct {
	Span  ir.Span // the statement concerned; may be unknown
	Msg   string
	Notes []Note
	Hint  string
}

// Note points at another place that matters to an Error.
type Note struct {
	Span ir.Span
	Msg  string
}

// Error is file:line:col: message.
func (e *Error) Error() string {
	if e.Span.IsValid() {
		return e.Span.String() + ": " + e.Msg
	}
	return e.Msg
}

// Errorf makes an Error about the statement at span.
func Errorf(span ir.Span, format string, args ...any) *Error {
	return &Error{Span: span, Msg: fmt.Sprintf(format, args...)}
}

// WithNote adds a note and returns e.
func (e *Error) WithNote(span ir.Span, format string, args ...any) *Error {
	e.Notes = append(e.Notes, Note{span, fmt.Sprintf(format, args...)})
	return e
}

// Remark is what a pass tells about something it did not do, for example
// "not vectorized: index stride 3".
type Remark struct {
	Span ir.Span
	Text string
}

// FuncPass makes a Pass's Run from a function on single functions that
// satisfy keep (nil: all).
func FuncPass(keep func(*ir.PrimFunc) bool, fn func(*Context, *ir.PrimFunc) (*ir.PrimFunc, error)) func(*Context, *ir.IRModule) (*ir.IRModule, error) {
	return func(c *Context, m *ir.IRModule) (*ir.IRModule, error) {
		return m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
			if keep != nil && !keep(f) {
				return f, nil
			}
			return fn(c, f)
		})
	}
}

// BodyPass is FuncPass for passes that rewrite the body alone.
func BodyPass(keep func(*ir.PrimFunc) bool, fn func(*Context, *ir.PrimFunc) (ir.Stmt, error)) func(*Context, *ir.IRModule) (*ir.IRModule, error) {
	return FuncPass(keep, func(c *Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
		body, err := fn(c, f)
		if err != nil {
			return nil, err
		}
		return f.WithBody(body), nil
	})
}
