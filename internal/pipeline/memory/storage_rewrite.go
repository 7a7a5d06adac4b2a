package memory

import (
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/lifetime"
)

// StorageRewrite decides where on the device each buffer is allocated and
// which buffers share an allocation.
//
// Precondition: buffers are flat. Effect: allocations move to the beginning of
// the scope they live in, in the order of first use (a use counts as one of the
// whole loop or branch beside the allocation): the innermost
// "lexical_alloc_scope", else the launch. Allocations and views nobody uses
// are dropped. Buffers in static shared memory of one type, of which one is
// last used before the other is first used, share an allocation; registers
// never do (the assembler allocates those, and sharing would only make their
// lives longer). Dynamic shared memory is left to MergeSharedMemoryAllocations;
// what is allocated in a loop stays there, so that it is known that nothing is
// carried from one iteration to the next. Invariant: no two buffers that are alive
// together share memory.
var StorageRewrite = &pipeline.Pass{
	Name:         "StorageRewrite",
	Stage:        stage,
	Doc:          "allocate buffers at their scope and share static shared memory",
	Precondition: "Buffers are one-dimensional.",
	Effect:       "Allocations stand at the beginning of their launch or lexical scope, in order of first use. Unused allocations and views are dropped. Static shared buffers with disjoint lives share memory; dynamic ones that are allocated in a loop stay there.",
	Before:       "tx = T.launch_thread(\"threadIdx.x\", 128)\nfor i in range(4):\n    w = T.alloc_buffer((8,), scope=\"local\")\n    w_1 = T.decl_buffer((8,), data=w.data, scope=\"local\")\n    w_1[0] = A[i]",
	After:        "w = T.alloc_buffer((8,), scope=\"local\")\ntx = T.launch_thread(\"threadIdx.x\", 128)\nfor i in range(4):\n    w_1 = T.decl_buffer((8,), data=w.data, scope=\"local\")\n    w_1[0] = A[i]",
	Run:          pipeline.BodyPass(nil, rewriteStorage),
}

// allocation is one AllocBuffer and where it goes.
type allocation struct {
	stmt  *ir.AllocBuffer
	scope ir.Stmt // the AttrStmt at whose beginning it goes; nil: it stays
	// into is the data pointer of the allocation it shares, nil for its own.
	into *ir.Var
	// depth is the number of loops, branches and attributes around it.
	depth int
	// first is the number of the statement beside the allocation in which it
	// is used first.
	first int
}

func rewriteStorage(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	if f.Body == nil {
		return nil, nil
	}
	allocs := map[*ir.Var]*allocation{}
	used := map[*ir.Buffer]bool{} // accessed through
	var order []*allocation       // by first use
	placed := map[*ir.Var]bool{}
	var err error
	clock := 0
	var around []int // numbers of the compound statements around
	use := func(v *ir.Var) {
		if a := allocs[v]; a != nil && !placed[v] {
			placed[v] = true
			a.first = clock
			if a.depth < len(around) {
				a.first = around[a.depth]
			}
			order = append(order, a)
		}
	}
	var visit func(s, scope ir.Stmt, inLoop bool)
	visit = func(s, scope ir.Stmt, inLoop bool) {
		clock++
		switch s := s.(type) {
		case *ir.AttrStmt:
			if _, isIter := s.Node.(*ir.IterVar); isIter && s.Key == ir.KeyThreadExtent {
				if scope == nil {
					scope = s
				}
			} else if s.Key == ir.KeyLexicalAllocScope {
				scope = s
			}
		case *ir.AllocBuffer:
			if allocs[s.Buffer.Data] != nil {
				err = pipeline.Errorf(s.Org, "the memory of %s is allocated twice", s.Buffer.Name)
				return
			}
			a := &allocation{stmt: s, scope: scope, depth: len(around)}
			if _, ok := elements(s.Buffer); !ok {
				a.scope = nil // its size is only known here
			}
			if inLoop && s.Buffer.Scope() == "shared.dyn" {
				a.scope = nil // each iteration has it anew
			}
			allocs[s.Buffer.Data] = a
		case *ir.For:
			inLoop = true
		case *ir.BufferStore:
			used[s.Buffer] = true
		}
		ir.StmtExprs(s, func(e ir.Expr) bool {
			if l, ok := e.(*ir.BufferLoad); ok {
				used[l.Buffer] = true
			}
			return true
		})
		lifetime.Touches(s, use)
		if _, isSeq := s.(*ir.SeqStmt); !isSeq {
			around = append(around, clock)
			defer func() { around = around[:len(around)-1] }()
		}
		ir.Children(s, func(c ir.Stmt) { visit(c, scope, inLoop) })
	}
	visit(f.Body, nil, false)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(order, func(a, b *allocation) int { return a.first - b.first })
	shareStatic(order)
	return putAllocations(f.Body, allocs, order, placed, used), nil
}

