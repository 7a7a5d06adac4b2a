package gpu

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Kernel is what a compiled kernel needs, per thread or per block.
type Kernel struct {
	Name       string
	Registers  int // per thread
	Shared     int // bytes of static shared memory per block
	Stack      int // bytes of local memory per thread: arrays, spills, call frames
	Barriers   int // named barriers in use
	MaxThreads int // product of __launch_bounds__ or the required block; 0: none given
	Params     []ParamSlot

	// Spills is known only where the compiler's log is at hand.
	Spills      bool
	SpillStores int // bytes per thread
	SpillLoads  int // bytes per thread
}

// ParamSlot is where one kernel parameter lies in the parameter block, in
// bytes.
type ParamSlot struct{ Offset, Size int }

// Cubin is what ReadCubin finds.
type Cubin struct {
	SM      int      // 80, 90, ...: the architecture's number
	Kernels []Kernel // sorted by name
}

// Attribute numbers in .nv.info sections, as cuobjdump -elf names them, and
// the formats of their values.
const (
	attrMaxThreads  = 0x05 // EIATTR_MAX_THREADS: three words
	attrReqThreads  = 0x10 // EIATTR_REQNTID: three words
	attrFrameSize   = 0x11 // EIATTR_FRAME_SIZE: symbol, bytes
	attrParam       = 0x17 // EIATTR_KPARAM_INFO: index, ordinal, offset, size in bits 18..31
	attrRegCount    = 0x2f // EIATTR_REGCOUNT: symbol, registers
	attrNumBarriers = 0x4c // EIATTR_NUM_BARRIERS: value in the header

	formatSized = 0x04 // EIFMT_SVAL: a 16-bit length and that many bytes; all others: two bytes
)

// reservedShared is what the system keeps of each block's shared memory from
// sm_90 on (CUDA programming guide, compute capabilities); the static size in
// a cubin then includes it.
const reservedShared = 1024

// ReadCubin reads the kernels of a cubin: an ELF file of machine EM_CUDA with
// one .text.NAME section per kernel. Damaged files give an error.
func ReadCubin(b []byte) (*Cubin, error) {
	// Toolkits before 13 put their own version where ELF has a 1, which
	// debug/elf does not take.
	const versionAt, machineAt = 20, 18
	if len(b) >= 64 && elf.Machine(binary.LittleEndian.Uint16(b[machineAt:])) == elf.EM_CUDA {
		b = bytes.Clone(b)
		binary.LittleEndian.PutUint32(b[versionAt:], uint32(elf.EV_CURRENT))
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("cubin: %w", err)
	}
	if f.Machine != elf.EM_CUDA || f.Class != elf.ELFCLASS64 {
		return nil, errors.New("cubin: not a 64-bit ELF file for CUDA")
	}
	// e_flags is at byte 48 of the 64-bit header. The architecture moved up a
	// byte in version 8 of the ABI.
	flags := binary.LittleEndian.Uint32(b[48:])
	c := &Cubin{SM: int(flags & 0xff)}
	if f.ABIVersion >= 8 {
		c.SM = int(flags >> 8 & 0xff)
	}
	symbols, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("cubin: %w", err)
	}
	byName := map[string]*Kernel{}
	reserved := 0
	for _, s := range f.Sections {
		if s.Name == ".nv.shared.reserved.0" {
			reserved = reservedShared
		}
		// Device functions have .text sections too; a kernel alone has a
		// section of information of its own.
		if name, ok := strings.CutPrefix(s.Name, ".nv.info."); ok && f.Section(".text."+name) != nil {
			byName[name] = &Kernel{Name: name}
		}
	}
	for _, s := range f.Sections {
		switch {
		case strings.HasPrefix(s.Name, ".nv.shared."):
			if k := byName[strings.TrimPrefix(s.Name, ".nv.shared.")]; k != nil {
				k.Shared = max(0, int(min(s.Size, 1<<30))-reserved)
			}
		case s.Name == ".nv.info" || strings.HasPrefix(s.Name, ".nv.info."):
			if s.Size > uint64(len(b)) {
				return nil, fmt.Errorf("cubin: section %s is larger than the file", s.Name)
			}
			data, err := s.Data()
			if err != nil {
				return nil, fmt.Errorf("cubin: section %s: %w", s.Name, err)
			}
			of := func(sym uint32) *Kernel { // symbol numbers count the null symbol
				if sym == 0 || int64(sym) > int64(len(symbols)) {
					return nil
				}
				return byName[symbols[sym-1].Name]
			}
			if err := readInfo(data, byName[strings.TrimPrefix(s.Name, ".nv.info.")], of); err != nil {
				return nil, fmt.Errorf("cubin: section %s: %w", s.Name, err)
			}
		}
	}
	for _, k := range byName {
		c.Kernels = append(c.Kernels, *k)
	}
	sort.Slice(c.Kernels, func(i, j int) bool { return c.Kernels[i].Name < c.Kernels[j].Name })
	return c, nil
}

// readInfo reads the attributes in one .nv.info section. own is the kernel the
// section belongs to, nil for the section about all of them; of finds the
// kernel of a symbol.
func readInfo(d []byte, own *Kernel, of func(sym uint32) *Kernel) error {
	type slot struct {
		ordinal int
		ParamSlot
	}
	var slots []slot
	for len(d) > 0 {
		if len(d) < 4 {
			return errors.New("cut off")
		}
		format, attr, half := d[0], d[1], binary.LittleEndian.Uint16(d[2:])
		d = d[4:]
		var val []byte
		if format == formatSized {
			if int(half) > len(d) {
				return errors.New("cut off")
			}
			val, d = d[:half], d[half:]
		}
		word := func(i int) uint32 { return binary.LittleEndian.Uint32(val[4*i:]) }
		switch {
		case attr == attrRegCount && len(val) >= 8:
			if k := of(word(0)); k != nil {
				k.Registers = int(word(1) & 0xffff)
			}
		case attr == attrFrameSize && len(val) >= 8:
			if k := of(word(0)); k != nil {
				k.Stack = int(word(1) & 0xffffff)
			}
		case own == nil:
		case (attr == attrMaxThreads || attr == attrReqThreads) && len(val) >= 12:
			own.MaxThreads = int(word(0)&0xffff) * int(word(1)&0xffff) * int(word(2)&0xffff)
		case attr == attrParam && len(val) >= 12:
			slots = append(slots, slot{int(word(1) & 0xffff), ParamSlot{int(word(1) >> 16), int(word(2) >> 18)}})
		case attr == attrNumBarriers && format != formatSized:
			own.Barriers = int(half & 0xff)
		}
	}
	sort.Slice(slots, func(i, j int) bool { return slots[i].ordinal < slots[j].ordinal })
	for _, s := range slots {
		own.Params = append(own.Params, s.ParamSlot)
	}
	return nil
}
