package diag

import (
	"cmp"
	"fmt"
	"slices"

	"lowertrace/internal/ir"
)

// Severity says whether the work can go on.
type Severity uint8

// The severities.
const (
	Error Severity = iota
	Warning
)

// String is "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// MaxKept bounds the diagnostics a List holds; later ones are only counted.
const MaxKept = 200

// MaxShown bounds the diagnostics a renderer writes out; it says how many
// more there are.
const MaxShown = 20

// Note points to another place that has to do with a diagnostic.
type Note struct {
	Span    ir.Span
	Message string
}

// Diagnostic is one thing to tell the user about the input.
type Diagnostic struct {
	Severity Severity
	Span     ir.Span
	Message  string
	Notes    []Note
	Hint     string // what to do about it, for example "did you mean T.copy?"
}

// Error is file:line:col: message, with the hint in parentheses.
func (d Diagnostic) Error() string {
	s := d.Message
	if d.Span.IsValid() {
		s = d.Span.String() + ": " + s
	}
	if d.Hint != "" {
		s += " (" + d.Hint + ")"
	}
	return s
}

// List collects diagnostics. The zero List is empty and ready to use.
type List struct {
	all     []Diagnostic
	errors  int // errors among all and dropped
	dropped int // not kept
	sorted  bool
}

// Add appends a diagnostic.
func (l *List) Add(d Diagnostic) {
	if d.Severity == Error {
		l.errors++
	}
	if len(l.all) >= MaxKept {
		l.dropped++
		return
	}
	l.all = append(l.all, d)
	l.sorted = false
}

// Errorf appends an error and returns it for notes and a hint to be added. The
// pointer is valid until the next call of a method of l.
func (l *List) Errorf(span ir.Span, format string, args ...any) *Diagnostic {
	return l.addf(Error, span, format, args...)
}

// Warnf appends a warning; see Errorf.
func (l *List) Warnf(span ir.Span, format string, args ...any) *Diagnostic {
	return l.addf(Warning, span, format, args...)
}

func (l *List) addf(sev Severity, span ir.Span, format string, args ...any) *Diagnostic {
	n := len(l.all)
	l.Add(Diagnostic{Severity: sev, Span: span, Message: fmt.Sprintf(format, args...)})
	if len(l.all) == n {
		return &Diagnostic{} // counted only
	}
	return &l.all[n]
}

// Full reports that further diagnostics are only counted, so that a parser
// may give up.
func (l *List) Full() bool { return len(l.all) >= MaxKept }

// HasErrors reports whether there is any error.
func (l *List) HasErrors() bool { return l != nil && l.errors > 0 }

// Len is the number of diagnostics, those that were only counted included.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	l.sort()
	return len(l.all) + l.dropped
}

// All is the kept diagnostics by position, without repetitions. Those without
// a position come first.
func (l *List) All() []Diagnostic {
	if l == nil {
		return nil
	}
	l.sort()
	return l.all
}

func (l *List) sort() {
	if l.sorted {
		return
	}
	// Files in the order in which they were first mentioned.
	order := map[*ir.Source]int{}
	for i := range l.all {
		src := l.all[i].Span.Src
		if _, ok := order[src]; !ok && src != nil {
			order[src] = len(order) + 1
		}
	}
	slices.SortStableFunc(l.all, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(order[a.Span.Src], order[b.Span.Src]),
			cmp.Compare(a.Span.Pos, b.Span.Pos),
			cmp.Compare(a.Severity, b.Severity),
		)
	})
	l.all = slices.CompactFunc(l.all, func(a, b Diagnostic) bool {
		return a.Span == b.Span && a.Severity == b.Severity && a.Message == b.Message
	})
	l.sorted = true
}

// Err is the list as an error, nil if it holds no error.
func (l *List) Err() error {
	if !l.HasErrors() {
		return nil
	}
	return &ListError{l}
}

// ListError is a List with at least one error as an error value.
type ListError struct{ List *List }

// Error is the first error and how many more there are.
func (e *ListError) Error() string {
	for _, d := range e.List.All() {
		if d.Severity != Error {
			continue
		}
		if n := e.List.errorCount() - 1; n > 0 {
			return fmt.Sprintf("%s (and %d more)", d.Error(), n)
		}
		return d.Error()
	}
	return fmt.Sprintf("%d errors", e.List.errors)
}

// errorCount is the number of different errors, and of those only counted.
func (l *List) errorCount() int {
	l.sort()
	n := l.dropped
	for i := range l.all {
		if l.all[i].Severity == Error {
			n++
		}
	}
	return n
}
