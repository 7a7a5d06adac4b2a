package device

import (
	"sort"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/passtest"
)

// TestReference compares every pass with what the reference compiler's pass of
// the same name made of the same texts. ConvertSSA runs only within others there.
func TestReference(t *testing.T) {
	for _, c := range []struct {
		pass  *pipeline.Pass
		names []string
	}{
		{AnnotateDeviceRegions, nil},
		{AnnotateReadOnlyParams, nil},
		{MarkCudaSyncCalls, nil},
		{PersistThreadblock, nil},
		{LowerHopperIntrin, nil},
		{LowerThreadAllreduce, nil},
		{LowerDeviceKernelLaunch, nil},
	} {
		t.Run(c.pass.Name, func(t *testing.T) { passtest.Reference(t, c.pass, c.names...) })
	}
}

// sortDecls puts the buffer declarations at a function's top in the order of
// their pointers' names; the reference's order is that of a hash table.
func sortDecls(m *ir.IRModule) *ir.IRModule {
	out, _ := m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
		if !f.Private {
			return f, nil
		}
		var sorted func(s ir.Stmt) ir.Stmt
		sorted = func(s ir.Stmt) ir.Stmt {
			if a, ok := s.(*ir.AttrStmt); ok && a.Key == ir.KeyAssume {
				t := *a
				t.Body = sorted(a.Body)
				return &t
			}
			list := append([]ir.Stmt(nil), ir.Stmts(s)...)
			n := 0
			for n < len(list) {
				if _, ok := list[n].(*ir.DeclBuffer); !ok {
					break
				}
				n++
			}
			sort.SliceStable(list[:n], func(i, j int) bool {
				a, b := list[i].(*ir.DeclBuffer).Buffer, list[j].(*ir.DeclBuffer).Buffer
				return a.Data.Name+" "+a.Name < b.Data.Name+" "+b.Name
			})
			return ir.Seq(list...)
		}
		return f.WithBody(sorted(f.Body)), nil
	})
	return out
}

func TestReferenceSplitHostDevice(t *testing.T) {
	passtest.ReferenceUpTo(t, SplitHostDevice, sortDecls)
}

// withoutWaitBarriers drops the barriers right behind waits for asynchronous
// copies: the reference's first run puts one behind every wait, whatever memory
// is concerned; ours come with the run for dynamic shared memory, where needed.
func withoutWaitBarriers(m *ir.IRModule) *ir.IRModule {
	out, _ := m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) {
		r := ir.Rewriter{PostStmt: func(s ir.Stmt) ir.Stmt {
			q, ok := s.(*ir.SeqStmt)
			if !ok {
				return s
			}
			var list []ir.Stmt
			for i, c := range q.Seq {
				if i > 0 && isBarrier(c) {
					if _, wait := waitGroups(q.Seq[i-1]); wait {
						continue
					}
				}
				list = append(list, c)
			}
			return ir.Seq(list...)
		}}
		return f.WithBody(r.Stmt(f.Body)), nil
	})
	return out
}

func TestReferenceThreadSync(t *testing.T) {
	t.Run("static", func(t *testing.T) {
		passtest.ReferenceUpTo(t, ThreadSyncShared, withoutWaitBarriers, "ThreadSync#1")
	})
	t.Run("dynamic", func(t *testing.T) { passtest.Reference(t, ThreadSyncDynamic, "ThreadSync#2") })
}

// TestReferenceHopper compares on sm_90a, where tensor maps, clusters and
// dependent launches occur.
func TestReferenceHopper(t *testing.T) {
	for _, p := range []*pipeline.Pass{LowerHopperIntrin, AnnotateDeviceRegions, AnnotateReadOnlyParams, MarkCudaSyncCalls,
		LowerDeviceKernelLaunch, PersistThreadblock} {
		t.Run(p.Name, func(t *testing.T) { passtest.ReferenceOn(t, "sm_90a", p, nil) })
	}
}
