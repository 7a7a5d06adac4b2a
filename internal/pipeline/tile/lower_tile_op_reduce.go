package tile

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/layout"
)

// reducer is a kind of reduction.
type reducer struct {
	op   string // the operator's name in tl::AllReduce
	init func(ir.DType) ir.Expr
	// element is applied to each element first (abssum, absmax), nil if none.
	abs     bool
	combine func(a, b ir.Expr) ir.Expr
}

func binary(op ir.BinOp) func(a, b ir.Expr) ir.Expr {
	return func(a, b ir.Expr) ir.Expr { return &ir.Binary{Op: op, A: a, B: b} }
}

func callOf(name string) func(a, b ir.Expr) ir.Expr {
	return func(a, b ir.Expr) ir.Expr { return ir.NewCall(ir.MustOp(name), a, b) }
}

func zeroOf(t ir.DType) ir.Expr { return ir.Const(t, 0) }

func lowest(t ir.DType) ir.Expr {
	switch {
	case t.IsFloat():
		return ir.FloatConst(t, math.Inf(-1))
	case t.IsInt():
		return ir.IntConst(t, -1<<(t.Bits-1))
	}
	return ir.IntConst(t, 0)
}

func highest(t ir.DType) ir.Expr {
	switch {
	case t.IsFloat():
		return ir.FloatConst(t, math.Inf(1))
	case t.IsInt():
		return ir.IntConst(t, 1<<(t.Bits-1)-1)
	}
	return ir.IntConst(t, -1)
}

var reducers = map[string]reducer{
	"sum":    {"tl::SumOp", zeroOf, false, binary(ir.Add)},
	"abssum": {"tl::SumOp", zeroOf, true, binary(ir.Add)},
	"max":    {"tl::MaxOp", lowest, false, binary(ir.Max)},
	"min":    {"tl::MinOp", highest, false, binary(ir.Min)},
	"absmax": {"tl::MaxOp", zeroOf, true, binary(ir.Max)},
	"bitand": {"tl::BitAndOp", func(t ir.DType) ir.Expr { return ir.IntConst(t, -1) }, false, callOf("bitwise_and")},
	"bitor":  {"tl::BitOrOp", zeroOf, false, callOf("bitwise_or")},
	"bitxor": {"tl::BitXorOp", zeroOf, false, callOf("bitwise_xor")},
}

func (r reducer) value(x ir.Expr) ir.Expr {
	if !r.abs || x.DType().IsUInt() {
		return x
	}
	return &ir.Binary{Op: ir.Max, A: x, B: &ir.Binary{Op: ir.Sub, A: ir.Const(x.DType(), 0), B: x}}
}

// lane is one step of an exchange between threads: all threads whose numbers
// differ in the bits of [scale, threads) only hold the same result afterwards.
type lane struct{ threads, scale int64 }

