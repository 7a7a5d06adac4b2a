package driver

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lowertrace/internal/gpu"
	"lowertrace/internal/launch"
)

// lockedBuffer is a buffer that a watch writes while a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// startWatch watches a kernel of the corpus in the background. wait waits until
// the output has a text after what was seen before.
func startWatch(t *testing.T, o ExecOptions) (stop func() error, wait func(texts ...string)) {
	t.Helper()
	d, _, _ := execDeps()
	out := &lockedBuffer{}
	d.Stdout, d.Stderr = out, out
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Watch(ctx, d, o) }()
	seen := 0
	wait = func(texts ...string) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			text := out.String()[seen:]
			missing := ""
			for _, w := range texts {
				if !strings.Contains(text, w) {
					missing = w
				}
			}
			if missing == "" && strings.HasSuffix(text, "; Ctrl-C ends\n") {
				seen += len(text)
				return
			}
			if time.Now().After(deadline) {
				cancel()
				t.Fatalf("%q does not come; there is\n%s", missing, text)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return func() error { cancel(); return <-done }, wait
}

// save replaces a file as an editor does: a new file takes its name.
func save(t *testing.T, file, text string) {
	t.Helper()
	tmp := file + ".swp"
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, file); err != nil {
		t.Fatal(err)
	}
}

// Without a GPU a watch lowers on each save and shows what changed: of the
// kernel, of the generated code, of an edit; errors leave it going, and it ends
// with the code of an interrupt.
func TestWatchLowers(t *testing.T) {
	o, text := execFile(t, "vector_add", "sm_80")
	o.Context = 1
	useWorker(t, func() (execGPU, error) {
		return nil, &gpu.MissingError{What: "the CUDA driver", Reason: "libcuda.so.1 is not on this machine", Help: "it comes with the driver"}
	})
	stop, wait := startWatch(t, o)
	copyFile := filepath.Join(o.TraceDir, "vector_add", "codegen.cpp")
	wait("the CUDA driver is not available: libcuda.so.1 is not on this machine", "lowering only", "init: ", "watching "+o.Files[0]+" and "+copyFile)

	changed := strings.Replace(text, "] + B[", "] - B[", 1)
	if changed == text {
		t.Fatal("the kernel adds nothing")
	}
	save(t, o.Files[0], changed)
	wait("REGENERATED", "] - B[", "code now")

	save(t, o.Files[0], "def broken(\n")
	wait("is never closed")

	save(t, o.Files[0], changed)
	wait("the code is the same")

	code, err := os.ReadFile(copyFile)
	if err != nil {
		t.Fatal(err)
	}
	save(t, copyFile, string(code)+"// my edit\n")
	wait("+// my edit", "PATCHED")

	var ex *ExitError
	if err := stop(); !errors.As(err, &ex) || ex.Code != ExitInterrupted {
		t.Errorf("ended with %v", err)
	}
}

// What a kernel imports is watched as well, also before it is there.
func TestWatchImports(t *testing.T) {
	useWorker(t, func() (execGPU, error) {
		return nil, &gpu.MissingError{What: "the CUDA driver", Reason: "it is not there", Help: "none"}
	})
	dir := t.TempDir()
	file, helpers := filepath.Join(dir, "kernel.py"), filepath.Join(dir, "helpers.py")
	save(t, file, `import tilelang.language as T
from helpers import f

@T.prim_func
def main(A: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128) as bx:
        for i in T.Parallel(128):
            A[i] = f(A[i])
`)
	o := ExecOptions{}
	o.Files, o.TraceDir, o.Pipeline = []string{file}, filepath.Join(dir, "traces"), DefaultPipeline
	stop, wait := startWatch(t, o)
	wait("no helpers.py", "watching "+file+"; ")
	save(t, helpers, "def f(x):\n    return x + 1\n")
	wait("init: ", "watching "+file+", "+helpers+" and ")
	save(t, helpers, "def f(x):\n    return x + 2\n")
	wait("REGENERATED", "+= 2.0f")
	save(t, helpers, "def f(x:\n")
	wait(helpers + ":")
	save(t, helpers, "def f(x):\n    return x + 2\n")
	wait("the code is the same")
	stop()
}

