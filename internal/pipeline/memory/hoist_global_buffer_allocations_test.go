package memory

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestHoistGlobalBufferAllocations(t *testing.T) {
	passtest.Golden(t, HoistGlobalBufferAllocations, "testdata/HoistGlobalBufferAllocations/*.txtar")
}

func TestHoistGlobalBufferAllocationsReference(t *testing.T) {
	passtest.Reference(t, HoistGlobalBufferAllocations)
}
