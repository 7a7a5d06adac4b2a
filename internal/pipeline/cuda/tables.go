package cuda

import (
	"slices"

	"lowertrace/internal/ir"
	"lowertrace/internal/pipeline"
	devpass "lowertrace/internal/pipeline/device"
	"lowertrace/internal/pipeline/expr"
	"lowertrace/internal/pipeline/legalize"
	"lowertrace/internal/pipeline/loop"
	"lowertrace/internal/pipeline/memory"
	"lowertrace/internal/pipeline/schedule"
	"lowertrace/internal/pipeline/tile"
)

// The phases of the older pipeline form, in order; together they are the
// table of the newer one.
var (
	lowerAndLegalize = []pipeline.Entry{
		{Pass: legalize.NestedLoopChecker, Phase: phaseUnscoped, Optional: true},
		{Pass: legalize.FragmentLoopChecker, Phase: phaseUnscoped, Optional: true},
		{Pass: legalize.TileOpChecker, Phase: phaseUnscoped, Optional: true},
		{Pass: legalize.BindTarget},
		{Pass: legalize.MaterializeKernelLaunch},
		{Pass: legalize.AddWrapperForSingleBufStore},
		{Pass: legalize.LegalizeNegativeIndex},
		{Pass: legalize.InjectAssumes, Optional: true},
		{Pass: expr.Simplify, Optional: true},
		{Pass: tile.CanonicalizeLegacyReducer},
		{Pass: tile.VerifyReducerEpoch},
		{Pass: legalize.VerifyBufferInit, Optional: true},
		{Pass: legalize.IfStmtBinding, Optional: true},
		{Pass: loop.UnrollLoop, Optional: true},
		{Pass: expr.Simplify, Optional: true},
		{Pass: schedule.PipelinePlanning, Optional: true},
		{Pass: schedule.InjectSoftwarePipeline},
		{Pass: expr.Simplify, Optional: true},
		{Pass: tile.LayoutInference},
		{Pass: tile.ReducerPlanAndMaterialize},
		{Pass: tile.LowerTileOp},
		{Pass: tile.VerifyReducerConsumed},
		{Pass: memory.LowerL2Persistent},
		{Pass: expr.DecoupleTypeCast, Optional: true},
		{Pass: legalize.LegalizeVectorizedLoop},
		{Pass: legalize.LegalizeSafeMemoryAccess},
		{Pass: legalize.LowerAccessPtr},
		{Pass: expr.Simplify, Optional: true},
		{Pass: legalize.HoistNonRestrictParams},
	}
	optimizeForTarget = []pipeline.Entry{
		{Pass: memory.PlanAndUpdateBufferAllocationLocation},
		{Pass: memory.LowerSharedBarrier},
		{Pass: memory.HoistGlobalBufferAllocations},
		{Pass: memory.LowerOpaqueBlock},
		{Pass: expr.Simplify, Optional: true},
		{Pass: expr.NarrowDataType, Optional: true},
		{Pass: memory.FlattenBuffer},
		{Pass: expr.ConfigIndexBitwidth},
		{Pass: expr.Simplify, Optional: true},
		{Pass: loop.VectorizeLoop},
		{Pass: memory.StorageRewrite, Optional: true},
		{Pass: loop.LoopUnswitching, Optional: true},
		{Pass: loop.UnrollLoop, Optional: true},
		{Pass: expr.RenormalizeSplitPattern, Optional: true},
		{Pass: expr.Simplify, Optional: true},
		{Pass: loop.RemoveNoOp, Optional: true},
		{Pass: loop.HoistIfThenElse, Optional: true},
		{Pass: expr.Simplify, Optional: true},
		{Pass: loop.RemoveNoOp, Optional: true},
		{Pass: legalize.VerifyMemory},
		{Pass: legalize.AnnotateEntryFunc},
		{Pass: devpass.LowerThreadAllreduce},
		{Pass: devpass.LowerHopperIntrin},
		{Pass: devpass.AnnotateDeviceRegions},
		{Pass: devpass.SplitHostDevice},
		{Pass: devpass.ConvertSSA, Optional: true},
		{Pass: devpass.MarkCudaSyncCalls},
		{Pass: devpass.AnnotateReadOnlyParams},
		{Pass: memory.MergeSharedMemoryAllocations},
		{Pass: devpass.ThreadSyncShared},
		{Pass: devpass.ThreadSyncDynamic},
		{Pass: loop.MergeIfStmt, Optional: true},
		{Pass: devpass.MakePackedAPI},
		{Pass: expr.Simplify, Optional: true},
		{Pass: devpass.LowerDeviceKernelLaunch},
		{Pass: devpass.PersistThreadblock},
		{Pass: devpass.FilterHost, Phase: phaseUnscoped, Aside: AsideHost},
		{Pass: devpass.FilterDevice, Phase: phaseUnscoped},
		{Pass: expr.LowerIntrin, Phase: phaseUnscoped},
		{Pass: expr.Simplify, Phase: phaseUnscoped, Optional: true},
		{Pass: expr.HoistBroadcastValues, Phase: phaseUnscoped, Optional: true},
	}
)

