package interp_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/judge"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
)

// TestDamagedIR runs states of the reference with statements dropped, doubled
// and moved and constants changed. Whatever comes of it, Run must return, with
// an error of its own kinds, and never fail inside.
func TestDamagedIR(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every kernel")
	}
	const rounds = 3
	ks := corpus.Kernels()
	for round := range rounds {
		for i := range ks {
			k := &ks[i]
			for _, arch := range k.Archs {
				rnd := rand.New(rand.NewPCG(uint64(round), uint64(i)))
				states := statesOf(k.Name, arch)
				s := states[rnd.IntN(len(states))]
				mod := damage(s.module(t), rnd)
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				res, err := interp.Run(ctx, mod, judge.Args(k), interp.Options{Findings: true, Sync: s.sync, Bounds: s.bounds, MaxSteps: 200_000})
				cancel()
				var own *interp.Error
				var nr *interp.NotRunnable
				switch {
				case err == nil && res == nil:
					t.Errorf("%s round %d: neither result nor error", s.path, round)
				case err != nil && !errors.As(err, &own) && !errors.As(err, &nr):
					t.Errorf("%s round %d: %v", s.path, round, err)
				case err != nil && strings.Contains(err.Error(), "internal error"):
					t.Errorf("%s round %d: %v", s.path, round, err)
				}
			}
		}
	}
}

// damage changes a module at random.
func damage(m *ir.IRModule, rnd *rand.Rand) *ir.IRModule {
	var last ir.Stmt
	rw := ir.Rewriter{
		PostStmt: func(s ir.Stmt) ir.Stmt {
			switch s := s.(type) {
			case *ir.BufferStore, *ir.Evaluate, *ir.Bind, *ir.AllocBuffer:
				if rnd.IntN(60) == 0 {
					switch rnd.IntN(3) {
					case 0:
						return nil
					case 1:
						if last != nil {
							return last
						}
					}
				}
				last = s
			case *ir.For:
				if rnd.IntN(40) == 0 {
					c := *s
					c.Kind = []ir.ForKind{ir.Serial, ir.Parallel, ir.Vectorized, ir.Unrolled}[rnd.IntN(4)]
					return &c
				}
			}
			return s
		},
		PostExpr: func(e ir.Expr) ir.Expr {
			if rnd.IntN(150) != 0 {
				return e
			}
			switch e := e.(type) {
			case *ir.IntImm:
				return &ir.IntImm{Type: e.Type, Value: []int64{0, 1, -1, e.Value + 1, e.Value * 2, 1 << 31, -1 << 62}[rnd.IntN(7)]}
			case *ir.Binary:
				if !e.Op.IsComparison() && !e.Op.IsLogical() {
					return &ir.Binary{Op: ir.BinOp(rnd.IntN(int(ir.Max) + 1)), A: e.A, B: e.B}
				}
			case *ir.Call:
				if len(e.Args) > 1 {
					c := *e
					c.Args = append([]ir.Expr{}, e.Args...)
					i, j := rnd.IntN(len(c.Args)), rnd.IntN(len(c.Args))
					c.Args[i] = c.Args[j]
					return &c
				}
			}
			return e
		},
	}
	out, err := m.MapFuncs(func(f *ir.PrimFunc) (*ir.PrimFunc, error) { return f.WithBody(rw.Stmt(f.Body)), nil })
	if err != nil {
		return m
	}
	return out
}

// TestLimits reaches each limit of a run.
func TestLimits(t *testing.T) {
	forever := kernelText("1", "v = T.alloc_buffer((1,), \"int32\", scope=\"local\")\nv[0] = 0\nwhile v[0] < 1:\n    v[0] = 0\nOut[tx] = A[tx]")
	big := kernelText("1", "w = T.alloc_buffer((2000, 1000), scope=\"shared\")\nw[0, 0] = T.float32(0.0)")
	args := func() interp.Args {
		a := interp.Args{Arrays: map[string]*npy.Array{}}
		for n, d := range map[string]npy.DType{"A": "f4", "N": "i4", "Out": "f4"} {
			a.Arrays[n], _ = npy.New(d, 128)
		}
		return a
	}
	for _, c := range []struct {
		name, text, want string
		opts             interp.Options
		timeout          time.Duration
	}{
		{"steps", forever, "more than 1000 statements", interp.Options{MaxSteps: 1000}, time.Minute},
		{"memory", big, "buffers take more than the limit of 1000000 bytes", interp.Options{MaxMemory: 1_000_000}, time.Minute},
		{"time", forever, "interrupted", interp.Options{}, 50 * time.Millisecond},
		{"threads", strings.Replace(forever, `"threadIdx.x", 128`, `"threadIdx.x", 4096`, 1), "a block of 4096 threads (at most 1024)", interp.Options{}, time.Minute},
		{"blocks", strings.Replace(forever, `"blockIdx.x", 1)`, `"blockIdx.x", 100000000)`, 1), "blockIdx.x has extent 100000000", interp.Options{}, time.Minute},
		{"shape", strings.Replace(forever, "A_handle, (128,)", "A_handle, (64,)", 1), "dimension 0 of the array for A is 128, it needs 64", interp.Options{}, time.Minute},
		{"rank", strings.Replace(strings.Replace(forever, "A_handle, (128,), strides=(1,)", "A_handle, (8, 16), strides=(16, 1)", 1), "A[tx]", "A[tx // 16, tx % 16]", 1), "the array for A has 1 dimensions, it needs 2", interp.Options{}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			mod, err := script.ParseString("k.tir", c.text)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
			defer cancel()
			_, err = interp.Run(ctx, mod, args(), c.opts)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	a := args()
	delete(a.Arrays, "A")
	if _, err := interp.Run(context.Background(), script.MustParse(kernelText("1", "Out[tx] = A[tx]")), a, interp.Options{}); err == nil || !strings.Contains(err.Error(), `no array for parameter "A"`) {
		t.Errorf("missing array: %v", err)
	}
}

// TestPrint collects what the kernel debug_print prints: its tile of 128 numbers
// for each block, and the block's number.
func TestPrint(t *testing.T) {
	k := corpus.Lookup("debug_print")
	for _, s := range statesOf("debug_print", "sm_80") {
		if !quick[s.pass] {
			continue
		}
		var lines []string
		_, err := interp.Run(context.Background(), s.module(t), judge.Args(&k), interp.Options{Sync: s.sync, Bounds: s.bounds, Workers: 1, Print: func(l string) { lines = append(lines, l) }})
		if err != nil {
			t.Fatal(err)
		}
		tile, number := 0, 0
		for _, l := range lines {
			switch {
			case strings.Contains(l, "s["):
				tile++
			case strings.Contains(l, "bx "):
				number++
			}
		}
		if tile == 0 || tile%128 != 0 || number == 0 || !strings.HasPrefix(lines[0], "block (0, 0, 0) thread (0, 0, 0): ") {
			t.Errorf("%s: %d lines of the tile, %d of the number, first %q", s.path, tile, number, lines[0])
		}
	}
}
