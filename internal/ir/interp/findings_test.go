package interp_test

import (
	"context"
	"strings"
	"testing"

	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
)

// kernelText is a kernel of 128 threads in blocks with the given body.
func kernelText(blocks, body string) string {
	var b strings.Builder
	b.WriteString(`# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func
    def main(A_handle: T.handle, N_handle: T.handle, Out_handle: T.handle):
        A = T.match_buffer(A_handle, (128,), strides=(1,))
        N = T.match_buffer(N_handle, (128,), "int32", strides=(1,))
        Out = T.match_buffer(Out_handle, (128,), strides=(1,))
        bx = T.launch_thread("blockIdx.x", ` + blocks + `)
        tx = T.launch_thread("threadIdx.x", 128)
`)
	for _, l := range strings.Split(strings.Trim(body, "\n"), "\n") {
		b.WriteString("        " + l + "\n")
	}
	return b.String()
}

func runText(t *testing.T, text string) (*interp.Result, error) {
	t.Helper()
	mod, err := script.ParseString("k.tir", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	args := interp.Args{Arrays: map[string]*npy.Array{}, Unwritten: map[string]bool{"Out": true}}
	for n, d := range map[string]npy.DType{"A": "f4", "N": "i4", "Out": "f4"} {
		a, err := npy.New(d, 128)
		if err != nil {
			t.Fatal(err)
		}
		if n == "N" { // N[i] = i
			for i := range 128 {
				a.SetUint(i, uint64(i))
			}
		}
		args.Arrays[n] = a
	}
	return interp.Run(context.Background(), mod, args, interp.Options{Findings: true, Sync: interp.SyncExplicit, Bounds: interp.BoundsExplicit, Workers: 1})
}

// TestFindings has for each kind of finding a program that earns it, with the
// line it belongs to marked by "# here", and a twin that does not.
func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name, blocks string
		kind         interp.Kind
		bad, good    string
		msg          string // part of the message
	}{
		{"global read out of bounds", "1", interp.OutOfBounds,
			"Out[tx] = A[tx + 1] # here",
			"Out[tx] = A[127 - tx]", "read of 4 bytes at byte 512 of global \"A\""},
		{"global write out of bounds", "2", interp.OutOfBounds,
			"if bx == 1:\n    Out[tx + bx] = T.float32(0.0) # here",
			"if bx == 1:\n    Out[tx + bx - 1] = T.float32(0.0)", "write of 4 bytes"},
		{"shared out of bounds", "1", interp.OutOfBounds,
			"s = T.alloc_buffer((64,), scope=\"shared\")\ns[tx] = A[tx] # here",
			"s = T.alloc_buffer((64,), scope=\"shared\")\nif tx < 64:\n    s[tx] = A[tx]", "shared \"s\""},
		{"local out of bounds", "1", interp.OutOfBounds,
			"l = T.alloc_buffer((4,), scope=\"local\")\nfor i in range(5):\n    l[i] = T.float32(0.0) # here",
			"l = T.alloc_buffer((4,), scope=\"local\")\nfor i in range(4):\n    l[i] = T.float32(0.0)", "local \"l\""},
		{"read of local never written", "1", interp.Unwritten,
			"l = T.alloc_buffer((2,), scope=\"local\")\nl[0] = A[tx]\nOut[tx] = l[1] # here",
			"l = T.alloc_buffer((2,), scope=\"local\")\nl[0] = A[tx]\nOut[tx] = l[0]", "never written"},
		{"read of shared never written", "1", interp.Unwritten,
			"s = T.alloc_buffer((128,), scope=\"shared\")\nif tx < 127:\n    s[tx] = A[tx]\nT.tvm_storage_sync(\"shared\")\nOut[tx] = s[tx] # here",
			"s = T.alloc_buffer((128,), scope=\"shared\")\ns[tx] = A[tx]\nT.tvm_storage_sync(\"shared\")\nOut[tx] = s[tx]", "never written"},
		{"read of an output never written", "1", interp.Unwritten,
			"Out[tx] = Out[tx] + A[tx] # here",
			"Out[tx] = A[tx]\nOut[tx] = Out[tx] + A[tx]", "global \"Out\""},
		{"shared write and read without a barrier", "1", interp.SharedRace,
			"s = T.alloc_buffer((128,), scope=\"shared\")\ns[tx] = T.Cast(\"float32\", tx)\nOut[tx] = s[127 - tx] # here",
			"s = T.alloc_buffer((128,), scope=\"shared\")\ns[tx] = T.Cast(\"float32\", tx)\nT.tvm_storage_sync(\"shared\")\nOut[tx] = s[127 - tx]", ""},
		{"shared read and write without a barrier", "1", interp.SharedRace,
			"s = T.alloc_buffer((128,), scope=\"shared\")\ns[tx] = T.Cast(\"float32\", tx)\nT.tvm_storage_sync(\"shared\")\nOut[tx] = s[127 - tx]\ns[tx] = T.float32(1.5) # here",
			"s = T.alloc_buffer((128,), scope=\"shared\")\ns[tx] = T.Cast(\"float32\", tx)\nT.tvm_storage_sync(\"shared\")\nOut[tx] = s[127 - tx]\nT.tvm_storage_sync(\"shared\")\ns[tx] = T.float32(1.5)", "without a barrier after"},
		{"two warps write different values to shared", "1", interp.SharedRace,
			"s = T.alloc_buffer((1,), scope=\"shared\")\nif tx % 32 == 0:\n    s[0] = T.Cast(\"float32\", tx) # here",
			"s = T.alloc_buffer((1,), scope=\"shared\")\nif tx % 32 == 0:\n    s[0] = T.float32(1.0)", ""},
		{"two lanes write different values to shared", "1", interp.SharedRace,
			"s = T.alloc_buffer((64,), scope=\"shared\")\ns[tx // 2] = T.Cast(\"float32\", tx) # here",
			"s = T.alloc_buffer((64,), scope=\"shared\")\ns[tx // 2] = T.Cast(\"float32\", tx // 2)", "of one warp"},
		{"the barrier orders only its threads", "1", interp.SharedRace,
			"s = T.alloc_buffer((128,), scope=\"shared\")\ns[tx] = T.Cast(\"float32\", tx)\nif tx < 64:\n    T.tvm_storage_sync(\"shared\", 3, 64)\n    Out[tx] = s[127 - tx] # here",
			"s = T.alloc_buffer((128,), scope=\"shared\")\ns[tx] = T.Cast(\"float32\", tx)\nif tx < 64:\n    T.tvm_storage_sync(\"shared\", 3, 64)\n    Out[tx] = s[63 - tx]", ""},
		{"blocks write different values to one element", "2", interp.GlobalRace,
			"Out[tx] = T.Cast(\"float32\", bx) # here",
			"Out[tx] = T.Cast(\"float32\", tx)", "block 0 wrote"},
		{"a block reads what another writes", "2", interp.GlobalRace,
			"if bx == 0:\n    Out[tx] = T.float32(2.0)\nelse:\n    Out[tx + 0] = A[tx] + Out[127 - tx] # here",
			"if bx == 0:\n    Out[tx] = T.float32(2.0)\nelse:\n    T.evaluate(A[tx])", ""},
		{"lanes write different values to global", "1", interp.GlobalRace,
			"Out[tx // 2] = T.Cast(\"float32\", tx) # here",
			"Out[tx] = T.Cast(\"float32\", tx)", "of one warp"},
		{"part of a warp reaches a barrier", "1", interp.BarrierSplit,
			"if tx % 2 == 0:\n    T.tvm_storage_sync(\"shared\") # here\nOut[tx] = A[tx]",
			"T.tvm_storage_sync(\"shared\")\nOut[tx] = A[tx]", "16 of the warp's 32 threads"},
		{"two barriers meet", "1", interp.BarrierSplit,
			"if tx < 64:\n    T.tvm_storage_sync(\"shared\")\nelse:\n    T.tvm_storage_sync(\"shared\") # here\nOut[tx] = A[tx]",
			"T.tvm_storage_sync(\"shared\")\nif tx < 64:\n    Out[tx] = A[tx]", "meets another"},
		{"misaligned vector", "1", interp.Misaligned,
			"if tx < 16:\n    l = T.alloc_buffer((4,), scope=\"local\")\n    l[0:4] = A[tx * 4 + 1:tx * 4 + 5] # here\n    Out[tx] = l[0]",
			"if tx < 16:\n    l = T.alloc_buffer((4,), scope=\"local\")\n    l[0:4] = A[tx * 4:tx * 4 + 4]\n    Out[tx] = l[0]", "access of 16 bytes at byte 4"},
		{"division by zero", "1", interp.DivByZero,
			"Out[tx] = T.Cast(\"float32\", 7 // N[tx]) # here",
			"Out[tx] = T.Cast(\"float32\", T.if_then_else(N[tx] != 0, 7 // N[tx], 0))", "division of 7 by zero"},
		{"remainder by zero in a loop bound", "1", interp.DivByZero,
			"for i in range(T.truncmod(5, N[0])): # here\n    Out[tx] = A[tx]",
			"for i in range(T.truncmod(5, N[3])):\n    Out[tx] = A[tx]", "by zero"},
		{"copy read before the wait", "1", interp.AsyncRace,
			"s = T.alloc_buffer((512,), scope=\"shared\")\nif tx < 32:\n    T.ptx_cp_async(T.address_of(s[tx * 4]), T.address_of(A[tx * 4]), 4)\n    T.ptx_commit_group()\n    Out[tx] = s[tx * 4] # here",
			"s = T.alloc_buffer((512,), scope=\"shared\")\nif tx < 32:\n    T.ptx_cp_async(T.address_of(s[tx * 4]), T.address_of(A[tx * 4]), 4)\n    T.ptx_commit_group()\n    T.ptx_wait_group(0)\n    Out[tx] = s[tx * 4]", "before the asynchronous copy"},
		{"wait for too few groups", "1", interp.AsyncRace,
			"s = T.alloc_buffer((512,), scope=\"shared\")\nif tx < 32:\n    T.ptx_cp_async(T.address_of(s[tx * 4]), T.address_of(A[tx * 4]), 4)\n    T.ptx_commit_group()\n    T.ptx_wait_group(1)\n    Out[tx] = s[tx * 4] # here",
			"s = T.alloc_buffer((512,), scope=\"shared\")\nif tx < 32:\n    T.ptx_cp_async(T.address_of(s[tx * 4]), T.address_of(A[tx * 4]), 4)\n    T.ptx_commit_group()\n    T.ptx_commit_group()\n    T.ptx_wait_group(1)\n    Out[tx] = s[tx * 4]", ""},
		{"bulk store without a proxy fence", "1", interp.ProxyFence,
			bulkBody("", " # here"), bulkBody("T.fence_proxy_async()\n", ""), "without a fence.proxy.async"},
		{"device assertion", "1", interp.AssertFailed,
			"T.device_assert(N[tx] < 100) # here",
			"T.device_assert(N[tx] < 128)", "assertion failed"},
		{"mma by part of a warp", "1", interp.BadOperand,
			mmaBody("if tx < 16:\n    MMA # here"), mmaBody("MMA"), "16 of 32 lanes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := kernelText(c.blocks, c.bad)
			res, err := runText(t, text)
			if res == nil {
				t.Fatalf("no result: %v\n%s", err, text)
			}
			line := 0
			for i, l := range strings.Split(text, "\n") {
				if strings.Contains(l, "# here") {
					line = i + 1
				}
			}
			hit := false
			for _, f := range res.Findings {
				if f.Kind == c.kind && f.Span.Line() == line && strings.Contains(f.Msg, c.msg) {
					hit = true
				} else if f.Kind != c.kind && !(c.kind == interp.SharedRace && f.Kind == interp.Unwritten) {
					t.Errorf("another finding: %v", f)
				}
			}
			if !hit {
				t.Errorf("no %s with %q at line %d; got %v, %v\n%s", c.kind, c.msg, line, res.Findings, err, text)
			}
			text = kernelText(c.blocks, c.good)
			res, err = runText(t, text)
			if err != nil {
				t.Fatalf("twin: %v\n%s", err, text)
			}
			for _, f := range res.Findings {
				t.Errorf("twin: %v\n%s", f, text)
			}
		})
	}
}

