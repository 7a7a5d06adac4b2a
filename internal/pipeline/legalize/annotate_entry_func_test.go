package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestAnnotateEntryFunc(t *testing.T) {
	passtest.Golden(t, AnnotateEntryFunc, "testdata/AnnotateEntryFunc/*.txtar")
}

func TestAnnotateEntryFuncReference(t *testing.T) {
	passtest.Reference(t, AnnotateEntryFunc)
}
