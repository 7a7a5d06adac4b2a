package interp_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
)

// evalText evaluates an expression of i (int32) and x (float32) for each pair
// and stores it as the given type.
func evalText(t *testing.T, dtype npy.DType, irType, expr string, ints []int32, floats []float32) *npy.Array {
	t.Helper()
	text := fmt.Sprintf(`# from tvm.script import tirx as T

@T.prim_func
def main(I_handle: T.handle, X_handle: T.handle, Out_handle: T.handle):
    I = T.match_buffer(I_handle, (32,), "int32", strides=(1,))
    X = T.match_buffer(X_handle, (32,), strides=(1,))
    Out = T.match_buffer(Out_handle, (32,), "%s", strides=(1,))
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    i: T.int32 = I[tx]
    x: T.float32 = X[tx]
    Out[tx] = %s
`, irType, expr)
	mod, err := script.ParseString("e.tir", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	args := interp.Args{Arrays: map[string]*npy.Array{}}
	args.Arrays["I"], _ = npy.New("i4", 32)
	args.Arrays["X"], _ = npy.New("f4", 32)
	args.Arrays["Out"], _ = npy.New(dtype, 32)
	for k := range 32 {
		if len(ints) > 0 {
			args.Arrays["I"].SetUint(k, uint64(ints[k%len(ints)]))
		}
		if len(floats) > 0 {
			args.Arrays["X"].SetUint(k, uint64(math.Float32bits(floats[k%len(floats)])))
		}
	}
	res, err := interp.Run(context.Background(), mod, args, interp.Options{Sync: interp.SyncExplicit, Bounds: interp.BoundsExplicit})
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return res.Outputs["Out"]
}

var someInts = []int32{0, 1, -1, 2, -2, 3, -3, 7, -7, 8, -8, 100, -100, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, 65535, 65536, 1 << 30, -1 << 30, math.MaxInt32, math.MinInt32, math.MaxInt32 - 1, math.MinInt32 + 1, 12345, -54321}

// TestIntegers compares integer expressions with Go's arithmetic of the same
// width.
func TestIntegers(t *testing.T) {
	floorDiv := func(a, b int32) int32 {
		q := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			q--
		}
		return q
	}
	for _, c := range []struct {
		expr, irType string
		dtype        npy.DType
		want         func(i int32) int64
	}{
		{"i + 1", "int32", "i4", func(i int32) int64 { return int64(i + 1) }},
		{"i * 65537", "int32", "i4", func(i int32) int64 { return int64(i * 65537) }},
		{"0 - i", "int32", "i4", func(i int32) int64 { return int64(-i) }},
		{"i // 7", "int32", "i4", func(i int32) int64 { return int64(floorDiv(i, 7)) }},
		{"i // 8", "int32", "i4", func(i int32) int64 { return int64(floorDiv(i, 8)) }},
		{"i % 7", "int32", "i4", func(i int32) int64 { return int64(i - floorDiv(i, 7)*7) }},
		{"i % 8", "int32", "i4", func(i int32) int64 { return int64(i & 7) }},
		{"T.Div(i, 7)", "int32", "i4", func(i int32) int64 { return int64(i / 7) }},
		{"T.truncmod(i, 7)", "int32", "i4", func(i int32) int64 { return int64(i % 7) }},
		{"T.truncmod(i, 8)", "int32", "i4", func(i int32) int64 { return int64(i % 8) }},
		{"T.shift_right(i, 3)", "int32", "i4", func(i int32) int64 { return int64(i >> 3) }},
		{"T.shift_left(i, 3)", "int32", "i4", func(i int32) int64 { return int64(i << 3) }},
		{"T.bitwise_and(i, 1023)", "int32", "i4", func(i int32) int64 { return int64(i & 1023) }},
		{"T.bitwise_or(i, 1023)", "int32", "i4", func(i int32) int64 { return int64(i | 1023) }},
		{"T.bitwise_xor(i, -1)", "int32", "i4", func(i int32) int64 { return int64(^i) }},
		{"T.bitwise_not(i)", "int32", "i4", func(i int32) int64 { return int64(^i) }},
		{"T.min(i, 5)", "int32", "i4", func(i int32) int64 { return int64(min(i, 5)) }},
		{"T.max(i, 5)", "int32", "i4", func(i int32) int64 { return int64(max(i, 5)) }},
		{`T.Cast("int8", i)`, "int8", "i1", func(i int32) int64 { return int64(int8(i)) }},
		{`T.Cast("uint8", i)`, "uint8", "u1", func(i int32) int64 { return int64(uint8(i)) }},
		{`T.Cast("int16", i)`, "int16", "i2", func(i int32) int64 { return int64(int16(i)) }},
		{`T.Cast("uint32", i)`, "uint32", "u4", func(i int32) int64 { return int64(uint32(i)) }},
		{`T.Cast("int64", i) * T.int64(4294967297)`, "int64", "i8", func(i int32) int64 { return int64(i) * 4294967297 }},
		{`T.Cast("uint32", i) // T.uint32(10)`, "uint32", "u4", func(i int32) int64 { return int64(uint32(i) / 10) }},
		{`T.Cast("uint32", i) % T.uint32(10)`, "uint32", "u4", func(i int32) int64 { return int64(uint32(i) % 10) }},
		{`T.Cast("uint64", T.Cast("int64", i)) // T.uint64(10)`, "uint64", "u8", func(i int32) int64 { return int64(uint64(int64(i)) / 10) }},
		{`T.Cast("int32", T.Cast("uint32", i) < T.uint32(1000))`, "int32", "i4", func(i int32) int64 {
			if uint32(i) < 1000 {
				return 1
			}
			return 0
		}},
		{`T.Cast("int32", T.shift_right(T.Cast("uint32", i), T.uint32(4)))`, "int32", "i4", func(i int32) int64 { return int64(int32(uint32(i) >> 4)) }},
		{`T.Cast("int8", i) + T.Cast("int8", 100)`, "int8", "i1", func(i int32) int64 { return int64(int8(i) + 100) }},
	} {
		out := evalText(t, c.dtype, c.irType, c.expr, someInts, nil)
		for k, i := range someInts {
			want := c.want(i)
			if got := out.Int(k); got != want {
				t.Errorf("%s with i = %d: %d, want %d", c.expr, i, got, want)
			}
		}
	}
}

