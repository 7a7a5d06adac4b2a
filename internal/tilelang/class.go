package tilelang

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// lookup finds an attribute in a class and its bases, in the order in which
// they are written.
func (c *class) lookup(name string) (value, bool) { return c.lookupAt(name, 0) }

func (c *class) lookupAt(name string, depth int) (value, bool) {
	if v, ok := c.attrs[name]; ok {
		return v, true
	}
	if depth > MaxDepth {
		return nil, false
	}
	for _, b := range c.bases {
		if v, ok := b.lookupAt(name, depth+1); ok {
			return v, true
		}
	}
	return nil, false
}

// classStmt defines a class.
func (in *interp) classStmt(f *frame, s *syntax.ClassDef) {
	c := &class{name: s.Name, attrs: map[string]value{}, span: in.file.Span(s.NameLoc)}
	enum, named := false, false
	var mixin string // the type that an enumeration's members also have
	for _, b := range s.Bases {
		switch base := in.eval(f, b).(type) {
		case *class:
			c.bases = append(c.bases, base)
			c.data = c.data || base.data
			c.meta = c.meta || base.meta
			c.fields = append(c.fields, base.fields...)
		default:
			switch lastName(b) {
			case "IntEnum", "IntFlag", "StrEnum", "int", "str":
				mixin = lastName(b)
				enum = enum || mixin != "int" && mixin != "str"
			case "Enum", "Flag":
				enum = true
			case "NamedTuple":
				named = true
			}
		}
	}
	for _, d := range s.Decorators {
		switch lastName(d) {
		case "dataclass":
			c.data = true
		case "meta_class":
			c.meta = true
		}
	}
	body := newFrame(f)
	body.class = true
	body.vars = c.attrs
	for _, st := range s.Body {
		if a, ok := st.(*syntax.AnnAssign); ok {
			if n, ok := a.Target.(*syntax.Name); ok && (c.data || named) {
				c.fields = append(c.fields, n.ID)
			}
			if a.Value == nil {
				continue
			}
		}
		in.stmt(body, st)
	}
	if enum {
		c.valued = mixin != ""
		members, byName := &list{}, newDict()
		for _, st := range s.Body {
			a, ok := st.(*syntax.Assign)
			if !ok || len(a.Targets) != 1 {
				continue
			}
			n, ok := a.Targets[0].(*syntax.Name)
			if !ok {
				continue
			}
			m := &instance{cls: c, attrs: map[string]value{"name": n.ID, "value": c.attrs[n.ID]}}
			members.elts = append(members.elts, m)
			byName.set(in, n.ID, m)
		}
		for i, k := range byName.keys {
			c.attrs[k.(string)] = byName.vals[i]
		}
		c.attrs["__members__"], c.attrs["__members_by_name__"] = members, byName
	}
	if c.meta {
		for name, v := range c.attrs {
			if fn, ok := v.(*function); ok && fn.def != nil && len(name) > 1 && name[:2] != "__" && stores(fn.def) {
				c.attrs[name] = &macro{fn: fn}
			}
		}
	}
	in.assignName(f, s.Name, c)
}

// stores reports a method that assigns to an element, which makes it part of
// the kernel.
func stores(def *syntax.FuncDef) bool {
	found := false
	target := func(t syntax.Expr) {
		walkNode(t, func(n syntax.Node) bool {
			if _, ok := n.(*syntax.Index); ok {
				found = true
			}
			return true
		})
	}
	walkStmts(def.Body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			for _, t := range n.Targets {
				target(t)
			}
		case *syntax.AugAssign:
			target(n.Target)
		case *syntax.AnnAssign:
			target(n.Target)
		}
		return true
	})
	return found
}

func (in *interp) instantiate(c *class, a *args) value {
	if m, ok := c.attrs["__members__"].(*list); ok { // Color(1)
		for _, e := range m.elts {
			if len(a.pos) == 1 && in.equal(e.(*instance).attrs["value"], a.pos[0]) {
				return e
			}
		}
		panic(in.errorf("%s has no member of this value", c.name).is("ValueError"))
	}
	in.cells(4)
	x := &instance{cls: c, attrs: map[string]value{}}
	if init, ok := c.lookup("__init__"); ok {
		in.apply(&boundMethod{x, init}, a)
		return x
	}
	if c.fields == nil {
		if len(a.pos) > 0 || len(a.kw) > 0 {
			if isException(c) {
				return &exception{kind: c.name, cls: c, args: a.pos}
			}
			panic(in.errorf("%s takes no arguments", c.name).note(c.span, "%s is defined here", c.name).is("TypeError"))
		}
		return x
	}
	sig := &signature{name: c.name, star: -1}
	for _, f := range c.fields {
		p := sigParam{name: f}
		if d, ok := c.lookup(f); ok {
			if fd, ok := d.(*fieldDefault); ok {
				d = fd.make(in)
			}
			p.def = d
		}
		sig.params = append(sig.params, p)
	}
	in.bind(sig, a)
	for i, f := range c.fields {
		x.attrs[f] = a.v[i]
	}
	if post, ok := c.lookup("__post_init__"); ok {
		in.call(&boundMethod{x, post}, nil)
	}
	return x
}

// fieldDefault is dataclasses.field(default_factory=...).
type fieldDefault struct{ factory, value value }

func (f *fieldDefault) make(in *interp) value {
	if f.factory != nil {
		return in.call(f.factory, nil)
	}
	return f.value
}

