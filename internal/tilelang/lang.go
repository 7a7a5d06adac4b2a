package tilelang

import (
	"slices"
	"strings"
	"sync"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
)

// The kernel language, T: a table of functions, each with its signature, which
// is what TileLang's is. Each lang_*.go file adds a part.

var (
	langOnce  sync.Once
	langTable map[string]*builtin
)

// langFuncs are the functions of T by name.
func langFuncs() map[string]*builtin {
	langOnce.Do(func() { langTable = makeLangFuncs() })
	return langTable
}

func makeLangFuncs() map[string]*builtin {
	m := map[string]*builtin{}
	for _, group := range []func(def definer){
		langBuffers, langLoops, langTiles, langReductions, langAtomics, langSync, langMath, langAnnotations, langCalls, langLayouts,
	} {
		group(func(sig string, fn func(in *interp, a *args) value) *signature {
			s := parseSig(sig)
			name := s.name
			s.name = "T." + s.name
			if m[name] != nil {
				panic("tilelang: T." + name + " is defined twice")
			}
			m[name] = &builtin{name: s.name, sig: s, fn: fn}
			return s
		})
	}
	for alias, name := range langAliases {
		if m[alias] != nil || m[name] == nil {
			panic("tilelang: bad alias " + alias)
		}
		m[alias] = m[name]
	}
	return m
}

// definer adds a function to the table; it returns its signature.
type definer func(sig string, fn func(in *interp, a *args) value) *signature

// langAliases are second names of functions.
var langAliases = map[string]string{
	"Serial": "serial", "Unroll": "unroll", "Vectorized": "vectorized", "parallel": "Parallel", "symbolic": "dynamic",
	"barrier_wait": "mbarrier_wait_parity", "WarpSpecialize": "ws", "cdiv": "ceildiv", "c2d_im2col": "im2col",
	"disable_warp_group_reg_alloc": "no_set_max_nreg", "wgmma_mma": "wgmma_gemm", "fabs": "abs",
	"alloc_buffer": "alloc_global", "reinterpret_cast": "reinterpret",
	"tcgen05_mma": "tcgen05_gemm", "power": "pow",
}

// newLang makes the module T.
func newLang() *module {
	m := &module{name: "tilelang.language"}
	m.attrs = map[string]value{}
	for name, b := range langFuncs() {
		m.attrs[name] = b
	}
	m.attrs["WSID"] = "tl.ws_op_id"
	m.attrs["GemmWarpPolicy"] = &module{name: "GemmWarpPolicy", attrs: map[string]value{
		"Square": int64(0), "FullRow": int64(1), "FullCol": int64(2),
		"from_warp_partition": rawBuiltin("GemmWarpPolicy.from_warp_partition", func(in *interp, a *args) value {
			panic(in.errorf("a warp partition given by hand is not supported"))
		}),
	}}
	m.attrs["Ref"] = &module{name: "T.Ref", attrs: map[string]value{}}
	m.attrs["Any"] = &unknown{what: "T.Any"}
	m.get = func(in *interp, name string) (value, bool) {
		if t, ok := in.dtypeName(name); ok {
			return t, true
		}
		return nil, false
	}
	m.names = func() []string {
		out := sortedKeys(m.attrs)
		return append(out, "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
			"uint8", "uint16", "uint32", "uint64", "bool", "float8_e4m3fn", "float8_e5m2")
	}
	layouts := mmaLayoutModule(m.name)
	for _, name := range []string{"get_swizzle_layout", "make_mma_swizzle_layout", "get_mma_micro_size"} {
		m.attrs[name] = layouts.attrs[name]
	}
	addWarpSchedules(m)
	addDecorators(m)
	return m
}

// notSupported are the names of TileLang's T for which there is nothing here, by
// what they are for.
var notSupported = map[string]string{
	"structured sparsity":           "gemm_sp wgmma_gemm_sp tcgen05_gemm_sp ptx_mma_sp ptx_wgmma_sp_rs ptx_wgmma_sp_ss SparseTensorCoreIntrinEmitter WGSparseTensorCoreIntrinEmitter",
	"block-scaled products":         "gemm_blockscaled mma_gemm_blockscaled make_blockscaled_gemm_layout ptx_mma_block_scale tcgen05_gemm_blockscaled tcgen05_mma_blockscaled ptx_tcgen05_mma_blockscaled_ss",
	"tensor cores by hand":          "TensorCoreIntrinEmitter TensorCoreIntrinEmitterWithLadderTransform TensorCoreIntrinEmitterSM120 WGMMATensorCoreIntrinEmitter ptx_mma ptx_mma_sm70 ptx_ldmatrix ptx_wgmma_rs ptx_wgmma_ss mma_fill mma_store tvm_mma_sync tvm_bmma_sync tvm_fill_fragment tvm_load_matrix_sync tvm_store_matrix_sync",
	"tensor cores of Blackwell":     "TCGEN05TensorCoreIntrinEmitter ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts tcgen05_cp_warpx4 tcgen05_mma_arrive tcgen05_sf_warp_transpose deallocate_tmem",
	"the tensor memory accelerator": "tma_load tma_load_2sm tma_gather4 tma_scatter4 create_tma_descriptor ptx_cp_async_bulk",
	"cluster launch control":        "clc_get_first_ctaid_x clc_get_first_ctaid_y clc_get_first_ctaid_z clc_is_canceled clc_try_cancel clc_try_cancel_multicast",
	"kernels written as CUDA":       "CUDASourceCodeKernel",
}

