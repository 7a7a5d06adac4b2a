package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"lowertrace/internal/gpu"
	"lowertrace/internal/launch"
)

// execGPU is what exec needs of a GPU. Tests put another in its place.
type execGPU interface {
	// Device describes the GPU.
	Device() gpu.Device
	// Run launches a compiled function once and, when runs is more than 0,
	// times it. After an error of its own kernels the GPU may be unusable.
	Run(ctx context.Context, obj *gpu.Object, spec *launch.Spec, a *deviceArgs, runs int) (*gpuResult, error)
	Close()
}

// gpuResult is what a run on a GPU gave.
type gpuResult struct {
	buffers  map[string][]byte // contents after the first launch
	outside  []string          // buffers whose surroundings were written
	resident []int             // blocks per SM by the driver, for each kernel launched
	kernels  []string
	timing   *gpu.Timing     // nil: not timed
	launches []time.Duration // medians, for each kernel launched; nil for a single one
}

// openGPU opens a GPU; tests replace it.
var openGPU = func(ordinal int) (execGPU, error) {
	drv, err := gpu.OpenDriver(gpu.NewFinder())
	if err != nil {
		return nil, err
	}
	c, err := drv.Open(ordinal)
	if err != nil {
		return nil, err
	}
	return &realGPU{c: c}, nil
}

// guardBytes of a pattern lie on both sides of every buffer, so that a kernel
// that writes beside it is found out.
const (
	guardBytes = 4096
	guardByte  = 0xa5
)

type realGPU struct {
	c    *gpu.Context
	hung bool // a kernel never ended: the context cannot be closed
}

func (g *realGPU) Device() gpu.Device { return g.c.Device }

func (g *realGPU) Close() {
	if !g.hung {
		g.c.Close()
	}
	gpu.FlushOutput()
}

func (g *realGPU) Run(ctx context.Context, obj *gpu.Object, spec *launch.Spec, a *deviceArgs, runs int) (res *gpuResult, err error) {
	defer gpu.FlushOutput()
	mod, err := g.c.Load(obj.Cubin)
	if err != nil {
		return nil, err
	}
	s, err := g.c.NewStream()
	if err != nil {
		return nil, err
	}
	res = &gpuResult{buffers: map[string][]byte{}}
	names := slices.Sorted(maps.Keys(a.buffers))
	at := map[string]gpu.DevicePtr{}
	var owned []gpu.DevicePtr
	defer func() {
		if g.hung {
			return
		}
		for _, p := range owned { // best effort: after a crash nothing can be freed
			g.c.Free(p)
		}
		s.Destroy()
		mod.Unload()
	}()
	for _, n := range names {
		size := int64(len(a.buffers[n]))
		p, err := g.c.Alloc(size + 2*guardBytes)
		if err != nil {
			return nil, fmt.Errorf("buffer %s: %w", n, err)
		}
		owned = append(owned, p)
		at[n] = p + guardBytes
		if err := s.Fill(p, guardByte, size+2*guardBytes); err != nil {
			return nil, err
		}
	}
	if err := g.wait(ctx, s); err != nil {
		return nil, err
	}
	for _, n := range names {
		if err := g.c.Write(at[n], a.buffers[n]); err != nil {
			return nil, err
		}
	}
	prog, err := mod.Bind(spec, gpu.Bindings{Env: a.env, Scalars: a.scalars, Buffers: at})
	if err != nil {
		return nil, err
	}
	res.kernels = prog.Kernels()
	if res.resident, err = prog.BlocksPerSM(); err != nil {
		return nil, err
	}
	if err := prog.Launch(s); err != nil {
		return nil, err
	}
	if err := g.wait(ctx, s); err != nil {
		return nil, err
	}
	for _, n := range names {
		size := len(a.buffers[n])
		raw := make([]byte, size+2*guardBytes)
		if err := g.c.Read(raw, at[n]-guardBytes); err != nil {
			return nil, err
		}
		guard := bytes.Repeat([]byte{guardByte}, guardBytes)
		if !bytes.Equal(raw[:guardBytes], guard) || !bytes.Equal(raw[guardBytes+size:], guard) {
			res.outside = append(res.outside, n)
		}
		res.buffers[n] = raw[guardBytes : guardBytes+size]
	}
	if runs == 0 || len(res.kernels) == 0 {
		return res, nil
	}
	if res.timing, err = prog.Time(ctx, s, runs); err != nil {
		return nil, g.noteHang(err)
	}
	if len(res.kernels) > 1 {
		if res.launches, err = prog.TimeLaunches(ctx, s, runs); err != nil {
			return nil, g.noteHang(err)
		}
	}
	return res, nil
}

func (g *realGPU) wait(ctx context.Context, s *gpu.Stream) error { return g.noteHang(s.Wait(ctx)) }

// noteHang remembers that a kernel goes on after its wait was given up.
func (g *realGPU) noteHang(err error) error {
	if errors.Is(err, gpu.ErrHang) || errors.Is(err, context.Canceled) {
		g.hung = true
	}
	return err
}
