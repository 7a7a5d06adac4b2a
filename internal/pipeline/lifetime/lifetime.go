// Package lifetime says between which statements of a kernel memory is in use.
package lifetime

import "lowertrace/internal/ir"

// Interval is a closed range of statement numbers.
type Interval struct{ First, Last int }

// Overlaps reports that two intervals share a statement.
func (a Interval) Overlaps(b Interval) bool { return a.First <= b.Last && b.First <= a.Last }

// Join is the smallest interval that holds both.
func (a Interval) Join(b Interval) Interval {
	return Interval{min(a.First, b.First), max(a.Last, b.Last)}
}

// Touches calls visit for every use of memory a statement makes itself, not
// those of the statements in it: the pointer of a load's or store's buffer, or
// a pointer that is mentioned by itself.
func Touches(s ir.Stmt, visit func(data *ir.Var)) {
	if st, ok := s.(*ir.BufferStore); ok {
		visit(st.Buffer.Data)
	}
	if _, ok := s.(*ir.SBlock); ok {
		// Regions and annotations of a block describe, they do not access.
		return
	}
	ir.StmtExprs(s, func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			visit(e.Buffer.Data)
		case *ir.Var:
			if e.Type.IsHandle() {
				visit(e)
			}
		}
		return true
	})
}

// Of gives, for each pointer in homes, the statements of scope between which
// its memory is in use, as numbers in program order; pointers that are not used
// are missing. The value in homes is the loop of which every iteration has the
// memory anew, reading nothing that an earlier one left, or nil.
//
// A use within a loop extends to the whole of the outermost loop inside the
// memory's home, for what one iteration leaves the next may read. It extends to
// the whole of a branch with an else, and of a warp-specialized region, for
// threads may run both sides at the same time.
func Of(scope ir.Stmt, homes map[*ir.Var]*ir.For) map[*ir.Var]Interval {
	w := &walker{homes: homes, out: map[*ir.Var]Interval{}}
	if scope != nil {
		w.visit(scope)
	}
	return w.out
}

// region is a statement being visited whose parts may run again, or side by
// side, before it ends.
type region struct {
	stmt   ir.Stmt
	loop   bool
	from   int
	inside map[*ir.Var]bool // used inside, and so all the time
}

type walker struct {
	homes map[*ir.Var]*ir.For
	out   map[*ir.Var]Interval
	clock int
	stack []region
}

func (w *walker) visit(s ir.Stmt) {
	w.clock++
	loop, at := atOnce(s)
	if at {
		w.stack = append(w.stack, region{s, loop, w.clock, map[*ir.Var]bool{}})
	}
	Touches(s, w.use)
	ir.Children(s, w.visit)
	if at {
		w.clock++
		r := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		for v := range r.inside {
			w.note(v, Interval{r.from, w.clock})
		}
	}
}

// use notes a use here: of all of the outermost region in which it counts
// as long as that runs.
func (w *walker) use(v *ir.Var) {
	home, ok := w.homes[v]
	if !ok {
		return
	}
	at := -1
	if home != nil {
		for i, r := range w.stack {
			if r.stmt == ir.Stmt(home) {
				at = i
			}
		}
	}
	for i, r := range w.stack {
		if !r.loop || i > at {
			r.inside[v] = true
			return
		}
	}
	w.note(v, Interval{w.clock, w.clock})
}

func (w *walker) note(v *ir.Var, iv Interval) {
	if old, ok := w.out[v]; ok {
		iv = iv.Join(old)
	}
	w.out[v] = iv
}

// atOnce reports statements whose parts may run again (loop), or side by side,
// before the statement ends.
func atOnce(s ir.Stmt) (loop, ok bool) {
	switch s := s.(type) {
	case *ir.For:
		return true, s.Kind != ir.ThreadBinding
	case *ir.While:
		return true, true
	case *ir.IfThenElse:
		return false, s.Else != nil
	case *ir.AttrStmt:
		return false, s.Key == ir.KeyWarpSpecialization
	}
	return false, false
}
