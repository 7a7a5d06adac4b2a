package memory

import "lowertrace/internal/ir"

// elements is the number of elements of a buffer of constant shape.
func elements(b *ir.Buffer) (int64, bool) {
	n := int64(1)
	for _, e := range b.Shape {
		v, ok := ir.AsInt(e)
		if !ok || v < 0 {
			return 0, false
		}
		if v != 0 && n > maxElements/v {
			return 0, false
		}
		n *= v
	}
	return n, true
}

// maxElements bounds the size of an allocation that is planned: 2^40 elements
// are beyond any device.
const maxElements = 1 << 40
