package interp

import "testing"

// TestPhilox checks blocks of words against the known answers that Random123
// publishes for philox4x32-10 (kat_vectors), and that an offset skips words,
// across blocks and the counter's halves too.
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		lo, hi uint64
		key    [2]uint32
		want   [4]uint32
	}{
		{0, 0, [2]uint32{0, 0}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{^uint64(0), ^uint64(0), [2]uint32{0xffffffff, 0xffffffff}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x85a308d3243f6a88, 0x0370734413198a2e, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		p := philox{lo: c.lo, hi: c.hi, key: c.key}
		p.advance(0)
		if p.out != c.want {
			t.Errorf("counter %#x %#x, key %#x: %#x, want %#x", c.hi, c.lo, c.key, p.out, c.want)
		}
	}
	for _, off := range []uint64{0, 1, 3, 4, 9, 1 << 34} {
		p := newPhilox(42, 7, off)
		q := newPhilox(42, 7, off&^3)
		for range off % 4 {
			q.next()
		}
		for i := range 12 {
			if a, b := p.next(), q.next(); a != b {
				t.Fatalf("offset %d, word %d: %#x, want %#x", off, i, a, b)
			}
		}
	}
	p := philox{lo: ^uint64(0)}
	if p.advance(1); p.lo != 0 || p.hi != 1 {
		t.Errorf("the counter goes on to %#x %#x", p.hi, p.lo)
	}
}
