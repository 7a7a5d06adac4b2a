package device

import (
	"testing"

	"lowertrace/internal/corpus"
	"lowertrace/internal/ir"
	"lowertrace/internal/ir/script"
	"lowertrace/internal/pipeline"
)

// TestAnyState runs every pass on modules of every stage, as a user who skips
// passes does: the result is well formed when the input was, or an error says
// what is missing.
func TestAnyState(t *testing.T) {
	passes := []*pipeline.Pass{AnnotateDeviceRegions, SplitHostDevice, AnnotateReadOnlyParams, MarkCudaSyncCalls, PersistThreadblock,
		LowerHopperIntrin, LowerThreadAllreduce, LowerDeviceKernelLaunch, MakePackedAPI, FilterHost, FilterDevice, ConvertSSA,
		ThreadSyncShared, ThreadSyncDynamic}
	kernels := []string{"softmax", "two_kernels", "gemv_allreduce", "assert_if", "grid_sync_sum"}
	if !testing.Short() {
		kernels = append(kernels, "flash_attention", "gemm_persistent", "conv2d_im2col", "dynamic_strided_add")
	}
	for _, k := range kernels {
		for _, arch := range corpus.Lookup(k).Archs {
			paths := []string{k + "/" + arch + "/input.tir"}
			for _, s := range corpus.States(k, arch) {
				paths = append(paths, s.Path)
			}
			for _, path := range paths {
				m, err := script.ParseString(path, corpus.Text(path))
				if err != nil {
					t.Fatal(err)
				}
				sound := ir.Verify(m) == nil
				for _, p := range passes {
					out, err := (&pipeline.Context{Options: pipeline.Options{}}).Run(p, m)
					if err != nil || !sound {
						continue
					}
					if err := ir.Verify(out); err != nil {
						t.Errorf("%s: %s: %v", path, p.Name, err)
					}
				}
			}
		}
	}
}
