package script

import (
	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// attr reads what attributes and annotations hold. It is nil after a mistake.
func (b *builder) attr(e syntax.Expr) ir.Attr {
	switch x := e.(type) {
	case *syntax.Const:
		switch x.Kind {
		case syntax.True:
			return ir.AttrBool(true)
		case syntax.False:
			return ir.AttrBool(false)
		case syntax.None:
			return ir.AttrNone{}
		}
	case *syntax.List:
		return b.attrList(x.Elts)
	case *syntax.Tuple:
		return b.attrList(x.Elts)
	case *syntax.Dict:
		d := &ir.Dict{Entries: make([]ir.DictEntry, 0, len(x.Keys))}
		for i, k := range x.Keys {
			if k == nil {
				b.errorf(x.Values[i], "expected key: value")
				return nil
			}
			key, value := b.attr(k), b.attr(x.Values[i])
			if key == nil || value == nil {
				return nil
			}
			d.Entries = append(d.Entries, ir.DictEntry{Key: key, Value: value})
		}
		return d
	case *syntax.Name:
		if s, ok := b.lookup(x.ID); ok && s.buf != nil {
			return s.buf
		}
	case *syntax.Call:
		if name, c := b.tirCall(x); c != nil {
			switch name {
			case "target":
				if d := b.oneDict(c); d != nil {
					return &ir.Target{Fields: d}
				}
				return nil
			case "comm_reducer":
				return orNil(b.commReducer(c))
			case "iter_var":
				return orNil(b.iterVar(c))
			case "Layout":
				return orNil(b.layout(c))
			case "Fragment":
				return orNil(b.fragment(c))
			}
		}
	}
	if v := b.expr(e); v != nil {
		return v
	}
	return nil
}

// orNil keeps a nil pointer from becoming an Attr that is not nil.
func orNil[T any, P interface {
	*T
	ir.Attr
}](p P) ir.Attr {
	if p == nil {
		return nil
	}
	return p
}

func (b *builder) attrList(elts []syntax.Expr) ir.Attr {
	l := make(ir.List, 0, len(elts))
	for _, e := range elts {
		v := b.attr(e)
		if v == nil {
			return nil
		}
		l = append(l, v)
	}
	return l
}

// lambdaVars defines the parameters of a lambda as int32 variables, or of the
// given types.
func (b *builder) lambdaVars(l *syntax.Lambda, types []ir.DType) []*ir.Var {
	vars := make([]*ir.Var, len(l.Params))
	for i := range l.Params {
		p := &l.Params[i]
		t := ir.DInt32
		if i < len(types) {
			t = types[i]
		}
		vars[i] = &ir.Var{Name: p.Name, Type: t}
		b.define(p.Name, binding{v: vars[i], loc: p.Loc})
	}
	return vars
}

// commReducer is T.comm_reducer(lambda x, y: x + y, [identity]).
func (b *builder) commReducer(c *syntax.Call) *ir.CommReducer {
	bad := func() *ir.CommReducer {
		b.errorf(c, "expected %s.comm_reducer(lambda x, y: .., [identity])", b.prefix)
		return nil
	}
	if len(c.Args) != 2 {
		return bad()
	}
	l, ok := c.Args[0].(*syntax.Lambda)
	if !ok || len(l.Params) == 0 || len(l.Params)%2 != 0 {
		return bad()
	}
	n := len(l.Params) / 2
	id, ok := b.exprList(c.Args[1])
	if !ok {
		return nil
	}
	if len(id) != n {
		return bad()
	}
	types := make([]ir.DType, 2*n)
	for i, e := range id {
		types[i], types[n+i] = e.DType(), e.DType()
	}
	mark := b.open()
	defer b.close(mark)
	vars := b.lambdaVars(l, types)
	result, ok := b.exprList(l.Body)
	if !ok {
		return nil
	}
	return &ir.CommReducer{LHS: vars[:n], RHS: vars[n:], Result: result, Identity: id}
}

var iterKinds = map[string]ir.IterVarKind{
	"ThreadIndex": ir.ThreadIndex, "DataPar": ir.DataPar, "CommReduce": ir.CommReduce, "Opaque": ir.OpaqueIter,
}

// iterVar is T.iter_var(variable, domain, kind, axis).
func (b *builder) iterVar(c *syntax.Call) *ir.IterVar {
	if len(c.Args) != 4 {
		b.errorf(c, "expected %s.iter_var(variable, domain, kind, axis)", b.prefix)
		return nil
	}
	v, ok := b.expr(c.Args[0]).(*ir.Var)
	if !ok {
		b.errorf(c.Args[0], "expected a variable")
		return nil
	}
	iv := &ir.IterVar{Var: v}
	if name, r := b.tirCall(c.Args[1]); r != nil && name == "Range" && len(r.Args) == 2 {
		lo, hi := b.integer(r.Args[0]), b.integer(r.Args[1])
		if lo == nil || hi == nil {
			return nil
		}
		iv.Dom = ir.Range{Min: lo, Extent: distance(lo, hi)}
	} else if !isNone(c.Args[1]) {
		b.errorf(c.Args[1], "expected %s.Range(begin, end) or None", b.prefix)
		return nil
	}
	kind, ok1 := b.str(c.Args[2])
	tag, ok2 := b.str(c.Args[3])
	if !ok1 || !ok2 {
		return nil
	}
	if iv.Kind, ok = iterKinds[kind]; !ok {
		b.errorf(c.Args[2], "unknown kind of axis %q", kind)
		return nil
	}
	iv.Tag = tag
	return iv
}

// layout is T.Layout((128, 32), lambda i, j: (i, j)).
func (b *builder) layout(c *syntax.Call) *ir.Layout {
	if len(c.Args) != 2 || len(c.Keywords) > 0 {
		b.errorf(c, "expected %s.Layout(shape, lambda i, j: (..))", b.prefix)
		return nil
	}
	shape, ok := b.dims(c.Args[0], false, nil)
	l, isLambda := c.Args[1].(*syntax.Lambda)
	if !ok || !isLambda || len(l.Params) != len(shape) {
		if ok {
			b.errorf(c.Args[1], "expected a function of %s", diag.Count(len(shape), "index"))
		}
		return nil
	}
	mark := b.open()
	defer b.close(mark)
	vars := b.lambdaVars(l, nil)
	fwd, ok := b.integers(l.Body)
	if !ok {
		return nil
	}
	return &ir.Layout{Vars: vars, Shape: shape, Forward: fwd}
}

// fragment is T.Fragment((16, 512), thread=lambda i, j, rep: ..,
// index=lambda i, j: (..), replicate=1, threads=(0, 128)).
func (b *builder) fragment(c *syntax.Call) *ir.Fragment {
	if len(c.Args) != 1 {
		b.errorf(c, "expected %s.Fragment(shape, thread=.., index=.., replicate=..)", b.prefix)
		return nil
	}
	shape, ok := b.dims(c.Args[0], false, nil)
	if !ok {
		return nil
	}
	f := &ir.Fragment{Shape: shape, Replicate: &smallInts[1]}
	var thread, index *syntax.Lambda
	for i := range c.Keywords {
		k := &c.Keywords[i]
		switch k.Name {
		case "thread":
			thread, _ = k.Value.(*syntax.Lambda)
		case "index":
			index, _ = k.Value.(*syntax.Lambda)
		case "replicate":
			if f.Replicate = b.integer(k.Value); f.Replicate == nil {
				return nil
			}
		case "threads":
			ends, ok := b.integers(k.Value)
			if !ok || len(ends) != 2 {
				b.errorf(k, "expected threads=(begin, end)")
				return nil
			}
			f.ThreadRange = ir.Range{Min: ends[0], Extent: distance(ends[0], ends[1])}
		default:
			b.unknownKeyword(k, []string{"thread", "index", "replicate", "threads"})
			return nil
		}
	}
	n := len(shape)
	if thread == nil || index == nil || len(thread.Params) != n+1 || len(index.Params) != n {
		b.errorf(c, "expected thread= as a function of %s and the replica, and index= as one without it", diag.Count(n, "index"))
		return nil
	}
	mark := b.open()
	defer b.close(mark)
	vars := b.lambdaVars(thread, nil)
	f.Vars, f.Rep = vars[:n], vars[n]
	if f.Thread = b.integer(thread.Body); f.Thread == nil {
		return nil
	}
	for i := range index.Params { // the same indices, by whatever names
		b.define(index.Params[i].Name, binding{v: f.Vars[i], loc: index.Params[i].Loc})
	}
	if f.Index, ok = b.integers(index.Body); !ok {
		return nil
	}
	return f
}
