package tilelang

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script/syntax"
)

// Setting is NAME=VALUE as the user gave it. The value is a Python literal or
// an expression over the file's module (T.float16); a bare word is a string.
type Setting struct{ Name, Value string }

// Options say what to read of a file.
type Options struct {
	Set  []Setting
	Func string // the kernel, "" if the file holds one
	// Arch is what the kernel is compiled for, such as "sm_90a": what the source is
	// told of the GPU it runs on. "" leaves that unknown.
	Arch string
	// Open reads another file that the kernel's file imports, by its path from the
	// kernel's directory on, with slashes; found is false if there is none. Nil:
	// nothing can be imported.
	Open func(path string) (text string, found bool, err error)
}

// Style is how a kernel is written.
type Style uint8

// The styles of kernels.
const (
	PrimFunc Style = iota // a module-level @T.prim_func
	Factory               // a function that returns one
	Lazy                  // a @tilelang.jit function that returns one
	Eager                 // a @tilelang.jit function that is the kernel
)

var styleNames = [...]string{"@T.prim_func", "factory", "@tilelang.jit factory", "@tilelang.jit kernel"}

// String names the style for messages.
func (s Style) String() string { return styleNames[s] }

// Kernel is a kernel in a file.
type Kernel struct {
	Name  string // of the function at the top of the file
	Style Style
	Span  ir.Span
}

// Parameter is something that can be set.
type Parameter struct {
	Name    string
	Kind    string // "argument", "size", "constant", "symbolic size", "scalar" or "device"
	Default string // in Python's spelling; "" if there is none
}

// PassConfig is an entry of pass_configs. Value is in Python's spelling without
// quotes: True, 3, fast.
type PassConfig struct{ Key, Value string }

// Program is what a file holds.
type Program struct {
	Kernels []Kernel
	Kernel  Kernel       // the selected one
	Module  *ir.IRModule // nil if there are errors
	// Parameters lists what can be set for the selected kernel.
	Parameters []Parameter
	// Runtime are the settings that give symbolic sizes and scalars a value:
	// they change no IR, but runs of it.
	Runtime []Setting
	// PassConfigs and Target are those of the decorator or the kernel's body.
	PassConfigs []PassConfig
	Target      string
	// AsksDevice says that the source asked for the GPU: another Options.Arch may
	// give another module.
	AsksDevice bool
	// Imports are the other files that were read, in order.
	Imports []*ir.Source
}

// Load reads the selected kernel of a file as a module. When the diagnostics
// hold an error the module is nil.
func Load(src *ir.Source, opts Options) (*ir.IRModule, *diag.List) {
	p, diags := Open(src, opts)
	if diags.HasErrors() || p == nil {
		return nil, diags
	}
	return p.Module, diags
}

// IsSource reports a text that is TileLang source rather than TVMScript: it
// imports tilelang.
func IsSource(text string) bool {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && (f[0] == "import" || f[0] == "from") && (f[1] == "tilelang" || strings.HasPrefix(f[1], "tilelang.") || strings.HasPrefix(f[1], "tilelang,")) {
			return true
		}
	}
	return false
}

// kernelCall is a call of a kernel's function with its arguments.
type kernelCall struct {
	jit  *jitFunc
	fn   *function
	args *args
}

// selection is the kernel to read.
type selection struct {
	kernel Kernel
	def    *syntax.FuncDef
	inner  string // name of the @T.prim_func within, if it was asked for
	set    map[string]Setting
	used   map[string]bool
	claims map[string]bool // names that the kernel itself takes
	consts []string        // names of T.const in the body
	value  value           // the selected function once it is defined
	chain  []*function     // the factories called for it, outermost first
	numSMs int64           // what the source was told, 0 if it did not ask
	built  *ir.PrimFunc
	err    *failure
}

