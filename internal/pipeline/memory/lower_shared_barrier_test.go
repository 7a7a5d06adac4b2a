package memory

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestLowerSharedBarrier(t *testing.T) {
	passtest.Golden(t, LowerSharedBarrier, "testdata/LowerSharedBarrier/*.txtar")
}

func TestLowerSharedBarrierReference(t *testing.T) {
	passtest.Reference(t, LowerSharedBarrier)
	passtest.ReferenceOn(t, "sm_90a", LowerSharedBarrier, nil)
}
