package driver

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lowertrace/internal/gpu"
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
	useGPU(t, func(int) (execGPU, error) {
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

// With a GPU each save tells whether the answer is right; after a crash it goes
// on with a new context, after a hang without one.
func TestWatchRuns(t *testing.T) {
	o, text := execFile(t, "vector_add", "sm_80")
	execNVRTC(t, &o)
	g := &fakeGPU{text: text}
	opened := 0
	useGPU(t, func(int) (execGPU, error) { opened++; return g, nil })
	stop, wait := startWatch(t, o)
	wait("right, by the interpreter", "with L2 flushed")
	g.err = &gpu.CUDAError{Call: "cuStreamQuery", Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS"}
	save(t, o.Files[0], text+"\n")
	wait("the kernel crashed: cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS")
	if opened != 2 || g.closed != 1 {
		t.Errorf("after a crash the GPU was opened %d times and closed %d times", opened, g.closed)
	}
	g.err = gpu.ErrHang
	save(t, o.Files[0], text+"\n\n")
	wait("did not finish in time", "the GPU is held by the kernel that hangs; lowering only")
	save(t, o.Files[0], text)
	wait("the code is the same")
	if err := stop(); err == nil {
		t.Error("an interrupted watch ended without an error")
	}
}
