package expr

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestConfigIndexBitwidth(t *testing.T) {
	passtest.Golden(t, ConfigIndexBitwidth, "testdata/ConfigIndexBitwidth/*.txtar")
}

func TestConfigIndexBitwidthReference(t *testing.T) {
	passtest.Reference(t, ConfigIndexBitwidth)
}
