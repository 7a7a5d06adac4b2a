package loop

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestLoopUnswitching(t *testing.T) {
	passtest.Golden(t, LoopUnswitching, "testdata/LoopUnswitching/*.txtar")
}

func TestLoopUnswitchingReference(t *testing.T) {
	passtest.Reference(t, LoopUnswitching)
}
