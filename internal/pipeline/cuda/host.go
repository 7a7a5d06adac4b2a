package cuda

import (
	"fmt"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/launch"
	"lowertrace/internal/pipeline"
)

// Fields of T.tvm_struct_get: those of a DLTensor, and of a packed argument.
const (
	fieldData      = 1
	fieldShape     = 2
	fieldStrides   = 3
	fieldTypeIndex = 13
	fieldValue     = 15
)

// hostSide is what a packed host function says of its arguments and launches.
type hostSide struct {
	name    string
	args    map[int]string     // argument number → name
	bufs    map[*ir.Var]int    // data pointer → argument number
	decls   map[int]*ir.Buffer // argument number → shape and strides
	scalars map[*ir.Var]int    // scalar → argument number
	symbols []hostSymbol
	spaces  []*ir.Buffer         // workspaces
	maps    map[*ir.Var]*ir.Call // tensor map → the call that makes it
	calls   map[string][]ir.Expr // kernel → arguments
	windows map[string][]*ir.Call
	usage   map[string]use // by buffer name
}

type hostSymbol struct {
	v      *ir.Var
	arg, k int
	stride bool
}

// use is how kernels use a buffer.
type use struct{ read, written bool }

// hostSide reads the host function that the lowering kept beside the device
// functions; without one the kernels' own parameters are the arguments.
func (g *gen) hostSide() *hostSide {
	h := &hostSide{args: map[int]string{}, bufs: map[*ir.Var]int{}, decls: map[int]*ir.Buffer{}, scalars: map[*ir.Var]int{},
		maps: map[*ir.Var]*ir.Call{}, calls: map[string][]ir.Expr{}, windows: map[string][]*ir.Call{}, usage: map[string]use{}}
	if m := g.ctx.Aside[AsideHost]; m != nil {
		for _, f := range m.Funcs {
			if pipeline.IsHostFunc(f) && h.read(f) {
				h.name = f.Name
				return h
			}
		}
	}
	return nil
}

// AsideHost is the name under which the pipelines keep the host functions.
const AsideHost = "host"

// read follows a packed function's bindings; false when it launches nothing.
func (h *hostSide) read(f *ir.PrimFunc) bool {
	if len(f.Params) < 2 {
		return false
	}
	packed := f.Params[1]
	handles, shapes, strides := map[*ir.Var]int{}, map[*ir.Var]int{}, map[*ir.Var]int{}
	bind := func(s *ir.Bind) {
		ir.WalkExpr(s.Value, func(e ir.Expr) bool {
			switch e := e.(type) {
			case *ir.Call:
				if e.Op == nil || e.Op.Name != "tvm_struct_get" || len(e.Args) < 3 {
					return true
				}
				base, ok := e.Args[0].(*ir.Var)
				field, ok2 := ir.AsInt(e.Args[2])
				index, ok3 := ir.AsInt(e.Args[1])
				if !ok || !ok2 || !ok3 {
					return true
				}
				switch {
				case base == packed && field == fieldValue && s.Var.Type.IsHandle():
					handles[s.Var] = int(index)
				case base == packed && field == fieldValue:
					h.scalars[s.Var] = int(index)
					h.args[int(index)] = s.Var.Name
				default:
					arg, ok := handles[base]
					if !ok {
						return true
					}
					switch field {
					case fieldData:
						h.bufs[s.Var] = arg
						h.args[arg] = s.Var.Name
					case fieldShape:
						shapes[s.Var] = arg
					case fieldStrides:
						strides[s.Var] = arg
					}
				}
			case *ir.BufferLoad:
				k, ok := int64(0), false
				if len(e.Indices) == 1 {
					k, ok = ir.AsInt(e.Indices[0])
				}
				if !ok {
					return true
				}
				if arg, ok := shapes[e.Buffer.Data]; ok {
					h.symbols = append(h.symbols, hostSymbol{s.Var, arg, int(k), false})
				} else if arg, ok := strides[e.Buffer.Data]; ok {
					h.symbols = append(h.symbols, hostSymbol{s.Var, arg, int(k), true})
				}
			}
			return true
		})
	}
	var windows []*ir.Call
	launches := false
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Bind:
			bind(s)
		case *ir.DeclBuffer:
			if arg, ok := h.bufs[s.Buffer.Data]; ok && h.decls[arg] == nil {
				h.decls[arg] = s.Buffer
				h.rename(arg, s.Buffer.Name)
			}
		case *ir.AllocBuffer:
			if s.Buffer.Scope() == "global" {
				h.spaces = append(h.spaces, s.Buffer)
			}
		case *ir.Evaluate:
			c, ok := s.Value.(*ir.Call)
			if !ok {
				break
			}
			if c.Global != "" {
				h.calls[c.Global], launches = c.Args, true
				break
			}
			if c.Op == nil || c.Op.Name != "call_packed" || len(c.Args) == 0 {
				break
			}
			name, _ := ir.AttrString(c.Args[0])
			switch name {
			case "__tvm_set_device":
			case "__tvm_tensormap_create_tiled", "__tvm_tensormap_create_im2col":
				if len(c.Args) > 1 {
					if v, ok := c.Args[1].(*ir.Var); ok {
						h.maps[v] = c
					}
				}
			case "__tvm_cuda_stream_set_access_policy_window":
				windows = append(windows, c)
			case "__tvm_cuda_stream_reset_access_policy_window":
				windows = nil
			default:
				h.calls[name], launches = c.Args[1:], true
				h.windows[name] = windows
			}
		}
		return true
	})
	return launches
}

