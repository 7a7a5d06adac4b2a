package driver

import (
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
)

// restoreNames gives variables and buffers of a module that was just read, and
// that nobody else has seen, the names they had when it was printed: the
// printer tells things of one name apart as x, x_1, x_2, and a reader can only
// take those for their names. Later passes would then name things differently
// than in the run the text comes from. Where the guess does not print the same
// text again, the names stay.
func restoreNames(m *ir.IRModule) {
	want := script.Print(m)
	named := namesOf(m)
	used := map[string]bool{}
	for _, n := range named {
		used[*n] = true
	}
	old := make([]string, len(named))
	changed := false
	for i, n := range named {
		old[i] = *n
	}
	for i, n := range named {
		if base := baseName(old[i]); base != old[i] && used[base] {
			*n, changed = base, true
		}
	}
	if !changed || script.Print(m) == want {
		return
	}
	for i, n := range named {
		*n = old[i]
	}
}

// baseName is a name without the number the printer may have added: x for x_2.
func baseName(name string) string {
	i := strings.LastIndexByte(name, '_')
	if i < 1 || i+1 == len(name) || name[i+1] == '0' || strings.Trim(name[i+1:], "0123456789") != "" {
		return name
	}
	return name[:i]
}

// namesOf are the names of all variables and buffers of a module, each once.
func namesOf(m *ir.IRModule) []*string {
	var out []*string
	vars, bufs := map[*ir.Var]bool{}, map[*ir.Buffer]bool{}
	variable := func(v *ir.Var) {
		if v != nil && !vars[v] {
			vars[v] = true
			out = append(out, &v.Name)
		}
	}
	var expr func(ir.Expr) bool
	buffer := func(b *ir.Buffer) {
		if b == nil || bufs[b] {
			return
		}
		bufs[b] = true
		out = append(out, &b.Name)
		variable(b.Data)
		for _, list := range [][]ir.Expr{b.Shape, b.Strides, {b.ElemOffset}} {
			for _, e := range list {
				ir.WalkExpr(e, expr)
			}
		}
	}
	expr = func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Var:
			variable(e)
		case *ir.Let:
			variable(e.Var)
		case *ir.BufferLoad:
			buffer(e.Buffer)
		}
		return true
	}
	regions := func(list []ir.BufferRegion) {
		for _, r := range list {
			buffer(r.Buffer)
		}
	}
	for _, f := range m.Funcs {
		for _, p := range f.Params {
			variable(p)
		}
		for _, b := range f.BufferMap {
			variable(b.Param)
			buffer(b.Buffer)
		}
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.Bind:
				variable(s.Var)
			case *ir.For:
				variable(s.Var)
			case *ir.AttrStmt:
				if it, ok := s.Node.(*ir.IterVar); ok {
					variable(it.Var)
				}
			case *ir.BufferStore:
				buffer(s.Buffer)
			case *ir.AllocBuffer:
				buffer(s.Buffer)
			case *ir.DeclBuffer:
				buffer(s.Buffer)
			case *ir.SBlock:
				for _, it := range s.IterVars {
					variable(it.Var)
				}
				for _, b := range s.AllocBuffers {
					buffer(b)
				}
				for _, b := range s.MatchBuffers {
					buffer(b.Buffer)
					buffer(b.Source.Buffer)
				}
				regions(s.Reads)
				regions(s.Writes)
			}
			ir.StmtExprs(s, expr)
			return true
		})
	}
	return out
}
