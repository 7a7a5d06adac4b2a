package device

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// ConvertSSA gives every definition a variable of its own.
//
// Precondition: none. Effect: where one variable is defined in several places
// (a statement was duplicated), the later definitions get fresh variables of
// the same name, and so do the buffers over memory allocated there. Functions
// are treated one by one. Invariant: afterwards no variable is defined twice in
// a function; the text is the same.
var ConvertSSA = &pipeline.Pass{
	Name:         "ConvertSSA",
	Stage:        stage,
	Doc:          "give every definition a variable of its own",
	Precondition: "None.",
	Effect:       "A variable that is defined in several places is replaced by fresh ones of the same name at the later places.",
	Before:       "for i in range(4): ...  # one variable i\nfor i in range(4): ...",
	After:        "for i in range(4): ...  # two variables i\nfor i in range(4): ...",
	Run: pipeline.BodyPass(nil, func(_ *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
		c := ssa{defined: map[*ir.Var]bool{}, now: map[*ir.Var]*ir.Var{}, bufs: map[bufKey]*ir.Buffer{}}
		for _, p := range f.Params {
			c.defined[p] = true
		}
		c.r = ir.Rewriter{
			PreStmt: c.stmt,
			Var:     func(v *ir.Var) ir.Expr { return c.use(v) },
			Def:     c.define,
			Buffer:  c.buffer,
		}
		return c.r.Stmt(f.Body), nil
	}),
}

type ssa struct {
	r       ir.Rewriter
	defined map[*ir.Var]bool
	now     map[*ir.Var]*ir.Var // what a variable stands for at this point
	bufs    map[bufKey]*ir.Buffer
}

// bufKey identifies a buffer under the current meaning of its pointer.
type bufKey struct {
	b    *ir.Buffer
	data *ir.Var
}

func (c *ssa) use(v *ir.Var) *ir.Var {
	if w := c.now[v]; w != nil {
		return w
	}
	return v
}

func (c *ssa) define(v *ir.Var) *ir.Var {
	if !c.defined[v] {
		c.defined[v] = true
		return v
	}
	w := *v
	c.now[v] = &w
	return &w
}

// stmt restores the meaning of variables when a scope ends, and defines the
// pointers of allocations.
func (c *ssa) stmt(s ir.Stmt) (ir.Stmt, bool) {
	switch s := s.(type) {
	case *ir.For, *ir.IfThenElse, *ir.While, *ir.AttrStmt, *ir.SBlock:
		saved := make(map[*ir.Var]*ir.Var, len(c.now))
		for k, v := range c.now {
			saved[k] = v
		}
		if b, ok := s.(*ir.SBlock); ok {
			for _, x := range b.AllocBuffers {
				c.define(x.Data)
			}
		}
		t := c.r.Inside(s)
		c.now = saved
		return t, true
	case *ir.AllocBuffer:
		c.define(s.Buffer.Data)
	}
	return s, false
}

func (c *ssa) buffer(b *ir.Buffer) *ir.Buffer {
	data := c.use(b.Data)
	shape, same := c.r.Exprs(b.Shape)
	strides, same2 := c.r.Exprs(b.Strides)
	off := c.r.Expr(b.ElemOffset)
	if data == b.Data && same && same2 && off == b.ElemOffset {
		return b
	}
	key := bufKey{b, data}
	if d := c.bufs[key]; d != nil {
		return d
	}
	d := *b
	d.Data, d.Shape, d.Strides, d.ElemOffset = data, shape, strides, off
	c.bufs[key] = &d
	return &d
}
