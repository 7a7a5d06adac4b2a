package gpu

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DevicePtr is an address in a GPU's memory.
type DevicePtr uint64

// MemInfo returns the free and the total bytes of the GPU's memory.
func (c *Context) MemInfo() (free, total uint64, err error) {
	var f, t uintptr
	err = c.do(func() error { return c.d.check("cuMemGetInfo_v2", c.d.api.MemInfo(&f, &t)) })
	return uint64(f), uint64(t), err
}

// Alloc allocates n bytes, at least one, aligned to 256. What they hold is
// undefined.
func (c *Context) Alloc(n int64) (DevicePtr, error) {
	if n < 0 {
		return 0, fmt.Errorf("gpu: allocation of %d bytes", n)
	}
	var p uint64
	err := c.do(func() error {
		err := c.d.check("cuMemAlloc_v2", c.d.api.MemAlloc(&p, uintptr(max(n, 1))))
		if err == nil {
			return nil
		}
		var free, total uintptr
		if c.d.api.MemInfo(&free, &total) == 0 {
			return hint(err, cudaOutOfMemory, "%d bytes wanted, %d of the GPU's %d are free", n, free, total)
		}
		return hint(err, cudaOutOfMemory, "%d bytes wanted", n)
	})
	return DevicePtr(p), err
}

// Free gives memory back.
func (c *Context) Free(p DevicePtr) error {
	return c.do(func() error { return c.d.check("cuMemFree_v2", c.d.api.MemFree(uint64(p))) })
}

// Write copies b to the GPU.
func (c *Context) Write(p DevicePtr, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return c.do(func() error { return c.d.check("cuMemcpyHtoD_v2", c.d.api.HtoD(uint64(p), &b[0], uintptr(len(b)))) })
}

// Read fills b from the GPU, after all work queued before on the default
// stream; wait for other streams first.
func (c *Context) Read(b []byte, p DevicePtr) error {
	if len(b) == 0 {
		return nil
	}
	return c.do(func() error { return c.d.check("cuMemcpyDtoH_v2", c.d.api.DtoH(&b[0], uint64(p), uintptr(len(b)))) })
}

// Fill queues setting n bytes to v.
func (s *Stream) Fill(p DevicePtr, v byte, n int64) error {
	if n <= 0 {
		return nil
	}
	return s.c.do(func() error { return s.fill(p, v, n) })
}

func (s *Stream) fill(p DevicePtr, v byte, n int64) error {
	return s.c.d.check("cuMemsetD8Async", s.c.d.api.Memset(uint64(p), v, uintptr(n), s.handle))
}

// Module is a loaded cubin.
type Module struct {
	c      *Context
	handle uintptr
}

// Load loads a cubin (or PTX, which the driver then compiles).
func (c *Context) Load(image []byte) (*Module, error) {
	m := &Module{c: c}
	image = append(image[:len(image):len(image)], 0) // PTX ends in a NUL
	err := c.do(func() error { return c.d.check("cuModuleLoadData", c.d.api.ModuleLoad(&m.handle, &image[0])) })
	if err == nil {
		return m, nil
	}
	forArch := "another architecture"
	if info, e := ReadCubin(image); e == nil {
		forArch = fmt.Sprintf("sm_%d", info.SM)
	}
	for _, code := range []int{cudaNoBinary, cudaInvalidImage} {
		err = hint(err, code, "the code was compiled for %s and this GPU, %s, runs sm_%d%d; compile for %s", forArch, c.Device.Name, c.Device.Major, c.Device.Minor, c.Device.Arch())
	}
	return nil, err
}

// Unload unloads the module; its functions must not be used afterwards.
func (m *Module) Unload() error {
	return m.c.do(func() error { return m.c.d.check("cuModuleUnload", m.c.d.api.ModuleUnload(m.handle)) })
}

// Function is a kernel of a loaded module.
type Function struct {
	c      *Context
	handle uintptr
	Kernel // what the driver says it uses; it does not know of spills
}

