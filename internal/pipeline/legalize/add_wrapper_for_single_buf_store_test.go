package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestAddWrapperForSingleBufStore(t *testing.T) {
	passtest.Golden(t, AddWrapperForSingleBufStore, "testdata/AddWrapperForSingleBufStore/*.txtar")
}

func TestAddWrapperForSingleBufStoreReference(t *testing.T) {
	passtest.Reference(t, AddWrapperForSingleBufStore)
}
