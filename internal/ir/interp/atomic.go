package interp

import (
	"math/bits"
	"strings"

	"lowertrace/internal/ir"
)

// atomicOps are the combiners of atomic operators by the first word of their
// names.
var atomicOps = map[string]string{"add": "sum", "addx2": "sum", "addx4": "sum", "max": "max", "min": "min", "store": "store", "load": "load"}

func atomicKind(name string) (op string, n int) {
	name = strings.TrimPrefix(name, "atomic_")
	name, _, _ = strings.Cut(name, "_")
	n = 1
	if strings.HasSuffix(name, "x2") {
		n = 2
	} else if strings.HasSuffix(name, "x4") {
		n = 4
	}
	return atomicOps[name], n
}

// atomicBody compiles an atomic: it performs it lane by lane and passes what was
// there before to old.
func (c *comp) atomicBody(e *ir.Call) (el elem, n int, run func(w *warp, old func(l, j int, f float64, i int64))) {
	t, ok := ir.Pointee(e.Args[0])
	if !ok || t.IsHandle() {
		c.fail("an atomic on untyped memory")
	}
	op, n := atomicKind(e.Op.Name)
	el = elemOf(t)
	n *= max(int(t.Lanes), 1)
	fn := combiners[op]
	rounds := op == "sum" && el.fl && el.size == 2
	ptr := c.vecI(c.expr(e.Args[0]))
	size := int64(el.span(n))
	c.noteAccess(el.size)
	var x func(*warp) vecAny
	st := c.site(pointeeName(e.Args[0]))
	switch {
	case op == "load":
	case e.Args[1].DType().IsHandle(): // the operand lies in memory
		x = c.operandAt(e.Args[1], el, n)
	default:
		v := c.expr(e.Args[1])
		if v.n() == 1 && n > 1 {
			v = c.splat(v, v.t.WithLanes(n))
		}
		if v.t.Scalar() != el.t {
			v = c.convert(v, el.t.WithLanes(n))
		}
		if v.n() != n {
			c.fail("an atomic on %d elements with a value of type %s", n, v.t)
		}
		x = c.anyVal(v)
	}
	run = func(w *warp, old func(l, j int, f float64, i int64)) {
		var v vecAny
		if x != nil {
			v = x(w)
		}
		m, mask := w.addrs(ptr(w), w.mask, st)
		if m == nil {
			return
		}
		if rounds && m.sums == nil && m.scope == "global" {
			m.sums = make([]int32, len(m.data)/2)
		}
		ok := w.access(m, mask, size, accAtomic, st)
		for t := ok; t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			b := m.data[w.offs[l]:]
			for j := range n {
				if el.fl {
					was := el.getF(b, j)
					if old != nil {
						old(l, j, was, 0)
					}
					switch op {
					case "load":
					case "store":
						el.putF(b, j, v.f[l*n+j])
					default:
						if rounds && m.sums != nil {
							m.sums[int(w.offs[l])/2+j]++
						}
						el.putF(b, j, roundFloat(el.t, fn.f(was, v.f[l*n+j])))
					}
					continue
				}
				was := el.getI(b, j)
				if old != nil {
					old(l, j, 0, was)
				}
				switch op {
				case "load":
				case "store":
					el.putI(b, j, v.i[l*n+j])
				default:
					y := v.i[l*n+j]
					if el.t.Code == ir.UInt && el.t.Bits == 64 && (op == "max" || op == "min") {
						if (uint64(y) > uint64(was)) == (op == "max") {
							el.putI(b, j, y)
						}
						continue
					}
					el.putI(b, j, wrap1(el.t, fn.i(was, y)))
				}
			}
		}
	}
	return el, n, run
}

// pointeeName is the name of the buffer a pointer expression points into.
func pointeeName(e ir.Expr) string {
	switch e := e.(type) {
	case *ir.Var:
		return e.Name
	case *ir.BufferLoad:
		return e.Buffer.Name
	case *ir.Call:
		for _, a := range e.Args {
			if n := pointeeName(a); n != "" {
				return n
			}
		}
	}
	return ""
}

// operandAt compiles the reading of n elements behind a pointer.
func (c *comp) operandAt(p ir.Expr, want elem, n int) func(*warp) vecAny {
	t, ok := ir.Pointee(p)
	if !ok {
		c.fail("an operand in untyped memory")
	}
	el := elemOf(t)
	ptr := c.vecI(c.expr(p))
	st := c.site(pointeeName(p))
	size := int64(el.span(n))
	return func(w *warp) vecAny {
		v := vecAny{make([]int64, n*lanes), make([]float64, n*lanes)}
		m, mask := w.addrs(ptr(w), w.mask, st)
		if m == nil {
			return v
		}
		ok := w.access(m, mask, size, accRead, st)
		for t := ok; t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			b := m.data[w.offs[l]:]
			for j := range n {
				switch {
				case el.fl && want.fl:
					v.f[l*n+j] = roundFloat(want.t, el.getF(b, j))
				case el.fl:
					v.i[l*n+j] = floatToInt(want.t, el.getF(b, j))
				case want.fl:
					v.f[l*n+j] = intToFloat(want.t, el.getI(b, j), false)
				default:
					v.i[l*n+j] = wrap1(want.t, el.getI(b, j))
				}
			}
		}
		return v
	}
}

func (c *comp) atomic(e *ir.Call) stmtFn {
	_, _, run := c.atomicBody(e)
	return func(w *warp) { run(w, nil) }
}

func (c *comp) atomicRet(e *ir.Call) val {
	t := e.Type
	n := max(int(t.Lanes), 1)
	if t.IsFloat() {
		at := c.tempF(n)
		m := c.mark()
		defer c.release(m)
		_, _, run := c.atomicBody(e)
		return val{t: t, vf: func(w *warp) []float64 {
			d := w.F[at : at+n*lanes]
			run(w, func(l, j int, f float64, _ int64) {
				if j < n {
					d[l*n+j] = f
				}
			})
			return d
		}}
	}
	at := c.tempI(n)
	m := c.mark()
	defer c.release(m)
	_, _, run := c.atomicBody(e)
	return val{t: t, vi: func(w *warp) []int64 {
		d := w.I[at : at+n*lanes]
		run(w, func(l, j int, _ float64, i int64) {
			if j < n {
				d[l*n+j] = i
			}
		})
		return d
	}}
}
