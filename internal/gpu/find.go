package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Names of environment variables that say where the libraries are. Each may
// hold the library's path or a folder in or under which it lies.
const (
	EnvNVRTC = "LOWERTRACE_NVRTC"
	EnvCUDA  = "LOWERTRACE_LIBCUDA"
)

// Finder says where to look for libraries. The zero value looks in the usual
// places only; NewFinder gives the one that a program wants.
type Finder struct {
	// NVRTC and CUDA, if set, are paths the user named: the library or a
	// folder. Nothing else is then tried.
	NVRTC, CUDA string
	// Getenv reads the environment; nil: an empty one.
	Getenv func(string) string
	// Caches are folders that may hold .cache/nvrtc, as scripts/fetch-nvrtc
	// fills it: the working directory and the program's, say.
	Caches []string
	// GOOS is the system; "": this one.
	GOOS string
	// Root is put before absolute system folders; for tests.
	Root string
}

// NewFinder looks where the process's environment, working directory and
// executable point.
func NewFinder() *Finder {
	f := &Finder{Getenv: os.Getenv}
	if d, err := os.Getwd(); err == nil {
		f.Caches = append(f.Caches, d)
	}
	if e, err := os.Executable(); err == nil {
		if e, err = filepath.EvalSymlinks(e); err == nil {
			f.Caches = append(f.Caches, filepath.Dir(e), filepath.Dir(filepath.Dir(e)))
		}
	}
	return f
}

func (f *Finder) env(name string) string {
	if f.Getenv == nil {
		return ""
	}
	return f.Getenv(name)
}

func (f *Finder) goos() string {
	if f.GOOS == "" {
		return runtime.GOOS
	}
	return f.GOOS
}

// MissingError says that a library is missing or cannot be used. Its text is
// one line.
type MissingError struct {
	What   string   // "NVRTC" or "the CUDA driver"
	Reason string   // what happened
	Help   string   // how to get it
	Tried  []string // places that were searched, in order
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not available: %s; %s", e.What, e.Reason, e.Help)
}

const (
	helpNVRTC = "get it with `pip install nvidia-cuda-nvrtc` (in a checkout: scripts/fetch-nvrtc) or a CUDA toolkit, or set " + EnvNVRTC + " to libnvrtc's path"
	helpCUDA  = "it comes with NVIDIA's display driver, on a machine with a GPU; " + EnvCUDA + " can name its path"
	helpBuild = "build lowertrace without -tags nogpu"
)

// nvrtcFiles is a libnvrtc and what belongs to it.
type nvrtcFiles struct {
	lib      string
	builtins []string // to be opened first
	includes []string // folders with the CUDA runtime's headers
}

// libName matches the library's file name and catches its version.
func (f *Finder) libName() *regexp.Regexp {
	if f.goos() == "windows" {
		return regexp.MustCompile(`^nvrtc64_(\d+)_\d+\.dll$`)
	}
	return regexp.MustCompile(`^libnvrtc\.so(?:\.([\d.]+))?$`)
}

func (f *Finder) builtinsName() *regexp.Regexp {
	if f.goos() == "windows" {
		return regexp.MustCompile(`^nvrtc-builtins64_\d+\.dll$`)
	}
	return regexp.MustCompile(`^libnvrtc-builtins\.so\.[\d.]+$`)
}

