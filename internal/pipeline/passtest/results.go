package passtest

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/npy"
)

// Limits of the runs that compare results.
const (
	symbolicSize = 100     // value of symbolic sizes and integer parameters
	maxElements  = 1 << 16 // of an array; cases with larger ones are not run
	maxRunSteps  = 1 << 24
)

// sameResults runs a module before and after a pass on the same inputs and
// reports differences between the arrays they leave. Modules the interpreter
// cannot run, and those without parameters to look at, are passed over.
func sameResults(t *testing.T, before, after *ir.IRModule) {
	t.Helper()
	if len(before.Funcs) != 1 || len(after.Funcs) != 1 {
		return
	}
	want, err := results(before)
	if err != nil {
		t.Logf("results are not compared: before the pass: %v", err)
		return
	}
	got, err := results(after)
	var nr *interp.NotRunnable
	if errors.As(err, &nr) {
		t.Logf("results are not compared: after the pass: %v", err)
		return
	}
	if err != nil {
		t.Errorf("the result of the pass fails: %v", err)
		return
	}
	for _, b := range before.Funcs[0].BufferMap {
		name := b.Buffer.Name
		w, g := want[name], got[name]
		if w == nil || g == nil {
			continue
		}
		for i := range w.Len() {
			// Element by element as floats: sums keep their order in these
			// passes, so the results are the same to the last bit.
			x, y := w.Float(i), g.Float(i)
			if x != y && !(math.IsNaN(x) && math.IsNaN(y)) {
				t.Errorf("%s[%d] is %v after the pass and was %v before", name, i, y, x)
				break
			}
		}
	}
}

// results are the arrays a module leaves.
func results(m *ir.IRModule) (map[string]*npy.Array, error) {
	args, why := inputs(m.Funcs[0])
	if why != "" {
		return nil, errors.New(why)
	}
	// One worker runs blocks in order, so that cases in which several blocks
	// store to one element have one result.
	res, err := interp.Run(context.Background(), m, args, interp.Options{Bounds: interp.BoundsImplied, MaxSteps: maxRunSteps, Workers: 1})
	if err != nil {
		return nil, err
	}
	return res.Outputs, nil
}

// inputs are arrays of small random numbers, the same for the same function.
func inputs(f *ir.PrimFunc) (interp.Args, string) {
	a := interp.Args{Arrays: map[string]*npy.Array{}, Scalars: map[string]float64{}, Strides: map[string][]int64{}}
	rnd := rand.New(rand.NewPCG(1, 2))
	if len(f.BufferMap) == 0 {
		return a, "no buffers"
	}
	value := func(e ir.Expr) (int64, bool) {
		switch e := e.(type) {
		case *ir.IntImm:
			return e.Value, true
		case *ir.Var:
			a.Scalars[e.Name] = symbolicSize
			return symbolicSize, true
		}
		return 0, false
	}
	for _, p := range f.Params {
		b := f.BufferOf(p)
		if b == nil {
			a.Scalars[p.Name] = symbolicSize
			continue
		}
		n := int64(1)
		var shape []int
		for _, e := range b.Shape {
			v, ok := value(e)
			if !ok || v > maxElements || n*v > maxElements {
				return a, b.Name + " is too large, or has no plain shape"
			}
			n *= v
			shape = append(shape, int(v))
		}
		dense := true
		want := int64(1)
		var strides []int64
		for i := len(b.Strides) - 1; i >= 0; i-- {
			v, ok := value(b.Strides[i])
			if !ok {
				return a, b.Name + " has no plain strides"
			}
			dense = dense && v == want
			want *= int64(shape[i])
			strides = append([]int64{v}, strides...)
		}
		if !dense {
			a.Strides[b.Name] = strides
		}
		arr, ok := randomArray(b.Type, shape, rnd)
		if !ok {
			return a, "arrays of " + b.Type.String()
		}
		a.Arrays[b.Name] = arr
	}
	return a, ""
}

func randomArray(t ir.DType, shape []int, rnd *rand.Rand) (*npy.Array, bool) {
	names := map[ir.DType]npy.DType{
		ir.DFloat16: "f2", ir.DFloat32: "f4", ir.DFloat64: "f8", ir.DBool: "b1",
		ir.DInt8: "i1", ir.DInt16: "i2", ir.DInt32: "i4", ir.DInt64: "i8",
		ir.DUInt8: "u1", ir.DUInt16: "u2", ir.DUInt32: "u4", ir.DUInt64: "u8",
	}
	arr, err := npy.New(names[t], shape...)
	if err != nil {
		return nil, false
	}
	for i := range arr.Len() {
		// Whole numbers from -8 to 8: exact in every type, also when a few of
		// them are added or multiplied.
		v := rnd.IntN(17) - 8
		switch {
		case t == ir.DFloat16:
			arr.SetUint(i, uint64(smallHalf(v)))
		case t == ir.DFloat32:
			arr.SetUint(i, uint64(math.Float32bits(float32(v))))
		case t == ir.DFloat64:
			binary.LittleEndian.PutUint64(arr.Data[8*i:], math.Float64bits(float64(v)))
		case t.IsUInt() || t.IsBool():
			arr.SetUint(i, uint64(v&1))
		default:
			arr.SetUint(i, uint64(v))
		}
	}
	return arr, true
}

// smallHalf is the binary16 pattern of a whole number from -15 to 15.
func smallHalf(v int) uint16 {
	sign := uint16(0)
	if v < 0 {
		sign, v = 1<<15, -v
	}
	if v == 0 {
		return sign
	}
	e := 0
	for v>>(e+1) != 0 {
		e++
	}
	return sign | uint16(15+e)<<10 | uint16(v-1<<e)<<(10-e)
}
