package tile

import (
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
)

// known is one thing that holds at a statement: the range of a variable, its
// value, or a condition.
type known struct {
	v           *ir.Var
	min, extent ir.Expr
	value       ir.Expr
	cond        ir.Expr
}

// env is what holds at a statement. It is a value: with returns a longer one
// and leaves the receiver alone.
type env struct {
	facts []known
	// tx is threadIdx.x and threads its extent; nil and 1 outside a launch.
	tx      *ir.Var
	threads int64
	// lo and hi bound tx here, by the conditions around.
	lo, hi int64
}

func (e env) with(k known) env {
	e.facts = append(e.facts[:len(e.facts):len(e.facts)], k)
	return e
}

func (e env) loop(f *ir.For) env {
	return e.with(known{v: f.Var, min: f.Min, extent: f.Extent})
}

// launch enters an AttrStmt of key thread_extent.
func (e env) launch(iv *ir.IterVar, extent ir.Expr) env {
	e = e.with(known{v: iv.Var, min: ir.I32(0), extent: extent})
	if iv.Tag == "threadIdx.x" {
		if n, ok := ir.AsInt(extent); ok {
			e.tx, e.threads, e.lo, e.hi = iv.Var, n, 0, n
		}
	}
	return e
}

// assume enters a branch where cond holds.
func (e env) assume(cond ir.Expr) env {
	e = e.with(known{cond: cond})
	e.narrow(cond)
	return e
}

// narrow tightens the bounds of tx by comparisons with constants.
func (e *env) narrow(cond ir.Expr) {
	if n, ok := cond.(*ir.Not); ok {
		if b, ok := n.A.(*ir.Binary); ok {
			if op, ok := opposite[b.Op]; ok {
				e.narrow(&ir.Binary{Op: op, A: b.A, B: b.B})
			}
		}
		return
	}
	b, ok := cond.(*ir.Binary)
	if !ok || e.tx == nil {
		if c, ok := ir.IsCall(cond, "likely"); ok {
			e.narrow(c.Args[0])
		}
		return
	}
	if b.Op == ir.And {
		e.narrow(b.A)
		e.narrow(b.B)
		return
	}
	op, a, c := b.Op, b.A, b.B
	if c == ir.Expr(e.tx) { // constant on the left
		a, c = c, a
		switch op {
		case ir.LT:
			op = ir.GT
		case ir.LE:
			op = ir.GE
		case ir.GT:
			op = ir.LT
		case ir.GE:
			op = ir.LE
		}
	}
	n, ok := ir.AsInt(c)
	if !ok {
		return
	}
	scale := int64(1)
	if d, ok := a.(*ir.Binary); ok && d.Op == ir.FloorDiv { // tx // 128 == 1
		if k, ok := ir.AsInt(d.B); ok && k > 0 {
			a, scale = d.A, k
		}
	}
	if a != ir.Expr(e.tx) {
		return
	}
	switch op {
	case ir.LT:
		e.hi = min(e.hi, n*scale)
	case ir.LE:
		e.hi = min(e.hi, (n+1)*scale)
	case ir.GT:
		e.lo = max(e.lo, (n+1)*scale)
	case ir.GE:
		e.lo = max(e.lo, n*scale)
	case ir.EQ:
		e.lo, e.hi = max(e.lo, n*scale), min(e.hi, (n+1)*scale)
	}
}

// opposite is the comparison that holds when another does not.
var opposite = map[ir.BinOp]ir.BinOp{ir.LT: ir.GE, ir.GE: ir.LT, ir.GT: ir.LE, ir.LE: ir.GT}

// bounds is the range of threads that run here: first and number.
func (e env) bounds() (min, extent int64) {
	if e.tx == nil {
		return 0, 1
	}
	if e.hi <= e.lo {
		return e.lo, 1
	}
	return e.lo, e.hi - e.lo
}

// thread is the thread's number as an expression.
func (e env) thread() ir.Expr {
	if e.tx == nil {
		return ir.I32(0)
	}
	return e.tx
}

