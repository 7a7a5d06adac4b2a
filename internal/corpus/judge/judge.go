// Package judge runs the corpus' kernels on the interpreter: it gives a
// kernel's inputs the form the interpreter takes and says how what came out
// differs from the expected arrays. It is for tests.
package judge

import (
	"fmt"
	"math"
	"slices"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/npy"
)

// Args are a kernel's inputs: the arrays it reads, zeros that count as
// unwritten where it only writes, its scalars and symbolic sizes. It panics if
// the corpus lacks an array, for then the checkout is broken.
func Args(k *corpus.Kernel) interp.Args {
	a := interp.Args{Arrays: map[string]*npy.Array{}, Scalars: map[string]float64{}, Unwritten: map[string]bool{}, Strides: map[string][]int64{}}
	for n, v := range k.Symbolic {
		a.Scalars[n] = float64(v)
	}
	for _, p := range k.Params {
		if p.Kind == "scalar" {
			switch v := p.Value.(type) {
			case float64:
				a.Scalars[p.Name] = v
			case bool:
				a.Scalars[p.Name] = 0
				if v {
					a.Scalars[p.Name] = 1
				}
			}
			continue
		}
		for _, d := range p.Strides {
			a.Strides[p.Name] = append(a.Strides[p.Name], k.Size(d))
		}
		if p.Role != "out" {
			a.Arrays[p.Name] = k.Array(p.Name + ".in")
			continue
		}
		like := k.Array(p.Name + ".out")
		z, err := npy.New(like.DType, like.Shape...)
		if err != nil {
			panic(err)
		}
		a.Arrays[p.Name] = z
		a.Unwritten[p.Name] = true
	}
	return a
}

// Wrong says how the outputs of a run differ from the kernel's expected arrays
// by more than its tolerances, "" if they do not. Buffers whose elements stand
// in the order of atomic operations are compared in order of size.
func Wrong(k *corpus.Kernel, res *interp.Result) string {
	for _, p := range k.Params {
		if p.Kind == "scalar" || p.Role == "in" {
			continue
		}
		want, got := k.Array(p.Name+".out"), res.Outputs[p.Name]
		if got == nil {
			return p.Name + " is not written"
		}
		if !slices.Equal(want.Shape, got.Shape) {
			return fmt.Sprintf("%s has the shape %v, not %v", p.Name, got.Shape, want.Shape)
		}
		w, g := floats(want), floats(got)
		if slices.Contains(res.Atomic, p.Name) {
			slices.Sort(w)
			slices.Sort(g)
		}
		rtol, atol := k.Tolerance(p)
		bad, first := 0, 0
		for i := range w {
			if same(w[i], g[i], rtol, atol) {
				continue
			}
			if bad++; bad == 1 {
				first = i
			}
		}
		if bad > 0 {
			return fmt.Sprintf("%s: %d of %d elements are wrong, [%d] is %v and not %v", p.Name, bad, len(w), first, g[first], w[first])
		}
	}
	return ""
}

func floats(a *npy.Array) []float64 {
	out := make([]float64, a.Len())
	for i := range out {
		out[i] = a.Float(i)
	}
	return out
}

func same(want, got, rtol, atol float64) bool {
	return want == got || math.IsNaN(want) && math.IsNaN(got) || math.Abs(want-got) <= atol+rtol*math.Abs(want)
}
