package ir

// BufferBinding says that a parameter is the handle of a buffer
// (T.match_buffer).
type BufferBinding struct {
	Param  *Var
	Buffer *Buffer
}

// PrimFunc is a function: a kernel with its launches, the host side of one,
// or a device kernel.
type PrimFunc struct {
	Name      string
	Params    []*Var
	Ret       DType // void when the text does not say
	BufferMap []BufferBinding
	// Attrs are the function's attributes in text order. "global_symbol" is
	// left out when it equals Name; see Private.
	Attrs *Dict
	// Private functions have no global symbol (@T.prim_func(private=True)).
	Private bool
	Body    Stmt
	Org     Span
}

// IRModule is a list of functions in the order of the text.
type IRModule struct {
	Funcs []*PrimFunc
	// Bare: the text was a function by itself, without a module around it.
	Bare bool
}

// Func is the function of a name, nil if there is none.
func (m *IRModule) Func(name string) *PrimFunc {
	for _, f := range m.Funcs {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Attr is an attribute of the function, nil if it is not set.
func (f *PrimFunc) Attr(key string) Attr { return f.Attrs.Get(key) }

// WithAttr is f with an attribute set, or removed when v is nil.
func (f *PrimFunc) WithAttr(key string, v Attr) *PrimFunc {
	g := *f
	g.Attrs = f.Attrs.With(key, v)
	return &g
}

// WithBody is f with another body; f itself when the body is the same.
func (f *PrimFunc) WithBody(body Stmt) *PrimFunc {
	if body == f.Body {
		return f
	}
	g := *f
	g.Body = body
	return &g
}

// BufferOf is the buffer a parameter is the handle of, nil if it is a scalar.
func (f *PrimFunc) BufferOf(p *Var) *Buffer {
	for _, b := range f.BufferMap {
		if b.Param == p {
			return b.Buffer
		}
	}
	return nil
}

// MapFuncs applies fn to every function; m itself when none changed. A nil
// result drops the function.
func (m *IRModule) MapFuncs(fn func(*PrimFunc) (*PrimFunc, error)) (*IRModule, error) {
	var out []*PrimFunc
	changed := false
	for i, f := range m.Funcs {
		g, err := fn(f)
		if err != nil {
			return nil, err
		}
		if g != f && !changed {
			changed = true
			out = append(out, m.Funcs[:i]...)
		}
		if changed && g != nil {
			out = append(out, g)
		}
	}
	if !changed {
		return m, nil
	}
	return &IRModule{Funcs: out, Bare: m.Bare}, nil
}
