package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestVerifyMemory(t *testing.T) {
	passtest.Golden(t, VerifyMemory, "testdata/VerifyMemory/*.txtar")
}

func TestVerifyMemoryReference(t *testing.T) {
	passtest.Reference(t, VerifyMemory)
}
