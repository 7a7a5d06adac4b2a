package memory

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestLowerL2Persistent(t *testing.T) {
	passtest.Golden(t, LowerL2Persistent, "testdata/LowerL2Persistent/*.txtar")
}

func TestLowerL2PersistentReference(t *testing.T) {
	passtest.Reference(t, LowerL2Persistent)
}
