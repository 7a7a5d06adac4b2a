package memory

import (
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline/passtest"
)

func TestPlanAndUpdateBufferAllocationLocation(t *testing.T) {
	passtest.Golden(t, PlanAndUpdateBufferAllocationLocation, "testdata/PlanAndUpdateBufferAllocationLocation/*.txtar")
}

func TestPlanAndUpdateBufferAllocationLocationReference(t *testing.T) {
	passtest.ReferenceUpTo(t, PlanAndUpdateBufferAllocationLocation, withoutRegions)
}

// withoutRegions drops what blocks say they read and write, which this pass
// does not compute, and all allocations of memory but the first: the other
// compiler lists one per buffer over the same memory.
func withoutRegions(m *ir.IRModule) *ir.IRModule {
	out, _ := m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
		seen := map[*ir.Var]bool{}
		var r ir.Rewriter
		r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
			b, ok := s.(*ir.SBlock)
			if !ok {
				return s, false
			}
			c := *b
			c.Reads, c.Writes, c.AllocBuffers = nil, nil, nil
			for _, a := range b.AllocBuffers {
				if !seen[a.Data] {
					seen[a.Data] = true
					c.AllocBuffers = append(c.AllocBuffers, a)
				}
			}
			return r.Inside(&c), true
		}
		return f.WithBody(r.Stmt(f.Body)), nil
	})
	return out
}
