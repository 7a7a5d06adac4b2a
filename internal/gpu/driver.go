package gpu

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"
)

// driverAPI is the part of the CUDA driver API that the package uses
// (cuda.h, version 12.0 or later). Tests put a recorded fake in its place to
// see how failures are reported.
type driverAPI struct {
	Init          func(flags uint32) int32              `sym:"cuInit"`
	DriverVersion func(version *int32) int32            `sym:"cuDriverGetVersion"`
	ErrorName     func(result int32, name **byte) int32 `sym:"cuGetErrorName"`
	ErrorString   func(result int32, text **byte) int32 `sym:"cuGetErrorString"`

	DeviceCount     func(n *int32) int32                       `sym:"cuDeviceGetCount"`
	DeviceGet       func(dev *int32, ordinal int32) int32      `sym:"cuDeviceGet"`
	DeviceName      func(name *byte, n int32, dev int32) int32 `sym:"cuDeviceGetName"`
	DeviceMem       func(bytes *uintptr, dev int32) int32      `sym:"cuDeviceTotalMem_v2"`
	DeviceAttribute func(v *int32, attr, dev int32) int32      `sym:"cuDeviceGetAttribute"`

	PrimaryRetain  func(ctx *uintptr, dev int32) int32 `sym:"cuDevicePrimaryCtxRetain"`
	PrimaryRelease func(dev int32) int32               `sym:"cuDevicePrimaryCtxRelease_v2"`
	SetCurrent     func(ctx uintptr) int32             `sym:"cuCtxSetCurrent"`
	SetLimit       func(limit int32, v uintptr) int32  `sym:"cuCtxSetLimit"`

	MemInfo  func(free, total *uintptr) int32                           `sym:"cuMemGetInfo_v2"`
	MemAlloc func(ptr *uint64, bytes uintptr) int32                     `sym:"cuMemAlloc_v2"`
	MemFree  func(ptr uint64) int32                                     `sym:"cuMemFree_v2"`
	HtoD     func(dst uint64, src *byte, bytes uintptr) int32           `sym:"cuMemcpyHtoD_v2"`
	DtoH     func(dst *byte, src uint64, bytes uintptr) int32           `sym:"cuMemcpyDtoH_v2"`
	Memset   func(dst uint64, v uint8, n uintptr, stream uintptr) int32 `sym:"cuMemsetD8Async"`

	ModuleLoad     func(mod *uintptr, image *byte) int32                                  `sym:"cuModuleLoadData"`
	ModuleUnload   func(mod uintptr) int32                                                `sym:"cuModuleUnload"`
	ModuleFunction func(f *uintptr, mod uintptr, name *byte) int32                        `sym:"cuModuleGetFunction"`
	FuncAttribute  func(v *int32, attr int32, f uintptr) int32                            `sym:"cuFuncGetAttribute"`
	FuncSet        func(f uintptr, attr, v int32) int32                                   `sym:"cuFuncSetAttribute"`
	MaxBlocks      func(n *int32, f uintptr, threads int32, smem uintptr) int32           `sym:"cuOccupancyMaxActiveBlocksPerMultiprocessor"`
	Launch         func(cfg *launchConfig, f uintptr, params **byte, extra uintptr) int32 `sym:"cuLaunchKernelEx"`

	StreamCreate  func(stream *uintptr, flags uint32) int32   `sym:"cuStreamCreate"`
	StreamDestroy func(stream uintptr) int32                  `sym:"cuStreamDestroy_v2"`
	StreamQuery   func(stream uintptr) int32                  `sym:"cuStreamQuery"`
	EventCreate   func(ev *uintptr, flags uint32) int32       `sym:"cuEventCreate"`
	EventDestroy  func(ev uintptr) int32                      `sym:"cuEventDestroy_v2"`
	EventRecord   func(ev, stream uintptr) int32              `sym:"cuEventRecord"`
	EventElapsed  func(ms *float32, start, end uintptr) int32 `sym:"cuEventElapsedTime_v2|cuEventElapsedTime"`

	TensorTiled func(m *byte, dtype int32, rank uint32, addr uint64, dims, strides *uint64, box, estrides *uint32,
		interleave, swizzle, l2, oob int32) int32 `sym:"cuTensorMapEncodeTiled" optional:"before sm_90"`
	TensorIm2col func(m *byte, dtype int32, rank uint32, addr uint64, dims, strides *uint64, lower, upper *int32,
		channels, pixels uint32, estrides *uint32, interleave, swizzle, l2, oob int32) int32 `sym:"cuTensorMapEncodeIm2col" optional:"before sm_90"`
}

