package interp

import "lowertrace/internal/ir"

type wgmmaState struct{}
type mbar struct{}
type bulkStore struct{}

func (m *mbar) passed(parity int) bool     { return false }
func (m *mbar) describe(parity int) string { return "an mbarrier" }

func (c *comp) barrierInit(d *ir.Dict)         {}
func (c *comp) hopperCall(e *ir.Call) stmtFn   { return nil }
func (c *comp) createTensorMap(e *ir.Call) val { c.cannot("tensor maps"); return val{} }
func (c *comp) tileIm2col(e *ir.Call) stmtFn   { c.cannot("im2col"); return nil }
func (c *comp) barrierCopy(e *ir.Call, src, dst *region, bar ir.Attr) stmtFn {
	c.cannot("barrier copy")
	return nil
}
func (c *comp) packedTensorMap(name string, args []ir.Expr) stmtFn {
	c.cannot("tensor maps")
	return nil
}