// With a GPU each save tells whether the answer is right, also after a kernel
// that crashed and one that hung.
func TestWatchRuns(t *testing.T) {
	o, text := execFile(t, "vector_add", "sm_80")
	execNVRTC(t, &o)
	var mu sync.Mutex
	g := &fakeGPU{text: text}
	setErr := func(err error) { mu.Lock(); g.err = err; mu.Unlock() }
	started, killed := useWorker(t, func() (execGPU, error) { mu.Lock(); defer mu.Unlock(); c := *g; return &c, nil })
	setErr(&gpu.CUDAError{Call: "cuStreamQuery", Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS"})
	stop, wait := startWatch(t, o)
	wait("the kernel crashed: cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS")
	setErr(gpu.ErrHang)
	save(t, o.Files[0], text+"\n")
	wait("did not finish within 1s")
	setErr(nil)
	save(t, o.Files[0], text)
	wait("the code is the same", "right, by the interpreter", "with L2 flushed")
	save(t, o.Files[0], text+"\n")
	wait("right, by the interpreter")
	if err := stop(); err == nil {
		t.Error("an interrupted watch ended without an error")
	}
	if started.Load() != 3 || killed.Load() != 3 {
		t.Errorf("%d workers were started and %d ended; want one for the crash, one for the hang, one for the rest", started.Load(), killed.Load())
	}
}

// useWorker serves GPUs from goroutines in the place of processes.
func useWorker(t *testing.T, open func() (execGPU, error)) (started, killed *atomic.Int32) {
	t.Helper()
	started, killed = new(atomic.Int32), new(atomic.Int32)
	old := startWorker
	t.Cleanup(func() { startWorker = old })
	startWorker = func(int, io.Writer) (*workerLink, error) {
		started.Add(1)
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go func() {
			g, err := open()
			outW.CloseWithError(serveGPU(inR, outW, g, err))
		}()
		return &workerLink{in: inW, out: outR, kill: func() {
			killed.Add(1)
			inW.Close()
			outR.CloseWithError(io.ErrClosedPipe)
		}}, nil
	}
	return started, killed
}

// A worker that dies without an answer is told of and replaced, and one that is
// told to stop stops.
func TestWorkerEnds(t *testing.T) {
	old := startWorker
	t.Cleanup(func() { startWorker = old })
	startWorker = func(int, io.Writer) (*workerLink, error) {
		outR, outW := io.Pipe()
		inR, inW := io.Pipe()
		go func() {
			gob.NewEncoder(outW).Encode(workerHello{Device: gpu.Device{Name: "NVIDIA H200"}})
			inR.Read(make([]byte, 1))
			inR.Close()
			outW.Close()
		}()
		return &workerLink{in: inW, out: outR, kill: func() { inW.Close(); outR.Close() }}, nil
	}
	g, err := openWorkerGPU(0, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	spec := &launch.Spec{Version: launch.Version, Name: "f"}
	for range 2 {
		if _, err := g.Run(context.Background(), &gpu.Object{}, spec, &deviceArgs{}, 0); err == nil || !strings.Contains(err.Error(), "the process that runs kernels ended") {
			t.Errorf("a dead worker gave %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	hang := make(chan struct{})
	defer close(hang)
	useWorker(t, func() (execGPU, error) { return &blockedGPU{hang: hang}, nil })
	if g, err = openWorkerGPU(0, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Run(ctx, &gpu.Object{}, spec, &deviceArgs{}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted run gave %v", err)
	}
	g.Close()
}

// blockedGPU never answers.
type blockedGPU struct {
	fakeGPU
	hang chan struct{}
}

func (g *blockedGPU) Run(context.Context, *gpu.Object, *launch.Spec, *deviceArgs, int) (*gpuResult, error) {
	<-g.hang
	return nil, errors.New("too late")
}