// phaseUnscoped is the phase of passes that TileLang runs outside its
// pipelines.
const phaseUnscoped = "unscoped"

// orders are constraints on the tables: within each table every occurrence of
// Before stands before every occurrence of After.
var orders = []struct {
	Before, After *pipeline.Pass
	Reason        string
}{
	{legalize.BindTarget, tile.LayoutInference, "layouts depend on what the target's instructions want"},
	{legalize.MaterializeKernelLaunch, tile.LayoutInference, "the thread range of a fragment is the launch's"},
	{schedule.PipelinePlanning, schedule.InjectSoftwarePipeline, "statements move as the plan says"},
	{schedule.InjectSoftwarePipeline, tile.LayoutInference, "the copies of a tile are laid out as one buffer"},
	{legalize.LegalizeNegativeIndex, tile.LowerTileOp, "an offset added to a negative index hides it"},
	{legalize.FragmentLoopChecker, tile.LayoutInference, "loops it refuses have no layout"},
	{legalize.VerifyBufferInit, tile.LowerTileOp, "what an operator reads and writes is plain before it is expanded"},
	{expr.DecoupleTypeCast, legalize.LegalizeVectorizedLoop, "casts taken out of a loop leave wider accesses"},
	{memory.LowerSharedBarrier, memory.LowerOpaqueBlock, "the arrivals a barrier expects stand on its block"},
	{loop.VectorizeLoop, loop.HoistIfThenElse, "lanes are decided within the loop"},
	{tile.LayoutInference, tile.LowerTileOp, "operators are expanded by the layouts found"},
	{tile.LowerTileOp, legalize.LegalizeSafeMemoryAccess, "bounds are checked on the accesses themselves"},
	{legalize.LegalizeSafeMemoryAccess, memory.FlattenBuffer, "a flat index no longer shows which dimension it leaves"},
	{memory.PlanAndUpdateBufferAllocationLocation, memory.LowerOpaqueBlock, "allocations move within blocks"},
	{memory.LowerOpaqueBlock, memory.FlattenBuffer, "a block's own allocations are flattened as statements"},
	{memory.FlattenBuffer, loop.VectorizeLoop, "contiguity is seen on the flat index"},
	{loop.VectorizeLoop, memory.StorageRewrite, "the width of an access decides what may share memory"},
	{devpass.AnnotateDeviceRegions, devpass.SplitHostDevice, "the regions are what is split off"},
	{devpass.SplitHostDevice, memory.MergeSharedMemoryAllocations, "shared memory is merged for each kernel"},
	{memory.MergeSharedMemoryAllocations, devpass.ThreadSyncShared, "buffers that share bytes need barriers between them"},
	{memory.StorageRewrite, devpass.ThreadSyncShared, "which buffers share memory decides who must wait for whom"},
	{devpass.ThreadSyncDynamic, loop.MergeIfStmt, "branches may be merged where no barrier stands between them"},
	{devpass.SplitHostDevice, devpass.ThreadSyncShared, "barriers are placed in kernels"},
	{devpass.SplitHostDevice, devpass.MakePackedAPI, "the host side alone gets the packed interface"},
	{devpass.MakePackedAPI, devpass.LowerDeviceKernelLaunch, "launches are calls of the host function by then"},
	{devpass.LowerDeviceKernelLaunch, devpass.FilterDevice, "the calling convention tells device functions apart"},
}

func init() {
	pipeline.Register(&pipeline.PassPipeline{
		Backend: "cuda", Table: slices.Concat(lowerAndLegalize, optimizeForTarget), Gen: Generate,
	})
	pipeline.Register(&pipeline.PhasePipeline{
		Title: "cuda-phased",
		Phases: []pipeline.Phase{
			{Name: "LowerAndLegalize", Table: lowerAndLegalize},
			{Name: "OptimizeForTarget", Table: optimizeForTarget},
		},
		Gen: Generate,
	})
}

