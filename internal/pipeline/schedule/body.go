package schedule

import (
	"fmt"

	"lowertrace/internal/ir"
)

// MaxStatements bounds the statements of a pipelined loop: each is compared with
// each other.
const MaxStatements = 256

// element is one statement of a pipelined loop's body: what a stage and a place
// in the order belong to.
type element struct {
	stmt ir.Stmt
	// defs are the names (T.bind, buffer declarations) in front of the statement
	// that it uses; every copy of the statement gets its own.
	defs []ir.Stmt
	acc  *accesses
}

// split takes a loop's body apart. Definitions between the statements belong to
// the statements that use them.
func split(body ir.Stmt) ([]element, error) {
	if b, ok := body.(*ir.SBlock); ok && len(b.IterVars) == 0 && len(b.AllocBuffers) == 0 && len(b.MatchBuffers) == 0 && b.Predicate == nil && b.Init == nil && b.Annotations.Len() == 0 {
		body = b.Body
	}
	if holdsPipeline(body) {
		return nil, fmt.Errorf("it holds a pipelined loop")
	}
	if n := len(ir.Stmts(body)); n > MaxStatements {
		return nil, fmt.Errorf("its body has %d statements, more than %d", n, MaxStatements)
	}
	var out []element
	var defs []ir.Stmt
	for _, s := range ir.Stmts(body) {
		switch s := s.(type) {
		case *ir.Bind, *ir.DeclBuffer:
			defs = append(defs, s)
			continue
		case *ir.AllocBuffer:
			return nil, fmt.Errorf("%s is allocated in the loop", s.Buffer.Name)
		case *ir.AttrStmt:
			if !isElement(s) {
				return nil, fmt.Errorf("the statements of the loop stand under the attribute %q", s.Key)
			}
		}
		e := element{stmt: s, defs: usedDefs(defs, s)}
		e.acc = accessesOf(append(append([]ir.Stmt{}, e.defs...), s)...)
		out = append(out, e)
	}
	// A name is computed where it is used, which may be later than where it
	// stood: what it reads must stay.
	for _, d := range defs {
		b, ok := d.(*ir.Bind)
		if !ok {
			continue
		}
		if ir.SideEffect(b.Value) > ir.ReadState {
			return nil, fmt.Errorf("the value of %s has an effect", b.Var.Name)
		}
		for _, v := range byName(accessesOf(b).reads) {
			for _, e := range out {
				if e.acc.writes[v] {
					return nil, fmt.Errorf("%s is computed from %s, which the loop writes", b.Var.Name, v.Name)
				}
			}
		}
	}
	return out, nil
}

// isElement reports an attribute around a single statement.
func isElement(s *ir.AttrStmt) bool {
	_, seq := s.Body.(*ir.SeqStmt)
	return !seq && s.Body != nil
}

// usedDefs are the definitions a statement needs, with those they need
// themselves, in order.
func usedDefs(defs []ir.Stmt, s ir.Stmt) []ir.Stmt {
	vars, bufs := map[*ir.Var]bool{}, map[*ir.Buffer]bool{}
	note := func(s ir.Stmt) {
		ir.Walk(s, func(s ir.Stmt) bool {
			use := func(b *ir.Buffer) {
				bufs[b], vars[b.Data] = true, true
				for _, list := range [][]ir.Expr{b.Shape, b.Strides, {b.ElemOffset}} {
					for _, e := range list {
						ir.WalkExpr(e, func(e ir.Expr) bool {
							if v, ok := e.(*ir.Var); ok {
								vars[v] = true
							}
							return true
						})
					}
				}
			}
			switch s := s.(type) {
			case *ir.BufferStore:
				use(s.Buffer)
			case *ir.DeclBuffer:
				use(s.Buffer)
			}
			ir.StmtExprs(s, func(e ir.Expr) bool {
				switch e := e.(type) {
				case *ir.Var:
					vars[e] = true
				case *ir.BufferLoad:
					use(e.Buffer)
				}
				return true
			})
			return true
		})
	}
	note(s)
	var out []ir.Stmt
	for i := len(defs) - 1; i >= 0; i-- {
		switch d := defs[i].(type) {
		case *ir.Bind:
			if !vars[d.Var] {
				continue
			}
		case *ir.DeclBuffer:
			if !bufs[d.Buffer] {
				continue
			}
		}
		note(defs[i])
		out = append(out, defs[i])
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// leaves reports a break, continue or return in a loop's body.
func leaves(body ir.Stmt) bool {
	found := false
	ir.WalkExprs(body, func(e ir.Expr) bool {
		if c, ok := e.(*ir.Call); ok && c.Op != nil {
			switch c.Op.Name {
			case "break_loop", "continue_loop", "thread_return", "ret":
				found = true
			}
		}
		return !found
	})
	return found
}

// ownGroups reports statements that commit or wait for groups of asynchronous
// copies themselves, so that groups cannot be counted.
func ownGroups(body ir.Stmt) bool {
	found := false
	ir.WalkExprs(body, func(e ir.Expr) bool {
		if c, ok := e.(*ir.Call); ok && c.Op != nil {
			switch c.Op.Name {
			case "ptx_commit_group", "ptx_wait_group", "async_copy":
				found = true
			case "copy":
				n, _ := ir.AttrInt(c.Attr("is_async_copy"))
				found = found || n != 0
			}
		}
		return !found
	})
	return found
}

// holdsPipeline reports a planned loop among the statements of another.
func holdsPipeline(body ir.Stmt) bool {
	found := false
	ir.Walk(body, func(s ir.Stmt) bool {
		if f, ok := s.(*ir.For); ok && f.Annotations.Get(keyStage) != nil {
			found = true
		}
		return !found
	})
	return found
}
