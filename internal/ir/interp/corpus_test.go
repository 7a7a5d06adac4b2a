package interp_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"sort"
	"strings"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/npy"
)

// corpusArgs are a kernel's inputs: what it reads, and zeros where it only
// writes.
func corpusArgs(t testing.TB, k *corpus.Kernel) interp.Args {
	t.Helper()
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
				} else {
					a.Scalars[p.Name] = 0
				}
			}
			continue
		}
		if p.Strides != nil {
			for _, d := range p.Strides {
				a.Strides[p.Name] = append(a.Strides[p.Name], k.Size(d))
			}
		}
		if p.Role != "out" {
			a.Arrays[p.Name] = readArray(t, path.Join(k.Name, "data", p.Name+".in.npy"))
			continue
		}
		like := readArray(t, path.Join(k.Name, "data", p.Name+".out.npy"))
		z, err := npy.New(like.DType, like.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		a.Arrays[p.Name] = z
		a.Unwritten[p.Name] = true
	}
	return a
}

func readArray(t testing.TB, name string) *npy.Array {
	t.Helper()
	f, err := corpus.Arrays().Open(name)
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

// compareExpected says how a run's outputs differ from the kernel's expected
// arrays, "" if they do not.
func compareExpected(t testing.TB, k *corpus.Kernel, out map[string]*npy.Array) string {
	for _, p := range k.Params {
		if p.Kind == "scalar" || p.Role == "in" {
			continue
		}
		want := readArray(t, path.Join(k.Name, "data", p.Name+".out.npy"))
		got := out[p.Name]
		if got == nil {
			return "no output " + p.Name
		}
		rtol, atol := k.Tolerance(p)
		n := want.Len()
		w, g := make([]float64, n), make([]float64, n)
		for i := range w {
			w[i], g[i] = want.Float(i), got.Float(i)
		}
		if k.Name == "atomic_zoo" && p.Name == "Slot" {
			sort.Float64s(w)
			sort.Float64s(g)
		}
		bad, first := 0, -1
		for i := range w {
			if math.IsNaN(w[i]) && math.IsNaN(g[i]) || w[i] == g[i] || math.Abs(w[i]-g[i]) <= atol+rtol*math.Abs(w[i]) {
				continue
			}
			if bad++; first < 0 {
				first = i
			}
		}
		if bad > 0 {
			return fmt.Sprintf("%s: %d of %d elements differ, first [%d]: got %v, want %v", p.Name, bad, n, first, g[first], w[first])
		}
	}
	return ""
}

// outcome of one state.
type outcome struct {
	path   string
	status string // "same", "not runnable", "differs", "error"
	why    string
	took   time.Duration
}

func runState(t testing.TB, k *corpus.Kernel, mod *ir.IRModule, name string, opts interp.Options) outcome {
	o := outcome{path: name}
	start := time.Now()
	res, err := interp.Run(context.Background(), mod, corpusArgs(t, k), opts)
	o.took = time.Since(start)
	var nr *interp.NotRunnable
	switch {
	case errors.As(err, &nr):
		o.status, o.why = "not runnable", nr.Error()
	case err != nil:
		o.status, o.why = "error", err.Error()
	default:
		if d := compareExpected(t, k, res.Outputs); d != "" {
			o.status, o.why = "differs", d
		} else {
			o.status = "same"
		}
		if len(res.Findings) > 0 {
			o.why += fmt.Sprintf(" [%d findings; %s]", len(res.Findings), res.Findings[0])
		}
	}
	return o
}

// state is one point of a lowering: a module that can be run as a whole.
type state struct {
	path, pass string
	mod        *ir.IRModule
}

// statesOf are the states of a lowering between its passes, the nested ones left out. From the
// two Filters on, the device functions are joined with the host functions.
func statesOf(t testing.TB, kernel, arch string) []state {
	parse := func(p string) *ir.IRModule {
		mod, err := script.ParseString(p, corpus.Text(p))
		if err != nil {
			t.Fatal(err)
		}
		return mod
	}
	nested := map[string]bool{}
	for _, line := range strings.Split(corpus.Text(path.Join(kernel, arch, "nested.tsv")), "\n") {
		idx, _, _ := strings.Cut(line, "\t")
		nested[idx] = true
	}
	in := path.Join(kernel, arch, "input.tir")
	list := []state{{in, "input", parse(in)}}
	var host *ir.IRModule
	for _, s := range corpus.States(kernel, arch) {
		if nested[fmt.Sprint(s.Index)] {
			continue
		}
		mod := parse(s.Path)
		switch {
		case s.Pass == "Filter" && host == nil:
			host = mod
			continue
		case host != nil:
			mod = join(host, mod)
		}
		list = append(list, state{s.Path, s.Pass, mod})
	}
	cg := path.Join(kernel, arch, "codegen_input.tir")
	return append(list, state{cg, "codegen_input", join(host, parse(cg))})
}

func join(a, b *ir.IRModule) *ir.IRModule {
	return &ir.IRModule{Funcs: append(append([]*ir.PrimFunc{}, a.Funcs...), b.Funcs...)}
}

// TestSweep runs chosen states of every kernel.
func TestSweep(t *testing.T) {
	sel := os.Getenv("INTERP_STATES") // e.g. sm_80/input.tir
	only := os.Getenv("INTERP_KERNEL")
	if sel == "" {
		t.Skip("set INTERP_STATES")
	}
	arch, state, _ := strings.Cut(sel, "/")
	count := map[string]int{}
	for _, k := range corpus.Kernels() {
		if !k.Has(arch) || only != "" && only != k.Name {
			continue
		}
		for _, st := range statesOf(t, k.Name, arch) {
			if state != "all" && state != path.Base(st.path) && state != st.pass {
				continue
			}
			o := runState(t, &k, st.mod, st.path, interp.Options{Findings: os.Getenv("INTERP_FINDINGS") != ""})
			count[o.status]++
			t.Logf("%-55s %-12s %6.2fs %s", o.path, o.status, o.took.Seconds(), o.why)
		}
	}
	t.Log(count)
}
