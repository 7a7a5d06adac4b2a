package memory

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestRobust(t *testing.T) {
	passtest.Robust(t, PlanAndUpdateBufferAllocationLocation, LowerOpaqueBlock, FlattenBuffer, StorageRewrite, HoistGlobalBufferAllocations, MergeSharedMemoryAllocations, LowerL2Persistent, LowerSharedBarrier)
}
