package launch

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"lowertrace/internal/num"
)

// docExample is the JSON in docs/launch-json.md.
func docExample(t *testing.T) string {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "launch-json.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "```json\n")
	js, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/launch-json.md has no example")
	}
	return js
}

// The documented example is read, survives a round trip, and its sizes come
// out as its text says.
func TestDocumentedExample(t *testing.T) {
	s, err := Parse([]byte(docExample(t)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Format()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if b2, _ := again.Format(); !bytes.Equal(b, b2) {
		t.Errorf("second writing differs:\n%s\n%s", b, b2)
	}
	if !reflect.DeepEqual(s, again) {
		t.Errorf("read back differently:\n%+v\n%+v", s, again)
	}
	env := Env{"m": 150}
	l := s.Launches[0]
	if y, err := l.Grid[1].Eval(env); y != 3 || err != nil {
		t.Errorf("grid.y = %d, %v; want 3", y, err)
	}
	for name, want := range map[string]int64{"A": 150 * 128 * 2, "C": 150 * 128 * 4, "partial": 12} {
		buf := s.Buffers[name]
		if n, err := buf.Bytes(env); n != want || err != nil {
			t.Errorf("%s takes %d bytes, %v; want %d", name, n, err, want)
		}
	}
	if p := l.Params[0]; p.Rank() != 2 || p.Swizzle != 2 || p.L2Promotion != 2 || p.Mode != "tiled" {
		t.Errorf("tensor map read as %+v", p)
	}
}

func TestCheckErrors(t *testing.T) {
	for _, tc := range []struct{ old, new, want string }{
		{`"version": 1`, `"version": 2`, "version 2, this program reads version 1"},
		{`"args": ["A", "C", "delta"]`, `"args": ["A", "C", "x"]`, "argument x must be in exactly one"},
		{`"args": ["A", "C", "delta"]`, `"args": ["C", "A", "delta"]`, "index differs"},
		{`"float16"`, `"float17"`, `unknown element type "float17"`},
		{`"role": "out"`, `"role": "output"`, `unknown role "output"`},
		{`"role": "workspace"`, `"role": "in"`, "must have an index or the role workspace"},
		{`"dim": 0`, `"dim": 2`, "does not have"},
		{`"dim": 0`, `"dim": 0, "stride": 0`, "exactly one of dim and stride"},
		{`[2, "(m + 63) // 64", 1]`, `[2, "(k + 63) // 64", 1]`, "uses k, which is neither"},
		{`[2, "(m + 63) // 64", 1]`, `[2, "delta", 1]`, "uses delta, which is neither"},
		{`[2, "(m + 63) // 64", 1]`, `[2, "(m + 63 // 64", 1]`, "want )"},
		{`[2, "(m + 63) // 64", 1]`, `[2, 1.5, 1]`, "1.5 is not an integer size"},
		{`"rank": 2`, `"rank": 3`, "rank 3 but 2 extents"},
		{`"box": [32, 64]`, `"box": [64, 64]`, "inner box of 128 bytes, more than its swizzle's 64"},
		{`"box": [32, 64]`, `"box": [32, 512]`, "box extent 512"},
		{`"dtype": 6`, `"dtype": 60`, "unknown element type 60"},
		{`{"buffer": "partial"}`, `{"buffer": "partia"}`, `"partia", which is not described`},
		{`{"buffer": "partial"}`, `{"pointer": "partial"}`, "none of"},
		{`{"buffer": "partial"}`, `{"buffer": "partial", "color": 1}`, `unknown field "color"`},
		{`{"scalar": "m", "dtype": "int32"}`, `{"scalar": "m", "dtype": "int4"}`, `unusable type "int4"`},
		{`{"scalar": "m", "dtype": "int32"}`, `{"scalar": "q", "dtype": "int32"}`, "uses q"},
		{`{"scalar": "m", "dtype": "int32"}`, `{"scalar": "m", "dtype": "float32"}`, "is no scalar argument"},
		{`"smem": 16384`, `"smem": 16384, "cluster": [0, 1, 1]`, "cluster [0 1 1]"},
		{`"smem": 16384`, `"smem": 16384, "l2": [{"buffer": "A", "bytes": 1, "ratio": 2}]`, "ratio 2"},
	} {
		js := docExample(t)
		bad := strings.Replace(js, tc.old, tc.new, 1)
		if bad == js {
			t.Fatalf("the example lost %s", tc.old)
		}
		if _, err := Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s for %s: have error %v, want one with %q", tc.new, tc.old, err, tc.want)
		}
	}
}

func TestExpr(t *testing.T) {
	env := Env{"m": 150, "n": -7, "big": math.MaxInt64, "low": math.MinInt64}
	for _, tc := range []struct {
		in   string
		want int64
	}{
		{"12", 12}, {"-3", -3}, {"m", 150}, {"(m + 63) // 64", 3}, {"n // 2", -4}, {"n % 2", 1}, {"7 // -2", -4}, {"7 % -2", -1},
		{"2 + 3 * 4", 14}, {"2 - 3 - 4", -5}, {"100 // 7 % 4 * 2", 4}, {"--m", 150}, {"-m % 7", 4}, {"-(m % 7)", -3},
		{"min(m, 3) + max(n, -9)", -4}, {"m > 100", 1}, {"(m == 150) * (n != -7)", 0}, {"max(m - 200, 0)", 0}, {"low + big", -1},
		{"1 + m <= 151", 1},
	} {
		z, err := ParseSize(tc.in)
		if err != nil {
			t.Errorf("%s: %v", tc.in, err)
			continue
		}
		if got, err := z.Eval(env); got != tc.want || err != nil {
			t.Errorf("%s = %d, %v; want %d", tc.in, got, err, tc.want)
		}
	}
	for in, want := range map[string]string{
		"": "want a number", "1 +": "want a number", "m n": `unexpected 'n'`, "min(1)": "takes two values", "min": "want (",
		"99999999999999999999": "no 64-bit integer", "m // 0": "divides by zero", "m % (n + 7)": "divides by zero", "x": "x has no value",
		"big + 1": "overflows", "low - 1": "overflows", "big * 2": "overflows", "low // -1": "overflows", "-low": "overflows",
		"m / 2": `unexpected '/'`, "m ** 2": "want a number", "1 < 2 < 3": `unexpected '<'`,
		strings.Repeat("(", 1000): "nested deeper", strings.Repeat("1+", MaxExprBytes): "at most",
	} {
		z, err := ParseSize(in)
		if err == nil {
			_, err = z.Eval(env)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: have error %v, want one with %q", in, err, want)
		}
	}
}

// Random expressions agree with arbitrary-precision arithmetic, overflow
// included: an expression has a value exactly if no step leaves 64 bits.
func TestExprAgainstBigInt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	vals := []int64{0, 1, -1, 2, 3, -5, 64, 1 << 31, -1 << 31, 1<<62 + 3, math.MaxInt64, math.MinInt64}
	env := Env{}
	for i, v := range vals {
		env[fmt.Sprint("v", i)] = v
	}
	fits := func(x *big.Int) bool { return x != nil && x.IsInt64() }
	var gen func(depth int) (string, *big.Int)
	gen = func(depth int) (string, *big.Int) {
		if depth == 0 || r.IntN(5) == 0 {
			i := r.IntN(len(vals))
			return fmt.Sprint("v", i), big.NewInt(vals[i])
		}
		a, x := gen(depth - 1)
		if r.IntN(8) == 0 {
			if !fits(x) {
				return "-(" + a + ")", nil
			}
			return "-(" + a + ")", new(big.Int).Neg(x)
		}
		b, y := gen(depth - 1)
		op := []string{"+", "-", "*", "//", "%", "min", "<"}[r.IntN(7)]
		text := "(" + a + ") " + op + " (" + b + ")"
		if op == "min" {
			text = "min(" + a + ", " + b + ")"
		}
		if !fits(x) || !fits(y) {
			return text, nil
		}
		z := new(big.Int)
		switch op {
		case "+":
			z.Add(x, y)
		case "-":
			z.Sub(x, y)
		case "*":
			z.Mul(x, y)
		case "//", "%":
			if y.Sign() == 0 {
				return text, nil
			}
			m := new(big.Int)
			z.QuoRem(x, y, m)
			if m.Sign() != 0 && m.Sign() != y.Sign() {
				z.Sub(z, big.NewInt(1))
				m.Add(m, y)
			}
			if !fits(z) {
				return text, nil
			}
			if op == "%" {
				z = m
			}
		case "min":
			z = x
			if y.Cmp(x) < 0 {
				z = y
			}
		case "<":
			z.SetInt64(truth(x.Cmp(y) < 0))
		}
		return text, z
	}
	values := 0
	for range 20000 {
		text, want := gen(1 + r.IntN(4))
		z, err := ParseSize(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := z.Eval(env)
		if (err == nil) != fits(want) || err == nil && got != want.Int64() {
			t.Fatalf("%s = %d, %v; want %v", text, got, err, want)
		}
		if err == nil {
			values++
		}
	}
	if values < 5000 {
		t.Errorf("only %d of 20000 expressions had a value", values)
	}
}

// Every float16 comes back as itself, and what lies between two goes to the
// nearer one, halfway to the even one.
func TestFloat16Rounding(t *testing.T) {
	bits := func(f float64) uint64 {
		b, err := FloatBits(f, "float16")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for h := uint16(0); h < 0x7c00; h++ {
		f := float64(num.F16Value(h))
		if bits(f) != uint64(h) || bits(-f) != uint64(h|0x8000) {
			t.Fatalf("%v gave %#x and %#x, want %#x", f, bits(f), bits(-f), h)
		}
		up := 65536.0 // the step above the largest
		if h+1 < 0x7c00 {
			up = float64(num.F16Value(h + 1))
		}
		mid := (f + up) / 2
		even := uint64(h + h&1)
		if bits(mid) != even || bits(math.Nextafter(mid, 0)) != uint64(h) || bits(math.Nextafter(mid, math.Inf(1))) != uint64(h+1) {
			t.Fatalf("around %v: %#x %#x %#x, want %#x %#x %#x", mid, bits(math.Nextafter(mid, 0)), bits(mid), bits(math.Nextafter(mid, math.Inf(1))), h, even, h+1)
		}
	}
	for f, want := range map[float64]uint64{math.Inf(1): 0x7c00, math.Inf(-1): 0xfc00, 1e300: 0x7c00, 5e-324: 0, math.Copysign(0, -1): 0x8000} {
		if bits(f) != want {
			t.Errorf("%v gave %#x, want %#x", f, bits(f), want)
		}
	}
	if n := bits(math.NaN()); n&0x7c00 != 0x7c00 || n&0x3ff == 0 {
		t.Errorf("NaN gave %#x", n)
	}
	if b, _ := FloatBits(1.00390625, "bfloat16"); b != 0x3f80 { // halfway, to even
		t.Errorf("bfloat16 gave %#x", b)
	}
}

func TestValueBits(t *testing.T) {
	name, err := ValueExpr("alpha")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := ValueExpr("m + 1")
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]uint64{"alpha": 0x40200000}
	for _, tc := range []struct {
		v     Value
		dtype string
		want  uint64
	}{
		{name, "float32", 0x40200000}, {sum, "int32", 151}, {Int(-1), "int8", 0xff}, {Int(-1), "int64", math.MaxUint64},
		{Bool(true), "bool", 1}, {Bool(false), "int32", 0}, {Number(2.5), "float32", 0x40200000}, {Number(2.5), "float64", 0x4004000000000000},
		{Int(255), "uint8", 255}, {Int(3), "float32", 0x40400000}, {Value{num: "18446744073709551615"}, "uint64", math.MaxUint64},
	} {
		if got, err := tc.v.Bits(tc.dtype, args, Env{"m": 150}); got != tc.want || err != nil {
			t.Errorf("%v as %s: %#x, %v; want %#x", tc.v, tc.dtype, got, err, tc.want)
		}
	}
	for _, tc := range []struct {
		v     Value
		dtype string
	}{{Int(128), "int8"}, {Int(-1), "uint32"}, {Int(2), "bool"}, {Number(2.5), "int32"}, {Int(1), "handle"}} {
		if got, err := tc.v.Bits(tc.dtype, nil, nil); err == nil {
			t.Errorf("%v as %s gave %#x", tc.v, tc.dtype, got)
		}
	}
}

func TestBufferBytes(t *testing.T) {
	sizes := func(n ...int64) (out []Size) {
		for _, x := range n {
			out = append(out, Const(x))
		}
		return out
	}
	for _, tc := range []struct {
		b    Buffer
		want int64
	}{
		{Buffer{DType: "float32"}, 4},
		{Buffer{DType: "int4", Shape: sizes(3)}, 2},
		{Buffer{DType: "float16", Shape: sizes(50, 100), Strides: sizes(128, 1)}, (49*128 + 100) * 2},
		{Buffer{DType: "float16", Shape: sizes(50, 0, 7)}, 0},
		{Buffer{DType: "int8", Shape: sizes(4, 8), Strides: sizes(0, 1)}, 8},
		{Buffer{DType: "int8", Shape: sizes(math.MaxInt64)}, -1},
		{Buffer{DType: "int8", Shape: sizes(1<<40, 1<<40)}, -1},
		{Buffer{DType: "int8", Shape: sizes(2, -1)}, -1},
		{Buffer{DType: "int8", Shape: sizes(2), Strides: sizes(-1)}, -1},
	} {
		got, err := tc.b.Bytes(nil)
		if (err != nil) != (tc.want < 0) || err == nil && got != tc.want {
			t.Errorf("%+v takes %d bytes, %v; want %d", tc.b, got, err, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "launch-json.md"))
	if err != nil {
		f.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "```json\n")
	js, _, _ := strings.Cut(rest, "```")
	f.Add(js)
	f.Add(`{"version":1,"name":"x","launches":[{"kernel":"k","grid":["1<2",1,1]}]}`)
	f.Fuzz(func(t *testing.T, in string) {
		s, err := Parse([]byte(in))
		if err != nil {
			return
		}
		out, err := s.Format()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(out); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
	})
}
