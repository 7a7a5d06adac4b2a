package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// nvrtcAPI is the part of NVRTC that the package uses (nvrtc.h).
type nvrtcAPI struct {
	Version           func(major, minor *int32) int32                                                        `sym:"nvrtcVersion"`
	ErrorString       func(result int32) string                                                              `sym:"nvrtcGetErrorString"`
	NumSupportedArchs func(n *int32) int32                                                                   `sym:"nvrtcGetNumSupportedArchs"`
	SupportedArchs    func(archs *int32) int32                                                               `sym:"nvrtcGetSupportedArchs"`
	CreateProgram     func(prog *uintptr, src, name *byte, numHeaders int32, headers, includes **byte) int32 `sym:"nvrtcCreateProgram"`
	DestroyProgram    func(prog *uintptr) int32                                                              `sym:"nvrtcDestroyProgram"`
	CompileProgram    func(prog uintptr, numOptions int32, options **byte) int32                             `sym:"nvrtcCompileProgram"`
	LogSize           func(prog uintptr, size *uintptr) int32                                                `sym:"nvrtcGetProgramLogSize"`
	Log               func(prog uintptr, log *byte) int32                                                    `sym:"nvrtcGetProgramLog"`
	CubinSize         func(prog uintptr, size *uintptr) int32                                                `sym:"nvrtcGetCUBINSize"`
	Cubin             func(prog uintptr, cubin *byte) int32                                                  `sym:"nvrtcGetCUBIN"`
	PTXSize           func(prog uintptr, size *uintptr) int32                                                `sym:"nvrtcGetPTXSize"`
	PTX               func(prog uintptr, ptx *byte) int32                                                    `sym:"nvrtcGetPTX"`
}

// NVRTC is an opened libnvrtc. It stays open for the life of the process and
// may be used by several goroutines.
type NVRTC struct {
	api          *nvrtcAPI
	path         string
	includes     []string
	major, minor int
	archs        []int
}

// OpenNVRTC finds libnvrtc and opens it. The error is a *MissingError.
func OpenNVRTC(f *Finder) (*NVRTC, error) {
	if !canLoad {
		return nil, &MissingError{What: "NVRTC", Reason: "this binary was built without GPU support", Help: helpBuild}
	}
	found, err := f.findNVRTC()
	if err != nil {
		return nil, err
	}
	missing := &MissingError{What: "NVRTC", Help: helpNVRTC}
	for _, files := range found {
		missing.Tried = append(missing.Tried, files.lib)
		n, err := openNVRTC(files)
		if err == nil {
			return n, nil
		}
		if missing.Reason == "" {
			missing.Reason = fmt.Sprintf("%s: %v", files.lib, err)
		}
	}
	return nil, missing
}

func openNVRTC(files nvrtcFiles) (*NVRTC, error) {
	// libnvrtc opens its builtins by bare file name, which the system finds
	// only if the file is open already or on the library path.
	for _, b := range files.builtins {
		if _, err := openLibrary(b); err != nil {
			return nil, fmt.Errorf("its builtins do not open: %w", err)
		}
	}
	lib, err := openLibrary(files.lib)
	if err != nil {
		return nil, err
	}
	api := new(nvrtcAPI)
	if err := bind(lib, api); err != nil {
		return nil, err
	}
	n := &NVRTC{api: api, path: files.lib, includes: files.includes}
	var major, minor, count int32
	if rc := api.Version(&major, &minor); rc != 0 {
		return nil, fmt.Errorf("nvrtcVersion: %s", api.ErrorString(rc))
	}
	n.major, n.minor = int(major), int(minor)
	if rc := api.NumSupportedArchs(&count); rc != 0 || count < 1 {
		return nil, fmt.Errorf("nvrtcGetNumSupportedArchs: %s", api.ErrorString(rc))
	}
	archs := make([]int32, count)
	if rc := api.SupportedArchs(&archs[0]); rc != 0 {
		return nil, fmt.Errorf("nvrtcGetSupportedArchs: %s", api.ErrorString(rc))
	}
	for _, a := range archs {
		n.archs = append(n.archs, int(a))
	}
	return n, nil
}

// Version returns the compiler's version: 13, 2.
func (n *NVRTC) Version() (major, minor int) { return n.major, n.minor }

