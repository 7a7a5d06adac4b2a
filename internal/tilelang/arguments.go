package tilelang

import (
	"strings"

	"lowertrace/internal/ir/script/syntax"
)

// arguments finds the arguments of a factory or jit function: from settings,
// defaults, a call in the file, then the first configuration of the autotuner.
func (in *interp) arguments(fn *function, tune value, skip map[string]bool) map[string]value {
	sel := &in.sel
	out := map[string]value{}
	var missing, open []string // open: a default of None, which a configuration of the autotuner replaces
	for i, p := range fn.params {
		if skip[p.Name] || p.Kind == syntax.VarArgs || p.Kind == syntax.VarKeywords {
			continue
		}
		if s, ok := sel.set[p.Name]; ok {
			out[p.Name] = in.settingValue(s)
			sel.used[p.Name] = true
			continue
		}
		if d := fn.defaults[i]; d != nil {
			out[p.Name] = d
			if isNone(d) {
				open = append(open, p.Name)
			}
			continue
		}
		missing = append(missing, p.Name)
	}
	for _, c := range sel.consts {
		if s, ok := sel.set[c]; ok {
			out[c] = in.settingValue(s)
			sel.used[c] = true
			continue
		}
		missing = append(missing, c)
	}
	in.fromConfigs(tune, open, out)
	missing = in.fromConfigs(tune, missing, out)
	if len(missing) > 0 {
		missing = in.fromCalls(fn, missing, out, skip)
	}
	if len(missing) > 0 {
		flags := make([]string, len(missing))
		for i, m := range missing {
			flags[i] = "--set " + m + "=VALUE"
		}
		f := in.errorAt(sel.kernel.Span, "%s needs %s", sel.kernel.Name, andList(missing)).hint("%s", strings.Join(flags, " "))
		if have := in.defaultsText(fn, skip); have != "" {
			f.note(sel.kernel.Span, "it also takes %s", have)
		}
		panic(f)
	}
	return out
}

func andList(s []string) string {
	if len(s) < 2 {
		return strings.Join(s, "")
	}
	return strings.Join(s[:len(s)-1], ", ") + " and " + s[len(s)-1]
}

func (in *interp) defaultsText(fn *function, skip map[string]bool) string {
	var parts []string
	for i, p := range fn.params {
		if d := fn.defaults[i]; d != nil && !skip[p.Name] {
			parts = append(parts, p.Name+"="+in.describe(d))
		}
	}
	return strings.Join(parts, ", ")
}

// fromConfigs takes missing arguments from the first configuration of the
// autotuner.
func (in *interp) fromConfigs(tune value, missing []string, out map[string]value) []string {
	if len(missing) == 0 {
		return nil
	}
	var first *dict
	switch t := tune.(type) {
	case *list:
		if len(t.elts) > 0 {
			first, _ = t.elts[0].(*dict)
		}
	case *function:
		in.try(func() {
			if l, ok := in.call(t, nil).(*list); ok && len(l.elts) > 0 {
				first, _ = l.elts[0].(*dict)
			}
		})
	}
	if first == nil {
		return missing
	}
	var rest []string
	for _, m := range missing {
		if v, ok := first.get(in, m); ok {
			out[m] = v
			continue
		}
		rest = append(rest, m)
	}
	return rest
}

// fromCalls takes missing arguments from the first call in the file that gives
// them all as constants.
func (in *interp) fromCalls(fn *function, missing []string, out map[string]value, skip map[string]bool) []string {
	in.findCalls(fn)
	for _, c := range in.calls {
		if c.fn != fn {
			continue
		}
		given := in.callValues(fn, c.args, skip)
		ok := true
		for _, m := range missing {
			v, has := given[m]
			ok = ok && has && in.isKnown(v)
		}
		if !ok {
			continue
		}
		for _, m := range missing {
			out[m] = given[m]
		}
		// What else the call says counts over a default, but not over a setting.
		for k, v := range given {
			if _, set := in.sel.set[k]; !set && in.isKnown(v) && !skip[k] {
				if _, isParam := out[k]; isParam {
					out[k] = v
				}
			}
		}
		return nil
	}
	return missing
}

// isKnown reports a value that holds nothing unknown.
func (in *interp) isKnown(v value) bool {
	switch x := v.(type) {
	case *unknown, *tensor:
		return false
	case *tuple:
		for _, e := range x.elts {
			if !in.isKnown(e) {
				return false
			}
		}
	case *list:
		for _, e := range x.elts {
			if !in.isKnown(e) {
				return false
			}
		}
	}
	return true
}

// callValues are the arguments of a call by name. Tensors give the sizes that
// their declaration in the body names.
func (in *interp) callValues(fn *function, a *args, skip map[string]bool) map[string]value {
	out := map[string]value{}
	i := 0
	for _, p := range fn.params {
		if p.Kind != syntax.Positional && p.Kind != syntax.PositionalOnly {
			break
		}
		if i < len(a.pos) {
			out[p.Name] = a.pos[i]
			i++
		}
	}
	for _, k := range a.kw {
		out[k.name] = k.v
	}
	for _, s := range fn.def.Body {
		ann, ok := s.(*syntax.AnnAssign)
		if !ok {
			continue
		}
		n, ok := ann.Target.(*syntax.Name)
		if !ok || !skip[n.ID] {
			continue
		}
		t, ok := out[n.ID].(*tensor)
		if !ok {
			continue
		}
		var shape syntax.Expr
		switch x := ann.Ann.(type) {
		case *syntax.Call:
			if len(x.Args) > 0 {
				shape = x.Args[0]
			}
		case *syntax.Index:
			if len(x.Indices) > 0 {
				shape = x.Indices[0]
			}
		}
		var dims []syntax.Expr
		switch x := shape.(type) {
		case *syntax.Tuple:
			dims = x.Elts
		case *syntax.List:
			dims = x.Elts
		}
		if len(dims) != len(t.shape) {
			continue
		}
		for k, d := range dims {
			if x, ok := d.(*syntax.Name); ok {
				if _, has := out[x.ID]; !has {
					out[x.ID] = t.shape[k]
				}
			}
		}
	}
	return out
}

// findCalls runs the file's main program, then its test functions, for the
// calls of the kernel in them.
func (in *interp) findCalls(fn *function) {
	seen := func() bool {
		for _, c := range in.calls {
			if c.fn == fn {
				return true
			}
		}
		return false
	}
	if seen() {
		return
	}
	in.dry = true
	defer func() { in.dry = false }()
	for _, s := range in.main.file.Body {
		if m, ok := s.(*syntax.If); ok && isMain(m) {
			in.lenient(in.main.globals, m.Then)
		}
	}
	for _, s := range in.main.file.Body {
		d, ok := s.(*syntax.FuncDef)
		if !ok || d == in.sel.def || seen() {
			continue
		}
		f, ok := in.main.globals.vars[d.Name].(*function)
		if !ok || f.def != d || f.gen {
			continue
		}
		free := true
		for i, p := range f.params {
			free = free && (f.defaults[i] != nil || p.Kind == syntax.VarArgs || p.Kind == syntax.VarKeywords)
		}
		if free {
			in.allow(MaxModuleSteps)
			in.try(func() { in.call(f, nil) })
		}
	}
	in.allow(MaxSteps)
}
