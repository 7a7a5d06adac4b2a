package pipeline

import (
	"strings"

	"lowertrace/internal/ir"
)

// Target is what a kernel is compiled for.
type Target struct {
	Kind string // "cuda"
	Arch string // "sm_80"
	// MaxThreads is the most threads of a block, WarpSize the threads of a
	// warp.
	MaxThreads, WarpSize int
	Features             Features
}

// Features are what passes ask about a target.
type Features struct {
	AsyncCopy bool // cp.async (sm_80 and later)
	LdMatrix  bool // ldmatrix (sm_75 and later)
	StMatrix  bool // stmatrix (sm_90)
	BF16      bool // bfloat16 mma (sm_80 and later)
	FP8       bool // fp8 mma (sm_89 and later)
	TMA       bool // cp.async.bulk.tensor (sm_90)
	WGMMA     bool // wgmma (sm_90a)
	// SharedPerBlock is the most shared memory of a block in bytes, with
	// opt-in; SharedStatic the most without.
	SharedPerBlock, SharedStatic int
}

// hostFields is the host a bound target is printed with.
func hostFields() *ir.Dict {
	return &ir.Dict{Entries: []ir.DictEntry{
		{Key: ir.Str("keys"), Value: ir.List{ir.Str("cpu")}},
		{Key: ir.Str("kind"), Value: ir.Str("c")},
		{Key: ir.Str("tag"), Value: ir.Str("")},
	}}
}

// Attr is the target as the function attribute "target", with its host or
// without.
func (t *Target) Attr(withHost bool) *ir.Target {
	d := (&ir.Dict{}).With("arch", ir.Str(t.Arch))
	if withHost {
		d = d.With("host", hostFields())
	}
	d = d.With("keys", ir.List{ir.Str(t.Kind), ir.Str("gpu")})
	d = d.With("kind", ir.Str(t.Kind))
	d = d.With("max_num_threads", ir.I32(int64(t.MaxThreads)))
	d = d.With("tag", ir.Str(""))
	d = d.With("thread_warp_size", ir.I32(int64(t.WarpSize)))
	return &ir.Target{Fields: d}
}

// HostAttr is the host of every target as a function attribute.
func HostAttr() *ir.Target { return &ir.Target{Fields: hostFields()} }

// FuncArch is the architecture a function's target attribute names, "" when
// it has none or it is a host target.
func FuncArch(f *ir.PrimFunc) string {
	if t, ok := f.Attr("target").(*ir.Target); ok {
		s, _ := ir.AttrString(t.Fields.Get("arch"))
		return s
	}
	return ""
}

// IsHostFunc reports a function whose target is the CPU.
func IsHostFunc(f *ir.PrimFunc) bool {
	t, ok := f.Attr("target").(*ir.Target)
	if !ok {
		return false
	}
	k, _ := ir.AttrString(t.Fields.Get("kind"))
	return k == "c" || k == "llvm"
}

// IsDeviceFunc reports a function that runs on the device: its calling
// convention says so, or its target is the device alone, without a host.
func IsDeviceFunc(f *ir.PrimFunc) bool {
	if n, ok := ir.AttrInt(f.Attr("calling_conv")); ok {
		return n == CallingConvDeviceKernelLaunch
	}
	t, ok := f.Attr("target").(*ir.Target)
	return ok && !IsHostFunc(f) && t.Fields.Get("host") == nil
}

// Values of the function attribute "calling_conv".
const (
	CallingConvCPackedFunc        = 1
	CallingConvDeviceKernelLaunch = 2
)

// IsShared reports the storage scopes in a block's shared memory that hold
// data (barriers not counted).
func IsShared(scope string) bool { return scope == "shared" || scope == "shared.dyn" }

// IsThreadLocal reports storage scopes each thread has a copy of.
func IsThreadLocal(scope string) bool {
	return scope == "local" || strings.HasPrefix(scope, "local.")
}
