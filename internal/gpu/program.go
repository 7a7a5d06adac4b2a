package gpu

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"time"
	"unsafe"

	"lowertrace/internal/launch"
)

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	grid, block [3]uint32
	smem        uint32
	stream      uintptr
	attrs       *launchAttribute
	numAttrs    uint32
}

// launchAttribute is CUlaunchAttribute: an id, and a value in 64 bytes.
type launchAttribute struct {
	id    uint32
	_     uint32
	value [64]byte
}

// CUlaunchAttributeID.
const (
	attrAccessPolicy = 1
	attrCooperative  = 2
	attrCluster      = 4
	attrProgrammatic = 6
)

// tensorMapBytes is the size of a CUtensorMap, and tensorMapAlign what the
// driver wants its address to be a multiple of.
const (
	tensorMapBytes = 128
	tensorMapAlign = 64
)

// Program is a launch description with everything bound: kernels found, limits
// raised, arguments and tensor maps made. It can be launched many times.
type Program struct {
	c       *Context
	kernels []boundKernel
}

type boundKernel struct {
	f      *Function
	cfg    launchConfig
	params []*byte
	keep   []any // what cfg and params point into
}

// Bindings are the values that a launch description leaves open.
type Bindings struct {
	Env     launch.Env           // symbols and integer scalar arguments
	Scalars map[string]uint64    // scalar arguments, as bits of their type
	Buffers map[string]DevicePtr // every buffer of the description, workspaces too
}

// Bind makes a program of a description and a loaded module.
func (m *Module) Bind(s *launch.Spec, b Bindings) (*Program, error) {
	p := &Program{c: m.c}
	for i := range s.Launches {
		l := &s.Launches[i]
		k, err := m.bindKernel(l, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Kernel, err)
		}
		if k != nil {
			p.kernels = append(p.kernels, *k)
		}
	}
	return p, nil
}

// bindKernel returns nil for a launch of no block.
func (m *Module) bindKernel(l *launch.Launch, b Bindings) (*boundKernel, error) {
	k := &boundKernel{}
	dims := func(sizes [3]launch.Size, out *[3]uint32) (zero bool, err error) {
		for i, z := range sizes {
			n, err := z.Eval(b.Env)
			if err != nil {
				return false, err
			}
			if n < 0 || n > math.MaxInt32 {
				return false, fmt.Errorf("extent %d of %v is out of range", n, sizes)
			}
			out[i] = uint32(n)
			zero = zero || n == 0
		}
		return zero, nil
	}
	if zero, err := dims(l.Grid, &k.cfg.grid); err != nil || zero {
		return nil, err
	}
	if zero, err := dims(l.Block, &k.cfg.block); err != nil || zero {
		if zero {
			err = fmt.Errorf("a block of %v threads", l.Block)
		}
		return nil, err
	}
	smem, err := l.SMem.Eval(b.Env)
	if err != nil {
		return nil, err
	}
	if smem < 0 || smem > math.MaxInt32 {
		return nil, fmt.Errorf("%d bytes of dynamic shared memory", smem)
	}
	k.cfg.smem = uint32(smem)
	if k.f, err = m.Function(l.Kernel); err != nil {
		return nil, err
	}
	if err := m.c.do(func() error { return k.f.allowShared(smem) }); err != nil {
		return nil, err
	}

	var attrs []launchAttribute
	attr := func(id uint32, words ...uint32) {
		a := launchAttribute{id: id}
		for i, w := range words {
			binary.LittleEndian.PutUint32(a.value[4*i:], w)
		}
		attrs = append(attrs, a)
	}
	if l.Cluster != nil {
		attr(attrCluster, uint32(l.Cluster[0]), uint32(l.Cluster[1]), uint32(l.Cluster[2]))
	}
	if l.Cooperative {
		attr(attrCooperative, 1)
	}
	if l.Programmatic {
		attr(attrProgrammatic, 1)
	}
	if n := len(l.L2); n > 0 {
		w := l.L2[n-1]
		bytes, err := w.Bytes.Eval(b.Env)
		if err != nil {
			return nil, err
		}
		if bytes = min(bytes, int64(m.c.Device.MaxL2Persisting)); bytes > 0 {
			const limitPersistingL2 = 6 // CU_LIMIT_PERSISTING_L2_CACHE_SIZE
			if err := m.c.do(func() error {
				return m.c.d.check("cuCtxSetLimit", m.c.d.api.SetLimit(limitPersistingL2, uintptr(bytes)))
			}); err != nil {
				return nil, err
			}
			// CUaccessPolicyWindow: base, bytes, ratio, hit property, miss property.
			const persisting, streaming = 2, 1
			base := uint64(b.Buffers[w.Buffer])
			attr(attrAccessPolicy, uint32(base), uint32(base>>32), uint32(bytes), uint32(uint64(bytes)>>32),
				math.Float32bits(float32(w.Ratio)), persisting, streaming)
		}
	}
	if len(attrs) > 0 {
		k.cfg.attrs, k.cfg.numAttrs = &attrs[0], uint32(len(attrs))
	}
	for i := range l.Params {
		ptr, keep, err := m.c.param(&l.Params[i], b)
		if err != nil {
			return nil, fmt.Errorf("parameter %d: %w", i, err)
		}
		k.params = append(k.params, ptr)
		k.keep = append(k.keep, keep)
	}
	k.keep = append(k.keep, attrs)
	if len(k.params) == 0 {
		k.params = []*byte{nil} // the driver reads none of them
	}
	return k, nil
}

