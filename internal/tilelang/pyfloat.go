package tilelang

import (
	"math"
	"math/big"
	"sync"
)

// Powers, exponentials and logarithms as a C library gives them to Python: but
// for log10 the float next to the exact value, the even one of two. A factor
// such as dim**-0.5 * log2(e) stands in the kernel's text, where the last digit
// shows. Go's own functions may miss it.

const (
	// workBits is the precision that is calculated with. No power of floats lies
	// within 2**-120 of the middle of two floats unless it is the middle.
	workBits = 256
	// middleBits is what a result is rounded to first, so that an exact middle
	// is one again.
	middleBits = 160
	// bigSteps is what a calculation with big numbers counts for among the steps of
	// an evaluation: it takes some 30 microseconds.
	bigSteps = 100
)

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(workBits).SetFloat64(x) }

func bigInt(n int64) *big.Float { return new(big.Float).SetPrec(workBits).SetInt64(n) }

func newBig() *big.Float { return new(big.Float).SetPrec(workBits) }

// nearest64 is the float next to x.
func nearest64(x *big.Float) float64 {
	f, _ := new(big.Float).SetPrec(middleBits).Set(x).Float64()
	return f
}

// atanh2 is 2*atanh(z) = 2*(z + z**3/3 + z**5/5 + ...), for small z.
func atanh2(z *big.Float) *big.Float {
	sum, power, sq := newBig().Set(z), newBig().Set(z), newBig().Mul(z, z)
	for n := int64(3); power.Sign() != 0; n += 2 {
		power.Mul(power, sq)
		term := newBig().Quo(power, bigInt(n))
		if term.Sign() == 0 || term.MantExp(nil) < sum.MantExp(nil)-workBits {
			break
		}
		sum.Add(sum, term)
	}
	return sum.Add(sum, sum)
}

// bigLn2 is the logarithm of 2.
var bigLn2 = sync.OnceValue(func() *big.Float { return atanh2(newBig().Quo(bigInt(1), bigInt(3))) })

// bigLog is the natural logarithm of x > 0.
func bigLog(x *big.Float) *big.Float {
	m := newBig()
	e := x.MantExp(m) // x = m * 2**e, m in [0.5, 1)
	if m.Cmp(bigFloat(math.Sqrt2/2)) < 0 {
		m.Add(m, m)
		e--
	}
	one := bigInt(1)
	r := atanh2(newBig().Quo(newBig().Sub(m, one), newBig().Add(m, one)))
	return r.Add(r, newBig().Mul(bigInt(int64(e)), bigLn2()))
}

// bigExp is e**x for |x| < 2**20.
func bigExp(x *big.Float) *big.Float {
	ln2 := bigLn2()
	q, _ := newBig().Quo(x, ln2).Float64()
	k := int64(math.RoundToEven(q))
	// e**x = 2**k * (e**(r/2**halvings))**(2**halvings)
	const halvings = 16
	r := newBig().Sub(x, newBig().Mul(bigInt(k), ln2))
	r.SetMantExp(r, -halvings)
	sum, term := bigInt(1), bigInt(1)
	for n := int64(1); term.Sign() != 0 && term.MantExp(nil) > -workBits; n++ {
		term.Quo(term.Mul(term, r), bigInt(n))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return newBig().SetMantExp(sum, int(k))
}

// pow is x to the power y.
func pow(x, y float64) float64 {
	rough := math.Pow(x, y) // settles signs, zeros, infinities and what is no number
	if x == 0 || x == 1 || x == -1 || y == 0 || math.IsNaN(rough) || math.IsInf(x, 0) || math.IsInf(y, 0) {
		return rough
	}
	p := newBig().Mul(bigFloat(y), bigLog(bigFloat(math.Abs(x))))
	if e, _ := p.Float64(); math.Abs(e) > 1000 {
		return rough // infinite or zero: floats end at e**710 and e**-746
	}
	return math.Copysign(nearest64(bigExp(p)), rough)
}

// exactly is f, calculated with big numbers where x is finite and rough, f as Go
// has it, is neither 0 nor infinite.
func exactly(x, rough float64, f func(x *big.Float) *big.Float) float64 {
	if math.IsNaN(rough) || math.IsInf(rough, 0) || rough == 0 || math.IsInf(x, 0) {
		return rough
	}
	return nearest64(f(bigFloat(x)))
}

func exp(x float64) float64 { return exactly(x, math.Exp(x), bigExp) }

func exp2(x float64) float64 { return pow(2, x) }

func log(x float64) float64 { return exactly(x, math.Log(x), bigLog) }

func log2(x float64) float64 {
	return exactly(x, math.Log2(x), func(x *big.Float) *big.Float { return newBig().Quo(bigLog(x), bigLn2()) })
}

// log10 is the sum that C libraries use, those of fdlibm's e_log10.c: the power of
// 2 in x apart, times a logarithm of 2 in two parts.
func log10(x float64) float64 {
	if x <= 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return math.Log10(x)
	}
	const (
		perLn  = 4.34294481903251816668e-01 // 1/ln(10)
		of2    = 3.01029995663611771306e-01 // the high part of log10(2)
		of2low = 3.69423907715893078616e-13
	)
	m, e := math.Frexp(x)
	m, e = 2*m, e-1
	if e < 0 {
		m, e = m/2, e+1
	}
	rest := float64(float64(e)*of2low) + float64(perLn*log(m))
	return rest + float64(float64(e)*of2)
}
