package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"lowertrace/internal/npy"
)

func lazily(name string) func() *archive {
	return sync.OnceValue(func() *archive {
		root, err := Root()
		if err != nil {
			panic(err)
		}
		a, err := openArchive(filepath.Join(root, "testdata", "reference", name))
		if err != nil {
			panic(fmt.Errorf("corpus: %w", err))
		}
		return a
	})
}

var (
	texts  = lazily("texts.tar.zst")
	arrays = lazily("arrays.tar.zst")
)

// FS returns the texts: everything in the corpus but the arrays. It panics if
// the packed corpus cannot be found or read, for then the checkout is broken.
func FS() fs.FS { return texts() }

// Arrays returns the arrays, KERNEL/data/NAME.{in,out}.npy. Package npy reads
// them. It panics like FS.
func Arrays() fs.FS { return arrays() }

// ReadFile returns a copy of one text.
func ReadFile(name string) ([]byte, error) { return texts().ReadFile(name) }

// Text returns one text without copying it. It panics if there is none of that
// name: a test that asks for a text by name relies on it.
func Text(name string) string {
	s, ok := texts().files[name]
	if !ok {
		panic(fmt.Sprintf("corpus: no text %q", name))
	}
	return s
}

// Files returns the paths of all texts that end in suffix
// ("/input.tir", ".tir", ".py"; "" for all), sorted.
func Files(suffix string) []string {
	var out []string
	for name := range texts().files {
		if strings.HasSuffix(name, suffix) {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// Kernel is one kernel's io.json.
type Kernel struct {
	Name        string   `json:"kernel"`
	Entry       string   `json:"entry"` // name of the function in the texts
	Archs       []string `json:"archs"` // "sm_80", "sm_90a": the lowerings present
	Description string   `json:"description"`
	Params      []Param  `json:"params"`
	// RTol and ATol say when an output is right: |got-want| <= ATol + RTol*|want|,
	// both zero meaning exactly. A parameter's own values come first: see Tolerance.
	RTol     float64          `json:"rtol"`
	ATol     float64          `json:"atol"`
	Formula  string           `json:"formula"`
	Symbolic map[string]int64 `json:"symbolic,omitempty"` // values of the symbolic sizes
	Notes    string           `json:"notes,omitempty"`
	// Own holds the arrays of a kernel that is not in the packed corpus, by
	// name as Array takes it; nil for the corpus's kernels.
	Own map[string]*npy.Array `json:"-"`
}

// Param is one parameter of a kernel's function, in order.
type Param struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`              // "buffer" or "scalar"
	Shape   []Dim    `json:"shape"`             // elements
	Strides []Dim    `json:"strides,omitempty"` // elements; nil: row-major without gaps
	DType   string   `json:"dtype"`
	Role    string   `json:"role"`            // "in", "out" or "inout"
	Gen     string   `json:"gen"`             // how the input was drawn, in words
	Value   any      `json:"value,omitempty"` // a scalar's value: float64 or bool
	RTol    *float64 `json:"rtol,omitempty"`
	ATol    *float64 `json:"atol,omitempty"`
}

// Dim is a size: a number, or the name of a symbolic size.
type Dim struct {
	Sym string // "" when the size is a constant
	N   int64  // the constant
}

// UnmarshalJSON accepts a number or a string.
func (d *Dim) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &d.Sym)
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	d.N = n
	return err
}

// MarshalJSON writes what UnmarshalJSON reads.
func (d Dim) MarshalJSON() ([]byte, error) {
	if d.Sym != "" {
		return json.Marshal(d.Sym)
	}
	return json.Marshal(d.N)
}

// Size returns d's value, taking symbolic sizes from k.
func (k *Kernel) Size(d Dim) int64 {
	if d.Sym == "" {
		return d.N
	}
	n, ok := k.Symbolic[d.Sym]
	if !ok {
		panic(fmt.Sprintf("corpus: %s has no value for symbolic size %s", k.Name, d.Sym))
	}
	return n
}

// Tolerance returns the tolerances that hold for p.
func (k *Kernel) Tolerance(p Param) (rtol, atol float64) {
	rtol, atol = k.RTol, k.ATol
	if p.RTol != nil {
		rtol = *p.RTol
	}
	if p.ATol != nil {
		atol = *p.ATol
	}
	return rtol, atol
}

// Array returns a copy of the array called name: PARAM.in, or PARAM.out for an
// expected one. It panics if there is none, for then the checkout is broken.
func (k *Kernel) Array(name string) *npy.Array {
	if k.Own != nil {
		a := k.Own[name]
		if a == nil {
			panic(fmt.Sprintf("corpus: kernel %s has no array %s", k.Name, name))
		}
		return &npy.Array{DType: a.DType, Shape: slices.Clone(a.Shape), Data: bytes.Clone(a.Data)}
	}
	file := k.Name + "/data/" + name + ".npy"
	b, err := fs.ReadFile(arrays(), file)
	if err != nil {
		panic(fmt.Errorf("corpus: %w", err))
	}
	a, err := npy.Read(bytes.NewReader(b))
	if err != nil {
		panic(fmt.Errorf("corpus: %s: %w", file, err))
	}
	return a
}

// Input returns the path of the un-lowered function for arch.
func (k *Kernel) Input(arch string) string { return k.Name + "/" + arch + "/input.tir" }

// Has tells whether the corpus has a lowering of k for arch.
func (k *Kernel) Has(arch string) bool { return slices.Contains(k.Archs, arch) }

var kernels = sync.OnceValue(func() []Kernel {
	var out []Kernel
	for _, name := range Files("/io.json") {
		var k Kernel
		d := json.NewDecoder(bytes.NewReader([]byte(Text(name))))
		d.DisallowUnknownFields()
		if err := d.Decode(&k); err != nil {
			panic(fmt.Errorf("corpus: %s: %w", name, err))
		}
		out = append(out, k)
	}
	return out
})

// Kernels returns all kernels, sorted by name. The caller must not change what
// the slice's elements point to.
func Kernels() []Kernel { return slices.Clone(kernels()) }

// Lookup returns the kernel called name; it panics if there is none.
func Lookup(name string) Kernel {
	for _, k := range kernels() {
		if k.Name == name {
			return k
		}
	}
	panic(fmt.Sprintf("corpus: no kernel %q", name))
}

// Record is one line of a passes.tsv.
type Record struct {
	Index   int
	Phase   string // "pipeline_cuda", "unscoped", "codegen"
	Name    string
	Changed bool
	Status  string // "completed", "codegen", ...
}

// Passes returns the records of one lowering, in order; the last is code
// generation. It panics if there is no such lowering.
func Passes(kernel, arch string) []Record {
	name := kernel + "/" + arch + "/passes.tsv"
	var out []Record
	for i, line := range strings.Split(strings.TrimSpace(Text(name)), "\n") {
		f := strings.Split(line, "\t")
		n, err := strconv.Atoi(f[0])
		if err != nil || len(f) != 5 {
			panic(fmt.Sprintf("corpus: %s:%d: bad record %q", name, i+1, line))
		}
		out = append(out, Record{n, f[1], f[2], f[3] == "1", f[4]})
	}
	return out
}

// State is the text after one pass that changed something.
type State struct {
	Index int    // of the pass's record
	Pass  string // its name
	Path  string
}

// States returns the texts of one lowering that were written after a pass, in
// order of the records. input.tir is not among them.
func States(kernel, arch string) []State {
	dir := kernel + "/" + arch
	var out []State
	for _, n := range texts().dirs[dir] {
		num, pass, ok := strings.Cut(strings.TrimSuffix(n, ".tir"), "_")
		i, err := strconv.Atoi(num)
		if !ok || err != nil || !strings.HasSuffix(n, ".tir") {
			continue
		}
		out = append(out, State{i, pass, dir + "/" + n})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Index < out[j].Index })
	return out
}
