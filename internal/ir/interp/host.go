package interp

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/npy"
	"lowertrace/internal/num"
)

// Run executes a module on the given inputs. The error is an *Error, or a
// *NotRunnable when the state cannot be run at all. A program that fails, by a
// deadlock or an assertion for instance, gives a Result too, which holds the
// findings up to then and no outputs.
func Run(ctx context.Context, mod *ir.IRModule, args Args, opts Options) (*Result, error) {
	opts.fill()
	res, err := runOnce(ctx, mod, args, opts)
	if opts.Workers > 1 && ctx.Err() == nil && orderMatters(res, err) {
		opts.Workers = 1
		return runOnce(ctx, mod, args, opts)
	}
	return res, err
}

// orderMatters reports an outcome that may depend on the order of blocks: blocks
// that race, and a failure, before which others may have got further or less
// far.
func orderMatters(res *Result, err error) bool {
	if e, ok := err.(*Error); ok {
		return !e.limit
	}
	if res == nil {
		return false
	}
	for _, f := range res.Findings {
		if f.Kind == GlobalRace {
			return true
		}
	}
	return false
}

func runOnce(ctx context.Context, mod *ir.IRModule, args Args, opts Options) (res *Result, err error) {
	r := &run{ctx: ctx, opt: &opts, mod: mod, progs: map[string]*program{}, safe: map[*ir.Var]float64{},
		atomics: map[string]bool{}, objects: []any{nil}, globals: []*mem{nil}}
	if opts.Stats {
		r.stats = newStats()
	}
	defer func() {
		if e := recover(); e != nil {
			res, err = nil, r.asError(e)
			if x, ok := err.(*Error); ok && !x.limit && len(r.col.m) > 0 {
				res = &Result{Findings: r.col.list()}
			}
		}
	}()
	return r.main(args)
}

func (r *run) asError(e any) error {
	switch e := e.(type) {
	case *Error:
		return e
	case *NotRunnable:
		return e
	case abort:
		return &Error{Msg: "stopped"}
	}
	return &Error{Msg: fmt.Sprintf("internal error: %v\n%s", e, debug.Stack())}
}

// packedParams are the parameters of a host function behind the packed call
// convention (MakePackedAPI).
var packedParams = []string{"self_handle", "args", "num_args", "result"}

func isPacked(f *ir.PrimFunc) bool {
	if len(f.Params) != len(packedParams) {
		return false
	}
	for i, p := range f.Params {
		if p.Name != packedParams[i] {
			return false
		}
	}
	return true
}

// isDevice reports a function that a host function launches.
func isDevice(f *ir.PrimFunc) bool {
	if n, ok := ir.AttrInt(f.Attr("calling_conv")); ok && n == 2 {
		return true
	}
	if n, ok := ir.AttrInt(f.Attr("tirx.is_global_func")); ok && n != 0 {
		return true
	}
	return f.Private
}

var reSuffix = regexp.MustCompile(`_[0-9]+$`)

// inputs are the arrays of a run in memory.
type inputs struct {
	args  Args
	mems  map[string]*mem
	ptrs  map[string]int64
	types map[string]ir.DType
	sizes map[*ir.Var]int64 // symbolic sizes
}

func (r *run) main(args Args) (*Result, error) {
	in := &inputs{args: args, mems: map[string]*mem{}, ptrs: map[string]int64{}, types: map[string]ir.DType{}, sizes: map[*ir.Var]int64{}}
	r.stage()
	var entries []*ir.PrimFunc
	if r.opt.Entry != "" {
		f := r.mod.Func(r.opt.Entry)
		if f == nil {
			return nil, &Error{Msg: fmt.Sprintf("the module has no function %q", r.opt.Entry)}
		}
		entries = []*ir.PrimFunc{f}
	} else {
		for _, f := range r.mod.Funcs {
			if !isDevice(f) {
				entries = append(entries, f)
			}
		}
		if len(entries) == 0 {
			entries = r.mod.Funcs
		}
	}
	if len(entries) == 0 {
		return nil, &Error{Msg: "the module has no functions"}
	}
	for _, f := range entries {
		p := r.compile(f)
		w := newFrame(&p.sizes)
		w.r, w.mask, w.full = r, 1, 1
		w.thread = [3][]int64{make([]int64, lanes), make([]int64, lanes), make([]int64, lanes)}
		switch {
		case isPacked(f):
			r.bindPacked(p, w, in)
		default:
			r.bindParams(p, w, in)
		}
		p.body(w)
	}
	if r.stats != nil {
		r.stats.finish()
	}
	res := &Result{Outputs: map[string]*npy.Array{}, Findings: r.col.list(), Stats: r.stats, Atomic: slices.Sorted(maps.Keys(r.atomics)), Types: in.types}
	for name, m := range in.mems {
		a, err := fromMem(m, in.args.Arrays[name], in.types[name], in.args.Strides[name])
		if err != nil {
			return nil, err
		}
		res.Outputs[name] = a
		for _, n := range m.sums {
			if res.Sums == nil {
				res.Sums = map[string]int{}
			}
			res.Sums[name] = max(res.Sums[name], int(n))
		}
		if r.sampled {
			if res.Written == nil {
				res.Written = map[string][]bool{}
			}
			el := elemOf(in.types[name])
			n := len(m.data) / max(el.span(max(int(in.types[name].Lanes), 1)), 1)
			res.Written[name] = elementsWritten(m.written, n)
		}
	}
	return res, nil
}

