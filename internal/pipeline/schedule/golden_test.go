package schedule

import (
	"testing"

	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/passtest"
)

func TestPipelinePlanning(t *testing.T) {
	passtest.Golden(t, PipelinePlanning, "testdata/PipelinePlanning/*.txtar")
}

func TestInjectSoftwarePipeline(t *testing.T) {
	passtest.Golden(t, InjectSoftwarePipeline, "testdata/InjectSoftwarePipeline/*.txtar")
}

func TestPipeline(t *testing.T) {
	passtest.GoldenChain(t, []*pipeline.Pass{PipelinePlanning, InjectSoftwarePipeline}, "testdata/Pipeline/*.txtar")
}
