package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"lowertrace/internal/gpu"
	"lowertrace/internal/render"
	"lowertrace/internal/trace"
)

// watchSettle is how long the files must be left alone before a rerun: editors
// save in several steps.
const watchSettle = 120 * time.Millisecond

// Watch lowers a kernel each time it, or the working copy of its code, is
// saved, shows what changed since the last time and, with a GPU, whether the
// answer is right and how fast it comes. It ends when ctx does.
func Watch(ctx context.Context, d *Deps, o ExecOptions) error {
	if len(o.Files) != 1 || o.Files[0] == "-" {
		return Usagef("watch needs one FILE")
	}
	w := &watcher{d: d, o: o, file: o.Files[0]}
	if _, err := os.Stat(w.file); err != nil {
		return openError(w.file, err)
	}
	var err error
	if w.fs, err = fsnotify.NewWatcher(); err != nil {
		return Failf("cannot watch files: %v", err)
	}
	defer w.fs.Close()
	if err := w.watchDir(w.file); err != nil {
		return err
	}
	defer w.closeGPU()
	w.openTools()
	w.rerun(ctx)
	return w.loop(ctx)
}

// watcher is the state of a watch between two saves.
type watcher struct {
	d      *Deps
	o      ExecOptions
	file   string
	fs     *fsnotify.Watcher
	dirs   map[string]bool // watched
	gpu    execGPU         // nil: only lowered
	nvrtc  *gpu.NVRTC
	kernel string      // text of the kernel's last run
	asked  []askedFile // what it imports, or looked for
	code   string      // code of the last run
	copy   string      // path of the working copy
	run    *trace.Run
	runs   int
}

// watchDir watches the folder of a file: editors replace files, so that the
// file itself cannot be watched.
func (w *watcher) watchDir(file string) error {
	dir := filepath.Dir(file)
	if w.dirs[dir] {
		return nil
	}
	if err := w.fs.Add(dir); err != nil {
		return Failf("cannot watch %s: %v", dir, err)
	}
	if w.dirs == nil {
		w.dirs = map[string]bool{}
	}
	w.dirs[dir] = true
	return nil
}

// openTools opens the GPU and the compiler; without them a watch lowers only.
func (w *watcher) openTools() {
	g, err := openWorkerGPU(w.o.Device, w.d.Stdout)
	if err == nil {
		var n *gpu.NVRTC
		if n, err = w.d.openNVRTC(w.o.NVRTC); err == nil {
			w.gpu, w.nvrtc = g, n
			return
		}
		g.Close()
	}
	w.d.notef("%v; lowering only", err)
}

func (w *watcher) closeGPU() {
	if w.gpu != nil {
		w.gpu.Close()
	}
}

// loop reruns after each save until ctx ends.
func (w *watcher) loop(ctx context.Context) error {
	settle := time.NewTimer(time.Hour)
	settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return reported(ExitInterrupted)
		case ev, ok := <-w.fs.Events:
			if !ok {
				return Failf("watching the files ended")
			}
			if w.concerns(ev.Name) {
				settle.Reset(watchSettle)
			}
		case err, ok := <-w.fs.Errors:
			if !ok {
				return Failf("watching the files ended")
			}
			w.d.notef("warning: %v", err) // an overflow: look at the files anyway
			settle.Reset(watchSettle)
		case <-settle.C:
			if w.changed() {
				w.rerun(ctx)
			}
		}
	}
}

func (w *watcher) concerns(name string) bool {
	for _, f := range []string{w.file, w.copy} {
		if f != "" && filepath.Clean(name) == filepath.Clean(f) {
			return true
		}
	}
	return slices.ContainsFunc(w.asked, func(f askedFile) bool { return filepath.Clean(name) == filepath.Clean(f.path) })
}

