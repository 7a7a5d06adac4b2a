package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestInjectAssumes(t *testing.T) {
	passtest.Golden(t, InjectAssumes, "testdata/InjectAssumes/*.txtar")
}

func TestInjectAssumesReference(t *testing.T) {
	passtest.Reference(t, InjectAssumes)
}
