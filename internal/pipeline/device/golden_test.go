package device

import (
	"testing"

	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/passtest"
)

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		dir  string
		pass *pipeline.Pass
	}{
		{"AnnotateDeviceRegions", AnnotateDeviceRegions},
		{"SplitHostDevice", SplitHostDevice},
		{"AnnotateReadOnlyParams", AnnotateReadOnlyParams},
		{"MarkCudaSyncCalls", MarkCudaSyncCalls},
		{"PersistThreadblock", PersistThreadblock},
		{"LowerHopperIntrin", LowerHopperIntrin},
		{"LowerThreadAllreduce", LowerThreadAllreduce},
		{"LowerDeviceKernelLaunch", LowerDeviceKernelLaunch},
		{"MakePackedAPI", MakePackedAPI},
		{"FilterHost", FilterHost},
		{"FilterDevice", FilterDevice},
		{"ThreadSyncShared", ThreadSyncShared},
		{"ThreadSyncDynamic", ThreadSyncDynamic},
	} {
		t.Run(c.dir, func(t *testing.T) { passtest.Golden(t, c.pass, "testdata/"+c.dir+"/*.txtar") })
	}
}
