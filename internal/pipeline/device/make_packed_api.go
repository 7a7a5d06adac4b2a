package device

import (
	"fmt"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/arith"
	"lowertrace/internal/pipeline"
)

// MakePackedAPI gives host functions the packed interface and its checks.
//
// Precondition: SplitHostDevice; parameters are scalars, or handles of buffers.
// Effect: the function takes (self_handle, args, num_args, result), where args
// points to packed values of 16 bytes: a type index and the value. Parameters
// become bindings, read from args; symbolic sizes and strides are read from the
// first tensor that has them; everything that a call can get wrong is
// asserted: number and kinds of arguments, null pointers, number of dimensions,
// element type, shape, strides (null means compact; the stride of a dimension
// of one element does not matter), byte offset, device. The body runs on the
// tensors' device and the function returns 0. Invariant: device functions are
// not touched.
var MakePackedAPI = &pipeline.Pass{
	Name:         "MakePackedAPI",
	Stage:        stage,
	Doc:          "give host functions the packed interface, with every check of a call",
	Precondition: "Host and device functions are apart (SplitHostDevice); a host function's parameters are scalars or handles of buffers.",
	Effect:       "Host functions take packed arguments. Parameters and symbolic sizes are read from them and checked; the body runs on the tensors' device.",
	Before:       "def k(A_handle: T.handle):\n    A = T.match_buffer(A_handle, (1024,))\n    Module.k_kernel(A.data)",
	After:        "def k(self_handle: T.handle, args: T.handle, num_args: T.int32, result: T.handle(\"void\", \"global\")) -> T.int32:\n    assert num_args == 1, (\"RuntimeError\", [\"k: num_args should be 1\"])\n    ...\n    Module.k_kernel(A)\n    return 0",
	Run: pipeline.FuncPass(hasHost, func(_ *pipeline.Context, f *ir.PrimFunc) (*ir.PrimFunc, error) {
		return packFunc(f)
	}),
}

// Fields of T.tvm_struct_get (TVM's builtin::TVMStructFieldKind).
const (
	fieldData       = 1
	fieldShape      = 2
	fieldStrides    = 3
	fieldNDim       = 4
	fieldTypeCode   = 5
	fieldTypeBits   = 6
	fieldTypeLanes  = 7
	fieldByteOffset = 8
	fieldDeviceID   = 9
	fieldDeviceType = 10
	fieldTypeIndex  = 13 // of a packed value
	fieldValue      = 15
)

// Type indices of packed values (TVM FFI's TVMFFITypeIndex).
const (
	indexNone       = 0
	indexInt        = 1
	indexBool       = 2
	indexFloat      = 3
	indexOpaquePtr  = 4
	indexDLTensor   = 7
	indexFirstHeap  = 64 // objects
	indexTensor     = 70 // an object that holds a DLTensor
	tensorHeadBytes = 24 // before the DLTensor in such an object
)

// deviceCUDA is DLPack's kDLCUDA.
const deviceCUDA = 2

type packer struct {
	f      *ir.PrimFunc
	args   *ir.Var
	out    []ir.Stmt
	wraps  []wrap // attributes whose scope is the rest of the function
	dims   map[*ir.Var]ir.Expr
	devID  *ir.Var
	first  string // first tensor's name
	firstH *ir.Var
}

// wrap is an attribute that covers all statements from a position on.
type wrap struct {
	at   int
	attr *ir.AttrStmt
}

