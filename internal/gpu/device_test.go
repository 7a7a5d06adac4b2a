package gpu_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lowertrace/internal/gpu"
	"lowertrace/internal/gpu/gputest"
	"lowertrace/internal/launch"
)

// deviceSpec describes launches of testdata/device.cu; each test keeps one.
const deviceSpec = `{"version": 1, "name": "device", "arch_lowered": "sm_90a", "args": ["A", "out", "f", "i", "n"],
 "buffers": {
  "A": {"index": 0, "shape": ["m", 80], "dtype": "float32", "role": "in"},
  "out": {"index": 1, "shape": [65536], "dtype": "int32", "role": "out"},
  "count": {"shape": [1], "dtype": "int32", "role": "workspace"}},
 "scalars": {"f": {"index": 2, "dtype": "float32"}, "i": {"index": 3, "dtype": "int32"}, "n": {"index": 4, "dtype": "int64"}},
 "symbols": {"m": {"dtype": "int32", "buffer": "A", "dim": 0}},
 "launches": [
  {"kernel": "tma_copy", "grid": [3, "(m + 7) // 8", 1], "block": [64, 1, 1], "smem": 0,
   "params": [{"tma": "a", "buffer": "A", "dtype": 7, "rank": 2, "gdim": [80, "m"], "gstride_all": [4, 320], "box": [32, 8],
    "estride": [1, 1], "interleave": 0, "swizzle": 0, "l2": 2, "oob": 0}, {"buffer": "out"}]},
  {"kernel": "cluster_rank", "grid": [8, 1, 1], "block": [32, 1, 1], "smem": 0, "cluster": [4, 1, 1], "params": [{"buffer": "out"}]},
  {"kernel": "grid_barrier", "grid": [100, 1, 1], "block": [32, 1, 1], "smem": 0, "cooperative": true, "params": [{"buffer": "count"}, {"buffer": "out"}]},
  {"kernel": "big_shared", "grid": [1, 1, 1], "block": [256, 1, 1], "smem": 200000, "l2": [{"buffer": "A", "bytes": 4096, "ratio": 0.5}],
   "params": [{"buffer": "out"}, {"scalar": "200000 // 4", "dtype": "int32"}]},
  {"kernel": "scalars", "grid": [1, 1, 1], "block": [1, 1, 1], "smem": 0, "params": [{"buffer": "out"}, {"scalar": "f", "dtype": "float32"},
   {"scalar": "i", "dtype": "int32"}, {"scalar": true, "dtype": "bool"}, {"scalar": "-n", "dtype": "int64"}, {"scalar": 1.5, "dtype": "float16"},
   {"scalar": 0.1, "dtype": "float64"}, {"scalar": -3, "dtype": "int8"}]},
  {"kernel": "add_one", "grid": [7, 1, 1], "block": [64, 1, 1], "smem": 0, "programmatic": true, "params": [{"buffer": "out", "byte_offset": "4 * m"}]},
  {"kernel": "spin", "grid": [1, 1, 1], "block": [1, 1, 1], "smem": 0, "params": [{"scalar": "n", "dtype": "uint64"}]},
  {"kernel": "crash", "grid": [1, 1, 1], "block": [32, 1, 1], "smem": 0, "params": [{"buffer": "out"}]}
 ]}`

