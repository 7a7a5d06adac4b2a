package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes empty files and returns the folder that they are in.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		p := filepath.Join(root, filepath.FromSlash(f))
		if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFindNVRTC(t *testing.T) {
	const wheel = "venv/lib/python3.11/site-packages/nvidia/"
	all := []string{
		"repo/.cache/nvrtc/13.2.86/lib/libnvrtc.so.13", "repo/.cache/nvrtc/13.2.86/lib/libnvrtc-builtins.so.13.2", "repo/.cache/nvrtc/13.2.86/include/cuda_fp16.h",
		"repo/.cache/nvrtc/9.9/lib/libnvrtc.so.9",
		"cuda/lib64/libnvrtc.so", "cuda/lib64/libnvrtc.so.12", "cuda/lib64/libnvrtc.so.12.4.127", "cuda/lib64/libnvrtc.alt.so.13", "cuda/lib64/libnvrtc-builtins.so.12.4",
		"cuda/include/cuda_fp16.h",
		wheel + "cuda_nvrtc/lib/libnvrtc.so.12", wheel + "cuda_runtime/include/cuda_fp16.h",
		wheel + "cu13/lib/libnvrtc.so.13", wheel + "cu13/include/cuda_fp16.h",
		"usr/local/cuda/lib64/libnvrtc.so.11",
		"win/bin/nvrtc64_130_0.dll", "win/bin/nvrtc-builtins64_130.dll",
		"pyenv/shims/python3", "pyenv/versions/3.11.7/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
		"home/.local/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
		"home/.local/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
	}
	root := tree(t, all...)
	for _, tc := range []struct {
		name    string
		env     map[string]string // values are below root
		flag    string
		caches  []string
		goos    string
		want    []string // libraries in order, below root
		include string   // of the first
		builtin string
	}{
		{name: "cache first, newest version first", caches: []string{"repo"}, env: map[string]string{"CUDA_HOME": "cuda"},
			want:    []string{"repo/.cache/nvrtc/13.2.86/lib/libnvrtc.so.13", "repo/.cache/nvrtc/9.9/lib/libnvrtc.so.9", "cuda/lib64/libnvrtc.so.12.4.127", "usr/local/cuda/lib64/libnvrtc.so.11"},
			include: "repo/.cache/nvrtc/13.2.86/include", builtin: "repo/.cache/nvrtc/13.2.86/lib/libnvrtc-builtins.so.13.2"},
		{name: "toolkit", env: map[string]string{"CUDA_PATH": "cuda"}, want: []string{"cuda/lib64/libnvrtc.so.12.4.127", "usr/local/cuda/lib64/libnvrtc.so.11"},
			include: "cuda/include", builtin: "cuda/lib64/libnvrtc-builtins.so.12.4"},
		{name: "wheels", env: map[string]string{"VIRTUAL_ENV": "venv"},
			want:    []string{wheel + "cuda_nvrtc/lib/libnvrtc.so.12", wheel + "cu13/lib/libnvrtc.so.13", "usr/local/cuda/lib64/libnvrtc.so.11"},
			include: wheel + "cuda_runtime/include"},
		{name: "user's Python, newest first", env: map[string]string{"HOME": "home"},
			want: []string{"home/.local/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "home/.local/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "usr/local/cuda/lib64/libnvrtc.so.11"}},
		{name: "pyenv on PATH", env: map[string]string{"PATH": "pyenv/shims"},
			want: []string{"pyenv/versions/3.11.7/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13", "usr/local/cuda/lib64/libnvrtc.so.11"}},
		{name: "environment names a folder, nothing else counts", env: map[string]string{EnvNVRTC: "cuda", "VIRTUAL_ENV": "venv"}, want: []string{"cuda/lib64/libnvrtc.so.12.4.127"}},
		{name: "flag names a file and beats the environment", flag: "cuda/lib64/libnvrtc.so.12", env: map[string]string{EnvNVRTC: "venv"},
			want: []string{"cuda/lib64/libnvrtc.so.12"}, builtin: "cuda/lib64/libnvrtc-builtins.so.12.4"},
		{name: "Windows", goos: "windows", env: map[string]string{"CUDA_PATH": "win"}, want: []string{"win/bin/nvrtc64_130_0.dll"}, builtin: "win/bin/nvrtc-builtins64_130.dll"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &Finder{Root: root, GOOS: tc.goos, Getenv: func(name string) string {
				if v := tc.env[name]; v != "" {
					return filepath.Join(root, v)
				}
				return ""
			}}
			if f.GOOS == "" {
				f.GOOS = "linux"
			}
			if tc.flag != "" {
				f.NVRTC = filepath.Join(root, tc.flag)
			}
			for _, c := range tc.caches {
				f.Caches = append(f.Caches, filepath.Join(root, c))
			}
			found, err := f.findNVRTC()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range found {
				got = append(got, strings.TrimPrefix(filepath.ToSlash(x.lib), filepath.ToSlash(root)+"/"))
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("have\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if tc.include != "" && (len(found[0].includes) == 0 || found[0].includes[0] != filepath.Join(root, tc.include)) {
				t.Errorf("include folders %v, want %s first", found[0].includes, tc.include)
			}
			if tc.builtin != "" && (len(found[0].builtins) != 1 || found[0].builtins[0] != filepath.Join(root, tc.builtin)) {
				t.Errorf("builtins %v, want %s", found[0].builtins, tc.builtin)
			}
		})
	}
}