// reduce lowers T.reduce: every thread combines the elements it holds, then
// the threads that share a result exchange theirs, then the threads that hold
// the destination store it.
func (lw *lowerer) reduce(s ir.Stmt, c *ir.Call, e env) (ir.Stmt, error) {
	a, err := decodeReduce(c)
	if err != nil {
		return nil, err
	}
	k, ok := reducers[a.kind]
	if !ok {
		return nil, fmt.Errorf("unknown reduction %q", a.kind)
	}
	if a.nan && (a.kind == "max" || a.kind == "min" || a.kind == "absmax") && a.dst.buf.Type.Bits == 16 {
		return nil, fmt.Errorf("no reduction that propagates NaN")
	}
	if isLocal(a.src.buf) && isLocal(a.dst.buf) {
		return nil, fmt.Errorf("a reduction of a buffer each thread has of its own; write it as a loop")
	}
	if !isFragment(a.src.buf) || !isFragment(a.dst.buf) {
		return nil, fmt.Errorf("a reduction from %s to %s memory; both must be fragments", a.src.buf.Scope(), a.dst.buf.Scope())
	}
	lw.known(a.src.buf)
	lw.known(a.dst.buf)
	src, dst := lw.lay.frags[a.src.buf], lw.lay.frags[a.dst.buf]
	if src == nil || dst == nil {
		return nil, fmt.Errorf("%s or %s has no layout", a.src.buf.Name, a.dst.buf.Name)
	}
	op := inferOp{red: a}
	red, err := op.reduced(src)
	if err != nil {
		return nil, err
	}
	t := a.dst.buf.Type
	from, to := lw.buffer(a.src.buf), lw.buffer(a.dst.buf)
	org := s.Origin()

	own, perResult, err := ownElements(src, red, a.dim)
	if err != nil {
		return nil, err
	}
	steps, err := exchangeSteps(src, a.dim)
	if err != nil {
		return nil, err
	}
	direct := a.clear && red.Equal(dst)
	acc := to
	var out []ir.Stmt
	if !direct {
		acc = ir.NewBuffer(a.dst.buf.Name+"_clear", t, "local", i32(red.Regs))
		acc.Org = org
		out = append(out, &ir.AllocBuffer{Buffer: acc, Org: org})
	}

	iv, rv := &ir.Var{Name: "i", Type: ir.DInt32}, &ir.Var{Name: "rv", Type: ir.DInt32}
	var reg, elem ir.Expr = iv, rv
	if red.Regs == 1 {
		reg = i32(0)
	}
	if perResult == 1 {
		elem = i32(0)
	}
	at, ok := layout.Fit(own, []ir.Expr{reg, elem}, []int64{red.Regs, perResult})
	if !ok {
		return nil, fmt.Errorf("the elements of a thread follow no affine pattern")
	}
	store := func(b *ir.Buffer, x, v ir.Expr) ir.Stmt {
		return &ir.BufferStore{Buffer: b, Indices: []ir.Expr{x}, Value: v, Org: org}
	}
	load := func(b *ir.Buffer, x ir.Expr) ir.Expr { return &ir.BufferLoad{Buffer: b, Indices: []ir.Expr{x}} }
	var body []ir.Stmt
	body = append(body, store(acc, reg, k.init(t)))
	step := store(acc, reg, k.combine(load(acc, reg), k.value(ir.CastTo(load(from, at), t))))
	if perResult > 1 {
		step = &ir.For{Var: rv, Min: i32(0), Extent: i32(perResult), Kind: ir.Unrolled, Body: step, Org: org}
	}
	body = append(body, step)
	for _, st := range steps {
		body = append(body, store(acc, reg, lw.allReduce(k, st, load(acc, reg), e)))
	}
	if !direct {
		w, err := deliver(red, dst, reg, e.thread())
		if err != nil {
			return nil, err
		}
		v := load(acc, reg)
		if !a.clear {
			v = k.combine(load(to, w.reg), v)
		}
		put := store(to, w.reg, v)
		if w.cond != nil {
			put = &ir.IfThenElse{Cond: w.cond, Then: put, Org: org}
		}
		body = append(body, put)
	}
	loop := ir.Seq(body...)
	if red.Regs > 1 {
		loop = &ir.For{Var: iv, Min: i32(0), Extent: i32(red.Regs), Kind: ir.Unrolled, Body: loop, Org: org}
	}
	out = append(out, loop)
	return ir.Seq(out...), nil
}

