package legalize

import (
	"testing"

	"lowertrace/internal/pipeline/passtest"
)

func TestRobust(t *testing.T) {
	passtest.Robust(t, BindTarget, MaterializeKernelLaunch, AddWrapperForSingleBufStore, LegalizeNegativeIndex, InjectAssumes, IfStmtBinding, LegalizeVectorizedLoop, LegalizeSafeMemoryAccess, LowerAccessPtr, HoistNonRestrictParams, AnnotateEntryFunc, VerifyMemory, NestedLoopChecker, FragmentLoopChecker, TileOpChecker, VerifyBufferInit)
}
