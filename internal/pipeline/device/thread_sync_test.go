package device

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// randomKernel is a kernel of 8 threads that stores to and loads from 32
// elements of shared memory at random affine places, in loops and branches;
// with copies it also has asynchronous copies and waits for them.
func randomKernel(r *rand.Rand, copies bool) string {
	var b strings.Builder
	b.WriteString(`@T.prim_func(private=True)
def k_kernel(A: T.handle("float32", "global"), n: T.int32):
    T.func_attr({"target": T.target({"arch": "sm_80", "keys": ["cuda", "gpu"], "kind": "cuda", "max_num_threads": 1024, "tag": "", "thread_warp_size": 32})})
    A_1 = T.decl_buffer((64,), data=A)
    s = T.alloc_buffer((32,), scope="shared")
    tx = T.launch_thread("threadIdx.x", 8)
`)
	// Threads store to different elements in one statement: no barrier could
	// help otherwise.
	index := func(vars []string, store bool) string {
		e := "tx"
		kinds := 5
		if store {
			kinds = 2
		}
		switch r.Intn(kinds) {
		case 0:
			e = "7 - tx"
		case 1:
			e = "T.bitwise_xor(tx, 1)"
		case 2:
			e = "tx // 2"
		}
		for _, v := range vars {
			if r.Intn(2) == 0 {
				e += fmt.Sprintf(" + %s %% 2 * 8", v)
			}
		}
		return fmt.Sprintf("(%s + %d) %% 32", e, 8*r.Intn(3))
	}
	var stmts func(indent string, depth int, vars []string, uniform bool)
	stmts = func(indent string, depth int, vars []string, uniform bool) {
		some := 3
		if copies {
			some = 5
		}
		for range 1 + r.Intn(some) {
			if copies && r.Intn(3) == 0 {
				if r.Intn(2) == 0 {
					fmt.Fprintf(&b, "%sT.ptx_wait_group(%d)\n", indent, r.Intn(3))
					continue
				}
				if depth > 0 || r.Intn(2) == 0 {
					fmt.Fprintf(&b, `%sT.ptx_cp_async(T.tvm_access_ptr(T.type_annotation("float32"), s.data, %s, 1, 2), T.tvm_access_ptr(T.type_annotation("float32"), A, tx, 1, 1), 1)`+"\n", indent, index(vars, true))
				}
				fmt.Fprintf(&b, "%sT.ptx_commit_group()\n", indent)
				continue
			}
			switch k := r.Intn(8); {
			case k < 3:
				fmt.Fprintf(&b, "%ss[%s] = T.float32(1.0)\n", indent, index(vars, true))
			case k < 5:
				fmt.Fprintf(&b, "%sA_1[tx] = s[%s]\n", indent, index(vars, false))
			case k == 5 && depth > 0:
				v := fmt.Sprintf("i%d", len(vars))
				extent := []string{"1", "2", "3", "n"}[r.Intn(4)]
				fmt.Fprintf(&b, "%sfor %s in range(%s):\n", indent, v, extent)
				stmts(indent+"    ", depth-1, append(vars[:len(vars):len(vars)], v), uniform)
			case k == 6 && depth > 0 && uniform:
				fmt.Fprintf(&b, "%sif n > %d:\n", indent, r.Intn(3))
				stmts(indent+"    ", depth-1, vars, uniform)
			case k == 7:
				// Threads part: one statement, for a barrier cannot stand inside.
				fmt.Fprintf(&b, "%sif tx < %d:\n%s    s[%s] = T.float32(2.0)\n", indent, 1+r.Intn(7), indent, index(vars, true))
			default:
				fmt.Fprintf(&b, "%sA_1[tx] = s[%s]\n", indent, index(vars, false))
			}
		}
	}
	stmts("    ", 3, nil, true)
	return b.String()
}

// touch is one access of a simulated thread.
type touch struct {
	phase               int // barriers passed before it
	waits               int // waits for copies before it
	at                  int64
	write               bool
	async               bool // it ends with wait number landWait, after landPhase barriers
	landPhase, landWait int
}

// meets reports that nothing keeps the accesses of two threads apart. What
// touches the target of a copy between its start and its wait, with barriers on
// both sides, is the kernel's own mistake: no barrier helps.
func (a touch) meets(b touch) bool {
	switch {
	case !a.write && !b.write:
		return false
	case a.async && b.async:
		return a.phase == b.phase
	case b.async:
		return b.meets(a)
	case a.async:
		return a.phase == b.phase || a.landPhase == b.phase && a.landWait <= b.waits
	}
	return a.phase == b.phase
}

// never is the number of a copy's wait if there is none.
const never = 1 << 30

