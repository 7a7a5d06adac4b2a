package arith

import "testing"

func TestSimplifySums(t *testing.T) {
	runText(t, []textCase{
		{"", "(i * 4 + vec) // 4", "i"},
		{"", "(i * 4 + vec) % 4", "vec"},
		{"", "(x * 8 + y) // 2", "x * 4 + y // 2"},
		{"", "x % 4 + x // 4 * 4", "x"},
		{"", "x // 4 * 4 + x % 4", "x"},
		{"", "x - x // 4 * 4", "x % 4"},
		{"", "x - x % 4", "x // 4 * 4"},
		{"", "(ko + 2) * 32", "ko * 32 + 64"},
		{"", "(ko + 2) % 3", "(ko + 2) % 3"},
		{"", "(ko + 4) % 3", "(ko + 1) % 3"},
		{"", "(ko + 3) // 3", "ko // 3 + 1"},
		{"", "i * 4 * 8 + k * 8", "i * 32 + k * 8"},
		{"", "x + y - x", "y"},
		{"", "x * 0", "0"},
		{"", "2 * x + 3 * x", "x * 5"},
		{"", "y - x", "y - x"},
		{"", "0 - x", "x * -1"},
		{"", "5 - x", "5 - x"},
		{"", "x - 5", "x - 5"},
		{"", "p + x", "x"},
		{"", "(i * 8 + k) // 16", "i // 2"},
		{"", "(i * 8 + k) % 16", "i % 2 * 8 + k"},
		{"", "tx // 32 % 2", "tx % 64 // 32"},
		{"", "tid % 32 % 16", "tid % 16"},
		{"", "tx % 128", "tx"},
		{"", "tx // 128", "0"},
		{"", "tx // 4 // 8", "tx // 32"},
		{"", "tx // 32 * 8 + tx % 32 // 4", "tx // 4"},
		{"", "((tid // 32 % 2 * 64 + i * 16 + tid % 32 % 16) * 32 + (k * 16 + 8 * (tid % 32 // 16))) % 4096 // 32", "(tid % 64 // 32 * 128 + i * 32 + tid % 16 * 2 + k) % 256 // 2"},
		{"k < 2", "((tid // 32 % 2 * 64 + i * 16 + tid % 32 % 16) * 32 + (k * 16 + 8 * (tid % 32 // 16))) % 4096 // 32", "tid % 64 // 32 * 64 + i * 16 + tid % 16"},
		{"k < 2", "((tid // 32 % 2 * 64 + i * 16 + tid % 32 % 16) * 32 + (k * 16 + 8 * (tid % 32 // 16))) % 4096 % 32", "k * 16 + tid % 32 // 16 * 8"},
		{"", "((i * 8 + v8) // 8 * 32 + tx // 4) // 8 * 256 + ((i * 8 + v8) // 8 * 32 + tx // 4) % 8 * 32", "i * 1024 + tx // 4 * 32"},
		{"", "x * n // n", "x"},
		{"", "x * n % n", "0"},
		{"", "(x * nn + y) // nn", "x + y // nn"},
		{"0 <= y; y < nn", "(x * nn + y) // nn", "x"},
		{"0 <= y; y < nn", "(x * nn + y) % nn", "y"},
		{"", "n // n", "1"},
		{"", "x % 1", "0"},
		{"", "x * n + n * x - x * n", "x * n"},
		{"", "(x + y) // 3 - (y + x) // 3", "0"},
		{"", "(x + y) // 3 * 3 + (y + x) % 3", "x + y"},
	})
}