// TestFloats compares expressions of floats with known values.
func TestFloats(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		expr, irType string
		dtype        npy.DType
		x            float32
		want         float64
	}{
		{"x + T.float32(1.0)", "float32", "f4", 16777216, 16777216}, // ties to even
		{"x * x + T.float32(-1.0)", "float32", "f4", 1.0000001, float64(float32(1.0000001)*float32(1.0000001)) - 1},
		{`T.Cast("float16", x) + T.float16(1.0)`, "float16", "f2", 2048, 2048},
		{`T.Cast("float16", x)`, "float16", "f2", 70000, inf},
		{`T.Cast("float16", x)`, "float16", "f2", 1e-8, 0},
		{`T.Cast("float32", T.Cast("bfloat16", x))`, "float32", "f4", 1.00390625, 1}, // tie, even below
		{`T.Cast("float32", T.Cast("float8_e4m3fn", x))`, "float32", "f4", 1000, 448},
		{`T.Cast("float32", T.Cast("float8_e5m2", x))`, "float32", "f4", 0.3, 0.3125},
		{`T.Cast("int32", x)`, "int32", "i4", -2.9, -2},
		{`T.Cast("int32", x)`, "int32", "i4", 3e9, math.MaxInt32},
		{`T.Cast("int32", x)`, "int32", "i4", float32(nan), 0},
		{`T.Cast("uint32", x)`, "uint32", "u4", -5, 0},
		{`T.Cast("uint32", x)`, "uint32", "u4", 4e9, 4e9},
		{`T.Cast("bool", x)`, "bool", "b1", 0.25, 1},
		{"T.max(x, T.float32(2.0))", "float32", "f4", float32(nan), 2},
		{"T.min(T.float32(2.0), x)", "float32", "f4", float32(nan), 2},
		{"T.max(x, T.float32(0.0))", "float32", "f4", -3, 0},
		{"T.round(x)", "float32", "f4", 2.5, 2},
		{"T.floor(x)", "float32", "f4", -2.5, -3},
		{"T.trunc(x)", "float32", "f4", -2.5, -2},
		{"T.rsqrt(x)", "float32", "f4", 16, 0.25},
		{"T.exp2(x)", "float32", "f4", 10, 1024},
		{"T.if_then_else(T.isnan(x), T.float32(1.0), T.float32(0.0))", "float32", "f4", float32(nan), 1},
		{`T.reinterpret("float32", T.reinterpret("int32", x) + 1)`, "float32", "f4", 1, float64(math.Nextafter32(1, 2))},
		{`T.Cast("float32", T.infinity("float16"))`, "float32", "f4", 0, inf},
	} {
		out := evalText(t, c.dtype, c.irType, c.expr, nil, []float32{c.x})
		if got := out.Float(0); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s with x = %v: %v, want %v", c.expr, c.x, got, c.want)
		}
	}
}

// TestPackedTypes stores and loads elements of less than a byte through the
// same memory.
func TestPackedTypes(t *testing.T) {
	for _, c := range []struct {
		elem   string
		signed bool
	}{{"int4", true}, {"uint4", false}} {
		text := fmt.Sprintf(`# from tvm.script import tirx as T

@T.prim_func
def main(Out_handle: T.handle):
    Out = T.match_buffer(Out_handle, (32, 8), "int32", strides=(8, 1))
    bx = T.launch_thread("blockIdx.x", 1)
    tx = T.launch_thread("threadIdx.x", 32)
    p = T.alloc_buffer((8,), "%s", scope="local")
    for i in range(8):
        p[i] = T.Cast("%s", tx + i * 3)
    for i in range(8):
        Out[tx, i] = T.Cast("int32", p[i])
`, c.elem, c.elem)
		mod, err := script.ParseString("p.tir", text)
		if err != nil {
			t.Fatal(err)
		}
		args := interp.Args{Arrays: map[string]*npy.Array{}}
		args.Arrays["Out"], _ = npy.New("i4", 32, 8)
		res, err := interp.Run(context.Background(), mod, args, interp.Options{Findings: true, Sync: interp.SyncExplicit, Bounds: interp.BoundsExplicit})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Findings) > 0 {
			t.Error(res.Findings)
		}
		for k := range 32 * 8 {
			want := int64(k/8+k%8*3) & 15
			if c.signed && want > 7 {
				want -= 16
			}
			if got := res.Outputs["Out"].Int(k); got != want {
				t.Fatalf("%s: Out[%d, %d] = %d, want %d", c.elem, k/8, k%8, got, want)
			}
		}
	}
}
