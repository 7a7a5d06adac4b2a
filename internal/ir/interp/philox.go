package interp

import (
	"math/bits"

	"lowertrace/internal/ir"
)

// philox is the generator Philox4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011), seeded and read out as cuRAND's
// curandStatePhilox4_32_10_t: the seed is the key, the sequence the upper half
// of the counter, and the offset counts words.
type philox struct {
	lo, hi uint64 // the counter
	key    [2]uint32
	out    [4]uint32
	at     int // next word of out
}

func newPhilox(seed, sequence, offset uint64) philox {
	p := philox{hi: sequence, key: [2]uint32{uint32(seed), uint32(seed >> 32)}, at: int(offset % 4)}
	p.advance(offset / 4)
	return p
}

// advance goes on by n blocks of four words.
func (p *philox) advance(n uint64) {
	var carry uint64
	p.lo, carry = bits.Add64(p.lo, n, 0)
	p.hi += carry
	c, k := [4]uint32{uint32(p.lo), uint32(p.lo >> 32), uint32(p.hi), uint32(p.hi >> 32)}, p.key
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, c[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0}
		k[0] += 0x9E3779B9
		k[1] += 0xBB67AE85
	}
	p.out = c
}

func (p *philox) next() uint32 {
	r := p.out[p.at]
	if p.at++; p.at == 4 {
		p.at = 0
		p.advance(1)
	}
	return r
}

// generators are those of a warp's threads.
type generators struct {
	p      [lanes]philox
	seeded uint32 // lanes
	inColl bool   // seeded within the collective statement that runs
}

// rngInit compiles rng_init(seed, sequence, offset, generator).
func (c *comp) rngInit(e *ir.Call) stmtFn {
	if s, ok := e.Args[3].(*ir.StringImm); !ok || s.Value != "curandStatePhilox4_32_10_t" {
		c.cannot("another generator of random numbers than Philox4_32_10")
	}
	arg := func(i int) func(*warp) []int64 { return c.vecI(c.expr(e.Args[i])) }
	seed, seq, off := arg(0), arg(1), arg(2)
	return func(w *warp) {
		s, q, o := seed(w), seq(w), off(w)
		if w.rng == nil {
			w.rng = &generators{}
		}
		for t := w.mask; t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			to := l
			if w.coll {
				to, w.rng.inColl = 0, true
			}
			w.rng.p[to] = newPhilox(uint64(s[l]), uint64(q[l]), uint64(o[l]))
			w.rng.seeded |= 1 << to
		}
	}
}

// rngRand compiles rng_rand() and rng_rand_float(distribution).
func (c *comp) rngRand(e *ir.Call) val {
	span := c.span
	draw := func(w *warp, l int) uint32 {
		if w.coll {
			// The iterations of a parallel loop draw from the generators of the
			// threads that run them, which only LowerTileOp knows.
			if b := w.b; b != nil && b.l.dim[3]*b.l.dim[4]*b.l.dim[5] > 1 && (w.rng == nil || !w.rng.inColl) {
				panic(&NotRunnable{span, "which thread draws which random number is not settled yet"})
			}
			l = 0
		}
		if w.rng == nil || w.rng.seeded>>l&1 == 0 {
			panic(&Error{Span: span, Msg: "a random number is drawn before T.rng_init"})
		}
		return w.rng.p[l].next()
	}
	if e.Op.Name == "rng_rand" {
		at := c.tempI(1)
		return val{t: ir.DUInt32, vi: func(w *warp) []int64 {
			d := w.I[at : at+lanes]
			for t := w.mask; t != 0; t &= t - 1 {
				l := bits.TrailingZeros32(t)
				d[l] = int64(draw(w, l))
			}
			return d
		}}
	}
	if s, ok := e.Args[0].(*ir.StringImm); !ok || s.Value != "uniform" {
		c.cannot("random numbers of another distribution than the uniform one")
	}
	at := c.tempF(1)
	return val{t: ir.DFloat32, vf: func(w *warp) []float64 {
		d := w.F[at : at+lanes]
		for t := w.mask; t != 0; t &= t - 1 {
			l := bits.TrailingZeros32(t)
			d[l] = float64(float32(float64(float32(draw(w, l)))*0x1p-32 + 0x1p-33)) // in (0, 1]
		}
		return d
	}}
}