// changed reports that a file's content is not what the last run saw; the run
// itself writes the working copy. A file that is gone is about to be replaced.
func (w *watcher) changed() bool {
	text, err := readFile(w.file)
	if err == nil && text != w.kernel {
		return true
	}
	for _, f := range w.asked {
		now := f
		if err := now.read(); err == nil && now != f && (now.found || !f.found) {
			return true
		}
	}
	if w.copy == "" {
		return false
	}
	code, err := readFile(w.copy)
	return err == nil && code != w.code
}

// rerun lowers, shows what changed, and runs. Errors are told and leave the
// watch going.
func (w *watcher) rerun(ctx context.Context) {
	text, err := readFile(w.file)
	if err != nil {
		w.tell(openError(w.file, err))
		return
	}
	w.kernel = text
	w.runs++
	if w.runs > 1 {
		fmt.Fprintf(w.d.Stdout, "\n── %s ──\n", w.d.Clock().Format("15:04:05"))
	}
	if err := w.once(ctx); err != nil && ctx.Err() == nil {
		w.tell(err)
	}
	files := []string{w.file}
	for _, f := range w.asked {
		if f.found {
			files = append(files, f.path)
		}
	}
	if w.copy != "" {
		files = append(files, w.copy)
	}
	list := files[len(files)-1]
	if len(files) > 1 {
		list = strings.Join(files[:len(files)-1], ", ") + " and " + list
	}
	w.d.notef("watching %s; Ctrl-C ends", list)
}

func (w *watcher) tell(err error) {
	var ex *ExitError
	if errors.As(err, &ex) && ex.Err == nil {
		return // told already
	}
	w.d.notef("%v", err)
}

func (w *watcher) once(ctx context.Context) error {
	in, err := w.d.readKernel(w.file, w.o.TraceDir, w.o.source())
	if in != nil {
		w.asked = in.asked
		for _, f := range w.asked {
			if _, err := os.Stat(filepath.Dir(f.path)); err == nil {
				if err := w.watchDir(f.path); err != nil {
					return err
				}
			}
		}
	}
	if err != nil {
		return err
	}
	x, err := w.d.planExecution("watch", in, w.o)
	if err != nil {
		return err
	}
	x.gpu, x.nvrtc = w.gpu, w.nvrtc
	l, err := w.d.lowerKept(ctx, x.job)
	if err != nil {
		return err
	}
	w.showChange(l)
	if l.copy.Path != "" {
		w.copy = l.copy.Path
		if err := w.watchDir(w.copy); err != nil {
			return err
		}
	}
	if w.gpu == nil {
		return nil
	}
	if x.arch = w.o.Arch; x.arch == "" {
		dev := w.gpu.Device()
		x.arch = dev.Arch()
	}
	r, err := x.runLowered(ctx, l)
	if err != nil {
		return err
	}
	return r.write(w.d.Stdout)
}

// showChange shows how a run differs from the one before: the first pass that
// gives something else, then the code that runs.
func (w *watcher) showChange(l *lowered) {
	code := l.source()
	defer func() { w.code, w.run = code, l.run }()
	if w.runs == 1 || w.code == "" {
		if l.copy.State != trace.CopyUnchanged {
			fmt.Fprintf(w.d.Stdout, "%s: %s\n", l.copy.State, l.copy.Message)
		}
		return
	}
	t := w.d.terminal(render.DiffOptions{Context: w.o.Context, Host: w.o.Host})
	if w.run != nil && l.run != nil {
		al := align(w.run, l.run)
		if !al.Equal() {
			if err := t.Compare(al, render.CompareOptions{}); err != nil {
				w.d.notef("%v", err)
			}
		}
	}
	switch {
	case code != w.code:
		t.Diff("code before", "code now", w.code, code)
	default:
		fmt.Fprintln(w.d.Stdout, "the code is the same")
	}
	t.Flush()
	if l.copy.State != trace.CopyUnchanged {
		fmt.Fprintf(w.d.Stdout, "%s: %s\n", l.copy.State, l.copy.Message)
		if l.copy.Command != "" {
			fmt.Fprintf(w.d.Stdout, "your edit: %s\n", l.copy.Command)
		}
	}
}