// ownElements lists, for each register of the result, the registers of the
// source a thread combines into it; the list is the same for all threads.
func ownElements(src, red *layout.Frag, dim int) (own []int64, per int64, err error) {
	inner := int64(1)
	for _, x := range src.Shape[dim+1:] {
		inner *= x
	}
	along := src.Shape[dim]
	lists := make([][]int64, src.Extent*red.Regs)
	for p := int64(0); p < src.Size(); p++ {
		q := p/(inner*along)*inner + p%inner
		r := red.Register(q)
		for _, t := range src.Threads(p) {
			l := &lists[t*red.Regs+r]
			if n := len(*l); n > 0 && (*l)[n-1] == src.Register(p) {
				continue // the thread holds the element twice
			}
			*l = append(*l, src.Register(p))
		}
	}
	for t := int64(0); t < src.Extent; t++ {
		for r := int64(0); r < red.Regs; r++ {
			l := lists[t*red.Regs+r]
			if len(l) == 0 {
				continue // a thread without part in it
			}
			slices.Sort(l)
			switch {
			case per == 0:
				per = int64(len(l))
			case per != int64(len(l)):
				return nil, 0, fmt.Errorf("the threads hold different numbers of elements of a result")
			}
		}
	}
	for r := int64(0); r < red.Regs; r++ {
		var ref []int64
		for t := int64(0); t < src.Extent; t++ {
			l := lists[t*red.Regs+r]
			switch {
			case len(l) == 0:
			case ref == nil:
				ref = l
			case !slices.Equal(ref, l):
				return nil, 0, fmt.Errorf("the threads hold the elements of a result in different registers")
			}
		}
		if ref == nil {
			return nil, 0, fmt.Errorf("no thread holds an element of a result")
		}
		own = append(own, ref...)
	}
	return own, per, nil
}

// exchangeSteps finds how the parts of a result are spread over threads: the
// numbers of the threads with one copy of the elements along dim must differ
// in fixed bits, each run of which is one step.
func exchangeSteps(src *layout.Frag, dim int) ([]lane, error) {
	inner := int64(1)
	for _, x := range src.Shape[dim+1:] {
		inner *= x
	}
	along := src.Shape[dim]
	outer := src.Size() / (along * inner)
	mask, count := int64(0), int64(0)
	seen := make([]int64, src.Extent)
	mark := int64(0)
	for o := int64(0); o < outer; o++ {
		for x := int64(0); x < inner; x++ {
			for r := int64(0); r < src.Rep; r++ {
				mark++
				base := src.Threads(o*along*inner + x)[r]
				n := int64(0)
				m := int64(0)
				for k := int64(0); k < along; k++ {
					t := src.Threads((o*along+k)*inner + x)[r]
					if seen[t] != mark {
						seen[t] = mark
						n++
					}
					m |= t ^ base
				}
				if count == 0 {
					mask, count = m, n
				}
				if m != mask || n != count {
					return nil, fmt.Errorf("the parts of different results lie on different patterns of threads")
				}
			}
		}
	}
	if count != 1<<bits.OnesCount64(uint64(mask)) {
		return nil, fmt.Errorf("the %d threads that hold the parts of a result are no power of two in a regular pattern", count)
	}
	return maskSteps(mask), nil
}

// allReduce is the exchange of a value between threads: through shuffles
// within a warp, with a workspace in shared memory beyond.
func (lw *lowerer) allReduce(k reducer, st lane, value ir.Expr, e env) ir.Expr {
	min, n := e.bounds()
	name := fmt.Sprintf("tl::AllReduce<%s, %d, %d, %d, tl::NamedBarrier<%d>>::run", k.op, st.threads, st.scale, min, n)
	args := []ir.Expr{ir.Str(name), value}
	if st.threads > 32 {
		ws := lw.workspace(value.DType(), n)
		args = append(args, accessPtr(ws, 0, n, 3))
	}
	return ir.NewTypedCall(ir.MustOp("call_extern"), value.DType(), args...)
}

// workspace is shared memory for one exchange.
func (lw *lowerer) workspace(t ir.DType, n int64) *ir.Buffer {
	b := ir.NewBuffer("workspace", t, "shared.dyn", i32(n))
	lw.extra = append(lw.extra, b)
	return b
}

// accessPtr is T.tvm_access_ptr on n elements from a flat offset; mask is 1 to
// read, 2 to write, 3 for both.
func accessPtr(b *ir.Buffer, offset, n, mask int64) ir.Expr {
	t := ir.NewTypedCall(ir.MustOp("type_annotation"), b.Type)
	return ir.NewCall(ir.MustOp("tvm_access_ptr"), t, b.Data, i32(offset), i32(n), i32(mask))
}

// where says into which register of the destination a thread puts its result,
// and under which condition.
type where struct{ reg, cond ir.Expr }