// Open reads a file and builds the selected kernel.
func Open(src *ir.Source, opts Options) (prog *Program, diags *diag.List) {
	diags = &diag.List{}
	file := syntax.Parse(src, diags)
	if file == nil || diags.HasErrors() {
		return nil, diags
	}
	prog = &Program{}
	in := newInterp(file, diags)
	in.open, in.arch = opts.Open, opts.Arch
	defer func() {
		prog.Imports, prog.AsksDevice = in.imp.sources, in.askedDevice
		r := recover()
		if r == nil {
			return
		}
		f, ok := r.(*failure)
		if !ok {
			// A mistake of ours must not take the caller down.
			f = in.errorf("internal error: %v", r)
			if debugPanics {
				fmt.Printf("%v\n%s\n", r, debug.Stack())
			}
		}
		in.report(f)
		if !diags.HasErrors() {
			diags.Errorf(in.here(), "the kernel could not be evaluated")
		}
		prog.Module = nil
	}()
	defs := in.findKernels(prog)
	in.selectKernel(prog, defs, opts)
	in.runModule()
	in.build(prog)
	return prog, diags
}

// newInterp is an evaluator of a kernel's file.
func newInterp(file *syntax.File, diags *diag.List) *interp {
	in := &interp{pyFile: &pyFile{file: file, globals: newFrame(nil)}, diags: diags, lang: newLang()}
	in.main = in.pyFile
	in.imp.modules = map[string]*localModule{}
	in.allow(MaxSteps)
	return in
}

// debugPanics prints the stack of internal errors, for tests.
var debugPanics = false

// maxFactories bounds the factories that return each other.
const maxFactories = 8

// tilelangNames are the names in a file that TileLang's modules and their
// members are imported as.
func tilelangNames(file *syntax.File) map[string]bool {
	names := map[string]bool{"T": true, "tilelang": true}
	walkStmts(file.Body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Import:
			for _, a := range n.Names {
				root, _, _ := strings.Cut(a.Name, ".")
				if root == "tilelang" {
					names[cmp.Or(a.As, root)] = true
				}
			}
		case *syntax.ImportFrom:
			if n.Module == "tilelang" || strings.HasPrefix(n.Module, "tilelang.") {
				for _, a := range n.Names {
					names[cmp.Or(a.As, a.Name)] = true
				}
			}
		}
		return true
	})
	return names
}

func rootName(e syntax.Expr) string {
	switch e := e.(type) {
	case *syntax.Name:
		return e.ID
	case *syntax.Attr:
		return rootName(e.X)
	case *syntax.Call:
		return rootName(e.Fn)
	}
	return ""
}

// findKernels lists the kernels of the file in order.
func (in *interp) findKernels(prog *Program) []*syntax.FuncDef {
	names := tilelangNames(in.file)
	var defs []*syntax.FuncDef
	has := func(d *syntax.FuncDef, want ...string) bool {
		for _, e := range d.Decorators {
			if !names[rootName(e)] {
				continue
			}
			for _, w := range want {
				if lastName(e) == w {
					return true
				}
			}
		}
		return false
	}
	var visit func(list []syntax.Stmt)
	visit = func(list []syntax.Stmt) {
		for _, s := range list {
			switch s := s.(type) {
			case *syntax.If:
				if !isMain(s) {
					visit(s.Then)
					visit(s.Else)
				}
			case *syntax.Try:
				visit(s.Body)
			case *syntax.FuncDef:
				k := Kernel{Name: s.Name, Span: in.file.Span(s.NameLoc)}
				switch {
				case has(s, "prim_func"):
					k.Style = PrimFunc
				case has(s, "jit", "lazy_jit", "autotune"):
					k.Style = Lazy
					if isEager(s) {
						k.Style = Eager
					}
				case has(s, "macro"):
					continue
				default:
					inner := false
					walkStmts(s.Body, func(n syntax.Node) bool {
						if d, ok := n.(*syntax.FuncDef); ok && has(d, "prim_func", "jit") {
							inner = true
						}
						return !inner
					})
					if !inner {
						continue
					}
					k.Style = Factory
				}
				prog.Kernels = append(prog.Kernels, k)
				defs = append(defs, s)
			}
		}
	}
	visit(in.file.Body)
	return defs
}

// isMain reports `if __name__ == "__main__":`.
func isMain(s *syntax.If) bool {
	b, ok := s.Cond.(*syntax.Binary)
	if !ok || b.Op != syntax.EQ {
		return false
	}
	x, okX := b.X.(*syntax.Name)
	y, okY := b.Y.(*syntax.Str)
	return okX && okY && x.ID == "__name__" && y.Value == "__main__"
}

