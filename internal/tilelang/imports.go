package tilelang

import (
	"cmp"
	"path"
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// Limits of what a kernel's file may import.
const (
	// MaxFiles bounds the files that are imported, directly or by each other.
	MaxFiles = 64
	// MaxFileBytes bounds the text of an imported file.
	MaxFileBytes = 4 << 20
)

// nowhere is what was looked for where there is no place to look in.
const nowhere = "nothing"

// pyFile is a file under evaluation: the kernel's own, or one that it imports.
type pyFile struct {
	file    *syntax.File
	globals *frame
	dir     string // of its package, below the kernel's directory; "" is that directory
}

// imports are the modules that were looked for beside the kernel.
type imports struct {
	modules map[string]*localModule // by path without ".py"; nil: not there
	sources []*ir.Source            // the files read, in order
}

// localModule is a file or a directory beside the kernel.
type localModule struct {
	*module
	path    string   // of the file; "" for a directory without __init__.py
	pack    string   // directory that its submodules lie in; "" if it is a plain file
	failed  *failure // it could not be read
	loading bool
}

// enter goes on in the file p until the result is called.
func (in *interp) enter(p *pyFile) func() {
	was, at := in.pyFile, in.at
	in.pyFile = p
	return func() { in.pyFile, in.at = was, at }
}

// enterFunction goes on in the file of a function until the result is called.
func (in *interp) enterFunction(fn *function) func() {
	if fn.home == in.pyFile {
		return func() {}
	}
	return in.enter(fn.home)
}

// localImport finds the module that dotted parts name, from directory dir on. It
// is nil if nothing is there; looked then says what was looked for. chain has the
// modules on the way, the last one the result.
func (in *interp) localImport(dir string, parts []string) (chain []*localModule, looked string) {
	for i, part := range parts {
		m, tried := in.localModule(path.Join(dir, part))
		if m == nil && i+1 < len(parts) {
			m = in.namespace(path.Join(dir, part))
		}
		switch {
		case m == nil:
			return nil, tried
		case m.failed != nil:
			panic(m.failed)
		case i+1 < len(parts) && m.pack == "":
			panic(in.errorf("%s is no package: it has no module %s", m.path, parts[i+1]).is("ModuleNotFoundError"))
		}
		if i > 0 {
			chain[i-1].attrs[part] = m.module
		}
		chain = append(chain, m)
		dir = m.pack
	}
	return chain, ""
}

// namespace is a directory without __init__.py, whether it is there or not: what
// is looked for in it tells.
func (in *interp) namespace(dir string) *localModule {
	if in.open == nil {
		return nil
	}
	m := in.imp.modules[dir+"/"]
	if m == nil {
		m = &localModule{module: &module{name: path.Base(dir), attrs: map[string]value{}}, pack: dir}
		in.imp.modules[dir+"/"] = m
	}
	return m
}

// localModule reads the module at a path without ".py", once.
func (in *interp) localModule(base string) (*localModule, string) {
	looked := base + ".py and " + base + "/__init__.py"
	if m, known := in.imp.modules[base]; known {
		return m, looked
	}
	if in.open == nil {
		return nil, nowhere
	}
	var src *ir.Source // of the file that is there
	m := &localModule{}
	for _, try := range []struct{ file, pack string }{{base + "/__init__.py", base}, {base + ".py", ""}} {
		text, found, err := in.open(try.file)
		if err != nil {
			panic(in.errorf("%s: %v", try.file, err).is("ImportError"))
		}
		if !found {
			continue
		}
		m.path, m.pack = try.file, try.pack
		if len(text) > MaxFileBytes {
			panic(in.errorf("%s has more than %d bytes", try.file, MaxFileBytes).is("ImportError"))
		}
		src = ir.NewSource(in.nameOf(try.file), text)
		break
	}
	if src == nil {
		in.imp.modules[base] = nil
		return nil, looked
	}
	if len(in.imp.sources) == MaxFiles {
		f := in.errorf("more than %d files are imported", MaxFiles)
		f.limit = true
		panic(f)
	}
	in.imp.sources = append(in.imp.sources, src)
	in.imp.modules[base] = m
	in.runImport(m, src)
	return m, looked
}

// nameOf is what messages call a file below the kernel's directory.
func (in *interp) nameOf(file string) string {
	own := in.main.file.Source.Name
	if i := strings.LastIndexAny(own, `/\`); i >= 0 {
		return own[:i+1] + file
	}
	return file
}

// runImport runs an imported file from top to bottom.
func (in *interp) runImport(m *localModule, src *ir.Source) {
	p := &pyFile{globals: newFrame(nil), dir: path.Dir(m.path)}
	if p.dir == "." {
		p.dir = ""
	}
	m.module = &module{name: strings.TrimSuffix(path.Base(m.path), ".py"), attrs: p.globals.vars}
	if m.pack != "" {
		m.name = path.Base(m.pack)
	}
	var diags diag.List
	p.file = syntax.Parse(src, &diags)
	if p.file == nil || diags.HasErrors() {
		f := in.errorf("%s cannot be read", m.path).is("SyntaxError")
		at := f.d.Span
		for _, d := range diags.All() {
			if d.Severity == diag.Error {
				f.d = d
				break
			}
		}
		m.failed = f.note(at, "it is imported here")
		panic(m.failed)
	}
	m.loading = true
	b, dry, building := in.b, in.dry, in.building
	steps, limit, budget := in.steps, in.maxSteps, in.budget
	in.b, in.dry, in.building = nil, false, false
	leave := in.enter(p)
	defer func() {
		leave()
		m.loading = false
		in.b, in.dry, in.building = b, dry, building
		in.maxSteps, in.budget = limit+in.steps-steps, budget // the importing statement has its own
	}()
	in.lenient(p.globals, p.file.Body)
}

// importModule is import a.b as c.
func (in *interp) importModule(f *frame, a syntax.Alias) {
	root, _, below := strings.Cut(a.Name, ".")
	m := in.module(a.Name)
	if a.As == "" && below && isUnknown(m) {
		m = in.module(root) // import tilelang.profiler binds tilelang
	}
	if !isUnknown(m) {
		if a.As == "" {
			m = in.module(root)
			a.As = root
		}
		in.assignName(f, a.As, m)
		return
	}
	chain, looked := in.localImport("", strings.Split(a.Name, "."))
	switch {
	case chain == nil && a.As != "":
		in.assignName(f, a.As, in.notFound(a.Name, looked))
	case chain == nil:
		in.assignName(f, root, in.notFound(root, looked))
	case a.As != "":
		in.assignName(f, a.As, chain[len(chain)-1].module)
	default:
		in.assignName(f, root, chain[0].module)
	}
}

// notFound is the module of a name that is neither known nor beside the kernel.
func (in *interp) notFound(name, looked string) *unknown {
	return &unknown{what: name, at: in.here(), looked: looked}
}

func (in *interp) importFrom(f *frame, s *syntax.ImportFrom) {
	name := strings.Repeat(".", s.Level) + s.Module
	m, local, looked := in.moduleFrom(s, name)
	for _, a := range s.Names {
		as := cmp.Or(a.As, a.Name)
		if a.Name == "*" {
			if mod, ok := m.(*module); ok {
				in.importAll(f, mod)
			}
			continue
		}
		v, ok := in.importName(m, local, a.Name)
		if !ok {
			v = &unknown{what: name + "." + a.Name, at: in.here(), looked: looked}
		}
		set, given := in.sel.set[as]
		switch {
		case given && !in.sel.claims[as] && f == in.main.globals && (isUnknown(v) || isConstant(v)):
			// What another file defines can be given, as a constant of this one can.
			v = in.settingValue(set)
			in.sel.used[as] = true
		case !ok && local != nil:
			panic(in.noName(local, a.Name))
		}
		in.assignName(f, as, v)
	}
}

// isConstant reports a value that can be written as a setting.
func isConstant(v value) bool {
	switch v.(type) {
	case bool, int64, float64, string, ir.DType:
		return true
	}
	return false
}

// moduleFrom is the module that names are imported from; local is nil for those
// that are not beside the kernel.
func (in *interp) moduleFrom(s *syntax.ImportFrom, name string) (m value, local *localModule, looked string) {
	if s.Level == 0 {
		if m = in.module(name); !isUnknown(m) {
			return m, nil, ""
		}
	}
	dir := ""
	if s.Level > 0 {
		dir = in.dir
		for range s.Level - 1 {
			if dir == "" {
				panic(in.errorf("%s lies outside of the kernel's directory", name).is("ImportError"))
			}
			if dir = path.Dir(dir); dir == "." {
				dir = ""
			}
		}
	}
	if s.Module == "" {
		local = &localModule{module: &module{name: name, attrs: map[string]value{}}, pack: dir}
		if have := in.imp.modules[dir]; have != nil {
			local = have
		}
		return local.module, local, ""
	}
	chain, looked := in.localImport(dir, strings.Split(s.Module, "."))
	if chain == nil {
		return in.notFound(name, looked), nil, looked
	}
	local = chain[len(chain)-1]
	return local.module, local, ""
}

func isUnknown(v value) bool {
	_, ok := v.(*unknown)
	return ok
}

// importName is a name of a module: what the module defines, or for a package a
// module in it.
func (in *interp) importName(m value, local *localModule, name string) (value, bool) {
	if v, ok := in.getAttr(m, name); ok || local == nil {
		return v, ok
	}
	if local.path != "" && local.pack == "" {
		return nil, false
	}
	chain, looked := in.localImport(local.pack, []string{name})
	if chain != nil {
		local.attrs[name] = chain[0].module
		return chain[0].module, true
	}
	if local.path == "" { // from . import name
		return in.notFound(local.name+name, looked), true
	}
	return nil, false
}

// importAll is from module import *.
func (in *interp) importAll(f *frame, m *module) {
	names := sortedKeys(m.attrs)
	if all, ok := m.attrs["__all__"]; ok {
		names = nil
		for _, v := range in.iterate(all) {
			if s, ok := v.(string); ok {
				names = append(names, s)
			}
		}
	}
	for _, k := range names {
		if v, ok := m.attrs[k]; ok && (m.attrs["__all__"] != nil || !strings.HasPrefix(k, "_")) {
			in.assignName(f, k, v)
		}
	}
}

// noName says that a file does not define what is imported from it.
func (in *interp) noName(m *localModule, name string) *failure {
	f := in.errorf("%s defines no %s", m.path, name).is("ImportError")
	if m.loading {
		return f.hint("the two files import each other: %s is not defined yet when it is asked for", name)
	}
	if near := diag.Nearest(name, sortedKeys(m.attrs)); near != "" {
		f.hint("did you mean %s?", near)
	}
	return f
}