// bulkBody writes shared memory and stores it in bulk.
func bulkBody(fence, mark string) string {
	return "s = T.alloc_buffer((128,), scope=\"shared\")\ns[tx] = A[tx]\n" + fence + "T.tvm_storage_sync(\"shared\")\nif tx == 0:\n" +
		"    T.tma_store(T.address_of(Out[0]), T.address_of(s[0]), 512, 0, 0)" + mark + "\n    T.tma_store_arrive()\n    T.tma_store_wait(0, T.bool(True))"
}

func mmaBody(call string) string {
	return `a = T.alloc_buffer((8,), "float16", scope="local")
b = T.alloc_buffer((4,), "float16", scope="local")
c = T.alloc_buffer((4,), scope="local")
for i in range(8):
    a[i] = T.float16(1.0)
for i in range(4):
    b[i] = T.float16(1.0)
    c[i] = T.float32(0.0)
` + strings.ReplaceAll(call, "MMA", `T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a.data, 0, b.data, 0, c.data, 0, T.bool(False))`) + "\nOut[tx] = c[0]"
}

// TestDeadlock has programs whose threads wait forever, and what is said of
// them.
func TestDeadlock(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"nobody arrives", `
m = T.alloc_buffer((1,), "uint64", scope="shared.barrier")
if tx == 0:
    T.ptx_init_barrier_thread_count(m[0], 128)
T.tvm_storage_sync("shared")
T.mbarrier_wait_parity(m[0], 0)
Out[tx] = A[tx]`, "threads 0 to 127 wait for mbarrier m[0], phase of parity 0 (in phase 0; 128 of 128 arrivals missing) (line 17)"},
		{"wrong parity", `
m = T.alloc_buffer((1,), "uint64", scope="shared.barrier")
if tx == 0:
    T.ptx_init_barrier_thread_count(m[0], 128)
T.tvm_storage_sync("shared")
T.ptx_arrive_barrier(m[0])
T.mbarrier_wait_parity(m[0], 1)
Out[tx] = A[tx]`, "wait for mbarrier m[0], phase of parity 1 (in phase 1"},
		{"a barrier some warps never reach", `
m = T.alloc_buffer((1,), "uint64", scope="shared.barrier")
if tx == 0:
    T.ptx_init_barrier_thread_count(m[0], 64)
T.tvm_storage_sync("shared")
if tx < 64:
    T.mbarrier_wait_parity(m[0], 0)
else:
    T.tvm_storage_sync("shared")
    T.ptx_arrive_barrier(m[0])
Out[tx] = A[tx]`, "threads 0 to 63 wait for mbarrier m[0], phase of parity 0 (in phase 0; 64 of 64 arrivals missing) (line 18); threads 64 to 127 wait for a barrier of all threads (line 20)"},
		{"bytes that never come", `
m = T.alloc_buffer((1,), "uint64", scope="shared.barrier")
if tx == 0:
    T.ptx_init_barrier_thread_count(m[0], 1)
    T.ptx_arrive_barrier_expect_tx(m[0], 4096)
T.tvm_storage_sync("shared")
T.mbarrier_wait_parity(m[0], 0)
Out[tx] = A[tx]`, "4096 bytes missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, err := runText(t, kernelText("1", c.body))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if len(res.Findings) != 1 || res.Findings[0].Kind != interp.Deadlock {
				t.Errorf("findings: %v", res.Findings)
			}
		})
	}
}
