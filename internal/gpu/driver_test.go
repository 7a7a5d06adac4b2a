package gpu

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"lowertrace/internal/launch"
)

// fakeDriver answers driver calls without a GPU, for error paths only: every
// call succeeds and computes nothing, but for those that fail lists. Names and
// texts of errors are a driver's, recorded in testdata/cuda-errors.tsv.
type fakeDriver struct {
	api  driverAPI
	fail map[string]int32 // result by symbol

	mu    sync.Mutex
	calls []string // symbols called, in order
	keep  []*byte
}

// fakeAttributes are an H200's.
var fakeAttributes = map[int64]int32{75: 9, 76: 0, 16: 132, 38: 62914560, 97: 232448, 81: 233472, 111: 1024, 82: 65536, 39: 2048, 106: 32, 1: 1024, 108: 39321600, 95: 1, 120: 1}

func newFake(t *testing.T, fail map[string]int32) *fakeDriver {
	t.Helper()
	f := &fakeDriver{fail: fail}
	recorded, err := os.ReadFile("testdata/cuda-errors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[int64][]string{}
	for line := range strings.Lines(string(recorded)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		code, err := strconv.ParseInt(fields[0], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		texts[code] = fields
	}
	known := map[string]bool{}
	v := reflect.ValueOf(&f.api).Elem()
	for i := range v.NumField() {
		sym, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("sym"), "|")
		known[sym] = true
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func(args []reflect.Value) []reflect.Value {
			f.mu.Lock()
			defer f.mu.Unlock()
			result := f.fail[sym]
			f.calls = append(f.calls, sym)
			text := func(field int) {
				result = cudaInvalidValue
				if e := texts[args[0].Int()]; e != nil {
					p := &append([]byte(e[field]), 0)[0]
					f.keep = append(f.keep, p)
					*args[1].Interface().(**byte) = p
					result = 0
				}
			}
			switch sym {
			case "cuGetErrorName":
				text(1)
			case "cuGetErrorString":
				text(2)
			case "cuDeviceGetCount":
				*args[0].Interface().(*int32) = 1 - f.fail["devices"]
			case "cuDriverGetVersion":
				*args[0].Interface().(*int32) = 13000
			case "cuDeviceGetName":
				copy(unsafe.Slice(args[0].Interface().(*byte), 256), "NVIDIA H200\x00")
			case "cuDeviceGetAttribute":
				*args[0].Interface().(*int32) = fakeAttributes[args[1].Int()]
			case "cuMemGetInfo_v2":
				*args[0].Interface().(*uintptr), *args[1].Interface().(*uintptr) = 4096, 1<<37
			case "cuMemAlloc_v2":
				*args[0].Interface().(*uint64) = 0x7f0000000000
			}
			return []reflect.Value{reflect.ValueOf(result)}
		}))
	}
	for sym := range fail {
		if !known[sym] && sym != "devices" {
			t.Fatalf("no driver call %s", sym)
		}
	}
	return f
}

