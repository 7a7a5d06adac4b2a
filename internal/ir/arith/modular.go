package arith

import (
	"fmt"

	"lowertrace/internal/ir"
)

// Mod is the set of integers congruent to Base modulo Coeff. Coeff is not
// negative; 0 means the value Base alone, 1 any integer. Otherwise
// 0 <= Base < Coeff.
type Mod struct{ Coeff, Base int64 }

var anyMod = Mod{1, 0}

// String is "coeff*k + base".
func (m Mod) String() string { return fmt.Sprintf("%d*k + %d", m.Coeff, m.Base) }

func makeMod(coeff, base int64) Mod {
	if coeff == NegInf {
		return anyMod
	}
	coeff = absInt(coeff)
	if coeff != 0 {
		base = ir.FloorModInt(base, coeff)
	}
	return Mod{coeff, base}
}

// DivisibleBy reports that every value of the set is a multiple of c, c > 0.
func (m Mod) DivisibleBy(c int64) bool { return m.Coeff%c == 0 && m.Base%c == 0 }

// Excludes reports that v is not in the set.
func (m Mod) Excludes(v int64) bool {
	if m.Coeff == 0 {
		return m.Base != v
	}
	return ir.FloorModInt(v, m.Coeff) != m.Base
}

func (m Mod) add(n Mod) Mod {
	b, ok := addInt(m.Base, n.Base)
	if !ok {
		return anyMod
	}
	return makeMod(gcd(m.Coeff, n.Coeff), b)
}

func (m Mod) scale(k int64) Mod {
	c, ok1 := mulInt(m.Coeff, k)
	b, ok2 := mulInt(m.Base, k)
	if !ok1 || !ok2 {
		return anyMod
	}
	return makeMod(c, b)
}

func (m Mod) mul(n Mod) Mod {
	// (c1*k + b1) * (c2*l + b2): every term but b1*b2 is a multiple of one of
	// c1*c2, c1*b2, b1*c2.
	p, ok1 := mulInt(m.Coeff, n.Coeff)
	q, ok2 := mulInt(m.Coeff, n.Base)
	r, ok3 := mulInt(m.Base, n.Coeff)
	b, ok4 := mulInt(m.Base, n.Base)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return anyMod
	}
	return makeMod(gcd(gcd(p, q), r), b)
}

func (m Mod) union(n Mod) Mod {
	d, ok := addInt(m.Base, -n.Base)
	if !ok || n.Base == NegInf {
		return anyMod
	}
	return makeMod(gcd(gcd(m.Coeff, n.Coeff), d), m.Base)
}

func (m Mod) floorMod(c int64) Mod {
	if m.Coeff == 0 {
		return Mod{0, ir.FloorModInt(m.Base, c)}
	}
	g := gcd(m.Coeff, c)
	if g == c {
		return Mod{0, ir.FloorModInt(m.Base, c)}
	}
	return makeMod(g, m.Base)
}

func (m Mod) floorDiv(c int64) Mod {
	if m.Coeff%c != 0 {
		return anyMod
	}
	return makeMod(m.Coeff/c, ir.FloorDivInt(m.Base, c))
}

// narrow combines two facts about one value, keeping the finer one where they
// cannot be merged cheaply.
func (m Mod) narrow(n Mod) Mod {
	if m.Coeff == 0 || n.Coeff != 0 && m.Coeff%n.Coeff == 0 {
		return m
	}
	if n.Coeff == 0 || n.Coeff%m.Coeff == 0 {
		return n
	}
	if n.Coeff > m.Coeff {
		return n
	}
	return m
}
