package expr

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestHoistBroadcastValues(t *testing.T) {
	passtest.Golden(t, HoistBroadcastValues, "testdata/HoistBroadcastValues/*.txtar")
}

func TestHoistBroadcastValuesReference(t *testing.T) {
	passtest.Reference(t, HoistBroadcastValues, "pass_fn#4")
}