func packFunc(f *ir.PrimFunc) (*ir.PrimFunc, error) {
	p := &packer{f: f, args: &ir.Var{Name: "args", Type: ir.DHandle}, dims: map[*ir.Var]ir.Expr{}}
	self := &ir.Var{Name: "self_handle", Type: ir.DHandle}
	num := &ir.Var{Name: "num_args", Type: ir.DInt32}
	result := &ir.Var{Name: "result", Type: ir.DHandle, Ptr: &ir.PointerType{Elem: ir.DVoid, Scope: "global"}}
	n := len(f.Params)
	p.assert(eq(num, ir.I32(int64(n))), "%s: num_args should be %d", f.Name, n)
	p.assert(&ir.Not{A: isNull(p.args)}, "%s: args pointer is NULL", f.Name)
	if err := p.arguments(); err != nil {
		return nil, err
	}
	if err := p.tensors(); err != nil {
		return nil, err
	}
	if p.devID != nil {
		p.eval(ir.Str("__tvm_set_device"), ir.I32(deviceCUDA), p.devID)
	}
	p.emit(&ir.AttrStmt{Node: ir.I32(0), Key: "compute_scope", Value: ir.Str(f.Name + "_compute_"), Body: f.Body, Org: f.Org})
	p.emit(&ir.Evaluate{Value: &ir.Call{Op: ir.MustOp("ret"), Type: ir.DVoid, Args: []ir.Expr{ir.I32(0)}}, Org: f.Org})

	g := *f
	g.Params = []*ir.Var{self, p.args, num, result}
	g.BufferMap = nil
	g.Ret = ir.DInt32
	g.Body = p.body()
	g.Attrs = g.Attrs.With("calling_conv", ir.I32(pipeline.CallingConvCPackedFunc)).
		With("global_symbol", ir.Str("__tvm_ffi_"+f.Name)).With("target", hostTarget(f))
	return &g, nil
}

func (p *packer) emit(s ir.Stmt) { p.out = append(p.out, s) }

func (p *packer) bind(v *ir.Var, e ir.Expr) *ir.Var {
	p.emit(&ir.Bind{Var: v, Value: e, Org: p.f.Org})
	return v
}

func (p *packer) eval(args ...ir.Expr) {
	p.emit(&ir.Evaluate{Value: &ir.Call{Op: ir.MustOp("call_packed"), Type: ir.DInt32, Args: args}, Org: p.f.Org})
}

func (p *packer) assert(cond ir.Expr, format string, args ...any) {
	p.emit(&ir.Assert{Cond: cond, Kind: "RuntimeError", Message: []ir.Expr{ir.Str(fmt.Sprintf(format, args...))}, Org: p.f.Org})
}

func (p *packer) wrapRest(node ir.Attr, key string, value ir.Attr) {
	p.wraps = append(p.wraps, wrap{len(p.out), &ir.AttrStmt{Node: node, Key: key, Value: value, Org: p.f.Org}})
}

// body nests the statements into the attributes that cover the rest.
func (p *packer) body() ir.Stmt {
	end := len(p.out)
	var inner ir.Stmt
	for i := len(p.wraps) - 1; i >= 0; i-- {
		w := p.wraps[i]
		a := *w.attr
		a.Body = ir.Seq(append(append([]ir.Stmt(nil), p.out[w.at:end]...), inner)...)
		inner, end = &a, w.at
	}
	return ir.Seq(append(append([]ir.Stmt(nil), p.out[:end]...), inner)...)
}

func eq(a, b ir.Expr) ir.Expr { return &ir.Binary{Op: ir.EQ, A: a, B: b} }

func or(list ...ir.Expr) ir.Expr {
	e := list[0]
	for _, x := range list[1:] {
		e = &ir.Binary{Op: ir.Or, A: e, B: x}
	}
	return e
}

func and(list ...ir.Expr) ir.Expr {
	e := list[0]
	for _, x := range list[1:] {
		e = &ir.Binary{Op: ir.And, A: e, B: x}
	}
	return e
}

func isNull(e ir.Expr) ir.Expr { return ir.NewCall(ir.MustOp("isnullptr"), e) }

func get(base ir.Expr, index, field int, t ir.DType) ir.Expr {
	return ir.NewTypedCall(ir.MustOp("tvm_struct_get"), t, base, ir.I32(int64(index)), ir.I32(int64(field)))
}

