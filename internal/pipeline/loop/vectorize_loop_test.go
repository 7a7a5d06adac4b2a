package loop

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestVectorizeLoop(t *testing.T) {
	passtest.Golden(t, VectorizeLoop, "testdata/VectorizeLoop/*.txtar")
}

func TestVectorizeLoopReference(t *testing.T) {
	passtest.Reference(t, VectorizeLoop)
}
