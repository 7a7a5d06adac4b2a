package arith

import (
	"fmt"
	"math"
	"math/bits"

	"lowertrace/internal/ir"
)

// NegInf and PosInf are the ends of an unbounded Bound. They are also the ends
// of int64, so every int64 value lies in an unbounded Bound.
const (
	NegInf = math.MinInt64
	PosInf = math.MaxInt64
)

// Bound is the closed interval Min..Max of integers. A result beyond int64
// counts as infinite.
type Bound struct{ Min, Max int64 }

var unbounded = Bound{NegInf, PosInf}

// Point is the interval of one value.
func Point(v int64) Bound { return Bound{v, v} }

// IsPoint reports an interval of one finite value.
func (b Bound) IsPoint() bool { return b.Min == b.Max && b.Min != NegInf && b.Min != PosInf }

// Contains reports that c lies within b.
func (b Bound) Contains(c Bound) bool { return b.Min <= c.Min && c.Max <= b.Max }

// Empty reports an interval without values: the code it describes is dead.
func (b Bound) Empty() bool { return b.Min > b.Max }

// Intersect is the values in both. An empty result keeps b: contradictory
// facts make the code dead, and dead code is left alone.
func (b Bound) Intersect(c Bound) Bound {
	r := Bound{max(b.Min, c.Min), min(b.Max, c.Max)}
	if r.Empty() {
		return b
	}
	return r
}

// Hull is the smallest interval holding both.
func (b Bound) Hull(c Bound) Bound { return Bound{min(b.Min, c.Min), max(b.Max, c.Max)} }

// String is "[min, max]" with inf for infinite ends.
func (b Bound) String() string {
	lo, hi := fmt.Sprint(b.Min), fmt.Sprint(b.Max)
	if b.Min == NegInf {
		lo = "-inf"
	}
	if b.Max == PosInf {
		hi = "inf"
	}
	return "[" + lo + ", " + hi + "]"
}

// TypeBound is the values of an integer or bool type; everything for others
// and for uint64, whose values are kept as bit patterns.
func TypeBound(t ir.DType) Bound {
	switch {
	case t.IsBool():
		return Bound{0, 1}
	case t.IsInt() && t.Bits > 0 && t.Bits < 64:
		return Bound{-1 << (t.Bits - 1), 1<<(t.Bits-1) - 1}
	case t.IsUInt() && t.Bits > 0 && t.Bits < 64:
		return Bound{0, 1<<t.Bits - 1}
	}
	return unbounded
}

func satAdd(a, b int64) int64 {
	switch {
	case a == NegInf || a == PosInf:
		return a
	case b == NegInf || b == PosInf:
		return b
	}
	s := a + b
	if (s > a) != (b > 0) && b != 0 {
		if b > 0 {
			return PosInf
		}
		return NegInf
	}
	return s
}

func satNeg(a int64) int64 {
	switch a {
	case NegInf:
		return PosInf
	case PosInf:
		return NegInf
	}
	return -a
}

func satMul(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	neg := (a < 0) != (b < 0)
	if p, ok := mulInt(a, b); ok && a != NegInf && a != PosInf && b != NegInf && b != PosInf {
		return p
	}
	if neg {
		return NegInf
	}
	return PosInf
}

// mulInt is a*b, false when it overflows.
func mulInt(a, b int64) (int64, bool) {
	if a == math.MinInt64 || b == math.MinInt64 {
		return 0, a == 0 || b == 0
	}
	hi, lo := bits.Mul64(uint64(absInt(a)), uint64(absInt(b)))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	if (a < 0) != (b < 0) {
		return -int64(lo), true
	}
	return int64(lo), true
}

// addInt is a+b, false when it overflows.
func addInt(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0) || b == 0
}

func absInt(a int64) int64 {
	if a < 0 {
		return -a
	}
	return a
}

