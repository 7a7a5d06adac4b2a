package schedule

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestRobust(t *testing.T) {
	passtest.Robust(t, PipelinePlanning, InjectSoftwarePipeline)
}
