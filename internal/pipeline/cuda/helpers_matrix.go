package cuda

import (
	"fmt"
	"strconv"
	"strings"
)

var matrixHelpers = func() map[string]helper {
	m := map[string]helper{
		"fence_registers_float": {nil, fenceRegisters("float", "f")},
		"fence_registers_bits":  {nil, fenceRegisters("unsigned", "r")},
		"wgmma_fence": {nil, `
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }`},
		"wgmma_commit": {nil, `
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }`},
		"wgmma_wait": {nil, `
// Waits until at most N groups of this warpgroup's wgmmas are under way.
template <int N>
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }`},
		"wgmma_descriptor": {[]string{"shared_address"}, `
// A wgmma operand in shared memory: swizzle mode (1: 128 bytes, 2: 64, 3: 32), leading and stride offsets in 16 bytes.
template <int Swizzle, int Leading, int Stride>
__device__ __forceinline__ unsigned long long wgmma_descriptor(const void* p) {
  return (unsigned long long)(shared_address(p) >> 4 & 0x3fff) | (unsigned long long)Leading << 16 |
         (unsigned long long)Stride << 32 | (unsigned long long)Swizzle << 62;
}`},
	}
	for _, n := range []int{1, 2, 4} {
		for _, trans := range []bool{false, true} {
			m[ldmatrixName("ldmatrix", n, trans)] = helper{[]string{"shared_address"}, ldmatrix(n, trans)}
			m[ldmatrixName("stmatrix", n, trans)] = helper{[]string{"shared_address"}, stmatrix(n, trans)}
		}
	}
	return m
}()

// fenceRegisters keeps values in registers of one kind: converting between
// kinds would touch accumulators that wgmma is still writing.
func fenceRegisters(typ, con string) string {
	return fmt.Sprintf(`
// Keeps the compiler from moving accesses to N registers across this point.
template <int N>
__device__ __forceinline__ void fence_registers(%s* r) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+%s"(r[i])::"memory");
}`, typ, con)
}

func ldmatrixName(op string, n int, trans bool) string {
	s := fmt.Sprintf("%s_x%d", op, n)
	if trans {
		s += "_trans"
	}
	return s
}

// seq is "f(0), f(1), …" of n terms.
func seq(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ", ")
}

func operand(from int) func(int) string {
	return func(i int) string { return "%" + strconv.Itoa(from+i) }
}

func ptxTrans(trans bool) string {
	if trans {
		return ".trans"
	}
	return ""
}

func ldmatrix(n int, trans bool) string {
	return fmt.Sprintf(`
__device__ __forceinline__ void %s(void* dst, const void* src) {
  unsigned* d = (unsigned*)dst;
  asm volatile("ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 {%s}, [%%%d];" : %s : "r"(shared_address(src)) : "memory");
}`, ldmatrixName("ldmatrix", n, trans), n, ptxTrans(trans), seq(n, operand(0)), n,
		seq(n, func(i int) string { return fmt.Sprintf("\"=r\"(d[%d])", i) }))
}

func stmatrix(n int, trans bool) string {
	return fmt.Sprintf(`
__device__ __forceinline__ void %s(void* dst, %s) {
  asm volatile("stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 [%%0], {%s};" ::"r"(shared_address(dst)), %s : "memory");
}`, ldmatrixName("stmatrix", n, trans), seq(n, func(i int) string { return fmt.Sprintf("unsigned r%d", i) }),
		n, ptxTrans(trans), seq(n, operand(1)), seq(n, func(i int) string { return fmt.Sprintf("\"r\"(r%d)", i) }))
}

// ptxTypes maps the operand types of ptx_mma and ptx_wgmma to PTX, with their
// width in bits.
var ptxTypes = map[string]struct {
	ptx  string
	bits int
}{
	"fp16": {"f16", 16}, "float16": {"f16", 16}, "bf16": {"bf16", 16}, "bfloat16": {"bf16", 16},
	"tf32": {"tf32", 32}, "fp32": {"f32", 32}, "float32": {"f32", 32}, "fp64": {"f64", 64}, "float64": {"f64", 64},
	"int8": {"s8", 8}, "uint8": {"u8", 8}, "int4": {"s4", 4}, "uint4": {"u4", 4}, "int32": {"s32", 32},
	"e4m3": {"e4m3", 8}, "e5m2": {"e5m2", 8}, "float8_e4m3": {"e4m3", 8}, "float8_e4m3fn": {"e4m3", 8}, "float8_e5m2": {"e5m2", 8},
}

