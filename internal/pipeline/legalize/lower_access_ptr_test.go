package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestLowerAccessPtr(t *testing.T) {
	passtest.Golden(t, LowerAccessPtr, "testdata/LowerAccessPtr/*.txtar")
}

func TestLowerAccessPtrReference(t *testing.T) {
	passtest.Reference(t, LowerAccessPtr)
}
