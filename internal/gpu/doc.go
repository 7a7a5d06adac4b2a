// Package gpu reaches what NVIDIA ships, at run time and without cgo: NVRTC,
// the compiler from CUDA C++ to cubins, and the CUDA driver, which runs them.
// Both are optional. Compiling needs no GPU, lowering needs neither, and where
// one of them is missing the error says what is missing and how to get it.
//
//	OpenNVRTC   finds and opens libnvrtc; Compile gives a cubin, its PTX, the
//	            log as messages with positions, and what each kernel uses
//	ReadCubin   reads registers, shared and local memory out of a cubin
//	Occupancy   how many blocks an SM holds, and what stops more
//	OpenDriver  opens libcuda; Devices, and Open for a context on one
//	Context     memory, modules, streams, events, tensor maps, launches
//	Program     binds a launch description (package launch) to buffers
//
// Built with -tags nogpu the package opens nothing, links nothing, and says so;
// the rest of the program is then a fully static binary.
package gpu
