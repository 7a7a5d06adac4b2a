package expr

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestDecoupleTypeCast(t *testing.T) {
	passtest.Golden(t, DecoupleTypeCast, "testdata/DecoupleTypeCast/*.txtar")
}

func TestDecoupleTypeCastReference(t *testing.T) {
	passtest.Reference(t, DecoupleTypeCast)
}