// selectKernel chooses the kernel, by name or because it is the only one.
func (in *interp) selectKernel(prog *Program, defs []*syntax.FuncDef, opts Options) {
	sel := &in.sel
	sel.set, sel.used, sel.claims = map[string]Setting{}, map[string]bool{}, map[string]bool{}
	for _, s := range opts.Set {
		sel.set[s.Name] = s
	}
	pick := -1
	var names []string
	for i, k := range prog.Kernels {
		names = append(names, k.Name)
		if opts.Func != "" && k.Name == opts.Func {
			pick = i // the last of a name counts, as in Python
		}
	}
	at := ir.Span{Src: in.file.Source}
	switch {
	case opts.Func != "" && pick < 0:
		for i, d := range defs {
			found := false
			walkStmts(d.Body, func(n syntax.Node) bool {
				if x, ok := n.(*syntax.FuncDef); ok && x.Name == opts.Func {
					found = true
				}
				return true
			})
			if !found {
				continue
			}
			if pick >= 0 {
				f := in.errorAt(at, "several kernels are named %s", opts.Func).hint("choose the function around with --func")
				for _, k := range prog.Kernels {
					f.note(k.Span, "%s %s", k.Style, k.Name)
				}
				panic(f)
			}
			pick, sel.inner = i, opts.Func
		}
		if pick < 0 {
			f := in.errorAt(at, "the file holds no kernel %s", opts.Func)
			if near := diag.Nearest(opts.Func, names); near != "" {
				f.hint("did you mean %s?", near)
			} else if len(names) > 0 {
				f.hint("it holds %s", strings.Join(names, ", "))
			}
			panic(f)
		}
	case opts.Func == "":
		pick = in.onlyKernel(prog, defs)
	}
	sel.kernel, sel.def = prog.Kernels[pick], defs[pick]
	prog.Kernel = sel.kernel
	if sel.kernel.Style != PrimFunc {
		for _, p := range sel.def.Params {
			sel.claims[p.Name] = true
		}
	}
	if sel.kernel.Style == Eager {
		walkStmts(sel.def.Body, func(n syntax.Node) bool {
			c, ok := n.(*syntax.Call)
			if !ok || lastName(c.Fn) != "const" || len(c.Args) == 0 {
				return true
			}
			if s, ok := c.Args[0].(*syntax.Str); ok {
				in.namedVars(s.Value, func(n string) value {
					sel.consts = append(sel.consts, n)
					sel.claims[n] = true
					return none
				})
			}
			return true
		})
	}
}

// onlyKernel is the kernel of a file without --func. Factories that another
// kernel of the file calls count only if there is nothing else.
func (in *interp) onlyKernel(prog *Program, defs []*syntax.FuncDef) int {
	at := ir.Span{Src: in.file.Source}
	if len(defs) == 0 {
		panic(in.errorAt(at, "the file holds no kernel").hint("expected a function with @T.prim_func or @tilelang.jit, or one that returns a kernel"))
	}
	if len(defs) == 1 {
		return 0
	}
	last := map[string]int{}
	for i, k := range prog.Kernels {
		last[k.Name] = i
	}
	var open []int
	for i, k := range prog.Kernels {
		if last[k.Name] != i {
			continue
		}
		called := false
		for j, d := range defs {
			if j == i || prog.Kernels[j].Style == PrimFunc {
				continue
			}
			walkStmts(d.Body, func(n syntax.Node) bool {
				if c, ok := n.(*syntax.Call); ok {
					if x, ok := c.Fn.(*syntax.Name); ok && x.ID == k.Name {
						called = true
					}
				}
				return !called
			})
		}
		if !called {
			open = append(open, i)
		}
	}
	if len(open) == 1 {
		return open[0]
	}
	f := in.errorAt(at, "the file holds %s", diag.Count(len(last), "kernel")).hint("choose one with --func NAME")
	for i, k := range prog.Kernels {
		if last[k.Name] == i {
			f.note(k.Span, "%s (%s)", k.Name, k.Style)
		}
	}
	panic(f)
}