// rename calls an argument as its buffer is called, for a pointer can have the
// name of a view; unless another argument has that name.
func (h *hostSide) rename(arg int, name string) {
	for i, n := range h.args {
		if n == name && i != arg {
			return
		}
	}
	h.args[arg] = name
}

// arguments describes buffers, scalars and symbols.
func (h *hostSide) arguments(s *launch.Spec) error {
	n := 0
	for i := range h.args {
		n = max(n, i+1)
	}
	for i := range n {
		name, ok := h.args[i]
		if !ok {
			name = fmt.Sprintf("arg%d", i)
		}
		s.Args = append(s.Args, name)
	}
	for i, b := range h.decls {
		desc, err := bufferDesc(b)
		if err != nil {
			return err
		}
		desc.Index, desc.Role = &i, h.usage[h.args[i]].role()
		s.Buffers[h.args[i]] = desc
	}
	for _, b := range h.spaces {
		desc, err := bufferDesc(b)
		if err != nil {
			return err
		}
		desc.Role = launch.Workspace
		s.Buffers[b.Name] = desc
	}
	for v, i := range h.scalars {
		if s.Scalars == nil {
			s.Scalars = map[string]launch.Scalar{}
		}
		s.Scalars[v.Name] = launch.Scalar{Index: i, DType: v.Type.String()}
	}
	for _, y := range h.symbols {
		if s.Symbols == nil {
			s.Symbols = map[string]launch.Symbol{}
		}
		k := y.k
		sym := launch.Symbol{DType: y.v.Type.String(), Buffer: h.args[y.arg]}
		if y.stride {
			sym.Stride = &k
		} else {
			sym.Dim = &k
		}
		s.Symbols[y.v.Name] = sym
	}
	return nil
}

func (u use) role() launch.Role {
	switch {
	case !u.written:
		return launch.In
	case !u.read:
		return launch.Out
	}
	return launch.InOut
}

func bufferDesc(b *ir.Buffer) (launch.Buffer, error) {
	d := launch.Buffer{DType: b.Type.String(), Shape: []launch.Size{}}
	for _, e := range b.Shape {
		z, err := size(e)
		if err != nil {
			return d, fmt.Errorf("buffer %s: %w", b.Name, err)
		}
		d.Shape = append(d.Shape, z)
	}
	compact := ir.RowMajorStrides(b.Shape)
	same := true
	for i, e := range b.Strides {
		same = same && arith.Equal(e, compact[i])
		z, err := size(e)
		if err != nil {
			return d, fmt.Errorf("buffer %s: %w", b.Name, err)
		}
		d.Strides = append(d.Strides, z)
	}
	if same {
		d.Strides = nil
	}
	return d, nil
}

