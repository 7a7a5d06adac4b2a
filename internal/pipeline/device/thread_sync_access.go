package device

import (
	"strconv"
	"strings"

	"lowertrace/internal/ir"
)

// own are the accesses a statement makes itself.
func (p *planner) own(s ir.Stmt) []*access {
	var out []*access
	switch s := s.(type) {
	case nil, *ir.SeqStmt, *ir.AttrStmt, *ir.AllocBuffer, *ir.DeclBuffer:
		return nil
	case *ir.BufferStore:
		for _, i := range s.Indices {
			out = append(out, p.reads(i)...)
		}
		out = append(out, p.reads(s.Value)...)
		if s.Predicate != nil {
			out = append(out, p.reads(s.Predicate)...)
		}
		if a := p.element(s.Buffer, s.Indices); a != nil {
			a.write = true
			if s.Predicate != nil {
				a.guards = append(a.guards, s.Predicate)
			}
			out = append(out, a)
		}
		return out
	case *ir.Bind:
		if s.Var.Type.IsHandle() {
			return nil
		}
		return p.reads(s.Value)
	}
	ir.StmtExprs(s, func(e ir.Expr) bool {
		out = append(out, p.reads(e)...)
		return false
	})
	return out
}

// element is the access of a load or store, nil for other memory.
func (p *planner) element(b *ir.Buffer, indices []ir.Expr) *access {
	at, ok := p.places[b.Data]
	if !ok {
		return nil
	}
	a := &access{pool: at.pool, base: at.off, bytes: int64(b.Type.Bytes()), count: 1}
	if len(indices) != 1 || at.off < 0 {
		a.base, a.count = max(at.off, 0), wholeBuffer
		return a
	}
	idx := indices[0]
	if idx.DType().Lanes > 1 {
		r, ok := idx.(*ir.Ramp)
		stride, ok2 := int64(0), false
		if ok {
			stride, ok2 = ir.AsInt(r.Stride)
		}
		switch {
		case ok2 && stride == 1:
			a.index, a.count = r.Base, int64(r.Lanes)
		case ok2:
			lane := &ir.Var{Name: "lane", Type: r.Base.DType()}
			a.index = ir.NewBinary(ir.Add, r.Base, ir.NewBinary(ir.Mul, lane, r.Stride))
			a.ranged = []rangedVar{{lane, 0, int64(r.Lanes)}}
		default:
			a.count = wholeBuffer
		}
		return a
	}
	a.index = idx
	return a
}

// reads are the accesses of an expression, writes by operators included.
func (p *planner) reads(e ir.Expr) []*access {
	var out []*access
	var visit func(ir.Expr) bool
	visit = func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			if a := p.element(e.Buffer, e.Indices); a != nil {
				out = append(out, a)
			}
		case *ir.Var:
			// A bare pointer may be used in any way.
			if at, ok := p.places[e]; ok {
				out = append(out, &access{pool: at.pool, base: max(at.off, 0), bytes: 1, count: wholeBuffer, write: true})
			}
		case *ir.Call:
			if e.Op == nil {
				return true
			}
			switch e.Op.Name {
			case "if_then_else":
				out = append(out, p.reads(e.Args[0])...)
				for i, branch := range e.Args[1:] {
					cond := e.Args[0]
					if i == 1 {
						cond = &ir.Not{A: cond}
					}
					for _, a := range p.reads(branch) {
						a.guards = append(a.guards, cond)
						out = append(out, a)
					}
				}
				return false
			case "tvm_storage_sync", "initialize_wgmma_descriptor", "ptx_init_barrier_thread_count":
				return false
			}
			if reducesByBarrier(e) {
				out = append(out, &access{party: p.part})
			}
			for i, arg := range e.Args {
				a := p.pointed(arg, e, i)
				if a == nil {
					ir.WalkExpr(arg, visit)
					continue
				}
				a.async = e.Op.Name == "ptx_cp_async" && i == 0
				a.atomic = strings.HasPrefix(e.Op.Name, "atomic_") && i == 0
				if e.Op.Name == "ptx_cp_async" && len(e.Args) > 2 {
					if n, ok := ir.AsInt(e.Args[2]); ok && a.index != nil {
						a.count = n
					}
				}
				out = append(out, a)
			}
			return false
		}
		return true
	}
	ir.WalkExpr(e, visit)
	return out
}

// reducesByBarrier reports a reduction of several warps' values, which uses a
// hardware barrier of the reductions'.
func reducesByBarrier(c *ir.Call) bool {
	if c.Op.Name != "call_extern" || len(c.Args) == 0 {
		return false
	}
	name, _ := ir.AttrString(c.Args[0])
	params, ok := strings.CutPrefix(name, "tl::AllReduce<")
	if !ok || !strings.Contains(params, "NamedBarrier<") {
		return false
	}
	list := strings.SplitN(params, ",", 3)
	if len(list) < 3 {
		return true
	}
	n, err := strconv.Atoi(strings.TrimSpace(list[1]))
	return err != nil || n > warpThreads
}

// pointed is the access an operator makes through a pointer argument, nil for
// arguments that are no pointers into this planner's memory.
func (p *planner) pointed(arg ir.Expr, c *ir.Call, i int) *access {
	call, ok := arg.(*ir.Call)
	if !ok || call.Op == nil {
		return nil
	}
	reading := false
	for _, k := range readingArgs[c.Op.Name] {
		reading = reading || k == i
	}
	switch call.Op.Name {
	case "tvm_access_ptr":
		v, ok := call.Args[1].(*ir.Var)
		if !ok {
			return nil
		}
		at, ok := p.places[v]
		if !ok {
			return nil
		}
		mask, _ := ir.AsInt(call.Args[4])
		a := &access{pool: at.pool, base: max(at.off, 0), bytes: int64(call.Args[0].DType().Bytes()), index: call.Args[2], write: mask&accessWrite != 0}
		if n, ok := ir.AsInt(call.Args[3]); ok && at.off >= 0 {
			a.count = n
		} else {
			a.index, a.count = nil, wholeBuffer
		}
		return a
	case "access_ptr":
		l, ok := call.Args[0].(*ir.BufferLoad)
		if !ok {
			return nil
		}
		a := p.element(l.Buffer, l.Indices)
		if a == nil {
			return nil
		}
		mask, _ := ir.AsInt(call.Args[2])
		a.write = mask&accessWrite != 0
		if n, ok := ir.AsInt(call.Args[1]); ok && a.index != nil {
			a.count = n
		} else {
			a.index, a.count = nil, wholeBuffer
		}
		return a
	case "address_of":
		l, ok := call.Args[0].(*ir.BufferLoad)
		if !ok {
			return nil
		}
		a := p.element(l.Buffer, l.Indices)
		if a == nil {
			return nil
		}
		a.write = !reading
		if bytes := pointeeBytes[c.Op.Name]; bytes > 0 && a.index != nil {
			a.count = max(1, bytes/a.bytes)
		} else if !strings.HasPrefix(c.Op.Name, "atomic_") && c.Op.Name != "ptx_cp_async" {
			a.index, a.count = nil, wholeBuffer
		}
		return a
	}
	return nil
}

// pointeeBytes is what operators access at an address they are given, where
// that is fixed.
var pointeeBytes = map[string]int64{"ptx_ldmatrix": 16, "ptx_stmatrix": 16}
