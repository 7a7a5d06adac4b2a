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

	iv := &ir.Var{Name: "i", Type: ir.DInt32}
	reg := regNumber(iv, red.Regs)
	store := func(b *ir.Buffer, x, v ir.Expr) ir.Stmt {
		return &ir.BufferStore{Buffer: b, Indices: []ir.Expr{x}, Value: v, Org: org}
	}
	load := func(b *ir.Buffer, x ir.Expr) ir.Expr { return &ir.BufferLoad{Buffer: b, Indices: []ir.Expr{x}} }
	mask := int64(0)
	for _, st := range steps {
		mask |= (st.threads - 1) &^ (st.scale - 1)
	}
	body, err := combineOwn(k, own, perResult, red.Regs, reg, from, acc, org)
	if err != nil {
		return nil, err
	}
	x := &exchange{lw: lw, k: k, acc: acc, regs: red.Regs, mask: mask, env: e, org: org, before: body, iv: iv}
	if direct {
		x.final = destination{buf: to, regs: red.Regs, clear: true, same: true}
		return ir.Seq(append(out, x.stmts()...)...), nil
	}
	x.final = destination{buf: to, regs: dst.Regs, clear: a.clear, same: red.Equal(dst)}
	if !x.final.same {
		x.final.result = resultNumbers(red, dst, e.thread())
	}
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
	x.after = []ir.Stmt{put}
	return ir.Seq(append(out, x.stmts()...)...), nil
}

// combineOwn combines, for the result in register reg of acc, the per elements
// that the thread holds in registers own[reg*per...] of from. One after the
// other: independent partial results would overlap, but they keep more
// elements in registers, and with them fewer blocks on a multiprocessor.
func combineOwn(k reducer, own []int64, per, regs int64, reg ir.Expr, from, acc *ir.Buffer, org ir.Span) ([]ir.Stmt, error) {
	rv := &ir.Var{Name: "rv", Type: ir.DInt32}
	at, ok := layout.Fit(own, []ir.Expr{reg, regNumber(rv, per)}, []int64{regs, per})
	if !ok {
		return nil, fmt.Errorf("the elements of a thread follow no affine pattern")
	}
	load := func(b *ir.Buffer, x ir.Expr) ir.Expr { return &ir.BufferLoad{Buffer: b, Indices: []ir.Expr{x}} }
	store := func(v ir.Expr) ir.Stmt {
		return &ir.BufferStore{Buffer: acc, Indices: []ir.Expr{reg}, Value: v, Org: org}
	}
	step := store(k.combine(load(acc, reg), k.value(ir.CastTo(load(from, at), acc.Type))))
	if per > 1 {
		step = &ir.For{Var: rv, Min: i32(0), Extent: i32(per), Kind: ir.Unrolled, Body: step, Org: org}
	}
	return []ir.Stmt{store(k.init(acc.Type)), step}, nil
}

// resultNumbers gives, for register d of a tile held like dst, the register of
// red with the same element; nil when some thread holds nothing there or the
// numbers follow no affine pattern.
func resultNumbers(red, dst *layout.Frag, tx ir.Expr) func(d ir.Expr) ir.Expr {
	inv, err1 := red.Inverse()
	held, err2 := dst.Inverse()
	if err1 != nil || err2 != nil || red.Min != dst.Min || red.Extent != dst.Extent {
		return nil
	}
	table := heldResults(red, dst, inv, held)
	if slices.Contains(table, layout.Hole) {
		return nil
	}
	ext := []int64{red.Extent, dst.Regs}
	if _, ok := layout.Fit(table, []ir.Expr{layout.Var(0), layout.Var(1)}, ext); !ok {
		return nil
	}
	return func(d ir.Expr) ir.Expr {
		e, _ := layout.Fit(table, []ir.Expr{sub(tx, i32(red.Min)), d}, ext)
		return e
	}
}

// heldResults[t*dst.Regs+d] is the register of red in which thread t has the
// element that dst puts into its register d, Hole if there is none.
func heldResults(red, dst *layout.Frag, inv, held []int64) []int64 {
	n := dst.Regs
	out := make([]int64, red.Extent*n)
	number := map[int64]int64{} // of an element in the thread at hand
	for t := int64(0); t < red.Extent; t++ {
		clear(number)
		for r := int64(0); r < red.Regs; r++ {
			if q := inv[t*red.Regs+r]; q != layout.Hole {
				number[q] = r
			}
		}
		td := t + red.Min - dst.Min
		for d := int64(0); d < n; d++ {
			out[t*n+d] = layout.Hole
			if td < 0 || td >= dst.Extent {
				continue
			}
			if r, ok := number[held[td*n+d]]; ok {
				out[t*n+d] = r
			}
		}
	}
	return out
}

// shuffledParts is the number of parts of a result from which on a thread no
// longer reads all of them.
const shuffledParts = 8

// exchange combines every register of acc with the same register of all
// threads whose numbers differ in the bits of mask. Within a warp it goes
// through shuffles. Between warps each stores its results for all registers to
// shared memory, so that two barriers do for all of them, and each thread
// reads those it holds in the end.
type exchange struct {
	lw         *lowerer
	k          reducer
	acc        *ir.Buffer
	regs, mask int64
	env        env
	org        ir.Span
	iv         *ir.Var   // number of the register in before and after
	before     []ir.Stmt // run for each register first
	after      []ir.Stmt // store a result that lies in acc
	final      destination
}

// destination is where the results of an exchange through shared memory go.
type destination struct {
	buf   *ir.Buffer
	regs  int64
	clear bool // replace what is there, not combine
	same  bool // register d takes result d
	// result is the number of the result register d takes, if not same; nil when
	// there is no such function.
	result func(d ir.Expr) ir.Expr
	seed   ir.Expr // combined last, nil if none
}

