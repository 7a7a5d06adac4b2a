package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestLegalizeSafeMemoryAccess(t *testing.T) {
	passtest.Golden(t, LegalizeSafeMemoryAccess, "testdata/LegalizeSafeMemoryAccess/*.txtar")
}

func TestLegalizeSafeMemoryAccessReference(t *testing.T) {
	passtest.Reference(t, LegalizeSafeMemoryAccess)
}