// TestOnDevice runs each way of launching on a real GPU. It needs one of
// compute capability 9.0 and is skipped, in CI too, where there is none.
func TestOnDevice(t *testing.T) {
	cubinFile := filepath.Join("testdata", "device.sm_90a.cubin")
	if *update {
		if err := os.WriteFile(cubinFile, gputest.Compile(t, read(t, "device.cu"), "sm_90a")[0].Cubin, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	d, err := gpu.OpenDriver(gpu.NewFinder())
	if err != nil {
		t.Skip(err)
	}
	c, err := d.Open(0)
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	t.Logf("%+v", c.Device)
	if c.Device.Arch() != "sm_90a" {
		t.Skipf("needs sm_90a, this is %s", c.Device.Arch())
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	mod, err := c.Load([]byte(read(t, "device.sm_90a.cubin")))
	check(err)
	s, err := c.NewStream()
	check(err)
	spec, err := launch.Parse([]byte(deviceSpec))
	check(err)
	const m, width, outBytes = 13, 80, 65536 * 4
	a, err := c.Alloc(m * width * 4)
	check(err)
	out, err := c.Alloc(outBytes)
	check(err)
	count, err := c.Alloc(4)
	check(err)
	var in []byte
	for i := range m * width {
		in = binary.LittleEndian.AppendUint32(in, math.Float32bits(float32(i+1)))
	}
	check(c.Write(a, in))
	env := launch.Env{"m": m, "i": -5, "n": 1 << 40}
	bind := func(kernel string) *gpu.Program {
		t.Helper()
		one := *spec
		for _, l := range spec.Launches {
			if l.Kernel == kernel {
				one.Launches = []launch.Launch{l}
			}
		}
		p, err := mod.Bind(&one, gpu.Bindings{Env: env, Scalars: map[string]uint64{"f": uint64(math.Float32bits(2.5)), "i": 0xfffffffb, "n": uint64(env["n"])},
			Buffers: map[string]gpu.DevicePtr{"A": a, "out": out, "count": count}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	run := func(kernel string) []byte {
		t.Helper()
		check(s.Fill(out, 0, outBytes))
		check(s.Fill(count, 0, 4))
		check(bind(kernel).Launch(s))
		check(s.Wait(ctx))
		b := make([]byte, outBytes)
		check(c.Read(b, out))
		return b
	}
	word := func(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

	b := run("tma_copy")
	for by := range 2 {
		for bx := range 3 {
			for i := range 256 {
				r, x := by*8+i/32, bx*32+i%32
				want := float32(0)
				if r < m && x < width {
					want = float32(r*width + x + 1)
				}
				if got := math.Float32frombits(word(b, (by*3+bx)*256+i)); got != want {
					t.Fatalf("tma_copy: element %d,%d is %v, want %v", r, x, got, want)
				}
			}
		}
	}
	b = run("cluster_rank")
	for i := range 8 {
		if got := word(b, i); got != uint32(i%4*100+4) {
			t.Errorf("cluster_rank: block %d has %d", i, got)
		}
	}
	b = run("grid_barrier")
	for i := range 100 {
		if got := word(b, i); got != 100 {
			t.Errorf("grid_barrier: block %d saw %d", i, got)
		}
	}
	b = run("big_shared")
	for i := range 50000 {
		if got := word(b, i); got != uint32((49999-i)*3) {
			t.Fatalf("big_shared: word %d is %d", i, got)
		}
	}
	b = run("scalars")
	for i, want := range []float64{2.5, -5, 1, -(1 << 40), 0x3e00, 0.1, -3} {
		if got := math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])); got != want {
			t.Errorf("scalars: number %d is %v, want %v", i, got, want)
		}
	}
	if b = run("add_one"); word(b, m) != 7*64 || word(b, 0) != 0 {
		t.Errorf("add_one: %d", word(b, m))
	}

	f, err := mod.Function("big_shared")
	check(err)
	if n, err := f.BlocksPerSM(256, 100000); n != 2 || err != nil {
		t.Errorf("an SM holds %d blocks of 100000 bytes, %v; want 2", n, err)
	}
	if f.Registers == 0 || f.Name != "big_shared" {
		t.Errorf("%+v", f.Kernel)
	}

	// The table's occupancy is the driver's.
	sm, _ := gpu.LookupSM("sm_90a")
	for _, threads := range []int{1, 32, 33, 96, 128, 160, 256, 384, 512, 1000, 1024} {
		for smem := int64(0); smem <= 200000; smem += 3333 {
			n, err := f.BlocksPerSM(threads, smem)
			check(err)
			if o := sm.Occupancy(threads, f.Registers, f.Shared+int(smem)); o.Blocks != n {
				t.Errorf("%d threads, %d registers, %d bytes: the table says %+v, the driver %d", threads, f.Registers, smem, o, n)
			}
		}
	}

	env["n"] = 200_000 // ns
	tm, err := bind("spin").Time(ctx, s, 5)
	check(err)
	for _, x := range append(tm.Flushed, tm.BackToBack) {
		if x < 190*time.Microsecond || x > 400*time.Microsecond {
			t.Errorf("spinning 200 µs took %v", x)
		}
	}

	if _, err := c.Alloc(1 << 45); err == nil {
		t.Error("32 TB were allocated")
	} else {
		t.Log(err)
	}
	ampere, err := os.ReadFile(filepath.Join("testdata", "scale.sm_80.cubin"))
	check(err)
	if _, err := c.Load(ampere); err == nil {
		t.Error("a cubin for sm_80 was loaded")
	} else {
		t.Log(err)
	}
	bad := *spec
	bad.Launches = []launch.Launch{spec.Launches[0]}
	odd := int64(a) + 4
	if _, err := mod.Bind(&bad, gpu.Bindings{Env: env, Buffers: map[string]gpu.DevicePtr{"A": gpu.DevicePtr(odd), "out": out}}); err == nil {
		t.Error("a tensor map of an unaligned address was made")
	} else {
		t.Log(err)
	}

	env["n"] = 2_000_000_000
	check(bind("spin").Launch(s))
	short, cancelShort := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancelShort()
	if err := s.Wait(short); !errors.Is(err, gpu.ErrHang) {
		t.Errorf("waiting for a long kernel gave %v", err)
	}
	check(s.Wait(ctx))

	// Last, for it spoils the context.
	check(bind("crash").Launch(s))
	err = s.Wait(ctx)
	var ce *gpu.CUDAError
	if !errors.As(err, &ce) || !ce.Sticky() {
		t.Errorf("a crash gave %v", err)
	}
	t.Log(err)
	if _, err := c.Alloc(16); err == nil {
		t.Error("the context lives on after a crash")
	}
}
