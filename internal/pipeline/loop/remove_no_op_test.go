package loop

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestRemoveNoOp(t *testing.T) {
	passtest.Golden(t, RemoveNoOp, "testdata/RemoveNoOp/*.txtar")
}

func TestRemoveNoOpReference(t *testing.T) {
	passtest.Reference(t, RemoveNoOp)
}
