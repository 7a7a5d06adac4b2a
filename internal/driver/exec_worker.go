package driver

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"lowertrace/internal/gpu"
	"lowertrace/internal/launch"
)

// A kernel that crashes spoils CUDA for its process, and one that hangs keeps
// it from ending: the driver gives neither a way back. What must go on after
// such a kernel, --bisect and watch, therefore runs kernels in a worker, this
// program started again, which is ended and replaced. Both sides speak gob: the
// worker begins with a greeting, then answers each request.

// WorkerCommand is the hidden command that serves a GPU to a parent process.
const WorkerCommand = "gpu-worker"

type workerHello struct {
	Device  gpu.Device
	Missing *gpu.MissingError
	Err     string
}

type workerRequest struct {
	Object  gpu.Object
	Spec    []byte // as JSON
	Env     map[string]int64
	Scalars map[string]uint64
	Buffers map[string][]byte
	Runs    int
	Timeout time.Duration
}

type workerReply struct {
	Buffers  map[string][]byte
	Outside  []string
	Resident []int
	Kernels  []string
	Timing   *gpu.Timing
	Launches []time.Duration

	Hang bool
	CUDA *gpu.CUDAError
	Err  string // other than those two
}

// ServeGPU answers a parent's requests until its standard input ends.
func ServeGPU(d *Deps, ordinal int) error {
	undo := d.divertPrintf() // standard output carries the replies
	defer undo()
	g, err := openGPU(ordinal)
	return serveGPU(d.Stdin, d.Stdout, g, err)
}

func serveGPU(in io.Reader, out io.Writer, g execGPU, openErr error) error {
	enc, dec := gob.NewEncoder(out), gob.NewDecoder(bufio.NewReader(in))
	hello := workerHello{}
	if openErr != nil {
		if !errors.As(openErr, &hello.Missing) {
			hello.Err = openErr.Error()
		}
		return enc.Encode(hello)
	}
	defer g.Close()
	hello.Device = g.Device()
	if err := enc.Encode(hello); err != nil {
		return err
	}
	for {
		var q workerRequest
		if err := dec.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		a := answer(g, &q)
		if err := enc.Encode(a); err != nil {
			return err
		}
		if a.Hang || a.CUDA != nil && a.CUDA.Sticky() {
			return nil // nothing more runs in this process
		}
	}
}

func answer(g execGPU, q *workerRequest) *workerReply {
	spec, err := launch.Parse(q.Spec)
	if err != nil {
		return &workerReply{Err: err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.Timeout)
	defer cancel()
	res, err := g.Run(ctx, &q.Object, spec, &deviceArgs{env: q.Env, scalars: q.Scalars, buffers: q.Buffers}, q.Runs)
	a := &workerReply{}
	switch {
	case errors.Is(err, gpu.ErrHang):
		a.Hang = true
	case errors.As(err, &a.CUDA):
	case err != nil:
		a.Err = err.Error()
	default:
		a = &workerReply{Buffers: res.buffers, Outside: res.outside, Resident: res.resident, Kernels: res.kernels, Timing: res.timing, Launches: res.launches}
	}
	return a
}

// workerLink is a worker's two streams; kill ends it at once.
type workerLink struct {
	in   io.WriteCloser
	out  io.Reader
	kill func()
}

// startWorker starts a worker for a GPU; what its kernels print goes to prints.
// Tests replace it.
var startWorker = func(ordinal int, prints io.Writer) (*workerLink, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, WorkerCommand, strconv.Itoa(ordinal))
	cmd.Stderr = prints
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &workerLink{in: in, out: out, kill: func() {
		in.Close()
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
	}}, nil
}

// workerGPU is a GPU behind a worker. It outlives crashes and hangs.
type workerGPU struct {
	ordinal int
	prints  io.Writer
	device  gpu.Device
	link    *workerLink // nil: to be started
	enc     *gob.Encoder
	dec     *gob.Decoder
}

// openWorkerGPU opens a GPU that can be used again after a kernel spoilt it.
// Where the output of a worker cannot be kept apart from its kernels', the GPU
// is used in this process.
func openWorkerGPU(ordinal int, prints io.Writer) (execGPU, error) {
	if runtime.GOOS == "windows" {
		return openGPU(ordinal)
	}
	g := &workerGPU{ordinal: ordinal, prints: prints}
	if err := g.start(); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *workerGPU) start() error {
	link, err := startWorker(g.ordinal, g.prints)
	if err != nil {
		return fmt.Errorf("the process that runs kernels does not start: %w", err)
	}
	g.link, g.enc, g.dec = link, gob.NewEncoder(link.in), gob.NewDecoder(bufio.NewReader(link.out))
	var hello workerHello
	err = g.dec.Decode(&hello)
	switch {
	case err != nil:
		err = fmt.Errorf("the process that runs kernels ended: %w", err)
	case hello.Missing != nil:
		err = hello.Missing
	case hello.Err != "":
		err = errors.New(hello.Err)
	default:
		g.device = hello.Device
		return nil
	}
	g.stop()
	return err
}

func (g *workerGPU) stop() {
	if g.link != nil {
		g.link.kill()
		g.link = nil
	}
}

func (g *workerGPU) Device() gpu.Device { return g.device }

func (g *workerGPU) Close() { g.stop() }

// workerGrace is how long a worker may take beyond the time for its kernel, to
// load code and copy arrays.
const workerGrace = 30 * time.Second

func (g *workerGPU) Run(ctx context.Context, obj *gpu.Object, spec *launch.Spec, a *deviceArgs, runs int) (*gpuResult, error) {
	if g.link == nil {
		if err := g.start(); err != nil {
			return nil, err
		}
	}
	js, err := spec.Format()
	if err != nil {
		return nil, err
	}
	timeout := DefaultExecTimeout
	if end, ok := ctx.Deadline(); ok {
		timeout = time.Until(end)
	}
	q := workerRequest{Object: *obj, Spec: js, Env: a.env, Scalars: a.scalars, Buffers: a.buffers, Runs: runs, Timeout: timeout}
	var reply workerReply
	done := make(chan error, 1)
	enc, dec := g.enc, g.dec
	go func() {
		err := enc.Encode(q)
		if err == nil {
			err = dec.Decode(&reply)
		}
		done <- err
	}()
	late := time.NewTimer(timeout + workerGrace)
	defer late.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case err = <-done:
		case <-late.C:
			g.stop()
			<-done
			return nil, gpu.ErrHang
		case <-interrupted:
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				interrupted = nil // the worker counts the time itself
				continue
			}
			g.stop()
			<-done
			return nil, ctx.Err()
		}
		break
	}
	switch {
	case err != nil:
		g.stop()
		return nil, fmt.Errorf("the process that runs kernels ended: %w", err)
	case reply.Hang:
		g.stop()
		return nil, gpu.ErrHang
	case reply.CUDA != nil:
		if reply.CUDA.Sticky() {
			g.stop()
		}
		return nil, reply.CUDA
	case reply.Err != "":
		return nil, errors.New(reply.Err)
	}
	return &gpuResult{buffers: reply.Buffers, outside: reply.Outside, resident: reply.Resident, kernels: reply.Kernels, timing: reply.Timing, launches: reply.Launches}, nil
}
