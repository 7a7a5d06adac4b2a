package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestBindTarget(t *testing.T) {
	passtest.Golden(t, BindTarget, "testdata/BindTarget/*.txtar")
}

func TestBindTargetReference(t *testing.T) {
	passtest.Reference(t, BindTarget)
}