// arguments checks the kinds of the packed values and binds the parameters.
func (p *packer) arguments() error {
	index := make([]*ir.Var, len(p.f.Params))
	for i, v := range p.f.Params {
		index[i] = p.bind(&ir.Var{Name: v.Name + "_type_index", Type: ir.DInt32}, get(p.args, i, fieldTypeIndex, ir.DInt32))
		is := func(k int) ir.Expr { return eq(index[i], ir.I32(int64(k))) }
		switch b := p.f.BufferOf(v); {
		case b != nil:
			heap := &ir.Binary{Op: ir.GE, A: index[i], B: ir.I32(indexFirstHeap)}
			p.assert(or(is(indexNone), is(indexOpaquePtr), is(indexDLTensor), heap), "kernel %s input %s expected pointer or tensor handle", p.f.Name, b.Name)
		case v.Type.IsFloat():
			p.assert(or(is(indexFloat), is(indexInt), is(indexBool)), "kernel %s scalar %s expected float", p.f.Name, v.Name)
		case v.Type.IsBool():
			p.assert(or(is(indexBool), is(indexInt)), "kernel %s scalar %s expected boolean", p.f.Name, v.Name)
		case v.Type.IsInteger():
			p.assert(or(is(indexInt), is(indexBool)), "kernel %s scalar %s expected integer", p.f.Name, v.Name)
		case v.Type.IsHandle():
			p.assert(or(is(indexNone), is(indexOpaquePtr)), "kernel %s input %s expected pointer", p.f.Name, v.Name)
		default:
			return pipeline.Errorf(p.f.Org, "parameter %s of type %s cannot be passed to a packed function", v.Name, v.Type)
		}
	}
	for i, v := range p.f.Params {
		switch value := func(t ir.DType) ir.Expr { return get(p.args, i, fieldValue, t) }; {
		case p.f.BufferOf(v) != nil:
			inside := ir.NewCall(ir.MustOp("handle_add_byte_offset"), value(ir.DHandle), ir.I32(tensorHeadBytes))
			p.bind(v, &ir.Select{Cond: eq(index[i], ir.I32(indexTensor)), True: inside, False: value(ir.DHandle)})
		case v.Type.IsFloat():
			p.bind(v, &ir.Select{Cond: eq(index[i], ir.I32(indexFloat)), True: ir.CastTo(value(ir.DFloat64), v.Type),
				False: &ir.Cast{Type: v.Type, Value: value(ir.DInt64)}})
		case v.Type.IsHandle():
			p.bind(v, value(ir.DHandle))
		default:
			p.bind(v, ir.CastTo(value(ir.DInt64), v.Type))
		}
	}
	return nil
}

// tensor is a buffer parameter with the pointers into its DLTensor.
type tensor struct {
	handle         *ir.Var
	b              *ir.Buffer
	shape, strides *ir.Buffer
}

// elem reads an element of a tensor's shape or strides in a type.
func elem(b *ir.Buffer, k int, t ir.DType) ir.Expr {
	return ir.CastTo(&ir.BufferLoad{Buffer: b, Indices: []ir.Expr{ir.I32(int64(k))}}, t)
}

// stride reads a stride; a null pointer means compact.
func (t *tensor) stride(k int, compact ir.Expr) ir.Expr {
	typ := ir.DInt32
	if compact.DType().Bits == 64 {
		typ = ir.DInt64
	}
	return &ir.Call{Op: ir.MustOp("if_then_else"), Type: typ, Args: []ir.Expr{isNull(t.strides.Data), compact, elem(t.strides, k, typ)}}
}

