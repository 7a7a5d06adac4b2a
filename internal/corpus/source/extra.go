package source

import (
	"embed"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/npy"
	"lowertrace/internal/num"
	"lowertrace/internal/tilelang"
)

// Extra is a kernel that the reference corpus lacks, with the arrays that it
// must produce. The reference compiler fails on some of them.
type Extra struct {
	// Name tells the cases apart. Kernel.Name is that of the arrays, which
	// cases may share.
	Name   string
	Kernel corpus.Kernel
	file   string
	text   string
	set    []tilelang.Setting
}

// Module reads the kernel before any pass.
func (e *Extra) Module() (*ir.IRModule, error) { return load(e.file, e.text, e.set) }

//go:embed testdata/*.py
var sources embed.FS

func sourceText(file string) string {
	b, err := sources.ReadFile("testdata/" + file)
	if err != nil {
		panic(err)
	}
	return string(b)
}

var archs = []string{"sm_80", "sm_90a"}

// productSizes are m, n and k of the matrix products: ragged ones of one and of
// several tiles, fewer iterations than stages, none, and whole tiles.
var productSizes = [][3]int{{100, 72, 50}, {1, 1, 1}, {70, 130, 0}, {65, 63, 200}, {128, 64, 96}}

// Extras returns the extra kernels, the same ones with the same arrays in each
// call:
//
//   - products of matrices of which all three sizes are symbolic, in 2 and 3 stages;
//   - popcount of signed integers;
//   - causal attention, whose number of iterations depends on the block, in 2
//     and 3 stages, with the arrays of the corpus.
func Extras() []Extra {
	var out []Extra
	for _, size := range productSizes {
		k := product(size[0], size[1], size[2])
		for _, stages := range []string{"2", "3"} {
			out = append(out, Extra{k.Name + "_s" + stages, k, "gemm_mnk.py", sourceText("gemm_mnk.py"), []tilelang.Setting{{Name: "STAGES", Value: stages}}})
		}
	}
	out = append(out, Extra{"popcount", popcount(), "popcount.py", sourceText("popcount.py"), nil})

	causal := corpus.Lookup("flash_attention_causal")
	text := corpus.Text("src/" + causal.Name + ".py")
	const written = "num_stages=1"
	if strings.Count(text, written) != 1 {
		panic(fmt.Sprintf("source: %s does not hold %s once", causal.Name, written))
	}
	for _, stages := range []string{"2", "3"} {
		out = append(out, Extra{causal.Name + "_s" + stages, causal, causal.Name + ".py", strings.Replace(text, written, "num_stages="+stages, 1), nil})
	}
	return out
}

// product is C = A @ B. The elements are eighths, so that every sum is exact in
// float32, in whatever order it is formed.
func product(m, n, k int) corpus.Kernel {
	rnd := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	eighths := func(rows, cols int) (*npy.Array, []int) {
		a, v := newArray("f2", rows, cols), make([]int, rows*cols)
		for i := range v {
			v[i] = rnd.IntN(17) - 8
			a.SetUint(i, uint64(num.F16Bits(float32(v[i])/8)))
		}
		return a, v
	}
	a, av := eighths(m, k)
	b, bv := eighths(k, n)
	c := newArray("f4", m, n)
	for i := range m {
		for j := range n {
			sum := 0
			for l := range k {
				sum += av[i*k+l] * bv[l*n+j]
			}
			c.SetUint(i*n+j, uint64(math.Float32bits(float32(sum)/64)))
		}
	}
	dims := func(names ...string) []corpus.Dim { return []corpus.Dim{{Sym: names[0]}, {Sym: names[1]}} }
	return corpus.Kernel{
		Name: fmt.Sprintf("gemm_mnk_%dx%dx%d", m, n, k), Entry: "gemm_mnk", Archs: archs,
		Description: "GEMM with symbolic m, n and k", Formula: "C = A @ B",
		Params: []corpus.Param{
			{Name: "A", Kind: "buffer", Shape: dims("m", "k"), DType: "float16", Role: "in"},
			{Name: "B", Kind: "buffer", Shape: dims("k", "n"), DType: "float16", Role: "in"},
			{Name: "C", Kind: "buffer", Shape: dims("m", "n"), DType: "float32", Role: "out"},
		},
		Symbolic: map[string]int64{"m": int64(m), "n": int64(n), "k": int64(k)},
		Own:      map[string]*npy.Array{"A.in": a, "B.in": b, "C.out": c},
	}
}

// popcount counts the bits of int32 and int64, which may be negative.
func popcount() corpus.Kernel {
	const n = 512
	rnd := rand.New(rand.NewPCG(32, 64))
	x, y := newArray("i4", n), newArray("i4", n)
	l, z := newArray("i8", n), newArray("i8", n)
	for i := range n {
		v := rnd.Uint64()
		switch i { // of both widths: none, all, the sign alone
		case 0:
			v = 0
		case 1:
			v = 1<<64 - 1
		case 2:
			v = 1<<63 | 1<<31
		}
		x.SetUint(i, v&(1<<32-1))
		y.SetUint(i, uint64(bits.OnesCount32(uint32(v))))
		l.SetUint(i, v)
		z.SetUint(i, uint64(bits.OnesCount64(v)))
	}
	param := func(name, dtype, role string) corpus.Param {
		return corpus.Param{Name: name, Kind: "buffer", Shape: []corpus.Dim{{N: n}}, DType: dtype, Role: role}
	}
	return corpus.Kernel{
		Name: "popcount", Entry: "popcount", Archs: archs,
		Description: "popcount of int32 and int64", Formula: "Y = popcount(X); Z = popcount(L)",
		Params: []corpus.Param{param("X", "int32", "in"), param("L", "int64", "in"), param("Y", "int32", "out"), param("Z", "int64", "out")},
		Own:    map[string]*npy.Array{"X.in": x, "L.in": l, "Y.out": y, "Z.out": z},
	}
}

func newArray(d npy.DType, shape ...int) *npy.Array {
	a, err := npy.New(d, shape...)
	if err != nil {
		panic(err)
	}
	return a
}