// gcd is the greatest common divisor of two numbers, not negative; gcd(0, x)
// is |x|.
func gcd(a, b int64) int64 {
	a, b = absInt(a), absInt(b)
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (b Bound) add(c Bound) Bound { return Bound{satAdd(b.Min, c.Min), satAdd(b.Max, c.Max)} }

func (b Bound) neg() Bound { return Bound{satNeg(b.Max), satNeg(b.Min)} }

func (b Bound) scale(k int64) Bound {
	if k >= 0 {
		return Bound{satMul(b.Min, k), satMul(b.Max, k)}
	}
	return Bound{satMul(b.Max, k), satMul(b.Min, k)}
}

func (b Bound) mul(c Bound) Bound {
	x, y, z, w := satMul(b.Min, c.Min), satMul(b.Min, c.Max), satMul(b.Max, c.Min), satMul(b.Max, c.Max)
	return Bound{min(x, y, z, w), max(x, y, z, w)}
}

func satFloorDiv(a, b int64) int64 {
	if a == NegInf || a == PosInf {
		if b < 0 {
			return satNeg(a)
		}
		return a
	}
	if b == PosInf || b == NegInf {
		if a != 0 && (a < 0) != (b < 0) {
			return -1
		}
		return 0
	}
	return ir.FloorDivInt(a, b)
}

// floorDiv is the interval of x // y; y must not hold only zero. Zero itself
// is left out of y, since dividing by it is not defined.
func (b Bound) floorDiv(c Bound) Bound {
	div := func(c Bound) Bound {
		x, y, z, w := satFloorDiv(b.Min, c.Min), satFloorDiv(b.Min, c.Max), satFloorDiv(b.Max, c.Min), satFloorDiv(b.Max, c.Max)
		return Bound{min(x, y, z, w), max(x, y, z, w)}
	}
	switch {
	case c.Min > 0 || c.Max < 0:
		return div(c)
	case c.Min == 0 && c.Max == 0:
		return unbounded
	case c.Min == 0:
		return div(Bound{1, c.Max})
	case c.Max == 0:
		return div(Bound{c.Min, -1})
	}
	return div(Bound{c.Min, -1}).Hull(div(Bound{1, c.Max}))
}

// truncDiv is the interval of x / y rounded toward zero.
func (b Bound) truncDiv(c Bound) Bound {
	if b.Min >= 0 && c.Min >= 0 {
		return b.floorDiv(c)
	}
	if b.Min == NegInf || b.Max == PosInf {
		return unbounded
	}
	m := max(absInt(b.Min), absInt(b.Max))
	if c.Min > 0 {
		lo, hi := b.Min/c.Min, b.Max/c.Min
		if b.Min > 0 {
			lo = 0
		}
		if b.Max < 0 {
			hi = 0
		}
		return Bound{min(lo, 0), max(hi, 0)}
	}
	return Bound{-m, m}
}

// floorMod is the interval of x % y, which has the sign of y.
func (b Bound) floorMod(c Bound) Bound {
	if c.IsPoint() && c.Min > 0 && b.Min != NegInf && b.Max != PosInf &&
		ir.FloorDivInt(b.Min, c.Min) == ir.FloorDivInt(b.Max, c.Min) {
		return Bound{ir.FloorModInt(b.Min, c.Min), ir.FloorModInt(b.Max, c.Min)}
	}
	r := Bound{min(satAdd(c.Min, 1), 0), max(satAdd(c.Max, -1), 0)}
	if c.Min > 0 && b.Min >= 0 {
		r.Max = min(r.Max, b.Max)
	}
	return r
}

// truncMod is the interval of the remainder that has the sign of x.
func (b Bound) truncMod(c Bound) Bound {
	if b.Min >= 0 && c.Min >= 0 {
		return b.floorMod(c)
	}
	m := max(satAdd(satNeg(c.Min), -1), satAdd(c.Max, -1), 0)
	r := Bound{max(-m, min(b.Min, 0)), min(m, max(b.Max, 0))}
	if b.Min >= 0 {
		r.Min = 0
	}
	if b.Max <= 0 {
		r.Max = 0
	}
	return r
}
