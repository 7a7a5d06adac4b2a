package loop

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestRobust(t *testing.T) {
	passtest.Robust(t, VectorizeLoop, UnrollLoop, LoopUnswitching, HoistIfThenElse, RemoveNoOp, MergeIfStmt)
}