func TestSimplifyTrunc(t *testing.T) {
	runText(t, []textCase{
		{"", "(i * 4 + vec) / 4", "i"},
		{"", "tx / 4 / 8", "tx / 32"},
		{"", "truncmod(tx, 32)", "T.truncmod(tx, 32)"},
		{"", "x / 4", "x / 4"},
		{"", "(x * 4) / 4", "x"},
		{"", "truncmod(x * 8, 4)", "0"},
		{"", "(x * 4 + vec) / 4", "(x * 4 + vec) / 4"},
		{"", "truncmod(x, 4)", "T.truncmod(x, 4)"},
		{"-3 < x; x < 3", "truncmod(x, 4)", "x"},
	})
}

// A regrouped operand might overflow where the source does not.
func TestSimplifyKeepsWhatMayOverflow(t *testing.T) {
	runText(t, []textCase{
		{"", "(x * 8 + y + z) // 8", "(x * 8 + y + z) // 8"},
		{"", "(x * 8 + y + tx) // 8", "(x * 8 + y + tx) // 8"},
		{"", "(x * 8 + tx) // 8", "tx // 8 + x"},
		{"", "x - 5 < y + 7", "x - 5 < y + 7"},
		{"", "x + 5 < y + 7", "x + 5 < y + 7"},
		{"", "x + 2147483647 + 1", "x + 2147483647 + 1"},
		{"", "x * 65536 * 65536", "x * 65536 * 65536"},
	})
	a, vars := testEnv()
	a.AssumeNoOverflow = true
	for in, want := range map[string]string{
		"(x * 8 + y + z) // 8": "(y + z) // 8 + x",
		"x + 5 < y + 7":        "x < y + 2",
	} {
		if got := show(a.Simplify(read(vars, in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestSimplifyComparisons(t *testing.T) {
	runText(t, []textCase{
		{"", "x >= 64", "64 <= x"},
		{"", "x > y", "y < x"},
		{"", "2 == x", "x == 2"},
		{"", "x + 5 < 10", "x < 5"},
		{"", "x - y < 0", "x < y"},
		{"", "0 < x - 5", "5 < x"},
		{"", "tx < 128", "T.bool(1)"},
		{"", "tx >= 128", "T.bool(0)"},
		{"", "tx < 128 and tx >= 0", "T.bool(1)"},
		{"", "x // 25 < 1", "x < 25"},
		{"", "3 <= x // 4", "12 <= x"},
		{"", "3 < x // 4", "15 < x"},
		{"", "x // 4 <= 3", "x < 16"},
		{"", "by * 64 + tx % 64 // 32 * 32 + i * 8 + tx % 32 // 4 < 200", "by * 8 + tx % 64 // 32 * 4 + i < 25"},
		{"", "i * 32 + tx < 128", "i * 32 + tx < 128"},
		{"", "x * 4 < y * 4", "x < y"},
		{"", "x * 4 == 6", "T.bool(0)"},
		{"", "x * 4 + 2 == y * 4", "T.bool(0)"},
		{"", "x * 4 <= 6", "x <= 1"},
		{"", "4 <= x * 3", "2 <= x"},
		{"", "not x < y", "y <= x"},
		{"", "not (x < y and b)", "y <= x or not b"},
		{"", "not not b", "b"},
		{"x < 10", "x < 12", "T.bool(1)"},
		{"x < y; y < z", "x < z", "T.bool(1)"},
		{"x < 10", "x < 10 or b", "T.bool(1)"},
		{"x == y", "x < y", "T.bool(0)"},
		{"x % 4 == 0", "x % 4", "0"},
		{"x % 4 == 0", "(x + 1) % 2", "1"},
		{"x == 3", "x + 1", "4"},
		{"b", "b and c", "c"},
		{"not b", "b or c", "c"},
		{"x != y", "x == y", "T.bool(0)"},
		{"0 <= x; x != 0", "0 < x", "T.bool(1)"},
		{"", "x < 5 and x < 5", "x < 5"},
		{"", "x < 5 and x < 7", "x < 5"},
		{"", "x < 5 and 7 < x", "T.bool(0)"},
		{"", "x < 5 or 5 <= x", "T.bool(1)"},
		{"", "-1 * x < 5", "-5 < x"},
		{"", "bx * 128 + tx < n", "bx * 128 + tx < n"},
	})
}

func TestSimplifyMinMaxSelect(t *testing.T) {
	runText(t, []textCase{
		{"", "min(tx, 128)", "tx"},
		{"", "max(tx, 0)", "tx"},
		{"", "min(x, x + 1)", "x"},
		{"", "min(x, min(x, y))", "T.min(x, y)"},
		{"", "min(5, x)", "T.min(5, x)"},
		{"", "min(min(x, 7), 5)", "T.min(x, 5)"},
		{"", "max(min(x, y), x)", "x"},
		{"", "Select(x < 5, min(x, 7), 0)", "T.Select(x < 5, x, 0)"},
		{"", "if_then_else(b, x, x)", "x"},
		{"", "if_then_else(b, Select(b, x, y), y)", "T.if_then_else(b, x, y)"},
		{"", "if_then_else(not 1 < 0, x, y)", "x"},
		{"", "min(tx * 4, i * 4)", "T.min(tx, i) * 4"},
		{"", "min(tx + i, tx + j)", "tx + T.min(i, j)"},
		{"", "T.int64(T.int32(L))", "T.int64(T.int32(L))"},
		{"", "T.int32(T.int64(x))", "x"},
		{"", "u + T.uint32(0)", "u"},
		{"", "u - w + w", "u - w + w"},
		{"", "u < T.uint32(0)", "T.bool(0)"},
		{"", "shift_left(3, 2) + bitwise_and(7, 5)", "17"},
	})
}

func TestSimplifyVectors(t *testing.T) {
	runText(t, []textCase{
		{"", "Ramp(x, 1, 4) + Broadcast(y, 4)", "T.Ramp(x + y, 1, 4)"},
		{"", "Broadcast(x, 4) * Broadcast(2, 4)", "T.Broadcast(x * 2, 4)"},
		{"", "Ramp(x, 1, 4) * Broadcast(4, 4)", "T.Ramp(x * 4, 4, 4)"},
		{"", "Ramp(i * 4, 1, 4) // Broadcast(4, 4)", "T.Broadcast(i, 4)"},
		{"", "Ramp(i * 8 + 4, 1, 4) % Broadcast(8, 4)", "T.Ramp(4, 1, 4)"},
		{"", "Ramp(x * 2, 1, 2) % Broadcast(64, 2)", "T.Ramp(x % 32 * 2, 1, 2)"},
		{"", "Ramp(x * 4 + 2, 1, 2) // Broadcast(8, 2)", "T.Broadcast(x // 2, 2)"},
		{"", "Ramp(x, 1, 2) % Broadcast(64, 2)", "T.Ramp(x, 1, 2) % T.Broadcast(64, 2)"},
		{"", "Ramp(x, 8, 4) // Broadcast(4, 4)", "T.Ramp(x // 4, 2, 4)"},
		{"", "Ramp(x, 8, 4) % Broadcast(4, 4)", "T.Broadcast(x % 4, 4)"},
		{"", "Ramp(i * 4, 1, 4) < Broadcast(16, 4)", "T.Broadcast(T.bool(1), 4)"},
		{"", "Ramp(x, 1, 4) - Ramp(y, 1, 4)", "T.Broadcast(x - y, 4)"},
		{"", "not Broadcast(x < y, 4)", "T.Broadcast(y <= x, 4)"},
	})
}

func TestSimplifyFloats(t *testing.T) {
	runText(t, []textCase{
		{"", "f * 1.0", "f"},
		{"", "f + 0.0", "f + 0"},
		{"", "1.5 + 2.25", "3.75"},
		{"", "1.0 / 3.0", "1 / 3"},
		{"", "f * 0.0", "f * 0"},
		{"", "f < g", "f < g"},
		{"", "not f < g", "not f < g"},
		{"", "f == f", "f == f"},
	})
}
