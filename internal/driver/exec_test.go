package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lowertrace/internal/corpus"
	"lowertrace/internal/gpu"
	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/ir/interp"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/launch"
	"lowertrace/internal/npy"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
)

// fakeGPU answers as the interpreter does on the kernel's text, or fails as it
// is told to: what exec makes of a GPU's answers is tested with it, never what
// generated code does.
type fakeGPU struct {
	text   string
	spoil  func(name string, raw []byte) // changes an answer
	err    error
	res    gpuResult
	closed int
}

func (g *fakeGPU) Device() gpu.Device {
	return gpu.Device{Name: "NVIDIA H200", Major: 9, SMs: 132, ClockKHz: 1980000, MemoryClockKHz: 3201000, MemoryBusBits: 6144}
}

func (g *fakeGPU) Close() { g.closed++ }

func (g *fakeGPU) Run(ctx context.Context, obj *gpu.Object, spec *launch.Spec, a *deviceArgs, runs int) (*gpuResult, error) {
	if g.err != nil {
		return nil, g.err
	}
	buffers, err := interpretDevice(ctx, g.text, spec, a)
	if err != nil {
		return nil, err
	}
	res := g.res
	res.buffers = buffers
	if g.spoil != nil {
		for n, raw := range buffers {
			g.spoil(n, raw)
		}
	}
	if runs > 0 {
		res.timing = &gpu.Timing{BackToBack: 4 * time.Microsecond}
		for range runs {
			res.timing.Flushed = append(res.timing.Flushed, 10*time.Microsecond)
		}
	}
	return &res, nil
}

