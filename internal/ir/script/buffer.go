package script

import (
	"slices"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// buffer reads the arguments shape, dtype and the keywords of any of the
// buffer declarations. It is nil after a mistake.
func (b *builder) buffer(name string, c *syntax.Call, args []syntax.Expr, loc syntax.Loc) *ir.Buffer {
	buf := &ir.Buffer{Name: name, Type: ir.DFloat32, Org: b.file.Span(loc)}
	scope := ""
	ok := true
	fields := [...]string{"shape", "dtype", "data", "strides", "elem_offset", "scope", "align", "offset_factor"}
	get := func(i int) syntax.Expr {
		if i < len(args) {
			return args[i]
		}
		for k := range c.Keywords {
			if c.Keywords[k].Name == fields[i] {
				return c.Keywords[k].Value
			}
		}
		return nil
	}
	if len(args) > len(fields) {
		b.errorf(args[len(fields)], "too many arguments of a buffer")
		ok = false
	}
	for i := range c.Keywords {
		if k := &c.Keywords[i]; !b.knownBufferField(k.Name, fields[:]) {
			b.unknownKeyword(k, append(fields[:], "buffer_type", "axis_separators"))
			ok = false
		}
	}
	if e := get(0); e == nil {
		b.errorf(c, "a buffer needs a shape")
		return nil
	} else if shape, good := b.dims(e, false, nil); good {
		buf.Shape = shape
	} else {
		ok = false
	}
	if e := get(1); e != nil {
		t, good := b.dtype(e)
		buf.Type, ok = t, ok && good
	}
	if e := get(5); e != nil {
		s, good := b.str(e)
		scope, ok = s, ok && good
	}
	if e := get(2); e != nil && !isNone(e) {
		v, good := b.expr(e).(*ir.Var)
		if !good || !v.Type.IsHandle() {
			if v != nil || !b.diags.HasErrors() {
				b.errorf(e, "data= must be a pointer variable")
			}
			ok = false
		} else {
			buf.Data = v
		}
	}
	if buf.Data == nil {
		if scope == "" {
			scope = "global"
		}
		buf.Data = ir.NewPointer(name, buf.Type, scope)
	}
	if e := get(3); e != nil && !isNone(e) {
		strides, good := b.dims(e, true, buf)
		if good && len(strides) > 0 {
			buf.Strides = strides
		}
		ok = ok && good
	}
	if e := get(4); e != nil {
		buf.ElemOffset = b.integer(e)
		ok = ok && buf.ElemOffset != nil
	}
	if e := get(6); e != nil {
		v, good := b.intConst(e)
		buf.Align, ok = int(v), ok && good
	}
	if !ok {
		return nil
	}
	return buf
}

func (b *builder) knownBufferField(name string, fields []string) bool {
	for _, f := range fields {
		if f == name {
			return true
		}
	}
	return name == "buffer_type" || name == "axis_separators" || name == "annotations" || name == "layout"
}

func isNone(e syntax.Expr) bool {
	c, ok := e.(*syntax.Const)
	return ok && c.Kind == syntax.None
}

// dims reads a shape or strides: a tuple, list or one expression. Strides may
// be strings, which stand for variables known only as A.strides[i].
func (b *builder) dims(e syntax.Expr, strides bool, buf *ir.Buffer) ([]ir.Expr, bool) {
	var list []syntax.Expr
	switch x := e.(type) {
	case *syntax.Tuple:
		list = x.Elts
	case *syntax.List:
		list = x.Elts
	default:
		list = []syntax.Expr{e}
	}
	if strides && len(list) > 0 && len(list) != len(buf.Shape) {
		b.errorf(e, "%s for %s", diag.Count(len(list), "stride"), diag.Count(len(buf.Shape), "dimension"))
		return nil, false
	}
	out := make([]ir.Expr, 0, len(list))
	ok := true
	for _, d := range list {
		if s, isStr := d.(*syntax.Str); isStr && strides {
			out = append(out, &ir.Var{Name: s.Value, Type: ir.DInt32})
			continue
		}
		x := b.integer(d)
		if x == nil {
			ok = false
			continue
		}
		out = append(out, x)
	}
	return out, ok
}

// declare is `name = T.<how>(...)` for a buffer. It returns the statement that
// the declaration is, nil if it adds none.
func (b *builder) declare(name, how string, c *syntax.Call, s syntax.Node) ir.Stmt {
	loc := s.Range()
	args := c.Args
	var param *ir.Var
	var source *ir.BufferRegion
	if how == "match_buffer" {
		if len(args) == 0 {
			b.errorf(c, "%s.match_buffer needs a parameter or a region, then a shape", b.prefix)
			return nil
		}
		if n, ok := args[0].(*syntax.Name); ok {
			if sym, ok := b.lookup(n.ID); ok && sym.v != nil && sym.buf == nil {
				param = sym.v
			}
		}
		if param == nil {
			r, ok := b.region(args[0])
			if !ok {
				b.define(name, binding{loc: loc})
				return nil
			}
			source = &r
			if len(args) == 1 && !hasKeyword(c, "shape") { // the region's own shape
				buf := &ir.Buffer{Name: name, Type: r.Buffer.Type, Org: b.file.Span(loc)}
				buf.Data = ir.NewPointer(name, buf.Type, r.Buffer.Scope())
				for _, d := range r.Region {
					buf.Shape = append(buf.Shape, d.Extent)
				}
				b.matchRegion(buf, r, c)
				b.define(name, binding{buf: buf, loc: loc})
				return nil
			}
		}
		args = args[1:]
	}
	buf := b.buffer(name, c, args, loc)
	if buf == nil {
		b.define(name, binding{loc: loc})
		return nil
	}
	// A visible free buffer of that name is the one declared here.
	if sym, ok := b.lookup(name); ok && sym.free && sym.buf != nil && how != "Buffer" && sameBuffer(sym.buf, buf, how) {
		buf = sym.buf
	} else {
		b.define(name, binding{buf: buf, free: how == "Buffer", loc: loc})
	}
	org := b.file.Span(loc)
	switch how {
	case "match_buffer":
		if param != nil {
			if !slices.Contains(b.fn.Params, param) {
				b.errorf(c.Args[0], "%s is not a parameter of the function", param.Name)
			} else if b.fn.BufferOf(param) != nil {
				b.errorf(c.Args[0], "parameter %s is matched twice", param.Name)
			}
			b.fn.BufferMap = append(b.fn.BufferMap, ir.BufferBinding{Param: param, Buffer: buf})
		} else {
			b.matchRegion(buf, *source, c)
		}
	case "sblock_alloc_buffer":
		if b.block == nil { // the root block, which goes without saying
			b.block = &ir.SBlock{Name: "root", Org: b.fn.Org}
		}
		b.block.AllocBuffers = append(b.block.AllocBuffers, buf)
	case "alloc_buffer":
		if b.old && b.block != nil {
			b.block.AllocBuffers = append(b.block.AllocBuffers, buf)
			return nil
		}
		a := &ir.AllocBuffer{Buffer: buf, Org: org}
		for i := range c.Keywords {
			if c.Keywords[i].Name == "annotations" {
				a.Annotations = b.dict(c.Keywords[i].Value)
			}
		}
		return a
	case "decl_buffer":
		if !hasKeyword(c, "data") && len(c.Args) < 3 { // as in TVM, a buffer without data of another is allocated
			return &ir.AllocBuffer{Buffer: buf, Org: org}
		}
		return &ir.DeclBuffer{Buffer: buf, Org: org}
	}
	return nil
}

func (b *builder) matchRegion(buf *ir.Buffer, r ir.BufferRegion, c *syntax.Call) {
	if b.block == nil {
		b.errorf(c, "%s.match_buffer of a region outside of a block", b.prefix)
		return
	}
	b.block.MatchBuffers = append(b.block.MatchBuffers, ir.MatchBufferRegion{Buffer: buf, Source: r})
}

func hasKeyword(c *syntax.Call, name string) bool {
	for i := range c.Keywords {
		if c.Keywords[i].Name == name {
			return true
		}
	}
	return false
}

// sameBuffer reports whether a declaration describes the free buffer old.
func sameBuffer(old, decl *ir.Buffer, how string) bool {
	if old.Type != decl.Type || len(old.Shape) != len(decl.Shape) {
		return false
	}
	return old.Data == decl.Data || how == "alloc_buffer"
}

// region reads A[i, lo:hi] as a region.
func (b *builder) region(e syntax.Expr) (ir.BufferRegion, bool) {
	x, ok := e.(*syntax.Index)
	var base syntax.Expr = e
	if ok {
		base = x.X
	}
	buf, isBuf := b.bufferRef(base)
	if !isBuf {
		b.errorf(e, "expected a region of a buffer, such as A[0:16, j]")
		return ir.BufferRegion{}, false
	}
	if buf == nil {
		return ir.BufferRegion{}, false
	}
	r := ir.BufferRegion{Buffer: buf}
	if !ok { // a whole buffer
		for _, d := range buf.Shape {
			r.Region = append(r.Region, ir.Range{Min: zeroOf(d), Extent: d})
		}
		return r, true
	}
	if !b.checkRank(x, buf) {
		return r, false
	}
	r.Region = make([]ir.Range, len(x.Indices))
	for i, d := range x.Indices {
		s, isSlice := d.(*syntax.Slice)
		if !isSlice {
			v := b.integer(d)
			if v == nil {
				return r, false
			}
			r.Region[i] = ir.Range{Min: v, Extent: ir.IntConst(v.DType(), 1)}
			continue
		}
		lo, hi, good := b.sliceEnds(s, buf.Shape[i])
		if !good {
			return r, false
		}
		if s.Step != nil {
			b.errorf(s.Step, "a region has no step")
			return r, false
		}
		r.Region[i] = ir.Range{Min: lo, Extent: distance(lo, hi)}
	}
	return r, true
}

func zeroOf(e ir.Expr) ir.Expr { return ir.IntConst(e.DType(), 0) }

func (b *builder) sliceEnds(s *syntax.Slice, dim ir.Expr) (lo, hi ir.Expr, ok bool) {
	if s.Lo != nil {
		lo = b.integer(s.Lo)
	} else {
		lo = zeroOf(dim)
	}
	if s.Hi != nil {
		hi = b.integer(s.Hi)
	} else {
		hi = dim
	}
	if lo == nil || hi == nil {
		return nil, nil, false
	}
	lo, hi, err := ir.MatchTypes(lo, hi)
	if err != nil {
		b.errorf(s, "the ends of the slice are of types %s and %s", lo.DType(), hi.DType())
		return nil, nil, false
	}
	return lo, hi, true
}

// bufferRef is the buffer an expression names; ok is false if it names
// something else. A nil buffer with ok is a mistake reported before.
func (b *builder) bufferRef(e syntax.Expr) (*ir.Buffer, bool) {
	n, isName := e.(*syntax.Name)
	if !isName {
		return nil, false
	}
	s, ok := b.lookup(n.ID)
	if !ok {
		b.undefined(n)
		return nil, true
	}
	if s.buf != nil {
		return s.buf, true
	}
	return nil, s.v == nil
}
