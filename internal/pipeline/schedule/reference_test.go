package schedule

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestPipelinePlanningReference(t *testing.T) {
	passtest.Reference(t, PipelinePlanning)
}