// tensors binds what the tensors hold and checks it.
func (p *packer) tensors() error {
	var list []*tensor
	for _, v := range p.f.Params {
		if b := p.f.BufferOf(v); b != nil {
			list = append(list, &tensor{handle: v, b: b})
		}
	}
	for _, t := range list {
		null := p.bind(&ir.Var{Name: p.f.Name + "_" + t.b.Name + "_is_null", Type: ir.DBool}, isNull(t.handle))
		p.assert(&ir.Not{A: null}, "%s.%s is expected to have non-NULL pointer", p.f.Name, t.b.Name)
	}
	for _, t := range list {
		t.shape = p.dimsOf(t, "shape", fieldShape)
	}
	users := map[*ir.Var][]string{}
	for _, t := range list {
		seen := map[*ir.Var]bool{}
		for _, d := range t.b.Shape {
			if v, ok := d.(*ir.Var); ok && !seen[v] {
				seen[v] = true
				users[v] = append(users[v], p.f.Name+"."+t.b.Name)
			}
		}
	}
	for _, v := range p.f.Params {
		if p.f.BufferOf(v) == nil {
			p.dims[v] = v // a size that is a parameter of its own
		}
	}
	for _, t := range list {
		n := len(t.b.Shape)
		p.assert(eq(get(t.handle, 0, fieldNDim, ir.DInt32), ir.I32(int64(n))), "kernel %s input %s ndim mismatch, expected %d", p.f.Name, t.b.Name, n)
		for k, d := range t.b.Shape {
			if v, ok := d.(*ir.Var); ok && p.dims[v] == nil {
				p.dims[v] = elem(t.shape, k, v.Type)
				p.bind(v, p.dims[v])
			}
		}
		t.strides = p.dimsOf(t, "strides", fieldStrides)
		compact := ir.RowMajorStrides(t.b.Shape)
		for k, s := range t.b.Strides {
			if v, ok := s.(*ir.Var); ok && p.dims[v] == nil {
				p.dims[v] = t.stride(k, ir.CastTo(compact[k], v.Type))
				p.bind(v, p.dims[v])
			}
		}
		if p.devID == nil {
			p.first, p.firstH = t.b.Name, t.handle
			p.devID = p.bind(&ir.Var{Name: "dev_id", Type: ir.DInt32}, get(t.handle, 0, fieldDeviceID, ir.DInt32))
		}
		p.bind(t.b.Data, get(t.handle, 0, fieldData, ir.DHandle))
		align := t.b.Align
		if align == 0 {
			align = allocAlignment
		}
		p.wrapRest(t.b.Data, "storage_alignment", ir.I32(int64(align)))
	}
	if p.devID != nil {
		p.wrapRest(ir.Str("default"), "device_id", p.devID)
		p.wrapRest(ir.Str("default"), "device_type", ir.I32(deviceCUDA))
	}
	for _, t := range list {
		p.checkTensor(t)
	}
	for _, t := range list {
		for _, e := range append(append([]ir.Expr(nil), t.b.Shape...), t.b.Strides...) {
			if bad := undefined(e, p.dims); bad != nil {
				return pipeline.Errorf(p.f.Org, "size %s of %s is no dimension or stride of any parameter", bad.Name, t.b.Name)
			}
		}
		p.emit(&ir.DeclBuffer{Buffer: t.b, Org: p.f.Org})
	}
	return nil
}

// allocAlignment is TVM's kAllocAlignment in bytes.
const allocAlignment = 64

func undefined(e ir.Expr, known map[*ir.Var]ir.Expr) *ir.Var {
	var bad *ir.Var
	ir.WalkExpr(e, func(e ir.Expr) bool {
		if v, ok := e.(*ir.Var); ok && known[v] == nil && bad == nil {
			bad = v
		}
		return true
	})
	return bad
}

// dimsOf binds the pointer to a tensor's shape or strides.
func (p *packer) dimsOf(t *tensor, what string, field int) *ir.Buffer {
	name := p.f.Name + "_" + t.b.Name + "_" + what
	b := ir.NewBuffer(name, ir.DInt64, "global", ir.I32(int64(len(t.b.Shape))))
	p.bind(b.Data, get(t.handle, 0, field, ir.DHandle))
	p.emit(&ir.DeclBuffer{Buffer: b, Org: p.f.Org})
	return b
}