// interpretDevice runs a kernel on the interpreter with a GPU's arguments.
func interpretDevice(ctx context.Context, text string, spec *launch.Spec, a *deviceArgs) (map[string][]byte, error) {
	mod, err := script.ParseString("k.tir", text)
	if err != nil {
		return nil, err
	}
	set := map[string]float64{}
	for n, v := range a.env {
		set[n] = float64(v)
	}
	for n, bits := range a.scalars {
		if spec.Scalars[n].DType == "float32" {
			one := &npy.Array{DType: "f4", Data: make([]byte, 4)}
			one.SetUint(0, bits)
			set[n] = one.Float(0)
		}
	}
	args, err := interp.Inputs(mod, interp.InputOptions{Set: set})
	if err != nil {
		return nil, err
	}
	names := handleNames(mod)
	for buffer, handle := range names {
		bothNames(args.Arrays, buffer, handle)
		bothNames(args.Strides, buffer, handle)
	}
	outer := func(n string) string { // the description's name of either
		if _, ok := spec.Buffers[n]; ok {
			return n
		}
		for buffer, handle := range names {
			if n == handle {
				return buffer
			}
			if n == buffer {
				return handle
			}
		}
		return n
	}
	for n, arr := range args.Arrays {
		if args.Arrays[n], err = decodeArray(spec.Buffers[outer(n)].DType, a.buffers[outer(n)], arr, args.Strides[n]); err != nil {
			return nil, err
		}
	}
	res, err := interp.Run(ctx, mod, args, interp.Options{})
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for n, raw := range a.buffers {
		out[n] = bytes.Clone(raw)
	}
	for n, arr := range res.Outputs {
		if err := eachElement(spec.Buffers[outer(n)].DType, arr, args.Strides[n], out[outer(n)], true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// useGPU puts a GPU in the place of the machine's.
func useGPU(t *testing.T, open func(ordinal int) (execGPU, error)) {
	t.Helper()
	old := openGPU
	openGPU = open
	t.Cleanup(func() { openGPU = old })
}

// execDeps are streams for a test; what is printed is in the buffers.
func execDeps() (*Deps, *bytes.Buffer, *bytes.Buffer) {
	d := OSDeps()
	var stdout, stderr bytes.Buffer
	d.Stdout, d.Stderr, d.StdoutTTY, d.StderrTTY, d.Width, d.color = &stdout, &stderr, false, false, 0, "never"
	return d, &stdout, &stderr
}

// execFile writes a kernel of the corpus to a file and gives the options to
// run it.
func execFile(t *testing.T, kernel, target string) (ExecOptions, string) {
	t.Helper()
	text := corpus.Text(kernel + "/" + target + "/input.tir")
	dir := t.TempDir()
	file := filepath.Join(dir, kernel+".tir")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	o := ExecOptions{Runs: 3, Timeout: time.Second, Tolerance: -1}
	o.Files, o.Target, o.Pipeline, o.Mode, o.TraceDir = []string{file}, target, DefaultPipeline, ModeTerminal, filepath.Join(dir, "trace")
	return o, text
}

func execNVRTC(t *testing.T, o *ExecOptions) {
	t.Helper()
	o.NVRTC = gputest.NVRTC(t).Path()
}

// What exec says of right and wrong answers, and its exit codes.
func TestExecAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, kernel string
		gpu          fakeGPU
		change       func(*ExecOptions)
		code         int
		early        bool // refused before the GPU is opened
		want         []string
	}{
		{name: "right", kernel: "softmax", code: 0, want: []string{
			"softmax · lowered for sm_80, compiled for sm_90a · NVIDIA H200", "right, by the interpreter", "Y: 65536 elements, identical",
			"10.0 µs with L2 flushed (median of 3), 4.00 µs back to back", "52.4 GB/s", "% of the memory peak of 4.92 TB/s", "init: "}},
		{name: "wrong element", kernel: "softmax", code: 1, gpu: fakeGPU{spoil: func(n string, raw []byte) {
			if n == "Y" {
				raw[4*515+3] = 0x40
			}
		}}, want: []string{"WRONG, by the interpreter", "Y[1, 3] is ", "first of 1 wrong among 65536 elements"}},
		{name: "unwritten", kernel: "softmax", code: 1, gpu: fakeGPU{spoil: func(n string, raw []byte) {
			if n == "Y" {
				for i := 4 * 512; i < 4*514; i += 4 {
					copy(raw[i:], []byte{0, 0, 0xc0, 0x7f})
				}
			}
		}}, want: []string{"Y[1, 0] is never written, want ", "first of 2 wrong"}},
		{name: "input changed", kernel: "softmax", code: 1, gpu: fakeGPU{spoil: func(n string, raw []byte) {
			if n == "X" {
				raw[0]++
			}
		}}, want: []string{"WRONG", "input X was changed"}},
		{name: "beside a buffer", kernel: "softmax", code: 1, gpu: fakeGPU{res: gpuResult{outside: []string{"Y"}}}, want: []string{"WRONG", "memory beside buffer Y was written"}},
		{name: "out of memory", kernel: "softmax", code: 1, gpu: fakeGPU{err: &gpu.CUDAError{Call: "cuMemAlloc_v2", Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY"}}, want: []string{"cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY"}},
		{name: "crash", kernel: "softmax", code: 1, gpu: fakeGPU{err: &gpu.CUDAError{Call: "cuStreamQuery", Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS"}}, want: []string{"the kernel crashed: cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS"}},
		{name: "hang", kernel: "softmax", code: 1, gpu: fakeGPU{err: gpu.ErrHang}, want: []string{"the kernel did not finish within 1s: it hangs, or --timeout is too short"}},
		{name: "scalar and strides", kernel: "dynamic_strided_add", code: 0, change: func(o *ExecOptions) { o.Set = []string{"m=20", "n=33", "s=40", "delta=2.5"} }, want: []string{"C: 660 elements, identical"}},
		{name: "unknown size", kernel: "dynamic_strided_add", code: 2, early: true, change: func(o *ExecOptions) { o.Set = []string{"deta=2.5"} }, want: []string{"--set deta: dynamic_strided_add has no such size or scalar, it has delta, m, n, s; did you mean delta?"}},
		{name: "no number", kernel: "dynamic_strided_add", code: 2, change: func(o *ExecOptions) { o.Set = []string{"m=few"} }, want: []string{`--set m=few: "few" is no number`}},
		{name: "untimed", kernel: "softmax", code: 0, change: func(o *ExecOptions) { o.Runs = 0 }, want: []string{"right"}},
		{name: "architecture", kernel: "softmax", code: 2, change: func(o *ExecOptions) { o.Arch = "sm_91" }, want: []string{`does not compile for "sm_91"`, "; did you mean sm_"}},
		{name: "nothing expected", kernel: "softmax", code: 2, change: func(o *ExecOptions) { o.Expect = o.TraceDir + "/none" }, want: []string{"no such file or directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, text := execFile(t, tc.kernel, "sm_80")
			execNVRTC(t, &o)
			tc.gpu.text = text
			useGPU(t, func(int) (execGPU, error) { return &tc.gpu, nil })
			if tc.change != nil {
				tc.change(&o)
			}
			d, stdout, stderr := execDeps()
			err := Exec(context.Background(), d, o)
			code := 0
			var ex *ExitError
			if errors.As(err, &ex) {
				code = ex.Code
			}
			all := stdout.String() + stderr.String()
			if err != nil {
				all += err.Error()
			}
			if code != tc.code {
				t.Errorf("exit %d, want %d: %s", code, tc.code, all)
			}
			for _, w := range tc.want {
				if !strings.Contains(all, w) {
					t.Errorf("%q is not in\n%s", w, all)
				}
			}
			want := 1
			if tc.early {
				want = 0
			}
			if tc.gpu.closed != want {
				t.Errorf("the GPU was closed %d times, want %d", tc.gpu.closed, want)
			}
		})
	}
}

// The --json document holds the verdict as data.
func TestExecJSON(t *testing.T) {
	o, text := execFile(t, "softmax", "sm_80")
	execNVRTC(t, &o)
	o.JSON = true
	useGPU(t, func(int) (execGPU, error) {
		return &fakeGPU{text: text, spoil: func(n string, raw []byte) {
			if n == "Y" {
				raw[3] = 0xff
			}
		}}, nil
	})
	d, stdout, _ := execDeps()
	err := Exec(context.Background(), d, o)
	var ex *ExitError
	if !errors.As(err, &ex) || ex.Code != ExitFailed {
		t.Errorf("exit %v", err)
	}
	var r ExecReport
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	if r.Schema != 1 || r.Right || len(r.Answer.Buffers) != 1 || r.Answer.Buffers[0].Wrong != 1 || r.Kernels[0].Registers == 0 || r.Time.Flushed != 10 {
		t.Errorf("%+v", r)
	}
}

// An edit of the working copy is what is compiled; an error in it is told at
// its line, with the kernel's.
func TestExecEdited(t *testing.T) {
	o, text := execFile(t, "vector_add", "sm_80")
	execNVRTC(t, &o)
	useGPU(t, func(int) (execGPU, error) { return &fakeGPU{text: text}, nil })
	d, stdout, stderr := execDeps()
	if err := Exec(context.Background(), d, o); err != nil {
		t.Fatal(err, stderr)
	}
	copyFile := filepath.Join(o.TraceDir, "vector_add", "codegen.cpp")
	code, err := os.ReadFile(copyFile)
	if err != nil {
		t.Fatal(err)
	}
	brace := strings.LastIndex(string(code), "}\n")
	edit := func(line string) {
		t.Helper()
		text := string(code[:brace]) + line + "\n" + string(code[brace:])
		if err := os.WriteFile(copyFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		stdout.Reset()
		stderr.Reset()
	}
	edit("  printf(\"block %d\\n\", int(blockIdx.x));")
	if err := Exec(context.Background(), d, o); err != nil {
		t.Fatal(err, stderr)
	}
	for _, w := range []string{"PATCHED", "not measured: the kernel prints; --runs N times it all the same"} {
		if !strings.Contains(stdout.String(), w) {
			t.Errorf("%q is not in\n%s", w, stdout)
		}
	}
	line := strings.Count(string(code[:brace]), "\n") + 1
	edit("  int q = undefined_name;")
	err = Exec(context.Background(), d, o)
	var ex *ExitError
	if !errors.As(err, &ex) || ex.Code != ExitFailed {
		t.Errorf("exit %v", err)
	}
	if want := copyFile + ":" + itoa(line) + ":11: error: identifier \"undefined_name\" is undefined"; !strings.Contains(stderr.String(), want) {
		t.Errorf("%q is not in\n%s", want, stderr)
	}
	if want := "a line of your edit, behind code from " + o.Files[0] + ":"; !strings.Contains(stderr.String(), want) {
		t.Errorf("%q is not in\n%s", want, stderr)
	}
}

// TileLang source runs as its IR does, with sizes and scalars set by name.
func TestExecPython(t *testing.T) {
	o, text := execFile(t, "dynamic_strided_add", "sm_80")
	execNVRTC(t, &o)
	file := filepath.Join(filepath.Dir(o.Files[0]), "dynamic_strided_add.py")
	if err := os.WriteFile(file, []byte(corpus.Text("src/dynamic_strided_add.py")), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Files, o.Set = []string{file}, []string{"m=20", "n=33", "s=40", "delta=2.5"}
	useGPU(t, func(int) (execGPU, error) { return &fakeGPU{text: text}, nil })
	d, stdout, stderr := execDeps()
	if err := Exec(context.Background(), d, o); err != nil || !strings.Contains(stdout.String(), "C: 660 elements, identical") {
		t.Errorf("%v: %s%s", err, stdout, stderr)
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// Lines of an edit map back to the lines they were.
func TestMapLine(t *testing.T) {
	const generated = "a\nb\nc\nd\n"
	for _, tc := range []struct {
		edited string
		want   []int
	}{
		{generated, []int{1, 2, 3, 4}},
		{"a\nx\nb\nc\nd\n", []int{1, 0, 2, 3, 4}},
		{"b\nc\nd\n", []int{2, 3, 4}},
		{"a\nB\nc\nd\ne\n", []int{1, 0, 3, 4, 0}},
		{"a\nd\n", []int{1, 4}},
	} {
		for i, want := range tc.want {
			if have := mapLine(generated, tc.edited, i+1); have != want {
				t.Errorf("line %d of %q is %d, want %d", i+1, tc.edited, have, want)
			}
		}
	}
}

// Every kernel of the corpus that lowers: the arguments are laid out as the
// launch description says, come back as they went, and the interpreter's
// answer on them agrees with itself.
func TestExecArguments(t *testing.T) {
	pipe, err := pipeline.Lookup(DefaultPipeline)
	if err != nil {
		t.Fatal(err)
	}
	target, err := cuda.LookupTarget("sm_90a")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, k := range corpus.Kernels() {
		if testing.Short() && ran > 10 {
			break
		}
		if !k.Has("sm_90a") {
			continue
		}
		name := path.Join(k.Name, "sm_90a", "input.tir")
		mod, err := script.ParseString(name, corpus.Text(name))
		if err != nil {
			t.Fatal(err)
		}
		l := &lowered{}
		j := &job{in: &input{mod: mod}, target: target, pipe: pipe}
		if err := l.lower(&pipeline.Context{Target: target}, j, &recording{}); err != nil {
			continue // its text hides what is needed
		}
		ran++
		x := &execution{job: j, o: ExecOptions{Tolerance: -1}}
		for n, v := range k.Symbolic {
			x.o.Set = append(x.o.Set, n+"="+itoa(int(v)))
		}
		if err := x.prepare(l.spec); err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		dev, err := encodeArgs(l.spec, *x.args)
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		for _, n := range l.spec.Args {
			b, ok := l.spec.Buffers[n]
			if !ok {
				continue
			}
			arr, err := decodeArray(b.DType, dev.buffers[n], x.args.Arrays[n], x.args.Strides[n])
			if err != nil {
				t.Errorf("%s: %s: %v", k.Name, n, err)
				continue
			}
			for i := range arr.Len() {
				if !untouched(arr, x.args.Arrays[n], i) {
					t.Errorf("%s: element %d of %s does not come back as it went", k.Name, i, n)
					break
				}
			}
		}
		if w := countWork(mod, l.spec, dev.env); w.Bytes == 0 {
			t.Errorf("%s moves no byte", k.Name)
		}
	}
	if ran < 11 {
		t.Errorf("%d kernels lower", ran)
	}
}

// Operations counted from the IR, by hand.
func TestCountWork(t *testing.T) {
	for _, tc := range []struct {
		kernel string
		want   float64 // operations; negative: at most, not exact
		tensor string
	}{
		{"vector_add", 1 * 4096, ""}, // set below from the shape
		{"gemm_f16", 2 * 256 * 256 * 256, "float16"},
		{"softmax", 128 * 512 * 5, ""}, // max, subtract, exp, sum, divide
		{"gemm_i8", 0, "int8"},
	} {
		k := corpus.Lookup(tc.kernel)
		mod, err := script.ParseString(tc.kernel, corpus.Text(k.Input("sm_80")))
		if err != nil {
			t.Fatal(err)
		}
		want := tc.want
		if tc.kernel == "vector_add" {
			want = float64(k.Size(k.Params[0].Shape[0]))
		}
		w := countWork(mod, &launch.Spec{}, nil)
		if want > 0 && w.Flops != want || w.TensorType != tc.tensor || !w.Exact {
			t.Errorf("%s: %+v, want %v", tc.kernel, w, want)
		}
	}
	// Half of the tiles of a causal attention are left out: 1+2+3+4 of 4 times 4
	// tiles of 64 by 64 by 64, two products each, two heads.
	mod, err := script.ParseString("causal", corpus.Text("flash_attention_causal/sm_80/input.tir"))
	if err != nil {
		t.Fatal(err)
	}
	if w := countWork(mod, &launch.Spec{}, nil); w.Tensor != 2*10*2*2*64*64*64 || !w.Exact {
		t.Errorf("causal attention: %+v", w)
	}
}

// A bisection finds the pass, steps around lowerings without an answer, and
// tells when no optional pass is to blame.
func TestBisectPrefix(t *testing.T) {
	passes := []string{"A", "B", "C", "D", "E", "F", "G"}
	for culprit := range passes {
		tries := 0
		got, verdict, err := bisectPrefix(passes, func(kept int) (bisectOutcome, error) {
			tries++
			if kept > culprit {
				return outcomeWrong, nil
			}
			return outcomeRight, nil
		})
		if err != nil || verdict != outcomeWrong || len(got) != 1 || got[0] != passes[culprit] || tries > 5 {
			t.Errorf("%s: %v, %v, %v after %d tries", passes[culprit], got, verdict, err, tries)
		}
	}
	got, _, _ := bisectPrefix(passes, func(kept int) (bisectOutcome, error) {
		switch {
		case kept >= 6:
			return outcomeWrong, nil
		case kept >= 4:
			return outcomeNone, nil
		}
		return outcomeRight, nil
	})
	if strings.Join(got, "") != "DEF" {
		t.Errorf("with lowerings that give no answer: %v", got)
	}
	for _, o := range []bisectOutcome{outcomeRight, outcomeNone} {
		if got, verdict, _ := bisectPrefix(passes, func(int) (bisectOutcome, error) { return o, nil }); got != nil || verdict != o {
			t.Errorf("all %v: %v, %v", o, got, verdict)
		}
	}
	if got, verdict, _ := bisectPrefix(passes, func(int) (bisectOutcome, error) { return outcomeWrong, nil }); got != nil || verdict != outcomeWrong {
		t.Errorf("always wrong: %v, %v", got, verdict)
	}
}

// exec --bisect names the pass and that the interpreter disagrees with the GPU.
func TestExecBisect(t *testing.T) {
	o, text := execFile(t, "vector_add", "sm_80")
	execNVRTC(t, &o)
	o.Bisect = true
	var optional []string
	pipe, err := pipeline.Lookup(DefaultPipeline)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range pipe.Rows() {
		if r.Optional {
			optional = append(optional, r.Label)
		}
	}
	// The fake hardware trips over code that vectorization makes.
	runs := 0
	useWorker(t, func() (execGPU, error) {
		return &countingGPU{fakeGPU{text: text}, &runs, func(run int) bool { return run == 1 }}, nil
	})
	d, stdout, stderr := execDeps()
	err = Exec(context.Background(), d, o)
	var ex *ExitError
	if !errors.As(err, &ex) || ex.Code != ExitFailed {
		t.Fatalf("exit %v: %s%s", err, stdout, stderr)
	}
	// Wrong with all and right with every other choice: the last one is to blame.
	last := optional[len(optional)-1]
	if want := last + ": without it and the optional passes behind it the answer is right, with it wrong; the interpreter gives the right answer: it is wrong on the hardware alone"; !strings.Contains(stdout.String(), want) {
		t.Errorf("%q is not in\n%s", want, stdout)
	}
	// Always wrong.
	runs = 0
	useWorker(t, func() (execGPU, error) {
		return &countingGPU{fakeGPU{text: text}, &runs, func(int) bool { return true }}, nil
	})
	stdout.Reset()
	if err := Exec(context.Background(), d, o); !errors.As(err, &ex) || !strings.Contains(stdout.String(), "wrong without any optional pass") {
		t.Errorf("%v: %s", err, stdout)
	}
	// Never wrong.
	useWorker(t, func() (execGPU, error) { return &fakeGPU{text: text}, nil })
	stdout.Reset()
	if err := Exec(context.Background(), d, o); err != nil || !strings.Contains(stdout.String(), "nothing to look for") {
		t.Errorf("%v: %s", err, stdout)
	}
}

// countingGPU gives wrong answers in some of its runs, counted from 1.
type countingGPU struct {
	fakeGPU
	runs  *int
	wrong func(run int) bool
}

func (g *countingGPU) Run(ctx context.Context, obj *gpu.Object, spec *launch.Spec, a *deviceArgs, runs int) (*gpuResult, error) {
	*g.runs++
	g.spoil = nil
	if g.wrong(*g.runs) {
		g.spoil = func(n string, raw []byte) {
			if spec.Buffers[n].Role == launch.Out {
				raw[3] ^= 0x40
			}
		}
	}
	return g.fakeGPU.Run(ctx, obj, spec, a, runs)
}

// TestDeviceFloats decodes what the GPU leaves in formats that arrays hold as
// float32.
func TestDeviceFloats(t *testing.T) {
	for _, tc := range []struct {
		dtype string
		bits  byte
		want  float32
	}{
		{"float8_e4m3fn", 0x78, 256},
		{"float8_e4m3", 0x78, 256}, // the GPU's e4m3 has no infinity
		{"float8_e4m3", 0xf8, -256},
		{"float8_e5m2", 0x7c, float32(math.Inf(1))},
		{"float8_e8m0fnu", 0x80, 2},
	} {
		like, err := npy.New("f4", 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeArray(tc.dtype, []byte{tc.bits}, like, nil)
		if err != nil {
			t.Errorf("%s: %v", tc.dtype, err)
			continue
		}
		if v := math.Float32frombits(uint32(got.Uint(0))); v != tc.want {
			t.Errorf("%s %#x is %v, want %v", tc.dtype, tc.bits, v, tc.want)
		}
	}
}