// launches fills in the parameters of every kernel from the host's calls.
func (h *hostSide) params(k *kernelInfo) ([]launch.Param, error) {
	args, ok := h.calls[k.fn.Name]
	if !ok || len(args) < len(k.params) {
		return nil, fmt.Errorf("the host function does not launch it with its %d parameters", len(k.params))
	}
	out := make([]launch.Param, len(k.params))
	for i, p := range k.params {
		var err error
		if out[i], err = h.param(p.v, args[i]); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.v.Name, err)
		}
	}
	return out, nil
}

func (h *hostSide) param(p *ir.Var, arg ir.Expr) (launch.Param, error) {
	if v, ok := arg.(*ir.Var); ok {
		if c := h.maps[v]; c != nil {
			return h.tensorMap(v, c)
		}
		if n, ok := h.buffer(v); ok {
			return launch.Param{Buffer: n}, nil
		}
		if _, ok := h.scalars[v]; ok {
			x, err := launch.ValueExpr(v.Name)
			return launch.Param{Scalar: x, ScalarDType: p.Type.String()}, err
		}
	}
	if p.Type.IsHandle() {
		return launch.Param{}, fmt.Errorf("it is given something that is no buffer")
	}
	x, err := scalarValue(arg)
	return launch.Param{Scalar: x, ScalarDType: p.Type.String()}, err
}

func scalarValue(e ir.Expr) (launch.Value, error) {
	switch e := e.(type) {
	case *ir.IntImm:
		if e.Type.IsBool() {
			return launch.Bool(e.Value != 0), nil
		}
		return launch.Int(e.Value), nil
	case *ir.FloatImm:
		return launch.Number(e.Value), nil
	}
	s, _, err := sizeText(e)
	if err != nil {
		return launch.Value{}, err
	}
	return launch.ValueExpr(s)
}

func (h *hostSide) buffer(v *ir.Var) (string, bool) {
	if i, ok := h.bufs[v]; ok {
		return h.args[i], true
	}
	for _, b := range h.spaces {
		if b.Data == v {
			return b.Name, true
		}
	}
	return "", false
}

// tensorMap reads a call of __tvm_tensormap_create_tiled (map, type, rank,
// address, extents, strides, box, element strides, interleave, swizzle, L2
// promotion, fill) or _im2col (…, element strides, lower, upper corners,
// channels and pixels, …).
func (h *hostSide) tensorMap(v *ir.Var, c *ir.Call) (launch.Param, error) {
	bad := fmt.Errorf("the tensor map %s is not made as expected", v.Name)
	p := launch.Param{TMA: v.Name, Mode: "tiled"}
	name, _ := ir.AttrString(c.Args[0])
	if len(c.Args) < 5 {
		return p, bad
	}
	dtype, ok := ir.AsInt(c.Args[2])
	rank64, ok2 := ir.AsInt(c.Args[3])
	address, ok3 := c.Args[4].(*ir.Var)
	rank := int(rank64)
	if !ok || !ok2 || !ok3 || rank < 1 || rank > 5 {
		return p, bad
	}
	if p.Buffer, ok = h.buffer(address); !ok {
		return p, bad
	}
	p.DataType = int(dtype)
	rest := c.Args[5:]
	sizes := func(n int) (out []launch.Size, err error) {
		if len(rest) < n {
			return nil, bad
		}
		for _, e := range rest[:n] {
			z, err := size(e)
			if err != nil {
				return nil, err
			}
			out = append(out, z)
		}
		rest = rest[n:]
		return out, nil
	}
	ints := func(n int) (out []int, err error) {
		if len(rest) < n {
			return nil, bad
		}
		for _, e := range rest[:n] {
			k, ok := ir.AsInt(e)
			if !ok {
				return nil, bad
			}
			out = append(out, int(k))
		}
		rest = rest[n:]
		return out, nil
	}
	var err error
	step := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	step(func() (e error) { p.GDim, e = sizes(rank); return })
	step(func() (e error) { p.GStrideAll, e = sizes(rank); return })
	if name == "__tvm_tensormap_create_im2col" {
		p.Mode = "im2col"
		step(func() (e error) { p.EStride, e = ints(rank); return })
		step(func() (e error) { p.Lower, e = ints(rank - 2); return })
		step(func() (e error) { p.Upper, e = ints(rank - 2); return })
		step(func() error {
			l, e := ints(2)
			if e == nil {
				p.Pixels, p.Channels = l[0], l[1]
			}
			return e
		})
	} else {
		step(func() (e error) { p.Box, e = ints(rank); return })
		step(func() (e error) { p.EStride, e = ints(rank); return })
	}
	step(func() error {
		l, e := ints(4)
		if e == nil {
			p.Interleave, p.Swizzle, p.L2Promotion, p.OOBFill = l[0], l[1], l[2], l[3]
		}
		return e
	})
	return p, err
}