// loop runs statements for register iv = 0..n-1.
func (x *exchange) loop(n int64, iv *ir.Var, list []ir.Stmt) ir.Stmt {
	s := ir.Seq(list...)
	if s == nil || n == 1 {
		return s
	}
	v := &ir.Var{Name: "i", Type: iv.Type} // each loop has its own variable
	s = ir.SubstituteStmt(s, func(y *ir.Var) ir.Expr {
		if y == iv {
			return v
		}
		return y
	})
	return &ir.For{Var: v, Min: i32(0), Extent: i32(n), Kind: ir.Unrolled, Body: s, Org: x.org}
}

func regNumber(iv *ir.Var, n int64) ir.Expr {
	if n == 1 {
		return i32(0)
	}
	return iv
}

func (x *exchange) stmts() []ir.Stmt {
	reg := regNumber(x.iv, x.regs)
	load := &ir.BufferLoad{Buffer: x.acc, Indices: []ir.Expr{reg}}
	put := func(b *ir.Buffer, at, v ir.Expr) ir.Stmt {
		return &ir.BufferStore{Buffer: b, Indices: []ir.Expr{at}, Value: v, Org: x.org}
	}
	_, threads := x.env.bounds()
	inWarp, across := x.mask&31, x.mask&^31
	byMemory := across != 0 && threads == x.env.threads && (x.final.same || x.final.result != nil)
	steps := x.mask
	if byMemory {
		steps = inWarp
	}
	body := slices.Clone(x.before)
	for _, st := range maskSteps(steps) {
		body = append(body, put(x.acc, reg, x.lw.allReduce(x.k, st, load, x.env)))
	}
	if !byMemory {
		body = append(body, x.after...)
		if x.final.seed != nil {
			body = append(body, put(x.acc, reg, x.k.combine(load, x.final.seed)))
		}
		return []ir.Stmt{x.loop(x.regs, x.iv, body)}
	}

	warps := int64(1) << bits.OnesCount64(uint64(across))
	slotAt, partAt, slots := x.slots(threads, inWarp, across, warps)
	ws := x.lw.workspace(x.acc.Type, x.regs*slots)
	save := put(ws, add(mul(reg, i32(slots)), add(slotAt, partAt)), load)
	var first ir.Expr // one thread of those that hold the same result
	for _, st := range maskSteps(inWarp) {
		first = and(first, ir.NewBinary(ir.EQ, div(mod(x.env.thread(), i32(st.threads)), i32(st.scale)), i32(0)))
	}
	if first != nil {
		save = &ir.IfThenElse{Cond: first, Then: save, Org: x.org}
	}

	dv := &ir.Var{Name: "i", Type: ir.DInt32}
	d := regNumber(dv, x.final.regs)
	number := d
	if !x.final.same {
		number = x.final.result(d)
	}
	to := x.final.buf
	get := func(w ir.Expr) ir.Expr {
		return &ir.BufferLoad{Buffer: ws, Indices: []ir.Expr{add(add(mul(number, i32(slots)), slotAt), w)}}
	}
	held := &ir.BufferLoad{Buffer: to, Indices: []ir.Expr{d}}
	var collect []ir.Stmt
	if warps >= shuffledParts && x.final.same && (warps-1)&^inWarp == 0 {
		// Neighbours want the same result: each reads one part, and shuffles do the
		// rest, for a read of all parts takes a register for each.
		v := x.lw.allReduce(x.k, lane{threads: warps, scale: 1}, get(mod(x.env.thread(), i32(warps))), x.env)
		if !x.final.clear {
			v = x.k.combine(held, v)
		}
		collect = append(collect, put(to, d, v))
	} else {
		from := int64(0)
		if x.final.clear {
			collect, from = append(collect, put(to, d, get(i32(0)))), 1
		}
		for w := from; w < warps; w++ {
			collect = append(collect, put(to, d, x.k.combine(held, get(i32(w)))))
		}
	}
	if x.final.seed != nil {
		collect = append(collect, put(to, d, x.k.combine(held, x.final.seed)))
	}
	return []ir.Stmt{
		x.loop(x.regs, x.iv, body), x.loop(x.regs, x.iv, []ir.Stmt{save}), x.loop(x.final.regs, dv, collect),
	}
}

// slots divides the shared memory of one register: the parts of a result lie
// side by side. at is where those of a thread's result begin, part which of
// them is its own.
func (x *exchange) slots(threads, inWarp, across, warps int64) (at, part ir.Expr, n int64) {
	slotOf, partOf := make([]int64, threads), make([]int64, threads)
	for t := range slotOf {
		rest, shift := int64(0), 0
		for b := 0; t>>b != 0; b++ {
			bit := int64(t) >> b & 1
			switch {
			case across>>b&1 == 1:
				partOf[t] |= bit << bits.OnesCount64(uint64(across&(1<<b-1)))
			case inWarp>>b&1 == 0:
				rest |= bit << shift
				shift++
			}
		}
		slotOf[t] = rest * warps
		n = max(n, slotOf[t]+warps)
	}
	tx, ext := []ir.Expr{x.env.thread()}, []int64{threads}
	at, ok1 := layout.Fit(slotOf, tx, ext)
	part, ok2 := layout.Fit(partOf, tx, ext)
	if !ok1 || !ok2 { // the bits of a number are digits of it
		panic("tile: LowerTileOp: the bits of a thread's number follow no pattern")
	}
	return at, part, n
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
	n := dst.Regs
	result := heldResults(red, dst, inv, held)
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