// simulate runs one thread and lists what it touches in shared memory.
func simulate(t *testing.T, body ir.Stmt, thread, n int64) (out []touch, barriers int) {
	env := map[*ir.Var]int64{}
	eval := func(e ir.Expr) int64 {
		c := newCompiler(nil, 1)
		out := c.compile(e)
		if out == nil {
			t.Fatalf("cannot evaluate %s", script.ExprString(e))
		}
		for _, v := range c.free {
			c.set(v, env[v])
		}
		for _, s := range c.steps {
			s.compute()
		}
		return out.val[0]
	}
	waits := 0
	var groups [][]int // copies under way, by the groups they are committed in
	var open []int     // copies that are not committed
	var run func(s ir.Stmt)
	run = func(s ir.Stmt) {
		switch s := s.(type) {
		case *ir.SeqStmt:
			for _, c := range s.Seq {
				run(c)
			}
		case *ir.AttrStmt:
			if iv, ok := s.Node.(*ir.IterVar); ok {
				env[iv.Var] = thread
			}
			run(s.Body)
		case *ir.For:
			for i := range eval(s.Extent) {
				env[s.Var] = i
				run(s.Body)
			}
		case *ir.IfThenElse:
			if eval(s.Cond) != 0 {
				run(s.Then)
			}
		case *ir.BufferStore:
			if l, ok := s.Value.(*ir.BufferLoad); ok {
				out = append(out, touch{phase: barriers, waits: waits, at: eval(l.Indices[0])})
			}
			if s.Buffer.Scope() == "shared" {
				out = append(out, touch{phase: barriers, waits: waits, at: eval(s.Indices[0]), write: true})
			}
		case *ir.Evaluate:
			if isBarrier(s) {
				barriers++
			}
			if c, ok := ir.IsCall(s.Value, "ptx_cp_async"); ok {
				ptr := c.Args[0].(*ir.Call)
				open = append(open, len(out))
				out = append(out, touch{phase: barriers, waits: waits, at: eval(ptr.Args[2]), write: true, async: true, landPhase: never, landWait: never})
			}
			if _, ok := ir.IsCall(s.Value, "ptx_commit_group"); ok {
				groups, open = append(groups, open), nil
			}
			if left, ok := waitGroups(s); ok {
				waits++
				for ; len(groups) > int(left); groups = groups[1:] {
					for _, i := range groups[0] {
						out[i].landPhase, out[i].landWait = barriers, waits
					}
				}
			}
		}
	}
	// The kernel's size parameter is free in the body.
	ir.WalkExprs(body, func(e ir.Expr) bool {
		if v, ok := e.(*ir.Var); ok && v.Name == "n" {
			env[v] = n
		}
		return true
	})
	run(body)
	return out, barriers
}

// TestThreadSyncAgainstSimulation places barriers in random kernels and runs
// the result thread by thread: all threads pass the same barriers, and between
// two of them no thread touches what another one writes, copies that a wait made
// land included.
func TestThreadSyncAgainstSimulation(t *testing.T) {
	for _, copies := range []bool{false, true} {
		r := rand.New(rand.NewSource(1))
		placed := 0
		for range 1500 {
			text := randomKernel(r, copies)
			m, err := script.ParseString("random.tir", text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			out, err := (&pipeline.Context{}).Run(ThreadSyncShared, m)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if out != m {
				placed++
			}
			for n := range int64(4) {
				if err := simulateAll(t, out.Funcs[0].Body, n); err != nil {
					t.Fatalf("n = %d: %v:\n%s", n, err, script.Print(out))
				}
			}
		}
		if placed < 500 {
			t.Errorf("copies %v: only %d of the kernels needed a barrier: the test is too weak", copies, placed)
		}
	}
}

// simulateAll runs all threads and compares what they touch.
func simulateAll(t *testing.T, body ir.Stmt, n int64) error {
	type owner struct {
		thread int64
		touch  touch
	}
	seen := map[int64][]owner{}
	first := -1
	for thread := range int64(8) {
		list, barriers := simulate(t, body, thread, n)
		if first < 0 {
			first = barriers
		} else if barriers != first {
			return fmt.Errorf("threads pass %d and %d barriers", first, barriers)
		}
		for _, a := range list {
			for _, o := range seen[a.at] {
				if o.thread != thread && o.touch.meets(a) {
					return fmt.Errorf("threads %d and %d meet at s[%d] after %d and %d barriers", o.thread, thread, a.at, o.touch.phase, a.phase)
				}
			}
			seen[a.at] = append(seen[a.at], owner{thread, a})
		}
	}
	return nil
}

// TestConvertSSA duplicates a loop, which defines its variable twice.
func TestConvertSSA(t *testing.T) {
	m, err := script.ParseString("k.tir", `@T.prim_func
def k(A: T.handle("float32", "global")):
    A_1 = T.decl_buffer((64,), data=A)
    for i in range(4):
        x = T.alloc_buffer((4,), scope="local")
        x[i] = A_1[i]
        A_1[i] = x[i]
`)
	if err != nil {
		t.Fatal(err)
	}
	f := m.Funcs[0]
	list := ir.Stmts(f.Body)
	loop := list[len(list)-1]
	twice := &ir.IRModule{Bare: true, Funcs: []*ir.PrimFunc{f.WithBody(ir.Seq(append(list[:len(list):len(list)], loop)...))}}
	if err := ir.Verify(twice); err != nil {
		t.Logf("before: %v", err)
	}
	c := &pipeline.Context{VerifyEach: true}
	out, err := c.Run(ConvertSSA, twice)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := script.Print(out), script.Print(twice); got != want {
		t.Errorf("the text changed:\n%s\nwant\n%s", got, want)
	}
	body := ir.Stmts(out.Funcs[0].Body)
	a, b := body[len(body)-2].(*ir.For), body[len(body)-1].(*ir.For)
	if a.Var == b.Var {
		t.Error("both loops still have one variable")
	}
	alloc := func(s *ir.For) *ir.Var { return ir.Stmts(s.Body)[0].(*ir.AllocBuffer).Buffer.Data }
	if alloc(a) == alloc(b) {
		t.Error("both allocations still have one pointer")
	}
	if again, _ := c.Run(ConvertSSA, out); again != out {
		t.Error("a second run changes something")
	}
}
