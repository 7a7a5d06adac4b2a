package driver

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/corpus/source"
	"lowertrace/internal/gpu"
)

// execReference are the options to run a kernel of the corpus on its recorded
// inputs and compare with the arrays it must give.
func execReference(t *testing.T, k *corpus.Kernel, target string) ExecOptions {
	t.Helper()
	o, _ := execFile(t, k.Name, target)
	data := filepath.Join(o.TraceDir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(corpus.Arrays(), k.Name+"/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := fs.ReadFile(corpus.Arrays(), k.Name+"/data/"+e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, e.Name()), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o.Inputs, o.Expect, o.Runs, o.Timeout, o.Mode = data, data, 0, 10*time.Second, ModeOff
	for n, v := range k.Symbolic {
		o.Set = append(o.Set, fmt.Sprintf("%s=%d", n, v))
	}
	for _, p := range k.Params {
		switch v := p.Value.(type) {
		case float64:
			o.Set = append(o.Set, fmt.Sprintf("%s=%v", p.Name, v))
		case bool:
			o.Set = append(o.Set, fmt.Sprintf("%s=%d", p.Name, boolInt(v)))
		}
	}
	if k.Name == "atomic_zoo" { // its notes: slots are handed out in any order
		o.Unordered = []string{"Slot"}
	}
	return o
}

// TestExecOnDevice runs every kernel of the corpus that lowers on a real GPU.
// It is skipped, in CI too, where there is none.
func TestExecOnDevice(t *testing.T) {
	g, err := openGPU(0)
	if err != nil {
		t.Skip(err)
	}
	dev := g.Device()
	g.Close()
	for _, k := range corpus.Kernels() {
		for _, target := range k.Archs {
			if target != dev.Arch() && target != DefaultTarget {
				continue
			}
			t.Run(k.Name+"/"+target, func(t *testing.T) {
				o := execReference(t, &k, target)
				d, stdout, stderr := execDeps()
				x, err := d.newExecution(o)
				if err != nil {
					t.Fatal(stderr, err)
				}
				defer x.close()
				l, err := x.d.lowerKept(context.Background(), x.job)
				switch {
				case err == nil:
				case source.Hides(&k, target), k.Name == "gemm_warp_specialized":
					t.Skip(stderr, err) // the text hides what is needed; T.tma_copy has no lowering
				default:
					t.Fatal(stderr, err)
				}
				r, err := x.runLowered(context.Background(), l)
				if err != nil {
					t.Fatal(stdout, stderr, err)
				}
				if !r.Right {
					t.Error(r.answerLines())
				}
			})
		}
	}
}

// Every kernel of the corpus, with the interpreter in the GPU's place: recorded
// inputs go to it as the launch description says, and its answers pass as right
// against the arrays they must be.
func TestExecReference(t *testing.T) {
	ran := 0
	for _, k := range corpus.Kernels() {
		target := k.Archs[len(k.Archs)-1]
		o := execReference(t, &k, target)
		text := corpus.Text(k.Input(target))
		useGPU(t, func(int) (execGPU, error) { return &fakeGPU{text: text}, nil })
		d, _, stderr := execDeps()
		in, err := d.readKernel(o.Files[0], o.TraceDir, o.SourceOptions)
		if err != nil {
			t.Fatal(stderr)
		}
		jobs, err := d.plan(in, o.RunOptions)
		if err != nil {
			t.Fatal(err)
		}
		x := &execution{d: d, o: o, job: jobs[0], gpu: &fakeGPU{text: text}}
		l, err := x.d.lowerKept(context.Background(), x.job)
		if err != nil {
			continue // its text hides what is needed
		}
		ran++
		if err := x.prepare(l.spec); err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		dev, err := encodeArgs(l.spec, *x.args)
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		w := countWork(in.mod, l.spec, dev.env)
		if err := x.expect(context.Background(), l.spec, dev, w); err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		res, err := x.gpu.Run(context.Background(), nil, l.spec, dev, 0)
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		r := x.newReport(l, &gpu.Object{})
		r.work = w
		if err := x.judge(r, l.spec, dev, res); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		} else if !r.Right {
			t.Errorf("%s: %v", k.Name, r.answerLines())
		}
	}
	if ran < 70 {
		t.Errorf("%d kernels lower", ran)
	}
}
