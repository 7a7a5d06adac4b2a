package driver

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/npy"
)

// readArrays reads the .npy files of a folder by name: what is left of the
// file's name without the first suffix that fits. Nil for no folder.
func readArrays(dir string, suffixes ...string) (map[string]*npy.Array, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, openError(dir, err)
	}
	arrays := map[string]*npy.Array{}
	for _, suffix := range suffixes {
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), suffix)
			if !ok || name == "" || strings.Contains(name, ".") || arrays[name] != nil {
				continue
			}
			path := filepath.Join(dir, e.Name())
			f, err := os.Open(path)
			if err != nil {
				return nil, openError(path, err)
			}
			a, err := npy.Read(bufio.NewReader(f))
			f.Close()
			if err != nil {
				return nil, Usagef("%s: %v", path, err)
			}
			arrays[name] = a
		}
	}
	if len(arrays) == 0 {
		return nil, Usagef("%s holds no array (NAME%s)", dir, strings.Join(suffixes, " or NAME"))
	}
	return arrays, nil
}

// checkInputs are the inputs a module is run on: those given, the rest drawn.
func (d *Deps) checkInputs(m *ir.IRModule, o CheckOptions) (interp.Args, error) {
	given, err := readArrays(o.Inputs, ".in.npy", ".npy")
	if err != nil {
		return interp.Args{}, err
	}
	handles := handleNames(m)
	for buffer, handle := range handles { // both names serve
		bothNames(given, buffer, handle)
	}
	in := interp.InputOptions{Given: given, Set: sizesOf(m, given), Specs: map[string]string{}}
	set, err := readSettings("--set", o.Set)
	if err != nil {
		return interp.Args{}, err
	}
	if err := knownSettings(m, o.Set); err != nil {
		return interp.Args{}, err
	}
	maps.Copy(in.Set, set)
	for _, kv := range o.InputSpec {
		name, spec, ok := strings.Cut(kv, "=")
		if !ok {
			return interp.Args{}, Usagef("--input %s: expected NAME=HOW, for example X=uniform_int:0..9", kv)
		}
		in.Specs[name] = spec
	}
	for buffer, handle := range handles {
		bothNames(in.Specs, buffer, handle)
	}
	args, err := interp.Inputs(m, in)
	if err != nil {
		return interp.Args{}, Usagef("inputs: %v", err)
	}
	for buffer, handle := range handles {
		bothNames(args.Arrays, buffer, handle)
	}
	buffers := slices.Sorted(maps.Keys(args.Arrays))
	for name := range in.Specs {
		if err := knownName("--input", name, m, "buffer", buffers); err != nil {
			return interp.Args{}, err
		}
	}
	for _, name := range o.Unordered {
		if err := knownName("--unordered", name, m, "buffer", buffers); err != nil {
			return interp.Args{}, err
		}
	}
	return args, nil
}

// knownName refuses a name in the value of a flag that the kernel does not have.
func knownName(flag, name string, m *ir.IRModule, what string, known []string) error {
	switch {
	case slices.Contains(known, name):
		return nil
	case len(known) == 0:
		return Usagef("%s %s: %s has no %s", flag, name, m.Funcs[0].Name, what)
	}
	return Usagef("%s %s: %s has no such %s, it has %s%s", flag, name, m.Funcs[0].Name, what, strings.Join(known, ", "), DidYouMean(name, known))
}

// knownSettings refuses settings, NAME=VALUE, of sizes and scalars that a module
// does not have.
func knownSettings(m *ir.IRModule, set []string) error {
	known := sizeNames(m)
	for _, kv := range set {
		name, _, _ := strings.Cut(kv, "=")
		if err := knownName("--set", strings.TrimSpace(name), m, "size or scalar", known); err != nil {
			return err
		}
	}
	return nil
}

// sizeNames are the scalar parameters of a module and the sizes in the shapes
// of its buffers.
func sizeNames(m *ir.IRModule) []string {
	names := map[string]bool{}
	for _, f := range m.Funcs {
		for _, p := range f.Params {
			if !p.Type.IsHandle() {
				names[p.Name] = true
			}
		}
		for _, b := range f.BufferMap {
			for _, list := range [][]ir.Expr{b.Buffer.Shape, b.Buffer.Strides, {b.Buffer.ElemOffset}} {
				for _, e := range list {
					ir.WalkExpr(e, func(e ir.Expr) bool {
						if v, ok := e.(*ir.Var); ok {
							names[v.Name] = true
						}
						return true
					})
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// handleNames maps each buffer of a parameter to the name of its handle
// without the _handle. TVMScript renames a buffer R to R_1 where another R
// comes first; the packed interface speaks of R again.
func handleNames(m *ir.IRModule) map[string]string {
	names := map[string]string{}
	for _, f := range m.Funcs {
		for _, b := range f.BufferMap {
			if n := strings.TrimSuffix(b.Param.Name, "_handle"); n != b.Buffer.Name {
				names[b.Buffer.Name] = n
			}
		}
	}
	return names
}

// renameArrays gives arrays that are named as handles are the names of their
// buffers.
func renameArrays(m *ir.IRModule, arrays map[string]*npy.Array) {
	for buffer, handle := range handleNames(m) {
		if a := arrays[handle]; a != nil && arrays[buffer] == nil {
			arrays[buffer] = a
			delete(arrays, handle)
		}
	}
}

// sizesOf are the symbolic sizes that the shapes of given arrays settle.
func sizesOf(m *ir.IRModule, arrays map[string]*npy.Array) map[string]float64 {
	sizes := map[string]float64{}
	for _, f := range m.Funcs {
		for _, b := range f.BufferMap {
			a := arrays[b.Buffer.Name]
			if a == nil || len(a.Shape) != len(b.Buffer.Shape) {
				continue
			}
			for i, e := range b.Buffer.Shape {
				if v, ok := e.(*ir.Var); ok {
					sizes[v.Name] = float64(a.Shape[i])
				}
			}
		}
	}
	return sizes
}
