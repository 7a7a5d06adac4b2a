package tile

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// VerifyReducerEpoch checks the order of operations on each reducer: it is
// initialized, then contributed to, then finalized, and its memory is accessed
// in no other way.
//
// Precondition: reducers have their first-class form
// (CanonicalizeLegacyReducer has run).
//
// Effect: none; a contribution or end before the start, in program order, and
// a plain access to the memory of a reducer are errors.
//
//	T.reducer_update(acc[i], x)        error: the reducer acc is contributed to
//	T.reducer_init(acc)           ->   before it is initialized
var VerifyReducerEpoch = &pipeline.Pass{
	Name:         "VerifyReducerEpoch",
	Stage:        "tile",
	Doc:          "check that reducers are initialized, contributed to and finalized in this order",
	Precondition: "Reducers have their first-class form (CanonicalizeLegacyReducer has run).",
	Effect:       "The module does not change; an operation on a reducer out of order is an error.",
	Before:       "T.reducer_update(acc[i], x)\nT.reducer_init(acc)",
	After:        "error: the reducer acc is contributed to before it is initialized",
	Run: pipeline.BodyPass(isDevice, func(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
		v := &epochs{open: map[*ir.Var]ir.Span{}, seen: map[*ir.Var]bool{}}
		v.stmt(f.Body)
		return f.Body, v.err
	}),
}

type epochs struct {
	open map[*ir.Var]ir.Span // initialized and not finalized: where
	seen map[*ir.Var]bool
	err  error
}

func (v *epochs) fail(s ir.Stmt, format string, args ...any) {
	if v.err == nil {
		v.err = pipeline.Errorf(s.Origin(), format, args...)
	}
}

func (v *epochs) stmt(s ir.Stmt) {
	if s == nil || v.err != nil {
		return
	}
	if ev, ok := s.(*ir.Evaluate); ok {
		if c, ok := ev.Value.(*ir.Call); ok && isReducerOp(c) && c.Op.Name != "finalize_reducer" {
			v.operation(s, c)
			return
		}
	}
	v.plain(s)
	ir.Children(s, v.stmt)
}

func (v *epochs) operation(s ir.Stmt, c *ir.Call) {
	r, err := decodeRegion(c.Args[0])
	if err != nil {
		v.fail(s, "T.%s: %v", c.Op.Name, err)
		return
	}
	_, open := v.open[r.buf.Data]
	switch c.Op.Name {
	case "reducer_init":
		if open {
			v.fail(s, "the reducer %s is initialized again before it is finalized", r.buf.Name)
			return
		}
		v.open[r.buf.Data] = s.Origin()
	case "reducer_update":
		if !open {
			v.fail(s, "the reducer %s is contributed to before it is initialized", r.buf.Name)
		}
		ir.WalkExpr(c.Args[1], func(e ir.Expr) bool {
			if ld, ok := e.(*ir.BufferLoad); ok && isReducer(ld.Buffer) {
				v.fail(s, "the contribution reads the reducer %s", ld.Buffer.Name)
			}
			return true
		})
	case "finalize_reducer_v2":
		if !open {
			v.fail(s, "the reducer %s is finalized before it is initialized", r.buf.Name)
		}
		delete(v.open, r.buf.Data)
	}
}

// plain rejects accesses to reducers outside of their operations.
func (v *epochs) plain(s ir.Stmt) {
	if _, ok := s.(*ir.SBlock); ok {
		return // what a block says it reads and writes is no access
	}
	if st, ok := s.(*ir.BufferStore); ok && isReducer(st.Buffer) {
		v.fail(s, "the reducer %s is stored to; use T.reducer_update", st.Buffer.Name)
	}
	ir.StmtExprs(s, func(e ir.Expr) bool {
		if ld, ok := e.(*ir.BufferLoad); ok && isReducer(ld.Buffer) {
			v.fail(s, "the reducer %s is read before T.finalize_reducer gives its result", ld.Buffer.Name)
		}
		return true
	})
}
