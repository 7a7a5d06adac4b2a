package interp

import (
	"fmt"
	"strings"

	"lowertrace/internal/ir"
)

// packedArgs are the arguments of a host function behind the packed call
// convention: an array of TVMFFIAny (TVM FFI, "c_api.h").
type packedArgs struct{ args []packedArg }

type packedArg struct {
	index int64 // type index
	i     int64
	f     float64
}

// Type indices of TVM FFI.
const (
	ffiInt       = 1
	ffiBool      = 2
	ffiFloat     = 3
	ffiDLTensor  = 7
	deviceCUDA   = 2
	structShape  = 2
	structStride = 3
)

// tensor is a DLTensor (DLPack, "dlpack.h").
type tensor struct {
	data, shape, strides int64
	rank                 int
	t                    ir.DType
}

// dlCode is DLPack's code of a type.
func dlCode(t ir.DType) int64 {
	switch t.Code {
	case ir.Int:
		return 0
	case ir.UInt:
		return 1
	case ir.Float, ir.TFloat32:
		return 2
	case ir.Handle:
		return 3
	case ir.BFloat:
		return 4
	case ir.Bool:
		return 6
	}
	return dlNarrow[t.Code]
}

var dlNarrow = map[ir.TypeCode]int64{
	ir.Float8E3M4: 7, ir.Float8E4M3: 8, ir.Float8E4M3B11FNUZ: 9, ir.Float8E4M3FN: 10, ir.Float8E4M3FNUZ: 11,
	ir.Float8E5M2: 12, ir.Float8E5M2FNUZ: 13, ir.Float8E8M0FNU: 14, ir.Float6E2M3FN: 15, ir.Float6E3M2FN: 16, ir.Float4E2M1FN: 17,
}

// bindPacked calls a host function: its arguments are found by the names of the
// variables that the function reads their type indices into (NAME_type_index or
// NAME_handle_type_index).
func (r *run) bindPacked(p *program, w *warp, in *inputs) {
	names := map[int64]string{}
	types := map[int64]ir.DType{}
	n := int64(0)
	ir.Walk(p.fn.Body, func(s ir.Stmt) bool {
		b, ok := s.(*ir.Bind)
		if !ok {
			return true
		}
		if call, ok := b.Value.(*ir.Call); ok && call.Op != nil && call.Op.Name == "tvm_struct_get" {
			i, ok1 := ir.AsInt(call.Args[1])
			kind, ok2 := ir.AsInt(call.Args[2])
			if v, ok := call.Args[0].(*ir.Var); ok && ok1 && ok2 && kind == 13 && v == p.fn.Params[1] {
				names[i] = strings.TrimSuffix(b.Var.Name, "_type_index")
				n = max(n, i+1)
			}
		}
		return true
	})
	// The element type of each array follows from the pointers the function
	// makes of its data.
	ir.Walk(p.fn.Body, func(s ir.Stmt) bool {
		if b, ok := s.(*ir.Bind); ok && b.Var.Ptr != nil {
			for i, name := range names {
				if h := strings.TrimSuffix(name, "_handle"); structOf(b.Value, 1) == name && b.Var.Name != h+"_shape" {
					types[i] = b.Var.Ptr.Elem
				}
			}
		}
		return true
	})
	pa := &packedArgs{}
	for i := range n {
		name, ok := names[i]
		if !ok {
			panic(&NotRunnable{p.fn.Org, fmt.Sprintf("argument %d of the host function has no name", i)})
		}
		// A handle is called as its parameter was, NAME or NAME_handle.
		base, named := strings.CutSuffix(name, "_handle")
		x, ok := in.args.Scalars[name]
		isArray := (named || !ok) && (in.args.Arrays[base] != nil || in.args.Arrays[reSuffix.ReplaceAllString(base, "")] != nil)
		if !isArray {
			if !ok {
				panic(&Error{Span: p.fn.Org, Msg: fmt.Sprintf("no value for parameter %q", name)})
			}
			pa.args = append(pa.args, r.packedScalar(p.fn, name, x))
			continue
		}
		t, ok := types[i]
		if !ok {
			t = typeOfArray(in, base)
		}
		actual, ptr := r.array(in, t, p.fn.Org, base, reSuffix.ReplaceAllString(base, ""))
		a := in.args.Arrays[actual]
		tz := &tensor{data: ptr, rank: len(a.Shape), t: t}
		st := stridesOf(a.Shape, in.args.Strides[actual])
		tz.shape, tz.strides = r.int64s(base+".shape", ints(a.Shape)), r.int64s(base+".strides", st)
		pa.args = append(pa.args, packedArg{index: ffiDLTensor, i: r.addObject(tz)})
	}
	w.U[p.params[1].at] = r.addObject(pa)
	w.U[p.params[2].at] = n
	w.U[p.params[0].at], w.U[p.params[3].at] = 0, 0
}