// param makes the bytes of one kernel parameter; keep holds them alive.
func (c *Context) param(p *launch.Param, b Bindings) (ptr *byte, keep any, err error) {
	if p.Buffer == "" {
		bits, err := p.Scalar.Bits(p.ScalarDType, b.Scalars, b.Env)
		if err != nil {
			return nil, nil, err
		}
		v := binary.LittleEndian.AppendUint64(nil, bits)
		return &v[0], v, nil
	}
	base, ok := b.Buffers[p.Buffer]
	if !ok {
		return nil, nil, fmt.Errorf("buffer %s is not bound", p.Buffer)
	}
	addr := uint64(base)
	if p.ByteOffset != nil {
		off, err := p.ByteOffset.Eval(b.Env)
		if err != nil {
			return nil, nil, err
		}
		addr += uint64(off)
	}
	if p.TMA == "" {
		v := binary.LittleEndian.AppendUint64(nil, addr)
		return &v[0], v, nil
	}
	raw := make([]byte, tensorMapBytes+tensorMapAlign)
	at := -uintptr(unsafe.Pointer(&raw[0])) % tensorMapAlign // heap memory does not move
	if err := c.encodeTensorMap(&raw[at], p, addr, b.Env); err != nil {
		return nil, nil, err
	}
	return &raw[at], raw, nil
}

// encodeTensorMap fills the 128 bytes at m.
func (c *Context) encodeTensorMap(m *byte, p *launch.Param, addr uint64, env launch.Env) error {
	rank := p.Rank()
	sizes := func(in []launch.Size) ([]uint64, error) {
		out := make([]uint64, len(in))
		for i, z := range in {
			n, err := z.Eval(env)
			if err != nil {
				return nil, err
			}
			if n < 0 {
				return nil, fmt.Errorf("tensor map %s has a negative size %d", p.TMA, n)
			}
			out[i] = uint64(n)
		}
		return out, nil
	}
	words := func(in []int) *uint32 {
		out := make([]uint32, len(in))
		for i, v := range in {
			out[i] = uint32(v)
		}
		return &out[0]
	}
	dims, err := sizes(p.GDim)
	if err != nil {
		return err
	}
	strides, err := sizes(p.GStrideAll)
	if err != nil {
		return err
	}
	strides = append(strides[1:], 0) // the driver reads rank-1 of them
	call, tiled := "cuTensorMapEncodeIm2col", p.Mode == "tiled"
	if tiled {
		call = "cuTensorMapEncodeTiled"
	}
	if c.d.api.TensorTiled == nil || c.d.api.TensorIm2col == nil {
		return &MissingError{What: call, Reason: "this CUDA driver is too old for tensor maps", Help: "it needs a driver for CUDA 12 or later"}
	}
	enum := [4]int32{int32(p.Interleave), int32(p.Swizzle), int32(p.L2Promotion), int32(p.OOBFill)}
	err = c.do(func() error {
		if tiled {
			return c.d.check(call, c.d.api.TensorTiled(m, int32(p.DataType), uint32(rank), addr, &dims[0], &strides[0],
				words(p.Box), words(p.EStride), enum[0], enum[1], enum[2], enum[3]))
		}
		corner := func(in []int) *int32 { return (*int32)(unsafe.Pointer(words(in))) }
		return c.d.check(call, c.d.api.TensorIm2col(m, int32(p.DataType), uint32(rank), addr, &dims[0], &strides[0],
			corner(p.Lower), corner(p.Upper), uint32(p.Channels), uint32(p.Pixels), words(p.EStride), enum[0], enum[1], enum[2], enum[3]))
	})
	return hint(err, cudaInvalidValue, "tensor map %s: extents %v, strides %v, box %v, address %#x break a rule of the TMA (16-byte aligned address and strides, 256 or fewer elements in a box)",
		p.TMA, dims, p.GStrideAll, p.Box, addr)
}

