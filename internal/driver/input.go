package driver

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"lowertrace/internal/diag"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/tilelang"
	"lowertrace/internal/trace"
)

// EmbeddedKernel is the kernel `run` lowers when no file is given.
const EmbeddedKernel = "softmax"

//go:embed kernels/softmax.tir
var embeddedSource string

// input is one kernel file as it was read.
type input struct {
	name string // as the user named it
	stem string // of the script directory
	key  string // tells inputs of one stem apart
	src  *ir.Source
	mod  *ir.IRModule
	from *resumed // the run it was taken from; nil for a file

	python     bool                                   // TileLang source
	imports    []*ir.Source                           // other files that it was made from
	asked      []askedFile                            // files that were looked for besides
	runtime    []string                               // settings of symbolic sizes and scalars
	passConfig []string                               // of the source's decorator, KEY=VALUE
	target     string                                 // likewise
	again      func(arch string) (*input, *diag.List) // reads it for another GPU, which the source asks for; nil if it does not
	arch       string                                 // that it was read for
}

// place is the input's name and the line its kernel begins on.
func (in *input) place() string { return in.placeOf(in.mod.Funcs[0].Name) }

// placeOf is the input's name and the line that a function of it begins on.
func (in *input) placeOf(function string) string {
	if f := in.mod.Func(function); f != nil && f.Org.IsValid() {
		return fmt.Sprintf("%s:%d", in.name, f.Org.Line())
	}
	return in.name
}

// hash is the SHA-256 of the input's text; where it imports others, of their
// names and texts as well.
func (in *input) hash() string {
	text := in.src.Text
	for _, s := range in.imports {
		text += "\x00" + s.Name + "\x00" + s.Text
	}
	return hashOf(text)
}

func hashOf(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// askedFile is a file that an import was looked for in.
type askedFile struct {
	path  string
	found bool
	text  string
}

// readKernel reads and parses a kernel file; "" is the embedded kernel and "-"
// standard input. What is wrong with the text is told on stderr; the files it
// was looked for in are returned all the same.
func (d *Deps) readKernel(path, traceDir string, so SourceOptions) (*input, error) {
	in := &input{name: path}
	var text string
	var err error
	switch path {
	case "":
		in.name, in.stem, in.key = EmbeddedKernel+".tir", EmbeddedKernel, trace.EmbeddedKey(EmbeddedKernel)
		text = embeddedSource
	case "-":
		in.name, in.stem, in.key = "stdin", trace.StdinStem, trace.StdinKey
		if text, err = readInput(d.Stdin); err != nil {
			return nil, Usagef("standard input: %v", err)
		}
	default:
		base := filepath.Base(path)
		in.stem = strings.TrimSuffix(base, filepath.Ext(base))
		in.key = trace.InputKey(absolute(traceDir), absolute(path))
		if text, err = readFile(path); err != nil {
			return nil, openError(path, err)
		}
	}
	in.src = ir.NewSource(in.name, text)
	var diags *diag.List
	if filepath.Ext(path) == ".py" || tilelang.IsSource(text) {
		dir := ""
		if path != "" && path != "-" {
			dir = filepath.Dir(path)
		}
		diags = in.evaluate(dir, so)
	} else {
		in.mod, diags = script.Parse(in.src, script.Options{})
		in.runtime = so.Set
	}
	if diags.Len() > 0 {
		d.printDiagnostics(diags)
	}
	if in.mod == nil || diags.HasErrors() {
		return in, reported(ExitUsage)
	}
	if in.python {
		return in, nil // the evaluator knows functions and settings
	}
	if so.Func != "" {
		if err := in.pickFunction(so.Func); err != nil {
			return in, err
		}
	}
	if err := knownSettings(in.mod, so.Set); err != nil {
		return in, err
	}
	return in, nil
}

// evaluate takes the kernel out of TileLang source. What it imports is looked
// for in the folder dir alone; "": nowhere.
func (in *input) evaluate(dir string, so SourceOptions) *diag.List {
	was := *in
	in.python, in.arch = true, cmp.Or(so.arch, DefaultTarget)
	opts := tilelang.Options{Func: so.Func, Arch: in.arch}
	if dir != "" {
		opts.Open = func(name string) (string, bool, error) {
			f := askedFile{path: filepath.Join(dir, filepath.FromSlash(name))}
			err := f.read()
			in.asked = append(in.asked, f)
			return f.text, f.found, err
		}
	}
	for _, kv := range so.Set {
		name, value, _ := strings.Cut(kv, "=")
		opts.Set = append(opts.Set, tilelang.Setting{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	prog, diags := tilelang.Open(in.src, opts)
	if prog == nil {
		return diags
	}
	if prog.AsksDevice {
		in.again = func(arch string) (*input, *diag.List) {
			of, so := was, so
			so.arch = arch
			diags := of.evaluate(dir, so)
			return &of, diags
		}
	}
	in.mod, in.imports = prog.Module, prog.Imports
	for _, s := range prog.Runtime {
		in.runtime = append(in.runtime, s.Name+"="+s.Value)
	}
	for _, c := range prog.PassConfigs {
		in.passConfig = append(in.passConfig, c.Key+"="+c.Value)
	}
	in.target = prog.Target
	return diags
}

// inputFor is the input for a target: a source that asks for the GPU it runs on
// may make another kernel for each.
func (d *Deps) inputFor(in *input, arch string) (*input, error) {
	if in.again == nil || in.arch == arch {
		return in, nil
	}
	of, diags := in.again(arch)
	if diags.Len() > 0 {
		d.printDiagnostics(diags)
	}
	if of.mod == nil || diags.HasErrors() {
		return nil, reported(ExitUsage)
	}
	return of, nil
}

// read reads the file; one that is not there is no error.
func (f *askedFile) read() error {
	file, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		f.found, f.text = false, ""
		return nil
	}
	if err != nil {
		return pathless(err)
	}
	defer file.Close()
	if st, err := file.Stat(); err == nil && st.IsDir() {
		f.found, f.text = false, ""
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(file, tilelang.MaxFileBytes+1)) // the evaluator refuses what is longer
	f.found, f.text = err == nil, string(b)
	return pathless(err)
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readInput(f)
}

// absolute is path from the root, or as it is where the working directory is
// not known.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
