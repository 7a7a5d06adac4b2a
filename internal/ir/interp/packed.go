package interp

import "lowertrace/internal/ir"

func (r *run) bindPacked(p *program, w *warp, in *inputs) { panic(&NotRunnable{p.fn.Org, "packed"}) }
func (c *comp) structGet(e *ir.Call) val                  { c.cannot("struct_get"); return val{} }
func (c *comp) structSet(e *ir.Call) stmtFn               { c.cannot("struct_set"); return nil }
func (c *comp) stackAlloca(e *ir.Call) val                { c.cannot("alloca"); return val{} }
func (c *comp) callPacked(e *ir.Call) stmtFn              { c.cannot("call_packed"); return nil }