func open(t *testing.T, f *fakeDriver) *Context {
	t.Helper()
	d, err := initDriver(&f.api, "libcuda.so.1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const fakeSpec = `{"version": 1, "name": "f", "arch_lowered": "sm_90a", "args": ["A"],
 "buffers": {"A": {"index": 0, "shape": ["m", 128], "dtype": "float16", "role": "inout"}},
 "symbols": {"m": {"dtype": "int32", "buffer": "A", "dim": 0}},
 "launches": [{"kernel": "f_kernel", "grid": ["m", 1, 1], "block": [128, 1, 1], "smem": "m * 1024", "cooperative": true,
  "l2": [{"buffer": "A", "bytes": 256, "ratio": 0.5}],
  "params": [{"buffer": "A"}, {"scalar": "m", "dtype": "int32"},
   {"tma": "A_desc", "buffer": "A", "dtype": 6, "rank": 2, "gdim": [128, "m"], "gstride_all": [2, 256], "box": [64, 64],
    "estride": [1, 1], "interleave": 0, "swizzle": 3, "l2": 2, "oob": 0}]}]}`

// session does everything that a run does and returns the first error.
func session(f *fakeDriver, m int64) error {
	d, err := initDriver(&f.api, "libcuda.so.1")
	if err != nil {
		return err
	}
	c, err := d.Open(0)
	if err != nil {
		return err
	}
	defer c.Close()
	spec, err := launch.Parse([]byte(fakeSpec))
	if err != nil {
		return err
	}
	p, err := c.Alloc(1 << 20)
	if err != nil {
		return err
	}
	if err := c.Write(p, []byte{1}); err != nil {
		return err
	}
	cubin, err := os.ReadFile("testdata/scale.sm_80.cubin")
	if err != nil {
		return err
	}
	mod, err := c.Load(cubin)
	if err != nil {
		return err
	}
	prog, err := mod.Bind(spec, Bindings{Env: launch.Env{"m": m}, Buffers: map[string]DevicePtr{"A": p}})
	if err != nil {
		return err
	}
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	if err := prog.Launch(s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := s.Wait(ctx); err != nil {
		return err
	}
	if _, err := prog.Time(ctx, s, 3); err != nil {
		return err
	}
	if err := c.Read(make([]byte, 8), p); err != nil {
		return err
	}
	return firstError(mod.Unload(), s.Destroy(), c.Free(p))
}

// What the user is told when a driver call fails.
func TestDriverErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail map[string]int32
		m    int64
		want []string
	}{
		{"no GPU", map[string]int32{"cuInit": 100}, 4, []string{"the CUDA driver is not available: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"}},
		{"GPUs hidden", map[string]int32{"devices": 1}, 4, []string{"a GPU is not available: the CUDA driver sees no device", "CUDA_VISIBLE_DEVICES"}},
		{"context", map[string]int32{"cuDevicePrimaryCtxRetain": 2}, 4, []string{"cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; another process"}},
		{"out of memory", map[string]int32{"cuMemAlloc_v2": 2}, 4, []string{"cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; 1048576 bytes wanted, 4096 of the GPU's 137438953472 are free"}},
		{"wrong arch", map[string]int32{"cuModuleLoadData": 209}, 4, []string{"CUDA_ERROR_NO_BINARY_FOR_GPU", "the code was compiled for sm_80 and this GPU, NVIDIA H200, runs sm_90; compile for sm_90a"}},
		{"no such kernel", map[string]int32{"cuModuleGetFunction": 500}, 4, []string{"f_kernel: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500)", "the module has no kernel f_kernel"}},
		{"too much shared memory", nil, 1000, []string{"f_kernel wants 1024000 bytes of dynamic shared memory, this GPU gives a block at most 232448"}},
		{"negative extent", nil, -1, []string{"extent -1"}},
		{"tensor map", map[string]int32{"cuTensorMapEncodeTiled": 1}, 4, []string{"parameter 2: cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VALUE (1): invalid argument; tensor map A_desc: extents [128 4], strides [2 256], box [64 64]"}},
		{"registers", map[string]int32{"cuLaunchKernelEx": 701}, 4, []string{"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "a block of [128 1 1] does not fit"}},
		{"cooperative", map[string]int32{"cuLaunchKernelEx": 720}, 4, []string{"the grid [4 1 1] of the cooperative kernel f_kernel does not fit on the GPU at once"}},
		{"bad launch", map[string]int32{"cuLaunchKernelEx": 1}, 4, []string{"f_kernel with grid [4 1 1], block [128 1 1], 4096 bytes of shared memory"}},
		{"crash", map[string]int32{"cuStreamQuery": 700}, 4, []string{"cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"}},
		{"hang", map[string]int32{"cuStreamQuery": 600}, 4, []string{"the kernel did not finish in time"}},
		{"unknown error", map[string]int32{"cuStreamCreate": 12345}, 4, []string{"cuStreamCreate: CUDA_ERROR (12345)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := session(newFake(t, tc.fail), tc.m)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("have %q, want %q in it", err, w)
				}
			}
		})
	}
}

// Without a failure the same session makes every call there is, each failing
// one apart from those that only describe failures.
func TestDriverSession(t *testing.T) {
	f := newFake(t, nil)
	if err := session(f, 4); err != nil {
		t.Fatal(err)
	}
	v := reflect.TypeFor[driverAPI]()
	for i := range v.NumField() {
		sym, _, _ := strings.Cut(v.Field(i).Tag.Get("sym"), "|")
		switch sym {
		case "cuGetErrorName", "cuGetErrorString", "cuMemGetInfo_v2", "cuTensorMapEncodeIm2col",
			"cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuDevicePrimaryCtxRelease_v2":
			continue
		}
		if !slices.Contains(f.calls, sym) {
			t.Errorf("%s was not called", sym)
		}
		g := newFake(t, map[string]int32{sym: 2})
		if err := session(g, 4); err == nil && sym != "cuEventDestroy_v2" && sym != "cuMemFree_v2" {
			t.Errorf("%s failed and the session did not", sym)
		}
	}
}

// After an error that spoils the context, every call repeats it.
func TestStickyError(t *testing.T) {
	f := newFake(t, map[string]int32{"cuMemFree_v2": 700})
	c := open(t, f)
	if err := c.Free(1); err == nil {
		t.Fatal("no error")
	}
	n := len(f.calls)
	_, err := c.Alloc(16)
	var ce *CUDAError
	if !errors.As(err, &ce) || ce.Code != 700 || len(f.calls) != n {
		t.Errorf("Alloc gave %v after %d calls of the driver", err, len(f.calls)-n)
	}
}

func TestWaitCanceled(t *testing.T) {
	c := open(t, newFake(t, map[string]int32{"cuStreamQuery": 600}))
	s, err := c.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(5*time.Millisecond, cancel)
	if err := s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
}

func TestDevice(t *testing.T) {
	c := open(t, newFake(t, nil))
	d := c.Device
	if d.Name != "NVIDIA H200" || d.Arch() != "sm_90a" || d.SMs != 132 || d.SharedPerBlock != 232448 || !d.Clusters {
		t.Errorf("%+v", d)
	}
	if a := (&Device{Major: 8, Minor: 6}).Arch(); a != "sm_86" {
		t.Errorf("8.6 is %s", a)
	}
	if _, err := c.d.Open(1); err == nil || !strings.Contains(err.Error(), "GPU 1 is not available: this machine has 1") {
		t.Errorf("have %v", err)
	}
}

func TestLaunchConfigLayout(t *testing.T) {
	// sizeof and offsets of CUlaunchConfig and CUlaunchAttribute on 64-bit systems.
	if s := unsafe.Sizeof(launchConfig{}); s != 56 {
		t.Errorf("CUlaunchConfig has %d bytes", s)
	}
	if o := unsafe.Offsetof(launchConfig{}.attrs); o != 40 {
		t.Errorf("attrs is at %d", o)
	}
	if s, o := unsafe.Sizeof(launchAttribute{}), unsafe.Offsetof(launchAttribute{}.value); s != 72 || o != 8 {
		t.Errorf("CUlaunchAttribute has %d bytes, its value at %d", s, o)
	}
}