func isException(c *class) bool {
	for _, b := range c.bases {
		if isException(b) {
			return true
		}
	}
	return len(c.bases) == 0 && c.attrs["__exception__"] != nil
}

func (in *interp) instanceAttr(x *instance, name string) (value, bool) {
	if v, ok := x.attrs[name]; ok {
		return v, true
	}
	v, ok := x.cls.lookup(name)
	if !ok {
		switch name {
		case "__class__":
			return x.cls, true
		case "__dict__":
			d := newDict()
			for _, k := range sortedKeys(x.attrs) {
				d.set(in, k, x.attrs[k])
			}
			return d, true
		case "_asdict":
			return rawBuiltin(name, func(in *interp, a *args) value {
				d := newDict()
				for _, k := range x.cls.fields {
					d.set(in, k, x.attrs[k])
				}
				return d
			}), true
		}
		return nil, false
	}
	switch m := v.(type) {
	case *function, *jitFunc:
		return &boundMethod{x, m}, true
	case *macro:
		return &macro{fn: m.fn, self: x}, true
	case *property:
		return in.call(&boundMethod{x, m.fn}, nil), true
	case *staticMethod:
		return m.fn, true
	case *classMethod:
		return &boundMethod{x.cls, m.fn}, true
	}
	return v, true
}

func (in *interp) classAttr(c *class, name string) (value, bool) {
	v, ok := c.lookup(name)
	if !ok {
		if name == "__name__" {
			return c.name, true
		}
		return nil, false
	}
	switch m := v.(type) {
	case *staticMethod:
		return m.fn, true
	case *classMethod:
		return &boundMethod{c, m.fn}, true
	}
	return v, true
}

// super is super() within a method.
func (in *interp) super(f *frame) value {
	s := f
	for s != nil && (s.fn == nil || s.fn.def == nil) {
		s = s.parent
	}
	if s == nil || len(s.fn.params) == 0 {
		panic(in.errorf("super() outside of a method").is("RuntimeError"))
	}
	self, ok := s.vars[s.fn.params[0].Name].(*instance)
	if !ok {
		panic(in.errorf("super() outside of a method").is("RuntimeError"))
	}
	// The class whose method runs, to look behind it.
	var owner *class
	var find func(c *class)
	find = func(c *class) {
		for _, v := range c.attrs {
			fn, ok := v.(*function)
			if m, isMacro := v.(*macro); isMacro {
				fn, ok = m.fn, true
			}
			if ok && fn == s.fn {
				owner = c
			}
		}
		for _, b := range c.bases {
			if owner == nil {
				find(b)
			}
		}
	}
	find(self.cls)
	m := &module{name: "super", attrs: map[string]value{}}
	m.get = func(in *interp, name string) (value, bool) {
		if owner != nil {
			for _, b := range owner.bases {
				if v, ok := b.lookup(name); ok {
					switch fn := v.(type) {
					case *function:
						return &boundMethod{self, fn}, true
					case *macro:
						return &macro{fn: fn.fn, self: self}, true
					}
					return v, true
				}
			}
		}
		if name == "__init__" {
			return rawBuiltin(name, func(in *interp, a *args) value { return none }), true
		}
		return nil, false
	}
	return m
}

// tensor is a torch tensor of known shape, for calls of eager kernels.
type tensor struct {
	shape []value
	dtype ir.DType
	at    ir.Span
}

func (t *tensor) attr(in *interp, name string) (value, bool) {
	same := func(fn func(in *interp, a *args) value) (value, bool) { return rawBuiltin("tensor."+name, fn), true }
	switch name {
	case "shape":
		return &tuple{t.shape}, true
	case "dtype":
		return t.dtype, true
	case "size":
		return same(func(in *interp, a *args) value {
			if len(a.pos) == 1 {
				return in.index(&tuple{t.shape}, a.pos[0])
			}
			return &tuple{t.shape}
		})
	case "dim":
		return same(func(in *interp, a *args) value { return int64(len(t.shape)) })
	case "ndim":
		return int64(len(t.shape)), true
	case "half", "bfloat16", "float", "double", "int", "long":
		d := map[string]ir.DType{"half": ir.DFloat16, "bfloat16": ir.DBFloat16, "float": ir.DFloat32, "double": ir.DFloat64, "int": ir.DInt32, "long": ir.DInt64}[name]
		return same(func(in *interp, a *args) value { return &tensor{t.shape, d, t.at} })
	case "to", "type":
		return same(func(in *interp, a *args) value {
			out := &tensor{t.shape, t.dtype, t.at}
			vals := a.pos
			for _, k := range a.kw {
				vals = append(vals, k.v)
			}
			for _, v := range vals {
				if d, ok := v.(ir.DType); ok {
					out.dtype = d
				}
			}
			return out
		})
	case "cuda", "contiguous", "cpu", "clone", "detach", "requires_grad_", "uniform_", "normal_", "zero_", "fill_", "pin_memory", "random_", "div_", "mul_":
		return same(func(in *interp, a *args) value { return t })
	case "T", "mT":
		if n := len(t.shape); n >= 2 {
			s := append([]value(nil), t.shape...)
			s[n-1], s[n-2] = s[n-2], s[n-1]
			return &tensor{s, t.dtype, t.at}, true
		}
	}
	return &unknown{what: "a tensor's " + name, at: t.at}, true
}
