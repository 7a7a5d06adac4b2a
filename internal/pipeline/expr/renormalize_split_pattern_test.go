package expr

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestRenormalizeSplitPattern(t *testing.T) {
	passtest.Golden(t, RenormalizeSplitPattern, "testdata/RenormalizeSplitPattern/*.txtar")
}

func TestRenormalizeSplitPatternReference(t *testing.T) {
	passtest.Reference(t, RenormalizeSplitPattern)
}