// nvrtcFolders lists the folders to search, best first, and calls the user's
// own choice out: if exclusive, nothing but the folders given counts.
func (f *Finder) nvrtcFolders() (folders []string, exclusive string) {
	for _, own := range []string{f.NVRTC, f.env(EnvNVRTC)} {
		if own != "" {
			return under(own), own
		}
	}
	add := func(dirs ...string) { folders = append(folders, dirs...) }
	glob := func(patterns ...string) {
		for _, p := range patterns {
			m, _ := filepath.Glob(p) // the only error is a bad pattern, from odd characters in a path
			slices.SortFunc(m, compareVersions)
			slices.Reverse(m) // newest first
			add(m...)
		}
	}
	for _, c := range f.Caches {
		glob(filepath.Join(c, ".cache", "nvrtc", "*", "lib"))
	}
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if home := f.env(name); home != "" {
			add(under(home)...)
		}
	}
	// Python's wheels: nvidia/cu13/lib, or nvidia/cuda_nvrtc/lib before 13.
	wheels := func(site string) {
		glob(filepath.Join(site, "nvidia", "*", "lib"), filepath.Join(site, "nvidia", "*", "bin"), filepath.Join(site, "nvidia", "*", "bin", "x86_64"))
	}
	python := func(prefix string) {
		if f.goos() == "windows" {
			wheels(filepath.Join(prefix, "Lib", "site-packages"))
			return
		}
		m, _ := filepath.Glob(filepath.Join(prefix, "lib", "python3*"))
		slices.SortFunc(m, compareVersions)
		for _, p := range slices.Backward(m) {
			wheels(filepath.Join(p, "site-packages"))
			wheels(filepath.Join(p, "dist-packages"))
		}
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if p := f.env(name); p != "" {
			python(p)
		}
	}
	for _, p := range filepath.SplitList(f.env("PYTHONPATH")) {
		wheels(p)
	}
	for _, c := range f.Caches {
		python(filepath.Join(c, ".venv"))
	}
	for _, p := range filepath.SplitList(f.env("PATH")) {
		switch filepath.Base(p) {
		case "bin", "Scripts":
			python(filepath.Dir(p))
		case "shims": // pyenv
			versions, _ := filepath.Glob(filepath.Join(filepath.Dir(p), "versions", "*"))
			slices.SortFunc(versions, compareVersions)
			for _, v := range slices.Backward(versions) {
				python(v)
			}
		}
	}
	if h := f.env("HOME"); h != "" {
		python(filepath.Join(h, ".local"))
	}
	if f.goos() != "windows" {
		python(f.Root + "/usr/local")
		python(f.Root + "/usr")
		glob(f.Root+"/usr/local/cuda/lib64", f.Root+"/usr/local/cuda-*/lib64", f.Root+"/usr/local/cuda*/targets/*/lib", f.Root+"/opt/cuda/lib64")
		add(f.Root+"/usr/lib/x86_64-linux-gnu", f.Root+"/usr/lib/aarch64-linux-gnu", f.Root+"/usr/lib64", f.Root+"/usr/lib")
	} else {
		for _, p := range filepath.SplitList(f.env("PATH")) {
			add(p)
		}
	}
	return folders, ""
}

// under lists where a toolkit or wheel folder keeps its libraries.
func under(home string) []string {
	return []string{home, filepath.Join(home, "lib64"), filepath.Join(home, "lib"), filepath.Join(home, "bin"),
		filepath.Join(home, "bin", "x64"), filepath.Join(home, "nvidia", "cu13", "lib"), filepath.Join(home, "nvidia", "cuda_nvrtc", "lib"),
		filepath.Join(home, "targets", "x86_64-linux", "lib"), filepath.Join(home, "targets", "sbsa-linux", "lib")}
}

