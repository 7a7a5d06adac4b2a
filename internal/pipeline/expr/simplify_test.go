package expr

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestSimplify(t *testing.T) {
	passtest.Golden(t, Simplify, "testdata/Simplify/*.txtar")
}

func TestSimplifyReference(t *testing.T) {
	passtest.Reference(t, Simplify)
}