// Results of driver calls that the package treats in a way of their own.
const (
	cudaInvalidValue = 1
	cudaOutOfMemory  = 2
	cudaNoDevice     = 100
	cudaInvalidImage = 200
	cudaNoBinary     = 209
	cudaNotReady     = 600
	cudaNotFound     = 500
)

// CUDAError is a driver call that failed.
type CUDAError struct {
	Call string // "cuMemAlloc_v2"
	Code int    // CUresult
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // the driver's words
	Hint string // what it means here; may be empty
}

func (e *CUDAError) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Sticky tells whether the error has spoiled the context: nothing more will
// run in this process.
func (e *CUDAError) Sticky() bool {
	return e.Code >= 700 && e.Code < 800 || e.Code == 214 || e.Code == 999
}

// Driver is the opened CUDA driver.
type Driver struct {
	api          *driverAPI
	path         string
	major, minor int
}

// OpenDriver opens libcuda and initializes it. The error is a *MissingError
// where there is no driver or no GPU.
func OpenDriver(f *Finder) (*Driver, error) {
	if !canLoad {
		return nil, &MissingError{What: "the CUDA driver", Reason: "this binary was built without GPU support", Help: helpBuild}
	}
	candidates, err := f.cudaCandidates()
	if err != nil {
		return nil, err
	}
	missing := &MissingError{What: "the CUDA driver", Reason: "libcuda.so.1 is not on this machine", Help: helpCUDA}
	if f.goos() == "windows" {
		missing.Reason = "nvcuda.dll is not on this machine"
	}
	for _, path := range candidates {
		missing.Tried = append(missing.Tried, path)
		lib, err := openLibrary(path)
		if err != nil {
			continue
		}
		api := new(driverAPI)
		if err := bind(lib, api); err != nil {
			missing.Reason, missing.Help = fmt.Sprintf("%s: %v", path, err), "it needs a driver for CUDA 12 or later"
			return nil, missing
		}
		return initDriver(api, path)
	}
	return nil, missing
}

// initDriver is OpenDriver after the library is open.
func initDriver(api *driverAPI, path string) (*Driver, error) {
	d := &Driver{api: api, path: path}
	if err := d.check("cuInit", api.Init(0)); err != nil {
		return nil, &MissingError{What: "the CUDA driver", Reason: err.Error(), Help: helpCUDA, Tried: []string{path}}
	}
	var v int32
	if err := d.check("cuDriverGetVersion", api.DriverVersion(&v)); err != nil {
		return nil, err
	}
	d.major, d.minor = int(v)/1000, int(v)%1000/10
	return d, nil
}

// Version returns the CUDA version that the driver supports: 13, 0.
func (d *Driver) Version() (major, minor int) { return d.major, d.minor }

// check turns a result into an error.
func (d *Driver) check(call string, rc int32) error {
	if rc == 0 {
		return nil
	}
	e := &CUDAError{Call: call, Code: int(rc), Name: "CUDA_ERROR"}
	var p *byte
	if d.api.ErrorName(rc, &p) == 0 && p != nil {
		e.Name = cString(p)
	}
	p = nil
	if d.api.ErrorString(rc, &p) == 0 && p != nil {
		e.Text = cString(p)
	}
	return e
}

// hint adds what an error means to an error of check; nil stays nil.
func hint(err error, code int, format string, args ...any) error {
	if e, ok := err.(*CUDAError); ok && e.Code == code {
		e.Hint = fmt.Sprintf(format, args...)
	}
	return err
}

// maxCString bounds the texts that are taken from the driver.
const maxCString = 4096

// cString copies a NUL-terminated text that the driver owns.
func cString(p *byte) string {
	for n := range maxCString {
		if *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) == 0 {
			return string(unsafe.Slice(p, n))
		}
	}
	return string(unsafe.Slice(p, maxCString))
}

// Device describes one GPU. Sizes are in bytes.
type Device struct {
	Ordinal         int
	Name            string
	Major, Minor    int // compute capability
	SMs             int
	Memory          uint64
	L2              int
	ClockKHz        int // of the SMs, at most
	MemoryClockKHz  int
	MemoryBusBits   int
	SharedPerBlock  int // with opt-in
	SharedPerSM     int
	SharedReserved  int // of each block's, by the system
	RegistersPerSM  int
	ThreadsPerSM    int
	BlocksPerSM     int
	ThreadsPerBlock int
	MaxL2Persisting int
	Cooperative     bool
	Clusters        bool
}

// Arch returns the architecture to compile for: "sm_90a" for Hopper and the
// like, whose own instructions need the a, "sm_80" before.
func (d *Device) Arch() string {
	a := ""
	if d.Major >= 9 {
		a = "a"
	}
	return fmt.Sprintf("sm_%d%d%s", d.Major, d.Minor, a)
}

