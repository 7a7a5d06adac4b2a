package tile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"sort"
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/npy"
)

// TestReferenceResults runs each kernel of the reference as the two passes leave
// it: it must give the expected arrays, read nothing that was not written,
// and stay in bounds.
func TestReferenceResults(t *testing.T) {
	if testing.Short() {
		t.Skip("runs 74 kernels on the CPU")
	}
	for _, name := range kernels80() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _, _, err := inferred(name)
			if err != nil {
				t.Fatal(err)
			}
			if m, err = lowerAll(m); err != nil {
				t.Fatal(err)
			}
			k := corpus.Lookup(name)
			res, err := interp.Run(context.Background(), m, kernelArgs(t, &k), interp.Options{Findings: true, Workers: 1})
			var nr *interp.NotRunnable
			if errors.As(err, &nr) {
				t.Skip(nr)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range res.Findings {
				t.Errorf("finding: %v", f)
			}
			if d := wrong(t, &k, res.Outputs); d != "" {
				t.Error(d)
			}
		})
	}
}

func kernelArgs(t *testing.T, k *corpus.Kernel) interp.Args {
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
			a.Arrays[p.Name] = array(t, k, p.Name+".in.npy")
			continue
		}
		like := array(t, k, p.Name+".out.npy")
		z, err := npy.New(like.DType, like.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		a.Arrays[p.Name] = z
		a.Unwritten[p.Name] = true
	}
	return a
}

func array(t *testing.T, k *corpus.Kernel, file string) *npy.Array {
	f, err := corpus.Arrays().Open(path.Join(k.Name, "data", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := npy.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wrong says how outputs differ from the expected ones.
func wrong(t *testing.T, k *corpus.Kernel, out map[string]*npy.Array) string {
	for _, p := range k.Params {
		if p.Kind == "scalar" || p.Role == "in" {
			continue
		}
		want, got := array(t, k, p.Name+".out.npy"), out[p.Name]
		if got == nil {
			return "no output " + p.Name
		}
		rtol, atol := k.Tolerance(p)
		w, g := make([]float64, want.Len()), make([]float64, want.Len())
		for i := range w {
			w[i], g[i] = want.Float(i), got.Float(i)
		}
		if k.Name == "atomic_zoo" && p.Name == "Slot" { // filled in any order
			sort.Float64s(w)
			sort.Float64s(g)
		}
		for i := range w {
			if w[i] != g[i] && !(math.IsNaN(w[i]) && math.IsNaN(g[i])) && !(math.Abs(w[i]-g[i]) <= atol+rtol*math.Abs(w[i])) {
				return fmt.Sprintf("%s[%d] is %v, want %v", p.Name, i, g[i], w[i])
			}
		}
	}
	return ""
}
