// Command bundle gathers what bench/gpu/run.py needs to check and time kernels
// on a machine that has a GPU and Python but none of this project:
//
//	go run ./bench/gpu/bundle [-o DIR] [-only REGEX] [-targets sm_80,sm_90a] [-arch sm_90a] [-ref DIR] [-full DIR]
//
// Each kernel of the reference corpus and each extra one (package source) is
// lowered for each target, compiled with NVRTC for one architecture, and put
// beside its launch description and its arrays. A kernel that does not lower or
// compile is listed with the reason, and run.py repeats it. With -ref, cubins of
// another compiler for the same kernels (a folder with specs.json and cubin/) are
// added, to be timed in turn with ours. With -full, kernels at full size are
// added, for full.py to time against another compiler's and against torch.
package main

import (
	"archive/zip"
	"compress/flate"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/source"
	"lowertrace/internal/gpu"
	"lowertrace/internal/ir"
	"lowertrace/internal/launch"
	"lowertrace/internal/npy"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
)

// bundleCase is one entry of cases.json.
type bundleCase struct {
	ID        string   `json:"id"`
	Dir       string   `json:"dir"`                 // with launch.json, kernel.cu and the cubin
	Data      string   `json:"data"`                // + ".json" and ".npz"
	Unordered []string `json:"unordered,omitempty"` // buffers compared as sorted lists
}

type failure struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

type options struct {
	out, arch, ref, full string
	targets              []string
	only                 *regexp.Regexp
}

func main() {
	var o options
	flag.StringVar(&o.out, "o", "bin/bench-gpu", "folder to fill; it is emptied first")
	flag.StringVar(&o.arch, "arch", "sm_90a", "architecture to compile for")
	flag.StringVar(&o.ref, "ref", "", "folder with another compiler's specs.json and cubin/")
	flag.StringVar(&o.full, "full", "", "folder of kernels at full size: inputs/, specs/, cubin/")
	targets := flag.String("targets", "sm_80,sm_90a", "targets to lower for")
	only := flag.String("only", "", "regular expression that KERNEL.TARGET must match")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintln(os.Stderr, "bundle: -only:", err)
		os.Exit(2)
	}
	o.targets = strings.Split(*targets, ",")
	if err := bundle(o); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func bundle(o options) error {
	root, err := corpus.Root()
	if err != nil {
		return err
	}
	finder := gpu.NewFinder()
	finder.Caches = append(finder.Caches, root)
	nvrtc, err := gpu.OpenNVRTC(finder)
	if err != nil {
		return err
	}
	if err := clear(o.out); err != nil {
		return err
	}
	for _, script := range []string{"run.py", "full.py", "batch.sh"} {
		if err := copyFile(filepath.Join(o.out, script), filepath.Join(root, "bench", "gpu", script)); err != nil {
			return err
		}
	}
	if o.full != "" {
		if err := addFull(nvrtc, o); err != nil {
			return err
		}
	}

	type job struct {
		k      corpus.Kernel
		target string
		id     string
		read   func() (*ir.IRModule, error)
		err    error
	}
	var jobs []*job
	plan := func(name string, k corpus.Kernel, read func(target string) (*ir.IRModule, error)) {
		for _, target := range o.targets {
			if id := name + "." + target; k.Has(target) && o.only.MatchString(id) {
				jobs = append(jobs, &job{k: k, target: target, id: id, read: func() (*ir.IRModule, error) { return read(target) }})
			}
		}
	}
	for _, k := range corpus.Kernels() {
		plan(k.Name, k, func(target string) (*ir.IRModule, error) { return source.Module(&k, target) })
	}
	for _, e := range source.Extras() {
		plan(e.Name, e.Kernel, func(string) (*ir.IRModule, error) { return e.Module() })
	}
	// NVRTC takes longer than lowering, and several sources compile at once.
	var wg sync.WaitGroup
	gate := make(chan struct{}, 4)
	for _, j := range jobs {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			mod, err := j.read()
			if err == nil {
				err = makeCase(nvrtc, mod, j.target, o.arch, filepath.Join(o.out, "cases", j.id), pipeline.Options{})
			}
			j.err = err
		})
	}
	wg.Wait()

	var list struct {
		Cases  []bundleCase `json:"cases"`
		Failed []failure    `json:"failed"`
	}
	var have []string
	add := func(k corpus.Kernel, id, dir string) error {
		if !slices.Contains(have, k.Name) {
			have = append(have, k.Name)
			if err := writeArrays(o.out, k); err != nil {
				return err
			}
		}
		list.Cases = append(list.Cases, bundleCase{ID: id, Dir: dir, Data: "data/" + k.Name, Unordered: unordered(k)})
		return nil
	}
	for _, j := range jobs {
		if j.err != nil {
			why, _, _ := strings.Cut(j.err.Error(), "\n")
			list.Failed = append(list.Failed, failure{j.id, why})
			continue
		}
		if err := add(j.k, j.id, "cases/"+j.id); err != nil {
			return err
		}
	}
	ours := len(list.Cases)
	if o.ref != "" {
		specs, err := readReference(o.ref)
		if err != nil {
			return err
		}
		for _, c := range slices.Clone(list.Cases) {
			s, ok := specs[c.ID]
			if !ok {
				continue
			}
			name, _, _ := strings.Cut(c.ID, ".")
			dir := "reference/" + c.ID
			k := corpus.Lookup(name)
			if err := s.write(k, o.ref, filepath.Join(o.out, dir)); err != nil {
				return fmt.Errorf("%s: %w", c.ID, err)
			}
			if err := add(k, "REF:"+c.ID, dir); err != nil {
				return err
			}
		}
	}
	if err := writeJSON(filepath.Join(o.out, "cases.json"), list); err != nil {
		return err
	}
	for _, f := range list.Failed {
		fmt.Printf("%-34s %s\n", f.ID, f.Why)
	}
	bytes, err := folderBytes(o.out)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d of %d lowerings, %d of another compiler, %.1f MB\n", o.out, ours, len(jobs), len(list.Cases)-ours, float64(bytes)/1e6)
	fmt.Printf("on the GPU machine: python3 %s/run.py\n", filepath.Base(o.out))
	if ours == 0 {
		return errors.New("no kernel could be lowered and compiled")
	}
	return nil
}

