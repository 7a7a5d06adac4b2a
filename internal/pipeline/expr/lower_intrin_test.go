package expr

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestLowerIntrin(t *testing.T) {
	passtest.Golden(t, LowerIntrin, "testdata/LowerIntrin/*.txtar")
}

func TestLowerIntrinReference(t *testing.T) {
	passtest.Reference(t, LowerIntrin)
}
