package interp

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"lowertrace/internal/ir"
	"lowertrace/internal/npy"
)

// Verdict grades the difference between two arrays.
type Verdict uint8

// The verdicts, from best to worst.
const (
	// Identical to the last bit (NaNs count as equal).
	Identical Verdict = iota
	// Rounding: within the tolerance.
	Rounding
	// Wrong: beyond the tolerance.
	Wrong
)

func (v Verdict) String() string { return [...]string{"same", "changed by rounding", "WRONG"}[v] }

// Difference says how one array differs from what it should be.
type Difference struct {
	Name    string
	Verdict Verdict
	// MaxError is the largest |got - want| / (|want| + rms(want)).
	MaxError float64
	// Count is the number of elements beyond the tolerance (for Rounding: that
	// differ at all), Index the first of them.
	Count     int
	Index     []int
	Got, Want float64
	// Unordered: the elements were compared sorted.
	Unordered bool
	// Note is set when the arrays cannot be compared element by element.
	Note string
}

func (d Difference) String() string {
	if d.Note != "" {
		return d.Name + ": " + d.Note
	}
	if d.Verdict == Identical {
		return d.Name + ": same"
	}
	what := fmt.Sprint(d.Index)
	if d.Unordered {
		what += " (sorted)"
	}
	return fmt.Sprintf("%s: %s, %d elements, first %s is %v, want %v, max error %.3g", d.Name, d.Verdict, d.Count, what, d.Got, d.Want, d.MaxError)
}

// CompareOptions adjust Compare.
type CompareOptions struct {
	// Types are the element types of the arrays (Result.Types); where one is
	// missing the array's own serves.
	Types map[string]ir.DType
	// RTol replaces the types' own tolerances when it is not nil.
	RTol *float64
	// Written, when not nil, restricts the comparison to marked elements
	// (Result.Written). Arrays it does not name are compared as a whole.
	Written map[string][]bool
	// Unordered names the arrays whose elements may stand in any order
	// (Result.Atomic).
	Unordered map[string]bool
}

// Tolerance is the relative tolerance of a type: 1e-5 for float32, 2e-3 for
// float16, 1.6e-2 for bfloat16, 0 for integers; 1e-12 for float64. For the
// formats of a byte and less, compared by their own steps, it is -1.
func Tolerance(t ir.DType) float64 {
	switch kindOf(t.Scalar()) {
	case kF32, kTF32:
		return 1e-5
	case kF64:
		return 1e-12
	case kF16:
		return 2e-3
	case kBF16:
		return 1.6e-2
	}
	if t.IsFloat() {
		return -1
	}
	return 0
}

// Compare compares arrays by name: an element is right when
// |got-want| <= rtol (|want| + rms(want)), one step away for the narrow float
// formats. Arrays that only one side has are Wrong. The result is in order of
// names.
func Compare(want, got map[string]*npy.Array, o CompareOptions) []Difference {
	names := map[string]bool{}
	for n := range want {
		names[n] = true
	}
	for n := range got {
		names[n] = true
	}
	var list []Difference
	for _, n := range slices.Sorted(maps.Keys(names)) {
		list = append(list, compareArray(n, want[n], got[n], o))
	}
	return list
}

func compareArray(name string, want, got *npy.Array, o CompareOptions) Difference {
	d := Difference{Name: name}
	switch {
	case want == nil:
		d.Verdict, d.Note = Wrong, "is written where nothing is expected"
		return d
	case got == nil:
		d.Verdict, d.Note = Wrong, "is not written"
		return d
	case !slices.Equal(want.Shape, got.Shape):
		d.Verdict, d.Note = Wrong, fmt.Sprintf("has shape %v, want %v", got.Shape, want.Shape)
		return d
	}
	t, ok := o.Types[name]
	if !ok {
		t = typeOfNpy(want.DType)
	}
	rtol := Tolerance(t)
	if o.RTol != nil {
		rtol = *o.RTol
	}
	n := want.Len()
	w, g := make([]float64, n), make([]float64, n)
	sum, finite := 0.0, 0
	for i := range n {
		w[i], g[i] = want.Float(i), got.Float(i)
		if x := w[i]; !math.IsNaN(x) && !math.IsInf(x, 0) {
			sum += x * x
			finite++
		}
	}
	rms := 0.0
	if finite > 0 {
		rms = math.Sqrt(sum / float64(finite))
	}
	exact := !t.IsFloat() && want.DType == got.DType
	if o.Unordered[name] {
		d.Unordered = true
		sort.Float64s(w)
		sort.Float64s(g)
		exact = false
	}
	wrong, other := 0, 0
	firstWrong, firstOther := -1, -1
	only := o.Written[name]
	if len(only) != n || d.Unordered {
		only = nil
	}
	for i := range n {
		if only != nil && !only[i] {
			continue
		}
		x, y := w[i], g[i]
		if x == y || math.IsNaN(x) && math.IsNaN(y) {
			if !exact || want.Uint(i) == got.Uint(i) {
				continue
			}
		}
		if other++; firstOther < 0 {
			firstOther = i
		}
		e := math.Abs(y-x) / (math.Abs(x) + rms)
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		d.MaxError = max(d.MaxError, e)
		if ok := rtol >= 0 && e <= rtol || rtol < 0 && oneStep(t, x, y); ok {
			continue
		}
		if wrong++; firstWrong < 0 {
			firstWrong = i
		}
	}
	at := firstWrong
	switch {
	case wrong > 0:
		d.Verdict, d.Count = Wrong, wrong
	case other > 0:
		d.Verdict, d.Count, at = Rounding, other, firstOther
	default:
		return d
	}
	d.Got, d.Want = g[at], w[at]
	for k := len(want.Shape) - 1; k >= 0; k-- {
		d.Index = append([]int{at % want.Shape[k]}, d.Index...)
		at /= want.Shape[k]
	}
	return d
}

// oneStep reports that two values of a narrow format are neighbours.
func oneStep(t ir.DType, x, y float64) bool {
	f := formats[t.Code]
	if f == nil || math.IsNaN(x) || math.IsNaN(y) {
		return false
	}
	a, b := order(f.Encode(x, 1), f.Bits()), order(f.Encode(y, 1), f.Bits())
	return a-b <= 1 && b-a <= 1
}

// order maps the patterns of a sign-magnitude format to integers in the order of
// their values.
func order(p uint32, bits int) int {
	m := int(p & (1<<(bits-1) - 1))
	if p>>(bits-1)&1 != 0 {
		return -m
	}
	return m
}

func typeOfNpy(d npy.DType) ir.DType {
	return map[npy.DType]ir.DType{"b1": ir.DBool, "i1": ir.DInt8, "i2": ir.DInt16, "i4": ir.DInt32, "i8": ir.DInt64, "u1": ir.DUInt8,
		"u2": ir.DUInt16, "u4": ir.DUInt32, "u8": ir.DUInt64, "f2": ir.DFloat16, "f4": ir.DFloat32, "f8": ir.DFloat64}[d]
}
