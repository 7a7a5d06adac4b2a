package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestLegalizeVectorizedLoop(t *testing.T) {
	passtest.Golden(t, LegalizeVectorizedLoop, "testdata/LegalizeVectorizedLoop/*.txtar")
}

func TestLegalizeVectorizedLoopReference(t *testing.T) {
	passtest.Reference(t, LegalizeVectorizedLoop)
}
