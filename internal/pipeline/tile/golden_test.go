package tile

import (
	"testing"

	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/passtest"
)

func TestLayoutInference(t *testing.T) {
	passtest.Golden(t, LayoutInference, "testdata/LayoutInference/*.txtar")
}

// TestLowerTileOp runs LayoutInference first, so that its cases need no
// layouts in their text.
func TestLowerTileOp(t *testing.T) {
	passtest.GoldenChain(t, []*pipeline.Pass{LayoutInference, ReducerPlanAndMaterialize, LowerTileOp}, "testdata/LowerTileOp/*.txtar")
}

func TestCanonicalizeLegacyReducer(t *testing.T) {
	passtest.Golden(t, CanonicalizeLegacyReducer, "testdata/CanonicalizeLegacyReducer/*.txtar")
}

func TestVerifyReducerEpoch(t *testing.T) {
	passtest.Golden(t, VerifyReducerEpoch, "testdata/VerifyReducerEpoch/*.txtar")
}

func TestReducerPlanAndMaterialize(t *testing.T) {
	passtest.GoldenChain(t, []*pipeline.Pass{LayoutInference, ReducerPlanAndMaterialize}, "testdata/ReducerPlanAndMaterialize/*.txtar")
}

func TestVerifyReducerConsumed(t *testing.T) {
	passtest.Golden(t, VerifyReducerConsumed, "testdata/VerifyReducerConsumed/*.txtar")
}

func TestRobust(t *testing.T) {
	passtest.Robust(t, CanonicalizeLegacyReducer, VerifyReducerEpoch, LayoutInference, ReducerPlanAndMaterialize, LowerTileOp, VerifyReducerConsumed)
}