// dlpackType is the code and width of an element type in DLPack.
func dlpackType(t ir.DType) (code, bits int64) {
	bits = int64(t.Bits)
	switch t.Code {
	case ir.UInt:
		return 1, bits
	case ir.Float, ir.TFloat32: // DLPack has no tfloat32: its arrays are of float32
		return 2, bits
	case ir.BFloat:
		return 4, bits
	case ir.Bool:
		return 6, 8
	case ir.Float8E3M4:
		return 7, bits
	case ir.Float8E4M3:
		return 8, bits
	case ir.Float8E4M3B11FNUZ:
		return 9, bits
	case ir.Float8E4M3FN:
		return 10, bits
	case ir.Float8E4M3FNUZ:
		return 11, bits
	case ir.Float8E5M2:
		return 12, bits
	case ir.Float8E5M2FNUZ:
		return 13, bits
	case ir.Float8E8M0FNU:
		return 14, bits
	case ir.Float6E2M3FN:
		return 15, bits
	case ir.Float6E3M2FN:
		return 16, bits
	case ir.Float4E2M1FN:
		return 17, bits
	}
	return 0, bits // signed integers
}

func (p *packer) checkTensor(t *tensor) {
	fail := func(cond ir.Expr, format string, args ...any) {
		p.assert(cond, "kernel %s input %s %s", p.f.Name, t.b.Name, fmt.Sprintf(format, args...))
	}
	u8 := func(v int64) ir.Expr { return ir.IntConst(ir.DUInt8, v) }
	is := func(code, bits int64) ir.Expr {
		return and(eq(get(t.handle, 0, fieldTypeCode, ir.DUInt8), u8(code)), eq(get(t.handle, 0, fieldTypeBits, ir.DUInt8), u8(bits)),
			eq(get(t.handle, 0, fieldTypeLanes, ir.DUInt16), ir.IntConst(ir.DUInt16, int64(t.b.Type.Lanes))))
	}
	code, bits := dlpackType(t.b.Type)
	same := is(code, bits)
	if t.b.Type.IsBool() { // frameworks differ in how they say bool
		same = or(same, is(0, 8), is(1, 8))
	}
	fail(same, "dtype mismatch, expected %s", t.b.Type)
	elements := ir.Expr(ir.I32(1))
	symbolic := false
	for k, d := range t.b.Shape {
		have := elem(t.shape, k, d.DType())
		elements = ir.NewBinary(ir.Mul, elements, d)
		if _, ok := ir.AsInt(d); !ok {
			symbolic = true
		}
		if v, ok := d.(*ir.Var); ok && arith.Equal(p.dims[v], have) {
			continue // read from here
		}
		fail(eq(have, d), "shape[%d] violates packed ABI constraint", k)
	}
	compact := ir.RowMajorStrides(t.b.Shape)
	strides := t.b.Strides
	if strides == nil {
		strides = compact
	}
	for k := len(strides) - 1; k >= 0; k-- {
		have := t.stride(k, ir.CastTo(compact[k], strides[k].DType()))
		if v, ok := strides[k].(*ir.Var); ok && arith.Equal(p.dims[v], have) {
			continue
		}
		cond := eq(have, strides[k])
		if _, ok := ir.AsInt(t.b.Shape[k]); !ok {
			cond = or(cond, eq(t.b.Shape[k], ir.IntConst(t.b.Shape[k].DType(), 1)))
		} else if ir.IsConst(t.b.Shape[k], 1) {
			continue
		}
		fail(cond, "strides[%d] violates packed ABI constraint", k)
	}
	fail(eq(ir.IntConst(ir.DUInt64, 0), get(t.handle, 0, fieldByteOffset, ir.DUInt64)), "byte_offset violates packed ABI constraint")
	if t.handle != p.firstH {
		fail(eq(get(t.handle, 0, fieldDeviceID, ir.DInt32), get(p.firstH, 0, fieldDeviceID, ir.DInt32)), "device_id violates packed ABI constraint")
	}
	fail(eq(get(t.handle, 0, fieldDeviceType, ir.DInt32), ir.I32(deviceCUDA)), "device_type mismatch, expected cuda")
	notNull := ir.Expr(&ir.Not{A: isNull(t.b.Data)})
	if symbolic {
		notNull = or(eq(elements, ir.IntConst(elements.DType(), 0)), notNull)
	}
	fail(notNull, "data pointer is NULL")
}
