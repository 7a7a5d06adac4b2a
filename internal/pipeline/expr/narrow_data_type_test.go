package expr

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestNarrowDataType(t *testing.T) {
	passtest.Golden(t, NarrowDataType, "testdata/NarrowDataType/*.txtar")
}

func TestNarrowDataTypeReference(t *testing.T) {
	passtest.Reference(t, NarrowDataType)
}
