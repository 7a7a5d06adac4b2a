package passtest_test

import (
	"testing"

	"lowertrace/internal/pipeline"
	"lowertrace/internal/pipeline/expr"
	"lowertrace/internal/pipeline/legalize"
	"lowertrace/internal/pipeline/loop"
	"lowertrace/internal/pipeline/memory"
	"lowertrace/internal/pipeline/passtest"
)

// TestEachPass runs every pass that rewrites arithmetic or control flow by
// itself on random programs.
func TestEachPass(t *testing.T) {
	for _, p := range []*pipeline.Pass{
		legalize.IfStmtBinding, legalize.LegalizeVectorizedLoop, legalize.LegalizeSafeMemoryAccess, legalize.LegalizeNegativeIndex,
		expr.Simplify, expr.LetInline, expr.NarrowDataType, expr.RenormalizeSplitPattern, expr.DecoupleTypeCast, expr.LowerIntrin,
		loop.UnrollLoop, loop.LoopUnswitching, loop.HoistIfThenElse, loop.RemoveNoOp, loop.MergeIfStmt,
		memory.FlattenBuffer, memory.StorageRewrite,
	} {
		passtest.Random(t, 60, p)
	}
}

// TestChain runs the passes in the order of the pipeline.
func TestChain(t *testing.T) {
	passtest.RandomChain(t, 200,
		expr.Simplify, legalize.IfStmtBinding, loop.UnrollLoop, expr.DecoupleTypeCast, legalize.LegalizeVectorizedLoop,
		legalize.LegalizeSafeMemoryAccess, expr.Simplify, memory.LowerOpaqueBlock, expr.NarrowDataType, memory.FlattenBuffer,
		expr.Simplify, loop.VectorizeLoop, memory.StorageRewrite, loop.LoopUnswitching, expr.RenormalizeSplitPattern, expr.Simplify,
		loop.RemoveNoOp, loop.HoistIfThenElse, loop.MergeIfStmt, expr.LowerIntrin, expr.Simplify, expr.HoistBroadcastValues)
}

// TestChainUnsimplified is TestChain without the simplifications between.
func TestChainUnsimplified(t *testing.T) {
	passtest.RandomChain(t, 200,
		legalize.IfStmtBinding, loop.UnrollLoop, expr.DecoupleTypeCast, legalize.LegalizeVectorizedLoop, memory.LowerOpaqueBlock,
		memory.FlattenBuffer, loop.VectorizeLoop, memory.StorageRewrite, loop.LoopUnswitching, loop.RemoveNoOp, loop.MergeIfStmt,
		expr.LowerIntrin, expr.HoistBroadcastValues)
}
