package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestIfStmtBinding(t *testing.T) {
	passtest.Golden(t, IfStmtBinding, "testdata/IfStmtBinding/*.txtar")
}

func TestIfStmtBindingReference(t *testing.T) {
	passtest.Reference(t, IfStmtBinding)
}