// deliver places results held like red into a tile held like dst, whose threads are
// among those of red.
func deliver(red, dst *layout.Frag, reg, tx ir.Expr) (where, error) {
	inv, err := red.Inverse()
	if err != nil {
		return where{}, err
	}
	to := make([]int64, len(inv))
	cond := make([]int64, len(inv))
	all := true
	for i, q := range inv {
		to[i] = layout.Hole
		if q == layout.Hole {
			cond[i] = layout.Hole
			continue
		}
		t := int64(i)/red.Regs + red.Min - dst.Min
		if t >= 0 && slices.Contains(dst.Threads(q), t) {
			to[i], cond[i] = dst.Register(q), 1
		} else {
			all = false
		}
	}
	thread := sub(tx, i32(red.Min))
	vars, ext := []ir.Expr{thread, reg}, []int64{red.Extent, red.Regs}
	// The register by the result alone: one number for all threads that store.
	byReg := make([]int64, red.Regs)
	uniform := true
	for r := range byReg {
		byReg[r] = layout.Hole
		for t := int64(0); t < red.Extent; t++ {
			x := to[t*red.Regs+int64(r)]
			if x == layout.Hole {
				continue
			}
			if byReg[r] != layout.Hole && byReg[r] != x {
				uniform = false
			}
			byReg[r] = x
		}
	}
	var w where
	ok := false
	if uniform {
		w.reg, ok = layout.Fit(byReg, vars[1:], ext[1:])
	}
	if !ok {
		if w.reg, ok = layout.Fit(to, vars, ext); !ok {
			return where{}, fmt.Errorf("the registers of the destination follow no affine pattern")
		}
	}
	if all {
		return w, nil
	}
	if uniform {
		if w.cond, ok = holderCond(red, dst, inv, byReg, w.reg, reg, thread); ok {
			return w, nil
		}
	}
	e, ok := layout.Fit(cond, vars, ext)
	if !ok {
		return where{}, fmt.Errorf("the threads that store a result follow no affine pattern")
	}
	w.cond = ir.NewBinary(ir.EQ, e, i32(1))
	return w, nil
}

// holderCond is the condition that a thread stores result number reg: it is the
// one whose element the thread holds in the register the result goes to.
func holderCond(red, dst *layout.Frag, inv, byReg []int64, toReg, reg, thread ir.Expr) (ir.Expr, bool) {
	held, err := dst.Inverse()
	if err != nil {
		return nil, false
	}
	// result[t*n+d] is the number of the result thread t holds in register d.
	n := dst.Regs
	result := make([]int64, red.Extent*n)
	for i := range result {
		result[i] = layout.Hole
	}
	number := map[int64]int64{} // of an element in the thread at hand
	for t := int64(0); t < red.Extent; t++ {
		clear(number)
		for r := int64(0); r < red.Regs; r++ {
			if q := inv[t*red.Regs+r]; q != layout.Hole {
				number[q] = r
			}
		}
		td := t + red.Min - dst.Min
		if td < 0 || td >= dst.Extent {
			continue
		}
		for d := int64(0); d < n; d++ {
			if r, ok := number[held[td*n+d]]; ok {
				result[t*n+d] = r
			}
		}
	}
	ext := []int64{red.Extent, n}
	vars := []*ir.Var{layout.Var(0), layout.Var(1)}
	probe, ok := layout.Fit(result, []ir.Expr{vars[0], vars[1]}, ext)
	if !ok {
		return nil, false
	}
	vals, err := layout.Evaluate(probe, vars, ext)
	if err != nil {
		return nil, false
	}
	for t := int64(0); t < red.Extent; t++ {
		for r := int64(0); r < red.Regs; r++ {
			if byReg[r] == layout.Hole {
				return nil, false
			}
			at := t*n + byReg[r]
			if stores := result[at] == r; (vals[at] == r) != stores {
				return nil, false
			}
		}
	}
	e, ok := layout.Fit(result, []ir.Expr{thread, toReg}, ext)
	if !ok {
		return nil, false
	}
	return ir.NewBinary(ir.EQ, e, reg), true
}