// unsupported is what a name of T is for, "" if TileLang has no such name.
func unsupported(name string) string {
	for what, names := range notSupported {
		if slices.Contains(strings.Fields(names), name) {
			return what
		}
	}
	return ""
}

func rawBuiltin(name string, fn func(in *interp, a *args) value) *builtin {
	return &builtin{name: name, fn: fn}
}

// dtypeAliases are names of types besides the text's own.
var dtypeAliases = map[string]string{
	"half": "float16", "float": "float32", "double": "float64", "int": "int32", "uint": "uint32", "long": "int64",
	"short": "int16", "ulong": "uint64", "e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2", "float8_e4m3fn_t": "float8_e4m3fn",
}

// dtypeName is the type of a name.
func (in *interp) dtypeName(s string) (ir.DType, bool) {
	if a, ok := dtypeAliases[s]; ok {
		s = a
	}
	t, err := ir.ParseDType(s)
	if err != nil || t.IsVoid() && s != "void" || s == "handle" {
		return ir.DType{}, false
	}
	return t, true
}

// dtypeOf is a value as a data type.
func (in *interp) dtypeOf(v value, at ir.Span) ir.DType {
	switch x := v.(type) {
	case ir.DType:
		return x
	case string:
		if x == "handle" {
			return ir.DHandle
		}
		if x == "void" || x == "" {
			return ir.DVoid
		}
		if t, ok := in.dtypeName(x); ok {
			return t
		}
		f := in.errorAt(at, "unknown dtype %s", pyQuote(x)).is("ValueError")
		if near := nearestDType(x); near != "" {
			f.hint("did you mean %s?", near)
		}
		panic(f)
	case *builtin:
		switch x.name {
		case "int":
			return ir.DInt32
		case "float":
			return ir.DFloat32
		case "bool":
			return ir.DBool
		case "T.ptr":
			return ir.DInt64
		}
	case *class:
	case *unknown:
		panic(in.needKnown(x))
	}
	panic(in.errorAt(at, "%s is not a dtype", in.typeWithValue(v)).hint("for example T.float16 or \"float16\"").is("TypeError"))
}

