package loop

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestUnrollLoop(t *testing.T) {
	passtest.Golden(t, UnrollLoop, "testdata/UnrollLoop/*.txtar")
}

func TestUnrollLoopReference(t *testing.T) {
	passtest.Reference(t, UnrollLoop)
}
