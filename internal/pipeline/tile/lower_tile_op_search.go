package tile

import (
	"fmt"
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// choose narrows the tables to the threads that have iterations, if those lie at
// equal distances, or in runs of such at equal distances, and gives the condition
// that a thread is one of them; the upper bound is in the loop's predicate. False
// where nothing is gained.
func (sh *share) choose() (ir.Expr, bool) {
	per := sh.part.Regs
	var used []int64
	for t := int64(0); t < sh.part.Extent; t++ {
		for _, p := range sh.inv[t*per : (t+1)*per] {
			if p != layout.Hole {
				used = append(used, t)
				break
			}
		}
	}
	c, ok := regular(used)
	if !ok || c.first == 0 && c.step == 1 && c.run == int64(len(used)) {
		return nil, false
	}
	pick := func(table []int64) []int64 {
		out := make([]int64, 0, int64(len(used))*per)
		for _, t := range used {
			out = append(out, table[t*per:(t+1)*per]...)
		}
		return out
	}
	sh.copies = pick(sh.copy())
	sh.inv = pick(sh.inv)
	sh.threads, sh.ext[0] = int64(len(used)), int64(len(used))
	var own ir.Expr
	sh.vars[0], own = c.number(sh.vars[0])
	return own, true
}

// comb are the numbers first + i*period + j*step, j < run, in ascending order.
type comb struct{ first, step, run, period int64 }

// regular recognizes ascending numbers that form a comb. Of a single run, period is
// 0.
func regular(list []int64) (comb, bool) {
	c := comb{first: list[0], step: 1, run: 1}
	n := int64(len(list))
	if n > 1 {
		c.step = list[1] - list[0]
	}
	for c.run < n && list[c.run] == c.first+c.run*c.step {
		c.run++
	}
	if c.run < n {
		c.period = list[c.run] - c.first
	}
	for k, x := range list {
		i, j := int64(k)/c.run, int64(k)%c.run
		if x != c.first+i*c.period+j*c.step {
			return c, false
		}
	}
	return c, true
}

// number is the place of t, at most the last number, in the comb, and the
// condition that it is in it (nil: always).
func (c comb) number(t ir.Expr) (place, in ir.Expr) {
	x := t
	if c.first > 0 {
		in = atLeast(t, i32(c.first))
		x = sub(t, i32(c.first))
	}
	if c.period == 0 && c.run == 1 {
		return i32(0), ir.NewBinary(ir.EQ, t, i32(c.first))
	}
	outer, inner := ir.Expr(nil), x
	if c.period > 0 {
		outer, inner = mul(div(x, i32(c.period)), i32(c.run)), mod(x, i32(c.period))
		if c.run*c.step < c.period {
			in = and(in, less(inner, i32(c.run*c.step)))
		}
	}
	if c.step > 1 {
		in = and(in, ir.NewBinary(ir.EQ, mod(inner, i32(c.step)), i32(0)))
		inner = div(inner, i32(c.step))
	}
	if outer == nil {
		return inner, in
	}
	return add(outer, inner), in
}

// copy is the table of the copies a thread has of its iterations.
func (sh *share) copy() []int64 {
	if sh.copies == nil {
		sh.copies = sh.part.Copy()
	}
	return sh.copies
}

// search is the share of a thread whose iterations follow no pattern: it goes over
// all of the nest and runs those that the partition gives it.
func (lw *lowerer) search(n *nest, part *layout.Frag, e env, group groupFunc) (ir.Stmt, error) {
	lw.ctx.Remark(n.root.Org, "each thread goes over all %d iterations of the loop to find its own, which follow no affine pattern", n.points())
	sh := &share{n: n, part: part, v: 1, vars: []ir.Expr{i32(0)}, ext: append([]int64{1}, n.ext...)}
	sh.inv = make([]int64, n.points())
	for p := range sh.inv {
		sh.inv[p] = int64(p)
	}
	sh.copies = make([]int64, len(sh.inv))
	idx := make([]ir.Expr, len(n.ext))
	for d := range idx {
		idx[d] = &ir.Var{Name: loopName(d), Type: ir.DInt32}
	}
	sh.vars = append(sh.vars, idx...)
	// Only the first copy stores to memory that threads share; all store to
	// registers.
	copies := part.Rep
	if n.storesShared && !n.storesFrag {
		copies = 1
	}
	var copy ir.Expr = i32(0)
	if copies > 1 {
		for p := range sh.inv {
			ts := slices.Clone(part.Threads(int64(p)))
			slices.Sort(ts)
			if len(slices.Compact(ts)) < int(copies) {
				return nil, fmt.Errorf("a thread has several copies of an iteration, and they follow no affine pattern")
			}
		}
		copy = &ir.Var{Name: "copy", Type: ir.DInt32}
	}
	body := sh.onceEachIf(lw.body(sh, idx, e), ir.NewBinary(ir.EQ, copy, i32(0)))
	if lw.err != nil {
		return nil, lw.err
	}
	mine := ir.NewBinary(ir.EQ, foldExpr(part.ForwardThread(idx, copy), ir.SubstMap(nil)), sub(e.thread(), i32(part.Min)))
	body = &ir.IfThenElse{Cond: mine, Then: body, Org: n.root.Org}
	if group != nil {
		if b, ok := group(body, 1); ok {
			body = b
		}
	}
	if v, ok := copy.(*ir.Var); ok {
		body = &ir.For{Var: v, Min: i32(0), Extent: i32(copies), Kind: ir.Serial, Body: body, Org: n.root.Org}
	}
	for d := len(idx) - 1; d >= 0; d-- {
		body = &ir.For{Var: idx[d].(*ir.Var), Min: i32(0), Extent: i32(n.ext[d]), Kind: ir.Serial, Body: body, Org: n.root.Org}
	}
	return body, nil
}
