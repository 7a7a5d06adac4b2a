package driver

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/cuda"
	"lowertrace/internal/render/textdiff"
	"lowertrace/internal/trace"
)

// Pipelines with faults, for the tests.
func init() {
	keep := func(_ *pipeline.Context, m *ir.IRModule) (*ir.IRModule, error) { return m, nil }
	inner := &pipeline.Pass{Name: "Inner", Stage: "test", Run: keep}
	first := &pipeline.Pass{Name: "First", Stage: "test", Run: func(c *pipeline.Context, m *ir.IRModule) (*ir.IRModule, error) {
		return c.Run(inner, m)
	}}
	// Explode panics on a store of 2.0, as a pass with a fault does on the statement it does not expect.
	explode := &pipeline.Pass{Name: "Explode", Stage: "test", Run: func(c *pipeline.Context, m *ir.IRModule) (*ir.IRModule, error) {
		for _, f := range m.Funcs {
			ir.Walk(f.Body, func(s ir.Stmt) bool {
				if st, ok := s.(*ir.BufferStore); ok {
					if v, ok := st.Value.(*ir.FloatImm); ok && v.Value == 2 {
						panic("unexpected store")
					}
				}
				return true
			})
		}
		return m, nil
	}}
	outer := &pipeline.Pass{Name: "Outer", Stage: "test", Run: func(c *pipeline.Context, m *ir.IRModule) (*ir.IRModule, error) {
		return c.Run(explode, m)
	}}
	fails := func(c *pipeline.Context, m *ir.IRModule) (*pipeline.Output, error) {
		if _, err := c.Run(inner, m); err != nil {
			return nil, err
		}
		return nil, pipeline.Errorf(m.Funcs[0].Org, "no code for this")
	}
	bursts := func(*pipeline.Context, *ir.IRModule) (*pipeline.Output, error) {
		var names []string
		return &pipeline.Output{Source: names[3]}, nil
	}
	pipeline.Register(&pipeline.PassPipeline{Backend: "test-panics", Table: []pipeline.Entry{{Pass: first}, {Pass: outer}}, Gen: cuda.Generate})
	pipeline.Register(&pipeline.PassPipeline{Backend: "test-codegen-fails", Table: []pipeline.Entry{{Pass: first}}, Gen: fails})
	pipeline.Register(&pipeline.PassPipeline{Backend: "test-codegen-panics", Table: []pipeline.Entry{{Pass: first}}, Gen: bursts})
}

const twoStores = `from tvm.script import tirx as T

@T.prim_func
def one(A_handle: T.handle):
    A = T.match_buffer(A_handle, (4,), strides=(1,))
    A[0] = T.float32(1.0)

@T.prim_func
def two(A_handle: T.handle):
    A = T.match_buffer(A_handle, (4,), strides=(1,))
    for i in range(4):
        A[i] = T.float32(1.0)
        A[i] = T.float32(2.0)
`

// traceDeps are Deps with buffers and a folder to run in.
type traceDeps struct {
	*Deps
	stdout, stderr bytes.Buffer
	dir            string
}

func newTraceDeps(t *testing.T) *traceDeps {
	t.Helper()
	d := &traceDeps{Deps: OSDeps(), dir: t.TempDir()}
	d.Stdin, d.Stdout, d.Stderr = strings.NewReader(""), &d.stdout, &d.stderr
	d.StdoutTTY, d.StderrTTY, d.Width = false, false, 0
	d.Getenv = func(string) string { return "" }
	return d
}

func (d *traceDeps) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func (d *traceDeps) options(mode Mode, files ...string) RunOptions {
	return RunOptions{Files: files, Mode: mode, Pipeline: DefaultPipeline, TraceDir: filepath.Join(d.dir, "traces"), Context: 3}
}

