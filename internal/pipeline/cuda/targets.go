package cuda

import "lowertrace/internal/pipeline"

// targets are the architectures there is a table for. The shared memory of a
// block, with and without opt-in, is that of the CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability".
var targets = []pipeline.Target{
	{Kind: "cuda", Arch: "sm_80", MaxThreads: 1024, WarpSize: 32, Features: pipeline.Features{
		AsyncCopy: true, LdMatrix: true, BF16: true, SharedPerBlock: 163 << 10, SharedStatic: 48 << 10}},
	{Kind: "cuda", Arch: "sm_86", MaxThreads: 1024, WarpSize: 32, Features: pipeline.Features{
		AsyncCopy: true, LdMatrix: true, BF16: true, SharedPerBlock: 99 << 10, SharedStatic: 48 << 10}},
	{Kind: "cuda", Arch: "sm_89", MaxThreads: 1024, WarpSize: 32, Features: pipeline.Features{
		AsyncCopy: true, LdMatrix: true, BF16: true, FP8: true, SharedPerBlock: 99 << 10, SharedStatic: 48 << 10}},
	// Lowered as sm_80 is, for the larger shared memory of the chip.
	{Kind: "cuda", Arch: "sm_90a", MaxThreads: 1024, WarpSize: 32, Features: pipeline.Features{
		AsyncCopy: true, LdMatrix: true, BF16: true, FP8: true, SharedPerBlock: 227 << 10, SharedStatic: 48 << 10}},
}

// LookupTarget is the target of an architecture's name.
func LookupTarget(arch string) (*pipeline.Target, error) {
	for i := range targets {
		if targets[i].Arch == arch {
			t := targets[i]
			return &t, nil
		}
	}
	return nil, &pipeline.UnknownNameError{Kind: "target", Name: arch, Known: TargetNames()}
}

// TargetNames are the architectures, oldest first.
func TargetNames() []string {
	var names []string
	for _, t := range targets {
		names = append(names, t.Arch)
	}
	return names
}
