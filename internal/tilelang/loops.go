package tilelang

import (
	"math/big"
	"sort"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// loopSpec is a kernel loop, T.serial(8) and its like, before it is entered.
type loopSpec struct {
	vars []*ir.Var
	// make is the loop, or loops, around a body.
	make func(body ir.Stmt, org ir.Span) ir.Stmt
}

// stepLoop is a serial or unrolled loop with a step: it counts iterations and
// computes the variable.
type stepLoop struct {
	start, stop, step value
	kind              ir.ForKind
	annotations       *ir.Dict
}

// forStmt is a for statement in a kernel.
func (b *builder) forStmt(in *interp, f *frame, s *syntax.For) ctl {
	it := b.loopIterable(in, f, s.Iter)
	in.at = s.Iter.Range()
	if r, ok := it.(pyRange); ok {
		it = in.serial(r.start, r.stop, r.step, nil, ir.Serial)
	}
	org := b.org
	switch it := it.(type) {
	case *loopSpec:
		b.loop(in, f, s, it, varValues(it.vars), org)
		return ctlNext
	case *stepLoop:
		spec, v := b.stepped(in, it)
		b.loop(in, f, s, spec, []value{v}, org)
		return ctlNext
	}
	if isExpr(it) {
		panic(in.errorf("%s is known only when the kernel runs: it cannot be iterated over", in.describe(it)).
			hint("use range(n) or T.serial(n)").is("TypeError"))
	}
	if buf, ok := it.(*ir.Buffer); ok {
		panic(in.errorf("buffer %s cannot be iterated over", buf.Name).hint("loop over its indices with T.serial").is("TypeError"))
	}
	result := ctlNext
	depth := len(b.frames)
	fr := &bframe{kind: fkPython}
	b.push(in, fr)
	in.each(it, func(v value) bool {
		in.at = s.Target.Range()
		b.org = org
		b.loopTarget(in, f, s.Target, []value{v})
		switch in.block(f, s.Body) {
		case ctlBreak:
			return false
		case ctlReturn:
			result = ctlReturn
			return false
		}
		return true
	})
	// The loop is no scope: what it opened stays open.
	if depth < len(b.frames) && b.frames[depth] == fr {
		b.frames = append(b.frames[:depth], b.frames[depth+1:]...)
	}
	return result
}

// loopIterable evaluates what a for statement loops over; range makes a kernel
// loop there.
func (b *builder) loopIterable(in *interp, f *frame, e syntax.Expr) value {
	call, ok := e.(*syntax.Call)
	if !ok {
		return b.unwrap(in, in.eval(f, e))
	}
	fn := in.eval(f, call.Fn)
	a := in.evalArgs(f, call)
	in.at = call.Loc
	if bf, ok := fn.(*builtin); ok && bf.name == "range" {
		bf = langFuncs()["serial"]
		return in.apply(bf, a)
	}
	return in.apply(fn, a)
}

// enterLoop is v = T.thread_binding(...): what follows in the scope is the body
// of the loop, and v its variable.
func (b *builder) enterLoop(in *interp, spec *loopSpec) value {
	org := b.org
	b.push(in, &bframe{kind: fkFor, holds: true, close: func(body ir.Stmt) ir.Stmt { return spec.make(body, org) }})
	if len(spec.vars) == 1 {
		return spec.vars[0]
	}
	return &list{varValues(spec.vars)}
}

// loop runs the body of a kernel loop once, within it.
func (b *builder) loop(in *interp, f *frame, s *syntax.For, spec *loopSpec, elts []value, org ir.Span) {
	b.inside(in, &bframe{kind: fkFor, holds: true, close: func(body ir.Stmt) ir.Stmt {
		return spec.make(body, org)
	}}, func() {
		in.at = s.Target.Range()
		b.loopTarget(in, f, s.Target, elts)
		in.block(f, s.Body)
	})
	for _, v := range spec.vars {
		if v.Name == "" {
			v.Name = "v"
		}
	}
}

// loopTarget binds the variables of a loop.
func (b *builder) loopTarget(in *interp, f *frame, t syntax.Expr, elts []value) {
	if len(elts) == 1 {
		if n, ok := t.(*syntax.Name); ok {
			in.assignName(f, n.ID, b.bind(in, f, n.ID, elts[0], true))
			b.defs[n.ID] = in.file.Span(n.Loc)
			return
		}
	}
	v := value(&tuple{elts})
	if len(elts) == 1 {
		v = elts[0]
	}
	switch t := t.(type) {
	case *syntax.Name:
		in.assignName(f, t.ID, b.bind(in, f, t.ID, v, true))
	case *syntax.Tuple:
		b.assignTuple(in, f, t.Elts, v, true)
	case *syntax.List:
		b.assignTuple(in, f, t.Elts, v, true)
	default:
		panic(in.errorf("a loop needs names for its variables").is("SyntaxError"))
	}
}

// stepped makes the loop of a stepLoop and the value of its variable.
func (b *builder) stepped(in *interp, l *stepLoop) (*loopSpec, value) {
	step := l.step
	if c, ok := step.(*ir.IntImm); ok {
		step = c.Value
	}
	var trips ir.Expr
	switch n := step.(type) {
	case int64:
		switch {
		case n == 0:
			panic(in.errorf("a loop with step 0").is("ValueError"))
		case n > 0:
			trips = in.ceildiv(in.toExpr(in.binaryOp(syntax.Sub, l.stop, l.start)), in.toExpr(n))
		default:
			trips = in.ceildiv(in.toExpr(in.binaryOp(syntax.Sub, l.start, l.stop)), in.toExpr(-n))
		}
	default:
		trips = in.ceildiv(in.toExpr(in.binaryOp(syntax.Sub, l.stop, l.start)), in.toExpr(step))
	}
	spec := in.rangeLoop(int64(0), trips, l.kind, l.annotations)
	v := spec.vars[0]
	v.Name = "_tmp"
	return spec, in.binaryOp(syntax.Add, l.start, in.binaryOp(syntax.Mul, v, step))
}

// serial is T.serial, and T.unroll by its kind: loops with a step other than 1
// count iterations.
func (in *interp) serial(start, stop, step value, ann *ir.Dict, kind ir.ForKind) value {
	one := false
	switch s := step.(type) {
	case noneType:
		one = true
	case int64:
		one = s == 1 && kind == ir.Serial
	case *ir.IntImm:
		one = s.Value == 1 && kind == ir.Serial
	}
	if _, ok := stop.(noneType); ok {
		start, stop = in.zeroLike(start), start
	}
	if one {
		return in.rangeLoop(start, stop, kind, ann)
	}
	return &stepLoop{start: start, stop: stop, step: step, kind: kind, annotations: ann}
}

// zeroLike is 0 in the type of a value.
func (in *interp) zeroLike(v value) value {
	if e, ok := v.(ir.Expr); ok {
		return ir.IntConst(e.DType(), 0)
	}
	return int64(0)
}

// rangeLoop is a loop from start to stop, whose extent is simplified.
func (in *interp) rangeLoop(start, stop value, kind ir.ForKind, ann *ir.Dict) *loopSpec {
	lo, hi := in.extent(start), in.extent(stop)
	return in.simpleLoop(lo, in.simplify(in.sub(hi, lo)), kind, ann)
}

// extent is a value as a bound of a loop.
func (in *interp) extent(v value) ir.Expr {
	switch v := v.(type) {
	case int64, bool, *big.Int, ir.Expr, *eqOp, *ref:
	case *unknown:
		panic(in.needKnown(v))
	default:
		if b, ok := v.(*ir.Buffer); !ok || !isVarBuffer(b) {
			panic(in.errorf("an extent is %s: expected an integer", in.typeWithValue(v)).is("TypeError"))
		}
	}
	e := in.toExpr(v)
	if !e.DType().IsInteger() {
		panic(in.errorf("an extent has type %s: expected an integer", e.DType()).is("TypeError"))
	}
	return e
}

func (in *interp) simpleLoop(lo, n ir.Expr, kind ir.ForKind, ann *ir.Dict) *loopSpec {
	t := ir.DInt32
	if lo.DType().Bits > t.Bits || n.DType().Bits > t.Bits {
		t = ir.DInt64
	}
	lo, n = in.cast(t, lo), in.cast(t, n)
	v := &ir.Var{Type: t}
	return &loopSpec{vars: []*ir.Var{v}, make: func(body ir.Stmt, org ir.Span) ir.Stmt {
		return &ir.For{Var: v, Min: lo, Extent: in.checked(n), Kind: kind, Annotations: ann, Body: body, Org: org}
	}}
}

// nest is a nest of loops from 0, the outermost first. The annotations are
// those of the outermost loop.
func (in *interp) nest(extents []ir.Expr, kind ir.ForKind, ann *ir.Dict) *loopSpec {
	spec := &loopSpec{}
	for _, e := range extents {
		spec.vars = append(spec.vars, &ir.Var{Type: e.DType()})
	}
	spec.make = func(body ir.Stmt, org ir.Span) ir.Stmt {
		for i := len(extents) - 1; i >= 0; i-- {
			f := &ir.For{Var: spec.vars[i], Min: ir.IntConst(extents[i].DType(), 0), Extent: in.checked(extents[i]), Kind: kind, Body: body, Org: org}
			if i == 0 {
				f.Annotations = ann
			}
			body = f
		}
		return body
	}
	return spec
}

// persistent is T.Persistent: waves of blocks over a domain, the last
// dimension walked in groups. The coordinates are bound before the loop over
// waves, as TileLang does.
func (in *interp) persistent(domain []ir.Expr, wave, index, group ir.Expr, stages int64, ann *ir.Dict) *loopSpec {
	n := len(domain)
	last := domain[n-1]
	group = in.binary(ir.Min, group, last)
	grouped := append([]ir.Expr{in.ceildiv(last, group)}, domain[:n-1]...)
	grouped = append(grouped, group)
	total := grouped[0]
	for _, d := range grouped[1:] {
		total = in.mul(total, d)
	}
	waves := in.ceildiv(total, wave)
	w := &ir.Var{Name: "w", Type: waves.DType()}
	at := in.add(in.mul(w, wave), index)
	idx := make([]ir.Expr, len(grouped))
	rem := at
	for i := len(grouped) - 1; i >= 0; i-- {
		idx[i] = in.binary(ir.TruncMod, rem, grouped[i])
		rem = in.binary(ir.Div, rem, grouped[i])
	}
	// The outermost coordinate is the quotient that is left.
	q := at
	for i := len(grouped) - 1; i > 0; i-- {
		q = in.binary(ir.Div, q, grouped[i])
	}
	idx[0] = q
	spec := &loopSpec{}
	for _, d := range domain {
		spec.vars = append(spec.vars, &ir.Var{Type: d.DType()})
	}
	lastCoord := in.add(in.mul(idx[0], group), idx[n])
	more := in.atLeastTwo(waves)
	spec.make = func(body ir.Stmt, org ir.Span) ir.Stmt {
		body = &ir.IfThenElse{Cond: in.binary(ir.LT, lastCoord, last), Then: body, Org: org}
		if more {
			body = &ir.IfThenElse{Cond: in.binary(ir.LT, at, total), Then: body, Org: org}
		}
		if stages > 0 {
			ann = ann.With("num_stages", ir.I32(stages))
		}
		stmts := []ir.Stmt{&ir.Bind{Var: spec.vars[n-1], Value: in.checked(lastCoord), Org: org}}
		for i := n - 2; i >= 0; i-- {
			stmts = append(stmts, &ir.Bind{Var: spec.vars[i], Value: in.checked(idx[i+1]), Org: org})
		}
		loop := &ir.For{Var: w, Min: ir.IntConst(w.Type, 0), Extent: in.checked(waves), Kind: ir.Serial, Annotations: ann, Body: body, Org: org}
		return ir.Seq(append(stmts, loop)...)
	}
	return spec
}

func (in *interp) atLeastTwo(e ir.Expr) bool {
	c, ok := ir.AsInt(e)
	return ok && c >= 2
}

// annotations turns a Python dict into a loop's annotations, in key order.
func (in *interp) annotations(v value) *ir.Dict {
	d, ok := v.(*dict)
	if !ok {
		if _, isNone := v.(noneType); isNone {
			return nil
		}
		panic(in.errorf("annotations must be a dict, got %s", typeName(v)).is("TypeError"))
	}
	if len(d.keys) == 0 {
		return nil
	}
	out := &ir.Dict{}
	for i, k := range d.keys {
		key, ok := k.(string)
		if !ok {
			panic(in.errorf("an annotation's name is %s: expected a string", in.typeWithValue(k)).is("TypeError"))
		}
		out.Entries = append(out.Entries, ir.DictEntry{Key: ir.Str(key), Value: in.toAttr(d.vals[i])})
	}
	return sortDict(out)
}

func sortDict(d *ir.Dict) *ir.Dict {
	if d.Len() == 0 {
		return nil
	}
	sort.SliceStable(d.Entries, func(i, j int) bool {
		return d.Entries[i].Key.(*ir.StringImm).Value < d.Entries[j].Key.(*ir.StringImm).Value
	})
	return d
}

// toAttr turns a value into what an annotation holds.
func (in *interp) toAttr(v value) ir.Attr {
	switch v := v.(type) {
	case noneType:
		return ir.AttrNone{}
	case bool:
		return ir.AttrBool(v)
	case *tuple:
		l := make(ir.List, len(v.elts))
		for i, x := range v.elts {
			l[i] = in.toAttr(x)
		}
		return l
	case *list:
		l := make(ir.List, len(v.elts))
		for i, x := range v.elts {
			l[i] = in.toAttr(x)
		}
		return l
	case *dict:
		d := &ir.Dict{}
		for i, k := range v.keys {
			d.Entries = append(d.Entries, ir.DictEntry{Key: in.toAttr(k), Value: in.toAttr(v.vals[i])})
		}
		return d
	case *ir.Buffer:
		return v
	case *ir.Layout:
		return v
	case *ir.Fragment:
		return v
	case ir.DType:
		return ir.Str(v.String())
	case *attrValue:
		return v.a
	}
	return in.checked(in.toExpr(v))
}

// callAttr turns a value into a keyword argument of a call.
func (in *interp) callAttr(v value) ir.Attr {
	if x, ok := v.(bool); ok {
		return ir.BoolConst(x)
	}
	return in.toAttr(v)
}
