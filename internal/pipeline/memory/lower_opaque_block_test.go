package memory

import (
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline/lifetime"
	"lowertrace/internal/pipeline/passtest"
)

func TestLowerOpaqueBlock(t *testing.T) {
	passtest.Golden(t, LowerOpaqueBlock, "testdata/LowerOpaqueBlock/*.txtar")
}

func TestLowerOpaqueBlockReference(t *testing.T) {
	passtest.ReferenceUpTo(t, LowerOpaqueBlock, withoutAxes)
}

// withoutAxes drops the names of launch axes, which the text before this pass
// has lost for some variables, and allocations of memory nothing uses: the
// other compiler allocates memory once per buffer that views it.
func withoutAxes(m *ir.IRModule) *ir.IRModule {
	out, _ := m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
		used := map[*ir.Var]bool{}
		ir.Walk(f.Body, func(s ir.Stmt) bool {
			lifetime.Touches(s, func(v *ir.Var) { used[v] = true })
			if d, ok := s.(*ir.DeclBuffer); ok {
				used[d.Buffer.Data] = true
			}
			return true
		})
		r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
			if a, ok := s.(*ir.AllocBuffer); ok && !used[a.Buffer.Data] {
				return nil
			}
			a, ok := s.(*ir.AttrStmt)
			if !ok {
				return s
			}
			iv, ok := a.Node.(*ir.IterVar)
			if !ok {
				return s
			}
			c, v := *a, *iv
			v.Tag = ""
			c.Node = &v
			return &c
		}}
		return f.WithBody(r.Stmt(f.Body)), nil
	})
	return out
}
