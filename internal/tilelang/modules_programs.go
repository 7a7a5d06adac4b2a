package tilelang

import (
	"strings"

	"lowertrace/internal/ir"
)

// argparseModule gives every argument its default, as a run without arguments
// would.
func argparseModule() *module {
	m := &module{name: "argparse"}
	m.attrs = map[string]value{"ArgumentParser": rawBuiltin("argparse.ArgumentParser", func(in *interp, a *args) value {
		defaults := map[string]value{}
		p := &module{name: "ArgumentParser", attrs: map[string]value{}}
		add := rawBuiltin("add_argument", func(in *interp, a *args) value {
			name, long := "", false
			for _, v := range a.pos {
				if s, ok := v.(string); ok {
					// The first long option names the argument.
					if isLong := strings.HasPrefix(s, "--"); name == "" || isLong && !long {
						name, long = strings.ReplaceAll(strings.TrimLeft(s, "-"), "-", "_"), isLong
					}
				}
			}
			def := value(none)
			var typ value
			for _, k := range a.kw {
				switch k.name {
				case "dest":
					if s, ok := k.v.(string); ok {
						name = s
					}
				case "default":
					def = k.v
				case "type":
					typ = k.v
				case "action":
					if k.v == "store_true" && isNone(def) {
						def = false
					} else if k.v == "store_false" && isNone(def) {
						def = true
					}
				}
			}
			if s, ok := def.(string); ok && typ != nil && s != "" {
				def = in.call(typ, []value{s})
			}
			defaults[name] = def
			return none
		})
		p.attrs["add_argument"] = add
		p.attrs["add_argument_group"] = rawBuiltin("add_argument_group", func(in *interp, a *args) value { return p })
		p.attrs["add_mutually_exclusive_group"] = p.attrs["add_argument_group"]
		p.attrs["set_defaults"] = rawBuiltin("set_defaults", func(in *interp, a *args) value {
			for _, k := range a.kw {
				defaults[k.name] = k.v
			}
			return none
		})
		space := func() value {
			ns := &class{name: "Namespace", attrs: map[string]value{}}
			x := &instance{cls: ns, attrs: map[string]value{}}
			for k, v := range defaults {
				x.attrs[k] = v
			}
			return x
		}
		p.attrs["parse_args"] = rawBuiltin("parse_args", func(in *interp, a *args) value { return space() })
		p.attrs["parse_known_args"] = rawBuiltin("parse_known_args", func(in *interp, a *args) value {
			return &tuple{[]value{space(), &list{}}}
		})
		return p
	})}
	m.get = func(in *interp, name string) (value, bool) {
		return &unknown{what: "argparse." + name, at: in.here()}, true
	}
	return m
}

// torchModule knows torch's types and makes tensors of known shape; all else
// is unknown.
func (in *interp) torchModule() value {
	m := &module{name: "torch", attrs: map[string]value{}}
	for n, t := range map[string]ir.DType{
		"float16": ir.DFloat16, "half": ir.DFloat16, "bfloat16": ir.DBFloat16, "float32": ir.DFloat32, "float": ir.DFloat32, "float64": ir.DFloat64,
		"double": ir.DFloat64, "int8": ir.DInt8, "int16": ir.DInt16, "int32": ir.DInt32, "int": ir.DInt32, "int64": ir.DInt64, "long": ir.DInt64,
		"uint8": ir.DUInt8, "uint16": ir.DUInt16, "uint32": ir.DUInt32, "uint64": ir.DUInt64, "bool": ir.DBool,
	} {
		m.attrs[n] = t
	}
	for _, n := range []string{"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"} {
		m.attrs[n], _ = in.dtypeName(n)
	}
	makeTensor := func(shape []value, a *args, t ir.DType) value {
		for _, k := range a.kw {
			switch k.name {
			case "dtype":
				if d, ok := k.v.(ir.DType); ok {
					t = d
				}
			case "size":
				shape = in.iterate(k.v)
			}
		}
		return &tensor{shape: shape, dtype: t, at: a.call}
	}
	for _, n := range []string{"randn", "rand", "empty", "zeros", "ones"} {
		m.attrs[n] = rawBuiltin("torch."+n, func(in *interp, a *args) value {
			shape := a.pos
			if len(shape) == 1 {
				switch s := shape[0].(type) {
				case *tuple:
					shape = s.elts
				case *list:
					shape = s.elts
				}
			}
			return makeTensor(shape, a, ir.DFloat32)
		})
	}
	for _, n := range []string{"randn_like", "empty_like", "zeros_like", "ones_like", "rand_like"} {
		m.attrs[n] = rawBuiltin("torch."+n, func(in *interp, a *args) value {
			if len(a.pos) > 0 {
				if t, ok := a.pos[0].(*tensor); ok {
					return makeTensor(t.shape, a, t.dtype)
				}
			}
			return &unknown{what: "torch." + n, at: a.call}
		})
	}
	for _, n := range []string{"randint", "full"} {
		m.attrs[n] = rawBuiltin("torch."+n, func(in *interp, a *args) value {
			for _, v := range a.pos {
				switch s := v.(type) {
				case *tuple:
					return makeTensor(s.elts, a, ir.DInt64)
				case *list:
					return makeTensor(s.elts, a, ir.DInt64)
				}
			}
			return makeTensor(nil, a, ir.DInt64)
		})
	}
	m.get = func(in *interp, name string) (value, bool) {
		if sub := in.torchSubmodule("torch." + name); sub != nil {
			return sub, true
		}
		return &unknown{what: "torch." + name, at: in.here()}, true
	}
	return m
}

// maxCopyDepth bounds containers within each other in a deep copy.
const maxCopyDepth = 100

func (in *interp) copyValue(a *args, deep bool) value {
	if len(a.pos) != 1 {
		panic(in.errorf("copy takes one argument").is("TypeError"))
	}
	var cp func(v value, depth int) value
	cp = func(v value, depth int) value {
		in.step()
		if depth > maxCopyDepth {
			panic(in.errorf("containers more than %d deep are copied", maxCopyDepth).is("RecursionError"))
		}
		inner := func(x value) value {
			if deep {
				return cp(x, depth+1)
			}
			return x
		}
		switch x := v.(type) {
		case *list:
			in.cells(len(x.elts))
			l := &list{}
			for _, e := range x.elts {
				l.elts = append(l.elts, inner(e))
			}
			return l
		case *dict:
			d := newDict()
			for i, k := range x.keys {
				d.set(in, k, inner(x.vals[i]))
			}
			return d
		}
		return v
	}
	return cp(a.pos[0], 0)
}
