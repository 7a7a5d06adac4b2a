package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestMaterializeKernelLaunch(t *testing.T) {
	passtest.Golden(t, MaterializeKernelLaunch, "testdata/MaterializeKernelLaunch/*.txtar")
}

func TestMaterializeKernelLaunchReference(t *testing.T) {
	passtest.Reference(t, MaterializeKernelLaunch)
}