// Launch queues all launches on the stream.
func (p *Program) Launch(s *Stream) error {
	return p.c.do(func() error { return p.launch(s) })
}

func (p *Program) launch(s *Stream) error {
	for i := range p.kernels {
		k := &p.kernels[i]
		k.cfg.stream = s.handle
		err := p.c.d.check("cuLaunchKernelEx", p.c.d.api.Launch(&k.cfg, k.f.handle, &k.params[0], 0))
		runtime.KeepAlive(k)
		if err != nil {
			const outOfResources, tooLarge = 701, 720
			err = hint(err, cudaInvalidValue, "%s with grid %v, block %v, %d bytes of shared memory", k.f.Name, k.cfg.grid, k.cfg.block, k.cfg.smem)
			err = hint(err, outOfResources, "%s uses %d registers a thread; a block of %v does not fit", k.f.Name, k.f.Registers, k.cfg.block)
			return hint(err, tooLarge, "the grid %v of the cooperative kernel %s does not fit on the GPU at once", k.cfg.grid, k.f.Name)
		}
	}
	return nil
}

// Timing says how long a program takes on the GPU.
type Timing struct {
	Flushed    []time.Duration // each run with nothing of it in the L2 cache, in order of running
	BackToBack time.Duration   // one of the runs that follow each other without a pause, on average
}

// Time runs the program runs times with the L2 cache flushed before each, and
// runs times back to back, after warming up; ctx bounds each wait. Contents of
// buffers are what the runs make of them.
func (p *Program) Time(ctx context.Context, s *Stream, runs int) (*Timing, error) {
	if runs < 1 {
		return nil, fmt.Errorf("gpu: %d runs", runs)
	}
	flush := p.c.flushBytes()
	scratch, err := p.c.Alloc(flush)
	if err != nil {
		return nil, err
	}
	defer p.c.Free(scratch) // best effort: the context may be lost
	var evs []event
	err = p.c.do(func() error {
		for range 3 {
			if err := p.launch(s); err != nil {
				return err
			}
		}
		if evs, err = p.c.events(2*runs + 2); err != nil {
			return err
		}
		for i := range runs {
			if err := firstError(s.fill(scratch, byte(i), flush), s.record(evs[2*i])); err != nil {
				return err
			}
			if err := firstError(p.launch(s), s.record(evs[2*i+1])); err != nil {
				return err
			}
		}
		for i := range 4 {
			if err := s.fill(scratch, byte(i), flush); err != nil {
				return err
			}
		}
		if err := s.record(evs[2*runs]); err != nil {
			return err
		}
		for range runs {
			if err := p.launch(s); err != nil {
				return err
			}
		}
		return s.record(evs[2*runs+1])
	})
	defer p.c.do(func() error { p.c.destroyEvents(evs); return nil })
	if err != nil {
		return nil, err
	}
	if err := s.Wait(ctx); err != nil {
		return nil, err
	}
	t := &Timing{}
	err = p.c.do(func() error {
		for i := range runs {
			d, err := p.c.elapsed(evs[2*i], evs[2*i+1])
			if err != nil {
				return err
			}
			t.Flushed = append(t.Flushed, d)
		}
		d, err := p.c.elapsed(evs[2*runs], evs[2*runs+1])
		t.BackToBack = d / time.Duration(runs)
		return err
	})
	return t, err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