func nearestDType(s string) string {
	return diag.Nearest(s, []string{"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
		"uint8", "uint16", "uint32", "uint64", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu", "tfloat32", "float4_e2m1fn"})
}

// shapeOf is a value as a shape.
func (in *interp) shapeOf(v value, at ir.Span) []ir.Expr {
	if isPyInt(v) || isExpr(v) {
		v = &tuple{[]value{v}}
	}
	var elts []value
	switch x := v.(type) {
	case *tuple, *list, *generator, pyRange:
		elts = in.iterate(x)
	case *unknown:
		panic(in.needKnown(x))
	default:
		panic(in.errorAt(at, "a shape is %s: expected a tuple of sizes", in.typeWithValue(v)).is("TypeError"))
	}
	const maxRank = 16
	if len(elts) > maxRank {
		panic(in.errorAt(at, "a shape of %d dimensions: at most %d", len(elts), maxRank).is("ValueError"))
	}
	out := make([]ir.Expr, len(elts))
	for i, x := range elts {
		if u, ok := x.(*unknown); ok {
			panic(in.needKnown(u))
		}
		if !isPyInt(x) && !isExpr(x) {
			if b, ok := x.(*ir.Buffer); !ok || !isVarBuffer(b) {
				panic(in.errorAt(at, "size %d of a shape is %s: expected an integer", i, in.typeWithValue(x)).is("TypeError"))
			}
		}
		e := in.toExpr(x)
		if !e.DType().IsInteger() {
			panic(in.errorAt(at, "size %d of a shape has type %s: expected an integer", i, e.DType()).is("TypeError"))
		}
		if n, ok := ir.AsInt(e); ok && n < 0 {
			panic(in.errorAt(at, "size %d of a shape is %d", i, n).is("ValueError"))
		}
		out[i] = e
	}
	return out
}

// intArg is a constant integer argument.
func (in *interp) intArg(a *args, i int) int64 {
	switch v := a.v[i].(type) {
	case bool:
		return b2i(v)
	case int64:
		return v
	case *ir.IntImm:
		return v.Value
	case *unknown:
		panic(in.needKnown(v))
	}
	panic(in.errorAt(a.at[i], "%s of %s is %s: expected a constant integer", a.param(i), a.name(), in.typeWithValue(a.v[i])).is("TypeError"))
}

func (in *interp) boolArg(a *args, i int) bool {
	switch v := a.v[i].(type) {
	case bool:
		return v
	case int64:
		return v != 0
	case noneType:
		return false
	case *ir.IntImm:
		return v.Value != 0
	case *unknown:
		panic(in.needKnown(v))
	}
	panic(in.errorAt(a.at[i], "%s of %s is %s: expected True or False", a.param(i), a.name(), in.typeWithValue(a.v[i])).is("TypeError"))
}

func (in *interp) stringArg(a *args, i int) string {
	if s, ok := textOf(a.v[i]); ok {
		return s
	}
	if u, ok := a.v[i].(*unknown); ok {
		panic(in.needKnown(u))
	}
	panic(in.errorAt(a.at[i], "%s of %s is %s: expected a string", a.param(i), a.name(), in.typeWithValue(a.v[i])).is("TypeError"))
}

// oneOf is a string argument with a fixed set of values.
func (in *interp) oneOf(a *args, i int, values ...string) string {
	s := in.stringArg(a, i)
	for _, v := range values {
		if s == v {
			return s
		}
	}
	f := in.errorAt(a.at[i], "%s of %s is %s: expected %s", a.param(i), a.name(), pyQuote(s), orList(values)).is("ValueError")
	if near := diag.Nearest(s, values); near != "" {
		f.hint("did you mean %s?", pyQuote(near))
	}
	panic(f)
}

func orList(values []string) string {
	q := make([]string, len(values))
	for i, v := range values {
		q[i] = pyQuote(v)
	}
	if len(q) == 1 {
		return q[0]
	}
	return strings.Join(q[:len(q)-1], ", ") + " or " + q[len(q)-1]
}

// exprArg is an argument as an expression; a buffer element reads it.
func (in *interp) exprArg(a *args, i int) ir.Expr {
	return in.exprAt(a.v[i], a.at[i])
}

func (in *interp) exprAt(v value, at ir.Span) ir.Expr {
	save := in.at
	if at.IsValid() {
		in.at.Pos, in.at.End = at.Pos, at.End
	}
	e := in.toExpr(v)
	in.at = save
	return e
}

// param and name are those of the called builtin.
func (a *args) param(i int) string { return a.sig.params[i].name }
func (a *args) name() string       { return a.sig.name }

func isNone(v value) bool {
	_, ok := v.(noneType)
	return ok
}

// needKernel refuses to emit statements outside of a kernel.
func (in *interp) needKernel(name string) *builder {
	if in.b == nil {
		panic(in.errorf("%s belongs into a kernel", name).hint("put it into a function with @T.prim_func or @tilelang.jit").is("JITNoBuilderError"))
	}
	return in.b
}

// intrin is a call of an operator, typed by its rule, on arguments as TVM
// converts them: buffers are their pointers, Python numbers constants.
func (in *interp) intrin(name string, argv ...value) *ir.Call {
	op := ir.MustOp(name)
	list := in.intrinArgs(argv)
	t, err := op.ResultType(list, ir.DVoid)
	if err != nil {
		panic(in.errorf("%v", err).is("TypeError"))
	}
	return &ir.Call{Op: op, Type: t, Args: list}
}

// typedIntrin is intrin with a stated type.
func (in *interp) typedIntrin(name string, t ir.DType, argv ...value) *ir.Call {
	return &ir.Call{Op: ir.MustOp(name), Type: t, Args: in.intrinArgs(argv)}
}

func (in *interp) intrinArgs(argv []value) []ir.Expr {
	list := make([]ir.Expr, len(argv))
	for i, v := range argv {
		if b, ok := v.(*ir.Buffer); ok && !isVarBuffer(b) {
			list[i] = b.Data
			continue
		}
		if t, ok := v.(ir.DType); ok {
			list[i] = ir.Str(t.String())
			continue
		}
		list[i] = in.toExpr(v)
	}
	return list
}

// withAttrs adds keyword arguments to a call.
func (in *interp) withAttrs(c *ir.Call, attrs *callAttrs) *ir.Call {
	c.Attrs = attrs.list
	return c
}

// callAttrs are keyword arguments of a tile operator under construction, in
// the order in which they were set.
type callAttrs struct{ list []ir.Arg }

// from adds the entries of an annotations= argument.
func (c *callAttrs) from(in *interp, v value) *callAttrs {
	if isNone(v) {
		return c
	}
	d, ok := v.(*dict)
	if !ok {
		panic(in.errorf("annotations must be a dict, got %s", typeName(v)).is("TypeError"))
	}
	for i, k := range d.keys {
		name, ok := k.(string)
		if !ok {
			panic(in.errorf("an annotation's name is %s: expected a string", in.typeWithValue(k)).is("TypeError"))
		}
		c.list = append(c.list, ir.Arg{Name: name, Value: in.callAttr(d.vals[i])})
	}
	return c
}

func (c *callAttrs) has(name string) bool {
	for _, a := range c.list {
		if a.Name == name {
			return true
		}
	}
	return false
}

// set adds an entry unless there is one of that name.
func (c *callAttrs) set(name string, v ir.Attr) {
	if !c.has(name) {
		c.list = append(c.list, ir.Arg{Name: name, Value: v})
	}
}