// shape reads "m16n8k16".
func shape(s string) (m, n, k int, ok bool) {
	c, err := fmt.Sscanf(s, "m%dn%dk%d", &m, &n, &k)
	return m, n, k, err == nil && c == 3 && fmt.Sprintf("m%dn%dk%d", m, n, k) == s
}

// mma is the warp-level multiply-accumulate D += A·B on one tile. The
// registers a thread gives are the tile's bits over the warp's 32 threads.
func mma(name, shapeName string, m, n, k int, a, b, c string, saturate bool) string {
	ta, tb, tc := ptxTypes[a], ptxTypes[b], ptxTypes[c]
	na, nb, nc := m*k*ta.bits/1024, n*k*tb.bits/1024, m*n*tc.bits/1024
	ctype, ccon := "unsigned", "r"
	if tc.ptx == "f32" {
		ctype, ccon = "float", "f"
	}
	atype, acon := "unsigned", "r"
	if tc.ptx == "f64" {
		ctype, ccon, atype, acon = "double", "d", "double", "d"
		na, nb, nc = max(1, m*k/32), max(1, n*k/32), m*n/32
	}
	sat := ""
	if saturate {
		sat = ".satfinite"
	}
	list := func(v, con string, count int) string {
		return seq(count, func(i int) string { return fmt.Sprintf("%q(%s[%d])", con, v, i) })
	}
	return fmt.Sprintf(`
// acc += a * b on one %dx%dx%d tile spread over the warp.
__device__ __forceinline__ void %s(void* acc, const void* a_tile, const void* b_tile) {
  %s* d = (%s*)acc;
  const %s *a = (const %s*)a_tile, *b = (const %s*)b_tile;
  asm volatile(
      "mma.sync.aligned.%s.row.col%s.%s.%s.%s.%s {%s}, {%s}, {%s}, {%s};"
      : %s
      : %s, %s);
}`, m, n, k, name, ctype, ctype, atype, atype, atype, shapeName, sat, tc.ptx, ta.ptx, tb.ptx, tc.ptx,
		seq(nc, operand(0)), seq(na, operand(nc)), seq(nb, operand(nc+na)), seq(nc, operand(0)),
		list("d", "+"+ccon, nc), list("a", acon, na), list("b", acon, nb))
}