// findNVRTC returns the candidates in order of preference.
func (f *Finder) findNVRTC() ([]nvrtcFiles, error) {
	missing := &MissingError{What: "NVRTC", Help: helpNVRTC}
	if f.goos() == "darwin" {
		missing.Reason, missing.Help = "NVIDIA does not make it for macOS", "compile the generated CUDA on Linux or Windows"
		return nil, missing
	}
	folders, own := f.nvrtcFolders()
	if own != "" {
		st, err := os.Stat(own)
		switch {
		case err != nil:
			missing.Reason = own + " does not exist"
			return nil, missing
		case !st.IsDir():
			return []nvrtcFiles{f.nvrtcAt(own)}, nil
		}
	}
	var out []nvrtcFiles
	seen := map[string]bool{}
	for _, dir := range folders {
		if seen[dir] {
			continue
		}
		seen[dir] = true
		missing.Tried = append(missing.Tried, dir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		best := ""
		for _, e := range entries {
			if m := f.libName().FindStringSubmatch(e.Name()); m != nil && (best == "" || compareVersions(best, e.Name()) < 0) {
				best = e.Name()
			}
		}
		if best != "" {
			out = append(out, f.nvrtcAt(filepath.Join(dir, best)))
		}
	}
	if len(out) == 0 {
		missing.Reason = fmt.Sprintf("no libnvrtc in %d places", len(missing.Tried))
		if own != "" {
			missing.Reason = "no libnvrtc in or under " + own
		}
		return nil, missing
	}
	return out, nil
}

func (f *Finder) nvrtcAt(lib string) nvrtcFiles {
	n := nvrtcFiles{lib: lib}
	dir := filepath.Dir(lib)
	entries, _ := os.ReadDir(dir) // unreadable: nothing to open first
	for _, e := range entries {
		if f.builtinsName().MatchString(e.Name()) {
			n.builtins = append(n.builtins, filepath.Join(dir, e.Name()))
		}
	}
	up := filepath.Dir(dir)
	for _, inc := range []string{
		filepath.Join(up, "include"),                               // toolkit, wheel of 13.x, .cache
		filepath.Join(filepath.Dir(up), "cuda_runtime", "include"), // wheels before 13: a folder each
		filepath.Join(filepath.Dir(up), "include"),                 // lib under bin/x64
		filepath.Join(f.env("CUDA_HOME"), "include"),               // toolkit beside a wheel
		filepath.Join(f.env("CUDA_PATH"), "include"),               //
		f.Root + filepath.FromSlash("/usr/local/cuda/include"),     //
		f.Root + filepath.FromSlash("/usr/lib/cuda/include"),       // Debian
		f.Root + filepath.FromSlash("/usr/include"),                // Debian
		f.Root + filepath.FromSlash("/usr/local/cuda-13/include"),  //
		f.Root + filepath.FromSlash("/usr/local/cuda-12/include"),  //
	} {
		if _, err := os.Stat(filepath.Join(inc, "cuda_fp16.h")); err == nil {
			n.includes = append(n.includes, inc)
		}
	}
	return n
}

// cudaCandidates lists names and paths of the driver's library.
func (f *Finder) cudaCandidates() ([]string, error) {
	for _, own := range []string{f.CUDA, f.env(EnvCUDA)} {
		if own == "" {
			continue
		}
		st, err := os.Stat(own)
		if err != nil {
			return nil, &MissingError{What: "the CUDA driver", Reason: own + " does not exist", Help: helpCUDA}
		}
		if st.IsDir() {
			return []string{filepath.Join(own, "libcuda.so.1"), filepath.Join(own, "nvcuda.dll")}, nil
		}
		return []string{own}, nil
	}
	switch f.goos() {
	case "darwin":
		return nil, &MissingError{What: "the CUDA driver", Reason: "NVIDIA does not make it for macOS", Help: helpCUDA}
	case "windows":
		return []string{"nvcuda.dll"}, nil
	}
	return []string{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/local/nvidia/lib/libcuda.so.1",
		"/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/aarch64-linux-gnu/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"}, nil
}

// compareVersions orders names by the numbers in them, so that python3.9 comes
// before python3.11 and libnvrtc.so.12 before libnvrtc.so.13.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		da, ra := number(a)
		db, rb := number(b)
		if da != "" && db != "" {
			x, _ := strconv.ParseUint(da, 10, 64)
			y, _ := strconv.ParseUint(db, 10, 64)
			if x != y {
				if x < y {
					return -1
				}
				return 1
			}
			a, b = ra, rb
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// number splits off the digits at the start of s.
func number(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}
