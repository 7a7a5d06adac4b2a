package interp

type shadow struct{}
type globalShadow struct{}

func newShadow(size int64, gran int) *shadow                                                  { return nil }
func newGlobalShadow(n int) *globalShadow                                                     { return nil }
func joinClocks(ws []*warp)                                                                   {}
func (w *warp) tick()                                                                         {}
func (w *warp) landed(a asyncCopy)                                                            {}
func (w *warp) checkRaces(m *mem, mask uint32, n int64, kind accessKind, st *site)            {}
func (w *warp) sameWrites(m *mem, mask uint32, n int64, st *site, differ func(l, i int) bool) {}
func (w *warp) globalAccess(m *mem, at, n int64, kind accessKind, st *site, lane int)         {}

func joined(a, b []uint32) []uint32                                        { return a }
func joinInto(a, b []uint32) []uint32                                      { return a }
func (w *warp) checkCopies(list []asyncCopy)                               {}
func (w *warp) bulkRead(m *mem, at, n int64, st *site)                     {}
func (w *warp) touchShared(m *mem, at, n int64, kind accessKind, st *site) {}