func TestMissingNVRTC(t *testing.T) {
	if !canLoad {
		t.Skip("built without GPU support")
	}
	empty := tree(t, "readme")
	for _, tc := range []struct {
		name string
		f    Finder
		want []string
	}{
		{"nowhere", Finder{GOOS: "linux", Root: empty}, []string{"NVRTC is not available: no libnvrtc in ", "pip install nvidia-cuda-nvrtc", "scripts/fetch-nvrtc", EnvNVRTC}},
		{"no such path", Finder{GOOS: "linux", NVRTC: "/does/not/exist"}, []string{"/does/not/exist does not exist"}},
		{"empty folder", Finder{GOOS: "linux", NVRTC: empty}, []string{"no libnvrtc in or under " + empty}},
		{"macOS", Finder{GOOS: "darwin"}, []string{"NVIDIA does not make it for macOS"}},
		{"not a library", Finder{GOOS: "linux", NVRTC: filepath.Join(empty, "readme")}, []string{"NVRTC is not available: " + empty}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := OpenNVRTC(&tc.f)
			if _, ok := err.(*MissingError); !ok {
				t.Fatalf("have %T %v, want a MissingError", err, err)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than one line", err)
			}
		})
	}
}

func TestMissingDriver(t *testing.T) {
	if !canLoad {
		t.Skip("built without GPU support")
	}
	empty := tree(t, "libcuda.so.1")
	for _, tc := range []struct {
		name string
		f    Finder
		want string
	}{
		{"no such path", Finder{GOOS: "linux", CUDA: "/does/not/exist"}, "the CUDA driver is not available: /does/not/exist does not exist; it comes with NVIDIA's display driver"},
		{"not a library", Finder{GOOS: "linux", CUDA: empty}, "libcuda.so.1 is not on this machine"},
		{"macOS", Finder{GOOS: "darwin"}, "NVIDIA does not make it for macOS"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := OpenDriver(&tc.f)
			if _, ok := err.(*MissingError); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("have %T %v, want a MissingError with %q", err, err, tc.want)
			}
		})
	}
}

func TestCompareVersions(t *testing.T) {
	sorted := []string{"libnvrtc.so", "libnvrtc.so.9", "libnvrtc.so.11.2", "libnvrtc.so.12", "libnvrtc.so.12.4.127", "libnvrtc.so.13"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := compareVersions(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("compareVersions(%s, %s) = %d", a, b, got)
			}
		}
	}
}