// stage settles what the options left to be told from the module.
func (r *run) stage() {
	r.sync, r.bounds = r.opt.Sync, r.opt.Bounds
	late := false
	for _, f := range r.mod.Funcs {
		if isPacked(f) || f.Attr("tirx.kernel_launch_params") != nil {
			late = true
		}
	}
	if r.sync == SyncAuto && late {
		r.sync = SyncExplicit
	}
	if r.bounds == BoundsAuto && late {
		r.bounds = BoundsExplicit
	}
}

// compile compiles a function once.
func (r *run) compile(f *ir.PrimFunc) *program {
	if p := r.progs[f.Name]; p != nil {
		return p
	}
	c := &comp{r: r, fn: f, vars: map[*ir.Var]*slot{}, free: map[string]*ir.Var{}, span: f.Org, sync: r.sync, bounds: r.bounds, reds: map[*ir.Var]string{}, threadVars: map[*ir.Var]int{}, fromAtomic: map[*ir.Var]bool{},
		ranges: map[*ir.Var][2]int64{}, lazy: map[*ir.Var]ir.Expr{}}
	p := &program{fn: f}
	for _, v := range f.Params {
		p.params = append(p.params, c.define(v, true))
	}
	for _, b := range f.BufferMap {
		c.declareParam(p, b)
	}
	body := c.stmt(f.Body)
	p.body = body
	p.sizes = c.sizes
	r.progs[f.Name] = p
	return p
}

// declareParam gives a buffer parameter's data pointer, sizes and strides
// their places; bindParams fills them.
func (c *comp) declareParam(p *program, b ir.BufferBinding) {
	if c.vars[b.Buffer.Data] == nil {
		c.define(b.Buffer.Data, true)
	}
	pb := paramBuffer{b: b, data: c.vars[b.Buffer.Data]}
	size := func(e ir.Expr) *slot {
		v, ok := e.(*ir.Var)
		if !ok {
			return nil
		}
		if c.vars[v] == nil {
			c.define(v, true)
		}
		return c.vars[v]
	}
	for _, e := range b.Buffer.Shape {
		pb.shape = append(pb.shape, size(e))
	}
	for _, e := range b.Buffer.Strides {
		pb.strides = append(pb.strides, size(e))
	}
	p.buffers = append(p.buffers, pb)
}

// paramBuffer is a buffer parameter; entries of shape and strides are nil where
// the size is no variable.
type paramBuffer struct {
	b              ir.BufferBinding
	data           *slot
	shape, strides []*slot
}

// array brings an input array into memory, once.
func (r *run) array(in *inputs, t ir.DType, span ir.Span, names ...string) (string, int64) {
	for _, n := range names {
		a := in.args.Arrays[n]
		if a == nil {
			continue
		}
		if p, ok := in.ptrs[n]; ok {
			return n, p
		}
		m, err := toMem(n, a, t, in.args.Strides[n])
		if err != nil {
			panic(&Error{Span: span, Msg: err.Error()})
		}
		r.reserve(int64(len(m.data)), span)
		if in.args.Unwritten[n] && r.opt.Findings {
			m.init = make([]byte, len(m.data))
		}
		if r.opt.Sample > 0 {
			m.written = make([]byte, len(m.data))
		}
		in.mems[n], in.types[n] = m, t
		in.ptrs[n] = r.addGlobal(m)
		if r.opt.Findings {
			m.global = newGlobalShadow(len(m.data), t.Scalar().Bytes())
		}
		return n, in.ptrs[n]
	}
	panic(&Error{Span: span, Msg: fmt.Sprintf("no array for parameter %q", names[0])})
}