func (d *traceDeps) open(t *testing.T, script string) *trace.Run {
	t.Helper()
	run, err := trace.Open(script, trace.OpenOptions{TraceDir: filepath.Join(d.dir, "traces"), DiffStat: textdiff.Stat})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func exitCodeOf(err error) int {
	var ex *ExitError
	if errors.As(err, &ex) {
		return ex.Code
	}
	if err != nil {
		return -1
	}
	return 0
}

// TestPanicInAPass: the error names pass, function and statement, every record
// is there, the report has it, and the user is told once.
func TestPanicInAPass(t *testing.T) {
	d := newTraceDeps(t)
	o := d.options(ModeBoth, d.file(t, "k.tir", twoStores))
	o.Pipeline = "test-panics"
	if code := exitCodeOf(Run(context.Background(), d.Deps, o)); code != ExitFailed {
		t.Fatalf("exit %d: %s", code, d.stderr.String())
	}
	const want = "k.tir:13:9: internal error in Explode in function two: unexpected store (run_test.go:"
	if n := strings.Count(d.stderr.String(), want); n != 1 {
		t.Errorf("told %d times:\n%s", n, d.stderr.String())
	}
	run := d.open(t, "k")
	var got []string
	for _, r := range run.Records {
		got = append(got, r.Name+" "+string(r.Status))
	}
	if s := strings.Join(got, ", "); s != "First completed, Inner completed, Outer failed, Explode failed" {
		t.Errorf("records: %s", s)
	}
	last := run.Records[len(run.Records)-1]
	if run.State != trace.StateFailed || !strings.Contains(last.ErrorMsg, "unexpected store") || !strings.Contains(last.BeforeText, "T.float32(2.0)") {
		t.Errorf("%s, %+v", run.State, last)
	}
	html, err := os.ReadFile(filepath.Join(d.dir, "traces", "k", reportName))
	if err != nil || !bytes.Contains(html, []byte("internal error in Explode")) {
		t.Errorf("the report does not tell: %v", err)
	}
}

// TestPanicUntraced: without a trace the pass is named as well.
func TestPanicUntraced(t *testing.T) {
	d := newTraceDeps(t)
	o := d.options(ModeOff, d.file(t, "k.tir", twoStores))
	o.Pipeline = "test-panics"
	if code := exitCodeOf(Run(context.Background(), d.Deps, o)); code != ExitFailed || !strings.Contains(d.stderr.String(), "internal error in Explode in function two") {
		t.Errorf("exit %d: %s", code, d.stderr.String())
	}
}

// TestFailingCodeGenerator: a record of phase codegen with the IR and the
// message, after that of the pass which ran inside it.
func TestFailingCodeGenerator(t *testing.T) {
	for pipe, want := range map[string]string{
		"test-codegen-fails":  "k.tir:4:5: no code for this",
		"test-codegen-panics": "internal error in the code generator: runtime error: index out of range",
	} {
		d := newTraceDeps(t)
		o := d.options(ModeHTML, d.file(t, "k.tir", twoStores))
		o.Pipeline = pipe
		if code := exitCodeOf(Run(context.Background(), d.Deps, o)); code != ExitFailed {
			t.Fatalf("%s: exit %d", pipe, code)
		}
		if n := strings.Count(d.stderr.String(), want); n != 1 {
			t.Errorf("%s: told %d times:\n%s", pipe, n, d.stderr.String())
		}
		run := d.open(t, "k")
		last := run.Records[len(run.Records)-1]
		if last.Name != "codegen" || last.Phase != trace.PhaseCodegen || last.Status != trace.Failed || last.HasAfter || last.BeforeText == "" || last.Depth != 0 {
			t.Errorf("%s: %+v", pipe, last)
		}
		if in := run.Records[len(run.Records)-2]; pipe == "test-codegen-fails" && (in.Name != "Inner" || in.Phase != trace.PhaseCodegen || in.Index >= last.Index) {
			t.Errorf("inside: %+v", in)
		}
		if _, err := os.Stat(filepath.Join(d.dir, "traces", "k", "codegen.cpp")); err == nil {
			t.Errorf("%s left a codegen.cpp", pipe)
		}
	}
}

const addOne = `from tvm.script import tirx as T

@T.prim_func
def add(A_handle: T.handle):
    A = T.match_buffer(A_handle, (512,), strides=(1,))
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        tx: T.int32 = T.launch_thread_idx(0)
        with T.sblock("tilelang_root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tl.launch_threads": [128, 1, 1]})
            for i in T.parallel(128):
                A[bx * 128 + i] = A[bx * 128 + i] + T.float32(1.0)
`

// TestSecondPipelineOverOneFile: indices go on, phases begin with run2_, the
// run directory is new, and the later report shows the earlier records too.
func TestSecondPipelineOverOneFile(t *testing.T) {
	d := newTraceDeps(t)
	f := d.file(t, "k.tir", addOne)
	if err := Run(context.Background(), d.Deps, d.options(ModeHTML, f, f)); err != nil {
		t.Fatalf("%v: %s", err, d.stderr.String())
	}
	first, second := d.open(t, "k@2"), d.open(t, "k")
	if len(second.Records) != 2*len(first.Records) || first.Dir == second.Dir {
		t.Fatalf("%d and %d records in %s and %s", len(first.Records), len(second.Records), first.Dir, second.Dir)
	}
	if first.InvocationID == "" || first.InvocationID != second.InvocationID {
		t.Errorf("invocations %q and %q", first.InvocationID, second.InvocationID)
	}
	for i, r := range second.Records {
		if r.Index != i {
			t.Fatalf("record %d has index %d", i, r.Index)
		}
		if later := i >= len(first.Records); later != strings.HasPrefix(r.Phase, "run2_") {
			t.Fatalf("record %d has phase %s", i, r.Phase)
		}
	}
	html, err := os.ReadFile(filepath.Join(second.Dir, reportName))
	if err != nil || !bytes.Contains(html, []byte(`"pipeline_cuda"`)) || !bytes.Contains(html, []byte(`"run2_pipeline_cuda"`)) {
		t.Errorf("the report does not show both: %v", err)
	}
	// Going on from it means from its own records.
	o := d.options(ModeTerminal)
	o.From, o.StartAt = "k", "VectorizeLoop"
	d.stdout.Reset()
	if err := Run(context.Background(), d.Deps, o); err != nil {
		t.Fatalf("%v: %s", err, d.stderr.String())
	}
	if !strings.Contains(d.stdout.String(), "no difference") {
		t.Errorf("resumed: %s", d.stdout.String())
	}
}

// slowInput is a standard input that never ends.
type slowInput struct{}

func (slowInput) Read([]byte) (int, error) { time.Sleep(time.Hour); return 0, nil }

func TestInterruptWhileReadingStandardInput(t *testing.T) {
	d := newTraceDeps(t)
	d.Stdin = slowInput{}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if code := exitCodeOf(Run(ctx, d.Deps, d.options(ModeHTML, "-"))); code != ExitInterrupted {
		t.Errorf("exit %d", code)
	}
}

// TestInterruptEndsTheCommand: what finished is kept, the run says it was
// interrupted, and further jobs do not begin.
func TestInterruptEndsTheCommand(t *testing.T) {
	d := newTraceDeps(t)
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	clock := d.Clock
	d.Clock = func() time.Time { // in the middle of the first run
		if n++; n == 40 {
			cancel()
		}
		return clock()
	}
	f := d.file(t, "k.tir", addOne)
	o := d.options(ModeHTML, f, d.file(t, "l.tir", addOne))
	if code := exitCodeOf(Run(ctx, d.Deps, o)); code != ExitInterrupted {
		t.Fatalf("exit %d: %s", code, d.stderr.String())
	}
	run := d.open(t, "k")
	if run.State != trace.StateInterrupted || len(run.Records) == 0 || len(run.Records) > 20 {
		t.Errorf("%s with %d records", run.State, len(run.Records))
	}
	if _, err := os.Stat(filepath.Join(d.dir, "traces", "l")); err == nil {
		t.Error("the second file was lowered")
	}
	if _, err := os.Stat(filepath.Join(d.dir, "traces", "k", reportName)); err != nil {
		t.Error(err)
	}
}
