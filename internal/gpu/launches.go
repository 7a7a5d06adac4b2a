package gpu

import (
	"context"
	"slices"
	"time"
)

// Kernels returns the names of the kernels that a launch of the program runs,
// in order; launches of no block are left out.
func (p *Program) Kernels() []string {
	var names []string
	for i := range p.kernels {
		names = append(names, p.kernels[i].f.Name)
	}
	return names
}

// BlocksPerSM asks the driver how many blocks of each kernel an SM holds at
// once, in the order of Kernels.
func (p *Program) BlocksPerSM() ([]int, error) {
	var out []int
	for i := range p.kernels {
		k := &p.kernels[i]
		threads := k.cfg.block[0] * k.cfg.block[1] * k.cfg.block[2]
		n, err := k.f.BlocksPerSM(int(threads), int64(k.cfg.smem))
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// TimeLaunches times each kernel of the program by itself: the medians of runs
// runs, in the order of Kernels, with the L2 cache flushed before the first
// kernel of each run. A kernel that finds its inputs in the cache because the
// one before left them there does so here too.
func (p *Program) TimeLaunches(ctx context.Context, s *Stream, runs int) ([]time.Duration, error) {
	flush := p.c.flushBytes()
	scratch, err := p.c.Alloc(flush)
	if err != nil {
		return nil, err
	}
	defer p.c.Free(scratch) // best effort: the context may be lost
	n := len(p.kernels)
	var evs []event
	err = p.c.do(func() error {
		var err error
		if evs, err = p.c.events(runs * (n + 1)); err != nil {
			return err
		}
		for r := range runs {
			at := evs[r*(n+1):]
			if err := firstError(s.fill(scratch, byte(r), flush), s.record(at[0])); err != nil {
				return err
			}
			for i := range n {
				one := Program{c: p.c, kernels: p.kernels[i : i+1]}
				if err := firstError(one.launch(s), s.record(at[i+1])); err != nil {
					return err
				}
			}
		}
		return nil
	})
	defer p.c.do(func() error { p.c.destroyEvents(evs); return nil })
	if err != nil {
		return nil, err
	}
	if err := s.Wait(ctx); err != nil {
		return nil, err
	}
	out := make([]time.Duration, n)
	err = p.c.do(func() error {
		for i := range n {
			var all []time.Duration
			for r := range runs {
				d, err := p.c.elapsed(evs[r*(n+1)+i], evs[r*(n+1)+i+1])
				if err != nil {
					return err
				}
				all = append(all, d)
			}
			out[i] = Median(all)
		}
		return nil
	})
	return out, err
}

// flushBytes is how much to write so that nothing of a program's data is left
// in the L2 cache: twice its size. That also takes longer than queueing the
// launches, so that these start without a gap.
func (c *Context) flushBytes() int64 { return int64(max(2*c.Device.L2, 64<<20)) }

// Median returns the middle one of some durations, 0 for none.
func Median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
