package memory

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestMergeSharedMemoryAllocations(t *testing.T) {
	passtest.Golden(t, MergeSharedMemoryAllocations, "testdata/MergeSharedMemoryAllocations/*.txtar")
}

func TestMergeSharedMemoryAllocationsReference(t *testing.T) {
	passtest.Reference(t, MergeSharedMemoryAllocations)
}