// runModule runs the statements of the file. What fails leaves its names
// unknown.
func (in *interp) runModule() {
	in.lenient(in.globals, in.file.Body)
}

// lenient runs statements one by one; a failed one makes its targets unknown.
func (in *interp) lenient(f *frame, body []syntax.Stmt) {
	for _, s := range body {
		in.allow(MaxModuleSteps)
		fl := in.try(func() { in.stmt(f, s) })
		if fl == nil {
			continue
		}
		if fl.kind == "AssertionError" && !in.dry {
			in.report(fl)
		}
		if fl.silent && fl.kind == "" {
			fl.kind = "NameError"
		}
		in.poison(f, s, fl)
		if f == in.main.globals {
			walkStmts([]syntax.Stmt{s}, func(n syntax.Node) bool {
				switch n := n.(type) {
				case *syntax.FuncDef, *syntax.ClassDef, *syntax.Lambda:
					return false
				case *syntax.Assign:
					in.overrideModule(n)
				}
				return true
			})
		}
	}
	in.allow(MaxSteps)
}

// overrideModule gives module constants the values of settings.
func (in *interp) overrideModule(s *syntax.Assign) {
	var visit func(e syntax.Expr)
	visit = func(e syntax.Expr) {
		switch e := e.(type) {
		case *syntax.Name:
			set, ok := in.sel.set[e.ID]
			if !ok || in.sel.claims[e.ID] {
				return
			}
			switch in.globals.vars[e.ID].(type) {
			case *ir.Var, *primFunc, *jitFunc, *function, *module:
				return
			}
			in.globals.vars[e.ID] = in.settingValue(set)
			in.sel.used[e.ID] = true
		case *syntax.Tuple:
			for _, x := range e.Elts {
				visit(x)
			}
		case *syntax.List:
			for _, x := range e.Elts {
				visit(x)
			}
		}
	}
	for _, t := range s.Targets {
		visit(t)
	}
}

// settingValue evaluates the value of a setting in the module's scope.
func (in *interp) settingValue(s Setting) value {
	src := ir.NewSource("--set "+s.Name, s.Value)
	diags := &diag.List{}
	e := syntax.ParseExpr(src, diags)
	if e == nil || diags.HasErrors() {
		return s.Value
	}
	if n, ok := e.(*syntax.Name); ok {
		switch strings.ToLower(n.ID) {
		case "true":
			return true
		case "false":
			return false
		}
		if _, scope := in.globals.lookup(n.ID); scope == nil {
			// TileLang's dtype is a string, with more attributes.
			if t, ok := in.dtypeName(n.ID); ok && t.String() == n.ID {
				return t
			}
			return n.ID
		}
	}
	sub := *in
	sub.pyFile = &pyFile{file: &syntax.File{Source: src}, globals: in.globals}
	sub.allow(MaxModuleSteps)
	var v value
	if fl := sub.try(func() { v = sub.eval(in.globals, e) }); fl != nil {
		if fl.kind == "NameError" {
			return s.Value
		}
		panic(fl)
	}
	if f, ok := v.(*builtin); ok && f.sig == nil {
		return s.Value
	}
	return v
}

// moduleKernel notes the selected kernel when its definition has run. A
// @T.prim_func is built there, for the module's constants may change after it.
func (in *interp) moduleKernel(name string, v value) {
	if name != in.sel.kernel.Name {
		return
	}
	in.sel.value = v
	p, ok := v.(*primFunc)
	if !ok || p.fn.def != in.sel.def {
		return
	}
	in.sel.err = in.try(func() { in.sel.built = p.build(in) })
}

// build makes the module of the selected kernel.
func (in *interp) build(prog *Program) {
	sel := &in.sel
	v, _ := in.main.globals.lookup(sel.kernel.Name)
	if _, fn := sel.value.(*function); sel.value != nil && !fn {
		if _, again := v.(*jitFunc); !again {
			v = sel.value
		}
	}
	if fl := in.try(func() { in.buildFrom(prog, v) }); fl != nil {
		in.report(fl)
	}
	if sel.built != nil {
		prog.Module = &ir.IRModule{Funcs: []*ir.PrimFunc{sel.built}, Bare: true}
	}
	in.listParameters(prog)
	in.checkSettings(prog)
	if in.diags.HasErrors() {
		prog.Module = nil
	}
}