// l2 are the access policy windows set before a kernel's launch.
func (h *hostSide) l2(kernel string) ([]launch.Window, error) {
	var out []launch.Window
	for _, c := range h.windows[kernel] {
		if len(c.Args) != 4 {
			return nil, fmt.Errorf("an access policy window with %d arguments", len(c.Args)-1)
		}
		v, _ := c.Args[1].(*ir.Var)
		name, ok := h.buffer(v)
		ratio, ok2 := c.Args[3].(*ir.FloatImm)
		if !ok || !ok2 {
			return nil, fmt.Errorf("an access policy window of something that is no buffer")
		}
		z, err := size(c.Args[2])
		if err != nil {
			return nil, err
		}
		out = append(out, launch.Window{Buffer: name, Bytes: z, Ratio: ratio.Value})
	}
	return out, nil
}

// usage finds how a kernel uses what its pointer parameters point to.
func usage(f *ir.PrimFunc) map[*ir.Var]use {
	m := map[*ir.Var]use{}
	mark := func(v *ir.Var, u use) {
		old := m[v]
		m[v] = use{old.read || u.read, old.written || u.written}
	}
	var visit func(e ir.Expr) bool
	visit = func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.BufferLoad:
			mark(e.Buffer.Data, use{read: true})
		case *ir.Call:
			if e.Op == nil {
				break
			}
			for i, a := range e.Args {
				v, isVar := a.(*ir.Var)
				l, isAddress := addressed(a)
				switch {
				case isAddress && i == 1 && (e.Op.Name == "ptx_cp_async" || strings.HasPrefix(e.Op.Name, "atomic_add")):
					mark(l.Buffer.Data, use{read: true})
				case isAddress:
					mark(l.Buffer.Data, use{true, true})
				case isVar && e.Op.Name == "prefetch_tma_descriptor":
				case isVar && (e.Op.Name == "tma_load" || e.Op.Name == "tma_load_im2col") && i == 0:
					mark(v, use{read: true})
				case isVar && e.Op.Name == "tma_store" && i == 0:
					mark(v, use{written: true, read: !ir.IsConst(e.Args[len(e.Args)-2], 0)})
				case isVar && v.Type.IsHandle():
					mark(v, use{true, true})
				default:
					ir.WalkExpr(a, visit)
					continue
				}
				if isAddress {
					for _, x := range l.Indices {
						ir.WalkExpr(x, visit)
					}
				}
			}
			return false
		}
		return true
	}
	// Where a store's place, or whether it happens, depends on data, some
	// elements may keep what was there before: that counts as a read.
	chance := map[*ir.Var]bool{}
	depends := func(e ir.Expr) bool {
		found := false
		ir.WalkExpr(e, func(e ir.Expr) bool {
			switch e := e.(type) {
			case *ir.BufferLoad:
				found = true
			case *ir.Var:
				found = found || chance[e]
			case *ir.Call:
				found = found || e.Op == nil || e.Op.Effect > ir.Pure
			}
			return !found
		})
		return found
	}
	var walk func(s ir.Stmt, partial bool)
	walk = func(s ir.Stmt, partial bool) {
		switch s := s.(type) {
		case *ir.Bind:
			if depends(s.Value) {
				chance[s.Var] = true
			}
		case *ir.IfThenElse:
			partial = partial || depends(s.Cond)
		case *ir.While:
			partial = partial || depends(s.Cond)
		case *ir.BufferStore:
			for _, i := range s.Indices {
				partial = partial || depends(i)
			}
			mark(s.Buffer.Data, use{written: true, read: partial || s.Predicate != nil})
		}
		ir.StmtExprs(s, visit)
		ir.Children(s, func(c ir.Stmt) { walk(c, partial) })
	}
	walk(f.Body, false)
	return m
}