// shareStatic lets static shared buffers of one type and scope share memory
// when their lives are disjoint: a linear scan in order of first use, in which
// a buffer takes the smallest free allocation that is large enough.
func shareStatic(order []*allocation) {
	byScope := map[ir.Stmt][]*allocation{}
	var scopes []ir.Stmt
	for _, a := range order {
		if a.scope == nil || a.stmt.Buffer.Scope() != "shared" {
			continue
		}
		if byScope[a.scope] == nil {
			scopes = append(scopes, a.scope)
		}
		byScope[a.scope] = append(byScope[a.scope], a)
	}
	for _, scope := range scopes {
		list := byScope[scope]
		homes := map[*ir.Var]*ir.For{}
		for _, a := range list {
			homes[a.stmt.Buffer.Data] = nil
		}
		life := lifetime.Of(scope, homes)
		type slot struct {
			owner *allocation
			size  int64
			taken []lifetime.Interval
		}
		var slots []*slot
		for _, a := range list {
			b := a.stmt.Buffer
			n, _ := elements(b)
			var best *slot
			for _, sl := range slots {
				o := sl.owner.stmt.Buffer
				if o.Type != b.Type || o.Align < b.Align || sl.size < n || slices.ContainsFunc(sl.taken, life[b.Data].Overlaps) {
					continue
				}
				if best == nil || sl.size < best.size {
					best = sl
				}
			}
			if best == nil {
				slots = append(slots, &slot{a, n, []lifetime.Interval{life[b.Data]}})
				continue
			}
			best.taken = append(best.taken, life[b.Data])
			a.into = best.owner.stmt.Buffer.Data
		}
	}
}

// putAllocations moves the allocations to the scopes they belong to.
func putAllocations(body ir.Stmt, allocs map[*ir.Var]*allocation, order []*allocation, placed map[*ir.Var]bool, used map[*ir.Buffer]bool) ir.Stmt {
	starts := map[ir.Stmt][]ir.Stmt{}
	renamed := map[*ir.Var]*ir.Var{}
	for _, a := range order {
		if a.into != nil {
			renamed[a.stmt.Buffer.Data] = a.into
			continue
		}
		if a.scope != nil {
			starts[a.scope] = append(starts[a.scope], a.stmt)
		}
	}
	views := map[*ir.Buffer]*ir.Buffer{}
	r := ir.Rewriter{}
	if len(renamed) > 0 {
		r.Var = func(v *ir.Var) ir.Expr {
			if w := renamed[v]; w != nil {
				return w
			}
			return v
		}
		r.Buffer = func(b *ir.Buffer) *ir.Buffer {
			w := renamed[b.Data]
			if w == nil {
				return b
			}
			if views[b] == nil {
				c := *b
				c.Data = w
				views[b] = &c
			}
			return views[b]
		}
	}
	r.PreStmt = func(s ir.Stmt) (ir.Stmt, bool) {
		switch s := s.(type) {
		case *ir.AllocBuffer:
			a := allocs[s.Buffer.Data]
			if !placed[s.Buffer.Data] || a.scope != nil || a.into != nil {
				return nil, true
			}
		case *ir.DeclBuffer:
			if !used[s.Buffer] {
				return nil, true
			}
		case *ir.AttrStmt:
			list := starts[s]
			if list == nil {
				return s, false
			}
			t := *s
			t.Body = ir.Seq(append(append([]ir.Stmt(nil), list...), r.Stmt(s.Body))...)
			return &t, true
		}
		return s, false
	}
	return r.Stmt(body)
}
