package loop

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestHoistIfThenElse(t *testing.T) {
	passtest.Golden(t, HoistIfThenElse, "testdata/HoistIfThenElse/*.txtar")
}

func TestHoistIfThenElseReference(t *testing.T) {
	passtest.Reference(t, HoistIfThenElse)
}