// clear makes an empty folder, but empties only one that it made itself.
func clear(dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, "run.py")); err != nil {
			return fmt.Errorf("%s is not empty and no bundle", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o777)
}

// makeCase lowers one kernel under pass options and compiles it into dir.
func makeCase(nvrtc *gpu.NVRTC, mod *ir.IRModule, target, arch, dir string, options pipeline.Options) error {
	out, err := lower(mod, target, options)
	if err != nil {
		return err
	}
	spec, err := launch.Parse(out.Launch)
	if err != nil {
		return err
	}
	obj, err := nvrtc.Compile(out.Source, gpu.CompileOptions{Arch: arch, Name: "kernel.cu", Flags: out.Flags})
	if err != nil {
		return err
	}
	spec.Source, spec.Cubin = "kernel.cu", "kernel."+arch+".cubin"
	for i := range spec.Launches {
		l := &spec.Launches[i]
		for _, kernel := range obj.Kernels {
			if kernel.Name == l.Kernel {
				l.Resources = &launch.Resources{Regs: kernel.Registers, Stack: kernel.Stack, SpillSt: kernel.SpillStores, SpillLd: kernel.SpillLoads, StaticSMem: kernel.Shared}
			}
		}
		if l.Resources == nil {
			return fmt.Errorf("launch.json names the kernel %s, which the source does not define", l.Kernel)
		}
	}
	js, err := spec.Format()
	if err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{"kernel.cu": []byte(out.Source), spec.Cubin: obj.Cubin, "launch.json": js})
}

// lower runs the default pipeline on a kernel.
func lower(mod *ir.IRModule, target string, options pipeline.Options) (*pipeline.Output, error) {
	pipe, err := pipeline.Lookup("cuda")
	if err != nil {
		return nil, err
	}
	t, err := cuda.LookupTarget(target)
	if err != nil {
		return nil, err
	}
	c := &pipeline.Context{Target: t, Options: options}
	if mod, err = pipe.Run(c, mod); err != nil {
		return nil, err
	}
	return pipe.Codegen()(c, mod)
}

// writeArrays writes what a kernel's io.json says, and its arrays as one
// compressed file.
func writeArrays(out string, k corpus.Kernel) error {
	base := filepath.Join(out, "data", k.Name)
	if err := os.MkdirAll(filepath.Dir(base), 0o777); err != nil {
		return err
	}
	if err := writeJSON(base+".json", &k); err != nil {
		return err
	}
	f, err := os.Create(base + ".npz")
	if err != nil {
		return err
	}
	defer f.Close()
	z := zip.NewWriter(f)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, p := range k.Params {
		for _, role := range []string{"in", "out"} {
			if p.Kind != "buffer" || p.Role != role && p.Role != "inout" {
				continue
			}
			name := p.Name + "." + role // X.in.npy is array X.in of the .npz
			w, err := z.Create(name + ".npy")
			if err != nil {
				return err
			}
			if err := npy.Write(w, k.Array(name)); err != nil {
				return err
			}
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

var reSorted = regexp.MustCompile(`compare sorted\((\w+)`)

// unordered names the buffers whose order of elements the notes leave open.
func unordered(k corpus.Kernel) []string {
	var out []string
	for _, m := range reSorted.FindAllStringSubmatch(k.Notes, -1) {
		out = append(out, m[1])
	}
	return out
}

func copyFile(dst, src string) error {
	b, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	return os.WriteFile(dst, b, 0o666)
}

func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o666)
}

func folderBytes(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		n += info.Size()
		return err
	})
	return n, err
}