// Devices describes the GPUs of this machine. None is a *MissingError.
func (d *Driver) Devices() ([]Device, error) {
	var n int32
	err := d.check("cuDeviceGetCount", d.api.DeviceCount(&n))
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, &MissingError{What: "a GPU", Reason: "the CUDA driver sees no device", Help: "check CUDA_VISIBLE_DEVICES and nvidia-smi"}
	}
	var out []Device
	for i := range n {
		dev, err := d.device(i)
		if err != nil {
			return nil, err
		}
		out = append(out, *dev)
	}
	return out, nil
}

func (d *Driver) device(ordinal int32) (*Device, error) {
	var handle int32
	if err := d.check("cuDeviceGet", d.api.DeviceGet(&handle, ordinal)); err != nil {
		return nil, err
	}
	out := &Device{Ordinal: int(ordinal)}
	var name [256]byte
	if err := d.check("cuDeviceGetName", d.api.DeviceName(&name[0], int32(len(name)), handle)); err != nil {
		return nil, err
	}
	text, _, _ := bytes.Cut(name[:], []byte{0})
	out.Name = string(text)
	var mem uintptr
	if err := d.check("cuDeviceTotalMem_v2", d.api.DeviceMem(&mem, handle)); err != nil {
		return nil, err
	}
	out.Memory = uint64(mem)
	var coop, clusters int
	for _, a := range []struct { // CUdevice_attribute
		number int32
		to     *int
	}{
		{75, &out.Major}, {76, &out.Minor}, {16, &out.SMs}, {38, &out.L2}, {13, &out.ClockKHz}, {36, &out.MemoryClockKHz},
		{37, &out.MemoryBusBits}, {97, &out.SharedPerBlock}, {81, &out.SharedPerSM}, {111, &out.SharedReserved},
		{82, &out.RegistersPerSM}, {39, &out.ThreadsPerSM}, {106, &out.BlocksPerSM}, {1, &out.ThreadsPerBlock},
		{108, &out.MaxL2Persisting}, {95, &coop}, {120, &clusters},
	} {
		var v int32
		// An attribute that this driver does not know stays 0.
		if rc := d.api.DeviceAttribute(&v, a.number, handle); rc != 0 && rc != cudaInvalidValue {
			return nil, d.check("cuDeviceGetAttribute", rc)
		}
		*a.to = int(v)
	}
	out.Cooperative, out.Clusters = coop != 0, clusters != 0
	return out, nil
}

// Context is the use of one GPU. A context belongs to an operating-system
// thread in CUDA; here one goroutine of its own, bound to its thread, makes
// all driver calls, so the methods may be called from any goroutine.
type Context struct {
	d      *Driver
	Device Device
	calls  chan func()
	closed chan struct{} // closed when the thread has let go of the device
	spoilt error         // a sticky error seen: repeated by all later calls
}

// Open begins the use of a device.
func (d *Driver) Open(ordinal int) (*Context, error) {
	devices, err := d.Devices()
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= len(devices) {
		return nil, &MissingError{What: fmt.Sprintf("GPU %d", ordinal), Reason: fmt.Sprintf("this machine has %d", len(devices)), Help: "devices are counted from 0"}
	}
	c := &Context{d: d, Device: devices[ordinal], calls: make(chan func()), closed: make(chan struct{})}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var handle int32
		var ctx uintptr
		err := d.check("cuDeviceGet", d.api.DeviceGet(&handle, int32(ordinal)))
		if err == nil {
			err = d.check("cuDevicePrimaryCtxRetain", d.api.PrimaryRetain(&ctx, handle))
		}
		if err == nil {
			if err = d.check("cuCtxSetCurrent", d.api.SetCurrent(ctx)); err != nil {
				d.api.PrimaryRelease(handle)
			}
		}
		ready <- err
		if err != nil {
			return
		}
		for f := range c.calls {
			f()
		}
		d.api.SetCurrent(0)
		d.api.PrimaryRelease(handle)
		close(c.closed)
	}()
	if err := <-ready; err != nil {
		return nil, hint(err, cudaOutOfMemory, "another process may hold the GPU's memory")
	}
	return c, nil
}

// Close ends the use of the device; what was allocated and loaded goes with
// it. The context must not be used afterwards.
func (c *Context) Close() {
	close(c.calls)
	<-c.closed
}

// do runs f on the context's thread.
func (c *Context) do(f func() error) error {
	var err error
	done := make(chan struct{})
	c.calls <- func() {
		defer close(done)
		if c.spoilt != nil {
			err = c.spoilt
			return
		}
		err = f()
		if e, ok := err.(*CUDAError); ok && e.Sticky() {
			c.spoilt = err
		}
	}
	<-done
	return err
}