func (in *interp) buildFrom(prog *Program, v value) {
	sel := &in.sel
	in.at = sel.def.NameLoc
	switch k := v.(type) {
	case *primFunc:
		if sel.built == nil && sel.err == nil {
			sel.built = k.build(in)
		}
		if sel.err != nil {
			panic(sel.err)
		}
	case *jitFunc:
		in.jitOptions(prog, k)
		if sel.kernel.Style == Eager {
			sel.built = in.buildEager(k)
			return
		}
		sel.built = in.buildFactory(prog, k.fn, k.tune)
	case *function:
		sel.built = in.buildFactory(prog, k, none)
	case *unknown:
		panic(in.needKnown(k))
	case nil:
		panic(in.errorf("%s is never defined", sel.kernel.Name))
	default:
		panic(in.errorf("%s is %s, not a kernel", sel.kernel.Name, in.typeWithValue(v)))
	}
}

// jitOptions reads pass_configs and target of the decorator.
func (in *interp) jitOptions(prog *Program, j *jitFunc) {
	if d, ok := j.opts["pass_configs"].(*dict); ok {
		for i, k := range d.keys {
			if _, bad := d.vals[i].(*unknown); bad {
				continue
			}
			prog.PassConfigs = append(prog.PassConfigs, PassConfig{in.str(k), in.str(d.vals[i])})
		}
	}
	if s, ok := j.opts["target"].(string); ok {
		prog.Target = s
	}
}

func (in *interp) buildEager(j *jitFunc) *ir.PrimFunc {
	defer in.enterFunction(j.fn)()
	in.sel.chain = append(in.sel.chain, j.fn)
	tensors := in.tensorParams(j.fn)
	given := in.arguments(j.fn, j.tune, tensors)
	in.at = in.sel.def.NameLoc
	return in.buildKernel(j.fn, tensors, given)
}

// buildFactory calls the function and builds the kernel it returns.
func (in *interp) buildFactory(prog *Program, fn *function, tune value) *ir.PrimFunc {
	if len(in.sel.chain) == maxFactories {
		panic(in.errorf("%s returns more than %d factories one after the other", in.sel.kernel.Name, maxFactories))
	}
	defer in.enterFunction(fn)()
	in.sel.chain = append(in.sel.chain, fn)
	given := in.arguments(fn, tune, nil)
	a := &args{call: fn.nameSpan()}
	for _, p := range fn.params {
		v, ok := given[p.Name]
		if !ok {
			continue
		}
		if p.Kind == syntax.PositionalOnly {
			a.pos = append(a.pos, v)
			continue
		}
		a.kw = append(a.kw, kwarg{p.Name, v, a.call})
	}
	in.at = fn.def.NameLoc
	in.allow(MaxSteps)
	in.building = true
	r := in.callFunction(fn, a)
	if in.sel.inner != "" {
		if p, ok := in.innerFuncs[in.sel.inner]; ok {
			return p.build(in)
		}
	}
	switch k := r.(type) {
	case *primFunc:
		return k.build(in)
	case *tuple:
		for _, e := range k.elts {
			if p, ok := e.(*primFunc); ok {
				return p.build(in)
			}
		}
	case *jitFunc:
		in.jitOptions(prog, k)
		if isEager(k.fn.def) {
			return in.buildEager(k)
		}
		return in.buildFactory(prog, k.fn, k.tune)
	case *function:
		if k.def != nil {
			return in.buildFactory(prog, k, none)
		}
	case *unknown:
		panic(in.needKnown(k))
	}
	in.at = fn.def.NameLoc
	panic(in.errorf("%s returns %s: expected a kernel", fn.name, in.typeWithValue(r)).hint("return the function with @T.prim_func"))
}

