package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestLegalizeNegativeIndex(t *testing.T) {
	passtest.Golden(t, LegalizeNegativeIndex, "testdata/LegalizeNegativeIndex/*.txtar")
}

func TestLegalizeNegativeIndexReference(t *testing.T) {
	passtest.Reference(t, LegalizeNegativeIndex)
}
