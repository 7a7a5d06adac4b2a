package legalize

import (
	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
)

// VerifyBufferInit checks that what a kernel reads of its own memory it has
// written somewhere.
//
// Precondition: tile operators are as written. Effect: none. A buffer of a
// block that is read and never written is an error at its first read; one
// whose first access in program order reads it, outside any loop or branch, is
// reported as a remark, for a loop may still be right. An operand that is read
// and written counts as a read first: T.gemm without clearing accumulates on
// what is there.
var VerifyBufferInit = &pipeline.Pass{
	Name:         "VerifyBufferInit",
	Stage:        stage,
	Doc:          "check that buffers are written before they are read",
	Precondition: "Tile operators are as they were written.",
	Effect:       "None. A buffer that is read but never written is an error; one that is read before it is written is reported.",
	Before:       "s = T.sblock_alloc_buffer((128,), scope=\"shared\")\nB[tx] = s[tx]",
	After:        "error: s is read but never written",
	Run:          pipeline.BodyPass(nil, verifyInit),
}

type bufferUse struct {
	buf       *ir.Buffer
	written   bool
	firstRead ir.Span
	readFirst bool // before any write, outside loops and branches
	everRead  bool
	otherwise bool // mentioned in a way that says nothing
}

func verifyInit(c *pipeline.Context, f *ir.PrimFunc) (ir.Stmt, error) {
	uses := map[*ir.Var]*bufferUse{}
	var order []*bufferUse
	var visit func(s ir.Stmt, nested bool)
	access := func(data *ir.Var, at ir.Span, read, write, nested bool) {
		u := uses[data]
		if u == nil {
			return
		}
		if read && !u.everRead {
			u.everRead, u.firstRead = true, at
			u.readFirst = !u.written && !nested
		}
		u.written = u.written || write
	}
	expr := func(e ir.Expr, at ir.Span, nested bool) {
		ir.WalkExpr(e, func(e ir.Expr) bool {
			switch e := e.(type) {
			case *ir.BufferLoad:
				access(e.Buffer.Data, at, true, false, nested)
			case *ir.Var:
				if u := uses[e]; u != nil {
					u.otherwise = true
				}
			case *ir.Call:
				if e.Op == nil {
					return true
				}
				if e.Op.Effect > ir.ReadState && !e.Op.Tile {
					// An element by itself may be where the result goes.
					for _, a := range e.Args {
						if l, ok := a.(*ir.BufferLoad); ok && uses[l.Buffer.Data] != nil {
							uses[l.Buffer.Data].otherwise = true
						}
					}
				}
				switch e.Op.Name {
				case "region", "access_ptr":
					l, ok := e.Args[0].(*ir.BufferLoad)
					mask, isConst := ir.AsInt(e.Args[maskArg(e)])
					if !ok || !isConst {
						return true
					}
					for _, i := range l.Indices {
						ir.WalkExpr(i, func(x ir.Expr) bool {
							if y, ok := x.(*ir.BufferLoad); ok {
								access(y.Buffer.Data, at, true, false, nested)
							}
							return true
						})
					}
					access(l.Buffer.Data, at, mask&1 != 0, mask&2 != 0, nested)
					return false
				case "address_of":
					if l, ok := e.Args[0].(*ir.BufferLoad); ok {
						if u := uses[l.Buffer.Data]; u != nil {
							u.otherwise = true
						}
					}
					return false
				}
			}
			return true
		})
	}
	visit = func(s ir.Stmt, nested bool) {
		switch s := s.(type) {
		case *ir.SBlock:
			for _, b := range s.AllocBuffers {
				if uses[b.Data] == nil {
					u := &bufferUse{buf: b}
					uses[b.Data] = u
					order = append(order, u)
				}
			}
		case *ir.AllocBuffer:
			if uses[s.Buffer.Data] == nil {
				u := &bufferUse{buf: s.Buffer}
				uses[s.Buffer.Data] = u
				order = append(order, u)
			}
		case *ir.For, *ir.While, *ir.IfThenElse:
			nested = true
		case *ir.BufferStore:
			for _, i := range s.Indices {
				expr(i, s.Org, nested)
			}
			expr(s.Value, s.Org, nested)
			access(s.Buffer.Data, s.Org, false, true, nested)
		}
		switch s.(type) {
		case *ir.SBlock, *ir.BufferStore:
		default:
			ir.StmtExprs(s, func(e ir.Expr) bool {
				expr(e, s.Origin(), nested)
				return false
			})
		}
		ir.Children(s, func(c ir.Stmt) { visit(c, nested) })
	}
	if f.Body != nil {
		visit(f.Body, false)
	}
	for _, u := range order {
		if u.otherwise || !u.everRead {
			continue
		}
		if !u.written {
			return nil, pipeline.Errorf(u.firstRead, "%s is read but never written", u.buf.Name).WithNote(u.buf.Org, "%s is allocated here", u.buf.Name)
		}
		if u.readFirst {
			c.Remark(u.firstRead, "%s is read before it is written", u.buf.Name)
		}
	}
	return f.Body, nil
}

// maskArg is the position of the access mask of a region or pointer.
func maskArg(c *ir.Call) int {
	if c.Op.Name == "region" {
		return 1
	}
	return 2
}