// wgmma is the warpgroup-level multiply-accumulate of a 64xNxK tile. A comes
// from shared memory (a descriptor) or from registers.
func wgmma(name, shapeName string, m, n, k int, fromRegisters bool, a, b, c string, transA, transB bool, scaleA, scaleB int64) string {
	ta, tb, tc := ptxTypes[a], ptxTypes[b], ptxTypes[c]
	nd, na := m*n*tc.bits/(128*32), m*k*ta.bits/(128*32)
	ctype, ccon := "unsigned", "r"
	if tc.ptx == "f32" {
		ctype, ccon = "float", "f"
	}
	aParam, aText, aIn := "unsigned long long a", operand(nd)(0), "\"l\"(a)"
	next := nd + 1
	if fromRegisters {
		aParam = "const void* a_tile"
		aText = "{" + seq(na, operand(nd)) + "}"
		aIn = seq(na, func(i int) string { return fmt.Sprintf("\"r\"(a[%d])", i) })
		next = nd + na
	}
	mods := ""
	if tc.ptx != "s32" {
		mods = fmt.Sprintf(", %d, %d", scaleA, scaleB)
	}
	if ta.bits == 16 {
		if !fromRegisters {
			mods += ", " + bit(transA)
		}
		mods += ", " + bit(transB)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "// acc = a * b + (accumulate ? acc : 0) on one %dx%dx%d tile spread over the warpgroup.\n", m, n, k)
	fmt.Fprintf(&s, "__device__ __forceinline__ void %s(void* acc, %s, unsigned long long b, int accumulate) {\n", name, aParam)
	fmt.Fprintf(&s, "  %s* d = (%s*)acc;\n", ctype, ctype)
	if fromRegisters {
		s.WriteString("  const unsigned* a = (const unsigned*)a_tile;\n")
	}
	fmt.Fprintf(&s, "  asm volatile(\n      \"{\\n  .reg .pred p;\\n  setp.ne.b32 p, %%%d, 0;\\n\"\n", next+1)
	fmt.Fprintf(&s, "      \"  wgmma.mma_async.sync.aligned.%s.%s.%s.%s \"\n", shapeName, tc.ptx, ta.ptx, tb.ptx)
	const perLine = 24
	for i := 0; i < nd; i += perLine {
		open, end := "", ", "
		if i == 0 {
			open = "{"
		}
		if i+perLine >= nd {
			end = "}, "
		}
		fmt.Fprintf(&s, "      \"%s%s%s\"\n", open, seq(min(perLine, nd-i), operand(i)), end)
	}
	fmt.Fprintf(&s, "      \"%s, %%%d, p%s;\\n}\"\n      : ", aText, next, mods)
	const pairs = 8
	for i := 0; i < nd; i += pairs {
		if i > 0 {
			s.WriteString(",\n        ")
		}
		s.WriteString(seq(min(pairs, nd-i), func(j int) string { return fmt.Sprintf("\"+%s\"(d[%d])", ccon, i+j) }))
	}
	fmt.Fprintf(&s, "\n      : %s, \"l\"(b), \"r\"(accumulate));\n}", aIn)
	return s.String()
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// tmaHint adds the L2 cache policy of an eviction priority (1: first, 2: last)
// to a bulk copy.
func tmaHint(eviction int64) (mod, arg string) {
	switch eviction {
	case 1:
		return ".L2::cache_hint", "0x12f0000000000000ull"
	case 2:
		return ".L2::cache_hint", "0x14f0000000000000ull"
	}
	return "", ""
}

// tmaLoad is a copy of a box from global to shared memory; for im2col the box
// also has rank-2 offsets.
func tmaLoad(name string, rank int, im2col bool, eviction int64) string {
	mode, extra, offs := "tile", "", ""
	var offParams, offIn string
	next := 3 + rank
	if im2col {
		mode = "im2col"
		extra = ", {" + seq(rank-2, operand(next)) + "}"
		next += rank - 2
		offParams = ", " + seq(rank-2, func(i int) string { return "unsigned short o" + strconv.Itoa(i) })
		offIn = ", " + seq(rank-2, func(i int) string { return fmt.Sprintf("\"h\"(o%d)", i) })
	}
	mod, policy := tmaHint(eviction)
	if policy != "" {
		offs = fmt.Sprintf(", %%%d", next)
		offIn += ", \"l\"(" + policy + ")"
	}
	return fmt.Sprintf(`
__device__ __forceinline__ void %s(void* dst, const tensor_map& map, unsigned long long* bar, %s%s) {
  asm volatile(
      "cp.async.bulk.tensor.%dd.shared::cluster.global.%s.mbarrier::complete_tx::bytes%s [%%0], [%%1, {%s}], [%%2]%s%s;" ::"r"(
          shared_address(dst)), "l"(&map), "r"(shared_address(bar)), %s%s : "memory");
}`, name, seq(rank, func(i int) string { return "int c" + strconv.Itoa(i) }), offParams, rank, mode, mod,
		seq(rank, operand(3)), extra, offs, seq(rank, func(i int) string { return fmt.Sprintf("\"r\"(c%d)", i) }), offIn)
}

// tmaStore is a copy, or an addition, of a box from shared to global memory.
func tmaStore(name string, rank int, reduce bool, eviction int64) string {
	op := fmt.Sprintf("cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group", rank)
	if reduce {
		op = fmt.Sprintf("cp.reduce.async.bulk.tensor.%dd.global.shared::cta.add.tile.bulk_group", rank)
	}
	mod, policy := tmaHint(eviction)
	hint, hintIn := "", ""
	if policy != "" {
		hint, hintIn = fmt.Sprintf(", %%%d", 2+rank), ", \"l\"("+policy+")"
	}
	return fmt.Sprintf(`
__device__ __forceinline__ void %s(const tensor_map& map, const void* src, %s) {
  asm volatile("%s%s [%%0, {%s}], [%%1]%s;" ::"l"(&map), "r"(shared_address(src)), %s%s : "memory");
}`, name, seq(rank, func(i int) string { return "int c" + strconv.Itoa(i) }), op, mod, seq(rank, operand(2)), hint,
		seq(rank, func(i int) string { return fmt.Sprintf("\"r\"(c%d)", i) }), hintIn)
}