// bindParams gives a function's parameters the run's inputs by name.
func (r *run) bindParams(p *program, w *warp, in *inputs) {
	for i, v := range p.fn.Params {
		s := p.params[i]
		b := p.fn.BufferOf(v)
		switch {
		case b != nil:
			name, ptr := r.array(in, b.Type, p.fn.Org, strings.TrimSuffix(v.Name, "_handle"), b.Name, v.Name, b.Data.Name)
			w.U[s.at] = ptr
			r.bindSizes(p, w, in, v, name, ptr)
		case v.Type.IsHandle():
			if v.Ptr == nil {
				panic(&NotRunnable{p.fn.Org, fmt.Sprintf("parameter %s points to something unknown", v.Name)})
			}
			if v.Ptr.Scope == "grid_constant" {
				panic(&NotRunnable{p.fn.Org, fmt.Sprintf("the tensor map %s is made by the host function, which is not here", v.Name)})
			}
			// The text numbers names that occur twice.
			_, ptr := r.array(in, v.Ptr.Elem, p.fn.Org, v.Name, reSuffix.ReplaceAllString(v.Name, ""))
			w.U[s.at] = ptr
		default:
			x, ok := in.args.Scalars[v.Name]
			if !ok {
				panic(&Error{Span: p.fn.Org, Msg: fmt.Sprintf("no value for parameter %q", v.Name)})
			}
			setScalar(w, s, x)
		}
	}
}

func setScalar(w *warp, s *slot, x float64) {
	if s.fl {
		w.UF[s.at] = roundFloat(s.v.Type, x)
	} else {
		w.U[s.at] = ir.WrapInt(s.v.Type, int64(x))
	}
}

func (r *run) bindSizes(p *program, w *warp, in *inputs, v *ir.Var, name string, ptr int64) {
	for _, pb := range p.buffers {
		if pb.b.Param != v {
			continue
		}
		w.U[pb.data.at] = ptr
		a := in.args.Arrays[name]
		strides := stridesOf(a.Shape, in.args.Strides[name])
		if len(a.Shape) != len(pb.shape) {
			panic(&Error{Span: p.fn.Org, Msg: fmt.Sprintf("the array for %s has %d dimensions, it needs %d", name, len(a.Shape), len(pb.shape))})
		}
		for d, s := range pb.shape {
			want, known := ir.AsInt(pb.b.Buffer.Shape[d])
			if s != nil {
				if want, known = in.sizes[s.v]; !known {
					want, known = int64(a.Shape[d]), true
					in.sizes[s.v] = want
				}
				w.U[s.at] = want
			}
			if known && want != int64(a.Shape[d]) {
				panic(&Error{Span: p.fn.Org, Msg: fmt.Sprintf("dimension %d of the array for %s is %d, it needs %d", d, name, a.Shape[d], want)})
			}
		}
		for d, s := range pb.strides {
			if s == nil || d >= len(strides) {
				continue
			}
			if isShape(pb.b.Buffer, s.v) {
				continue
			}
			w.U[s.at] = strides[d]
		}
	}
}

// isShape reports that a variable is one of the buffer's sizes; as a stride it
// then follows from them.
func isShape(b *ir.Buffer, v *ir.Var) bool {
	for _, e := range b.Shape {
		if e == ir.Expr(v) {
			return true
		}
	}
	return false
}

func stridesOf(shape []int, given []int64) []int64 {
	if len(given) == len(shape) {
		return given
	}
	s := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= int64(shape[i])
	}
	return s
}

// extentOf is the number of elements from the first to the last of a strided
// array.
func extentOf(shape []int, strides []int64) int64 {
	n := int64(1)
	for i, d := range shape {
		if d == 0 {
			return 0
		}
		n += int64(d-1) * strides[i]
	}
	return n
}

// walkArray visits the elements of an array: number and place in memory.
func walkArray(shape []int, strides []int64, f func(i int, at int64)) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	idx := make([]int, len(shape))
	at := int64(0)
	for i := range n {
		f(i, at)
		for d := len(shape) - 1; d >= 0; d-- {
			idx[d]++
			at += strides[d]
			if idx[d] < shape[d] {
				break
			}
			at -= int64(idx[d]) * strides[d]
			idx[d] = 0
		}
	}
}

// rawArray reports that an array holds a type's bits as they lie in memory.
func rawArray(d npy.DType, t ir.DType) bool {
	k := kindOf(t)
	switch d[0] {
	case 'f':
		return k == kF16 && d == "f2" || (k == kF32 || k == kTF32) && d == "f4" || k == kF64 && d == "f8"
	case 'b':
		return k == kBool || k == kI8 || k == kU8
	}
	return k != kSub && d.Size() == t.Bytes()
}

