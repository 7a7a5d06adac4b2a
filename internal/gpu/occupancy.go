package gpu

import (
	"fmt"
	"strings"
)

// SM is what one streaming multiprocessor of an architecture offers, from the
// CUDA programming guide's table of compute capabilities. It is for figures
// without a device; with one, ask the driver.
type SM struct {
	Number         int // 80, 86, ...
	Warps          int // resident at once
	Blocks         int // resident at once
	Registers      int // of 32 bits
	Shared         int // bytes, for all resident blocks
	SharedPerBlock int // bytes, static and dynamic, with opt-in
	// Arithmetic per clock in floating-point operations, a multiply-add being
	// two: on ordinary cores in float32, and on tensor cores for dense float16
	// with float32 sums. The latter is that of the data-centre and workstation
	// chips; some consumer chips of sm_86 and sm_89 reach half of it.
	Float32   int
	TensorF16 int
}

const (
	warpThreads      = 32
	maxRegisters     = 255  // per thread
	registerUnit     = 256  // registers are given to a warp in steps of this
	sharedUnit       = 128  // bytes: shared memory is given to a block in steps of this
	subPartitions    = 4    // of an SM; a warp's registers lie in one of them
	sharedReservedBy = 1024 // bytes that the system takes of each block's share, from sm_80 on
)

var sms = []SM{
	{80, 64, 32, 65536, 164 << 10, 163 << 10, 128, 2048},
	{86, 48, 16, 65536, 100 << 10, 99 << 10, 256, 1024},
	{87, 48, 16, 65536, 164 << 10, 163 << 10, 256, 1024},
	{89, 48, 24, 65536, 100 << 10, 99 << 10, 256, 1024},
	{90, 64, 32, 65536, 228 << 10, 227 << 10, 256, 4096},
}

// LookupSM returns the figures of an architecture, "sm_80" or "sm_90a".
func LookupSM(arch string) (SM, bool) {
	for _, sm := range sms {
		if strings.TrimRight(arch, "af") == fmt.Sprintf("sm_%d", sm.Number) {
			return sm, true
		}
	}
	return SM{}, false
}

// TensorRate is the arithmetic of the tensor cores per clock and SM for
// operands of an IR data type, in operations, 0 where they do not take it.
func (sm SM) TensorRate(dtype string) int {
	switch {
	case dtype == "float16" || dtype == "bfloat16":
		return sm.TensorF16
	case dtype == "float32" || dtype == "tfloat32":
		return sm.TensorF16 / 2
	case dtype == "int8" || dtype == "uint8":
		return sm.TensorF16 * 2
	case strings.HasPrefix(dtype, "float8_") && sm.Number >= 89:
		return sm.TensorF16 * 2
	}
	return 0
}

// Occupancy says how many blocks an SM holds at once.
type Occupancy struct {
	Blocks  int     // per SM; 0: a block does not fit at all
	Warps   int     // per SM
	Percent float64 // of the warps that an SM can hold
	// Limits are what stops one more block: "threads", "blocks", "registers",
	// "shared memory", in this order; more than one if they tie.
	Limits []string
}

// Occupancy computes how many blocks of a kernel an SM holds: threads per
// block, registers per thread, static and dynamic shared memory in bytes per
// block. The rules are those of NVIDIA's occupancy calculator.
func (sm SM) Occupancy(threads, registers, shared int) Occupancy {
	if threads < 1 {
		return Occupancy{}
	}
	warps := (threads + warpThreads - 1) / warpThreads
	limits := []struct {
		what   string
		blocks int
	}{
		{"threads", sm.Warps / warps},
		{"blocks", sm.Blocks},
		{"registers", sm.Blocks},
		{"shared memory", sm.Blocks},
	}
	if registers > maxRegisters || threads > 1024 {
		limits[2].blocks = 0
	} else if registers > 0 {
		perWarp := roundUp(registers*warpThreads, registerUnit)
		limits[2].blocks = sm.Registers / subPartitions / perWarp * subPartitions / warps
	}
	if shared > sm.SharedPerBlock {
		limits[3].blocks = 0
	} else {
		limits[3].blocks = sm.Shared / roundUp(shared+sharedReservedBy, sharedUnit)
	}
	o := Occupancy{Blocks: limits[0].blocks}
	for _, l := range limits {
		o.Blocks = min(o.Blocks, l.blocks)
	}
	for _, l := range limits {
		if l.blocks == o.Blocks && !(l.what == "registers" && registers == 0) {
			o.Limits = append(o.Limits, l.what)
		}
	}
	o.Warps = o.Blocks * warps
	o.Percent = 100 * float64(o.Warps) / float64(sm.Warps)
	return o
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
