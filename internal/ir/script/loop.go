package script

import (
	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

var forKinds = map[string]ir.ForKind{
	"serial": ir.Serial, "parallel": ir.Parallel, "vectorized": ir.Vectorized, "unroll": ir.Unrolled,
	"unrolled": ir.Unrolled, "thread_binding": ir.ThreadBinding,
}

func (b *builder) forStmt(s *syntax.For) ir.Stmt {
	if len(s.Else) > 0 {
		b.errorf(s.Else[0], "'else' of a loop has no meaning in a kernel")
	}
	c, ok := s.Iter.(*syntax.Call)
	if !ok {
		b.errorf(s.Iter, "expected range(..), %s.grid(..) or another loop of %s", b.prefix, b.prefix)
		return nil
	}
	mark := b.open()
	defer b.close(mark)
	if name, _ := b.tirName(c.Fn); name == "grid" {
		return b.grid(s, c)
	}
	f := &ir.For{Org: b.span(s)}
	if n, ok := c.Fn.(*syntax.Name); ok && n.ID == "range" {
		f.Kind = ir.Serial
	} else if name, ok := b.tirName(c.Fn); ok {
		kind, known := forKinds[name]
		if !known {
			b.unknown(c.Fn.(*syntax.Attr), "loop", loopNames)
			return nil
		}
		f.Kind = kind
	} else {
		b.errorf(c.Fn, "expected range(..), %s.grid(..) or another loop of %s", b.prefix, b.prefix)
		return nil
	}
	n, ok := s.Target.(*syntax.Name)
	if !ok {
		b.errorf(s.Target, "this loop has one variable")
		return nil
	}
	good := b.loopArgs(f, c)
	if good {
		f.Var = b.newVar(n.ID, f.Extent.DType(), nil, n.Loc)
		b.loop(f)
	} else {
		b.define(n.ID, binding{loc: n.Loc})
	}
	b.depth++
	f.Body = b.body(s.Body)
	b.depth--
	if !good {
		return nil
	}
	return f
}

var loopNames = []string{"serial", "parallel", "vectorized", "unroll", "thread_binding", "grid"}

// loop notes the domain of a loop variable for T.axis.remap.
func (b *builder) loop(f *ir.For) {
	if b.loopDoms == nil {
		b.loopDoms = map[*ir.Var]ir.Range{}
	}
	b.loopDoms[f.Var] = ir.Range{Min: f.Min, Extent: f.Extent}
}

// loopArgs reads (extent), (begin, end) or (begin, end, step) and keywords.
func (b *builder) loopArgs(f *ir.For, c *syntax.Call) bool {
	var args [3]ir.Expr
	if len(c.Args) == 0 || len(c.Args) > 3 {
		b.errorf(c, "a loop takes an extent, or a begin and an end")
		return false
	}
	for i, a := range c.Args {
		if args[i] = b.integer(a); args[i] == nil {
			return false
		}
	}
	if len(c.Args) == 1 {
		f.Min, f.Extent = zeroOf(args[0]), args[0]
	} else {
		lo, hi, _ := ir.MatchTypes(args[0], args[1])
		f.Min, f.Extent = lo, distance(lo, hi)
	}
	f.Step = args[2]
	for i := range c.Keywords {
		k := &c.Keywords[i]
		switch k.Name {
		case "thread":
			f.Thread, _ = b.str(k.Value)
		case "annotations":
			f.Annotations = b.dict(k.Value)
		case "step":
			f.Step = b.integer(k.Value)
		case "unroll":
			v := b.attr(k.Value)
			if v == ir.AttrBool(false) {
				f.Annotations = f.Annotations.With("disable_unroll", ir.AttrBool(true))
			} else if v != nil {
				f.Annotations = f.Annotations.With("pragma_unroll", v)
			}
		default:
			b.unknownKeyword(k, []string{"thread", "annotations", "step", "unroll"})
			return false
		}
	}
	if f.Kind == ir.ThreadBinding && f.Thread == "" {
		d := b.errorf(c, "a thread_binding loop needs its launch axis")
		d.Hint = `for example thread="blockIdx.x"`
		return false
	}
	if f.Step != nil && ir.IsConst(f.Step, 1) {
		f.Step = nil
	}
	return true
}

// grid is `for i, j in T.grid(a, b)`: a nest of serial loops.
func (b *builder) grid(s *syntax.For, c *syntax.Call) ir.Stmt {
	targets := []syntax.Expr{s.Target}
	if t, ok := s.Target.(*syntax.Tuple); ok {
		targets = t.Elts
	}
	if len(targets) != len(c.Args) || len(targets) == 0 {
		b.errorf(s.Target, "%s for a grid of %s", diag.Count(len(targets), "variable"), diag.Count(len(c.Args), "dimension"))
		return nil
	}
	loops := make([]*ir.For, len(targets))
	ok := true
	for i, e := range targets {
		n, isName := e.(*syntax.Name)
		if !isName {
			b.errorf(e, "expected a name")
			return nil
		}
		ext := b.integer(c.Args[i])
		if ext == nil {
			b.define(n.ID, binding{loc: n.Loc})
			ok = false
			continue
		}
		loops[i] = &ir.For{Min: zeroOf(ext), Extent: ext, Org: b.span(s)}
		loops[i].Var = b.newVar(n.ID, ext.DType(), nil, n.Loc)
		b.loop(loops[i])
	}
	b.depth += len(targets)
	body := b.body(s.Body)
	b.depth -= len(targets)
	if !ok {
		return nil
	}
	for i := len(loops) - 1; i >= 0; i-- {
		loops[i].Body = body
		body = loops[i]
	}
	return body
}
