package script

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"lowertrace/internal/ir/script/syntax"
)

// Integer constants are those of Python, or refused.
func TestPyIntOp(t *testing.T) {
	for _, c := range []struct {
		op    syntax.Op
		x, y  int64
		want  int64
		fault string
	}{
		{syntax.Add, math.MaxInt64, 1, 0, tooLarge},
		{syntax.Add, math.MinInt64, -1, 0, tooLarge},
		{syntax.Add, math.MaxInt64, math.MinInt64, -1, ""},
		{syntax.Sub, math.MinInt64, 1, 0, tooLarge},
		{syntax.Sub, 0, math.MinInt64, 0, tooLarge},
		{syntax.Sub, -1, math.MinInt64, math.MaxInt64, ""},
		{syntax.Mul, 1 << 32, 1 << 31, 0, tooLarge},
		{syntax.Mul, -(1 << 31), 1 << 31, -(1 << 62), ""},
		{syntax.FloorDiv, 7, -2, -4, ""},
		{syntax.FloorDiv, math.MinInt64, -1, 0, tooLarge},
		{syntax.Mod, -7, 3, 2, ""},
		{syntax.Mod, 7, -3, -2, ""},
		{syntax.Mod, 7, 0, 0, "division by zero"},
		{syntax.LShift, 1, 62, 1 << 62, ""},
		{syntax.LShift, 1, 63, 0, tooLarge},
		{syntax.LShift, 0, 1000, 0, ""},
		{syntax.LShift, -3, 2, -12, ""},
		{syntax.RShift, -5, 1, -3, ""},
		{syntax.RShift, -5, 1000, -1, ""},
		{syntax.Pow, 2, 62, 1 << 62, ""},
		{syntax.Pow, 2, 63, 0, tooLarge},
		{syntax.Pow, -1, math.MaxInt64, -1, ""},
		{syntax.Pow, -1, 4, 1, ""},
		{syntax.Pow, 1, math.MaxInt64, 1, ""},
		{syntax.Pow, 0, math.MaxInt64, 0, ""},
		{syntax.Pow, 0, 0, 1, ""},
		{syntax.Pow, -3, 3, -27, ""},
	} {
		v, fault, ok := pyIntOp(c.op, c.x, c.y)
		if !ok || v != c.want || fault != c.fault {
			t.Errorf("%d %s %d = %d, %q, %v; want %d, %q", c.x, c.op, c.y, v, fault, ok, c.want, c.fault)
		}
	}
}

// A long chain is read in time that grows with its length alone.
func TestLongChain(t *testing.T) {
	text := func(n int) string {
		return fmt.Sprintf("@T.prim_func\ndef f(x: T.int32):\n    T.evaluate(x%s)\n", strings.Repeat(" + 1", n))
	}
	start := time.Now()
	if _, err := ParseString("chain.tir", text(900)); err != nil {
		t.Fatal(err)
	}
	short := time.Since(start)
	start = time.Now()
	_, err := ParseString("chain.tir", text(9000))
	if long := time.Since(start); long > 100*short+time.Second {
		t.Errorf("900 terms took %v, 9000 %v (%v)", short, long, err)
	}
}