// Function finds a kernel by name.
func (m *Module) Function(name string) (*Function, error) {
	f := &Function{c: m.c, Kernel: Kernel{Name: name}}
	cname := append([]byte(name), 0)
	err := m.c.do(func() error {
		api := m.c.d.api
		if err := m.c.d.check("cuModuleGetFunction", api.ModuleFunction(&f.handle, m.handle, &cname[0])); err != nil {
			return hint(err, cudaNotFound, "the module has no kernel %s", name)
		}
		for _, a := range []struct { // CUfunction_attribute
			number int32
			to     *int
		}{{0, &f.MaxThreads}, {1, &f.Shared}, {3, &f.Stack}, {4, &f.Registers}} {
			var v int32
			if err := m.c.d.check("cuFuncGetAttribute", api.FuncAttribute(&v, a.number, f.handle)); err != nil {
				return err
			}
			*a.to = int(v)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// allowShared raises the function's limit of dynamic shared memory; for use on
// the context's thread.
func (f *Function) allowShared(bytes int64) error {
	if limit := int64(f.c.Device.SharedPerBlock - f.Shared); bytes > limit {
		return fmt.Errorf("gpu: %s wants %d bytes of dynamic shared memory, this GPU gives a block at most %d", f.Name, bytes, limit)
	}
	const maxDynamicShared = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	return f.c.d.check("cuFuncSetAttribute", f.c.d.api.FuncSet(f.handle, maxDynamicShared, int32(bytes)))
}

// BlocksPerSM asks the driver how many blocks of that many threads and bytes
// of dynamic shared memory an SM holds at once.
func (f *Function) BlocksPerSM(threads int, smem int64) (int, error) {
	var n int32
	err := f.c.do(func() error {
		if err := f.allowShared(smem); err != nil {
			return err
		}
		return f.c.d.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", f.c.d.api.MaxBlocks(&n, f.handle, int32(threads), uintptr(smem)))
	})
	return int(n), err
}

// Stream is a queue of work on the GPU.
type Stream struct {
	c      *Context
	handle uintptr
}

// NewStream makes a stream that does not wait for the default one.
func (c *Context) NewStream() (*Stream, error) {
	s := &Stream{c: c}
	const nonBlocking = 1 // CU_STREAM_NON_BLOCKING
	err := c.do(func() error { return c.d.check("cuStreamCreate", c.d.api.StreamCreate(&s.handle, nonBlocking)) })
	return s, err
}

// Destroy ends the stream after what is queued.
func (s *Stream) Destroy() error {
	return s.c.do(func() error { return s.c.d.check("cuStreamDestroy_v2", s.c.d.api.StreamDestroy(s.handle)) })
}

// ErrHang is what Wait returns when its context ends before the GPU is done.
// The kernel goes on, and nothing else will run on this context.
var ErrHang = errors.New("gpu: the kernel did not finish in time")

// Wait waits until all that was queued on the stream is done, and reports the
// first failure in it. If ctx ends before, it returns ErrHang for a deadline
// and ctx's error otherwise.
func (s *Stream) Wait(ctx context.Context) error {
	pause := 20 * time.Microsecond
	for {
		var rc int32
		if err := s.c.do(func() error {
			if rc = s.c.d.api.StreamQuery(s.handle); rc == cudaNotReady {
				return nil
			}
			return s.c.d.check("cuStreamQuery", rc)
		}); err != nil || rc == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ErrHang
			}
			return ctx.Err()
		case <-time.After(pause):
			pause = min(2*pause, time.Millisecond)
		}
	}
}

// event is a point in a stream with a time.
type event uintptr

// events makes n events; for use on the context's thread.
func (c *Context) events(n int) ([]event, error) {
	var out []event
	for range n {
		var ev uintptr
		if err := c.d.check("cuEventCreate", c.d.api.EventCreate(&ev, 0)); err != nil {
			c.destroyEvents(out)
			return nil, err
		}
		out = append(out, event(ev))
	}
	return out, nil
}

func (c *Context) destroyEvents(evs []event) {
	for _, ev := range evs {
		c.d.api.EventDestroy(uintptr(ev)) // can fail only if the context is lost anyway
	}
}

func (s *Stream) record(ev event) error {
	return s.c.d.check("cuEventRecord", s.c.d.api.EventRecord(uintptr(ev), s.handle))
}

func (c *Context) elapsed(a, b event) (time.Duration, error) {
	var ms float32
	if err := c.d.check("cuEventElapsedTime", c.d.api.EventElapsed(&ms, uintptr(a), uintptr(b))); err != nil {
		return 0, err
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}