// Path returns the library's path.
func (n *NVRTC) Path() string { return n.path }

// Archs returns the architecture numbers that the compiler knows (80, 90),
// ascending.
func (n *NVRTC) Archs() []int { return slices.Clone(n.archs) }

// CompileOptions say how one source is compiled.
type CompileOptions struct {
	Arch     string            // "sm_80", "sm_90a": the cubin's architecture
	Name     string            // the source's file name in messages; "": kernel.cu
	Headers  map[string]string // texts of headers, by the name in #include
	Includes []string          // folders for #include, after Headers
	Flags    []string          // further NVRTC options: "--use_fast_math"
	LineInfo bool              // keep source lines in the cubin
}

// Object is a compiled source.
type Object struct {
	Arch     string
	Cubin    []byte
	PTX      []byte // without the final NUL; nil if this NVRTC gives none beside a cubin
	Log      string // the compiler's messages; usually empty
	Messages []Message
	Kernels  []Kernel // sorted by name
}

// CompileError is a source that does not compile, or options that NVRTC does
// not take.
type CompileError struct {
	Result   string // NVRTC's name for it: NVRTC_ERROR_COMPILATION
	Log      string
	Messages []Message
}

// Error returns the first error's text and how many more there are.
func (e *CompileError) Error() string {
	first, more := "", 0
	for _, m := range e.Messages {
		if m.Severity != SevError {
			continue
		}
		if first == "" {
			first = m.String()
		} else {
			more++
		}
	}
	switch {
	case first == "":
		return strings.TrimSpace(e.Result + " " + strings.TrimSpace(e.Log))
	case more > 0:
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}

// ArchError is an architecture that this NVRTC cannot compile for.
type ArchError struct {
	Arch    string
	Known   []int
	Version string
}

func (e *ArchError) Error() string {
	return fmt.Sprintf("NVRTC %s does not compile for %q; it knows sm_%s", e.Version, e.Arch,
		strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Known), " ", ", sm_"), "[]"))
}

var reArch = regexp.MustCompile(`^sm_(\d+)[af]?$`)

// Compile compiles CUDA C++ to a cubin. A source that includes headers of the
// CUDA runtime for half-precision types (cuda_fp16.h, ...) needs nothing else:
// they are taken from where the library was found. The error is a
// *CompileError, an *ArchError, or a *MissingError for headers that are not
// there.
func (n *NVRTC) Compile(src string, opt CompileOptions) (*Object, error) {
	if opt.Name == "" {
		opt.Name = "kernel.cu"
	}
	m := reArch.FindStringSubmatch(opt.Arch)
	if m == nil || !slices.ContainsFunc(n.archs, func(a int) bool { return fmt.Sprint(a) == m[1] }) {
		return nil, &ArchError{opt.Arch, n.Archs(), fmt.Sprintf("%d.%d", n.major, n.minor)}
	}
	headers, err := n.headers(src, opt)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(headers))
	options := []string{"--gpu-architecture=" + opt.Arch, "--std=c++17", "--ptxas-options=-v"}
	if n.major > 12 || n.major == 12 && n.minor >= 9 {
		// A result out of NVRTC's cache on disk comes without ptxas's report.
		options = append(options, "--no-cache")
	}
	for _, dir := range opt.Includes {
		options = append(options, "--include-path="+dir)
	}
	if opt.LineInfo {
		options = append(options, "--generate-line-info")
	}
	options = append(options, opt.Flags...)

	var keep []*byte // all C strings of this call
	cstring := func(s string) (*byte, error) {
		if strings.IndexByte(s, 0) >= 0 {
			return nil, errors.New("a source, header or option contains a NUL byte")
		}
		p := &append([]byte(s), 0)[0]
		keep = append(keep, p)
		return p, nil
	}
	cstrings := func(list []string) (**byte, error) {
		if len(list) == 0 {
			return nil, nil
		}
		out := make([]*byte, len(list))
		for i, s := range list {
			if out[i], err = cstring(s); err != nil {
				return nil, err
			}
		}
		return &out[0], nil
	}
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = headers[name]
	}
	cSrc, err := cstring(src)
	if err != nil {
		return nil, err
	}
	cName, err := cstring(opt.Name)
	if err != nil {
		return nil, err
	}
	cTexts, err := cstrings(texts)
	if err != nil {
		return nil, err
	}
	cNames, err := cstrings(names)
	if err != nil {
		return nil, err
	}
	cOptions, err := cstrings(options)
	if err != nil {
		return nil, err
	}

	var prog uintptr
	if rc := n.api.CreateProgram(&prog, cSrc, cName, int32(len(names)), cTexts, cNames); rc != 0 {
		return nil, &CompileError{Result: n.api.ErrorString(rc)}
	}
	defer n.api.DestroyProgram(&prog)
	rc := n.api.CompileProgram(prog, int32(len(options)), cOptions)
	runtime.KeepAlive(keep)
	log, err := n.fetch(prog, n.api.LogSize, n.api.Log)
	if err != nil {
		return nil, err
	}
	text, use := splitUsage(strings.TrimRight(string(log), "\x00"))
	text = strings.Trim(text, "\n")
	messages := ParseLog(text)
	if rc != 0 {
		return nil, &CompileError{n.api.ErrorString(rc), text, messages}
	}
	obj := &Object{Arch: opt.Arch, Log: text, Messages: messages}
	if obj.Cubin, err = n.fetch(prog, n.api.CubinSize, n.api.Cubin); err != nil {
		return nil, err
	}
	if ptx, err := n.fetch(prog, n.api.PTXSize, n.api.PTX); err == nil {
		obj.PTX = bytes.TrimRight(ptx, "\x00")
	}
	info, err := ReadCubin(obj.Cubin)
	if err != nil {
		return nil, err
	}
	obj.Kernels = info.Kernels
	for i := range obj.Kernels {
		k := &obj.Kernels[i]
		if u, ok := use[k.Name]; ok {
			k.Spills, k.SpillStores, k.SpillLoads = true, u.spillSt, u.spillLd
			k.Barriers = max(k.Barriers, u.barriers)
		}
	}
	return obj, nil
}