// toMem lays an array out in memory as type t.
func toMem(name string, a *npy.Array, t ir.DType, given []int64) (*mem, error) {
	el := elemOf(t)
	lanesOf := max(int(t.Lanes), 1)
	strides := stridesOf(a.Shape, given)
	n := extentOf(a.Shape, strides)
	if n < 0 || n > DefaultMaxMemory {
		return nil, fmt.Errorf("array %q is too large", name)
	}
	m := &mem{name: name, scope: "global", data: make([]byte, el.span(int(n)))}
	if lanesOf > 1 && el.k != kSub && a.DType.Size() == t.Bytes() {
		m.data = append([]byte(nil), a.Data...)
		return m, nil
	}
	if rawArray(a.DType, t.Scalar()) {
		if given == nil {
			copy(m.data, a.Data)
			return m, nil
		}
		walkArray(a.Shape, strides, func(i int, at int64) {
			copy(m.data[at*int64(el.size):][:el.size], a.Data[i*el.size:])
		})
		return m, nil
	}
	walkArray(a.Shape, strides, func(i int, at int64) {
		if el.fl {
			el.putF(m.data, int(at), a.Float(i))
		} else {
			el.putI(m.data, int(at), a.Int(i))
		}
	})
	return m, nil
}

// fromMem is the inverse of toMem, giving an array like the one passed in.
func fromMem(m *mem, like *npy.Array, t ir.DType, given []int64) (*npy.Array, error) {
	out, err := npy.New(like.DType, like.Shape...)
	if err != nil {
		return nil, err
	}
	el := elemOf(t)
	if t.Lanes > 1 && el.k != kSub && like.DType.Size() == t.Bytes() {
		copy(out.Data, m.data)
		return out, nil
	}
	strides := stridesOf(like.Shape, given)
	if rawArray(like.DType, t.Scalar()) {
		walkArray(like.Shape, strides, func(i int, at int64) {
			copy(out.Data[i*el.size:][:el.size], m.data[at*int64(el.size):])
		})
		return out, nil
	}
	walkArray(like.Shape, strides, func(i int, at int64) {
		if el.fl {
			putFloat(out, i, el.getF(m.data, int(at)))
		} else {
			out.SetUint(i, uint64(el.getI(m.data, int(at))))
		}
	})
	return out, nil
}

func putFloat(a *npy.Array, i int, x float64) {
	switch a.DType {
	case "f2":
		encodeF(kF16, &num.F16, a.Data[i*2:], []float64{x})
	case "f4":
		encodeF(kF32, nil, a.Data[i*4:], []float64{x})
	case "f8":
		encodeF(kF64, nil, a.Data[i*8:], []float64{x})
	default:
		a.SetUint(i, uint64(int64(x)))
	}
}

// callFunc compiles the call of a function of the module with values for its
// parameters.
func (c *comp) callFunc(name string, args []ir.Expr) stmtFn {
	f := c.r.mod.Func(name)
	if f == nil {
		c.cannot("the module has no function %q", name)
	}
	if len(args) < len(f.Params) {
		c.fail("%s is called with %d arguments, it has %d parameters", name, len(args), len(f.Params))
	}
	if c.l != nil {
		c.cannot("a kernel calls the function %s", name)
	}
	var vals []val
	for i := range f.Params {
		v := c.expr(args[i])
		if v.isFloat() != f.Params[i].Type.IsFloat() {
			v = c.convert(v, f.Params[i].Type)
		}
		vals = append(vals, v)
	}
	var extra []func(*warp) int64
	for _, a := range args[len(f.Params):] {
		extra = append(extra, c.uniI(c.expr(a)))
	}
	r := c.r
	p := r.compile(f)
	span := c.span
	return func(w *warp) {
		k := newFrame(&p.sizes)
		k.r, k.mask, k.full = r, 1, 1
		k.thread = w.thread
		for i, v := range vals {
			s := p.params[i]
			switch {
			case v.uf != nil:
				k.UF[s.at] = v.uf(w)
			case v.ui != nil:
				k.U[s.at] = v.ui(w)
			case v.vf != nil:
				k.UF[s.at] = v.vf(w)[0]
			default:
				k.U[s.at] = v.vi(w)[0]
			}
		}
		dims := make([]int64, len(extra))
		for i, e := range extra {
			dims[i] = e(w)
		}
		checkDims(f, k, p, dims, span)
		p.body(k)
	}
}

// checkDims compares a launch's sizes with those the device function states.
func checkDims(f *ir.PrimFunc, k *warp, p *program, dims []int64, span ir.Span) {
	names, ok := f.Attr("tirx.kernel_launch_params").(ir.List)
	stated, ok2 := f.Attr("thread_extent").(*ir.Dict)
	if !ok || !ok2 {
		return
	}
	for i, n := range names {
		tag, _ := ir.AttrString(n)
		if want, ok := ir.AttrInt(stated.Get(tag)); ok && i < len(dims) && dims[i] != want {
			panic(&Error{Span: span, Msg: fmt.Sprintf("%s is launched with %s = %d, it is made for %d", f.Name, tag, dims[i], want)})
		}
	}
}
