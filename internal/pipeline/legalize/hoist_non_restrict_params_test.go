package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestHoistNonRestrictParams(t *testing.T) {
	passtest.Golden(t, HoistNonRestrictParams, "testdata/HoistNonRestrictParams/*.txtar")
}

func TestHoistNonRestrictParamsReference(t *testing.T) {
	passtest.Reference(t, HoistNonRestrictParams)
}