// fetch gets one of a program's results by its pair of functions.
func (n *NVRTC) fetch(prog uintptr, size func(uintptr, *uintptr) int32, get func(uintptr, *byte) int32) ([]byte, error) {
	var sz uintptr
	if rc := size(prog, &sz); rc != 0 {
		return nil, &CompileError{Result: n.api.ErrorString(rc)}
	}
	if sz == 0 {
		return nil, nil
	}
	b := make([]byte, sz)
	if rc := get(prog, &b[0]); rc != 0 {
		return nil, &CompileError{Result: n.api.ErrorString(rc)}
	}
	return b, nil
}

var (
	reInclude       = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]`)
	reRuntimeHeader = regexp.MustCompile(`^cuda_[a-z0-9]+\.hp*$`)
)

// headers returns the texts to hand over with src: the caller's, and those of
// the CUDA runtime that src includes, with what these include in turn. NVRTC
// itself then needs no folder to search.
func (n *NVRTC) headers(src string, opt CompileOptions) (map[string]string, error) {
	out := maps.Clone(opt.Headers)
	if out == nil {
		out = map[string]string{}
	}
	todo := []string{src}
	for _, name := range slices.Sorted(maps.Keys(opt.Headers)) {
		todo = append(todo, opt.Headers[name])
	}
	for len(todo) > 0 {
		text := todo[0]
		todo = todo[1:]
		for _, m := range reInclude.FindAllStringSubmatch(text, -1) {
			name := m[1]
			if _, have := out[name]; have || !reRuntimeHeader.MatchString(name) {
				continue
			}
			h, err := n.runtimeHeader(name)
			if err != nil {
				if inFolders(opt.Includes, name) {
					continue // the caller's folders have it
				}
				return nil, err
			}
			out[name] = h
			todo = append(todo, h)
		}
	}
	return out, nil
}

func inFolders(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool {
		_, err := os.Stat(filepath.Join(d, name))
		return err == nil
	})
}

func (n *NVRTC) runtimeHeader(name string) (string, error) {
	for _, dir := range n.includes {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			return string(b), nil
		}
	}
	return "", &MissingError{What: "CUDA's header " + name, Tried: n.includes,
		Reason: "it is not near " + n.path,
		Help:   "get it with `pip install nvidia-cuda-runtime` (in a checkout: scripts/fetch-nvrtc) or a CUDA toolkit"}
}
