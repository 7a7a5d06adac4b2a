package memory

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestFlattenBuffer(t *testing.T) {
	passtest.Golden(t, FlattenBuffer, "testdata/FlattenBuffer/*.txtar")
}

func TestFlattenBufferReference(t *testing.T) {
	passtest.Reference(t, FlattenBuffer)
}