// structOf is the name of the variable whose field of a kind an expression
// takes, "" if it takes none.
func structOf(e ir.Expr, kind int64) string {
	name := ""
	ir.WalkExpr(e, func(e ir.Expr) bool {
		if call, ok := e.(*ir.Call); ok && call.Op != nil && call.Op.Name == "tvm_struct_get" {
			if v, ok := call.Args[0].(*ir.Var); ok && ir.IsConst(call.Args[2], kind) {
				name = v.Name
			}
		}
		return true
	})
	return name
}

func typeOfArray(in *inputs, name string) ir.DType {
	a := in.args.Arrays[name]
	if a == nil {
		return ir.DFloat32
	}
	return typeOfNpy(a.DType)
}

func ints(shape []int) []int64 {
	l := make([]int64, len(shape))
	for i, n := range shape {
		l[i] = int64(n)
	}
	return l
}

// int64s puts numbers into memory.
func (r *run) int64s(name string, x []int64) int64 {
	m := &mem{name: name, scope: "global", data: make([]byte, 8*len(x))}
	encodeI(kI64, m.data, x)
	return r.addGlobal(m)
}

// packedScalar passes a scalar as the type the function expects: a float when
// the function reads it as one.
func (r *run) packedScalar(f *ir.PrimFunc, name string, x float64) packedArg {
	t := ir.DInt64
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		if b, ok := s.(*ir.Bind); ok && b.Var.Name == name {
			t = b.Var.Type
		}
		return true
	})
	switch {
	case t.IsFloat():
		return packedArg{index: ffiFloat, f: x}
	case t.IsBool():
		return packedArg{index: ffiBool, i: b2i(x != 0)}
	}
	return packedArg{index: ffiInt, i: int64(x)}
}

// structGet compiles tvm_struct_get(struct, index, field): fields of packed
// arguments and of tensors, numbered as in TVM's builtin::TVMStructFieldKind.
func (c *comp) structGet(e *ir.Call) val {
	obj, idx := c.uniI(c.expr(e.Args[0])), c.uniI(c.expr(e.Args[1]))
	kind, ok := ir.AsInt(e.Args[2])
	if !ok {
		c.fail("tvm_struct_get of an unknown field")
	}
	st := c.site("tvm_struct_get")
	fl := e.Type.IsFloat()
	get := func(w *warp) (int64, float64) {
		switch o := w.object(obj(w)).(type) {
		case *packedArgs:
			i := idx(w)
			if i < 0 || i >= int64(len(o.args)) {
				panic(&Error{Span: st.span, Msg: fmt.Sprintf("argument %d of %d", i, len(o.args))})
			}
			a := o.args[i]
			switch kind {
			case 13:
				return a.index, 0
			case 14:
				return 0, 0
			case 15:
				if a.index != ffiFloat && fl {
					return 0, float64(a.i)
				}
				return a.i, a.f
			}
		case *tensor:
			switch kind {
			case 0:
				return obj(w), 0
			case 1:
				return o.data, 0
			case structShape:
				return o.shape, 0
			case structStride:
				return o.strides, 0
			case 4:
				return int64(o.rank), 0
			case 5:
				return dlCode(o.t), 0
			case 6:
				return int64(o.t.Bits) + b2i(o.t.IsBool())*7, 0
			case 7:
				return int64(o.t.Lanes), 0
			case 8, 9:
				return 0, 0
			case 10:
				return deviceCUDA, 0
			}
		}
		panic(&Error{Span: st.span, Msg: fmt.Sprintf("tvm_struct_get of field %d of something without it", kind)})
	}
	if fl {
		return val{t: e.Type, uni: true, uf: func(w *warp) float64 { _, f := get(w); return f }}
	}
	return val{t: e.Type, uni: true, ui: func(w *warp) int64 { i, _ := get(w); return i }}
}

func (c *comp) structSet(e *ir.Call) stmtFn {
	c.cannot("tvm_struct_set is not supported")
	return nil
}

// callPacked compiles a call of a packed function: a launch, or one of the
// runtime's.
func (c *comp) callPacked(e *ir.Call) stmtFn {
	s, ok := e.Args[0].(*ir.StringImm)
	if !ok {
		c.cannot("a packed call without a name")
	}
	name := s.Value
	switch name {
	case "__tvm_set_device", "__tvm_cuda_stream_set_access_policy_window", "__tvm_cuda_stream_reset_access_policy_window":
		return nop
	case "__tvm_tensormap_create_tiled", "__tvm_tensormap_create_im2col":
		return c.packedTensorMap(name, e.Args[1:])
	}
	if c.r.mod.Func(name) == nil {
		c.cannot("call of the unknown packed function %q", name)
	}
	return c.callFunc(name, e.Args[1:])
}