// analyzer makes an analyzer that knows the facts.
func (e env) analyzer() *arith.Analyzer {
	a := arith.New()
	a.AssumeNoOverflow = true
	for _, k := range e.facts {
		switch {
		case k.cond != nil:
			a.WithConstraint(k.cond)
		case k.value != nil:
			if k.v.Type.IsInteger() && ir.SideEffect(k.value) == ir.Pure {
				a.BindExpr(k.v, k.value)
			}
		default:
			a.BindVar(k.v, k.min, k.extent)
		}
	}
	return a
}

// constRange is the constant range of a variable, if it has one.
func (e env) constRange(v *ir.Var) (min, extent int64, ok bool) {
	for i := len(e.facts) - 1; i >= 0; i-- {
		k := e.facts[i]
		if k.v != v || k.cond != nil {
			continue
		}
		if k.value != nil {
			return 0, 0, false
		}
		m, ok1 := ir.AsInt(k.min)
		x, ok2 := ir.AsInt(k.extent)
		return m, x, ok1 && ok2
	}
	return 0, 0, false
}

// valueOf is what a Bind gave a variable, nil if it is not one.
func (e env) valueOf(v *ir.Var) ir.Expr {
	for i := len(e.facts) - 1; i >= 0; i-- {
		if e.facts[i].v == v && e.facts[i].value != nil {
			return e.facts[i].value
		}
	}
	return nil
}

// checkThreads is an error for a launch of more threads than a block can have.
func checkThreads(body ir.Stmt, most int) error {
	var err error
	ir.Walk(body, func(s ir.Stmt) bool {
		a, ok := s.(*ir.AttrStmt)
		if !ok || a.Key != ir.KeyThreadExtent || err != nil {
			return err == nil
		}
		if iv, ok := a.Node.(*ir.IterVar); ok && strings.HasPrefix(iv.Tag, "threadIdx.") {
			if n, ok := ir.AttrInt(a.Value); ok && (n < 1 || n > int64(most)) {
				err = pipeline.Errorf(a.Org, "a block of %d threads along %s: the target has at most %d", n, iv.Tag, most)
			}
		}
		return true
	})
	return err
}

// walkEnv visits every statement with what holds there, parents first. When
// visit returns false the statements within are skipped.
func walkEnv(s ir.Stmt, e env, visit func(ir.Stmt, env) bool) env {
	if s == nil || !visit(s, e) {
		return e
	}
	switch s := s.(type) {
	case *ir.SeqStmt:
		in := e
		for _, c := range s.Seq {
			in = walkEnv(c, in, visit)
		}
	case *ir.Bind:
		return e.with(known{v: s.Var, value: s.Value})
	case *ir.Assert:
		return e.with(known{cond: s.Cond})
	case *ir.AttrStmt:
		in := e
		switch s.Key {
		case ir.KeyThreadExtent:
			if iv, ok := s.Node.(*ir.IterVar); ok {
				if x, ok := s.Value.(ir.Expr); ok {
					in = e.launch(iv, x)
				}
			}
		case ir.KeyAssume:
			if c, ok := s.Node.(ir.Expr); ok {
				in = e.assume(c)
			}
		}
		walkEnv(s.Body, in, visit)
	case *ir.For:
		walkEnv(s.Body, e.loop(s), visit)
	case *ir.While:
		walkEnv(s.Body, e, visit)
	case *ir.IfThenElse:
		walkEnv(s.Then, e.assume(s.Cond), visit)
		walkEnv(s.Else, e.assume(&ir.Not{A: s.Cond}), visit)
	case *ir.SBlock:
		in := e
		for i, iv := range s.IterVars {
			if i < len(s.IterValues) {
				in = in.with(known{v: iv.Var, value: s.IterValues[i]})
			}
		}
		walkEnv(s.Init, in, visit)
		walkEnv(s.Body, in, visit)
	}
	return e
}