// listParameters lists what can be set.
func (in *interp) listParameters(prog *Program) {
	sel := &in.sel
	show := func(v value) string {
		s := ""
		in.try(func() { s = in.describe(v) })
		return s
	}
	fn, _ := sel.value.(*function)
	if j, ok := sel.value.(*jitFunc); ok {
		fn = j.fn
	}
	chain := sel.chain
	if len(chain) == 0 && fn != nil && sel.kernel.Style != PrimFunc {
		chain = []*function{fn}
	}
	for _, fn := range chain {
		tensors := map[string]bool{}
		if isEager(fn.def) {
			tensors = in.tensorParams(fn)
		}
		for i, p := range fn.params {
			if tensors[p.Name] || p.Kind == syntax.VarArgs || p.Kind == syntax.VarKeywords {
				continue
			}
			x := Parameter{Name: p.Name, Kind: "argument"}
			if fn.defaults[i] != nil {
				x.Default = show(fn.defaults[i])
			}
			prog.Parameters = append(prog.Parameters, x)
		}
	}
	for _, c := range sel.consts {
		prog.Parameters = append(prog.Parameters, Parameter{Name: c, Kind: "size"})
	}
	constant := func(name string) {
		if v := in.main.globals.vars[name]; !sel.claims[name] && v != nil && isConstant(v) {
			prog.Parameters = append(prog.Parameters, Parameter{name, "constant", show(v)})
		}
	}
	for _, s := range in.main.file.Body {
		switch s := s.(type) {
		case *syntax.Assign:
			for _, t := range s.Targets {
				walkNode(t, func(n syntax.Node) bool {
					if x, ok := n.(*syntax.Name); ok {
						constant(x.ID)
					}
					return true
				})
			}
		case *syntax.ImportFrom: // what a file beside this one defines
			for _, a := range s.Names {
				if name := cmp.Or(a.As, a.Name); !tilelangNames(in.main.file)[name] {
					constant(name)
				}
			}
		}
	}
	if sel.numSMs > 0 {
		prog.Parameters = append(prog.Parameters, Parameter{smSetting, "device", show(sel.numSMs)})
	}
	if sel.built == nil {
		return
	}
	for _, v := range freeSizes(sel.built) {
		prog.Parameters = append(prog.Parameters, Parameter{Name: v.Name, Kind: "symbolic size"})
	}
	for _, p := range sel.built.Params {
		if !p.Type.IsHandle() {
			prog.Parameters = append(prog.Parameters, Parameter{Name: p.Name, Kind: "scalar"})
		}
	}
}

// freeSizes are the variables in the shapes of the parameters.
func freeSizes(f *ir.PrimFunc) []*ir.Var {
	seen := map[*ir.Var]bool{}
	var out []*ir.Var
	for _, p := range f.Params {
		seen[p] = true
	}
	for _, b := range f.BufferMap {
		for _, list := range [][]ir.Expr{b.Buffer.Shape, b.Buffer.Strides} {
			for _, e := range list {
				ir.WalkExpr(e, func(e ir.Expr) bool {
					if v, ok := e.(*ir.Var); ok && !seen[v] {
						seen[v] = true
						out = append(out, v)
					}
					return true
				})
			}
		}
	}
	return out
}

// checkSettings refuses settings that nothing takes.
func (in *interp) checkSettings(prog *Program) {
	if prog.Module == nil && in.diags.HasErrors() {
		return // what the kernel takes is not known
	}
	kinds := map[string]int{}
	var names []string
	for _, p := range prog.Parameters {
		names = append(names, p.Name)
		if p.Kind == "symbolic size" || p.Kind == "scalar" {
			kinds[p.Name]++
		}
	}
	for _, name := range sortedKeys(in.sel.set) {
		if in.sel.used[name] {
			continue
		}
		s := in.sel.set[name]
		switch kinds[name] {
		case 1:
			prog.Runtime = append(prog.Runtime, s)
			continue
		case 0:
		default:
			panic(in.errorAt(in.sel.kernel.Span, "%s is ambiguous: several sizes of %s have this name", name, in.sel.kernel.Name))
		}
		f := in.errorAt(in.sel.kernel.Span, "%s takes no setting %s", in.sel.kernel.Name, name)
		if near := diag.Nearest(name, names); near != "" {
			f.hint("did you mean %s?", near)
		} else if len(names) > 0 {
			f.hint("it takes %s", strings.Join(names, ", "))
		}
		panic(f)
	}
}
