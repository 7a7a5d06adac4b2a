package tilelang

import (
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// tilelangModule is a module of TileLang's package, or of TVM's, by its full
// name; nil if it is not known here.
func (in *interp) tilelangModule(name string) value {
	switch name {
	case "tilelang", "tl", "tvm.tl":
		return in.tilelangPackage()
	case "tilelang.language", "tl.language", "tvm.tl.language", "tilelang.cuda.language":
		return in.lang
	case "tilelang.layout":
		return layoutModule()
	case "tilelang.tvm":
		return tvmModule("tvm")
	case "tilelang.math":
		return tilelangMath()
	case "tilelang.autotuner":
		return known(name, map[string]value{"autotune": autotuneDecorator()})
	case "tilelang.jit":
		return known(name, map[string]value{"jit": jitDecorator("tilelang.jit"), "lazy_jit": jitDecorator("tilelang.lazy_jit")})
	case "tilelang.transform":
		// What simplify_prim_func does to a kernel the passes do later.
		return known(name, map[string]value{"PassConfigKey": passConfigKeys(), "simplify_prim_func": rawBuiltin("simplify_prim_func", undecorated)})
	case "tilelang.transform.pass_config":
		return known(name, map[string]value{"PassConfigKey": passConfigKeys()})
	case "tilelang.testing":
		return testingModule()
	case "tilelang.tileop", "tilelang.tileop.base":
		return known(name, map[string]value{"GemmWarpPolicy": in.lang.attrs["GemmWarpPolicy"]})
	case "tilelang.carver.arch":
		return known(name, map[string]value{"driver": in.driverModule()})
	case "tilelang.carver.arch.driver":
		return in.driverModule()
	case "tilelang.cuda.intrinsics", "tilelang.cuda.intrinsics.layout", "tilelang.cuda.intrinsics.layout.mma_layout", "tilelang.cuda.intrinsics.layout.utils":
		return mmaLayoutModule(name)
	case "tilelang.cuda.intrinsics.sparse_layout":
		return sparseLayoutModule()
	case "tilelang.language.fp8":
		return known(name, map[string]value{"determine_fp8_type": fp8Type(), "determine_torch_fp8_type": fp8Type()})
	}
	switch {
	case name == "tvm" || strings.HasPrefix(name, "tvm."):
		return tvmModule(name)
	case strings.HasPrefix(name, "tilelang.language."):
		return in.lang
	}
	return nil
}

// known is a module of which the given names are known; others are unknown
// where they are used.
func known(name string, attrs map[string]value) *module {
	return &module{name: name, attrs: attrs, get: func(in *interp, n string) (value, bool) {
		if m := in.tilelangModule(name + "." + n); m != nil {
			return m, true
		}
		return &unknown{what: name + "." + n, at: in.here()}, true
	}}
}

// undecorated is a decorator that leaves a function as it is.
func undecorated(in *interp, a *args) value {
	if len(a.pos) != 1 {
		panic(in.errorf("a decorator takes one function").is("TypeError"))
	}
	return a.pos[0]
}

// tilelangPackage is the package tilelang.
func (in *interp) tilelangPackage() value {
	return known("tilelang", map[string]value{
		"__version__": "0.1.15", "language": in.lang, "DataType": in.tilelangDType(), "PassConfigKey": passConfigKeys(),
		"jit": jitDecorator("tilelang.jit"), "lazy_jit": jitDecorator("tilelang.lazy_jit"), "autotune": autotuneDecorator(),
		"Layout": langFuncs()["Layout"], "Fragment": langFuncs()["Fragment"], "cdiv": langFuncs()["ceildiv"], "next_power_of_2": nextPowerOf2(),
		"compile": rawBuiltin("tilelang.compile", func(in *interp, a *args) value {
			if len(a.pos) > 0 {
				switch k := a.pos[0].(type) {
				case *primFunc, *jitFunc:
					return k // compiled or not, it is the same kernel
				}
			}
			return &unknown{what: "tilelang.compile(...)", at: in.here()}
		}),
	})
}

// autotuneDecorator is @tilelang.autotune, which keeps the configurations.
func autotuneDecorator() value {
	return rawBuiltin("tilelang.autotune", func(in *interp, a *args) value {
		tune := value(none)
		for _, k := range a.kw {
			if k.name == "configs" {
				tune = k.v
			}
		}
		apply := func(in *interp, v value) value {
			switch j := v.(type) {
			case *jitFunc:
				j.tune = tune
				return j
			case *function:
				return &jitFunc{name: j.name, fn: j, opts: map[string]value{}, tune: tune}
			}
			return v
		}
		if len(a.pos) == 1 && len(a.kw) == 0 {
			return apply(in, a.pos[0])
		}
		return rawBuiltin("tilelang.autotune", func(in *interp, a *args) value { return apply(in, undecorated(in, a)) })
	})
}

// nextPowerOf2 is tilelang.next_power_of_2.
func nextPowerOf2() value {
	return &builtin{name: "tilelang.next_power_of_2", sig: parseSig("tilelang.next_power_of_2(n)"), fn: func(in *interp, a *args) value {
		n := in.intArg(a, 0)
		p := int64(1)
		for p < n && p < 1<<62 {
			p *= 2
		}
		return p
	}}
}

// tilelangMath is tilelang.math.
func tilelangMath() value {
	return known("tilelang.math", map[string]value{"next_power_of_2": nextPowerOf2(), "cdiv": langFuncs()["ceildiv"]})
}

// testingModule is tilelang.testing, whose decorators say on which GPUs a test
// runs.
func testingModule() value {
	m := known("tilelang.testing", map[string]value{})
	unknown := m.get
	m.get = func(in *interp, name string) (value, bool) {
		if !strings.HasPrefix(name, "requires_") {
			return unknown(in, name)
		}
		return rawBuiltin("tilelang.testing."+name, func(in *interp, a *args) value {
			if len(a.pos) == 1 {
				if f, ok := a.pos[0].(*function); ok {
					return f
				}
			}
			return rawBuiltin("tilelang.testing."+name, undecorated)
		}), true
	}
	return m
}

// oddPassConfigKeys are the members of PassConfigKey whose value is not their
// name in small letters.
var oddPassConfigKeys = map[string]string{
	"TL_SIMPLIFY": "tl.Simplify",
	"TL_SIMPLIFY_TRANSITIVELY_PROVE_INEQUALITIES":          "transitively_prove_inequalities",
	"TL_SIMPLIFY_CONVERT_BOOLEAN_TO_AND_OF_ORS":            "convert_boolean_to_and_of_ors",
	"TL_SIMPLIFY_APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES":    "apply_constraints_to_boolean_branches",
	"TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_PROVE_CONDITIONAL":    "propagate_knowns_to_prove_conditional",
	"TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_SIMPLIFY_EXPRESSIONS": "propagate_knowns_to_simplify_expressions",
	"TL_SIMPLIFY_ENABLE_LET_INLINE":                        "enable_simplify_let_inline",
	"TL_DISABLE_SAFE_MEMORY_ACCESS":                        "tl.disable_safe_memory_legalize",
	"TL_DUMP_IR_DIR":                                       "tl.dump_ir_path",
	"TIR_ENABLE_EQUIV_TERMS_IN_CSE":                        "tir.enable_equiv_terms_in_cse_tir",
	"TIR_SIMPLIFY":                                         "tirx.Simplify",
}

// passConfigKeys are the members of PassConfigKey: TL_ENABLE_FAST_MATH is
// "tl.enable_fast_math".
func passConfigKeys() *module {
	return &module{name: "PassConfigKey", attrs: map[string]value{}, get: func(in *interp, name string) (value, bool) {
		if key, ok := oddPassConfigKeys[name]; ok {
			return key, true
		}
		for _, p := range []struct{ prefix, key string }{{"TL_", "tl."}, {"TIRX_", "tirx."}, {"TIR_", "tirx."}, {"CUDA_", "cuda."}} {
			if rest, ok := strings.CutPrefix(name, p.prefix); ok {
				return p.key + strings.ToLower(rest), true
			}
		}
		return nil, false
	}}
}

// tvmModule knows the way to operators, tvm.tirx.op.Op.get(name), and the
// names of node types; all else is unknown.
func tvmModule(path string) *module {
	m := &module{name: path}
	m.attrs = map[string]value{}
	tir := strings.HasSuffix(path, ".tirx") || strings.HasSuffix(path, ".tir")
	m.get = func(in *interp, name string) (value, bool) {
		full := path + "." + name
		switch name {
		case "get":
			return rawBuiltin("Op.get", func(in *interp, a *args) value {
				s := ""
				if len(a.pos) == 1 {
					s, _ = a.pos[0].(string)
				}
				op := lookupOp(s)
				if op == nil {
					panic(in.errorf("there is no operator %s", pyQuote(s)).is("ValueError"))
				}
				return &opValue{op}
			}), true
		case "tirx", "tir", "op", "Op", "script":
			return tvmModule(full), true
		case "DataType":
			return in.tilelangDType(), true
		case "const":
			if tir {
				return tvmConst(), true
			}
		}
		if tir {
			if b, ok := langFuncs()[name]; ok {
				return b, true
			}
		}
		if full == "tvm.tl" {
			return in.tilelangPackage(), true
		}
		return &unknown{what: full, at: in.here()}, true
	}
	return m
}

// tvmConst is tvm.tirx.const, which is not T.const: a number of a type.
func tvmConst() value {
	return &builtin{name: "tirx.const", sig: parseSig("tirx.const(value, dtype=None)"), fn: func(in *interp, a *args) value {
		switch a.v[0].(type) {
		case bool, int64, float64:
		case *unknown:
			panic(in.needKnown(a.v[0].(*unknown)))
		default:
			if !isPyInt(a.v[0]) {
				panic(in.errorAt(a.at[0], "value of tirx.const is %s: expected a number", in.typeWithValue(a.v[0])).is("TypeError"))
			}
		}
		if isNone(a.v[1]) {
			return in.toExpr(a.v[0])
		}
		return in.constOf(in.dtypeOf(a.v[1], a.at[1]), a.v[0])
	}}
}

// tilelangDType is tilelang.language.dtype and tvm.DataType.
func (in *interp) tilelangDType() value {
	return &builtin{name: "dtype", sig: parseSig("dtype(value)"), fn: func(in *interp, a *args) value {
		return in.dtypeOf(a.v[0], a.at[0])
	}}
}

// fp8Type is determine_fp8_type, as it answers with CUDA.
func fp8Type() value {
	return &builtin{name: "determine_fp8_type", sig: parseSig("determine_fp8_type(fp8_format=\"e4m3\", device=None)"), fn: func(in *interp, a *args) value {
		name := map[string]string{"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}[in.oneOf(a, 0, "e4m3", "e5m2")]
		t, _ := in.dtypeName(name)
		return t
	}}
}

// groupOf are the elements of a group of structured sparsity, by type, as
// tilelang.cuda.intrinsics.sparse_layout has them: one of two, or two of four.
func groupOf(t ir.DType) (kept, group int64, ok bool) {
	switch t.String() {
	case "float32":
		return 1, 2, true
	case "float16", "bfloat16", "int8", "uint8", "float8_e4m3", "float8_e5m2":
		return 2, 4, true
	}
	return 0, 0, false
}

// bitsPerGroup is the metadata of one group.
const bitsPerGroup = 4

// sparseLayoutModule is tilelang.cuda.intrinsics.sparse_layout.
func sparseLayoutModule() value {
	groups := newDict()
	m := known("tilelang.cuda.intrinsics.sparse_layout", map[string]value{})
	for _, name := range []string{"float32", "float16", "bfloat16", "int8", "uint8", "float8_e4m3", "float8_e5m2"} {
		t, _ := ir.ParseDType(name)
		kept, group, _ := groupOf(t)
		groups.index[name] = len(groups.keys)
		groups.keys = append(groups.keys, t)
		groups.vals = append(groups.vals, &tuple{[]value{kept, group}})
	}
	m.attrs["GROUP_CONFIG"] = groups
	def := func(sig string, fn func(in *interp, a *args) value) {
		s := parseSig(sig)
		m.attrs[s.name] = &builtin{name: s.name, sig: s, fn: fn}
	}
	def("get_e_factor(a_dtype, meta_dtype)", func(in *interp, a *args) value {
		t := in.dtypeOf(a.v[0], a.at[0])
		_, group, ok := groupOf(t)
		if !ok {
			panic(in.errorAt(a.at[0], "%s has no structured sparsity", t).is("KeyError"))
		}
		return int64(in.dtypeOf(a.v[1], a.at[1]).Bits) / bitsPerGroup * group
	})
	def("get_e_replicate_factor(a_dtype)", func(in *interp, a *args) value {
		if in.dtypeOf(a.v[0], a.at[0]).Bits <= 8 {
			return int64(1)
		}
		return int64(2)
	})
	return m
}

// mmaLayoutModule is tilelang.cuda.intrinsics as far as it is functions of
// shapes and types.
func mmaLayoutModule(name string) *module {
	m := known(name, map[string]value{})
	def := func(sig string, fn func(in *interp, a *args) value) {
		s := parseSig(sig)
		m.attrs[s.name] = &builtin{name: s.name, sig: s, fn: fn}
	}
	def("get_swizzle_layout(row_idx, col_idx, row_size, dtype, swizzle_bytes=None)", func(in *interp, a *args) value {
		return &tuple{in.mmaSwizzle(a.v[0], a.v[1], in.intArg(a, 2), in.dtypeOf(a.v[3], a.at[3]), a.v[4])}
	})
	def("make_mma_swizzle_layout(shared_buf, is_smooth=False)", func(in *interp, a *args) value {
		b, shape := in.constShape(a, 0)
		n := len(shape)
		if n < 2 {
			panic(in.errorAt(a.at[0], "%s needs a buffer of two dimensions or more, got %d", a.name(), n).is("ValueError"))
		}
		row := shape[n-1]
		vars := layoutVars(n)
		l := &ir.Layout{Vars: vars, Shape: b.Shape}
		fwd := varValues(vars)
		if !in.boolArg(a, 1) && row*int64(b.Type.Bits)%512 == 0 {
			fwd = append(fwd[:n-2:n-2], in.mmaSwizzle(vars[n-2], vars[n-1], row, b.Type, none)...)
		}
		for _, v := range fwd {
			l.Forward = append(l.Forward, in.checked(in.toExpr(v)))
		}
		return l
	})
	def("get_mma_micro_size(dtype)", func(in *interp, a *args) value {
		k := int64(16)
		switch in.dtypeOf(a.v[0], a.at[0]).String() {
		case "int8", "float8_e4m3", "float8_e5m2":
			k = 32
		}
		return &tuple{[]value{int64(16), int64(16), k}}
	})
	return m
}

// mmaSwizzle places an element of a row-major tile of shared memory: its tile
// of columns, its row, and its column in the tile, where units of 16 bytes are
// exchanged by the row so that eight rows of ldmatrix lie in different banks.
func (in *interp) mmaSwizzle(row, col value, rowSize int64, t ir.DType, width value) []value {
	bytes := int64(t.Bits) * rowSize / 8
	if bytes%32 != 0 || bytes == 0 {
		panic(in.errorf("a row of %d bytes is no multiple of 32", bytes).is("AssertionError"))
	}
	swizzle := min(128, bytes)
	if n, ok := width.(int64); ok {
		swizzle = n
	}
	units := swizzle / 16
	if units < 1 || units > 8 {
		panic(in.errorf("a swizzle of %d bytes", swizzle).is("ValueError"))
	}
	per := 128 / int64(t.Bits)
	op := func(op syntax.Op, a value, b value) value { return in.binaryOp(op, a, b) }
	unit := op(syntax.FloorDiv, col, per)
	src := op(syntax.FloorDiv, op(syntax.Mod, row, int64(8)), 8/units)
	at := op(syntax.Add, op(syntax.Mul, op(syntax.BitXor, op(syntax.Mod, unit, units), src), per), op(syntax.Mod, col, per))
	return []value{op(syntax.FloorDiv, unit, units), row, at}
}