// states tell how far a module is lowered, latest first: the pass whose result
// a module with this mark is.
var states = []struct {
	after *pipeline.Pass
	mark  func(*ir.IRModule) bool
	what  string
}{
	{devpass.LowerDeviceKernelLaunch, anyFunc(func(f *ir.PrimFunc) bool { return f.Attr("calling_conv") != nil && pipeline.IsDeviceFunc(f) }), "it has device functions that can be launched"},
	{devpass.MakePackedAPI, anyFunc(func(f *ir.PrimFunc) bool {
		n, _ := ir.AttrInt(f.Attr("calling_conv"))
		return n == pipeline.CallingConvCPackedFunc
	}), "it has a packed host function"},
	{devpass.SplitHostDevice, anyFunc(func(f *ir.PrimFunc) bool { return f.Private }), "it is split into host and device functions"},
	{devpass.LowerHopperIntrin, anyFunc(func(f *ir.PrimFunc) bool { return f.Attr("tma_descriptor_args") != nil }), "its kernels are ready to be split off"},
	{legalize.AnnotateEntryFunc, anyFunc(func(f *ir.PrimFunc) bool { return f.Attr("tirx.is_entry_func") != nil }), "its entry function is marked"},
	{memory.LowerOpaqueBlock, anyFunc(func(f *ir.PrimFunc) bool { return boundTarget(f) && !hasBlock(f) }), "it has no blocks any more"},
	{tile.LowerTileOp, anyFunc(func(f *ir.PrimFunc) bool { return f.Attr("tl.has_tma") != nil }), "its tile operators are lowered"},
	{tile.LayoutInference, anyFunc(hasLayouts), "its layouts are inferred"},
	{legalize.MaterializeKernelLaunch, anyFunc(func(f *ir.PrimFunc) bool { return boundTarget(f) && hasLaunch(f) }), "its launch is materialized"},
	{legalize.BindTarget, anyFunc(boundTarget), "its target is bound"},
}

func anyFunc(f func(*ir.PrimFunc) bool) func(*ir.IRModule) bool {
	return func(m *ir.IRModule) bool { return slices.ContainsFunc(m.Funcs, f) }
}

func boundTarget(f *ir.PrimFunc) bool { _, ok := f.Attr("target").(*ir.Target); return ok }

func anyStmt(f *ir.PrimFunc, is func(ir.Stmt) bool) bool {
	found := false
	ir.Walk(f.Body, func(s ir.Stmt) bool {
		found = found || is(s)
		return !found
	})
	return found
}

func hasBlock(f *ir.PrimFunc) bool {
	return anyStmt(f, func(s ir.Stmt) bool { _, ok := s.(*ir.SBlock); return ok })
}

func hasLaunch(f *ir.PrimFunc) bool {
	return anyStmt(f, func(s ir.Stmt) bool { a, ok := s.(*ir.AttrStmt); return ok && a.Key == ir.KeyThreadExtent })
}

func hasLayouts(f *ir.PrimFunc) bool {
	return hasLaunch(f) && anyStmt(f, func(s ir.Stmt) bool {
		b, ok := s.(*ir.SBlock)
		return ok && b.Name == "root" && b.Annotations.Get("layout_map") != nil
	})
}

// InferStart is the first row whose precondition a module of a later stage
// fits, and what shows it; "" for a module no pass has touched.
func InferStart(m *ir.IRModule, rows []pipeline.Row) (label, why string) {
	for _, s := range states {
		if !s.mark(m) {
			continue
		}
		for i := len(rows) - 2; i >= 0; i-- {
			if rows[i].Pass == s.after {
				return rows[i+1].Label, s.what
			}
		}
	}
	return "", ""
}

// AfterTileLowering reports whether a row stands behind LowerTileOp, so that
// the target is settled in the text.
func AfterTileLowering(label string, rows []pipeline.Row) bool {
	if label == "" {
		return false
	}
	at, err := pipeline.FindRow(rows, label)
	lower := slices.IndexFunc(rows, func(r pipeline.Row) bool { return r.Pass == tile.LowerTileOp })
	return err == nil && lower >= 0 && at > lower
}
